"""A mini-ledger in memory, made of core functions: receipts, leaves, trees, checkpoints, bundles.

It knows nothing of the daemon, so what the daemon serves can be held against it, and it lies on request:
`MiniLedger.fork` gives a second history under the same key.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.builder import ReceiptBuilder
from receiptledger.core.bundle import Bundle, Consistency, LeafProof, Member
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.leaf import HeadLeaf, KeyLeaf
from receiptledger.core.merkle import (
    Node,
    hash_leaf,
    inclusion_path,
    plan_consistency,
    root_hash,
)
from receiptledger.core.note import NoteSigner
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import Receipt, authenticate, readings
from receiptledger.core.segment import segment_root
from receiptledger.signer import SeedSigner

if TYPE_CHECKING:
    from receiptledger.core.chain import Head

__all__ = ["EPOCH", "MiniLedger", "agent_key", "make_receipts"]

EPOCH = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def agent_key(name: str) -> SeedSigner:
    """The key of a test agent: the same name, the same key."""
    return SeedSigner(sha256(f"agent key {name}".encode()).digest())


def make_receipts(
    count: int, agent: str = "agent-1", head: Head | None = None, **call: object
) -> list[bytes]:
    """The next receipts of an agent's chain, one a second."""
    builder = ReceiptBuilder(agent, agent_key(agent), head)
    return [
        builder.build(
            **{"tool": "search", "args": {"n": n}, "result": None, "policy_id": "p"} | call,
            at=EPOCH + timedelta(seconds=n),
        ).raw
        for n in range(count)
    ]


@dataclass
class _Segment:
    receipts: list[Receipt]
    first: int
    leaf_index: int


@dataclass
class _Chain:
    key: bytes
    key_index: int = -1
    sealed: list[_Segment] = field(default_factory=list)
    pending: list[Receipt] = field(default_factory=list)
    count: int = 0
    link: bytes | None = None  # of the newest sealed receipt


class MiniLedger:
    """Appends, seals, and proves; raises KeyError for what it does not have."""

    def __init__(self, origin: str = "test.example/log") -> None:
        self.signer = NoteSigner.from_seed(origin, sha256(origin.encode()).digest())
        self.leaves: list[bytes] = []
        self.notes: dict[int, bytes] = {}
        self._chains: dict[bytes, _Chain] = {}
        self._places: dict[bytes, tuple[bytes, int]] = {}
        self.seal()

    @property
    def vkey(self) -> str:
        """The log's verification key."""
        return str(self.signer.verifier)

    @property
    def size(self) -> int:
        """Leaves under the newest checkpoint."""
        return len(self.leaves)

    def fork(self) -> MiniLedger:
        """The same log up to now, free to become another one."""
        return copy.deepcopy(self)

    def append(self, raws: list[bytes]) -> None:
        """Append receipts that carry their key; the first key of a chain is pinned."""
        for raw in raws:
            tries = readings(raw, Profiles.builtin())
            first = next(tries)
            assert first.key_hint is not None
            receipt = authenticate(first, tries, first.key_hint)
            chain = self._chains.setdefault(receipt.chain, _Chain(first.key_hint))
            self._places[receipt.receipt_hash] = (receipt.chain, chain.count)
            chain.pending.append(receipt)
            chain.count += 1

    def seal(self) -> bytes:
        """Commit what is pending under a new checkpoint; returns its note."""
        for key, chain in self._chains.items():
            if chain.pending:
                self._seal_chain(key, chain)
        checkpoint = Checkpoint(self.signer.verifier.name, self.size, root_hash(self._hashes()))
        note = sign_checkpoint(checkpoint, self.signer)
        self.notes[self.size] = note
        return note

    def _seal_chain(self, key: bytes, chain: _Chain) -> None:
        if chain.key_index < 0:
            chain.key_index = self.size
            self.leaves.append(KeyLeaf(key, chain.key, "pinned", 0).encode())
        run = chain.pending
        first = chain.count - len(run)
        leaf = HeadLeaf(
            chain=key,
            first=first,
            last=chain.count - 1,
            prev=chain.link,
            head=run[-1].link_hash,
            segment=segment_root([hash_leaf(r.raw) for r in run]),
            profile=run[0].profile,
            profile_version=run[0].profile_version,
        )
        chain.sealed.append(_Segment(run, first, self.size))
        chain.pending, chain.link = [], run[-1].link_hash
        self.leaves.append(leaf.encode())

    def note(self, size: int = 0) -> bytes:
        """The checkpoint of a size, 0 for the newest."""
        return self.notes[size or self.size]

    def consistency(self, first: int, second: int) -> list[bytes]:
        """RFC 6962 consistency proof between two sizes."""
        plan = plan_consistency(first, second)
        return plan.fold([self._node(node) for node in plan.nodes])

    def place(self, receipt_hash: bytes) -> tuple[bytes, int]:
        """(chain, position) of a receipt."""
        return self._places[receipt_hash]

    def bundle(self, chain: bytes, position: int, *, size: int = 0, since: int = 0) -> Bundle:
        """Everything of one receipt."""
        size = size or self.size
        state = self._chains[chain]
        segment = next(s for s in state.sealed if s.first <= position < s.first + len(s.receipts))
        hashes = [hash_leaf(r.raw) for r in segment.receipts]
        index = position - segment.first
        return Bundle(
            position=position,
            receipt=Member(segment.receipts[index].raw, tuple(inclusion_path(hashes, index))),
            previous=Member(
                segment.receipts[index - 1].raw, tuple(inclusion_path(hashes, index - 1))
            )
            if index
            else None,
            head=self._leaf(segment.leaf_index, size),
            key=self._leaf(state.key_index, size),
            checkpoint=self.notes[size],
            consistency=Consistency(since, tuple(self.consistency(since, size))) if since else None,
        )

    def bundle_of(self, raw: bytes, *, size: int = 0, since: int = 0) -> Bundle:
        """Everything of the receipt with these bytes."""
        return self.bundle(*self.place(sha256(raw).digest()), size=size, since=since)

    def _hashes(self) -> list[bytes]:
        return [hash_leaf(leaf) for leaf in self.leaves]

    def _node(self, node: Node) -> bytes:
        first, count = node.index << node.level, 1 << node.level
        return root_hash(self._hashes()[first : first + count])

    def _leaf(self, index: int, size: int) -> LeafProof:
        return LeafProof(
            self.leaves[index], index, tuple(inclusion_path(self._hashes()[:size], index))
        )
