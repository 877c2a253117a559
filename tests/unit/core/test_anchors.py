"""Bounds in time from the timestamps of a bundle: right, agreed on by a quorum, and never inverted."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.anchor_bounds import CLOCK_ALLOWANCE, not_after, not_before
from receiptledger.core.anchor_stamps import Outcome, Stamp
from receiptledger.core.anchors import judge_anchors
from receiptledger.core.errors import Reason
from receiptledger.core.instants import format_instant
from receiptledger.core.timestamp import TsaTrust, verify_response
from receiptledger.core.trust import Trust
from receiptledger.core.verdict import Status
from receiptledger.core.verify import verify_bundle
from tests.helpers import tsa_forge as forge
from tests.helpers.anchored import (
    AFTER,
    ALPHA,
    BEFORE,
    BETA,
    AnchoredWorld,
    timestamps,
)
from tests.helpers.authority import Authority
from tests.helpers.cases import named

if TYPE_CHECKING:
    from receiptledger.core.verdict import Verdict

GAMMA = Authority("gamma")
ALPHA_TOO = Authority("alpha-2", operator="alpha")
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
UPPER, LOWER = format_instant(AFTER + SECOND), format_instant(BEFORE - SECOND)


def bounds(verdict: Verdict) -> tuple[str | None, str | None]:
    return verdict.facts["not_before"], verdict.facts["not_after"]


def outcomes(verdict: Verdict) -> list[str]:
    return [stamp["outcome"] for stamp in verdict.to_dict()["timestamps"]]


# Good bundles


def test_a_receipt_between_two_rounds_of_stamps() -> None:
    verdict = AnchoredWorld.made().verify()
    assert timestamps(verdict).status is Status.PASS
    assert (verdict.exit_code, verdict.result) == (0, "valid")
    facts = {name: verdict.facts[name] for name in list(verdict.facts)[-6:]}
    assert facts == {
        "state": "anchored",
        "not_after": UPPER,
        "anchored_by": ["alpha", "beta"],
        "not_before": LOWER,
        "preceded_by": ["alpha", "beta"],
        "claimed_time_within_bounds": True,
    }
    assert outcomes(verdict) == ["holds"] * 4
    assert "2 authorities agree, 1 asked for" in timestamps(verdict).detail
    assert "4 tokens with revocation unknown" in timestamps(verdict).detail


def test_the_report_lists_every_stamp() -> None:
    world = AnchoredWorld.made(ALPHA)
    first, second = world.verify().to_dict()["timestamps"]
    assert first["precedes"]
    assert not first["covers"]
    assert second["covers"]
    assert not second["precedes"]
    assert second == {
        "tree_size": 3,
        "leaf_index": 3,
        "logged_as": "alpha",
        "outcome": "holds",
        "covers": True,
        "precedes": False,
        "tsa": "alpha",
        "authority": "alpha",
        "earliest": format_instant(AFTER - SECOND),
        "gen_time": format_instant(AFTER),
        "latest": format_instant(AFTER + SECOND),
        "policy": "1.3.6.1.4.1.57264.99.1",
        "serial": second["serial"],
        "revocation": "unknown",
        "warnings": [],
        "cause": None,
        "detail": None,
    }


def test_the_same_input_gives_the_same_report() -> None:
    data = AnchoredWorld.made().bundle().encode()
    world = AnchoredWorld.made()
    assert len({verify_bundle(data, world.trust()).to_json() for _ in range(3)}) == 1


def test_stamps_at_many_sizes_give_the_tightest_bounds() -> None:
    world = AnchoredWorld.made(ALPHA)
    for minutes in (10, 20):
        world.round(AFTER + minutes * MINUTE, ALPHA, BETA)
    verdict = world.verify()
    assert bounds(verdict) == (LOWER, UPPER)


@pytest.mark.parametrize(
    ("accuracy", "width"),
    named(
        {
            "none means a second": (b"", SECOND),
            "as given": (forge.accuracy(0, 250, None), timedelta(milliseconds=250)),
            "wide": (forge.accuracy(59, None, None), timedelta(seconds=59)),
        }
    ),
)
def test_bounds_are_as_wide_as_the_tokens_accuracy(accuracy: bytes, width: timedelta) -> None:
    world = AnchoredWorld.empty()
    world.round(BEFORE, ALPHA, info={"accuracy": accuracy})
    world.seal()
    world.round(AFTER, ALPHA, info={"accuracy": accuracy})
    assert bounds(world.verify()) == (
        format_instant(BEFORE - width),
        format_instant(AFTER + width),
    )


def test_a_stamp_over_the_empty_log_precedes_everything() -> None:
    world = AnchoredWorld()
    world.round(BEFORE, ALPHA)
    world.add_key()
    world.seal()
    world.round(AFTER, ALPHA)
    assert world.stamps[0].size == 0
    assert bounds(world.verify()) == (LOWER, UPPER)
    bundle = world.bundle()
    first = replace(bundle.anchors[0], consistency=(bytes(32),))
    verdict = world.verify(replace(bundle, anchors=(first, *bundle.anchors[1:])))
    assert timestamps(verdict).reason is Reason.BAD_PROOF


# Nothing to show


def test_without_stamps_there_is_no_proof_of_time() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(replace(world.bundle(), anchors=()))
    assert timestamps(verdict).status is Status.NOT_CHECKED
    assert timestamps(verdict).detail == "no timestamp tokens in this bundle: no proof of time"
    assert (verdict.exit_code, verdict.facts["state"]) == (0, "sealed")
    assert bounds(verdict) == (None, None)


def test_without_authorities_nothing_is_verified() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(trust=Trust((world.log.signer.verifier,)))
    assert timestamps(verdict).status is Status.NOT_CHECKED
    assert timestamps(verdict).detail.startswith("4 tokens, not verified: no timestamp authority")
    assert (verdict.exit_code, verdict.facts["state"]) == (0, "sealed")
    assert outcomes(verdict) == ["not trusted"] * 4
    assert {stamp["cause"] for stamp in verdict.to_dict()["timestamps"]} == {"unknown_tsa"}


def test_a_receipt_newer_than_every_stamp_has_only_a_lower_bound() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(world.bundle(*world.stamps[:2]))
    assert timestamps(verdict).status is Status.NOT_CHECKED
    assert timestamps(verdict).detail.startswith("no timestamp covers this receipt yet")
    assert bounds(verdict) == (LOWER, None)
    assert verdict.facts["claimed_time_within_bounds"] is None
    assert (verdict.exit_code, verdict.facts["state"]) == (0, "sealed")
    demanding = world.trust(require=frozenset({"anchor", "claimed-time"}))
    verdict = world.verify(world.bundle(*world.stamps[:2]), demanding)
    assert (verdict.lacking, verdict.exit_code) == (["anchor", "claimed-time"], 3)


def test_a_receipt_older_than_every_stamp_has_only_an_upper_bound() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(world.bundle(*world.stamps[2:]))
    assert timestamps(verdict).status is Status.PASS
    assert bounds(verdict) == (None, UPPER)
    assert verdict.facts["claimed_time_within_bounds"] is True


def test_the_times_of_a_receipt_that_is_not_in_the_log_are_not_told() -> None:
    world = AnchoredWorld.made()
    bundle = world.bundle()
    verdict = world.verify(replace(bundle, head=replace(bundle.head, proof=())))
    assert verdict.exit_code == 1
    assert bounds(verdict) == (None, None)
    assert verdict.facts["anchored_by"] == verdict.facts["preceded_by"] == []
    assert verdict.facts["claimed_time_within_bounds"] is None


def test_without_the_checkpoint_no_stamp_is_judged() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(trust=Trust((), tsas=(ALPHA.trust,)))
    assert timestamps(verdict).status is Status.NOT_CHECKED
    assert timestamps(verdict).detail == "the checkpoint is not trusted"
    assert verdict.to_dict()["timestamps"] == []
    assert "not_after" not in verdict.facts


def test_an_unreadable_receipt_still_has_bounds_of_its_leaf() -> None:
    world = AnchoredWorld.made()
    bundle = world.bundle()
    verdict = world.verify(replace(bundle, receipt=replace(bundle.receipt, raw=b"x")))
    assert timestamps(verdict).status is Status.PASS
    assert verdict.exit_code == 1
    assert bounds(verdict) == (None, None)


# Whom to believe


def test_authorities_the_auditor_does_not_know_are_listed_and_not_counted() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(trust=world.trust(BETA))
    assert timestamps(verdict).status is Status.PASS
    assert verdict.facts["anchored_by"] == ["beta"]
    assert outcomes(verdict) == ["not trusted", "holds"] * 2
    stranger = verdict.to_dict()["timestamps"][2]
    assert (stranger["logged_as"], stranger["tsa"], stranger["cause"]) == ("alpha", None, "chain")
    assert "1 token not trusted" in timestamps(verdict).detail


def test_only_unknown_authorities_leave_it_open() -> None:
    world = AnchoredWorld.made()
    verdict = world.verify(trust=world.trust(GAMMA))
    assert timestamps(verdict).status is Status.UNKNOWN
    assert (verdict.exit_code, verdict.result) == (3, "undecidable")
    assert bounds(verdict) == (None, None)


def test_names_of_the_logs_operator_decide_nothing() -> None:
    """What the log calls an authority is the operator's affair: the auditor goes by roots."""
    world = AnchoredWorld.empty()
    note = world.log.note()
    request, response = ALPHA.answer(note, BEFORE)
    world.logged(1, note, request, response, "beta")
    world.seal()
    world.round(AFTER, ALPHA)
    verdict = world.verify(trust=world.trust(ALPHA))
    assert timestamps(verdict).status is Status.PASS
    assert verdict.to_dict()["timestamps"][0]["logged_as"] == "beta"
    assert verdict.facts["preceded_by"] == ["alpha"]


