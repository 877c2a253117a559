"""The `ledgerd` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point; says what to install when the daemon's extra is missing."""
    try:
        from ledgerd.commands import app
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in ("ledgerd", "receiptledger"):
            raise
        sys.stderr.write(
            f"ledgerd needs the package {error.name}, which the client alone does not install: "
            "pip install 'receiptledger[daemon]'\n"
        )
        sys.exit(2)  # cannot start: a supervisor should not try again
    app()
