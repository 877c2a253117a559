"""The log's tree kept as tiles (C2SP tlog-tiles): reading nodes, and growing it at its edge.

Rules:

- A tile holds 256 hashes of one level, eight levels of the tree apart: a hash at tile level l is
  the root over the full tile below it. A tile that is not full is never hashed upward.
- Tiles are kept as one growing row of concatenated hashes for each (level, index). The tile at an
  older tree size is a prefix of the row, so a reader bounds itself by its tree size and needs no
  snapshot. Rows may be longer than needed, never shorter.
- Nodes between the stored levels are hashed again when needed: at most 255 hashes for each tile.

Paths and entry bundles are in `tile_path`; they are part of this module's interface.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.tile_path import (
    MAX_ENTRY_BYTES,
    TILE_WIDTH,
    TileId,
    decode_entries,
    encode_entries,
    entries_path,
    parse_entries_path,
    parse_tile_path,
    tile_path,
    tile_width,
)
from receiptledger.core.treehash import (
    HASH_SIZE,
    bad_proof,
    check_hashes,
    check_integer,
    fold_root,
    hash_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from receiptledger.core.proof_plan import Node

    ReadTile = Callable[[TileId], bytes]  # the whole stored row; b"" when there is none

__all__ = [
    "MAX_ENTRY_BYTES",
    "TILE_WIDTH",
    "Frontier",
    "TileId",
    "decode_entries",
    "encode_entries",
    "entries_path",
    "node_hash",
    "parse_entries_path",
    "parse_tile_path",
    "read_nodes",
    "tile_path",
    "tile_width",
]

ROW_BYTES: Final = TILE_WIDTH * HASH_SIZE  # of a full tile: 8,192


def node_hash(node: Node, read_tile: ReadTile) -> bytes:
    """Hash of a perfect subtree, from the tile that holds it or its nearest stored descendants.

    Args:
        node: a subtree all of whose leaves exist.
        read_tile: gives the stored row of a tile, `b""` when there is none.

    Returns:
        32 bytes.

    Raises:
        EvidenceError: BAD_PROOF, the row is missing, too short or not whole hashes.
    """
    level, below = divmod(node.level, 8)
    first = node.index << below  # among the hashes of the tile level
    offset = first % TILE_WIDTH
    end = offset + (1 << below)
    row = _read_row(read_tile, TileId(level, first // TILE_WIDTH), end)
    return hash_row(row[offset * HASH_SIZE : end * HASH_SIZE])


def read_nodes(nodes: Iterable[Node], read_tile: ReadTile) -> list[bytes]:
    """Hashes of several nodes, in their order, reading each tile once.

    Raises:
        EvidenceError: BAD_PROOF, as :func:`node_hash`.
    """
    rows: dict[TileId, bytes] = {}

    def read_once(tile: TileId) -> bytes:
        row = rows.get(tile)
        if row is None:
            row = rows[tile] = read_tile(tile)
        return row

    return [node_hash(node, read_once) for node in nodes]


@dataclass(frozen=True, slots=True)
class Frontier:
    """The right edge of a tree: all that is needed to append to it and to know its root.

    Immutable: appending gives a new one, so a seal that fails to commit leaves nothing to undo.
    Make one with :meth:`empty` or :meth:`load`.

    Attributes:
        size: number of leaves, 0..2^63-1.
        rows: for each tile level, the hashes of its last tile while that is not full (or `b""`).
        edges: for each bit of the size, from the lowest, the 32-byte root of the perfect subtree it
            stands for, or `b""` where the bit is not set. Every inner node is hashed once.
    """

    size: int
    rows: tuple[bytes, ...]
    edges: tuple[bytes, ...]

    @classmethod
    def empty(cls) -> Frontier:
        """The tree without leaves."""
        return cls(0, (), ())

    @classmethod
    def load(cls, size: int, read_tile: ReadTile) -> Frontier:
        """Rebuild the edge of a tree from its stored tiles.

        Only the last tile of each level is read: compare :meth:`root` with the root that is known.

        Args:
            size: number of leaves, 0..2^63-1.
            read_tile: gives the stored row of a tile, `b""` when there is none; rows may have grown
                past this size.

        Raises:
            EvidenceError: BAD_PROOF, a row is missing, too short or not whole hashes.
        """
        check_integer(size, "tree size", 0)
        rows = []
        edges: list[bytes] = []
        for level in range(_tile_levels(size)):
            tiles, width = divmod(size >> (8 * level), TILE_WIDTH)
            row = b""
            if width:
                row = _read_row(read_tile, TileId(level, tiles), width)[: width * HASH_SIZE]
            rows.append(row)
            edges += _row_edges(row)
        return cls(size, tuple(rows), tuple(edges[: size.bit_length()]))

    def root(self) -> bytes:
        """Root over all leaves, 32 bytes: at most 62 hashes."""
        return fold_root([edge for edge in reversed(self.edges) if edge])

    def append(self, leaf_hashes: Sequence[bytes]) -> tuple[Frontier, dict[TileId, bytes]]:
        """Add leaves at the right, hashing every new inner node once.

        Args:
            leaf_hashes: any number of 32-byte leaf hashes, in order.

        Returns:
            The new edge, and the full new content (1..256 concatenated hashes) of every tile that
            changed, lower levels first, left to right.

        Raises:
            EvidenceError: BAD_PROOF, a hash is not 32 bytes or the tree would pass 2^63-1 leaves.
        """
        check_hashes(leaf_hashes)
        size = check_integer(self.size + len(leaf_hashes), "tree size", 0)
        sha256 = hashlib.sha256
        rows = [*self.rows, *[b""] * (_tile_levels(size) - len(self.rows))]
        edges = [*self.edges, *[b""] * (size.bit_length() - len(self.edges))]
        changed: dict[TileId, bytes] = {}
        nodes = list(leaf_hashes)  # new complete nodes of the level at hand
        level = 0
        while nodes:
            before = self.size >> level  # complete nodes this level had
            if level % 8 == 0:
                at = level // 8
                rows[at] = _extend(TileId(at, before // TILE_WIDTH), rows[at], nodes, changed)
            if before & 1:
                nodes.insert(0, edges[level])  # it had waited for its right sibling
            edges[level] = nodes[-1] if len(nodes) & 1 else b""
            pairs = iter(nodes)
            nodes = [
                sha256(b"\x01" + left + right).digest()
                for left, right in zip(pairs, pairs, strict=False)  # drops the one that waits
            ]
            level += 1
        return Frontier(size, tuple(rows), tuple(edges)), changed


def _tile_levels(size: int) -> int:
    """How many tile levels have hashes in a tree of `size` leaves."""
    return (size.bit_length() + 7) // 8


def _extend(tile: TileId, row: bytes, nodes: list[bytes], changed: dict[TileId, bytes]) -> bytes:
    """Fill tiles from `tile` on, whose row so far is given; the row of the last, `b""` if full."""
    data = row + b"".join(nodes)
    for index, at in enumerate(range(0, len(data), ROW_BYTES), tile.index):
        row = data[at : at + ROW_BYTES]
        changed[TileId(tile.level, index)] = row
    return row if len(row) < ROW_BYTES else b""


def _row_edges(row: bytes) -> list[bytes]:
    """Roots of the perfect subtrees of a row of 0..255 hashes, for each bit from the lowest."""
    width = len(row) // HASH_SIZE
    edges = []
    for bit in range(8):
        end = (width >> bit) << bit  # the subtree of a set bit ends where the higher ones and it do
        begin = end - (1 << bit)
        is_set = width >> bit & 1
        edges.append(hash_row(row[begin * HASH_SIZE : end * HASH_SIZE]) if is_set else b"")
    return edges


def _read_row(read_tile: ReadTile, tile: TileId, width: int) -> bytes:
    """A stored row that has at least `width` hashes."""
    row = read_tile(tile)
    if len(row) % HASH_SIZE or not width * HASH_SIZE <= len(row) <= ROW_BYTES:
        raise bad_proof(
            f"row of {tile_path(tile)} is missing, short or torn",
            want=f"{width}..{TILE_WIDTH} hashes of 32 bytes",
            got=f"{len(row)} bytes",
        )
    return row
