"""What a store keeps of timestamps: requests under way, accepted and refused answers, evidence.

Part of :mod:`ledgerd.store.interface`, which the rest of the daemon imports these from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["AnchorIntent", "AnchorLinks", "AnchorRecord", "AnchorStore", "Quarantined"]


@dataclass(slots=True)
class AnchorIntent:
    """A request that was or is about to be sent to a TSA; at most one for each TSA.

    It is stored before the request leaves, so that after a crash the loss is known.
    """

    tsa: str
    size: int  # of the checkpoint to timestamp
    nonce: int  # of the request, 0..2^256-1
    started_at: int  # microseconds since the epoch


@dataclass(slots=True)
class AnchorRecord:
    """One accepted timestamp over a checkpoint of this log."""

    number: int  # 0, 1, 2 ... in the order they were stored
    size: int  # of the checkpoint
    root: bytes  # 32: of the checkpoint
    tsa: str
    request: bytes  # DER as sent
    response: bytes  # DER as received
    gen_time: int  # microseconds since the epoch, by the TSA
    stored_at: int  # microseconds since the epoch, the ledger's own claim
    leaf_index: int | None = None  # None until its leaf is sealed
    evidence: bytes | None = None  # manifest of its revocation evidence; the parts are blobs
    evidence_leaf_index: int | None = None  # leaf that commits the evidence; may be `leaf_index`

    @property
    def unsealed(self) -> bool:
        """Whether the next seal owes it a leaf, for itself or for its evidence."""
        return self.leaf_index is None or (
            self.evidence is not None and self.evidence_leaf_index is None
        )


@dataclass(slots=True)
class AnchorLinks:
    """Which index records of a store lead to an anchor record. For `fsck`."""

    by_size: bool
    by_leaf: bool  # under its leaf index
    by_evidence_leaf: bool
    unsealed: bool  # a seal will look for it
    without_evidence: bool


@dataclass(slots=True)
class Quarantined:
    """An answer of a TSA that was refused for a reason of security, kept to be looked at."""

    number: int  # 0, 1, 2 ...
    tsa: str
    size: int  # of the checkpoint it was asked about
    cause: str
    request: bytes
    response: bytes
    refused_at: int  # microseconds since the epoch


class AnchorStore(Protocol):
    """The part of a store's reads that is about timestamps."""

    def intents(self) -> list[AnchorIntent]:
        """Every intent, by TSA name."""

    def anchor(self, number: int) -> AnchorRecord | None:
        """One anchor."""

    def anchors(self, first: int = 0) -> Iterator[AnchorRecord]:
        """Anchors from a number on, in number order."""

    def anchors_by_size(self, first_size: int) -> Iterator[AnchorRecord]:
        """Anchors of checkpoints of at least a size, by size, then by number."""

    def anchors_by_leaf(self, before: int) -> Iterator[AnchorRecord]:
        """Anchors whose own leaf is before a leaf index, the newest leaf first."""

    def unsealed_anchors(self) -> list[AnchorRecord]:
        """Anchors the next seal owes a leaf, for themselves or their evidence, in number order."""

    def anchors_without_evidence(self, stored_before: int) -> Iterator[AnchorRecord]:
        """Anchors without evidence stored before a time (microseconds since the epoch), by time."""

    def next_anchor_number(self) -> int:
        """The number the next anchor gets: one above the highest."""

    def blob(self, digest: bytes) -> bytes | None:
        """A part of evidence by its SHA-256."""

    def quarantined(self, first: int = 0) -> Iterator[Quarantined]:
        """Refused answers from a number on, in number order."""

    def next_quarantine_number(self) -> int:
        """The number the next refused answer gets: one above the highest."""

    def anchor_numbers(self) -> Iterator[int]:
        """Number of every anchor, growing, whatever the state of its record. For `fsck`."""

    def anchor_at(self, leaf_index: int) -> AnchorRecord | None:
        """The anchor whose own or whose evidence's leaf this is. For `fsck`."""

    def anchor_links(self, record: AnchorRecord) -> AnchorLinks:
        """Which index records lead to an anchor. For `fsck`."""

    def blob_digests(self) -> Iterator[bytes]:
        """Digest every blob is stored under, in order. For `fsck`."""

    def quarantine_numbers(self) -> Iterator[int]:
        """Number of every refused answer, growing. For `fsck`."""
