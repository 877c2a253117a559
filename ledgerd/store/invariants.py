"""What must be true of every commit, whatever the store: checked by :class:`MemoryStore`.

A real store does not look at what it writes; a daemon that writes nonsense would find out when an
auditor does. Here each change is applied to plain tables under these rules, and the first one broken
is an AssertionError that undoes the whole commit. It means a bug above the store, never bad input.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ledgerd.store.anchor_invariants import apply_anchoring, require, seal_anchor
from ledgerd.store.interface import (
    Admitted,
    AnchorIntent,
    AnchorRecord,
    Entry,
    ForkRecord,
    Head,
    KeyRecord,
    LogState,
    Mark,
    Quarantined,
    Segment,
    Stored,
)
from ledgerd.store.schema import key_order
from receiptledger.core.algorithms import KEY_SIZES
from receiptledger.core.tile import Frontier, tile_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.store.interface import Changes, Sealed
    from receiptledger.core.tile import TileId

__all__ = ["Tables", "Undo", "apply"]

Place = tuple[bytes, int]  # chain, position
Undo = list[tuple[str, Any, Any]]  # table, key, former value

_ABSENT: Final = object()


@dataclass(slots=True)
class Tables:
    """Everything a store holds. Records in here are never changed, only replaced."""

    entries: dict[Place, Entry] = field(default_factory=dict)
    journal: dict[int, Stored] = field(default_factory=dict)
    newest: dict[bytes, int] = field(default_factory=dict)  # chain -> last position
    heads: dict[bytes, Head] = field(default_factory=dict)
    places: dict[bytes, Place] = field(default_factory=dict)  # by receipt hash
    aliases: dict[tuple[bytes, bytes], int] = field(default_factory=dict)  # by chain, other hash
    keys: dict[bytes, tuple[KeyRecord, ...]] = field(default_factory=dict)
    forks: dict[bytes, tuple[ForkRecord, ...]] = field(default_factory=dict)
    marks: dict[Place, Mark] = field(default_factory=dict)
    leaves: dict[int, bytes] = field(default_factory=dict)
    tiles: dict[TileId, bytes] = field(default_factory=dict)
    covered: dict[Place, Segment] = field(default_factory=dict)  # every sealed position
    sealed: dict[bytes, Segment] = field(default_factory=dict)  # chain -> newest segment
    checkpoints: dict[int, bytes] = field(default_factory=dict)
    state: dict[str, LogState] = field(default_factory=dict)  # under "log"
    intents: dict[str, AnchorIntent] = field(default_factory=dict)  # by TSA
    anchors: dict[int, AnchorRecord] = field(default_factory=dict)
    anchor_leaves: dict[int, int] = field(default_factory=dict)  # leaf index -> anchor
    blobs: dict[bytes, bytes] = field(default_factory=dict)
    quarantined: dict[int, Quarantined] = field(default_factory=dict)

    def copy(self) -> Tables:
        """Tables that change independently."""
        return Tables(*(dict(getattr(self, name)) for name in self.__slots__))

    def undo(self, log: Undo) -> None:
        """Take back what a log says was done."""
        for name, key, former in reversed(log):
            table = getattr(self, name)
            if former is _ABSENT:
                del table[key]
            else:
                table[key] = former


def apply(tables: Tables, changes: Changes) -> Undo:
    """Apply one commit, all of it or nothing.

    Returns:
        What :meth:`Tables.undo` needs to take it back.

    Raises:
        AssertionError: an invariant does not hold; nothing was applied.
        StoreError: a record of timestamps contradicts what is there; nothing was applied.
    """
    commit = _Commit(tables)
    try:
        commit.admit(changes.admitted)
        commit.move_heads(changes)
        for mark in changes.marks:
            commit.mark(mark)
        for key in changes.keys:
            commit.key(key, range(0))
        for fork in changes.forks:
            commit.fork(fork)
        apply_anchoring(commit, changes)
        if changes.sealed is not None:
            commit.seal(changes.sealed)
        commit.check_marked(changes.admitted)
    except BaseException:
        tables.undo(commit.log)
        raise
    return commit.log


class _Commit:
    """One commit under way."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.log: Undo = []

    def put(self, table: str, key: Any, value: Any) -> None:
        """Write one record."""
        rows = getattr(self.tables, table)
        self.log.append((table, key, rows.get(key, _ABSENT)))
        rows[key] = value

    def add(self, table: str, key: Any, value: Any) -> None:
        """Write one record that never changes."""
        former = getattr(self.tables, table).get(key, value)
        require(former == value, f"immutable record of {table} rewritten with other content")
        self.put(table, key, value)

    def drop(self, table: str, key: Any) -> None:
        """Delete one record."""
        self.log.append((table, key, getattr(self.tables, table).pop(key)))

    def admit(self, admitted: Sequence[Admitted]) -> None:
        tables = self.tables
        following = len(tables.journal)  # numbers have no holes
        for one in admitted:
            require(
                one.entry.number not in tables.journal,
                f"admission number {one.entry.number} reused",
            )
            self._admit_one(one)
        numbers = {one.entry.number for one in admitted}
        require(
            numbers == set(range(following, following + len(admitted))),
            f"admission numbers do not go on from {following}",
        )

    def _admit_one(self, one: Admitted) -> None:
        chain, position, entry, raw = one.chain, one.position, one.entry, one.raw
        following = self.tables.newest.get(chain, -1) + 1
        require(position >= following, f"immutable record rewritten: position {position} is taken")
        require(position == following, f"position gap: {position} comes, {following} is next")
        hashes = (chain, entry.leaf_hash, entry.content_hash, entry.link_hash, entry.key)
        require(all(len(data) == 32 for data in hashes), "a hash or key is not 32 bytes")
        require(len(raw) > 0, "a receipt without bytes")
        require(entry.receipt_hash == _sha256(raw), "receipt hash is not that of the bytes")
        require(entry.leaf_hash == _sha256(b"\x00" + raw), "leaf hash is not that of the bytes")
        self.add("entries", (chain, position), replace(entry))
        self.add("journal", entry.number, Stored(chain, position, raw, one.admitted_at))
        self.add("places", entry.receipt_hash, (chain, position))
        for digest in {entry.content_hash, entry.link_hash} - {entry.receipt_hash}:
            self.add("aliases", (chain, digest), position)
        self.put("newest", chain, position)

    def move_heads(self, changes: Changes) -> None:
        moved = {one.chain for one in changes.admitted}
        require(moved <= changes.heads.keys(), "head not moved with its chain")
        for chain, head in changes.heads.items():
            entry = self.tables.entries.get((chain, head.position))
            newest = self.tables.newest.get(chain)
            require(
                entry is not None and head.position == newest and head.link_hash == entry.link_hash,
                f"head at {head.position} does not match its entry (newest position {newest})",
            )
            if chain in moved:
                self.put("heads", chain, replace(head))
            else:
                self.add("heads", chain, replace(head))

    def mark(self, mark: Mark) -> None:
        place = (mark.chain, mark.position)
        require(place in self.tables.entries, "mark on a position that is not there")
        require(place not in self.tables.covered, "mark on a position that is sealed")
        self.put("marks", place, replace(mark))

    def key(self, record: KeyRecord, sealed: range) -> None:
        """A key record, new or with the leaf index it gained in a seal of those leaves."""
        records = self.tables.keys.get(record.chain, ())
        former = next((one for one in records if one.key == record.key), None)
        gained = record.leaf_index is not None and (former is None or former.leaf_index is None)
        if former is not None:
            expected = replace(former, leaf_index=record.leaf_index) if gained else former
            require(record == expected, "immutable record of keys rewritten with other content")
        require(record.mode in {"pinned", "registered"}, f"unknown trust mode {record.mode!r}")
        require(len(record.chain) == 32, "a chain is not 32 bytes")
        require(len(record.key) in KEY_SIZES.values(), "a key has the length of no algorithm")
        require(not gained or record.leaf_index in sealed, "key leaf index is not in this seal")
        kept = [one for one in records if one.key != record.key]
        self.put("keys", record.chain, tuple(sorted([*kept, replace(record)], key=key_order)))

    def fork(self, fork: ForkRecord) -> None:
        place = (fork.chain, fork.position)
        require(place in self.tables.entries, "fork of a position that is not taken")
        require(fork.receipt_hash == _sha256(fork.raw), "fork's hash is not that of the bytes")
        taken = self.tables.entries[place].receipt_hash
        require(fork.receipt_hash != taken, "fork equals the receipt")
        forks = {(one.position, one.receipt_hash): one for one in self._forks(fork.chain)}
        former = forks.setdefault((fork.position, fork.receipt_hash), replace(fork))
        require(former == fork, "immutable record of forks rewritten with other content")
        self.put("forks", fork.chain, tuple(forks[key] for key in sorted(forks)))

    def _forks(self, chain: bytes) -> tuple[ForkRecord, ...]:
        return self.tables.forks.get(chain, ())

    def seal(self, sealed: Sealed) -> None:
        tables, state = self.tables, sealed.state
        former = tables.state.get("log")
        size = 0 if former is None else former.size
        require(sealed.first_leaf == size, f"leaf index gap: {sealed.first_leaf} after {size}")
        for index, leaf in enumerate(sealed.leaves, size):
            require(0 < len(leaf) <= 65_535, "leaf length out of bounds")
            self.add("leaves", index, leaf)
        require(state.size == len(tables.leaves), "log state size is not the number of leaves")
        self._grow_tiles(sealed)
        added = range(size, state.size)
        for segment in sealed.segments:
            self._cover(segment, added)
        for record in sealed.keys:
            self.key(record, added)
        for mark in sealed.cleared:
            self._clear(mark)
        for anchor in sealed.anchors:
            seal_anchor(self, anchor, added)
        self._move_state(state, 0 if former is None else former.sealed_number)

    def _grow_tiles(self, sealed: Sealed) -> None:
        tables, size = self.tables, sealed.state.size
        former = Frontier.load(sealed.first_leaf, lambda tile: tables.tiles.get(tile, b""))
        grown, expected = former.append([_sha256(b"\x00" + leaf) for leaf in sealed.leaves])
        for tile, row in sealed.tiles.items():
            require(
                row.startswith(tables.tiles.get(tile, b"")),
                f"tile row {tile} is not an extension of the former row",
            )
            require(
                len(row) == 32 * tile_width(tile, size) > 0,
                f"tile row {tile} has not the width of its tile at size {size}",
            )
            self.put("tiles", tile, row)
        require(sealed.tiles == expected, "tiles are not all those the leaves change")
        require(sealed.state.root == grown.root(), "root is not that of the leaves")

    def _cover(self, segment: Segment, added: range) -> None:
        chain = segment.chain
        before = self.tables.sealed.get(chain)
        first = 0 if before is None else before.last + 1
        newest = self.tables.newest.get(chain, -1)
        require(segment.first == first, f"segment gap: {segment.first} comes, {first} is next")
        require(first <= segment.last <= newest, f"segment ends at {segment.last} of {newest}")
        require(segment.leaf_index in added, "segment leaf index is not in this seal")
        for position in range(first, segment.last + 1):
            self.add("covered", (chain, position), replace(segment))
        self.put("sealed", chain, replace(segment))

    def _clear(self, mark: Mark) -> None:
        place = (mark.chain, mark.position)
        require(place in self.tables.marks, "mark cleared that is not there")
        require(place in self.tables.covered, "mark cleared that no segment covers")
        self.drop("marks", place)

    def _move_state(self, state: LogState, sealed_number: int) -> None:
        tables = self.tables
        require(len(state.note) > 0, "log state without a signed note")
        require(
            sealed_number <= state.sealed_number <= len(tables.journal),
            f"sealed number goes from {sealed_number} to {state.sealed_number}",
        )
        for number in range(sealed_number, state.sealed_number):
            stored = tables.journal[number]
            require(
                (stored.chain, stored.position) in tables.covered,
                f"admission number {number} counts as sealed and is not",
            )
        self.add("checkpoints", state.size, state.note)
        self.put("state", "log", replace(state))

    def check_marked(self, admitted: Sequence[Admitted]) -> None:
        """An admitted receipt without a mark would never be sealed."""
        for chain in {one.chain for one in admitted}:
            place = (chain, self.tables.newest[chain])
            require(
                place in self.tables.marks or place in self.tables.covered,
                f"position {place[1]} is admitted, unsealed and has no mark",
            )


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
