"""Protobuf to and from the daemon's own types: the only place that knows both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledgerd.ingest import Batch
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.fields import MAX_NAME_BYTES
from receiptledger.core.receipt import chain_key
from receiptledger.v1 import ingest_pb2, proof_pb2, types_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerd.admission import Answer
    from ledgerd.ingest import BatchAnswer
    from ledgerd.reader import Place
    from receiptledger.core.bundle import AnchorStamp, Bundle, LeafProof, Member
    from receiptledger.core.chain import Head

__all__ = [
    "answer_out",
    "batch_in",
    "bundle_out",
    "chain_in",
    "head_out",
    "leaf_out",
    "place_out",
    "selector_in",
]

MAX_POSITION = 2**63 - 1  # proto/types.proto; the store's too
_REASONS: dict[Reason, types_pb2.Reason.ValueType] = {
    reason: types_pb2.Reason.Value(f"REASON_{reason.name}") for reason in Reason
}
_ACCEPTED, _DUPLICATE = types_pb2.OUTCOME_ACCEPTED, types_pb2.OUTCOME_DUPLICATE
_LEVELS = (
    ingest_pb2.ACK_LEVEL_UNSPECIFIED,
    ingest_pb2.ACK_LEVEL_DURABLE,
    ingest_pb2.ACK_LEVEL_SEALED,
)


def batch_in(request: ingest_pb2.AppendRequest) -> Batch:
    """One batch; what is wrong with it as a whole becomes its `problem`."""
    problem = None
    if request.ack_level not in _LEVELS:
        problem = ServiceError(
            Reason.INVALID_ARGUMENT,
            "unknown ack level",
            want="DURABLE or SEALED",
            got=str(request.ack_level),
        )
    return Batch(
        batch_id=request.batch_id,
        receipts=request.receipts,
        profile=request.profile or None,
        sealed=request.ack_level == ingest_pb2.ACK_LEVEL_SEALED,
        key_hints=tuple(request.key_hints),
        problem=problem,
    )


def answer_out(
    batch: BatchAnswer, leaf_index: Callable[[bytes, int], int | None]
) -> ingest_pb2.AppendResponse:
    """The answer to one batch.

    Args:
        batch: the daemon's answers.
        leaf_index: index of the head leaf of a position; asked only for sealed batches.
    """
    response = ingest_pb2.AppendResponse(
        batch_id=batch.batch_id,
        answers=[_answer(answer) for answer in batch.answers],  # type: ignore[misc]
    )
    if batch.state is not None:
        response.checkpoint = batch.state.note
        for answer, out in zip(batch.answers, response.answers, strict=True):
            if answer.reason is None and answer.chain is not None:
                index = leaf_index(answer.chain, answer.position)
                if index is not None:
                    out.leaf_index = index
    return response


def _answer(answer: Answer) -> dict[str, object]:
    """One answer as protobuf takes it into a list: half the cost of a message of its own."""
    if answer.reason is None:
        return {
            "outcome": _DUPLICATE if answer.duplicate else _ACCEPTED,
            "position": answer.position,
            "receipt_hash": answer.receipt_hash,
        }
    return {
        "outcome": types_pb2.OUTCOME_REJECTED,
        "reason": _REASONS[answer.reason],
        "position": answer.position,
        "receipt_hash": answer.receipt_hash,
        "expected_hash": answer.expected or b"",
        "detail": answer.detail,
    }


def chain_in(chain: types_pb2.Chain) -> bytes:
    """Chain key of a named chain.

    Raises:
        ServiceError: INVALID_ARGUMENT for names no receipt could carry.
    """
    for what, name, least in (("agent", chain.agent, 1), ("stream", chain.stream, 0)):
        size = len(name.encode("utf-8"))
        if not least <= size <= MAX_NAME_BYTES:
            raise ServiceError(
                Reason.INVALID_ARGUMENT,
                f"the chain's {what} has a name no receipt can carry",
                want=f"{least}..{MAX_NAME_BYTES} bytes",
                got=f"{size} bytes",
            )
    return chain_key(chain.agent, chain.stream)


def head_out(head: Head | None) -> types_pb2.ChainHead:
    """A chain's head; `exists` is false for a chain never seen."""
    if head is None:
        return types_pb2.ChainHead(exists=False)
    return types_pb2.ChainHead(
        exists=True, position=head.position, link_hash=head.link_hash, sequence=head.sequence
    )


def selector_in(
    request: proof_pb2.GetReceiptRequest | proof_pb2.GetProofRequest,
    locate: Callable[[bytes], tuple[bytes, int]],
) -> tuple[bytes, int]:
    """(chain key, position) of a selected receipt.

    Raises:
        ServiceError: INVALID_ARGUMENT, or what `locate` raises.
    """
    selector = request.WhichOneof("selector")
    if selector == "receipt_hash":
        if len(request.receipt_hash) != 32:
            raise ServiceError(
                Reason.INVALID_ARGUMENT,
                "receipt_hash is a SHA-256",
                want="32 bytes",
                got=f"{len(request.receipt_hash)} bytes",
            )
        return locate(request.receipt_hash)
    if selector == "at":
        if request.at.position > MAX_POSITION:
            raise ServiceError(
                Reason.INVALID_ARGUMENT,
                "no chain has such a position",
                want="at most 2^63-1",
                got=str(request.at.position),
            )
        return chain_in(request.at.chain), request.at.position
    raise ServiceError(
        Reason.INVALID_ARGUMENT, "select a receipt", want="receipt_hash, or at (chain and position)"
    )


def place_out(place: Place) -> proof_pb2.GetReceiptResponse:
    """One stored receipt."""
    return proof_pb2.GetReceiptResponse(
        receipt=place.stored.raw,
        chain_key=place.stored.chain,
        position=place.stored.position,
        profile=place.entry.profile,
        profile_version=place.entry.profile_version,
        admitted_at_us=place.stored.admitted_at,
        leaf_index=place.leaf_index,
    )


def bundle_out(bundle: Bundle) -> proof_pb2.GetProofResponse:
    """Everything of a bundle."""
    return proof_pb2.GetProofResponse(
        position=bundle.position,
        receipt=_member(bundle.receipt),
        previous=None if bundle.previous is None else _member(bundle.previous),
        head=leaf_out(bundle.head),
        key=leaf_out(bundle.key),
        checkpoint=bundle.checkpoint,
        consistency=() if bundle.consistency is None else bundle.consistency.proof,
        anchors=[
            proof_pb2.AnchoredCheckpoint(
                note=anchor.note,
                consistency=anchor.consistency,
                stamps=[_stamp(stamp) for stamp in anchor.stamps],
            )
            for anchor in bundle.anchors
        ],
    )


def _member(member: Member) -> proof_pb2.SegmentReceipt:
    return proof_pb2.SegmentReceipt(receipt=member.raw, proof=member.proof)


def leaf_out(leaf: LeafProof) -> proof_pb2.LogLeaf:
    """A log leaf with its path."""
    return proof_pb2.LogLeaf(leaf=leaf.leaf, index=leaf.index, proof=leaf.proof)


def _stamp(stamp: AnchorStamp) -> proof_pb2.AnchorStamp:
    evidence = stamp.evidence
    return proof_pb2.AnchorStamp(
        request=stamp.request,
        response=stamp.response,
        leaf=leaf_out(stamp.leaf),
        evidence=None
        if evidence is None
        else proof_pb2.AnchorEvidence(
            leaf=leaf_out(evidence.leaf), crls=evidence.crls, ocsps=evidence.ocsps
        ),
    )
