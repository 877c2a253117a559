"""How long a response can be relied on, read from the certificates it brings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from receiptledger.core.anchor_life import RENEW_MARGIN_US, usable_until
from receiptledger.core.timestamp_algorithms import TABLE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

P256 = ec.generate_private_key(ec.SECP256R1())
ROOT = ec.generate_private_key(ec.SECP256R1())


def certificate(
    until: datetime,
    name: str = "tsa",
    issuer: str = "ca",
    key: CertificateIssuerPrivateKeyTypes = P256,
) -> bytes:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    made = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(until)
        .sign(ROOT, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


def tlv(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    if len(content) < 128:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def response(*certificates: bytes, bag: bool = True) -> bytes:
    """As much of a TimeStampResp as is read here."""
    signed = tlv(
        0x30,
        tlv(0x02, b"\x03"),
        tlv(0x31),
        tlv(0x30),
        *([tlv(0xA0, *certificates)] if bag else []),
        tlv(0x31),
    )
    token = tlv(0x30, tlv(0x06, b"\x2a"), tlv(0xA0, signed))
    return tlv(0x30, tlv(0x30, tlv(0x02, b"\x00")), token)


def micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


EARLY, LATE = datetime(2031, 5, 1, tzinfo=UTC), datetime(2036, 5, 1, tzinfo=UTC)


def test_the_first_to_expire_decides() -> None:
    made = response(certificate(LATE, "tsa"), certificate(EARLY, "ca", "root"))
    assert usable_until(made) == micros(EARLY)
    made = response(certificate(EARLY, "tsa"), certificate(LATE, "ca", "root"))
    assert usable_until(made) == micros(EARLY)


def test_a_root_does_not_count() -> None:
    made = response(certificate(LATE, "tsa"), certificate(EARLY, "root", "root"))
    assert usable_until(made) == micros(LATE)


def test_a_key_can_end_before_its_certificate() -> None:
    key = rsa.generate_private_key(65_537, 2_048)
    made = response(certificate(LATE, key=key))
    assert usable_until(made) == micros(TABLE["rsa2048"])
    far = response(certificate(datetime(2090, 1, 1, tzinfo=UTC), key=ed25519_key()))
    assert usable_until(far) == micros(TABLE["ed25519"])


def ed25519_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no DER",
        tlv(0x30),
        tlv(0x30, tlv(0x30)),
        response(),
        response(bag=False),
        response(tlv(0x30)),
        response(certificate(LATE), b"\x05\x00"),
        response(certificate(EARLY, "root", "root")),
    ],
)
def test_what_cannot_be_told(data: bytes) -> None:
    assert usable_until(data) is None


def test_the_margin_is_half_a_year() -> None:
    assert RENEW_MARGIN_US == 180 * 86_400 * 1_000_000
