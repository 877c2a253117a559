"""P-256: points, and the two forms of an ECDSA signature."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core import p256

# The base point of SP 800-186 section 3.2.1.3.
G = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)
PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
NUMBERS = st.integers(0, 2**256 - 1) | st.sampled_from(
    [0, 1, 127, 128, 255, 256, 2**255, 2**256 - 1, p256.ORDER]
)


def points(count: int) -> list[bytes]:
    """The first multiples of the base point, by an independent library."""
    keys = [ec.derive_private_key(number, ec.SECP256R1()) for number in range(1, count + 1)]
    return [
        key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint) for key in keys
    ]


def test_points_of_the_curve() -> None:
    for point in points(40):
        assert p256.is_point(point)
    assert points(1) == [G]


def test_the_other_y_of_a_point_is_a_point() -> None:
    y = PRIME - int.from_bytes(G[33:], "big")
    assert p256.is_point(G[:33] + y.to_bytes(32, "big"))


def test_no_other_bit_pattern_near_a_point_is_one() -> None:
    for index in range(len(G)):
        for bit in range(8):
            changed = bytearray(G)
            changed[index] ^= 1 << bit
            assert not p256.is_point(bytes(changed)), (index, bit)


@pytest.mark.parametrize(
    "point",
    [
        b"",
        b"\x04",
        G[:-1],
        G + b"\0",
        b"\x00" + bytes(64),
        b"\x04" + bytes(64),
        b"\x06" + G[1:],  # the hybrid form of ANSI X9.62
        b"\x07" + G[1:],
        G[1:] + b"\x04",
    ],
)
def test_what_is_no_uncompressed_point(point: bytes) -> None:
    assert not p256.is_point(point)


def test_coordinates_that_are_not_reduced() -> None:
    # x = 5 has a point; 5 + p names the same residue in other bytes.
    point = p256.decompress(b"\x02" + (5).to_bytes(32, "big"))
    assert p256.is_point(point)
    unreduced = (5 + PRIME).to_bytes(32, "big")
    assert not p256.is_point(b"\x04" + unreduced + point[33:])
    with pytest.raises(ValueError, match="a point of the curve"):
        p256.decompress(b"\x02" + unreduced)


def test_compressed_points() -> None:
    for number in range(1, 41):
        public = ec.derive_private_key(number, ec.SECP256R1()).public_key()
        compressed = public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        assert p256.decompress(compressed) == public.public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )


def test_about_half_of_all_x_have_no_point() -> None:
    found = 0
    for x in range(200):
        compressed = b"\x03" + x.to_bytes(32, "big")
        try:
            point = p256.decompress(compressed)
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
                ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), compressed)
        else:
            found += 1
            assert p256.is_point(point)
            assert point[-1] % 2 == 1
    assert 60 < found < 140


@pytest.mark.parametrize("point", [b"", b"\x02", b"\x04" + G[1:33], G, b"\x02" + G[1:34], G[1:34]])
def test_what_is_no_compressed_point(point: bytes) -> None:
    with pytest.raises(ValueError, match="a compressed P-256 point of 33 bytes"):
        p256.decompress(point)


@given(NUMBERS, NUMBERS)
def test_der_is_that_of_cryptography(r: int, s: int) -> None:
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    der = p256.signature_to_der(signature)
    assert der == encode_dss_signature(r, s)
    assert decode_dss_signature(der) == (r, s)
    assert p256.signature_from_der(der) == signature


def der(*integers: bytes) -> bytes:
    body = b"".join(bytes([2, len(number)]) + number for number in integers)
    return bytes([0x30, len(body)]) + body


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\x30",
        b"\x30\x00",
        der(b"\x01"),
        der(b"\x01", b"\x01", b"\x01"),
        der(b"\x01", b"\x01") + b"\0",
        der(b"\x01", b"\x01")[:-1],
        der(b"\x00\x01", b"\x01"),  # padded
        der(b"\x01", b"\x00\x01"),
        der(b"\x80", b"\x01"),  # negative
        der(b"\x01", b"\xff"),
        der(b"", b"\x01"),
        der(b"\x01", b""),
        der(b"\x01" + bytes(32), b"\x01"),  # 257 bits
        der(b"\x01", b"\x01" + bytes(32)),
        b"\x31" + der(b"\x01", b"\x01")[1:],
        b"\x30\x81\x06\x02\x01\x01\x02\x01\x01",  # BER: the long form of a short length
        b"\x30\x80\x02\x01\x01\x02\x01\x01\x00\x00",  # BER: indefinite length
        b"\x30\x06\x03\x01\x01\x02\x01\x01",
        b"\x30\x06\x02\x01\x01\x03\x01\x01",
        b"\x30\x07\x02\x01\x01\x02\x01\x01",
        b"\x30\x06\x02\xff\x01\x02\x01\x01",
    ],
)
def test_what_is_no_der_signature(wrong: bytes) -> None:
    with pytest.raises(ValueError, match="an ECDSA signature in DER"):
        p256.signature_from_der(wrong)


def test_a_der_signature_has_one_spelling() -> None:
    """Whatever single byte is changed: another signature, or none."""
    signature = bytes(range(100, 164))
    right = p256.signature_to_der(signature)
    for index in range(len(right)):
        for value in range(256):
            changed = right[:index] + bytes([value]) + right[index + 1 :]
            if changed == right:
                continue
            try:
                assert p256.signature_from_der(changed) != signature
            except ValueError:
                continue


@given(st.binary(max_size=80))
def test_any_bytes_as_der(data: bytes) -> None:
    try:
        signature = p256.signature_from_der(data)
    except ValueError:
        return
    assert p256.signature_to_der(signature) == data
