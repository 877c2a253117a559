"""How leaves and nodes of the log's tree are hashed (RFC 6962 section 2.1), over SHA-256.

Rules:

- A leaf is SHA-256(0x00 || entry), a node is SHA-256(0x01 || left || right): the prefixes keep a
  node from ever passing for a leaf. The empty tree's root is SHA-256 of nothing.
- A tree of n leaves splits at the largest power of two below n. Hence pairing neighbours level by
  level, and carrying a lone last node up unchanged, gives the same root without recursion.
- Nothing is concatenated before its length is known to be 32 bytes: two hashes of 31 and 33 bytes
  would hash like two of 32.

The functions here are in the daemon's hot path: plain loops, no objects per hash.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from receiptledger.core.errors import EvidenceError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "EMPTY_ROOT",
    "HASH_SIZE",
    "MAX_SIZE",
    "bad_proof",
    "check_hash",
    "check_hashes",
    "check_integer",
    "fold_root",
    "hash_leaf",
    "hash_node",
    "hash_row",
    "inclusion_path",
    "root_hash",
]

HASH_SIZE: Final = 32  # bytes of one SHA-256 hash
MAX_SIZE: Final = 2**63 - 1  # leaves; larger sizes do not survive signed 64-bit readers
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()

_sha256 = hashlib.sha256


def hash_leaf(data: bytes) -> bytes:
    """Leaf hash of one entry, 32 bytes (RFC 6962 section 2.1). An empty entry is legal."""
    return _sha256(b"\x00" + data).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node from its two 32-byte children (RFC 6962 section 2.1)."""
    return _sha256(b"\x01" + left + right).digest()


def root_hash(leaf_hashes: Sequence[bytes]) -> bytes:
    """Merkle tree hash over leaf hashes: MTH of RFC 6962 section 2.1.

    Args:
        leaf_hashes: any number of 32-byte leaf hashes, in order.

    Returns:
        The 32-byte root; `EMPTY_ROOT` for no leaves.

    Raises:
        EvidenceError: BAD_PROOF, one of the hashes is not 32 bytes.
    """
    check_hashes(leaf_hashes)
    level = list(leaf_hashes)
    if not level:
        return EMPTY_ROOT
    while len(level) > 1:
        level = _parents(level)
    return level[0]


def inclusion_path(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Inclusion proof within a tree held in memory: PATH of RFC 6962 section 2.1.1.

    Meant for segments (at most 1,024 leaves): it hashes the whole tree. Proofs in the log itself
    come from tiles, see :func:`receiptledger.core.merkle.plan_inclusion`.

    Args:
        leaf_hashes: 32-byte leaf hashes of the whole tree, in order.
        index: leaf to prove, 0 <= index < len(leaf_hashes).

    Returns:
        Sibling hashes from the leaf's to the root's child; empty for a tree of one leaf.

    Raises:
        EvidenceError: BAD_PROOF, the index is not in the tree or a hash is not 32 bytes.
    """
    check_integer(index, "leaf index", 0, len(leaf_hashes) - 1)
    check_hashes(leaf_hashes)
    level = list(leaf_hashes)
    path = []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):  # else the node is the lone last one: it moves up unhashed
            path.append(level[sibling])
        level = _parents(level)
        index >>= 1
    return path


def fold_root(hashes: Sequence[bytes]) -> bytes:
    """Join perfect subtrees of falling size, left to right, into the root over all of them.

    Args:
        hashes: 32-byte hashes of `edge_nodes(size)` (or of any `range_nodes` that start at a
            multiple of the power of two that covers them).

    Returns:
        The 32-byte root; `EMPTY_ROOT` for none.
    """
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in hashes[-2::-1]:
        root = _sha256(b"\x01" + left + root).digest()
    return root


def hash_row(row: bytes) -> bytes:
    """Root of a perfect subtree whose bottom row is given as concatenated hashes.

    Args:
        row: 32 * 2**k bytes; the caller has checked that.
    """
    while len(row) > HASH_SIZE:
        row = b"".join(
            [_sha256(b"\x01" + row[at : at + 64]).digest() for at in range(0, len(row), 64)]
        )
    return row


def _parents(level: list[bytes]) -> list[bytes]:
    """The next level up; a lone last node is carried up as it is."""
    pairs = iter(level)
    parents = [
        _sha256(b"\x01" + left + right).digest()
        for left, right in zip(pairs, pairs, strict=False)  # drops the lone last node
    ]
    if len(level) & 1:
        parents.append(level[-1])
    return parents


def bad_proof(message: str, *, want: object = None, got: object = None) -> EvidenceError:
    """A BAD_PROOF error ready to raise."""
    return EvidenceError(
        Reason.BAD_PROOF,
        message,
        want=None if want is None else str(want),
        got=None if got is None else str(got),
    )


def check_integer(value: object, what: str, low: int, high: int = MAX_SIZE) -> int:
    """Return an index or size that is an `int` (not a bool) in low..high, else raise BAD_PROOF."""
    if type(value) is not int:
        raise bad_proof(f"{what} is not an integer", want="int", got=type(value).__name__)
    if not low <= value <= high:
        raise bad_proof(f"{what} is out of range", want=f"{low}..{high}", got=value)
    return value


def check_hash(value: object, what: str) -> bytes:
    """Return a hash that is exactly 32 `bytes`, else raise BAD_PROOF."""
    if type(value) is not bytes:
        raise bad_proof(f"{what} is not bytes", want="bytes", got=type(value).__name__)
    if len(value) != HASH_SIZE:
        raise bad_proof(f"{what} has the wrong length", want="32 bytes", got=f"{len(value)} bytes")
    return value


def check_hashes(hashes: Iterable[bytes]) -> None:
    """Check many of our own hashes at once (a few per cent of the cost of hashing them).

    Raises:
        EvidenceError: BAD_PROOF, one of them is not 32 bytes.
    """
    lengths = set(map(len, hashes))
    if not lengths <= {HASH_SIZE}:
        wrong = min(lengths - {HASH_SIZE})
        raise bad_proof("a hash has the wrong length", want="32 bytes", got=f"{wrong} bytes")
