"""A gRPC server that serves proofs of a MiniLedger, honestly or as a test wants it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from ledgerd.rpc import convert
from ledgerd.rpc.status import to_status
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.receipt import chain_key
from receiptledger.v1 import (
    anchor_pb2,
    anchor_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    proof_pb2,
    proof_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.helpers.ledger_kit import MiniLedger

__all__ = ["FakeAnchors", "FakeIngest", "FakeProofs", "serving"]


class FakeProofs(proof_pb2_grpc.ProofServiceServicer):
    """Serves `ledger`, which may be exchanged at any time; `spoil` changes each proof on its way.

    Attributes:
        published: notes for `WatchCheckpoints`; each stream sends one item and waits for the next,
            None ends the stream in good order, an error ends it with that error.
        fail: raised by every call, when set.
        asked: names of the calls.
    """

    def __init__(self, ledger: MiniLedger) -> None:
        self.ledger = ledger
        self.spoil: Callable[[proof_pb2.GetProofResponse], None] = lambda response: None
        self.published: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.fail: ServiceError | None = None
        self.receipt = proof_pb2.GetReceiptResponse()
        self.asked: list[str] = []

    async def _enter(self, name: str, context: grpc.aio.ServicerContext) -> None:
        self.asked.append(name)
        if self.fail is not None:
            await context.abort_with_status(to_status(self.fail))

    async def GetReceipt(self, request, context):
        await self._enter("GetReceipt", context)
        return self.receipt

    async def GetProof(self, request, context):
        await self._enter("GetProof", context)
        if request.WhichOneof("selector") == "receipt_hash":
            chain, position = self.ledger.place(request.receipt_hash)
        else:
            at = request.at
            chain, position = chain_key(at.chain.agent, at.chain.stream), at.position
        bundle = self.ledger.bundle(
            chain, position, size=request.tree_size, since=request.since_size
        )
        response = convert.bundle_out(bundle)
        self.spoil(response)
        return response

    async def GetConsistencyProof(self, request, context):
        await self._enter("GetConsistencyProof", context)
        if not 0 < request.first_size <= request.second_size <= self.ledger.size:
            error = ServiceError(Reason.INVALID_ARGUMENT, "not published", got="too large")
            await context.abort_with_status(to_status(error))
        proof = self.ledger.consistency(request.first_size, request.second_size)
        return proof_pb2.GetConsistencyProofResponse(proof=proof, second_size=request.second_size)

    async def GetCheckpoint(self, request, context):
        await self._enter("GetCheckpoint", context)
        return proof_pb2.GetCheckpointResponse(checkpoint=self.ledger.note(request.tree_size))

    async def WatchCheckpoints(self, request, context):
        await self._enter("WatchCheckpoints", context)
        while (item := await self.published.get()) is not None:
            if isinstance(item, ServiceError):
                await context.abort_with_status(to_status(item))
            yield proof_pb2.WatchCheckpointsResponse(checkpoint=item)


class FakeAnchors(anchor_pb2_grpc.AnchorServiceServicer):
    """Serves what a test sets.

    Attributes:
        pages: answers to `ListAnchors`, by the first number asked for.
        anchor: the answer to every `GetAnchor`.
        round: the answer to `AnchorNow`.
        fail: raised by every call, when set.
    """

    def __init__(self) -> None:
        self.pages: dict[int, anchor_pb2.ListAnchorsResponse] = {}
        self.anchor = anchor_pb2.GetAnchorResponse()
        self.round = anchor_pb2.AnchorNowResponse()
        self.fail: ServiceError | None = None

    async def _enter(self, context: grpc.aio.ServicerContext) -> None:
        if self.fail is not None:
            await context.abort_with_status(to_status(self.fail))

    async def ListAnchors(self, request, context):
        await self._enter(context)
        return self.pages[request.first]

    async def GetAnchor(self, request, context):
        await self._enter(context)
        return self.anchor

    async def AnchorNow(self, request, context):
        await self._enter(context)
        return self.round


class FakeIngest(ingest_pb2_grpc.IngestServiceServicer):
    """Answers whatever a test sets."""

    def __init__(self) -> None:
        self.head = ingest_pb2.GetChainHeadResponse()
        self.abort: Callable[[grpc.aio.ServicerContext], object] | None = None
        self.responses: list[ingest_pb2.AppendResponse] = []

    async def GetChainHead(self, request, context):
        if self.abort is not None:
            await self.abort(context)
        return self.head

    async def Append(self, request_iterator, context):
        async for request in request_iterator:
            if self.abort is not None:
                await self.abort(context)
            response = self.responses.pop(0)
            response.batch_id = request.batch_id
            yield response


@asynccontextmanager
async def serving(
    proofs: FakeProofs | None = None,
    ingest: FakeIngest | None = None,
    anchors: FakeAnchors | None = None,
) -> AsyncIterator[str]:
    """Serve on a free port; gives the address."""
    server = grpc.aio.server()
    if proofs is not None:
        proof_pb2_grpc.add_ProofServiceServicer_to_server(proofs, server)
    if ingest is not None:
        ingest_pb2_grpc.add_IngestServiceServicer_to_server(ingest, server)
    if anchors is not None:
        anchor_pb2_grpc.add_AnchorServiceServicer_to_server(anchors, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
