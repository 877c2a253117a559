"""A whole log in memory, made with core functions only: for bundles that are right or nearly so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from receiptledger.core.bundle import Bundle, Consistency, LeafProof, Member
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.leaf import HeadLeaf, KeyLeaf
from receiptledger.core.merkle import (
    hash_leaf,
    inclusion_path,
    plan_consistency,
    root_hash,
)
from receiptledger.core.note import NoteSigner
from receiptledger.core.segment import segment_root
from receiptledger.core.verify import Trust
from tests.helpers.agents import Agent, read

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AGENT", "OTHER", "RAWS", "MiniLog", "Sealed", "World"]

AGENT, OTHER = Agent("agent-1", 1), Agent("agent-2", 2)
RAWS = AGENT.receipts(12)


@dataclass
class Sealed:
    """One segment in the log: its receipts, and where its head and key leaves are."""

    raws: list[bytes]
    head: HeadLeaf
    head_index: int
    key_index: int


class MiniLog:
    """Appends leaves and proves; nothing is checked, so that wrong logs can be made too."""

    def __init__(self, origin: str = "example.com/log", seed: int = 7) -> None:
        self.signer = NoteSigner.from_seed(origin, seed.to_bytes(32, "big"))
        self.leaves: list[bytes] = []

    def add(self, leaf: bytes) -> int:
        """Append a leaf; its index."""
        self.leaves.append(leaf)
        return len(self.leaves) - 1

    def add_key(self, chain: bytes, key: bytes, *, mode: str = "pinned", since: int = 0) -> int:
        """Append a key leaf; its index."""
        return self.add(KeyLeaf(chain, key, mode, since).encode())

    def add_segment(self, raws: Sequence[bytes], key_index: int, *, first: int = 0) -> Sealed:
        """Append the head leaf of a run of one chain's receipts."""
        receipts = [read(raw) for raw in raws]
        head = HeadLeaf(
            chain=receipts[0].chain,
            first=first,
            last=first + len(raws) - 1,
            prev=receipts[0].previous,
            head=receipts[-1].link_hash,
            segment=segment_root([hash_leaf(raw) for raw in raws]),
            profile=receipts[0].profile,
            profile_version=receipts[0].profile_version,
        )
        return Sealed(list(raws), head, self.add(head.encode()), key_index)

    def replace_head(self, sealed: Sealed, head: HeadLeaf) -> Sealed:
        """The same log with another head leaf in the place of a segment's own."""
        self.leaves[sealed.head_index] = head.encode()
        return replace(sealed, head=head)

    def checkpoint(self, size: int | None = None) -> Checkpoint:
        """The log's state at a size, newest by default."""
        hashes = self._hashes(size)
        return Checkpoint(self.signer.verifier.name, len(hashes), root_hash(hashes))

    def note(self, size: int | None = None) -> bytes:
        """The signed checkpoint."""
        return sign_checkpoint(self.checkpoint(size), self.signer)

    def leaf(self, index: int, size: int | None = None) -> LeafProof:
        """A leaf with its audit path."""
        path = inclusion_path(self._hashes(size), index)
        return LeafProof(self.leaves[index], index, tuple(path))

    def consistency(self, old: int) -> Consistency:
        """From an older size to the newest."""
        plan = plan_consistency(old, len(self.leaves))
        hashes = self._hashes()
        nodes = [
            root_hash(hashes[node.index << node.level : (node.index + 1) << node.level])
            for node in plan.nodes
        ]
        return Consistency(old, tuple(plan.fold(nodes)))

    def bundle(self, sealed: Sealed, position: int, *, since: int | None = None) -> Bundle:
        """The bundle of one receipt of a segment."""
        index = position - sealed.head.first
        return Bundle(
            position=position,
            receipt=self.member(sealed, index),
            previous=self.member(sealed, index - 1) if index else None,
            head=self.leaf(sealed.head_index),
            key=self.leaf(sealed.key_index),
            checkpoint=self.note(),
            consistency=None if since is None else self.consistency(since),
        )

    @staticmethod
    def member(sealed: Sealed, index: int) -> Member:
        """A receipt of a segment with its audit path."""
        hashes = [hash_leaf(raw) for raw in sealed.raws]
        return Member(sealed.raws[index], tuple(inclusion_path(hashes, index)))

    def _hashes(self, size: int | None = None) -> list[bytes]:
        return [hash_leaf(leaf) for leaf in self.leaves[:size]]


class World:
    """A log with two segments of one agent between those of another, and an auditor's trust."""

    def __init__(self, raws: list[bytes] = RAWS) -> None:
        self.log = log = MiniLog()
        self.foreign_key = log.add_key(OTHER.chain, OTHER.public_key)
        self.foreign = log.add_segment(OTHER.receipts(3), self.foreign_key)
        self.same_key_elsewhere = log.add_key(OTHER.chain, AGENT.public_key)
        self.key = log.add_key(AGENT.chain, AGENT.public_key)
        self.first = log.add_segment(raws[:5], self.key)
        self.old = log.checkpoint()
        self.second = log.add_segment(raws[5:], self.key, first=5)
        self.late_key = log.add_key(AGENT.chain, AGENT.public_key, since=5)
        self.trust = Trust((log.signer.verifier,), remembered=self.old)

    @property
    def since(self) -> int:
        return self.old.size

    def bundle(self, position: int = 8) -> Bundle:
        sealed = self.first if position < 5 else self.second
        return self.log.bundle(sealed, position, since=self.since)
