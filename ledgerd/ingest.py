"""Ingest: one pipeline per stream from batches read to answers written.

    read -> verify (worker threads) -> commit (writer thread) -> wait for the asked level -> answer

The stages of one stream run at once, so the next batch is verified while the last one commits, but
batches are handed to the writer in the order they came, and answered in that order. At most
`max_batches_in_flight` are unanswered; beyond that the stream is not read, and gRPC's flow control
holds the sender back. A cancelled stream never cancels a commit: that runs on the writer thread.

A receipt that is ahead of its chain is parked there for a while (`parking`). Its batch, and those behind
it on its stream, are answered when it is settled; other streams do not wait for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeVar

from ledgerd.verification import Refused, Verified, verify_batch
from ledgerd.writer import BatchJob, BatchResult, ForsakeJob, SealJob, UnparkJob
from receiptledger.core.algorithms import KEY_SIZES
from receiptledger.core.errors import LedgerError, Reason, ReceiptError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ledgerd.admission import Answer
    from ledgerd.board import Board
    from ledgerd.keyring import Keyring
    from ledgerd.metrics import Metrics
    from ledgerd.store.interface import LogState
    from ledgerd.verify_pool import VerifyPool
    from ledgerd.writer import Job
    from receiptledger.core.canonical import Limits
    from receiptledger.core.profile import Profiles

__all__ = ["MAX_KEY_HINTS", "Batch", "BatchAnswer", "Ingest"]

MAX_KEY_HINTS = 16
_KEY_SIZES = frozenset(KEY_SIZES.values())
Item = Verified | Refused
T = TypeVar("T")


@dataclass(slots=True)
class Batch:
    """One batch as it came; `problem` says why all of it is refused, or None."""

    batch_id: int
    receipts: Sequence[bytes]
    profile: str | None = None
    sealed: bool = False
    key_hints: Sequence[bytes] = ()
    problem: ServiceError | None = None
    read_at: float = field(default_factory=time.perf_counter)


@dataclass(slots=True)
class BatchAnswer:
    """The answer to one batch; `state` is set when the sender asked to wait for a seal."""

    batch_id: int
    answers: list[Answer]
    state: LogState | None


class _JobQueue(Protocol):
    """What ingest asks of the writer."""

    def submit(self, job: Job) -> None: ...


class Ingest:
    """Shared by all streams. Event loop only.

    Args:
        writer: where verified batches go.
        board: what is published.
        draining: set when the daemon takes no more batches.
        refusal: why no receipts are taken now, or None; asked for each batch.
    """

    def __init__(
        self,
        *,
        writer: _JobQueue,
        board: Board,
        keyring: Keyring,
        profiles: Profiles,
        metrics: Metrics,
        limits: Limits,
        max_batch_receipts: int,
        max_batches_in_flight: int,
        seal_wait_seconds: float,
        verify_threads: int,
        verify_pool: VerifyPool | None = None,
        refusal: Callable[[], ServiceError | None] = lambda: None,
    ) -> None:
        self._writer = writer
        self._board = board
        self._keyring = keyring
        self._profiles = profiles
        self._metrics = metrics
        self._limits = limits
        self._max_batch = max_batch_receipts
        self._window = max_batches_in_flight
        self._seal_wait = seal_wait_seconds
        self._verify_pool = verify_pool
        self._refusal = refusal
        self.draining = asyncio.Event()
        self._pool = ThreadPoolExecutor(
            max_workers=verify_threads or os.cpu_count() or 1, thread_name_prefix="verify"
        )

    def close(self) -> None:
        """End the verifying threads. Blocks until they are idle."""
        self._pool.shutdown(wait=True)

    async def serve(
        self,
        read: Callable[[], Awaitable[Batch | None]],
        write: Callable[[BatchAnswer], Awaitable[None]],
    ) -> bool:
        """Run one stream until its sender half-closes or the daemon drains.

        Args:
            read: the next batch, None at the end of the stream; a call that is cancelled loses nothing.
            write: sends one answer.

        Returns:
            True when the stream was ended by draining.

        Raises:
            ServiceError: UNAVAILABLE: a commit's outcome is unknown; answers before it were written.
        """
        return await _Stream(self, read, write).run()

    async def verify(self, batch: Batch) -> list[Item]:
        """Form and signatures of one batch, in a worker thread."""
        problem = batch.problem or self._problem(batch)
        if problem is not None:
            error = ReceiptError(
                problem.reason, problem.message, want=problem.want, got=problem.got
            )
            return [Refused(sha256(raw).digest(), error) for raw in batch.receipts]
        here = partial(
            verify_batch,
            profile=batch.profile,
            hints=batch.key_hints,
            profiles=self._profiles,
            keyring=self._keyring,
            limits=self._limits,
        )
        pool = self._verify_pool
        loop = asyncio.get_running_loop()
        if pool is None:
            return await loop.run_in_executor(self._pool, here, batch.receipts)
        thread = partial(loop.run_in_executor, self._pool, here)
        return await pool.verify(batch.receipts, batch.profile, batch.key_hints, thread)

    def drain(self) -> None:
        """Take no more batches, and answer what is parked now."""
        self.draining.set()
        self._writer.submit(UnparkJob())

    def forsake(self, owner: object) -> None:
        """A stream ended before its answers: what is parked of it is nobody's any more."""
        self._writer.submit(ForsakeJob(owner))

    def commit(self, items: Sequence[Item], owner: object = None) -> asyncio.Future[BatchResult]:
        """Hand a verified batch to the writer; the future ends when it is durable.

        Args:
            items: what was verified.
            owner: the stream it came by; see :meth:`forsake`.
        """
        future: asyncio.Future[BatchResult] = asyncio.get_running_loop().create_future()
        # A stream that is gone does not wait for its answer: its error is nobody's surprise.
        future.add_done_callback(_retrieve)
        self._writer.submit(BatchJob(items, partial(_settle, future), owner))
        return future

    def admit(self, items: Sequence[Item], owner: object = None) -> asyncio.Future[BatchResult]:
        """Commit a sender's batch, unless the ledger takes none now: then the future fails."""
        refusal = self._refusal()
        if refusal is None:
            return self.commit(items, owner)
        self._metrics.refused(len(items), refusal.reason)
        future: asyncio.Future[BatchResult] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        future.set_exception(refusal)
        return future

    async def barrier(self) -> None:
        """Return once everything that could be read before this call is on stable storage.

        A group is visible to readers between its write and its fsync. Whoever tells a client that a
        receipt is in the ledger must read first, then wait here: the writer answers in order.

        Raises:
            ServiceError: UNAVAILABLE, a commit failed; what was read may not be durable.
        """
        await self.commit(())

    def seal(self) -> asyncio.Future[LogState | None]:
        """Ask for a seal now."""
        future: asyncio.Future[LogState | None] = asyncio.get_running_loop().create_future()
        self._writer.submit(SealJob(partial(_settle, future)))
        return future

    def _problem(self, batch: Batch) -> ServiceError | None:
        """What is wrong with the batch as a whole."""
        count, hints = len(batch.receipts), batch.key_hints
        if count > self._max_batch:
            return _invalid(
                "too many receipts in one batch", f"at most {self._max_batch}", str(count)
            )
        if len(hints) > MAX_KEY_HINTS:
            return _invalid("too many key hints", f"at most {MAX_KEY_HINTS}", str(len(hints)))
        if any(len(hint) not in _KEY_SIZES for hint in hints):
            want = " or ".join(f"{size} bytes ({name})" for name, size in KEY_SIZES.items())
            return _invalid("a key hint is a public key", want, "another length")
        return None


