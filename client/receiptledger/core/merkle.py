"""Proofs of the log's Merkle tree, checked (RFC 6962 section 2.1, RFC 9162 section 2.1).

Rules:

- Verification raises, it never returns a bool. Types, sizes, the exact proof length and the length
  of every hash are checked before the first hash is computed.
- The proof's length follows from the sizes alone. A proof with a hash too few or too many is
  refused whatever it hashes to.
- There is no consistency proof from the empty tree: one would "prove" any tree. It is refused.

The hash rules are in `treehash`, the making of proofs in `proof_plan`; both are part of this
module's interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.proof_plan import (
    Node,
    ProofPlan,
    edge_nodes,
    plan_consistency,
    plan_inclusion,
    range_nodes,
)
from receiptledger.core.treehash import (
    EMPTY_ROOT,
    HASH_SIZE,
    MAX_SIZE,
    bad_proof,
    check_hash,
    check_integer,
    fold_root,
    hash_leaf,
    hash_node,
    inclusion_path,
    root_hash,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "EMPTY_ROOT",
    "HASH_SIZE",
    "MAX_SIZE",
    "Node",
    "ProofPlan",
    "edge_nodes",
    "fold_root",
    "hash_leaf",
    "hash_node",
    "inclusion_path",
    "plan_consistency",
    "plan_inclusion",
    "range_nodes",
    "root_from_inclusion",
    "root_hash",
    "verify_consistency",
    "verify_inclusion",
]


def root_from_inclusion(leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root an inclusion proof leads to (RFC 9162 section 2.1.3.2).

    The result proves nothing by itself: compare it with a root that is signed.

    Args:
        leaf_hash: 32 bytes.
        index: the leaf's place, 0 <= index < size.
        size: number of leaves, 1..2^63-1.
        proof: 32-byte sibling hashes from the leaf up.

    Returns:
        The 32-byte root.

    Raises:
        EvidenceError: BAD_PROOF, with the argument at fault.
    """
    check_integer(size, "tree size", 1)
    check_integer(index, "leaf index", 0, size - 1)
    check_hash(leaf_hash, "leaf hash")
    inner, border = _path_shape(index, size)
    hashes = _check_proof(proof, inner + border)
    return _climb(leaf_hash, index, hashes, inner)


def verify_inclusion(
    leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf is in the tree with this size and root (RFC 9162 section 2.1.3.2).

    Args:
        leaf_hash: 32 bytes.
        index: the leaf's place, 0 <= index < size.
        size: number of leaves, 1..2^63-1.
        proof: 32-byte sibling hashes from the leaf up; empty for a tree of one leaf.
        root: 32 bytes, from a signed checkpoint of this size.

    Raises:
        EvidenceError: BAD_PROOF, with what was expected and what came.
    """
    check_hash(root, "root")
    came = root_from_inclusion(leaf_hash, index, size, proof)
    if came != root:
        raise bad_proof(
            f"inclusion proof of leaf {index} does not lead to the root of size {size}",
            want=root.hex(),
            got=came.hex(),
        )


def verify_consistency(
    old_size: int, new_size: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes
) -> None:
    """Check that a tree is an extension of an older one (RFC 9162 section 2.1.4.2).

    Args:
        old_size: leaves of the older tree, 1..new_size. Size 0 is refused: no such proof exists.
        new_size: leaves of the newer tree, at most 2^63-1.
        proof: 32-byte hashes; empty when the sizes are equal, and then the roots must be equal.
        old_root: 32 bytes, from a signed checkpoint of the older size.
        new_root: 32 bytes, from a signed checkpoint of the newer size.

    Raises:
        EvidenceError: BAD_PROOF, with what was expected and what came.
    """
    check_integer(new_size, "new tree size", 1)
    check_integer(old_size, "old tree size", 1, new_size)
    check_hash(old_root, "old root")
    check_hash(new_root, "new root")
    if old_size == new_size:
        _check_proof(proof, 0)
        if old_root != new_root:
            raise bad_proof(
                f"two roots for size {new_size}", want=old_root.hex(), got=new_root.hex()
            )
        return

    # Both roots are climbed to from the old tree's last perfect subtree. When that is the whole old
    # tree (its size is a power of two) the proof leaves its hash out: it is the old root.
    level = (old_size & -old_size).bit_length() - 1
    index = (old_size - 1) >> level
    inner, border = _path_shape(index, ((new_size - 1) >> level) + 1)
    hashes = _check_proof(proof, inner + border + (1 if index else 0))
    start = hashes.pop(0) if index else old_root

    # The old tree ends where the start does, so only left siblings belong to it.
    old = start
    for at, sibling in enumerate(hashes):
        if at >= inner or index >> at & 1:
            old = hash_node(sibling, old)
    if old != old_root:
        raise bad_proof(
            f"consistency proof does not lead to the old root of size {old_size}",
            want=old_root.hex(),
            got=old.hex(),
        )
    new = _climb(start, index, hashes, inner)
    if new != new_root:
        raise bad_proof(
            f"consistency proof does not lead to the new root of size {new_size}",
            want=new_root.hex(),
            got=new.hex(),
        )


def _path_shape(index: int, size: int) -> tuple[int, int]:
    """How many siblings a path has below and above where it joins the tree's right edge.

    Below, each bit of the index says on which side the sibling is. From there on the path's node is
    the last of its level: its siblings, one for each bit set, are all to the left.
    """
    inner = (index ^ (size - 1)).bit_length()
    return inner, (index >> inner).bit_count()


def _climb(node: bytes, index: int, siblings: Sequence[bytes], inner: int) -> bytes:
    for at, sibling in enumerate(siblings):
        is_left = at >= inner or index >> at & 1
        node = hash_node(sibling, node) if is_left else hash_node(node, sibling)
    return node


def _check_proof(proof: Sequence[bytes], length: int) -> list[bytes]:
    """The proof as a new list: exactly `length` hashes of 32 bytes."""
    try:
        hashes = list(proof)
    except TypeError:
        raise bad_proof(
            "proof is not a list", want="a list of hashes", got=type(proof).__name__
        ) from None
    if len(hashes) != length:
        raise bad_proof(
            "proof has the wrong length", want=f"{length} hashes", got=f"{len(hashes)} hashes"
        )
    for at, value in enumerate(hashes):
        check_hash(value, f"proof hash {at}")
    return hashes
