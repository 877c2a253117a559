"""Timestamps: every anchor, its checkpoint, its leaves, its evidence, and what leads to it.

Each response is held against the leaf that commits its hash; whether a token is genuine is not said
here, for that takes the roots of its authority: `receiptledger anchors verify` does it.

What it cannot see, because nothing else records it: a request, an intent or a refused answer with
other content, the newest of these or an unsealed anchor removed as a whole, and the times of each.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from ledgerd.store.fsck_report import Damage, Report
from ledgerd.store.interface import AnchorLinks, StoreError
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import EvidenceError
from receiptledger.core.evidence_manifest import parse_manifest
from receiptledger.core.leaf import AnchorLeaf, parse_leaf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.store.interface import AnchorRecord, Store
    from receiptledger.core.note import VerifierKey

__all__ = ["AnchorPass"]

_FIELDS = ("size", "root", "tsa", "response", "evidence")
_LINK_NAMES = {
    "by_size": "by its size",
    "by_leaf": "by its leaf",
    "by_evidence_leaf": "by the leaf of its evidence",
    "unsealed": "as unsealed",
    "without_evidence": "as without evidence",
}


class AnchorPass:
    """One walk over all that is kept of timestamps.

    Args:
        store: what to check.
        size: leaves of the log.
        verifier: the log's key.
        report: where problems go.

    Attributes:
        links: index records that the anchors owe.
        named: parts of evidence that anchors name.
    """

    def __init__(self, store: Store, size: int, verifier: VerifierKey, report: Report) -> None:
        self._store = store
        self._size = size
        self._verifier = verifier
        self._report = report
        self._checkpoint: tuple[int, bytes | None] = (-1, None)  # the one read last: size, root
        self._blobs: set[bytes] = set()
        self.links = 0
        self.named: set[bytes] = set()

    def run(self) -> None:
        """Walk everything."""
        self._check_blobs()
        for number in self._numbers("anchors", "anchor", self._store.anchor_numbers):
            self._check_anchor(number)
        for number in self._numbers(
            "quarantined", "refused answer", self._store.quarantine_numbers
        ):
            self._check_refused(number)
        self._check_intents()

    def _numbers(self, kind: str, name: str, read: Callable[[], Iterator[int]]) -> Iterator[int]:
        """Every number that is there; those before it that are not, are named."""
        expected = 0
        try:
            for number in read():
                if number != expected:
                    to = "" if number == expected + 1 else f"..{number - 1}"
                    self._report.missing(kind, f"{name} {expected}{to}")
                expected = number + 1
                self._report.checked[kind] += 1
                yield number
        except StoreError as error:
            self._report.unreadable(kind, f"the list of {kind}", error)

    # Anchors.

    def _check_anchor(self, number: int) -> None:
        where = f"anchor {number}"
        try:
            record = self._store.anchor(number)
            if record is None:
                raise StoreError("it is listed and not there")  # noqa: TRY301 - as one of them
            links = self._store.anchor_links(record)
        except StoreError as error:
            self._report.unreadable("anchors", where, error)
            return
        self._check_checkpoint(where, record)
        self._check_evidence(where, record)
        self._check_leaves(where, record)
        self._check_links(where, record, links)

    def _check_checkpoint(self, where: str, record: AnchorRecord) -> None:
        """It stamps a checkpoint of this log, which the walk over the log holds against the tree."""
        if record.size != self._checkpoint[0]:
            self._checkpoint = record.size, self._signed_root(record.size)
        root = self._checkpoint[1]
        if root is None:
            got = f"{record.size} leaves, without one"
            self._report.add(Damage.ANCHOR, where, "the size of a signed checkpoint", got)
        else:
            self._report.expect(Damage.ANCHOR, f"{where}, root", root, record.root)

    def _signed_root(self, size: int) -> bytes | None:
        try:
            return open_checkpoint(self._store.checkpoint(size) or b"", self._verifier).root
        except (StoreError, EvidenceError):
            return None

    def _check_leaves(self, where: str, record: AnchorRecord) -> None:
        own, later = record.leaf_index, record.evidence_leaf_index
        evidence = None if record.evidence is None else sha256(record.evidence).digest()
        if own is not None:
            self._check_leaf(where, record, own, evidence if own == later else None)
            if own < record.size:
                expected = f"a leaf index of at least {record.size}: it stamps what is before"
                self._report.add(Damage.ANCHOR, where, expected, own)
        if later is not None and later != own:
            self._check_leaf(f"{where}, evidence", record, later, evidence)
            if own is not None and later < own:
                expected = f"a leaf index above {own}"
                self._report.add(Damage.ANCHOR, f"{where}, evidence", expected, later)

    def _check_leaf(
        self, where: str, record: AnchorRecord, index: int, evidence: bytes | None
    ) -> None:
        """A leaf against the record it commits."""
        report = self._report
        if index >= self._size:
            report.add(Damage.ANCHOR, where, f"a leaf index below {self._size}", index)
            return
        try:
            leaf = parse_leaf(self._store.leaves(index, 1)[0])
        except (StoreError, EvidenceError):
            return  # the walk over the log names it
        if not isinstance(leaf, AnchorLeaf):
            report.add(Damage.ANCHOR, where, f"leaf {index} an anchor leaf", type(leaf).__name__)
            return
        response = sha256(record.response).digest()
        mine = AnchorLeaf(record.size, record.root, record.tsa, response, evidence)
        for name in _FIELDS:
            field = f"{where}, {name} (leaf {index})"
            report.expect(Damage.ANCHOR, field, getattr(leaf, name), getattr(mine, name))

    def _check_links(self, where: str, record: AnchorRecord, links: AnchorLinks) -> None:
        """Each way of looking leads to it, and no way that should not."""
        own, later = record.leaf_index, record.evidence_leaf_index
        expected = AnchorLinks(
            by_size=True,
            by_leaf=own is not None,
            by_evidence_leaf=later is not None,
            unsealed=record.unsealed,
            without_evidence=record.evidence is None,
        )
        leaves = len({own, later} - {None})
        self.links += 1 + leaves + expected.unsealed + expected.without_evidence
        for name, words in _LINK_NAMES.items():
            want, got = (
                "an index record" if getattr(one, name) else None for one in (expected, links)
            )
            self._report.expect(Damage.ANCHOR_INDEX, f"{where}, {words}", want, got)

    # Evidence.

    def _check_evidence(self, where: str, record: AnchorRecord) -> None:
        """The manifest names parts that are there; the walk over the parts hashed them."""
        if record.evidence is None:
            return
        try:
            crls, ocsps = parse_manifest(record.evidence)
        except EvidenceError as error:
            self._report.add(Damage.EVIDENCE, where, "a manifest of evidence", error)
            return
        for digest in (*crls, *ocsps):
            self.named.add(digest)
            if digest not in self._blobs:
                self._report.add(Damage.EVIDENCE, where, f"its part {digest.hex()}", None)

    def _check_blobs(self) -> None:
        report = self._report
        try:
            for digest in self._store.blob_digests():
                report.checked["blobs"] += 1
                self._blobs.add(digest)
                self._check_blob(digest)
        except StoreError as error:
            report.unreadable("blobs", "the list of parts of evidence", error)

    def _check_blob(self, digest: bytes) -> None:
        where = f"part of evidence {digest.hex()}"
        try:
            data = self._store.blob(digest) or b""
        except StoreError as error:
            self._report.unreadable("blobs", where, error)
            return
        self._report.expect(Damage.EVIDENCE, where, digest, sha256(data).digest())

    # What never became an anchor.

    def _check_refused(self, number: int) -> None:
        where = f"refused answer {number}"
        try:
            refused = next(self._store.quarantined(number))
        except StoreError as error:
            self._report.unreadable("quarantined", where, error)
            return
        self._check_size(Damage.QUARANTINED, where, refused.size)

    def _check_intents(self) -> None:
        try:
            intents = self._store.intents()
        except StoreError as error:
            self._report.unreadable("intents", "the intents", error)
            return
        self._report.checked["intents"] += len(intents)
        for intent in intents:
            self._check_size(Damage.INTENT, f"intent of {intent.tsa}", intent.size)

    def _check_size(self, what: Damage, where: str, size: int) -> None:
        if size > self._size:
            self._report.add(what, where, f"a size up to {self._size}, that of the log", size)
