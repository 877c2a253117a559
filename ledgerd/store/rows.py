"""Reading records out of sorted rows: what every store with our key layout has in common.

A driver gives three primitives (:class:`RowAccess`); everything else about reading is here, without
a word about the database. Generators read page by page, so nothing is held open between two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledgerd.store import schema
from ledgerd.store.anchor_rows import AnchorRows
from ledgerd.store.families import (
    DEFAULT,
    HASHES,
    HEADS,
    INDEX,
    JOURNAL,
    LEAVES,
    SEGMENTS,
    TILES,
)
from ledgerd.store.interface import Counts, StoreError
from ledgerd.store.row_access import LARGE_ROWS, PAGE_ROWS, Row, count_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerd.store.interface import (
        Entry,
        ForkRecord,
        Head,
        KeyRecord,
        LogState,
        Mark,
        Segment,
        Stored,
    )
    from receiptledger.core.tile import TileId

__all__ = ["PAGE_ROWS", "Row", "RowReader"]

_LINKS = (b"l", b"n", b"u", b"z")  # kinds of rows that lead to an anchor


class RowReader(AnchorRows):
    """The reading half of a Store. Methods raise StoreError on damage; see the interface."""

    # Receipts.

    def next_number(self) -> int:
        """One above the highest number in the journal."""
        last = self._last(JOURNAL, b"\xff" * 8)
        return 0 if last is None else schema.decode_number(last[0]) + 1

    def head(self, chain: bytes) -> Head | None:
        """Newest position of a chain."""
        data = self._get(HEADS, chain)
        return None if data is None else schema.decode_head(data)

    def entry(self, chain: bytes, position: int) -> Entry | None:
        """One position of a chain."""
        data = self._get(INDEX, schema.encode_place(chain, position))
        return None if data is None else schema.decode_entry(data)

    def entries(self, chain: bytes, first: int, last: int) -> Iterator[Entry]:
        """Positions first..last in order. Raises StoreError where one before the end is missing."""
        begin = schema.encode_place(chain, first)
        end = schema.encode_place(chain, last) + b"\x00"
        for position, (key, value) in enumerate(self._rows(INDEX, begin, end), first):
            if key != schema.encode_place(chain, position):
                raise StoreError(f"damaged chain {chain.hex()}: position {position} is missing")
            yield schema.decode_entry(value)

    def position_of(self, chain: bytes, digest: bytes) -> int | None:
        """Position by receipt, content or link hash, within the chain."""
        place = self.locate(digest)
        if place is not None and place[0] == chain:
            return place[1]
        data = self._get(HASHES, schema.alias_key(chain, digest))
        return None if data is None else schema.decode_number(data)

    def locate(self, receipt_hash: bytes) -> tuple[bytes, int] | None:
        """(chain, position) by receipt hash."""
        data = self._get(HASHES, schema.receipt_key(receipt_hash))
        return None if data is None else schema.decode_place(data)

    def receipt(self, chain: bytes, position: int) -> Stored | None:
        """The stored bytes at one position."""
        entry = self.entry(chain, position)
        if entry is None:
            return None
        data = self._get(JOURNAL, schema.encode_number(entry.number))
        stored = None if data is None else schema.decode_stored(data)
        if stored is None or (stored.chain, stored.position) != (chain, position):
            raise StoreError(
                f"damaged journal: {entry.number} is not position {position} of {chain.hex()}"
            )
        return stored

    def chains(self) -> Iterator[tuple[bytes, Head]]:
        """Every chain and its head, in chain key order."""
        for key, value in self._rows(HEADS, b"", b"\xff" * 33):
            yield key, schema.decode_head(value)

    def keys(self, chain: bytes) -> list[KeyRecord]:
        """Every key of a chain, by first position, then by leaf index, unsealed last."""
        records = [schema.decode_key(*row) for row in self._scope(schema.scope(b"k", chain))]
        return sorted(records, key=schema.key_order)

    def forks(self, chain: bytes) -> list[ForkRecord]:
        """Fork evidence of a chain, by position and receipt hash."""
        return [schema.decode_fork(*row) for row in self._scope(schema.scope(b"f", chain))]

    def marks(self) -> Iterator[Mark]:
        """Every mark not cleared yet, in (chain, position) order."""
        return (schema.decode_mark(*row) for row in self._scope(b"m"))

    # The log.

    def segment(self, chain: bytes, position: int) -> Segment | None:
        """The sealed segment that holds a position."""
        found = self._last(SEGMENTS, schema.encode_place(chain, position))
        if found is None or found[0][:32] != chain:
            return None
        segment = schema.decode_segment(*found)
        return segment if position <= segment.last else None

    def last_segment(self, chain: bytes) -> Segment | None:
        """The newest sealed segment of a chain."""
        found = self._last(SEGMENTS, schema.encode_place(chain, schema.MAX_INTEGER))
        return schema.decode_segment(*found) if found and found[0][:32] == chain else None

    def log_state(self) -> LogState | None:
        """The log as last sealed."""
        data = self._get(DEFAULT, schema.STATE_KEY)
        return None if data is None else schema.decode_state(data)

    def leaves(self, first: int, count: int) -> list[bytes]:
        """`count` leaves from index `first`; StoreError when one is missing."""
        begin, end = schema.encode_number(first), schema.encode_number(first + count)
        rows = self._page(LEAVES, begin, end, count)
        if [key for key, _ in rows] != [*map(schema.encode_number, range(first, first + count))]:
            raise StoreError(f"leaves {first}..{first + count - 1} are not all there")
        return [schema.decode_leaf(value) for _, value in rows]

    def tile(self, tile: TileId) -> bytes:
        """The whole stored row of a tile; b"" if none."""
        data = self._get(TILES, schema.tile_key(tile))
        return b"" if data is None else schema.decode_row(data)

    def checkpoint(self, size: int) -> bytes | None:
        """The signed note published at a tree size."""
        return self._get(DEFAULT, schema.checkpoint_key(size))

    # For `fsck`.

    def chain_keys(self) -> Iterator[bytes]:
        """Key of every chain, in order; the heads are not decoded."""
        for key, _ in self._rows(HEADS, b"", b"\xff" * 33):
            yield schema.head_key(key)

    def checkpoint_sizes(self) -> Iterator[int]:
        """Every tree size that has a signed note, growing."""
        return (schema.decode_checkpoint_key(key) for key, _ in self._scope(b"c"))

    def counts(self) -> Counts:
        """How many records there are."""
        families = (INDEX, HEADS, HASHES, LEAVES, TILES, SEGMENTS)
        entries, heads, hashes, leaves, tiles, segments = (
            count_rows(self._rows(family, b"", b"\xff" * 74)) for family in families
        )
        checkpoints, forks, intents, keys, marks, *links = (
            count_rows(self._scope(kind)) for kind in (b"c", b"f", b"i", b"k", b"m", *_LINKS)
        )
        anchors, blobs, refused = (
            count_rows(self._scope(kind, LARGE_ROWS)) for kind in (b"a", b"b", b"q")
        )
        state = self._get(DEFAULT, schema.STATE_KEY) is not None
        known = sum((checkpoints, forks, intents, keys, marks, *links, anchors, blobs, refused))
        return Counts(
            entries=entries,
            heads=heads,
            hashes=hashes,
            leaves=leaves,
            tiles=tiles,
            segments=segments,
            keys=keys,
            forks=forks,
            anchors=anchors,
            anchor_links=sum(links),
            intents=intents,
            blobs=blobs,
            quarantined=refused,
            unknown=count_rows(self._rows(DEFAULT, b"", b"\xff" * 74, LARGE_ROWS)) - known - state,
        )
