"""The log: every leaf, tile and checkpoint, in one walk from the first leaf to the last.

The tree is grown again from the leaves, and its root compared at every size that was signed. Where a
leaf does not hash to what its tile says, both are tried: the signed root decides which one is damaged,
so one flipped bit is one problem and not one for every checkpoint after it.
"""

from __future__ import annotations

import heapq
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ledgerd.store.fsck_report import Damage, GuardState, Report, place
from ledgerd.store.interface import Segment, StoreError, key_name
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError
from receiptledger.core.leaf import AnchorLeaf, HeadLeaf, KeyLeaf, parse_leaf
from receiptledger.core.merkle import HASH_SIZE, hash_leaf
from receiptledger.core.tile import TILE_WIDTH, Frontier, TileId, tile_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.store.interface import LogState, Store
    from receiptledger.core.leaf import Leaf
    from receiptledger.core.note import VerifierKey

__all__ = ["LogPass"]

# Leaves whose hashes are held while their signed root is looked for. A seal has some thousands.
MAX_SPAN: Final = 65_536
ROW_BYTES: Final = TILE_WIDTH * HASH_SIZE


class LogPass:
    """One walk over the log.

    Args:
        store: what to check.
        state: the log as last sealed; None when that cannot be read.
        size: leaves of the log, by its state or by count.
        verifier: the log's key.
        guard: the guard's note, or None when there is none to compare.
        report: where problems go.
        progress: called with the number of leaves checked since the last call.
    """

    def __init__(
        self,
        store: Store,
        state: LogState | None,
        size: int,
        verifier: VerifierKey,
        guard: bytes | None,
        report: Report,
        progress: Callable[[int], None],
    ) -> None:
        self._store = store
        self._state = state
        self._size = size
        self._verifier = verifier
        self._guard = guard
        self._report = report
        self._progress = progress
        self._frontier = Frontier.empty()
        self._open_tiles: dict[TileId, bytes] = {}  # rows that still grow
        self._row: tuple[int, bytes] = (-1, b"")  # the level-0 row read last
        self._ended = False  # neither leaves nor tiles go on
        self._root_lost = False  # a signed root was not met: no later one can be

    def run(self) -> None:
        """Walk everything."""
        guarded, newest = self._open_guard(), self._open_state()
        demanded = {0, self._size} if guarded is None else {0, self._size, guarded[0]}
        sizes = heapq.merge(self._sizes(), sorted((size, False) for size in demanded))
        for size, found in groupby(sizes, key=itemgetter(0)):
            root = self._checkpoint(size, stored=any(stored for _, stored in found))
            if size > self._size:
                continue
            if size == self._size:
                root = root or newest
            guard_root = guarded[1] if guarded is not None and guarded[0] == size else None
            self._advance(size, root)
            if guard_root is not None and not self._ended:
                self._check_guard(guard_root)
        for tile, row in self._open_tiles.items():
            self._check_tile(tile, row)

    # What was signed.

    def _sizes(self) -> Iterator[tuple[int, bool]]:
        """(size, True) of every stored checkpoint."""
        try:
            for size in self._store.checkpoint_sizes():
                yield size, True
        except StoreError as error:
            self._report.unreadable("checkpoints", "the list of checkpoints", error)

    def _checkpoint(self, size: int, *, stored: bool) -> bytes | None:
        """The root signed for a size, or None when there is no note or none that can be used."""
        report, newest, where = self._report, self._size, f"checkpoint of {size} leaves"
        if not stored:
            if size in (0, newest):  # the first commit writes the one, every seal the other
                report.missing("checkpoints", where)
            return None
        report.checked["checkpoints"] += 1
        if size > newest:
            expected = f"a size up to {newest}, that of the log"
            report.add(Damage.CHECKPOINT, where, expected, size)
            return None
        try:
            note = self._store.checkpoint(size) or b""
        except StoreError as error:
            report.unreadable("checkpoints", where, error)
            return None
        root = self._signed(Damage.CHECKPOINT, where, note, size)
        state = self._state
        if state is not None and size == newest and root is not None and note != state.note:
            report.add(Damage.STATE, "log state, note", "the note of its checkpoint", "another")
        return root

    def _open_state(self) -> bytes | None:
        """The newest root, signed if it can be had."""
        state = self._state
        if state is None:
            return None
        signed = self._signed(Damage.STATE, "log state", state.note, state.size)
        if signed is not None:
            self._report.expect(Damage.STATE, "log state, root", signed, state.root)
        return signed or state.root

    def _signed(self, what: Damage, where: str, note: bytes, size: int) -> bytes | None:
        """The root in a note that is signed and of the size it is stored under."""
        try:
            checkpoint = open_checkpoint(note, self._verifier)
        except EvidenceError as error:
            self._report.add(what, where, f"a checkpoint signed by {self._verifier}", error)
            return None
        self._report.expect(what, f"{where}, size", size, checkpoint.size)
        return checkpoint.root if checkpoint.size == size else None

    def _open_guard(self) -> tuple[int, bytes] | None:
        """(size, root) of the guard."""
        report, size = self._report, self._size
        if self._guard is None:
            return None
        try:
            guarded = open_checkpoint(self._guard, self._verifier)
        except EvidenceError as error:
            report.guard = GuardState.BAD
            report.add(Damage.GUARD, "guard", f"a checkpoint signed by {self._verifier}", error)
            return None
        if guarded.size > size:
            report.guard = GuardState.AHEAD
            expected = f"at most the {size} leaves of the log: it was restored from an old copy"
            report.add(Damage.GUARD, "guard", expected, f"{guarded.size} leaves signed")
            return None
        report.guard = GuardState.EQUAL if guarded.size == size else GuardState.BEHIND
        return guarded.size, guarded.root

    def _check_guard(self, root: bytes) -> None:
        found = self._frontier.root()
        if found != root and not self._root_lost:
            self._report.guard = GuardState.BAD
            where = f"guard, root of {self._frontier.size} leaves"
            self._report.add(Damage.GUARD, where, found, root)

    # The tree.

    def _advance(self, size: int, root: bytes | None) -> None:
        """Grow the tree to a size, and hold it against the root signed for that."""
        while size - self._frontier.size > MAX_SPAN and not self._ended:
            self._span(self._frontier.size + MAX_SPAN, None)
        if not self._ended:
            self._span(size, root)

    def _span(self, size: int, root: bytes | None) -> None:
        first = self._frontier.size
        by_leaf: list[bytes | None] = []
        by_tile: list[bytes | None] = []
        while first + len(by_leaf) < size:
            begin = first + len(by_leaf)
            end = min(size, begin - begin % TILE_WIDTH + TILE_WIDTH)
            by_leaf += self._hash_leaves(begin, end)
            by_tile += self._tile_hashes(begin, end)
            if not any(by_leaf[-TILE_WIDTH:]) and not any(by_tile[-TILE_WIDTH:]):
                # A damaged size may name any number of leaves.
                self._ended = True
                return
        # Where one of the two is missing, the other has to do.
        pairs = list(zip(by_leaf, by_tile, strict=True))
        leaves = [leaf or tile or bytes(HASH_SIZE) for leaf, tile in pairs]
        tiles = [tile or leaf or bytes(HASH_SIZE) for leaf, tile in pairs]
        grown, changed = self._frontier.append(leaves)
        if leaves != tiles:
            other, other_changed = self._frontier.append(tiles)
            tiles_hold = root is not None and other.root() == root
            if tiles_hold:
                grown, changed = other, other_changed
            self._name_damage(first, leaves, tiles, tiles_hold=tiles_hold)
        self._frontier = grown
        if root is not None and grown.root() != root and not self._root_lost:
            where = f"root of {size} leaves"
            self._report.add(Damage.ROOT, where, f"{digest_text(root)} (signed)", grown.root())
            self._root_lost = True
        self._settle_tiles(changed)

    def _name_damage(
        self, first: int, leaves: list[bytes], tiles: list[bytes], *, tiles_hold: bool
    ) -> None:
        """Every leaf that does not hash to what its tile says; the signed root says who is right."""
        for index, (leaf, tile) in enumerate(zip(leaves, tiles, strict=True), first):
            if leaf == tile:
                continue
            if tiles_hold:
                self._report.add(Damage.LEAF, f"leaf {index}", tile, leaf)
            else:
                name = tile_path(TileId(0, index // TILE_WIDTH))
                self._report.add(Damage.TILE, f"{name}, hash {index % TILE_WIDTH}", leaf, tile)

    def _settle_tiles(self, changed: dict[TileId, bytes]) -> None:
        """Compare rows once, when they are full; those that still grow wait."""
        for tile, row in changed.items():
            if len(row) == ROW_BYTES:
                self._open_tiles.pop(tile, None)
                self._check_tile(tile, row)
            else:
                self._open_tiles[tile] = row

    def _check_tile(self, tile: TileId, row: bytes) -> None:
        """A stored row against the tree; the hashes of level 0 were compared leaf by leaf."""
        report, name = self._report, tile_path(tile)
        report.checked["tiles"] += 1
        try:
            stored = self._store.tile(tile)
        except StoreError as error:
            if tile.level > 0:
                report.unreadable("tiles", name, error)
            return
        count = len(row) // HASH_SIZE
        if tile.level > 0 or stored:  # a missing row of level 0 is named where it is first read
            report.expect(Damage.TILE, f"{name}, hashes", count, len(stored) // HASH_SIZE)
        for at in range(0, len(row) if tile.level > 0 else 0, HASH_SIZE):
            mine, theirs = row[at : at + HASH_SIZE], stored[at : at + HASH_SIZE]
            if theirs and mine != theirs:
                report.add(Damage.TILE, f"{name}, hash {at // HASH_SIZE}", mine, theirs)

    # Leaves.

    def _tile_hashes(self, begin: int, end: int) -> list[bytes | None]:
        """What the row of level 0 says of leaves of one tile; None where it says nothing."""
        index, first = divmod(begin, TILE_WIDTH)
        if self._row[0] != index:
            tile, row = TileId(0, index), b""
            try:
                row = self._store.tile(tile)
                if not row:
                    self._report.missing("tiles", tile_path(tile))
            except StoreError as error:
                self._report.unreadable("tiles", tile_path(tile), error)
            self._row = index, row
        row = self._row[1]
        places = range(first * HASH_SIZE, (first + end - begin) * HASH_SIZE, HASH_SIZE)
        return [row[at : at + HASH_SIZE] or None for at in places]

    def _hash_leaves(self, begin: int, end: int) -> list[bytes | None]:
        """Hashes of leaves, None for those that cannot be read; what they say is checked too."""
        hashes: list[bytes | None] = []
        for index, leaf in enumerate(self._read_leaves(begin, end), begin):
            hashes.append(None if leaf is None else hash_leaf(leaf))
            if leaf is not None:
                self._check_leaf(index, leaf)
        self._report.checked["leaves"] += end - begin
        self._progress(end - begin)
        return hashes

    def _read_leaves(self, begin: int, end: int) -> list[bytes | None]:
        try:
            return [*self._store.leaves(begin, end - begin)]
        except StoreError:
            pass  # which of them is it?
        leaves: list[bytes | None] = []
        failed: list[tuple[int, StoreError]] = []
        for index in range(begin, end):
            try:
                leaves += self._store.leaves(index, 1)
            except StoreError as error:
                leaves.append(None)
                failed.append((index, error))
        if len(failed) == len(leaves) > 1:
            self._report.unreadable("leaves", f"leaves {begin}..{end - 1}", failed[0][1])
            return leaves
        for index, problem in failed:
            self._report.unreadable("leaves", f"leaf {index}", problem)
        return leaves

    def _check_leaf(self, index: int, data: bytes) -> None:
        """Every leaf has the record that leads to it; the walk over the chains did the reverse."""
        where = f"leaf {index}"
        try:
            leaf: Leaf = parse_leaf(data)
        except EvidenceError as error:
            self._report.add(Damage.LEAF, where, "a head, key or anchor leaf", error)
            return
        try:
            if isinstance(leaf, HeadLeaf):
                self._check_head_leaf(where, index, leaf)
            elif isinstance(leaf, KeyLeaf):
                self._check_key_leaf(where, index, leaf)
            else:
                self._check_anchor_leaf(where, index, leaf)
        except StoreError:
            return  # the record is damaged: named by the walk over its chain, or over the anchors

    def _check_head_leaf(self, where: str, index: int, leaf: HeadLeaf) -> None:
        found = self._store.segment(leaf.chain, leaf.first)
        if found != Segment(leaf.chain, leaf.first, leaf.last, index):
            expected = f"a segment {leaf.first}..{leaf.last} of {place(leaf.chain)}, leaf {index}"
            got = None if found is None else f"{found.first}..{found.last}, leaf {found.leaf_index}"
            self._report.add(Damage.SEGMENT, where, expected, got)

    def _check_key_leaf(self, where: str, index: int, leaf: KeyLeaf) -> None:
        indexes = [r.leaf_index for r in self._store.keys(leaf.chain) if r.key == leaf.key]
        if indexes != [index]:
            name = key_name(leaf.key).hex()
            expected = f"a record of key {name} of {place(leaf.chain)}, leaf {index}"
            self._report.add(Damage.KEY, where, expected, ", ".join(map(str, indexes)) or None)

    def _check_anchor_leaf(self, where: str, index: int, leaf: AnchorLeaf) -> None:
        record = self._store.anchor_at(index)
        if record is None or index not in (record.leaf_index, record.evidence_leaf_index):
            expected = f"an anchor of {leaf.size} leaves by {leaf.tsa}, leaf {index}"
            got = None if record is None else f"anchor {record.number}, leaf {record.leaf_index}"
            self._report.add(Damage.ANCHOR_INDEX, where, expected, got)


def count_tiles(size: int) -> int:
    """How many rows a tree of `size` leaves has."""
    rows, level = 0, 0
    while size >> (8 * level):
        rows += -(-(size >> (8 * level)) // TILE_WIDTH)
        level += 1
    return rows
