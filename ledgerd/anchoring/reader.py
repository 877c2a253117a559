"""What the log's timestamps show: of a receipt, of a page of them, of one of them. Never writes.

What a proof shows follows from the asked tree size alone (`anchor_choice`): evidence counts when its leaf
is below that size. So the same question at the same checkpoint has the same bytes for ever, and what was
put together for one receipt serves all those around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from ledgerd.anchoring.choice import AnchorChoice, Nearest, leaf_below
from ledgerd.store.interface import StoreError
from receiptledger.core.anchor_life import usable_until
from receiptledger.core.bundle import AnchoredCheckpoint, AnchorEvidence, AnchorStamp
from receiptledger.core.bundle_anchors import (
    MAX_ANCHOR_BYTES,
    MAX_ANCHORED_CHECKPOINTS,
    MAX_EVIDENCE_PARTS,
    MAX_STAMPS,
)
from receiptledger.core.errors import EvidenceError, Reason, ServiceError
from receiptledger.core.evidence_manifest import parse_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.store.interface import AnchorRecord
    from receiptledger.core.bundle import LeafProof

__all__ = ["MAX_PAGE", "AnchorReader", "AnchorView"]

MAX_PAGE: Final = 256  # anchors of one page
_KEPT: Final = 64  # answers for one tree size, usually of some 15 KiB


class _AnchorStore(Protocol):
    """What is asked of the store."""

    def anchor(self, number: int) -> AnchorRecord | None: ...
    def anchors(self, first: int = 0) -> Iterator[AnchorRecord]: ...
    def anchors_by_size(self, first_size: int) -> Iterator[AnchorRecord]: ...
    def anchors_by_leaf(self, before: int) -> Iterator[AnchorRecord]: ...
    def next_anchor_number(self) -> int: ...
    def blob(self, digest: bytes) -> bytes | None: ...
    def checkpoint(self, size: int) -> bytes | None: ...


@dataclass(slots=True)
class AnchorView:
    """One anchor as of a checkpoint.

    Attributes:
        record: as stored; its leaf indexes count only below the checkpoint's size.
        note: what was stamped.
        checkpoint: where the paths lead to.
        consistency: from the note's size to the checkpoint's.
        leaf: its own leaf; None while the checkpoint does not cover it.
        evidence: with its leaf; None while there is none below the checkpoint.
    """

    record: AnchorRecord
    note: bytes
    checkpoint: bytes
    consistency: tuple[bytes, ...]
    leaf: LeafProof | None
    evidence: AnchorEvidence | None


class AnchorReader:
    """Reads anchors of one log; safe from many threads.

    Args:
        store: durable state.
        inclusion: a leaf of the log and its path at a tree size.
        extension: RFC 6962 consistency proof between two tree sizes.
        quorum: how many TSAs should cover a receipt.
        lifetime: until when a response can be relied on without renewal, microseconds since the epoch;
            None when that cannot be told.
    """

    def __init__(
        self,
        store: _AnchorStore,
        *,
        inclusion: Callable[[int, int], LeafProof],
        extension: Callable[[int, int], list[bytes]],
        quorum: int,
        lifetime: Callable[[bytes], int | None] = usable_until,
    ) -> None:
        self._store = store
        self._inclusion = inclusion
        self._extension = extension
        self._choice = AnchorChoice(store, quorum, lifetime)
        self._kept: dict[Nearest, tuple[AnchoredCheckpoint, ...]] = {}

    # Pages and single anchors.

    def page(self, first: int, limit: int) -> tuple[list[AnchorRecord], int]:
        """Anchors from a number on, at most `limit` (at most 256), and how many there are in all."""
        count = self._store.next_anchor_number()
        if first >= count:
            return [], count
        found = list(islice(self._store.anchors(first), min(limit, MAX_PAGE)))
        # One stored between the two looks is not of this page.
        return [record for record in found if record.number < count], count

    def view(self, number: int, size: int, checkpoint: bytes) -> AnchorView:
        """One anchor with its evidence, as of a checkpoint.

        Args:
            number: of the anchor.
            size: size of `checkpoint`.
            checkpoint: signed note.

        Raises:
            ServiceError: NOT_FOUND; INVALID_ARGUMENT when the checkpoint is older than the anchor's.
        """
        record = self._store.anchor(number)
        if record is None:
            count = self._store.next_anchor_number()
            raise ServiceError(
                Reason.NOT_FOUND,
                "no anchor has this number",
                want=f"0..{count - 1}" if count else "none: there is no anchor yet",
                got=str(number),
            )
        if record.size > size:
            raise ServiceError(
                Reason.INVALID_ARGUMENT,
                "the checkpoint is older than the one that was stamped",
                want=f"a tree size of at least {record.size}",
                got=str(size),
            )
        sealed = leaf_below(record, size)
        return AnchorView(
            record=record,
            note=self._note(record.size),
            checkpoint=checkpoint,
            consistency=self._consistency(record.size, size),
            leaf=self._inclusion(sealed, size) if sealed is not None else None,
            evidence=self._evidence(record, size),
        )

    def bounding(self, index: int, size: int) -> tuple[AnchoredCheckpoint, ...]:
        """Stamped checkpoints that bound a leaf in time, in growing order of size.

        Args:
            index: of the leaf.
            size: tree size of the proof.
        """
        nearest = self._choice.nearest(index, size)
        if nearest is None:
            return ()
        found = self._kept.get(nearest)
        if found is None:
            found = self._checkpoints(self._choice.choose(index, size)[:MAX_STAMPS], size)
            if len(self._kept) >= _KEPT:
                self._kept.clear()  # mostly of older trees
            self._kept[nearest] = found
        return found

    # Parts of what is shown.

    def _checkpoints(self, chosen: list[AnchorRecord], size: int) -> tuple[AnchoredCheckpoint, ...]:
        """The chosen tokens by checkpoint. What does not fit is left out, in the order chosen.

        What is nearest to the receipt comes first.
        """
        stamps: dict[int, dict[int, AnchorStamp]] = {}
        responses: set[bytes] = set()  # a bundle holds none twice
        left = MAX_ANCHOR_BYTES
        for record in chosen:
            weight, index = len(record.request) + len(record.response), leaf_below(record, size)
            if weight > left or index is None or record.response in responses:
                continue
            if record.size not in stamps and len(stamps) == MAX_ANCHORED_CHECKPOINTS:
                continue
            left -= weight
            responses.add(record.response)
            evidence = self._evidence(record, size)
            if evidence is not None:
                weight = sum(map(len, evidence.crls + evidence.ocsps))
                if (
                    weight > left
                    or max(len(evidence.crls), len(evidence.ocsps)) > MAX_EVIDENCE_PARTS
                ):
                    evidence, weight = None, 0
                left -= weight
            stamps.setdefault(record.size, {})[record.number] = AnchorStamp(
                record.request, record.response, self._inclusion(index, size), evidence
            )
        return tuple(
            AnchoredCheckpoint(
                note=self._note(stamped),
                consistency=self._consistency(stamped, size),
                stamps=tuple(of_size[number] for number in sorted(of_size)),
            )
            for stamped, of_size in sorted(stamps.items())
        )

    def _evidence(self, record: AnchorRecord, size: int) -> AnchorEvidence | None:
        index = record.evidence_leaf_index
        if record.evidence is None or index is None or index >= size:
            return None
        try:
            crls, ocsps = parse_manifest(record.evidence)
        except EvidenceError as error:
            raise StoreError(f"anchor {record.number} is damaged: {error}") from None
        return AnchorEvidence(
            leaf=self._inclusion(index, size),
            crls=tuple(self._blob(digest) for digest in crls),
            ocsps=tuple(self._blob(digest) for digest in ocsps),
        )

    def _consistency(self, first: int, second: int) -> tuple[bytes, ...]:
        if first in (0, second):  # RFC 6962 has no proof from the empty tree, and none is needed
            return ()
        return tuple(self._extension(first, second))

    def _note(self, size: int) -> bytes:
        note = self._store.checkpoint(size)
        if note is None:
            raise StoreError(f"the stamped checkpoint of {size} leaves is missing")
        return note

    def _blob(self, digest: bytes) -> bytes:
        blob = self._store.blob(digest)
        if blob is None:
            raise StoreError(f"evidence sha256:{digest.hex()} is missing; run `ledgerd fsck`")
        return blob
