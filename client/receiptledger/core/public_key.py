"""Public keys as text: the forms people type, and those found inside receipts.

Every form has one spelling for each key: what was decoded is encoded again and must be the text that
came. A point of P-256 must be on the curve.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from receiptledger.core import p256
from receiptledger.core.algorithms import ED25519, ES256, KEY_SIZES, ML_DSA_65, algorithm_of
from receiptledger.core.canonical import describe, shown
from receiptledger.core.encoding import base64url_decode, base64url_encode
from receiptledger.core.jwk import from_jwk, thumbprint

__all__ = ["KEY_DECODERS", "format_public_key", "parse_public_key", "shown_key", "thumbprint"]

KeyDecoder = Callable[[object], bytes]

_JOSE_NAMES: Final = {"EdDSA": ED25519}  # as receipts and key files name it
_MOST_SHOWN = 100  # characters; an ES256 key has 93
_ED25519_PREFIX = "ed25519:"

_DID_KEY = "did:key:"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # as Bitcoin has it
_MOST_BASE58 = 64  # characters; decoding is quadratic, and a P-256 key has 48
_ED25519_CODE = b"\xed\x01"  # multicodec ed25519-pub as an unsigned varint
_P256_CODE = b"\x80\x24"  # multicodec p256-pub, a compressed point

# A DER SubjectPublicKeyInfo is a fixed head and the key: RFC 8410, RFC 5480, RFC 9881.
_SPKI_HEADS: Final = {
    ED25519: bytes.fromhex("302a300506032b6570032100"),
    ES256: bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200"),
    ML_DSA_65: bytes.fromhex("308207b2300b0609608648016503040312038207a100"),
}


def parse_public_key(text: str, algorithm: str | None = None) -> bytes:
    """The public key a person or a key list gives.

    Args:
        text: lower-case hex or unpadded base64url. Without `algorithm` it is an Ed25519 key, or
            starts with `ES256:` or `ML-DSA-65:`.
        algorithm: one of `KEY_SIZES`, or EdDSA, when it is told beside the text.

    Raises:
        ValueError: for an unknown algorithm, and for text that is no key of it.
    """
    if algorithm is None:
        name, colon, rest = text.partition(":")
        if not colon:
            algorithm = ED25519
        elif name in (ES256, ML_DSA_65):
            algorithm, text = name, rest
        else:
            want = "an Ed25519 key without a prefix, or one after ES256: or ML-DSA-65:"
            raise ValueError(f"expected {want}, got the prefix {shown(name)}")
    algorithm = _JOSE_NAMES.get(algorithm, algorithm)
    size = KEY_SIZES.get(algorithm)
    if size is None:
        names = ", ".join((*KEY_SIZES, *_JOSE_NAMES))
        raise ValueError(f"expected an algorithm of {names}, got {shown(algorithm)}")
    try:
        key = _hex(text) if len(text) == 2 * size else base64url_decode(text, size)
    except ValueError:
        want = f"{2 * size} lower-case hex digits or {(4 * size + 2) // 3} base64url characters"
        raise ValueError(
            f"expected {want} for a public key of {algorithm}, got text of {len(text)} characters"
        ) from None
    return _checked(key)


def format_public_key(key: bytes) -> str:
    """The text :func:`parse_public_key` reads: base64url, after the algorithm unless Ed25519.

    Raises:
        ValueError: for a length that no algorithm has.
    """
    algorithm = algorithm_of(key)
    text = base64url_encode(key)
    return text if algorithm == ED25519 else f"{algorithm}:{text}"


def shown_key(key: bytes) -> str:
    """A key in a message: hex for Ed25519, else the beginning of its text, enough to tell it by."""
    if len(key) == KEY_SIZES[ED25519]:
        return key.hex()
    text = format_public_key(key)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


# Decoders for keys found in receipts: from a member's value to the key, ValueError for all else.


def _text_decoder(decode: Callable[[str], bytes], form: str) -> KeyDecoder:
    """A decoder for text.

    Args:
        decode: from the text to the key's bytes; ValueError for what it cannot read.
        form: what it reads, for people.
    """

    def decode_text(value: object) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"expected {form}, got {describe(value)}")  # noqa: TRY004
        try:
            key = decode(value)
        except ValueError:
            raise ValueError(f"expected {form}, got {describe(value)}") from None
        return _checked(key)

    return decode_text


def _after_prefix(decode: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """A function for `ed25519:` and an Ed25519 key."""

    def decode_rest(text: str) -> bytes:
        rest = text.removeprefix(_ED25519_PREFIX)
        key = decode(rest)
        if rest == text or len(key) != KEY_SIZES[ED25519]:
            raise ValueError
        return key

    return decode_rest


def _checked(key: bytes) -> bytes:
    if algorithm_of(key) == ES256 and not p256.is_point(key):
        raise ValueError("expected an uncompressed point of the curve P-256, got another point")
    return key


def _hex(text: str) -> bytes:
    data = bytes.fromhex(text)
    if data.hex() != text:  # fromhex skips spaces and takes capitals
        raise ValueError
    return data


def _base64url(text: str) -> bytes:
    return base64url_decode(text, len(text) * 3 // 4)


def _base64(text: str) -> bytes:
    data = binascii.a2b_base64(text.encode("ascii"))
    if base64.b64encode(data).decode("ascii") != text:  # as above, and ignores trailing bits
        raise ValueError
    return data


def _did_key(text: str) -> bytes:
    """did:key:z..., also with the fragment that names the key itself, as verification methods do."""
    identifier, hash_sign, fragment = text.removeprefix(_DID_KEY).partition("#")
    if not text.startswith(_DID_KEY + "z") or (hash_sign and fragment != identifier):
        raise ValueError
    data = _base58(identifier[1:])
    code, key = data[:2], data[2:]
    if code == _ED25519_CODE and len(key) == KEY_SIZES[ED25519]:
        return key
    if code == _P256_CODE:
        return p256.decompress(key)
    raise ValueError


def _base58(text: str) -> bytes:
    # A leading "1" stands for a zero byte, and no key code starts with one.
    if len(text) > _MOST_BASE58 or text.startswith("1"):
        raise ValueError
    number = 0
    for character in text:
        number = number * 58 + _BASE58.index(character)  # ValueError for a foreign character
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _spki(text: str) -> bytes:
    data = _base64url(text)
    for algorithm, head in _SPKI_HEADS.items():
        key = data[len(head) :]
        if data.startswith(head) and len(key) == KEY_SIZES[algorithm]:
            return key
    raise ValueError


KEY_DECODERS: Final[dict[str, KeyDecoder]] = {
    "hex": _text_decoder(_hex, "a public key in lower-case hex"),
    "base64url": _text_decoder(_base64url, "a public key in unpadded base64url"),
    "base64": _text_decoder(_base64, "a public key in padded base64"),
    "ed25519:hex": _text_decoder(
        _after_prefix(_hex), "ed25519: and an Ed25519 public key in lower-case hex"
    ),
    "ed25519:base64": _text_decoder(
        _after_prefix(_base64), "ed25519: and an Ed25519 public key in padded base64"
    ),
    "ed25519:base64url": _text_decoder(
        _after_prefix(_base64url), "ed25519: and an Ed25519 public key in unpadded base64url"
    ),
    "did:key": _text_decoder(_did_key, "a did:key of an Ed25519 or P-256 key"),
    "jwk": from_jwk,
    "spki:base64url": _text_decoder(
        _spki, "a SubjectPublicKeyInfo (Ed25519, P-256, ML-DSA-65) in unpadded base64url"
    ),
}
