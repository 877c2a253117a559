"""What a failed signature or link is told to follow instead: always true, bounded, never a verdict."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import diagnosis
from receiptledger.core.conventions import HASH_TEXTS, MAX_SIGNATURES, forms, signatures, texts
from receiptledger.core.diagnosis import diagnose_link, diagnose_signature
from receiptledger.core.errors import ReceiptError
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings
from tests.helpers import forge
from tests.helpers.cases import named
from tests.helpers.reading import read
from tests.helpers.receipts import ALICE, MALLORY, base64url, farley, jcs, lesson18, link

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILES = Profiles.builtin()
PAYLOAD: dict[str, Any] = {
    "type": "protectmcp:decision",
    "issued_at": "2026-03-15T00:00:00Z",
    "issuer_id": "sb:issuer:6XRv8ZfPuxt1",
    "tool_name": "Grüße",
    "score": 1.0,
    "levels": {"10": 1, "9": 2},
}


def signed(message: bytes, encode: Callable[[bytes], str] = bytes.hex) -> dict[str, Any]:
    """The payload with a signature over something of it."""
    signature = encode(ALICE.sign(message))
    return {
        "payload": PAYLOAD,
        "signature": {"alg": "EdDSA", "kid": PAYLOAD["issuer_id"], "sig": signature},
    }


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def of_signature(document: dict[str, Any], profile: str | None = "draft-farley-04") -> str | None:
    raw = forge.raw(document)
    reading = None if profile is None else next(readings(raw, PROFILES, profile=profile))
    return diagnose_signature(raw, [MALLORY.key, ALICE.key], PROFILES, reading)


BARE = {"payload": PAYLOAD}
HOLDER = {"alg": "EdDSA", "kid": PAYLOAD["issuer_id"]}
OTHERWISE = "; draft-farley-04 signs by another rule"


@pytest.mark.parametrize(
    ("message", "words"),
    named(
        {
            "py": (forge.python(PAYLOAD), "the member 'payload', written as py"),
            "py-ascii": (
                forge.python_ascii(PAYLOAD),
                "the member 'payload', written as py-ascii",
            ),
            "js-object": (forge.javascript(PAYLOAD), "the member 'payload', written as js-object"),
            "as-carried": (
                json.dumps(PAYLOAD, ensure_ascii=False, separators=(",", ":")).encode(),
                "the member 'payload', written as as-carried",
            ),
            "hashed first": (
                sha256(jcs(PAYLOAD)),
                "the member 'payload', written as jcs, hashed with SHA-256 first",
            ),
            "hashed first in another dialect": (
                sha256(forge.python(PAYLOAD)),
                "the member 'payload', written as py, hashed with SHA-256 first",
            ),
            "the receipt without its signature": (
                jcs(BARE),
                "the receipt without signature, written as jcs",
            ),
            "with the signature null": (
                jcs({**BARE, "signature": None}),
                "the receipt with signature null, written as jcs",
            ),
            "with the signature empty": (
                jcs({**BARE, "signature": ""}),
                "the receipt with signature empty, written as jcs",
            ),
        }
    ),
)
def test_a_signature_over_something_else_is_named(message: bytes, words: str) -> None:
    found = of_signature(signed(message))
    assert found == f"the signature at 'signature.sig', in hex, holds over {words}{OTHERWISE}"


@pytest.mark.parametrize(
    ("encode", "words"),
    named(
        {
            "base64url": (base64url, "base64url"),
            "base64": (forge.base64_text, "base64"),
            "ed25519: and hex": (lambda data: "ed25519:" + data.hex(), "ed25519: and hex"),
            "ed25519: and base64": (
                lambda data: "ed25519:" + forge.base64_text(data),
                "ed25519: and base64",
            ),
            "ed25519: and base64url": (
                lambda data: "ed25519:" + base64url(data),
                "ed25519: and base64url",
            ),
            "multibase": (lambda data: "u" + base64url(data), "u and base64url"),
        }
    ),
)
def test_a_signature_in_another_writing_is_named(
    encode: Callable[[bytes], str], words: str
) -> None:
    found = of_signature(signed(sha256(jcs(BARE)), encode), profile=None)
    assert found == (
        f"the signature at 'signature.sig', in {words}, holds over the receipt without signature, "
        "written as jcs, hashed with SHA-256 first"
    )


def test_another_known_format_is_named_first() -> None:
    old = lesson18(prehash=True)
    reading = read(old, "ms-lesson18")
    assert diagnose_signature(jcs(old), [ALICE.key], PROFILES, reading) == (
        "it is signed as ms-lesson18-prehash signs, not as ms-lesson18"
    )
    assert diagnose_signature(jcs(old), [ALICE.key], PROFILES) == (
        "it is signed as ms-lesson18-prehash signs"
    )


@pytest.mark.parametrize(
    "document",
    named(
        {
            "changed": {**lesson18(), "tool_name": "pay"},
            "signed by a stranger": farley(signer=MALLORY),
            "good, so that the rule did not fail": farley(),
        }
    ),
)
def test_what_fits_nothing_is_not_diagnosed(document: dict[str, Any]) -> None:
    assert diagnose_signature(jcs(document), [ALICE.key], PROFILES, read(document)) is None


def test_the_key_inside_may_have_signed_by_another_rule() -> None:
    """The key is no more trusted for it; but its owner learns what is wrong with the signer."""
    body = {name: item for name, item in lesson18().items() if name != "signature"}
    signature = base64url(MALLORY.sign(forge.python_ascii({**body, "tool_name": "é"})))
    document = {
        **body,
        "tool_name": "é",
        "signature": {"alg": "EdDSA", "sig": signature, "public_key": base64url(MALLORY.key)},
    }
    found = diagnose_signature(jcs(document), [ALICE.key], PROFILES, read(document))
    assert found is not None
    assert "the receipt without signature, written as py-ascii" in found


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"a":1,"a":2}'])
def test_what_cannot_be_parsed_has_no_diagnosis(raw: bytes) -> None:
    assert diagnose_signature(raw, [ALICE.key], PROFILES) is None
    assert diagnose_link(raw, None, read(farley()), PROFILES) is None


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt made to cost: many members, many texts that look like signatures, many keys."""
    trials = 0
    real = diagnosis.check_signature

    def count(*arguments: Any) -> None:
        nonlocal trials
        trials += 1
        real(*arguments)

    monkeypatch.setattr(diagnosis, "check_signature", count)
    document = {
        **{f"m{number}": {"score": float(number), "é": {"10": 1, "9": 2}} for number in range(40)},
        "signature": {f"s{number}": "00" * 64 for number in range(40)},
        "proof": {"sig": "11" * 64},
        "sig": "22" * 64,
    }
    keys = [bytes([number]) * 32 for number in range(1, 40)]
    assert diagnose_signature(forge.raw(document), keys, PROFILES) is None
    assert trials == diagnosis.MAX_TRIALS


