"""Public keys as text: each has one spelling in each form."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core import public_key
from receiptledger.core.public_key import (
    KEY_DECODERS,
    format_public_key,
    parse_public_key,
    thumbprint,
)

if TYPE_CHECKING:
    from pathlib import Path

ED = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
ED_TEXT = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"  # RFC 8037 appendix A.2
EC_PUBLIC = ec.derive_private_key(7, ec.SECP256R1()).public_key()
EC = EC_PUBLIC.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
ML_PUBLIC = mldsa.MLDSA65PrivateKey.from_seed_bytes(bytes(32)).public_key()
ML = ML_PUBLIC.public_bytes_raw()
OFF_CURVE = EC[:-1] + bytes([EC[-1] ^ 1])
NAMES = {"Ed25519": ED, "ES256": EC, "ML-DSA-65": ML}


def url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# What people type.


def test_one_text_for_each_key() -> None:
    assert format_public_key(ED) == ED_TEXT
    assert format_public_key(EC) == "ES256:" + url(EC)
    assert format_public_key(ML) == "ML-DSA-65:" + url(ML)
    for key in NAMES.values():
        assert parse_public_key(format_public_key(key)) == key


def test_hex_is_read_too() -> None:
    assert parse_public_key(ED.hex()) == ED
    assert parse_public_key("ES256:" + EC.hex()) == EC
    assert parse_public_key("ML-DSA-65:" + ML.hex()) == ML


@pytest.mark.parametrize("algorithm", NAMES)
def test_the_algorithm_beside_the_text(algorithm: str) -> None:
    key = NAMES[algorithm]
    assert parse_public_key(url(key), algorithm) == key
    assert parse_public_key(key.hex(), algorithm) == key
    for other in NAMES:
        if other != algorithm:
            with pytest.raises(ValueError, match=f"for a public key of {other}, got text"):
                parse_public_key(url(key), other)


def test_the_jose_name_of_ed25519() -> None:
    assert parse_public_key(ED_TEXT, "EdDSA") == ED


@pytest.mark.parametrize(
    ("text", "algorithm", "message"),
    [
        ("", None, "expected 64 lower-case hex digits or 43 base64url characters"),
        (ED.hex().upper(), None, "expected 64 lower-case hex digits"),
        (" " + ED.hex(), None, "got text of 65 characters"),
        (ED.hex()[:-2] + " a", None, "expected 64 lower-case hex"),
        (ED.hex()[:-1] + "g", None, "expected 64 lower-case hex"),
        (ED.hex()[:-2], None, "got text of 62 characters"),
        (ED_TEXT + "=", None, "got text of 44 characters"),
        (ED_TEXT.replace("_", "/"), None, "43 base64url characters"),
        (ED_TEXT[:-1] + "p", None, "43 base64url characters"),  # bits beyond the key
        (ED_TEXT[:-1] + "é", None, "43 base64url characters"),
        (url(EC), None, "for a public key of Ed25519, got text of 87 characters"),
        ("Ed25519:" + ED_TEXT, None, "without a prefix, .* got the prefix 'Ed25519'"),
        ("es256:" + url(EC), None, "got the prefix 'es256'"),
        ("\x1b[31m:" + url(EC), None, r"got the prefix '\\x1b\[31m'"),
        (":" + ED_TEXT, None, "got the prefix ''"),
        ("ES256:" + url(EC[1:]), None, "expected 130 lower-case hex digits or 87 base64url"),
        ("ES256:" + url(OFF_CURVE), None, "uncompressed point of the curve P-256, got"),
        ("ES256:" + OFF_CURVE.hex(), None, "uncompressed point of the curve P-256, got"),
        ("ES256:" + url(EC), "ES256", "got text of 93 characters"),
        ("ML-DSA-65:" + url(ML[1:]), None, "expected 3904 lower-case hex digits or 2603 base64url"),
        (
            ED_TEXT,
            "ES384",
            "expected an algorithm of Ed25519, ES256, ML-DSA-65, EdDSA, got 'ES384'",
        ),
        (ED_TEXT, "", "expected an algorithm"),
    ],
)
def test_texts_that_are_no_key(text: str, algorithm: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_public_key(text, algorithm)


def test_every_character_of_a_key_counts() -> None:
    for text in (ED_TEXT, ED.hex()):
        for index in range(len(text)):
            for character in "0aAzZ_-=+/ \n":
                changed = text[:index] + character + text[index + 1 :]
                if changed == text:
                    continue
                try:
                    assert parse_public_key(changed) != ED, changed
                except ValueError:
                    continue


@given(st.text(max_size=140), st.sampled_from([None, *NAMES]))
def test_any_text(text: str, algorithm: str | None) -> None:
    try:
        key = parse_public_key(text, algorithm)
    except ValueError:
        return
    assert text.rpartition(":")[2] in (url(key), key.hex())


@given(st.binary(min_size=32, max_size=32))
def test_any_ed25519_key(key: bytes) -> None:
    assert parse_public_key(format_public_key(key)) == key
    assert parse_public_key(key.hex()) == key


def test_format_of_no_key() -> None:
    with pytest.raises(ValueError, match="got 33 bytes"):
        format_public_key(bytes(33))


def test_the_thumbprint_is_at_hand() -> None:
    assert thumbprint(ED) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"  # RFC 8037 A.3


# What receipts hold.


DID_ED = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"
DID_P256 = "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169"  # W3C did:key, section 7


def base58(data: bytes) -> str:
    """Base58 as Bitcoin writes it, for data that does not start with a zero byte."""
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + text
    return text


def did(data: bytes) -> str:
    return "did:key:z" + base58(data)


@pytest.mark.parametrize(
    ("encoding", "value", "key"),
    [
        ("hex", ED.hex(), ED),
        ("hex", EC.hex(), EC),
        ("hex", ML.hex(), ML),
        ("base64url", ED_TEXT, ED),
        ("base64url", url(EC), EC),
        ("base64url", url(ML), ML),
        ("base64", b64(ED), ED),
        ("base64", b64(EC), EC),
        ("base64", b64(ML), ML),
        ("ed25519:hex", "ed25519:" + ED.hex(), ED),
        ("ed25519:base64", "ed25519:" + b64(ED), ED),
        ("ed25519:base64url", "ed25519:" + ED_TEXT, ED),
        ("did:key", DID_ED, ED),
        ("did:key", f"{DID_ED}#{DID_ED.removeprefix('did:key:')}", ED),
        ("jwk", {"kty": "OKP", "crv": "Ed25519", "x": ED_TEXT, "kid": "1"}, ED),
        (
            "jwk",
            {"kty": "EC", "crv": "P-256", "x": url(EC[1:33]), "y": url(EC[33:])},
            EC,
        ),
    ],
)
def test_keys_in_receipts(encoding: str, value: object, key: bytes) -> None:
    assert KEY_DECODERS[encoding](value) == key


def test_the_encodings_there_are() -> None:
    assert set(KEY_DECODERS) == {
        "hex",
        "base64url",
        "base64",
        "ed25519:hex",
        "ed25519:base64",
        "ed25519:base64url",
        "did:key",
        "jwk",
        "spki:base64url",
    }


@pytest.mark.parametrize(
    "public", [ed25519.Ed25519PublicKey.from_public_bytes(ED), EC_PUBLIC, ML_PUBLIC]
)
def test_subject_public_key_infos_are_those_of_cryptography(
    public: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | mldsa.MLDSA65PublicKey,
) -> None:
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    decode = KEY_DECODERS["spki:base64url"]
    assert der.endswith(decode(url(der)))
    for wrong in (der[:-1], der + b"\0", b"\0" + der):
        with pytest.raises(ValueError, match="a SubjectPublicKeyInfo"):
            decode(url(wrong))
    head = len(der) - len(decode(url(der)))
    for index in range(head):
        changed = bytearray(der)
        changed[index] ^= 1
        with pytest.raises(ValueError, match="a SubjectPublicKeyInfo"):
            decode(url(bytes(changed)))


def test_a_compressed_p256_did_key() -> None:
    compressed = EC_PUBLIC.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    assert KEY_DECODERS["did:key"](did(b"\x80\x24" + compressed)) == EC
    published = KEY_DECODERS["did:key"](DID_P256)
    assert did(b"\x80\x24" + bytes([2 + published[-1] % 2]) + published[1:33]) == DID_P256


P256_CODE = b"\x80\x24"
ED_CODE = b"\xed\x01"


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        *((encoding, value) for encoding in KEY_DECODERS for value in (None, 1, True, [], "", "é")),
        ("hex", ED.hex().upper()),
        ("hex", ED.hex() + " "),
        ("hex", ED.hex()[2:]),
        ("hex", OFF_CURVE.hex()),
        ("hex", ED_TEXT),
        ("base64url", ED_TEXT + "="),
        ("base64url", b64(ED)),
        ("base64url", ED_TEXT[:-1]),
        ("base64url", url(OFF_CURVE)),
        ("base64", ED_TEXT + "="),
        ("base64", b64(ED)[:-1]),
        ("base64", b64(ED) + "\n"),
        ("base64", b64(ED)[:-2] + "p="),
        ("base64", b64(ED) + "="),
        ("base64", b64(OFF_CURVE)),
        ("ed25519:hex", ED.hex()),
        ("ed25519:hex", "ED25519:" + ED.hex()),
        ("ed25519:hex", "ed25519:" + EC.hex()),
        ("ed25519:hex", "ed25519:ed25519:" + ED.hex()),
        ("ed25519:hex", "ed25519:" + ED_TEXT),
        ("ed25519:base64", "ed25519:" + ED_TEXT),
        ("ed25519:base64", b64(ED)),
        ("ed25519:base64url", "ed25519:" + b64(ED)),
        ("ed25519:base64url", ED_TEXT),
        ("did:key", DID_ED.removeprefix("did:key:")),
        ("did:key", "did:web:example.org"),
        ("did:key", "did:key:" + base58(ED_CODE + ED)),
        ("did:key", "did:key:m" + b64(ED_CODE + ED)),
        ("did:key", "did:key:z"),
        ("did:key", DID_ED + "#"),
        ("did:key", DID_ED + "#key-1"),
        ("did:key", DID_ED + "#" + DID_ED),
        ("did:key", DID_ED + " "),
        ("did:key", DID_ED[:-1] + "0"),  # 0, O, I and l are not in the alphabet
        ("did:key", DID_ED.replace("z6", "z16")),
        ("did:key", DID_ED + "1" * 64),
        ("did:key", "did:key:z" + "z" * 64),
        ("did:key", did(ED_CODE + ED[1:])),
        ("did:key", did(ED_CODE + ED + b"\0")),
        ("did:key", did(b"\xec\x01" + ED)),  # X25519
        ("did:key", did(b"\xed\x02" + ED)),
        ("did:key", did(P256_CODE + EC)),  # uncompressed
        ("did:key", did(P256_CODE + b"\x04" + EC[1:33])),
        ("did:key", did(P256_CODE + b"\x02" + bytes(31) + b"\x01")),  # no point has this x
        ("spki:base64url", ED_TEXT),
        ("spki:base64url", b64(bytes.fromhex("302a300506032b6570032100") + ED)),
        (
            "spki:base64url",
            url(bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + OFF_CURVE),
        ),
        ("spki:base64url", url(bytes.fromhex("302a300506032b656e032100") + ED)),  # X25519
    ],
)
def test_values_that_are_no_key(encoding: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"^expected .*, got ") as caught:
        KEY_DECODERS[encoding](value)
    if isinstance(value, str) and value:
        assert value not in str(caught.value)  # it may be anything, a terminal's commands too


def test_a_long_text_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding base58 takes quadratic time."""
    monkeypatch.setattr(public_key, "_BASE58", None)  # reading it raises another error
    with pytest.raises(ValueError, match="a did:key of an Ed25519 or P-256 key, got text of 74"):
        KEY_DECODERS["did:key"]("did:key:z" + "2" * 65)


