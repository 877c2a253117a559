"""The proof bundle of one receipt: everything an auditor's machine needs, in one file.

One JCS object and a final newline. It carries the exact receipt bytes (as text: receipts are UTF-8),
the two Merkle paths, the head leaf and the key leaf, the signed checkpoint, and on request a
consistency proof from a checkpoint the auditor already holds. Nothing in a bundle is trusted because
it is in the bundle. `parse_bundle` accepts exactly the bytes `encode` emits; see proto/FORMATS.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from receiptledger.core.canonical import Limits, canonicalize, parse
from receiptledger.core.encoding import SAFE_INTEGER, digest_text, parse_digest
from receiptledger.core.errors import EvidenceError, LedgerError, Reason

__all__ = [
    "BUNDLE_TYPE",
    "MAX_BUNDLE_BYTES",
    "Bundle",
    "Consistency",
    "LeafProof",
    "Member",
    "parse_bundle",
]

BUNDLE_TYPE = "receiptledger/bundle/v1"
MAX_BUNDLE_BYTES = 1_048_576
MAX_LOG_PROOF = 64  # hashes: sizes stay below 2^63, a consistency proof adds one
MAX_SEGMENT_PROOF = 10  # hashes: segments hold at most 1,024 receipts
_LIMITS = Limits(max_bytes=MAX_BUNDLE_BYTES, max_depth=6, max_members=1_024)


@dataclass(frozen=True, slots=True)
class Member:
    """A receipt of a segment and its audit path (at most 10 hashes)."""

    raw: bytes
    proof: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class LeafProof:
    """A log leaf, its index, and its audit path to the checkpoint's root (at most 63 hashes)."""

    leaf: bytes
    index: int
    proof: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Consistency:
    """RFC 6962 consistency proof from `size` to the bundle's checkpoint."""

    size: int
    proof: tuple[bytes, ...]


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
    """

    position: int
    receipt: Member
    previous: Member | None
    head: LeafProof
    key: LeafProof
    checkpoint: bytes
    consistency: Consistency | None = None

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
                        "receipt": _member_out(self.receipt),
                        "previous": None if self.previous is None else _member_out(self.previous),
                        "head": _leaf_out(self.head),
                        "key": _leaf_out(self.key),
                        "checkpoint": self.checkpoint.decode("utf-8"),
                        "consistency": None
                        if self.consistency is None
                        else {
                            "size": self.consistency.size,
                            "proof": [digest_text(h) for h in self.consistency.proof],
                        },
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
            _object(consistency)
        bundle = Bundle(
            position=_number(value["position"]),
            receipt=_member_in(value["receipt"]),
            previous=None if previous is None else _member_in(previous),
            head=_leaf_in(value["head"]),
            key=_leaf_in(value["key"]),
            checkpoint=_text(value["checkpoint"]),
            consistency=None
            if consistency is None
            else Consistency(
                _number(consistency["size"]), _proof(consistency["proof"], MAX_LOG_PROOF)
            ),
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


def _member_out(member: Member) -> dict[str, Any]:
    return {"raw": member.raw.decode("utf-8"), "proof": [digest_text(h) for h in member.proof]}


def _member_in(value: Any) -> Member:
    _object(value)
    return Member(_text(value["raw"]), _proof(value["proof"], MAX_SEGMENT_PROOF))


def _leaf_out(leaf: LeafProof) -> dict[str, Any]:
    return {
        "leaf": leaf.leaf.decode("utf-8"),
        "index": leaf.index,
        "proof": [digest_text(h) for h in leaf.proof],
    }


def _leaf_in(value: Any) -> LeafProof:
    _object(value)
    return LeafProof(
        _text(value["leaf"]), _number(value["index"]), _proof(value["proof"], MAX_LOG_PROOF)
    )


def _object(value: object) -> None:
    if not isinstance(value, dict):
        raise TypeError("expected an object")


def _proof(value: object, limit: int) -> tuple[bytes, ...]:
    if not isinstance(value, list) or len(value) > limit:
        raise ValueError(f"a proof is a list of at most {limit} hashes")
    return tuple(parse_digest(item) for item in value)


def _text(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value.encode("utf-8")


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= SAFE_INTEGER:
        raise ValueError(f"expected an integer 0..{SAFE_INTEGER}")
    return value


def _bad(message: str, want: str | None = None, got: str | None = None) -> EvidenceError:
    return EvidenceError(Reason.BAD_BUNDLE, f"bundle: {message}", want=want, got=got)
