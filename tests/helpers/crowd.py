"""Agents that stream to a daemon which may vanish at any moment, and people who watch its log.

Everything a daemon ever promised is remembered here: which receipts it acknowledged and how, and every
checkpoint it showed. What it says later is held against that.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import grpc
import httpx

from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.merkle import verify_consistency
from receiptledger.v1 import ingest_pb2, ingest_pb2_grpc, proof_pb2, proof_pb2_grpc, types_pb2
from tests.helpers.agents import Agent, FarleyAgent, link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from receiptledger.core.note import VerifierKey

__all__ = ["Crowd", "Sender", "Watcher", "check_consistency", "check_receipts"]

ACCEPTED, DUPLICATE = types_pb2.OUTCOME_ACCEPTED, types_pb2.OUTCOME_DUPLICATE
GONE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,  # what grpc.aio makes of a write that meets the end of its stream
)


@dataclass
class Sender:
    """One agent, over all daemons of one ledger.

    Attributes:
        raws: its chain as it signed it; the ledger's must be a beginning of it.
        acknowledged: receipts that were acknowledged: a beginning of `raws` too.
        ahead: receipts found in the ledger after a restart that were never acknowledged, by restart.
        told: whether the last stream said that the daemon drains.
    """

    agent: Agent
    sealed: bool
    random: Random
    raws: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    ahead: int = 0
    told: bool = False

    async def run(self, channel: grpc.aio.Channel, on_sent: Callable[[], None]) -> None:
        """Resume from the ledger's head and stream until the daemon is gone."""
        self.told = False
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        with suppress(asyncio.CancelledError):
            try:
                at = await self._resume(stub)
                await self._stream(stub.Append(), at, on_sent)
            except grpc.aio.AioRpcError as error:
                if error.code() not in GONE:
                    raise

    async def _resume(self, stub: Any) -> int:
        """Position to go on from; the head must be where this agent can have left it."""
        chain = types_pb2.Chain(agent=self.agent.name)
        head = (await stub.GetChainHead(ingest_pb2.GetChainHeadRequest(chain=chain))).head
        there = head.position + 1 if head.exists else 0
        assert self.acknowledged <= there <= len(self.raws), f"{self.agent.name} was set back"
        if head.exists:
            assert head.link_hash == link(self.raws[head.position])
        self.ahead = there - self.acknowledged
        # Not only what is missing: whoever resends too much must get the same answer again.
        return max(0, there - self.random.randrange(4))

    async def _stream(self, call: Any, at: int, on_sent: Callable[[], None]) -> None:
        """Two batches under way at a time; every answer is held against what was sent."""
        waiting: list[tuple[int, int]] = []  # first position and count
        draining = False
        while True:
            while len(waiting) < 2 and not draining:
                count = self.random.choice((1, 1, 2, 5, 12))
                await call.write(self._batch(at, count))
                on_sent()
                waiting.append((at, count))
                at += count
            response = await call.read()
            if response is grpc.aio.EOF:
                return
            if response.draining:
                self.told = draining = True
                await call.done_writing()
            else:
                self._check(response, *waiting.pop(0))

    def _batch(self, at: int, count: int) -> ingest_pb2.AppendRequest:
        missing = at + count - len(self.raws)
        if missing > 0:
            self.raws += self.agent.receipts(missing, after=self.raws[-1] if self.raws else None)
        level = ingest_pb2.ACK_LEVEL_SEALED if self.sealed else ingest_pb2.ACK_LEVEL_DURABLE
        return ingest_pb2.AppendRequest(
            batch_id=at,
            receipts=self.raws[at : at + count],
            ack_level=level,
            key_hints=[self.agent.public_key],
        )

    def _check(self, response: Any, at: int, count: int) -> None:
        assert response.batch_id == at
        answers = response.answers
        assert [answer.position for answer in answers] == [*range(at, at + count)]
        for answer in answers:
            assert answer.outcome in (ACCEPTED, DUPLICATE), answer
            assert answer.receipt_hash == link(self.raws[answer.position])
            # What was acknowledged before is never news again.
            assert answer.outcome == DUPLICATE or answer.position >= self.acknowledged
            assert answer.HasField("leaf_index") == self.sealed
        assert bool(response.checkpoint) == self.sealed
        self.acknowledged = max(self.acknowledged, at + count)


