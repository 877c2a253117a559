"""Signatures, keys and links in the encodings of the formats: one text for each value."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import pytest

from receiptledger.core import field_bytes
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.p256 import signature_to_der

DATA = bytes(range(64))
PLAIN, PADDED = (
    base64.urlsafe_b64encode(DATA).rstrip(b"=").decode(),
    base64.b64encode(DATA).decode(),
)
DIGEST = bytes(range(32))
TEXTS = {
    "hex": DATA.hex(),
    "base64url": PLAIN,
    "base64": PADDED,
    "ed25519:hex": "ed25519:" + DATA.hex(),
    "ed25519:base64": "ed25519:" + PADDED,
    "ed25519:base64url": "ed25519:" + PLAIN,
    "multibase-u": "u" + PLAIN,
    "der-hex": signature_to_der(DATA).hex(),
    "der-base64url": base64.urlsafe_b64encode(signature_to_der(DATA)).rstrip(b"=").decode(),
}


def refused(read: Any, value: Any) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        read({} if value is ... else {"b": value})
    assert caught.value.reason is Reason.INVALID_FIELD
    assert "member b" in caught.value.message
    return caught.value


def test_every_encoding_is_tried() -> None:
    assert set(TEXTS) == set(field_bytes.SIGNATURE_ENCODINGS)


@pytest.mark.parametrize("encoding", TEXTS)
def test_signatures(encoding: str) -> None:
    read, text = field_bytes.signature_reader("b", encoding, 64), TEXTS[encoding]
    assert read({"b": text}) == DATA
    for wrong in (
        text.upper(),
        text + "=",
        text + "\n",
        " " + text,
        text[:-1],
        text[1:],
        text + "0",
    ):
        if wrong != text:
            refused(read, wrong)
    for wrong in (..., None, 1, ["x"], "", "é" * 86, text.encode()):
        refused(read, wrong)
    for at in range(len(text)):
        for letter in "0A-_+/=":
            changed = text[:at] + letter + text[at + 1 :]
            if changed != text:
                with suppress(ReceiptError):
                    assert read({"b": changed}) != DATA, f"two texts of one signature at {at}"


def test_der_takes_no_more_than_a_signature() -> None:
    refused(field_bytes.signature_reader("b", "der-hex", 64), "00" * 5_000)
    refused(field_bytes.signature_reader("b", "der-base64url", 64), "A" * 5_000)


def test_keys() -> None:
    read = field_bytes.key_reader("b", "hex")
    assert read({"b": DIGEST.hex()}) == read({"b": DIGEST.hex()}) == DIGEST
    assert "lower-case hex" in (refused(read, DIGEST.hex().upper()).want or "")
    refused(read, None)
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": PLAIN[:43]}
    assert len(field_bytes.key_reader("b", "jwk")({"b": jwk})) == 32
    refused(field_bytes.key_reader("b", "jwk"), "text")


LINKS = {
    "sha256:hex": "sha256:" + DIGEST.hex(),
    "hex": DIGEST.hex(),
    "base64url": base64.urlsafe_b64encode(DIGEST).rstrip(b"=").decode(),
}


@pytest.mark.parametrize("encoding", LINKS)
def test_links(encoding: str) -> None:
    read = field_bytes.previous_reader("b", encoding, ["null"])
    assert read({"b": LINKS[encoding]}) == DIGEST
    assert read({"b": None}) is None
    for other, text in LINKS.items():
        if other != encoding:
            refused(read, text)
    for wrong in (..., 1, "", "genesis", LINKS[encoding] + "=", LINKS[encoding].upper() + "A"):
        refused(read, wrong)


def test_what_a_first_receipt_has() -> None:
    def read(*genesis: str) -> Any:
        return field_bytes.previous_reader("b", "hex", genesis)

    assert read("omitted")({}) is None
    assert "must omit it" in refused(read("omitted"), None).message
    assert "must omit it" not in refused(read("zeros"), None).message
    assert read("null", "omitted")({}) is read("null", "omitted")({"b": None}) is None
    assert read("zeros")({"b": "00" * 32}) is None
    assert read("null")({"b": "00" * 32}) == bytes(32)
    assert read("text:genesis")({"b": "genesis"}) is None
    refused(read("text:genesis"), "genesis ")
    assert read("prefix:g1:")({"b": "g1:x"}) is None
    refused(read("prefix:g1:"), "g2:x")
    same = read("path:c.root")
    assert same({"b": "r", "c": {"root": "r"}}) is None
    assert same({"b": DIGEST.hex(), "c": {"root": "r"}}) == DIGEST
    refused(same, "r")


def test_digests() -> None:
    read = field_bytes.digest_reader("b", "hex")
    assert read({"b": DIGEST.hex()}) == DIGEST
    for wrong in (..., None, 1, "", DIGEST.hex().upper()):
        refused(read, wrong)
