"""Timestamps that must be refused, each with its cause. Certificates have their own file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.timestamp import (
    DEFAULT_RULES,
    Cause,
    TimestampError,
    TimestampRules,
    TsaTrust,
    token_of,
    verify_response,
    verify_token,
)
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE, NONCE, NOW, attribute, integer, octets, oid, seq, tlv
from tests.helpers.tsa_pki import INTER, ROOT, TRUST, TSA, issue


def refuse(
    response: bytes, trust: TsaTrust = TRUST, message: bytes = MESSAGE, **changes: Any
) -> TimestampError:
    with pytest.raises(TimestampError) as caught:
        verify_response(response, message, trust, nonce=NONCE, **changes)
    assert caught.value.reason is Reason.BAD_TIMESTAMP
    return caught.value


def info(**changes: Any) -> bytes:
    return forge.tst_info(**changes)


def made(**changes: Any) -> bytes:
    """A response whose TSTInfo differs."""
    return pki.response_of(info(**changes))


def signed(*attributes: bytes) -> bytes:
    """A response with exactly these signed attributes."""
    return pki.response_of(attributes=attributes)


def enveloped(*signers: bytes, **changes: Any) -> bytes:
    signers = signers or (forge.signer_info(info(), TSA),)
    return forge.response(forge.envelope(info(), signers, [TSA.der, INTER.der], **changes))


def flipped(signature: bytes) -> bytes:
    return signature[:-1] + bytes([signature[-1] ^ 1])


ATTRIBUTES = forge.signed_attributes(info())
ESS = forge.ess_v2(TSA.der)
SIGNED = tlv(0x31, *sorted([*ATTRIBUTES, ESS]))
GOOD = pki.response_of()
TWIN = issue("Twin", TSA.key, issuer=INTER)  # another certificate of the same key
RSA = issue("RSA TSA", pki.key("rsa3072"), issuer=INTER)

STATUS: dict[str, tuple[bytes, Cause]] = {
    name: (
        forge.response(None, forge.status_info(2, [forge.text("no")], forge.failure(name))),
        Cause(name),
    )
    for name in forge.FAILURES
}
STATUS |= {
    "granted with mods": (
        forge.response(pki.token_of(), forge.status_info(1)),
        Cause.STATUS_GRANTED_WITH_MODS,
    ),
    "rejection": (forge.response(None, forge.status_info(2)), Cause.STATUS_REJECTION),
    "rejection with a token": (
        forge.response(pki.token_of(), forge.status_info(2)),
        Cause.STATUS_REJECTION,
    ),
    "rejection with an unknown failure": (
        forge.response(None, forge.status_info(2, failure=forge.bits(b"\x40", 6))),
        Cause.STATUS_REJECTION,
    ),
    "two failures, the first counts": (
        forge.response(None, forge.status_info(2, failure=forge.bits(b"\x24", 2))),
        Cause.BAD_REQUEST,
    ),
    "waiting": (forge.response(None, forge.status_info(3)), Cause.STATUS_WAITING),
    "waiting with a failure": (
        forge.response(None, forge.status_info(3, failure=forge.failure("bad_alg"))),
        Cause.STATUS_WAITING,
    ),
    "revocation warning": (
        forge.response(pki.token_of(), forge.status_info(4)),
        Cause.STATUS_REVOCATION_WARNING,
    ),
    "revocation notification": (
        forge.response(None, forge.status_info(5)),
        Cause.STATUS_REVOCATION_NOTIFICATION,
    ),
    "status 99": (forge.response(pki.token_of(), forge.status_info(99)), Cause.STATUS_UNKNOWN),
    "status 300": (forge.response(pki.token_of(), forge.status_info(300)), Cause.STATUS_UNKNOWN),
    "status -1": (forge.response(pki.token_of(), forge.status_info(-1)), Cause.STATUS_UNKNOWN),
    "granted with a failure": (
        forge.response(pki.token_of(), forge.status_info(0, failure=forge.failure("bad_alg"))),
        Cause.BAD_ALG,
    ),
    "granted with an unknown failure": (
        forge.response(pki.token_of(), forge.status_info(0, failure=forge.bits(b"\x40", 6))),
        Cause.STATUS_UNKNOWN,
    ),
    "granted without a token": (forge.response(None), Cause.NO_TOKEN),
}

FORM: dict[str, tuple[bytes, Cause]] = {
    "empty": (b"", Cause.DER),
    "HTML": (b"<html>captive portal</html>", Cause.DER),
    "truncated": (GOOD[:-1], Cause.DER),
    "trailing byte": (GOOD + b"\x00", Cause.DER),
    "a bare token": (pki.token_of(), Cause.DER),
    "more than 64 KiB": (bytes(65_537), Cause.TOO_LARGE),
    "third member": (seq(forge.status_info(), pki.token_of(), seq()), Cause.DER),
    "token is no SEQUENCE": (seq(forge.status_info(), octets(b"")), Cause.DER),
    "token empty": (forge.response(seq()), Cause.DER),
    "status empty": (seq(seq(), pki.token_of()), Cause.DER),
    "status no INTEGER": (seq(seq(octets(b"\x00")), pki.token_of()), Cause.DER),
    "status text no UTF8String": (
        forge.response(pki.token_of(), forge.status_info(0, [tlv(0x16, b"x")])),
        Cause.DER,
    ),
    "failInfo of five bytes": (
        forge.response(None, forge.status_info(2, failure=forge.bits(b"\x80" * 5))),
        Cause.DER,
    ),
    "status with a member too many": (
        seq(seq(integer(0), integer(0)), pki.token_of()),
        Cause.DER,
    ),
    "indefinite length": (b"\x30\x80" + GOOD[4:] + b"\x00\x00", Cause.DER),
    "ContentInfo of data": (forge.response(seq(oid("data"), tlv(0xA0, seq()))), Cause.CONTENT_TYPE),
    "content absent": (forge.response(seq(oid("signedData"))), Cause.DER),
    "content twice": (forge.response(seq(oid("signedData"), tlv(0xA0, seq(), seq()))), Cause.DER),
    "SignedData version 2": (enveloped(version=2), Cause.DER),
    "SignedData member too many": (enveloped(more=seq()), Cause.DER),
    "eContentType data": (enveloped(content_type="data"), Cause.CONTENT_TYPE),
    "eContent no OCTET STRING": (enveloped(content=info()), Cause.DER),
    "eContent in pieces": (enveloped(content=tlv(0x24, octets(info()))), Cause.DER),
    "no signer": (
        forge.response(forge.envelope(info(), [], [TSA.der, INTER.der])),
        Cause.SIGNERS,
    ),
    "two signers": (enveloped(*[forge.signer_info(info(), TSA)] * 2), Cause.SIGNERS),
    "17 certificates": (pki.response_of(certificates=[TSA.der, *[seq()] * 16]), Cause.CERTIFICATE),
    "more values than a token needs": (
        pki.response_of(extra=[attribute("signingTime", *[forge.NULL] * 1_000)]),
        Cause.DER,
    ),
    "a TSTInfo of more values than it needs": (
        pki.response_of(info(extensions=forge.extension("1.2.3", b"") * 250)),
        Cause.DER,
    ),
    "signer version 3 with a name": (pki.response_of(version=3), Cause.DER),
    "signer version 1 with a key identifier": (
        pki.response_of(identifier=tlv(0x80, TSA.key_identifier)),
        Cause.DER,
    ),
    "signer identified in no known way": (pki.response_of(identifier=tlv(0x81, b"x")), Cause.DER),
    "signature no OCTET STRING": (
        GOOD.replace(
            octets(forge.sign(TSA.key, SIGNED)), forge.bits(forge.sign(TSA.key, SIGNED)[1:])
        ),
        Cause.DER,
    ),
    "unsigned attributes malformed": (pki.response_of(unsigned=tlv(0xA1, octets(b""))), Cause.DER),
    "SignerInfo member too many": (pki.response_of(unsigned=tlv(0xA2)), Cause.DER),
}

INFO: dict[str, tuple[bytes, Cause]] = {
    "version 2": (made(version=2), Cause.TST_VERSION),
    "version 0": (made(version=0), Cause.TST_VERSION),
    "bytes after it": (pki.response_of(info() + b"\x05\x00"), Cause.DER),
    "member too many": (made(more=octets(b"")), Cause.DER),
    "ordering FALSE written out": (made(ordering=forge.boolean(False)), Cause.DER),
    "ordering TRUE as 01": (made(ordering=b"\x01\x01\x01"), Cause.DER),
    "imprint of another message": (made(imprint=forge.imprint(b"other")), Cause.IMPRINT),
    "imprint of 20 bytes": (
        made(imprint=seq(forge.algorithm("sha256"), octets(hashlib.sha256(MESSAGE).digest()[:20]))),
        Cause.IMPRINT,
    ),
    "imprint SHA-1": (made(imprint=forge.imprint(digest="sha1")), Cause.HASH_ALGORITHM),
    "imprint MD5": (made(imprint=forge.imprint(digest="md5")), Cause.HASH_ALGORITHM),
    "imprint of the right digest named SHA3-256": (
        made(imprint=seq(forge.algorithm("sha3-256"), octets(hashlib.sha256(MESSAGE).digest()))),
        Cause.HASH_ALGORITHM,
    ),
    "imprint with parameters": (
        made(imprint=forge.imprint(parameters=octets(b"x"))),
        Cause.HASH_ALGORITHM,
    ),
    "imprint with a filled NULL": (
        made(imprint=forge.imprint(parameters=b"\x05\x01\0")),
        Cause.DER,
    ),
    "imprint with a third member": (
        made(imprint=seq(forge.algorithm("sha256"), octets(bytes(32)), integer(0))),
        Cause.DER,
    ),
    "serial of 161 bits": (made(serial=2**160), Cause.SERIAL),
    "serial negative of 161 bits": (made(serial=-(2**160)), Cause.SERIAL),
    "serial of 65 bytes": (made(serial=2**515), Cause.DER),
    "nonce differs": (made(nonce=NONCE + 1), Cause.NONCE),
    "nonce absent": (made(nonce=None), Cause.NONCE),
    "nonce negative": (made(nonce=-5), Cause.NONCE),
    "critical extension": (
        made(extensions=forge.extension("1.2.3.4.5", octets(b""), critical=True)),
        Cause.CRITICAL_EXTENSION,
    ),
    "extension twice": (made(extensions=forge.extension("1.2.3", seq()) * 2), Cause.DER),
    "tsa of another name": (made(tsa=forge.directory_name(ROOT.subject)), Cause.TSA_NAME),
    "tsa of another kind": (made(tsa=tlv(0x82, b"tsa.example")), Cause.TSA_NAME),
    "tsa with two names": (made(tsa=forge.directory_name(TSA.subject * 2)), Cause.DER),
    "tsa that is no name": (made(tsa=forge.directory_name(octets(b"x"))), Cause.DER),
    "accuracy millis 0": (made(accuracy=forge.accuracy(1, 0, None)), Cause.ACCURACY),
    "accuracy millis 1000": (made(accuracy=forge.accuracy(1, 1000, None)), Cause.ACCURACY),
    "accuracy micros 0": (made(accuracy=forge.accuracy(1, None, 0)), Cause.ACCURACY),
    "accuracy micros 1000": (made(accuracy=forge.accuracy(1, None, 1000)), Cause.ACCURACY),
    "accuracy negative": (made(accuracy=forge.accuracy(-1, None, None)), Cause.ACCURACY),
    "accuracy of 30 000 years": (made(accuracy=forge.accuracy(10**12, None, None)), Cause.ACCURACY),
    "accuracy of 61 seconds": (made(accuracy=forge.accuracy(61, None, None)), Cause.ACCURACY),
    "accuracy with a fourth part": (made(accuracy=seq(integer(1), integer(1))), Cause.DER),
}
TIMES = {
    "with an offset": "20260601140000+0200",
    "without Z": "20260601120000",
    "without seconds": "202606011200Z",
    "with a final zero": "20260601120000.50Z",
    "with a dot alone": "20260601120000.Z",
    "with ten digits": "20260601120000.1234567891Z",
    "with a comma": "20260601120000,5Z",
    "30 February": "20260230120000Z",
    "month 13": "20261301120000Z",
    "leap second": "20161231235960Z",
    "second 61": "20161231235961Z",
    "hour 24": "20260601240000Z",
    "year 1900": "19000101000000Z",
    "year 9999": "99991231235959Z",
    "a sign": "+0260601120000Z",
    "a blank": "2026060112000 Z",
    "other digits": "\u0662\u0660260601120000Z",
    "empty": "",
}
INFO |= {f"genTime {name}": (made(gen_time=text), Cause.GEN_TIME) for name, text in TIMES.items()}
INFO["genTime as UTCTime"] = (
    pki.response_of(info().replace(forge.general_time(NOW), forge.time(NOW))),
    Cause.DER,
)

SIGNER: dict[str, tuple[bytes, Cause]] = {
    "no certificate": (pki.response_of(certificates=[]), Cause.NO_SIGNER_CERTIFICATE),
    "certificate of another": (
        pki.response_of(certificates=[TWIN.der, INTER.der]),
        Cause.NO_SIGNER_CERTIFICATE,
    ),
    "identifier of no certificate": (
        pki.response_of(identifier=seq(TSA.issuer, integer(TSA.serial + 1))),
        Cause.NO_SIGNER_CERTIFICATE,
    ),
    "identifier of another issuer": (
        pki.response_of(identifier=seq(ROOT.subject, integer(TSA.serial))),
        Cause.NO_SIGNER_CERTIFICATE,
    ),
    "key identifier of no certificate": (
        pki.response_of(identifier=tlv(0x80, bytes(20)), version=3),
        Cause.NO_SIGNER_CERTIFICATE,
    ),
    "certificate that takes a byte of the next": (
        pki.response_of(certificates=[TSA.der[:-1], INTER.der]),
        Cause.ESS,
    ),
    "certificate with a broken extension": (
        pki.response_of(
            certificates=[
                issue("TSA", issuer=INTER, more=[forge.extension("2.5.29.17", b"?")]).der,
                INTER.der,
            ]
        ),
        Cause.CERTIFICATE,
    ),
    "digest SHA-1": (
        pki.response_of(digest="sha1", attributes=[*ATTRIBUTES, ESS]),
        Cause.HASH_ALGORITHM,
    ),
    "no signed attributes": (
        pki.response_of(attributes=[], signature=forge.sign(TSA.key, info())),
        Cause.NO_SIGNED_ATTRIBUTES,
    ),
    "contentType absent": (signed(ATTRIBUTES[1], ESS), Cause.SIGNED_ATTRIBUTE),
    "contentType data": (
        signed(attribute("contentType", oid("data")), ATTRIBUTES[1], ESS),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "contentType with two values": (
        signed(attribute("contentType", oid("TSTInfo"), oid("data")), ATTRIBUTES[1], ESS),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "messageDigest absent": (signed(ATTRIBUTES[0], ESS), Cause.SIGNED_ATTRIBUTE),
    "messageDigest wrong": (
        signed(ATTRIBUTES[0], attribute("messageDigest", octets(bytes(32))), ESS),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "messageDigest without a value": (
        signed(ATTRIBUTES[0], attribute("messageDigest"), ESS),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "messageDigest no OCTET STRING": (
        signed(ATTRIBUTES[0], attribute("messageDigest", integer(1)), ESS),
        Cause.DER,
    ),
    "an attribute twice": (signed(*ATTRIBUTES, ATTRIBUTES[1], ESS), Cause.SIGNED_ATTRIBUTE),
    "an attribute with three members": (
        signed(*ATTRIBUTES, ESS, seq(oid("1.2.3"), tlv(0x31), integer(1))),
        Cause.DER,
    ),
    "protection of another hash": (
        pki.response_of(
            extra=[
                attribute(
                    "algorithmProtection",
                    seq(forge.algorithm("sha512"), tlv(0xA1, oid("ecdsa-sha256"))),
                )
            ]
        ),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "protection of another signature": (
        pki.response_of(
            extra=[
                attribute(
                    "algorithmProtection",
                    seq(forge.algorithm("sha256"), tlv(0xA1, oid("ecdsa-sha512"))),
                )
            ]
        ),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "ESS absent": (signed(*ATTRIBUTES), Cause.ESS),
    "ESS of another certificate": (signed(*ATTRIBUTES, forge.ess_v2(INTER.der)), Cause.ESS),
    "ESS of a twin of the same key": (signed(*ATTRIBUTES, forge.ess_v2(TWIN.der)), Cause.ESS),
    "ESS signer not first": (signed(*ATTRIBUTES, forge.ess_v2(INTER.der, TSA.der)), Cause.ESS),
    "ESS version 1 wrong beside 2": (
        pki.response_of(extra=[forge.ess_v1(INTER.der)]),
        Cause.ESS,
    ),
    "ESS version 2 wrong beside 1": (
        signed(*ATTRIBUTES, forge.ess_v1(TSA.der), forge.ess_v2(INTER.der)),
        Cause.ESS,
    ),
    "ESS empty": (signed(*ATTRIBUTES, attribute("ess-v2", seq(seq()))), Cause.ESS),
    "ESS with two values": (
        signed(*ATTRIBUTES, attribute("ess-v2", seq(seq()), seq(seq()))),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "ESS version 2 with SHA-1": (
        signed(*ATTRIBUTES, forge.ess_v2(TSA.der, digest="sha1")),
        Cause.HASH_ALGORITHM,
    ),
    "ESS with another serial": (
        signed(
            *ATTRIBUTES,
            forge.ess_v2(TSA.der, issuer_serial=forge.issuer_serial(TSA.issuer, TSA.serial + 1)),
        ),
        Cause.ESS,
    ),
    "ESS with another issuer": (
        signed(
            *ATTRIBUTES,
            forge.ess_v2(TSA.der, issuer_serial=forge.issuer_serial(ROOT.subject, TSA.serial)),
        ),
        Cause.ESS,
    ),
    "ESS with an issuer that is no directoryName": (
        signed(
            *ATTRIBUTES,
            forge.ess_v2(TSA.der, issuer_serial=seq(seq(tlv(0x82, b"x")), integer(TSA.serial))),
        ),
        Cause.ESS,
    ),
    "ESS of 17 certificates": (
        signed(*ATTRIBUTES, forge.ess_v2(TSA.der, *[INTER.der] * 16)),
        Cause.ESS,
    ),
    "ESS with five names of the issuer": (
        signed(
            *ATTRIBUTES,
            forge.ess_v2(
                TSA.der,
                issuer_serial=seq(
                    seq(*[forge.directory_name(TSA.issuer)] * 5), integer(TSA.serial)
                ),
            ),
        ),
        Cause.DER,
    ),
    "ESS with a member too many": (
        signed(*ATTRIBUTES, attribute("ess-v2", seq(seq(), seq(), seq()))),
        Cause.DER,
    ),
    "signature flipped": (
        pki.response_of(signature=flipped(forge.sign(TSA.key, SIGNED))),
        Cause.SIGNATURE,
    ),
    "signature empty": (pki.response_of(signature=b""), Cause.SIGNATURE),
    "signature over the content": (
        pki.response_of(signature=forge.sign(TSA.key, info())),
        Cause.SIGNATURE,
    ),
    "signature over attributes in DER order, received in another": (
        pki.response_of(
            attributes=[ESS, *ATTRIBUTES],
            ordered=False,
            signature=forge.sign(TSA.key, SIGNED),
        ),
        Cause.SIGNATURE,
    ),
    "signature by another key": (
        pki.response_of(signature=forge.sign(INTER.key, SIGNED)),
        Cause.SIGNATURE,
    ),
    "genTime changed after signing": (
        GOOD.replace(b"20260601120000Z", b"20260601120001Z"),
        Cause.SIGNED_ATTRIBUTE,
    ),
    "RSA signature of a flipped bit": (
        pki.response_of(
            signer=RSA,
            signature=flipped(
                forge.sign(RSA.key, tlv(0x31, *sorted([*ATTRIBUTES, forge.ess_v2(RSA.der)])))
            ),
        ),
        Cause.SIGNATURE,
    ),
}

ALGORITHMS: dict[str, tuple[bytes, Cause]] = {
    f"{name}": (
        pki.response_of(signer=signer, signature_identifier=identifier),
        Cause.SIGNATURE_ALGORITHM,
    )
    for name, signer, identifier in (
        ("ECDSA with SHA-1", TSA, forge.algorithm("ecdsa-sha1", b"")),
        ("ECDSA with parameters", TSA, forge.algorithm("ecdsa-sha256", seq())),
        ("RSA by an EC key", TSA, forge.algorithm("rsa-sha256")),
        ("Ed25519 by an EC key", TSA, forge.algorithm("ed25519", b"")),
        ("RSA with SHA-1", RSA, forge.algorithm("rsa-sha1")),
        ("RSA with parameters", RSA, forge.algorithm("rsa-sha256", seq())),
        ("RSA with another hash than the digest", RSA, forge.algorithm("rsa-sha512")),
        ("ECDSA by an RSA key", RSA, forge.algorithm("ecdsa-sha256", b"")),
        ("PSS of the defaults, SHA-1", RSA, forge.algorithm("rsa-pss", b"")),
        ("PSS with another hash than the digest", RSA,
         forge.algorithm("rsa-pss", forge.pss_parameters("sha512", salt=64))),
        ("PSS with another mask hash", RSA,
         forge.algorithm("rsa-pss", forge.pss_parameters("sha256", "sha512", 32))),
        ("PSS with trailer 2", RSA,
         forge.algorithm("rsa-pss", forge.pss_parameters("sha256", more=tlv(0xA3, integer(2))))),
        ("PSS with a negative salt", RSA,
         forge.algorithm("rsa-pss", forge.pss_parameters("sha256", salt=-1))),
        ("PSS with a huge salt", RSA,
         forge.algorithm("rsa-pss", forge.pss_parameters("sha256", salt=2**40))),
        ("PSS with another mask function", RSA,
         forge.algorithm("rsa-pss", forge.pss_parameters("sha256").replace(oid("mgf1"), oid("rsa")))),
        ("PSS with a mask without a hash", RSA,
         forge.algorithm("rsa-pss",
                         seq(tlv(0xA0, forge.algorithm("sha256")), tlv(0xA1, seq(oid("mgf1")))))),
        ("RSA by an Ed25519 key", issue("Ed", pki.key("ed25519"), issuer=INTER),
         forge.algorithm("rsa-sha256")),
        ("Ed25519 with parameters", issue("Ed", pki.key("ed25519"), issuer=INTER),
         forge.algorithm("ed25519", seq())),
    )
}  # fmt: skip
ALGORITHMS |= {
    "PSS with SHA-1": (
        pki.response_of(
            signer=RSA,
            signature_identifier=forge.algorithm("rsa-pss", forge.pss_parameters("sha1")),
        ),
        Cause.HASH_ALGORITHM,
    ),
    "PSS with a wrong salt": (
        pki.response_of(
            signer=RSA,
            pss_salt=32,
            signature_identifier=forge.algorithm(
                "rsa-pss", forge.pss_parameters("sha256", salt=31)
            ),
        ),
        Cause.SIGNATURE,
    ),
    "RSA-1024": (
        pki.response_of(signer=issue("Short", pki.key("rsa1024"), issuer=INTER)),
        Cause.WEAK_KEY,
    ),
    "a curve of no standard": (
        pki.response_of(signer=issue("Coin", pki.key("k256"), issuer=INTER)),
        Cause.WEAK_KEY,
    ),
}


@pytest.mark.parametrize(("response", "cause"), named(STATUS))
def test_answers_other_than_granted(response: bytes, cause: Cause) -> None:
    assert refuse(response).cause is cause


@pytest.mark.parametrize(("response", "cause"), named(FORM))
def test_form(response: bytes, cause: Cause) -> None:
    assert refuse(response).cause is cause


@pytest.mark.parametrize(("response", "cause"), named(INFO))
def test_what_the_token_says(response: bytes, cause: Cause) -> None:
    assert refuse(response).cause is cause


@pytest.mark.parametrize(("response", "cause"), named(SIGNER))
def test_who_signed_it(response: bytes, cause: Cause) -> None:
    assert refuse(response).cause is cause


@pytest.mark.parametrize(("response", "cause"), named(ALGORITHMS))
def test_algorithms(response: bytes, cause: Cause) -> None:
    assert refuse(response).cause is cause


DAY = timedelta(days=1)
ESS_V1 = pki.response_of(attributes=[*ATTRIBUTES, forge.ess_v1(TSA.der)])
DEMANDS: dict[str, tuple[bytes, TsaTrust, TimestampRules, Cause]] = {
    "another policy": (
        GOOD,
        replace(TRUST, policies=frozenset({"1.2.3"})),
        DEFAULT_RULES,
        Cause.POLICY,
    ),
    "another pinned certificate": (
        GOOD,
        replace(TRUST, certificate=TWIN.der),
        DEFAULT_RULES,
        Cause.TSA_PIN,
    ),
    "a pin that is no certificate": (
        GOOD,
        replace(TRUST, certificate=b"x"),
        DEFAULT_RULES,
        Cause.CERTIFICATE,
    ),
    "a root that is no certificate": (
        GOOD,
        replace(TRUST, roots=(b"x",)),
        DEFAULT_RULES,
        Cause.CERTIFICATE,
    ),
    "no root": (GOOD, replace(TRUST, roots=()), DEFAULT_RULES, Cause.CHAIN),
    "not trusted yet": (
        GOOD,
        replace(TRUST, trusted_from=NOW + DAY),
        DEFAULT_RULES,
        Cause.TRUST_WINDOW,
    ),
    "not trusted any more": (
        GOOD,
        replace(TRUST, trusted_until=NOW - DAY),
        DEFAULT_RULES,
        Cause.TRUST_WINDOW,
    ),
    "accuracy required": (
        made(accuracy=b""),
        TRUST,
        replace(DEFAULT_RULES, require_accuracy=True),
        Cause.ACCURACY,
    ),
    "accuracy narrower": (
        GOOD,
        TRUST,
        replace(DEFAULT_RULES, max_accuracy=timedelta(seconds=1)),
        Cause.ACCURACY,
    ),
    "ESS version 2 required": (
        ESS_V1,
        TRUST,
        replace(DEFAULT_RULES, require_ess_v2=True),
        Cause.ESS,
    ),
    "RSA-4096 required": (
        pki.response_of(signer=RSA),
        TRUST,
        replace(DEFAULT_RULES, min_rsa_bits=4096),
        Cause.WEAK_KEY,
    ),
    "fewer bytes allowed": (GOOD, TRUST, replace(DEFAULT_RULES, max_bytes=999), Cause.TOO_LARGE),
    "mods allowed, but beside a failure": (
        forge.response(pki.token_of(), forge.status_info(1, failure=forge.failure("bad_alg"))),
        TRUST,
        replace(DEFAULT_RULES, allow_granted_with_mods=True),
        Cause.STATUS_GRANTED_WITH_MODS,
    ),
    "RSA-2048 after 2030": (
        pki.response_of(
            info(gen_time=NOW.replace(year=2031)),
            issue("Late", pki.key("rsa2048"), issuer=INTER),
        ),
        TRUST,
        DEFAULT_RULES,
        Cause.ALGORITHM_EXPIRED,
    ),
}


@pytest.mark.parametrize(("response", "trust", "rules", "cause"), named(DEMANDS))
def test_what_is_demanded(
    response: bytes, trust: TsaTrust, rules: TimestampRules, cause: Cause
) -> None:
    assert refuse(response, trust, rules=rules).cause is cause


def test_another_message() -> None:
    assert refuse(GOOD, message=MESSAGE + b"\n").cause is Cause.IMPRINT


def test_a_token_needs_no_status_but_the_same_checks() -> None:
    with pytest.raises(TimestampError) as caught:
        verify_token(GOOD, MESSAGE, TRUST)
    assert caught.value.cause is Cause.DER
    with pytest.raises(TimestampError) as caught:
        verify_token(pki.token_of(), MESSAGE, TRUST, nonce=1)
    assert caught.value.cause is Cause.NONCE


def test_no_token_to_take_out() -> None:
    with pytest.raises(TimestampError) as caught:
        token_of(forge.response(None, forge.status_info(2)))
    assert caught.value.cause is Cause.NO_TOKEN


@pytest.mark.parametrize("value", [None, "text", bytearray(b"0\x00"), memoryview(b"0\x00"), 5])
def test_what_is_no_bytes(value: Any) -> None:
    assert refuse(value).cause is Cause.DER


def test_trust_is_never_pooled() -> None:
    """Roots of one record and the policy of another do not make a third."""
    other_root = issue("Root of B")
    signer = issue("TSA of B", issuer=other_root)
    response = pki.response_of(signer=signer, certificates=[signer.der])
    trusted_b = TsaTrust(name="b", authority="B", roots=(other_root.der,))
    assert verify_response(response, MESSAGE, trusted_b).path == (signer.der, other_root.der)
    assert refuse(response).cause is Cause.CHAIN
    assert refuse(GOOD, trusted_b).cause is Cause.CHAIN


def test_an_error_says_what_and_why() -> None:
    error = refuse(made(nonce=1))
    assert isinstance(error, EvidenceError)
    assert (error.want, error.got) == (hex(NONCE), "0x1")
    assert str(error) == f"bad_timestamp: nonce; expected {hex(NONCE)}; got 0x1 (nonce)"


def test_texts_of_an_authority_cannot_disturb_a_log() -> None:
    texts = [forge.text("a\n\x1b[31mb"), forge.text("x" * 500)]
    error = refuse(forge.response(None, forge.status_info(2, texts)))
    assert error.got is not None
    assert error.got.startswith("rejection 'a\\n\\x1b[31mb'")
    assert len(error.got) == 200
