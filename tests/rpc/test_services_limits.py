"""What bounds a sender and what it is told when the daemon cannot: window, streams, store, heads."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import grpc
import pytest

from ledgerd.rpc.service import IngestHandlers
from ledgerd.store.interface import StoreError
from receiptledger.v1 import ingest_pb2, types_pb2
from tests.helpers.agents import Agent, FarleyAgent, link
from tests.helpers.daemons import open_daemon
from tests.helpers.peer import failure, open_peer, outcomes, run

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    from ledgerd.ingest import Batch, BatchAnswer
    from ledgerd.store.interface import Changes
    from ledgerd.verification import Refused, Verified

A, B, FARLEY = Agent("agent-1", 1), Agent("agent-2", 2), FarleyAgent("issuer-1", 3)
RA, RB = A.receipts(10), B.receipts(3)
SEALED = ingest_pb2.ACK_LEVEL_SEALED
T = TypeVar("T")
# A client that takes little before it reads; by itself gRPC takes megabytes of answers.
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
NEVER = 60_000  # milliseconds between seals: none of its own in a test


def chain(name: str, stream: str = "") -> types_pb2.Chain:
    return types_pb2.Chain(agent=name, stream=stream)


def test_a_sender_that_never_reads_is_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most max_batches_in_flight of its batches are in the daemon, however many it sends."""
    window, count = 3, 60
    junk = [
        b"{" + bytes(900)
    ] * 200  # refused at once, with answers long enough to fill the way back
    real = IngestHandlers._write

    async def work() -> None:
        watch = Watch(window)

        async def write(self: IngestHandlers, context: object, batch: BatchAnswer) -> None:
            with watch.writing():
                await real(self, context, batch)  # type: ignore[arg-type]

        monkeypatch.setattr(IngestHandlers, "_write", write)
        async with (
            open_daemon(tmp_path, max_batches_in_flight=window) as daemon,
            open_peer(daemon, NARROW) as it,
        ):
            verify = daemon._ingest.verify
            monkeypatch.setattr(
                daemon._ingest, "verify", lambda batch: watch.verifying(verify(batch))
            )
            stream = it.append()
            sent = 0

            async def sender() -> None:
                nonlocal sent
                for number in range(count):
                    await stream.write(ingest_pb2.AppendRequest(batch_id=number, receipts=junk))
                    sent += 1
                await stream.done_writing()

            sending = asyncio.create_task(sender())
            await watch.wait_until_stuck()
            assert watch.open == watch.most == window
            assert sent <= watch.written + window + 3  # and what is on its way
            for number in range(count):
                response = await stream.read()
                assert response.batch_id == number
                assert len(response.answers) == len(junk)
            assert await stream.read() is grpc.aio.EOF
            await sending
            assert (watch.open, watch.most) == (0, window)

    run(work())


class Watch:
    """Counts the batches of a stream that are in the daemon."""

    def __init__(self, window: int) -> None:
        self.open = self.most = self.written = 0
        self.stuck = asyncio.Event()  # the window is full and an answer is not taken
        self._window = window
        self._writing = False

    async def verifying(self, work: Coroutine[object, object, T]) -> T:
        self.open += 1
        self.most = max(self.most, self.open)
        self._look()
        return await work

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._writing = True
        self._look()
        yield
        self._writing = False
        self.open -= 1
        self.written += 1
        self.stuck.clear()

    async def wait_until_stuck(self) -> None:
        """Until nothing moves any more, however often the loop turns."""
        before = -1
        while before != self.written or not self.stuck.is_set():
            await asyncio.wait_for(self.stuck.wait(), 30)
            before = self.written
            for _ in range(500):
                await asyncio.sleep(0)

    def _look(self) -> None:
        if self._writing and self.open == self._window:
            self.stuck.set()


# Limits and failures


def test_too_many_streams(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, max_streams=2) as daemon, open_peer(daemon) as it:
            streams = [it.append() for _ in range(2)]
            for stream, raws in zip(streams, (RA, RB), strict=True):
                await it.send(stream, raws[:1])
            assert daemon.metrics.value("ledger_streams_active") == 2
            third = it.append()
            told = await failure(third.read())
            assert told.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (told.reason, told.domain) == ("OVERLOADED", "receiptledger")
            assert told.metadata == {"want": "at most 2"}
            assert told.retry_seconds == 1.0
            await streams[0].done_writing()
            assert await streams[0].read() is grpc.aio.EOF
            assert outcomes(await it.send(it.append(), RA[1:2])) == [("accepted", 1)]
            assert outcomes(await it.send(streams[1], RB[1:2])) == [("accepted", 1)]

    run(work())


