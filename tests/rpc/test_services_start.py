"""Starts that are refused, and what a running daemon does when it meets a contradiction."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from grpc_health.v1 import health_pb2

from ledgerd.daemon import Daemon, StartError
from ledgerd.sequencer import RecoveryError
from ledgerd.store.interface import StoreError
from ledgerd.writer import SealJob
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.v1 import proof_pb2, types_pb2
from tests.helpers.agents import Agent
from tests.helpers.daemons import log_key, open_daemon, settings_for
from tests.helpers.peer import open_peer, run

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.store.interface import Changes

A = Agent()
RA = A.receipts(8)
SERVICES = ["receiptledger.v1.IngestService", "receiptledger.v1.ProofService"]
NEVER = 60_000  # milliseconds between seals: none of its own in a test
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def start_error(tmp_path: Path, **changes: object) -> str:
    async def work() -> None:
        daemon = Daemon(settings_for(tmp_path, **changes))
        with pytest.raises(StartError) as caught:
            await daemon.start()
        said.append(str(caught.value))

    said: list[str] = []
    run(work())
    return said[0]


def once(tmp_path: Path, **changes: object) -> None:
    """A first life of the daemon: a few sealed receipts."""

    async def work() -> None:
        async with open_daemon(tmp_path, **changes) as daemon, open_peer(daemon) as it:
            await it.seal(RA[:3])

    run(work())


def test_two_daemons_do_not_share_a_folder(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path):
            with pytest.raises(StartError, match="in use by another ledgerd"):
                await Daemon(settings_for(tmp_path)).start()

    run(work())


@pytest.mark.parametrize("setting", ["listen", "http_listen"])
def test_an_address_in_use_says_so_and_leaves_the_folder_free(tmp_path: Path, setting: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {address}" in start_error(tmp_path, **{setting: address})
    once(tmp_path)


def test_a_lost_key_a_lost_guard_and_a_stale_database_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    once(tmp_path)
    key, guard = (data / "log.key").read_bytes(), (data / "guard").read_bytes()

    (data / "log.key").unlink()
    assert "log.key is missing" in start_error(tmp_path)
    (data / "log.key").write_bytes(key)
    assert "open to others" in start_error(tmp_path)
    (data / "log.key").chmod(0o600)
    assert "the setting origin says" in start_error(tmp_path, origin="example.com/other")

    (data / "guard").unlink()
    assert "guard file is missing" in start_error(tmp_path)
    (data / "guard").write_bytes(b"x")
    assert "not a checkpoint of this log" in start_error(tmp_path)
    (data / "guard").write_bytes(guard)

    (data / "db").rename(data / "db.old")
    assert "database is empty, but the guard says 2" in start_error(tmp_path)
    (data / "db.old").rename(data / "db.newest")
    for file in (data / "db").iterdir():
        file.unlink()
    (data / "db").rmdir()
    (data / "db.newest").rename(data / "db")
    once(tmp_path)


def test_a_missing_guard_may_be_made_once(tmp_path: Path) -> None:
    once(tmp_path)
    (tmp_path / "data" / "guard").unlink()

    async def work() -> None:
        daemon = Daemon(settings_for(tmp_path))
        await daemon.start(create_guard=True)
        await daemon.stop()

    run(work())
    once(tmp_path)


def test_the_guard_may_be_elsewhere(tmp_path: Path) -> None:
    guard = tmp_path / "elsewhere"
    once(tmp_path, guard_path=guard)
    assert guard.exists()
    assert not (tmp_path / "data" / "guard").exists()
    assert "guard file is missing" in start_error(tmp_path)


# Fatal


def test_a_contradiction_stops_the_daemon(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, seal_interval_ms=NEVER, drain_seconds=0.2) as daemon,
            open_peer(daemon) as it,
        ):
            await it.send(it.append(), RA[:1])

            def broken() -> None:
                raise RecoveryError("the log contradicts itself")

            daemon._sequencer.step = broken  # type: ignore[method-assign]
            daemon._writer.submit(SealJob(lambda result: None))
            error = await daemon.failed
            assert isinstance(error, RecoveryError)
            assert daemon._readiness()["ready"] is False

    run(work())


def test_seals_go_on_by_themselves(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=10) as daemon, open_peer(daemon) as it:
            watch: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            await watch.read()
            await it.send(it.append(), RA[:1])
            note = (await watch.read()).checkpoint
            assert open_checkpoint(note, log_key(tmp_path)).size == 2

    run(work())


def test_a_failed_seal_is_tried_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=10) as daemon, open_peer(daemon) as it:
            real = daemon._store.commit
            failures: list[Changes] = []

            def sometimes(changes: Changes) -> None:
                if changes.sealed is not None and len(failures) < 3:
                    failures.append(changes)
                    raise StoreError("not now")
                real(changes)

            daemon._store.commit = sometimes  # type: ignore[method-assign]
            watch: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            await watch.read()
            answer = await it.send(it.append(), RA[:1])
            assert answer.answers[0].outcome == types_pb2.OUTCOME_ACCEPTED
            note = (await watch.read()).checkpoint
            assert open_checkpoint(note, log_key(tmp_path)).size == 2
            assert len(failures) == 3
            assert daemon.metrics.value("ledger_store_errors_total") == 3

    run(work())
