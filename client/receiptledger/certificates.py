"""Certificates and revocation lists from files, as the DER bytes the core works on.

Files hold PEM, one block or several, or one certificate or list in DER.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import TimestampError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MAX_FILE_BYTES", "read_bounded", "read_certificates", "read_crls", "to_pem"]

MAX_FILE_BYTES = 1_048_576  # a bundle of roots; a CRL has at most MAX_EVIDENCE_BYTES
_BEGIN: Final = b"-----BEGIN "
_DASHES: Final = b"-----"
_MAX_LABEL: Final = 64  # bytes; the longest in use has 22


def read_bounded(path: Path) -> bytes:
    """A whole file of at most 1 MiB.

    Raises:
        ValueError: it cannot be read, or is longer.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path} is too long: at most {MAX_FILE_BYTES} bytes")
    return data


def read_certificates(data: bytes) -> tuple[bytes, ...]:
    """The certificates in a file's bytes, DER, in their order, at least one.

    Raises:
        ValueError: it holds none, something else besides, or one that cannot be read. A private key
            is refused by name: it has no place where certificates are given away.
    """
    return _parts(data, b"CERTIFICATE", "certificate")


def read_crls(data: bytes) -> tuple[bytes, ...]:
    """The revocation lists in a file's bytes, DER, in their order, at least one.

    Raises:
        ValueError: it holds none, something else besides, or one that cannot be read.
    """
    return _parts(data, b"X509 CRL", "revocation list")


def to_pem(certificates: tuple[bytes, ...]) -> bytes:
    """PEM blocks of DER certificates, each behind the other."""
    return "".join(ssl.DER_cert_to_PEM_cert(one) for one in certificates).encode("ascii")


def _parts(data: bytes, label: bytes, kind: str) -> tuple[bytes, ...]:
    if data.startswith(b"\x30"):  # a DER SEQUENCE; PEM is text
        return (_der(data, kind, pem=False),)
    found = []
    for name, block in _blocks(data):
        if name != label:
            raise ValueError(f"a PEM block {name.decode('ascii', 'replace')} among the {kind}s")
        found.append(_der(block + b"\n", kind, pem=True))
    if not found:
        raise ValueError(f"no {kind} in PEM or DER form")
    return tuple(found)


def _blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Label and text of each PEM block (RFC 7468), in one pass; what stands between them is ignored."""
    at = data.find(_BEGIN)
    while at >= 0:
        start = at + len(_BEGIN)
        stop = data.find(_DASHES, start, start + _MAX_LABEL + len(_DASHES))
        label = data[start:stop] if stop >= 0 else b""
        last = b"-----END " + label + _DASHES
        end = data.find(last, stop) if label else -1
        if (
            end < 0
        ):  # and nothing after it is looked at: it may hold as many more of them as it likes
            raise ValueError("a PEM block that does not end as it begins")
        yield label, data[at : end + len(last)]
        at = data.find(_BEGIN, end)


def _der(data: bytes, kind: str, *, pem: bool) -> bytes:
    # Here, not above: agents' commands load this module, and X.509 costs a tenth of their start.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    from receiptledger.core.tsa_certificate import load_certificate

    try:
        if kind == "certificate":
            load = x509.load_pem_x509_certificate if pem else x509.load_der_x509_certificate
            der = load(data).public_bytes(Encoding.DER)
            load_certificate(der)  # the verifier reads more strictly: say so here
            return der
        load_crl = x509.load_pem_x509_crl if pem else x509.load_der_x509_crl
        return load_crl(data).public_bytes(Encoding.DER)
    except (ValueError, x509.InvalidVersion, TimestampError) as error:  # three families
        raise ValueError(f"a {kind} that cannot be read: {error}") from None
