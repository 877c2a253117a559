"""Extensions of certificates, lists and OCSP responses (RFC 5280 section 4.2), read one by one.

Each reader takes the opened value of its extension. What a value means for a path, `tsa_path` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_der import (
    BOOLEAN,
    GENERALIZED_TIME,
    INTEGER,
    OCTET_STRING,
    SEQUENCE,
    Members,
    Node,
    bit_string,
    boolean,
    der_error,
    expect,
    integer,
    moment,
    object_identifier,
    only,
)
from receiptledger.core.timestamp_limits import MAX_EXTENSIONS, MAX_LISTED, MAX_USAGE_BYTES

if TYPE_CHECKING:
    from datetime import datetime

__all__ = [
    "Extension",
    "alternative_names",
    "authority_key_identifier",
    "basic_constraints",
    "distribution_points",
    "general_names",
    "key_period",
    "key_usage",
    "purposes",
    "read_extensions",
    "subject_key_identifier",
]

SUBJECT_KEY_IDENTIFIER: Final = "2.5.29.14"
KEY_USAGE: Final = "2.5.29.15"
PRIVATE_KEY_USAGE_PERIOD: Final = "2.5.29.16"
SUBJECT_ALTERNATIVE_NAME: Final = "2.5.29.17"
BASIC_CONSTRAINTS: Final = "2.5.29.19"
NAME_CONSTRAINTS: Final = "2.5.29.30"
CRL_DISTRIBUTION_POINTS: Final = "2.5.29.31"
AUTHORITY_KEY_IDENTIFIER: Final = "2.5.29.35"
EXTENDED_KEY_USAGE: Final = "2.5.29.37"

DIGITAL_SIGNATURE, NON_REPUDIATION, KEY_CERT_SIGN, CRL_SIGN = 0, 1, 5, 6  # RFC 5280 4.2.1.3


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension: its value is DER, not opened."""

    critical: bool
    value: bytes


def read_extensions(node: Node, what: str) -> dict[str, Extension]:
    """Extensions (RFC 5280 section 4.1.2.9), at least one, not too many, none twice.

    Raises:
        TimestampError: DER.
    """
    found: dict[str, Extension] = {}
    if len(expect(node, SEQUENCE, what).children) > MAX_EXTENSIONS:
        raise der_error(f"{what}: too many", want=f"at most {MAX_EXTENSIONS}")
    for child in node.children:
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


def basic_constraints(node: Node) -> tuple[bool, int | None]:
    """BasicConstraints: whether it is a CA, and the path length or None.

    Raises:
        TimestampError: DER; so all readers here.
    """
    members = Members(node, "basicConstraints")
    flag = members.optional(BOOLEAN)
    length = members.optional(INTEGER)
    members.end()
    ca = flag is not None and boolean(flag, "basicConstraints")
    limit = None if length is None else integer(length, "pathLenConstraint")
    if limit is not None and limit < 0:
        raise der_error("pathLenConstraint is negative")
    return ca, limit


def key_usage(node: Node) -> frozenset[int]:
    """The numbers of the bits of a KeyUsage that are set."""
    data = bit_string(node, "keyUsage")
    if len(data) > MAX_USAGE_BYTES:
        raise der_error("keyUsage is too long", want=f"at most {MAX_USAGE_BYTES} bytes")
    return frozenset(bit for bit in range(8 * len(data)) if data[bit // 8] & 0x80 >> bit % 8)


def purposes(node: Node) -> tuple[str, ...]:
    """ExtKeyUsageSyntax as dotted OIDs."""
    return tuple(object_identifier(child, "extendedKeyUsage") for child in _sequence(node))


def key_period(node: Node) -> tuple[datetime | None, datetime | None]:
    """PrivateKeyUsagePeriod (RFC 3280 section 4.2.1.4): at least one of its ends."""
    members = Members(node, "privateKeyUsagePeriod")
    ends = (members.optional(0x80), members.optional(0x81))
    members.end()
    if ends == (None, None):
        raise der_error("privateKeyUsagePeriod without ends")
    first, last = (
        # Implicit tags; both are GeneralizedTime.
        None
        if end is None
        else moment(Node(GENERALIZED_TIME, end.raw, end.content, ()), "privateKeyUsagePeriod")
        for end in ends
    )
    return first, last


def subject_key_identifier(node: Node) -> bytes:
    """The bytes of a SubjectKeyIdentifier."""
    return expect(node, OCTET_STRING, "subjectKeyIdentifier").content


def authority_key_identifier(node: Node) -> bytes | None:
    """The key identifier of an AuthorityKeyIdentifier, if it has one."""
    identifier = Members(node, "authorityKeyIdentifier").optional(0x80)
    return None if identifier is None else identifier.content


def _sequence(node: Node) -> tuple[Node, ...]:
    found = expect(node, SEQUENCE, "extension").children
    if len(found) > MAX_LISTED:
        raise der_error("extension lists too much", want=f"at most {MAX_LISTED}")
    return found


def alternative_names(node: Node) -> tuple[bytes, ...]:
    """The DER GeneralNames of a SubjectAltName."""
    return tuple(child.raw for child in _sequence(node))


def distribution_points(node: Node) -> frozenset[bytes]:
    """The full names in a CRLDistributionPoints."""
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
