"""The sequencer: turns what is unsealed into leaves under a new signed checkpoint.

One step, in this order; each line is what a crash right after it leaves behind:

1. plan      nothing changed.
2. sign      nothing changed; the note has not left this process.
3. commit    THE COMMIT POINT: leaves, tiles, segments, checkpoint, leaf indexes of keys and anchors,
             and cleared marks are durable together. A restart finds the new size, advances the
             guard and publishes.
4. guard     the last signed checkpoint is remembered outside the database.
5. publish   readers see it; waiting SEALED acks are answered.

Start-up (`recover`) uses the same guard and publish code as a step. Only the writer thread calls in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ledgerd.guard import check_guard, refuse_lost_log
from ledgerd.seal import SealPlan, Unsealed, UnsealedChain, is_anchor_leaf, plan_seal
from ledgerd.store.interface import (
    AnchorRecord,
    Changes,
    Entry,
    Head,
    KeyRecord,
    LogState,
    Mark,
    Sealed,
    Segment,
    StoreError,
)
from receiptledger.core.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from receiptledger.core.errors import LedgerError
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.tile import TILE_WIDTH, Frontier, TileId, tile_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.guard import Guard
    from receiptledger.core.note import NoteSigner

__all__ = ["RecoveryError", "Sequencer"]


class RecoveryError(Exception):
    """The stored log contradicts itself or its key; nothing was signed."""


class _LogStore(Protocol):
    """What the sequencer asks of the store."""

    def commit(self, changes: Changes) -> None: ...
    def log_state(self) -> LogState | None: ...
    def tile(self, tile: TileId) -> bytes: ...
    def leaves(self, first: int, count: int) -> list[bytes]: ...
    def marks(self) -> Iterator[Mark]: ...
    def head(self, chain: bytes) -> Head | None: ...
    def keys(self, chain: bytes) -> list[KeyRecord]: ...
    def entry(self, chain: bytes, position: int) -> Entry | None: ...
    def entries(self, chain: bytes, first: int, last: int) -> Iterator[Entry]: ...
    def last_segment(self, chain: bytes) -> Segment | None: ...
    def next_number(self) -> int: ...
    def anchor(self, number: int) -> AnchorRecord | None: ...
    def unsealed_anchors(self) -> list[AnchorRecord]: ...


class Sequencer:
    """Owns the tree's right edge and what is unsealed.

    Args:
        store: durable state.
        signer: the log's key; its name is the origin.
        guard: last signed checkpoint, outside the store.
        publish: called with each state once it may be seen.
    """

    def __init__(
        self,
        store: _LogStore,
        signer: NoteSigner,
        guard: Guard,
        publish: Callable[[LogState], None],
    ) -> None:
        self._store = store
        self._signer = signer
        self._guard = guard
        self._publish = publish
        self._frontier = Frontier.empty()
        self._unsealed = Unsealed()
        self._content_size = 0

    @property
    def tree_size(self) -> int:
        """Leaves under the last committed checkpoint."""
        return self._frontier.size

    @property
    def content_size(self) -> int:
        """Committed tree size after the last leaf that is no anchor leaf. Safe from any thread.

        A checkpoint of at least this size covers all that there is to anchor: anchor leaves alone
        need no new timestamp, or each timestamp would call for the next one.
        """
        return self._content_size

    @property
    def unsealed_receipts(self) -> int:
        """Receipts the next seal will cover."""
        return self._unsealed.receipts

    @property
    def unsealed_anchors(self) -> int:
        """Anchors the next seal will give a leaf."""
        return len(self._unsealed.anchors)

    @property
    def unsealed_chains(self) -> int:
        """Chains the next seal will cover, a lower bound of its leaves."""
        return len(self._unsealed.chains)

    def recover(self, *, create_guard: bool = False) -> None:
        """Load the log, hold it against the guard, and publish what is committed.

        Args:
            create_guard: accept a missing guard for a log that has leaves.

        Raises:
            GuardError: the guard and the database disagree.
            RecoveryError: the database contradicts itself.
        """
        state = self._store.log_state()
        if state is None:
            refuse_lost_log(self._guard, self._signer.verifier)
            state = self._seal(SealPlan(0, [], [], [], [], {}, Frontier.empty(), 0))
        self._load(state)
        check_guard(
            self._guard,
            self._signer.verifier,
            state.size,
            self._root_at,
            create_guard=create_guard,
        )
        self._finish(state)

    def reload(self) -> None:
        """A commit failed and its outcome is unknown: believe only the store, then go on.

        Raises:
            StoreError: still unknown; nothing was published.
            OSError: the guard could not be written; nothing was published.
            RecoveryError: the database contradicts itself.
        """
        # What can be read of the failed commit may be gone after a power loss. An empty commit makes
        # it durable or fails; before that, guard and readers would know more than the database.
        self._store.commit(Changes())
        state = self._store.log_state()
        if state is None:
            raise RecoveryError("the log state is gone from the store")
        self._load(state)
        self._finish(state)

    def observe(self, changes: Changes) -> None:
        """Admissions or anchors were committed: they are unsealed now.

        Raises:
            StoreError: an anchor could not be read again; call `reload` before the next step.
        """
        before: dict[bytes, bytes | None] = {}
        for item in changes.admitted:
            if item.chain not in self._unsealed.chains and item.chain not in before:
                before[item.chain] = self._link_before(item.chain, item.position)
        self._unsealed.add(changes, before)
        for handed in changes.anchors:
            # The store's record counts, not the caller's: a seal may have come between its reading
            # and its commit, and would be forgotten, so that the anchor got a second leaf.
            record = self._store.anchor(handed.number)
            if record is not None and record.unsealed:
                self._unsealed.anchors[record.number] = record

    def step(self) -> LogState | None:
        """Seal everything unsealed; None when there is nothing.

        Raises:
            StoreError: the outcome of the commit is unknown; call `reload` before the next step.
            OSError: the guard could not be written; nothing was published.
        """
        if self._unsealed.nothing:
            return None
        plan = plan_seal(self._frontier, self._unsealed)
        state = self._seal(plan)
        self._frontier = plan.frontier
        if plan.content_leaves:
            self._content_size = plan.first_leaf + plan.content_leaves
        self._unsealed = Unsealed(next_number=plan.sealed_number)
        self._finish(state)
        return state

    def _seal(self, plan: SealPlan) -> LogState:
        """Sign and commit a plan."""
        size, root = plan.frontier.size, plan.frontier.root()
        note = sign_checkpoint(Checkpoint(self._signer.verifier.name, size, root), self._signer)
        state = LogState(size, root, note, plan.sealed_number)
        # Commit point. Before it the note is only in this process; after it, it is the log.
        self._store.commit(
            Changes(
                sealed=Sealed(
                    first_leaf=plan.first_leaf,
                    leaves=plan.leaves,
                    tiles=plan.tiles,
                    segments=plan.segments,
                    keys=plan.keys,
                    cleared=plan.cleared,
                    state=state,
                    anchors=plan.anchors,
                )
            )
        )
        return state

    def _finish(self, state: LogState) -> None:
        """Guard, then publish: a checkpoint is never seen that the guard does not know."""
        self._guard.write(state.note)
        self._publish(state)

    def _load(self, state: LogState) -> None:
        """Rebuild the right edge and what is unsealed, and hold both against the signed root."""
        try:
            frontier = Frontier.load(state.size, self._store.tile)
            signed = open_checkpoint(state.note, self._signer.verifier)
        except LedgerError as error:
            raise RecoveryError(
                f"the stored log cannot be used with this key: {error}. If the log key was replaced, "
                "put the old one back."
            ) from None
        if (signed.size, signed.root) != (state.size, state.root) or frontier.root() != state.root:
            raise RecoveryError(
                f"the tiles of {state.size} leaves do not lead to the signed root: the database is "
                "damaged. Restore a verified backup and run `ledgerd fsck`."
            )
        newest = self._check_last_tile(state.size)
        self._frontier = frontier
        self._unsealed = Unsealed(next_number=self._store.next_number())
        for mark in self._store.marks():
            self._restore(mark)
        for record in self._store.unsealed_anchors():
            if not record.unsealed:
                raise RecoveryError(f"anchor {record.number} is marked unsealed but has its leaf")
            self._unsealed.anchors[record.number] = record
        self._content_size = self._find_content(state.size, newest)

    def _find_content(self, size: int, leaves: list[bytes]) -> int:
        """Walk back over anchor leaves; on a log that idles, a handful for each day of that.

        Args:
            size: leaves of the log.
            leaves: those of its last tile.
        """
        while leaves:
            for leaf in reversed(leaves):
                if not is_anchor_leaf(leaf):
                    return size
                size -= 1
            leaves = self._read_leaves(size - TILE_WIDTH, TILE_WIDTH) if size else []
        return 0

    def _read_leaves(self, first: int, count: int) -> list[bytes]:
        try:
            return self._store.leaves(first, count)
        except StoreError as error:
            raise RecoveryError(f"the newest leaves are damaged: {error}") from None

    def _check_last_tile(self, size: int) -> list[bytes]:
        """Re-hash the newest leaves before signing over them: one flipped bit has killed logs."""
        if size == 0:
            return []
        tile = TileId(0, (size - 1) // TILE_WIDTH)
        width = tile_width(tile, size)
        row = self._store.tile(tile)
        leaves = self._read_leaves(tile.index * TILE_WIDTH, width)
        for offset, leaf in enumerate(leaves):
            if hash_leaf(leaf) != row[offset * 32 : offset * 32 + 32]:
                index = tile.index * TILE_WIDTH + offset
                raise RecoveryError(f"leaf {index} does not hash to what its tile says")
        return leaves

    def _restore(self, mark: Mark) -> None:
        """One mark of a chain; the first one of a chain reads all its unsealed entries."""
        pending = self._unsealed.chains.get(mark.chain)
        if pending is None:
            sealed = self._store.last_segment(mark.chain)
            first = 0 if sealed is None else sealed.last + 1
            head = self._store.head(mark.chain)
            if head is None or head.position < first:
                raise RecoveryError(
                    f"chain {mark.chain.hex()} is marked unsealed but has nothing new"
                )
            pending = UnsealedChain(first, self._link_before(mark.chain, first))
            pending.entries.extend(self._store.entries(mark.chain, first, head.position))
            pending.keys.extend(k for k in self._store.keys(mark.chain) if k.leaf_index is None)
            self._unsealed.chains[mark.chain] = pending
            self._unsealed.receipts += len(pending.entries)
        pending.marks.append(mark)

    def _link_before(self, chain: bytes, position: int) -> bytes | None:
        if position == 0:
            return None
        entry = self._store.entry(chain, position - 1)
        if entry is None:
            raise RecoveryError(f"chain {chain.hex()} has no position {position - 1}")
        return entry.link_hash

    def _root_at(self, size: int) -> bytes:
        """Root of an older size, from tiles that `_load` had no need of."""
        try:
            return Frontier.load(size, self._store.tile).root()
        except LedgerError as error:
            raise RecoveryError(
                f"the tiles of the {size} leaves the guard knows are damaged: {error}. Restore a "
                "verified backup and run `ledgerd fsck`."
            ) from None
