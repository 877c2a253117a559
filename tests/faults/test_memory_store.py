"""The teeth of MemoryStore bite: each invariant broken once, and each fault as it says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledgerd.store.interface import (
    Changes,
    ForkRecord,
    Head,
    KeyRecord,
    Mark,
    Segment,
    StoreError,
)
from ledgerd.store.memory import Fault, MemoryStore
from receiptledger.core.tile import TileId
from tests.helpers.changes import EPOCH, Author, chain_of, digest, dump, fork_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerd.store.interface import Sealed

A, B, C = chain_of("a"), chain_of("b"), chain_of("c")


@pytest.fixture
def author() -> Author:
    return Author()


@pytest.fixture
def store(author: Author) -> MemoryStore:
    """Two chains sealed once, one more receipt of A and one key unsealed."""
    store = MemoryStore()
    store.commit(author.enrol(A, "k"))
    store.commit(author.batch(A, B, A))
    store.commit(author.seal(filler=3))
    store.commit(author.batch(A))
    store.commit(author.enrol(B, "late"))
    return store


def bites(store: MemoryStore, changes: Changes, match: str) -> None:
    """AssertionError, and nothing of the commit is left."""
    before = dump(store)
    with pytest.raises(AssertionError, match=match):
        store.commit(changes)
    assert dump(store) == before


class TestReceipts:
    def test_number_reused(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C)
        changes.admitted[0].entry.number = 2
        bites(store, changes, "admission number 2 reused")

    def test_number_used_twice_in_one_commit(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C, B)
        changes.admitted[1].entry.number = changes.admitted[0].entry.number
        bites(store, changes, "immutable record of journal|reused")

    def test_number_skipped(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C)
        changes.admitted[0].entry.number += 1
        bites(store, changes, "admission numbers do not go on from 4")

    def test_position_gap(self, store: MemoryStore, author: Author) -> None:
        author.receipt(A)
        author.number -= 1
        bites(store, author.batch(A), "position gap: 4 comes, 3 is next")

    def test_first_position(self, store: MemoryStore, author: Author) -> None:
        author.positions[C] = 1
        bites(store, author.batch(C), "position gap: 1 comes, 0 is next")

    def test_position_taken(self, store: MemoryStore, author: Author) -> None:
        author.positions[A] = 1
        one = author.receipt(A, size=500)  # other bytes
        bites(store, author.admit(one), "immutable record rewritten: position 1 is taken")

    def test_same_receipt_in_two_chains(self, store: MemoryStore, author: Author) -> None:
        one, other = author.receipt(C), author.receipt(chain_of("d"))
        other.raw = one.raw
        other.entry = replace(one.entry, number=other.entry.number)
        bites(store, author.admit(one, other), "immutable record of places")

    def test_same_link_at_two_positions(self, store: MemoryStore, author: Author) -> None:
        one, other = author.receipt(C), author.receipt(C)
        other.entry.link_hash = one.entry.link_hash
        bites(store, author.admit(one, other), "immutable record of aliases")

    @pytest.mark.parametrize("field", ["leaf_hash", "content_hash", "link_hash", "key"])
    def test_hash_length(self, store: MemoryStore, author: Author, field: str) -> None:
        changes = author.batch(C)
        setattr(changes.admitted[0].entry, field, b"short")
        bites(store, changes, "not 32 bytes")

    def test_chain_length(self, store: MemoryStore, author: Author) -> None:
        bites(store, author.batch(b"short"), "not 32 bytes")

    def test_no_bytes(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C)
        changes.admitted[0].raw = b""
        bites(store, changes, "without bytes")

    def test_hash_of_other_bytes(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C)
        changes.admitted[0].entry.receipt_hash = digest("other")
        bites(store, changes, "receipt hash is not that of the bytes")

    def test_leaf_hash_of_other_bytes(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C)
        changes.admitted[0].entry.leaf_hash = digest("other")
        bites(store, changes, "leaf hash is not that of the bytes")


class TestHeadsAndMarks:
    def test_head_left_behind(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(A, C)
        del changes.heads[A]
        bites(store, changes, "head not moved with its chain")

    @pytest.mark.parametrize(
        "head", [Head(1, digest("x"), 1), Head(2, digest("x"), 3), Head(3, digest("x"), 3)]
    )
    def test_head_not_matching_its_entry(self, store: MemoryStore, head: Head) -> None:
        bites(store, Changes(heads={A: head}), "does not match its entry")

    def test_head_of_an_older_entry(self, store: MemoryStore) -> None:
        entry = store.entry(A, 1)
        assert entry is not None
        head = Head(1, entry.link_hash, 2)
        bites(store, Changes(heads={A: head}), "does not match its entry")

    def test_head_of_no_chain(self, store: MemoryStore) -> None:
        bites(store, Changes(heads={C: Head(0, digest("x"), 0)}), "does not match its entry")

    def test_head_changed_without_a_receipt(self, store: MemoryStore) -> None:
        head = store.head(A)
        assert head is not None
        store.commit(Changes(heads={A: head}))  # the same again is fine
        head.sequence = 77
        bites(store, Changes(heads={A: head}), "immutable record of heads")

    def test_mark_on_nothing(self, store: MemoryStore) -> None:
        bites(store, Changes(marks=[Mark(A, 3)]), "mark on a position that is not there")

    def test_mark_on_what_is_sealed(self, store: MemoryStore) -> None:
        bites(store, Changes(marks=[Mark(A, 1)]), "mark on a position that is sealed")

    def test_receipt_without_mark(self, store: MemoryStore, author: Author) -> None:
        changes = author.batch(C, A, A)
        changes.marks = [mark for mark in changes.marks if mark.chain == C]
        bites(store, changes, "position 4 is admitted, unsealed and has no mark")


class TestKeysAndForks:
    @pytest.mark.parametrize("change", [{"mode": "registered"}, {"since": 1}, {"leaf_index": 4}])
    def test_key_rewritten(self, store: MemoryStore, change: dict[str, object]) -> None:
        (record,) = store.keys(A)
        store.commit(Changes(keys=[record]))  # the same again is fine
        bites(store, Changes(keys=[replace(record, **change)]), "immutable record of keys")

    def test_key_loses_its_leaf(self, store: MemoryStore) -> None:
        (record,) = store.keys(A)
        lost = Changes(keys=[replace(record, leaf_index=None)])
        bites(store, lost, "immutable record of keys")

    def test_leaf_index_outside_a_seal(self, store: MemoryStore) -> None:
        (record,) = store.keys(B)
        bites(store, Changes(keys=[replace(record, leaf_index=1)]), "not in this seal")
        fresh = KeyRecord(C, digest("k"), "pinned", 0, 1)
        bites(store, Changes(keys=[fresh]), "not in this seal")

    def test_unknown_mode(self, store: MemoryStore) -> None:
        record = KeyRecord(C, digest("k"), "guessed", 0, None)
        bites(store, Changes(keys=[record]), "unknown trust mode 'guessed'")

    @pytest.mark.parametrize(
        ("chain", "key", "words"),
        [
            (b"short", digest("k"), "a chain is not 32 bytes"),
            (C, b"short", "a key has the length of no algorithm"),
        ],
    )
    def test_key_length(self, store: MemoryStore, chain: bytes, key: bytes, words: str) -> None:
        record = KeyRecord(chain, key, "pinned", 0, None)
        bites(store, Changes(keys=[record]), words)

    def test_fork_of_nothing(self, store: MemoryStore) -> None:
        bites(store, Changes(forks=[fork_at(A, 3, b"{}")]), "position that is not taken")

    def test_fork_with_another_hash(self, store: MemoryStore) -> None:
        fork = ForkRecord(A, 0, digest("x"), b"{}", EPOCH)
        bites(store, Changes(forks=[fork]), "fork's hash is not that of the bytes")

    def test_fork_that_is_the_receipt(self, store: MemoryStore) -> None:
        stored = store.receipt(A, 0)
        assert stored is not None
        bites(store, Changes(forks=[fork_at(A, 0, stored.raw)]), "fork equals the receipt")

    def test_fork_rewritten(self, store: MemoryStore) -> None:
        fork = fork_at(A, 0, b"{}")
        store.commit(Changes(forks=[fork]))
        store.commit(Changes(forks=[fork]))  # the same again is fine
        later = replace(fork, refused_at=EPOCH + 1)
        bites(store, Changes(forks=[later]), "immutable record of forks")


def no_leaf_for(sealed: Sealed) -> None:
    sealed.state.size += 1


def skip_a_leaf(sealed: Sealed) -> None:
    sealed.first_leaf += 1


def repeat_a_leaf(sealed: Sealed) -> None:
    sealed.first_leaf -= 1


def empty_leaf(sealed: Sealed) -> None:
    sealed.leaves = [b"", *sealed.leaves[1:]]


def long_leaf(sealed: Sealed) -> None:
    sealed.leaves = [bytes(65_536), *sealed.leaves[1:]]


def tile_rewritten(sealed: Sealed) -> None:
    row = sealed.tiles[TileId(0, 0)]
    sealed.tiles[TileId(0, 0)] = bytes([row[0] ^ 1]) + row[1:]


def tile_short(sealed: Sealed) -> None:
    sealed.tiles[TileId(0, 0)] = sealed.tiles[TileId(0, 0)][:-32]


def tile_of_no_leaves(sealed: Sealed) -> None:
    sealed.tiles[TileId(0, 1)] = b""


def tile_with_another_hash(sealed: Sealed) -> None:
    sealed.tiles[TileId(0, 0)] = sealed.tiles[TileId(0, 0)][:-32] + digest("x")


def tile_left_out(sealed: Sealed) -> None:
    del sealed.tiles[TileId(0, 0)]


def another_root(sealed: Sealed) -> None:
    sealed.state.root = digest("x")


def segment_gap(sealed: Sealed) -> None:
    sealed.segments = [replace(sealed.segments[0], first=3, last=3)]


def segment_repeated(sealed: Sealed) -> None:
    sealed.segments = [replace(sealed.segments[0], first=1)]


def segment_past_the_head(sealed: Sealed) -> None:
    sealed.segments = [replace(sealed.segments[0], last=3)]


def segment_of_no_chain(sealed: Sealed) -> None:
    sealed.segments = [*sealed.segments, Segment(C, 0, 0, sealed.first_leaf)]


def segment_backwards(sealed: Sealed) -> None:
    sealed.segments = [replace(sealed.segments[0], last=1)]


def segment_leaf_elsewhere(sealed: Sealed) -> None:
    sealed.segments = [replace(sealed.segments[0], leaf_index=sealed.state.size)]


def segment_leaf_of_another_seal(sealed: Sealed) -> None:
    sealed.segments = [replace(sealed.segments[0], leaf_index=sealed.first_leaf - 1)]


def key_leaf_past_the_end(sealed: Sealed) -> None:
    sealed.keys = [replace(sealed.keys[0], leaf_index=sealed.state.size)]


def key_leaf_of_another_seal(sealed: Sealed) -> None:
    sealed.keys = [replace(sealed.keys[0], leaf_index=sealed.first_leaf - 1)]


def clear_what_is_not_marked(sealed: Sealed) -> None:
    sealed.cleared = [*sealed.cleared, Mark(B, 0)]


def clear_twice(sealed: Sealed) -> None:
    sealed.cleared = [*sealed.cleared, *sealed.cleared]


def clear_what_is_not_covered(sealed: Sealed) -> None:
    sealed.segments = []


def no_note(sealed: Sealed) -> None:
    sealed.state.note = b""


def sealed_number_back(sealed: Sealed) -> None:
    sealed.state.sealed_number = 2


def sealed_number_ahead(sealed: Sealed) -> None:
    sealed.state.sealed_number = 5


SEALS: dict[Callable[[Sealed], None], str] = {
    no_leaf_for: "log state size is not the number of leaves",
    skip_a_leaf: "leaf index gap: 7 after 6",
    repeat_a_leaf: "leaf index gap: 5 after 6",
    empty_leaf: "leaf length",
    long_leaf: "leaf length",
    tile_rewritten: "not an extension of the former row",
    tile_short: "has not the width of its tile at size 8",
    tile_of_no_leaves: "has not the width of its tile",
    tile_with_another_hash: "tiles are not all those the leaves change",
    tile_left_out: "tiles are not all those the leaves change",
    another_root: "root is not that of the leaves",
    segment_gap: "segment gap: 3 comes, 2 is next",
    segment_repeated: "segment gap: 1 comes, 2 is next",
    segment_past_the_head: "segment ends at 3 of 2",
    segment_of_no_chain: "segment ends at 0 of -1",
    segment_backwards: "segment ends at 1 of 2",
    segment_leaf_elsewhere: "segment leaf index is not in this seal",
    segment_leaf_of_another_seal: "segment leaf index is not in this seal",
    key_leaf_past_the_end: "key leaf index is not in this seal",
    key_leaf_of_another_seal: "key leaf index is not in this seal",
    clear_what_is_not_marked: "mark cleared that is not there",
    clear_twice: "mark cleared that is not there",
    clear_what_is_not_covered: "mark cleared that no segment covers",
    no_note: "without a signed note",
    sealed_number_back: "sealed number goes from 3 to 2",
    sealed_number_ahead: "sealed number goes from 3 to 5",
}


class TestSeals:
    @pytest.mark.parametrize("spoil", SEALS, ids=lambda spoil: spoil.__name__)
    def test_spoilt(
        self, store: MemoryStore, author: Author, spoil: Callable[[Sealed], None]
    ) -> None:
        changes = author.seal()
        assert changes.sealed is not None
        spoil(changes.sealed)
        bites(store, changes, SEALS[spoil])

    def test_unspoilt(self, store: MemoryStore, author: Author) -> None:
        store.commit(author.seal())
        assert list(store.marks()) == []

    def test_number_counted_as_sealed_too_early(self, store: MemoryStore, author: Author) -> None:
        seal = author.seal()
        store.commit(author.batch(C))
        assert seal.sealed is not None
        seal.sealed.state.sealed_number = 5
        bites(store, seal, "admission number 4 counts as sealed and is not")

    def test_two_notes_for_one_size(self, store: MemoryStore, author: Author) -> None:
        store.commit(author.seal())
        again = author.seal()
        store.commit(again)  # the same again is fine
        assert again.sealed is not None
        again.sealed.state.note += b"other"
        bites(store, again, "immutable record of checkpoints")


class TestFaults:
    @pytest.fixture
    def changes(self, author: Author, store: MemoryStore) -> Changes:
        assert store.next_number() == 4
        return author.batch(A)

    def test_lost(self, store: MemoryStore, changes: Changes) -> None:
        before = dump(store)
        store.fail_next("lost")
        with pytest.raises(StoreError, match=r"failed on request \(lost\)"):
            store.commit(changes)
        assert dump(store) == before
        store.commit(changes)
        assert store.crash().next_number() == 5

    def test_done(self, store: MemoryStore, changes: Changes) -> None:
        store.fail_next("done")
        with pytest.raises(StoreError):
            store.commit(changes)
        assert store.next_number() == 5
        store.commit(Changes())
        assert store.crash().next_number() == 5

    @pytest.mark.parametrize(("power", "number"), [(True, 4), (False, 5)])
    def test_unsynced(self, store: MemoryStore, changes: Changes, power: bool, number: int) -> None:
        before = dump(store)
        store.fail_next(Fault.UNSYNCED)
        with pytest.raises(StoreError):
            store.commit(changes)
        assert store.next_number() == 5  # readers see it
        for _ in range(2):
            with pytest.raises(StoreError, match="must be opened again"):
                store.commit(Changes())
        survivor = store.crash(power=power)
        assert survivor.next_number() == number
        assert (dump(survivor) == before) is power
        survivor.commit(Changes())

    def test_unsynced_seal_is_undone_whole(self, store: MemoryStore, author: Author) -> None:
        before = dump(store)
        store.fail_next("unsynced")
        with pytest.raises(StoreError):
            store.commit(author.seal())
        assert dump(store) != before
        assert dump(store.crash()) == before

    def test_a_later_commit(self, store: MemoryStore, author: Author) -> None:
        store.fail_at(3, "lost")
        store.commit(author.batch(A))
        store.commit(author.batch(A))
        with pytest.raises(StoreError):
            store.commit(author.batch(A))
        assert store.next_number() == 6

    def test_a_fault_does_not_hide_a_broken_invariant(self, store: MemoryStore) -> None:
        store.fail_next("lost")
        bites(store, Changes(marks=[Mark(A, 9)]), "mark on a position that is not there")

    def test_unknown_fault(self, store: MemoryStore) -> None:
        with pytest.raises(ValueError, match="torn"):
            store.fail_next("torn")

    def test_hook(self, store: MemoryStore, author: Author) -> None:
        seen = []

        def hook(count: int, changes: Changes) -> Fault | None:
            seen.append((count, len(changes.admitted)))
            return Fault.LOST if changes.sealed else None

        store.before_commit = hook
        store.commit(author.batch(C, C))
        with pytest.raises(StoreError):
            store.commit(author.seal())
        assert seen == [(6, 2), (7, 0)]
        assert store.commits == 7

    def test_dead_after_a_crash(self, store: MemoryStore, changes: Changes) -> None:
        survivor = store.crash()
        with pytest.raises(StoreError, match="closed"):
            store.head(A)
        with pytest.raises(StoreError, match="closed"):
            store.commit(changes)
        survivor.commit(changes)
        assert survivor.next_number() == 5

    def test_a_survivor_shares_nothing(self, store: MemoryStore, author: Author) -> None:
        first, second = store.crash(), store.crash()
        first.commit(author.batch(A))
        assert second.next_number() == 4

    def test_full_disk_figures_can_be_set(self, store: MemoryStore) -> None:
        store.free_bytes, store.background_errors = 7, 1
        stats = store.stats()
        assert (stats.free_bytes, stats.background_errors) == (7, 1)
        held = [store.receipt(A, at) for at in range(3)] + [store.receipt(B, 0)]
        assert stats.bytes_on_disk == sum(len(one.raw) for one in held if one)
