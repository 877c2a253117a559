"""Evidence beside one stamp is true of every stamp of the same certificates, for better and worse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import anchor_evidence
from receiptledger.core.anchor_evidence import SharedEvidence
from receiptledger.core.revocation import NO_EVIDENCE, RevocationEvidence
from receiptledger.core.timestamp import Cause, TimestampError
from receiptledger.core.verdict import Status
from tests.helpers import tsa_pki as pki
from tests.helpers.anchored import AFTER, ALPHA, BEFORE, BETA, AnchoredWorld, timestamps
from tests.helpers.authority import Authority
from tests.helpers.cases import named

if TYPE_CHECKING:
    from receiptledger.core.verdict import Verdict

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
LATER = AFTER + 30 * DAY
PATH = (ALPHA.tsa.der, ALPHA.ca.der, ALPHA.root.der)
KEY_COMPROMISE, SUPERSEDED = 1, 4


def column(verdict: Verdict, name: str) -> list[Any]:
    return [stamp[name] for stamp in verdict.to_dict()["timestamps"]]


def with_evidence(
    at: int, evidence: RevocationEvidence, *authorities: Authority
) -> tuple[AnchoredWorld, Verdict]:
    """The world with evidence beside one of its stamps."""
    world = AnchoredWorld.made(*authorities)
    world.add_evidence(world.stamps[at], evidence)
    return world, world.verify()


def listed(revoked: datetime | None = None, reason: int | None = None) -> RevocationEvidence:
    return RevocationEvidence(ALPHA.crls(LATER, revoked, reason))


def ocsp(status: bytes) -> RevocationEvidence:
    single = pki.single(ALPHA.tsa, ALPHA.ca, status, this_update=LATER)
    return RevocationEvidence((), (pki.ocsp([single], ALPHA.ca),))


# What it does to all stamps of a bundle


@pytest.mark.parametrize("at", [0, 1], ids=["beside the preceding", "beside the covering"])
@pytest.mark.parametrize(
    "evidence",
    named(
        {
            "for key compromise": (listed(AFTER - DAY, KEY_COMPROMISE),),
            "without a reason": (listed(AFTER - DAY),),
            "long after": (listed(LATER, KEY_COMPROMISE),),
            "of the issuing CA": (
                RevocationEvidence((pki.crl(ALPHA.root, [pki.entry(ALPHA.ca, LATER, 2)]),)),
            ),
            "by OCSP": (ocsp(pki.revoked(LATER, KEY_COMPROMISE)),),
        }
    ),
)
def test_a_compromise_shown_beside_one_stamp_voids_all(
    at: int, evidence: RevocationEvidence
) -> None:
    _, verdict = with_evidence(at, evidence, ALPHA)
    assert column(verdict, "outcome") == ["revoked", "revoked"]
    assert column(verdict, "cause") == ["revoked", "revoked"]
    assert (timestamps(verdict).status, verdict.exit_code) == (Status.FAIL, 1)


@pytest.mark.parametrize("at", [0, 2], ids=["beside the preceding", "beside the covering"])
def test_the_tokens_of_others_still_count_and_the_void_ones_are_told(at: int) -> None:
    _, verdict = with_evidence(at, listed(LATER, KEY_COMPROMISE))
    assert column(verdict, "outcome") == ["revoked", "holds"] * 2
    assert timestamps(verdict).status is Status.PASS
    assert "2 tokens revoked" in timestamps(verdict).detail
    assert verdict.facts["anchored_by"] == verdict.facts["preceded_by"] == ["beta"]


def test_a_revoked_token_is_told_wherever_it_stands() -> None:
    """Also where only the preceding one is void, and where nothing covers the receipt at all."""
    before, after = Authority("before"), Authority("after")
    world = AnchoredWorld.empty()
    world.round(BEFORE, before, after)
    world.seal()
    world.round(AFTER, after)
    world.add_evidence(world.stamps[0], RevocationEvidence(before.crls(LATER, BEFORE, 1)))
    trust = world.trust(before, after)
    verdict = world.verify(trust=trust)
    assert column(verdict, "outcome") == ["revoked", "holds", "holds"]
    assert timestamps(verdict).status is Status.PASS
    assert "1 token revoked" in timestamps(verdict).detail
    uncovered = world.verify(world.bundle(*world.stamps[:2]), trust)
    assert timestamps(uncovered).status is Status.NOT_CHECKED
    assert timestamps(uncovered).detail == "no timestamp covers this receipt yet; 1 token revoked"


def test_good_evidence_beside_one_stamp_is_good_for_all_earlier_ones() -> None:
    _, verdict = with_evidence(1, listed(), ALPHA)
    assert column(verdict, "revocation") == ["good", "good"]
    assert timestamps(verdict).detail == "1 authority agrees, 1 asked for"


def test_evidence_says_nothing_of_what_was_stamped_after_it() -> None:
    world = AnchoredWorld.made(ALPHA)
    between = BEFORE + (AFTER - BEFORE) / 2
    world.add_evidence(world.stamps[0], RevocationEvidence(ALPHA.crls(between)))
    assert column(world.verify(), "revocation") == ["good", "unknown"]


def test_a_harmless_revocation_voids_what_came_after_it_and_nothing_else() -> None:
    between = BEFORE + (AFTER - BEFORE) / 2
    _, verdict = with_evidence(0, listed(between, SUPERSEDED), ALPHA)
    assert column(verdict, "outcome") == ["holds", "revoked"]
    assert column(verdict, "revocation") == ["good, revoked later", None]
    assert column(verdict, "warnings") == [["revoked_later"], []]


def test_evidence_about_others_changes_nothing() -> None:
    """A list of beta's beside alpha's stamp."""
    evidence = RevocationEvidence(BETA.crls(LATER))
    _, verdict = with_evidence(0, evidence)
    assert column(verdict, "revocation") == ["unknown", "good"] * 2


def test_the_compromise_of_a_stranger_is_no_compromise() -> None:
    """Same name and serial number, another key."""
    other = Authority("alpha")
    stranger = pki.issue("alpha CA", pki.key("p256", 77), issuer=other.root, ca=True)
    forged = pki.crl(stranger, [pki.entry(ALPHA.tsa, LATER, KEY_COMPROMISE)], this_update=LATER)
    world = AnchoredWorld.made()
    world.add_evidence(world.stamps[1], RevocationEvidence((forged,)))
    verdict = world.verify()
    assert column(verdict, "outcome") == ["holds"] * 4


def test_forged_evidence_is_the_fault_of_the_stamp_it_is_of() -> None:
    forged = pki.crl(
        ALPHA.ca,
        [pki.entry(ALPHA.tsa, LATER, KEY_COMPROMISE)],
        private=pki.key("p256", 99),
        this_update=LATER,
    )
    for data in (forged, b"no DER"):
        _, verdict = with_evidence(0, RevocationEvidence((data,)))
        assert column(verdict, "outcome") == ["bad", "holds", "holds", "holds"]
        assert column(verdict, "cause") == ["evidence", None, None, None]
        assert timestamps(verdict).status is Status.FAIL


def test_evidence_that_is_not_the_logged_one_counts_for_nobody() -> None:
    world = AnchoredWorld.made()
    evidence = listed(LATER, KEY_COMPROMISE)
    world.add_evidence(world.stamps[0], evidence, {"evidence": bytes(32)})
    verdict = world.verify()
    assert column(verdict, "outcome") == ["bad", "holds", "holds", "holds"]


def test_evidence_of_a_checkpoint_that_is_none_counts_for_nobody() -> None:
    world = AnchoredWorld.made()
    world.add_evidence(world.stamps[0], listed(LATER, KEY_COMPROMISE))
    bundle = world.bundle()
    first = replace(bundle.anchors[0], consistency=())
    verdict = world.verify(replace(bundle, anchors=(first, *bundle.anchors[1:])))
    assert column(verdict, "outcome") == ["bad", "bad", "holds", "holds"]


def test_evidence_of_a_token_nobody_trusts_counts_all_the_same() -> None:
    """The list is signed by alpha's own CA: beside whose stamp it stands does not matter."""
    world = AnchoredWorld.made()
    world.add_evidence(world.stamps[1], listed(LATER, KEY_COMPROMISE))
    verdict = world.verify(trust=world.trust(ALPHA))
    assert column(verdict, "outcome") == ["revoked", "not trusted"] * 2


