"""Record what an agent did, prove it, verify it offline.

`receiptledger.core` holds the rules (pure functions); the client, the command line and the daemon are
shells around them.
"""

__version__ = "0.1.0"