def test_roots_are_never_pooled() -> None:
    """A token must satisfy one record entirely: root of one and policy of another is not enough."""
    world = AnchoredWorld.made(ALPHA)
    other_policy = replace(ALPHA.trust, policies=frozenset({"1.2.3"}))
    trust = replace(world.trust(BETA), tsas=(other_policy, BETA.trust))
    verdict = world.verify(trust=trust)
    assert timestamps(verdict).status is Status.UNKNOWN
    assert {stamp["cause"] for stamp in verdict.to_dict()["timestamps"]} <= {"policy", "chain"}


@pytest.mark.parametrize(
    ("changes", "cause"),
    named(
        {
            "another policy": ({"policies": frozenset({"1.2.3"})}, "policy"),
            "another pin": ({"certificate": BETA.tsa.der}, "tsa_pin"),
            "trusted only later": ({"trusted_from": AFTER + DAY}, "trust_window"),
            "no longer trusted": ({"trusted_until": BEFORE - DAY}, "trust_window"),
            "another root": ({"roots": BETA.trust.roots}, "chain"),
        }
    ),
)
def test_what_the_auditor_does_not_accept_is_no_failure(
    changes: dict[str, object], cause: str
) -> None:
    world = AnchoredWorld.made(ALPHA)
    tsa = replace(ALPHA.trust, **changes)  # type: ignore[arg-type]
    verdict = world.verify(trust=replace(world.trust(), tsas=(tsa,)))
    assert timestamps(verdict).status is Status.UNKNOWN
    assert {stamp["cause"] for stamp in verdict.to_dict()["timestamps"]} == {cause}
    both = replace(world.trust(), tsas=(tsa, ALPHA.trust))
    assert timestamps(world.verify(trust=both)).status is Status.PASS


