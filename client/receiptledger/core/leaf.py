"""Leaves of the log: JCS objects of at most 65,535 bytes (C2SP tlog-tiles entry bundles).

Three kinds are written today. A `head` leaf commits one segment, a run of one chain's receipts; a
`key` leaf allows a public key for a chain from a position on, and stands before the first head leaf
that relies on it. An `anchor` leaf commits a timestamp over an earlier checkpoint, so that the next
timestamp covers it too. Leaves name chains by key only, so the log's tiles leak no agent names.

`parse_leaf` accepts exactly the bytes `encode` emits. Specified in proto/FORMATS.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from receiptledger.core.algorithms import KEY_SIZES, algorithm_of
from receiptledger.core.canonical import canonicalize, parse
from receiptledger.core.encoding import (
    SAFE_INTEGER,
    base64url_decode,
    base64url_encode,
    digest_text,
    parse_digest,
)
from receiptledger.core.errors import EvidenceError, LedgerError, Reason
from receiptledger.core.segment import SEGMENT_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "KEY_MODES",
    "MAX_LEAF_BYTES",
    "AnchorLeaf",
    "HeadLeaf",
    "KeyLeaf",
    "Leaf",
    "is_tsa_name",
    "parse_leaf",
]

MAX_LEAF_BYTES = 65_535  # tlog-tiles: entries carry a 16-bit length
KEY_MODES = ("pinned", "registered")
_VERSION = 1
_MAX_PROFILE_VERSION = 1_000_000
_TSA_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class HeadLeaf:
    """Commits positions first..last of one chain.

    Attributes:
        chain: chain key, 32 bytes.
        first: first position of the segment.
        last: last position of the segment, at most first + 1,023.
        prev: link hash of position first - 1; None exactly when first is 0.
        head: link hash of position last.
        segment: RFC 6962 root over the raw receipts of the segment.
        profile: receipt format of every receipt of the segment.
        profile_version: version of that format's data.
    """

    chain: bytes
    first: int
    last: int
    prev: bytes | None
    head: bytes
    segment: bytes
    profile: str
    profile_version: int

    @property
    def count(self) -> int:
        """Receipts in the segment."""
        return self.last - self.first + 1

    def encode(self) -> bytes:
        """The leaf's bytes."""
        return canonicalize(
            {
                "chain": digest_text(self.chain),
                "count": self.count,
                "first": self.first,
                "head": digest_text(self.head),
                "kind": "head",
                "last": self.last,
                "prev": None if self.prev is None else digest_text(self.prev),
                "profile": self.profile,
                "profile_version": self.profile_version,
                "segment": digest_text(self.segment),
                "v": _VERSION,
            }
        )


@dataclass(frozen=True, slots=True)
class KeyLeaf:
    """Allows one public key for a chain.

    Attributes:
        chain: chain key, 32 bytes.
        key: public key; its length tells its algorithm, see `algorithms`.
        mode: "pinned" (first key seen on the chain) or "registered" (enrolled by the operator).
        since: first position that may rely on it.
    """

    chain: bytes
    key: bytes
    mode: str
    since: int

    def encode(self) -> bytes:
        """The leaf's bytes."""
        return canonicalize(
            {
                "alg": algorithm_of(self.key),
                "chain": digest_text(self.chain),
                "key": base64url_encode(self.key),
                "kind": "key",
                "mode": self.mode,
                "since": self.since,
                "v": _VERSION,
            }
        )


@dataclass(frozen=True, slots=True)
class AnchorLeaf:
    """Commits what a timestamp authority answered about an earlier checkpoint of this log.

    A timestamp gets one such leaf, and another one when its revocation evidence came later.

    Attributes:
        size: leaves under the checkpoint that was timestamped.
        root: root of that checkpoint, 32 bytes.
        tsa: the operator's name for the authority, see :func:`is_tsa_name`.
        response: SHA-256 of the RFC 3161 response as received, 32 bytes.
        evidence: SHA-256 of the manifest of its revocation evidence, 32 bytes; None without.
    """

    size: int
    root: bytes
    tsa: str
    response: bytes
    evidence: bytes | None

    def encode(self) -> bytes:
        """The leaf's bytes."""
        return canonicalize(
            {
                "evidence": None if self.evidence is None else digest_text(self.evidence),
                "kind": "anchor",
                "response": digest_text(self.response),
                "root": digest_text(self.root),
                "size": self.size,
                "tsa": self.tsa,
                "v": _VERSION,
            }
        )


