"""gRPC: thin handlers, and the only place of the daemon that knows protobuf."""
