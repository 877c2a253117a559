"""Reading timestamps from a store in memory; part of :mod:`ledgerd.store.memory`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from ledgerd.store.interface import AnchorLinks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from ledgerd.store.interface import AnchorIntent, AnchorRecord, Quarantined
    from ledgerd.store.invariants import Tables

__all__ = ["AnchorMemory"]


class AnchorMemory(ABC):
    """The part of a store in memory that is about timestamps; what it returns is the reader's own."""

    @abstractmethod
    def _open(self) -> AbstractContextManager[Tables]:
        """The tables, under the lock."""

    def intents(self) -> list[AnchorIntent]:
        """Every intent, by TSA name."""
        with self._open() as tables:
            return [replace(tables.intents[name]) for name in sorted(tables.intents)]

    def anchor(self, number: int) -> AnchorRecord | None:
        """One anchor."""
        with self._open() as tables:
            record = tables.anchors.get(number)
            return record and replace(record)

    def anchors(self, first: int = 0) -> Iterator[AnchorRecord]:
        """Anchors from a number on, in number order."""
        return iter(self._anchors(lambda one: one.number >= first))

    def anchors_by_size(self, first_size: int) -> Iterator[AnchorRecord]:
        """Anchors of checkpoints of at least a size, by size, then by number."""
        return iter(self._anchors(lambda one: one.size >= first_size, lambda one: one.size))

    def anchors_by_leaf(self, before: int) -> Iterator[AnchorRecord]:
        """Anchors whose own leaf is before a leaf index, the newest leaf first."""
        return iter(
            self._anchors(
                lambda one: one.leaf_index is not None and one.leaf_index < before,
                lambda one: -(one.leaf_index or 0),
            )
        )

    def unsealed_anchors(self) -> list[AnchorRecord]:
        """Anchors the next seal owes a leaf, in number order."""
        return self._anchors(lambda one: one.unsealed)

    def anchors_without_evidence(self, stored_before: int) -> Iterator[AnchorRecord]:
        """Anchors without evidence stored before a time, by time."""
        return iter(
            self._anchors(
                lambda one: one.evidence is None and one.stored_at < stored_before,
                lambda one: one.stored_at,
            )
        )

    def next_anchor_number(self) -> int:
        """One above the highest number."""
        with self._open() as tables:
            return len(tables.anchors)

    def blob(self, digest: bytes) -> bytes | None:
        """A part of evidence by its SHA-256."""
        with self._open() as tables:
            return tables.blobs.get(digest)

    def quarantined(self, first: int = 0) -> Iterator[Quarantined]:
        """Refused answers from a number on, in number order."""
        with self._open() as tables:
            return iter(
                [replace(one) for one in tables.quarantined.values() if one.number >= first]
            )

    def next_quarantine_number(self) -> int:
        """One above the highest number."""
        with self._open() as tables:
            return len(tables.quarantined)

    def anchor_numbers(self) -> Iterator[int]:
        """Number of every anchor, growing."""
        with self._open() as tables:
            return iter(sorted(tables.anchors))

    def anchor_at(self, leaf_index: int) -> AnchorRecord | None:
        """The anchor whose own or whose evidence's leaf this is."""
        with self._open() as tables:
            record = tables.anchors.get(tables.anchor_leaves.get(leaf_index, -1))
            return record and replace(record)

    def anchor_links(self, record: AnchorRecord) -> AnchorLinks:
        """Which ways of looking lead to an anchor: all that its record says."""
        return AnchorLinks(
            by_size=True,
            by_leaf=record.leaf_index is not None,
            by_evidence_leaf=record.evidence_leaf_index is not None,
            unsealed=record.unsealed,
            without_evidence=record.evidence is None,
        )

    def blob_digests(self) -> Iterator[bytes]:
        """Digest every blob is stored under, in order."""
        with self._open() as tables:
            return iter(sorted(tables.blobs))

    def quarantine_numbers(self) -> Iterator[int]:
        """Number of every refused answer, growing."""
        with self._open() as tables:
            return iter(sorted(tables.quarantined))

    def _anchors(
        self,
        wanted: Callable[[AnchorRecord], bool],
        order: Callable[[AnchorRecord], Any] = lambda one: one.number,
    ) -> list[AnchorRecord]:
        """Copies of the wanted anchors, sorted; number order where the order leaves it open."""
        with self._open() as tables:
            found = [replace(one) for one in tables.anchors.values() if wanted(one)]
        return sorted(found, key=lambda one: (order(one), one.number))
