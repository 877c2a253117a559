"""What every store must do, whatever it is built on."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledgerd.store.interface import (
    Changes,
    Counts,
    ForkRecord,
    Head,
    KeyRecord,
    Mark,
    Segment,
    Store,
    Stored,
    StoreError,
)
from ledgerd.store.memory import MemoryStore
from ledgerd.store.rocks import RocksStore
from receiptledger.core.tile import Frontier, TileId, tile_width
from tests.helpers.changes import EPOCH, Author, chain_of, digest, dump, fork_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

A, B, C = chain_of("a"), chain_of("b"), chain_of("c")
# Neighbours in key order: a scan that is off by one shows another chain's records.
LOWEST, LOW, NEXT, HIGHEST = b"\x00" * 32, b"\x7f" * 32, b"\x7f" * 31 + b"\x80", b"\xff" * 32
EDGES = (LOWEST, LOW, NEXT, HIGHEST)


class Box:
    """A store that can be left and entered again."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = folder / "ledger"
        self.store: Store = RocksStore.open(self.folder) if kind == "rocks" else MemoryStore()

    def reopen(self) -> Store:
        if isinstance(self.store, MemoryStore):
            self.store = self.store.crash()
        else:
            self.store.close()
            self.store = RocksStore.open(self.folder, create=False)
        return self.store


