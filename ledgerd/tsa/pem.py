"""Certificates from PEM files, checked when they are read, so that a wrong file is named at the start.

A file of trusted certificates holds certificates alone: a private key in it was put there by mistake,
and anything else would be skipped in silence by a lax reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["MAX_PEM_BYTES", "read_authorities", "read_certificates"]

MAX_PEM_BYTES = 1024 * 1024
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")


def read_certificates(path: Path) -> tuple[bytes, ...]:
    """The certificates of a PEM file, as DER, in the file's order and without repetitions.

    Raises:
        ValueError: when it cannot be read, or holds anything but certificates.
    """
    return tuple(dict.fromkeys(cert.public_bytes(Encoding.DER) for cert in _load(path)))


def read_authorities(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """The CA certificates of PEM files, as DER.

    Raises:
        ValueError: as :func:`read_certificates`, and when one is not a CA's.
    """
    found: dict[bytes, None] = {}
    for path in paths:
        for cert in _load(path):
            if not _is_ca(cert):
                raise ValueError(
                    f"{path}: {cert.subject.rfc4514_string()} is not a CA certificate; give the "
                    "certificates of the authorities above the TSA, not its own"
                )
            found[cert.public_bytes(Encoding.DER)] = None
    return tuple(found)


def _load(path: Path) -> list[x509.Certificate]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > MAX_PEM_BYTES:
        raise ValueError(f"{path} is longer than {MAX_PEM_BYTES} bytes; name the few you trust")
    labels = set(_BLOCK.findall(data))
    if any(label.endswith(b"PRIVATE KEY") for label in labels):
        raise ValueError(f"{path} holds a private key; give a file with certificates alone")
    if not labels:
        raise ValueError(
            f"{path} is not PEM; convert it: openssl x509 -inform DER -in {path.name} -out FILE.pem"
        )
    if labels != {b"CERTIFICATE"}:
        other = sorted(label.decode("ascii") for label in labels - {b"CERTIFICATE"})
        raise ValueError(f"{path} holds {', '.join(other)}; give a file with certificates alone")
    try:
        return x509.load_pem_x509_certificates(data)
    except (ValueError, x509.InvalidVersion) as error:  # InvalidVersion is no ValueError
        raise ValueError(f"{path} holds a certificate that cannot be read: {error}") from None


def _is_ca(cert: x509.Certificate) -> bool:
    try:
        return cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False
