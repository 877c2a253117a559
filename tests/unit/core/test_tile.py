"""A tree grown and read through tiles, against the RFC's recursion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import merkle, tile
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.merkle import Node
from receiptledger.core.tile import Frontier, TileId
from tests.helpers import rfc6962

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LARGE = 65_536 + 300
ENTRIES = tuple(n.to_bytes(3, "big") for n in range(LARGE))
LEAVES = [merkle.hash_leaf(entry) for entry in ENTRIES]


class Rows(dict[TileId, bytes]):
    """Stored rows, as the daemon keeps them: growing, never shrinking."""

    reads = 0

    def read(self, wanted: TileId) -> bytes:
        self.reads += 1
        return self.get(wanted, b"")

    def store(self, changed: dict[TileId, bytes]) -> None:
        for changed_tile, row in changed.items():
            old = self.get(changed_tile, b"")
            assert row.startswith(old)
            assert len(old) < len(row) <= 8192
            assert len(row) % 32 == 0
        self.update(changed)


def grow(batches: Sequence[int]) -> tuple[Frontier, Rows]:
    frontier, rows = Frontier.empty(), Rows()
    for batch in batches:
        frontier, changed = frontier.append(LEAVES[frontier.size : frontier.size + batch])
        rows.store(changed)
    return frontier, rows


def tiles_of(size: int) -> dict[TileId, bytes]:
    """Every tile of a tree, straight from the rule: level l holds MTHs over 256**l entries."""
    tiles: dict[TileId, bytes] = {}
    level, width = 0, 1
    while size // width:
        for at in range(size // width):
            where = TileId(level, at // 256)
            hash_ = rfc6962.mth(ENTRIES[at * width : (at + 1) * width])
            tiles[where] = tiles.get(where, b"") + hash_
        level, width = level + 1, width * 256
    return tiles


def unproven(call: Any, *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        call(*arguments)
    assert caught.value.reason is Reason.BAD_PROOF
    return caught.value


# Growing a tree


def test_every_size_to_600_in_one_go_and_one_by_one() -> None:
    small, rows = Frontier.empty(), Rows()
    everything = grow([900])[1]
    for size in range(601):
        root = rfc6962.mth(ENTRIES[:size])
        at_once, _ = Frontier.empty().append(LEAVES[:size])
        assert small == at_once
        assert small.root() == root
        # From rows that end here, and from rows that have grown past it.
        assert Frontier.load(size, rows.read) == small
        assert Frontier.load(size, everything.read) == small
        small, changed = small.append(LEAVES[size : size + 1])
        rows.store(changed)


@pytest.mark.parametrize(
    "batches",
    [
        [600],
        [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 225],
        [255, 1, 1, 255, 88],
        [256, 256, 88],
        [257, 343],
        [0, 511, 0, 2, 87],
    ],
)
def test_uneven_batches_give_one_tree(batches: list[int]) -> None:
    frontier, rows = grow(batches)
    assert sum(batches) == 600
    assert frontier == Frontier.empty().append(LEAVES[:600])[0]
    assert rows == tiles_of(600)


def test_an_append_reports_whole_new_content_of_exactly_the_tiles_that_change() -> None:
    frontier, _ = grow([250])
    frontier, changed = frontier.append(LEAVES[250:270])
    assert list(changed) == [TileId(0, 0), TileId(0, 1), TileId(1, 0)]
    assert changed == {
        TileId(0, 0): b"".join(LEAVES[:256]),
        TileId(0, 1): b"".join(LEAVES[256:270]),
        TileId(1, 0): rfc6962.mth(ENTRIES[:256]),
    }
    frontier, changed = frontier.append(LEAVES[270:271])
    assert changed == {TileId(0, 1): b"".join(LEAVES[256:271])}
    same, changed = frontier.append([])
    assert same == frontier
    assert changed == {}


def test_appending_leaves_the_old_frontier_as_it_was() -> None:
    frontier, _ = grow([300])
    root = frontier.root()
    first, _ = frontier.append(LEAVES[300:600])
    second, _ = frontier.append(LEAVES[300:600])
    assert first == second
    assert (frontier.size, frontier.root()) == (300, root)
    with pytest.raises(AttributeError):
        frontier.size = 5  # type: ignore[misc]


def test_a_tree_of_three_tile_levels() -> None:
    frontier, rows = grow([1, 65_534, 1, 200, 100])
    assert frontier.size == LARGE
    assert frontier.root() == rfc6962.mth(ENTRIES) == merkle.root_hash(LEAVES)
    assert rows == tiles_of(LARGE)
    assert Frontier.load(LARGE, rows.read) == frontier
    assert Frontier.load(65_536, rows.read).root() == rfc6962.mth(ENTRIES[:65_536])
    for index in (0, 255, 256, 65_535, 65_536, LARGE - 1):
        for size in (65_535, 65_536, 65_537, LARGE):
            if index < size:
                plan = merkle.plan_inclusion(index, size)
                proof = plan.fold(tile.read_nodes(plan.nodes, rows.read))
                assert proof == rfc6962.path(index, ENTRIES[:size])
                root = rfc6962.mth(ENTRIES[:size])
                merkle.verify_inclusion(LEAVES[index], index, size, proof, root)
    for old in (1, 255, 256, 300, 65_535, 65_536, 65_700):
        plan = merkle.plan_consistency(old, LARGE)
        proof = plan.fold(tile.read_nodes(plan.nodes, rows.read))
        assert proof == rfc6962.proof(old, ENTRIES)


def test_the_tree_stops_at_its_largest_size() -> None:
    size = merkle.MAX_SIZE - 2
    full = Rows({TileId(lv, size >> 8 * (lv + 1)): b"\1" * 8192 for lv in range(8)})
    frontier = Frontier.load(size, full.read)
    assert len(frontier.edges) == 63
    frontier, changed = frontier.append(LEAVES[:2])
    assert frontier.size == merkle.MAX_SIZE
    assert len(changed[TileId(0, size >> 8)]) == 255 * 32
    assert frontier.root() == merkle.fold_root([*reversed(frontier.edges)])
    unproven(frontier.append, LEAVES[:1])


@pytest.mark.parametrize("wrong", [b"", b"\0" * 31, b"\0" * 33, b"\0" * 64])
def test_append_refuses_anything_but_32_byte_hashes(wrong: bytes) -> None:
    frontier, _ = grow([3])
    unproven(frontier.append, [LEAVES[3], wrong])


# Reading a tree


def test_proofs_from_tiles_at_every_size_to_600() -> None:
    _, rows = grow([900])  # rows that have grown past every size asked for
    for size in range(1, 601):
        entries = ENTRIES[:size]
        for index in {0, size // 3, size // 2, size - 1, min(255, size - 1)}:
            plan = merkle.plan_inclusion(index, size)
            assert plan.fold(tile.read_nodes(plan.nodes, rows.read)) == rfc6962.path(index, entries)
        for old in {1, (size + 1) // 2, min(256, size), max(1, size - 1), size}:
            plan = merkle.plan_consistency(old, size)
            assert plan.fold(tile.read_nodes(plan.nodes, rows.read)) == rfc6962.proof(old, entries)


def test_every_node_of_a_tree() -> None:
    _, rows = grow([600])
    for level in range(10):
        for index in range(600 >> level):
            want = rfc6962.mth(ENTRIES[index << level : (index + 1) << level])
            assert tile.node_hash(Node(level, index), rows.read) == want


def test_each_tile_is_read_once() -> None:
    _, rows = grow([LARGE])
    plan = merkle.plan_inclusion(70, LARGE)
    tile.read_nodes(plan.nodes, rows.read)
    # The leaf's tile, the one above it, and right of 65,536 a full tile's hash and 44 leaves.
    assert rows.reads == len({TileId(0, 0), TileId(1, 0), TileId(1, 1), TileId(0, 257)})


@pytest.mark.parametrize("row", [b"", b"\0" * 32 * 43, b"\0" * (32 * 44 + 1), b"\0" * 32 * 257])
def test_rows_that_are_missing_short_or_torn_are_refused(row: bytes) -> None:
    _, rows = grow([300])
    assert Frontier.load(300, rows.read).size == 300
    rows[TileId(0, 1)] = row
    error = unproven(Frontier.load, 300, rows.read)
    assert error.want == "44..256 hashes of 32 bytes"
    assert error.got == f"{len(row)} bytes"
    unproven(tile.node_hash, Node(2, 64 + 10), rows.read)
    assert tile.node_hash(Node(8, 0), rows.read) == rfc6962.mth(ENTRIES[:256])


def test_load_reads_no_full_tile() -> None:
    _, rows = grow([512])
    assert Frontier.load(512, Rows({TileId(1, 0): rows[TileId(1, 0)]}).read).size == 512
    unproven(Frontier.load, 512, Rows().read)


@pytest.mark.parametrize("size", [-1, 2**63, True, "3", None])
def test_load_refuses_sizes_that_no_tree_has(size: Any) -> None:
    unproven(Frontier.load, size, Rows().read)


# Geometry


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 600, 65_535, 65_536, LARGE])
def test_tile_width_is_what_an_append_stored(size: int) -> None:
    _, rows = grow([size])
    widths = {where: len(row) // 32 for where, row in rows.items()}
    for level in range(4):
        for index in range(3 + (size >> 8 * (level + 1))):
            where = TileId(level, index)
            assert tile.tile_width(where, size) == widths.get(where, 0)


def test_foreign_tile_geometry(vectors: Path) -> None:
    file = vectors / "tlog" / "spec-examples.derived.json"
    cases = json.loads(file.read_bytes())["tile_geometry"]
    assert len(cases) == 2
    for case in cases:
        for level in range(3):
            full = case.get(f"full_l{level}", 0)
            partial = case.get(f"partial_l{level}", 0)
            for index in range(full):
                assert tile.tile_width(TileId(level, index), case["size"]) == 256
            assert tile.tile_width(TileId(level, full), case["size"]) == partial
            assert tile.tile_width(TileId(level, full + 1), case["size"]) == 0
