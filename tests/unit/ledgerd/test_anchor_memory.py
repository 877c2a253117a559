"""Memory stays flat over a thousand rounds with a TSA that misbehaves in every way in turn."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import tracemalloc
from typing import TYPE_CHECKING, cast

import pytest
import structlog

from ledgerd.store.rocks import RocksStore
from tests.helpers.anchor_world import FakeTsa, World
from tests.helpers.sync_ledger import SyncLedger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ledgerd.store.memory import MemoryStore

MODES = (
    "other nonce", "down", "garbage", "other message", "ok", "busy", "other tsa", "rejection", "bug",
    "replay",
)  # fmt: skip
WARM, ROUNDS = 200, 1_000
ALLOWED = 192 * 1024  # bytes; one kept response a round would be over 2 MB
KEPT = 20


@pytest.fixture
def quiet() -> Iterator[None]:
    """Thousands of failures are logged; printing them is not what is measured."""
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent)
    yield
    structlog.reset_defaults()


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_memory_is_flat_over_a_thousand_rounds(tmp_path: Path) -> None:
    """Rounds are forced, so that no breaker spares the anchorer any of them. The store is on disk."""

    async def scenario(store: RocksStore) -> None:
        ledger = SyncLedger(cast("MemoryStore", store))
        bad, good = FakeTsa("bad"), FakeTsa("good")
        async with World(bad, good, ledger=ledger, max_quarantined=KEPT) as world:
            modes = itertools.cycle(MODES)

            async def rounds(count: int) -> None:
                for _ in range(count):
                    bad.mode = next(modes)
                    world.now += 400  # beyond what "busy" asks for
                    world.grow()
                    await world.anchorer.anchor_now()
                    world.anchorer.measure(world.now)
                    # What the tests themselves remember.
                    bad.seen.clear()
                    good.seen.clear()
                    ledger.promises.receipts.clear()
                    ledger.promises.published.clear()

            await rounds(WARM)
            gc.collect()
            tracemalloc.start()
            try:
                await rounds(ROUNDS)
                gc.collect()
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            print(f"held after {ROUNDS} rounds: {held} bytes")
            assert held < ALLOWED
            assert len(world.records("good")) == WARM + ROUNDS
            assert len(world.quarantined()) == KEPT
            assert len(world.anchorer._growth) <= 1_024
            assert len(world.anchorer._outcomes.lives) <= 4
            assert world.anchorer._tasks == {}
            stored = len(world.records("bad"))
            assert stored == (WARM + ROUNDS) // len(MODES)

    store = RocksStore.open(tmp_path / "db")
    try:
        asyncio.run(scenario(store))
    finally:
        store.close()
