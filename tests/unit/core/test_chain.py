"""Where a receipt belongs in its chain: every outcome, with and without numbers of the format's own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from receiptledger.core.chain import Decision, Head, Outcome, decide
from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers.agents import Agent, FarleyAgent, digest, link, read, respelled

if TYPE_CHECKING:
    from pathlib import Path

    from receiptledger.core.receipt import Receipt


def name(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@dataclass
class Fake:
    """What `decide` looks at in a receipt; all three hashes differ, as a format may have it."""

    text: str
    previous: bytes | None = None
    sequence: int | None = None
    sequence_step: int = 1
    sequence_start: int = 0
    content: str = ""
    linked: bool = True

    @property
    def content_hash(self) -> bytes:
        return name(f"content {self.content or self.text}")

    @property
    def link_hash(self) -> bytes:
        return name(f"link {self.content or self.text}")

    @property
    def receipt_hash(self) -> bytes:
        return name(f"raw {self.text}")


@dataclass
class Chain:
    """An accepted chain, as a list; answers what a History is asked."""

    receipts: list[Fake | Receipt] = field(default_factory=list)

    @property
    def head(self) -> Head | None:
        if not self.receipts:
            return None
        last = self.receipts[-1]
        return Head(len(self.receipts) - 1, last.link_hash, last.sequence)

    def identity(self, position: int) -> tuple[bytes, bytes]:
        assert 0 <= position < len(self.receipts), "asked for a position that is not taken"
        there = self.receipts[position]
        return there.content_hash, there.receipt_hash

    def position_of(self, wanted: bytes) -> int | None:
        for position, receipt in enumerate(self.receipts):
            if wanted in (receipt.content_hash, receipt.link_hash, receipt.receipt_hash):
                return position
        return None

    def decide(self, receipt: Fake | Receipt) -> Decision:
        return decide(self.head, cast("Receipt", receipt), self)


def chain(count: int, *, numbered: bool, start: int = 0, step: int = 1) -> Chain:
    made = Chain()
    previous = None
    for position in range(count):
        number = start + position * step if numbered else None
        receipt = Fake(f"r{position}", previous, number, step, start)
        made.receipts.append(receipt)
        previous = receipt.link_hash
    return made


def follower(of: Chain, text: str, **changes: object) -> Fake:
    """The receipt that belongs next, unless changed."""
    last = cast("Fake", of.receipts[-1])
    number = None if last.sequence is None else last.sequence + last.sequence_step
    receipt = Fake(text, last.link_hash, number, last.sequence_step, last.sequence_start)
    for member, value in changes.items():
        setattr(receipt, member, value)
    return receipt


NUMBERED = pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "unnumbered"])


# Accepted


@NUMBERED
def test_a_chain_grows_from_its_genesis_receipt(numbered: bool) -> None:
    made = Chain()
    for receipt in chain(5, numbered=numbered).receipts:
        assert made.decide(receipt) == Decision(Outcome.ACCEPTED, len(made.receipts))
        made.receipts.append(receipt)


@pytest.mark.parametrize(("start", "step"), [(0, 1), (1, 1), (7, 10), (0, 2**53 - 1)])
def test_the_formats_own_number_advances_by_its_own_rule(start: int, step: int) -> None:
    made = chain(2, numbered=True, start=start, step=step)
    assert made.decide(follower(made, "next")).outcome is Outcome.ACCEPTED
    wrong = follower(made, "next", sequence=start + 2 * step + 1)
    assert made.decide(wrong).outcome is Outcome.WRONG_SEQUENCE


def test_numbers_are_not_compared_across_a_change_of_format() -> None:
    numbered, bare = chain(2, numbered=True), chain(2, numbered=False)
    assert numbered.decide(follower(numbered, "x", sequence=None)).position == 2
    assert numbered.decide(follower(numbered, "x", sequence=None)).outcome is Outcome.ACCEPTED
    assert bare.decide(follower(bare, "x", sequence=41)).outcome is Outcome.ACCEPTED


# New chains


@NUMBERED
def test_a_new_chain_that_does_not_start_at_its_start_has_a_gap(numbered: bool) -> None:
    second = chain(2, numbered=numbered).receipts[1]
    decision = Chain().decide(second)
    assert (decision.outcome, decision.position, decision.expected) == (Outcome.GAP, 0, None)
    assert digest(cast("bytes", second.previous)) in decision.detail
    assert "genesis" in decision.detail


@pytest.mark.parametrize(("start", "came"), [(0, 1), (1, 0), (5, 2**53 - 1)])
def test_a_genesis_receipt_has_the_first_number(start: int, came: int) -> None:
    decision = Chain().decide(Fake("g", None, came, 1, start))
    assert (decision.outcome, decision.position) == (Outcome.WRONG_SEQUENCE, 0)
    assert decision.expected is None
    assert f"starts at sequence {start}, got {came}" in decision.detail


# Duplicates


@NUMBERED
@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_receipt_sent_again_is_a_duplicate_of_its_position(position: int, numbered: bool) -> None:
    made = chain(5, numbered=numbered)
    again = made.decide(made.receipts[position])
    assert again == Decision(Outcome.DUPLICATE, position)


@NUMBERED
def test_another_spelling_of_a_receipt_is_a_duplicate(numbered: bool) -> None:
    made = chain(3, numbered=numbered)
    there = cast("Fake", made.receipts[1])
    spelled = Fake("other bytes", there.previous, there.sequence, content=there.text)
    assert spelled.receipt_hash != there.receipt_hash
    assert made.decide(spelled) == Decision(Outcome.DUPLICATE, 1)


def test_content_that_is_only_someones_link_hash_is_no_duplicate() -> None:
    made = chain(3, numbered=False)

    class Odd(Fake):
        @property
        def content_hash(self) -> bytes:
            return made.receipts[0].link_hash

    odd = Odd("odd", made.receipts[0].link_hash)
    assert made.position_of(odd.content_hash) == 0
    assert made.decide(odd).outcome is Outcome.FORK


# Forks


@NUMBERED
@pytest.mark.parametrize("position", [0, 1, 3])
def test_other_content_at_a_taken_position_is_a_fork(position: int, numbered: bool) -> None:
    made = chain(4, numbered=numbered)
    there = cast("Fake", made.receipts[position])
    other = Fake("other", there.previous, there.sequence)
    decision = made.decide(other)
    assert (decision.outcome, decision.position) == (Outcome.FORK, position)
    assert decision.expected == there.receipt_hash
    assert digest(there.receipt_hash) in decision.detail
    assert digest(other.receipt_hash) in decision.detail


def test_the_number_claims_the_position_whatever_the_link_says() -> None:
    made = chain(4, numbered=True)
    for previous in (None, name("nowhere"), made.receipts[-1].link_hash):
        decision = made.decide(Fake("other", previous, 2))
        assert (decision.outcome, decision.position) == (Outcome.FORK, 2)


def test_a_number_before_the_start_claims_the_start() -> None:
    made = chain(3, numbered=True, start=10)
    decision = made.decide(Fake("early", made.receipts[-1].link_hash, 3, 1, 10))
    assert (decision.outcome, decision.position) == (Outcome.FORK, 0)


def test_a_second_genesis_without_number_claims_the_start() -> None:
    made = chain(3, numbered=False)
    decision = made.decide(Fake("second genesis"))
    assert (decision.outcome, decision.position) == (Outcome.FORK, 0)


# What is ahead


def test_next_in_number_but_linked_elsewhere_is_a_broken_link() -> None:
    made = chain(3, numbered=True)
    head = made.receipts[-1].link_hash
    for previous in (None, name("nowhere"), made.receipts[0].link_hash):
        decision = made.decide(follower(made, "next", previous=previous))
        assert (decision.outcome, decision.position) == (Outcome.BROKEN_LINK, 3)
        assert decision.expected == head
        assert digest(head) in decision.detail
        assert ("none" if previous is None else digest(previous)) in decision.detail


@pytest.mark.parametrize("ahead", [2, 3, 2**53 - 3])
def test_linked_but_ahead_in_number_is_a_wrong_sequence(ahead: int) -> None:
    made = chain(3, numbered=True)
    decision = made.decide(follower(made, "next", sequence=2 + ahead))
    assert (decision.outcome, decision.position) == (Outcome.WRONG_SEQUENCE, 3)
    assert decision.expected == made.receipts[-1].link_hash
    assert f"sequence 3 is expected next, got {2 + ahead}" in decision.detail


@pytest.mark.parametrize("number", [0, 8, 11, 19, 21, 29, 31])
def test_a_number_between_two_steps_claims_no_position(number: int) -> None:
    made = chain(3, numbered=True, step=10)  # 0, 10, 20
    linked = made.decide(follower(made, "next", sequence=number))
    if number == 0:
        assert linked.outcome is Outcome.FORK
        return
    assert (linked.outcome, linked.position) == (Outcome.WRONG_SEQUENCE, 3)
    stray = made.decide(follower(made, "next", sequence=number, previous=name("nowhere")))
    assert (stray.outcome, stray.position) == (Outcome.GAP, 3)
    assert "not in the chain" in stray.detail


def test_ahead_in_number_and_linked_to_what_is_missing_is_a_gap() -> None:
    made = chain(3, numbered=True)
    decision = made.decide(follower(made, "later", sequence=5, previous=name("missing")))
    assert (decision.outcome, decision.position) == (Outcome.GAP, 3)
    assert decision.expected == made.receipts[-1].link_hash
    assert "claims position 5" in decision.detail
    assert "not in the chain" not in decision.detail


def test_without_numbers_a_link_to_what_is_missing_is_a_gap() -> None:
    made = chain(3, numbered=False)
    decision = made.decide(follower(made, "later", previous=name("missing")))
    assert (decision.outcome, decision.position) == (Outcome.GAP, 3)
    assert decision.expected == made.receipts[-1].link_hash
    assert f"names {digest(name('missing'))}, not in the chain" in decision.detail


def test_a_first_number_after_an_unnumbered_head_claims_nothing_of_its_own() -> None:
    made = chain(3, numbered=False)
    decision = made.decide(Fake("x", made.receipts[0].link_hash, 99))
    assert (decision.outcome, decision.position) == (Outcome.FORK, 1)


# Refusals as errors


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.GAP, Reason.GAP),
        (Outcome.FORK, Reason.FORK),
        (Outcome.BROKEN_LINK, Reason.BROKEN_LINK),
        (Outcome.WRONG_SEQUENCE, Reason.WRONG_SEQUENCE),
    ],
)
def test_a_refusal_is_an_error_with_its_reason(outcome: Outcome, reason: Reason) -> None:
    error = Decision(outcome, 3, None, "words").error()
    assert isinstance(error, ReceiptError)
    assert (error.reason, error.message) == (reason, "words")


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.DUPLICATE])
def test_what_is_not_refused_is_no_error(outcome: Outcome) -> None:
    with pytest.raises(ValueError, match=outcome.value):
        Decision(outcome, 3).error()


# Real receipts


@pytest.mark.parametrize("agent", [Agent(), FarleyAgent()], ids=["lesson-18", "farley"])
def test_real_receipts(agent: Agent) -> None:
    raws = agent.receipts(4)
    made = Chain([read(raw) for raw in raws[:3]])
    outcomes = {
        "next": raws[3],
        "again": raws[1],
        "respelled": respelled(raws[1]),
        "fork": agent.receipt(1, link(raws[0]), note="other"),
        "gap": agent.receipts(2, after=raws[3])[1],
    }
    decided = {name: made.decide(read(raw)) for name, raw in outcomes.items()}
    assert {name: (d.outcome, d.position) for name, d in decided.items()} == {
        "next": (Outcome.ACCEPTED, 3),
        "again": (Outcome.DUPLICATE, 1),
        "respelled": (Outcome.DUPLICATE, 1),
        "fork": (Outcome.FORK, 1),
        "gap": (Outcome.GAP, 3),
    }
    assert decided["fork"].expected == hashlib.sha256(raws[1]).digest()


@pytest.mark.parametrize("rule", ["v1-prehash", "v2-direct"])
@pytest.mark.parametrize(
    ("case", "outcomes"),
    [
        ("03-chain", ["accepted"] * 3),
        ("03b-chain-gap", ["accepted", "gap"]),
        ("03c-chain-resigned-middle", ["accepted", "accepted", "broken_link"]),
        ("03d-chain-tail-cut", ["accepted", "accepted"]),
    ],
)
def test_published_chains(vectors: Path, rule: str, case: str, outcomes: list[str]) -> None:
    file = vectors / "receipts" / "ms-lesson18" / "rebuilt" / f"{rule}-{case}.json"
    made, came = Chain(), []
    for value in json.loads(file.read_bytes()):
        receipt = read(json.dumps(value).encode())
        decision = made.decide(receipt)
        came.append(decision.outcome.value)
        if decision.outcome is Outcome.ACCEPTED:
            made.receipts.append(receipt)
    assert came == outcomes
