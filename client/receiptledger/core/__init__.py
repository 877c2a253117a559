"""The rules of the ledger: pure functions over bytes. No files, sockets, clocks or randomness."""
