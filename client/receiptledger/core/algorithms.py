"""The signature algorithms of receipts: one table, one check.

A public key is plain bytes and its length tells its algorithm:

* Ed25519: 32 bytes. Checked by libsodium: no small-order or non-canonical keys and R, S below the
  group order (RFC 8032 section 5.1.7), no cofactor. Other libraries accept other signatures; a
  ledger and its auditors must share one rule.
* ES256 (RFC 7518 section 3.4): ECDSA over P-256 with SHA-256. Key: the uncompressed point, 65 bytes,
  on the curve. Signature: r || s, 64 bytes, both 1..n-1. ECDSA lets anybody turn (r, s) into
  (r, n - s): both hold, and :func:`low_s` names the one that stands for both.
* ML-DSA-65 (FIPS 204, the pure form with an empty context): 1,952 bytes of key, 3,309 of signature.

`cryptography` checks the last two. It is imported when the first such receipt comes, so that agents
that sign with Ed25519 start fast; one too old for an algorithm makes it undecidable, never wrong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core import ed25519, p256
from receiptledger.core.canonical import shown
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ED25519",
    "ES256",
    "KEY_SIZES",
    "ML_DSA_65",
    "SIGNATURE_SIZES",
    "algorithm_of",
    "check_signature",
    "low_s",
]

ED25519: Final = "Ed25519"
ES256: Final = "ES256"
ML_DSA_65: Final = "ML-DSA-65"

KEY_SIZES: Final[dict[str, int]] = {ED25519: 32, ES256: p256.POINT_SIZE, ML_DSA_65: 1952}
SIGNATURE_SIZES: Final[dict[str, int]] = {ED25519: 64, ES256: p256.SIGNATURE_SIZE, ML_DSA_65: 3309}
_BY_KEY_SIZE: Final = {size: name for name, size in KEY_SIZES.items()}
_NUMBER_SIZE: Final = 32  # of r and of s


def algorithm_of(key: bytes) -> str:
    """The algorithm of a public key, told by its length.

    Raises:
        ValueError: for a length that no algorithm has.
    """
    name = _BY_KEY_SIZE.get(len(key))
    if name is None:
        sizes = ", ".join(f"{size} bytes ({name})" for name, size in KEY_SIZES.items())
        raise ValueError(f"expected a public key of {sizes}, got {len(key)} bytes")
    return name


def check_signature(signature: bytes, message: bytes, key: bytes, algorithm: str = ED25519) -> None:
    """Check one signature.

    Args:
        signature: in the one form of its algorithm, see the module's text.
        message: what was signed.
        key: public key.
        algorithm: one of `KEY_SIZES`.

    Raises:
        ReceiptError: BAD_SIGNATURE when it does not hold, a length is wrong or the key is of another
            type; UNSUPPORTED_ALGORITHM when this installation cannot tell.
    """
    size = KEY_SIZES.get(algorithm)
    if size is None:
        want = " or ".join(KEY_SIZES)
        raise _unsupported("this ledger does not know the algorithm", want, shown(algorithm))
    # Shape first: libsodium reads past a short key, and takes 64 bytes off signature + message.
    if len(key) != size:
        other = _BY_KEY_SIZE.get(len(key))
        if other is not None:
            want, got = f"a key for {algorithm}", f"one for {other}"
            raise _bad_signature("the key is of another type", want, got)
        raise _bad_signature("the key has another length", f"{size} bytes", f"{len(key)} bytes")
    size = SIGNATURE_SIZES[algorithm]
    if len(signature) != size:
        want, got = f"{size} bytes", f"{len(signature)} bytes"
        raise _bad_signature("the signature has another length", want, got)
    if not _CHECKS[algorithm](signature, message, key):
        digits = key.hex()
        want = "one by the key " + (digits if len(digits) <= 130 else digits[:64] + "...")
        raise _bad_signature(
            "the signature does not hold", want, f"signature {signature.hex()[:16]}..."
        )


def low_s(signature: bytes) -> bytes:
    """The one of an ES256 signature and its twin that stands for both: s at most half the order.

    A signature that cannot hold, with s outside 1..n-1, has no twin and comes back as it is.

    Raises:
        ValueError: for anything but 64 bytes.
    """
    if len(signature) != p256.SIGNATURE_SIZE:
        raise ValueError(f"expected {p256.SIGNATURE_SIZE} bytes, got {len(signature)}")
    s = int.from_bytes(signature[_NUMBER_SIZE:], "big")
    if p256.ORDER // 2 < s < p256.ORDER:
        return signature[:_NUMBER_SIZE] + (p256.ORDER - s).to_bytes(_NUMBER_SIZE, "big")
    return signature


# One function for each algorithm: whether a signature of the right shape holds.


def _es256_holds(signature: bytes, message: bytes, key: bytes) -> bool:
    r = int.from_bytes(signature[:_NUMBER_SIZE], "big")
    s = int.from_bytes(signature[_NUMBER_SIZE:], "big")
    if not (0 < r < p256.ORDER and 0 < s < p256.ORDER):
        want, got = "r and s in 1..n-1", f"signature {signature.hex()[:16]}..."
        raise _bad_signature("the signature's numbers are out of range", want, got)
    if not p256.is_point(key):
        want, got = "04, x and y with y^2 = x^3 - 3x + b", f"the key {key.hex()}"
        raise _bad_signature("the key is no point of the curve P-256", want, got)
    verify, wrong = _es256_verifier(key)
    try:
        verify(p256.signature_to_der(signature), message)
    except wrong:
        return False
    return True


def _ml_dsa_65_holds(signature: bytes, message: bytes, key: bytes) -> bool:
    verify, wrong = _ml_dsa_65_verifier(key)
    try:
        verify(signature, message)
    except wrong:
        return False
    return True


# A chain's receipts come under few keys. A failed import raises and is not remembered.
_Verifier = tuple["Callable[[bytes, bytes], None]", type[Exception]]


@lru_cache(maxsize=1_024)
def _es256_verifier(key: bytes) -> _Verifier:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256
    except ImportError:
        raise _unavailable(ES256) from None
    try:
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    except UnsupportedAlgorithm:
        raise _unavailable(ES256) from None
    scheme = ec.ECDSA(SHA256())
    return lambda signature, message: public.verify(signature, message, scheme), InvalidSignature


@lru_cache(maxsize=1_024)
def _ml_dsa_65_verifier(key: bytes) -> _Verifier:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import mldsa
    except ImportError:
        raise _unavailable(ML_DSA_65) from None
    try:
        public: Any = mldsa.MLDSA65PublicKey.from_public_bytes(key)
    except UnsupportedAlgorithm:
        raise _unavailable(ML_DSA_65) from None
    return public.verify, InvalidSignature


_CHECKS: Final = {ED25519: ed25519.verifies, ES256: _es256_holds, ML_DSA_65: _ml_dsa_65_holds}


def _bad_signature(message: str, want: str, got: str) -> ReceiptError:
    return ReceiptError(Reason.BAD_SIGNATURE, message, want=want, got=got)


def _unsupported(message: str, want: str, got: str) -> ReceiptError:
    return ReceiptError(Reason.UNSUPPORTED_ALGORITHM, message, want=want, got=got)


def _unavailable(algorithm: str) -> ReceiptError:
    want = f"the Python package cryptography in a version with {algorithm}; install a newer one"
    return _unsupported(
        f"{algorithm} signatures cannot be checked with this installation", want, "one without it"
    )
