"""What timestamps are worth later: revoked certificates, expired ones, renewals, old algorithms."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.instants import format_instant
from receiptledger.core.revocation import RevocationEvidence
from receiptledger.core.trust import Trust
from receiptledger.core.verdict import Status
from tests.helpers import tsa_pki as pki
from tests.helpers.anchored import AFTER, ALPHA, BEFORE, BETA, AnchoredWorld, Logged, timestamps
from tests.helpers.authority import Authority
from tests.helpers.cases import named

if TYPE_CHECKING:
    from receiptledger.core.verdict import Verdict

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
UPPER, LOWER = format_instant(AFTER + SECOND), format_instant(BEFORE - SECOND)
OVER = "valid, but a timestamp expired and was not renewed"
END = ALPHA.end  # 2036
# Authorities of later generations, each living longer.
LATER = Authority("later", end=datetime(2044, 1, 1, tzinfo=UTC))
LATER_TOO = Authority("later-too", end=datetime(2044, 1, 1, tzinfo=UTC))
LAST = Authority("last", end=datetime(2050, 1, 1, tzinfo=UTC))
RENEWED = END - 100 * DAY


def outcomes(verdict: Verdict) -> list[str]:
    return [stamp["outcome"] for stamp in verdict.to_dict()["timestamps"]]


def bounds(verdict: Verdict) -> tuple[str | None, str | None]:
    return verdict.facts["not_before"], verdict.facts["not_after"]


# Revocation


def with_crls(
    revoked: datetime | None, reason: int | None = None, *authorities: Authority
) -> AnchoredWorld:
    """The world where alpha's covering stamp has evidence, and the certificate was revoked or not."""
    world = AnchoredWorld.empty()
    world.seal()
    stamps = world.round(AFTER, *(authorities or (ALPHA,)))
    crls = ALPHA.crls(AFTER + 30 * DAY, revoked, reason)
    world.add_evidence(stamps[0], RevocationEvidence(crls))
    return world


def revocation(verdict: Verdict) -> str | None:
    value: str | None = verdict.to_dict()["timestamps"][0]["revocation"]
    return value


def test_evidence_that_nothing_was_revoked() -> None:
    verdict = with_crls(None).verify()
    assert timestamps(verdict).status is Status.PASS
    assert revocation(verdict) == "good"
    assert timestamps(verdict).detail == "1 authority agrees, 1 asked for"


def test_evidence_by_ocsp() -> None:
    world = AnchoredWorld.empty()
    world.seal()
    stamp = world.stamp(AFTER, ALPHA)
    later = AFTER + DAY
    answers = (
        pki.ocsp([pki.single(ALPHA.tsa, ALPHA.ca, pki.GOOD, this_update=later)], ALPHA.ca),
        pki.ocsp([pki.single(ALPHA.ca, ALPHA.root, pki.GOOD, this_update=later)], ALPHA.root),
    )
    world.add_evidence(stamp, RevocationEvidence((), answers))
    assert revocation(world.verify()) == "good"


def test_evidence_logged_with_the_answer_itself() -> None:
    """When it came before the answer was sealed, one leaf carries both."""
    world = AnchoredWorld.empty()
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    request, response = ALPHA.answer(note, AFTER)
    evidence = RevocationEvidence(ALPHA.crls(AFTER + DAY))
    leaf = replace(
        world.anchor_leaf(size, response, "alpha"),
        evidence=hashlib.sha256(evidence.manifest()).digest(),
    )
    stamp = Logged(size, note, request, response, world.log.add(leaf.encode()), "alpha")
    stamp.evidence = (evidence, stamp.index)
    world.stamps.append(stamp)
    assert revocation(world.verify()) == "good"


REASONS = {
    "no reason": None,
    "unspecified": 0,
    "keyCompromise": 1,
    "cACompromise": 2,
    "affiliationChanged": 3,
    "superseded": 4,
    "cessationOfOperation": 5,
    "privilegeWithdrawn": 9,
    "aACompromise": 10,
}
HARMLESS = {"unspecified", "affiliationChanged", "superseded", "cessationOfOperation"}


