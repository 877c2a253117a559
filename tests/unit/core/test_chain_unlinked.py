"""Formats without links: the ledger gives the order, a number of their own is asked, content is once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from receiptledger.core.chain import Decision, Head, Outcome, follows
from tests.unit.core.test_chain import Chain, Fake, chain, name

if TYPE_CHECKING:
    from receiptledger.core.receipt import Receipt


@dataclass
class Bare(Fake):
    """A receipt of a format without links."""

    linked: bool = False


class BareChain(Chain):
    @property
    def head(self) -> Head | None:
        head = super().head
        if head is not None:
            head.linked = cast("Bare", self.receipts[-1]).linked
        return head


def bare_chain(count: int, *, start: int | None = None, step: int = 1) -> BareChain:
    made = BareChain()
    for position in range(count):
        number = None if start is None else start + position * step
        made.receipts.append(Bare(f"r{position}", None, number, step, start or 0))
    return made


def test_any_new_content_gets_the_next_position() -> None:
    made = BareChain()
    for text in ("a", "b", "c"):
        assert made.decide(Bare(text)) == Decision(Outcome.ACCEPTED, len(made.receipts))
        made.receipts.append(Bare(text))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("start", [None, 4], ids=["bare", "numbered"])
def test_the_same_content_anywhere_is_a_duplicate(position: int, start: int | None) -> None:
    made = bare_chain(3, start=start)
    there = cast("Bare", made.receipts[position])
    again = Bare("another spelling", None, there.sequence, content=there.text)
    assert made.decide(there) == Decision(Outcome.DUPLICATE, position)
    assert made.decide(again) == Decision(Outcome.DUPLICATE, position)


def test_content_that_is_only_someones_receipt_hash_is_no_duplicate() -> None:
    made = bare_chain(2)

    class Odd(Bare):
        @property
        def content_hash(self) -> bytes:
            return made.receipts[0].receipt_hash

    assert made.position_of(Odd("odd").content_hash) == 0
    assert made.decide(Odd("odd")) == Decision(Outcome.ACCEPTED, 2)


def test_without_a_number_nothing_is_ever_refused() -> None:
    made = bare_chain(3)
    texts = ("r0 again, other words", "x", "r2 other")
    assert {made.decide(Bare(text)).outcome for text in texts} == {Outcome.ACCEPTED}


@pytest.mark.parametrize(
    ("number", "outcome", "position"),
    [
        (40, Outcome.ACCEPTED, 3),
        (50, Outcome.GAP, 3),
        (2**53 - 4, Outcome.WRONG_SEQUENCE, 3),
        (45, Outcome.WRONG_SEQUENCE, 3),
        (35, Outcome.WRONG_SEQUENCE, 3),
        (30, Outcome.FORK, 2),
        (20, Outcome.FORK, 1),
        (10, Outcome.FORK, 0),
        (0, Outcome.FORK, 0),
    ],
)
def test_a_number_is_asked_where_the_format_has_one(
    number: int, outcome: Outcome, position: int
) -> None:
    made = bare_chain(3, start=10, step=10)  # 10, 20, 30
    decision = made.decide(Bare("new", None, number, 10, 10))
    assert (decision.outcome, decision.position) == (outcome, position)
    taken = outcome is Outcome.FORK
    assert decision.expected == (made.receipts[position].receipt_hash if taken else None)
    if outcome in (Outcome.GAP, Outcome.WRONG_SEQUENCE):
        assert decision.detail == f"sequence 40 is expected next, got {number}"


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (4, Outcome.ACCEPTED),
        (6, Outcome.GAP),
        (2, Outcome.WRONG_SEQUENCE),
        (5, Outcome.WRONG_SEQUENCE),
    ],
)
def test_a_first_receipt_that_is_ahead_has_a_gap_before_it(number: int, outcome: Outcome) -> None:
    decision = BareChain().decide(Bare("first", None, number, 2, 4))
    assert (decision.outcome, decision.position, decision.expected) == (outcome, 0, None)
    if outcome is not Outcome.ACCEPTED:
        assert f"starts at sequence 4, got {number}" in decision.detail


@pytest.mark.parametrize("number", [None, 7])
def test_numbers_are_not_compared_with_those_of_another_format(number: int | None) -> None:
    bare, numbered = bare_chain(2), bare_chain(2, start=0)
    assert bare.decide(Bare("x", None, number)) == Decision(Outcome.ACCEPTED, 2)
    assert numbered.decide(Bare("x", None, None)) == Decision(Outcome.ACCEPTED, 2)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_chain_with_links_keeps_them(numbered: bool) -> None:
    made = chain(3, numbered=numbered)
    decision = made.decide(Bare("bare", None, 3 if numbered else None))
    assert (decision.outcome, decision.position) == (Outcome.BROKEN_LINK, 3)
    assert decision.expected == made.receipts[-1].link_hash
    assert "this chain have links, and the format of this one has none" in decision.detail


@pytest.mark.parametrize("previous", [None, name("nowhere"), "head", "first"])
@pytest.mark.parametrize("number", [None, 0, 2, 9])
def test_a_chain_without_links_gets_none_later(
    previous: bytes | str | None, number: int | None
) -> None:
    # Not even by a link to the hash that stands for one, and no fork: its receipts claim no place.
    made = bare_chain(3)
    if isinstance(previous, str):
        previous = made.receipts[-1 if previous == "head" else 0].link_hash
    linked = Fake("linked", previous, number)
    head = cast("Head", made.head)
    assert not follows(head, cast("Receipt", linked))
    decision = made.decide(linked)
    assert (decision.outcome, decision.position, decision.expected) == (
        Outcome.BROKEN_LINK,
        3,
        None,
    )
    assert "this chain have no links, and the format of this one has them" in decision.detail


def test_the_quick_answer_never_takes_a_receipt_without_links() -> None:
    made = bare_chain(2, start=0)
    following = Bare("next", None, 2)
    assert made.decide(following).outcome is Outcome.ACCEPTED
    assert not follows(cast("Head", made.head), cast("Receipt", following))
