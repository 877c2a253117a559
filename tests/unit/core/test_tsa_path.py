"""The certificate path of a timestamp: what leads to a root, and everything that does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.timestamp import Cause, TimestampError, TsaTrust, verify_response
from receiptledger.core.timestamp_der import parse
from receiptledger.core.timestamp_limits import MAX_CERTIFICATE_NODES, MAX_EXTENSIONS, MAX_PATH
from receiptledger.core.timestamp_signature import load_key
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.core.tsa_path import build_path
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE, NOW, extension, integer, name, octets, oid, seq, tlv
from tests.helpers.tsa_pki import INTER, ROOT, TRUST, TSA, Identity, issue

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = timedelta(days=1)
BEFORE = NOW - DAY
AFTER = NOW + DAY


def leaf(**changes: Any) -> Identity:
    return issue("Leaf", **{"issuer": INTER, **changes})


def authority(common: str, issuer: Identity = ROOT, **changes: Any) -> Identity:
    return issue(common, issuer=issuer, ca=True, **changes)


def path_of(signer: Identity, *issuers: Identity, trust: TsaTrust = TRUST) -> tuple[bytes, ...]:
    certificates = [signer.der, *(one.der for one in issuers)]
    response = pki.response_of(signer=signer, certificates=certificates)
    return verify_response(response, MESSAGE, trust).path


def refusal(signer: Identity, *issuers: Identity, trust: TsaTrust = TRUST) -> TimestampError:
    with pytest.raises(TimestampError) as caught:
        path_of(signer, *issuers, trust=trust)
    return caught.value


# The signer

UNKNOWN_CRITICAL = extension("1.2.3.4.5", octets(b""), critical=True)
POLICIES = [
    extension("2.5.29.32", seq(seq(oid("2.5.29.32.0"))), critical=True),
    extension("2.5.29.33", seq(), critical=True),
    extension("2.5.29.54", integer(0), critical=True),
    extension("2.5.29.18", seq(), critical=True),
    extension("2.5.29.31", seq(), critical=True),
]

GOOD_SIGNERS = {
    "no keyUsage": leaf(usage=None),
    "nonRepudiation alone": leaf(usage=pki.NON_REPUDIATION),
    "digitalSignature and nonRepudiation": leaf(usage=pki.DIGITAL_SIGNATURE | pki.NON_REPUDIATION),
    "no key identifiers": leaf(identifiers=False),
    "negative serial number": leaf(serial=-17),
    "serial number zero": leaf(serial=0),
    "serial number of 21 bytes": leaf(serial=2**160 + 1),
    "critical extensions that restrict nothing": leaf(more=POLICIES),
    "unknown extension that is not critical": leaf(more=[extension("1.2.3.4.5", octets(b""))]),
    "criticality FALSE written out": leaf(
        more=[seq(oid("1.2.3.4.5"), forge.boolean(False), octets(b""))]
    ),
    "issuer name in another string type": leaf(
        issuer_name=name("issuing  ca", tag=0x13, organisation="FORGE")
    ),
    "validity in this very second": leaf(not_before=NOW, not_after=NOW),
    "validity to the end of time": leaf(not_after=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    "two issuing names in one": leaf(
        subject=seq(forge.set_of(*[seq(oid("2.5.4.3"), tlv(12, b"x"))] * 2))
    ),
}

BAD_SIGNERS = {
    "no extendedKeyUsage": (leaf(purposes=None), Cause.EKU),
    "extendedKeyUsage not critical": (leaf(purposes_critical=False), Cause.EKU),
    "a second purpose": (leaf(purposes=[pki.TIME_STAMPING, pki.CODE_SIGNING]), Cause.EKU),
    "a second unknown purpose": (leaf(purposes=[pki.TIME_STAMPING, "1.2.3.4"]), Cause.EKU),
    "another purpose": (leaf(purposes=[pki.CODE_SIGNING]), Cause.EKU),
    "any purpose": (leaf(purposes=[pki.ANY_PURPOSE]), Cause.EKU),
    "the purpose twice": (leaf(purposes=[pki.TIME_STAMPING] * 2), Cause.EKU),
    "version 1": (leaf(version=1), Cause.EKU),
    "keyUsage keyEncipherment": (
        leaf(usage=pki.DIGITAL_SIGNATURE | pki.KEY_ENCIPHERMENT),
        Cause.KEY_USAGE,
    ),
    "keyUsage empty": (leaf(usage=0), Cause.KEY_USAGE),
    "keyUsage certSign": (leaf(usage=pki.CERT_SIGN), Cause.KEY_USAGE),
    "a CA": (
        leaf(ca=True, purposes=[pki.TIME_STAMPING], usage=pki.DIGITAL_SIGNATURE),
        Cause.CHAIN,
    ),
    "unknown critical extension": (leaf(more=[UNKNOWN_CRITICAL]), Cause.CHAIN),
    "critical policyConstraints": (
        leaf(more=[extension("2.5.29.36", seq(), critical=True)]),
        Cause.CHAIN,
    ),
    "expired before genTime": (leaf(not_after=BEFORE), Cause.CHAIN),
    "not valid yet": (leaf(not_before=AFTER), Cause.CHAIN),
    "signature flipped": (leaf(flip=True), Cause.CHAIN),
    "signed with SHA-1": (leaf(digest="sha1"), Cause.SIGNATURE_ALGORITHM),
    "names two signature algorithms": (
        leaf(signed_as=forge.algorithm("ecdsa-sha512", b"")),
        Cause.CERTIFICATE,
    ),
    "issuer of another name": (leaf(issuer_name=name("Somebody")), Cause.CHAIN),
}


@pytest.mark.parametrize("signer", named(GOOD_SIGNERS))
def test_signers_that_may_sign(signer: Identity) -> None:
    assert path_of(signer, INTER) == (signer.der, INTER.der, ROOT.der)


@pytest.mark.parametrize(("signer", "cause"), named(BAD_SIGNERS))
def test_signers_that_may_not(signer: Identity, cause: Cause) -> None:
    assert refusal(signer, INTER).cause is cause


# The issuers

GOOD_ISSUERS = {
    "no keyUsage": authority("CA", usage=None),
    "purpose timeStamping": authority("CA", purposes=[pki.TIME_STAMPING]),
    "purposes timeStamping and others": authority(
        "CA", purposes=[pki.CODE_SIGNING, pki.TIME_STAMPING], purposes_critical=False
    ),
    "any purpose": authority("CA", purposes=[pki.ANY_PURPOSE]),
    "path length 0": authority("CA", path_length=0),
    "Ed25519": authority("CA", private=pki.key("ed25519", 3)),
    "RSA-2048": authority("CA", private=pki.key("rsa2048")),
    "valid in this very second": authority("CA", not_before=NOW, not_after=NOW),
    "no key identifiers": authority("CA", identifiers=False),
}

BAD_ISSUERS = {
    "no basicConstraints": (authority("CA", constrained=False), Cause.CHAIN),
    "no CA": (issue("CA", issuer=ROOT, purposes=None, usage=pki.CERT_SIGN), Cause.CHAIN),
    "version 1": (issue("CA", issuer=ROOT, version=1), Cause.CHAIN),
    "may not sign certificates": (authority("CA", usage=pki.CRL_SIGN), Cause.CHAIN),
    "other purposes": (authority("CA", purposes=[pki.CODE_SIGNING]), Cause.CHAIN),
    "unknown critical extension": (authority("CA", more=[UNKNOWN_CRITICAL]), Cause.CHAIN),
    "name constraints": (
        authority("CA", more=[extension("2.5.29.30", seq(), critical=True)]),
        Cause.CHAIN,
    ),
    "name constraints that are not critical": (
        authority("CA", more=[extension("2.5.29.30", seq())]),
        Cause.CHAIN,
    ),
    "expired": (authority("CA", not_after=BEFORE), Cause.CHAIN),
    "not valid yet": (authority("CA", not_before=AFTER), Cause.CHAIN),
    "signature flipped": (authority("CA", flip=True), Cause.CHAIN),
    "signed with SHA-1": (authority("CA", digest="sha1"), Cause.SIGNATURE_ALGORITHM),
    "RSA-1024": (authority("CA", private=pki.key("rsa1024")), Cause.WEAK_KEY),
    "a curve of no standard": (authority("CA", private=pki.key("k256", 3)), Cause.WEAK_KEY),
}


@pytest.mark.parametrize("issuer", named(GOOD_ISSUERS))
def test_issuers_that_may_issue(issuer: Identity) -> None:
    signer = leaf(issuer=issuer)
    assert path_of(signer, issuer) == (signer.der, issuer.der, ROOT.der)


@pytest.mark.parametrize(("issuer", "cause"), named(BAD_ISSUERS))
def test_issuers_that_may_not(issuer: Identity, cause: Cause) -> None:
    assert refusal(leaf(issuer=issuer), issuer).cause is cause


def test_path_length() -> None:
    below = authority("Below", INTER)  # INTER has path length 0
    assert refusal(leaf(issuer=below), below, INTER).cause is Cause.CHAIN
    wide = authority("Wide", path_length=1)
    below = authority("Below", wide, path_length=0)
    signer = leaf(issuer=below)
    assert len(path_of(signer, below, wide)) == 4


def test_a_certificate_a_ca_issued_to_itself_does_not_count_for_the_path_length() -> None:
    old = authority("CA", private=pki.key("p256", 71), path_length=0)
    new = authority("CA", old, private=pki.key("p256", 72), path_length=0)
    signer = leaf(issuer=new)
    assert path_of(signer, new, old) == (signer.der, new.der, old.der, ROOT.der)


def chain_of(length: int) -> list[Identity]:
    """A signer and its issuers, `length` certificates below ROOT."""
    found: list[Identity] = []
    issuer = ROOT
    for number in range(length - 1):
        issuer = authority(f"CA {number}", issuer)
        found.insert(0, issuer)
    return [leaf(issuer=issuer), *found]


def test_the_longest_path() -> None:
    assert len(path_of(*chain_of(MAX_PATH - 1))) == MAX_PATH
    assert refusal(*chain_of(MAX_PATH)).cause is Cause.CHAIN


# Roots


def trusting(*roots: Identity) -> TsaTrust:
    return replace(TRUST, roots=tuple(root.der for root in roots))


ODD_ROOTS = {
    "version 1": issue("Odd", version=1),
    "signed itself with SHA-1": issue("Odd", digest="sha1"),
    "its own signature is broken": issue("Odd", flip=True),
    "names two signature algorithms": issue("Odd", signed_as=forge.algorithm("ecdsa-sha1", b"")),
    "negative serial number": issue("Odd", serial=-1),
    "unknown critical extension": issue("Odd", more=[UNKNOWN_CRITICAL]),
    "name constraints": issue("Odd", more=[extension("2.5.29.30", seq(), critical=True)]),
    "other purposes": issue("Odd", purposes=[pki.CODE_SIGNING]),
    "signed by somebody else": issue("Odd", issuer=issue("Unknown"), ca=True),
}


@pytest.mark.parametrize("root", named(ODD_ROOTS))
def test_a_root_is_an_anchor_by_its_name_and_key(root: Identity) -> None:
    signer = leaf(issuer=root)
    assert path_of(signer, trust=trusting(root)) == (signer.der, root.der)


BAD_ROOTS = {
    # OpenSSL refuses these too (`X509_check_ca`).
    "of version 3, without basicConstraints": (
        issue("Bad", constrained=False, usage=None),
        Cause.CHAIN,
    ),
    "of version 3, with keyUsage but without basicConstraints": (
        issue("Bad", constrained=False),
        Cause.CHAIN,
    ),
    "says that it is no CA": (
        issue("Bad", ca=False, purposes=None, usage=pki.CERT_SIGN),
        Cause.CHAIN,
    ),
    "says that it signs no certificates": (issue("Bad", usage=pki.CRL_SIGN), Cause.CHAIN),
    "expired before genTime": (issue("Bad", not_after=BEFORE), Cause.CHAIN),
    "not valid yet at genTime": (issue("Bad", not_before=AFTER), Cause.CHAIN),
    "RSA-1024": (issue("Bad", pki.key("rsa1024")), Cause.WEAK_KEY),
}


@pytest.mark.parametrize(("root", "cause"), named(BAD_ROOTS))
def test_what_a_root_says_of_itself_holds(root: Identity, cause: Cause) -> None:
    assert refusal(leaf(issuer=root), trust=trusting(root)).cause is cause


def test_an_embedded_root_is_no_anchor() -> None:
    rogue = issue("Root", pki.key("p256", 99))  # the trusted root's name
    signer = leaf(issuer=rogue)
    assert refusal(signer).cause is Cause.CHAIN
    error = refusal(signer, rogue)
    assert error.cause is Cause.CHAIN
    assert "another key" in error.message


def test_a_signer_that_signed_itself() -> None:
    alone = issue("Alone", ca=False, usage=pki.DIGITAL_SIGNATURE, purposes=[pki.TIME_STAMPING])
    assert refusal(alone).cause is Cause.CHAIN
    # Not even as a root: a timestamp's path has an issuer.
    assert refusal(alone, trust=trusting(alone)).cause is Cause.CHAIN


def test_an_issuing_ca_as_the_configured_root() -> None:
    assert path_of(TSA, INTER, trust=trusting(INTER)) == (TSA.der, INTER.der)


def test_a_missing_intermediate() -> None:
    error = refusal(TSA)
    assert error.cause is Cause.CHAIN
    assert error.got == "O=Forge, CN=Issuing CA"


def test_an_intermediate_without_a_root() -> None:
    lonely = authority("Lonely", issue("Nobody"))
    assert refusal(leaf(issuer=lonely), lonely).cause is Cause.CHAIN


# Several ways


def cross_signed() -> tuple[Identity, Identity, Identity]:
    """One CA key under two roots, and the second root."""
    other = issue("Other root")
    key = pki.key("p256", 50)
    return authority("Cross", private=key), authority("Cross", other, private=key, serial=5), other


def test_cross_signed_issuers() -> None:
    by_root, by_other, other = cross_signed()
    signer = leaf(issuer=by_root)
    for issuers in ((by_root, by_other), (by_other, by_root)):
        assert path_of(signer, *issuers) == (signer.der, by_root.der, ROOT.der)
        path = path_of(signer, *issuers, trust=trusting(other))
        assert path == (signer.der, by_other.der, other.der)


def test_a_way_that_fails_does_not_close_another() -> None:
    _, by_other, other = cross_signed()
    expired = authority("Cross", private=pki.key("p256", 50), not_after=BEFORE, serial=6)
    signer = leaf(issuer=by_other)
    path = path_of(signer, expired, by_other, trust=trusting(ROOT, other))
    assert path == (signer.der, by_other.der, other.der)


def test_issuers_of_one_name_and_other_keys() -> None:
    wrong = [authority("Same", private=pki.key("p256", 60 + at), serial=at) for at in range(5)]
    right = authority("Same", private=pki.key("p256", 66), serial=9)
    for identifiers in (True, False):
        signer = leaf(issuer=right, identifiers=identifiers)
        assert path_of(signer, *wrong, right) == (signer.der, right.der, ROOT.der)


def test_a_circle_of_issuers_ends() -> None:
    one = authority("One", issue("Two", pki.key("p256", 42)), private=pki.key("p256", 41))
    two = authority("Two", one, private=pki.key("p256", 42))
    assert refusal(leaf(issuer=one), one, two).cause is Cause.CHAIN


def test_a_bag_of_cross_signed_issuers_costs_a_bounded_number_of_signatures() -> None:
    """Every CA issued every other: there are more ways than anybody could try."""
    private = [pki.key("p256", 200 + at) for at in range(5)]
    bag = [
        issue(
            f"Bag {of}", private[of], ca=True, serial=10 * by + of,
            issuer=issue(f"Bag {by}", private[by]),
        )
        for by in range(5)
        for of in range(5)
        if by != of
    ]  # fmt: skip
    signer = load_certificate(leaf(issuer=bag[0]).der)
    candidates = [load_certificate(one.der) for one in bag]
    with pytest.raises(TimestampError) as caught:
        build_path(signer, candidates, [load_certificate(ROOT.der)], NOW, 2048)
    assert caught.value.cause is Cause.CHAIN
    assert "too many" in caught.value.message


def test_the_first_refusal_is_the_one_that_is_told() -> None:
    weak = authority("Two", private=pki.key("rsa1024"), serial=1)
    late = authority("Two", private=pki.key("rsa1024"), serial=2, not_after=BEFORE)
    assert refusal(leaf(issuer=weak), weak, late).cause is Cause.WEAK_KEY
    assert refusal(leaf(issuer=weak), late, weak).cause is Cause.CHAIN


# Reading certificates


def certificate_bytes(**parts: bytes) -> bytes:
    """A certificate, for its form: nothing in it is signed."""
    default = {
        "version": tlv(0xA0, integer(2)),
        "serial": integer(1),
        "algorithm": forge.algorithm("ecdsa-sha256", b""),
        "issuer": name("I"),
        "validity": seq(forge.time(NOW), forge.time(AFTER)),
        "subject": name("S"),
        "spki": TSA.spki,
        "more": b"",
    }
    members = default | parts
    outer = members.pop("outer", seq(forge.algorithm("ecdsa-sha256", b""), forge.bits(b"x")))
    return seq(seq(*members.values()), *[part.raw for part in _children(outer)])


def _children(data: bytes) -> Sequence[Any]:
    return parse(data).children


def wrapped(*extensions: bytes) -> bytes:
    return tlv(0xA3, seq(*extensions))


UNREADABLE = {
    "nothing": b"",
    "version 4": certificate_bytes(version=tlv(0xA0, integer(3))),
    "version 0": certificate_bytes(version=tlv(0xA0, integer(-1))),
    "extensions in version 1": certificate_bytes(
        version=b"", more=wrapped(extension("1.2.3", b""))
    ),
    "no extension inside": certificate_bytes(more=wrapped()),
    "an extension twice": certificate_bytes(more=wrapped(*[extension("1.2.3", b"")] * 2)),
    "a member too many": certificate_bytes(more=integer(1)),
    "serial number of 65 bytes": certificate_bytes(serial=integer(2**515)),
    "an outer member too many": certificate_bytes(
        outer=seq(forge.algorithm("ecdsa-sha256", b""), forge.bits(b"x"), seq())
    ),
    "a signature of unused bits": certificate_bytes(
        outer=seq(forge.algorithm("ecdsa-sha256", b""), forge.bits(b"\xff", 3))
    ),
    # Nobody signs this count: two certificates would be one.
    "a signature of unused bits that are zero": certificate_bytes(
        outer=seq(forge.algorithm("ecdsa-sha256", b""), forge.bits(b"\xf8", 3))
    ),
    "an issuer that is no Name": certificate_bytes(issuer=seq(octets(b"x"))),
    "a subject of 5 KB": certificate_bytes(subject=name("S" * 5_000)),
    "a date without seconds": certificate_bytes(
        validity=seq(tlv(0x17, b"2601010000Z"), forge.time(AFTER))
    ),
    "a date that is none": certificate_bytes(
        validity=seq(tlv(0x17, b"260230000000Z"), forge.time(AFTER))
    ),
    "a date with a fraction": certificate_bytes(
        validity=seq(tlv(0x18, b"20260101000000.5Z"), forge.time(AFTER))
    ),
    "more than 16 KiB": certificate_bytes(more=wrapped(extension("1.2.3", bytes(17_000)))),
    "basicConstraints of a negative length": certificate_bytes(
        more=wrapped(extension("2.5.29.19", seq(forge.boolean(True), integer(-1))))
    ),
    "basicConstraints TRUE as 01": certificate_bytes(
        more=wrapped(extension("2.5.29.19", seq(b"\x01\x01\x01")))
    ),
    "keyUsage no BIT STRING": certificate_bytes(more=wrapped(extension("2.5.29.15", octets(b"")))),
    "keyUsage without its first byte": certificate_bytes(
        more=wrapped(extension("2.5.29.15", tlv(0x03)))
    ),
    "extendedKeyUsage of no OID": certificate_bytes(
        more=wrapped(extension("2.5.29.37", seq(integer(1))))
    ),
    "key identifier no OCTET STRING": certificate_bytes(
        more=wrapped(extension("2.5.29.14", integer(1)))
    ),
    "keyUsage of 5 bytes": certificate_bytes(
        more=wrapped(extension("2.5.29.15", forge.bits(b"\xff" * 5)))
    ),
    "privateKeyUsagePeriod without ends": certificate_bytes(
        more=wrapped(extension("2.5.29.16", seq()))
    ),
    "privateKeyUsagePeriod of UTCTime": certificate_bytes(
        more=wrapped(extension("2.5.29.16", seq(tlv(0x80, b"260101000000Z"))))
    ),
    "privateKeyUsagePeriod with a member too many": certificate_bytes(
        more=wrapped(extension("2.5.29.16", seq(tlv(0x80, b"20260101000000Z"), tlv(0x82))))
    ),
    "too many extensions": certificate_bytes(
        more=wrapped(*[extension(f"1.2.{at}", b"") for at in range(MAX_EXTENSIONS + 1)])
    ),
    "too many values": certificate_bytes(
        more=wrapped(extension("1.2.3", b""), *[forge.NULL] * MAX_CERTIFICATE_NODES)
    ),
    "too many values in an extension": certificate_bytes(
        more=wrapped(extension("2.5.29.17", seq(*[forge.NULL] * MAX_CERTIFICATE_NODES)))
    ),
    "too many alternative names": certificate_bytes(
        more=wrapped(extension("2.5.29.17", seq(*[tlv(0x82, b"x")] * 17)))
    ),
    "distribution point of two names": certificate_bytes(
        more=wrapped(extension("2.5.29.31", seq(seq(tlv(0xA0, tlv(0xA0), tlv(0xA0))))))
    ),
}


@pytest.mark.parametrize("der", named(UNREADABLE))
def test_certificates_that_cannot_be_read(der: bytes) -> None:
    with pytest.raises(TimestampError) as caught:
        load_certificate(der)
    assert caught.value.cause is Cause.CERTIFICATE


def test_what_is_read_of_a_certificate() -> None:
    point = seq(tlv(0xA0, tlv(0xA0, tlv(0x86, b"http://a/1.crl"), tlv(0x86, b"http://b/1.crl"))))
    relative = seq(tlv(0xA0, tlv(0xA1, seq())))
    nameless = seq(tlv(0xA2, tlv(0x86, b"x")))
    one = load_certificate(
        certificate_bytes(
            validity=seq(tlv(0x17, b"500101000000Z"), tlv(0x18, b"20491231235959Z")),
            more=tlv(0x81, b"\0")
            + tlv(0x82, b"\0")
            + wrapped(
                extension("2.5.29.31", seq(point, relative, nameless)),
                extension("2.5.29.35", seq()),
                extension("2.5.29.15", forge.bits(b"\x06\x80", 7), critical=True),
            ),
        )
    )
    assert one.not_before == datetime(1950, 1, 1, tzinfo=UTC)
    assert one.not_after == datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert one.distribution_points == {
        tlv(0x86, b"http://a/1.crl"),
        tlv(0x86, b"http://b/1.crl"),
    }
    assert (one.issuer_key_identifier, one.key_identifier) == (None, None)
    assert one.usage == {5, 6, 8}
    assert (one.constraints, one.is_ca, one.purposes, one.alternative_names) == (
        None,
        False,
        None,
        (),
    )
    assert one.extensions["2.5.29.15"].critical


@pytest.mark.parametrize(
    ("spki", "cause"),
    [
        (seq(forge.algorithm("rsa"), forge.bits(b"nonsense")), Cause.CERTIFICATE),
        (seq(forge.algorithm("1.2.3.4"), forge.bits(b"nonsense")), Cause.CERTIFICATE),
        (seq(forge.algorithm("1.3.101.110", b""), forge.bits(bytes(range(32)))),
         Cause.SIGNATURE_ALGORITHM),
    ],
    ids=["no RSA key", "unknown kind", "X25519"],
)  # fmt: skip
def test_keys_that_cannot_verify(spki: bytes, cause: Cause) -> None:
    with pytest.raises(TimestampError) as caught:
        load_key(spki)
    assert caught.value.cause is cause
