"""gRPC: the only place of the client that knows it, or protobuf.

A :class:`Channel` makes calls with plain types and raises :class:`CallError` for every failure. It
connects at its first use and belongs to the process and event loop of that moment. A fork is another
matter: see `receiptledger.forking`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from receiptledger import __version__
from receiptledger.address import parse_address
from receiptledger.core.bundle import Bundle, Consistency, LeafProof, Member
from receiptledger.core.chain import Head
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.merkle import MAX_SIZE
from receiptledger.forking import broke_grpc, register
from receiptledger.v1 import (
    ingest_pb2,
    ingest_pb2_grpc,
    proof_pb2,
    proof_pb2_grpc,
    types_pb2,
)
from receiptledger.wire import Ack, Answer, BatchAnswer, CallError, StoredReceipt

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence

    from receiptledger.wire import Selector, Stream

__all__ = ["Channel"]

DOMAIN: Final = "receiptledger"
MAX_RETRY_SECONDS: Final = 60.0  # what a daemon may ask us to wait
_OPTIONS: Final = (
    # Pings find a dead peer under an idle stream. The daemon allows one every 10 seconds.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Proofs carry two receipts of at most 1 MiB each; answers are small.
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    # Retries are ours: a stream resumes from the chain head, which gRPC cannot know.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Without these, http_proxy would carry receipts off, and channels would share sockets.
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", f"receiptledger/{__version__}"),
)
_REASONS: Final = {types_pb2.Reason.Value(f"REASON_{reason.name}"): reason for reason in Reason}
_LEVELS: Final = {
    Ack.DURABLE: ingest_pb2.ACK_LEVEL_DURABLE,
    Ack.SEALED: ingest_pb2.ACK_LEVEL_SEALED,
}
# Failures that did not come from the ledger's own code: their reason, and whether to try again.
_CODES: Final = {
    grpc.StatusCode.UNAVAILABLE: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.CANCELLED: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.ABORTED: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.INTERNAL: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.UNKNOWN: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (Reason.OVERLOADED, False),
    grpc.StatusCode.NOT_FOUND: (Reason.NOT_FOUND, False),
}


class Channel:
    """One connection to a ledger.

    Args:
        address: HOST:PORT.
        timeout_s: seconds for a single call; streams have none.

    Raises:
        CallError: INVALID_ARGUMENT for a bad address.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        self.address = parse_address(address)
        self._timeout = timeout_s
        self._pid = os.getpid()
        self._channel: grpc.aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        register(self)

    async def close(self) -> None:
        """Close the connection, if there is one; calls in progress fail."""
        if self._channel is not None and os.getpid() == self._pid:
            channel, self._channel = self._channel, None
            await channel.close()

    async def park(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connection if it belongs to a loop; it opens again at its next use."""
        if self._loop is loop:
            await self.close()

    def _open(self) -> grpc.aio.Channel:
        if os.getpid() != self._pid:
            raise CallError(
                Reason.INVALID_ARGUMENT,
                "this connection was made before the process forked; make a new agent or auditor in "
                "each process",
            )
        if broke_grpc():
            raise CallError(
                Reason.INVALID_ARGUMENT,
                "this process was forked while a connection to a ledger was open, which gRPC does not "
                "survive; connect after forking, or start processes by spawning",
            )
        if self._channel is None:
            self._loop = asyncio.get_running_loop()
            self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        return self._channel

    async def _call(self, call: Awaitable[Any]) -> Any:
        return await _guard(call, self.address)

    async def head(self, agent: str, stream: str = "") -> Head | None:
        """Newest position of a chain; None for one the ledger has never seen."""
        stub = ingest_pb2_grpc.IngestServiceStub(self._open())
        request = ingest_pb2.GetChainHeadRequest(chain=_chain(agent, stream))
        response = await self._call(stub.GetChainHead(request, timeout=self._timeout))
        head = response.head
        if not head.exists:
            return None
        return Head(
            _number(head.position),
            _hash(head.link_hash),
            _number(head.sequence) if head.HasField("sequence") else None,
        )

    def append(
        self, *, profile: str = "", ack: Ack = Ack.DURABLE, key_hints: Sequence[bytes] = ()
    ) -> Stream:
        """Open a stream of batches; see :class:`receiptledger.wire.Stream`."""
        stub = ingest_pb2_grpc.IngestServiceStub(self._open())
        return _AppendStream(stub.Append(), self.address, profile, ack, tuple(key_hints))

    async def receipt(self, selector: Selector) -> StoredReceipt:
        """One receipt as stored; nothing is proven."""
        stub = proof_pb2_grpc.ProofServiceStub(self._open())
        request = proof_pb2.GetReceiptRequest(**_select(selector))
        response = await self._call(stub.GetReceipt(request, timeout=self._timeout))
        return StoredReceipt(
            raw=response.receipt,
            chain=_hash(response.chain_key),
            position=_number(response.position),
            profile=response.profile,
            profile_version=response.profile_version,
            admitted_at_us=response.admitted_at_us,
            leaf_index=_number(response.leaf_index) if response.HasField("leaf_index") else None,
        )

    async def proof(self, selector: Selector, *, tree_size: int = 0, since: int = 0) -> Bundle:
        """The evidence for one receipt, not verified."""
        stub = proof_pb2_grpc.ProofServiceStub(self._open())
        request = proof_pb2.GetProofRequest(
            **_select(selector), tree_size=tree_size, since_size=since
        )
        response = await self._call(stub.GetProof(request, timeout=self._timeout))
        for part in ("receipt", "head", "key"):
            if not response.HasField(part):
                raise EvidenceError(Reason.BAD_BUNDLE, f"the ledger's proof has no {part}")
        return Bundle(
            position=_number(response.position),
            receipt=_member(response.receipt),
            previous=_member(response.previous) if response.HasField("previous") else None,
            head=_leaf(response.head),
            key=_leaf(response.key),
            checkpoint=response.checkpoint,
            consistency=Consistency(since, tuple(response.consistency)) if since else None,
        )

    async def consistency(self, first: int, second: int) -> tuple[bytes, ...]:
        """A proof that the tree of `second` leaves extends that of `first`, not verified."""
        stub = proof_pb2_grpc.ProofServiceStub(self._open())
        request = proof_pb2.GetConsistencyProofRequest(first_size=first, second_size=second)
        response = await self._call(stub.GetConsistencyProof(request, timeout=self._timeout))
        return tuple(response.proof)

    async def checkpoint(self, size: int = 0) -> bytes:
        """The signed note of a size, 0 for the newest; not verified."""
        stub = proof_pb2_grpc.ProofServiceStub(self._open())
        request = proof_pb2.GetCheckpointRequest(tree_size=size)
        response = await self._call(stub.GetCheckpoint(request, timeout=self._timeout))
        note: bytes = response.checkpoint
        return note

    async def watch(self) -> AsyncGenerator[bytes]:
        """Signed notes as they are published, not verified. Ends with CallError or not at all."""
        stub = proof_pb2_grpc.ProofServiceStub(self._open())
        call = stub.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
        try:
            while (message := await self._call(call.read())) is not grpc.aio.EOF:
                yield message.checkpoint
        finally:
            call.cancel()


class _AppendStream:
    """See :class:`receiptledger.wire.Stream`."""

    def __init__(
        self, call: Any, address: str, profile: str, ack: Ack, key_hints: tuple[bytes, ...]
    ) -> None:
        self._call = call
        self._address = address
        self._profile, self._level, self._key_hints = profile, _LEVELS[ack], key_hints

    async def write(self, batch_id: int, receipts: Sequence[bytes]) -> None:
        await self._guard(
            self._call.write(
                ingest_pb2.AppendRequest(
                    batch_id=batch_id,
                    receipts=receipts,
                    profile=self._profile,
                    ack_level=self._level,
                    key_hints=self._key_hints,
                )
            )
        )

    async def finish(self) -> None:
        await self._guard(self._call.done_writing())

    async def read(self) -> BatchAnswer | None:
        message = await self._guard(self._call.read())
        if message is grpc.aio.EOF:
            return None
        return BatchAnswer(
            message.batch_id,
            [_answer(answer) for answer in message.answers],
            message.checkpoint,
            message.draining,
        )

    def cancel(self) -> None:
        self._call.cancel()

    async def _guard(self, operation: Awaitable[Any]) -> Any:
        return await _guard(operation, self._address)


async def _guard(operation: Awaitable[Any], address: str) -> Any:
    """Wait for gRPC; whatever it raises becomes ours.

    Ours is raised when gRPC's is no longer handled: as its context it would keep the call, and with
    the call gRPC itself, alive for as long as somebody keeps our error. See `forking`.
    """
    failure: BaseException
    try:
        return await operation
    except grpc.aio.AioRpcError as error:
        failure = _failure(error, address)
    except asyncio.InvalidStateError:
        failure = CallError(Reason.UNAVAILABLE, f"the stream to {address} has ended", retry_after=0)
    except asyncio.CancelledError as error:
        failure = _dropped(error, address)
    raise failure


def _dropped(error: asyncio.CancelledError, address: str) -> BaseException:
    """What a CancelledError means: gRPC also raises it when the call was cancelled, not the task."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return error
    return CallError(Reason.UNAVAILABLE, f"the call to {address} was dropped", retry_after=0)


def _failure(error: grpc.aio.AioRpcError, address: str) -> CallError:
    """Our error for a failed call: from google.rpc.ErrorInfo, else from the status code."""
    info, retry_after = _details(error)
    if info is not None and info.domain == DOMAIN and info.reason in Reason.__members__:
        reason = Reason[info.reason]
        want, got = info.metadata.get("want"), info.metadata.get("got")
        message = (error.details() or "").removeprefix(f"{reason}: ")
        message = message.removesuffix(f"; got {got}").removesuffix(f"; expected {want}")
        return CallError(reason, message, want=want, got=got, retry_after=retry_after)
    code = error.code()
    reason, transient = _CODES.get(code, (Reason.INVALID_ARGUMENT, False))
    if retry_after is None and transient:
        retry_after = 0.0
    details = error.details() or code.name
    return CallError(reason, _explain(code, address, details), retry_after=retry_after)


def _details(
    error: grpc.aio.AioRpcError,
) -> tuple[error_details_pb2.ErrorInfo | None, float | None]:
    """ErrorInfo and RetryInfo of a rich status, where it has them."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # the rich status contradicts the plain one: believe neither's details
        status = None
    info: error_details_pb2.ErrorInfo | None = None
    seconds: float | None = None
    for detail in () if status is None else status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            seconds = min(max(retry.retry_delay.ToMilliseconds() / 1_000, 0.0), MAX_RETRY_SECONDS)
    return info, seconds


def _explain(code: grpc.StatusCode, address: str, details: str) -> str:
    if code is grpc.StatusCode.UNAVAILABLE:
        return (
            f"cannot reach a ledger at {address}: is ledgerd running there, and is this its gRPC "
            f"port? ({details})"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from {address} in time ({details})"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"{address} is no receipt ledger, or an older one ({details})"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return f"a limit of the ledger at {address} is reached ({details})"
    return f"the call to {address} failed: {code.name} ({details})"


def _chain(agent: str, stream: str) -> types_pb2.Chain:
    try:
        agent.encode(), stream.encode()
    except UnicodeEncodeError:
        raise CallError(
            Reason.INVALID_ARGUMENT, "an agent or stream id holds half of a surrogate pair"
        ) from None
    return types_pb2.Chain(agent=agent, stream=stream)


def _select(selector: Selector) -> dict[str, Any]:
    if isinstance(selector, bytes):
        return {"receipt_hash": selector}
    agent, stream, position = selector
    return {"at": proof_pb2.ChainPosition(chain=_chain(agent, stream), position=position)}


def _answer(answer: ingest_pb2.Answer) -> Answer:
    reason = None
    if answer.outcome == types_pb2.OUTCOME_REJECTED:
        reason = _REASONS.get(answer.reason)
    if reason is None and answer.outcome not in (
        types_pb2.OUTCOME_ACCEPTED,
        types_pb2.OUTCOME_DUPLICATE,
    ):
        raise _strange(f"outcome {answer.outcome} with reason {answer.reason}")
    return Answer(
        reason=reason,
        duplicate=answer.outcome == types_pb2.OUTCOME_DUPLICATE,
        position=_number(answer.position),
        receipt_hash=_hash(answer.receipt_hash) if answer.receipt_hash else b"",
        expected_hash=_hash(answer.expected_hash) if answer.expected_hash else None,
        detail=answer.detail,
        leaf_index=_number(answer.leaf_index) if answer.HasField("leaf_index") else None,
    )


def _member(member: proof_pb2.SegmentReceipt) -> Member:
    return Member(member.receipt, tuple(member.proof))


def _leaf(leaf: proof_pb2.LogLeaf) -> LeafProof:
    return LeafProof(leaf.leaf, _number(leaf.index), tuple(leaf.proof))


def _hash(value: bytes) -> bytes:
    if len(value) != 32:
        raise _strange(f"a hash of {len(value)} bytes")
    return value


def _number(value: int) -> int:
    if value > MAX_SIZE:
        raise _strange(f"the number {value}")
    return value


def _strange(what: str) -> CallError:
    """The peer breaks the protocol; trying again would not help."""
    return CallError(
        Reason.UNAVAILABLE,
        f"the ledger's answer cannot be understood; is it a newer one? It holds {what}",
    )
