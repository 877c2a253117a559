"""Intents and outcomes put together, and what is wrong with those that do not fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core import pairing
from receiptledger.core.pairing import Fault, Pairing, claimed_time, pair
from receiptledger.core.receipt_types import Pair
from tests.helpers.bare_receipt import bare_receipt

if TYPE_CHECKING:
    from receiptledger.core.receipt_types import Receipt

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def intent(
    name: str, agent: str = "buyer", minutes: float | None = 0, salt: str = "", **members: Any
) -> Receipt:
    time = None if minutes is None else at(minutes)
    raw = f"intent {name} {agent} {time} {salt}".encode()
    members = {"profile": "p", "time": time, **members}
    return bare_receipt(raw, agent=agent, pair=Pair("intent", name, None), **members)


def outcome(
    ref: str,
    agent: str = "seller",
    minutes: float | None = 1,
    salt: str = "",
    own: str | None = None,
    **members: Any,
) -> Receipt:
    time = None if minutes is None else at(minutes)
    raw = f"outcome {ref} {agent} {time} {salt}".encode()
    members = {"profile": "p", "time": time, **members}
    return bare_receipt(
        raw, agent=agent, pair=Pair("outcome", own or f"of {ref}{salt}", ref), **members
    )


def names(found: Pairing) -> list[tuple[str, str]]:
    return [(one.intent.raw.decode()[7:8], one.outcome.raw.decode()[8:9]) for one in found.pairs]


def faults(found: Pairing) -> list[Fault]:
    return [finding.fault for finding in found.findings]


def test_each_outcome_finds_its_intent() -> None:
    receipts = [intent("a"), intent("b"), outcome("b"), intent("c"), outcome("a", minutes=7)]
    found = pair(receipts)
    assert names(found) == [("a", "a"), ("b", "b")]
    assert [one.seconds for one in found.pairs] == [420.0, 60.0]
    assert [one.intent for one in found.unpaired] == [receipts[3]]
    assert found.findings == []
    assert (found.not_listed, found.others) == (0, 0)


def test_nothing_to_pair() -> None:
    assert pair([]) == Pairing()
    plain = bare_receipt(b"plain", "p")
    assert pair([plain, plain]) == Pairing(others=2)


# Unpaired intents and their age.


@pytest.mark.parametrize(
    ("now", "limit", "seconds", "overdue"),
    [
        (None, None, None, False),
        (None, HOUR, None, None),
        (NOON, None, 0.0, False),
        (NOON + HOUR, HOUR, 3600.0, False),
        (NOON + HOUR + timedelta(microseconds=1), HOUR, 3600.000001, True),
        (NOON - HOUR, HOUR, -3600.0, False),
        (NOON.astimezone(timezone(timedelta(hours=5))) + HOUR * 2, HOUR, 7200.0, True),
        (NOON + timedelta(seconds=1), timedelta(0), 1.0, True),
    ],
)
def test_an_intent_that_waits(
    now: datetime | None, limit: timedelta | None, seconds: float | None, overdue: bool | None
) -> None:
    found = pair([intent("a")], now=now, limit=limit)
    (one,) = found.unpaired
    assert (one.seconds, one.overdue) == (seconds, overdue)
    assert found.overdue == ([one] if overdue else [])


@pytest.mark.parametrize("time", [None, "2016-12-31T23:59:60Z", "yesterday"])
def test_an_intent_without_a_readable_time_is_never_said_to_be_in_time(time: str | None) -> None:
    receipt = intent("a", minutes=None)
    receipt.time = time
    assert claimed_time(receipt) is None
    (one,) = pair([receipt], now=NOON, limit=HOUR).unpaired
    assert (one.seconds, one.overdue) == (None, None)


def test_the_moments_may_come_from_the_ledger() -> None:
    receipts = [intent("a", minutes=-600), intent("b", minutes=600), outcome("b", minutes=0)]
    admitted = {receipts[0].raw: NOON, receipts[1].raw: NOON, receipts[2].raw: NOON + HOUR * 3}
    found = pair(receipts, now=NOON + HOUR, limit=HOUR, when=lambda one: admitted[one.raw])
    assert (found.unpaired[0].seconds, found.unpaired[0].overdue) == (3600.0, False)
    assert faults(found) == [Fault.LATE]
    claimed = pair(receipts, now=NOON + HOUR, limit=HOUR)
    assert claimed.unpaired[0].overdue
    assert faults(claimed) == [Fault.OUTCOME_FIRST]


# What does not fit.


def test_the_same_receipt_again() -> None:
    receipts = [intent("a"), intent("a"), outcome("a"), outcome("a")]
    found = pair(receipts)
    assert names(found) == [("a", "a")]
    assert faults(found) == [Fault.REPEATED, Fault.REPEATED]
    assert [(one.receipt, one.other) for one in found.findings] == [
        (receipts[1], receipts[0]),
        (receipts[3], receipts[2]),
    ]


def test_another_spelling_of_one_content_is_the_same_receipt() -> None:
    one = intent("a")
    twin = bare_receipt(b" " + one.raw, "p", "buyer", pair=one.pair, content_hash=one.content_hash)
    assert faults(pair([one, twin])) == [Fault.REPEATED]


def test_two_intents_of_one_id() -> None:
    receipts = [intent("a", salt="1"), intent("a", salt="2"), outcome("a", agent="buyer")]
    found = pair(receipts)
    assert found.pairs[0].intent is receipts[0]
    assert [one.intent for one in found.unpaired] == [receipts[1]]
    (finding,) = found.findings
    assert (finding.fault, finding.receipt, finding.other) == (
        Fault.TWO_INTENTS,
        receipts[1],
        receipts[0],
    )


def test_two_outcomes_for_one_intent() -> None:
    receipts = [intent("a"), outcome("a", salt="1"), outcome("a", salt="2"), outcome("a", salt="3")]
    found = pair(receipts)
    assert found.pairs[0].outcome is receipts[1]
    assert faults(found) == [Fault.TWO_OUTCOMES, Fault.TWO_OUTCOMES]
    assert {one.other and one.other.raw for one in found.findings} == {receipts[1].raw}


def test_an_outcome_before_its_intent() -> None:
    early = pair([outcome("a"), intent("a")])
    assert names(early) == [("a", "a")]
    assert faults(early) == [Fault.OUTCOME_FIRST]
    assert early.findings[0].detail == "it comes before its intent in the list"
    assert faults(pair([outcome("a"), intent("a")], ordered=False)) == []
    claimed = pair([intent("a"), outcome("a", minutes=-2)], ordered=False)
    assert faults(claimed) == [Fault.OUTCOME_FIRST]
    assert claimed.findings[0].detail == "it is 120 s older than its intent"
    assert claimed.pairs[0].seconds == -120.0
    assert faults(pair([outcome("a", minutes=-2), intent("a")])) == [Fault.OUTCOME_FIRST]
    assert faults(pair([intent("a"), outcome("a", minutes=0)])) == []


def test_an_outcome_without_times_is_paired_all_the_same() -> None:
    for receipts in (
        [intent("a", minutes=None), outcome("a")],
        [intent("a"), outcome("a", minutes=None)],
    ):
        found = pair(receipts, now=NOON, limit=timedelta(0))
        assert found.pairs[0].seconds is None
        assert faults(found) == []


def test_an_outcome_after_the_limit() -> None:
    receipts = [intent("a"), outcome("a", minutes=60), intent("b"), outcome("b", minutes=60.5)]
    found = pair(receipts, limit=HOUR)
    assert names(found) == [("a", "a"), ("b", "b")]
    assert faults(found) == [Fault.LATE]
    assert found.findings[0].detail == "it came 3630 s after its intent, at most 3600"


def test_an_outcome_of_an_intent_that_is_not_here() -> None:
    receipts = [intent("a"), outcome("z")]
    found = pair(receipts)
    (finding,) = found.findings
    assert (finding.fault, finding.receipt, finding.other) == (Fault.NO_INTENT, receipts[1], None)
    assert finding.detail == "no intent 'z' is among the receipts"
    assert [one.intent for one in found.unpaired] == [receipts[0]]


def test_an_id_means_nothing_in_another_format() -> None:
    found = pair([intent("a", profile="q"), outcome("a")])
    assert faults(found) == [Fault.NO_INTENT]
    assert len(found.unpaired) == 1


def test_an_outcome_of_an_outcome_or_of_itself() -> None:
    chain = [intent("a"), outcome("a", own="b"), outcome("b", own="c")]
    found = pair(chain)
    (finding,) = found.findings
    assert (finding.fault, finding.receipt, finding.other) == (
        Fault.OF_AN_OUTCOME,
        chain[2],
        chain[1],
    )
    loop = [outcome("x", own="x"), outcome("z", own="y"), outcome("y", own="z")]
    assert faults(pair(loop)) == [Fault.OF_AN_OUTCOME] * 3


# Several signers.


def test_an_id_of_several_chains_belongs_to_the_own_chain_first() -> None:
    receipts = [
        intent("1", "mallory"),
        intent("1", "alice"),
        intent("1", "bob"),
        outcome("1", "bob"),
        outcome("1", "alice"),
        outcome("1", "carol"),
    ]
    found = pair(receipts)
    assert [(one.intent.agent, one.outcome.agent) for one in found.pairs] == [
        ("mallory", "carol"),
        ("alice", "alice"),
        ("bob", "bob"),
    ]
    (finding,) = found.findings
    assert (finding.fault, finding.receipt) == (Fault.AMBIGUOUS, receipts[5])
    assert finding.detail == "intents of 3 chains have the id '1'"


def test_streams_of_one_agent_are_chains_of_their_own() -> None:
    receipts = [
        intent("1", salt="s", stream="s"),
        intent("1", salt="t", stream="t"),
        outcome("1", "buyer", stream="t"),
    ]
    found = pair(receipts)
    assert found.pairs[0].intent is receipts[1]
    assert faults(found) == []


@pytest.mark.parametrize("agent", ["buyer", "seller"])
@pytest.mark.parametrize(
    ("key", "bilateral"), [(b"s" * 32, True), (b"b" * 32, False), (None, None)]
)
def test_keys_tell_two_signers_and_names_do_not(
    agent: str, key: bytes | None, bilateral: bool | None
) -> None:
    receipts = [intent("a", key_hint=b"b" * 32), outcome("a", agent, key_hint=key)]
    assert pair(receipts).pairs[0].bilateral is bilateral
    assert faults(pair(receipts)) == []
    assert faults(pair(receipts, two_signers=["q"])) == []
    wanted = [Fault.ONE_SIGNER] if bilateral is False else []
    assert faults(pair(receipts, two_signers=["p"])) == wanted


def test_who_signed_may_be_known_from_elsewhere() -> None:
    receipts = [intent("a"), outcome("a")]
    assert pair(receipts, two_signers={"p"}).pairs[0].bilateral is None
    keys = {receipts[0].raw: b"1", receipts[1].raw: b"2"}
    assert pair(receipts, signer=lambda one: keys[one.raw]).pairs[0].bilateral is True
    same = pair(receipts, signer=lambda _: b"1", two_signers={"p"})
    assert faults(same) == [Fault.ONE_SIGNER]
    assert same.findings[0].other is receipts[0]


# Bounds, order, hostile text.


def test_findings_are_listed_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MAX_FINDINGS", 5)
    found = pair([outcome("z", salt=str(number)) for number in range(12)])
    assert len(found.findings) == 5
    assert found.not_listed == 7


def test_findings_are_in_the_order_of_the_list() -> None:
    receipts = [
        outcome("z"),
        intent("a"),
        outcome("a"),
        intent("a"),
        outcome("a", salt="2"),
        intent("a", salt="3"),
    ]
    found = pair(receipts)
    assert [one.receipt for one in found.findings] == [receipts[0], *receipts[3:]]
    assert faults(found) == [
        Fault.NO_INTENT,
        Fault.REPEATED,
        Fault.TWO_OUTCOMES,
        Fault.TWO_INTENTS,
    ]


@pytest.mark.parametrize("name", ["<script>", "\x1b[2J", "x" * 250, "a\u202eb"])
def test_hostile_ids_are_escaped_and_cut(name: str) -> None:
    receipts = [
        intent(name),
        intent(name, salt="2"),
        outcome(name, own="o"),
        outcome(name, salt="2"),
        outcome(name + "!"),
        outcome("o", salt=name),
    ]
    found = pair(receipts)
    assert len(found.findings) == 4
    for finding in found.findings:
        assert finding.detail.isascii()
        assert finding.detail.isprintable()
        assert len(finding.detail) < 200


def test_the_cost_grows_with_the_number_of_receipts_only() -> None:
    """One id for all of them, in chains of their own: every outcome is looked up, none searched for."""
    count = 3_000
    receipts = [intent("1", f"agent-{number}") for number in range(count)]
    receipts += [outcome("1", f"agent-{number}") for number in range(count)]
    found = pair(receipts)
    assert len(found.pairs) == count
    assert faults(found) == []


# By chance, against a plain search.

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["intent", "outcome"]),
        st.sampled_from("abc"),
        st.sampled_from(["x", "y"]),
        st.integers(0, 2),
    ),
    max_size=14,
)


@given(EVENTS, st.booleans())
def test_every_receipt_is_accounted_for_once(
    events: list[tuple[str, str, str, int]], ordered: bool
) -> None:
    receipts = [
        (intent if kind == "intent" else outcome)(name, agent, minutes)
        for kind, name, agent, minutes in events
    ]
    found = pair(receipts, ordered=ordered)
    paired = [receipt for one in found.pairs for receipt in (one.intent, one.outcome)]
    waiting = [one.intent for one in found.unpaired]
    alone = (Fault.REPEATED, Fault.TWO_OUTCOMES, Fault.NO_INTENT, Fault.OF_AN_OUTCOME)
    left = [one.receipt for one in found.findings if one.fault in alone]
    accounted = [id(receipt) for receipt in (*paired, *waiting, *left)]
    assert sorted(accounted) == sorted(map(id, receipts))
    for one in found.pairs:
        assert one.intent.pair is not None
        assert one.outcome.pair is not None
        assert one.outcome.pair.ref == one.intent.pair.id
    open_ids = {one.intent.pair and one.intent.pair.id for one in found.unpaired}
    unused = [one.receipt.pair for one in found.findings if one.fault is Fault.NO_INTENT]
    assert not open_ids & {named.ref for named in unused if named is not None}
