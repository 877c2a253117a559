"""Tree, proofs and their verification, against the RFC's own recursion and foreign vectors."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import merkle
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.merkle import Node
from tests.helpers import rfc6962

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ENTRIES = tuple(n.to_bytes(2, "big") for n in range(300))
LEAVES = [merkle.hash_leaf(entry) for entry in ENTRIES]
ROOTS = [rfc6962.mth(ENTRIES[:size]) for size in range(len(ENTRIES) + 1)]

# The one foreign vector we refuse although it wants success: its "roots" are 12 bytes long. A root
# that is not 32 bytes never reaches a comparison here.
TWELVE_BYTE_ROOTS = "sizes-are-equal-one-and-proof-is-empty.json"


# Oracle's hash of every perfect subtree.
NODES = {
    Node(level, index): rfc6962.mth(ENTRIES[index << level : (index + 1) << level])
    for level in range(9)
    for index in range(len(ENTRIES) >> level)
}


def refused(check: Callable[..., object], *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        check(*arguments)
    assert caught.value.reason is Reason.BAD_PROOF
    return caught.value


# Hashes and roots


def test_published_hashes_of_the_empty_tree_and_the_empty_entry() -> None:
    assert merkle.EMPTY_ROOT.hex() == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    assert merkle.hash_leaf(b"").hex() == (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    )


def test_node_prefix_differs_from_leaf_prefix() -> None:
    left, right = LEAVES[0], LEAVES[1]
    assert merkle.hash_node(left, right) == hashlib.sha256(b"\x01" + left + right).digest()
    assert merkle.hash_node(left, right) != merkle.hash_leaf(left + right)


def test_root_is_the_merkle_tree_hash_at_every_size() -> None:
    for size, root in enumerate(ROOTS):
        assert merkle.root_hash(LEAVES[:size]) == root
        assert merkle.fold_root([NODES[edge] for edge in merkle.edge_nodes(size)]) == root


def test_hashes_of_other_lengths_that_join_to_the_same_bytes_are_refused() -> None:
    shifted = [LEAVES[0][:31], LEAVES[0][31:] + LEAVES[1]]
    error = refused(merkle.root_hash, shifted)
    assert (error.want, error.got) == ("32 bytes", "31 bytes")
    refused(merkle.inclusion_path, shifted, 0)


# Inclusion


def test_inclusion_of_every_leaf_at_every_size() -> None:
    for size in range(1, 301):
        entries, leaves, root = ENTRIES[:size], LEAVES[:size], ROOTS[size]
        for index in range(size):
            want = rfc6962.path(index, entries)
            plan = merkle.plan_inclusion(index, size)
            assert plan.fold([NODES[wanted] for wanted in plan.nodes]) == want
            merkle.verify_inclusion(leaves[index], index, size, want, root)
            # Making a path hashes the whole tree: at larger sizes the ends and a stride will do.
            if size <= 66 or index % 64 == 0 or size - index < 3:
                assert merkle.inclusion_path(leaves, index) == want


def test_root_from_inclusion_is_the_root() -> None:
    for index in range(11):
        proof = rfc6962.path(index, ENTRIES[:11])
        assert merkle.root_from_inclusion(LEAVES[index], index, 11, proof) == ROOTS[11]


def test_inclusion_in_the_largest_tree_needs_63_hashes() -> None:
    proof = [merkle.EMPTY_ROOT] * 63
    root = merkle.root_from_inclusion(LEAVES[0], 0, merkle.MAX_SIZE, proof)
    merkle.verify_inclusion(LEAVES[0], 0, merkle.MAX_SIZE, proof, root)
    refused(merkle.root_from_inclusion, LEAVES[0], 0, merkle.MAX_SIZE + 1, proof)
    refused(merkle.root_from_inclusion, LEAVES[0], 0, merkle.MAX_SIZE, proof[1:])
    assert len(merkle.plan_inclusion(0, merkle.MAX_SIZE).groups) == 63


@pytest.mark.parametrize(
    ("index", "size"),
    [(0, 0), (1, 1), (-1, 1), (2**64 - 1, 8), (8, 8), (0, 2**63), (0, -1), (True, 2), (0, 1.0)],
)
def test_inclusion_refuses_places_that_are_not_in_the_tree(index: Any, size: Any) -> None:
    proof = rfc6962.path(0, ENTRIES[:8])
    refused(merkle.verify_inclusion, LEAVES[0], index, size, proof, ROOTS[8])
    refused(merkle.plan_inclusion, index, size)


def test_path_refuses_places_that_are_not_in_the_tree() -> None:
    refused(merkle.inclusion_path, [], 0)
    refused(merkle.inclusion_path, LEAVES[:3], 3)
    refused(merkle.inclusion_path, LEAVES[:3], -1)


@pytest.mark.parametrize("wrong", [b"", b"\0" * 31, b"\0" * 33, "0" * 32, None, bytearray(32), 0])
def test_inclusion_refuses_anything_but_32_bytes(wrong: Any) -> None:
    proof = rfc6962.path(5, ENTRIES[:8])
    errors = [
        refused(merkle.verify_inclusion, wrong, 5, 8, proof, ROOTS[8]),
        refused(merkle.verify_inclusion, LEAVES[5], 5, 8, proof, wrong),
    ]
    for at in range(3):
        damaged: list[Any] = [*proof]
        damaged[at] = wrong
        errors.append(refused(merkle.verify_inclusion, LEAVES[5], 5, 8, damaged, ROOTS[8]))
    # Refused for its shape, before anything is hashed, not for a root that comes out wrong.
    want = "32 bytes" if type(wrong) is bytes else "bytes"
    assert {error.want for error in errors} == {want}


@pytest.mark.parametrize("wrong", [None, 3, b"\0" * 96, "abc", {}, [[], [], []]])
def test_a_proof_is_a_list_of_hashes(wrong: Any) -> None:
    refused(merkle.verify_inclusion, LEAVES[5], 5, 8, wrong, ROOTS[8])
    refused(merkle.verify_consistency, 4, 8, wrong, ROOTS[4], ROOTS[8])
    refused(merkle.verify_consistency, 6, 8, wrong, ROOTS[6], ROOTS[8])


def test_a_wrong_root_names_both() -> None:
    proof = rfc6962.path(5, ENTRIES[:8])
    error = refused(merkle.verify_inclusion, LEAVES[5], 5, 8, proof, ROOTS[7])
    assert (error.want, error.got) == (ROOTS[7].hex(), ROOTS[8].hex())


# Consistency


def consistency_sizes() -> Iterator[tuple[int, int]]:
    """Every pair up to 130, and a sample of old sizes for every larger tree."""
    for new in range(1, 301):
        sample = {1, 2, 3, 64, 127, 128, 129, 192, 255, 256, 257, new // 2, new - 1, new}
        olds = range(1, new + 1) if new <= 130 else sorted(old for old in sample if old <= new)
        yield from ((old, new) for old in olds)


def test_consistency_between_sizes() -> None:
    for old, new in consistency_sizes():
        want = rfc6962.proof(old, ENTRIES[:new])
        plan = merkle.plan_consistency(old, new)
        assert plan.fold([NODES[wanted] for wanted in plan.nodes]) == want
        merkle.verify_consistency(old, new, want, ROOTS[old], ROOTS[new])


def test_accumulated_hash_over_every_consistency_proof_to_130() -> None:
    # Regression value for plain RFC 6962 proofs over the entries 00..81 (hex), 1 <= m <= n <= 130.
    entries = tuple(bytes([n]) for n in range(130))
    digest = hashlib.sha256()
    for new in range(1, 131):
        for old in range(1, new + 1):
            plan = merkle.plan_consistency(old, new)
            hashes = [rfc6962.mth(entries[i << lv : (i + 1) << lv]) for lv, i in plan.nodes]
            line = " ".join([str(old), str(new), *(h.hex() for h in plan.fold(hashes))])
            digest.update(line.encode() + b"\n")
    assert digest.hexdigest() == "2498232e1aebe8d1aa8d339d897fc471f4495fe0b8a55ac08f7dae3d88bc4c2a"


@pytest.mark.parametrize(
    ("old", "new"),
    [(0, 0), (0, 8), (-1, 8), (9, 8), (1, 2**63), (2**64 - 1, 8), (True, 8), (4, 8.0), (1, 0)],
)
def test_consistency_refuses_sizes_that_prove_nothing(old: Any, new: Any) -> None:
    proof = rfc6962.proof(4, ENTRIES[:8])
    for hashes in ([], proof):
        refused(merkle.verify_consistency, old, new, hashes, merkle.EMPTY_ROOT, ROOTS[8])
        refused(merkle.verify_consistency, old, new, hashes, ROOTS[8], ROOTS[8])
    refused(merkle.plan_consistency, old, new)


def test_equal_sizes_need_equal_roots_and_no_proof() -> None:
    merkle.verify_consistency(5, 5, [], ROOTS[5], ROOTS[5])
    error = refused(merkle.verify_consistency, 5, 5, [], ROOTS[5], ROOTS[6])
    assert (error.want, error.got) == (ROOTS[5].hex(), ROOTS[6].hex())
    refused(merkle.verify_consistency, 5, 5, [ROOTS[5]], ROOTS[5], ROOTS[5])


@pytest.mark.parametrize("old", [4, 5, 6, 7])
def test_each_root_is_checked_by_itself(old: int) -> None:
    proof = rfc6962.proof(old, ENTRIES[:8])
    error = refused(merkle.verify_consistency, old, 8, proof, ROOTS[3], ROOTS[8])
    # Of a power of two the old root is where the climb starts: a wrong one spoils the new root.
    assert error.want == (ROOTS[8] if old == 4 else ROOTS[3]).hex()
    error = refused(merkle.verify_consistency, old, 8, proof, ROOTS[old], ROOTS[9])
    assert (error.want, error.got) == (ROOTS[9].hex(), ROOTS[8].hex())
    for wrong in (b"\0" * 12, None):
        refused(merkle.verify_consistency, old, 8, proof, wrong, ROOTS[8])
        refused(merkle.verify_consistency, old, 8, proof, ROOTS[old], wrong)


def test_a_fork_cannot_be_proven() -> None:
    other = (b"other", *ENTRIES[1:])
    forked = rfc6962.mth(other[:8])
    for old in range(1, 9):
        for proof in (rfc6962.proof(old, other[:8]), rfc6962.proof(old, ENTRIES[:8])):
            refused(merkle.verify_consistency, old, 8, proof, ROOTS[old], forked)


def test_a_consistency_proof_serves_one_pair_of_sizes() -> None:
    sizes = [(old, new) for new in range(2, 12) for old in range(1, new)]
    for old, new in sizes:
        proof = rfc6962.proof(old, ENTRIES[:new])
        for pair in sizes:
            if pair != (old, new):
                refused(merkle.verify_consistency, *pair, proof, ROOTS[pair[0]], ROOTS[pair[1]])


# Every proof, changed


def variations(hashes: list[bytes]) -> list[list[bytes]]:
    """Every single-bit change, every dropped, doubled, swapped and added hash."""
    changed = []
    for at, value in enumerate(hashes):
        for bit in range(256):
            flipped = int.from_bytes(value, "big") ^ 1 << bit
            changed.append([*hashes[:at], flipped.to_bytes(32, "big"), *hashes[at + 1 :]])
        changed.append([*hashes[:at], *hashes[at + 1 :]])
        changed.append([*hashes[: at + 1], *hashes[at:]])
        if at:
            swapped = [*hashes]
            swapped[at - 1 : at + 1] = hashes[at], hashes[at - 1]
            changed.append(swapped)
    changed.extend(([merkle.EMPTY_ROOT, *hashes], [*hashes, merkle.EMPTY_ROOT]))
    return changed


@pytest.mark.parametrize(("index", "size"), [(0, 1), (0, 2), (4, 5), (5, 7), (6, 7), (7, 8)])
def test_every_change_of_an_inclusion_proof_is_refused(index: int, size: int) -> None:
    proof, root = rfc6962.path(index, ENTRIES[:size]), ROOTS[size]
    for changed in variations(proof):
        refused(merkle.verify_inclusion, LEAVES[index], index, size, changed, root)
    for (leaf,) in variations([LEAVES[index]])[:256]:
        refused(merkle.verify_inclusion, leaf, index, size, proof, root)
    for other in range(10):
        if other != index:
            refused(merkle.verify_inclusion, LEAVES[index], other, size, proof, root)
        if other != size:
            refused(merkle.verify_inclusion, LEAVES[index], index, other, proof, ROOTS[other])


@pytest.mark.parametrize(("old", "new"), [(1, 2), (3, 4), (4, 7), (5, 8), (6, 7), (7, 8), (8, 9)])
def test_every_change_of_a_consistency_proof_is_refused(old: int, new: int) -> None:
    proof = rfc6962.proof(old, ENTRIES[:new])
    for changed in variations(proof):
        refused(merkle.verify_consistency, old, new, changed, ROOTS[old], ROOTS[new])
    for (root,) in variations([ROOTS[old]])[:256]:
        refused(merkle.verify_consistency, old, new, proof, root, ROOTS[new])
    for (root,) in variations([ROOTS[new]])[:256]:
        refused(merkle.verify_consistency, old, new, proof, ROOTS[old], root)


# Plans


def test_edge_and_range_nodes() -> None:
    assert merkle.edge_nodes(0) == ()
    assert merkle.edge_nodes(1) == (Node(0, 0),)
    assert merkle.edge_nodes(11) == (Node(3, 0), Node(1, 4), Node(0, 10))
    assert merkle.range_nodes(3, 3) == ()
    assert merkle.range_nodes(1, 8) == (Node(0, 1), Node(1, 1), Node(2, 1))
    assert merkle.range_nodes(4, 7) == (Node(1, 2), Node(0, 6))
    assert len(merkle.edge_nodes(merkle.MAX_SIZE)) == 63


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (3, 2), (0, 2**63), (False, 1), (0, "1")])
def test_range_nodes_refuse_what_is_no_range(begin: Any, end: Any) -> None:
    refused(merkle.range_nodes, begin, end)


def test_a_plan_takes_as_many_hashes_as_it_names() -> None:
    plan = merkle.plan_inclusion(0, 7)
    assert plan.nodes == (Node(0, 1), Node(1, 1), Node(1, 2), Node(0, 6))
    assert plan.groups == (1, 1, 2)
    refused(plan.fold, LEAVES[:3])
    refused(plan.fold, LEAVES[:5])
    assert merkle.plan_consistency(7, 7).fold([]) == []


# Foreign vectors


def hashes_of(case: dict[str, Any], *names: str) -> list[bytes]:
    return [base64.b64decode(case[name] or "") for name in names]


def test_foreign_inclusion_vectors(vectors: Path) -> None:
    files = sorted((vectors / "merkle" / "inclusion").rglob("*.json"))
    assert len(files) == 98
    accepted = 0
    for file in files:
        case = json.loads(file.read_bytes())
        leaf, root = hashes_of(case, "leafHash", "root")
        proof = [base64.b64decode(item) for item in case["proof"] or []]
        arguments = (leaf, case["leafIdx"], case["treeSize"], proof, root)
        if case["wantErr"]:
            refused(merkle.verify_inclusion, *arguments)
        else:
            merkle.verify_inclusion(*arguments)
            accepted += 1
    assert accepted == 6


def test_foreign_consistency_vectors(vectors: Path) -> None:
    files = sorted((vectors / "merkle" / "consistency").rglob("*.json"))
    assert len(files) == 98
    accepted, knowingly_refused = 0, []
    for file in files:
        case = json.loads(file.read_bytes())
        old_root, new_root = hashes_of(case, "root1", "root2")
        proof = [base64.b64decode(item) for item in case["proof"] or []]
        arguments = (case["size1"], case["size2"], proof, old_root, new_root)
        if case["wantErr"]:
            refused(merkle.verify_consistency, *arguments)
        elif file.name == TWELVE_BYTE_ROOTS:
            assert refused(merkle.verify_consistency, *arguments).got == "12 bytes"
            knowingly_refused.append(file.name)
        else:
            merkle.verify_consistency(*arguments)
            accepted += 1
    assert (accepted, knowingly_refused) == (5, [TWELVE_BYTE_ROOTS])


def test_foreign_accumulated_hashes_over_subtrees(vectors: Path) -> None:
    """Roots and inclusion proofs of every valid subtree of 130 leaves, in one published hash each.

    The published hash over subtree *consistency* proofs is left out: our consistency proofs start
    at leaf 0 (see the accumulated hash above).
    """
    file = vectors / "tlog" / "spec-examples.derived.json"
    published = json.loads(file.read_bytes())["mtc_accumulated"]
    leaves = [merkle.hash_leaf(bytes([n])) for n in range(130)]
    roots, proofs = hashlib.sha256(), hashlib.sha256()
    for end in range(131):
        for start in range(end + 1):
            width = end - start
            # A subtree may start at a multiple of the power of two that covers it.
            if width and start % (1 << (width - 1).bit_length()):
                continue
            subtree = leaves[start:end]
            roots.update(f"[{start}, {end}) {merkle.root_hash(subtree).hex()}\n".encode())
            for index in range(start, end):
                path = [h.hex() for h in merkle.inclusion_path(subtree, index - start)]
                proofs.update(" ".join([f"{index} [{start}, {end})", *path]).encode() + b"\n")
    assert roots.hexdigest() == published["subtree_hash"]["sha256"]
    assert proofs.hexdigest() == published["subtree_inclusion"]["sha256"]
