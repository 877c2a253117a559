"""What is published, and who waits for the next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from ledgerd.board import Board
from ledgerd.store.interface import LogState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


def state(size: int, sealed_number: int | None = None) -> LogState:
    return LogState(size, bytes(32), b"note", size if sealed_number is None else sealed_number)


async def turns() -> None:
    """Let everything go on that can; no time passes."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_newest_state_stays() -> None:
    async def run() -> None:
        board = Board()
        seen = [board.state]
        assert seen == [None]
        for size, newest in ((0, 0), (3, 3), (2, 3), (3, 3), (5, 5)):
            board.post(state(size))
            assert board.state is not None
            assert board.state.size == newest
        first = board.state
        board.post(state(5, 99))
        assert board.state is first

    asyncio.run(run())


def test_waiting_for_a_seal_ends_when_it_covers_the_receipt() -> None:
    async def run() -> None:
        board = Board()
        waits = {n: asyncio.ensure_future(board.sealed(n)) for n in (-1, 0, 3, 4)}
        await turns()
        assert not any(task.done() for task in waits.values())
        board.post(state(0))
        await turns()
        assert [n for n, task in waits.items() if task.done()] == [-1]
        board.post(state(2, 4))
        await turns()
        assert [n for n, task in waits.items() if task.done()] == [-1, 0, 3]
        board.post(state(3, 5))
        assert (await asyncio.wait_for(waits[4], 5)).size == 3
        assert (await asyncio.wait_for(board.sealed(2), 5)).size == 3

    asyncio.run(run())


def test_a_watcher_sees_the_newest_at_once_then_each_later_one() -> None:
    async def run() -> None:
        board = Board()
        watching = cast("AsyncGenerator[LogState, None]", board.watch())
        following = asyncio.ensure_future(anext(watching))
        await turns()
        assert not following.done()
        board.post(state(0))
        assert (await asyncio.wait_for(following, 5)).size == 0
        board.post(state(1))
        assert (await asyncio.wait_for(anext(watching), 5)).size == 1
        late = cast("AsyncGenerator[LogState, None]", board.watch())
        assert (await asyncio.wait_for(anext(late), 5)).size == 1
        await watching.aclose()
        await late.aclose()

    asyncio.run(run())


def test_a_slow_watcher_skips_and_never_goes_back() -> None:
    async def run() -> None:
        board = Board()
        watching = cast("AsyncGenerator[LogState, None]", board.watch())
        board.post(state(1))
        assert (await asyncio.wait_for(anext(watching), 5)).size == 1
        for size in (2, 3, 4):
            board.post(state(size))
        assert (await asyncio.wait_for(anext(watching), 5)).size == 4
        following = asyncio.ensure_future(anext(watching))
        board.post(state(3))
        await turns()
        assert not following.done()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        await watching.aclose()

    asyncio.run(run())


def test_many_wait_for_one_seal() -> None:
    async def run() -> None:
        board = Board()
        waits = [asyncio.ensure_future(board.sealed(n)) for n in range(50)]
        await turns()
        board.post(state(9, 50))
        assert {s.size for s in await asyncio.wait_for(asyncio.gather(*waits), 5)} == {9}

    asyncio.run(run())