@pytest.mark.parametrize("name", REASONS)
def test_revoked_before_the_stamp_is_void(name: str) -> None:
    verdict = with_crls(AFTER - DAY, REASONS[name]).verify()
    assert outcomes(verdict) == ["revoked"]
    assert (timestamps(verdict).status, verdict.exit_code) == (Status.FAIL, 1)
    assert timestamps(verdict).reason is Reason.BAD_TIMESTAMP
    assert "(revoked)" in timestamps(verdict).detail
    assert bounds(verdict) == (None, None)


@pytest.mark.parametrize("name", REASONS)
def test_revoked_after_the_stamp_depends_on_the_reason(name: str) -> None:
    """RFC 3161 section 4: what may have been a stolen key voids all of its tokens."""
    verdict = with_crls(AFTER + DAY, REASONS[name]).verify()
    if name in HARMLESS:
        assert timestamps(verdict).status is Status.PASS
        assert revocation(verdict) == "good, revoked later"
        assert "1 token with revocation good, revoked later" in timestamps(verdict).detail
        assert verdict.to_dict()["timestamps"][0]["warnings"] == ["revoked_later"]
    else:
        assert outcomes(verdict) == ["revoked"]
        assert timestamps(verdict).status is Status.FAIL


def test_a_void_stamp_is_not_counted_and_no_failure_while_another_holds() -> None:
    world = with_crls(AFTER + DAY, 1, ALPHA, BETA)
    verdict = world.verify()
    assert outcomes(verdict) == ["revoked", "holds"]
    assert timestamps(verdict).status is Status.PASS
    assert "1 token revoked" in timestamps(verdict).detail
    assert verdict.facts["anchored_by"] == ["beta"]
    below = world.verify(trust=world.trust(tsa_quorum=2))
    assert timestamps(below).status is Status.UNKNOWN
    assert below.exit_code == 3


def test_a_void_stamp_beside_a_strangers_is_a_failure() -> None:
    world = with_crls(AFTER - DAY, 1, ALPHA, BETA)
    verdict = world.verify(trust=world.trust(ALPHA))
    assert outcomes(verdict) == ["revoked", "not trusted"]
    assert timestamps(verdict).status is Status.FAIL


def test_bad_evidence_is_a_failure() -> None:
    world = AnchoredWorld.made(ALPHA)
    foreign = pki.crl(ALPHA.ca, private=pki.key("p256", 99), this_update=AFTER + DAY)
    world.add_evidence(world.stamps[1], RevocationEvidence((foreign,)))
    verdict = world.verify()
    assert timestamps(verdict).status is Status.FAIL
    assert verdict.to_dict()["timestamps"][1]["cause"] == "evidence"


# Expiry


def expired(*authorities: Authority, at: datetime | None, moment: datetime | None) -> Verdict:
    """Alpha's stamps around the receipt; a later round at a time; judged at a moment."""
    world = AnchoredWorld.made(ALPHA)
    if at is not None:
        world.round(at, *authorities)
    trust = world.trust(ALPHA, BETA, LATER, LATER_TOO, LAST)
    return world.verify(trust=replace(trust, moment=moment))


def test_expired_and_not_renewed_is_its_own_result() -> None:
    verdict = expired(at=None, moment=END + SECOND)
    found = timestamps(verdict)
    assert found.status is Status.EXPIRED
    assert (verdict.exit_code, verdict.result) == (3, OVER)
    assert outcomes(verdict) == ["expired, not renewed"] * 2
    assert found.detail == "0 authorities agree, 1 asked for; 1 token expired, not renewed"
    assert bounds(verdict) == (None, None)
    assert verdict.facts["state"] == "sealed"
    # What it said is still told, as what it was.
    assert verdict.to_dict()["timestamps"][1]["latest"] == UPPER


