"""Second half of ingest: a group of verified batches becomes one atomic change.

`plan` is synchronous and changes nothing: it reads heads, decides each receipt by core.chain, and
returns the changes and the answers. The writer commits, then calls `adopt`; after a commit whose
outcome is unknown it calls `forget`, and the next plan reads the store again.

Receipts are numbered in the order they are admitted. Within a group a chain's later receipts see the
earlier ones, so a whole batch of one chain is one change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ledgerd.store.interface import Admitted, Changes, Entry, ForkRecord, KeyRecord, Mark
from ledgerd.verification import Refused, Verified
from receiptledger.core.chain import Head, Outcome, decide, follows
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.keyring import Keyring
    from receiptledger.core.receipt import Receipt

__all__ = ["Admission", "Answer", "Plan"]

Item = Verified | Refused


class _ChainReader(Protocol):
    """What admission reads of the store."""

    def head(self, chain: bytes) -> Head | None: ...
    def entry(self, chain: bytes, position: int) -> Entry | None: ...
    def position_of(self, chain: bytes, digest: bytes) -> int | None: ...
    def keys(self, chain: bytes) -> list[KeyRecord]: ...
    def forks(self, chain: bytes) -> list[ForkRecord]: ...
    def next_number(self) -> int: ...


@dataclass(slots=True)
class Answer:
    """What the sender is told of one receipt; see Answer in proto/."""

    reason: Reason | None  # None: accepted or duplicate
    duplicate: bool
    position: int
    receipt_hash: bytes
    chain: bytes | None  # None when the receipt's chain is not known
    expected: bytes | None = None
    detail: str = ""


@dataclass(slots=True)
class Plan:
    """One group: what to commit, and what to answer once that is durable."""

    changes: Changes
    answers: list[list[Answer]]
    next_number: int
    heads: dict[bytes, Head]


@dataclass(slots=True)
class _Chain:
    """One chain within a group: the store's state plus what this group adds."""

    chain: bytes
    head: Head | None
    keys: list[KeyRecord] | None = None  # read only when a key is seen that is not known to be good
    good_key: bytes | None = None
    added: list[Admitted] = field(default_factory=list)
    places: dict[bytes, int] = field(default_factory=dict)  # content or link hash -> added position
    forks: list[ForkRecord] | None = None


class _History:
    """Earlier positions of one chain: this group's first, then the store's."""

    def __init__(self, store: _ChainReader, state: _Chain) -> None:
        self._store = store
        self._state = state

    def identity(self, position: int) -> tuple[bytes, bytes]:
        added = self._state.added
        if added and position >= added[0].position:
            entry: Entry | None = added[position - added[0].position].entry
        else:
            entry = self._store.entry(self._state.chain, position)
        assert entry is not None, "a position at or below the head has an entry"  # noqa: S101
        return entry.content_hash, entry.receipt_hash

    def position_of(self, digest: bytes) -> int | None:
        # By hash, not by a walk: a group may resend as many receipts of one chain as it adds.
        position = self._state.places.get(digest)
        if position is None:
            position = self._store.position_of(self._state.chain, digest)
        return position


