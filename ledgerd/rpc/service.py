"""The two services: thin handlers around ingest and reader."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import grpc

from ledgerd.reader import readable
from ledgerd.rpc import convert
from ledgerd.rpc.reads import Reads, aborting
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.v1 import ingest_pb2, ingest_pb2_grpc, proof_pb2, proof_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from ledgerd.board import Board
    from ledgerd.ingest import Batch, BatchAnswer, Ingest
    from ledgerd.metrics import Metrics
    from ledgerd.reader import Reader

__all__ = ["IngestHandlers", "ProofHandlers"]

LINGER_SECONDS: Final = 1.0  # for a sender to half-close when it is told that the daemon drains


class IngestHandlers(ingest_pb2_grpc.IngestServiceServicer):
    """IngestService."""

    def __init__(
        self, ingest: Ingest, reader: Reader, pool: Executor, metrics: Metrics, *, max_streams: int
    ) -> None:
        self._ingest = ingest
        self._reader = reader
        self._pool = pool
        self._metrics = metrics
        self._max_streams = max_streams
        self._streams = 0

    async def Append(self, request_iterator: object, context: grpc.aio.ServicerContext) -> None:  # type: ignore[override, type-arg]  # noqa: N802
        """See proto. Reads and writes through the context, so that both can go on at once."""
        del request_iterator
        async with aborting(context):
            self._enter()
            requests = _Requests(context)
            try:
                drained = await self._ingest.serve(requests.read, partial(self._write, context))
                if drained:
                    await context.write(ingest_pb2.AppendResponse(draining=True))
                    await requests.drop_rest()
            finally:
                requests.close()
                self._streams -= 1
                self._metrics.streams_active.set(self._streams)

    def _enter(self) -> None:
        if self._ingest.draining.is_set():
            raise ServiceError(Reason.DRAINING, "the daemon is shutting down; reconnect later")
        if self._streams >= self._max_streams:
            raise ServiceError(
                Reason.OVERLOADED, "too many open streams", want=f"at most {self._max_streams}"
            )
        self._streams += 1
        self._metrics.streams_active.set(self._streams)

    async def _write(self, context: grpc.aio.ServicerContext, batch: BatchAnswer) -> None:  # type: ignore[type-arg]
        if batch.state is None:
            response = convert.answer_out(batch, _no_index)
        else:
            work = partial(convert.answer_out, batch, self._reader.leaf_index)
            loop = asyncio.get_running_loop()
            response = await loop.run_in_executor(self._pool, readable, work)
        await context.write(response)

    async def GetChainHead(  # noqa: N802
        self,
        request: ingest_pb2.GetChainHeadRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> ingest_pb2.GetChainHeadResponse:
        """See proto."""
        async with aborting(context):
            chain = convert.chain_in(request.chain)
            loop = asyncio.get_running_loop()
            work = partial(self._reader.head, chain)
            head = await loop.run_in_executor(self._pool, readable, work)
            # A client takes this head for acknowledged and resends nothing below it.
            await self._ingest.barrier()
        return ingest_pb2.GetChainHeadResponse(head=convert.head_out(head))


class ProofHandlers(proof_pb2_grpc.ProofServiceServicer):
    """ProofService."""

    def __init__(
        self,
        reader: Reader,
        board: Board,
        pool: Executor,
        metrics: Metrics,
        *,
        barrier: Callable[[], Awaitable[None]],
        draining: asyncio.Event,
        max_watchers: int,
    ) -> None:
        self._reader = reader
        self._board = board
        self._reads = Reads(pool, metrics)
        self._barrier = barrier
        self._draining = draining
        self._max_watchers = max_watchers
        self._watchers = 0

    async def GetReceipt(  # noqa: N802
        self,
        request: proof_pb2.GetReceiptRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> proof_pb2.GetReceiptResponse:
        """See proto."""

        def work() -> proof_pb2.GetReceiptResponse:
            chain, position = convert.selector_in(request, self._reader.locate)
            return convert.place_out(self._reader.place(chain, position))

        response = await self._reads.run(context, "receipt", work)
        if not response.HasField("leaf_index"):  # what is sealed is durable
            async with aborting(context):
                await self._barrier()
        return response

    async def GetProof(  # noqa: N802
        self,
        request: proof_pb2.GetProofRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> proof_pb2.GetProofResponse:
        """See proto."""

        def work() -> proof_pb2.GetProofResponse:
            chain, position = convert.selector_in(request, self._reader.locate)
            return convert.bundle_out(
                self._reader.prove(
                    chain, position, size=request.tree_size, since=request.since_size
                )
            )

        return await self._reads.run(context, "proof", work)

    async def GetConsistencyProof(  # noqa: N802
        self,
        request: proof_pb2.GetConsistencyProofRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> proof_pb2.GetConsistencyProofResponse:
        """See proto."""

        def work() -> proof_pb2.GetConsistencyProofResponse:
            proof, size = self._reader.consistency(request.first_size, request.second_size)
            return proof_pb2.GetConsistencyProofResponse(proof=proof, second_size=size)

        return await self._reads.run(context, "consistency", work)

    async def GetCheckpoint(  # noqa: N802
        self,
        request: proof_pb2.GetCheckpointRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> proof_pb2.GetCheckpointResponse:
        """See proto."""

        def work() -> proof_pb2.GetCheckpointResponse:
            return proof_pb2.GetCheckpointResponse(
                checkpoint=self._reader.checkpoint(request.tree_size)
            )

        return await self._reads.run(context, "checkpoint", work)

    async def WatchCheckpoints(  # type: ignore[override]  # noqa: N802
        self,
        request: proof_pb2.WatchCheckpointsRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> None:
        """See proto. Ends by itself when the daemon drains."""
        del request
        async with aborting(context):
            if self._watchers >= self._max_watchers:
                raise ServiceError(
                    Reason.OVERLOADED, "too many watchers", want=f"at most {self._max_watchers}"
                )
            self._watchers += 1
            try:
                await self._watch(context)
            finally:
                self._watchers -= 1
            raise ServiceError(Reason.DRAINING, "the daemon is shutting down; reconnect later")

    async def _watch(self, context: grpc.aio.ServicerContext) -> None:  # type: ignore[type-arg]
        async def follow() -> None:
            async for state in self._board.watch():
                await context.write(proof_pb2.WatchCheckpointsResponse(checkpoint=state.note))

        following = asyncio.ensure_future(follow())
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({following, draining}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            following.cancel()
            draining.cancel()


class _Requests:
    """The batches of one stream. gRPC has one read at a time, so one that is cancelled goes on."""

    def __init__(self, context: grpc.aio.ServicerContext) -> None:  # type: ignore[type-arg]
        self._context = context
        self._reading: asyncio.Future[object] | None = None

    async def read(self) -> Batch | None:
        """The next batch; None at the end of the stream."""
        request = await self._next()
        return convert.batch_in(request) if isinstance(request, ingest_pb2.AppendRequest) else None

    async def drop_rest(self) -> None:
        """Wait until the sender, told that the daemon drains, half-closes; what it sends is dropped.

        Ending the stream first would fail the write a sender is in, and with it the answers it has
        not read yet.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while await self._next() is not grpc.aio.EOF:
                    pass

    def close(self) -> None:
        """Give up a read that goes on."""
        if self._reading is not None:
            self._reading.cancel()

    async def _next(self) -> object:
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._context.read())
        request = await asyncio.shield(self._reading)
        self._reading = None
        return request


def _no_index(chain: bytes, position: int) -> None:
    """A batch answered before its seal has no leaf yet."""
    del chain, position
