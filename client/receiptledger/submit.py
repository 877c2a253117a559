"""Sends receipts that somebody else built and signed, exactly as they are.

Each receipt has its own result; a refused one never holds back the others. Unanswered receipts are sent
again after a lost connection, and those that had arrived come back as duplicates.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.core.errors import Reason
from receiptledger.outbox import Outbox
from receiptledger.sender import Sender
from receiptledger.wire import Answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

    from receiptledger.outbox import Settled
    from receiptledger.sender import SendOptions
    from receiptledger.wire import IngestLink

__all__ = ["SubmitResult", "submit"]

_MESSAGE_OVERHEAD = 1_024  # batch id, profile and key hints of a message


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """What became of one receipt.

    Attributes:
        index: its place among what was submitted, from 0.
        raw: its bytes.
        answer: what the ledger said; for a receipt too large to send, what it would say.
    """

    index: int
    raw: bytes
    answer: Answer


async def submit(
    link: IngestLink, raws: Iterable[bytes] | AsyncIterable[bytes], options: SendOptions
) -> AsyncGenerator[SubmitResult]:
    """Send receipts and yield what becomes of each.

    Results come in the order of the receipts, except for receipts too large to send, which are refused
    at once. At most `options.outbox_receipts` are held at a time, results that nobody took included.

    Args:
        link: the connection.
        raws: the receipts' exact bytes.
        options: how to gather and send.

    Raises:
        LedgerError: the sender gave up; the receipts without a result are unacknowledged.
    """
    run = _Run(link, options)
    feeding = run.start(raws)
    try:
        while not run.ended(feeding):
            await run.change()
            while run.results:
                yield run.take()
        feeding.result()
        await run.sender.finish()
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})
        await run.sender.abort()


class _Run:
    """One submission."""

    def __init__(self, link: IngestLink, options: SendOptions) -> None:
        self._options = options
        self._outbox = Outbox(
            chained=False, max_receipts=options.outbox_receipts, max_bytes=options.outbox_bytes
        )
        self.sender = Sender(
            self._outbox, link, options, chained=False, on_settled=self._on_settled
        )
        self.results: deque[SubmitResult] = deque()
        self._indexes: deque[int] = deque()  # of what is in the outbox
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    def start(self, raws: Iterable[bytes] | AsyncIterable[bytes]) -> asyncio.Task[None]:
        """Begin to send; the task ends when everything is settled."""
        self.sender.start(on_end=self._changed.set)
        feeding = asyncio.create_task(self._feed(raws))
        feeding.add_done_callback(lambda _: self._changed.set())
        return feeding

    def ended(self, feeding: asyncio.Task[None]) -> bool:
        """Whether no result follows.

        Raises:
            LedgerError: the sender gave up.
        """
        if not feeding.done():
            self.sender.check()
        return feeding.done() and not self.results

    async def change(self) -> None:
        """Wait for a result, or an end."""
        await self._changed.wait()
        self._changed.clear()

    def take(self) -> SubmitResult:
        """The next result."""
        self._taken.set()
        return self.results.popleft()

    async def _feed(self, raws: Iterable[bytes] | AsyncIterable[bytes]) -> None:
        """Put everything into the outbox as room appears; then let nothing linger."""
        index = 0
        async for raw in _each(raws):
            await self._put(index, raw)
            index += 1
        await self.sender.settled(self._outbox.added)

    async def _put(self, index: int, raw: bytes) -> None:
        while len(self.results) + len(self._outbox) >= self._options.outbox_receipts:
            self._taken.clear()
            await self._taken.wait()
        largest = min(self._options.batch_bytes - _MESSAGE_OVERHEAD, self._options.outbox_bytes)
        if len(raw) > largest:
            detail = (
                f"the receipt is too long to send; expected at most {largest} bytes, got {len(raw)}"
            )
            self._add(
                index, raw, Answer(Reason.TOO_LARGE, False, 0, sha256(raw).digest(), None, detail)
            )
            return
        await self.sender.room(len(raw))
        self._outbox.add(raw)
        self._indexes.append(index)
        self.sender.notify()

    def _on_settled(self, settled: Sequence[Settled], checkpoint: bytes) -> None:
        del checkpoint
        for item in settled:
            self._add(self._indexes.popleft(), item.raw, item.answer)

    def _add(self, index: int, raw: bytes, answer: Answer) -> None:
        self.results.append(SubmitResult(index, raw, answer))
        self._changed.set()


async def _each(raws: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(raws, AsyncIterable):
        async for raw in raws:
            yield raw
    else:
        for raw in raws:
            yield raw
