"""Timestamps that must be accepted: the usual ones, and legal shapes that are rare or seen in use."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiptledger.core.timestamp import (
    DEFAULT_RULES,
    Timestamp,
    TsaTrust,
    token_of,
    verify_response,
    verify_token,
)
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE, NONCE, NOW, attribute, octets, oid, seq, tlv
from tests.helpers.tsa_pki import INTER, NOT_AFTER, PATH, ROOT, TRUST, TSA, issue

TSA_2 = issue("TSA 2", issuer=INTER)
ISSUER_SERIAL = forge.issuer_serial(TSA.issuer, TSA.serial)


def accept(response: bytes, trust: TsaTrust = TRUST, **changes: Any) -> Timestamp:
    return verify_response(response, MESSAGE, trust, nonce=NONCE, **changes)


def info(**changes: Any) -> bytes:
    return forge.tst_info(**changes)


def test_what_a_timestamp_says() -> None:
    stamp = accept(pki.response_of())
    assert stamp.gen_time == NOW
    assert stamp.accuracy == timedelta(seconds=1, milliseconds=500, microseconds=100)
    assert stamp.earliest == NOW - stamp.accuracy
    assert stamp.latest == NOW + stamp.accuracy
    assert (stamp.serial, stamp.policy, stamp.nonce) == (7, forge.POLICY, NONCE)
    assert (stamp.hash_algorithm, stamp.ordering) == ("sha256", False)
    assert stamp.path == PATH
    assert (stamp.signature_algorithm, stamp.key_algorithm) == ("ecdsa-sha256", "p256")
    assert (stamp.ess, stamp.warnings, stamp.revocation) == (("v2",), (), "unknown")
    assert stamp.path_not_after == NOT_AFTER
    assert stamp.algorithms == ("p256", "sha256")


def test_the_token_alone_says_the_same() -> None:
    response = pki.response_of()
    token = token_of(response)
    assert token == pki.token_of()
    assert verify_token(token, MESSAGE, TRUST, nonce=NONCE) == accept(response)


def with_tsa(name: bytes) -> bytes:
    return pki.response_of(info(tsa=name))


EXTRA = [issue("Unrelated root"), issue("Unrelated", issuer=issue("Unrelated root"))]
EMBEDDED_CRL = tlv(0xA1, pki.crl(INTER), pki.crl(ROOT))
COUNTER = tlv(0xA1, attribute("timeStampToken", pki.token_of(info(nonce=None))))
PROTECTION = attribute(
    "algorithmProtection",
    seq(forge.algorithm("sha256", b""), tlv(0xA1, oid("ecdsa-sha256"))),
)

SHAPES = {
    # TSTInfo
    "no accuracy": pki.response_of(info(accuracy=b"")),
    "accuracy of seconds alone": pki.response_of(info(accuracy=forge.accuracy(1, None, None))),
    "accuracy of micros alone": pki.response_of(info(accuracy=forge.accuracy(None, None, 1))),
    "accuracy empty": pki.response_of(info(accuracy=seq())),
    "accuracy of a minute": pki.response_of(info(accuracy=forge.accuracy(60, None, None))),
    "ordering": pki.response_of(info(ordering=forge.boolean(True))),
    "serial of 160 bits": pki.response_of(info(serial=2**160 - 1)),
    "serial zero": pki.response_of(info(serial=0)),
    "serial negative": pki.response_of(info(serial=-5)),
    "a fraction of one digit": pki.response_of(info(gen_time="20260601120000.5Z")),
    "a fraction of nine digits": pki.response_of(info(gen_time="20260601120000.123456789Z")),
    "imprint without NULL": pki.response_of(info(imprint=forge.imprint(parameters=b""))),
    "imprint SHA-384": pki.response_of(info(imprint=forge.imprint(digest="sha384"))),
    "imprint SHA-512": pki.response_of(info(imprint=forge.imprint(digest="sha512"))),
    "extension that is not critical": pki.response_of(
        info(extensions=forge.extension("0.4.0.19422.1.1", seq()))
    ),
    "tsa name": with_tsa(forge.directory_name(TSA.subject)),
    "tsa name in PrintableString": with_tsa(forge.directory_name(forge.name("TSA", tag=0x13))),
    "tsa name in BMPString": with_tsa(forge.directory_name(forge.name("TSA", tag=0x1E))),
    "tsa name in other case and spaces": with_tsa(
        forge.directory_name(forge.name("  tsa ", organisation="FORGE"))
    ),
    # CMS
    "SignedData version 1": forge.response(
        forge.envelope(info(), [forge.signer_info(info(), TSA)], [TSA.der, INTER.der], version=1)
    ),
    "digestAlgorithms empty": forge.response(
        forge.envelope(info(), [forge.signer_info(info(), TSA)], [TSA.der, INTER.der], digests=[])
    ),
    "digest SHA-384": pki.response_of(digest="sha384"),
    "digest SHA-512": pki.response_of(digest="sha512"),
    "digest and ECDSA hash differ": pki.response_of(
        digest="sha512",
        signature_identifier=forge.algorithm("ecdsa-sha256", b""),
        signature=forge.sign(
            TSA.key,
            tlv(0x31, *sorted([*forge.signed_attributes(info(), "sha512"), forge.ess_v2(TSA.der)])),
        ),
    ),
    "signature names the EC key and its curve": pki.response_of(
        signature_identifier=forge.algorithm("ec", oid("prime256v1"))
    ),
    "signature names the EC key alone": pki.response_of(
        signature_identifier=forge.algorithm("ec", b"")
    ),
    "ECDSA with NULL parameters": pki.response_of(
        signature_identifier=forge.algorithm("ecdsa-sha256")
    ),
    "signer by key identifier": pki.response_of(
        identifier=tlv(0x80, TSA.key_identifier), version=3
    ),
    "signer's issuer in another string type": pki.response_of(
        identifier=seq(forge.name("Issuing CA", tag=0x13), forge.integer(TSA.serial))
    ),
    "signed attributes out of order": pki.response_of(
        attributes=sorted([*forge.signed_attributes(info()), forge.ess_v2(TSA.der)], reverse=True),
        ordered=False,
    ),
    "signing time and algorithm protection": pki.response_of(
        extra=[attribute("signingTime", forge.time(NOW)), PROTECTION]
    ),
    "attribute without a value": pki.response_of(extra=[attribute("1.2.3.4")]),
    "unsigned counter timestamp": pki.response_of(unsigned=COUNTER),
    "unsigned attribute twice": pki.response_of(
        unsigned=tlv(0xA1, attribute("1.2.3.4", seq()), attribute("1.2.3.4"))
    ),
    # Certificates
    "certificates in any order": pki.response_of(certificates=[INTER.der, TSA.der]),
    "root embedded too": pki.response_of(certificates=[ROOT.der, INTER.der, TSA.der]),
    "unrelated certificates": pki.response_of(
        certificates=[EXTRA[0].der, TSA_2.der, INTER.der, TSA.der, EXTRA[1].der]
    ),
    "certificates twice": pki.response_of(certificates=[TSA.der, TSA.der, INTER.der, INTER.der]),
    "an unreadable certificate beside": pki.response_of(
        certificates=[TSA.der, INTER.der, seq(octets(b"what is this"))]
    ),
    "attribute certificates beside": pki.response_of(
        certificates=[TSA.der, INTER.der, tlv(0xA1, octets(b"v1")), tlv(0xA3, octets(b"other"))]
    ),
    "CRLs embedded": forge.response(
        forge.envelope(
            info(), [forge.signer_info(info(), TSA)], [TSA.der, INTER.der], crls=EMBEDDED_CRL
        )
    ),
    # Signing certificate
    "ESS version 1 alone": pki.response_of(
        attributes=[*forge.signed_attributes(info()), forge.ess_v1(TSA.der)]
    ),
    "ESS both versions": pki.response_of(extra=[forge.ess_v1(TSA.der)]),
    "ESS with issuer and serial": pki.response_of(
        attributes=[
            *forge.signed_attributes(info()),
            forge.ess_v2(TSA.der, issuer_serial=ISSUER_SERIAL),
        ]
    ),
    "ESS with SHA-512": pki.response_of(
        attributes=[*forge.signed_attributes(info()), forge.ess_v2(TSA.der, digest="sha512")]
    ),
    "ESS with SHA-256 written out": pki.response_of(
        attributes=[*forge.signed_attributes(info()), forge.ess_v2(TSA.der, explicit=True)]
    ),
    "ESS of the whole path": pki.response_of(
        attributes=[*forge.signed_attributes(info()), forge.ess_v2(*PATH)]
    ),
    "ESS with policies": pki.response_of(
        attributes=[
            *forge.signed_attributes(info()),
            forge.ess_v2(TSA.der, policies=seq(seq(oid("1.2.3.4")))),
        ]
    ),
    # Status
    "status text": forge.response(pki.token_of(), forge.status_info(0, [forge.text("Fine")])),
    "status text that is not UTF-8": forge.response(
        pki.token_of(), forge.status_info(0, [tlv(0x0C, b"ung\xfcltig")])
    ),
    "failInfo without a bit": forge.response(
        pki.token_of(), forge.status_info(0, failure=forge.bits(b""))
    ),
}


@pytest.mark.parametrize("response", named(SHAPES))
def test_legal_shapes(response: bytes) -> None:
    assert accept(response).path == PATH


WARNINGS = {
    "ESS version 1 alone": ("ess_v1",),
    "no accuracy": ("no_accuracy",),
    "ESS of the whole path": (),
    "ESS both versions": (),
}


@pytest.mark.parametrize(("shape", "warnings"), WARNINGS.items())
def test_warnings(shape: str, warnings: tuple[str, ...]) -> None:
    assert accept(SHAPES[shape]).warnings == warnings


def test_an_ess_entry_for_no_certificate_of_the_path_is_a_warning() -> None:
    attributes = [*forge.signed_attributes(info()), forge.ess_v2(TSA.der, EXTRA[0].der)]
    assert accept(pki.response_of(attributes=attributes)).warnings == ("ess_chain",)


@pytest.mark.parametrize(
    ("text", "micros"),
    [("", 0), (".5", 500_000), (".000001", 1), (".1234567", 123_456), (".999999999", 999_999)],
)
def test_fractions_of_a_second(text: str, micros: int) -> None:
    stamp = accept(pki.response_of(info(gen_time=f"20260601120000{text}Z")))
    assert stamp.gen_time == NOW + timedelta(microseconds=micros)


@pytest.mark.parametrize(
    ("accuracy", "uncertainty"),
    [
        (b"", timedelta(seconds=1)),
        (seq(), timedelta(seconds=1)),  # zero is not believed: genTime may be cut to the second
        (forge.accuracy(None, 1, None), timedelta(milliseconds=1)),
        (forge.accuracy(2, 999, 999), timedelta(seconds=2, microseconds=999_999)),
    ],
)
def test_bounds_of_the_true_time(accuracy: bytes, uncertainty: timedelta) -> None:
    stamp = accept(pki.response_of(info(accuracy=accuracy)))
    assert (stamp.earliest, stamp.latest) == (NOW - uncertainty, NOW + uncertainty)


KEYS = {
    "RSA-2048": ("rsa2048", "sha256", "rsa-sha256", ("p256", "rsa2048", "sha256")),
    "RSA-3072": ("rsa3072", "sha384", "rsa-sha384", ("p256", "rsa3072", "sha256", "sha384")),
    "RSA-4096": ("rsa4096", "sha512", "rsa-sha512", ("p256", "rsa4096", "sha256", "sha512")),
    "P-256": ("p256", "sha256", "ecdsa-sha256", ("p256", "sha256")),
    "P-384": ("p384", "sha384", "ecdsa-sha384", ("p256", "p384", "sha256", "sha384")),
    "P-521": ("p521", "sha512", "ecdsa-sha512", ("p256", "p521", "sha256", "sha512")),
    "Ed25519": ("ed25519", "sha512", "ed25519", ("ed25519", "p256", "sha256")),
}


@pytest.mark.parametrize(("kind", "digest", "signature", "algorithms"), named(KEYS))
def test_keys_of_the_signer(
    kind: str, digest: str, signature: str, algorithms: tuple[str, ...]
) -> None:
    signer = issue("TSA", pki.key(kind, 9), issuer=INTER)
    stamp = accept(pki.response_of(signer=signer, digest=digest))
    assert (stamp.key_algorithm, stamp.signature_algorithm) == (kind, signature)
    assert stamp.algorithms == algorithms


@pytest.mark.parametrize("kind", ["rsa2048", "p384", "ed25519"])
def test_keys_of_the_issuers(kind: str) -> None:
    root = issue("Other root", pki.key(kind, 4))
    inter = issue("Other CA", pki.key(kind, 5), issuer=root, ca=True)
    signer = issue("TSA", issuer=inter)
    response = pki.response_of(signer=signer, certificates=[signer.der, inter.der])
    assert kind in accept(response, replace(TRUST, roots=(root.der,))).algorithms


RSA = issue("RSA TSA", pki.key("rsa3072"), issuer=INTER)
PSS = {
    f"{digest}, salt {salt}": (digest, salt, more)
    for digest, salt, more in (
        ("sha256", 32, b""),
        ("sha384", 48, b""),
        ("sha512", 64, b""),
        ("sha256", 0, b""),
        ("sha256", 20, tlv(0xA3, forge.integer(1))),
    )
}


@pytest.mark.parametrize(("digest", "salt", "more"), named(PSS))
def test_rsa_pss(digest: str, salt: int, more: bytes) -> None:
    stated = None if salt == 20 else salt  # 20 is the default, and so absent
    parameters = forge.pss_parameters(digest, salt=stated, more=more)
    response = pki.response_of(
        signer=RSA,
        digest=digest,
        pss_salt=salt,
        signature_identifier=forge.algorithm("rsa-pss", parameters),
    )
    assert accept(response).signature_algorithm == f"rsa-pss-{digest}"


@pytest.mark.parametrize("parameters", [forge.NULL, b""])
def test_rsa_named_by_its_key(parameters: bytes) -> None:
    identifier = forge.algorithm("rsa", parameters)
    response = pki.response_of(signer=RSA, digest="sha512", signature_identifier=identifier)
    assert accept(response).signature_algorithm == "rsa-sha512"


OTHER_NAMES = seq(tlv(0x82, b"tsa.example"), forge.directory_name(forge.name("Alias")))
NAMED = issue("Named", issuer=INTER, more=[forge.extension("2.5.29.17", OTHER_NAMES)])


@pytest.mark.parametrize(
    "name", [tlv(0x82, b"tsa.example"), forge.directory_name(forge.name("ALIAS", tag=0x13))]
)
def test_the_tsa_name_may_be_an_alternative_name(name: bytes) -> None:
    assert accept(pki.response_of(info(tsa=name), NAMED)).path[0] == NAMED.der


def test_without_certificates_the_verifier_brings_them() -> None:
    response = pki.response_of(certificates=[])
    trust = replace(TRUST, intermediates=(INTER.der,), certificate=TSA.der)
    assert accept(response, trust).path == PATH
    trust = replace(TRUST, intermediates=(TSA.der, INTER.der))
    assert accept(response, trust).path == PATH


def test_the_pinned_certificate() -> None:
    assert accept(pki.response_of(), replace(TRUST, certificate=TSA.der)).path == PATH


def test_granted_with_modifications_by_option() -> None:
    response = forge.response(pki.token_of(), forge.status_info(1))
    rules = replace(DEFAULT_RULES, allow_granted_with_mods=True)
    assert accept(response, rules=rules).path == PATH


def test_stricter_rules_that_are_met() -> None:
    rules = replace(DEFAULT_RULES, require_accuracy=True, require_ess_v2=True)
    assert accept(pki.response_of(), rules=rules).path == PATH
    assert accept(SHAPES["ESS both versions"], rules=rules).ess == ("v1", "v2")


@pytest.mark.parametrize(
    "trust",
    [
        replace(TRUST, policies=frozenset({forge.POLICY, "1.2.3"})),
        replace(TRUST, trusted_from=NOW, trusted_until=NOW),
        replace(TRUST, trusted_from=NOW - timedelta(days=1)),
        replace(TRUST, roots=(EXTRA[0].der, ROOT.der)),
    ],
    ids=["policy", "window to the second", "open window", "two roots"],
)
def test_trust_that_is_met(trust: TsaTrust) -> None:
    assert accept(pki.response_of(), trust).path == PATH


@pytest.mark.parametrize("at", [pki.NOT_BEFORE, NOT_AFTER])
def test_the_first_and_the_last_second_of_a_certificate(at: datetime) -> None:
    assert accept(pki.response_of(info(gen_time=at))).gen_time == at


def test_a_certificate_that_expired_since_does_not_matter() -> None:
    signer = issue("Old", issuer=INTER, not_after=datetime(2026, 6, 2, tzinfo=UTC))
    assert accept(pki.response_of(signer=signer)).path_not_after == datetime(2026, 6, 2, tzinfo=UTC)


def test_a_nonce_that_was_not_sent_is_not_compared() -> None:
    assert verify_response(pki.response_of(), MESSAGE, TRUST).nonce == NONCE
    assert verify_response(pki.response_of(info(nonce=None)), MESSAGE, TRUST).nonce is None


def test_the_empty_message() -> None:
    empty = pki.response_of(info(imprint=forge.imprint(b"")))
    assert verify_response(empty, b"", TRUST, nonce=NONCE).hash_algorithm == "sha256"


def test_the_forge_hashes_as_everybody_does() -> None:
    assert hashlib.sha256(MESSAGE).digest() in pki.response_of()
