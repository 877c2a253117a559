"""A bare gRPC client for tests of the daemon: stubs, streams, and errors taken apart."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import duration_pb2  # noqa: F401 - RetryInfo needs it in the pool
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from receiptledger.core.bundle import (
    AnchoredCheckpoint,
    AnchorEvidence,
    AnchorStamp,
    Bundle,
    Consistency,
    LeafProof,
    Member,
)
from receiptledger.v1 import (
    anchor_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    proof_pb2,
    proof_pb2_grpc,
    types_pb2,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence

    from ledgerd.daemon import Daemon

__all__ = ["PATIENCE", "Failure", "Peer", "failure", "open_peer", "outcomes", "run", "to_bundle"]

PATIENCE = 60.0  # seconds until a test gives up; far beyond what a loaded machine needs


def run(work: Coroutine[object, object, None]) -> None:
    """Run a test on an event loop of its own, for a bounded time."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await work

    asyncio.run(bounded())


class Peer:
    """One channel to a daemon."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.ingest = ingest_pb2_grpc.IngestServiceStub(channel)
        self.proofs = proof_pb2_grpc.ProofServiceStub(channel)
        self.anchors = anchor_pb2_grpc.AnchorServiceStub(channel)
        self._batch = 0

    def append(self) -> Any:
        """An open Append stream."""
        return self.ingest.Append()

    async def send(
        self, stream: Any, raws: Sequence[bytes], **given: Any
    ) -> ingest_pb2.AppendResponse:
        """One batch and its answer."""
        self._batch += 1
        await stream.write(ingest_pb2.AppendRequest(batch_id=self._batch, receipts=raws, **given))
        response: ingest_pb2.AppendResponse = await stream.read()
        assert isinstance(response, ingest_pb2.AppendResponse), response
        assert response.batch_id == self._batch
        return response

    async def seal(self, raws: Sequence[bytes], **given: Any) -> ingest_pb2.AppendResponse:
        """Append receipts on a stream of their own and wait until they are sealed."""
        stream = self.append()
        response = await self.send(stream, raws, ack_level=ingest_pb2.ACK_LEVEL_SEALED, **given)
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        return response


@asynccontextmanager
async def open_peer(daemon: Daemon, options: Sequence[tuple[str, int]] = ()) -> AsyncIterator[Peer]:
    """A channel, closed at the end."""
    channel = grpc.aio.insecure_channel(daemon.grpc_address, options=list(options))
    try:
        yield Peer(channel)
    finally:
        await channel.close()


@dataclass(frozen=True)
class Failure:
    """A failed call, taken apart."""

    code: grpc.StatusCode
    message: str
    reason: str
    domain: str
    metadata: dict[str, str]
    retry_seconds: float | None


async def failure(call: Awaitable[object]) -> Failure:
    """Await a call that must fail with rich details."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = caught.value
    status = rpc_status.from_call(error)
    assert status is not None, f"no details: {error.code()} {error.details()}"
    assert status.message == error.details()
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    found = {detail.type_url.rpartition(".")[2]: detail for detail in status.details}
    assert found["ErrorInfo"].Unpack(info)
    seconds = None
    if "RetryInfo" in found:
        assert found["RetryInfo"].Unpack(retry)
        seconds = retry.retry_delay.ToMilliseconds() / 1_000
    assert set(found) <= {"ErrorInfo", "RetryInfo"}
    return Failure(
        error.code(), status.message, info.reason, info.domain, dict(info.metadata), seconds
    )


def outcomes(response: ingest_pb2.AppendResponse) -> list[tuple[str, int]]:
    """What each answer says in short: outcome, or the reason when rejected; and the position."""
    said = []
    for answer in response.answers:
        if answer.outcome == types_pb2.OUTCOME_REJECTED:
            word = types_pb2.Reason.Name(answer.reason).removeprefix("REASON_").lower()
        else:
            word = types_pb2.Outcome.Name(answer.outcome).removeprefix("OUTCOME_").lower()
        said.append((word, answer.position))
    return said


def to_bundle(response: proof_pb2.GetProofResponse, since: int = 0) -> Bundle:
    """The bundle an answer makes."""

    def member(part: proof_pb2.SegmentReceipt) -> Member:
        return Member(part.receipt, tuple(part.proof))

    def leaf(part: proof_pb2.LogLeaf) -> LeafProof:
        return LeafProof(part.leaf, part.index, tuple(part.proof))

    def stamp(part: proof_pb2.AnchorStamp) -> AnchorStamp:
        evidence = part.evidence
        return AnchorStamp(
            part.request,
            part.response,
            leaf(part.leaf),
            AnchorEvidence(leaf(evidence.leaf), tuple(evidence.crls), tuple(evidence.ocsps))
            if part.HasField("evidence")
            else None,
        )

    return Bundle(
        position=response.position,
        receipt=member(response.receipt),
        previous=member(response.previous) if response.HasField("previous") else None,
        head=leaf(response.head),
        key=leaf(response.key),
        checkpoint=response.checkpoint,
        consistency=Consistency(since, tuple(response.consistency)) if since else None,
        anchors=tuple(
            AnchoredCheckpoint(
                part.note, tuple(part.consistency), tuple(stamp(one) for one in part.stamps)
            )
            for part in response.anchors
        ),
    )
