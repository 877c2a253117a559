"""The `receiptledger` command."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point; ends the process with the command's exit code."""
    from receiptledger.cli.app import app

    app()
