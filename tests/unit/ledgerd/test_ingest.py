"""One stream's pipeline: the order of batches, the window, acknowledgement levels, drain and failure.

The writer is a fake that answers when the test says so; everything is driven by events, never by time.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from receiptledger.core.canonical import Limits
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.profile import Profiles

from ledgerd.admission import Answer
from ledgerd.board import Board
from ledgerd.ingest import MAX_KEY_HINTS, Batch, BatchAnswer, Ingest
from ledgerd.keyring import Keyring
from ledgerd.metrics import Metrics
from ledgerd.store.interface import LogState
from ledgerd.verification import Refused, Verified
from ledgerd.writer import BatchJob, BatchResult, SealJob
from tests.helpers.agents import Agent
from tests.helpers.cases import named

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ledgerd.writer import Job

RAWS = Agent().receipts(4)
UNAVAILABLE = ServiceError(Reason.UNAVAILABLE, "the store could not commit")


@dataclass
class FakeWriter:
    """Keeps jobs until the test answers them."""

    jobs: list[Job] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        self.came.set()

    async def wait(self, count: int) -> None:
        """Until as many jobs came in all."""
        while len(self.jobs) < count:
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 30)

    def answer(self, at: int, error: ServiceError | None = None) -> None:
        """Settle a batch: every receipt accepted."""
        job = self.jobs[at]
        assert isinstance(job, BatchJob)
        self.number += len(job.items)
        answers = [Answer(None, False, n, b"", b"") for n in range(len(job.items))]
        job.done(error or BatchResult(answers, self.number))


class Bench:
    """An Ingest with one stream: batches are put in, answers come out."""

    def __init__(
        self, *, window: int = 2, max_batch: int = 3, threads: int = 2, seal_wait: float = 30.0
    ) -> None:
        self.writer = FakeWriter()
        self.board = Board()
        self.metrics = Metrics()
        self.ingest = Ingest(
            writer=self.writer,
            board=self.board,
            keyring=Keyring(pinning=True, enrolled={}, pinned=lambda chain: (), cache_size=10),
            profiles=Profiles.builtin(),
            metrics=self.metrics,
            limits=Limits(),
            max_batch_receipts=max_batch,
            max_batches_in_flight=window,
            seal_wait_seconds=seal_wait,
            verify_threads=threads,
        )
        self.incoming: asyncio.Queue[Batch | None] = asyncio.Queue()
        self.reads = 0
        self.answers: list[BatchAnswer] = []
        self.answered = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def read(self) -> Batch | None:
        self.reads += 1
        return await self.incoming.get()

    async def write(self, answer: BatchAnswer) -> None:
        await self.may_write.wait()
        self.answers.append(answer)
        self.answered.set()

    def open(self) -> asyncio.Task[bool]:
        return asyncio.create_task(self.ingest.serve(self.read, self.write))

    def put(self, *batches: Batch | None) -> None:
        for batch in batches:
            self.incoming.put_nowait(batch)

    async def wait_answers(self, count: int) -> list[int]:
        """Ids of the answers, once there are as many."""
        while len(self.answers) < count:
            self.answered.clear()
            await asyncio.wait_for(self.answered.wait(), 30)
        return [answer.batch_id for answer in self.answers]


def batch(number: int, raws: list[bytes] | None = None, **given: object) -> Batch:
    return Batch(number, RAWS[:1] if raws is None else raws, **given)  # type: ignore[arg-type]


async def turns() -> None:
    """Let everything go on that can; no time passes."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(work: Coroutine[object, object, None], *benches: Bench) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    try:
        asyncio.run(bounded())
    finally:
        for bench in benches:
            bench.ingest.close()


def state(size: int, sealed_number: int) -> LogState:
    return LogState(size, bytes(32), b"note", sealed_number)


def test_a_stream_from_its_first_batch_to_its_last_answer() -> None:
    bench = Bench()

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(7, RAWS[:2]), batch(8, [b"x"]), None)
        await bench.writer.wait(2)
        first, second = bench.writer.jobs
        assert isinstance(first, BatchJob)
        assert isinstance(second, BatchJob)
        assert [type(item) for item in first.items] == [Verified, Verified]
        assert [type(item) for item in second.items] == [Refused]
        bench.writer.answer(0)
        bench.writer.answer(1)
        assert await bench.wait_answers(2) == [7, 8]
        assert [len(answer.answers) for answer in bench.answers] == [2, 1]
        assert [answer.state for answer in bench.answers] == [None, None]
        assert await stream is False
        assert bench.metrics.value("ledger_ack_seconds_count") == 2

    run(work(), bench)


