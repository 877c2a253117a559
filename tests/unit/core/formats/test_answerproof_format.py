"""answerproof from the bytes to the verdict: published receipts and forged ones, signature and evidence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.answerproof import PROFILE, check_evidence, explain_signature, read_sources
from receiptledger.core.errors import Reason
from receiptledger.core.receipt import readings
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from receiptledger.core.verdict import Status
from tests.helpers.forge import python, raw
from tests.helpers.forge_answerproof import CONTENTS, answerproof, respelled, seal
from tests.helpers.reading import (
    PROFILES,
    accept,
    bad_signature,
    refused,
    with_member,
    without,
)
from tests.helpers.receipts import ALICE, MALLORY, base64url

if TYPE_CHECKING:
    from pathlib import Path

    from receiptledger.core.receipt_types import Receipt

EXPECTED = {
    "01-valid": None,
    "02-tampered-answer": Reason.BAD_SIGNATURE,
    "03-valid-float-1.0": None,
    "04-float-rewritten-as-int": Reason.BAD_SIGNATURE,
    "05-attacker-own-key": Reason.WRONG_KEY,
    "06-valid-unicode-keys": None,
}


def read(text: bytes) -> Receipt:
    return next(readings(text, PROFILES))


def failing(text: bytes, sources: dict[str, str] | None = None) -> set[str]:
    return {one.name for one in check_evidence(read(text), sources) if one.status is Status.FAIL}


@pytest.fixture
def folder(vectors: Path) -> Path:
    return vectors / "receipts" / "answerproof" / "generated"


@pytest.mark.parametrize("name", EXPECTED)
def test_published_receipts(folder: Path, name: str) -> None:
    text = (folder / f"{name}.json").read_bytes()
    finding = check_chain([text], [GivenKey(ALICE.key)], PROFILES)
    assert finding.reason is EXPECTED[name]
    receipt = finding.findings[0].receipt
    assert receipt is not None
    assert (receipt.profile, receipt.agent, receipt.linked) == (PROFILE, "user-42", False)
    assert receipt.unsigned == ("signature.algorithm", "signature.public_key")


def test_published_evidence(folder: Path) -> None:
    """The attacker's is as good as the others': evidence says nothing of who signed it."""
    given = json.loads((folder / "keys-and-sources.json").read_bytes())
    sources = read_sources(json.dumps(given["sources"]).encode())
    for name in EXPECTED:
        text = (folder / f"{name}.json").read_bytes()
        wanted = {"citations", "grounding"} if name == "02-tampered-answer" else set()
        assert failing(text, sources) == wanted, name
        assert "source contents" in failing(text, {**sources, "kb-1": "x"})


def test_the_published_receipt_whose_numbers_were_rewritten_is_told_as_such(folder: Path) -> None:
    keys = [MALLORY.key, ALICE.key]
    for name in EXPECTED:
        words = explain_signature(read((folder / f"{name}.json").read_bytes()), keys)
        assert (words is not None) == (name == "04-float-rewritten-as-int")


# Own receipts.


def test_what_is_read() -> None:
    receipt = accept(raw(answerproof()), ALICE.key)
    assert (receipt.profile, receipt.agent, receipt.stream) == (PROFILE, "user-42", "")
    assert (receipt.sequence, receipt.previous, receipt.linked) == (None, None, False)
    assert (receipt.time, receipt.key_hint) == ("2026-11-30T15:09:54.113992Z", ALICE.key)
    assert receipt.signing_input == python(answerproof()["payload"])
    assert receipt.link_hash == receipt.receipt_hash
    assert (receipt.kid, receipt.pair) == (None, None)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("payload.answer", "Refunds are never issued."),
        ("payload.query", "?"),
        ("payload.principal.id", "user-43"),
        ("payload.principal.permissions", ["kb:write"]),
        ("payload.created_at", "2026-11-30T15:09:55.113992Z"),
        ("payload.merkle_root", "0" * 64),
        ("payload.model.params.temperature", 0),
        ("payload.grounding.grounding_score", 1),
        ("payload.extra", None),
    ],
)
def test_a_member_changed_after_signing(path: str, value: Any) -> None:
    bad_signature(accept, raw(with_member(answerproof(), path, value)), ALICE.key)


@pytest.mark.parametrize(
    "document",
    [
        with_member(answerproof(), "note", "x"),
        with_member(answerproof(), "signature.note", "x"),
        with_member(answerproof(), "signature.signature", "x"),
        with_member(answerproof(), "signature.signature", base64url(bytes(63))),
        with_member(answerproof(), "signature.signature", bytes(64).hex()),
        with_member(answerproof(), "signature.public_key", ALICE.key.hex()),
        with_member(answerproof(), "signature.public_key", base64url(ALICE.key) + "="),
        answerproof(principal=""),
        answerproof(principal="a\nb"),
        answerproof(created_at="yesterday"),
        without(answerproof(), "payload.created_at"),
        without(answerproof(), "signature.algorithm"),
    ],
)
def test_a_member_of_another_form(document: Any) -> None:
    refused(accept, raw(document), ALICE.key, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("algorithm", ["Ed25519", "EdDSA", "none", "es256", ""])
def test_another_algorithm(algorithm: str) -> None:
    document = with_member(answerproof(), "signature.algorithm", algorithm)
    refused(accept, raw(document), ALICE.key, reason=Reason.UNSUPPORTED_ALGORITHM)


def test_another_version_is_another_format() -> None:
    document = answerproof(schema_version="1.1")
    refused(accept, raw(document), ALICE.key, reason=Reason.UNKNOWN_PROFILE)


@pytest.mark.parametrize(
    "text",
    [
        raw(answerproof()).replace(b'"answer":', b'"answer": "first", "answer":'),
        raw(answerproof()).replace(b'"max_tokens": 512', b'"max_tokens": NaN'),
        raw(answerproof()).replace(b'"max_tokens"', b'"__proto__"'),
        b"\xef\xbb\xbf" + raw(answerproof()),
        raw(answerproof()) + b"{}",
    ],
    ids=["twin", "NaN", "proto", "mark", "more"],
)
def test_what_parsers_disagree_on(text: bytes) -> None:
    refused(accept, text, ALICE.key, reason=Reason.MALFORMED)


def test_the_key_inside_is_never_trusted() -> None:
    """A receipt that is right in all its parts, by somebody who brought a key along."""
    text = raw(answerproof(signer=MALLORY))
    assert failing(text, CONTENTS) == set()
    assert accept(text, MALLORY.key).key_hint == MALLORY.key
    bad_signature(accept, text, ALICE.key)
    nobody = check_chain([text], [], PROFILES)
    assert (nobody.outcome, nobody.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)
    other = check_chain([text], [GivenKey(ALICE.key)], PROFILES)
    assert (other.outcome, other.reason) == (Outcome.INVALID, Reason.WRONG_KEY)


def test_a_key_that_was_exchanged_inside() -> None:
    document = with_member(answerproof(), "signature.public_key", base64url(MALLORY.key))
    bad_signature(accept, raw(document), ALICE.key)
    bad_signature(accept, raw(document), MALLORY.key)


def test_numbers_are_what_python_writes() -> None:
    """1.0 in any of its spellings with a fraction; not 1."""
    text = raw(answerproof())
    first = accept(text, ALICE.key)
    for spelling in (b"1.00", b"10.0e-1", b"1E0"):
        changed = text.replace(b'"score": 1.0', b'"score": ' + spelling)
        assert changed != text
        assert accept(changed, ALICE.key).content_hash == first.content_hash
    bad_signature(accept, respelled(text), ALICE.key)
    assert explain_signature(read(respelled(text)), [ALICE.key]) is not None


def test_names_are_sorted_by_code_point() -> None:
    document = answerproof()
    document["payload"]["model"]["params"] = {"\U0001f600": 1, "\ufb33": 2, "é": 3}
    text = raw(seal(document["payload"]))
    assert accept(text, ALICE.key).profile == PROFILE
    assert failing(text, CONTENTS) == set()


def test_order_and_space_are_not_signed_and_make_no_other_content() -> None:
    document = answerproof()
    backwards = dict(reversed(document["payload"].items()))
    other = json.dumps(
        {"signature": document["signature"], "payload": backwards}, indent=2
    ).encode()
    first, second = accept(raw(document), ALICE.key), accept(other, ALICE.key)
    assert first.content_hash == second.content_hash
    assert first.receipt_hash != second.receipt_hash


def test_several_receipts_of_one_principal_have_no_order() -> None:
    texts = [raw(answerproof(receipt_id=f"id-{number}")) for number in range(3)]
    for order in (texts, texts[::-1]):
        finding = check_chain(order, [GivenKey(ALICE.key)], PROFILES)
        assert finding.outcome is Outcome.VALID
        assert any("no chain of its own" in note for note in finding.notes)


def test_a_large_receipt_is_judged_within_the_limits_it_was_read_with() -> None:
    contents = {f"s{number}": f"text {number}" for number in range(140)}
    text = raw(answerproof(contents, ("text 7",)))
    receipt = accept(text, ALICE.key)
    assert {one.status for one in check_evidence(receipt, contents)} == {Status.PASS}
