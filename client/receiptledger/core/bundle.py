"""The proof bundle of one receipt: everything an auditor's machine needs, in one file.

One JCS object and a final newline. It carries the exact receipt bytes (as text: receipts are UTF-8),
the two Merkle paths, the head leaf and the key leaf, the signed checkpoint, earlier checkpoints with the
timestamps over them, and on request a consistency proof from a checkpoint the auditor already holds.
Nothing in a bundle is trusted because it is in the bundle. `parse_bundle` accepts exactly the bytes
`encode` emits; see proto/FORMATS.md.

The parts are in `bundle_parts` and `bundle_anchors`; all of them are part of this module's interface.
"""

from __future__ import annotations

from dataclasses import dataclass

from receiptledger.core.bundle_anchors import (
    AnchoredCheckpoint,
    AnchorEvidence,
    AnchorStamp,
    anchors_in,
    anchors_out,
)
from receiptledger.core.bundle_parts import (
    MAX_LOG_PROOF,
    Consistency,
    LeafProof,
    Member,
    leaf_in,
    leaf_out,
    member_in,
    member_out,
    number_in,
    object_in,
    proof_in,
    proof_out,
    text_in,
)
from receiptledger.core.canonical import Limits, canonicalize, parse
from receiptledger.core.errors import EvidenceError, LedgerError, Reason

__all__ = [
    "BUNDLE_TYPE",
    "MAX_BUNDLE_BYTES",
    "AnchorEvidence",
    "AnchorStamp",
    "AnchoredCheckpoint",
    "Bundle",
    "Consistency",
    "LeafProof",
    "Member",
    "parse_bundle",
]

BUNDLE_TYPE = "receiptledger/bundle/v1"
MAX_BUNDLE_BYTES = 4_194_304
# Depth and members of the fullest anchors: 32 stamps with two audit paths of 64 hashes each.
_LIMITS = Limits(max_bytes=MAX_BUNDLE_BYTES, max_depth=8, max_members=8_192)


@dataclass(frozen=True, slots=True)
class Bundle:
    """One receipt with its evidence.

    Attributes:
        position: the receipt's place in its chain.
        receipt: its bytes and path.
        previous: the receipt before it, when both are in one segment: shows the link between them.
        head: the head leaf that commits the segment.
        key: the key leaf that allows the key the receipt is signed with.
        checkpoint: signed note; every log path leads to its root.
        consistency: from an older checkpoint to this one, or None.
        anchors: timestamped checkpoints of the log up to this one, by ascending size.
    """

    position: int
    receipt: Member
    previous: Member | None
    head: LeafProof
    key: LeafProof
    checkpoint: bytes
    consistency: Consistency | None = None
    anchors: tuple[AnchoredCheckpoint, ...] = ()

    def encode(self) -> bytes:
        """The file's bytes: the same for the same question at the same checkpoint.

        Raises:
            EvidenceError: BAD_BUNDLE when a part is not UTF-8 and so cannot be of this ledger.
        """
        try:
            return (
                canonicalize(
                    {
                        "type": BUNDLE_TYPE,
                        "position": self.position,
                        "receipt": member_out(self.receipt),
                        "previous": None if self.previous is None else member_out(self.previous),
                        "head": leaf_out(self.head),
                        "key": leaf_out(self.key),
                        "checkpoint": self.checkpoint.decode("utf-8"),
                        "consistency": None
                        if self.consistency is None
                        else {
                            "size": self.consistency.size,
                            "proof": proof_out(self.consistency.proof),
                        },
                        "anchors": anchors_out(self.anchors),
                    }
                )
                + b"\n"
            )
        except UnicodeDecodeError:
            raise _bad("a part is not UTF-8 text") from None


def parse_bundle(data: bytes) -> Bundle:
    """Read a bundle's form; nothing of it is verified yet.

    Raises:
        EvidenceError: BAD_BUNDLE for anything `Bundle.encode` would not have written.
    """
    if not data.endswith(b"\n"):
        raise _bad("does not end with a newline: the file was cut or is not a bundle")
    try:
        value = parse(data[:-1], _LIMITS).value
        kind = value.get("type")
        if kind != BUNDLE_TYPE:
            raise _bad("unknown type", BUNDLE_TYPE, repr(kind)[:60])
        previous, consistency = value["previous"], value["consistency"]
        if consistency is not None:
            object_in(consistency)
        bundle = Bundle(
            position=number_in(value["position"]),
            receipt=member_in(value["receipt"]),
            previous=None if previous is None else member_in(previous),
            head=leaf_in(value["head"]),
            key=leaf_in(value["key"]),
            checkpoint=text_in(value["checkpoint"]),
            consistency=None
            if consistency is None
            else Consistency(
                number_in(consistency["size"]), proof_in(consistency["proof"], MAX_LOG_PROOF)
            ),
            anchors=anchors_in(value["anchors"]),
        )
    except EvidenceError:
        raise
    except LedgerError as error:
        raise _bad(f"not one strict JSON object: {error.message}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise _bad(f"a member is missing or wrong: {error}") from None
    if bundle.encode() != data:
        raise _bad("not in the one form the ledger writes (edited or re-formatted)")
    return bundle


def _bad(message: str, want: str | None = None, got: str | None = None) -> EvidenceError:
    return EvidenceError(Reason.BAD_BUNDLE, f"bundle: {message}", want=want, got=got)
