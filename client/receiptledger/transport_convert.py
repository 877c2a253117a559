"""Protobuf to the client's plain types. Nothing here verifies more than that a number is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from receiptledger.core.bundle import (
    AnchoredCheckpoint,
    AnchorEvidence,
    AnchorStamp,
    Bundle,
    Consistency,
    LeafProof,
    Member,
)
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.merkle import MAX_SIZE
from receiptledger.v1 import types_pb2
from receiptledger.wire import Anchor, AnchorProof, AnchorRound, Answer, CallError, TsaResult

if TYPE_CHECKING:
    from receiptledger.v1 import anchor_pb2, ingest_pb2, proof_pb2

__all__ = [
    "anchor_in",
    "anchor_proof_in",
    "answer_in",
    "hash_in",
    "number_in",
    "proof_in",
    "round_in",
]

_REASONS: Final = {types_pb2.Reason.Value(f"REASON_{reason.name}"): reason for reason in Reason}


def answer_in(answer: ingest_pb2.Answer) -> Answer:
    """What happened to one receipt."""
    reason = None
    if answer.outcome == types_pb2.OUTCOME_REJECTED:
        reason = _REASONS.get(answer.reason)
    if reason is None and answer.outcome not in (
        types_pb2.OUTCOME_ACCEPTED,
        types_pb2.OUTCOME_DUPLICATE,
    ):
        raise _strange(f"outcome {answer.outcome} with reason {answer.reason}")
    return Answer(
        reason=reason,
        duplicate=answer.outcome == types_pb2.OUTCOME_DUPLICATE,
        position=number_in(answer.position),
        receipt_hash=hash_in(answer.receipt_hash) if answer.receipt_hash else b"",
        expected_hash=hash_in(answer.expected_hash) if answer.expected_hash else None,
        detail=answer.detail,
        leaf_index=number_in(answer.leaf_index) if answer.HasField("leaf_index") else None,
    )


def proof_in(response: proof_pb2.GetProofResponse, since: int) -> Bundle:
    """The evidence for one receipt.

    Raises:
        EvidenceError: BAD_BUNDLE, a part is missing.
    """
    for part in ("receipt", "head", "key"):
        if not response.HasField(part):
            raise EvidenceError(Reason.BAD_BUNDLE, f"the ledger's proof has no {part}")
    return Bundle(
        position=number_in(response.position),
        receipt=_member(response.receipt),
        previous=_member(response.previous) if response.HasField("previous") else None,
        head=_leaf(response.head),
        key=_leaf(response.key),
        checkpoint=response.checkpoint,
        consistency=Consistency(since, tuple(response.consistency)) if since else None,
        anchors=tuple(
            AnchoredCheckpoint(
                note=anchor.note,
                consistency=tuple(anchor.consistency),
                stamps=tuple(_stamp(stamp) for stamp in anchor.stamps),
            )
            for anchor in response.anchors
        ),
    )


def _stamp(stamp: proof_pb2.AnchorStamp) -> AnchorStamp:
    if not stamp.HasField("leaf"):
        raise EvidenceError(Reason.BAD_BUNDLE, "a timestamp of the ledger's proof has no leaf")
    evidence = None
    if stamp.HasField("evidence"):
        if not stamp.evidence.HasField("leaf"):
            raise EvidenceError(Reason.BAD_BUNDLE, "evidence of the ledger's proof has no leaf")
        evidence = AnchorEvidence(
            _leaf(stamp.evidence.leaf), tuple(stamp.evidence.crls), tuple(stamp.evidence.ocsps)
        )
    return AnchorStamp(stamp.request, stamp.response, _leaf(stamp.leaf), evidence)


def anchor_in(anchor: anchor_pb2.Anchor) -> Anchor:
    """One timestamp of a list."""
    leaf, evidence = (
        number_in(getattr(anchor, name)) if anchor.HasField(name) else None
        for name in ("leaf_index", "evidence_leaf_index")
    )
    return Anchor(
        number=number_in(anchor.number),
        tsa=anchor.tsa,
        tree_size=number_in(anchor.tree_size),
        root=hash_in(anchor.root),
        gen_time_us=anchor.gen_time_us,
        stored_at_us=anchor.stored_at_us,
        response_hash=hash_in(anchor.response_hash),
        response_bytes=anchor.response_bytes,
        leaf_index=leaf,
        evidence_hash=hash_in(anchor.evidence_hash) if anchor.evidence_hash else None,
        evidence_leaf_index=evidence,
    )


def anchor_proof_in(response: anchor_pb2.GetAnchorResponse) -> AnchorProof:
    """One timestamp with its evidence."""
    evidence = None
    if response.HasField("evidence_leaf"):
        evidence = AnchorEvidence(
            _leaf(response.evidence_leaf), tuple(response.crls), tuple(response.ocsps)
        )
    return AnchorProof(
        anchor=anchor_in(response.anchor),
        note=response.note,
        request=response.request,
        response=response.response,
        evidence=evidence,
        checkpoint=response.checkpoint,
        consistency=tuple(response.consistency),
        leaf=_leaf(response.leaf) if response.HasField("leaf") else None,
    )


def round_in(response: anchor_pb2.AnchorNowResponse) -> AnchorRound:
    """What every timestamp authority said."""
    return AnchorRound(
        tree_size=number_in(response.tree_size),
        results=tuple(
            TsaResult(
                tsa=one.tsa,
                cause=one.cause or None,
                detail=one.detail,
                gen_time_us=one.gen_time_us if one.HasField("gen_time_us") else None,
            )
            for one in response.results
        ),
        quorum_reached=response.quorum_reached,
    )


def _member(member: proof_pb2.SegmentReceipt) -> Member:
    return Member(member.receipt, tuple(member.proof))


def _leaf(leaf: proof_pb2.LogLeaf) -> LeafProof:
    return LeafProof(leaf.leaf, number_in(leaf.index), tuple(leaf.proof))


def hash_in(value: bytes) -> bytes:
    """A hash, of 32 bytes."""
    if len(value) != 32:
        raise _strange(f"a hash of {len(value)} bytes")
    return value


def number_in(value: int) -> int:
    """A size, position or index."""
    if value > MAX_SIZE:
        raise _strange(f"the number {value}")
    return value


def _strange(what: str) -> CallError:
    """The peer breaks the protocol; trying again would not help."""
    return CallError(
        Reason.UNAVAILABLE,
        f"the ledger's answer cannot be understood; is it a newer one? It holds {what}",
    )
