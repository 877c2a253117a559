"""nobulex's chain around its receipts, and its Merkle batches."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.canonical import Limits, parse
from receiptledger.core.errors import Reason
from receiptledger.core.nobulex import (
    EXPORT_CHECKS,
    Export,
    action_ref,
    check_export,
    check_receipt,
    is_export,
    read_export,
)
from receiptledger.core.verdict import Check, Status
from tests.helpers.bare_receipt import bare_receipt
from tests.helpers.forge import raw, sha256_hex
from tests.helpers.forge_nobulex import BOB, export, nobulex, ref_of, seal
from tests.helpers.reading import refused, with_member
from tests.helpers.receipts import jcs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.receipts import Document

ACTIONS = ("send_email", "api_call", "delete_db", "read_file")


def chain() -> Document:
    receipts = [
        nobulex(action, timestamp_ms=1796050731479 + at) for at, action in enumerate(ACTIONS)
    ]
    receipts[2] = nobulex(
        "delete_db", timestamp_ms=1796050731500, verdict="DENY", metadata={"€": 12.0}
    )
    receipts[3] = nobulex("read_file", timestamp_ms=1796050731501, signer=BOB)
    return export(receipts)


def checked(document: Any) -> dict[str, Check]:
    found = check_export(read_export(raw(document)))
    assert tuple(check.name for check in found) == EXPORT_CHECKS
    return {check.name: check for check in found}


def failing(document: Any) -> dict[str, str]:
    return {
        name: check.detail
        for name, check in checked(document).items()
        if check.status is Status.FAIL
    }


def changed(change: Callable[[Document], Any]) -> Document:
    document: Document = json.loads(json.dumps(chain()))
    change(document)
    return document


def test_an_honest_chain() -> None:
    found = checked(chain())
    assert [check.status for check in found.values()] == [Status.PASS] * 4 + [Status.NOT_CHECKED]
    assert found["chain form"].detail == "entries, all of one agent: 4"
    assert found["chain links"].detail == "4 entries follow each other"
    assert found["chain head"].detail == f"it is {chain()['head_hash']}"


def test_the_chain_is_as_its_makers_describe_it() -> None:
    """Two texts joined and hashed, computed here once more without any helper."""
    document = chain()
    first = hashlib.sha256(b"0" * 64 + document["entries"][0]["receipt"]["action_ref"].encode())
    assert document["entries"][0]["chain_hash"] == first.hexdigest()
    assert document["entries"][1]["prev_hash"] == first.hexdigest()


def test_receipts_keep_their_own_bytes() -> None:
    document = chain()
    spaced = json.dumps(document, indent=2, ensure_ascii=False).encode()
    export_ = read_export(spaced)
    assert [json.loads(one) for one in export_.receipts] == [
        entry["receipt"] for entry in document["entries"]
    ]
    assert all(one in spaced and b"\n" in one for one in export_.receipts)
    odd = (
        jcs(document)
        .replace(b'"ALLOW"', b'"\\u0041LLOW"')
        .replace(b'"index":0', b' "ind\\u0065x" : 0 ')
    )
    assert b"\\u0041LLOW" in read_export(odd).receipts[0]
    assert failing(json.loads(odd)) == {}


# What is an export at all.


def test_other_documents_are_no_exports() -> None:
    document = chain()
    assert is_export(document)
    assert is_export(export([]))
    assert not is_export(document["entries"][0]["receipt"])
    for name in document:
        assert not is_export({other: item for other, item in document.items() if other != name})
    assert not is_export({**document, "more": 1})
    assert not is_export({**document, "entries": {}})
    assert not is_export({**document, "entries": [1]})
    assert not is_export({**document, "entries": [{"receipt": {}}]})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", Reason.MALFORMED),
        (b"{", Reason.MALFORMED),
        (jcs(nobulex()), Reason.INVALID_FIELD),
        (jcs(with_member(chain(), "entries", [{"chain_hash": ""}])), Reason.INVALID_FIELD),
        (jcs(changed(lambda doc: doc["entries"][1].update(more=1))), Reason.INVALID_FIELD),
        (jcs(changed(lambda doc: doc["entries"][1].update(receipt="x"))), Reason.INVALID_FIELD),
        (jcs(changed(lambda doc: doc["entries"][1].update(receipt=None))), Reason.INVALID_FIELD),
        (jcs(chain()).replace(b'"index":0', b'"index":0,"index":0'), Reason.MALFORMED),
    ],
)
def test_an_export_that_cannot_be_read(data: bytes, reason: Reason) -> None:
    refused(read_export, data, reason=reason)


def test_an_export_has_a_bound() -> None:
    data = raw(chain())
    error = refused(read_export, data, Limits(max_bytes=len(data) - 1), reason=Reason.TOO_LARGE)
    assert error.want == f"at most {len(data) - 1} bytes"
    assert len(read_export(data, Limits(max_bytes=len(data))).entries) == 4


def test_an_export_of_nothing_shows_nothing() -> None:
    found = checked(export([]))
    assert found["chain form"].status is Status.UNKNOWN
    assert {check.status for check in found.values()} == {Status.UNKNOWN, Status.NOT_CHECKED}


# What breaks a chain.


@pytest.mark.parametrize(
    ("change", "checks", "detail"),
    [
        (lambda doc: doc["entries"].pop(1), {"chain form", "chain links", "chain head"}, "entry 1"),
        (lambda doc: doc["entries"].pop(0), {"chain form", "chain links", "chain head"}, "0" * 64),
        (
            lambda doc: doc["entries"].reverse(),
            {"chain form", "chain links", "chain head"},
            "must be",
        ),
        (lambda doc: doc["entries"].pop(), {"chain form", "chain head"}, "head_hash must be"),
        (
            lambda doc: doc["entries"].append(doc["entries"][0]),
            {"chain form", "chain links", "chain head"},
            "prev_hash of entry 4",
        ),
        (lambda doc: doc.update(chain_length=3), {"chain form"}, "must be 4, it is the number 3"),
        (lambda doc: doc.update(chain_length=True), {"chain form"}, "must be 4, it is a boolean"),
        (lambda doc: doc.update(chain_length="4"), {"chain form"}, "must be 4, it is '4'"),
        (lambda doc: doc.update(head_hash="0" * 64), {"chain head"}, "head_hash must be"),
        (lambda doc: doc.update(head_hash=None), {"chain head"}, "it is null"),
        (
            lambda doc: doc.update(agent_id="x"),
            {"chain form"},
            "receipt of entry 0 is of another agent",
        ),
        (
            lambda doc: doc["entries"][2].update(index=7),
            {"chain form"},
            "index of entry 2 must be 2",
        ),
        (lambda doc: doc["entries"][2].update(index=2.5), {"chain form"}, "it is the number 2.5"),
        (
            lambda doc: doc["entries"][2].update(prev_hash="0" * 64),
            {"chain links"},
            "prev_hash of entry 2 must be",
        ),
        (
            lambda doc: doc["entries"][2].update(chain_hash="0" * 64),
            {"chain links"},
            "chain_hash of entry 2 must be",
        ),
        (
            lambda doc: doc["entries"][3].update(chain_hash=doc["head_hash"].upper()),
            {"chain links"},
            "chain_hash of entry 3 must be",
        ),
        (
            lambda doc: doc["entries"][1]["receipt"].update(scope="elsewhere"),
            {"action refs"},
            "receipt 1: action_ref must be",
        ),
        (
            lambda doc: doc["entries"][1]["receipt"].update(timestamp_ms=1),
            {"action refs"},
            "receipt 1: action_ref must be",
        ),
        (
            lambda doc: doc["entries"][1]["receipt"].update(action_ref=None),
            {"action refs", "chain links", "chain head"},
            "receipt 1: action_ref must be",
        ),
        (
            lambda doc: doc["entries"][1]["receipt"].update(timestamp_ms="1"),
            {"action refs"},
            "receipt 1: member timestamp_ms has the wrong form",
        ),
        (
            lambda doc: doc["entries"][1]["receipt"].update(action_type=1),
            {"action refs"},
            "receipt 1: member action_type has the wrong form",
        ),
    ],
)
def test_a_chain_that_does_not_hold(
    change: Callable[[Document], Any], checks: set[str], detail: str
) -> None:
    document = changed(change)
    found = failing(document)
    assert set(found) == checks
    assert any(detail in words for words in found.values())
    reasons = {check.name: check.reason for check in checked(document).values() if check.reason}
    for name, reason in reasons.items():
        wanted = Reason.BROKEN_LINK if name == "chain links" else Reason.INVALID_FIELD
        assert reason is wanted


def test_a_hash_is_computed_from_what_it_must_be_and_not_from_what_stands_there() -> None:
    """Somebody who rewrites one entry and all hashes after it is seen by the head alone."""
    document = changed(lambda doc: doc["entries"].pop(1))
    forged = {
        **export([entry["receipt"] for entry in document["entries"]]),
        "head_hash": document["head_hash"],
    }
    assert set(failing(forged)) == {"chain head"}


def test_many_faults_are_counted_and_not_all_told() -> None:
    words = failing(changed(lambda doc: [entry.update(prev_hash="") for entry in doc["entries"]]))
    assert words["chain links"].count("must be") == 3
    assert words["chain links"].endswith("; and 1 more")


def test_what_the_chain_does_not_see_and_says_so() -> None:
    """A verdict turned and signed again, and a tail cut off with head and length: nothing fails."""
    turned = [entry["receipt"] for entry in chain()["entries"]]
    turned[2] = seal({**turned[2], "verdict": "ALLOW", "metadata": {}})
    document = export(turned)
    assert document["head_hash"] == chain()["head_hash"]
    assert failing(document) == {}
    assert failing(export(turned[:2])) == {}
    coverage = checked(document)["chain coverage"]
    assert coverage.status is Status.NOT_CHECKED
    for words in ("verdict", "metadata", "cut off", "verified"):
        assert words in coverage.detail


def test_what_the_export_says_of_itself_counts_for_nothing() -> None:
    assert failing({**chain(), "verified": False}) == {}
    assert "chain links" in failing(
        {**changed(lambda doc: doc["entries"].pop(0)), "verified": True}
    )


@pytest.mark.parametrize("text", ["<script>", "\x1b[2J", "x" * 5_000, "a\u202eb"])
def test_hostile_text_is_escaped_and_cut(text: str) -> None:
    def poison(doc: Document) -> None:
        doc.update(agent_id=text, head_hash=text, chain_length=text)
        for entry in doc["entries"]:
            entry.update(index=text, prev_hash=text, chain_hash=text)
            entry["receipt"]["action_ref"] = text

    for check in checked(changed(poison)).values():
        assert check.detail.isascii()
        assert check.detail.isprintable()
        assert len(check.detail) < 1_000
        assert "script" not in check.detail or "'<script>'" in check.detail


# One receipt.


def test_the_name_of_an_action() -> None:
    document = nobulex()
    assert action_ref(document) == document["action_ref"] == ref_of(document)
    (check,) = check_receipt(bare_receipt(raw(document), "nobulex"))
    assert (check.name, check.status) == ("action refs", Status.PASS)


def test_names_of_one_look_are_one_name() -> None:
    """The hash is over NFC, the signature over what was written."""
    document = nobulex(scope="Cafe\u0301")
    assert document["action_ref"] == nobulex(scope="Caf\u00e9")["action_ref"]
    assert check_receipt(bare_receipt(raw(document), "nobulex"))[0].status is Status.PASS
    wrong = {
        **document,
        "action_ref": sha256_hex(
            jcs(
                {
                    name: document[name]
                    for name in ("agent_id", "action_type", "scope", "timestamp_ms")
                }
            )
        ),
    }
    (check,) = check_receipt(bare_receipt(raw(wrong), "nobulex"))
    assert (check.status, check.reason) == (Status.FAIL, Reason.INVALID_FIELD)


def test_an_empty_scope_is_left_out_of_what_is_written() -> None:
    document = nobulex(scope="")
    del document["scope"]
    assert check_receipt(bare_receipt(raw(document), "nobulex"))[0].status is Status.PASS


# Any change at all.


@given(st.data())
def test_no_hash_or_name_can_change_alone(data: st.DataObject) -> None:
    document = chain()
    entry = data.draw(st.sampled_from(document["entries"]))
    holder, name = data.draw(
        st.sampled_from(
            [
                *((entry, name) for name in ("index", "prev_hash", "chain_hash")),
                *(
                    (entry["receipt"], name)
                    for name in ("agent_id", "action_type", "scope", "timestamp_ms", "action_ref")
                ),
                *((document, name) for name in ("agent_id", "chain_length", "head_hash")),
            ]
        )
    )
    value = data.draw(st.text(max_size=4) | st.integers(-5, 5) | st.none() | st.booleans())
    if holder[name] == value and type(holder[name]) is type(value):
        return
    holder[name] = value
    assert failing(document)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_any_list_of_receipts_is_read_back(numbers: list[int]) -> None:
    receipts = [
        nobulex(ACTIONS[number], metadata={"]": "[", '"': "\\", "n": number}) for number in numbers
    ]
    document = export(receipts)
    for data in (raw(document), json.dumps(document, indent=1).encode(), jcs(document)):
        found = read_export(data)
        assert [parse(one).value for one in found.receipts] == [
            parse(jcs(one)).value for one in receipts
        ]
        assert all(check.status is not Status.FAIL for check in check_export(found))


def test_an_export_is_plain_data() -> None:
    found = read_export(raw(chain()))
    assert isinstance(found, Export)
    assert (found.agent, found.length, found.head) == ("agent-neo", 4, chain()["head_hash"])
    assert [entry.index for entry in found.entries] == [0, 1, 2, 3]