Leaf = HeadLeaf | KeyLeaf | AnchorLeaf


def is_tsa_name(text: object) -> bool:
    """Whether a value names a timestamp authority: 1..64 of a-z, 0-9, '.', '_', '-', no mark first."""
    return isinstance(text, str) and _TSA_NAME.fullmatch(text) is not None


def parse_leaf(data: bytes) -> Leaf:
    """Read a leaf.

    Raises:
        EvidenceError: BAD_LEAF for anything `encode` would not have written.
    """
    if len(data) > MAX_LEAF_BYTES:
        raise _bad("too long", f"at most {MAX_LEAF_BYTES} bytes", str(len(data)))
    try:
        value = parse(data).value
        kind = value.get("kind")
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            raise _bad("unknown kind", "head, key or anchor", repr(kind)[:40])
        leaf = reader(value)
    except EvidenceError:
        raise
    except LedgerError as error:
        raise _bad(f"not a JSON object: {error.message}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise _bad(f"a member is missing or wrong: {error}") from None
    if leaf.encode() != data:
        raise _bad("not in the one form the ledger writes")
    return leaf


def _head(value: dict[str, Any]) -> HeadLeaf:
    first = _number(value["first"], SAFE_INTEGER)
    last = _number(value["last"], SAFE_INTEGER)
    prev = value["prev"]
    if not first <= last < first + SEGMENT_MAX:
        raise ValueError(f"positions {first}..{last} are not a segment of 1..{SEGMENT_MAX}")
    if (prev is None) != (first == 0):
        raise ValueError("prev is null exactly when first is 0")
    profile = value["profile"]
    if not isinstance(profile, str) or not profile:
        raise ValueError("profile is a non-empty string")
    return HeadLeaf(
        chain=parse_digest(value["chain"]),
        first=first,
        last=last,
        prev=None if prev is None else parse_digest(prev),
        head=parse_digest(value["head"]),
        segment=parse_digest(value["segment"]),
        profile=profile,
        profile_version=_number(value["profile_version"], _MAX_PROFILE_VERSION),
    )


def _key(value: dict[str, Any]) -> KeyLeaf:
    mode, algorithm = value["mode"], value["alg"]
    if mode not in KEY_MODES:
        raise ValueError(f"mode is one of {KEY_MODES}")
    if not isinstance(algorithm, str) or algorithm not in KEY_SIZES:
        raise ValueError(f"alg is one of {', '.join(KEY_SIZES)}")
    return KeyLeaf(
        chain=parse_digest(value["chain"]),
        key=base64url_decode(value["key"], KEY_SIZES[algorithm]),
        mode=mode,
        since=_number(value["since"], SAFE_INTEGER),
    )


def _anchor(value: dict[str, Any]) -> AnchorLeaf:
    tsa, evidence = value["tsa"], value["evidence"]
    if not is_tsa_name(tsa):
        raise ValueError("tsa is a name of an authority")
    return AnchorLeaf(
        size=_number(value["size"], SAFE_INTEGER),
        root=parse_digest(value["root"]),
        tsa=tsa,
        response=parse_digest(value["response"]),
        evidence=None if evidence is None else parse_digest(evidence),
    )


_READERS: dict[str, Callable[[dict[str, Any]], Leaf]] = {
    "head": _head,
    "key": _key,
    "anchor": _anchor,
}


def _number(value: object, limit: int) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError(f"expected an integer 0..{limit}")
    return value


def _bad(message: str, want: str | None = None, got: str | None = None) -> EvidenceError:
    return EvidenceError(Reason.BAD_LEAF, f"log leaf: {message}", want=want, got=got)
