"""Which certificate signed a token: the signing-certificate attributes (RFC 2634 5.4, RFC 5035, RFC 5816).

A signature alone does not say which of several certificates of one key it was made under. The first
entry of ESSCertID (SHA-1) or ESSCertIDv2 names the signer; if both attributes are there, both must.
Further entries may list the path the authority had in mind; another path to the same root is as good,
so a difference is a warning.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import (
    INTEGER,
    OCTET_STRING,
    SEQUENCE,
    Members,
    der_error,
    integer,
    only,
)
from receiptledger.core.timestamp_limits import MAX_ESS_ENTRIES, MAX_ESS_NAMES
from receiptledger.core.timestamp_signature import digest, hash_name
from receiptledger.core.tsa_name import same_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.timestamp_cms import SignerInfo
    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["EssEntry", "ess_entries", "signed_by"]

_ATTRIBUTES: Final = {
    "v1": "1.2.840.113549.1.9.16.2.12",
    "v2": "1.2.840.113549.1.9.16.2.47",
}
_DIRECTORY_NAME = 0xA4


@dataclass(frozen=True, slots=True)
class EssEntry:
    """One ESSCertID: a hash of a certificate, and perhaps its issuer's names and serial number."""

    hash_algorithm: str
    hash: bytes
    issuers: tuple[bytes, ...]
    serial: int | None

    def names(self, certificate: TsaCertificate) -> bool:
        """Whether this entry means the certificate."""
        if self.hash_algorithm == "sha1":
            # Only here: SHA-1 of a certificate that also has to prove a path (RFC 5816 allows it).
            found = hashlib.sha1(certificate.der, usedforsecurity=False).digest()
        else:
            found = digest(self.hash_algorithm, certificate.der)
        if found != self.hash:
            return False
        if self.serial is None:
            return True
        return self.serial == certificate.serial and any(
            same_name(issuer, certificate.issuer) for issuer in self.issuers
        )


def ess_entries(signer: SignerInfo) -> dict[str, tuple[EssEntry, ...]]:
    """The entries of the attributes that are there, by "v1" and "v2".

    Raises:
        TimestampError: ESS if neither is there or one is empty, SIGNED_ATTRIBUTE for several values,
            HASH_ALGORITHM, DER.
    """
    found = {
        version: _entries(signer.single(oid, f"signing certificate {version}"), version)
        for version, oid in _ATTRIBUTES.items()
        if oid in signer.attributes
    }
    if not found or not all(found.values()):
        raise TimestampError(Cause.ESS, "no signing-certificate attribute names the signer")
    return found


def signed_by(
    entries: dict[str, tuple[EssEntry, ...]], candidates: Sequence[TsaCertificate]
) -> TsaCertificate:
    """The candidate that the first entry of every attribute names.

    Raises:
        TimestampError: ESS, there is none.
    """
    for candidate in candidates:
        if all(listed[0].names(candidate) for listed in entries.values()):
            return candidate
    raise TimestampError(Cause.ESS, "the signing-certificate attribute names another certificate")


def _entries(value: Node, version: str) -> tuple[EssEntry, ...]:
    members = Members(value, "SigningCertificate")
    listed = members.take(SEQUENCE).children
    members.optional(SEQUENCE)  # policies: whose certificate policies these are, is up to the path
    members.end()
    if len(listed) > MAX_ESS_ENTRIES:
        raise TimestampError(
            Cause.ESS,
            "the signing-certificate attribute names too many certificates",
            want=f"at most {MAX_ESS_ENTRIES}",
            got=str(len(listed)),
        )
    return tuple(_entry(node, version) for node in listed)


def _entry(node: Node, version: str) -> EssEntry:
    members = Members(node, "ESSCertID")
    name = "sha1"
    if version == "v2":
        # SHA-256 is the default; some write it all the same.
        stated = members.optional(SEQUENCE)
        name = "sha256" if stated is None else hash_name(stated, "ESSCertIDv2 algorithm")
    hashed = members.take(OCTET_STRING).content
    issuer_serial = members.optional(SEQUENCE)
    members.end()
    if issuer_serial is None:
        return EssEntry(name, hashed, (), None)
    parts = Members(issuer_serial, "issuerSerial")
    names = parts.take(SEQUENCE).children
    serial = integer(parts.take(INTEGER), "issuerSerial")
    parts.end()
    if len(names) > MAX_ESS_NAMES:
        raise der_error("issuerSerial has too many names", want=f"at most {MAX_ESS_NAMES}")
    issuers = tuple(
        only(general, "directoryName").raw for general in names if general.tag == _DIRECTORY_NAME
    )
    return EssEntry(name, hashed, issuers, serial)
