"""Who made a signature that nothing may rest on; only the words of refusals depend on it."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from receiptledger.core import timestamp_weak
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import parse
from receiptledger.core.timestamp_limits import MAX_RSA_BITS, MAX_RSA_EXPONENT
from receiptledger.core.timestamp_signature import key_name, load_key, verify_signature
from receiptledger.core.timestamp_weak import genuine
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named

DATA = b"what is signed"
RSA_MD5, RSA_SHA224 = "1.2.840.113549.1.1.4", "1.2.840.113549.1.1.14"
ECDSA_SHA224 = "1.2.840.10045.4.3.1"

WEAK = {
    "RSA with MD5": ("rsa2048", RSA_MD5, hashes.MD5()),
    "RSA with SHA-1": ("rsa2048", "rsa-sha1", hashes.SHA1()),
    "RSA with SHA-224": ("rsa2048", RSA_SHA224, hashes.SHA224()),
    "RSA of 1024 bits": ("rsa1024", "rsa-sha256", hashes.SHA256()),
    "RSA of 1024 bits with SHA-1": ("rsa1024", "rsa-sha1", hashes.SHA1()),
    "ECDSA with SHA-1": ("p256", "ecdsa-sha1", hashes.SHA1()),
    "ECDSA with SHA-224": ("p384", ECDSA_SHA224, hashes.SHA224()),
    "another curve": ("k256", "ecdsa-sha256", hashes.SHA256()),
    "another curve with SHA-1": ("k256", "ecdsa-sha1", hashes.SHA1()),
    "a good one": ("p521", "ecdsa-sha512", hashes.SHA512()),
}


def signed(kind: str, chosen: hashes.HashAlgorithm) -> bytes:
    private = pki.key(kind)
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(DATA, padding.PKCS1v15(), chosen)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    return private.sign(DATA, ec.ECDSA(chosen))


@pytest.mark.parametrize(("kind", "oid", "chosen"), named(WEAK))
def test_genuine(kind: str, oid: str, chosen: hashes.HashAlgorithm) -> None:
    key = load_key(pki.public_info(pki.key(kind)))
    identifier = parse(forge.algorithm(oid, b""))
    signature = signed(kind, chosen)
    assert genuine(key, identifier, signature, DATA)
    assert not genuine(key, identifier, signature, DATA + b".")
    assert not genuine(key, identifier, b"", DATA)
    # Under a key of another kind, or by another name.
    other = "p256" if kind.startswith("rsa") else "rsa2048"
    assert not genuine(load_key(pki.public_info(pki.key(other))), identifier, signature, DATA)
    assert not genuine(key, parse(forge.algorithm("1.2.3.4", b"")), signature, DATA)


def test_ed25519() -> None:
    private = pki.key("ed25519")
    key = load_key(pki.public_info(private))
    signature = forge.sign(private, DATA)
    assert genuine(key, parse(forge.algorithm("ed25519", b"")), signature, DATA)
    assert not genuine(key, parse(forge.algorithm("rsa-sha1")), signature, DATA)


def test_what_counts_as_genuine_is_not_accepted() -> None:
    key = load_key(pki.public_info(pki.key("rsa2048")))
    identifier = parse(forge.algorithm("rsa-sha1"))
    signature = signed("rsa2048", hashes.SHA1())
    assert genuine(key, identifier, signature, DATA)
    with pytest.raises(TimestampError) as caught:
        verify_signature(key, identifier, signature, DATA)
    assert caught.value.cause is Cause.SIGNATURE_ALGORITHM


def rsa_key(modulus: int, exponent: int) -> rsa.RSAPublicKey:
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


DEAR = {
    "RSA of too many bits": rsa_key((1 << MAX_RSA_BITS) + 1, 65_537),
    "RSA of a large exponent": rsa_key((1 << 2_047) + 1, MAX_RSA_EXPONENT + 1),
    "brainpoolP512r1": ec.derive_private_key(5, ec.BrainpoolP512R1()).public_key(),
}


@pytest.mark.parametrize("key", named(DEAR))
def test_keys_that_cost_too_much_are_not_tried(
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> str:
        raise AssertionError("a signature was verified")

    monkeypatch.setattr(timestamp_weak, "verify_signature", never)
    for oid in ("rsa-sha1", "ecdsa-sha1", "rsa-sha256"):
        assert not genuine(key, parse(forge.algorithm(oid)), b"x" * 64, DATA)
    with pytest.raises(TimestampError) as caught:
        key_name(key)
    assert caught.value.cause is Cause.WEAK_KEY


def test_the_public_exponents_in_use_are_allowed() -> None:
    for exponent in (3, 17, 65_537, MAX_RSA_EXPONENT - 1):
        assert key_name(rsa_key((1 << 2_047) + 1, exponent)) == "rsa2048"
    with pytest.raises(TimestampError) as caught:
        key_name(rsa_key((1 << 2_047) + 1, MAX_RSA_EXPONENT + 1))
    assert caught.value.message == "public exponent of an RSA key"
    assert caught.value.got == "33 bits"
