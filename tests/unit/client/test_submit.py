"""Submitting foreign receipts against a ledger in memory: a result for each, bounded, never silent."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from receiptledger.backoff import Retry
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.sender import SendOptions
from receiptledger.submit import SubmitResult, submit
from receiptledger.wire import Answer
from tests.helpers.fake_link import FakeLedger, FakeLink, Fault, down

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

OPTIONS = SendOptions(linger_ms=0, batch_receipts=4, retry=Retry(first_s=0, attempts=3))


def run(work: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work
        # Whatever was started has ended.
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(bounded())


async def collect(
    link: FakeLink, raws: object, options: SendOptions = OPTIONS
) -> list[SubmitResult]:
    return [result async for result in submit(link, raws, options)]  # type: ignore[arg-type]


def receipts(count: int) -> list[bytes]:
    return [b"receipt %d" % n for n in range(count)]


def refuse_odd(raw: bytes) -> Answer | None:
    if int(raw.split()[1]) % 2:
        return Answer(Reason.BAD_SIGNATURE, False, 0, sha256(raw).digest(), None, "bad")
    return None


def test_a_result_for_each_in_order() -> None:
    async def work() -> None:
        link = FakeLink(FakeLedger(refuse=refuse_odd))
        results = await collect(link, receipts(11))
        assert [r.index for r in results] == list(range(11))
        assert [r.raw for r in results] == receipts(11)
        assert [r.answer.outcome for r in results] == ["accepted", "refused"] * 5 + ["accepted"]
        assert link.ledger.chain == receipts(11)[::2]
        assert link.head_calls == 0
        assert link.streams[0].finished

    run(work())


def test_nothing_to_submit() -> None:
    async def work() -> None:
        link = FakeLink()
        assert await collect(link, []) == []
        assert link.streams == []

    run(work())


def test_a_source_that_takes_its_time() -> None:
    async def work() -> None:
        link = FakeLink()
        go = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"first"
            await go.wait()
            yield b"second"

        seen = []
        async for result in submit(link, slow(), replace(OPTIONS, linger_ms=1)):
            seen.append(result.raw)  # the first comes although the source is not through
            go.set()
        assert seen == [b"first", b"second"]

    run(work())


def test_cuts_become_duplicates() -> None:
    async def work() -> None:
        link = FakeLink(None, Fault(cut_after=1), Fault(cut_after=0))
        results = await collect(link, receipts(10))
        assert [r.index for r in results] == list(range(10))
        outcomes = [r.answer.outcome for r in results]
        assert outcomes[:4] == ["accepted"] * 4
        assert "duplicate" in outcomes[4:]
        assert link.ledger.chain == receipts(10)

    run(work())


def test_too_large_is_refused_here() -> None:
    async def work() -> None:
        link = FakeLink()
        options = replace(OPTIONS, batch_bytes=4_096)
        results = await collect(link, [b"a", bytes(5_000), b"b"], options)
        by_index = {r.index: r.answer for r in results}
        assert by_index[1].reason is Reason.TOO_LARGE
        assert "3072 bytes, got 5000" in by_index[1].detail
        assert by_index[1].receipt_hash == sha256(bytes(5_000)).digest()
        assert link.ledger.chain == [b"a", b"b"]
        assert len(results) == 3

    run(work())


def test_too_large_is_told_at_once() -> None:
    async def work() -> None:
        go = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield bytes(5_000)
            await go.wait()

        async for result in submit(FakeLink(), slow(), replace(OPTIONS, batch_bytes=4_096)):
            assert result.answer.reason is Reason.TOO_LARGE
            go.set()

    run(work())


def test_holds_a_bounded_number() -> None:
    async def work() -> None:
        taken = 0

        def source() -> Iterator[bytes]:
            nonlocal taken
            for raw in receipts(100):
                taken += 1
                yield raw

        given = 0
        async for _ in submit(FakeLink(), source(), replace(OPTIONS, outbox_receipts=8)):
            given += 1
            for _ in range(20):
                await asyncio.sleep(0)
            assert taken - given <= 9  # those held, and the one at hand
        assert given == 100

    run(work())


def test_stopping_early_ends_everything() -> None:
    async def work() -> None:
        link = FakeLink()
        async with aclosing(submit(link, receipts(100), OPTIONS)) as results:
            async for _ in results:
                break
        assert link.streams[0].cancelled

    run(work())


def test_a_failing_source_is_not_swallowed() -> None:
    async def work() -> None:
        def source() -> Iterator[bytes]:
            yield b"one"
            raise RuntimeError("the disk is gone")

        with pytest.raises(RuntimeError, match="the disk is gone"):
            await collect(FakeLink(), source())

    run(work())


def test_giving_up_is_told_while_the_source_waits() -> None:
    async def work() -> None:
        async def stuck() -> AsyncIterator[bytes]:
            yield b"one"
            await asyncio.Event().wait()

        link = FakeLink(None, *(Fault(cut_after=0, lose=True) for _ in range(3)))
        with pytest.raises(ServiceError, match="gave up after 3 failures"):
            await collect(link, stuck())

    run(work())


def test_a_final_failure_is_told() -> None:
    async def work() -> None:
        link = FakeLink(None, Fault(cut_after=0, error=down(None)))
        with pytest.raises(ServiceError, match="away"):
            await collect(link, receipts(3))

    run(work())
