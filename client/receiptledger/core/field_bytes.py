"""Readers of a receipt's binary members: signatures, keys, and links to the receipt before.

Python's decoders skip what they do not know, so what they decoded is written back and must be the text
that came: one text for each value.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.encoding import base64url_decoder, parse_digest
from receiptledger.core.fields import MISSING, getter, invalid
from receiptledger.core.p256 import signature_from_der, signature_to_der
from receiptledger.core.public_key import KEY_DECODERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from receiptledger.core.fields import Reader

    Decoder = Callable[[str], bytes]

__all__ = [
    "DIGEST_ENCODINGS",
    "SIGNATURE_ENCODINGS",
    "digest_reader",
    "key_reader",
    "previous_reader",
    "signature_reader",
]

DIGEST_SIZE: Final = 32
_MAX_DER_BYTES = 72
_KEYS_REMEMBERED = 4_096  # texts of keys: the same few agents send most receipts


def _hex_decoder(size: int) -> Decoder:
    def decode(text: str) -> bytes:
        data = bytes.fromhex(text)
        if len(data) != size or data.hex() != text:
            raise ValueError
        return data

    return decode


def _base64_decoder(size: int) -> Decoder:
    def decode(text: str) -> bytes:
        data = binascii.a2b_base64(text.encode("ascii"))
        if len(data) != size or base64.b64encode(data).decode("ascii") != text:
            raise ValueError
        return data

    return decode


def _after(prefix: str, make: Callable[[int], Decoder]) -> Callable[[int], Decoder]:
    def make_decoder(size: int) -> Decoder:
        decode = make(size)

        def decode_rest(text: str) -> bytes:
            if not text.startswith(prefix):
                raise ValueError
            return decode(text[len(prefix) :])

        return decode_rest

    return make_decoder


def _der_decoder(as_text: Callable[[bytes], str], as_bytes: Callable[[str], bytes]) -> Decoder:
    """ECDSA's DER form, to r || s."""

    def decode(text: str) -> bytes:
        if len(text) > 2 * _MAX_DER_BYTES:
            raise ValueError
        signature = signature_from_der(as_bytes(text))
        if as_text(signature_to_der(signature)) != text:
            raise ValueError
        return signature

    return decode


def _url_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _url_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# Encoding -> (a decoder for a size in bytes, its words).
SIGNATURE_ENCODINGS: Final[dict[str, tuple[Callable[[int], Decoder], str]]] = {
    "hex": (_hex_decoder, "lower-case hex"),
    "base64url": (base64url_decoder, "unpadded base64url"),
    "base64": (_base64_decoder, "padded base64"),
    "ed25519:hex": (_after("ed25519:", _hex_decoder), "ed25519: and lower-case hex"),
    "ed25519:base64": (_after("ed25519:", _base64_decoder), "ed25519: and padded base64"),
    "ed25519:base64url": (_after("ed25519:", base64url_decoder), "ed25519: and unpadded base64url"),
    "multibase-u": (_after("u", base64url_decoder), "u and unpadded base64url"),
    "der-hex": (lambda _: _der_decoder(bytes.hex, bytes.fromhex), "lower-case hex of its DER form"),
    "der-base64url": (lambda _: _der_decoder(_url_text, _url_bytes), "base64url of its DER form"),
}
DIGEST_ENCODINGS: Final[dict[str, tuple[Callable[[str], bytes], str]]] = {
    "sha256:hex": (parse_digest, "sha256: and 64 lower-case hex digits"),
    "hex": (_hex_decoder(DIGEST_SIZE), "64 lower-case hex digits"),
    "base64url": (base64url_decoder(DIGEST_SIZE), "43 characters of unpadded base64url"),
}


def signature_reader(path: str, encoding: str, size: int) -> Reader[bytes]:
    """Exactly `size` bytes in one of `SIGNATURE_ENCODINGS`, written the one way that encoding has."""
    make, form = SIGNATURE_ENCODINGS[encoding]
    get, decode = getter(path), make(size)
    want = f"{size} bytes in {form}"

    def read(value: dict[str, Any]) -> bytes:
        text = get(value)
        if type(text) is not str:
            raise invalid(path, want, text)
        try:
            return decode(text)
        except ValueError:
            raise invalid(path, want, text) from None

    return read


def key_reader(path: str, encoding: str) -> Reader[bytes]:
    """A public key in one of `KEY_DECODERS`; the last ones are remembered."""
    get, decode = getter(path), KEY_DECODERS[encoding]
    remembered = lru_cache(maxsize=_KEYS_REMEMBERED)(decode)

    def read(value: dict[str, Any]) -> bytes:
        item = get(value)
        try:
            return remembered(item) if type(item) is str else decode(item)
        except ValueError as error:
            raise invalid(path, str(error).removeprefix("expected "), item) from None

    return read


def digest_reader(path: str, encoding: str) -> Reader[bytes]:
    """A SHA-256, 32 bytes, in one of `DIGEST_ENCODINGS`."""
    get = getter(path)
    decode, want = DIGEST_ENCODINGS[encoding]

    def read(value: dict[str, Any]) -> bytes:
        text = get(value)
        try:
            if type(text) is str:
                return decode(text)
        except ValueError:
            pass
        raise invalid(path, want, text)

    return read


def previous_reader(path: str, encoding: str, genesis: Sequence[str]) -> Reader[bytes | None]:
    """The previous receipt's link hash, 32 bytes; None at genesis.

    Args:
        path: of the member.
        encoding: one of `DIGEST_ENCODINGS`.
        genesis: what a chain's first receipt has there, any of: "null" (the member is there), "omitted"
            (it is not), "zeros" (a digest of zeros), "text:..." (that text), "prefix:..." (text that
            begins so), "path:..." (the text of that other member).
    """
    get = getter(path)
    decode, form = DIGEST_ENCODINGS[encoding]
    want = f"{form} ({' or '.join(genesis)} in a chain's first receipt)"
    bare = [
        {"null": None, "omitted": MISSING}[one] for one in genesis if one in ("null", "omitted")
    ]
    zeros = bytes(DIGEST_SIZE) if "zeros" in genesis else None
    tests = [_genesis_test(one) for one in genesis if ":" in one]

    def read(value: dict[str, Any]) -> bytes | None:
        text = get(value)
        if type(text) is str:
            for test in tests:
                if test(text, value):
                    return None
            try:
                digest = decode(text)
            except ValueError:
                raise invalid(path, want, text) from None
            return None if digest == zeros else digest
        for one in bare:
            if text is one:
                return None
        if text is None:
            message = f"member {path} is null: a chain's first receipt must omit it"
            raise invalid(path, want, text, message if "omitted" in genesis else None)
        raise invalid(path, want, text)

    return read


def _genesis_test(form: str) -> Callable[[str, Mapping[str, Any]], bool]:
    kind, _, rest = form.partition(":")
    if kind == "text":
        return lambda text, _: text == rest
    if kind == "prefix":
        return lambda text, _: text.startswith(rest)
    other = getter(rest)
    return lambda text, value: bool(text == other(value))  # type: ignore[arg-type]
