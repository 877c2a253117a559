"""The server's life: health, reflection, counted calls, draining."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ledgerd.store.rocks import RocksStore
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.v1 import ingest_pb2, proof_pb2
from tests.helpers.agents import Agent
from tests.helpers.daemons import log_key, open_daemon
from tests.helpers.peer import failure, open_peer, outcomes, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.peer import Peer

A = Agent()
RA = A.receipts(8)
SERVICES = [
    "receiptledger.v1.AnchorService",
    "receiptledger.v1.IngestService",
    "receiptledger.v1.ProofService",
]
NEVER = 60_000  # milliseconds between seals: none of its own in a test
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health(it: Peer) -> Any:
    return health_pb2_grpc.HealthStub(it.channel)


# Health and reflection


def test_health_of_the_server_and_of_each_service(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            for name in ("", *SERVICES):
                answer = await health(it).Check(health_pb2.HealthCheckRequest(service=name))
                assert answer.status == SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await health(it).Check(health_pb2.HealthCheckRequest(service="other"))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    run(work())


async def listed(it: Peer) -> list[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(it.channel)
    call: Any = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    answer = await call.read()
    await call.done_writing()
    return sorted(service.name for service in answer.list_services_response.service)


def test_reflection_lists_the_services(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            assert await listed(it) == [
                "grpc.health.v1.Health",
                "grpc.reflection.v1alpha.ServerReflection",
                *SERVICES,
            ]

    run(work())


def test_reflection_can_be_off(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, reflection=False) as daemon, open_peer(daemon) as it:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await listed(it)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    run(work())


async def raw_call(it: Peer, method: str, request: bytes) -> object:
    call: Any = it.channel.unary_unary(method)
    return await call(request)


@pytest.mark.parametrize(
    "method",
    [
        "/receiptledger.v1.IngestService/Nothing",
        "/other.Service/Call",
        "/nothing",
        "/a/b/c",
    ],
)
def test_methods_nobody_has(tmp_path: Path, method: str) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await raw_call(it, method, b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

    run(work())


def test_bytes_that_are_no_message(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            method = "/receiptledger.v1.ProofService/GetReceipt"
            with pytest.raises(grpc.aio.AioRpcError, match="Error parsing message"):
                await raw_call(it, method, b"\xff\xff\xff")
            stream = it.append()
            assert outcomes(await it.send(stream, RA[:1])) == [("accepted", 0)]

    run(work())


# Calls as metrics show them


def test_calls_are_counted_by_method_and_code(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, max_watchers=1) as daemon, open_peer(daemon) as it:
            await it.seal(RA[:2])
            await it.proofs.GetCheckpoint(proof_pb2.GetCheckpointRequest())
            await failure(it.proofs.GetReceipt(proof_pb2.GetReceiptRequest()))
            await failure(it.proofs.GetReceipt(proof_pb2.GetReceiptRequest(receipt_hash=bytes(32))))
            await failure(it.ingest.GetChainHead(ingest_pb2.GetChainHeadRequest()))
            watch: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            await watch.read()
            second: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            await failure(second.read())

            def handled(service: str, method: str) -> dict[str, float]:
                labels = {"grpc_service": f"receiptledger.v1.{service}", "grpc_method": method}
                value = daemon.metrics.value
                return {
                    code.name: count
                    for code in grpc.StatusCode
                    if (
                        count := value(
                            "grpc_server_handled_total", labels | {"grpc_code": code.name}
                        )
                    )
                }

            assert handled("IngestService", "Append") == {"OK": 1}
            assert handled("ProofService", "GetCheckpoint") == {"OK": 1}
            assert handled("ProofService", "GetReceipt") == {"INVALID_ARGUMENT": 1, "NOT_FOUND": 1}
            assert handled("IngestService", "GetChainHead") == {"INVALID_ARGUMENT": 1}
            assert handled("ProofService", "WatchCheckpoints") == {"RESOURCE_EXHAUSTED": 1}
            started = daemon.metrics.value(
                "grpc_server_started_total",
                {"grpc_service": SERVICES[2], "grpc_method": "WatchCheckpoints"},
            )
            assert started == 2

    run(work())


# Draining


def test_an_open_stream_is_told_and_may_finish(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            watching = health(it).Watch(health_pb2.HealthCheckRequest())
            assert (await watching.read()).status == SERVING
            stream, idle = it.append(), it.append()
            await it.send(stream, RA[:2])
            await it.send(idle, [])
            stopping = asyncio.create_task(daemon.stop())
            assert (await watching.read()).status == NOT_SERVING
            watching.cancel()
            for one in (stream, idle):
                notice = await one.read()
                assert notice.draining
                assert (list(notice.answers), notice.batch_id) == ([], 0)
                await one.done_writing()
                assert await one.read() is grpc.aio.EOF
                assert await one.code() is grpc.StatusCode.OK
            await stopping

    run(work())


def test_a_batch_that_was_read_is_answered_and_sealed_before_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            stream = it.append()
            came, go_on = asyncio.Event(), asyncio.Event()
            real = daemon._ingest.verify

            async def slow(batch: Any) -> Any:
                came.set()
                await go_on.wait()
                return await real(batch)

            daemon._ingest.verify = slow  # type: ignore[method-assign]
            await stream.write(ingest_pb2.AppendRequest(batch_id=5, receipts=RA[:3]))
            await came.wait()
            stopping = asyncio.create_task(daemon.stop())
            await daemon._ingest.draining.wait()
            go_on.set()
            response = await stream.read()
            assert (response.batch_id, response.draining) == (5, False)
            assert outcomes(response) == [("accepted", n) for n in range(3)]
            assert (await stream.read()).draining
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF
            await stopping
        store = RocksStore.open(tmp_path / "data" / "db", create=False)
        try:
            state = store.log_state()
            assert state is not None
            assert state.sealed_number == 3
            assert open_checkpoint(state.note, log_key(tmp_path)).size == 2
            assert list(store.marks()) == []
        finally:
            store.close()

    run(work())


def test_a_watcher_is_told_that_the_daemon_drains(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            watch: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            await watch.read()
            stopping = asyncio.create_task(daemon.stop())
            told = await failure(watch.read())
            assert told.code is grpc.StatusCode.UNAVAILABLE
            assert (told.reason, told.domain) == ("DRAINING", "receiptledger")
            assert told.retry_seconds == 1.0
            await stopping

    run(work())


def test_a_stream_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            daemon._ingest.draining.set()
            told = await failure(it.append().read())
            assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
            assert told.retry_seconds == 1.0
            assert daemon.metrics.value("ledger_streams_active") == 0

    run(work())


def test_a_sender_that_ignores_the_notice_is_cut_after_a_while(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, drain_seconds=0.2) as daemon, open_peer(daemon) as it:
            stream = it.append()
            await it.send(stream, RA[:1])
            await daemon.stop()
            assert (await stream.read()).draining

    run(work())


def test_everything_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await it.send(it.append(), RA[:4])
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            assert daemon.metrics.value("ledger_tree_size") == 2
            stream = it.append()
            again = await it.send(stream, RA[:6])
            words = [word for word, _ in outcomes(again)]
            assert words == ["duplicate"] * 4 + ["accepted"] * 2

    run(work())