def test_another_path_of_the_same_signer_is_tried() -> None:
    """Its CA's certificate under one root is revoked; under another, which is trusted too, it is not."""
    other_root = pki.issue("alpha's other root")
    cross = pki.issue("alpha CA", ALPHA.ca.key, issuer=other_root, ca=True, path_length=0)
    revoked = pki.crl(ALPHA.root, [pki.entry(ALPHA.ca, LATER, 2)], this_update=LATER)
    world = AnchoredWorld.made(ALPHA)
    world.add_evidence(world.stamps[1], RevocationEvidence((revoked,)))
    second = replace(
        ALPHA.trust, name="second", roots=(other_root.der,), intermediates=(cross.der,)
    )
    trust = replace(world.trust(ALPHA), tsas=(ALPHA.trust, second))
    verdict = world.verify(trust=trust)
    assert column(verdict, "outcome") == ["holds", "holds"]
    assert verdict.facts["anchored_by"] == ["second"]


# By itself


def state(*shown: RevocationEvidence, own: RevocationEvidence = NO_EVIDENCE) -> str:
    return SharedEvidence(shown).state(PATH, own, AFTER)


def test_states() -> None:
    assert state() == "unknown"
    assert state(listed()) == "good"
    assert state(own=listed()) == "good"
    assert state(listed(LATER, SUPERSEDED)) == "good, revoked later"
    half = RevocationEvidence(ALPHA.crls(LATER)[:1])
    assert state(half) == "unknown"
    assert state(half, own=RevocationEvidence(ALPHA.crls(LATER)[1:])) == "good"


