"""One check for three algorithms: what holds, what does not, and what cannot be told."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import asymmetric
from cryptography.hazmat.primitives.asymmetric import ec, mldsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core import algorithms, p256
from receiptledger.core.algorithms import (
    ED25519,
    ES256,
    KEY_SIZES,
    ML_DSA_65,
    SIGNATURE_SIZES,
    algorithm_of,
    check_signature,
    low_s,
)
from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers.receipts import ALICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MESSAGE = b"one receipt"
N = p256.ORDER


@pytest.fixture(autouse=True)
def _no_remembered_keys() -> Iterator[None]:
    """Keys are remembered with the library that loaded them; some tests replace it."""
    algorithms._es256_verifier.cache_clear()
    algorithms._ml_dsa_65_verifier.cache_clear()
    yield
    algorithms._es256_verifier.cache_clear()
    algorithms._ml_dsa_65_verifier.cache_clear()


def refused(
    signature: bytes, message: bytes, key: bytes, algorithm: str, reason: Reason
) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        check_signature(signature, message, key, algorithm)
    assert caught.value.reason == reason
    assert caught.value.want
    assert caught.value.got
    return caught.value


def bad(signature: bytes, message: bytes, key: bytes, algorithm: str) -> ReceiptError:
    return refused(signature, message, key, algorithm, Reason.BAD_SIGNATURE)


def unbase64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def numbers(signature: bytes) -> tuple[int, int]:
    return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")


def joined(r: int, s: int) -> bytes:
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def es256_key(secret: int = 7) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    private = ec.derive_private_key(secret, ec.SECP256R1())
    public = private.public_key()
    return private, public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def es256(message: bytes = MESSAGE) -> tuple[bytes, bytes]:
    """A signature and its key. RFC 6979, so the same each time."""
    private, key = es256_key()
    der = private.sign(message, ec.ECDSA(SHA256(), deterministic_signing=True))
    return p256.signature_from_der(der), key


def ml_dsa_65(message: bytes = MESSAGE, context: bytes | None = None) -> tuple[bytes, bytes]:
    private = mldsa.MLDSA65PrivateKey.from_seed_bytes(bytes(range(32)))
    return private.sign(message, context), private.public_key().public_bytes_raw()


SIGNED = {ED25519: (ALICE.sign(MESSAGE), ALICE.key), ES256: es256(), ML_DSA_65: ml_dsa_65()}


def test_sizes() -> None:
    assert KEY_SIZES == {"Ed25519": 32, "ES256": 65, "ML-DSA-65": 1952}
    assert SIGNATURE_SIZES == {"Ed25519": 64, "ES256": 64, "ML-DSA-65": 3309}
    for name, (signature, key) in SIGNED.items():
        assert (len(signature), len(key)) == (SIGNATURE_SIZES[name], KEY_SIZES[name])
        assert algorithm_of(key) == name


@pytest.mark.parametrize("size", [0, 31, 33, 64, 66, 91, 1312, 1951, 1953, 2592])
def test_a_length_that_no_key_has(size: int) -> None:
    with pytest.raises(ValueError, match=rf"32 bytes \(Ed25519\), .* got {size} bytes"):
        algorithm_of(bytes(size))


# Published examples.

RFC_8032 = [  # section 7.1: public key, message, signature
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
            "4a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), RFC_8032)
def test_rfc_8032_examples(key: str, message: str, signature: str) -> None:
    parts = bytes.fromhex(signature), bytes.fromhex(message), bytes.fromhex(key)
    check_signature(*parts)  # Ed25519 unless told
    check_signature(*parts, ED25519)
    bad(parts[0], parts[1] + b"\0", parts[2], ED25519)


RFC_6979_KEY = bytes.fromhex(  # appendix A.2.5
    "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
    "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
)
RFC_6979 = [
    (
        b"sample",
        (
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
        ),
    ),
    (
        b"test",
        (
            "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367"
            "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"
        ),
    ),
]


@pytest.mark.parametrize(("message", "signature"), RFC_6979)
def test_rfc_6979_examples(message: bytes, signature: str) -> None:
    check_signature(bytes.fromhex(signature), message, RFC_6979_KEY, ES256)
    bad(bytes.fromhex(signature), message + b".", RFC_6979_KEY, ES256)


def test_the_es256_example_of_rfc_7515() -> None:
    """Appendix A.3: key, signing input, signature."""
    x = unbase64url("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
    y = unbase64url("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")
    message = (
        b"eyJhbGciOiJFUzI1NiJ9."
        b"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
        b"cGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    )
    signature = unbase64url(
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    check_signature(signature, message, b"\x04" + x + y, ES256)
    bad(signature, message[:-1], b"\x04" + x + y, ES256)


def test_published_ed25519_cases(vectors: Path) -> None:
    """Wycheproof: truncation, malleability, foreign encodings."""
    groups = json.loads((vectors / "ed25519" / "ed25519_test.json").read_bytes())["testGroups"]
    count = 0
    for group in groups:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            count += 1
            parts = bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"]), key
            if case["result"] == "valid":
                check_signature(*parts)
            else:
                bad(*parts, ED25519)
    assert count > 140


# What does not hold.


@pytest.mark.parametrize("algorithm", SIGNED)
def test_each_algorithm(algorithm: str) -> None:
    signature, key = SIGNED[algorithm]
    check_signature(signature, MESSAGE, key, algorithm)
    for message in (b"", MESSAGE[:-1], MESSAGE + b"\0", MESSAGE.upper()):
        error = bad(signature, message, key, algorithm)
        assert error.message == "the signature does not hold"


@pytest.mark.parametrize("algorithm", SIGNED)
def test_every_byte_of_a_signature(algorithm: str) -> None:
    signature, key = SIGNED[algorithm]
    for index in range(len(signature)):
        changed = bytearray(signature)
        changed[index] ^= 1 << index % 8
        bad(bytes(changed), MESSAGE, key, algorithm)


@pytest.mark.parametrize("algorithm", SIGNED)
def test_every_byte_of_a_key(algorithm: str) -> None:
    signature, key = SIGNED[algorithm]
    for index in range(len(key)):
        changed = bytearray(key)
        changed[index] ^= 1 << index % 8
        bad(signature, MESSAGE, bytes(changed), algorithm)


@pytest.mark.parametrize("algorithm", [ED25519, ES256])
def test_every_bit_of_a_small_signature(algorithm: str) -> None:
    signature, key = SIGNED[algorithm]
    whole = int.from_bytes(signature, "big")
    for bit in range(512):
        bad((whole ^ 1 << bit).to_bytes(64, "big"), MESSAGE, key, algorithm)


@pytest.mark.parametrize("algorithm", SIGNED)
def test_signatures_of_another_length(algorithm: str) -> None:
    signature, key = SIGNED[algorithm]
    for other in (b"", signature[:-1], signature + b"\0"):
        error = bad(other, MESSAGE, key, algorithm)
        assert error.message == "the signature has another length"
        assert error.got == f"{len(other)} bytes"


@pytest.mark.parametrize("algorithm", SIGNED)
def test_keys_of_another_length(algorithm: str) -> None:
    signature, key = SIGNED[algorithm]
    for other in (b"", key[:-1], key + b"\0"):
        error = bad(signature, MESSAGE, other, algorithm)
        assert error.message == "the key has another length"


@pytest.mark.parametrize("algorithm", SIGNED)
@pytest.mark.parametrize("other", SIGNED)
def test_keys_of_another_type(algorithm: str, other: str) -> None:
    if algorithm == other:
        return
    error = bad(SIGNED[algorithm][0], MESSAGE, SIGNED[other][1], algorithm)
    assert error.message == "the key is of another type"
    assert (error.want, error.got) == (f"a key for {algorithm}", f"one for {other}")


def test_a_short_ed25519_signature_takes_nothing_from_the_message() -> None:
    whole = ALICE.sign(MESSAGE) + MESSAGE
    for cut in (0, 1, 63, 65):
        bad(whole[:cut], whole[cut:], ALICE.key, ED25519)


@pytest.mark.parametrize("name", ["", "EdDSA", "ed25519", "es256", "ES384", "none", "ML-DSA-44"])
def test_algorithms_we_do_not_know_are_undecidable(name: str) -> None:
    error = refused(*SIGNED[ED25519][:1], MESSAGE, ALICE.key, name, Reason.UNSUPPORTED_ALGORITHM)
    assert error.want == "Ed25519 or ES256 or ML-DSA-65"


# ES256.


@pytest.mark.parametrize(
    ("r", "s"), [(0, 0), (0, 1), (1, 0), (N, 1), (1, N), (N + 1, 1), (1, 2**256 - 1), (N, N)]
)
def test_numbers_out_of_range(r: int, s: int) -> None:
    error = bad(joined(r, s), MESSAGE, SIGNED[ES256][1], ES256)
    assert error.message == "the signature's numbers are out of range"


def test_relatives_of_a_signature_that_do_not_hold() -> None:
    signature, key = SIGNED[ES256]
    r, s = numbers(signature)
    for other in (joined(s, r), joined(N - r, s), joined(N - r, N - s), joined(r, (s + 1) % N)):
        bad(other, MESSAGE, key, ES256)


def test_points_off_the_curve() -> None:
    signature, key = SIGNED[ES256]
    for wrong in (
        b"\x04" + bytes(64),
        key[:-1] + bytes([key[-1] ^ 1]),
        b"\x06" + key[1:],
        b"\x00" + key[1:],
        b"\x04" + key[33:] + key[1:33],
    ):
        error = bad(signature, MESSAGE, wrong, ES256)
        assert error.message == "the key is no point of the curve P-256"


def test_es256_has_one_hash() -> None:
    private, key = es256_key()
    other = p256.signature_from_der(private.sign(MESSAGE, ec.ECDSA(SHA384())))
    bad(other, MESSAGE, key, ES256)


def test_the_twin_of_a_signature_holds_and_has_the_same_low_form() -> None:
    for number in range(8):
        message = b"%d" % number
        signature, key = es256(message)
        r, s = numbers(signature)
        twin = joined(r, N - s)
        check_signature(signature, message, key, ES256)
        check_signature(twin, message, key, ES256)
        assert low_s(signature) == low_s(twin)
        assert low_s(signature) in (signature, twin)
        check_signature(low_s(signature), message, key, ES256)


@given(st.integers(0, 2**256 - 1), st.integers(1, N - 1))
def test_low_s_is_one_of_two_and_stays(r: int, s: int) -> None:
    low = low_s(joined(r, s))
    assert low == joined(r, min(s, N - s))
    assert low_s(low) == low
    assert low_s(joined(r, N - s)) == low


@pytest.mark.parametrize(("s", "low"), [(1, 1), (N // 2, N // 2), (N // 2 + 1, N // 2), (N - 1, 1)])
def test_the_border_of_low_s(s: int, low: int) -> None:
    assert low_s(joined(1, s)) == joined(1, low)


@pytest.mark.parametrize("s", [0, N, N + 1, 2**256 - 1])
def test_what_cannot_hold_has_no_twin(s: int) -> None:
    assert low_s(joined(1, s)) == joined(1, s)


@pytest.mark.parametrize("size", [0, 63, 65, 71])
def test_low_s_of_another_length(size: int) -> None:
    with pytest.raises(ValueError, match=f"expected 64 bytes, got {size}"):
        low_s(bytes(size))


# ML-DSA-65.


def test_a_context_is_part_of_what_is_signed() -> None:
    signature, key = ml_dsa_65(context=b"another use")
    bad(signature, MESSAGE, key, ML_DSA_65)


def test_a_long_key_is_not_shown_whole() -> None:
    signature, key = SIGNED[ML_DSA_65]
    error = bad(signature, b"", key, ML_DSA_65)
    assert error.want == f"one by the key {key.hex()[:64]}..."


# What cannot be told here.


def without(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """As if the installed cryptography had no such module."""
    monkeypatch.setitem(sys.modules, f"{asymmetric.__name__}.{module}", None)
    monkeypatch.delattr(asymmetric, module, raising=False)


def unsupported(*_: object) -> NoReturn:
    raise UnsupportedAlgorithm("not in this build")


def test_an_older_cryptography_has_no_ml_dsa(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "mldsa")
    signature, key = SIGNED[ML_DSA_65]
    for one in (signature, bytes(len(signature))):
        error = refused(one, MESSAGE, key, ML_DSA_65, Reason.UNSUPPORTED_ALGORITHM)
        assert "install a newer one" in str(error)
    check_signature(*SIGNED[ED25519][:1], MESSAGE, ALICE.key)
    check_signature(SIGNED[ES256][0], MESSAGE, SIGNED[ES256][1], ES256)


def test_a_build_without_ml_dsa(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mldsa.MLDSA65PublicKey, "from_public_bytes", unsupported)
    refused(
        SIGNED[ML_DSA_65][0],
        MESSAGE,
        SIGNED[ML_DSA_65][1],
        ML_DSA_65,
        Reason.UNSUPPORTED_ALGORITHM,
    )


def test_no_cryptography_no_es256(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ec")
    signature, key = SIGNED[ES256]
    refused(signature, MESSAGE, key, ES256, Reason.UNSUPPORTED_ALGORITHM)
    bad(joined(0, 1), MESSAGE, key, ES256)  # what needs no library is still told


def test_a_build_without_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec.EllipticCurvePublicKey, "from_encoded_point", unsupported)
    refused(SIGNED[ES256][0], MESSAGE, SIGNED[ES256][1], ES256, Reason.UNSUPPORTED_ALGORITHM)


def test_that_a_library_was_missing_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    signature, key = SIGNED[ML_DSA_65]
    with monkeypatch.context() as patch:
        without(patch, "mldsa")
        refused(signature, MESSAGE, key, ML_DSA_65, Reason.UNSUPPORTED_ALGORITHM)
    check_signature(signature, MESSAGE, key, ML_DSA_65)


def test_ed25519_needs_no_cryptography() -> None:
    """Agents sign with Ed25519 and start often: the X.509 library must not be loaded for them."""
    code = (
        "import sys\n"
        "from receiptledger.core import algorithms, dialect, public_key\n"
        f"key, signature = bytes.fromhex('{ALICE.key.hex()}'), {ALICE.sign(MESSAGE)!r}\n"
        f"algorithms.check_signature(signature, {MESSAGE!r}, key)\n"
        "public_key.thumbprint(public_key.parse_public_key(key.hex()))\n"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
