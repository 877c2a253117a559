"""X.509 certificates as far as timestamp verification needs them (RFC 5280).

Read by our own DER reader, because roots in use have oddities that a general parser rightly refuses
(version 1, negative serial numbers, old self-signatures), and a configured root counts by its name and
key alone. Nothing here decides whom to trust: `tsa_path` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import (
    BIT_STRING,
    INTEGER,
    SEQUENCE,
    Budget,
    Members,
    Node,
    algorithm,
    bit_string,
    der_error,
    integer,
    moment,
    only,
    parse,
)
from receiptledger.core.timestamp_limits import (
    CACHED_CERTIFICATE_BYTES,
    CACHED_CERTIFICATES,
    MAX_CERTIFICATE_BYTES,
    MAX_CERTIFICATE_NODES,
)
from receiptledger.core.timestamp_memory import Memory, digest_of
from receiptledger.core.timestamp_signature import load_key, signature_hash, verify_signature
from receiptledger.core.tsa_extensions import (
    AUTHORITY_KEY_IDENTIFIER,
    BASIC_CONSTRAINTS,
    CRL_DISTRIBUTION_POINTS,
    EXTENDED_KEY_USAGE,
    KEY_USAGE,
    PRIVATE_KEY_USAGE_PERIOD,
    SUBJECT_ALTERNATIVE_NAME,
    SUBJECT_KEY_IDENTIFIER,
    alternative_names,
    authority_key_identifier,
    basic_constraints,
    distribution_points,
    key_period,
    key_usage,
    purposes,
    read_extensions,
    subject_key_identifier,
)
from receiptledger.core.tsa_name import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.timestamp_signature import PublicKey
    from receiptledger.core.tsa_extensions import Extension

__all__ = ["TsaCertificate", "load_certificate"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class TsaCertificate:
    """A certificate that was read; nothing about it is verified.

    Attributes:
        der: all of it.
        tbs: the signed part.
        version: 1 to 3.
        serial: may be negative in old roots.
        issuer, subject: DER Names.
        not_before, not_after: UTC, both inclusive.
        spki: DER SubjectPublicKeyInfo.
        signed_as: the AlgorithmIdentifier inside the signed part; must equal `identifier`.
        identifier, signature: of its signature.
        extensions: by OID. What is understood of them:
        constraints: (is a CA, path length or None), or None without basicConstraints.
        usage: the bits of keyUsage, or None.
        purposes: extendedKeyUsage as dotted OIDs, or None.
        key_period: privateKeyUsagePeriod, first and last moment at which its key may sign; None for an
            end that is not limited.
        key_identifier: of its own key, or None.
        issuer_key_identifier: of its issuer's key, or None.
        alternative_names: DER GeneralNames of subjectAltName.
        distribution_points: DER GeneralNames under which its CRLs are published.
    """

    der: bytes
    tbs: bytes
    version: int
    serial: int
    issuer: bytes
    subject: bytes
    not_before: datetime
    not_after: datetime
    spki: bytes
    signed_as: bytes
    identifier: Node
    signature: bytes
    extensions: Mapping[str, Extension]
    constraints: tuple[bool, int | None] | None
    usage: frozenset[int] | None
    purposes: tuple[str, ...] | None
    key_period: tuple[datetime | None, datetime | None]
    key_identifier: bytes | None
    issuer_key_identifier: bytes | None
    alternative_names: tuple[bytes, ...]
    distribution_points: frozenset[bytes]

    @property
    def key(self) -> PublicKey:
        """The public key; raises TimestampError CERTIFICATE or SIGNATURE_ALGORITHM."""
        return load_key(self.spki)

    @property
    def is_ca(self) -> bool:
        """Whether it says of itself that it may issue certificates."""
        return self.constraints is not None and self.constraints[0]

    def valid_at(self, at: datetime) -> bool:
        """Whether `at` lies in its validity, ends included."""
        return self.not_before <= at <= self.not_after

    def verify_issued_by(self, issuer: TsaCertificate) -> str:
        """Verify its signature under the issuer's key; names and dates are not looked at.

        Returns:
            The name of the signature algorithm.

        Raises:
            TimestampError: SIGNATURE, SIGNATURE_ALGORITHM, CERTIFICATE.
        """
        self.check_algorithm()
        return verify_signature(issuer.key, self.identifier, self.signature, self.tbs)

    def check_algorithm(self) -> None:
        """Check that its signature is by one allowed algorithm, whoever made it.

        Raises:
            TimestampError: CERTIFICATE, SIGNATURE_ALGORITHM, HASH_ALGORITHM, DER.
        """
        if self.signed_as != self.identifier.raw:  # RFC 5280 section 4.1.1.2
            raise TimestampError(Cause.CERTIFICATE, "certificate names two signature algorithms")
        signature_hash(self.identifier)


# Unreadable ones are remembered as well: a hostile authority may send the same twenty every time.
_READ: Memory[bytes, TsaCertificate] = Memory(CACHED_CERTIFICATES, CACHED_CERTIFICATE_BYTES)


def load_certificate(der: bytes) -> TsaCertificate:
    """Read a DER certificate; what was read lately is remembered.

    Raises:
        TimestampError: CERTIFICATE.
    """
    try:
        return _READ.get(digest_of(der, MAX_CERTIFICATE_BYTES), lambda: _certificate(der), len(der))
    except TimestampError as error:
        raise _unreadable(error) from None


def _certificate(der: bytes) -> TsaCertificate:
    budget = Budget(MAX_CERTIFICATE_NODES)  # for all that is opened of it
    outer = Members(parse(der, budget=budget), "certificate")
    tbs = outer.take(SEQUENCE)
    identifier = outer.take(SEQUENCE)
    algorithm(identifier, "signature algorithm")
    signature = bit_string(outer.take(BIT_STRING), "certificate signature", whole=True)
    outer.end()

    members = Members(tbs, "certificate")
    tagged = members.optional(0xA0)
    version = 1 if tagged is None else 1 + integer(only(tagged, "version"), "version")
    serial = integer(members.take(INTEGER), "serial number")
    signed_as = members.take(SEQUENCE).raw
    issuer = members.take(SEQUENCE)
    validity = Members(members.take(SEQUENCE), "validity")
    not_before = moment(validity.take(), "notBefore")
    not_after = moment(validity.take(), "notAfter")
    validity.end()
    subject = members.take(SEQUENCE)
    spki = members.take(SEQUENCE).raw
    members.optional(0x81)  # issuerUniqueID, subjectUniqueID: nobody's, and without meaning here
    members.optional(0x82)
    tagged = members.optional(0xA3)
    members.end()
    extensions = {} if tagged is None else read_extensions(only(tagged, "extensions"), "extensions")
    if version not in (1, 2, 3) or (extensions and version != 3):
        raise der_error("certificate version does not fit", got=str(version))
    check_name(issuer)
    check_name(subject)

    def read(oid: str, reader: Callable[[Node], T]) -> T | None:
        found = extensions.get(oid)
        return None if found is None else reader(parse(found.value, budget=budget))

    return TsaCertificate(
        der=der,
        tbs=tbs.raw,
        version=version,
        serial=serial,
        issuer=issuer.raw,
        subject=subject.raw,
        not_before=not_before,
        not_after=not_after,
        spki=spki,
        signed_as=signed_as,
        identifier=identifier,
        signature=signature,
        extensions=extensions,
        constraints=read(BASIC_CONSTRAINTS, basic_constraints),
        usage=read(KEY_USAGE, key_usage),
        purposes=read(EXTENDED_KEY_USAGE, purposes),
        key_period=read(PRIVATE_KEY_USAGE_PERIOD, key_period) or (None, None),
        key_identifier=read(SUBJECT_KEY_IDENTIFIER, subject_key_identifier),
        issuer_key_identifier=read(AUTHORITY_KEY_IDENTIFIER, authority_key_identifier),
        alternative_names=read(SUBJECT_ALTERNATIVE_NAME, alternative_names) or (),
        distribution_points=read(CRL_DISTRIBUTION_POINTS, distribution_points) or frozenset(),
    )


def _unreadable(error: TimestampError) -> TimestampError:
    return TimestampError(
        Cause.CERTIFICATE,
        f"certificate cannot be read: {error.message}",
        want=error.want,
        got=error.got,
    )
