"""The parts a bundle is made of, and how each is written and read.

Readers raise KeyError, TypeError or ValueError; `bundle.parse_bundle` turns all of them into one typed
error, and compares what was read with what would be written, so none of them has to be strict about
spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from receiptledger.core.encoding import (
    SAFE_INTEGER,
    base64url_decode,
    base64url_encode,
    digest_text,
    parse_digest,
)

__all__ = [
    "MAX_LOG_PROOF",
    "MAX_SEGMENT_PROOF",
    "Consistency",
    "LeafProof",
    "Member",
    "binary_in",
    "binary_out",
    "leaf_in",
    "leaf_out",
    "list_in",
    "member_in",
    "member_out",
    "number_in",
    "object_in",
    "proof_in",
    "proof_out",
    "text_in",
]

MAX_LOG_PROOF = 64  # hashes: sizes stay below 2^63, a consistency proof adds one
MAX_SEGMENT_PROOF = 10  # hashes: segments hold at most 1,024 receipts


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


def member_out(member: Member) -> dict[str, Any]:
    """A receipt and its path, as JSON values."""
    return {"raw": member.raw.decode("utf-8"), "proof": proof_out(member.proof)}


def member_in(value: Any) -> Member:
    """What :func:`member_out` wrote."""
    object_in(value)
    return Member(text_in(value["raw"]), proof_in(value["proof"], MAX_SEGMENT_PROOF))


def leaf_out(leaf: LeafProof) -> dict[str, Any]:
    """A leaf and its path, as JSON values."""
    return {
        "leaf": leaf.leaf.decode("utf-8"),
        "index": leaf.index,
        "proof": proof_out(leaf.proof),
    }


def leaf_in(value: Any) -> LeafProof:
    """What :func:`leaf_out` wrote."""
    object_in(value)
    return LeafProof(
        text_in(value["leaf"]), number_in(value["index"]), proof_in(value["proof"], MAX_LOG_PROOF)
    )


def proof_out(proof: tuple[bytes, ...]) -> list[str]:
    """Hashes as digest texts."""
    return [digest_text(one) for one in proof]


def proof_in(value: object, limit: int) -> tuple[bytes, ...]:
    """At most `limit` hashes."""
    return tuple(parse_digest(item) for item in list_in(value, limit, "hashes"))


def binary_out(data: bytes) -> str:
    """Bytes that are no text, as unpadded base64url."""
    return base64url_encode(data)


def binary_in(value: object, limit: int) -> bytes:
    """At most `limit` bytes, at least one."""
    text = value if isinstance(value, str) else ""
    if not 0 < len(text) * 3 // 4 <= limit:
        raise ValueError(f"expected 1..{limit} bytes as unpadded base64url text")
    return base64url_decode(text, len(text) * 3 // 4)


def object_in(value: object) -> None:
    """Demand a JSON object."""
    if not isinstance(value, dict):
        raise TypeError("expected an object")


def list_in(value: object, limit: int, what: str) -> list[Any]:
    """A list of at most `limit` elements."""
    if not isinstance(value, list) or len(value) > limit:
        raise ValueError(f"expected a list of at most {limit} {what}")
    return value


def text_in(value: object) -> bytes:
    """A text, as UTF-8."""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value.encode("utf-8")


def number_in(value: object) -> int:
    """An integer, 0 to 2^53 - 1."""
    if type(value) is not int or not 0 <= value <= SAFE_INTEGER:
        raise ValueError(f"expected an integer 0..{SAFE_INTEGER}")
    return value
