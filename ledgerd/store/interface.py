"""What the daemon asks of a store, and the records it keeps there.

Rules every implementation keeps (tests/contract holds them to it):

- :meth:`Store.commit` is atomic: after a crash either all of a :class:`Changes` is there or nothing.
- When `commit` returns, the change and everything committed before it is on stable storage.
- When `commit` raises :class:`StoreError`, the outcome is unknown: the caller forgets what it
  remembers of the store, reads again, and commits once more before it acknowledges anything.
- Records are append-only, except heads, tiles (growing rows), keys (gain a leaf index), anchors (gain
  evidence and leaf indexes), intents, marks and the log state. Readers bound what they read by a tree
  size, never by a snapshot.
- A leaf index is given by a seal and by nothing else: those in :attr:`Changes.anchors` are ignored, so
  a record that was read before a seal may be handed in with its evidence after it.
- Anchors and refused answers are numbered without holes, and none is written over with another one: a
  commit that would do that raises StoreError and changes nothing. The same record again is no change.
- `commit` is called by one thread; reads may come from any thread at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from ledgerd.store.anchor_records import (
    AnchorIntent,
    AnchorLinks,
    AnchorRecord,
    AnchorStore,
    Quarantined,
)
from receiptledger.core.chain import Head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from receiptledger.core.tile import TileId

__all__ = [
    "Admitted",
    "AnchorIntent",
    "AnchorLinks",
    "AnchorRecord",
    "AnchorStore",
    "ChangedFormatError",
    "Changes",
    "Counts",
    "Entry",
    "ForkRecord",
    "Head",
    "KeyRecord",
    "LogState",
    "Mark",
    "Quarantined",
    "Sealed",
    "Segment",
    "Store",
    "StoreError",
    "StoreFailedError",
    "StoreInUseError",
    "StoreStats",
    "Stored",
    "key_name",
]


class StoreError(Exception):
    """A read or write failed. After a failed commit the outcome is unknown."""


class StoreFailedError(StoreError):
    """A sync failed: nobody knows what the disk kept, and no commit succeeds before a reopen."""


class StoreInUseError(StoreError):
    """Another process has the folder open."""


class ChangedFormatError(StoreError):
    """The folder is not one of ours, or was written by a newer ledgerd."""


def key_name(key: bytes) -> bytes:
    """What stands for a public key in every entry, 32 bytes: an Ed25519 key itself, else its SHA-256.

    A key of another algorithm has up to 1,952 bytes; it is kept once, in its :class:`KeyRecord`.
    """
    return key if len(key) == 32 else sha256(key).digest()


@dataclass(slots=True)
class Entry:
    """What the ledger knows of one position without its bytes (survives erasure)."""

    number: int  # admission number, global, 0, 1, 2 ...
    leaf_hash: bytes  # 32: SHA-256(0x00 || raw), leaf of the segment tree
    receipt_hash: bytes  # 32: SHA-256(raw)
    content_hash: bytes  # 32
    link_hash: bytes  # 32
    profile: str
    profile_version: int
    key: bytes  # 32: `key_name` of the public key under which the signature was verified


@dataclass(slots=True)
class Admitted:
    """One receipt to append: its entry, its bytes, and where it belongs."""

    chain: bytes  # 32
    position: int
    entry: Entry
    raw: bytes
    admitted_at: int  # microseconds since the epoch, the ledger's own claim


@dataclass(slots=True)
class Stored:
    """One receipt as read back from the journal."""

    chain: bytes
    position: int
    raw: bytes
    admitted_at: int


@dataclass(slots=True)
class KeyRecord:
    """One public key a chain may use."""

    chain: bytes
    key: bytes  # its length tells its algorithm
    mode: str  # "pinned" | "registered"
    since: int  # first position that may rely on it
    leaf_index: int | None  # None until its `key` leaf is sealed

    @property
    def name(self) -> bytes:
        """What stands for the key in entries; see :func:`key_name`."""
        return key_name(self.key)


@dataclass(slots=True)
class ForkRecord:
    """A validly signed receipt that was refused because its position is taken."""

    chain: bytes
    position: int
    receipt_hash: bytes
    raw: bytes
    refused_at: int  # microseconds since the epoch


@dataclass(slots=True)
class Segment:
    """Where a sealed run of one chain is in the log."""

    chain: bytes
    first: int
    last: int
    leaf_index: int


@dataclass(slots=True)
class Mark:
    """A chain has unsealed receipts up to this position."""

    chain: bytes
    position: int


@dataclass(slots=True)
class LogState:
    """The log as last sealed: its size, root and signed checkpoint, written in one commit."""

    size: int
    root: bytes
    note: bytes  # the signed checkpoint
    sealed_number: int  # admission numbers below this are all sealed


@dataclass(slots=True)
class Sealed:
    """One seal: everything that becomes true together when its commit returns."""

    first_leaf: int
    leaves: Sequence[bytes]
    tiles: dict[TileId, bytes]  # full new content of every tile row that changed
    segments: Sequence[Segment]
    keys: Sequence[KeyRecord]  # the same records, now with their leaf index
    cleared: Sequence[Mark]  # exactly the marks this seal covered
    state: LogState
    anchors: Sequence[AnchorRecord] = ()  # those that gained a leaf index


@dataclass(slots=True)
class Changes:
    """One atomic commit."""

    admitted: Sequence[Admitted] = ()
    heads: dict[bytes, Head] = field(default_factory=dict)  # chain -> new head
    marks: Sequence[Mark] = ()
    keys: Sequence[KeyRecord] = ()
    forks: Sequence[ForkRecord] = ()
    sealed: Sealed | None = None
    intents: Sequence[AnchorIntent] = ()  # each replaces the one of its TSA
    dropped_intents: Sequence[str] = ()  # TSA names; dropped before `intents` are put
    anchors: Sequence[AnchorRecord] = ()  # new ones, and old ones that gained evidence
    blobs: dict[bytes, bytes] = field(default_factory=dict)  # SHA-256 -> part of evidence
    quarantined: Sequence[Quarantined] = ()

    @property
    def has_anchoring(self) -> bool:
        """Whether anything of timestamps is in it, besides what a seal does to anchors."""
        return bool(
            self.intents or self.dropped_intents or self.anchors or self.blobs or self.quarantined
        )


@dataclass(slots=True)
class StoreStats:
    """Figures for metrics; estimates are allowed."""

    bytes_on_disk: int
    free_bytes: int
    background_errors: int


@dataclass(slots=True)
class Counts:
    """Exact numbers of records. What a check could reach must be all there is."""

    entries: int
    heads: int
    hashes: int  # of receipts, and the other hashes of each chain
    leaves: int
    tiles: int
    segments: int
    keys: int
    forks: int
    anchors: int = 0
    anchor_links: int = 0  # index records of anchors
    intents: int = 0
    blobs: int = 0
    quarantined: int = 0
    unknown: int = 0  # of no kind a store of this format has


class Store(AnchorStore, Protocol):
    """Everything above the store goes through this."""

    def commit(self, changes: Changes) -> None:
        """Apply atomically and durably. Raises StoreError: outcome unknown."""

    def next_number(self) -> int:
        """The admission number the next receipt gets: one above the highest in the journal."""

    def head(self, chain: bytes) -> Head | None:
        """Newest position of a chain, or None for a chain never seen."""

    def entry(self, chain: bytes, position: int) -> Entry | None:
        """One position of a chain."""

    def entries(self, chain: bytes, first: int, last: int) -> Iterator[Entry]:
        """Positions first..last (inclusive) in order; ends early where the chain does."""

    def position_of(self, chain: bytes, digest: bytes) -> int | None:
        """Position whose receipt, content or link hash is `digest`, within this chain."""

    def locate(self, receipt_hash: bytes) -> tuple[bytes, int] | None:
        """(chain, position) of a receipt by SHA-256 of its exact bytes."""

    def receipt(self, chain: bytes, position: int) -> Stored | None:
        """The stored bytes at one position."""

    def chains(self) -> Iterator[tuple[bytes, Head]]:
        """Every chain and its head, in chain key order."""

    def keys(self, chain: bytes) -> list[KeyRecord]:
        """Every key a chain may use, oldest first."""

    def forks(self, chain: bytes) -> list[ForkRecord]:
        """Fork evidence kept for a chain."""

    def marks(self) -> Iterator[Mark]:
        """Every mark not cleared yet, in (chain, position) order."""

    def segment(self, chain: bytes, position: int) -> Segment | None:
        """The sealed segment that holds a position, or None while it is unsealed."""

    def last_segment(self, chain: bytes) -> Segment | None:
        """The newest sealed segment of a chain."""

    def log_state(self) -> LogState | None:
        """The log as last sealed; None before the first seal."""

    def leaves(self, first: int, count: int) -> list[bytes]:
        """`count` leaves from index `first`. Raises StoreError when one is missing."""

    def tile(self, tile: TileId) -> bytes:
        """The whole stored row of a tile (a multiple of 32 bytes, at most 8,192); b"" if none."""

    def checkpoint(self, size: int) -> bytes | None:
        """The signed note published at a tree size."""

    def chain_keys(self) -> Iterator[bytes]:
        """Key of every chain, in order, whatever the state of its head. For `fsck`."""

    def checkpoint_sizes(self) -> Iterator[int]:
        """Every tree size that has a signed note, growing. For `fsck`."""

    def counts(self) -> Counts:
        """How many records there are; reads every one. For `fsck`."""

    def stats(self) -> StoreStats:
        """Figures for metrics."""

    def close(self) -> None:
        """Flush, release every handle and the folder's lock. Idempotent."""
