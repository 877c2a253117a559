"""gRPC: with `transport_convert` and `transport_errors` the only place of the client that knows it.

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

from receiptledger import __version__
from receiptledger.address import parse_address
from receiptledger.core.chain import Head
from receiptledger.core.errors import Reason
from receiptledger.forking import broke_grpc, register
from receiptledger.transport_convert import (
    anchor_in,
    anchor_proof_in,
    answer_in,
    hash_in,
    number_in,
    proof_in,
    round_in,
)
from receiptledger.transport_errors import guard
from receiptledger.v1 import (
    anchor_pb2,
    anchor_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    proof_pb2,
    proof_pb2_grpc,
    types_pb2,
)
from receiptledger.wire import Ack, BatchAnswer, CallError, StoredReceipt

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence

    from receiptledger.core.bundle import Bundle
    from receiptledger.wire import Anchor, AnchorProof, AnchorRound, Selector, Stream

__all__ = ["Channel"]

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
_LEVELS: Final = {
    Ack.DURABLE: ingest_pb2.ACK_LEVEL_DURABLE,
    Ack.SEALED: ingest_pb2.ACK_LEVEL_SEALED,
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
        return await guard(call, self.address)

    async def head(self, agent: str, stream: str = "") -> Head | None:
        """Newest position of a chain; None for one the ledger has never seen."""
        stub = ingest_pb2_grpc.IngestServiceStub(self._open())
        request = ingest_pb2.GetChainHeadRequest(chain=_chain(agent, stream))
        response = await self._call(stub.GetChainHead(request, timeout=self._timeout))
        head = response.head
        if not head.exists:
            return None
        return Head(
            number_in(head.position),
            hash_in(head.link_hash),
            number_in(head.sequence) if head.HasField("sequence") else None,
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
            chain=hash_in(response.chain_key),
            position=number_in(response.position),
            profile=response.profile,
            profile_version=response.profile_version,
            admitted_at_us=response.admitted_at_us,
            leaf_index=number_in(response.leaf_index) if response.HasField("leaf_index") else None,
        )

    async def proof(self, selector: Selector, *, tree_size: int = 0, since: int = 0) -> Bundle:
        """The evidence for one receipt, not verified."""
        stub = proof_pb2_grpc.ProofServiceStub(self._open())
        request = proof_pb2.GetProofRequest(
            **_select(selector), tree_size=tree_size, since_size=since
        )
        response = await self._call(stub.GetProof(request, timeout=self._timeout))
        return proof_in(response, since)

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

    async def anchors(self, first: int = 0, limit: int = 0) -> tuple[list[Anchor], int]:
        """A page of timestamps from a number on, and how many there are in all; not verified."""
        stub = anchor_pb2_grpc.AnchorServiceStub(self._open())
        request = anchor_pb2.ListAnchorsRequest(first=first, limit=limit)
        response = await self._call(stub.ListAnchors(request, timeout=self._timeout))
        return [anchor_in(anchor) for anchor in response.anchors], number_in(response.count)

    async def anchor(self, number: int, size: int = 0) -> AnchorProof:
        """One timestamp with its evidence, as of a checkpoint, 0 for the newest; not verified."""
        stub = anchor_pb2_grpc.AnchorServiceStub(self._open())
        request = anchor_pb2.GetAnchorRequest(number=number, tree_size=size)
        return anchor_proof_in(await self._call(stub.GetAnchor(request, timeout=self._timeout)))

    async def anchor_now(self, timeout_s: float) -> AnchorRound:
        """Have the newest checkpoint stamped, waiting so many seconds for the authorities."""
        stub = anchor_pb2_grpc.AnchorServiceStub(self._open())
        call = stub.AnchorNow(anchor_pb2.AnchorNowRequest(), timeout=timeout_s)
        return round_in(await self._call(call))


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
            [answer_in(answer) for answer in message.answers],
            message.checkpoint,
            message.draining,
        )

    def cancel(self) -> None:
        self._call.cancel()

    async def _guard(self, operation: Awaitable[Any]) -> Any:
        return await guard(operation, self._address)


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