# Quorum


@pytest.mark.parametrize("quorum", [1, 2])
def test_a_quorum_that_is_there(quorum: int) -> None:
    verdict = AnchoredWorld.made().verify(trust=AnchoredWorld.made().trust(tsa_quorum=quorum))
    assert timestamps(verdict).status is Status.PASS
    assert bounds(verdict) == (LOWER, UPPER)


def test_a_quorum_that_is_not_there_leaves_it_open() -> None:
    world = AnchoredWorld.made(ALPHA)
    verdict = world.verify(trust=world.trust(tsa_quorum=2))
    assert timestamps(verdict).status is Status.UNKNOWN
    assert timestamps(verdict).detail.startswith("1 authority agrees, 2 asked for")
    assert bounds(verdict) == (None, None)
    assert verdict.facts["state"] == "sealed"


def test_two_tokens_of_one_authority_are_no_quorum() -> None:
    world = AnchoredWorld.made(ALPHA, ALPHA_TOO)
    trust = world.trust(ALPHA, ALPHA_TOO, tsa_quorum=2)
    verdict = world.verify(trust=trust)
    assert outcomes(verdict) == ["holds"] * 4
    assert timestamps(verdict).status is Status.UNKNOWN
    assert timestamps(verdict).detail.startswith("1 authority agrees, 2 asked for")
    again = AnchoredWorld.empty()
    again.seal()
    for seconds in range(3):
        again.round(AFTER + seconds * SECOND, ALPHA)
    verdict = again.verify(trust=again.trust(tsa_quorum=2))
    assert timestamps(verdict).status is Status.UNKNOWN