# Links.


def of_link(previous: str, before: dict[str, Any] | None = None) -> str | None:
    first = forge.raw(signed(jcs(PAYLOAD)) if before is None else before)
    second = farley(previous)
    reading = read(second) if previous.startswith("sha256:") else None
    before_reading = next(readings(first, PROFILES))
    return diagnose_link(jcs(second), reading, before_reading, PROFILES)


BEFORE = signed(jcs(PAYLOAD))


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "the payload": (jcs(PAYLOAD), "the member 'payload', written as jcs"),
            "the payload in py": (forge.python(PAYLOAD), "the member 'payload', written as py"),
            "without the signature": (jcs(BARE), "the receipt without signature, written as jcs"),
            "all of it in js-object": (
                forge.javascript(BEFORE),
                "the whole receipt, written as js-object",
            ),
            "the source as it stands": (
                json.dumps(BEFORE, ensure_ascii=False, separators=(",", ":")).encode(),
                "the whole receipt, written as as-carried",
            ),
        }
    ),
)
def test_a_link_by_another_rule_is_named(data: bytes, words: str) -> None:
    found = of_link("sha256:" + hashlib.sha256(data).hexdigest())
    assert found == (
        f"member 'payload.previousReceiptHash' is the SHA-256 of {words}, in sha256: and hex, of the "
        "receipt before; draft-farley-04 links by another rule"
    )


@pytest.mark.parametrize(("words", "write"), HASH_TEXTS[1:])
def test_a_link_in_another_writing_is_named(words: str, write: Callable[[bytes], str]) -> None:
    """Bare hex and the like make the member one that this format cannot read."""
    found = of_link(write(sha256(jcs(BARE))))
    assert found == (
        "member 'payload.previousReceiptHash' is the SHA-256 of the receipt without signature, "
        f"written as jcs, in {words}, of the receipt before"
    )


def test_a_link_that_holds_is_not_diagnosed() -> None:
    assert of_link(link(BEFORE)) is None


def test_a_link_to_something_else_is_not_diagnosed() -> None:
    assert of_link("sha256:" + "ab" * 32) is None


# The conventions themselves.


def test_no_two_forms_have_the_same_bytes() -> None:
    made = forms(forge.raw(BEFORE).replace(b"1.0", b"1.00"))
    assert len({form.data for form in made}) == len(made)
    assert {form.dialect for form in made} == {
        "jcs",
        "py",
        "py-ascii",
        "jcs-ascii-nfc",
        "js-object",
        "verbatim-number",
        "as-carried",
    }


def test_forms_of_what_is_no_receipt() -> None:
    with pytest.raises(ReceiptError):
        forms(b"[]")


def test_texts_are_found_in_objects_up_to_a_limit() -> None:
    value = {"a": "1", "b": {"c": {"d": "2"}}, "e": ["3"], "f": 4}
    assert sorted(texts(value)) == [(("a",), "1"), (("b", "c", "d"), "2")]
    assert len(list(texts({str(n): "x" for n in range(9)}, limit=3))) == 3
    assert list(texts({"a": "x"}, limit=0)) == []


def test_signatures_are_found_where_formats_keep_them() -> None:
    data = bytes(range(64))
    value = {
        "payload": {"sig": data.hex()},
        "sig": data.hex(),
        "proof": {"proofValue": "u" + base64url(data), "created": "2026-01-01T00:00:00Z"},
        "signature": {"value": data.hex()[:-2], "kid": "k"},
    }
    assert sorted(signatures(value)) == [
        ("proof.proofValue", data, "u and base64url"),
        ("sig", data, "hex"),
    ]
    many = {"signature": {str(n): data.hex() for n in range(9)}}
    assert len(signatures(many)) == MAX_SIGNATURES
