"""The anchors of a bundle: earlier checkpoints of its log that timestamp authorities have stamped.

All bytes are those the authorities and the log wrote; the auditor's own authorities decide what they
are worth (`anchors`). Every leaf in here is proved under the bundle's own checkpoint.

The limits below bound what a verifier has to read and check, whoever made the bundle: they are the
only ones for anchors, for the reader that fills a bundle as well as for the parser that refuses one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from receiptledger.core.bundle_parts import (
    MAX_LOG_PROOF,
    LeafProof,
    binary_in,
    binary_out,
    leaf_in,
    leaf_out,
    list_in,
    object_in,
    proof_in,
    proof_out,
    text_in,
)

__all__ = [
    "MAX_ANCHORED_CHECKPOINTS",
    "MAX_ANCHOR_BYTES",
    "MAX_EVIDENCE_BYTES",
    "MAX_EVIDENCE_PARTS",
    "MAX_REQUEST_BYTES",
    "MAX_RESPONSE_BYTES",
    "MAX_STAMPS",
    "AnchorEvidence",
    "AnchorStamp",
    "AnchoredCheckpoint",
    "anchors_in",
    "anchors_out",
]

MAX_ANCHORED_CHECKPOINTS = 16  # a reader needs 4 after, 8 before and 1 that renews
MAX_STAMPS = 32  # of all anchored checkpoints together: each costs a few signatures
MAX_REQUEST_BYTES = 4_096  # ours have about 70
MAX_RESPONSE_BYTES = 65_536  # what the strict verifier reads; real ones have 0.5 to 7.4 KiB
MAX_EVIDENCE_PARTS = 8  # CRLs, and as many OCSP responses, of one stamp: a path has 4 certificates
MAX_EVIDENCE_BYTES = 262_144  # one CRL or OCSP response
# Requests, responses and evidence of one bundle together, each stamp's own counted. A token has about
# 6 KiB, but the revocation lists of some authorities are long.
MAX_ANCHOR_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class AnchorEvidence:
    """Whether the authority's certificates were revoked, fetched after the stamp and logged.

    Attributes:
        leaf: an anchor leaf with the digest of the manifest that names these parts in this order.
        crls: certificate revocation lists, DER.
        ocsps: OCSP responses, DER.
    """

    leaf: LeafProof
    crls: tuple[bytes, ...] = ()
    ocsps: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class AnchorStamp:
    """What one timestamp authority answered about a checkpoint.

    Attributes:
        request: the RFC 3161 query as sent, DER; its nonce says that the answer is to it.
        response: the answer as received, DER.
        leaf: the anchor leaf that logs the answer.
        evidence: revocation evidence, or None.
    """

    request: bytes
    response: bytes
    leaf: LeafProof
    evidence: AnchorEvidence | None = None

    @property
    def weight(self) -> int:
        """Bytes of request, response and evidence."""
        parts = () if self.evidence is None else (*self.evidence.crls, *self.evidence.ocsps)
        return len(self.request) + len(self.response) + sum(map(len, parts))


@dataclass(frozen=True, slots=True)
class AnchoredCheckpoint:
    """An earlier checkpoint of the log with the stamps over exactly its bytes.

    Attributes:
        note: the signed checkpoint that was stamped: text, empty line, the log's signature line.
        consistency: RFC 6962 proof from its size to the bundle's checkpoint; empty when equal.
        stamps: one or more, in the order of their leaves.
    """

    note: bytes
    consistency: tuple[bytes, ...]
    stamps: tuple[AnchorStamp, ...]


def anchors_out(anchors: tuple[AnchoredCheckpoint, ...]) -> list[dict[str, Any]]:
    """Anchored checkpoints as JSON values."""
    return [
        {
            "checkpoint": anchor.note.decode("utf-8"),
            "consistency": proof_out(anchor.consistency),
            "stamps": [_stamp_out(stamp) for stamp in anchor.stamps],
        }
        for anchor in anchors
    ]


def anchors_in(value: object) -> tuple[AnchoredCheckpoint, ...]:
    """What :func:`anchors_out` wrote."""
    anchors = tuple(
        _anchor_in(item) for item in list_in(value, MAX_ANCHORED_CHECKPOINTS, "checkpoints")
    )
    stamps = [stamp for anchor in anchors for stamp in anchor.stamps]
    if len(stamps) > MAX_STAMPS:
        raise ValueError(f"{len(stamps)} stamps in all, at most {MAX_STAMPS}")
    if len({stamp.response for stamp in stamps}) < len(stamps):
        raise ValueError("one response stands there twice")
    weight = sum(stamp.weight for stamp in stamps)
    if weight > MAX_ANCHOR_BYTES:
        raise ValueError(f"{weight} bytes of tokens and evidence, at most {MAX_ANCHOR_BYTES}")
    return anchors


def _anchor_in(value: Any) -> AnchoredCheckpoint:
    object_in(value)
    stamps = tuple(_stamp_in(item) for item in list_in(value["stamps"], MAX_STAMPS, "stamps"))
    if not stamps:
        raise ValueError("an anchored checkpoint has at least one stamp")
    return AnchoredCheckpoint(
        note=text_in(value["checkpoint"]),
        consistency=proof_in(value["consistency"], MAX_LOG_PROOF),
        stamps=stamps,
    )


def _stamp_out(stamp: AnchorStamp) -> dict[str, Any]:
    return {
        "request": binary_out(stamp.request),
        "response": binary_out(stamp.response),
        "leaf": leaf_out(stamp.leaf),
        "evidence": None
        if stamp.evidence is None
        else {
            "leaf": leaf_out(stamp.evidence.leaf),
            "crls": [binary_out(crl) for crl in stamp.evidence.crls],
            "ocsps": [binary_out(ocsp) for ocsp in stamp.evidence.ocsps],
        },
    }


def _stamp_in(value: Any) -> AnchorStamp:
    object_in(value)
    evidence = value["evidence"]
    return AnchorStamp(
        request=binary_in(value["request"], MAX_REQUEST_BYTES),
        response=binary_in(value["response"], MAX_RESPONSE_BYTES),
        leaf=leaf_in(value["leaf"]),
        evidence=None if evidence is None else _evidence_in(evidence),
    )


def _evidence_in(value: Any) -> AnchorEvidence:
    object_in(value)
    crls, ocsps = (
        tuple(
            binary_in(part, MAX_EVIDENCE_BYTES)
            for part in list_in(value[kind], MAX_EVIDENCE_PARTS, kind)
        )
        for kind in ("crls", "ocsps")
    )
    return AnchorEvidence(leaf_in(value["leaf"]), crls, ocsps)