class _Stream:
    """One stream's pipeline."""

    def __init__(
        self,
        ingest: Ingest,
        read: Callable[[], Awaitable[Batch | None]],
        write: Callable[[BatchAnswer], Awaitable[None]],
    ) -> None:
        self._ingest = ingest
        self._read = read
        self._write = write
        # Both queues together hold what the window allows: the semaphore bounds them.
        self._window = asyncio.Semaphore(ingest._window)
        self._verifying: asyncio.Queue[tuple[Batch, asyncio.Task[list[Item]]] | None] = (
            asyncio.Queue()
        )
        self._committing: asyncio.Queue[tuple[Batch, asyncio.Future[BatchResult]] | None] = (
            asyncio.Queue()
        )
        self._drained = False

    async def run(self) -> bool:
        ended = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._reading(group))
                group.create_task(self._handing_over())
                group.create_task(self._answering())
            ended = True
        except BaseExceptionGroup as group:
            # Not `except*`: what that raises is wrapped again by some releases of Python 3.11.
            ours, others = group.split(LedgerError)
            if ours is None or others is not None:
                raise
            raise _first(ours) from None
        finally:
            if not ended:
                self._ingest.forsake(self)
        return self._drained

    async def _reading(self, group: asyncio.TaskGroup) -> None:
        """Read until the sender ends or the daemon drains."""
        draining = asyncio.create_task(self._ingest.draining.wait())
        pump = group.create_task(self._pump(group))
        try:
            await asyncio.wait((pump, draining), return_when=asyncio.FIRST_COMPLETED)
            if not pump.done():
                self._drained = True
                pump.cancel()
                await asyncio.wait((pump,))
        finally:
            draining.cancel()
        self._verifying.put_nowait(None)

    async def _pump(self, group: asyncio.TaskGroup) -> None:
        """Start verifying each batch as it comes. May be cancelled: what was read is handed on."""
        metrics = self._ingest._metrics
        while True:
            started = time.perf_counter()
            await self._window.acquire()
            metrics.stream_paused_seconds.inc(time.perf_counter() - started)
            batch = await self._read()
            if batch is None:
                return
            task = group.create_task(self._ingest.verify(batch))
            self._verifying.put_nowait((batch, task))

    async def _handing_over(self) -> None:
        """Batches reach the writer in the order they were read, however long each took to verify."""
        while (item := await self._verifying.get()) is not None:
            batch, task = item
            self._committing.put_nowait((batch, self._ingest.admit(await task, self)))
        self._committing.put_nowait(None)

    async def _answering(self) -> None:
        while (item := await self._committing.get()) is not None:
            batch, future = item
            result = await future
            if not result.waited:
                seconds = time.perf_counter() - batch.read_at
                self._ingest._metrics.ack_seconds.observe(seconds)
            state = None
            if batch.sealed:
                state = await self._sealed(result.next_number - 1)
            await self._write(BatchAnswer(batch.batch_id, result.answers, state))
            self._window.release()

    async def _sealed(self, number: int) -> LogState:
        seconds = self._ingest._seal_wait
        try:
            async with asyncio.timeout(seconds):
                return await self._ingest._board.sealed(number)
        except TimeoutError:
            raise ServiceError(
                Reason.UNAVAILABLE,
                f"the batch is durable, but was not sealed within {seconds:g} s; do not resend, ask "
                "for its proof later",
            ) from None


def _first(error: BaseException) -> BaseException:
    """The first error of a group, out of all its wrappings."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _retrieve(future: asyncio.Future[BatchResult]) -> None:
    if not future.cancelled():
        future.exception()


def _settle(future: asyncio.Future[T], value: T | ServiceError) -> None:
    """Give a future its result or error, unless its stream is gone."""
    if future.done():
        return
    if isinstance(value, ServiceError):
        future.set_exception(value)
    else:
        future.set_result(value)


def _invalid(message: str, want: str, got: str) -> ServiceError:
    return ServiceError(Reason.INVALID_ARGUMENT, message, want=want, got=got)
