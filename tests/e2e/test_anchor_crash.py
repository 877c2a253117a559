"""kill -9 between a timestamp request's intent and its result, with a real daemon and a real TSA."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import TYPE_CHECKING

import pytest

from ledgerd.devtsa.server import DevTsa
from ledgerd.store.fsck import GuardState, check
from ledgerd.store.rocks import RocksStore
from receiptledger.client import submit_receipts
from receiptledger.core.timestamp_request import parse_request
from receiptledger.wire import Ack
from tests.helpers.agents import Agent
from tests.helpers.daemon_process import RunningDaemon
from tests.helpers.polling import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.store.interface import AnchorIntent, AnchorRecord
    from receiptledger.core.note import VerifierKey

pytestmark = [pytest.mark.timeout(180)]

LOST = 'ledger_anchor_attempts_total{result="lost",tsa="dev"}'
RAWS = Agent().receipts(3)
SETTINGS = {
    "seal_interval_ms": 20,
    "anchor_max_leaves": 1,  # every receipt makes the TSA due
    "anchor_min_spacing_seconds": 1,
    "verify_processes": 0,
}


def submit(address: str, raws: list[bytes]) -> None:
    """Send receipts; all are sealed."""

    async def sending() -> None:
        async for result in submit_receipts(address, raws, ack=Ack.SEALED):
            assert result.answer.reason is None, result.answer

    asyncio.run(sending())


def configuration(folder: Path, tsa: DevTsa) -> Path:
    """A file with that one TSA."""
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in tsa.settings.items())
    path = folder / "ledgerd.toml"
    path.write_text(f"[[tsa]]\n{values}timeout_seconds = 60\n", "utf-8")
    return path


def metric(daemon: RunningDaemon, series: str) -> float:
    with urllib.request.urlopen(f"{daemon.http}/metrics") as page:
        lines = page.read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith(series + " ")]
    return float(line.rpartition(" ")[2])


def stored(data: Path, verifier: VerifierKey) -> tuple[list[AnchorIntent], list[AnchorRecord]]:
    """What is on the disk of a daemon that is gone; all of it holds together."""
    store = RocksStore.open(data / "db", create=False)
    try:
        report = check(store, verifier, guard=(data / "guard").read_bytes())
        assert report.problems == []
        assert report.guard in (GuardState.EQUAL, GuardState.BEHIND)
        return store.intents(), list(store.anchors())
    finally:
        store.close()


def test_a_request_that_a_kill_cut_off_is_counted_lost_and_repeated(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with DevTsa(tmp_path / "tsa", name="dev") as tsa:
        arguments = ("--config", str(configuration(tmp_path, tsa)))
        tsa.mode = "slow-headers"
        with RunningDaemon(data, *arguments, **SETTINGS) as daemon:
            daemon.wait_ready()
            submit(daemon.grpc, RAWS[:2])
            wait_for(lambda: bool(tsa.seen), "a request has left")
            daemon.kill()
            assert daemon.wait() == -9
            verifier = daemon.log_key
        (first,) = tsa.seen
        intents, anchors = stored(data, verifier)
        assert [(item.tsa, item.size) for item in intents] == [("dev", 2)]
        assert intents[0].nonce == parse_request(first.body).nonce, "stored before it was sent"
        assert anchors == []

        tsa.mode = "ok"
        with RunningDaemon(data, *arguments, **SETTINGS) as daemon:
            daemon.wait_ready()
            assert len(daemon.events("a timestamp request was lost in a crash")) == 1
            wait_for(lambda: bool(daemon.events("anchored")), "the repeated request is stored")
            assert metric(daemon, LOST) == 1
            submit(daemon.grpc, RAWS[2:])
            wait_for(lambda: len(daemon.events("anchored")) == 2, "the next one is too")
            daemon.terminate()
            assert daemon.wait() == 0, daemon.stderr
        intents, anchors = stored(data, verifier)
        assert intents == []
        assert [record.tsa for record in anchors] == ["dev", "dev"]
        nonces = [parse_request(request.body).nonce for request in tsa.seen]
        assert len(set(nonces)) == len(nonces) == 3
        assert parse_request(anchors[0].request).nonce == nonces[1], "a new nonce, not the lost one"
