"""What is beside single receipts: sources and claims, chains outside receipts, and pairs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt_check import GivenKey, Outcome
from receiptledger.core.verdict import Status
from receiptledger.receipt_evidence import (
    Document,
    Evidence,
    check_documents,
    pair_up,
    report_pairing,
)
from tests.helpers.cases import named
from tests.helpers.forge import raw
from tests.helpers.forge_answerproof import CONTENTS, answerproof, respelled, seal
from tests.helpers.forge_nobulex import export, nobulex
from tests.helpers.forge_nobulex import seal as seal_action
from tests.helpers.forge_together import actions, pairs
from tests.helpers.receipts import ALICE, MALLORY, lesson18

if TYPE_CHECKING:
    from collections.abc import Mapping

    from receiptledger.core.verdict import Check

PROFILES = Profiles.builtin()
KEYS = (GivenKey(ALICE.key),)
OTHERS = {"other": "Contents of another answer."}


def checked(*receipts: Any, sources: Mapping[str, str] | None = None, keys: Any = KEYS) -> Evidence:
    raws = [one if isinstance(one, bytes) else raw(one) for one in receipts]
    documents = [Document(f"d{at}", one) for at, one in enumerate(raws)]
    return check_documents(documents, keys, PROFILES, sources=sources)


def told(evidence: Evidence) -> tuple[str, Reason | None]:
    return evidence.outcome.value, evidence.reason


def by_name(checks: list[Check]) -> dict[str, Status]:
    return {check.name: check.status for check in checks}


# Answers and their sources.


def test_an_answer_with_all_its_sources() -> None:
    evidence = checked(answerproof(), sources=CONTENTS)
    assert told(evidence) == ("valid", None)
    found = by_name(evidence.findings[0].checks)
    assert set(found.values()) == {Status.PASS}
    assert "source contents" in found


def test_without_sources_their_contents_are_not_checked() -> None:
    evidence = checked(answerproof())
    assert evidence.outcome is Outcome.VALID
    found = by_name(evidence.findings[0].checks)
    assert found["merkle root"] is Status.PASS
    assert found["source contents"] is Status.NOT_CHECKED


def payload(**members: Any) -> dict[str, Any]:
    return {**answerproof()["payload"], **members}


@pytest.mark.parametrize(
    ("members", "check", "reason"),
    named(
        {
            "another root": ({"merkle_root": "00" * 32}, "merkle root", Reason.BAD_PROOF),
            "a source that is not there": (
                {"cited_source_ids": ["kb-1", "kb-2", "kb-9"]},
                "cited sources",
                Reason.INVALID_FIELD,
            ),
            "a quote that is not in the answer": (
                {"answer": "Something else."},
                "citations",
                Reason.INVALID_FIELD,
            ),
        }
    ),
)
def test_what_an_answer_says_of_itself_must_fit(
    members: dict[str, Any], check: str, reason: Reason
) -> None:
    """The signature holds: the signer lied, or erred."""
    evidence = checked(seal(payload(**members)))
    finding = evidence.findings[0]
    assert finding.key == ALICE.key
    assert told(evidence) == ("invalid", reason)
    assert finding.detail.startswith(f"{check}: ")
    assert by_name(finding.checks)[check] is Status.FAIL


def test_a_source_with_another_content() -> None:
    evidence = checked(answerproof(), sources={**CONTENTS, "kb-2": "Shipping is free."})
    assert told(evidence) == ("invalid", Reason.BAD_PROOF)
    assert "source contents: the content given for 'kb-2'" in evidence.findings[0].detail


def test_a_score_that_may_depend_on_the_version_of_unicode_is_undecidable() -> None:
    quote = "Größere Pakete kosten mehr."
    made = answerproof(sentences=(quote,))["payload"]
    made["citations"][0]["score"] = 0.25
    evidence = checked(seal(made), sources=CONTENTS)
    assert told(evidence) == ("undecidable", None)
    assert evidence.findings[0].detail.startswith("overlap: score of citation 0 is 0.25")
    # Nothing that is unsure makes a forged receipt undecidable.
    forged = checked(seal(made, MALLORY), sources=CONTENTS)
    assert told(forged) == ("invalid", Reason.WRONG_KEY)
    # What is undecidable already keeps the reason that came first.
    assert told(checked(seal(made), sources=CONTENTS, keys=())) == (
        "undecidable",
        Reason.UNKNOWN_KEY,
    )


def test_a_receipt_that_was_changed_stays_a_bad_signature() -> None:
    changed = answerproof()
    changed["payload"]["merkle_root"] = "00" * 32
    evidence = checked(changed)
    assert told(evidence) == ("invalid", Reason.BAD_SIGNATURE)
    assert by_name(evidence.findings[0].checks)["merkle root"] is Status.FAIL


def test_one_set_of_sources_for_several_answers() -> None:
    other = answerproof(OTHERS, tuple(OTHERS.values()))
    both = checked(answerproof(), other, sources={**CONTENTS, **OTHERS})
    assert told(both) == ("valid", None)
    assert [by_name(one.checks)["source contents"] for one in both.findings] == [Status.PASS] * 2
    one = checked(answerproof(), other, sources=OTHERS)
    assert [by_name(each.checks)["source contents"] for each in one.findings] == [
        Status.NOT_CHECKED,
        Status.PASS,
    ]


def test_a_content_no_receipt_has_fails() -> None:
    evidence = checked(answerproof(), sources={**CONTENTS, "kb-9": "?"})
    assert told(evidence) == ("invalid", Reason.BAD_PROOF)
    assert "'kb-9' is no source of this receipt" in evidence.findings[0].detail


def test_sources_nothing_was_held_against_leave_it_undecided() -> None:
    """Else a receipt of another format, signed as well, would pass for the answer asked about."""
    evidence = checked(lesson18(), sources=CONTENTS)
    assert evidence.findings[0].outcome is Outcome.VALID
    assert told(evidence) == ("undecidable", None)
    assert by_name(evidence.beside[0].checks) == {"source contents": Status.UNKNOWN}
    assert told(checked(lesson18())) == ("valid", None)


def test_respelled_numbers_are_named_and_stay_invalid() -> None:
    evidence = checked(respelled(raw(answerproof())), sources=CONTENTS)
    assert told(evidence) == ("invalid", Reason.BAD_SIGNATURE)
    diagnosis = evidence.findings[0].diagnosis
    assert diagnosis is not None
    assert "(1.0, not 1" in diagnosis


# nobulex: actions, and the chain around them.


def test_an_export() -> None:
    evidence = checked(export(actions()))
    assert told(evidence) == ("valid", None)
    assert [one.name for one in evidence.findings] == [f"d0 entry {at}" for at in range(3)]
    assert all(one.key == ALICE.key for one in evidence.findings)
    found = by_name(evidence.beside[0].checks)
    assert found.pop("chain coverage") is Status.NOT_CHECKED
    assert set(found.values()) == {Status.PASS}


def test_an_export_is_not_trusted_for_saying_that_it_is_verified() -> None:
    document = export(actions())
    document["entries"][1]["receipt"]["verdict"] = "DENY"
    evidence = checked(document)
    assert told(evidence) == ("invalid", Reason.BAD_SIGNATURE)
    assert [one.outcome.value for one in evidence.findings] == ["valid", "invalid", "valid"]
    # The chain does not commit to verdicts, so it alone shows nothing.
    assert Status.FAIL not in by_name(evidence.beside[0].checks).values()


def test_an_export_with_an_entry_left_out() -> None:
    document = export(actions())
    del document["entries"][1]
    evidence = checked(document)
    assert [one.outcome for one in evidence.findings] == [Outcome.VALID] * 2
    assert evidence.outcome is Outcome.INVALID
    found = by_name(evidence.beside[0].checks)
    assert (found["chain form"], found["chain links"]) == (Status.FAIL, Status.FAIL)
    assert evidence.reason is Reason.INVALID_FIELD


def test_an_action_ref_of_other_members() -> None:
    document = seal_action({**nobulex(), "action_ref": "00" * 32})
    evidence = checked(document)
    assert told(evidence) == ("invalid", Reason.INVALID_FIELD)
    assert evidence.findings[0].detail.startswith("action refs: ")


def test_an_entry_of_another_form() -> None:
    document = export(actions())
    document["entries"][0]["more"] = 1
    evidence = checked(document)
    assert evidence.findings == []
    assert told(evidence) == ("invalid", Reason.INVALID_FIELD)
    assert by_name(evidence.beside[0].checks) == {"chain form": Status.FAIL}


def test_an_export_of_nothing_shows_nothing() -> None:
    evidence = checked(export([]))
    assert told(evidence) == ("undecidable", None)


@pytest.mark.parametrize(
    "data",
    named(
        {
            "a member twice": raw(export(actions())).replace(b"{", b'{"verified":true,', 1),
            "another member": raw({**export(actions()), "more": 1}),
        }
    ),
)
def test_what_is_no_export_is_no_receipt_either(data: bytes) -> None:
    evidence = checked(data)
    assert evidence.beside == []
    assert evidence.outcome is Outcome.INVALID
    assert evidence.reason in (Reason.MALFORMED, Reason.UNKNOWN_PROFILE)


# Pairs.


BOTH = (*KEYS, GivenKey(MALLORY.key))


def test_halves_are_paired() -> None:
    evidence = checked(*pairs(), keys=BOTH)
    assert told(evidence) == ("valid", None)
    report = report_pairing(pair_up(evidence.findings), evidence.findings)
    assert report["pairs"] == [
        {"intent": "d0", "outcome": "d2", "seconds": 2.0, "two_signers": True}
    ]
    assert [one["intent"] for one in report["unpaired_intents"]] == ["d1"]
    assert (report["findings"], report["findings_not_listed"]) == ([], 0)


def test_only_what_a_given_key_signed_is_paired() -> None:
    evidence = checked(*pairs())
    found = pair_up(evidence.findings)
    assert found.pairs == []
    assert len(found.unpaired) == 2


def test_an_outcome_by_the_one_who_asked() -> None:
    evidence = checked(*pairs(ALICE), keys=BOTH)
    report = report_pairing(pair_up(evidence.findings), evidence.findings)
    assert report["pairs"][0]["two_signers"] is False
    (fault,) = report["findings"]
    assert (fault["fault"], fault["receipt"], fault["other"]) == (
        "both halves by one signer",
        "d2",
        "d0",
    )


def test_intents_that_wait_too_long() -> None:
    evidence = checked(*pairs(), keys=BOTH)
    now = datetime(2020, 5, 1, 1, tzinfo=UTC)
    for limit, overdue in ((timedelta(minutes=59), 1), (timedelta(hours=1), 0)):
        assert len(pair_up(evidence.findings, now, limit).overdue) == overdue