def test_a_store_that_cannot_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon,
            open_peer(daemon) as it,
        ):
            stream = it.append()
            await it.send(stream, RA[:2])
            store = daemon._store

            def failing(changes: Changes) -> None:
                raise StoreError("no space left")

            with monkeypatch.context() as patch:
                patch.setattr(store, "commit", failing)
                await stream.write(ingest_pb2.AppendRequest(receipts=RA[2:4]))
                told = await failure(stream.read())
                assert told.code is grpc.StatusCode.UNAVAILABLE
                assert (told.reason, told.domain) == ("UNAVAILABLE", "receiptledger")
                assert told.retry_seconds == 1.0
                assert "Ask for the chain head" in told.message
                assert "no space" not in told.message
                head = await failure(
                    it.ingest.GetChainHead(ingest_pb2.GetChainHeadRequest(chain=chain("agent-1")))
                )
                assert (head.code, head.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
            answer = await it.ingest.GetChainHead(
                ingest_pb2.GetChainHeadRequest(chain=chain("agent-1"))
            )
            assert answer.head.position == 1
            assert outcomes(await it.send(it.append(), RA[1:4])) == [
                ("duplicate", 1),
                ("accepted", 2),
                ("accepted", 3),
            ]
            assert daemon.metrics.value("ledger_store_errors_total") == 2
            assert daemon.metrics.value("ledger_streams_active") == 1

    run(work())


def test_a_cancelled_call_cancels_no_commit(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            came = asyncio.Event()
            verify = daemon._ingest.verify

            async def seen(batch: Batch) -> list[Verified | Refused]:
                items = await verify(batch)
                came.set()
                return items

            daemon._ingest.verify = seen  # type: ignore[method-assign]
            stream = it.append()
            await stream.write(ingest_pb2.AppendRequest(receipts=RA[:3]))
            await asyncio.wait_for(came.wait(), 30)
            stream.cancel()
            again = await it.send(it.append(), RA[:3])
            assert {word for word, _ in outcomes(again)} <= {"accepted", "duplicate"}
            assert [position for _, position in outcomes(again)] == [0, 1, 2]

    run(work())


# Heads


def test_the_head_of_a_chain(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            farley = FARLEY.receipts(2)
            await it.send(it.append(), [*RA[:3], *farley], key_hints=[FARLEY.public_key])

            async def head(name: str) -> types_pb2.ChainHead:
                request = ingest_pb2.GetChainHeadRequest(chain=chain(name))
                return (await it.ingest.GetChainHead(request)).head

            numbered = await head("agent-1")
            assert numbered == types_pb2.ChainHead(
                exists=True, position=2, link_hash=link(RA[2]), sequence=2
            )
            bare = await head("issuer-1")
            assert (bare.position, bare.link_hash) == (1, link(farley[1]))
            assert not bare.HasField("sequence")
            assert await head("nobody") == types_pb2.ChainHead(exists=False)

    run(work())


@pytest.mark.parametrize(
    ("named", "want", "got"),
    [
        (chain(""), "1..256 bytes", "0 bytes"),
        (chain("x" * 257), "1..256 bytes", "257 bytes"),
        (chain("\N{SNOWMAN}" * 86), "1..256 bytes", "258 bytes"),
        (chain("a", "s" * 257), "0..256 bytes", "257 bytes"),
    ],
    ids=["empty", "long", "long in UTF-8", "long stream"],
)
def test_names_no_chain_can_have(
    tmp_path: Path, named: types_pb2.Chain, want: str, got: str
) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            told = await failure(
                it.ingest.GetChainHead(ingest_pb2.GetChainHeadRequest(chain=named))
            )
            assert told.code is grpc.StatusCode.INVALID_ARGUMENT
            assert (told.reason, told.retry_seconds) == ("INVALID_ARGUMENT", None)
            assert told.metadata == {"want": want, "got": got}

    run(work())
