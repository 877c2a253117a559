"""Keeps one outbox flowing: gathers batches, writes them to one stream, reads answers, reconnects.

A writer and a reader work on the open stream; both end with it, and the outbox decides what is sent
again. The sender connects only while something is unacknowledged, so an idle agent does not fail
because its daemon is away. It gives up when a failure is final or the retries are used up; from then on
every waiting and every later call raises why. It never ends silently.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from receiptledger.backoff import Backoff, Retry
from receiptledger.core.errors import LedgerError, Reason, ServiceError
from receiptledger.wire import CallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from receiptledger.outbox import Batch, Outbox, Settled
    from receiptledger.wire import BatchAnswer, IngestLink, Stream

__all__ = ["SendOptions", "Sender"]

KIB = 1024


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How receipts are gathered and sent.

    Attributes:
        batch_receipts: receipts that are sent without waiting for more.
        batch_bytes: bytes of one message, at most; the daemon's own bound is 1 MiB by default.
        linger_ms: milliseconds a receipt waits for others to share its batch.
        batches_in_flight: batches sent and not answered; the daemon reads at most 8 by default.
        outbox_receipts: receipts that may be unacknowledged; beyond it, recording waits.
        outbox_bytes: their bytes.
        connect_s: seconds to get an answer to a single call.
        retry: when to try again, and when to give up.
    """

    batch_receipts: int = 64
    batch_bytes: int = 512 * KIB
    linger_ms: float = 5.0
    batches_in_flight: int = 4
    outbox_receipts: int = 10_000
    outbox_bytes: int = 16 * KIB * KIB
    connect_s: float = 10.0
    retry: Retry = field(default_factory=Retry)

    def __post_init__(self) -> None:
        counts = (self.batch_receipts, self.batches_in_flight, self.outbox_receipts)
        if min(counts) < 1 or self.batch_bytes < KIB or self.outbox_bytes < 4 * KIB:
            raise ValueError(
                "send options: expected counts of at least 1, batch_bytes of at least 1024, "
                "outbox_bytes of at least 4096"
            )
        if self.linger_ms < 0 or self.connect_s <= 0:
            raise ValueError("send options: expected linger_ms >= 0, connect_s > 0")