class Admission:
    """Plans groups; owns the memory of chain heads. Used by the writer thread only."""

    def __init__(
        self,
        store: _ChainReader,
        keyring: Keyring,
        *,
        max_chains_cached: int,
        max_forks_per_chain: int,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._max_chains = max_chains_cached
        self._max_forks = max_forks_per_chain
        self._heads: dict[bytes, Head] = {}
        self._good_keys: dict[bytes, bytes] = {}
        self._next = store.next_number()

    def plan(self, batches: Sequence[Sequence[Item]], now: int) -> Plan:
        """Decide every receipt of the group.

        Args:
            batches: verified batches in the order they arrived.
            now: microseconds since the epoch, recorded as the ledger's claim.
        """
        group = _Group(self, now)
        answers = [[group.admit(item) for item in batch] for batch in batches]
        return Plan(group.changes(), answers, group.number, group.new_heads())

    def adopt(self, plan: Plan) -> None:
        """The plan's changes are durable."""
        self._next = plan.next_number
        if len(self._heads) + len(plan.heads) > self._max_chains:
            self._heads.clear()
            self._good_keys.clear()
        self._heads.update(plan.heads)
        for record in plan.changes.keys:
            if record.mode == "pinned":
                self._keyring.learn(record.chain, record.key)
        for item in plan.changes.admitted:
            self._good_keys[item.chain] = item.entry.key

    def forget(self) -> None:
        """The outcome of a commit is unknown: believe only the store."""
        self._heads.clear()
        self._good_keys.clear()
        self._keyring.forget()
        self._next = self._store.next_number()


class _Group:
    """Builds one plan."""

    def __init__(self, owner: Admission, now: int) -> None:
        self._owner = owner
        self._store = owner._store
        self._now = now
        self.number = owner._next
        self._chains: dict[bytes, _Chain] = {}
        self._admitted: list[Admitted] = []
        self._keys: list[KeyRecord] = []
        self._forks: list[ForkRecord] = []

    def admit(self, item: Item) -> Answer:
        """Decide one receipt, given all before it."""
        if isinstance(item, Refused):
            return Answer(
                item.error.reason, False, 0, item.receipt_hash, None, None, str(item.error)
            )
        receipt, key = item.receipt, item.key
        state = self._chains.get(receipt.chain) or self._state(receipt.chain)
        head = state.head
        if key == state.good_key and head is not None and follows(head, receipt):
            return self._append(state, item, head.position + 1)
        if key != state.good_key and not self._allow(state, receipt, key):
            position = 0 if head is None else head.position + 1
            detail = _other_key(state.keys or [], key)
            return Answer(
                Reason.WRONG_KEY, False, position, receipt.receipt_hash, state.chain, None, detail
            )
        decision = decide(head, receipt, _History(self._store, state))
        if decision.outcome is Outcome.ACCEPTED:
            return self._append(state, item, decision.position)
        if decision.outcome is Outcome.DUPLICATE:
            return Answer(None, True, decision.position, receipt.receipt_hash, state.chain)
        if decision.outcome is Outcome.FORK:
            self._keep_fork(state, receipt, decision.position)
        return Answer(
            Reason(decision.outcome.value),
            False,
            decision.position,
            receipt.receipt_hash,
            state.chain,
            decision.expected,
            decision.detail,
        )

    def changes(self) -> Changes:
        """Everything the group adds, as one atomic change."""
        return Changes(
            admitted=self._admitted,
            heads=self.new_heads(),
            marks=[
                Mark(state.chain, state.added[-1].position)
                for state in self._chains.values()
                if state.added
            ],
            keys=self._keys,
            forks=self._forks,
        )

    def new_heads(self) -> dict[bytes, Head]:
        """Heads this group moves."""
        return {
            chain: state.head
            for chain, state in self._chains.items()
            if state.added and state.head is not None
        }

    def _state(self, chain: bytes) -> _Chain:
        """A chain the group has not met yet."""
        owner = self._owner
        head = owner._heads.get(chain) or self._store.head(chain)
        state = _Chain(chain, head, good_key=owner._good_keys.get(chain))
        self._chains[chain] = state
        return state

    def _allow(self, state: _Chain, receipt: Receipt, key: bytes) -> bool:
        """Whether the writer, who sees every earlier receipt, agrees with the verifying thread.

        Two batches of a new chain may have been verified under two keys at once; the first one that
        is admitted pins its key.
        """
        mode = self._owner._keyring.mode(receipt.agent)
        if state.keys is None:
            state.keys = self._store.keys(state.chain)
        known = any(record.key == key for record in state.keys)
        if mode == "pinned" and state.keys and not known:
            return False
        if known:
            state.good_key = key
        return True

    def _append(self, state: _Chain, item: Verified, position: int) -> Answer:
        receipt, key = item.receipt, item.key
        if key != state.good_key:
            mode = self._owner._keyring.mode(receipt.agent)
            record = KeyRecord(state.chain, key, mode, position, None)
            self._keys.append(record)
            (state.keys if state.keys is not None else []).append(record)
            state.good_key = key
        chain, raw, own, link = state.chain, receipt.raw, receipt.receipt_hash, receipt.link_hash
        content, number = receipt.content_hash, self.number
        profile, version = receipt.profile, receipt.profile_version
        entry = Entry(number, item.leaf_hash, own, content, link, profile, version, key)
        admitted = Admitted(chain, position, entry, raw, self._now)
        self.number = number + 1
        self._admitted.append(admitted)
        state.added.append(admitted)
        places = state.places
        places[content] = places[link] = position
        state.head = Head(position, link, receipt.sequence)
        return Answer(None, False, position, own, chain)

    def _keep_fork(self, state: _Chain, receipt: Receipt, position: int) -> None:
        """Both receipts of a fork are evidence: the one there is stored, keep this one too."""
        if state.forks is None:
            state.forks = self._store.forks(state.chain)
        known = {record.receipt_hash for record in state.forks}
        if receipt.receipt_hash in known or len(state.forks) >= self._owner._max_forks:
            return
        record = ForkRecord(state.chain, position, receipt.receipt_hash, receipt.raw, self._now)
        state.forks.append(record)
        self._forks.append(record)


def _other_key(keys: Sequence[KeyRecord], key: bytes) -> str:
    want = " or ".join(record.key.hex() for record in keys)
    message = "another key was pinned to this chain first"
    return str(ReceiptError(Reason.WRONG_KEY, message, want=want, got=key.hex()))
