"""How a stream ends: drained, cancelled, or with an unknown outcome; seals and barriers beside it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ledgerd.writer import BatchJob, BatchResult, ForsakeJob, SealJob, UnparkJob
from receiptledger.core.errors import Reason, ServiceError
from tests.helpers.ingest_bench import UNAVAILABLE, Bench, batch, run, state, turns
from tests.helpers.polling import wait_for


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


def test_a_refusal_ends_the_stream_after_the_answers_before_it() -> None:
    """While anchors are overdue no receipt is taken; what came before is answered, reads go on."""
    bench = Bench(window=3)
    refused = ("ledger_receipts_rejected_total", {"reason": "unanchored"})

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1))
        await bench.writer.wait(1)
        bench.refused = ServiceError(Reason.UNANCHORED, "anchors are overdue")
        bench.put(batch(2), batch(3))
        both = "threads have verified both batches, and they are refused"
        await asyncio.to_thread(wait_for, lambda: bench.metrics.value(*refused) == 2, both)
        assert not stream.done(), "the first batch is not answered yet"
        barrier = asyncio.ensure_future(bench.ingest.barrier())
        await bench.writer.wait(2)
        bench.writer.answer(1)
        await barrier
        bench.writer.answer(0)
        with pytest.raises(ServiceError) as caught:
            await stream
        assert caught.value.reason is Reason.UNANCHORED
        assert await bench.wait_answers(1) == [1]
        kinds = [type(job) for job in bench.writer.jobs]
        assert kinds == [BatchJob, BatchJob, ForsakeJob], "nothing refused reached the writer"
        assert bench.metrics.value("ledger_receipts_total", {"result": "rejected"}) == 2
        bench.refused = None
        again = bench.open()
        bench.put(batch(4))
        await bench.writer.wait(4)
        bench.writer.answer(3)
        assert await bench.wait_answers(2) == [1, 4]
        bench.ingest.draining.set()
        assert await again is True

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
        *jobs, last = bench.writer.jobs
        assert isinstance(last, ForsakeJob)
        assert {id(job.owner) for job in jobs if isinstance(job, BatchJob)} == {id(last.owner)}
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


def test_a_stream_that_ends_well_forsakes_nothing() -> None:
    bench = Bench()

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1), None)
        await bench.writer.wait(1)
        bench.writer.answer(0)
        assert await stream is False
        assert [type(job) for job in bench.writer.jobs] == [BatchJob]

    run(work(), bench)


def test_draining_ends_all_waits() -> None:
    bench = Bench()

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1))
        await bench.writer.wait(1)
        bench.ingest.drain()
        assert isinstance(bench.writer.jobs[1], UnparkJob)
        bench.writer.answer(0)
        assert await stream is True
        assert await bench.wait_answers(1) == [1]

    run(work(), bench)


def test_a_batch_that_waited_for_others_does_not_count_as_slow() -> None:
    bench = Bench()

    async def work() -> None:
        stream = bench.open()
        bench.put(batch(1), batch(2), None)
        await bench.writer.wait(2)
        for at, waited in enumerate((True, False)):
            job = bench.writer.jobs[at]
            assert isinstance(job, BatchJob)
            job.done(BatchResult([], 1, waited))
        assert await stream is False
        assert bench.metrics.value("ledger_ack_seconds_count") == 1

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
