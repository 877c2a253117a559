"""Rows in memory: loaded once, loaded again when they grew, dropped by age, bounded by bytes."""

from __future__ import annotations

import pytest

from ledgerd.subtree_cache import SubtreeCache
from receiptledger.core.errors import EvidenceError

ROW = bytes(range(32)) * 8


class Rows:
    """A loader that counts."""

    def __init__(self, row: bytes = ROW) -> None:
        self.row = row
        self.loads = 0

    def __call__(self) -> bytes:
        self.loads += 1
        return self.row


def test_a_row_is_loaded_once() -> None:
    cache, rows = SubtreeCache(10_000), Rows()
    first = cache.get("a", 8, rows)
    assert cache.get("a", 8, rows) is first
    assert cache.get("a", 1, rows) is first
    assert rows.loads == 1


def test_a_row_that_grew_is_loaded_again_when_more_is_needed() -> None:
    cache, rows = SubtreeCache(10_000), Rows(ROW[:64])
    assert cache.get("a", 2, rows).width == 2
    rows.row = ROW
    assert cache.get("a", 2, rows).width == 2
    assert cache.get("a", 3, rows).width == 8
    assert rows.loads == 2


def test_the_least_recently_used_row_goes_first() -> None:
    size = SubtreeCache(1).get("x", 8, Rows()).size
    cache = SubtreeCache(3 * size)
    rows = {name: Rows() for name in "abcd"}
    for name in "abc":
        cache.get(name, 8, rows[name])
    cache.get("a", 8, rows["a"])
    cache.get("d", 8, rows["d"])
    for name in "acd":
        cache.get(name, 8, rows[name])
    assert {name: one.loads for name, one in rows.items()} == {"a": 1, "b": 1, "c": 1, "d": 1}
    cache.get("b", 8, rows["b"])
    assert rows["b"].loads == 2


@pytest.mark.parametrize("limit", [1, 500, 2_000])
def test_bytes_are_bounded_and_the_newest_row_is_always_kept(limit: int) -> None:
    cache = SubtreeCache(limit)
    for number in range(20):
        made = cache.get(number, 8, Rows(ROW[: 32 * (1 + number % 8)]))
        assert cache._bytes == sum(row.size for row in cache._rows.values())
        assert cache._bytes <= max(limit, made.size)
        assert cache._rows[number] is made


def test_a_grown_row_counts_once() -> None:
    cache = SubtreeCache(10_000)
    cache.get("a", 1, Rows(ROW[:64]))
    made = cache.get("a", 8, Rows())
    assert cache._bytes == made.size


def test_a_torn_row_is_not_kept() -> None:
    cache, rows = SubtreeCache(10_000), Rows(ROW[:33])
    for _ in range(2):
        with pytest.raises(EvidenceError):
            cache.get("a", 1, rows)
    assert rows.loads == 2
