"""Which stored hashes a proof needs, worked out before anything is read.

Every proof hash of RFC 6962 is the hash of a run of leaves. A run that ends inside the tree is one
perfect subtree, a :class:`Node`; the one that ends at the tree's ragged right edge is several,
folded together. A :class:`ProofPlan` names the nodes; the caller reads their hashes wherever they
are kept (`receiptledger.core.tile.read_nodes`), and :meth:`ProofPlan.fold` makes the proof of them.

A node is complete and never changes once its leaves exist, so a plan for a tree size reads the same
hashes however far the log has grown since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from receiptledger.core.treehash import bad_proof, check_integer, fold_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Node", "ProofPlan", "edge_nodes", "plan_consistency", "plan_inclusion", "range_nodes"]


class Node(NamedTuple):
    """A perfect subtree: the leaves index * 2**level up to (index + 1) * 2**level, not included."""

    level: int
    index: int  # type: ignore[assignment]  # hides tuple.index(), which nobody needs here


class ProofPlan(NamedTuple):
    """The nodes whose hashes a proof is made of.

    Attributes:
        nodes: every node to read, in the order :meth:`fold` wants their hashes.
        groups: how many of the nodes, in turn, fold into each proof hash.
    """

    nodes: tuple[Node, ...]
    groups: tuple[int, ...]

    def fold(self, hashes: Sequence[bytes]) -> list[bytes]:
        """Make the proof of the hashes of `nodes`, given in the same order, 32 bytes each.

        Raises:
            EvidenceError: BAD_PROOF, there are more or fewer hashes than nodes.
        """
        if len(hashes) != len(self.nodes):
            raise bad_proof("hashes do not match the plan", want=len(self.nodes), got=len(hashes))
        proof = []
        at = 0
        for count in self.groups:
            proof.append(fold_root(hashes[at : at + count]))
            at += count
        return proof


def range_nodes(begin: int, end: int) -> tuple[Node, ...]:
    """The fewest perfect subtrees that cover the leaves begin..end-1, left to right.

    Raises:
        EvidenceError: BAD_PROOF, not 0 <= begin <= end <= 2^63-1.
    """
    check_integer(end, "end of range", 0)
    check_integer(begin, "begin of range", 0, end)
    nodes = []
    while begin < end:
        level = (end - begin).bit_length() - 1  # the largest that fits ...
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)  # ... and may start here
        nodes.append(Node(level, begin >> level))
        begin += 1 << level
    return tuple(nodes)


def edge_nodes(size: int) -> tuple[Node, ...]:
    """The perfect subtrees of a tree, left to right, one for each bit set in its size.

    Raises:
        EvidenceError: BAD_PROOF, the size is not in 0..2^63-1.
    """
    return range_nodes(0, size)


def plan_inclusion(index: int, size: int) -> ProofPlan:
    """Plan the inclusion proof of a leaf: PATH of RFC 6962 section 2.1.1.

    Raises:
        EvidenceError: BAD_PROOF, not 0 <= index < size <= 2^63-1.
    """
    check_integer(size, "tree size", 1)
    check_integer(index, "leaf index", 0, size - 1)
    return _plan(_siblings(0, index, size))


def plan_consistency(old_size: int, new_size: int) -> ProofPlan:
    """Plan the consistency proof between two sizes: PROOF of RFC 6962 section 2.1.2.

    Raises:
        EvidenceError: BAD_PROOF, not 0 < old_size <= new_size <= 2^63-1. From the empty tree there
            is no proof: nothing would be proven.
    """
    check_integer(new_size, "new tree size", 1)
    check_integer(old_size, "old tree size", 1, new_size)
    if old_size == new_size:
        return ProofPlan((), ())
    # The proof starts at the old tree's last perfect subtree: its level is the number of trailing
    # zeros of the old size. If that subtree is the whole old tree, the verifier has its hash.
    level = (old_size & -old_size).bit_length() - 1
    index = (old_size - 1) >> level
    first = [(Node(level, index),)] if index else []
    return _plan([*first, *_siblings(level, index, new_size)])


def _siblings(level: int, index: int, size: int) -> Iterator[tuple[Node, ...]]:
    """The nodes of each sibling on the way from a complete node to the root of a tree."""
    last = (size - 1) >> level  # index of the last node at this level, perfect or ragged
    while last:
        sibling = index ^ 1
        if sibling < last:
            yield (Node(level, sibling),)
        elif sibling == last:
            yield range_nodes(sibling << level, size)
        # else: no sibling, the node is the lone last one and moves up unhashed
        level += 1
        index >>= 1
        last >>= 1


def _plan(groups: Sequence[tuple[Node, ...]] | Iterator[tuple[Node, ...]]) -> ProofPlan:
    groups = list(groups)
    nodes = tuple(node for group in groups for node in group)
    return ProofPlan(nodes, tuple(map(len, groups)))
