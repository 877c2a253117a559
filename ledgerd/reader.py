"""Reads: receipts, proofs, checkpoints, tiles. Never writes, never waits for the writer.

Every proof is computed at one fixed published tree size: the store only grows, so what lies below that
size cannot change while it is read. Methods block on the store; the shells run them in read threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from ledgerd.anchoring.reader import AnchorReader
from ledgerd.store.interface import StoreError
from ledgerd.subtree_cache import SubtreeCache
from receiptledger.core.bundle import Bundle, Consistency, LeafProof, Member
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.merkle import plan_consistency, plan_inclusion
from receiptledger.core.tile import TILE_WIDTH, TileId, encode_entries, tile_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.anchoring.reader import AnchorView
    from ledgerd.store.interface import AnchorRecord, Entry, KeyRecord, LogState, Segment, Stored
    from receiptledger.core.chain import Head
    from receiptledger.core.merkle import Node
    from receiptledger.core.subtrees import Subtrees

__all__ = ["Place", "Reader", "readable"]

_log = structlog.get_logger(__name__)
T = TypeVar("T")


class _ReadStore(Protocol):
    """What the reader asks of the store."""

    def head(self, chain: bytes) -> Head | None: ...
    def entry(self, chain: bytes, position: int) -> Entry | None: ...
    def entries(self, chain: bytes, first: int, last: int) -> Iterator[Entry]: ...
    def locate(self, receipt_hash: bytes) -> tuple[bytes, int] | None: ...
    def receipt(self, chain: bytes, position: int) -> Stored | None: ...
    def keys(self, chain: bytes) -> list[KeyRecord]: ...
    def segment(self, chain: bytes, position: int) -> Segment | None: ...
    def leaves(self, first: int, count: int) -> list[bytes]: ...
    def tile(self, tile: TileId) -> bytes: ...
    def checkpoint(self, size: int) -> bytes | None: ...
    def anchor(self, number: int) -> AnchorRecord | None: ...
    def anchors(self, first: int = 0) -> Iterator[AnchorRecord]: ...
    def anchors_by_size(self, first_size: int) -> Iterator[AnchorRecord]: ...
    def anchors_by_leaf(self, before: int) -> Iterator[AnchorRecord]: ...
    def next_anchor_number(self) -> int: ...
    def blob(self, digest: bytes) -> bytes | None: ...


@dataclass(slots=True)
class Place:
    """One stored receipt and where it is."""

    stored: Stored
    entry: Entry
    leaf_index: int | None  # None while it is under no published checkpoint


class Reader:
    """Answers reads as of the newest published state.

    Args:
        store: durable state; safe from many threads.
        published: the newest published log state, or None before the first.
        max_cache_bytes: bytes of tree hashes kept in memory.
        anchor_quorum: how many timestamp authorities should bound a receipt in time.

    Attributes:
        anchors: reads of timestamps.
    """

    def __init__(
        self,
        store: _ReadStore,
        published: Callable[[], LogState | None],
        *,
        max_cache_bytes: int,
        anchor_quorum: int = 1,
    ) -> None:
        self._store = store
        self._published = published
        self._subtrees = SubtreeCache(max_cache_bytes)
        self.anchors = AnchorReader(
            store, inclusion=self._leaf, extension=self._extension, quorum=anchor_quorum
        )

    @property
    def size(self) -> int:
        """Leaves under the newest published checkpoint.

        Raises:
            ServiceError: UNAVAILABLE before the first.
        """
        return self._newest().size

    def head(self, chain: bytes) -> Head | None:
        """Newest position of a chain, sealed or not."""
        return self._store.head(chain)

    def locate(self, receipt_hash: bytes) -> tuple[bytes, int]:
        """(chain, position) of a receipt by the hash of its bytes.

        Raises:
            ServiceError: NOT_FOUND.
        """
        found = self._store.locate(receipt_hash)
        if found is None:
            raise _missing(f"no receipt with hash sha256:{receipt_hash.hex()}")
        return found

    def place(self, chain: bytes, position: int) -> Place:
        """A receipt by chain and position.

        Raises:
            ServiceError: NOT_FOUND.
        """
        stored, entry = self._store.receipt(chain, position), self._store.entry(chain, position)
        if stored is None or entry is None:
            head = self._store.head(chain)
            if head is None:
                raise _missing("the ledger has no receipt of this chain")
            raise ServiceError(
                Reason.NOT_FOUND,
                "the chain has no such position",
                want=f"0..{head.position}",
                got=str(position),
            )
        return Place(stored, entry, self.leaf_index(chain, position))

    def leaf_index(self, chain: bytes, position: int) -> int | None:
        """Index of the published head leaf that commits a position; None while there is none."""
        segment, state = self._store.segment(chain, position), self._published()
        if segment is None or state is None or segment.leaf_index >= state.size:
            return None
        return segment.leaf_index

    def checkpoint(self, size: int) -> bytes:
        """The signed checkpoint of a size; 0 = the newest.

        Raises:
            ServiceError: NOT_FOUND.
        """
        return self._signed(size)[0]

    def _signed(self, size: int) -> tuple[bytes, int]:
        """A checkpoint and its size, both of one moment: a seal may be published between two looks."""
        state = self._newest()
        if size in (0, state.size):
            return state.note, state.size
        note = self._store.checkpoint(size) if size < state.size else None
        if note is None:
            raise ServiceError(
                Reason.NOT_FOUND,
                "no checkpoint was published at this size",
                want=f"a published size, the newest is {state.size}",
                got=str(size),
            )
        return note, size

    def consistency(self, first: int, second: int) -> tuple[list[bytes], int]:
        """RFC 6962 consistency proof and the newer size it leads to.

        Args:
            first: older size, at least 1.
            second: newer size; 0 = the newest published.

        Raises:
            ServiceError: INVALID_ARGUMENT.
        """
        newest = self._newest().size
        second = second or newest
        if not 0 < first <= second <= newest:
            raise ServiceError(
                Reason.INVALID_ARGUMENT,
                "a consistency proof goes from an older to a newer published tree",
                want=f"0 < first_size <= second_size <= {newest}",
                got=f"{first}, {second}",
            )
        return self._extension(first, second), second

    def anchor(self, number: int, size: int = 0) -> tuple[AnchorView, int]:
        """One timestamp with its evidence, as of a checkpoint, and the size of that.

        Args:
            number: of the anchor.
            size: of the checkpoint; 0 = the newest.

        Raises:
            ServiceError: NOT_FOUND, INVALID_ARGUMENT.
        """
        note, size = self._signed(size)
        return self.anchors.view(number, size, note), size

    def prove(self, chain: bytes, position: int, *, size: int = 0, since: int = 0) -> Bundle:
        """Everything an offline bundle needs.

        Args:
            chain: chain key.
            position: place in the chain.
            size: size of the checkpoint to prove under; 0 = the newest.
            since: size of a checkpoint to prove consistency from; 0 = none.

        Raises:
            ServiceError: NOT_FOUND, NOT_SEALED, INVALID_ARGUMENT.
        """
        place = self.place(chain, position)
        note, size = self._signed(size)
        segment = self._store.segment(chain, position)
        if segment is None or segment.leaf_index >= size:
            raise ServiceError(
                Reason.NOT_SEALED,
                "the receipt is durable, but this checkpoint does not cover it; ask for a newer one "
                "after the next seal",
                got=f"checkpoint of {size} leaves",
            )
        key = self._key_leaf(place, segment)
        tree = self._segment_tree(segment)
        index = position - segment.first
        before = self._store.receipt(chain, position - 1) if index > 0 else None
        consistency = None
        if since:
            consistency = Consistency(since, tuple(self.consistency(since, size)[0]))
        return Bundle(
            position=position,
            receipt=Member(place.stored.raw, tuple(tree.path(index))),
            previous=None if before is None else Member(before.raw, tuple(tree.path(index - 1))),
            head=self._leaf(segment.leaf_index, size),
            key=self._leaf(key, size),
            checkpoint=note,
            consistency=consistency,
            anchors=self.anchors.bounding(segment.leaf_index, size),
        )

    def tile(self, tile: TileId, width: int) -> bytes:
        """The first `width` hashes of a tile of the published tree.

        Raises:
            ServiceError: NOT_FOUND.
        """
        if not 0 < width <= tile_width(tile, self._newest().size):
            raise _missing("the published tree has no such tile")
        return self._store.tile(tile)[: width * 32]

    def entries(self, index: int, width: int) -> bytes:
        """The first `width` leaves of an entry bundle, each with its 16-bit length.

        Raises:
            ServiceError: NOT_FOUND.
        """
        if not 0 < width <= tile_width(TileId(0, index), self._newest().size):
            raise _missing("the published log has no such entries")
        return encode_entries(self._store.leaves(index * TILE_WIDTH, width))

    def _newest(self) -> LogState:
        state = self._published()
        if state is None:
            raise ServiceError(Reason.UNAVAILABLE, "the log is not open yet; retry in a moment")
        return state

    def _key_leaf(self, place: Place, segment: Segment) -> int:
        """Leaf index of the key the receipt was verified under."""
        for record in self._store.keys(segment.chain):
            if record.name == place.entry.key and record.leaf_index is not None:
                return record.leaf_index
        raise ServiceError(Reason.NOT_SEALED, "the key leaf of this chain is not sealed yet")

    def _leaf(self, index: int, size: int) -> LeafProof:
        plan = plan_inclusion(index, size)
        proof = plan.fold([self._node(node) for node in plan.nodes])
        return LeafProof(self._store.leaves(index, 1)[0], index, tuple(proof))

    def _extension(self, first: int, second: int) -> list[bytes]:
        plan = plan_consistency(first, second)
        return plan.fold([self._node(node) for node in plan.nodes])

    def _node(self, node: Node) -> bytes:
        """Hash of a complete subtree of the log, from the tile that holds it."""
        level, below = divmod(node.level, 8)
        first = node.index << below  # among the hashes of the tile level
        tile = TileId(level, first // TILE_WIDTH)
        offset = first % TILE_WIDTH
        tree = self._subtrees.get(tile, offset + (1 << below), lambda: self._store.tile(tile))
        return tree.node(below, offset >> below)

    def _segment_tree(self, segment: Segment) -> Subtrees:
        """All subtrees of a sealed segment; they never change."""
        name = (segment.chain, segment.first, segment.last)
        count = segment.last - segment.first + 1
        return self._subtrees.get(
            name, count, lambda: b"".join(e.leaf_hash for e in self._store.entries(*name))
        )


def _missing(message: str) -> ServiceError:
    return ServiceError(Reason.NOT_FOUND, message)


def readable(work: Callable[[], T]) -> T:
    """Run a read for an outside caller; blocks on the store.

    Raises:
        ServiceError: what `work` raises, and UNAVAILABLE when the store cannot be read.
    """
    try:
        return work()
    except StoreError as error:
        _log.error("read failed", error=str(error))
        raise ServiceError(
            Reason.UNAVAILABLE, "the store cannot be read; the daemon's log says why"
        ) from error