def test_answers_keep_the_order_of_the_batches() -> None:
    bench = Bench(window=4)

    async def work() -> None:
        stream = bench.open()
        bench.put(*(batch(n) for n in range(4)), None)
        await bench.writer.wait(4)
        for at in (3, 1, 0, 2):
            bench.writer.answer(at)
        assert await bench.wait_answers(4) == [0, 1, 2, 3]
        assert await stream is False

    run(work(), bench)


def test_a_batch_that_takes_long_to_verify_keeps_its_place() -> None:
    bench = Bench(threads=1)
    go_on = threading.Event()

    async def work() -> None:
        bench.ingest._pool.submit(go_on.wait, 60)
        stream = bench.open()
        problem = ServiceError(Reason.INVALID_ARGUMENT, "known at once")
        bench.put(batch(1, RAWS[:2]), batch(2, problem=problem), None)
        await turns()
        assert bench.reads == 2
        assert bench.writer.jobs == []
        go_on.set()
        await bench.writer.wait(2)
        assert [len(job.items) for job in bench.writer.jobs if isinstance(job, BatchJob)] == [2, 1]
        bench.writer.answer(0)
        bench.writer.answer(1)
        assert await stream is False

    try:
        run(work(), bench)
    finally:
        go_on.set()


# The window


def test_the_stream_is_not_read_while_too_many_batches_are_unanswered() -> None:
    bench = Bench(window=3)

    async def work() -> None:
        stream = bench.open()
        bench.put(*(batch(n) for n in range(10)), None)
        await bench.writer.wait(3)
        await turns()
        assert (bench.reads, len(bench.writer.jobs)) == (3, 3)
        for at in range(10):
            bench.writer.answer(at)
            await bench.wait_answers(at + 1)
            await bench.writer.wait(min(at + 4, 10))
            await turns()
            assert bench.reads == min(at + 4, 11)
        assert await stream is False
        assert (bench.metrics.value("ledger_stream_paused_seconds_total") or 0) > 0

    run(work(), bench)


def test_an_answer_that_nobody_takes_holds_its_place_in_the_window() -> None:
    bench = Bench(window=2)

    async def work() -> None:
        bench.may_write.clear()
        stream = bench.open()
        bench.put(*(batch(n) for n in range(5)), None)
        await bench.writer.wait(2)
        bench.writer.answer(0)
        bench.writer.answer(1)
        await turns()
        assert (bench.reads, len(bench.writer.jobs)) == (2, 2)
        bench.may_write.set()
        for at in (2, 3, 4):
            await bench.writer.wait(at + 1)
            bench.writer.answer(at)
        assert await bench.wait_answers(5) == [0, 1, 2, 3, 4]
        assert await stream is False

    run(work(), bench)


# Levels


def test_a_sealed_batch_waits_for_the_checkpoint_that_covers_it() -> None:
    bench = Bench(window=4)

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1, RAWS[:2], sealed=True), batch(2), None)
        await bench.writer.wait(2)
        bench.writer.answer(0)  # admission numbers 0 and 1
        bench.writer.answer(1)
        bench.board.post(state(0, 0))
        bench.board.post(state(1, 1))
        await turns()
        assert bench.answers == []
        covering = state(2, 2)
        bench.board.post(covering)
        assert await bench.wait_answers(2) == [1, 2]
        assert bench.answers[0].state is covering
        assert bench.answers[1].state is None
        assert await stream is False

    run(work(), bench)


def test_the_ack_histogram_does_not_count_the_wait_for_a_seal() -> None:
    bench = Bench()

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1, sealed=True), None)
        await bench.writer.wait(1)
        bench.writer.answer(0)
        await turns()
        assert bench.metrics.value("ledger_ack_seconds_count") == 1
        bench.board.post(state(2, 1))
        assert await stream is False

    run(work(), bench)


def test_a_seal_that_does_not_come_ends_the_stream_and_says_the_batch_is_durable() -> None:
    bench = Bench(seal_wait=0.001)

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1, sealed=True))
        await bench.writer.wait(1)
        bench.writer.answer(0)
        with pytest.raises(
            ServiceError, match=r"durable, but was not sealed within 0\.001 s"
        ) as it:
            await stream
        assert it.value.reason is Reason.UNAVAILABLE
        assert bench.answers == []

    run(work(), bench)


# What is wrong with a whole batch


