"""Reading what a store keeps of timestamps out of its rows; see :mod:`ledgerd.store.anchor_schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledgerd.store import anchor_schema as schema
from ledgerd.store.families import DEFAULT
from ledgerd.store.fields import MAX_INTEGER, decode_number, encode_number
from ledgerd.store.interface import AnchorLinks, StoreError
from ledgerd.store.row_access import LARGE_ROWS, RowAccess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerd.store.interface import AnchorIntent, AnchorRecord, Quarantined

__all__ = ["AnchorRows"]

_ABOVE_ALL = b"\xff" * 17


class AnchorRows(RowAccess):
    """The part of a reading store that is about timestamps."""

    def intents(self) -> list[AnchorIntent]:
        """Every intent, by TSA name."""
        return [schema.decode_intent(*row) for row in self._scope(b"i")]

    def anchor(self, number: int) -> AnchorRecord | None:
        """One anchor."""
        data = self._get(DEFAULT, schema.anchor_key(number))
        return None if data is None else schema.decode_anchor(number, data)

    def anchors(self, first: int = 0) -> Iterator[AnchorRecord]:
        """Anchors from a number on, in number order."""
        begin, end = schema.anchor_key(first), b"a" + _ABOVE_ALL
        for key, value in self._rows(DEFAULT, begin, end, LARGE_ROWS):
            yield schema.decode_anchor(schema.decode_anchor_key(key), value)

    def anchors_by_size(self, first_size: int) -> Iterator[AnchorRecord]:
        """Anchors of checkpoints of at least a size, by size, then by number."""
        begin, end = b"z" + encode_number(first_size), b"z" + _ABOVE_ALL
        for row in self._rows(DEFAULT, begin, end):
            size, number = schema.decode_pair_key(*row)
            record = self._linked(number)
            if record.size != size:
                raise StoreError(f"damaged index: anchor {number} is not of {size} leaves")
            yield record

    def anchors_by_leaf(self, before: int) -> Iterator[AnchorRecord]:
        """Anchors whose own leaf is before a leaf index, the newest leaf first."""
        while before > 0:
            found = self._last(DEFAULT, schema.anchor_leaf_key(min(before - 1, MAX_INTEGER)))
            if found is None or found[0][:1] != b"l":
                return
            before, number = schema.decode_anchor_leaf(*found)
            record = self._linked(number)
            if record.leaf_index == before:  # else this leaf is of its evidence
                yield record

    def unsealed_anchors(self) -> list[AnchorRecord]:
        """Anchors the next seal owes a leaf, in number order."""
        return [self._linked(schema.decode_unsealed(*row)) for row in self._scope(b"u")]

    def anchors_without_evidence(self, stored_before: int) -> Iterator[AnchorRecord]:
        """Anchors without evidence stored before a time, by time."""
        for row in self._rows(DEFAULT, b"n", b"n" + encode_number(stored_before)):
            record = self._linked(schema.decode_pair_key(*row)[1])
            if record.evidence is None:  # it may have come since the page was read
                yield record

    def next_anchor_number(self) -> int:
        """One above the highest number."""
        return self._following(b"a")

    def blob(self, digest: bytes) -> bytes | None:
        """A part of evidence by its SHA-256."""
        data = self._get(DEFAULT, schema.blob_key(digest))
        return None if data is None else schema.decode_blob(data)

    def quarantined(self, first: int = 0) -> Iterator[Quarantined]:
        """Refused answers from a number on, in number order."""
        begin, end = schema.quarantine_key(first), b"q" + _ABOVE_ALL
        for key, value in self._rows(DEFAULT, begin, end, LARGE_ROWS):
            yield schema.decode_quarantined(schema.decode_quarantine_key(key), value)

    def next_quarantine_number(self) -> int:
        """One above the highest number."""
        return self._following(b"q")

    # For `fsck`.

    def anchor_numbers(self) -> Iterator[int]:
        """Number of every anchor, growing; the records are not decoded."""
        return (schema.decode_anchor_key(key) for key, _ in self._scope(b"a", LARGE_ROWS))

    def anchor_at(self, leaf_index: int) -> AnchorRecord | None:
        """The anchor whose own or whose evidence's leaf this is."""
        data = self._get(DEFAULT, schema.anchor_leaf_key(leaf_index))
        return None if data is None else self.anchor(decode_number(data))

    def anchor_links(self, record: AnchorRecord) -> AnchorLinks:
        """Which index rows lead to an anchor."""
        number = record.number

        def has(key: bytes) -> bool:
            return self._get(DEFAULT, key) == b""

        def has_leaf(index: int | None) -> bool:
            key = schema.anchor_leaf_key(index or 0)
            return index is not None and self._get(DEFAULT, key) == encode_number(number)

        return AnchorLinks(
            by_size=has(schema.size_key(record.size, number)),
            by_leaf=has_leaf(record.leaf_index),
            by_evidence_leaf=has_leaf(record.evidence_leaf_index),
            unsealed=has(schema.unsealed_key(number)),
            without_evidence=has(schema.waiting_key(record.stored_at, number)),
        )

    def blob_digests(self) -> Iterator[bytes]:
        """Digest every blob is stored under, in order; the blobs are not looked at."""
        return (schema.decode_blob_key(key) for key, _ in self._scope(b"b", LARGE_ROWS))

    def quarantine_numbers(self) -> Iterator[int]:
        """Number of every refused answer, growing; the records are not decoded."""
        return (schema.decode_quarantine_key(key) for key, _ in self._scope(b"q", LARGE_ROWS))

    def _following(self, prefix: bytes) -> int:
        last = self._last(DEFAULT, prefix + _ABOVE_ALL)
        if last is None or last[0][:1] != prefix:
            return 0
        return decode_number(last[0][1:]) + 1

    def _linked(self, number: int) -> AnchorRecord:
        record = self.anchor(number)
        if record is None:
            raise StoreError(f"damaged index: it leads to anchor {number}, which is not there")
        return record
