"""Signatures that nothing may rest on, and who nevertheless made them.

A path over an outdated hash or a weak key is refused. But authorities carry such certificates along, to
roots of long ago, and where they lead decides what is said: under a configured root the weakness is the
reason, under any other root the authority is simply not known. So it is asked whether such a signature
is genuine, and only the words of a refusal depend on the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_der import algorithm
from receiptledger.core.timestamp_limits import MAX_CURVE_BITS, MAX_RSA_BITS, MAX_RSA_EXPONENT
from receiptledger.core.timestamp_signature import verify_signature

if TYPE_CHECKING:
    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.timestamp_signature import PublicKey

__all__ = ["genuine"]

_OUTDATED_RSA: Final[dict[str, hashes.HashAlgorithm]] = {
    "1.2.840.113549.1.1.4": hashes.MD5(),  # noqa: S303 - only asked who made it
    "1.2.840.113549.1.1.5": hashes.SHA1(),  # noqa: S303
    "1.2.840.113549.1.1.14": hashes.SHA224(),
}
_OUTDATED_ECDSA: Final[dict[str, hashes.HashAlgorithm]] = {
    "1.2.840.10045.4.1": hashes.SHA1(),  # noqa: S303
    "1.2.840.10045.4.3.1": hashes.SHA224(),
}
_ALLOWED = "secp521r1"
_PRIME_CURVES = ("secp", "brainpool")


def genuine(key: PublicKey, identifier: Node, signature: bytes, data: bytes) -> bool:
    """Whether a signature holds under this key, if need be by an algorithm that is not allowed.

    Keys that cost too much time count as not having made it.
    """
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size > MAX_RSA_BITS or key.public_numbers().e > MAX_RSA_EXPONENT:
            return False
    elif isinstance(key, ec.EllipticCurvePublicKey) and not _usual(key.curve):
        return False
    try:
        verify_signature(key, identifier, signature, data)
        return True
    except TimestampError:
        return _outdated(key, identifier, signature, data)


def _usual(curve: ec.EllipticCurve) -> bool:
    """Whether a signature costs about a millisecond at most."""
    return curve.name == _ALLOWED or (
        curve.name.startswith(_PRIME_CURVES) and curve.key_size <= MAX_CURVE_BITS
    )


def _outdated(key: PublicKey, identifier: Node, signature: bytes, data: bytes) -> bool:
    oid = algorithm(identifier, "signature algorithm")[0]
    try:
        if isinstance(key, rsa.RSAPublicKey) and oid in _OUTDATED_RSA:
            key.verify(signature, data, padding.PKCS1v15(), _OUTDATED_RSA[oid])
            return True
        if isinstance(key, ec.EllipticCurvePublicKey) and oid in _OUTDATED_ECDSA:
            key.verify(signature, data, ec.ECDSA(_OUTDATED_ECDSA[oid]))
            return True
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        pass
    return False