def test_what_is_compromised() -> None:
    assert SharedEvidence((listed(LATER, KEY_COMPROMISE),)).compromised(PATH) == PATH[:1]
    assert SharedEvidence((listed(LATER, SUPERSEDED),)).compromised(PATH) == ()
    assert SharedEvidence((listed(),)).compromised(PATH) == ()
    assert SharedEvidence().compromised(PATH) == ()


@pytest.mark.parametrize(
    ("own", "words"),
    named(
        {
            "no DER": (RevocationEvidence((b"x",)), "does not hold"),
            "no DER, as OCSP": (RevocationEvidence((), (b"x",)), "does not hold"),
            "no answer": (RevocationEvidence((), (bytes.fromhex("30030a0106"),)), "not answer"),
            "too many": (RevocationEvidence(tuple(b"%d" % at for at in range(33))), "too many"),
        }
    ),
)
def test_own_evidence_has_to_hold(own: RevocationEvidence, words: str) -> None:
    with pytest.raises(TimestampError, match=words) as caught:
        state(own=own)
    assert caught.value.cause is Cause.EVIDENCE
    assert state(own) == "unknown"  # another stamp's


def test_each_blob_is_read_once_however_many_stamps_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thirty stamps with the same lists, judged against three authorities."""
    read: Counter[bytes] = Counter()
    load = anchor_evidence.load_crl

    def counting(der: bytes) -> Any:
        read[der] += 1
        return load(der)

    monkeypatch.setattr(anchor_evidence, "load_crl", counting)
    world = AnchoredWorld.empty()
    world.seal()
    for number in range(30):
        stamp = world.stamp(AFTER + number * SECOND, ALPHA)
        if number < 14:  # anchored checkpoints have a limit too
            world.add_evidence(stamp, listed())
    stamps = world.stamps[:14]
    verdict = world.verify(world.bundle(*stamps))
    assert column(verdict, "revocation") == ["good"] * 14
    assert set(read.values()) == {1}
    assert len(read) == 2
