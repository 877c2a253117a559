"""A whole daemon that anchors itself at real TSAs over HTTP, good ones and bad ones."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from ledgerd.config import TsaSettings
from ledgerd.daemon import StartError
from ledgerd.devtsa.server import DevTsa
from ledgerd.store.fsck import check
from ledgerd.store.rocks import RocksStore
from receiptledger.v1 import anchor_pb2, anchor_pb2_grpc, ingest_pb2, ingest_pb2_grpc
from tests.helpers.agents import Agent
from tests.helpers.daemons import log_key, open_daemon, settings_for
from tests.helpers.polling import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from ledgerd.daemon import Daemon

AGENT = Agent()
RAWS = AGENT.receipts(8)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await scenario

    asyncio.run(bounded())


def configured(*tsas: DevTsa, **changes: Any) -> tuple[TsaSettings, ...]:
    return tuple(TsaSettings(**(tsa.settings | changes)) for tsa in tsas)


async def append(daemon: Daemon, *raws: bytes) -> list[ingest_pb2.AppendResponse]:
    """One batch, sealed."""
    async with grpc.aio.insecure_channel(daemon.grpc_address) as channel:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        request = ingest_pb2.AppendRequest(
            batch_id=1, receipts=raws, ack_level=ingest_pb2.ACK_LEVEL_SEALED
        )
        return [response async for response in stub.Append(iter([request]))]


async def anchor_now(daemon: Daemon) -> dict[str, str]:
    """TSA -> "stored" or the cause."""
    async with grpc.aio.insecure_channel(daemon.grpc_address) as channel:
        stub = anchor_pb2_grpc.AnchorServiceStub(channel)
        answer = await stub.AnchorNow(anchor_pb2.AnchorNowRequest())
        return {item.tsa: item.cause or "stored" for item in answer.results}


async def readyz(daemon: Daemon) -> tuple[int, dict[str, Any]]:
    def ask() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://{daemon.http_address}/readyz") as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    return await asyncio.to_thread(ask)


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, condition, "what the test waits for")


def value(daemon: Daemon, name: str, **labels: str) -> float:
    found = daemon.metrics.value(f"ledger_anchor_{name}", labels)
    assert found is not None, name
    return found


def test_two_authorities_stamp_and_evidence_follows(tmp_path: Path) -> None:
    async def scenario(one: DevTsa, two: DevTsa) -> None:
        async with open_daemon(tmp_path, tsa=configured(one, two), anchor_quorum=2) as daemon:
            await append(daemon, *RAWS[:3])
            code, before = await readyz(daemon)
            assert (code, before["anchored_size"], before["unanchored_leaves"]) == (200, 0, 2)
            assert await anchor_now(daemon) == {"one": "stored", "two": "stored"}
            code, after = await readyz(daemon)
            assert (code, after["anchored_size"], after["unanchored_leaves"]) == (200, 2, 0)
            assert after["anchor_lag_seconds"] == 0
            assert after["anchors_overdue"] is False
            assert value(daemon, "quorum_tokens") == 2
            assert daemon._anchorer is not None
            # Lists are dated in whole seconds, tokens more finely: the next second has a newer list.
            stamped = max(r.gen_time for r in daemon._store.anchors()) / 1e6
            await until(lambda: time.time() >= int(stamped) + 1)
            later = time.time() + 25 * 3_600
            assert await daemon._anchorer.step_evidence(later) == 2
            assert value(daemon, "revocation_evidence_missing") == 0
            await daemon._ingest.seal()
            records = list(daemon._store.anchors())
            assert [r.leaf_index for r in records] == [2, 3]
            assert None not in [r.evidence_leaf_index for r in records]
        store = RocksStore.open(settings_for(tmp_path).database)
        try:
            report = check(store, log_key(tmp_path))
            assert report.problems == []
            assert report.checked["anchors"] == 2
        finally:
            store.close()

    with (
        DevTsa(tmp_path / "one", name="one") as one,
        DevTsa(tmp_path / "two", name="two", key="rsa3072") as two,
    ):
        run(scenario(one, two))


def test_each_way_to_fail_has_its_cause_and_hurts_nobody_else(tmp_path: Path) -> None:
    modes = {
        "ok": "stored",
        "404": "http_4xx",
        "429": "rate_limited",
        "503": "http_5xx",
        "redirect": "redirect",
        "html": "media_type",
        "empty": "empty_body",
        "truncated": "der",
        "huge": "too_large",
        "slow-headers": "timeout",
        "moved": "chain",  # the operator of that TSA began a new hierarchy
    }

    async def scenario(tsas: dict[str, DevTsa]) -> None:
        settings = configured(*tsas.values(), timeout_seconds=2)
        async with open_daemon(tmp_path, tsa=settings) as daemon:
            tsas["moved"].rotate_root()
            await append(daemon, *RAWS[:2])
            causes = await anchor_now(daemon)
            assert causes == {f"tsa-{mode}": cause for mode, cause in modes.items()}
            assert [r.tsa for r in daemon._store.anchors()] == ["tsa-ok"]
            assert daemon._store.intents() == []
            for mode in modes:
                assert value(daemon, "breaker_state", tsa=f"tsa-{mode}") == 0, "asked by hand"

    with ExitStack() as stack:
        tsas = {}
        for mode in modes:
            tsa = DevTsa(tmp_path / f"tsa-{mode}", name=f"tsa-{mode}")
            tsa.mode = "ok" if mode == "moved" else mode
            tsas[mode] = stack.enter_context(tsa)
        run(scenario(tsas))


def test_a_tsa_that_hangs_delays_no_ack_and_no_other_tsa(tmp_path: Path) -> None:
    async def scenario(hung: DevTsa, good: DevTsa) -> None:
        settings = configured(hung, good, timeout_seconds=30)
        changes = {"anchor_max_leaves": 1, "anchor_min_spacing_seconds": 1}
        async with open_daemon(tmp_path, tsa=settings, **changes) as daemon:
            await append(daemon, RAWS[0])
            anchors = daemon._store.anchors
            await until(lambda: bool(hung.seen) and bool(list(anchors())))
            started = time.monotonic()
            for raw in RAWS[1:5]:
                await append(daemon, raw)
            assert time.monotonic() - started < 5, "four sealed acks, while a request hangs"
            await until(lambda: len(list(anchors())) == 2)
            assert {r.tsa for r in daemon._store.anchors()} == {"good"}
            assert len(hung.seen) == 1
            assert [intent.tsa for intent in daemon._store.intents()] == ["hung"]

    with DevTsa(tmp_path / "h", name="hung") as hung, DevTsa(tmp_path / "g", name="good") as good:
        hung.mode = "slow-headers"
        run(scenario(hung, good))


def test_appends_are_refused_while_overdue_and_everything_else_goes_on(tmp_path: Path) -> None:
    async def scenario(tsa: DevTsa) -> None:
        settings = configured(tsa)
        changes: dict[str, Any] = {"anchor_interval_seconds": 10, "max_unanchored_seconds": 60}
        async with open_daemon(
            tmp_path, tsa=settings, unanchored_policy="refuse", **changes
        ) as daemon:
            await append(daemon, *RAWS[:2])
            assert (await readyz(daemon))[0] == 200
            tsa.mode = "503"
            clock = daemon._clock
            daemon._clock = lambda: clock() + 100  # what the ticker and the pages go by
            code, details = await readyz(daemon)
            assert code == 503
            assert details["anchors_overdue"] is True
            assert details["ready"] is False
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await append(daemon, RAWS[2])
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "unanchored_policy" in (caught.value.details() or "")
            rejected = daemon.metrics.value
            assert rejected("ledger_receipts_rejected_total", {"reason": "unanchored"}) == 1
            assert rejected("ledger_receipts_total", {"result": "rejected"}) == 1
            async with grpc.aio.insecure_channel(daemon.grpc_address) as channel:
                stub = ingest_pb2_grpc.IngestServiceStub(channel)
                chain = ingest_pb2.GetChainHeadRequest()
                chain.chain.agent = AGENT.name
                head = (await stub.GetChainHead(chain)).head
                assert head.position == 1
            tsa.mode = "ok"
            daemon._clock = clock
            assert await anchor_now(daemon) == {"tsa": "stored"}
            await append(daemon, RAWS[2])
            assert (await readyz(daemon))[0] == 200

    with DevTsa(tmp_path / "tsa", name="tsa") as tsa:
        run(scenario(tsa))


def test_a_stop_does_not_wait_for_a_tsa_that_hangs_nor_count_it_as_lost(tmp_path: Path) -> None:
    """Also while a client waits for it: the whole drain time would be for nothing."""

    async def scenario(tsa: DevTsa) -> None:
        changes = {"tsa": configured(tsa, timeout_seconds=60), "drain_seconds": 60}
        async with open_daemon(tmp_path, **changes) as daemon:
            await append(daemon, *RAWS[:2])
            asking = asyncio.create_task(anchor_now(daemon))
            await until(lambda: bool(tsa.seen))
            started = time.monotonic()
            await daemon.stop()
            assert time.monotonic() - started < 20
            assert await asking == {"tsa": "not_asked"}
        store = RocksStore.open(settings_for(tmp_path).database)
        intents = store.intents()
        store.close()
        assert intents == []

    with DevTsa(tmp_path / "tsa", name="tsa") as tsa:
        tsa.mode = "slow-headers"
        run(scenario(tsa))


def test_a_daemon_whose_root_file_is_gone_does_not_start(tmp_path: Path) -> None:
    missing = TsaSettings(name="one", url="https://tsa.example/", roots=(tmp_path / "no.pem",))

    async def scenario() -> None:
        with pytest.raises(StartError, match=r"\[\[tsa\]\] one: .*no\.pem"):
            async with open_daemon(tmp_path, tsa=(missing,)):
                pass

    run(scenario())


def test_a_daemon_without_authorities_says_nothing_about_anchors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_daemon(tmp_path) as daemon:
            _, details = await readyz(daemon)
            assert not [name for name in details if "anchor" in name]
            assert value(daemon, "interval_seconds") == 0
            assert value(daemon, "quorum") == 0

    run(scenario())
