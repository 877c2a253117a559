"""Logs say what happened and never what was in a receipt."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from ledgerd.logs import configure_logs
from ledgerd.store.memory import Fault
from receiptledger.core.canonical import canonicalize
from tests.helpers.agents import Agent, FarleyAgent, link
from tests.helpers.sync_ledger import SyncLedger

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = "canary-in-a-receipt"


@pytest.fixture(autouse=True)
def default_logs() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_json_lines_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    structlog.get_logger("x").info("ready", tree_size=3)
    (line,) = lines(capsys)
    assert line.pop("timestamp")
    assert line == {"event": "ready", "level": "info", "tree_size": 3}


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(level: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level, "json")
    log = structlog.get_logger("x")
    for method in ("debug", "info", "warning", "error"):
        getattr(log, method)("event")
    assert [line["level"] for line in lines(capsys)] == shown


def test_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "console")
    structlog.get_logger("x").info("ready", tree_size=3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "ready" in captured.err
    assert "tree_size=3" in captured.err
    assert "\x1b" not in captured.err  # no colours where nobody sees them


def test_times_are_utc(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    structlog.get_logger("x").info("event")
    (line,) = lines(capsys)
    assert str(line["timestamp"]).endswith("Z")


@pytest.mark.parametrize("form", ["json", "console"])
def test_nothing_of_a_receipt_is_ever_logged(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Accepted, refused for every reason, and lost by a failing store: at the most talkative level."""
    configure_logs("debug", form)
    ledger = SyncLedger(seal_max_leaves=1)
    agent, farley = Agent(CANARY, 1), FarleyAgent(f"{CANARY}-issuer", 2)
    forger = Agent(CANARY, 3)
    secret: dict[str, Any] = {"tool_name": CANARY, f"{CANARY}-member": CANARY}
    raws = agent.receipts(4, **secret)
    refused = [
        agent.receipt(1, link(raws[0]), fork=CANARY, **secret),
        agent.receipt(9, link(raws[0]), **secret),
        agent.receipt(2, link(b"elsewhere"), **secret),
        agent.receipt(7, link(b"elsewhere"), **secret),
        forger.receipt(2, link(raws[1]), **secret),
        canonicalize(json.loads(raws[1]) | {"tool_name": CANARY * 2}),
        canonicalize(json.loads(raws[1]) | {"sequence": CANARY}),
        canonicalize({CANARY: CANARY}),
        farley.receipts(1, note=CANARY)[0],
        CANARY.encode(),
        b'{"a":"' + CANARY.encode() + b"\xff",
        (b'{"a":"' + CANARY.encode() * 10_000 + b'"}'),
    ]
    answers = ledger.append([*raws[:2], *refused])
    assert sum(answer.reason is None for answer in answers) == 2
    assert len({answer.reason for answer in answers}) >= 9
    for fault in (Fault.LOST, Fault.DONE, Fault.UNSYNCED):
        ledger.store.fail_next(fault)
        ledger.send(raws[2:], refused)
        ledger.seal()
    text = "".join(capsys.readouterr())
    assert "outcome unknown" in text
    assert "canary" not in text
    signatures = [json.loads(raw)["signature"]["sig"] for raw in raws]
    assert not any(signature in text for signature in signatures)


def test_libraries_log_in_our_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of stderr is one event; what any client can provoke is none."""
    configure_logs("info", "json")
    logging.getLogger("asyncio").error("task %s failed", 7)
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert (event["logger"], event["message"], event["level"]) == (
        "asyncio",
        "task 7 failed",
        "error",
    )