def test_one_token_never_counts_for_two_authorities() -> None:
    """Two records of the auditor accept it: it counts for the first alone."""
    world = AnchoredWorld.made(ALPHA)
    twin = replace(ALPHA.trust, name="twin", authority="somebody else")
    verdict = world.verify(trust=replace(world.trust(tsa_quorum=2), tsas=(ALPHA.trust, twin)))
    assert timestamps(verdict).status is Status.UNKNOWN
    assert {stamp["tsa"] for stamp in verdict.to_dict()["timestamps"]} == {"alpha"}


def lying(at: dict[str, tuple[timedelta, timedelta]], quorum: int) -> Verdict:
    """Three authorities; each says (before, after) with these offsets from the truth."""
    world = AnchoredWorld.empty()
    for authority in (ALPHA, BETA, GAMMA):
        world.stamp(BEFORE + at.get(authority.name, (DAY * 0,) * 2)[0], authority)
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    for authority in (ALPHA, BETA, GAMMA):
        request, response = authority.answer(
            note, AFTER + at.get(authority.name, (DAY * 0,) * 2)[1]
        )
        world.logged(size, note, request, response, authority.name)
    return world.verify(trust=world.trust(ALPHA, BETA, GAMMA, tsa_quorum=quorum))


@pytest.mark.parametrize("liar", ["alpha", "beta", "gamma"])
@pytest.mark.parametrize("quorum", [2, 3])
def test_one_liar_cannot_move_a_bound_beyond_an_honest_one(liar: str, quorum: int) -> None:
    """With a quorum of 2, what one authority alone says moves neither bound past the truth."""
    for before, after in itertools.product((-DAY, DAY * 0, MINUTE), (-MINUTE, DAY * 0, DAY)):
        verdict = lying({liar: (before, after)}, quorum)
        assert timestamps(verdict).status is Status.PASS, (before, after)
        lower, upper = bounds(verdict)
        assert lower is not None
        assert upper is not None
        assert lower <= LOWER  # never later than the truth: nothing is called too young
        assert upper >= UPPER  # never earlier than the truth: nothing is backdated


