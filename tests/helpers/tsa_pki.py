"""A public-key infrastructure of timestamp authorities for tests: certificates, CRLs, OCSP responses.

Everything is DER from `tsa_forge`, so that certificates can be as odd as those in use, and always the
same: keys are derived from numbers, ECDSA signs deterministically.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from receiptledger.core.timestamp_types import TsaTrust
from tests.helpers.tsa_forge import (
    NOW,
    PrivateKey,
    algorithm,
    bits,
    boolean,
    extension,
    general_time,
    integer,
    name,
    octets,
    oid,
    response,
    seq,
    sign,
    signature_algorithm,
    time,
    tlv,
    token,
    tst_info,
)
from tests.helpers.tsa_keys import rsa_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
NOT_AFTER = datetime(2045, 1, 1, tzinfo=UTC)
CA_NOT_AFTER = datetime(2060, 1, 1, tzinfo=UTC)

TIME_STAMPING = "1.3.6.1.5.5.7.3.8"
CODE_SIGNING = "1.3.6.1.5.5.7.3.3"
OCSP_SIGNING = "1.3.6.1.5.5.7.3.9"
ANY_PURPOSE = "2.5.29.37.0"

# Bits of keyUsage, as the first byte of its BIT STRING.
DIGITAL_SIGNATURE, NON_REPUDIATION, KEY_ENCIPHERMENT, CERT_SIGN, CRL_SIGN = 0x80, 0x40, 0x20, 4, 2

_CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}


@cache
def key(kind: str, number: int = 1) -> PrivateKey:
    """The `number`-th key of a kind: "p256", "p384", "p521", "k256", "ed25519", "rsa3072" and so on."""
    secret = hashlib.sha256(f"{kind} {number}".encode()).digest()
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.from_private_bytes(secret)
    if kind.startswith("rsa"):
        return rsa_key(int(kind[3:]))
    curve = ec.SECP256K1() if kind == "k256" else _CURVES[kind]
    return ec.derive_private_key(int.from_bytes(secret[:31], "big"), curve)


def public_info(private: PrivateKey) -> bytes:
    """DER SubjectPublicKeyInfo."""
    return private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def key_hash(spki: bytes, digest: str = "sha1") -> bytes:
    """Hash over the key's bits: RFC 5280's key identifier and RFC 6960's key hash."""

    def past_header(at: int) -> int:
        return at + (2 if spki[at + 1] < 128 else 2 + (spki[at + 1] & 0x7F))

    at = past_header(0)
    at = past_header(at) + spki[at + 1]  # over the AlgorithmIdentifier, which is always short
    return hashlib.new(digest, spki[past_header(at) + 1 :]).digest()  # over the unused bits too


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key."""

    key: PrivateKey
    der: bytes
    subject: bytes
    issuer: bytes
    serial: int
    spki: bytes

    @property
    def key_identifier(self) -> bytes:
        return key_hash(self.spki)


def extensions_of(
    identity_spki: bytes,
    issuer_spki: bytes,
    *,
    ca: bool | None,
    path_length: int | None,
    usage: int | None,
    purposes: Iterable[str] | None,
    purposes_critical: bool,
    identifiers: bool,
) -> list[bytes]:
    found = []
    if ca is not None:
        limit = b"" if path_length is None else integer(path_length)
        found.append(
            extension("2.5.29.19", seq(boolean(True) if ca else b"", limit), critical=True)
        )
    if usage is not None:
        found.append(extension("2.5.29.15", bits(bytes([usage])), critical=True))
    if purposes is not None:
        listed = seq(*map(oid, purposes))
        found.append(extension("2.5.29.37", listed, critical=purposes_critical))
    if identifiers:
        found.append(extension("2.5.29.14", octets(key_hash(identity_spki))))
        found.append(extension("2.5.29.35", seq(tlv(0x80, key_hash(issuer_spki)))))
    return found


def issue(
    common: str,
    private: PrivateKey | None = None,
    *,
    issuer: Identity | None = None,
    subject: bytes | None = None,
    issuer_name: bytes | None = None,
    serial: int | None = None,
    not_before: datetime = NOT_BEFORE,
    not_after: datetime | None = None,
    ca: bool | None = None,
    path_length: int | None = None,
    usage: int | None = -1,
    purposes: Iterable[str] | None = (),
    purposes_critical: bool = True,
    identifiers: bool = True,
    constrained: bool = True,
    more: Sequence[bytes] = (),
    version: int = 3,
    digest: str = "sha256",
    signed_as: bytes | None = None,
    flip: bool = False,
) -> Identity:
    """Issue a certificate; without `issuer` it signs itself.

    Without `ca`, what has an issuer is a TSA certificate with the usual extensions, what has none is a
    CA. `usage` -1 and `purposes` () stand for the usual ones, None for none; `constrained` False
    leaves basicConstraints out.
    """
    is_ca = issuer is None if ca is None else ca
    private = private or key("p256", int.from_bytes(common.encode(), "big"))
    spki = public_info(private)
    if usage == -1:
        usage = CERT_SIGN | CRL_SIGN if is_ca else DIGITAL_SIGNATURE
    if purposes == ():
        purposes = None if is_ca else (TIME_STAMPING,)
    subject = name(common) if subject is None else subject
    signer_key = private if issuer is None else issuer.key
    extensions = (
        extensions_of(
            spki,
            spki if issuer is None else issuer.spki,
            ca=is_ca if constrained else None,
            path_length=path_length,
            usage=usage,
            purposes=purposes,
            purposes_critical=purposes_critical,
            identifiers=identifiers,
        )
        if version == 3
        else []
    )
    if issuer_name is None:
        issuer_name = subject if issuer is None else issuer.subject
    if serial is None:
        serial = int.from_bytes(hashlib.sha256(common.encode()).digest()[:8], "big")
    identifier = signature_algorithm(signer_key, digest)
    if not_after is None:
        not_after = CA_NOT_AFTER if is_ca else NOT_AFTER
    tbs = seq(
        tlv(0xA0, integer(version - 1)) if version > 1 else b"",
        integer(serial),
        signed_as or identifier,
        issuer_name,
        seq(time(not_before), time(not_after)),
        subject,
        spki,
        tlv(0xA3, seq(*extensions, *more)) if extensions or more else b"",
    )
    signature = sign(signer_key, tbs, digest)
    if flip:
        signature = signature[:-1] + bytes([signature[-1] ^ 1])
    der = seq(tbs, identifier, bits(signature))
    return Identity(private, der, subject, issuer_name, serial, spki)


def crl(
    issuer: Identity,
    revoked: Iterable[bytes] = (),
    *,
    this_update: datetime = NOW + timedelta(days=1),
    next_update: bytes | None = None,
    more: Sequence[bytes] = (),
    private: PrivateKey | None = None,
    digest: str = "sha256",
    authority: bytes | None = None,
    version: bytes = integer(1),
    issuer_name: bytes | None = None,
    signed_as: bytes | None = None,
) -> bytes:
    """A CRL; `revoked` are entries from :func:`entry`, `authority` a key identifier to claim."""
    private = private or issuer.key
    identifier = signature_algorithm(private, digest)
    claimed = issuer.key_identifier if authority is None else authority
    known = extension("2.5.29.35", seq(tlv(0x80, claimed)))
    entries = b"".join(revoked)
    extensions = [known, extension("2.5.29.20", integer(1)), *more]
    tbs = seq(
        version,
        signed_as or identifier,
        issuer.subject if issuer_name is None else issuer_name,
        time(this_update),
        time(this_update + timedelta(days=7)) if next_update is None else next_update,
        seq(entries) if entries else b"",
        tlv(0xA0, seq(*extensions)) if version else b"",
    )
    return seq(tbs, identifier, bits(sign(private, tbs, digest)))


def entry(
    who: Identity, when: datetime, reason: int | None = None, more: Sequence[bytes] = ()
) -> bytes:
    """One revoked certificate."""
    stated = [] if reason is None else [extension("2.5.29.21", integer(reason, 0x0A))]
    extensions = [*stated, *more]
    return seq(integer(who.serial), time(when), seq(*extensions) if extensions else b"")


def single(
    who: Identity,
    issuer: Identity,
    status: bytes,
    *,
    this_update: datetime = NOW + timedelta(days=1),
    digest: str = "sha1",
    more: bytes = b"",
) -> bytes:
    """One OCSP SingleResponse; `status` is GOOD, UNKNOWN or from :func:`revoked`."""
    issuer_hash = hashlib.new(digest, who.issuer).digest() if digest != "sha3-256" else bytes(32)
    hashed_key = key_hash(issuer.spki, digest) if digest != "sha3-256" else bytes(32)
    return seq(
        seq(algorithm(digest), octets(issuer_hash), octets(hashed_key), integer(who.serial)),
        status,
        general_time(this_update),
        tlv(0xA0, general_time(this_update + timedelta(days=7))),
        more,
    )


GOOD = tlv(0x80)
UNKNOWN = tlv(0x82)


def revoked(when: datetime, reason: int | None = None) -> bytes:
    stated = b"" if reason is None else tlv(0xA0, integer(reason, 0x0A))
    return tlv(0xA1, general_time(when), stated)


def ocsp(
    singles: Iterable[bytes],
    signer: Identity,
    *,
    by_key: bool = False,
    certificates: Sequence[bytes] = (),
    digest: str = "sha256",
    responder: bytes | None = None,
    version: bytes = b"",
    more: bytes = b"",
    flip: bool = False,
    kind: str = "1.3.6.1.5.5.7.48.1.1",
    answered: int = 0,
) -> bytes:
    """An OCSPResponse signed by `signer`."""
    if responder is None:
        named = tlv(0xA1, signer.subject)
        responder = tlv(0xA2, octets(signer.key_identifier)) if by_key else named
    data = seq(
        version,
        responder,
        general_time("20260602000000.123456Z"),
        seq(*singles),
        tlv(0xA1, seq(more)) if more else b"",
    )
    signature = sign(signer.key, data, digest)
    if flip:
        signature = signature[:-1] + bytes([signature[-1] ^ 1])
    body = seq(
        data,
        signature_algorithm(signer.key, digest),
        bits(signature),
        tlv(0xA0, seq(*certificates)) if certificates else b"",
    )
    answer = tlv(0xA0, seq(oid(kind), octets(body)))
    return seq(integer(answered, 0x0A), answer if answered == 0 else b"")


# The usual authority.

ROOT = issue("Root")
INTER = issue("Issuing CA", issuer=ROOT, ca=True, path_length=0)
TSA = issue("TSA", issuer=INTER)
TRUST = TsaTrust(name="forge", authority="Forge", roots=(ROOT.der,))
PATH = (TSA.der, INTER.der, ROOT.der)


def token_of(info: bytes | None = None, signer: Identity = TSA, **changes: Any) -> bytes:
    """A token by the usual authority; `changes` go to `tsa_forge.token`."""
    certificates = changes.pop("certificates", [signer.der, INTER.der])
    return token(tst_info() if info is None else info, signer, certificates=certificates, **changes)


def response_of(info: bytes | None = None, signer: Identity = TSA, **changes: Any) -> bytes:
    """A granted response by the usual authority."""
    return response(token_of(info, signer, **changes))
