"""What one seal adds to the log, as a pure plan.

Every unsealed run of receipts becomes head leaves, each new key a key leaf before the first head leaf
that relies on it. Then come anchor leaves: one for each timestamp without a leaf, and for each whose
evidence came after its leaf. `plan_seal` computes leaves, tiles and the new root; it signs nothing and
writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from ledgerd.store.interface import AnchorRecord, Changes, Entry, KeyRecord, Mark, Segment
from receiptledger.core.errors import EvidenceError
from receiptledger.core.leaf import AnchorLeaf, HeadLeaf, KeyLeaf, parse_leaf
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.segment import runs, segment_root

if TYPE_CHECKING:
    from receiptledger.core.tile import Frontier, TileId

__all__ = ["SealPlan", "Unsealed", "UnsealedChain", "is_anchor_leaf", "plan_seal"]


@dataclass(slots=True)
class UnsealedChain:
    """Admitted receipts of one chain that no head leaf commits yet."""

    first: int  # position of entries[0]
    prev: bytes | None  # link hash of position first - 1
    entries: list[Entry] = field(default_factory=list)
    keys: list[KeyRecord] = field(default_factory=list)  # without a key leaf yet
    marks: list[Mark] = field(default_factory=list)


@dataclass(slots=True)
class Unsealed:
    """Everything the next seal covers, in the order the chains came; owned by the sequencer."""

    chains: dict[bytes, UnsealedChain] = field(default_factory=dict)
    receipts: int = 0
    next_number: int = 0  # admission numbers below this are here or sealed
    anchors: dict[int, AnchorRecord] = field(default_factory=dict)  # by number; each owed a leaf

    @property
    def nothing(self) -> bool:
        """Whether a seal would add no leaf."""
        return not self.chains and not self.anchors

    def add(self, changes: Changes, prev_link: dict[bytes, bytes | None]) -> None:
        """Note what a commit admitted.

        Args:
            changes: committed changes.
            prev_link: for chains not here yet, the link hash before their first new position.
        """
        for item in changes.admitted:
            pending = self.chains.get(item.chain)
            if pending is None:
                pending = UnsealedChain(item.position, prev_link[item.chain])
                self.chains[item.chain] = pending
            pending.entries.append(item.entry)
        if changes.admitted:
            self.receipts += len(changes.admitted)
            self.next_number = changes.admitted[-1].entry.number + 1
        for record in changes.keys:
            self.chains[record.chain].keys.append(record)
        for mark in changes.marks:
            self.chains[mark.chain].marks.append(mark)


@dataclass(slots=True)
class SealPlan:
    """Leaves and tiles of one seal, and the tree they lead to."""

    first_leaf: int
    leaves: list[bytes]
    segments: list[Segment]
    keys: list[KeyRecord]
    cleared: list[Mark]
    tiles: dict[TileId, bytes]
    frontier: Frontier
    sealed_number: int
    anchors: list[AnchorRecord] = field(default_factory=list)  # with the leaf indexes they gain

    @property
    def content_leaves(self) -> int:
        """Leaves that are no anchor leaves; they come first."""
        return len(self.leaves) - len(self.anchors)


def plan_seal(frontier: Frontier, unsealed: Unsealed) -> SealPlan:
    """Plan a seal of everything unsealed. Pure."""
    plan = SealPlan(frontier.size, [], [], [], [], {}, frontier, unsealed.next_number)
    for chain, pending in unsealed.chains.items():
        _plan_chain(plan, chain, pending)
        plan.cleared.extend(pending.marks)
    for number in sorted(unsealed.anchors):
        _plan_anchor(plan, unsealed.anchors[number])
    plan.frontier, plan.tiles = frontier.append([hash_leaf(leaf) for leaf in plan.leaves])
    return plan


def _plan_chain(plan: SealPlan, chain: bytes, pending: UnsealedChain) -> None:
    new_keys = {record.name: record for record in pending.keys}
    first, prev = pending.first, pending.prev
    for run in runs(pending.entries):
        record = new_keys.pop(run[0].key, None)
        if record is not None:
            index = plan.first_leaf + len(plan.leaves)
            plan.leaves.append(KeyLeaf(chain, record.key, record.mode, record.since).encode())
            plan.keys.append(KeyRecord(chain, record.key, record.mode, record.since, index))
        last = first + len(run) - 1
        leaf = HeadLeaf(
            chain=chain,
            first=first,
            last=last,
            prev=prev,
            head=run[-1].link_hash,
            segment=segment_root([entry.leaf_hash for entry in run]),
            profile=run[0].profile,
            profile_version=run[0].profile_version,
        )
        plan.segments.append(Segment(chain, first, last, plan.first_leaf + len(plan.leaves)))
        plan.leaves.append(leaf.encode())
        first, prev = last + 1, run[-1].link_hash


def _plan_anchor(plan: SealPlan, record: AnchorRecord) -> None:
    """One leaf: of the timestamp, of its evidence, or of both when neither has one yet."""
    index = plan.first_leaf + len(plan.leaves)
    evidence = None if record.evidence is None else sha256(record.evidence).digest()
    response = sha256(record.response).digest()
    leaf = AnchorLeaf(record.size, record.root, record.tsa, response, evidence)
    plan.leaves.append(leaf.encode())
    plan.anchors.append(
        replace(
            record,
            leaf_index=index if record.leaf_index is None else record.leaf_index,
            evidence_leaf_index=None if evidence is None else index,
        )
    )


def is_anchor_leaf(leaf: bytes) -> bool:
    """Whether a leaf of the log commits a timestamp: no content that has to be anchored itself."""
    try:
        return isinstance(parse_leaf(leaf), AnchorLeaf)
    except EvidenceError:
        return False
