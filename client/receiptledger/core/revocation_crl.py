"""Certificate revocation lists as evidence (RFC 5280 section 5).

A list speaks for a certificate when it bears the issuer's name, is signed by the issuer's key and covers
the certificate: many issuers publish several lists, each for one distribution point, and a list that
does not cover a certificate does not say that it is good. But if the issuer signed it and it names the
certificate all the same, then it is revoked: whoever publishes a revocation in the wrong list has still
published it. Delta and indirect lists are refused.

Lists are long, and whoever brings them chooses them. A list is cut into its parts once; its entries are
walked once for each certificate, after the signature, without being opened, and every serial number on
the way must be in its one form, or the entry looked for might stand there under another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from receiptledger.core.revocation_entries import entry_of
from receiptledger.core.revocation_finding import Finding, bad_evidence
from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_der import (
    BIT_STRING,
    GENERALIZED_TIME,
    INTEGER,
    SEQUENCE,
    UTC_TIME,
    Members,
    bit_string,
    der_error,
    integer,
    moment,
    parse,
)
from receiptledger.core.timestamp_limits import (
    CACHED_EVIDENCE,
    CACHED_EVIDENCE_BYTES,
    CACHED_FINDINGS,
    MAX_CRL_BYTES,
    MAX_LIST_NODES,
)
from receiptledger.core.timestamp_memory import Memory, digest_of
from receiptledger.core.timestamp_signature import verify_signature
from receiptledger.core.tsa_extensions import (
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
    from receiptledger.core.tsa_certificate import TsaCertificate
    from receiptledger.core.tsa_extensions import Extension

__all__ = ["Crl", "crl_findings", "load_crl"]

_AUTHORITY_KEY_IDENTIFIER: Final = "2.5.29.35"
_DELTA: Final = "2.5.29.27"
_SCOPE: Final = "2.5.29.28"  # issuingDistributionPoint
_OPAQUE: Final = frozenset({(SEQUENCE, SEQUENCE)})  # the parts of the signed part


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
    """A list that was read; its signature is not verified.

    Attributes:
        tbs: the signed part.
        identifier, signature: of its signature.
        issuer: DER Name.
        this_update: UTC.
        entries: where in `tbs` the entries begin; they end where `entries_end` says.
        key_identifier: of its issuer's key, or None.
        scope: which certificates it is about.
        found: what it says, by certificate and issuer, as far as it was asked.
    """

    tbs: bytes
    identifier: Node
    signature: bytes
    issuer: bytes
    this_update: datetime
    entries: int
    entries_end: int
    key_identifier: bytes | None
    scope: _Scope
    found: Memory[tuple[bytes, bytes], list[Finding]] = field(
        default_factory=lambda: Memory(CACHED_FINDINGS)
    )


_READ: Memory[bytes, Crl] = Memory(CACHED_EVIDENCE, CACHED_EVIDENCE_BYTES)


def load_crl(der: bytes) -> Crl:
    """Read a DER list; what was read lately is remembered.

    Raises:
        TimestampError: DER, TOO_LARGE, EVIDENCE for a kind that is not supported.
    """
    return _READ.get(digest_of(der, MAX_CRL_BYTES), partial(_crl, der), len(der))


def _crl(der: bytes) -> Crl:
    top = parse(der, opaque=_OPAQUE, max_bytes=MAX_CRL_BYTES, max_nodes=MAX_LIST_NODES)
    outer = Members(top, "CRL")
    tbs = outer.take(SEQUENCE)
    identifier = outer.take(SEQUENCE)
    signature = bit_string(outer.take(BIT_STRING), "CRL signature", whole=True)
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
        inside = parse(tagged.content, max_bytes=MAX_CRL_BYTES, max_nodes=MAX_LIST_NODES)
        extensions = read_extensions(inside, "CRL extensions")
    for oid, extension in extensions.items():
        if oid == _DELTA or (extension.critical and oid != _SCOPE):
            raise bad_evidence("CRL extension is not supported", got=oid)
    authority = extensions.get(_AUTHORITY_KEY_IDENTIFIER)
    scope = extensions.get(_SCOPE)
    # The entries are what lies in front of the extensions, which end the signed part.
    end = len(tbs.raw) - (0 if tagged is None else len(tagged.raw))
    return Crl(
        tbs=tbs.raw,
        identifier=identifier,
        signature=signature,
        issuer=issuer,
        this_update=this_update,
        entries=end - (0 if listed is None else len(listed.content)),
        entries_end=end,
        key_identifier=None
        if authority is None
        else authority_key_identifier(parse(authority.value, max_nodes=MAX_LIST_NODES)),
        scope=_Scope()
        if scope is None
        else _read_scope(parse(scope.value, max_nodes=MAX_LIST_NODES)),
    )


def crl_findings(crl: Crl, certificate: TsaCertificate, issuer: TsaCertificate) -> list[Finding]:
    """What the list says about a certificate of this issuer; empty if it is not about it.

    Raises:
        TimestampError: EVIDENCE, SIGNATURE, SIGNATURE_ALGORITHM, HASH_ALGORITHM, DER.
    """
    if not same_name(crl.issuer, issuer.subject):
        return []
    return crl.found.get(
        (certificate.der, issuer.der), partial(_findings, crl, certificate, issuer)
    )


def _findings(crl: Crl, certificate: TsaCertificate, issuer: TsaCertificate) -> list[Finding]:
    own = issuer.key_identifier
    other_key = None not in (own, crl.key_identifier) and own != crl.key_identifier
    try:
        verify_signature(issuer.key, crl.identifier, crl.signature, crl.tbs)
    except TimestampError:
        if other_key:
            return []  # by another key of the same name, as it says
        raise
    usage = issuer.usage
    if usage is not None and CRL_SIGN not in usage:
        raise bad_evidence("issuer may not sign CRLs")
    if not issuer.valid_at(crl.this_update):
        raise bad_evidence("CRL is not of its issuer's time", got=crl.this_update.isoformat())
    entry = entry_of(crl.tbs, crl.entries, crl.entries_end, certificate.serial)
    about = crl.scope.covers(certificate) and not other_key
    if entry is not None:
        # Whatever the list is about: its issuer says here that this certificate is revoked.
        return [Finding(crl.this_update, entry.revoked_at, entry.reason, complete=about)]
    if not about:
        return []
    return [Finding(crl.this_update, complete=crl.scope.all_reasons)]


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