class Watcher:
    """Remembers every checkpoint anybody was shown.

    Args:
        verifier: the log's key.
    """

    def __init__(self, verifier: VerifierKey) -> None:
        self.verifier = verifier
        self.roots: dict[int, bytes] = {}  # size -> root
        self.ended = ""  # why the last stream of checkpoints ended
        self.on_new: Callable[[], None] | None = None  # called when a new one is seen

    def see(self, note: bytes) -> int:
        """A note was shown: it is signed, and the only one for its size."""
        checkpoint = open_checkpoint(note, self.verifier)
        if self.on_new is not None and checkpoint.size not in self.roots:
            self.on_new()
        before = self.roots.setdefault(checkpoint.size, checkpoint.root)
        assert before == checkpoint.root, f"two roots for {checkpoint.size} leaves"
        return checkpoint.size

    async def run(self, channel: grpc.aio.Channel, http: str) -> None:
        """Watch by gRPC, and look at the HTTP page now and then, until the daemon is gone."""
        stub = proof_pb2_grpc.ProofServiceStub(channel)
        newest = max(self.roots, default=0)
        with suppress(asyncio.CancelledError):
            try:
                async with httpx.AsyncClient(base_url=http) as client:
                    call = stub.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
                    async for response in call:
                        size = self.see(response.checkpoint)
                        # What was shown once, by whichever daemon, is never taken back.
                        assert size >= newest, f"{newest} leaves were shown, now {size}"
                        newest = size
                        with suppress(httpx.TransportError):
                            page = await client.get("/checkpoint")
                            if page.status_code == 200:
                                assert self.see(page.content) >= newest
            except grpc.aio.AioRpcError as error:
                if error.code() not in GONE:
                    raise
                self.ended = error.details() or ""


class Crowd:
    """All agents and the watcher of one ledger."""

    def __init__(self, seed: int, *, agents: int = 6) -> None:
        self.random = Random(seed)
        self.senders = [
            Sender(
                (FarleyAgent if at % 3 == 2 else Agent)(f"agent-{at}", at + 1),
                sealed=at % 2 == 1,
                random=Random(self.random.random()),
            )
            for at in range(agents)
        ]
        self.watcher: Watcher | None = None
        self.sent = 0  # batches, over all daemons

    async def run(self, grpc_address: str, http: str, verifier: VerifierKey) -> None:
        """Load one daemon until it is gone."""
        self.watcher = self.watcher or Watcher(verifier)
        assert self.watcher.verifier == verifier, "a restart changed the log's key"
        async with grpc.aio.insecure_channel(grpc_address) as channel, asyncio.TaskGroup() as group:
            group.create_task(self.watcher.run(channel, http))
            for sender in self.senders:
                group.create_task(sender.run(channel, self._sent))

    def _sent(self) -> None:
        self.sent += 1


async def check_receipts(channel: grpc.aio.Channel, raws: Iterable[bytes]) -> None:
    """Each receipt is in the ledger, byte for byte."""
    stub = proof_pb2_grpc.ProofServiceStub(channel)
    waiting = iter(raws)

    async def ask() -> None:
        for raw in waiting:
            response = await stub.GetReceipt(proof_pb2.GetReceiptRequest(receipt_hash=link(raw)))
            assert response.receipt == raw

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(ask())


async def check_consistency(
    channel: grpc.aio.Channel, roots: dict[int, bytes], pairs: Iterable[tuple[int, int]]
) -> None:
    """The tree of each second size extends that of the first; sizes are at least 1."""
    stub = proof_pb2_grpc.ProofServiceStub(channel)
    waiting = iter(pairs)

    async def ask() -> None:
        for old, new in waiting:
            response = await stub.GetConsistencyProof(
                proof_pb2.GetConsistencyProofRequest(first_size=old, second_size=new)
            )
            verify_consistency(old, new, [*response.proof], roots[old], roots[new])

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(ask())
