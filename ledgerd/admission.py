"""Second half of ingest: a group of verified batches becomes one atomic change.

`plan` is synchronous and writes nothing: it reads heads, decides each receipt by core.chain, and
returns the changes and the answers. The writer commits, then calls `adopt`; after a commit whose
outcome is unknown it calls `forget`, and the next plan reads the store again.

Receipts are numbered in the order they are admitted. Within a group a chain's later receipts see the
earlier ones, so a whole batch of one chain is one change. What is ahead of its chain is parked
(`parking`); at the end of a group, what waited for a receipt of it is decided again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ledgerd.store.interface import (
    Admitted,
    Changes,
    Entry,
    ForkRecord,
    KeyRecord,
    Mark,
    key_name,
)
from ledgerd.verification import Refused, Verified
from receiptledger.core.chain import Head, Outcome, decide, follows
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.public_key import shown_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ledgerd.keyring import Keyring
    from ledgerd.parking import Parked, Parking
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
    """What the sender is told of one receipt; see Answer in proto/.

    That of a parked receipt is empty until it is settled.
    """

    reason: Reason | None  # None: accepted or duplicate
    duplicate: bool
    position: int
    receipt_hash: bytes
    chain: bytes | None  # None when the receipt's chain is not known
    expected: bytes | None = None
    detail: str = ""

    def become(self, other: Answer) -> None:
        """The receipt is settled: this is its answer."""
        self.reason, self.duplicate, self.position = other.reason, other.duplicate, other.position
        self.chain, self.expected, self.detail = other.chain, other.expected, other.detail
        self.receipt_hash = other.receipt_hash


@dataclass(slots=True)
class Plan:
    """One group: what to commit, and what to answer once that is durable.

    Attributes:
        changes: what to commit.
        answers: of each batch.
        next_number: the admission number below which all is durable then.
        heads: where the chains are then.
        good_keys: the key the newest receipt of each of them was verified under.
        parked: receipts of this group that wait now; their answers are empty.
        settled: receipts that waited and do no longer, with their answers.
    """

    changes: Changes
    answers: list[list[Answer]]
    next_number: int
    heads: dict[bytes, Head]
    good_keys: dict[bytes, bytes]
    parked: list[Parked]
    settled: list[Parked]


@dataclass(slots=True)
class _Chain:
    """One chain within a group: the store's state plus what this group adds."""

    chain: bytes
    head: Head | None
    keys: list[KeyRecord] | None = None  # read only when a key is seen that is not known to be good
    good_key: bytes | None = None
    key_name: bytes = b""  # of the good key
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
        parking: Parking,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._parking = parking
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
        answers = []
        for batch in batches:
            answers.append([group.admit(item) for item in batch])
            group.batch += 1
        if self._parking.receipts:
            group.unpark()
        heads = group.new_heads()
        changes = group.changes(heads)
        return Plan(
            changes, answers, group.number, heads, group.good_keys(), group.parked, group.settled
        )

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
        self._good_keys.update(plan.good_keys)

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
        self.batch = 0  # the one whose receipts are admitted
        self.parked: list[Parked] = []
        self.settled: list[Parked] = []

    def admit(self, item: Item, *, park: bool = True) -> Answer:
        """Decide one receipt, given all before it; one that is ahead may be parked."""
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
        if decision.outcome is Outcome.GAP and park:
            parked = self._owner._parking.park(item, head, self.batch, _blank)
            if parked is not None:
                self.parked.append(parked)
                return parked.answer
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

    def unpark(self) -> None:
        """Decide again what waited for a receipt of this group, and that whose wait is over."""
        parking = self._owner._parking
        for chain in [chain for chain in self._chains if parking.knows(chain)]:
            state = self._chains[chain]
            if state.added and state.head is not None:
                links = [item.entry.link_hash for item in state.added]
                number = None if state.head.linked else state.head.sequence
                self._settle(parking.take(chain, links, number), "")
        self._settle(parking.take_expired(), "; what is missing did not come while this one waited")

    def _settle(self, ready: Iterable[Parked], still_missing: str) -> None:
        """Give parked receipts their answers, and those that wait for what is accepted of them."""
        queue = deque(ready)
        while queue:
            parked = queue.popleft()
            chain = parked.item.receipt.chain
            before = self._head(chain)
            answer = self.admit(parked.item, park=False)
            if answer.reason is Reason.GAP:
                answer.detail += still_missing
            parked.answer.become(answer)
            self.settled.append(parked)
            head = self._head(chain)
            if head is not None and head is not before:
                queue.extend(self._owner._parking.follow(chain, head))

    def _head(self, chain: bytes) -> Head | None:
        state = self._chains.get(chain)
        return None if state is None else state.head

    def good_keys(self) -> dict[bytes, bytes]:
        """The key of the newest receipt of each chain this group moves."""
        return {
            chain: state.good_key
            for chain, state in self._chains.items()
            if state.added and state.good_key is not None
        }

    def changes(self, heads: dict[bytes, Head]) -> Changes:
        """Everything the group adds, as one atomic change."""
        return Changes(
            admitted=self._admitted,
            heads=heads,
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
        state = _Chain(chain, head)
        good_key = owner._good_keys.get(chain)
        if good_key is not None:
            state.good_key, state.key_name = good_key, key_name(good_key)
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
            state.good_key, state.key_name = key, key_name(key)
        return True

    def _append(self, state: _Chain, item: Verified, position: int) -> Answer:
        receipt, key = item.receipt, item.key
        if key != state.good_key:
            mode = self._owner._keyring.mode(receipt.agent)
            record = KeyRecord(state.chain, key, mode, position, None)
            self._keys.append(record)
            (state.keys if state.keys is not None else []).append(record)
            state.good_key, state.key_name = key, key_name(key)
        chain, raw, own, link = state.chain, receipt.raw, receipt.receipt_hash, receipt.link_hash
        content, number = receipt.content_hash, self.number
        profile, version = receipt.profile, receipt.profile_version
        entry = Entry(number, item.leaf_hash, own, content, link, profile, version, state.key_name)
        admitted = Admitted(chain, position, entry, raw, self._now)
        self.number = number + 1
        self._admitted.append(admitted)
        state.added.append(admitted)
        places = state.places
        places[content] = places[link] = position
        state.head = Head(position, link, receipt.sequence, receipt.linked)
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


def _blank() -> Answer:
    """The answer of a receipt that is parked."""
    return Answer(None, False, 0, b"", None)


def _other_key(keys: Sequence[KeyRecord], key: bytes) -> str:
    want = " or ".join(shown_key(record.key) for record in keys)
    message = "another key was pinned to this chain first"
    return str(ReceiptError(Reason.WRONG_KEY, message, want=want, got=shown_key(key)))
