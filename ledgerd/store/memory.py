"""A store in memory for tests: the same contract, with teeth and faults.

Every commit is held to `invariants`; a broken one raises AssertionError and changes nothing. Faults
are the three things that can be true when a commit raises StoreError (:class:`Fault`), so that code
above the store meets all of them. :meth:`MemoryStore.crash` gives what the next process would find.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from ledgerd.store.anchor_memory import AnchorMemory
from ledgerd.store.interface import Counts, StoreError, StoreFailedError, StoreStats
from ledgerd.store.invariants import Tables, Undo, apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.store.interface import (
        Changes,
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

__all__ = ["Fault", "MemoryStore"]


@unique
class Fault(StrEnum):
    """What became of a commit that raised StoreError."""

    LOST = "lost"  # nothing was applied; the next commit works
    DONE = "done"  # all of it is applied and durable; the next commit works
    UNSYNCED = "unsynced"  # readers see it, a power loss undoes it, and no later commit works


class MemoryStore(AnchorMemory):
    """A Store without a disk. Safe for reads from many threads, as the contract asks.

    Attributes:
        commits: commits asked for so far, failed ones too.
        before_commit: called with the count (1 for the first commit) and the changes; what it
            returns befalls that commit, and what it raises comes out of it.
        free_bytes: what :meth:`stats` says is free; set it to try a full disk.
        background_errors: likewise.
    """

    def __init__(self) -> None:
        self.commits = 0
        self.before_commit: Callable[[int, Changes], Fault | None] | None = None
        self.free_bytes = 2**40
        self.background_errors = 0
        self._tables = Tables()
        self._unsynced: Undo = []
        self._failed = False
        self._closed = False
        self._faults: dict[int, Fault] = {}
        self._lock = threading.Lock()

    # Faults.

    def fail_next(self, fault: Fault | str) -> None:
        """Let the next commit fail: "lost", "done" or "unsynced"."""
        self.fail_at(1, fault)

    def fail_at(self, count: int, fault: Fault | str) -> None:
        """Let a later commit fail; 1 is the next one."""
        self._faults[self.commits + count] = Fault(fault)

    def crash(self, *, power: bool = True) -> MemoryStore:
        """What the next process finds; this store is dead from then on.

        Args:
            power: the machine went down, so unsynced writes are gone. False: only the process was
                killed, and what readers saw is still there.
        """
        with self._lock:
            self._closed = True
            survivor = MemoryStore()
            survivor._tables = self._tables.copy()
            if power:
                survivor._tables.undo(self._unsynced)
            return survivor

    # The contract: see `interface`.

    def commit(self, changes: Changes) -> None:
        """Apply atomically and durably, or as the fault says.

        Raises:
            StoreError: outcome unknown, as the fault says; or an anchor contradicts what is there.
            AssertionError: an invariant is broken; nothing was applied.
        """
        self.commits += 1
        fault = self._faults.pop(self.commits, None)
        if self.before_commit is not None:
            fault = self.before_commit(self.commits, changes) or fault
        with self._open() as tables:
            if self._failed:
                raise StoreFailedError("must be opened again: an earlier flush failed")
            log = apply(tables, changes)
            if fault is Fault.LOST:
                tables.undo(log)
            elif fault is Fault.UNSYNCED:
                self._unsynced, self._failed = log, True
        if fault is Fault.UNSYNCED:
            raise StoreFailedError(f"must be opened again: flush {self.commits} failed on request")
        if fault is not None:
            raise StoreError(f"commit {self.commits} failed on request ({fault})")

    def next_number(self) -> int:
        """One above the highest number in the journal."""
        with self._open() as tables:
            return len(tables.journal)

    def head(self, chain: bytes) -> Head | None:
        """Newest position of a chain."""
        with self._open() as tables:
            head = tables.heads.get(chain)
            return head and replace(head)

    def entry(self, chain: bytes, position: int) -> Entry | None:
        """One position of a chain."""
        with self._open() as tables:
            entry = tables.entries.get((chain, position))
            return entry and replace(entry)

    def entries(self, chain: bytes, first: int, last: int) -> Iterator[Entry]:
        """Positions first..last in order."""
        with self._open() as tables:
            end = min(last, tables.newest.get(chain, -1)) + 1
            return iter([replace(tables.entries[chain, at]) for at in range(first, end)])

    def position_of(self, chain: bytes, digest: bytes) -> int | None:
        """Position by receipt, content or link hash, within the chain."""
        with self._open() as tables:
            found, position = tables.places.get(digest, (None, 0))
            return position if found == chain else tables.aliases.get((chain, digest))

    def locate(self, receipt_hash: bytes) -> tuple[bytes, int] | None:
        """(chain, position) by receipt hash."""
        with self._open() as tables:
            return tables.places.get(receipt_hash)

    def receipt(self, chain: bytes, position: int) -> Stored | None:
        """The stored bytes at one position."""
        with self._open() as tables:
            entry = tables.entries.get((chain, position))
            return None if entry is None else replace(tables.journal[entry.number])

    def chains(self) -> Iterator[tuple[bytes, Head]]:
        """Every chain and its head, in chain key order."""
        with self._open() as tables:
            return iter([(chain, replace(head)) for chain, head in sorted(tables.heads.items())])

    def keys(self, chain: bytes) -> list[KeyRecord]:
        """Every key of a chain, oldest first."""
        with self._open() as tables:
            return [replace(record) for record in tables.keys.get(chain, ())]

    def forks(self, chain: bytes) -> list[ForkRecord]:
        """Fork evidence of a chain, by position and receipt hash."""
        with self._open() as tables:
            return [replace(fork) for fork in tables.forks.get(chain, ())]

    def marks(self) -> Iterator[Mark]:
        """Every mark not cleared yet, in (chain, position) order."""
        with self._open() as tables:
            return iter([replace(tables.marks[place]) for place in sorted(tables.marks)])

    def segment(self, chain: bytes, position: int) -> Segment | None:
        """The sealed segment that holds a position."""
        with self._open() as tables:
            segment = tables.covered.get((chain, position))
            return segment and replace(segment)

    def last_segment(self, chain: bytes) -> Segment | None:
        """The newest sealed segment of a chain."""
        with self._open() as tables:
            segment = tables.sealed.get(chain)
            return segment and replace(segment)

    def log_state(self) -> LogState | None:
        """The log as last sealed."""
        with self._open() as tables:
            state = tables.state.get("log")
            return state and replace(state)

    def leaves(self, first: int, count: int) -> list[bytes]:
        """`count` leaves from index `first`."""
        with self._open() as tables:
            try:
                return [tables.leaves[index] for index in range(first, first + count)]
            except KeyError as error:
                raise StoreError(f"leaf {error} is not there") from error

    def tile(self, tile: TileId) -> bytes:
        """The whole stored row of a tile."""
        with self._open() as tables:
            return tables.tiles.get(tile, b"")

    def checkpoint(self, size: int) -> bytes | None:
        """The signed note published at a tree size."""
        with self._open() as tables:
            return tables.checkpoints.get(size)

    def chain_keys(self) -> Iterator[bytes]:
        """Key of every chain, in order."""
        with self._open() as tables:
            return iter(sorted(tables.heads))

    def checkpoint_sizes(self) -> Iterator[int]:
        """Every tree size that has a signed note, growing."""
        with self._open() as tables:
            return iter(sorted(tables.checkpoints))

    def counts(self) -> Counts:
        """How many records there are."""
        with self._open() as tables:
            segments = {(one.chain, one.first) for one in tables.covered.values()}
            return Counts(
                entries=len(tables.entries),
                heads=len(tables.heads),
                hashes=len(tables.places) + len(tables.aliases),
                leaves=len(tables.leaves),
                tiles=len(tables.tiles),
                segments=len(segments),
                keys=sum(map(len, tables.keys.values())),
                forks=sum(map(len, tables.forks.values())),
                anchors=len(tables.anchors),
                anchor_links=len(tables.anchor_leaves)
                + sum(1 + one.unsealed + (one.evidence is None) for one in tables.anchors.values()),
                intents=len(tables.intents),
                blobs=len(tables.blobs),
                quarantined=len(tables.quarantined),
                unknown=0,
            )

    def stats(self) -> StoreStats:
        """Bytes of the receipts held; the rest as set on this object."""
        with self._open() as tables:
            held = sum(len(stored.raw) for stored in tables.journal.values())
            return StoreStats(held, self.free_bytes, self.background_errors)

    def close(self) -> None:
        """Refuse all further use."""
        self._closed = True

    @contextmanager
    def _open(self) -> Iterator[Tables]:
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed")
            yield self._tables
