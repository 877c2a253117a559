"""Ed25519 signing as RFC 8032 section 5.1 states it: slow, for comparing bytes with libsodium's."""

from __future__ import annotations

import hashlib

Point = tuple[int, int]

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493
BASE: Point = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def add(p: Point, q: Point) -> Point:
    """Section 5.1.4, in affine coordinates."""
    (x1, y1), (x2, y2) = p, q
    k = D * x1 * x2 * y1 * y2 % P
    x3 = (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P
    y3 = (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P
    return x3, y3


def multiply(scalar: int, point: Point) -> Point:
    result = (0, 1)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def encode(point: Point) -> bytes:
    """Section 5.1.2."""
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _expand(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
    return scalar, digest[32:]


def public_key(seed: bytes) -> bytes:
    """Section 5.1.5."""
    return encode(multiply(_expand(seed)[0], BASE))


def sign(seed: bytes, message: bytes) -> bytes:
    """Section 5.1.6."""
    scalar, prefix = _expand(seed)
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ORDER
    big_r = encode(multiply(r, BASE))
    challenge = hashlib.sha512(big_r + public_key(seed) + message).digest()
    k = int.from_bytes(challenge, "little") % ORDER
    return big_r + ((r + k * scalar) % ORDER).to_bytes(32, "little")
