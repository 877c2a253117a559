"""ledgerd: the append-only receipt ledger daemon. Code map: ARCHITECTURE.md."""
