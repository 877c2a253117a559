"""What an answerproof receipt says of its answer and sources, held against what it should say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.answerproof import (
    CHECKS,
    check_evidence,
    source_proof,
    verify_source_proof,
)
from receiptledger.core.encoding import parse_digest
from receiptledger.core.errors import EvidenceError, Reason, ReceiptError
from receiptledger.core.treehash import hash_leaf, root_hash
from receiptledger.core.verdict import Check, Status
from tests.helpers.bare_receipt import bare_receipt
from tests.helpers.forge import raw
from tests.helpers.forge_answerproof import (
    CONTENTS,
    answerproof,
    citation,
    claim,
    content_hash,
    grounding,
    tree,
)
from tests.helpers.reading import with_member, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.receipt_types import Receipt


def reading(document: Any) -> Receipt:
    return bare_receipt(raw(document), "answerproof", "user-42")


def checked(document: Any, sources: dict[str, str] | None = None) -> dict[str, Check]:
    found = check_evidence(reading(document), sources)
    assert tuple(check.name for check in found) == CHECKS
    return {check.name: check for check in found}


def failing(found: dict[str, Check]) -> dict[str, str]:
    return {name: check.detail for name, check in found.items() if check.status is Status.FAIL}


def test_an_honest_receipt() -> None:
    found = checked(answerproof(), CONTENTS)
    assert {check.status for check in found.values()} == {Status.PASS}
    assert found["merkle root"].detail == "it is the root over the content hashes, 3 in number"
    assert found["inclusion"].detail == "cited sources proven to be under the signed root: 2"
    assert found["cited sources"].detail == "2 of 3 sources, all there, are cited"
    assert found["citations"].detail == "quotes found in the answer: 2"
    assert found["grounding"].detail == "2 of 3 claims supported, by the signer's own count"
    assert found["overlap"].detail == "2 of 2 scores computed anew, all the same"


def test_an_honest_receipt_without_contents() -> None:
    found = checked(answerproof())
    statuses = [check.status for check in found.values()]
    assert statuses == [Status.PASS] * 6 + [Status.NOT_CHECKED] * 2
    assert "no contents given" in found["source contents"].detail
    assert found["overlap"].detail == "none of 2 scores can be computed anew here"
    assert checked(answerproof(), {}) == found


# The form.


@pytest.mark.parametrize(
    ("path", "value", "detail"),
    [
        ("payload.extra", 1, "member payload.extra is not of this format"),
        ("payload.<b>", 1, "member payload.'<b>' is not of this format"),
        ("payload.grounding.extra", 1, "member payload.grounding.extra is not of this format"),
        ("payload.schema_version", "1.1", "expected 1.0; got text of 3 characters"),
        ("payload.answer", 7, "member payload.answer has the wrong form; expected text"),
        ("payload.answer", None, "expected text; got null"),
        ("payload.principal", "user", "member payload.principal has the wrong form"),
        ("payload.sources", {}, "expected an array; got an object"),
        (
            "payload.sources",
            [1],
            "member payload.sources[0] has the wrong form; expected an object",
        ),
        ("payload.cited_source_ids", [1], "member payload.cited_source_ids[0] has the wrong form"),
        ("payload.grounding.grounding_score", True, "expected number; got a boolean"),
        ("payload.grounding.grounding_score", "1.0", "expected number; got text"),
        ("payload.grounding.grounding_score", None, "expected number; got null"),
        ("payload.model.params", [], "expected object; got an array"),
        ("payload.model.provider", 1, "expected text or null; got the number 1"),
    ],
)
def test_a_member_of_another_form(path: str, value: Any, detail: str) -> None:
    found = checked(with_member(answerproof(), path, value), CONTENTS)
    form = found.pop("evidence form")
    assert (form.status, form.reason) == (Status.FAIL, Reason.INVALID_FIELD)
    assert detail in form.detail
    assert {check.status for check in found.values()} == {Status.NOT_CHECKED}
    assert {check.detail for check in found.values()} == {
        "the receipt is not of answerproof's form"
    }


@pytest.mark.parametrize(
    "path", ["payload.merkle_root", "payload.principal.id", "payload.model", "payload.answer"]
)
def test_a_member_that_is_missing(path: str) -> None:
    found = checked(without(answerproof(), path))
    assert list(failing(found)) == ["evidence form"]
    assert f"member {path} is missing" in found["evidence form"].detail


def test_no_payload_at_all() -> None:
    assert "payload" in checked({"signature": {}})["evidence form"].detail


@pytest.mark.parametrize("path", ["payload.principal.tenant", "payload.model.provider"])
def test_a_member_with_a_default_may_be_missing(path: str) -> None:
    assert failing(checked(without(answerproof(), path), CONTENTS)) == {}


# The tree.


@pytest.mark.parametrize("count", range(1, 18))
def test_the_root_of_any_number_of_sources(count: int) -> None:
    """Odd last nodes are carried up; what our own tree hashes, and a plain recursion, agree."""
    contents = {f"s{at}": f"text {at}" for at in range(count)}
    document = answerproof(contents, ("text 0",))
    hashes = [content_hash(text) for text in contents.values()]
    assert root_hash([hash_leaf(parse_digest(one)) for one in hashes]).hex() == tree(hashes)
    assert failing(checked(document, contents)) == {}
    for name, digest in zip(contents, hashes, strict=True):
        proof = source_proof(reading(document), name)
        verify_source_proof(digest, proof, tree(hashes))
        for other in {*hashes} - {digest}:
            with pytest.raises(EvidenceError) as caught:
                verify_source_proof(other, proof, tree(hashes))
            assert caught.value.reason is Reason.BAD_PROOF


def duplicated(hashes: list[str]) -> str:
    """The root of who carries a lone last node up twice, as Bitcoin does."""
    return tree([*hashes, hashes[-1]])


@pytest.mark.parametrize(
    "root",
    [
        "0" * 64,
        tree([content_hash(text) for text in CONTENTS.values()]).upper(),
        "sha256:" + tree([content_hash(text) for text in CONTENTS.values()]),
        duplicated([content_hash(text) for text in CONTENTS.values()]),
        tree([content_hash(text) for text in reversed(CONTENTS.values())]),
        tree([content_hash(text) for text in list(CONTENTS.values())[:2]]),
        "",
        "<script>alert(1)</script>",
    ],
    ids=["zeros", "capitals", "prefixed", "doubled", "reordered", "fewer", "empty", "markup"],
)
def test_another_root(root: str) -> None:
    found = checked(answerproof(merkle_root=root), CONTENTS)
    assert set(failing(found)) == {"merkle root", "inclusion"}
    assert {found[name].reason for name in failing(found)} == {Reason.BAD_PROOF}
    assert "the root over 3 content hashes" in found["merkle root"].detail
    assert "'kb-1' is not under the signed root" in found["inclusion"].detail


@pytest.mark.parametrize(
    "digest",
    ["sha256:ab", "md5:" + "0" * 32, "ab" * 32, "sha256:" + "AB" * 32, "sha256:" + "0" * 65, ""],
)
def test_a_content_hash_that_is_none(digest: str) -> None:
    """answerproof takes any hex of any length behind any name."""
    document = answerproof()
    document["payload"]["sources"][1]["content_hash"] = digest
    found = checked(document)
    assert set(failing(found)) == {"merkle root"}
    assert "content_hash of source 1 is no SHA-256" in found["merkle root"].detail
    assert found["inclusion"].status is Status.NOT_CHECKED
    with pytest.raises(EvidenceError):
        source_proof(reading(document), "kb-1")


def test_no_sources() -> None:
    document = answerproof(sources=[], citations=[], cited_source_ids=[])
    found = checked(document)
    assert "no sources" in failing(found)["merkle root"]
    assert found["inclusion"].status is Status.NOT_CHECKED


def steps(change: Callable[[list[dict[str, Any]]], Any]) -> Any:
    proof: list[dict[str, Any]] = [
        dict(step) for step in source_proof(reading(answerproof()), "kb-1")
    ]
    assert len(proof) == 2
    changed = change(proof)
    return proof if changed is None else changed


@pytest.mark.parametrize(
    "proof",
    [
        None,
        {},
        steps(lambda proof: proof[:1]),
        steps(lambda proof: proof * 32),
        steps(lambda proof: proof[::-1]),
        steps(lambda proof: proof[0].update(position="left")),
        steps(lambda proof: proof[0].update(position="up")),
        steps(lambda proof: proof[0].update(position=[])),
        steps(lambda proof: proof[0].update(sibling=proof[0]["sibling"].upper())),
        steps(lambda proof: proof[0].update(sibling=proof[0]["sibling"] + "00")),
        steps(lambda proof: proof[0].update(sibling=7)),
        steps(lambda proof: proof[0].update(more=1)),
        steps(lambda proof: proof[0].pop("position") and None),
        steps(lambda proof: ["left", *proof]),
    ],
)
def test_a_proof_that_proves_nothing(proof: Any) -> None:
    root = answerproof()["payload"]["merkle_root"]
    with pytest.raises(EvidenceError) as caught:
        verify_source_proof(content_hash(CONTENTS["kb-1"]), proof, root)
    assert caught.value.reason is Reason.BAD_PROOF


def test_a_proof_higher_than_any_tree_is_not_followed() -> None:
    proof = [{"sibling": "00" * 32, "position": "left"}] * 64
    with pytest.raises(EvidenceError, match="at most 63 steps"):
        verify_source_proof(content_hash(""), proof, "00" * 32)
    with pytest.raises(EvidenceError, match="leads to another root"):
        verify_source_proof(content_hash(""), proof[1:], "00" * 32)


def test_a_proof_of_no_content_hash_or_no_source() -> None:
    with pytest.raises(EvidenceError) as caught:
        verify_source_proof("sha256:00", [], "00")
    assert caught.value.reason is Reason.BAD_PROOF
    with pytest.raises(EvidenceError) as caught:
        source_proof(reading(answerproof()), "kb-9")
    assert caught.value.reason is Reason.NOT_FOUND
    with pytest.raises(ReceiptError) as refused:
        source_proof(reading(without(answerproof(), "payload.answer")), "kb-1")
    assert refused.value.reason is Reason.INVALID_FIELD


# Nothing a receipt says is shown as it is.


HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[2J\x1b]0;owned\x07",
    "a\u202eb",
    "x" * 5_000,
    "'; DROP",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ids_are_quoted_escaped_and_cut(name: str) -> None:
    document = answerproof(
        {name: "a b c d"}, ("a b c d",), cited_source_ids=[name, name + "!"], merkle_root=name
    )
    document["payload"]["citations"].append(citation(source_id=name + "?"))
    document["payload"][name] = 1
    form = checked(document)["evidence form"]
    del document["payload"][name]
    found = checked(document, {name: "other", name + "#": ""})
    assert len(failing(found)) == 5
    for check in (form, *found.values()):
        assert check.detail.isascii()
        assert check.detail.isprintable()
        assert len(check.detail) < 1_200


def test_the_text_of_a_receipt_is_never_told() -> None:
    """Not its query, answer, quotes, claims or metadata: only ids, hashes, counts and numbers."""
    secret = "TOP-SECRET"
    document = answerproof(
        query=secret,
        answer=secret,
        citations=[citation(quote=secret + "!", method=secret)],
        grounding=grounding(claim(text=secret + "?"), unsupported=[secret]),
        principal=secret,
    )
    found = checked(document, dict.fromkeys(CONTENTS, secret))
    assert len(failing(found)) == 4
    assert all(secret not in check.detail for check in found.values())


# Any change at all.

PATHS = st.sampled_from(
    [
        *(("merkle_root",), ("cited_source_ids", 0), ("citations", 0, "source_id")),
        *(("citations", 1, "quote"), ("citations", 0, "score"), ("grounding", "grounding_score")),
        *(("grounding", "claims", 0, "text"), ("grounding", "claims", 2, "supported")),
        *(("grounding", "unsupported_claims", 0), ("sources", 0, "content_hash")),
        *(("sources", 1, "id"), ("answer",)),
    ]
)


@given(PATHS, st.text(max_size=70) | st.floats(allow_nan=False) | st.booleans() | st.none())
def test_no_member_a_check_is_about_can_change_alone(path: tuple[Any, ...], value: Any) -> None:
    document = answerproof()
    node: Any = document["payload"]
    for step in path[:-1]:
        node = node[step]
    if node[path[-1]] == value:
        return
    node[path[-1]] = value
    receipt = reading(json.loads(json.dumps(document)))
    found = check_evidence(receipt, CONTENTS)
    assert any(check.status is Status.FAIL for check in found), (path, value)
