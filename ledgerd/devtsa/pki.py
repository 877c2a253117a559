"""The certificates of a development TSA: root, issuing CA, TSA; made once, kept in one folder.

Shaped like a public TSA's so that the same checks apply: the TSA's certificate has the critical
purpose timeStamping alone (RFC 3161 section 2.3), the CA may issue no further CA, and both name where
revocation is published. But every key lies in the folder, readable by whoever runs it, and whoever
has a TSA's key can date anything: so each name says that it is not for production.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, get_args

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NOTICE", "Key", "KeyKind", "Pair", "Pki", "load_pki", "make_pki", "write_private"]

NOTICE: Final = "NOT FOR PRODUCTION"
KeyKind = Literal["p256", "rsa3072"]
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_FILES: Final = {"root": "root", "ca": "ca", "tsa": "tsa"}
_DAY: Final = timedelta(days=1)
_TSA_DAYS, _CA_DAYS = 10 * 365, 20 * 365  # long enough that a kept folder is not a lesson in expiry


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key


@dataclass(frozen=True, slots=True)
class Pki:
    """Who vouches for whom: root, then CA, then TSA."""

    root: Pair
    ca: Pair
    tsa: Pair

    def issuers(self) -> tuple[Pair, Pair]:
        """Who issues certificates, and so says which are revoked."""
        return self.root, self.ca


def make_pki(
    folder: Path,
    name: str,
    kind: KeyKind,
    base_url: str,
    *,
    now: datetime,
    tsa_days: int = _TSA_DAYS,
) -> Pki:
    """Make all three and write them; the base URL, ending in a slash, goes into the certificates."""
    root_key, ca_key = new_key("p256"), new_key("p256")
    start, end = now - _DAY, now + _CA_DAYS * _DAY
    subject = _name(f"{name} root")
    root = Pair(
        _sign(
            _authority(subject, root_key, start, end, path_length=1), subject, root_key, root_key
        ),
        root_key,
    )
    builder = _authority(_name(f"{name} issuing CA"), ca_key, start, end, path_length=0)
    builder = _revocation(builder, base_url, "root")
    ca = Pair(_sign(builder, root.certificate.subject, root_key, ca_key), ca_key)
    tsa = issue_tsa(ca, name, kind, base_url, now=now, days=tsa_days)
    pki = Pki(root, ca, tsa)
    write_pki(folder, pki)
    return pki


def issue_tsa(
    ca: Pair,
    name: str,
    kind: KeyKind,
    base_url: str,
    *,
    now: datetime,
    days: int = _TSA_DAYS,
) -> Pair:
    """A TSA's certificate with a new key, valid from a day ago."""
    key = new_key(kind)
    builder = (
        _builder(_name(f"{name} TSA"), key, now - _DAY, now + days * _DAY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    )
    builder = _revocation(builder, base_url, "ca")
    return Pair(_sign(builder, ca.certificate.subject, ca.key, key), key)


def write_pki(folder: Path, pki: Pki) -> None:
    """Write certificates and keys; the keys for the owner's eyes alone."""
    for stem, pair in zip(_FILES, (pki.root, pki.ca, pki.tsa), strict=True):
        pem = pair.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_private(folder / f"{stem}.key", pem)
        (folder / f"{stem}.pem").write_bytes(_pem(pair.certificate))


def load_pki(folder: Path) -> Pki:
    """What :func:`make_pki` wrote.

    Raises:
        OSError, ValueError: when a file is missing or damaged.
    """
    pairs = []
    for stem in _FILES:
        certificate = x509.load_pem_x509_certificate((folder / f"{stem}.pem").read_bytes())
        key = serialization.load_pem_private_key((folder / f"{stem}.key").read_bytes(), None)
        if not isinstance(key, Key):
            raise ValueError(f"{folder / stem}.key is of a kind that is never written here")  # noqa: TRY004
        if key.public_key() != certificate.public_key():
            raise ValueError(f"{folder / stem}.key is not the key of {stem}.pem")
        pairs.append(Pair(certificate, key))
    return Pki(*pairs)


def new_key(kind: KeyKind) -> Key:
    """A fresh key of a kind."""
    if kind not in get_args(KeyKind):
        raise ValueError(f"expected one of {', '.join(get_args(KeyKind))}, got {kind!r}")
    if kind == "p256":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(65_537, 3_072)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, replacing one that is there."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)


def _name(text: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"Development TSA, {NOTICE}"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{NOTICE}: {text}"),
        ]
    )


def _builder(
    subject: x509.Name, key: Key, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _authority(
    subject: x509.Name,
    key: Key,
    start: datetime,
    end: datetime,
    *,
    path_length: int,
) -> x509.CertificateBuilder:
    return (
        _builder(subject, key, start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _revocation(
    builder: x509.CertificateBuilder, base_url: str, issuer: str
) -> x509.CertificateBuilder:
    """Where it is published whether this certificate was revoked: a list, and a responder."""
    crl = x509.UniformResourceIdentifier(f"{base_url}{issuer}.crl")
    ocsp = x509.UniformResourceIdentifier(f"{base_url}ocsp")
    point = x509.DistributionPoint([crl], None, None, None)
    access = x509.AccessDescription(AuthorityInformationAccessOID.OCSP, ocsp)
    return builder.add_extension(x509.CRLDistributionPoints([point]), critical=False).add_extension(
        x509.AuthorityInformationAccess([access]), critical=False
    )


def _sign(
    builder: x509.CertificateBuilder, issuer: x509.Name, issuer_key: Key, key: Key
) -> x509.Certificate:
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        builder.issuer_name(issuer)
        .add_extension(own, critical=False)
        .add_extension(above, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
