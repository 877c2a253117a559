"""Talking to RFC 3161 timestamp authorities: settings, HTTP, a second opinion, revocation evidence."""
