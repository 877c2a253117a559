"""Certificates from PEM files, checked when they are read, so that a wrong file is named at the start.

A file of trusted certificates holds certificates alone: a private key in it was put there by mistake,
and anything else would be skipped in silence by a lax reader.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_types import DEFAULT_RULES
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.core.tsa_path import build_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["MAX_PEM_BYTES", "check_pin", "read_authorities", "read_certificates", "read_roots"]

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


def read_roots(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """The root certificates of PEM files, as DER.

    Raises:
        ValueError: as :func:`read_authorities`, and when another CA issued one: OpenSSL, which is the
            second verifier, and with it every auditor's `openssl ts`, goes on up to a root.
    """
    paths = tuple(paths)
    for path in paths:
        for cert in _load(path):
            if _is_ca(cert) and cert.subject != cert.issuer:
                raise ValueError(
                    f"{path}: {cert.subject.rfc4514_string()} is no root: it was issued by "
                    f"{cert.issuer.rfc4514_string()}. Put that one's root under `roots`, and this "
                    "file under `intermediates`. Or set strict_only = true to trust it as it is, "
                    "without the second verifier"
                )
    return read_authorities(paths)


def check_pin(
    path: Path, pinned: bytes, intermediates: Iterable[bytes], roots: Iterable[bytes]
) -> None:
    """Return when a pinned certificate can sign timestamps that lead to the configured roots.

    Raises:
        ValueError: it never can; says what to do.
    """
    try:
        signer = load_certificate(pinned)
        # Not at this moment: whoever pins sees to its end, and what it signed goes on to count.
        moment = min(max(datetime.now(UTC), signer.not_before), signer.not_after)
        build_path(
            signer,
            [load_certificate(der) for der in intermediates],
            [load_certificate(der) for der in roots],
            moment,
            DEFAULT_RULES.min_rsa_bits,
        )
    except TimestampError as error:
        raise ValueError(
            f"{path}: the pinned certificate does not lead to `roots` ({error.message}). It must be "
            "the TSA's own, and the CA certificates between it and the root must be under "
            "`intermediates`"
        ) from None


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