def test_a_backdating_authority_moves_the_bound_where_the_auditor_trusts_it_alone() -> None:
    """Why two operators: a quorum of 1 believes the earliest."""
    verdict = lying({"alpha": (-DAY, -MINUTE)}, 1)
    assert bounds(verdict)[1] == format_instant(AFTER - MINUTE + SECOND)


@pytest.mark.parametrize("quorum", [1, 2])
def test_bounds_that_contradict_each_other_are_a_failure(quorum: int) -> None:
    """Never inverted silently: as many liars as the quorum make the evidence false, and it is said."""
    liars = ("alpha", "beta")[:quorum]
    verdict = lying(dict.fromkeys(liars, (timedelta(), -DAY)), quorum)
    found = timestamps(verdict)
    assert (found.status, found.reason) == (Status.FAIL, Reason.BAD_TIMESTAMP)
    assert "contradict each other" in found.detail
    assert (bounds(verdict), verdict.exit_code) == ((None, None), 1)


def test_equal_bounds_are_no_contradiction() -> None:
    """The same second, with the accuracy of a second each way."""
    gap = AFTER - BEFORE
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    world.stamp(AFTER - gap - 2 * SECOND, ALPHA)
    verdict = world.verify()
    assert timestamps(verdict).status is Status.PASS
    assert bounds(verdict)[0] == bounds(verdict)[1]
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    world.stamp(BEFORE - 3 * SECOND, ALPHA)
    assert timestamps(world.verify()).status is Status.FAIL


@st.composite
def claims(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, bool]]]:
    """A quorum, and what (operator, seconds, honest) say of one moment; fewer liars than the quorum."""
    operators = draw(st.integers(1, 5))
    quorum = draw(st.integers(1, operators))
    liars = draw(st.sets(st.integers(0, operators - 1), max_size=quorum - 1))
    said = st.tuples(st.integers(0, operators - 1), st.integers(-1_000, 1_000))
    stamps = [
        (f"operator {who}", seconds if who in liars else abs(seconds), who not in liars)
        for who, seconds in draw(st.lists(said, max_size=12))
    ]
    return quorum, stamps


@given(claims())
def test_fewer_liars_than_the_quorum_move_no_bound_past_the_truth(
    case: tuple[int, list[tuple[str, int, bool]]],
) -> None:
    """Covering stamps of honest authorities are at or after the truth, preceding ones at or before."""
    quorum, said = case
    token = verify_response(*EXAMPLE, ALPHA.trust)

    def stamps(sign: int) -> list[Stamp]:
        return [
            Stamp(
                note=b"",
                request=b"",
                response=b"",
                size=1,
                index=1,
                logged_as="x",
                outcome=Outcome.HOLDS,
                tsa=TsaTrust(f"name {at}", operator, ()),
                timestamp=replace(token, gen_time=AFTER + sign * timedelta(seconds=seconds)),
            )
            for at, (operator, seconds, _) in enumerate(said)
        ]

    upper, lower = not_after(stamps(1), quorum), not_before(stamps(-1), quorum)
    enough = len({operator for operator, _, _ in said}) >= quorum
    assert (upper is not None) == (lower is not None) == enough
    if upper is not None and lower is not None:
        assert upper >= AFTER + SECOND
        assert lower <= AFTER - SECOND


EXAMPLE = (ALPHA.answer(b"x", AFTER)[1], b"x")


# The receipt's own time


