"""OCSP responses as evidence (RFC 6960): signed by the issuer itself, or by a responder it appointed.

A response names a certificate by hashes of its issuer's name and key and by its serial number. One about
other certificates is not looked at further. A responder's certificate must be issued by the same
issuer directly, for OCSPSigning, with a key as strong as any on the path, and valid when it spoke; that
it was not revoked itself is not asked, as its issuer vouches for it with a short life or
id-pkix-ocsp-nocheck. Several certificates may bear the responder's name: one under which all holds is
enough.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from receiptledger.core.revocation_finding import Finding, bad_evidence
from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_der import (
    BIT_STRING,
    GENERALIZED_TIME,
    INTEGER,
    OCTET_STRING,
    OID,
    SEQUENCE,
    Members,
    algorithm,
    bit_string,
    expect,
    integer,
    moment,
    object_identifier,
    only,
    parse,
)
from receiptledger.core.timestamp_limits import (
    CACHED_EVIDENCE,
    CACHED_EVIDENCE_BYTES,
    MAX_OCSP_ANSWERS,
    MAX_OCSP_BYTES,
    MAX_OCSP_CERTIFICATES,
    MAX_OCSP_NODES,
    MIN_RSA_BITS,
)
from receiptledger.core.timestamp_memory import Memory, digest_of
from receiptledger.core.timestamp_signature import HASH_OIDS, key_name, verify_signature
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.core.tsa_extensions import DIGITAL_SIGNATURE, read_extensions
from receiptledger.core.tsa_name import same_name
from receiptledger.core.tsa_rules import check_critical

if TYPE_CHECKING:
    from datetime import datetime

    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["Ocsp", "load_ocsp", "ocsp_findings"]

ENUMERATED: Final = 0x0A
_BASIC = "1.3.6.1.5.5.7.48.1.1"
_OCSP_SIGNING = "1.3.6.1.5.5.7.3.9"
# SHA-1 only names the issuer here; the signature is over the whole response.
_NAMING_HASHES = {**HASH_OIDS, "1.3.14.3.2.26": "sha1"}
_GOOD, _REVOKED, _UNKNOWN = 0x80, 0xA1, 0x82
_BY_NAME, _BY_KEY = 0xA1, 0xA2
_OPAQUE = frozenset({(SEQUENCE, 0xA0, SEQUENCE)})  # certificates: read when one is needed


@dataclass(frozen=True, slots=True)
class _Single:
    """One SingleResponse: whom it is about, and what it says; None for "unknown"."""

    hash_algorithm: str | None
    issuer_name: bytes
    issuer_key: bytes
    serial: int
    finding: Finding | None

    def about(self, certificate: TsaCertificate, issuer: TsaCertificate) -> bool:
        if self.hash_algorithm is None or self.serial != certificate.serial:
            return False
        return (self.issuer_name, self.issuer_key) == (
            hashlib.new(self.hash_algorithm, certificate.issuer, usedforsecurity=False).digest(),
            hashlib.new(self.hash_algorithm, _key_bits(issuer), usedforsecurity=False).digest(),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ocsp:
    """A basic response that was read; its signature is not verified."""

    tbs: bytes
    identifier: Node
    signature: bytes
    responder: Node
    singles: tuple[_Single, ...]
    certificates: tuple[bytes, ...]


_READ: Memory[bytes, Ocsp] = Memory(CACHED_EVIDENCE, CACHED_EVIDENCE_BYTES)


def load_ocsp(der: bytes) -> Ocsp:
    """Read a DER OCSPResponse; what was read lately is remembered.

    Raises:
        TimestampError: DER, TOO_LARGE, EVIDENCE for a response without an answer, or one with too many
            parts.
    """
    return _READ.get(digest_of(der, MAX_OCSP_BYTES), partial(_ocsp, der), len(der))


def _ocsp(der: bytes) -> Ocsp:
    top = parse(der, max_bytes=MAX_OCSP_BYTES, max_nodes=MAX_OCSP_NODES)
    outer = Members(top, "OCSPResponse")
    status = integer(outer.take(), "OCSP status", ENUMERATED)
    tagged = outer.optional(0xA0)
    outer.end()
    if status != 0 or tagged is None:
        raise bad_evidence("OCSP responder did not answer", want="successful", got=str(status))
    members = Members(only(tagged, "responseBytes"), "responseBytes")
    kind = object_identifier(members.take(OID), "OCSP response type")
    body = members.take(OCTET_STRING).content
    members.end()
    if kind != _BASIC:
        raise bad_evidence("OCSP response type", want=_BASIC, got=kind)

    basic = parse(body, opaque=_OPAQUE, max_bytes=MAX_OCSP_BYTES, max_nodes=MAX_OCSP_NODES)
    members = Members(basic, "BasicOCSPResponse")
    tbs = members.take(SEQUENCE)
    identifier = members.take(SEQUENCE)
    signature = bit_string(members.take(BIT_STRING), "OCSP signature", whole=True)
    certificates = members.optional(0xA0)
    members.end()

    members = Members(tbs, "OCSP response data")
    members.optional(0xA0)  # version: there is only one
    responder = members.take()
    members.take(GENERALIZED_TIME)  # producedAt: nothing depends on it
    singles = members.take(SEQUENCE).children
    tagged = members.optional(0xA1)
    members.end()
    if tagged is not None:
        _no_critical(only(tagged, "OCSP extensions"))
    embedded = () if certificates is None else only(certificates, "OCSP certificates").children
    for what, count, most in (
        ("answers", len(singles), MAX_OCSP_ANSWERS),
        ("certificates", len(embedded), MAX_OCSP_CERTIFICATES),
    ):
        if count > most:
            raise bad_evidence(f"too many {what} in an OCSP response", want=f"at most {most}")
    return Ocsp(
        tbs=tbs.raw,
        identifier=identifier,
        signature=signature,
        responder=responder,
        singles=tuple(_single(node) for node in singles),
        certificates=tuple(node.raw for node in embedded),
    )


def ocsp_findings(
    ocsp: Ocsp,
    certificate: TsaCertificate,
    issuer: TsaCertificate,
    min_rsa_bits: int = MIN_RSA_BITS,
) -> list[Finding]:
    """What the response says about a certificate of this issuer; empty if nothing.

    Raises:
        TimestampError: EVIDENCE, SIGNATURE, SIGNATURE_ALGORITHM, WEAK_KEY, CERTIFICATE, CHAIN, DER.
    """
    found = [
        single.finding
        for single in ocsp.singles
        if single.finding is not None and single.about(certificate, issuer)
    ]
    if found:
        _verify(ocsp, found, issuer, min_rsa_bits)
    return found


def _verify(ocsp: Ocsp, found: list[Finding], issuer: TsaCertificate, min_rsa_bits: int) -> None:
    """Verify the response under the first certificate that bears its responder's name and will do.

    A responder that changes its key keeps its name, and brings the old certificate along; and anybody
    can add one of that name. So what is wrong with one candidate does not close the others.
    """
    refusal: TimestampError | None = None
    for der in (issuer.der, *ocsp.certificates):
        try:
            responder = load_certificate(der)
            if not _named_by(ocsp.responder, responder):
                continue
            if responder.der != issuer.der:
                _check_delegate(responder, issuer, min_rsa_bits)
            for finding in found:
                if not responder.valid_at(finding.this_update):
                    raise bad_evidence(
                        "OCSP response is not of its responder's time",
                        got=finding.this_update.isoformat(),
                    )
            verify_signature(responder.key, ocsp.identifier, ocsp.signature, ocsp.tbs)
            return
        except TimestampError as error:
            refusal = refusal or error
    raise refusal or bad_evidence("certificate of the OCSP responder is missing")


def _check_delegate(delegate: TsaCertificate, issuer: TsaCertificate, min_rsa_bits: int) -> None:
    """A responder that the issuer appointed (RFC 6960 section 4.2.2.2)."""
    if not same_name(delegate.issuer, issuer.subject):
        raise bad_evidence("OCSP responder has another issuer")
    if _OCSP_SIGNING not in (delegate.purposes or ()):
        raise bad_evidence("OCSP responder's certificate is not for OCSPSigning")
    if DIGITAL_SIGNATURE not in (delegate.usage or {DIGITAL_SIGNATURE}):
        raise bad_evidence("OCSP responder may not sign")
    check_critical(delegate)
    key_name(delegate.key, min_rsa_bits)
    delegate.verify_issued_by(issuer)


def _named_by(responder: Node, certificate: TsaCertificate) -> bool:
    value = only(responder, "OCSP responder")
    if responder.tag == _BY_NAME:
        return same_name(value.raw, certificate.subject)
    key_hash = expect(value, OCTET_STRING, "OCSP responder").content
    if responder.tag != _BY_KEY:
        raise bad_evidence("OCSP responder is named in an unknown way")
    return key_hash == hashlib.sha1(_key_bits(certificate), usedforsecurity=False).digest()


def _key_bits(certificate: TsaCertificate) -> bytes:
    """The BIT STRING of subjectPublicKey: what key hashes are over (RFC 6960 section 4.1.1)."""
    members = Members(parse(certificate.spki), "SubjectPublicKeyInfo")
    members.take(SEQUENCE)
    return bit_string(members.take(BIT_STRING), "subjectPublicKey", whole=True)


def _single(node: Node) -> _Single:
    members = Members(node, "OCSP single response")
    named = Members(members.take(), "OCSP CertID")
    hash_algorithm = _NAMING_HASHES.get(algorithm(named.take(), "OCSP CertID")[0])
    issuer_name = named.take(OCTET_STRING).content
    issuer_key = named.take(OCTET_STRING).content
    serial = integer(named.take(INTEGER), "OCSP CertID")
    named.end()
    status = members.take()
    this_update = moment(members.take(GENERALIZED_TIME), "thisUpdate")
    members.optional(0xA0)  # nextUpdate: an old response does not become untrue
    tagged = members.optional(0xA1)
    members.end()
    if tagged is not None:
        _no_critical(only(tagged, "OCSP extensions"))
    finding: Finding | None = None
    if status.tag == _GOOD:
        finding = Finding(this_update)
    elif status.tag == _REVOKED:
        finding = _revoked(status, this_update)
    elif status.tag != _UNKNOWN:
        raise bad_evidence("OCSP status", got=f"tag {status.tag:#04x}")
    return _Single(hash_algorithm, issuer_name, issuer_key, serial, finding)


def _revoked(status: Node, this_update: datetime) -> Finding:
    members = Members(status, "OCSP revocation", _REVOKED)
    revoked_at = moment(members.take(GENERALIZED_TIME), "revocationTime")
    tagged = members.optional(0xA0)
    members.end()
    reason = None
    if tagged is not None:
        reason = integer(only(tagged, "revocationReason"), "revocationReason", ENUMERATED)
    return Finding(this_update, revoked_at, reason)


def _no_critical(node: Node) -> None:
    for oid, extension in read_extensions(node, "OCSP extensions").items():
        if extension.critical:
            raise bad_evidence("OCSP extension is not supported", got=oid)
