"""One stream's pipeline: the order of batches, the window, acknowledgement levels, drain and failure.

The writer is a fake that answers when the test says so; everything is driven by events, never by time.
"""

from __future__ import annotations

import threading
from typing import cast

import pytest

from ledgerd.ingest import MAX_KEY_HINTS
from ledgerd.verification import Refused, Verified
from ledgerd.writer import BatchJob
from receiptledger.core.errors import Reason, ServiceError
from tests.helpers.cases import named
from tests.helpers.ingest_bench import RAWS, Bench, batch, run, state, turns

HINT_SIZES = "32 bytes (Ed25519) or 65 bytes (ES256) or 1952 bytes (ML-DSA-65)"


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
            "a short hint": ({"key_hints": [bytes(32), bytes(31)]}, HINT_SIZES),
            "a long hint": ({"key_hints": [bytes(33)]}, HINT_SIZES),
            "an empty hint": ({"key_hints": [b""]}, HINT_SIZES),
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
        hints = [bytes(32), bytes(65), bytes(1_952), *[bytes(32)] * (MAX_KEY_HINTS - 3)]
        items = await bench.ingest.verify(batch(1, RAWS[:3], key_hints=hints))
        assert [type(item) for item in items] == [Verified] * 3

    run(work(), bench)
