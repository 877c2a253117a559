"""Public keys as JSON Web Keys (RFC 7517), and their thumbprints (RFC 7638).

Ed25519 as in RFC 8037, P-256 as in RFC 7518 section 6.2, ML-DSA-65 with key type AKP as JOSE does it
for post-quantum keys. Members that are not known are ignored, as RFC 7517 section 4 wants; those
that say what the key is for must not contradict its use for signatures.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from receiptledger.core import p256
from receiptledger.core.algorithms import ED25519, ES256, KEY_SIZES, ML_DSA_65, algorithm_of
from receiptledger.core.canonical import canonicalize, describe, shown
from receiptledger.core.encoding import base64url_decode, base64url_encode

__all__ = ["from_jwk", "thumbprint", "to_jwk"]

_NUMBER_SIZE = 32
# (kty, crv), or (kty, alg) for the key type that has no curves.
_KINDS: Final = {
    ("OKP", "Ed25519"): ED25519,
    ("EC", "P-256"): ES256,
    ("AKP", "ML-DSA-65"): ML_DSA_65,
}
_KIND_NAMES: Final = ", ".join("/".join(kind) for kind in _KINDS)
# What `alg` may say: Ed25519 has two names, since RFC 9864 made EdDSA ambiguous.
_ALGORITHM_NAMES: Final = {
    ED25519: ("EdDSA", "Ed25519"),
    ES256: ("ES256",),
    ML_DSA_65: ("ML-DSA-65",),
}
_PRIVATE = ("d", "priv")


def to_jwk(key: bytes) -> dict[str, str]:
    """The members a key's thumbprint is over, and no others.

    Raises:
        ValueError: for a length that no algorithm has.
    """
    algorithm = algorithm_of(key)
    if algorithm == ED25519:
        return {"crv": "Ed25519", "kty": "OKP", "x": base64url_encode(key)}
    if algorithm == ES256:
        x, y = base64url_encode(key[1:33]), base64url_encode(key[33:])
        return {"crv": "P-256", "kty": "EC", "x": x, "y": y}
    return {"alg": "ML-DSA-65", "kty": "AKP", "pub": base64url_encode(key)}


def from_jwk(jwk: object) -> bytes:
    """The public key of a JWK.

    Raises:
        ValueError: for another kind of key, a private key, a key for another use, a member of the
            wrong form.
    """
    if not isinstance(jwk, dict):
        raise ValueError(f"expected a JWK object, got {describe(jwk)}")  # noqa: TRY004
    for name in _PRIVATE:
        if name in jwk:
            raise ValueError(
                f"expected a public key, got a private one: the JWK has a member {name}"
            )
    kty = jwk.get("kty")
    curve = jwk.get("alg" if kty == "AKP" else "crv")
    if not (isinstance(kty, str) and isinstance(curve, str)):
        raise ValueError(f"expected a JWK of kind {_KIND_NAMES}, got no such members")  # noqa: TRY004
    algorithm = _KINDS.get((kty, curve))
    if algorithm is None:
        raise ValueError(f"expected a JWK of kind {_KIND_NAMES}, got {shown(f'{kty}/{curve}')}")
    _check_purpose(jwk, algorithm)
    if algorithm == ES256:
        key = b"\x04" + _member(jwk, "x", _NUMBER_SIZE) + _member(jwk, "y", _NUMBER_SIZE)
        if not p256.is_point(key):
            raise ValueError("expected a point of the curve P-256, got x and y of none")
        return key
    return _member(jwk, "x" if algorithm == ED25519 else "pub", KEY_SIZES[algorithm])


def thumbprint(key: bytes) -> str:
    """RFC 7638 thumbprint with SHA-256 in unpadded base64url: 43 characters.

    Raises:
        ValueError: for a length that no algorithm has.
    """
    return base64url_encode(sha256(canonicalize(to_jwk(key))).digest())


def _check_purpose(jwk: dict[str, Any], algorithm: str) -> None:
    names = _ALGORITHM_NAMES[algorithm]
    if jwk.get("alg", names[0]) not in names:
        raise ValueError(f"expected a JWK with alg {' or '.join(names)}, got another alg")
    if jwk.get("use", "sig") != "sig":
        raise ValueError("expected a JWK with use sig, got another use")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("expected a JWK whose key_ops hold verify, got other key_ops")


def _member(jwk: dict[str, Any], name: str, size: int) -> bytes:
    try:
        return base64url_decode(jwk.get(name), size)
    except ValueError as error:
        raise ValueError(f"member {name} of the JWK: {error}") from None