@given(st.binary(max_size=70))
def test_any_bytes_in_every_encoding(data: bytes) -> None:
    texts = {
        "hex": data.hex(),
        "base64url": url(data),
        "base64": b64(data),
        "ed25519:hex": "ed25519:" + data.hex(),
        "ed25519:base64": "ed25519:" + b64(data),
        "ed25519:base64url": "ed25519:" + url(data),
    }
    for encoding, text in texts.items():
        try:
            key = KEY_DECODERS[encoding](text)
        except ValueError:
            assert len(data) != 32
        else:
            assert key == data


@given(st.binary(min_size=32, max_size=32))
def test_any_ed25519_did_key(key: bytes) -> None:
    assert KEY_DECODERS["did:key"](did(ED_CODE + key)) == key


def test_published_did_keys(vectors: Path) -> None:
    folder = vectors / "receipts" / "agent-receipts" / "spec" / "test-vectors" / "did-key"
    cases = json.loads((folder / "vectors.json").read_bytes())["vectors"]
    assert len(cases) > 1
    for case in cases:
        key = bytes.fromhex(case["public_key_hex"])
        assert KEY_DECODERS["did:key"](case["did"]) == key
        method = case["did_document"]["verificationMethod"][0]["id"]
        assert KEY_DECODERS["did:key"](method) == key


def test_keys_in_messages() -> None:
    from receiptledger.core.public_key import shown_key

    assert shown_key(bytes(32)) == "00" * 32
    long = shown_key(bytes(1_952))
    assert long.startswith("ML-DSA-65:AAAA")
    assert long.endswith("...")
    assert len(long) < 200
