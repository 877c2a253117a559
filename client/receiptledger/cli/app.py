"""The whole command line: what agents do, and what auditors do."""

from __future__ import annotations

from receiptledger.cli.agent import AGENT_COMMANDS
from receiptledger.cli.anchors import anchors_app
from receiptledger.cli.audit import inspect, prove, watch
from receiptledger.cli.conformance import conformance
from receiptledger.cli.frame import new_app
from receiptledger.cli.receipt import receipt
from receiptledger.cli.timestamp import timestamp
from receiptledger.cli.verify import verify

__all__ = ["app"]

app = new_app((*AGENT_COMMANDS, prove, verify, inspect, watch, conformance))
app.add_typer(timestamp, name="timestamp")
app.add_typer(receipt, name="receipt")
app.add_typer(anchors_app)
