"""Anchor records put into a ledger as an anchorer would, with answers that nobody verified.

Reads of the ledger do not look into an answer, so any bytes will do; what an auditor makes of real ones
is tested where real ones are at hand.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ledgerd.anchoring.reader import AnchorReader
from ledgerd.store.interface import AnchorRecord, Changes
from ledgerd.writer import CommitJob
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.evidence_manifest import encode_manifest
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from receiptledger.core.merkle import hash_leaf, verify_consistency, verify_inclusion
from tests.helpers.sync_ledger import NOW, SIGNER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.store.interface import Store
    from receiptledger.core.bundle import AnchoredCheckpoint, LeafProof
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.errors import ServiceError
    from receiptledger.core.note import VerifierKey
    from tests.helpers.sync_ledger import SyncLedger

__all__ = ["DAY", "evidence_of", "held", "prove", "record_of", "shown", "stamp", "tuned"]

DAY = 86_400_000_000  # microseconds


def record_of(
    store: Store,
    note: bytes,
    key: VerifierKey,
    tsa: str,
    *,
    response: bytes | None = None,
    request: bytes | None = None,
    at: int = NOW,
) -> AnchorRecord:
    """The next record of a store, for a checkpoint."""
    number, checkpoint = store.next_anchor_number(), open_checkpoint(note, key)
    return AnchorRecord(
        number=number,
        size=checkpoint.size,
        root=checkpoint.root,
        tsa=tsa,
        request=request or f"request {number}".encode(),
        response=response or f"response {number} of {tsa}".encode(),
        gen_time=at,
        stored_at=at + 1_000,
    )


def evidence_of(record: AnchorRecord, crls: Sequence[bytes], ocsps: Sequence[bytes]) -> Changes:
    """The commit by which a record gains evidence."""
    blobs = {hashlib.sha256(part).digest(): part for part in (*crls, *ocsps)}
    manifest = encode_manifest(
        [hashlib.sha256(part).digest() for part in crls],
        [hashlib.sha256(part).digest() for part in ocsps],
    )
    return Changes(anchors=[replace(record, evidence=manifest)], blobs=blobs)


def commit(ledger: SyncLedger, changes: Changes) -> None:
    """Through the writer, as everything durable."""
    told: list[ServiceError | None] = []
    ledger.writer.commit(CommitJob(changes, told.append))
    assert told == [None]


def stamp(
    ledger: SyncLedger, tsa: str = "tsa-a", *, size: int = 0, at: int = NOW, response: bytes = b""
) -> AnchorRecord:
    """One answer over the newest checkpoint, or one of an older size; its leaf comes with a seal."""
    note = ledger.reader.checkpoint(size)
    record = record_of(ledger.store, note, SIGNER.verifier, tsa, at=at, response=response or None)
    commit(ledger, Changes(anchors=[record]))
    return record


def prove(
    ledger: SyncLedger, number: int, crls: Sequence[bytes] = (), ocsps: Sequence[bytes] = ()
) -> None:
    """Evidence for one answer; its leaf comes with a seal."""
    record = ledger.store.anchor(number)
    assert record is not None
    commit(ledger, evidence_of(record, crls, ocsps))


def tuned(ledger: SyncLedger, *, store: Any = None, **settings: Any) -> AnchorReader:
    """Exchange how a ledger reads its anchors; what was remembered is forgotten."""
    reader = ledger.reader
    reader.anchors = AnchorReader(
        store or ledger.store,
        inclusion=reader._leaf,
        extension=reader._extension,
        **{"quorum": 1, **settings},
    )
    return reader.anchors


def shown(anchors: Sequence[AnchoredCheckpoint]) -> dict[int, list[str]]:
    """Size of each stamped checkpoint and the TSAs over it."""
    found = {}
    for anchor in anchors:
        checkpoint = open_checkpoint(anchor.note, SIGNER.verifier)
        found[checkpoint.size] = [_leaf(stamp.leaf).tsa for stamp in anchor.stamps]
    return found


def held(anchors: Sequence[AnchoredCheckpoint], newest: Checkpoint) -> None:
    """Verify every path, and that each leaf says what stands beside it."""
    sizes = []
    for anchor in anchors:
        old = open_checkpoint(anchor.note, SIGNER.verifier)
        sizes.append(old.size)
        verify_consistency(old.size, newest.size, anchor.consistency, old.root, newest.root)
        assert anchor.stamps
        for one in anchor.stamps:
            leaf = _included(one.leaf, newest)
            assert (leaf.size, leaf.root) == (old.size, old.root)
            assert leaf.response == hashlib.sha256(one.response).digest()
            if one.evidence is not None:
                evidence = _included(one.evidence.leaf, newest)
                assert evidence.response == leaf.response
                digests = [
                    [hashlib.sha256(part).digest() for part in parts]
                    for parts in (one.evidence.crls, one.evidence.ocsps)
                ]
                manifest = encode_manifest(*digests)
                assert evidence.evidence == hashlib.sha256(manifest).digest()
    assert sizes == sorted(set(sizes))


def _included(proof: LeafProof, newest: Checkpoint) -> AnchorLeaf:
    verify_inclusion(hash_leaf(proof.leaf), proof.index, newest.size, proof.proof, newest.root)
    return _leaf(proof)


def _leaf(proof: LeafProof) -> AnchorLeaf:
    leaf = parse_leaf(proof.leaf)
    assert isinstance(leaf, AnchorLeaf)
    return leaf
