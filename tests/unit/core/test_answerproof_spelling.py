"""Receipts of answerproof whose numbers a JSON tool rewrote; and the auditor's contents as a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core import answerproof_sources
from receiptledger.core.answerproof_form import MAX_KEYS, MAX_RESPELLED, explain_signature
from receiptledger.core.answerproof_sources import MAX_COMPARED, check_overlap, read_sources
from receiptledger.core.encoding import base64url_decode
from receiptledger.core.errors import Reason
from receiptledger.core.verdict import Status
from tests.helpers.bare_receipt import bare_receipt
from tests.helpers.forge import python, raw
from tests.helpers.forge_answerproof import (
    CONTENTS,
    SENTENCES,
    answerproof,
    content_hash,
    overlap,
    respelled,
    seal,
)
from tests.helpers.reading import refused, with_member, without
from tests.helpers.receipts import ALICE, MALLORY

if TYPE_CHECKING:
    from receiptledger.core.receipt_types import Receipt


def reading(text: bytes) -> Receipt:
    """By the rule that failed: over the payload as it stands."""
    document = json.loads(text)
    signature = base64url_decode(document["signature"]["signature"], 64)
    message = python(document["payload"])
    return bare_receipt(text, "answerproof", signature=signature, signing_input=message)


def test_numbers_that_lost_their_fraction() -> None:
    text = raw(answerproof())
    changed = respelled(text)
    assert changed.count(b".0") < text.count(b".0")
    words = explain_signature(reading(changed), [ALICE.key])
    assert words is not None
    assert "1.0, not 1" in words


def test_what_javascript_writes() -> None:
    """All at once: 1.0 as 1, 1e-05 as 0.00001, 1e+16 in full, other order, other space."""
    document = answerproof()
    source = document["payload"]["sources"][0]
    source["score"], source["metadata"] = 1e16, {"a": 1e-5, "b": [2.0, {"c": 3}]}
    text = raw(seal(document["payload"]))
    changed = respelled(text).replace(b"1e+16", b"10000000000000000").replace(b"1e-05", b"0.00001")
    backwards = json.dumps(json.loads(changed), indent=3, sort_keys=True).encode()
    assert b"10000000000000000\n" in backwards
    assert explain_signature(reading(changed), [ALICE.key]) is not None
    assert explain_signature(reading(backwards), [MALLORY.key, ALICE.key]) is not None


@pytest.mark.parametrize(
    "path", ["payload.principal.tenant", "payload.model.provider", "payload.model.params"]
)
def test_a_default_that_was_left_out(path: str) -> None:
    document = answerproof(principal="p", model={"name": "m", "provider": None, "params": {}})
    document["payload"]["principal"]["tenant"] = None
    document = seal(document["payload"])
    assert explain_signature(reading(raw(without(document, path))), [ALICE.key]) is not None


def test_an_honest_receipt_needs_no_explanation() -> None:
    assert explain_signature(reading(raw(answerproof())), [ALICE.key]) is None


@pytest.mark.parametrize(
    "document",
    [
        with_member(answerproof(), "payload.answer", "Something else."),
        with_member(answerproof(), "payload.grounding.grounding_score", 1),
        with_member(answerproof(), "payload.extra", 1),
        with_member(answerproof(), "payload.model.params.max_tokens", 513),
        {**answerproof(), "payload": []},
        answerproof(signer=MALLORY),
    ],
    ids=["text", "number", "member", "free number", "no payload", "another signer"],
)
def test_a_change_of_content_is_never_explained(document: Any) -> None:
    assert explain_signature(reading(respelled(raw(document))), [ALICE.key]) is None


def test_the_first_eight_keys_are_tried() -> None:
    changed = reading(respelled(raw(answerproof())))
    others = [MALLORY.key] * (MAX_KEYS - 1)
    assert explain_signature(changed, [*others, ALICE.key]) is not None
    assert explain_signature(changed, [*others, MALLORY.key, ALICE.key]) is None
    assert explain_signature(changed, []) is None


def free_numbers(*values: float) -> bytes:
    params = {f"p{at}": value for at, value in enumerate(values)}
    return respelled(raw(answerproof(model={"name": "m", "provider": None, "params": params})))


def test_free_numbers_that_may_have_been_floats_are_tried_up_to_a_bound() -> None:
    mixed: list[float] = [1.0, 2, 3.0, 4, 5.0, 6]
    assert len(mixed) == MAX_RESPELLED
    assert explain_signature(reading(free_numbers(*mixed)), [ALICE.key]) is not None
    assert explain_signature(reading(free_numbers(*mixed, 7)), [ALICE.key]) is None
    assert explain_signature(reading(free_numbers(*[1.0] * 50)), [ALICE.key]) is not None
    assert explain_signature(reading(free_numbers(*range(50))), [ALICE.key]) is not None


SCORES = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-5, 1e-7])
METADATA = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3).filter(
        lambda name: name != "__proto__"
    ),
    st.sampled_from([1.0, 2, -3.0, True, None, "x", [1.0], {"y": 4}]),
    max_size=2,
)


@given(SCORES, SCORES, METADATA)
def test_any_receipt_survives_a_tool_as_far_as_its_words_go(
    one: float, two: float, metadata: dict[str, Any]
) -> None:
    document = answerproof()
    document["payload"]["sources"][0] |= {"score": one, "metadata": metadata}
    document["payload"]["citations"][0]["score"] = two
    text = raw(seal(document["payload"]))
    changed = respelled(text)
    assert changed != text
    assert explain_signature(reading(changed), [ALICE.key]) is not None


# Contents from a file.


def test_contents_are_read_from_a_file() -> None:
    assert read_sources(json.dumps(CONTENTS).encode()) == CONTENTS
    assert read_sources(b"{}") == read_sources(b" \n[]\n") == {}
    listed = [{"content": text, "id": name} for name, text in CONTENTS.items()]
    assert read_sources(json.dumps(listed).encode()) == CONTENTS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": 1}', Reason.INVALID_FIELD),
        (b'{"a": null}', Reason.INVALID_FIELD),
        (b'{"a": ["b"]}', Reason.INVALID_FIELD),
        (b'{"a": {"b": {"c": 1}}}', Reason.TOO_LARGE),
        (b'[{"a": "b"}]', Reason.INVALID_FIELD),
        (b'["id", "content"]', Reason.INVALID_FIELD),
        (b'[{"id": "a", "content": 1}]', Reason.INVALID_FIELD),
        (b'[{"id": "a", "content": "b", "more": "c"}]', Reason.INVALID_FIELD),
        (b'[{"id": "a", "content": "b"}, {"id": "a", "content": "b"}]', Reason.INVALID_FIELD),
        (b'[{"id": "a", "content": "b", "content": "c"}]', Reason.MALFORMED),
        (b'[{"id": "a", "content": [[[1]]]}]', Reason.TOO_LARGE),
        (b'[], "a": "b"', Reason.MALFORMED),
        (b'[], "sources": []', Reason.MALFORMED),
        (b"[]]", Reason.MALFORMED),
        (b"[", Reason.MALFORMED),
        (b'{"a": "b", "a": "c"}', Reason.MALFORMED),
        (b'{"a": "\\ud800"}', Reason.MALFORMED),
        (b'{"a": "b"', Reason.MALFORMED),
        (b"", Reason.MALFORMED),
    ],
)
def test_contents_that_are_none(data: bytes, reason: Reason) -> None:
    refused(read_sources, data, reason=reason)


# Scores computed anew.


def scored(quote: str, text: str, score: float, method: str = "3gram-overlap") -> dict[str, Any]:
    citation = {"source_id": "s", "quote": quote, "method": method, "score": score}
    source = {"id": "s", "content_hash": content_hash(text)}
    return {"sources": [source], "citations": [citation]}


WORDS = st.text(st.sampled_from("ab _.\n1"), max_size=24)


@given(WORDS, WORDS, st.integers(1, 9))
def test_scores_are_those_of_a_plain_computation(quote: str, text: str, length: int) -> None:
    score = overlap(quote, text, length)
    method = f"{length}gram-overlap"
    right = check_overlap(scored(quote, text, score, method), {"s": text})
    assert right.status is Status.PASS
    wrong = check_overlap(scored(quote, text, score + 0.001, method), {"s": text})
    assert (wrong.status, wrong.reason) == (Status.FAIL, Reason.INVALID_FIELD)
    assert f"computed {score}" in wrong.detail


def test_a_score_beyond_ascii_that_differs_is_not_certain() -> None:
    found = check_overlap(scored("größer", "größer", 0.5), {"s": "größer"})
    assert (found.status, found.reason) == (Status.UNKNOWN, None)
    assert check_overlap(scored("größer", "größer", 1.0), {"s": "größer"}).status is Status.PASS


@pytest.mark.parametrize(
    ("method", "given_text"),
    [
        ("embedding", "a b c"),
        ("0gram-overlap", "a b c"),
        ("12gram-overlap", "a b c"),
        ("ngram-overlap", "a b c"),
        ("3gram-overlap", "another"),
        ("3gram-overlap", None),
    ],
)
def test_a_score_that_cannot_be_computed(method: str, given_text: str | None) -> None:
    contents = {} if given_text is None else {"s": given_text}
    found = check_overlap(scored("a b c", "a b c", 0.1, method), contents)
    assert found.status is Status.NOT_CHECKED


def test_contents_are_compared_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_COMPARED == 4 * 1024 * 1024
    monkeypatch.setattr(answerproof_sources, "MAX_COMPARED", 100)
    text = "a b c " * 10
    payload = scored("a b c", text, 1.0)
    payload["citations"] += [{**payload["citations"][0], "method": "2gram-overlap"}] * 2
    found = check_overlap(payload, {"s": text})
    assert found.detail == "1 of 3 scores computed anew, all the same"


def test_a_lie_about_support_needs_the_contents_to_be_seen() -> None:
    document = answerproof()
    lie = {"source_id": "kb-2", "quote": SENTENCES[2], "method": "3gram-overlap", "score": 1.0}
    document["payload"]["citations"].append(lie)
    found = check_overlap(document["payload"], CONTENTS)
    assert found.detail == "score of citation 2 is 1.0, computed 0.0"
    assert check_overlap(document["payload"], None).status is Status.NOT_CHECKED