@pytest.mark.parametrize(
    ("given", "want"),
    named(
        {
            "too many receipts": ({"raws": [b"x"] * 4}, "at most 3"),
            "too many hints": (
                {"key_hints": [bytes(32)] * (MAX_KEY_HINTS + 1)},
                f"at most {MAX_KEY_HINTS}",
            ),
            "a short hint": ({"key_hints": [bytes(32), bytes(31)]}, "32 bytes"),
            "a long hint": ({"key_hints": [bytes(33)]}, "32 bytes"),
            "an empty hint": ({"key_hints": [b""]}, "32 bytes"),
            "found by the caller": (
                {"problem": ServiceError(Reason.INVALID_ARGUMENT, "level", want="a level")},
                "a level",
            ),
        }
    ),
)
def test_every_receipt_of_a_batch_beyond_the_limits_is_refused(
    given: dict[str, object], want: str
) -> None:
    bench = Bench()

    async def work() -> None:
        items = await bench.ingest.verify(batch(1, **given))  # type: ignore[arg-type]
        assert len(items) == len(cast("list[bytes]", given.get("raws", RAWS[:1])))
        for item in items:
            assert isinstance(item, Refused)
            assert item.error.reason is Reason.INVALID_ARGUMENT
            assert item.error.want == want
            assert len(item.receipt_hash) == 32

    run(work(), bench)


def test_batches_at_the_limits_are_fine() -> None:
    bench = Bench()

    async def work() -> None:
        items = await bench.ingest.verify(batch(1, RAWS[:3], key_hints=[bytes(32)] * MAX_KEY_HINTS))
        assert [type(item) for item in items] == [Verified] * 3

    run(work(), bench)


# Ends


def test_draining_answers_what_was_read_and_reads_no_more() -> None:
    bench = Bench(window=2)

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1))
        await bench.writer.wait(1)
        bench.ingest.draining.set()
        await turns()
        bench.put(batch(2))
        await turns()
        assert len(bench.writer.jobs) == 1
        assert not stream.done()
        bench.writer.answer(0)
        assert await stream is True
        assert await bench.wait_answers(1) == [1]

    run(work(), bench)


def test_a_stream_that_waits_for_its_window_is_drained_too() -> None:
    bench = Bench(window=1)

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1))
        await bench.writer.wait(1)
        bench.ingest.draining.set()
        bench.writer.answer(0)
        assert await stream is True

    run(work(), bench)


def test_a_stream_opened_while_draining_ends_at_once() -> None:
    bench = Bench()

    async def work() -> None:
        bench.ingest.draining.set()
        assert await bench.open() is True

    run(work(), bench)


def test_an_unknown_outcome_ends_the_stream_after_the_answers_before_it() -> None:
    bench = Bench(window=3)

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1), batch(2), batch(3))
        await bench.writer.wait(3)
        bench.writer.answer(0)
        bench.writer.answer(1, UNAVAILABLE)
        bench.writer.answer(2)
        with pytest.raises(ServiceError) as caught:
            await stream
        assert caught.value is UNAVAILABLE
        assert await bench.wait_answers(1) == [1]

    run(work(), bench)


def test_a_cancelled_stream_cancels_no_commit() -> None:
    bench = Bench(window=3)

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1), batch(2), batch(3))
        await bench.writer.wait(3)
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream
        bench.writer.answer(0)  # nobody waits: no error, no warning
        bench.writer.answer(1, UNAVAILABLE)
        bench.writer.answer(2)
        await turns()
        assert bench.answers == []

    run(work(), bench)


def test_an_error_nobody_waits_for_is_no_surprise() -> None:
    bench = Bench()

    async def work() -> None:
        future = bench.ingest.commit([])
        bench.writer.answer(0, UNAVAILABLE)
        await turns()
        assert future.done()
        del future

    run(work(), bench)


# Seals and barriers


def test_a_seal_is_asked_of_the_writer() -> None:
    bench = Bench()

    async def work() -> None:
        future = bench.ingest.seal()
        (job,) = bench.writer.jobs
        assert isinstance(job, SealJob)
        new = state(3, 3)
        job.done(new)
        assert await future is new
        failing = bench.ingest.seal()
        cast("SealJob", bench.writer.jobs[1]).done(UNAVAILABLE)
        with pytest.raises(ServiceError):
            await failing

    run(work(), bench)


def test_a_barrier_returns_once_the_writer_has_answered() -> None:
    bench = Bench()

    async def work() -> None:
        waiting = asyncio.create_task(bench.ingest.barrier())
        await bench.writer.wait(1)
        assert not waiting.done()
        bench.writer.answer(0)
        await waiting
        failing = asyncio.create_task(bench.ingest.barrier())
        await bench.writer.wait(2)
        bench.writer.answer(1, UNAVAILABLE)
        with pytest.raises(ServiceError):
            await failing

    run(work(), bench)
