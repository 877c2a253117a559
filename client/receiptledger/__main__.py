"""`python -m receiptledger`: the command."""

from receiptledger.cli import main

main()