@pytest.mark.parametrize("moment", [END, END - DAY, AFTER])
def test_not_expired_up_to_the_last_moment(moment: datetime) -> None:
    verdict = expired(at=None, moment=moment)
    assert timestamps(verdict).status is Status.PASS
    assert bounds(verdict) == (LOWER, UPPER)


def test_without_a_moment_expiry_is_left_out() -> None:
    assert timestamps(expired(at=None, moment=None)).status is Status.PASS


def test_expired_and_renewed_keeps_its_bounds() -> None:
    verdict = expired(LATER, at=RENEWED, moment=END + 365 * DAY)
    assert timestamps(verdict).status is Status.PASS
    assert outcomes(verdict) == ["renewed", "renewed", "holds"]
    assert bounds(verdict) == (LOWER, UPPER)
    assert verdict.facts["anchored_by"] == ["alpha"]
    assert "1 authority agrees, 1 asked for; 1 more stamped it later" in timestamps(verdict).detail
    assert verdict.facts["state"] == "anchored"


@pytest.mark.parametrize(
    "at",
    named(
        {
            "a day late": END + DAY,
            "at the end, which may have been after it": END,
            "years late": END + 3000 * DAY,
        }
    ),
)
def test_renewed_too_late_shows_only_the_later_time(at: datetime) -> None:
    """The renewal covers the receipt too, so it has a bound: the renewal's own."""
    verdict = expired(LAST, at=at, moment=at + 365 * DAY)
    assert outcomes(verdict) == ["expired, not renewed"] * 2 + ["holds"]
    assert timestamps(verdict).status is Status.PASS
    assert "1 token expired, not renewed" in timestamps(verdict).detail
    assert bounds(verdict) == (None, format_instant(at + SECOND))


def test_a_renewal_that_has_expired_itself_renews_nothing() -> None:
    verdict = expired(LATER, at=RENEWED, moment=LATER.end + DAY)
    assert outcomes(verdict) == ["expired, not renewed"] * 3
    assert timestamps(verdict).status is Status.EXPIRED


def test_a_renewal_of_a_renewal() -> None:
    world = AnchoredWorld.made(ALPHA)
    world.stamp(RENEWED, LATER)
    world.stamp(LATER.end - 100 * DAY, LAST)
    trust = replace(world.trust(ALPHA, LATER, LAST), moment=LATER.end + 365 * DAY)
    verdict = world.verify(trust=trust)
    assert outcomes(verdict) == ["renewed", "renewed", "renewed", "holds"]
    assert bounds(verdict) == (LOWER, UPPER)
    # Without the one between, the last came too late for the first.
    gap = world.verify(world.bundle(*world.stamps[:2], world.stamps[3]), trust)
    assert outcomes(gap) == ["expired, not renewed"] * 2 + ["holds"]


def test_a_renewal_must_cover_the_leaf_of_what_it_renews() -> None:
    """A stamp over a tree from before the answer was logged says nothing about the answer."""
    world = AnchoredWorld.empty()
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    answers = [(one, *one.answer(note, at)) for one, at in ((ALPHA, AFTER), (LATER, RENEWED))]
    for one, request, response in answers:  # both over the same tree
        world.logged(size, note, request, response, one.name)
    trust = replace(world.trust(ALPHA, LATER), moment=END + DAY)
    verdict = world.verify(trust=trust)
    assert outcomes(verdict) == ["expired, not renewed", "holds"]
    assert bounds(verdict)[1] == format_instant(RENEWED + SECOND)


def test_a_strangers_renewal_renews_nothing() -> None:
    world = AnchoredWorld.made(ALPHA)
    world.stamp(RENEWED, LATER)
    trust = replace(world.trust(ALPHA), moment=END + DAY)
    verdict = world.verify(trust=trust)
    assert outcomes(verdict) == ["expired, not renewed"] * 2 + ["not trusted"]
    assert timestamps(verdict).status is Status.EXPIRED


