"""`receiptledger record` when nobody acknowledges: the cause is told, and the receipt is not lost."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from typer.testing import CliRunner

import receiptledger.client
from receiptledger.cli.app import app
from receiptledger.core.errors import Reason
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings, verify_signature
from receiptledger.signer import load_signer
from receiptledger.wire import CallError
from tests.helpers.fake_link import FakeLink, Fault

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from typer.testing import Result

    from receiptledger.core.chain import Head
    from receiptledger.wire import Stream

OVERDUE = "no receipts are taken while the log's anchors are overdue"


class Channel:
    """To a ledger that tells the chain's head and refuses every stream, by its operator's choice."""

    def __init__(self, address: str, *, timeout_s: float) -> None:
        del address, timeout_s
        refused = Fault(cut_after=0, lose=True)
        refused.error = CallError(Reason.UNANCHORED, OVERDUE, retry_after=0.02)
        self._link = FakeLink(None, *[refused] * 1_000)

    async def head(self, agent: str, stream: str = "") -> Head | None:
        """A new chain."""
        del agent, stream
        return await self._link.head()

    def append(self, **options: object) -> Stream:
        """A stream that breaks at its first batch."""
        del options
        return self._link.open()

    async def close(self) -> None:
        """Nothing is open."""


def record(folder: Path, monkeypatch: pytest.MonkeyPatch, ledger: str) -> Result:
    """The command, with a short patience."""
    patient = partial(receiptledger.client.AsyncAgent, close_s=0.3)
    monkeypatch.setattr(receiptledger.client, "AsyncAgent", patient)
    key = folder / "agent.key"
    assert CliRunner().invoke(app, ["keygen", "-o", str(key)]).exit_code == 0
    command = ["record", "--agent", "bot", "--key-file", str(key), "--ledger", ledger]
    return CliRunner().invoke(app, [*command, "--tool", "pay", "--policy", "p1"])


def test_the_receipt_is_printed_and_the_cause_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is printed is whole: it can be submitted later."""
    monkeypatch.setattr(receiptledger.client, "Channel", Channel)
    done = record(tmp_path, monkeypatch, "127.0.0.1:1")
    assert done.exit_code == 2, done.output
    line, complaint = done.stderr.rstrip("\n").split("\n")
    receipt = next(readings(line.encode(), Profiles.builtin()))
    verify_signature(receipt, load_signer(tmp_path / "agent.key").public_key)
    assert "unanchored: 1 receipts were not acknowledged" in complaint
    assert OVERDUE in complaint
    assert "receiptledger submit FILE" in complaint


def test_nothing_is_signed_for_a_chain_whose_head_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ledger = f"127.0.0.1:{taken.getsockname()[1]}"
    done = record(tmp_path, monkeypatch, ledger)
    assert done.exit_code == 2, done.output
    (complaint,) = done.stderr.rstrip("\n").split("\n")
    assert ledger in complaint