@pytest.mark.parametrize(
    ("before", "after", "fits", "words"),
    named(
        {
            "within": (BEFORE, AFTER, True, ""),
            "after it existed": (
                BEFORE,
                BEFORE + 5 * MINUTE,
                False,
                "claims 2026-11-30T10:00:00Z, which is after it existed",
            ),
            "before it can have been appended": (
                AFTER,
                AFTER + MINUTE,
                False,
                "claims 2026-11-30T10:00:00Z, which is before it can have been appended",
            ),
        }
    ),
)
def test_a_claimed_time_outside_the_bounds_is_flagged(
    before: object, after: object, fits: bool, words: str
) -> None:
    world = AnchoredWorld.empty()
    world.stamp(before, ALPHA)  # type: ignore[arg-type]
    world.seal()
    world.stamp(after, ALPHA)  # type: ignore[arg-type]
    verdict = world.verify()
    assert timestamps(verdict).status is Status.PASS
    assert verdict.facts["claimed_time_within_bounds"] is fits
    assert words in timestamps(verdict).detail
    assert verdict.exit_code == 0  # flagged, not failed: the signer's clock may be wrong
    strict = world.verify(trust=world.trust(require=frozenset({"claimed-time"})))
    assert strict.exit_code == (0 if fits else 3)
    assert strict.lacking == ([] if fits else ["claimed-time"])


def test_a_receipt_without_a_time_claims_nothing() -> None:
    world = AnchoredWorld.made()
    for claimed in (None, "", "2026-12-31T23:59:60Z", "yesterday"):
        found = judge_anchors(world.bundle(), world.log.checkpoint(), world.trust(), claimed)
        assert found.check.status is Status.PASS
        assert found.claim_fits is None


# The moment of judging


FUTURE = AFTER + 365 * DAY


def at(moment: datetime | None, before: datetime, after: datetime, *more: datetime) -> Verdict:
    """Alpha says `before` and `after`, beta the same or others, judged at a moment by a quorum of 1."""
    world = AnchoredWorld.empty()
    others = more or (before, after)
    world.stamp(before, ALPHA)
    world.stamp(others[0], BETA)
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    for authority, time in ((ALPHA, after), (BETA, others[1])):
        world.logged(size, note, *authority.answer(note, time), authority.name)
    return world.verify(trust=replace(world.trust(), moment=moment))


def test_covering_tokens_from_the_future_do_not_count() -> None:
    """Nobody can have been given them yet: they show a wrong clock, and nothing to exist."""
    verdict = at(AFTER + DAY, BEFORE, FUTURE)
    assert timestamps(verdict).status is Status.UNKNOWN
    assert outcomes(verdict) == ["holds", "holds", "from the future", "from the future"]
    assert (
        "0 authorities agree, 1 asked for; 2 tokens from the future" in timestamps(verdict).detail
    )
    assert bounds(verdict) == (LOWER, None)
    assert verdict.facts["anchored_by"] == []
    assert verdict.facts["state"] == "sealed"
    assert verdict.exit_code == 3


def test_one_covering_token_from_the_future_leaves_the_other() -> None:
    verdict = at(AFTER + DAY, BEFORE, FUTURE, BEFORE, AFTER)
    assert timestamps(verdict).status is Status.PASS
    assert "1 token from the future" in timestamps(verdict).detail
    assert (bounds(verdict)[1], verdict.facts["anchored_by"]) == (UPPER, ["beta"])


@pytest.mark.parametrize(
    ("before", "after"),
    named({"and covered by such": (FUTURE, FUTURE + MINUTE), "alone": (FUTURE, AFTER)}),
)
def test_appended_after_the_moment_of_judging_is_a_contradiction(
    before: datetime, after: datetime
) -> None:
    verdict = at(AFTER + DAY, before, after)
    found = timestamps(verdict)
    assert (found.status, found.reason) == (Status.FAIL, Reason.BAD_TIMESTAMP)
    assert found.detail.startswith("time from the future: appended no earlier than 2027-11-30")
    assert found.detail.endswith(f"but judged as of {format_instant(AFTER + DAY)}")
    assert (bounds(verdict), verdict.exit_code) == ((None, None), 1)
    # As long as time does not matter, it does not matter.
    assert timestamps(at(None, FUTURE, FUTURE + MINUTE)).status is Status.PASS


