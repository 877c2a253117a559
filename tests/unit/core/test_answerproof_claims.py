"""answerproof receipts that contradict themselves, and sources that are not what was hashed."""

from __future__ import annotations

from typing import Any

import pytest

from receiptledger.core.answerproof import check_evidence, source_ids
from receiptledger.core.errors import Reason
from receiptledger.core.verdict import Check, Status
from tests.helpers.bare_receipt import bare_receipt
from tests.helpers.forge import raw
from tests.helpers.forge_answerproof import (
    CONTENTS,
    SENTENCES,
    answerproof,
    citation,
    claim,
    content_hash,
    grounding,
    tree,
)
from tests.helpers.reading import without


def checked(document: Any, sources: dict[str, str] | None = None) -> dict[str, Check]:
    receipt = bare_receipt(raw(document), "answerproof", "user-42")
    return {check.name: check for check in check_evidence(receipt, sources)}


def failing(found: dict[str, Check]) -> dict[str, str]:
    return {name: check.detail for name, check in found.items() if check.status is Status.FAIL}


# What it says of itself.


@pytest.mark.parametrize(
    ("members", "check", "detail"),
    [
        (
            {"cited_source_ids": ["kb-1", "kb-2", "kb-9"]},
            "cited sources",
            "names 'kb-9', which is no source; 'kb-9' is listed as cited and in no citation",
        ),
        ({"cited_source_ids": ["kb-1"]}, "cited sources", "'kb-2' is in a citation and not listed"),
        (
            {"cited_source_ids": ["kb-1", "kb-2", "kb-3"]},
            "cited sources",
            "'kb-3' is listed as cited and in no citation",
        ),
        (
            {"citations": [citation(source_id="kb-9")], "cited_source_ids": ["kb-9"]},
            "citations",
            "citation 0 is of 'kb-9', which is no source",
        ),
        (
            {"citations": [citation(quote="Refunds for ever.")], "cited_source_ids": ["kb-1"]},
            "citations",
            "what citation 0 quotes is not in the answer",
        ),
        (
            {"citations": [citation(quote=SENTENCES[0].upper())], "cited_source_ids": ["kb-1"]},
            "citations",
            "what citation 0 quotes is not in the answer",
        ),
        (
            {"citations": [citation(quote=" ")], "cited_source_ids": ["kb-1"]},
            "citations",
            "citation 0 quotes nothing",
        ),
        (
            {"citations": [citation(score=1.01)], "cited_source_ids": ["kb-1"]},
            "citations",
            "score of citation 0 must be 0..1, it is 1.01",
        ),
        ({"grounding": grounding(score=1.0)}, "grounding", "grounding_score must be 0.0, 0 of 0"),
        (
            {"grounding": grounding(claim(), score=0.9)},
            "grounding",
            "grounding_score must be 1.0, 1 of 1 claims, it is 0.9",
        ),
        (
            {"grounding": grounding(claim(source_ids=["kb-9"]))},
            "grounding",
            "claim 0 names 'kb-9', which is no source",
        ),
        (
            {"grounding": grounding(claim(source_ids=[]))},
            "grounding",
            "claim 0 is supported by no source",
        ),
        ({"grounding": grounding(claim(text="Never said."))}, "grounding", "claim 0 is not in the"),
        ({"grounding": grounding(claim(text=""))}, "grounding", "claim 0 is not in the answer"),
        (
            {"grounding": grounding(claim(support_score=-0.1))},
            "grounding",
            "support_score of claim 0 must be 0..1, it is -0.1",
        ),
        (
            {"grounding": grounding(claim(), unsupported=[SENTENCES[2]])},
            "grounding",
            "unsupported_claims must be the 0 claims that are not supported, it has 1",
        ),
        (
            {"grounding": grounding(claim(supported=False), score=0.0)},
            "grounding",
            "unsupported_claims must be the 1 claims that are not supported, it has 0",
        ),
        (
            {"grounding": grounding(claim(supported=False), unsupported=[SENTENCES[1]], score=0.0)},
            "grounding",
            "it has 1, or others",
        ),
    ],
)
def test_a_receipt_that_contradicts_itself(
    members: dict[str, Any], check: str, detail: str
) -> None:
    found = checked(answerproof(**members))
    assert check in failing(found)
    assert detail in found[check].detail
    assert found[check].reason is Reason.INVALID_FIELD