class Sender:
    """See the module. Belongs to the event loop that started it.

    Args:
        outbox: what to send.
        link: the connection.
        options: how.
        chained: whether the outbox is one agent's own chain.
        on_settled: told of every answered batch: its receipts, and the checkpoint of SEALED acks.
        sleep: waits between attempts.
        chance: 0 <= chance() < 1, spreads them.
    """

    def __init__(
        self,
        outbox: Outbox,
        link: IngestLink,
        options: SendOptions,
        *,
        chained: bool,
        on_settled: Callable[[Sequence[Settled], bytes], None] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._outbox = outbox
        self._link = link
        self._options = options
        self._chained = chained
        self._on_settled = on_settled
        self._sleep = sleep
        self._chance = chance
        self._backoff = Backoff(options.retry)
        self._wake = asyncio.Event()  # the writer, or the run loop, has something to look at
        self._changed = asyncio.Event()  # replaced and set whenever receipts settle or all ends
        self._hurry_below = 0  # receipts with lower numbers do not linger
        self._finishing = False
        self._draining = False
        self._task: asyncio.Task[None] | None = None
        self.failure: CallError | None = None  # why the newest attempt ended, while it matters

    def start(self, on_end: Callable[[], None] | None = None) -> None:
        """Begin sending; `on_end` is called when it ends, for whatever reason."""
        self._task = asyncio.create_task(self._run(), name="receiptledger sender")
        self._task.add_done_callback(self._ended)
        if on_end is not None:
            self._task.add_done_callback(lambda _: on_end())

    def notify(self) -> None:
        """A receipt was added."""
        unsent = self._outbox.unsent
        # In between, the writer is lingering and need not be woken for each receipt.
        if unsent == 1 or unsent >= self._options.batch_receipts or self._hurries():
            self._wake.set()

    def check(self) -> None:
        """Raise why nothing is sent any more, if so.

        Raises:
            LedgerError: what ended the sender.
        """
        if self._task is not None and self._task.done():
            raise self._failure() or ServiceError(
                Reason.UNAVAILABLE, "closed already: make a new agent"
            )

    def _failure(self) -> LedgerError | None:
        """What ended the sender, other than being told to."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        error = self._task.exception()
        if error is None or isinstance(error, LedgerError):
            return error
        crash = ServiceError(
            Reason.UNAVAILABLE, f"the sender crashed: {type(error).__name__}: {error}"
        )
        crash.__cause__ = error
        return crash

    async def room(self, size: int) -> None:
        """Wait until a receipt of `size` bytes fits.

        Raises:
            LedgerError: what ended the sender.
        """
        self.check()
        if self._finishing:
            raise ServiceError(Reason.UNAVAILABLE, "closing already: make a new agent")
        while not self._outbox.has_room(size):
            self._hurry_below = self._outbox.added  # a full outbox has nothing to wait for
            self._wake.set()
            await self._change()

    async def settled(self, count: int) -> None:
        """Wait until the first `count` receipts are settled; they do not linger any more.

        Raises:
            LedgerError: what ended the sender.
        """
        self.check()
        self._hurry_below = max(self._hurry_below, count)
        self._wake.set()
        while self._outbox.settled < count:
            await self._change()

    async def finish(self) -> None:
        """Send what is there, half-close, and end.

        Raises:
            LedgerError: what ended the sender instead.
        """
        self._finishing = True
        self._hurry_below = self._outbox.added
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task})
        failure = self._failure()
        if failure is not None:
            raise failure

    async def abort(self) -> None:
        """End at once; what is unacknowledged stays in the outbox."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _change(self) -> None:
        await self._changed.wait()
        self.check()

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()  # `check` raises it, however late
        if isinstance(error, LedgerError):
            error.with_traceback(None)  # its frames hold the broken stream
        self._announce()

    async def _run(self) -> None:
        """Connect while there is something to send, until told to finish."""
        while await self._work():
            failure = await self._attempt()
            if not len(self._outbox):
                self.failure = None
                continue  # nothing is at stake: the next receipt will see whether it connects
            wait = self._backoff.failed(
                asyncio.get_running_loop().time(), self._chance(), failure.retry_after or 0.0
            )
            self.failure = failure
            if wait is None:
                raise ServiceError(
                    failure.reason,
                    f"gave up after {self._backoff.failures} failures in a row; "
                    f"{len(self._outbox)} receipts are unacknowledged. The last failure: "
                    f"{failure.message}",
                    want=failure.want,
                    got=failure.got,
                ) from failure
            await self._sleep(wait)

    async def _work(self) -> bool:
        """Wait until something is unacknowledged; False when all is done."""
        while not len(self._outbox):
            if self._finishing:
                return False
            self._wake.clear()
            await self._wake.wait()
        return True

    async def _attempt(self) -> CallError:
        """One connection, from the chain head to the end of the stream.

        Returns:
            Why it ended, when trying again makes sense if anything is left to send.
        """
        try:
            head = await self._link.head() if self._chained else None
            self._outbox.resume(head)
            await self._session(self._link.open())
        except CallError as error:
            if error.retry_after is None:
                raise
            return error.with_traceback(None)  # its frames hold the broken stream
        finally:
            self._outbox.on_disconnect()
        return CallError(
            Reason.UNAVAILABLE, "the ledger ended the stream before it answered all", retry_after=0
        )

    async def _session(self, stream: Stream) -> None:
        self._draining = False
        writer = asyncio.create_task(self._write(stream))
        reader = asyncio.create_task(self._read(stream))
        try:
            await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
            if not reader.done():
                # The writer is through, or the stream broke: the reader is told which. Anything
                # else would leave the reader waiting for ever.
                error = writer.exception()
                if error is not None and not isinstance(error, CallError):
                    raise error
                await asyncio.wait({reader})
            reader.result()
        finally:
            writer.cancel()
            reader.cancel()
            stream.cancel()
            await asyncio.gather(writer, reader, return_exceptions=True)

    async def _write(self, stream: Stream) -> None:
        while (batch := await self._next_batch()) is not None:
            await stream.write(batch.batch_id, batch.receipts)
        await stream.finish()

    async def _next_batch(self) -> Batch | None:
        """Wait for a batch that is due; None when this stream should get no more."""
        outbox, options = self._outbox, self._options
        clock = asyncio.get_running_loop().time
        due: float | None = None
        while not self._draining:
            self._wake.clear()
            if outbox.unsent and outbox.in_flight < options.batches_in_flight:
                due = due if due is not None else clock() + options.linger_ms / 1_000
                if self._is_due() or clock() >= due:
                    return outbox.next_batch(options.batch_receipts, options.batch_bytes)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await self._wake.wait()
            elif self._finishing and not outbox.unsent:
                return None
            else:
                await self._wake.wait()
        return None

    def _is_due(self) -> bool:
        outbox, options = self._outbox, self._options
        return (
            outbox.unsent >= options.batch_receipts
            or outbox.unsent_bytes >= options.batch_bytes
            or self._hurries()
        )

    def _hurries(self) -> bool:
        """Whether a flush waits for a receipt that is not sent."""
        outbox = self._outbox
        return self._finishing or outbox.added - outbox.unsent < self._hurry_below

    async def _read(self, stream: Stream) -> None:
        while (answer := await stream.read()) is not None:
            if answer.draining:
                self._draining = True
            if answer.answers or not answer.draining:
                self._take(answer)
            self._wake.set()

    def _take(self, answer: BatchAnswer) -> None:
        before = self._outbox.settled
        try:
            settled = self._outbox.on_answer(answer.batch_id, answer.answers)
            if self._on_settled is not None:
                self._on_settled(settled, answer.checkpoint)
        finally:
            if self._outbox.settled > before:
                self.failure = None
                self._backoff.succeeded()
                self._announce()
