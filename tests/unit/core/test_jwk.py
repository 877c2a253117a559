"""JSON Web Keys and their thumbprints."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from receiptledger.core.jwk import from_jwk, thumbprint, to_jwk
from tests.helpers.receipts import ALICE

OKP = {
    "kty": "OKP",
    "crv": "Ed25519",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",  # RFC 8037 appendix A.2
}
EC = {  # RFC 7515 appendix A.3
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
AKP_KEY = bytes(range(244)) * 8
AKP = {
    "kty": "AKP",
    "alg": "ML-DSA-65",
    "pub": base64.urlsafe_b64encode(AKP_KEY).decode().rstrip("="),
}
ALL = [OKP, EC, AKP]


def literal_thumbprint(jwk: dict[str, str]) -> str:
    """RFC 7638 section 3, word by word."""
    text = json.dumps(jwk, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def test_the_literal_thumbprint_is_that_of_rfc_7638() -> None:
    """The RFC's own example is an RSA key, which we do not take: it checks the oracle."""
    modulus = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWK"
        "RXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMic"
        "AtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3"
        "XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    jwk = {"e": "AQAB", "kty": "RSA", "n": modulus}
    assert literal_thumbprint(jwk) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def test_the_thumbprint_example_of_rfc_8037() -> None:
    assert thumbprint(from_jwk(OKP)) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize("jwk", ALL)
def test_there_and_back(jwk: dict[str, str]) -> None:
    key = from_jwk(jwk)
    assert to_jwk(key) == jwk
    assert thumbprint(key) == literal_thumbprint(jwk)


def test_keys_of_the_examples() -> None:
    assert from_jwk(OKP).hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert from_jwk(AKP) == AKP_KEY


def test_coordinates_keep_their_leading_zeros() -> None:
    """RFC 7518 section 6.2.1.2: always 32 bytes."""
    key = next(
        key
        for key in (
            ec.derive_private_key(number, ec.SECP256R1())
            .public_key()
            .public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
            for number in range(1, 2_000)
        )
        if key[1] == 0
    )
    assert len(to_jwk(key)["x"]) == 43
    assert from_jwk(to_jwk(key)) == key
    short = base64.urlsafe_b64encode(key[2:33]).decode().rstrip("=")
    with pytest.raises(ValueError, match="member x of the JWK: expected 32 bytes, got 31"):
        from_jwk({**to_jwk(key), "x": short})


def test_unknown_lengths() -> None:
    for call in (to_jwk, thumbprint):
        with pytest.raises(ValueError, match="got 33 bytes"):
            call(bytes(33))


@pytest.mark.parametrize(
    "extra",
    [
        {"kid": "a", "status": "active", "x5c": ["AA"], "unknown": {"deep": []}},
        {"use": "sig"},
        {"key_ops": ["verify"]},
        {"key_ops": ["sign", "verify"]},
        {"alg": "EdDSA"},
        {"alg": "Ed25519"},
    ],
)
def test_members_that_may_be_beside(extra: dict[str, Any]) -> None:
    assert from_jwk({**OKP, **extra}) == from_jwk(OKP)


def test_an_algorithm_that_fits_the_curve() -> None:
    assert from_jwk({**EC, "alg": "ES256"}) == from_jwk(EC)


@pytest.mark.parametrize(
    ("jwk", "message"),
    [
        (None, "expected a JWK object, got null"),
        ("x", "expected a JWK object, got text of 1 characters"),
        ([OKP], "expected a JWK object, got an array"),
        ({}, "got no such members"),
        ({"kty": "OKP"}, "got no such members"),
        ({**OKP, "kty": 1}, "got no such members"),
        ({**OKP, "crv": ["Ed25519"]}, "got no such members"),
        ({**OKP, "kty": "RSA"}, "got 'RSA/Ed25519'"),
        ({**OKP, "kty": "EC"}, "got 'EC/Ed25519'"),
        ({**OKP, "crv": "X25519"}, "got 'OKP/X25519'"),
        ({**OKP, "crv": "Ed448"}, "got 'OKP/Ed448'"),
        ({**EC, "crv": "P-384"}, "got 'EC/P-384'"),
        ({**EC, "crv": "secp256k1"}, "got 'EC/secp256k1'"),
        ({**AKP, "alg": "ML-DSA-44"}, "got 'AKP/ML-DSA-44'"),
        ({**OKP, "d": "secret"}, "got a private one: the JWK has a member d"),
        ({**EC, "d": "secret"}, "got a private one"),
        ({**AKP, "priv": "secret"}, "got a private one: the JWK has a member priv"),
        ({**OKP, "alg": "ES256"}, "a JWK with alg EdDSA or Ed25519"),
        ({**EC, "alg": "EdDSA"}, "a JWK with alg ES256"),
        ({**EC, "alg": None}, "a JWK with alg ES256"),
        ({**OKP, "use": "enc"}, "a JWK with use sig"),
        ({**OKP, "key_ops": ["encrypt"]}, "key_ops hold verify"),
        ({**OKP, "key_ops": "verify"}, "key_ops hold verify"),
        ({**OKP, "x": None}, "member x of the JWK"),
        ({"kty": "OKP", "crv": "Ed25519"}, "member x of the JWK"),
        ({**OKP, "x": OKP["x"] + "="}, "member x of the JWK"),
        ({**OKP, "x": OKP["x"][:-1]}, "member x of the JWK"),
        ({**OKP, "x": OKP["x"][:-1] + "p"}, "member x of the JWK"),  # other trailing bits
        ({**EC, "y": EC["x"]}, "a point of the curve P-256"),
        ({**EC, "x": EC["y"], "y": EC["x"]}, "a point of the curve P-256"),
        ({"kty": "EC", "crv": "P-256", "x": EC["x"]}, "member y of the JWK"),
        ({**AKP, "pub": AKP["pub"][:-4]}, "member pub of the JWK"),
    ],
)
def test_keys_we_do_not_take(jwk: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_jwk(jwk)


def test_alices_key() -> None:
    assert from_jwk(to_jwk(ALICE.key)) == ALICE.key
