"""Which timestamps bound a receipt, and what a page or one of them says. Never writes.

What a proof shows depends on the log below the asked tree size alone, and on nothing that came later: an
anchor counts when its leaf is below that size, its evidence when the leaf of that is. So the same question
at the same checkpoint has the same bytes for ever.

A proof takes, around the head leaf of the receipt:

- covering    the nearest stamped checkpoints after it: not later than their times.
- preceding   the newest token of each TSA whose own leaf is before it: not earlier than their times.
- renewing    when a covering token is soon out of date at the time of the newest one: a later stamped
              checkpoint, whose tree holds the leaf of the earlier token, and so on up to the newest
              (RFC 4998 section 5.2: each made while the one before it was still good).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from ledgerd.store.interface import StoreError
from receiptledger.core.anchor_life import RENEW_MARGIN_US, usable_until
from receiptledger.core.bundle import AnchoredCheckpoint, AnchorEvidence, AnchorStamp
from receiptledger.core.bundle_anchors import (
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
MAX_COVERING: Final = 4  # checkpoints looked at for a quorum of TSAs
MAX_PRECEDING: Final = 8  # tokens looked at for the newest of each TSA
MAX_RENEWALS: Final = 4  # links of ten years each; together MAX_ANCHORED_CHECKPOINTS
MAX_COVERING_STAMPS: Final = 16  # leaves room for the others below MAX_STAMPS
# Bytes of tokens and evidence in one proof. Tokens have about 6 KiB, but the revocation lists of some
# authorities are long: what is nearest to the receipt comes first.
MAX_PROOF_BYTES: Final = 1_048_576
_LOOK_BACK: Final = 8  # answers to one round may be stored in another order than asked for
_KEPT_LIVES: Final = 1_024


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


@dataclass(slots=True)
class _Newest:
    """What there is below a tree size."""

    record: AnchorRecord  # of the newest leaf
    reach: int  # the largest stamped size


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
        self._quorum = quorum
        self._lifetime = lifetime
        self._lives: dict[int, int | None] = {}  # anchor number -> lifetime
        self._newest_at: tuple[int, _Newest | None] = (0, None)  # of a tree size; one assignment
        self._first_leaf: int | None = None

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
        sealed = _sealed(record, size)
        return AnchorView(
            record=record,
            note=self._note(record.size),
            checkpoint=checkpoint,
            consistency=self._consistency(record.size, size),
            leaf=self._inclusion(sealed, size) if sealed is not None else None,
            evidence=self._evidence(record, size),
        )

    # Proofs.

    def bounding(self, index: int, size: int) -> tuple[AnchoredCheckpoint, ...]:
        """Stamped checkpoints that bound a leaf in time, in growing order of size.

        Args:
            index: of the leaf.
            size: tree size of the proof.
        """
        newest = self._newest(size)
        if newest is None:  # the usual case of a log without TSAs: one look per checkpoint
            return ()
        covering = self._covering(index, size) if newest.reach > index else []
        renewing = self._renewing(covering, newest.record, size)
        chosen = covering + renewing + self._preceding(index)
        return self._checkpoints(chosen[:MAX_STAMPS], size)

    def _newest(self, size: int) -> _Newest | None:
        """What is newest below a tree size; it never changes, so it is looked up once per size."""
        known, newest = self._newest_at
        if known != size:
            records = list(islice(self._store.anchors_by_leaf(size), _LOOK_BACK))
            reach = max((record.size for record in records), default=0)
            newest = _Newest(records[0], reach) if records else None
            self._newest_at = (size, newest)
        return newest

    def _covering(self, index: int, size: int) -> list[AnchorRecord]:
        """Tokens of the nearest checkpoints that hold a leaf, until a quorum of TSAs is among them."""
        found: list[AnchorRecord] = []
        sizes: set[int] = set()
        tsas: set[str] = set()
        for record in self._store.anchors_by_size(index + 1):
            if record.size >= size:  # its leaf comes after its checkpoint: not below `size`
                break
            if _sealed(record, size) is None:
                continue
            if record.size not in sizes:
                if len(tsas) >= self._quorum or len(sizes) == MAX_COVERING:
                    break
                sizes.add(record.size)
            found.append(record)
            tsas.add(record.tsa)
        return _one_of_each(found)[:MAX_COVERING_STAMPS]

    def _preceding(self, index: int) -> list[AnchorRecord]:
        """The newest token of each TSA among those logged before a leaf."""
        if self._first_leaf is None:
            first = self._store.anchor(0)
            self._first_leaf = None if first is None else first.leaf_index
        if self._first_leaf is None or self._first_leaf >= index:
            return []
        newest: dict[str, AnchorRecord] = {}
        for record in islice(self._store.anchors_by_leaf(index), MAX_PRECEDING):
            newest.setdefault(record.tsa, record)
        return list(newest.values())

    def _renewing(
        self, covering: list[AnchorRecord], newest: AnchorRecord, size: int
    ) -> list[AnchorRecord]:
        """Tokens that carry the covering ones on to the time of the newest."""
        links: list[AnchorRecord] = []
        current = covering
        for _ in range(MAX_RENEWALS):
            if not current or newest.size <= _last_leaf(current):
                break
            lives = sorted({life for life in map(self._life, current) if life is not None})
            if not lives or newest.gen_time < lives[0] - RENEW_MARGIN_US:
                break
            floor = _last_leaf(current)
            # While all of them were good, or else while one of them was.
            links_at = map(partial(self._last_before, newest=newest), lives)
            link = next((one for one in links_at if one.size > floor), None)
            if link is None:
                break
            current = self._round_of(link, floor, size)
            links += current
        return links

    def _round_of(self, link: AnchorRecord, floor: int, size: int) -> list[AnchorRecord]:
        """The tokens over a checkpoint, and those just before it that a quorum still needs."""
        found = self._stamps_of(link.size, size)
        tsas = {record.tsa for record in found}
        if len(tsas) < self._quorum:
            for record in islice(self._store.anchors_by_leaf(link.leaf_index or 0), _LOOK_BACK):
                if record.size > floor and record.tsa not in tsas and len(tsas) < self._quorum:
                    tsas.add(record.tsa)
                    found.append(record)
        return found

    def _last_before(self, moment: int, newest: AnchorRecord) -> AnchorRecord:
        """The last anchor up to `newest` whose time is before a moment; the first if none is.

        Numbers grow with time, but for the seconds between the answers to one round.
        """
        if newest.gen_time < moment:
            return newest
        low, high = 0, newest.number
        while low < high - 1:
            middle = (low + high) // 2
            if self._anchor(middle).gen_time < moment:
                low = middle
            else:
                high = middle
        return self._anchor(low)

    def _stamps_of(self, size: int, below: int) -> list[AnchorRecord]:
        found = []
        for record in self._store.anchors_by_size(size):
            if record.size != size:
                break
            if _sealed(record, below) is not None:
                found.append(record)
        return _one_of_each(found)

    def _life(self, record: AnchorRecord) -> int | None:
        if record.number not in self._lives:
            if len(self._lives) >= _KEPT_LIVES:
                self._lives.clear()
            self._lives[record.number] = self._lifetime(record.response)
        return self._lives[record.number]

    # Parts of what is shown.

    def _checkpoints(self, chosen: list[AnchorRecord], size: int) -> tuple[AnchoredCheckpoint, ...]:
        """The chosen tokens by checkpoint. What does not fit is left out, in the order chosen."""
        stamps: dict[int, dict[int, AnchorStamp]] = {}
        left = MAX_PROOF_BYTES
        for record in chosen:
            weight, index = len(record.request) + len(record.response), _sealed(record, size)
            if weight > left or index is None or record.number in stamps.get(record.size, {}):
                continue
            if record.size not in stamps and len(stamps) == MAX_ANCHORED_CHECKPOINTS:
                continue
            left -= weight
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

    def _anchor(self, number: int) -> AnchorRecord:
        record = self._store.anchor(number)
        if record is None:
            raise StoreError(f"anchor {number} is missing; run `ledgerd fsck`")
        return record

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


def _sealed(record: AnchorRecord, size: int) -> int | None:
    """Index of an anchor's own leaf when it is below a tree size."""
    index = record.leaf_index
    return index if index is not None and index < size else None


def _last_leaf(records: list[AnchorRecord]) -> int:
    return max(record.leaf_index or 0 for record in records)


def _one_of_each(records: list[AnchorRecord]) -> list[AnchorRecord]:
    """The first token of each TSA over each checkpoint: a second one shows nothing more."""
    first: dict[tuple[int, str], AnchorRecord] = {}
    for record in records:
        first.setdefault((record.size, record.tsa), record)
    return list(first.values())
