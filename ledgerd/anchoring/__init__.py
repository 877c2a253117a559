"""Anchoring: the log's checkpoints, brought to RFC 3161 timestamp authorities."""
