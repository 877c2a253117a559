"""A ledger at the other end of a sender, in memory, with a wire that breaks when told to.

The ledger keeps the rules (position, duplicate, gap, fork), so a sender that resends wrongly is refused.
`FakeLink.faults` is a list of what befalls each stream in turn; a stream without a fault works.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.core.chain import Head
from receiptledger.core.errors import Reason
from receiptledger.wire import Answer, BatchAnswer, CallError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FakeLedger", "FakeLink", "Fault", "down"]


def down(retry_after: float | None = 0.0) -> CallError:
    """The failure of a call to a ledger that is away."""
    return CallError(Reason.UNAVAILABLE, "the ledger is away", retry_after=retry_after)


@dataclass
class Fault:
    """What goes wrong with one stream, counted in batches it has taken.

    Attributes:
        cut_after: it breaks instead of answering this batch, which is durable all the same.
        lose: with cut_after: the batch never arrived either.
        drain_after: it says that it drains after this many answers.
        bare: with drain_after: the notice comes alone instead of with the last answer.
        end_after: it ends in good order after this many answers.
        error: what it breaks with.
        write_error: what writing raises from the start, instead of CallError.
    """

    cut_after: int | None = None
    lose: bool = False
    drain_after: int | None = None
    bare: bool = True
    end_after: int | None = None
    error: Exception = field(default_factory=down)
    write_error: Exception | None = None


@dataclass
class FakeLedger:
    """One chain and the rules of continuity by receipt bytes."""

    chain: list[bytes] = field(default_factory=list)
    refuse: Callable[[bytes], Answer | None] = lambda raw: None
    batches: list[tuple[bytes, ...]] = field(default_factory=list)  # as they arrived

    def take(self, receipts: Sequence[bytes]) -> list[Answer]:
        """Admit a batch."""
        self.batches.append(tuple(receipts))
        return [self._admit(raw) for raw in receipts]

    def _admit(self, raw: bytes) -> Answer:
        refusal = self.refuse(raw)
        if refusal is not None:
            return refusal
        digest = sha256(raw).digest()
        if raw in self.chain:
            return Answer(None, True, self.chain.index(raw), digest)
        self.chain.append(raw)
        return Answer(None, False, len(self.chain) - 1, digest)

    @property
    def head(self) -> Head | None:
        """The newest receipt, linked by its hash."""
        if not self.chain:
            return None
        return Head(len(self.chain) - 1, sha256(self.chain[-1]).digest(), None)


class FakeLink:
    """See the module. `heads` are failures of the next head calls; `paused` holds answers back."""

    def __init__(self, ledger: FakeLedger | None = None, *faults: Fault) -> None:
        self.ledger = ledger or FakeLedger()
        self.faults = deque(faults)
        self.heads: deque[Exception] = deque()
        self.head_calls = 0
        self.streams: list[FakeStream] = []
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def head(self) -> Head | None:
        self.head_calls += 1
        await asyncio.sleep(0)
        if self.heads:
            raise self.heads.popleft()
        return self.ledger.head

    def open(self) -> FakeStream:
        stream = FakeStream(self, self.faults.popleft() if self.faults else Fault())
        self.streams.append(stream)
        return stream


class FakeStream:
    """One stream; unanswered batches wait in `_pending`."""

    def __init__(self, link: FakeLink, fault: Fault) -> None:
        self._link = link
        self._fault = fault
        self._pending: asyncio.Queue[tuple[int, tuple[bytes, ...]] | None] = asyncio.Queue()
        self._broken: Exception | None = None
        self._ended = asyncio.Event()
        self._answered = 0
        self._drained = False
        self.finished = False
        self.cancelled = False
        self.most_in_flight = 0

    async def write(self, batch_id: int, receipts: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        if self._fault.write_error is not None:
            raise self._fault.write_error
        if self._broken is not None or self._ended.is_set():
            raise self._broken or down()
        assert not self.finished
        self._pending.put_nowait((batch_id, tuple(receipts)))
        self.most_in_flight = max(self.most_in_flight, self._pending.qsize())

    async def finish(self) -> None:
        await asyncio.sleep(0)
        assert not self.finished
        self.finished = True
        self._pending.put_nowait(None)

    async def read(self) -> BatchAnswer | None:
        fault = self._fault
        if fault.drain_after == self._answered and not self._drained:
            self._drained = True
            return BatchAnswer(0, [], draining=True)
        if fault.end_after == self._answered:
            self._ended.set()
            return None
        await self._link.flowing.wait()
        item = await self._pending.get()
        if item is None or self._drained:
            self._ended.set()
            return None
        batch_id, receipts = item
        if fault.cut_after == self._answered:
            if not fault.lose:
                self._link.ledger.take(receipts)
            self._broken = fault.error
            raise fault.error
        answers = self._link.ledger.take(receipts)
        self._answered += 1
        if fault.drain_after == self._answered and not fault.bare:
            self._drained = True
            return BatchAnswer(batch_id, answers, draining=True)
        return BatchAnswer(batch_id, answers, b"note")

    def cancel(self) -> None:
        self.cancelled = True
