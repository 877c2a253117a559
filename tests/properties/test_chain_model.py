"""A chain against a naive model: whatever is sent, in whatever order, the two agree on every outcome.

The model knows each receipt's author's intent and searches its whole list; `decide` sees one head and
asks for what it needs. Receipts are fakes with three different hashes, so no two roles can be confused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from receiptledger.core.chain import Decision, Head, Outcome, decide

if TYPE_CHECKING:
    from receiptledger.core.receipt import Receipt


@dataclass(frozen=True)
class Sent:
    """One receipt: its content is everything but the spelling."""

    content: int
    previous: bytes | None
    sequence: int | None
    sequence_step: int
    sequence_start: int
    linked: bool = True
    spelling: int = 0

    def _hash(self, what: str, *parts: object) -> bytes:
        text = repr((what, self.content, self.previous, self.sequence, *parts))
        return hashlib.sha256(text.encode()).digest()

    @property
    def content_hash(self) -> bytes:
        return self._hash("content")

    @property
    def link_hash(self) -> bytes:
        return self._hash("link")

    @property
    def receipt_hash(self) -> bytes:
        return self._hash("raw", self.spelling)


class Ledger:
    """What decide() is given: one head, and a history that refuses to be asked nonsense."""

    def __init__(self) -> None:
        self.receipts: list[Sent] = []

    @property
    def head(self) -> Head | None:
        if not self.receipts:
            return None
        last = self.receipts[-1]
        return Head(len(self.receipts) - 1, last.link_hash, last.sequence, last.linked)

    def identity(self, position: int) -> tuple[bytes, bytes]:
        assert 0 <= position < len(self.receipts)
        return self.receipts[position].content_hash, self.receipts[position].receipt_hash

    def position_of(self, digest: bytes) -> int | None:
        found = [
            at
            for at, one in enumerate(self.receipts)
            if digest in (one.content_hash, one.link_hash, one.receipt_hash)
        ]
        return found[0] if found else None


def naive(chain: list[Sent], receipt: Sent) -> tuple[Outcome, int]:
    """The rules of the module docstring, asked one by one of the whole list."""
    if not receipt.linked or (chain and not chain[0].linked):
        return naive_without_links(chain, receipt)
    link = chain[-1].link_hash if chain else None
    number = receipt.sequence
    if number is not None:
        following = receipt.sequence_start + len(chain) * receipt.sequence_step
        in_turn = number == following
    else:
        in_turn = True
    if receipt.linked and receipt.previous == link and in_turn:
        return Outcome.ACCEPTED, len(chain)
    for position, there in enumerate(chain):
        if there.content_hash == receipt.content_hash:
            return Outcome.DUPLICATE, position
    if not receipt.linked and in_turn:
        return Outcome.ACCEPTED, len(chain)
    if not chain:
        return (Outcome.GAP if receipt.previous is not None else Outcome.WRONG_SEQUENCE), 0
    claims = _claims(chain, receipt)
    if claims is not None and claims < len(chain):
        return Outcome.FORK, claims
    if receipt.previous == link if receipt.linked else claims is None:
        return Outcome.WRONG_SEQUENCE, len(chain)
    return (Outcome.BROKEN_LINK if claims == len(chain) else Outcome.GAP), len(chain)


def naive_without_links(chain: list[Sent], receipt: Sent) -> tuple[Outcome, int]:
    """The same for a receipt without a link, and for a chain of such ones."""
    for position, there in enumerate(chain):
        if there.content_hash == receipt.content_hash:
            return Outcome.DUPLICATE, position
    if chain and receipt.linked is not chain[0].linked:
        return Outcome.BROKEN_LINK, len(chain)
    if receipt.sequence is None:
        return Outcome.ACCEPTED, len(chain)
    number = receipt.sequence_start + len(chain) * receipt.sequence_step
    if receipt.sequence == number:
        return Outcome.ACCEPTED, len(chain)
    if (receipt.sequence - number) % receipt.sequence_step:
        return Outcome.WRONG_SEQUENCE, len(chain)
    if receipt.sequence > number:
        return Outcome.GAP, len(chain)
    if not chain:
        return Outcome.WRONG_SEQUENCE, 0
    taken = [at for at, there in enumerate(chain) if there.sequence == receipt.sequence]
    return Outcome.FORK, taken[0] if taken else 0


def _claims(chain: list[Sent], receipt: Sent) -> int | None:
    if receipt.sequence is not None:
        steps, odd = divmod(receipt.sequence - receipt.sequence_start, receipt.sequence_step)
        return None if odd else max(steps, 0)
    if receipt.previous is None:
        return 0
    for position, there in enumerate(chain):
        if there.link_hash == receipt.previous:
            return position + 1
    return None


class ChainModel(RuleBasedStateMachine):
    """Random senders against one chain."""

    @initialize(
        numbered=st.booleans(),
        start=st.sampled_from([0, 1, 5]),
        step=st.sampled_from([1, 3]),
        linked=st.booleans(),
    )
    def begin(self, numbered: bool, start: int, step: int, linked: bool) -> None:
        self.numbered, self.start, self.step, self.linked = numbered, start, step, linked
        self.ledger = Ledger()
        self.content = 0

    def make(self, previous: bytes | None, position: int, shift: int = 0) -> Sent:
        self.content += 1
        number = self.start + position * self.step + shift if self.numbered else None
        previous = previous if self.linked else None
        return Sent(self.content, previous, number, self.step, self.start, linked=self.linked)

    def send(self, receipt: Sent) -> Decision:
        expected = naive(self.ledger.receipts, receipt)
        decision = decide(self.ledger.head, cast("Receipt", receipt), self.ledger)
        assert (decision.outcome, decision.position) == expected
        self.check_hints(decision, receipt)
        if decision.outcome is Outcome.ACCEPTED:
            self.ledger.receipts.append(receipt)
        return decision

    def check_hints(self, decision: Decision, receipt: Sent) -> None:
        chain = self.ledger.receipts
        if decision.outcome in (Outcome.ACCEPTED, Outcome.DUPLICATE):
            assert decision.expected is None
            assert decision.detail == ""
            return
        assert decision.detail
        if decision.outcome is Outcome.FORK:
            assert decision.expected == chain[decision.position].receipt_hash
            assert decision.expected != receipt.receipt_hash
        else:
            assert decision.position == len(chain)
            assert decision.expected == (chain[-1].link_hash if chain and self.linked else None)

    def link(self) -> bytes | None:
        chain = self.ledger.receipts
        return chain[-1].link_hash if chain else None

    @rule()
    def following(self) -> None:
        decision = self.send(self.make(self.link(), len(self.ledger.receipts)))
        assert decision.outcome is Outcome.ACCEPTED

    @precondition(lambda self: self.ledger.receipts)
    @rule(data=st.data(), spelling=st.integers(0, 2))
    def again(self, data: st.DataObject, spelling: int) -> None:
        old = data.draw(st.sampled_from(self.ledger.receipts))
        decision = self.send(replace(old, spelling=spelling))
        assert decision.outcome is Outcome.DUPLICATE
        assert self.ledger.receipts[decision.position] == old

    @rule(skipped=st.integers(1, 3))
    def skipping(self, skipped: int) -> None:
        previous, position = self.link(), len(self.ledger.receipts)
        for _ in range(skipped):
            previous = self.make(previous, position).link_hash
            position += 1
        # Without links and numbers nothing tells that one was skipped: the order is the ledger's.
        told = self.linked or self.numbered
        expected = Outcome.GAP if told else Outcome.ACCEPTED
        assert self.send(self.make(previous, position)).outcome is expected

    @precondition(lambda self: self.ledger.receipts)
    @rule(data=st.data())
    def forking(self, data: st.DataObject) -> None:
        chain = self.ledger.receipts
        position = data.draw(st.integers(0, len(chain) - 1))
        decision = self.send(self.make(chain[position].previous, position))
        if self.linked or self.numbered:
            assert (decision.outcome, decision.position) == (Outcome.FORK, position)
        else:
            assert decision.outcome is Outcome.ACCEPTED

    @rule(data=st.data())
    def relinked(self, data: st.DataObject) -> None:
        links = [one.link_hash for one in self.ledger.receipts]
        previous = data.draw(st.sampled_from([None, bytes(32), *links]))
        self.send(self.make(previous, len(self.ledger.receipts)))

    @rule(shift=st.integers(-12, 12), linked=st.booleans())
    def misnumbered(self, shift: int, linked: bool) -> None:
        number = self.start + len(self.ledger.receipts) * self.step + shift
        if number >= 0:
            previous = self.link() if linked else bytes(32)
            self.send(self.make(previous, len(self.ledger.receipts), shift))

    @invariant()
    def an_accepted_chain_verifies(self) -> None:
        previous, number = None, getattr(self, "start", 0)
        for receipt in self.ledger.receipts if hasattr(self, "ledger") else []:
            assert receipt.previous == (previous if self.linked else None)
            assert receipt.sequence == (number if self.numbered else None)
            previous, number = receipt.link_hash, number + self.step


TestChainModel = ChainModel.TestCase
