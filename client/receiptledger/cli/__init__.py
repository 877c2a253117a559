"""The `receiptledger` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point; ends the process with the command's exit code."""
    from receiptledger.cli.agent import AGENT_COMMANDS

    # An agent may start one process for each action: it does not load what only auditors use.
    if sys.argv[1:2] and sys.argv[1] in {command.__name__ for command in AGENT_COMMANDS}:
        from receiptledger.cli.frame import new_app

        app = new_app(AGENT_COMMANDS)
    else:
        from receiptledger.cli.app import app
    app()
