"""The one thread that commits: admissions of all streams in groups, seals, and what anchoring keeps.

Everything that changes durable state passes through :meth:`Writer.step`, one at a time, so heads, the
right edge of the tree and what is unsealed each have one owner. An answer leaves only after the commit
that makes it true has returned. A duplicate's answer needs that too: it says the receipt is durable.
A batch with receipts that are ahead of their chain is answered when those are settled (`parking`).

When a commit fails its outcome is unknown. Every answer of that group, and of the batches that wait,
becomes UNAVAILABLE, what is remembered of the store is dropped, and the next step first believes the
store again. Contradictions between store, guard and key are fatal, and so is a failed sync, after which
no commit can be believed: the process stops rather than half-work.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from ledgerd.parking import Held
from ledgerd.store.interface import Changes, LogState, StoreError, StoreFailedError
from receiptledger.core.errors import Reason, ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ledgerd.admission import Admission, Answer, Item, Plan
    from ledgerd.metrics import Metrics
    from ledgerd.parking import Parked, Parking
    from ledgerd.sequencer import Sequencer

T = TypeVar("T")

__all__ = ["BatchJob", "BatchResult", "CommitJob", "ForsakeJob", "SealJob", "UnparkJob", "Writer"]

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class BatchResult:
    """What became of one batch.

    Attributes:
        answers: of its receipts.
        next_number: the admission number below which it is durable.
        waited: whether a receipt of it was parked, so that its time says nothing about this daemon.
    """

    answers: list[Answer]
    next_number: int
    waited: bool = False


@dataclass(slots=True)
class BatchJob:
    """One verified batch.

    Attributes:
        items: its receipts.
        done: gets its result, or the error that befell its group.
        owner: the stream it came by; what is parked of it is dropped when that ends.
    """

    items: Sequence[Item]
    done: Callable[[BatchResult | ServiceError], None]
    owner: object = None


@dataclass(slots=True)
class SealJob:
    """Seal now; `done` gets the new state, None when nothing was unsealed, or the error."""

    done: Callable[[LogState | ServiceError | None], None]


@dataclass(slots=True)
class CommitJob:
    """A commit without receipts; `done` gets None when it is durable, or the error.

    Attributes:
        changes: intents, anchors, blobs and refused answers, nothing else.
    """

    changes: Changes
    done: Callable[[ServiceError | None], None]

    def __post_init__(self) -> None:
        other = self.changes
        if (
            other.admitted
            or other.heads
            or other.marks
            or other.keys
            or other.forks
            or other.sealed
        ):
            # Admission and sequencer would not know of them.
            raise ValueError("receipts, keys and seals have jobs of their own")


@dataclass(slots=True)
class ForsakeJob:
    """A stream is gone: what is parked of its batches is dropped."""

    owner: object


@dataclass(slots=True)
class UnparkJob:
    """The daemon drains: what is parked gets its answers now, and nothing is parked any more."""


Job = BatchJob | SealJob | CommitJob | ForsakeJob | UnparkJob


class _Committer(Protocol):
    """What the writer itself asks of the store."""

    def commit(self, changes: Changes) -> None: ...


class Writer:
    """Runs jobs in the order they were submitted.

    Args:
        store: where groups are committed.
        admission: plans groups.
        sequencer: seals.
        parking: what is ahead of its chain; the one of the admission.
        metrics: durations and counts.
        deliver: runs callbacks with their values, on the thread that should see them.
        on_fatal: called once, from the writer thread, when the process must stop.
        max_group_receipts: receipts of one commit.
        seal_max_leaves: unsealed chains that trigger a seal at once.
    """

    def __init__(
        self,
        store: _Committer,
        admission: Admission,
        sequencer: Sequencer,
        parking: Parking,
        metrics: Metrics,
        *,
        deliver: Callable[[list[Callable[[], None]]], None],
        on_fatal: Callable[[BaseException], None],
        max_group_receipts: int,
        seal_max_leaves: int,
    ) -> None:
        self._store = store
        self._admission = admission
        self._sequencer = sequencer
        self._parking = parking
        self._metrics = metrics
        self._deliver = deliver
        self._on_fatal = on_fatal
        self._max_group = max_group_receipts
        self._seal_max = seal_max_leaves
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        # True while something may be in the store that no successful commit vouches for.
        self._doubt = False
        self._synced = False
        self._failed: BaseException | None = None  # why this process must stop

    @property
    def healthy(self) -> bool:
        """Whether the newest commit succeeded. Safe from any thread."""
        return not self._doubt

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what was submitted, then end the thread. Blocks."""
        self._jobs.put(None)
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Queue a job; from any thread. The callers bound how many are open."""
        self._jobs.put(job)

    def _run(self) -> None:
        carry: Job | None = None
        while True:
            job = carry if carry is not None else self._next()
            if job is None:
                return
            try:
                carry = self._take(job)
            except BaseException as error:
                self._failed = error
            if self._failed is not None:
                self._on_fatal(self._failed)
                return

    def _next(self) -> Job | None:
        """The next job; a batch without receipts when first somebody's wait is over."""
        try:
            return self._jobs.get(timeout=self._parking.seconds_left())
        except queue.Empty:
            return BatchJob((), lambda _: None)

    def _take(self, job: Job) -> Job | None:
        """Run a job, or a group: this batch and those waiting behind it. Returns the job it met."""
        if not isinstance(job, BatchJob):
            self._take_other(job)
            return None
        group, receipts = [job], len(job.items)
        following: Job | None = None
        while receipts < self._max_group:
            try:
                following = self._jobs.get_nowait()
            except queue.Empty:
                break
            if not isinstance(following, BatchJob):
                if following is None:
                    self._jobs.put(None)  # stop after what came before it
                break
            group.append(following)
            receipts += len(following.items)
            following = None
        self.step(group, time.time_ns() // 1_000)
        return following

    def _take_other(self, job: SealJob | CommitJob | ForsakeJob | UnparkJob) -> None:
        if isinstance(job, SealJob):
            self.seal(job)
        elif isinstance(job, CommitJob):
            self.commit(job)
        elif isinstance(job, ForsakeJob):
            self.forsake(job)
        else:
            self.unpark()

    def step(self, group: Sequence[BatchJob], now: int) -> None:
        """Commit one group and answer it.

        Args:
            group: verified batches in the order they arrived; none when only waits are over.
            now: microseconds since the epoch.
        """
        try:
            self._settle_doubt()
            plan = self._admission.plan([job.items for job in group], now)
            self._commit(plan.changes)
        except (StoreError, OSError) as error:
            held = self._parking.drop_all()
            self._count_parked(["dropped"] * sum(batch.left for batch in held))
            self._fail([*(batch.done for batch in held), *(job.done for job in group)], error)
            return
        self._admission.adopt(plan)
        self._sequencer.observe(plan.changes)
        self._metrics.unsealed_receipts.set(self._sequencer.unsealed_receipts)
        ready = [
            Held(job.done, answers, job.owner)
            for job, answers in zip(group, plan.answers, strict=True)
        ]
        if plan.parked or plan.settled or self._parking.turned_away:
            ready = self._sort_out(ready, plan)
        self._metrics.admitted([batch.answers for batch in ready])
        number = plan.next_number
        self._deliver(
            [_call(one.done, BatchResult(one.answers, number, one.waited)) for one in ready]
        )
        if self._sequencer.unsealed_chains >= self._seal_max:
            self.seal(SealJob(lambda _: None))

    def _sort_out(self, group: Sequence[Held], plan: Plan) -> list[Held]:
        """The batches to answer now: earlier ones that waited, then those of this group."""
        waiting: dict[int, list[Parked]] = {}
        settled = set(map(id, plan.settled))
        for one in plan.parked:
            if id(one) not in settled:
                waiting.setdefault(one.batch, []).append(one)
        ready = self._parking.release(plan.settled)
        for number, batch in enumerate(group):
            if number in waiting:
                self._parking.hold(batch, waiting[number])
            else:
                ready.append(batch)
        self._count_parked([one.result for one in plan.settled])
        return ready

    def _count_parked(self, results: Sequence[str]) -> None:
        parking = self._parking
        self._metrics.parked(parking.receipts, parking.bytes)
        self._metrics.unparked(results)
        self._metrics.unparked(["no_room"] * parking.turned_away)
        parking.turned_away = 0

    def forsake(self, job: ForsakeJob) -> None:
        """Drop what is parked of a stream that is gone."""
        self._count_parked(["dropped"] * self._parking.forsake(job.owner))

    def unpark(self) -> None:
        """Answer all that is parked, and park nothing from now on."""
        self._parking.close()
        if self._parking.receipts:
            self.step([], time.time_ns() // 1_000)

    def seal(self, job: SealJob) -> None:
        """Seal what is unsealed and answer."""
        try:
            self._settle_doubt()
            started = time.perf_counter()
            state = self._sequencer.step()
        except (StoreError, OSError) as error:
            self._fail([job.done], error)
            return
        if state is not None:
            self._metrics.sealed(state.size, time.time(), time.perf_counter() - started)
            self._metrics.unsealed_receipts.set(self._sequencer.unsealed_receipts)
        self._deliver([_call(job.done, state)])

    def commit(self, job: CommitJob) -> None:
        """Commit what is no receipt and answer."""
        try:
            self._settle_doubt()
            self._commit_now(job.changes)
            self._sequencer.observe(job.changes)
        except (StoreError, OSError) as error:
            self._fail([job.done], error)
            return
        self._deliver([_call(job.done, None)])

    def _commit(self, changes: Changes) -> None:
        """Commit, also for a group that adds nothing while no commit vouches for what is stored."""
        if self._synced and not (changes.admitted or changes.forks or changes.keys):
            return
        self._commit_now(changes)

    def _commit_now(self, changes: Changes) -> None:
        started = time.perf_counter()
        self._store.commit(changes)
        self._metrics.store_sync_seconds.observe(time.perf_counter() - started)
        self._synced = True

    def _settle_doubt(self) -> None:
        if self._doubt:
            self._admission.forget()
            self._sequencer.reload()
            self._metrics.unsealed_receipts.set(self._sequencer.unsealed_receipts)
            self._doubt = False

    def _fail(self, callbacks: Sequence[Callable[[ServiceError], None]], error: Exception) -> None:
        """The outcome of a commit is unknown: say so, and doubt everything remembered."""
        self._doubt, self._synced = True, False
        if isinstance(error, StoreFailedError):
            self._failed = error  # every later commit would fail: let a restart read the disk back
        self._metrics.store_errors.inc()
        _log.error("commit failed, outcome unknown", error=str(error))
        answer = ServiceError(
            Reason.UNAVAILABLE,
            "the store could not commit; whether it did is unknown. Ask for the chain head, then "
            "resend from there",
        )
        self._deliver([_call(done, answer) for done in callbacks])


def _call(done: Callable[[T], None], value: T) -> Callable[[], None]:
    return lambda: done(value)