def test_two_sources_of_one_id() -> None:
    """answerproof holds the content against the last one only, so the first may be anything."""
    document = answerproof()
    twin = {**document["payload"]["sources"][0], "content_hash": content_hash("forged")}
    sources = [twin, *document["payload"]["sources"]]
    root = tree([source["content_hash"] for source in sources])
    found = checked(answerproof(sources=sources, merkle_root=root), CONTENTS)
    assert found["merkle root"].status is Status.PASS
    assert failing(found)["cited sources"] == "2 sources have the id 'kb-1'"
    assert "the content given for 'kb-1' is another" in failing(found)["source contents"]


def test_claims_may_leave_some_of_the_answer_out_and_it_is_said() -> None:
    document = answerproof(answer=" ".join((*SENTENCES, "And more.")))
    assert checked(document)["grounding"].detail.endswith(
        "; 9 characters of the answer are in no claim"
    )
    nothing = answerproof(grounding=grounding(score=0.0), answer="Unjudged.")
    assert checked(nothing)["grounding"].detail == (
        "0 of 0 claims supported, by the signer's own count; 9 characters of the answer are in no claim"
    )
    before = answerproof(answer="Well. " + " ".join(SENTENCES))
    assert "; 5 characters" in checked(before)["grounding"].detail
    twice = answerproof(grounding=grounding(claim(), claim()), answer=SENTENCES[0])
    assert failing(checked(twice)).keys() == {"citations"}


def test_many_faults_are_counted_and_not_all_told() -> None:
    citations = [citation(source_id=f"x{at}") for at in range(9)]
    found = checked(answerproof(citations=citations))
    assert found["citations"].detail.count("which is no source") == 3
    assert found["citations"].detail.endswith("; and 6 more")


# Contents.


@pytest.mark.parametrize("name", list(CONTENTS))
def test_one_content_that_was_changed(name: str) -> None:
    found = checked(answerproof(), {**CONTENTS, name: CONTENTS[name].replace("e", "a", 1)})
    detail = failing(found).pop("source contents")
    assert f"the content given for {name!r} is another than was hashed" in detail
    assert found["source contents"].reason is Reason.BAD_PROOF
    assert content_hash(CONTENTS[name]) in detail
    assert "it would fit" not in detail


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("kb-1", CONTENTS["kb-1"] + "\n", "without the line end at its end it would fit"),
        ("kb-1", CONTENTS["kb-1"] + "\r\n", "without the line end at its end it would fit"),
        ("kb-2", CONTENTS["kb-2"].replace("\n", "\r\n"), "with \\n as line ends it would fit"),
        ("kb-1", f"  {CONTENTS['kb-1']} ", "without white space around it it would fit"),
        ("kb-3", CONTENTS["kb-3"].replace("ö", "o\u0308"), "in Unicode's form NFC it would fit"),
    ],
)
def test_a_content_that_differs_in_its_spelling_only(name: str, text: str, words: str) -> None:
    found = checked(answerproof(), {**CONTENTS, name: text})
    assert words in failing(found)["source contents"]


@pytest.mark.parametrize(
    ("signed", "text", "words"),
    [
        ("a\n", "a", "with a line end at its end"),
        ("a\r\nb", "a\nb", "with \\r\\n as line ends"),
        ("e\u0301", "é", "in Unicode's form NFD"),
    ],
)
def test_the_other_way_round(signed: str, text: str, words: str) -> None:
    document = answerproof({"s": signed}, ("a",))
    assert f"{words} it would fit" in checked(document, {"s": text})["source contents"].detail


def test_contents_of_no_source_of_the_receipt() -> None:
    found = checked(answerproof(), {**CONTENTS, "kb-9": "text"})
    assert failing(found)["source contents"] == "'kb-9' is no source of this receipt"
    many = checked(answerproof(), {f"x{at}": "" for at in range(5)})
    assert failing(many)["source contents"].endswith("; and 2 more")


def test_contents_of_some_sources() -> None:
    found = checked(answerproof(), {"kb-2": CONTENTS["kb-2"]})
    assert failing(found) == {}
    assert found["source contents"].detail == (
        "1 of 3 contents given, each is the one that was hashed; not given: 'kb-1', 'kb-3' "
        "(1 of them cited)"
    )
    assert found["overlap"].detail == "1 of 2 scores computed anew, all the same"
    contents = {f"s{at}": f"text {at}" for at in range(6)}
    few = checked(answerproof(contents, ("text 0",)), {"s5": "text 5"})
    assert (
        "not given: 's0', 's1', 's2' and 2 more (1 of them cited)" in few["source contents"].detail
    )


def test_the_ids_of_a_receipts_sources() -> None:
    document = answerproof()
    assert source_ids(bare_receipt(raw(document), "answerproof")) == {"kb-1", "kb-2", "kb-3"}
    broken = without(document, "payload.answer")
    assert source_ids(bare_receipt(raw(broken), "answerproof")) == frozenset()
