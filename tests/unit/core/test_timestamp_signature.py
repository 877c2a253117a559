"""Signatures by the one table: what certificates and evidence may be signed with."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import parse
from receiptledger.core.timestamp_limits import MAX_RSA_BITS
from receiptledger.core.timestamp_signature import (
    digest,
    key_name,
    load_key,
    signature_hash,
    verify_signature,
)
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named

DATA = b"what is signed"

# kind of key, hash, AlgorithmIdentifier, salt, name, hash of the name
SIGNATURES = {
    "RSA": ("rsa2048", "sha256", forge.algorithm("rsa-sha256"), None, "rsa-sha256", "sha256"),
    "RSA without NULL": (
        "rsa2048",
        "sha512",
        forge.algorithm("rsa-sha512", b""),
        None,
        "rsa-sha512",
        "sha512",
    ),
    "RSA-PSS": (
        "rsa2048",
        "sha384",
        forge.algorithm("rsa-pss", forge.pss_parameters("sha384", salt=48)),
        48,
        "rsa-pss-sha384",
        "sha384",
    ),
    "ECDSA": (
        "p384",
        "sha384",
        forge.algorithm("ecdsa-sha384", b""),
        None,
        "ecdsa-sha384",
        "sha384",
    ),
    "Ed25519": ("ed25519", "sha512", forge.algorithm("ed25519", b""), None, "ed25519", "ed25519"),
}


@pytest.mark.parametrize(
    ("kind", "hash_name", "identifier", "salt", "name", "rests_on"), named(SIGNATURES)
)
def test_signatures(
    kind: str, hash_name: str, identifier: bytes, salt: int | None, name: str, rests_on: str
) -> None:
    private = pki.key(kind)
    key = load_key(pki.public_info(private))
    signature = forge.sign(private, DATA, hash_name, pss_salt=salt)
    assert verify_signature(key, parse(identifier), signature, DATA) == name
    assert signature_hash(parse(identifier)) == rests_on
    with pytest.raises(TimestampError) as caught:
        verify_signature(key, parse(identifier), signature, DATA + b".")
    assert caught.value.cause is Cause.SIGNATURE


REFUSED = {
    "RSA named by its key, without a digest beside": ("rsa2048", forge.algorithm("rsa")),
    "EC named by its key, without a digest beside": ("p256", forge.algorithm("ec", b"")),
    "RSA with SHA-1": ("rsa2048", forge.algorithm("rsa-sha1")),
    "ECDSA with SHA-1": ("p256", forge.algorithm("ecdsa-sha1", b"")),
    "an unknown algorithm": ("ed25519", forge.algorithm("1.2.3")),
    "PSS of the defaults": ("rsa2048", forge.algorithm("rsa-pss", b"")),
}


@pytest.mark.parametrize(("kind", "identifier"), named(REFUSED))
def test_signatures_that_are_not_allowed(kind: str, identifier: bytes) -> None:
    key = load_key(pki.public_info(pki.key(kind)))
    for call in (
        lambda: verify_signature(key, parse(identifier), b"", DATA),
        lambda: signature_hash(parse(identifier)),
    ):
        with pytest.raises(TimestampError) as caught:
            call()
        assert caught.value.cause is Cause.SIGNATURE_ALGORITHM


@pytest.mark.parametrize(
    "kind", ["rsa1024", "rsa2048", "rsa3072", "rsa4096", "p256", "p384", "p521", "ed25519"]
)
def test_names_of_keys(kind: str) -> None:
    assert key_name(load_key(pki.public_info(pki.key(kind)))) == kind


def test_keys_of_a_bad_size() -> None:
    long = rsa.RSAPublicNumbers(65537, (1 << MAX_RSA_BITS) + 1).public_key()
    short = rsa.RSAPublicNumbers(65537, (1 << 2046) + 1).public_key()
    for key in (long, short):
        with pytest.raises(TimestampError) as caught:
            key_name(key, 2048)
        assert caught.value.cause is Cause.WEAK_KEY
        assert caught.value.want == "2048 to 8192 bits"


@pytest.mark.parametrize("name", ["sha256", "sha384", "sha512"])
def test_digests(name: str) -> None:
    assert digest(name, DATA) == hashlib.new(name, DATA).digest()