def test_a_void_renewal_renews_nothing() -> None:
    world = AnchoredWorld.made(ALPHA)
    stamp = world.stamp(RENEWED, LATER)
    crls = LATER.crls(RENEWED + DAY, RENEWED - DAY, 1)
    world.add_evidence(stamp, RevocationEvidence(crls))
    trust = replace(world.trust(ALPHA, LATER), moment=END + DAY)
    verdict = world.verify(trust=trust)
    assert outcomes(verdict) == ["expired, not renewed"] * 2 + ["revoked"]
    assert timestamps(verdict).status is Status.EXPIRED


def test_a_renewal_dated_before_what_it_renews_renews_nothing() -> None:
    """A tree that holds the answer cannot have been stamped before the answer was given."""
    world = AnchoredWorld.empty()
    world.seal()
    world.stamp(AFTER, ALPHA)
    world.stamp(AFTER, LATER)  # the same second is not later
    trust = replace(world.trust(ALPHA, LATER), moment=END + DAY)
    assert outcomes(world.verify(trust=trust)) == ["expired, not renewed", "holds"]


def test_a_renewal_needs_the_quorum_too() -> None:
    """Or one authority could revive the broken keys of all others."""
    world = AnchoredWorld.made(ALPHA, BETA)
    world.stamp(RENEWED, LATER)
    known = (ALPHA, BETA, LATER, LATER_TOO)
    alone = replace(world.trust(*known, tsa_quorum=2), moment=END + DAY)
    verdict = world.verify(trust=alone)
    assert outcomes(verdict) == ["expired, not renewed"] * 4 + ["holds"]
    assert timestamps(verdict).status is Status.EXPIRED
    assert timestamps(verdict).detail.startswith("1 authority agrees, 2 asked for")
    world.stamp(RENEWED + DAY, LATER_TOO)
    both = world.verify(trust=alone)
    assert outcomes(both)[:4] == ["renewed"] * 4
    assert bounds(both) == (LOWER, UPPER)


def test_half_a_quorum_that_expired_is_expired_and_less_is_open() -> None:
    world = AnchoredWorld.made(ALPHA, LATER)
    known = (ALPHA, BETA, LATER)
    trust = replace(world.trust(*known, tsa_quorum=2), moment=END + DAY)
    verdict = world.verify(trust=trust)
    assert timestamps(verdict).status is Status.EXPIRED
    three = replace(world.trust(*known, tsa_quorum=3), moment=END + DAY)
    assert timestamps(world.verify(trust=three)).status is Status.UNKNOWN


def test_an_expired_lower_bound_is_no_bound() -> None:
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    world.stamp(END + DAY, LATER)
    trust = replace(world.trust(ALPHA, LATER), moment=END + 2 * DAY)
    verdict = world.verify(trust=trust)
    assert timestamps(verdict).status is Status.PASS
    assert outcomes(verdict) == ["expired, not renewed", "holds"]
    assert bounds(verdict) == (None, format_instant(END + DAY + SECOND))


# Algorithms


def test_an_algorithm_out_of_date_is_expired_before_the_certificate_is() -> None:
    weak = Authority("weak", kind="rsa2048")
    world = AnchoredWorld.made(weak)
    last = datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC)
    trust = world.trust(weak, LATER)
    assert timestamps(world.verify(trust=replace(trust, moment=last))).status is Status.PASS
    late = replace(trust, moment=last + SECOND)
    verdict = world.verify(trust=late)
    assert timestamps(verdict).status is Status.EXPIRED
    assert outcomes(verdict) == ["expired, not renewed"] * 2
    world.stamp(last - 100 * DAY, LATER)
    renewed = world.verify(trust=late)
    assert outcomes(renewed) == ["renewed", "renewed", "holds"]
    assert bounds(renewed) == (LOWER, UPPER)


def test_policies_ask_for_what_holds_now() -> None:
    world = AnchoredWorld.made(ALPHA)
    trust = replace(world.trust(require=frozenset({"anchor"})), moment=END + DAY)
    verdict = world.verify(trust=trust)
    assert (verdict.lacking, verdict.result) == (["anchor"], OVER)
    assert isinstance(trust, Trust)