@pytest.mark.parametrize(
    ("behind", "future"),
    named(
        {
            "a little behind": (CLOCK_ALLOWANCE - SECOND, False),
            "as far as is allowed": (CLOCK_ALLOWANCE, False),
            "further": (CLOCK_ALLOWANCE + SECOND, True),
        }
    ),
)
def test_the_auditors_clock_may_be_a_little_behind(behind: timedelta, future: bool) -> None:
    """Counted from the earliest that the token's accuracy allows."""
    moment = AFTER - SECOND - behind
    verdict = at(moment, BEFORE, AFTER)
    assert timestamps(verdict).status is (Status.UNKNOWN if future else Status.PASS)
    moment = BEFORE - SECOND - behind
    verdict = at(moment, BEFORE, BEFORE + SECOND)
    assert (timestamps(verdict).status is Status.FAIL) is future


def test_a_moment_at_the_ends_of_the_calendar() -> None:
    last, first = (end.replace(tzinfo=UTC) for end in (datetime.max, datetime.min))  # noqa: DTZ901
    assert timestamps(at(last, BEFORE, AFTER)).status is Status.EXPIRED
    assert timestamps(at(first, BEFORE, AFTER)).status is Status.FAIL


# Who is behind a bound


@pytest.mark.parametrize(
    ("quorum", "names", "words", "upper"),
    named(
        {
            "one": (1, ["alpha"], "1 authority agrees, 1 asked for; 2 more stamped it later", -DAY),
            "two": (2, ["alpha", "beta"], "2 authorities agree, 2 asked for; 1 more", MINUTE * 0),
            "three": (3, ["alpha", "beta", "gamma"], "3 authorities agree, 3 asked for; 3 to", DAY),
        }
    ),
)
def test_only_who_says_it_is_named_for_the_upper_bound(
    quorum: int, names: list[str], words: str, upper: timedelta
) -> None:
    verdict = only_covering({"alpha": -DAY, "gamma": DAY}, quorum)
    assert bounds(verdict)[1] == format_instant(AFTER + upper + SECOND)
    assert verdict.facts["anchored_by"] == names
    assert words in timestamps(verdict).detail


def only_covering(at: dict[str, timedelta], quorum: int) -> Verdict:
    """Three authorities stamp a receipt, with these offsets; nothing precedes it."""
    world = AnchoredWorld.empty()
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    for authority in (ALPHA, BETA, GAMMA):
        time = AFTER + at.get(authority.name, DAY * 0)
        world.logged(size, note, *authority.answer(note, time), authority.name)
    trust = world.trust(ALPHA, BETA, GAMMA, tsa_quorum=quorum)
    return world.verify(trust=replace(trust, moment=AFTER + 9 * DAY))


def test_only_who_says_it_is_named_for_the_lower_bound() -> None:
    for quorum, names in ((1, ["gamma"]), (2, ["beta", "gamma"]), (3, ["alpha", "beta", "gamma"])):
        verdict = lying({"alpha": (-DAY, DAY * 0), "gamma": (MINUTE, DAY * 0)}, quorum)
        assert verdict.facts["preceded_by"] == names


def test_a_later_stamp_of_the_same_authority_is_no_other_one() -> None:
    world = AnchoredWorld.made(ALPHA)
    world.round(AFTER + MINUTE, ALPHA)
    verdict = world.verify()
    assert verdict.facts["anchored_by"] == ["alpha"]
    assert timestamps(verdict).detail.startswith("1 authority agrees, 1 asked for; 3 tokens with")


def test_a_trust_is_what_it_says() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Trust((), tsa_quorum=0)
    with pytest.raises(ValueError, match="no offset"):
        Trust((), moment=AFTER.replace(tzinfo=None))


def test_outcomes_are_a_closed_list() -> None:
    assert {outcome.value for outcome in Outcome} == {
        "holds",
        "renewed",
        "expired, not renewed",
        "from the future",
        "not trusted",
        "revoked",
        "bad",
    }
