"""X.509 certificates as far as timestamp verification needs them (RFC 5280).

Read by our own DER reader, because roots in use have oddities that a general parser rightly refuses
(version 1, negative serial numbers, old self-signatures), and a configured root counts by its name and
key alone. Nothing here decides whom to trust: `tsa_path` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import (
    BIT_STRING,
    BOOLEAN,
    INTEGER,
    OCTET_STRING,
    SEQUENCE,
    Members,
    algorithm,
    bit_string,
    boolean,
    der_error,
    expect,
    integer,
    moment,
    object_identifier,
    only,
    parse,
)
from receiptledger.core.timestamp_signature import load_key, verify_signature
from receiptledger.core.tsa_name import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.timestamp_signature import PublicKey

__all__ = ["Extension", "TsaCertificate", "general_names", "load_certificate", "read_extensions"]

SUBJECT_KEY_IDENTIFIER: Final = "2.5.29.14"
KEY_USAGE: Final = "2.5.29.15"
SUBJECT_ALTERNATIVE_NAME: Final = "2.5.29.17"
BASIC_CONSTRAINTS: Final = "2.5.29.19"
NAME_CONSTRAINTS: Final = "2.5.29.30"
CRL_DISTRIBUTION_POINTS: Final = "2.5.29.31"
AUTHORITY_KEY_IDENTIFIER: Final = "2.5.29.35"
EXTENDED_KEY_USAGE: Final = "2.5.29.37"

DIGITAL_SIGNATURE, NON_REPUDIATION, KEY_CERT_SIGN, CRL_SIGN = 0, 1, 5, 6  # RFC 5280 4.2.1.3

# Real certificates have 0.5 to 3 KB. Both bounds are small because a hostile authority may send new
# ones every time, and what was read is kept.
MAX_CERTIFICATE_BYTES: Final = 16_384
CACHED_CERTIFICATES: Final = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension: its value is DER, not opened."""

    critical: bool
    value: bytes


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
        if self.signed_as != self.identifier.raw:  # RFC 5280 section 4.1.1.2
            raise TimestampError(Cause.CERTIFICATE, "certificate names two signature algorithms")
        return verify_signature(issuer.key, self.identifier, self.signature, self.tbs)


@lru_cache(maxsize=CACHED_CERTIFICATES)
def load_certificate(der: bytes) -> TsaCertificate:
    """Read a DER certificate.

    Raises:
        TimestampError: CERTIFICATE.
    """
    try:
        return _certificate(der)
    except TimestampError as error:
        raise _unreadable(error) from None


def read_extensions(node: Node, what: str) -> dict[str, Extension]:
    """Extensions (RFC 5280 section 4.1.2.9), at least one, none twice.

    Raises:
        TimestampError: DER.
    """
    found: dict[str, Extension] = {}
    for child in expect(node, SEQUENCE, what).children:
        members = Members(child, what)
        oid = object_identifier(members.take(), what)
        # FALSE is the default and should not be written; certificates in use do it all the same.
        critical = members.optional(BOOLEAN)
        value = members.take(OCTET_STRING).content
        members.end()
        if oid in found:
            raise der_error(f"{what}: one twice", got=oid)
        found[oid] = Extension(critical is not None and boolean(critical, what), value)
    if not found:
        raise der_error(f"{what}: none inside")
    return found


def _certificate(der: bytes) -> TsaCertificate:
    outer = Members(parse(der, max_bytes=MAX_CERTIFICATE_BYTES), "certificate")
    tbs = outer.take(SEQUENCE)
    identifier = outer.take(SEQUENCE)
    algorithm(identifier, "signature algorithm")
    signature = bit_string(outer.take(BIT_STRING), "certificate signature")
    outer.end()

    members = Members(tbs, "certificate")
    tagged = members.optional(0xA0)
    version = 1 if tagged is None else 1 + integer(only(tagged, "version"), "version")
    serial = integer(members.take(INTEGER), "serial number")
    signed_as = members.take(SEQUENCE).raw
    issuer = members.take(SEQUENCE).raw
    validity = Members(members.take(SEQUENCE), "validity")
    not_before = moment(validity.take(), "notBefore")
    not_after = moment(validity.take(), "notAfter")
    validity.end()
    subject = members.take(SEQUENCE).raw
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
        return None if found is None else reader(parse(found.value))

    return TsaCertificate(
        der=der,
        tbs=tbs.raw,
        version=version,
        serial=serial,
        issuer=issuer,
        subject=subject,
        not_before=not_before,
        not_after=not_after,
        spki=spki,
        signed_as=signed_as,
        identifier=identifier,
        signature=signature,
        extensions=extensions,
        constraints=read(BASIC_CONSTRAINTS, _basic_constraints),
        usage=read(KEY_USAGE, _key_usage),
        purposes=read(EXTENDED_KEY_USAGE, _purposes),
        key_identifier=read(SUBJECT_KEY_IDENTIFIER, _key_identifier),
        issuer_key_identifier=read(AUTHORITY_KEY_IDENTIFIER, authority_key_identifier),
        alternative_names=read(SUBJECT_ALTERNATIVE_NAME, _general_names) or (),
        distribution_points=read(CRL_DISTRIBUTION_POINTS, _distribution_points) or frozenset(),
    )


def _basic_constraints(node: Node) -> tuple[bool, int | None]:
    members = Members(node, "basicConstraints")
    flag = members.optional(BOOLEAN)
    length = members.optional(INTEGER)
    members.end()
    ca = flag is not None and boolean(flag, "basicConstraints")
    limit = None if length is None else integer(length, "pathLenConstraint")
    if limit is not None and limit < 0:
        raise der_error("pathLenConstraint is negative")
    return ca, limit


def _key_usage(node: Node) -> frozenset[int]:
    data = bit_string(node, "keyUsage")
    return frozenset(bit for bit in range(8 * len(data)) if data[bit // 8] & 0x80 >> bit % 8)


def _purposes(node: Node) -> tuple[str, ...]:
    return tuple(object_identifier(child, "extendedKeyUsage") for child in _sequence(node))


def _key_identifier(node: Node) -> bytes:
    return expect(node, OCTET_STRING, "subjectKeyIdentifier").content


def authority_key_identifier(node: Node) -> bytes | None:
    """The key identifier of an AuthorityKeyIdentifier, if it has one."""
    identifier = Members(node, "authorityKeyIdentifier").optional(0x80)
    return None if identifier is None else identifier.content


def _sequence(node: Node) -> tuple[Node, ...]:
    return expect(node, SEQUENCE, "extension").children


def _general_names(node: Node) -> tuple[bytes, ...]:
    return tuple(child.raw for child in _sequence(node))


def _distribution_points(node: Node) -> frozenset[bytes]:
    names: set[bytes] = set()
    for point in _sequence(node):
        where = Members(point, "distribution point").optional(0xA0)
        if where is not None:
            names |= general_names(where)
    return frozenset(names)


def general_names(where: Node) -> frozenset[bytes]:
    """The full names (DER GeneralNames) of a DistributionPointName (RFC 5280 section 4.2.1.13).

    One relative to the issuer, which nobody uses, gives none.

    Raises:
        TimestampError: DER.
    """
    full = only(where, "distribution point name")
    return frozenset(name.raw for name in full.children) if full.tag == 0xA0 else frozenset()


def _unreadable(error: TimestampError) -> TimestampError:
    return TimestampError(
        Cause.CERTIFICATE,
        f"certificate cannot be read: {error.message}",
        want=error.want,
        got=error.got,
    )
