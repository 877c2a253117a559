"""Certificate revocation lists as evidence (RFC 5280 section 5).

A list speaks for a certificate when it bears the issuer's name, is signed by the issuer's key and covers
the certificate: many issuers publish several lists, each for one distribution point, and a list that
does not cover a certificate does not say that it is good. Delta and indirect lists are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.revocation_finding import Finding, bad_evidence
from receiptledger.core.timestamp_der import (
    BIT_STRING,
    GENERALIZED_TIME,
    INTEGER,
    SEQUENCE,
    UTC_TIME,
    Members,
    bit_string,
    der_error,
    expect,
    integer,
    moment,
    only,
    parse,
)
from receiptledger.core.timestamp_encode import encode_integer
from receiptledger.core.timestamp_signature import verify_signature
from receiptledger.core.tsa_certificate import (
    CRL_SIGN,
    authority_key_identifier,
    general_names,
    read_extensions,
)
from receiptledger.core.tsa_name import same_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.tsa_certificate import Extension, TsaCertificate

__all__ = ["Crl", "crl_findings", "load_crl"]

MAX_CRL_BYTES: Final = 1_048_576
MAX_CRL_NODES: Final = 65_536  # entries are not opened until one is looked up

ENUMERATED: Final = 0x0A
_AUTHORITY_KEY_IDENTIFIER = "2.5.29.35"
_DELTA = "2.5.29.27"
_SCOPE = "2.5.29.28"  # issuingDistributionPoint
_REASON = "2.5.29.21"
_INVALIDITY_DATE = "2.5.29.24"
_TBS = (SEQUENCE, SEQUENCE)
_OPAQUE = frozenset({(*_TBS, SEQUENCE)})  # entries, and what is opened where it is used


@dataclass(frozen=True, slots=True)
class _Scope:
    """issuingDistributionPoint: which certificates a list is about."""

    names: frozenset[bytes] | None = None
    users_only: bool = False
    authorities_only: bool = False
    all_reasons: bool = True

    def covers(self, certificate: TsaCertificate) -> bool:
        if (self.users_only and certificate.is_ca) or (
            self.authorities_only and not certificate.is_ca
        ):
            return False
        return self.names is None or bool(self.names & certificate.distribution_points)


@dataclass(frozen=True, slots=True, eq=False)
class Crl:
    """A list that was read; its signature is not verified."""

    tbs: bytes
    identifier: Node
    signature: bytes
    issuer: bytes
    this_update: datetime
    entries: tuple[Node, ...]
    key_identifier: bytes | None
    scope: _Scope


def load_crl(der: bytes) -> Crl:
    """Read a DER list.

    Raises:
        TimestampError: DER, TOO_LARGE, EVIDENCE for a kind that is not supported.
    """
    outer = Members(
        parse(der, opaque=_OPAQUE, max_bytes=MAX_CRL_BYTES, max_nodes=MAX_CRL_NODES), "CRL"
    )
    tbs = outer.take(SEQUENCE)
    identifier = outer.take(SEQUENCE)
    signature = bit_string(outer.take(BIT_STRING), "CRL signature")
    outer.end()

    members = Members(tbs, "CRL")
    version = members.optional(INTEGER)
    if members.take(SEQUENCE).raw != identifier.raw:
        raise der_error("CRL names two signature algorithms")
    issuer = members.take(SEQUENCE).raw
    this_update = moment(members.take(), "thisUpdate")
    next_update = members.optional(UTC_TIME) or members.optional(GENERALIZED_TIME)
    if next_update is not None:
        moment(next_update, "nextUpdate")  # form only: an old list does not become untrue
    listed = members.optional(SEQUENCE)
    tagged = members.optional(0xA0)
    members.end()
    if (0 if version is None else integer(version, "CRL version")) != (0 if version is None else 1):
        raise der_error("CRL version")
    extensions: Mapping[str, Extension] = {}
    if tagged is not None:
        extensions = read_extensions(only(tagged, "CRL extensions"), "CRL extensions")
    for oid, extension in extensions.items():
        if oid == _DELTA or (extension.critical and oid != _SCOPE):
            raise bad_evidence("CRL extension is not supported", got=oid)
    authority = extensions.get(_AUTHORITY_KEY_IDENTIFIER)
    scope = extensions.get(_SCOPE)
    return Crl(
        tbs=tbs.raw,
        identifier=identifier,
        signature=signature,
        issuer=issuer,
        this_update=this_update,
        entries=() if listed is None else listed.children,
        key_identifier=None
        if authority is None
        else authority_key_identifier(parse(authority.value)),
        scope=_Scope() if scope is None else _read_scope(parse(scope.value)),
    )


def crl_findings(crl: Crl, certificate: TsaCertificate, issuer: TsaCertificate) -> list[Finding]:
    """What the list says about a certificate of this issuer; empty if it is not about it.

    Raises:
        TimestampError: EVIDENCE, SIGNATURE, SIGNATURE_ALGORITHM, DER.
    """
    if not same_name(crl.issuer, issuer.subject):
        return []
    own = issuer.key_identifier
    if None not in (own, crl.key_identifier) and own != crl.key_identifier:
        return []  # by another key of the same name
    if not crl.scope.covers(certificate):
        return []
    usage = issuer.usage
    if usage is not None and CRL_SIGN not in usage:
        raise bad_evidence("issuer may not sign CRLs")
    if not issuer.valid_at(crl.this_update):
        raise bad_evidence("CRL is not of its issuer's time", got=crl.this_update.isoformat())
    verify_signature(issuer.key, crl.identifier, crl.signature, crl.tbs)
    serial = encode_integer(certificate.serial)
    found = [_entry(node, crl) for node in crl.entries if node.content.startswith(serial)]
    return found or [Finding(crl.this_update, complete=crl.scope.all_reasons)]


def _entry(node: Node, crl: Crl) -> Finding:
    members = Members(parse(node.raw), "CRL entry")
    members.take(INTEGER)
    revoked_at = moment(members.take(), "revocationDate")
    listed = members.optional(SEQUENCE)
    members.end()
    reason = None
    extensions = {} if listed is None else read_extensions(listed, "CRL entry extensions")
    for oid, extension in extensions.items():
        if oid == _REASON:
            reason = integer(parse(extension.value), "reasonCode", ENUMERATED)
        elif oid == _INVALIDITY_DATE:
            since = expect(parse(extension.value), GENERALIZED_TIME, "invalidityDate")
            revoked_at = min(revoked_at, moment(since, "invalidityDate"))
        elif extension.critical:
            raise bad_evidence("CRL entry extension is not supported", got=oid)
    return Finding(crl.this_update, revoked_at, reason)


def _read_scope(node: Node) -> _Scope:
    members = Members(node, "issuingDistributionPoint")
    where = members.optional(0xA0)
    users_only = _flag(members.optional(0x81))
    authorities_only = _flag(members.optional(0x82))
    some_reasons = members.optional(0x83)
    indirect = _flag(members.optional(0x84))
    attributes_only = _flag(members.optional(0x85))
    members.end()
    if indirect or attributes_only:
        raise bad_evidence("indirect CRL, or one for attribute certificates")
    return _Scope(
        names=None if where is None else general_names(where),
        users_only=users_only,
        authorities_only=authorities_only,
        all_reasons=some_reasons is None,
    )


def _flag(node: Node | None) -> bool:
    """A BOOLEAN DEFAULT FALSE under an implicit tag."""
    if node is not None and node.content != b"\xff":
        raise der_error("flag of issuingDistributionPoint", want="ff", got=node.content[:4].hex())
    return node is not None
