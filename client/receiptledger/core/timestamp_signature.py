"""Signatures and hashes of timestamps, certificates and their revocation evidence.

One table for all: SHA-256, SHA-384 and SHA-512 only; RSA (PKCS #1 v1.5 and PSS), ECDSA over P-256,
P-384 and P-521, Ed25519. SHA-1 is nowhere accepted as the hash of a signature.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import Members, algorithm, integer, only
from receiptledger.core.timestamp_limits import MAX_RSA_BITS, MAX_RSA_EXPONENT, MAX_SALT_BYTES

if TYPE_CHECKING:
    from receiptledger.core.timestamp_der import Node

    PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

__all__ = ["digest", "hash_name", "key_name", "load_key", "signature_hash", "verify_signature"]

_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}
HASH_OIDS: Final = {
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
_RSA_OIDS = {
    "1.2.840.113549.1.1.11": "sha256",
    "1.2.840.113549.1.1.12": "sha384",
    "1.2.840.113549.1.1.13": "sha512",
}
_ECDSA_OIDS = {
    "1.2.840.10045.4.3.2": "sha256",
    "1.2.840.10045.4.3.3": "sha384",
    "1.2.840.10045.4.3.4": "sha512",
}
# Some authorities name the key here instead of the signature; the hash is then digestAlgorithm's.
_RSA_KEY = "1.2.840.113549.1.1.1"
_EC_KEY = "1.2.840.10045.2.1"
_RSA_PSS = "1.2.840.113549.1.1.10"
_MGF1 = "1.2.840.113549.1.1.8"
_ED25519 = "1.3.101.112"
_CURVES = {"secp256r1": "p256", "secp384r1": "p384", "secp521r1": "p521"}


def digest(name: str, data: bytes) -> bytes:
    """Hash under one of the three names."""
    return hashlib.new(name, data).digest()


def hash_name(node: Node, what: str) -> str:
    """The name of an allowed hash from its AlgorithmIdentifier.

    Raises:
        TimestampError: DER, or HASH_ALGORITHM for any other hash.
    """
    oid, parameters = algorithm(node, what)
    name = HASH_OIDS.get(oid)
    if name is None or parameters is not None:
        raise TimestampError(
            Cause.HASH_ALGORITHM, f"{what} is not allowed", want=", ".join(_HASHES), got=oid
        )
    return name


@lru_cache(maxsize=64)
def load_key(spki: bytes) -> PublicKey:
    """A public key from its DER SubjectPublicKeyInfo.

    Raises:
        TimestampError: CERTIFICATE for one that cannot be read, SIGNATURE_ALGORITHM for another kind.
    """
    try:
        key = serialization.load_der_public_key(spki)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise TimestampError(
            Cause.CERTIFICATE, "public key cannot be read", got=str(error)[:200]
        ) from None
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return key
    raise TimestampError(
        Cause.SIGNATURE_ALGORITHM,
        "public key of another kind",
        want="RSA, EC or Ed25519",
        got=type(key).__name__,
    )


def key_name(key: PublicKey, min_rsa_bits: int = 0) -> str:
    """The name of a key's algorithm and size, such as "rsa3072", "p256" or "ed25519".

    Raises:
        TimestampError: WEAK_KEY for an RSA key that is too short, for one so long or of an exponent so
            large that it costs too much time, and for another curve.
    """
    if isinstance(key, rsa.RSAPublicKey):
        exponent = key.public_numbers().e
        if exponent > MAX_RSA_EXPONENT:
            raise TimestampError(
                Cause.WEAK_KEY,
                "public exponent of an RSA key",
                want=f"at most {MAX_RSA_EXPONENT}",
                got=f"{exponent.bit_length()} bits",
            )
        if not min_rsa_bits <= key.key_size <= MAX_RSA_BITS:
            raise TimestampError(
                Cause.WEAK_KEY,
                "size of an RSA key",
                want=f"{min_rsa_bits} to {MAX_RSA_BITS} bits",
                got=f"{key.key_size} bits",
            )
        return f"rsa{key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        name = _CURVES.get(key.curve.name)
        if name is None:
            raise TimestampError(
                Cause.WEAK_KEY,
                "curve is not allowed",
                want=", ".join(_CURVES.values()),
                got=key.curve.name,
            )
        return name
    return "ed25519"


def verify_signature(
    key: PublicKey,
    identifier: Node,
    signature: bytes,
    data: bytes,
    *,
    digest_algorithm: str | None = None,
) -> str:
    """Verify a signature as its AlgorithmIdentifier says.

    Args:
        key: of the signer.
        identifier: the signature's AlgorithmIdentifier.
        signature: its bytes.
        data: what was signed.
        digest_algorithm: in CMS, the hash named beside it. RSA's must agree with it; for an ECDSA
            signature the signature's own OID decides, if it names a hash.

    Returns:
        Its name: "rsa-sha256", "rsa-pss-sha256", "ecdsa-sha256" (and so on) or "ed25519".

    Raises:
        TimestampError: SIGNATURE_ALGORITHM, SIGNATURE, or DER.
    """
    oid, parameters = algorithm(identifier, "signature algorithm")
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if oid == _RSA_PSS:
                name, salt = _pss(parameters)
                scheme: padding.AsymmetricPadding = padding.PSS(padding.MGF1(_HASHES[name]), salt)
                label = f"rsa-pss-{name}"
            else:
                name = _named(oid, parameters, _RSA_OIDS, _RSA_KEY, digest_algorithm)
                scheme = padding.PKCS1v15()
                label = f"rsa-{name}"
            if digest_algorithm not in (None, name):
                raise _unsupported(f"{oid} with {digest_algorithm}", "one hash for both")
            key.verify(signature, data, scheme, _HASHES[name])
            return label
        if isinstance(key, ec.EllipticCurvePublicKey):
            if oid == _EC_KEY:
                parameters = None  # the curve, which the key has already named
            name = _named(oid, parameters, _ECDSA_OIDS, _EC_KEY, digest_algorithm)
            key.verify(signature, data, ec.ECDSA(_HASHES[name]))
            return f"ecdsa-{name}"
        if oid != _ED25519 or parameters is not None:
            raise _unsupported(oid, "Ed25519")
        key.verify(signature, data)
        return "ed25519"
    except (InvalidSignature, ValueError):
        raise TimestampError(Cause.SIGNATURE, "signature does not hold under the key") from None


def signature_hash(identifier: Node) -> str:
    """The hash an AlgorithmIdentifier of a signature names, or "ed25519", without verifying.

    Raises:
        TimestampError: SIGNATURE_ALGORITHM, HASH_ALGORITHM, DER.
    """
    oid, parameters = algorithm(identifier, "signature algorithm")
    if oid == _RSA_PSS:
        return _pss(parameters)[0]
    name = {**_RSA_OIDS, **_ECDSA_OIDS, _ED25519: "ed25519"}.get(oid)
    if name is None:
        raise _unsupported(oid, "one with SHA-256, SHA-384 or SHA-512")
    return name


def _named(
    oid: str, parameters: Node | None, names: dict[str, str], key_oid: str, fallback: str | None
) -> str:
    """The hash that a signature OID stands for."""
    name = fallback if oid == key_oid else names.get(oid)
    if name is None or parameters is not None:
        raise _unsupported(oid, "one with SHA-256, SHA-384 or SHA-512")
    return name


def _pss(parameters: Node | None) -> tuple[str, int]:
    """Hash and salt length of RSASSA-PSS-params (RFC 4055 section 3.1); the defaults are SHA-1."""
    if parameters is None:
        raise _unsupported("RSASSA-PSS with SHA-1", "SHA-256, SHA-384 or SHA-512")
    members = Members(parameters, "PSS parameters")
    name = hash_name(only(members.take(0xA0), "PSS hash"), "PSS hash")
    mask_oid, mask_hash = algorithm(only(members.take(0xA1), "PSS mask"), "PSS mask")
    salt_node = members.optional(0xA2)
    salt = 20 if salt_node is None else integer(only(salt_node, "PSS salt"), "PSS salt")
    trailer = members.optional(0xA3)
    members.end()
    same_hash = mask_hash is not None and hash_name(mask_hash, "PSS mask hash") == name
    plain = trailer is None or integer(only(trailer, "PSS trailer"), "PSS trailer") == 1
    if mask_oid != _MGF1 or not same_hash or not plain or not 0 <= salt <= MAX_SALT_BYTES:
        raise _unsupported(f"RSASSA-PSS with mask {mask_oid}", "MGF1 with the same hash")
    return name, salt


def _unsupported(got: str, want: str) -> TimestampError:
    return TimestampError(
        Cause.SIGNATURE_ALGORITHM, "signature algorithm is not allowed", want=want, got=got
    )
