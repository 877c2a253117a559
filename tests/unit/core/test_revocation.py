"""Revocation evidence: what counts as good, later, void or unknown, and evidence that is bad itself."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.revocation import (
    MAX_BLOBS,
    NO_EVIDENCE,
    RevocationEvidence,
    check_revocation,
    covers,
)
from receiptledger.core.timestamp import Cause, TimestampError, TimestampRules, verify_response
from receiptledger.core.tsa_certificate import load_certificate
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE, NOW, boolean, extension, integer, octets, seq, tlv
from tests.helpers.tsa_pki import INTER, NOT_AFTER, PATH, ROOT, TRUST, TSA, Identity, issue

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
ROOT_CRL = pki.crl(ROOT)
INTER_CRL = pki.crl(INTER)
BOTH = RevocationEvidence((INTER_CRL, ROOT_CRL))

OTHER = issue("Other", issuer=INTER)


def state(evidence: RevocationEvidence, path: Sequence[bytes] = PATH) -> str:
    return check_revocation([load_certificate(one) for one in path], evidence, NOW)


def with_crl(*crls: bytes) -> str:
    """With these for the signer, and a good list for the issuing CA."""
    return state(RevocationEvidence((*crls, ROOT_CRL)))


def with_ocsp(*ocsps: bytes, path: Sequence[bytes] = PATH) -> str:
    return state(RevocationEvidence((ROOT_CRL,), ocsps), path)


def answer(status: bytes, who: Identity = TSA, **changes: Any) -> bytes:
    """An OCSP response by the issuing CA itself about one certificate."""
    return pki.ocsp([pki.single(who, INTER, status)], INTER, **changes)


def cause_of(call: Any, *arguments: Any, **changes: Any) -> Cause:
    with pytest.raises(TimestampError) as caught:
        call(*arguments, **changes)
    return caught.value.cause


# The manifest


def test_a_manifest_names_every_blob() -> None:
    evidence = RevocationEvidence((b"a", b"b"), (b"c",))
    a, b, c = (hashlib.sha256(blob).hexdigest() for blob in (b"a", b"b", b"c"))
    assert evidence.manifest().decode() == (
        f'{{"crls":["sha256:{a}","sha256:{b}"],"kind":"revocation","ocsps":["sha256:{c}"],"v":1}}'
    )
    assert NO_EVIDENCE.manifest() == b'{"crls":[],"kind":"revocation","ocsps":[],"v":1}'


# Good and unknown


def test_without_evidence_nothing_is_known() -> None:
    assert state(NO_EVIDENCE) == "unknown"


def test_every_certificate_but_the_root_must_be_settled() -> None:
    assert state(BOTH) == "good"
    assert state(RevocationEvidence((INTER_CRL,))) == "unknown"
    assert state(RevocationEvidence((ROOT_CRL,))) == "unknown"
    assert with_ocsp(answer(pki.GOOD)) == "good"
    assert state(RevocationEvidence((), (answer(pki.GOOD),))) == "unknown"


def test_a_timestamp_says_what_the_evidence_says() -> None:
    stamp = verify_response(pki.response_of(), MESSAGE, TRUST, evidence=BOTH)
    assert (stamp.revocation, stamp.warnings) == ("good", ())
    later = RevocationEvidence((pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 4)]), ROOT_CRL))
    stamp = verify_response(pki.response_of(), MESSAGE, TRUST, evidence=later)
    assert (stamp.revocation, stamp.warnings) == ("good, revoked later", ("revoked_later",))
    void = RevocationEvidence((pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 1)]),))
    assert cause_of(verify_response, pki.response_of(), MESSAGE, TRUST, evidence=void) is (
        Cause.REVOKED
    )


@pytest.mark.parametrize(
    ("this_update", "known"),
    [
        (NOW - SECOND, "unknown"),
        (NOW, "good"),
        (NOT_AFTER, "good"),
        # An issuer may drop certificates that have expired.
        (NOT_AFTER + SECOND, "unknown"),
    ],
)
def test_evidence_must_be_younger_than_the_timestamp(this_update: Any, known: str) -> None:
    assert with_crl(pki.crl(INTER, this_update=this_update)) == known
    single = pki.single(TSA, INTER, pki.GOOD, this_update=this_update)
    assert with_ocsp(pki.ocsp([single], INTER)) == known


# Revoked

REASONS = {
    "unspecified": (0, "good, revoked later"),
    "keyCompromise": (1, Cause.REVOKED),
    "cACompromise": (2, Cause.REVOKED),
    "affiliationChanged": (3, "good, revoked later"),
    "superseded": (4, "good, revoked later"),
    "cessationOfOperation": (5, "good, revoked later"),
    "certificateHold": (6, Cause.REVOKED),
    "removeFromCRL": (8, Cause.REVOKED),
    "privilegeWithdrawn": (9, Cause.REVOKED),
    "aACompromise": (10, Cause.REVOKED),
    "an unknown reason": (99, Cause.REVOKED),
    "no reason": (None, Cause.REVOKED),
}


@pytest.mark.parametrize(("reason", "result"), named(REASONS))
def test_revoked_later(reason: int | None, result: str | Cause) -> None:
    crl = pki.crl(INTER, [pki.entry(TSA, NOW + SECOND, reason)])
    ocsp = answer(pki.revoked(NOW + SECOND, reason))
    if isinstance(result, Cause):
        assert cause_of(with_crl, crl) is result
        assert cause_of(with_ocsp, ocsp) is result
    else:
        assert with_crl(crl) == with_ocsp(ocsp) == result


@pytest.mark.parametrize("when", [NOW, NOW - DAY])
@pytest.mark.parametrize("reason", [0, 1, 4, None])
def test_revoked_at_or_before_gen_time(when: Any, reason: int | None) -> None:
    assert cause_of(with_crl, pki.crl(INTER, [pki.entry(TSA, when, reason)])) is Cause.REVOKED
    assert cause_of(with_ocsp, answer(pki.revoked(when, reason))) is Cause.REVOKED
    # Old evidence says nothing good, but it does say that.
    crl = pki.crl(INTER, [pki.entry(TSA, NOW - 2 * DAY, reason)], this_update=NOW - DAY)
    assert cause_of(with_crl, crl) is Cause.REVOKED


def test_invalid_since_before_gen_time() -> None:
    since = extension("2.5.29.24", forge.general_time(NOW - DAY))
    crl = pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 4, [since])])
    assert cause_of(with_crl, crl) is Cause.REVOKED
    since = extension("2.5.29.24", forge.general_time(NOW + SECOND))
    crl = pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 4, [since])])
    assert with_crl(crl) == "good, revoked later"


def test_a_revoked_issuer() -> None:
    crl = pki.crl(ROOT, [pki.entry(INTER, NOW + DAY, 2)])
    assert cause_of(state, RevocationEvidence((INTER_CRL, crl))) is Cause.REVOKED
    crl = pki.crl(ROOT, [pki.entry(INTER, NOW + DAY, 5)])
    assert state(RevocationEvidence((INTER_CRL, crl))) == "good, revoked later"
    # Worth telling although nothing is known of the signer.
    assert state(RevocationEvidence((crl,))) == "good, revoked later"


def test_bad_news_outweighs_good_news() -> None:
    revoked = pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 1)])
    for crls in ((INTER_CRL, revoked), (revoked, INTER_CRL)):
        assert cause_of(with_crl, *crls) is Cause.REVOKED
    later = answer(pki.revoked(NOW + DAY, 4))
    for ocsps in ((answer(pki.GOOD), later), (later, answer(pki.GOOD))):
        assert with_ocsp(*ocsps) == "good, revoked later"


def test_others_on_the_same_list() -> None:
    near = issue("Near", issuer=INTER, serial=TSA.serial + 1)
    longer = issue("Longer", issuer=INTER, serial=TSA.serial << 8)
    entries = [pki.entry(one, NOW - DAY) for one in (OTHER, near, longer)]
    assert with_crl(pki.crl(INTER, entries)) == "good"
    assert cause_of(with_crl, pki.crl(INTER, [*entries, pki.entry(TSA, NOW)])) is Cause.REVOKED


# What covers a path


def test_covers() -> None:
    assert covers(PATH, BOTH, NOW)
    assert not covers(PATH, NO_EVIDENCE, NOW)
    assert not covers(PATH, RevocationEvidence((INTER_CRL,)), NOW)
    assert not covers(PATH, RevocationEvidence((b"x",)), NOW)
    later = RevocationEvidence((pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 4)]), ROOT_CRL))
    assert covers(PATH, later, NOW)
    assert covers(PATH, RevocationEvidence((pki.crl(INTER, [pki.entry(TSA, NOW)]),)), NOW)
    assert cause_of(covers, [b"x", ROOT.der], BOTH, NOW) is Cause.CERTIFICATE


# Lists that are not about this certificate

POINT = tlv(0x86, b"http://crl.example/1.crl")
OTHER_POINT = tlv(0x86, b"http://crl.example/2.crl")
SCOPE = "2.5.29.28"


def scope(*parts: bytes) -> bytes:
    return extension(SCOPE, seq(*parts), critical=True)


def full_name(*names: bytes) -> bytes:
    return tlv(0xA0, tlv(0xA0, *names))


POINTED = issue(
    "Pointed",
    issuer=INTER,
    more=[extension("2.5.29.31", seq(seq(full_name(POINT)), seq(full_name(tlv(0x86, b"ldap")))))],
)
SCOPES = {
    "its own distribution point": (POINTED, [scope(full_name(OTHER_POINT, POINT))], "good"),
    "another distribution point": (POINTED, [scope(full_name(OTHER_POINT))], "unknown"),
    "a distribution point it does not name": (TSA, [scope(full_name(POINT))], "unknown"),
    "a name relative to the issuer": (POINTED, [scope(tlv(0xA0, tlv(0xA1, seq())))], "unknown"),
    "users only": (TSA, [scope(tlv(0x81, b"\xff"))], "good"),
    "CAs only": (TSA, [scope(tlv(0x82, b"\xff"))], "unknown"),
    "some reasons only": (TSA, [scope(tlv(0x83, b"\x01\x40"))], "unknown"),
    "everything": (TSA, [scope()], "good"),
}


@pytest.mark.parametrize(("who", "more", "known"), named(SCOPES))
def test_the_scope_of_a_list(who: Identity, more: list[bytes], known: str) -> None:
    crls = (pki.crl(INTER, more=more), ROOT_CRL)
    assert state(RevocationEvidence(crls), (who.der, INTER.der, ROOT.der)) == known


def test_the_scope_of_a_list_for_an_issuer() -> None:
    for flag, known in ((0x81, "unknown"), (0x82, "good")):
        crl = pki.crl(ROOT, more=[scope(tlv(flag, b"\xff"))])
        assert state(RevocationEvidence((INTER_CRL, crl))) == known


def test_a_list_of_some_reasons_still_revokes() -> None:
    crl = pki.crl(INTER, [pki.entry(TSA, NOW)], more=[scope(tlv(0x83, b"\x01\x40"))])
    assert cause_of(with_crl, crl) is Cause.REVOKED


STRANGER = issue("Stranger")
RENEWED = issue("Issuing CA", pki.key("p256", 77), issuer=ROOT, ca=True)  # the same name, a new key
IGNORED = {
    "of another issuer": pki.crl(STRANGER, [pki.entry(TSA, NOW)]),
    "by another key of the same name": pki.crl(RENEWED, [pki.entry(TSA, NOW)]),
}


@pytest.mark.parametrize("crl", named(IGNORED))
def test_lists_about_others_are_ignored(crl: bytes) -> None:
    assert state(RevocationEvidence((crl,))) == "unknown"
    assert with_crl(crl, INTER_CRL) == "good"


# A list of the issuer that names the certificate although it is not about it

WRONG_LISTS = {
    "of another distribution point": (POINTED, {"more": [scope(full_name(OTHER_POINT))]}),
    "of a distribution point that it does not name": (TSA, {"more": [scope(full_name(POINT))]}),
    "for CAs only": (TSA, {"more": [scope(tlv(0x82, b"\xff"))]}),
    "that names another key": (TSA, {"authority": bytes(20)}),
}


def on_list(who: Identity, entries: list[bytes], crls: tuple[bytes, ...], **changes: Any) -> str:
    listed = pki.crl(INTER, entries, **changes)
    path = (who.der, INTER.der, ROOT.der)
    return state(RevocationEvidence((*crls, listed, ROOT_CRL)), path)


@pytest.mark.parametrize(("who", "changes"), named(WRONG_LISTS))
def test_a_revocation_in_the_wrong_list_is_a_revocation(
    who: Identity, changes: dict[str, Any]
) -> None:
    for when, reason in ((NOW, 4), (NOW + DAY, 1), (NOW + DAY, None)):
        listed = [pki.entry(who, when, reason)]
        for crls in ((), (INTER_CRL,)):
            assert cause_of(on_list, who, listed, crls, **changes) is Cause.REVOKED
    # Harmless and later, it hides nothing and proves nothing.
    later = [pki.entry(who, NOW + DAY, 4)]
    assert on_list(who, later, (), **changes) == "unknown"
    assert on_list(who, later, (INTER_CRL,), **changes) == "good, revoked later"
    # Silent, it never says "good".
    assert on_list(who, [pki.entry(OTHER, NOW)], (), **changes) == "unknown"


def test_a_wrong_list_that_the_issuer_did_not_sign() -> None:
    for changes in ({"more": [scope(full_name(POINT))]}, {}):
        forged = pki.crl(INTER, [pki.entry(TSA, NOW)], private=STRANGER.key, **changes)
        assert cause_of(with_crl, forged) is Cause.EVIDENCE
    other = pki.crl(INTER, [pki.entry(TSA, NOW)], private=STRANGER.key, authority=bytes(20))
    assert with_crl(other, INTER_CRL) == "good"


# Entries: the serial number looked for may not hide


def raw_entry(serial: bytes, *more: bytes, when: bytes = forge.time(NOW)) -> bytes:
    return seq(serial, when, *more)


CONTENT = integer(TSA.serial)[2:]
LONG = extension("1.2.3", bytes(200))
BAD_ENTRIES = {
    "serial number with a leading zero": raw_entry(tlv(2, b"\0" + CONTENT)),
    "serial number with leading ones": raw_entry(tlv(2, b"\xff\x85")),
    "serial number of a long length": raw_entry(b"\x02\x81" + bytes([len(CONTENT)]) + CONTENT),
    "the same in a long entry": raw_entry(b"\x02\x81" + bytes([len(CONTENT)]) + CONTENT, seq(LONG)),
    "serial number of an indefinite length": raw_entry(b"\x02\x80" + CONTENT, seq(LONG)),
    "serial number of 130 bytes": raw_entry(tlv(2, b"\x01" * 130), seq(LONG)),
    "serial number without bytes": raw_entry(tlv(2) + tlv(4, bytes(20))),
    "serial number ENUMERATED": raw_entry(tlv(0x0A, CONTENT)),
    "serial number longer than the entry": seq(b"\x02\x40", forge.time(NOW), forge.time(NOW)),
    "serial number that fills the entry": seq(tlv(2, b"\x01" * 30)),
    "no SEQUENCE": tlv(0x31, integer(TSA.serial), forge.time(NOW)),
    "no date": seq(integer(TSA.serial)),
    "short": seq(integer(1), tlv(0x17, b"x")),
    "empty": seq() * 12,
    "longer than the list": b"\x30\x7f" + raw_entry(integer(TSA.serial))[2:],
    "length in a long form": b"\x30\x81" + raw_entry(integer(TSA.serial))[1:],
    "length with a leading zero": b"\x30\x82\x00\xf0" + raw_entry(integer(1), seq(LONG))[3:],
    "length of five bytes": b"\x30\x85" + bytes(40),
    "length indefinite": b"\x30\x80" + raw_entry(integer(TSA.serial))[2:] + b"\0\0",
    "cut short": raw_entry(integer(TSA.serial))[:-1],
    "trailing byte": raw_entry(integer(1)) + b"\0",
    "a date that is none": raw_entry(integer(TSA.serial), when=tlv(0x17, b"260230000000Z")),
    "listed twice": raw_entry(integer(TSA.serial)) * 2,
    "listed twice, the second harmless": raw_entry(integer(TSA.serial))
    + pki.entry(TSA, NOW + DAY, 4),
}


@pytest.mark.parametrize("bad", named(BAD_ENTRIES))
def test_an_entry_of_another_form_makes_the_list_bad(bad: bytes) -> None:
    before, after = pki.entry(OTHER, NOW), pki.entry(issue("Third", issuer=INTER), NOW)
    for entries in ([bad], [before, bad]):
        assert cause_of(with_crl, pki.crl(INTER, entries)) is Cause.EVIDENCE
    assert cause_of(with_crl, pki.crl(INTER, [before, bad, after])) is Cause.EVIDENCE
    assert cause_of(with_crl, pki.crl(INTER, [before, bad], version=b"")) is Cause.EVIDENCE


GOOD_ENTRIES = {
    "long": raw_entry(integer(TSA.serial), seq(LONG)),
    "dated in GeneralizedTime": raw_entry(integer(TSA.serial), when=forge.general_time(NOW)),
    "usual": raw_entry(integer(TSA.serial)),
}


@pytest.mark.parametrize("entry", named(GOOD_ENTRIES))
def test_an_entry_is_found_wherever_it_stands(entry: bytes) -> None:
    others = [
        raw_entry(integer(serial), *more)
        for serial in (0, 1, -1, 127, 128, -128, -129, 255, 2**159, -(2**159), TSA.serial + 1)
        for more in ((), (seq(LONG),))
    ]
    for at in (0, 5, len(others)):
        entries = [*others[:at], entry, *others[at:]]
        assert cause_of(with_crl, pki.crl(INTER, entries)) is Cause.REVOKED
        assert cause_of(with_crl, pki.crl(INTER, entries, version=b"")) is Cause.REVOKED
    assert with_crl(pki.crl(INTER, others)) == "good"


@pytest.mark.parametrize("serial", [0, -1, 255, -129, 2**159])
def test_a_certificate_of_an_odd_serial_number_is_found(serial: int) -> None:
    odd = issue("Odd", issuer=INTER, serial=serial)
    others = [pki.entry(OTHER, NOW), pki.entry(issue("Next", issuer=INTER, serial=7), NOW)]
    path = (odd.der, INTER.der, ROOT.der)
    for entries in ([pki.entry(odd, NOW), *others], [*others, pki.entry(odd, NOW)]):
        evidence = RevocationEvidence((pki.crl(INTER, entries), ROOT_CRL))
        assert cause_of(state, evidence, path) is Cause.REVOKED
    assert state(RevocationEvidence((pki.crl(INTER, others), ROOT_CRL)), path) == "good"


def test_names_and_identifiers_only_choose_what_to_verify() -> None:
    other_spelling = pki.crl(INTER, issuer_name=forge.name("issuing ca", tag=0x13))
    assert with_crl(other_spelling) == "good"
    nameless = issue("Nameless CA", issuer=ROOT, ca=True, identifiers=False)
    signer = issue("TSA", issuer=nameless)
    crls = (pki.crl(nameless), ROOT_CRL)
    path = (signer.der, nameless.der, ROOT.der)
    assert state(RevocationEvidence(crls), path) == "good"


# Lists that are bad themselves

ENTRY = pki.entry(TSA, NOW + DAY, 4)
BAD_CRLS = {
    "no DER": b"x",
    "empty": b"",
    "more than 1 MiB": bytes(1_048_577),
    "cut short": INTER_CRL[:-1],
    "trailing byte": INTER_CRL + b"\0",
    "an OCSP response": answer(pki.GOOD),
    "signed by another key": pki.crl(INTER, private=STRANGER.key),
    "signed with SHA-1": pki.crl(INTER, digest="sha1"),
    "two signature algorithms": pki.crl(INTER, signed_as=forge.algorithm("ecdsa-sha512", b"")),
    "version 1 written out": pki.crl(INTER, version=integer(0)),
    "version 3": pki.crl(INTER, version=integer(2)),
    "a delta": pki.crl(INTER, more=[extension("2.5.29.27", integer(1), critical=True)]),
    "a delta that is not critical": pki.crl(INTER, more=[extension("2.5.29.27", integer(1))]),
    "an unknown critical extension": pki.crl(
        INTER, more=[extension("1.2.3", octets(b""), critical=True)]
    ),
    "indirect": pki.crl(INTER, more=[scope(tlv(0x84, b"\xff"))]),
    "for attribute certificates": pki.crl(INTER, more=[scope(tlv(0x85, b"\xff"))]),
    "a scope of FALSE written out": pki.crl(INTER, more=[scope(tlv(0x81, b"\0"))]),
    "a scope with a member too many": pki.crl(INTER, more=[scope(tlv(0x86, b"\xff"))]),
    "of before its issuer": pki.crl(INTER, this_update=pki.NOT_BEFORE - DAY),
    "a date without seconds": pki.crl(INTER, next_update=tlv(0x17, b"2606010000Z")),
    "an entry with an unknown critical extension": pki.crl(
        INTER, [pki.entry(TSA, NOW + DAY, 4, [extension("2.5.29.29", seq(), critical=True)])]
    ),
    "an entry with a reason that is none": pki.crl(
        INTER, [pki.entry(TSA, NOW + DAY, more=[extension("2.5.29.21", integer(4))])]
    ),
    "an entry with an invalidity date that is none": pki.crl(
        INTER, [pki.entry(TSA, NOW + DAY, 4, [extension("2.5.29.24", forge.time(NOW))])]
    ),
    "an entry with a member too many": pki.crl(
        INTER, [seq(integer(TSA.serial), forge.time(NOW + DAY), seq(), seq())]
    ),
}


@pytest.mark.parametrize("crl", named(BAD_CRLS))
def test_lists_that_are_bad_themselves(crl: bytes) -> None:
    assert cause_of(with_crl, crl) is Cause.EVIDENCE


def test_a_list_of_version_1_and_without_next_update() -> None:
    assert with_crl(pki.crl(INTER, version=b"")) == "good"
    assert with_crl(pki.crl(INTER, next_update=b"")) == "good"
    assert with_crl(pki.crl(INTER, next_update=forge.general_time(NOW + DAY))) == "good"
    extension_ = extension("1.2.3", octets(b""))
    assert with_crl(pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 4, [extension_])])) == (
        "good, revoked later"
    )
    assert with_crl(pki.crl(INTER, authority=b"")) == "unknown"


def test_an_authority_key_identifier_without_a_key() -> None:
    crl = pki.crl(INTER).replace(extension("2.5.29.35", seq(tlv(0x80, INTER.key_identifier))), b"")
    assert cause_of(with_crl, crl) is Cause.EVIDENCE  # no longer signed, but read


def test_an_issuer_that_may_not_sign_lists() -> None:
    issuer = issue("No lists", issuer=ROOT, ca=True, usage=pki.CERT_SIGN)
    signer = issue("TSA", issuer=issuer)
    evidence = RevocationEvidence((pki.crl(issuer), ROOT_CRL))
    path = (signer.der, issuer.der, ROOT.der)
    assert cause_of(state, evidence, path) is Cause.EVIDENCE
    silent = issue("No keyUsage", issuer=ROOT, ca=True, usage=None)
    signer = issue("TSA", issuer=silent)
    evidence = RevocationEvidence((pki.crl(silent), ROOT_CRL))
    assert state(evidence, (signer.der, silent.der, ROOT.der)) == "good"


def test_a_long_list() -> None:
    entries = [
        seq(integer(serial), forge.time(NOW - DAY)) for serial in range(2**62, 2**62 + 20_000)
    ]
    assert with_crl(pki.crl(INTER, entries)) == "good"
    assert cause_of(with_crl, pki.crl(INTER, [*entries, pki.entry(TSA, NOW)])) is Cause.REVOKED


def test_too_many_blobs() -> None:
    assert state(RevocationEvidence((INTER_CRL, ROOT_CRL) * (MAX_BLOBS // 2))) == "good"
    crls = (INTER_CRL,) * MAX_BLOBS
    assert cause_of(state, RevocationEvidence(crls, (answer(pki.GOOD),))) is Cause.EVIDENCE


# OCSP


def responder(**changes: Any) -> Identity:
    return issue("Responder", **{"issuer": INTER, "purposes": [pki.OCSP_SIGNING], **changes})


def delegated(signer: Identity, **changes: Any) -> bytes:
    single = pki.single(TSA, INTER, pki.GOOD)
    return pki.ocsp([single], signer, **{"certificates": [signer.der], **changes})


RESPONDER = responder()
OCSP_GOOD = {
    "by the issuer, by its name": answer(pki.GOOD),
    "by the issuer, by its key": answer(pki.GOOD, by_key=True),
    "by the issuer, by its name in another string type": answer(
        pki.GOOD, responder=tlv(0xA1, forge.name("issuing ca", tag=0x13))
    ),
    "issuer named under SHA-256": pki.ocsp(
        [pki.single(TSA, INTER, pki.GOOD, digest="sha256")], INTER
    ),
    "version written out": answer(pki.GOOD, version=tlv(0xA0, integer(0))),
    "signed with SHA-512": answer(pki.GOOD, digest="sha512"),
    "among answers about others": pki.ocsp(
        [
            pki.single(OTHER, INTER, pki.revoked(NOW)),
            pki.single(TSA, INTER, pki.GOOD),
            pki.single(TSA, STRANGER, pki.revoked(NOW)),
            pki.single(TSA, INTER, pki.revoked(NOW), digest="sha3-256"),
        ],
        INTER,
    ),
    "extensions that are not critical": pki.ocsp(
        [pki.single(TSA, INTER, pki.GOOD, more=tlv(0xA1, seq(extension("1.2.3", octets(b"")))))],
        INTER,
        more=extension("1.3.6.1.5.5.7.48.1.2", octets(b"nonce")),
    ),
    "by a delegate, by its name": delegated(RESPONDER),
    "by a delegate, by its key": delegated(RESPONDER, by_key=True),
    "by a delegate without keyUsage": delegated(responder(usage=None)),
    "by a delegate of several purposes": delegated(
        responder(purposes=[pki.CODE_SIGNING, pki.OCSP_SIGNING], purposes_critical=False)
    ),
    "by a delegate that needs no check": delegated(
        responder(more=[extension("1.3.6.1.5.5.7.48.1.5", b"\x05\x00")])
    ),
    "by a delegate of RSA-2048": delegated(responder(private=pki.key("rsa2048"))),
    "by a delegate behind one of its name by another issuer": delegated(
        RESPONDER, certificates=[responder(issuer=ROOT).der, RESPONDER.der]
    ),
    "by a delegate behind one of its name and another key": delegated(
        RESPONDER, certificates=[responder(private=pki.key("p384", 9)).der, RESPONDER.der]
    ),
    "by a delegate behind one of its name that has expired": delegated(
        RESPONDER, certificates=[responder(not_after=NOW).der, RESPONDER.der]
    ),
    "by a delegate behind one of its name with a weak key": delegated(
        RESPONDER, certificates=[responder(private=pki.key("rsa1024")).der, RESPONDER.der]
    ),
    "by a delegate behind one that cannot be read": delegated(
        RESPONDER, certificates=[seq(), RESPONDER.der]
    ),
    "by a delegate of the issuer's own name": delegated(
        issue("Issuing CA", pki.key("p256", 78), issuer=INTER, purposes=[pki.OCSP_SIGNING])
    ),
    "by a delegate beside other certificates": delegated(
        RESPONDER, certificates=[OTHER.der, RESPONDER.der]
    ),
}


@pytest.mark.parametrize("ocsp", named(OCSP_GOOD))
def test_ocsp_that_says_good(ocsp: bytes) -> None:
    assert with_ocsp(ocsp) == "good"


OCSP_NOTHING = {
    "unknown": answer(pki.UNKNOWN),
    "about another certificate": answer(pki.GOOD, OTHER),
    "about another issuer": pki.ocsp([pki.single(TSA, STRANGER, pki.GOOD)], INTER),
    "about nothing": pki.ocsp([], INTER),
    "about others, and signed by nobody": answer(pki.GOOD, OTHER, flip=True),
}


@pytest.mark.parametrize("ocsp", named(OCSP_NOTHING))
def test_ocsp_that_says_nothing(ocsp: bytes) -> None:
    assert with_ocsp(ocsp) == "unknown"


def with_status(status: bytes) -> bytes:
    return pki.ocsp([pki.single(TSA, INTER, status)], INTER)


OCSP_BAD = {
    "no DER": b"x",
    "a CRL": INTER_CRL,
    "more than 256 KiB": bytes(262_145),
    "no answer": answer(pki.GOOD, answered=3),
    "an answer of another type": answer(pki.GOOD, kind="1.2.3"),
    "successful without an answer": seq(integer(0, 0x0A)),
    "signature flipped": answer(pki.GOOD, flip=True),
    "signed with SHA-1": answer(pki.GOOD, digest="sha1"),
    "responder named in an unknown way": answer(pki.GOOD, responder=tlv(0xA3, octets(bytes(20)))),
    "responder named by no key hash": answer(pki.GOOD, responder=tlv(0xA2, integer(1))),
    "an unknown status": with_status(tlv(0x83)),
    "a date with a fraction": with_status(tlv(0xA1, forge.general_time("20260602000000.5Z"))),
    "a reason that is none": with_status(
        tlv(0xA1, forge.general_time(NOW + DAY), tlv(0xA0, integer(4)))
    ),
    "a critical extension": answer(pki.GOOD, more=extension("1.2.3", octets(b""), critical=True)),
    "a critical extension of the one": pki.ocsp(
        [
            pki.single(
                TSA,
                INTER,
                pki.GOOD,
                more=tlv(0xA1, seq(extension("1.2.3", octets(b""), critical=True))),
            )
        ],
        INTER,
    ),
    "a member too many": with_status(pki.GOOD + octets(b"")),
    "delegate's certificate missing": delegated(RESPONDER, certificates=[]),
    "delegate's certificate unreadable": delegated(RESPONDER, certificates=[seq()]),
    "delegate of another issuer": delegated(responder(issuer=ROOT)),
    "delegate of a stranger with the issuer's name": delegated(responder(issuer=RENEWED)),
    "delegate without OCSPSigning": delegated(responder(purposes=[pki.TIME_STAMPING])),
    "delegate without purposes": delegated(responder(purposes=None)),
    "delegate of any purpose": delegated(responder(purposes=[pki.ANY_PURPOSE])),
    "delegate that may not sign": delegated(responder(usage=pki.KEY_ENCIPHERMENT)),
    "delegate with an unknown critical extension": delegated(
        responder(more=[extension("1.2.3", octets(b""), critical=True)])
    ),
    "delegate of RSA-1024": delegated(responder(private=pki.key("rsa1024"))),
    "delegate on another curve": delegated(responder(private=pki.key("k256", 4))),
    "delegate whose certificate is signed with SHA-1": delegated(responder(digest="sha1")),
    "two delegates of the name, neither good": delegated(
        RESPONDER, certificates=[responder(issuer=ROOT).der, responder(not_after=NOW).der]
    ),
    "delegate that had expired": delegated(responder(not_after=NOW)),
    "delegate not valid yet": delegated(responder(not_before=NOW + 2 * DAY)),
    "the signer itself": delegated(TSA),
}


@pytest.mark.parametrize("ocsp", named(OCSP_BAD))
def test_ocsp_that_is_bad_itself(ocsp: bytes) -> None:
    assert cause_of(with_ocsp, ocsp) is Cause.EVIDENCE


def test_a_delegate_is_as_strong_as_the_rules_ask() -> None:
    stamped = pki.response_of()
    evidence = RevocationEvidence((ROOT_CRL,), (delegated(responder(private=pki.key("rsa2048"))),))
    assert verify_response(stamped, MESSAGE, TRUST, evidence=evidence).revocation == "good"
    rules = TimestampRules(min_rsa_bits=3_072)
    assert (
        cause_of(verify_response, stamped, MESSAGE, TRUST, evidence=evidence, rules=rules)
        is Cause.EVIDENCE
    )


def test_ocsp_for_an_issuing_ca() -> None:
    ocsp = pki.ocsp([pki.single(INTER, ROOT, pki.GOOD)], ROOT)
    assert state(RevocationEvidence((INTER_CRL,), (ocsp,))) == "good"


def test_flags_are_der() -> None:
    assert scope(tlv(0x81, b"\xff")) == extension(
        SCOPE, seq(b"\x81" + boolean(True)[1:]), critical=True
    )
