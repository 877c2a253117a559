"""Signatures of receipts: whose key, which form, and that no byte can change."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import (
    Receipt,
    authenticate,
    check_signature,
    first_readings,
    holds,
    readings,
    verify_signature,
)
from tests.helpers import rfc8032
from tests.helpers.reading import accept, bad_signature, read, refused, with_member
from tests.helpers.receipts import ALICE, MALLORY, base64url, farley, jcs, lesson18, pretty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_the_key_in_a_receipt_is_never_trusted() -> None:
    forged = lesson18(signer=MALLORY)
    assert read(forged).key_hint == MALLORY.key
    verify_signature(read(forged), MALLORY.key)  # it is consistent in itself
    error = bad_signature(verify_signature, read(forged), ALICE.key)
    assert error.message == "the receipt names another key"
    hidden = with_member(forged, "signature.public_key", base64url(ALICE.key))
    error = bad_signature(accept, jcs(hidden), ALICE.key)
    assert "does not hold" in error.message


def test_nobody_can_make_a_second_receipt_out_of_an_honest_one() -> None:
    """The key is outside the signed bytes, yet another one there is noticed: no forged forks."""
    altered = with_member(lesson18(), "signature.public_key", base64url(MALLORY.key))
    bad_signature(accept, jcs(altered), ALICE.key)
    extra = with_member(lesson18(), "signature.note", "x")
    refused(accept, jcs(extra), ALICE.key, reason=Reason.INVALID_FIELD)


def test_a_key_embedded_in_a_draft_receipt_is_not_read() -> None:
    receipt = read(farley(public_key=ALICE.key.hex()))
    assert (receipt.key_hint, receipt.kid) == (None, "sb:issuer:6XRv8ZfPuxt1")


def test_authenticate_reads_no_further_than_it_must() -> None:
    def never() -> Iterator[Receipt]:
        yield read(pytest.fail("read on"))

    receipt = read(lesson18())
    assert authenticate(receipt, never(), ALICE.key) is receipt


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_keys_of_another_length(size: int) -> None:
    error = bad_signature(verify_signature, read(farley()), bytes(size))
    assert (error.want, error.got) == ("32 bytes", f"{size} bytes")


def test_a_short_signature_takes_nothing_from_the_message() -> None:
    # Joined, these are a signature and a message; libsodium alone would let this pass.
    message = b"message"
    whole = ALICE.sign(message) + message
    check_signature(whole[:64], message, ALICE.key)
    for cut in (0, 1, 63, 65):
        error = bad_signature(check_signature, whole[:cut], whole[cut:], ALICE.key)
        assert error.got == f"{cut} bytes"


IDENTITY = (1).to_bytes(32, "little")
NEGATIVE_ZERO = ((1 << 255) | 1).to_bytes(32, "little")


@pytest.mark.parametrize(
    ("signature", "key"),
    [
        # Small-order keys and R: S = 0 satisfies the equation for any message at all.
        (IDENTITY + bytes(32), IDENTITY),
        (IDENTITY + bytes(32), (rfc8032.P + 1).to_bytes(32, "little")),  # y not below the prime
        (IDENTITY + bytes(32), NEGATIVE_ZERO),
        (IDENTITY + bytes(32), (rfc8032.P - 1).to_bytes(32, "little")),  # order 2
        (IDENTITY + bytes(32), bytes(32)),  # order 4
        (bytes(64), ALICE.key),
        (b"\xff" * 64, ALICE.key),
    ],
)
def test_signatures_that_other_libraries_accept(signature: bytes, key: bytes) -> None:
    for number in range(16):  # the equation's other side depends on the message, modulo 8
        bad_signature(check_signature, signature, b"message %d" % number, key)


def test_signatures_are_not_malleable() -> None:
    signature = ALICE.sign(b"message")
    number = int.from_bytes(signature[32:], "little") + rfc8032.ORDER
    assert number < 2**256
    other = signature[:32] + number.to_bytes(32, "little")
    bad_signature(check_signature, other, b"message", ALICE.key)


def test_every_published_ed25519_case(vectors: Path) -> None:
    groups = json.loads((vectors / "ed25519" / "ed25519_test.json").read_bytes())["testGroups"]
    counts = {"valid": 0, "invalid": 0}
    for group in groups:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            signature, message = bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"])
            if case["result"] == "valid":
                check_signature(signature, message, key)
            else:
                bad_signature(check_signature, signature, message, key)
            counts[case["result"]] += 1
    assert counts == {"valid": 88, "invalid": 63}


# No byte of a signed receipt can change.


@pytest.mark.parametrize(
    "document",
    [lesson18(3, "sha256:" + "7c" * 32), lesson18(prehash=True), farley("sha256:" + "7c" * 32)],
    ids=["ms-lesson18", "ms-lesson18-prehash", "draft-farley-04"],
)
def test_mutate_every_byte(document: dict[str, Any]) -> None:
    raw = jcs(document)
    assert accept(raw, ALICE.key).content_hash == hashlib.sha256(raw).digest()
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            with pytest.raises(ReceiptError):
                accept(bytes(changed), ALICE.key)
        for other in (raw[:at] + raw[at + 1 :], raw[:at] + raw[at : at + 1] + raw[at:]):
            with pytest.raises(ReceiptError):
                accept(other, ALICE.key)


def test_mutate_every_byte_of_another_spelling() -> None:
    """Where bytes may differ and mean the same, only what means the same is accepted."""
    raw = pretty(farley(city="Zürich"))
    content = accept(raw, ALICE.key).content_hash
    accepted = 0
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            try:
                receipt = accept(bytes(changed), ALICE.key)
            except ReceiptError:
                continue
            assert receipt.content_hash == content
            accepted += 1
    assert accepted == 2  # \u00fc with either letter in upper case


@pytest.mark.parametrize("document", [lesson18(), farley()])
def test_holds_says_what_verify_signature_says(document: dict[str, Any]) -> None:
    receipt = read(document)
    keys = (ALICE.key, MALLORY.key, ALICE.key[:31], ALICE.key + b"x", b"")
    signature, signed = receipt.signature, receipt.signing_input
    others = (
        replace(
            receipt, key_hint=MALLORY.key
        ),  # outside the signed bytes: somebody else put it there
        replace(receipt, signature=signature[:63]),
        # One byte moved from the signature to the message: together they are what was signed.
        replace(receipt, signature=signature[:63], signing_input=signature[63:] + signed),
    )
    for one in (receipt, *others):
        for key in keys:
            try:
                verify_signature(one, key)
                said = True
            except ReceiptError:
                said = False
            assert holds(one, key) is said


def test_a_batch_is_read_as_each_receipt_by_itself() -> None:
    """Also one whose signed bytes cannot be told, which only the slow way has words for."""
    good = Profiles.builtin().get("ms-lesson18")

    def refuse(parsed: object) -> bytes:
        raise ReceiptError(Reason.INVALID_FIELD, "no signed bytes", got=type(parsed).__name__)

    raws = [jcs(lesson18()), b"{", b"{}", jcs(farley())]
    for profiles in (
        Profiles.builtin(),
        Profiles([replace(good, main=replace(good.main, signing_input=refuse))]),
    ):
        for raw, got in zip(raws, first_readings(raws, profiles), strict=True):
            try:
                want: object = next(readings(raw, profiles)).receipt_hash
            except ReceiptError as error:
                want = str(error)
            assert (got.receipt_hash if isinstance(got, Receipt) else str(got)) == want
