"""From checks to a result, an exit code and a report."""

from __future__ import annotations

import json

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.verdict import LIMITS_OF_PROOF, Check, ExitCode, Status, Verdict, json_text

PASS, FAIL, UNKNOWN, SKIPPED = Status.PASS, Status.FAIL, Status.UNKNOWN, Status.NOT_CHECKED
EXPIRED = Status.EXPIRED
OVER = "valid, but a timestamp expired and was not renewed"


def verdict(*statuses: Status, lacking: tuple[str, ...] = (), readable: bool = True) -> Verdict:
    checks = [Check(f"check {at}", status, "words") for at, status in enumerate(statuses)]
    return Verdict(checks, {}, list(lacking), readable)


@pytest.mark.parametrize(
    ("given", "code", "result"),
    [
        (verdict(PASS, PASS), 0, "valid"),
        (verdict(PASS, SKIPPED), 0, "valid"),
        (verdict(PASS, FAIL), 1, "invalid"),
        (verdict(FAIL, UNKNOWN, lacking=("anchor",)), 1, "invalid"),
        (verdict(PASS, UNKNOWN), 3, "undecidable"),
        (verdict(PASS, UNKNOWN, lacking=("anchor",)), 3, "undecidable"),
        (verdict(PASS, PASS, lacking=("anchor",)), 3, "valid, below the asked policy"),
        (verdict(PASS, EXPIRED), 3, OVER),
        (verdict(PASS, EXPIRED, lacking=("anchor",)), 3, OVER),
        (verdict(EXPIRED, UNKNOWN), 3, "undecidable"),
        (verdict(EXPIRED, FAIL), 1, "invalid"),
        (verdict(FAIL, readable=False), 2, "unreadable"),
        (verdict(UNKNOWN, readable=False), 2, "unreadable"),
    ],
)
def test_exit_code_and_result_follow_from_the_checks(
    given: Verdict, code: int, result: str
) -> None:
    assert given.exit_code == code
    assert given.result == result
    assert given.to_dict()["exit_code"] == code
    assert given.to_dict()["result"] == result


def test_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "VALID": 0,
        "INVALID": 1,
        "UNREADABLE": 2,
        "BELOW_POLICY": 3,
    }


def test_the_report_has_one_form() -> None:
    given = Verdict(
        [
            Check("parse", PASS, "one receipt"),
            Check("signature", FAIL, "does not hold", Reason.BAD_SIGNATURE),
            Check("timestamps", SKIPPED, "none \N{EM DASH} no proof"),
        ],
        {"position": 3, "agent": "z\N{LATIN SMALL LETTER E WITH ACUTE}", "state": None},
        ["anchor"],
    )
    assert given.to_json() == (
        "{\n"
        '  "result": "invalid",\n'
        '  "exit_code": 1,\n'
        '  "checks": [\n'
        '    {\n      "name": "parse",\n      "status": "pass",\n      "reason": null,\n'
        '      "detail": "one receipt"\n    },\n'
        '    {\n      "name": "signature",\n      "status": "fail",\n'
        '      "reason": "bad_signature",\n      "detail": "does not hold"\n    },\n'
        '    {\n      "name": "timestamps",\n      "status": "not checked",\n'
        '      "reason": null,\n      "detail": "none \N{EM DASH} no proof"\n    }\n'
        "  ],\n"
        '  "facts": {\n    "position": 3,\n'
        '    "agent": "z\N{LATIN SMALL LETTER E WITH ACUTE}",\n    "state": null\n  },\n'
        '  "timestamps": [],\n'
        '  "lacking": [\n    "anchor"\n  ],\n'
        f'  "not_proven": {json.dumps(LIMITS_OF_PROOF)}\n'
        "}"
    )


@pytest.mark.parametrize(
    "character",
    [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F)]
    + [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800, 0xDFFF)],
    ids=lambda character: f"U+{ord(character):04X}",
)
def test_reports_hold_nothing_that_a_terminal_obeys(character: str) -> None:
    """Names in certificates and receipts come from strangers, and reports are looked at in terminals."""
    named = Verdict(facts={"agent": f"a{character}b"}).to_json()
    for given in (json_text({character: [f"a{character}b"]}), named.replace("\n", "")):
        assert character not in given
    assert json.loads(json_text([character])) == [character]


def test_letters_stay_as_they_are() -> None:
    text = "\N{LATIN SMALL LETTER E WITH ACUTE}\N{HIRAGANA LETTER A}\N{GRINNING FACE}\\u0085"
    assert json_text(text) == json.dumps(text, ensure_ascii=False)
    assert json_text({"a": [1]}, indent=2) == '{\n  "a": [\n    1\n  ]\n}'


def test_every_report_says_what_is_not_proven() -> None:
    for given in (verdict(PASS), verdict(FAIL), verdict(readable=False)):
        assert "not show that the action was right" in given.to_dict()["not_proven"]
