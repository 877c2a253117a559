"""`python -m ledgerd` is the same as `ledgerd`."""

from ledgerd.cli import main

main()