@pytest.fixture(params=["rocks", "memory"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    box = Box(request.param, tmp_path)
    yield box
    box.store.close()


@pytest.fixture
def store(box: Box) -> Store:
    return box.store


@pytest.fixture
def author() -> Author:
    return Author()


def fill(store: Store, author: Author) -> None:
    """Every record kind, sealed and not."""
    store.commit(author.enrol(A, "first"))
    store.commit(author.batch(A, B, A, *EDGES))
    store.commit(Changes(forks=[fork_at(A, 1, b"{}")]))
    store.commit(author.seal())
    store.commit(author.enrol(A, "second", "registered", 2))
    store.commit(author.batch(A, C))


class TestEmpty:
    def test_nothing_is_there(self, store: Store) -> None:
        assert store.next_number() == 0
        assert store.head(A) is None
        assert store.entry(A, 0) is None
        assert list(store.entries(A, 0, 10)) == []
        assert store.position_of(A, digest("x")) is None
        assert store.locate(digest("x")) is None
        assert store.receipt(A, 0) is None
        assert list(store.chains()) == []
        assert store.keys(A) == []
        assert store.forks(A) == []
        assert list(store.marks()) == []
        assert store.segment(A, 0) is None
        assert store.last_segment(A) is None
        assert store.log_state() is None
        assert store.leaves(0, 0) == []
        assert store.tile(TileId(0, 0)) == b""
        assert store.checkpoint(0) is None

    def test_commit_of_nothing(self, box: Box) -> None:
        before = dump(box.store)
        box.store.commit(Changes())
        assert dump(box.store) == before == dump(box.reopen())

    def test_the_first_checkpoint_may_be_of_an_empty_tree(self, box: Box, author: Author) -> None:
        box.store.commit(author.seal())
        state = box.reopen().log_state()
        assert state is not None
        assert (state.size, state.root) == (0, hashlib.sha256().digest())
        assert box.store.checkpoint(0) == state.note


class TestReceipts:
    def test_one_receipt_is_found_by_everything(self, store: Store, author: Author) -> None:
        one = author.receipt(A, content="own", link="own")
        store.commit(author.admit(one))
        assert store.next_number() == 1
        assert store.head(A) == Head(0, one.entry.link_hash, 1)
        assert store.entry(A, 0) == one.entry
        assert store.receipt(A, 0) == Stored(A, 0, one.raw, one.admitted_at)
        assert store.locate(one.entry.receipt_hash) == (A, 0)
        for known in (one.entry.receipt_hash, one.entry.content_hash, one.entry.link_hash):
            assert store.position_of(A, known) == 0

    def test_missing_ones_are_none(self, store: Store, author: Author) -> None:
        store.commit(author.batch(A))
        assert store.entry(A, 1) is None
        assert store.entry(A, 2**63 - 1) is None
        assert store.receipt(A, 1) is None
        assert store.entry(B, 0) is None
        assert store.head(B) is None
        assert store.position_of(A, digest("other")) is None
        assert store.locate(digest("other")) is None

    @pytest.mark.parametrize(
        ("content", "link"),
        [("same", "same"), ("same", "own"), ("own", "same"), ("own", "content"), ("own", "own")],
    )
    def test_hashes_that_coincide(self, box: Box, author: Author, content: str, link: str) -> None:
        one = author.receipt(A, content=content, link=link)
        box.store.commit(author.admit(one))
        store = box.reopen()
        assert store.entry(A, 0) == one.entry
        for known in {one.entry.receipt_hash, one.entry.content_hash, one.entry.link_hash}:
            assert store.position_of(A, known) == 0

    def test_only_the_receipt_hash_locates(self, store: Store, author: Author) -> None:
        one = author.receipt(A, content="own")
        store.commit(author.admit(one))
        assert store.locate(one.entry.content_hash) is None
        assert store.locate(one.entry.link_hash) is None

    def test_hashes_are_known_in_their_own_chain_only(self, store: Store, author: Author) -> None:
        one, other = author.receipt(A, content="own"), author.receipt(B, content="own")
        store.commit(author.admit(one, other))
        for known in (one.entry.receipt_hash, one.entry.content_hash, one.entry.link_hash):
            assert store.position_of(B, known) is None

    def test_one_hash_may_be_an_alias_in_two_chains(self, store: Store, author: Author) -> None:
        one, other = author.receipt(A), author.receipt(B)
        shared = digest("shared")
        one.entry.link_hash = other.entry.link_hash = shared
        store.commit(author.admit(one, other))
        assert store.position_of(A, shared) == 0
        assert store.position_of(B, shared) == 0

    def test_a_receipt_hash_of_another_chain_may_be_an_alias_here(
        self, store: Store, author: Author
    ) -> None:
        one, other = author.receipt(A), author.receipt(B)
        other.entry.link_hash = one.entry.receipt_hash
        store.commit(author.admit(one, other))
        assert store.position_of(A, one.entry.receipt_hash) == 0
        assert store.position_of(B, one.entry.receipt_hash) == 0

    def test_numbers_and_heads_go_on(self, box: Box, author: Author) -> None:
        for _ in range(3):
            box.store.commit(author.batch(A, B, A))
        assert box.store.next_number() == 9
        assert [box.store.entry(A, at).number for at in range(6)] == [0, 2, 3, 5, 6, 8]
        assert box.reopen().next_number() == 9
        assert box.store.head(A).position == 5
        assert box.store.head(B).position == 2

    def test_a_head_without_a_number_of_its_own(self, box: Box, author: Author) -> None:
        changes = author.batch(A)
        changes.heads[A].sequence = None
        box.store.commit(changes)
        assert box.reopen().head(A) == changes.heads[A]

    def test_large_receipt(self, box: Box, author: Author) -> None:
        one = author.receipt(A, size=65_536)
        box.store.commit(author.admit(one))
        stored = box.reopen().receipt(A, 0)
        assert stored is not None
        assert stored.raw == one.raw

    def test_what_is_read_is_the_readers_own(self, store: Store, author: Author) -> None:
        changes = author.batch(A)
        store.commit(changes)
        before = dump(store)
        changes.heads[A].position = 9  # what was handed in
        changes.admitted[0].entry.number = 9
        store.head(A).position = 9  # what came out
        store.entry(A, 0).profile = "other"
        next(iter(store.marks())).position = 9
        assert dump(store) == before


class TestRanges:
    @pytest.mark.parametrize(
        ("first", "last", "expected"),
        [
            (0, 4, [0, 1, 2, 3, 4]),
            (0, 2**63 - 1, [0, 1, 2, 3, 4]),
            (1, 3, [1, 2, 3]),
            (2, 2, [2]),
            (4, 9, [4]),
            (3, 2, []),
            (5, 9, []),
            (2**63 - 1, 2**63 - 1, []),
        ],
    )
    @pytest.mark.parametrize("chain", EDGES)
    def test_entries(
        self, store: Store, author: Author, chain: bytes, first: int, last: int, expected: list[int]
    ) -> None:
        for _ in range(5):
            store.commit(author.batch(*EDGES))
        found = list(store.entries(chain, first, last))
        assert found == [store.entry(chain, position) for position in expected]

    @pytest.mark.parametrize("count", [255, 256, 257, 600])
    def test_entries_over_many_pages(self, store: Store, author: Author, count: int) -> None:
        store.commit(author.batch(*[LOW] * count, NEXT))
        numbers = [entry.number for entry in store.entries(LOW, 0, 10_000)]
        assert numbers == list(range(count))
        assert len(list(store.entries(LOW, 1, count - 2))) == count - 2

    def test_chains_in_key_order(self, box: Box, author: Author) -> None:
        names = [chain_of(at) for at in range(300)] + list(EDGES)
        box.store.commit(author.batch(*names))
        found = list(box.reopen().chains())
        assert [chain for chain, _ in found] == sorted(names)
        assert all(head == box.store.head(chain) for chain, head in found)

    def test_entries_may_be_read_while_the_chain_grows(self, store: Store, author: Author) -> None:
        store.commit(author.batch(*[A] * 300))
        rows = store.entries(A, 0, 299)
        assert next(rows).number == 0
        store.commit(author.batch(*[A] * 10))
        assert [entry.number for entry in rows] == list(range(1, 300))


class TestMarks:
    def test_order_and_clearing(self, box: Box, author: Author) -> None:
        box.store.commit(author.batch(*EDGES))
        box.store.commit(author.batch(HIGHEST, LOW))
        expected = [(LOWEST, 0), (LOW, 0), (LOW, 1), (NEXT, 0), (HIGHEST, 0), (HIGHEST, 1)]
        assert [(mark.chain, mark.position) for mark in box.store.marks()] == expected
        seal = author.seal()
        box.store.commit(author.batch(LOW))  # after the seal was planned
        seal.sealed.state.sealed_number = 6
        box.store.commit(seal)
        assert list(box.store.marks()) == [Mark(LOW, 2)]
        assert list(box.reopen().marks()) == [Mark(LOW, 2)]

    def test_many(self, store: Store, author: Author) -> None:
        names = sorted(chain_of(at) for at in range(600))
        store.commit(author.batch(*names))
        assert list(store.marks()) == [Mark(name, 0) for name in names]
        store.commit(author.seal())
        assert list(store.marks()) == []


class TestKeys:
    def test_oldest_first_and_gaining_a_leaf(self, box: Box, author: Author) -> None:
        store = box.store
        store.commit(author.enrol(LOW, "late", "registered", 7))
        store.commit(author.enrol(LOW, "early"))
        store.commit(author.enrol(NEXT, "other"))
        early = KeyRecord(LOW, digest("key", "early"), "pinned", 0, None)
        late = KeyRecord(LOW, digest("key", "late"), "registered", 7, None)
        assert store.keys(LOW) == [early, late]
        store.commit(author.seal())
        sealed = [replace(early, leaf_index=1), replace(late, leaf_index=0)]
        assert store.keys(LOW) == sealed
        assert box.reopen().keys(LOW) == sealed
        assert len(box.store.keys(NEXT)) == 1
        assert box.store.keys(LOWEST) == box.store.keys(HIGHEST) == []

    def test_same_position_goes_by_leaf_unlogged_last(self, store: Store, author: Author) -> None:
        for name in ("x", "y", "z"):
            store.commit(author.enrol(HIGHEST, name))
            if name != "z":
                store.commit(author.seal())
        names = [record.key for record in store.keys(HIGHEST)]
        assert names == [digest("key", name) for name in ("x", "y", "z")]

    def test_a_key_written_again_is_one_key(self, store: Store, author: Author) -> None:
        changes = author.enrol(A, "k")
        store.commit(changes)
        store.commit(changes)
        assert len(store.keys(A)) == 1


class TestForks:
    def test_kept_beside_the_receipt(self, box: Box, author: Author) -> None:
        box.store.commit(author.batch(LOW, LOW, NEXT))
        forks = [fork_at(LOW, 1, b"{1}"), fork_at(LOW, 0, b"{2}"), fork_at(LOW, 0, b"{3}")]
        box.store.commit(Changes(forks=[*forks, fork_at(NEXT, 0, b"{4}")]))
        expected = sorted(forks, key=lambda fork: (fork.position, fork.receipt_hash))
        assert box.store.forks(LOW) == expected
        assert box.reopen().forks(LOW) == expected
        assert len(box.store.forks(NEXT)) == 1
        assert box.store.forks(LOWEST) == box.store.forks(HIGHEST) == []
        assert box.store.locate(forks[0].receipt_hash) is None


class TestLog:
    def test_segments(self, box: Box, author: Author) -> None:
        store = box.store
        store.commit(author.batch(*EDGES, LOW, LOW))
        assert store.segment(LOW, 0) is None
        store.commit(author.seal())
        store.commit(author.batch(LOW, LOW))
        store.commit(author.seal())
        store.commit(author.batch(LOW))
        first, second = Segment(LOW, 0, 2, 1), Segment(LOW, 3, 4, 4)
        for enter in (lambda: store, box.reopen):
            found = enter()
            at = [found.segment(LOW, position) for position in range(7)]
            assert at == [first, first, first, second, second, None, None]
            assert found.last_segment(LOW) == second
            assert found.last_segment(NEXT) == found.segment(NEXT, 0) == Segment(NEXT, 0, 0, 2)
            assert found.segment(NEXT, 1) is None
            assert found.segment(A, 0) is found.last_segment(A) is None
            assert found.last_segment(HIGHEST) == Segment(HIGHEST, 0, 0, 3)

    def test_state_checkpoints_and_leaves(self, box: Box, author: Author) -> None:
        seals = []
        for _ in range(3):
            box.store.commit(author.batch(A, B))
            seals.append(author.seal().sealed)
            box.store.commit(Changes(sealed=seals[-1]))
        for enter in (lambda: box.store, box.reopen):
            store = enter()
            assert store.log_state() == seals[-1].state
            for sealed in seals:
                assert store.checkpoint(sealed.state.size) == sealed.state.note
            assert store.checkpoint(1) is None
            leaves = [leaf for sealed in seals for leaf in sealed.leaves]
            assert store.leaves(0, 6) == leaves
            assert store.leaves(2, 3) == leaves[2:5]
            assert store.leaves(6, 0) == []

    @pytest.mark.parametrize(("first", "count"), [(0, 3), (1, 2), (2, 1), (9, 1)])
    def test_missing_leaf(self, store: Store, author: Author, first: int, count: int) -> None:
        store.commit(author.batch(A, B))
        store.commit(author.seal())
        with pytest.raises(StoreError):
            store.leaves(first, count)

    def test_tiles_grow_and_keep_their_prefix(self, box: Box, author: Author) -> None:
        rows: dict[TileId, bytes] = {}
        for filler in (1, 200, 54, 1, 1, 300):
            box.store.commit(changes := author.seal(filler=filler))
            for tile, row in changes.sealed.tiles.items():
                assert box.store.tile(tile) == row
                assert row.startswith(rows.get(tile, b""))
                rows[tile] = row
        store = box.reopen()
        size = author.frontier.size
        assert size == 557
        assert {tile: store.tile(tile) for tile in rows} == rows
        assert all(len(row) == 32 * tile_width(tile, size) for tile, row in rows.items())
        assert store.tile(TileId(0, 3)) == store.tile(TileId(2, 0)) == b""
        assert Frontier.load(size, store.tile).root() == store.log_state().root


class TestInventory:
    def test_empty(self, store: Store) -> None:
        assert list(store.chain_keys()) == list(store.checkpoint_sizes()) == []
        assert store.counts() == Counts(0, 0, 0, 0, 0, 0, 0, 0)

    def test_everything_is_counted(self, box: Box, author: Author) -> None:
        fill(box.store, author)
        for _ in range(300):
            box.store.commit(author.seal(filler=1))
        for enter in (lambda: box.store, box.reopen):
            store = enter()
            assert list(store.chain_keys()) == sorted((A, B, C, *EDGES))
            # 7 leaves (a key, 6 chains), then a key, two chains and a filler, then fillers
            assert list(store.checkpoint_sizes()) == [7, *range(11, 311)]
            assert store.counts() == Counts(
                entries=9, heads=7, hashes=18, leaves=310, tiles=3, segments=8, keys=2, forks=1
            )


class TestDurability:
    def test_reopening_changes_nothing(self, box: Box, author: Author) -> None:
        fill(box.store, author)
        before = dump(box.store)
        assert before["number"] == 9
        for _ in range(2):
            assert dump(box.reopen()) == before

    def test_a_store_goes_on_after_reopening(self, box: Box, author: Author) -> None:
        fill(box.store, author)
        box.reopen().commit(author.seal())
        box.store.commit(author.batch(A))
        assert box.reopen().head(A).position == 3
        assert list(box.store.marks()) == [Mark(A, 3)]

    @pytest.mark.parametrize("last", ["mark", "fork", "key", "leaf", "note"])
    def test_a_commit_is_all_or_nothing(self, box: Box, author: Author, last: str) -> None:
        """What has no encoding comes last in the commit; the good part must not be there."""
        fill(box.store, author)
        before = dump(box.store)
        seal = author.seal()
        changes = author.batch(B, C)
        if last == "mark":
            changes.marks = [*changes.marks, Mark(A, -1)]
        elif last == "fork":
            changes.forks = [ForkRecord(A, 0, b"short", b"{}", EPOCH)]
        elif last == "key":
            changes.keys = [KeyRecord(A, digest("k"), "guessed", 0, None)]
        else:
            changes.sealed = seal.sealed
            if last == "leaf":
                seal.sealed.leaves[-1] = b""
            else:
                seal.sealed.state.note = b""
        with pytest.raises((StoreError, AssertionError)):
            box.store.commit(changes)
        assert dump(box.store) == before == dump(box.reopen())
        box.store.commit(Changes())

    def test_everything_in_one_commit(self, box: Box, author: Author) -> None:
        changes = author.batch(A, B)
        changes.keys = author.enrol(A, "k").keys
        changes.forks = [fork_at(A, 0, b"{}")]
        changes.sealed = author.seal().sealed
        box.store.commit(changes)
        found = dump(box.reopen())
        assert found["number"] == found["state"].sealed_number == 2
        assert found["marks"] == []
        assert box.store.keys(A)[0].leaf_index == 0
        assert len(found["leaves"]) == 3

    def test_closed(self, store: Store, author: Author) -> None:
        fill(store, author)
        store.close()
        store.close()
        reads: list[Callable[[], object]] = [
            store.next_number,
            lambda: store.head(A),
            lambda: store.entry(A, 0),
            lambda: list(store.entries(A, 0, 1)),
            lambda: store.position_of(A, A),
            lambda: store.locate(A),
            lambda: store.receipt(A, 0),
            lambda: list(store.chains()),
            lambda: store.keys(A),
            lambda: store.forks(A),
            lambda: list(store.marks()),
            lambda: store.segment(A, 0),
            lambda: store.last_segment(A),
            store.log_state,
            lambda: store.leaves(0, 1),
            lambda: store.tile(TileId(0, 0)),
            lambda: store.checkpoint(1),
            lambda: list(store.chain_keys()),
            lambda: list(store.checkpoint_sizes()),
            store.counts,
            store.stats,
            lambda: store.commit(Changes()),
        ]
        for read in reads:
            with pytest.raises(StoreError, match="closed"):
                read()

    def test_stats(self, store: Store, author: Author) -> None:
        store.commit(author.batch(A))
        stats = store.stats()
        assert stats.bytes_on_disk > 0
        assert stats.free_bytes > 0
        assert stats.background_errors == 0


class TestThreads:
    def test_three_readers_and_a_writer(self, store: Store, author: Author) -> None:
        """A reader sees whole commits: what a head, a mark or a log state names is there."""
        done = threading.Event()
        problems: list[BaseException] = []
        rounds = [0, 0, 0]

        def read(me: int) -> None:
            chain = (A, B, C)[me]
            try:
                while True:
                    last_round = done.is_set()
                    self.check_view(store, chain)
                    rounds[me] += 1
                    if last_round:
                        return
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=read, args=(me,)) for me in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(40):
                store.commit(author.batch(A, B, C, A))
                store.commit(author.seal())
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert problems == []
        assert min(rounds) >= 1
        assert store.head(A).position == 79

    @staticmethod
    def check_view(store: Store, chain: bytes) -> None:
        for mark in store.marks():
            assert store.receipt(mark.chain, mark.position) is not None
        head = store.head(chain)
        if head is not None:
            entries = list(store.entries(chain, 0, head.position))
            assert len(entries) == head.position + 1
            assert entries[-1].link_hash == head.link_hash
            assert store.position_of(chain, entries[0].receipt_hash) == 0
            assert store.receipt(chain, head.position) is not None
        state = store.log_state()
        if state is not None:
            leaves = store.leaves(0, state.size)
            row = b"".join(hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves)
            assert store.tile(TileId(0, 0)).startswith(row[:8192])
            assert store.checkpoint(state.size) == state.note
            last = store.last_segment(chain)
            assert last is not None
            assert store.segment(chain, last.first) == last


def test_reading_while_closing_raises_nothing_else(box: Box, author: Author) -> None:
    fill(box.store, author)
    started = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        with suppress(StoreError):
            while True:
                try:
                    list(box.store.entries(A, 0, 10))
                except StoreError:
                    raise
                except BaseException as problem:
                    problems.append(problem)
                    raise StoreError from problem
                finally:
                    started.set()

    thread = threading.Thread(target=read)
    thread.start()
    started.wait()
    box.store.close()
    thread.join()
    assert problems == []
