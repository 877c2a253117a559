"""NIST P-256: which points are on the curve, and ECDSA signatures in their two forms.

Sums of integers only; the signatures themselves are checked elsewhere. Numbers as in SP 800-186
section 3.2.1.3: y^2 = x^3 - 3x + b over the integers modulo `_PRIME`, a group of `ORDER` points.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ORDER",
    "POINT_SIZE",
    "SIGNATURE_SIZE",
    "decompress",
    "is_point",
    "signature_from_der",
    "signature_to_der",
]

ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
POINT_SIZE: Final = 65  # 0x04, x, y
SIGNATURE_SIZE: Final = 64  # r, s

_PRIME: Final = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_UNCOMPRESSED: Final = 4
_EVEN, _ODD = 2, 3
_SIZE: Final = 32  # of one number
_SEQUENCE, _INTEGER = 0x30, 0x02


def is_point(key: bytes) -> bool:
    """Whether 65 bytes are an uncompressed point of the curve (SEC 1 section 2.3.3)."""
    if len(key) != POINT_SIZE or key[0] != _UNCOMPRESSED:
        return False
    x, y = int.from_bytes(key[1:33], "big"), int.from_bytes(key[33:], "big")
    return x < _PRIME and y < _PRIME and (y * y - _right_side(x)) % _PRIME == 0


def decompress(point: bytes) -> bytes:
    """The 65 bytes of a point that came as 33 (SEC 1 section 2.3.4).

    Raises:
        ValueError: for another length or first byte, or an x that no point has.
    """
    if len(point) != 1 + _SIZE or point[0] not in (_EVEN, _ODD):
        raise ValueError("expected a compressed P-256 point of 33 bytes")
    x = int.from_bytes(point[1:], "big")
    square = _right_side(x)
    y = pow(square, (_PRIME + 1) // 4, _PRIME)  # a square root, as the prime is 3 modulo 4
    if x >= _PRIME or y * y % _PRIME != square:
        raise ValueError("expected a point of the curve P-256")
    if y % 2 != point[0] % 2:
        y = _PRIME - y
    return bytes([_UNCOMPRESSED]) + point[1:] + y.to_bytes(_SIZE, "big")


def signature_to_der(signature: bytes) -> bytes:
    """The DER form (RFC 3279 section 2.2.3) of r || s, 64 bytes."""
    body = _der_integer(signature[:_SIZE]) + _der_integer(signature[_SIZE:])
    return bytes([_SEQUENCE, len(body)]) + body


def signature_from_der(der: bytes) -> bytes:
    """The two numbers, r || s, 64 bytes, of a signature in DER.

    Raises:
        ValueError: for what :func:`signature_to_der` would not have written: BER, a sign, a number
            of more than 256 bits, bytes left over.
    """
    try:
        first = der[3]
        r = der[4 : 4 + first]
        s = der[6 + first :]
        signature = r[-_SIZE:].rjust(_SIZE, b"\0") + s[-_SIZE:].rjust(_SIZE, b"\0")
    except IndexError:
        signature = b""
    # Read as if it were right, then written back: only the one DER spelling comes out the same.
    if not signature or signature_to_der(signature) != der:
        raise ValueError("expected an ECDSA signature in DER")
    return signature


def _right_side(x: int) -> int:
    return (x * x * x - 3 * x + _B) % _PRIME


def _der_integer(number: bytes) -> bytes:
    digits = number.lstrip(b"\0")
    if not digits or digits[0] & 0x80:  # DER integers have a sign
        digits = b"\0" + digits
    return bytes([_INTEGER, len(digits)]) + digits
