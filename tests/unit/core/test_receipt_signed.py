"""One receipt under given keys: which are tried, what several signatures need, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from receiptledger.core import receipt, receipt_signed
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.public_key import format_public_key
from receiptledger.core.receipt import Cosignature
from receiptledger.core.receipt_signed import GivenKey, Outcome, Signed, authenticate
from tests.helpers.cases import named
from tests.helpers.reading import read
from tests.helpers.receipts import ALICE, MALLORY, Agent, base64url, farley, lesson18

if TYPE_CHECKING:
    from receiptledger.core.receipt import Receipt

SERVER = Agent(bytes(range(64, 96)))
SIGNED = b"what the server signs"
P256 = ec.derive_private_key(12345, ec.SECP256R1())
P256_KEY = P256.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def es256(message: bytes) -> bytes:
    r, s = decode_dss_signature(P256.sign(message, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def cosigned(
    signature: bytes | None = None,
    *,
    hint: bytes | None = None,
    kid: str | None = None,
    algorithm: str = "Ed25519",
) -> Receipt:
    """A good receipt of Alice with a signature of the server beside."""
    made = SERVER.sign(SIGNED) if signature is None else signature
    return replace(
        read(lesson18()),
        cosignatures=(Cosignature("server", algorithm, SIGNED, made, hint, kid),),
    )


def both(one: Receipt, *keys: GivenKey) -> Signed:
    return authenticate([one], [GivenKey(ALICE.key), *keys])


def test_both_signatures_are_named() -> None:
    found = both(cosigned(), GivenKey(SERVER.key))
    assert (found.outcome, found.reason) == (Outcome.VALID, None)
    assert found.detail == (
        f"Ed25519 holds under {base64url(ALICE.key)}; "
        f"server: Ed25519 holds under {base64url(SERVER.key)}"
    )


def test_a_second_signature_of_another_algorithm() -> None:
    one = cosigned(es256(SIGNED), algorithm="ES256")
    found = both(one, GivenKey(P256_KEY))
    assert found.outcome is Outcome.VALID
    assert found.detail.endswith(f"server: ES256 holds under {format_public_key(P256_KEY)}")


@pytest.mark.parametrize(
    ("one", "keys", "outcome", "reason", "words"),
    named(
        {
            "changed": (
                cosigned(bytes(64)),
                [GivenKey(SERVER.key)],
                Outcome.INVALID,
                Reason.BAD_SIGNATURE,
                "signature server: it holds under none of the keys given",
            ),
            "by a stranger": (
                cosigned(MALLORY.sign(SIGNED)),
                [GivenKey(SERVER.key)],
                Outcome.INVALID,
                Reason.BAD_SIGNATURE,
                "signature server: it holds under none",
            ),
            "by a stranger with a key inside": (
                cosigned(MALLORY.sign(SIGNED), hint=MALLORY.key),
                [GivenKey(SERVER.key)],
                Outcome.INVALID,
                Reason.WRONG_KEY,
                "signature server: by the key inside the receipt, " + base64url(MALLORY.key),
            ),
            "under another key than is inside": (
                cosigned(hint=MALLORY.key),
                [GivenKey(SERVER.key)],
                Outcome.INVALID,
                Reason.BAD_SIGNATURE,
                "signature server: it holds under none of the keys given",
            ),
            "without a key for it": (
                cosigned(),
                [],
                Outcome.UNDECIDABLE,
                Reason.UNKNOWN_KEY,
                "signature server: no Ed25519 key was given for it",
            ),
            "without a key for its id": (
                cosigned(kid="server-1"),
                [GivenKey(SERVER.key, "server-2")],
                Outcome.UNDECIDABLE,
                Reason.UNKNOWN_KEY,
                "no Ed25519 key was given for it with the key id 'server-1'",
            ),
            "by the first signer again": (
                cosigned(ALICE.sign(SIGNED)),
                [GivenKey(SERVER.key)],
                Outcome.INVALID,
                Reason.WRONG_KEY,
                "signature server: by the key of the receipt's own signature, and a second signer is",
            ),
            "by the first signer again, with no other key": (
                cosigned(ALICE.sign(SIGNED), hint=ALICE.key),
                [],
                Outcome.INVALID,
                Reason.WRONG_KEY,
                "a second signer is needed",
            ),
            "without a key of its type": (
                cosigned(es256(SIGNED), algorithm="ES256"),
                [GivenKey(SERVER.key)],
                Outcome.UNDECIDABLE,
                Reason.UNKNOWN_KEY,
                "signature server: no ES256 key was given for it",
            ),
        }
    ),
)
def test_all_signatures_must_hold(
    one: Receipt, keys: list[GivenKey], outcome: Outcome, reason: Reason, words: str
) -> None:
    found = both(one, *keys)
    assert (found.outcome, found.reason) == (outcome, reason)
    assert words in found.detail


def test_a_second_signature_for_which_only_keys_of_other_ids_are_given() -> None:
    keys = [GivenKey(ALICE.key, "agent"), GivenKey(SERVER.key, "other")]
    found = authenticate([cosigned(kid="server-1")], keys)
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)


def test_a_second_signature_nothing_here_can_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> None:
        raise ReceiptError(Reason.UNSUPPORTED_ALGORITHM, "not here")

    monkeypatch.setattr(receipt_signed, "check_signature", cannot)
    found = both(cosigned(), GivenKey(SERVER.key))
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNSUPPORTED_ALGORITHM)
    assert found.detail == "signature server: Ed25519 cannot be checked here"


def test_a_first_signature_nothing_here_can_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither good nor bad, also beside a reading that is bad."""
    real = receipt.check_signature

    def cannot(signature: bytes, message: bytes, key: bytes, algorithm: str = "Ed25519") -> None:
        if algorithm == "ES256":
            raise ReceiptError(Reason.UNSUPPORTED_ALGORITHM, "not here", want="a", got="b")
        real(signature, message, key, algorithm)

    monkeypatch.setattr(receipt, "check_signature", cannot)
    bad = read({**lesson18(), "tool_name": "pay"})
    odd = replace(bad, algorithm="ES256", key_hint=None)
    keys = [GivenKey(ALICE.key), GivenKey(P256_KEY)]
    found = authenticate([bad, odd], keys)
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNSUPPORTED_ALGORITHM)
    assert found.detail == "not here; expected a; got b"
    assert found.reading is odd


def test_the_key_s_type_must_fit_the_algorithm() -> None:
    one = replace(read(farley()), algorithm="ES256")
    found = authenticate([one], [GivenKey(ALICE.key)])
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)
    assert found.detail == (
        "no ES256 key was given for the key id 'sb:issuer:6XRv8ZfPuxt1'; give the signer's public "
        "key, which you got from somewhere you trust"
    )


def test_the_first_reading_that_is_signed_is_taken() -> None:
    bad, good = read({**lesson18(), "tool_name": "pay"}), read(lesson18())
    assert authenticate([bad, good], [GivenKey(ALICE.key)]).reading is good
    stranger = read(lesson18(signer=MALLORY))
    found = authenticate([bad, stranger], [GivenKey(ALICE.key)])
    assert (found.reason, found.reading) == (Reason.WRONG_KEY, stranger)
