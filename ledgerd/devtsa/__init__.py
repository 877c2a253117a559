"""A timestamp authority for development and tests. Not for production: anybody here can read its keys."""
