"""What parsers read differently is found, named with its path, and nothing else is."""

from __future__ import annotations

import pytest

from receiptledger.core.canonical import parse
from receiptledger.core.profile import Profiles
from receiptledger.core.profiles import read_sources
from receiptledger.core.receipt import readings
from receiptledger.core.spelling import MAX_ODDITIES, flagged, oddities
from tests.helpers.cases import named
from tests.helpers.receipts import farley, jcs

INDICES = "names that are array indices, which JavaScript lists in another order,"


def odd(text: str) -> tuple[str, ...]:
    raw = text.encode()
    parse(raw)
    return oddities(raw)


@pytest.mark.parametrize(
    ("text", "expected"),
    named(
        {
            "a big integer": ('{"a":9007199254740992}', "an integer beyond 2^53-1 at 'a'"),
            "a big negative one": ('{"a":-9007199254740993}', "an integer beyond 2^53-1 at 'a'"),
            "minus zero": ('{"a":-0}', "minus zero at 'a'"),
            "minus zero as a fraction": ('{"a":[1,-0.0]}', "minus zero at 'a[1]'"),
            "minus zero with an exponent": ('{"a":-0e5}', "minus zero at 'a'"),
            "one and a fraction": (
                '{"a":{"b":1.0}}',
                "an integer written with a fraction or an exponent at 'a.b'",
            ),
            "an exponent": (
                '{"a":1e2}',
                "an integer written with a fraction or an exponent at 'a'",
            ),
            "many digits": (
                '{"a":0.12345678901234567890}',
                "a number of more digits than an IEEE double keeps at 'a'",
            ),
            "too small a number": (
                '{"a":1e-400}',
                "an integer written with a fraction or an exponent at 'a'",
            ),
            "indices": ('{"10":1,"9":2}', f"{INDICES} at the top"),
            "indices inside": ('{"a":{"b":[{"x":0,"2":0,"-":0}]}}', f"{INDICES} at 'a.b[0]'"),
            "an odd name": ('{"\\u001b":-0}', "minus zero at '\\x1b'"),
        }
    ),
)
def test_what_is_read_differently(text: str, expected: str) -> None:
    assert odd(text) == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a":0,"b":-1,"c":0.5,"d":9007199254740991,"e":-9007199254740991,"f":[true,null,"1.0"]}',
        '{"a":0.10,"b":1e-7,"c":1.5E-3,"d":0.1e-5}',
        '{"1":0,"2":0,"a":0}',
    ],
)
def test_what_every_parser_reads_alike(text: str) -> None:
    assert odd(text) == ()


def test_what_is_no_array_index_is_sorted_as_ever() -> None:
    assert odd('{"4294967295":0,"a":1}') == ()  # one more than the largest index
    assert odd('{"01":0,"a":1}') == ()
    assert odd('{"4294967294":0,"5":1}') == (f"{INDICES} at the top",)


def test_not_more_than_a_few_are_named() -> None:
    found = odd('{"a":[' + ",".join(["1.0"] * 100) + "]}")
    assert len(found) == MAX_ODDITIES + 1
    assert found[0].endswith("'a[0]'")
    assert found[-1] == "and more"


# Only what the signature does not tell apart is flagged.

DRAFT = dict(read_sources())["draft-farley-04.toml"]


def flags(raw: bytes, canon: str = "jcs") -> tuple[str, ...]:
    """Of a receipt of draft-farley-04 signed in some dialect."""
    text = DRAFT.replace('"draft-farley-04"', '"mine"').replace(
        'canon = "jcs"', f'canon = "{canon}"', 1
    )
    profiles = Profiles.with_folder([("mine.toml", text)])
    return flagged(next(readings(raw, profiles, profile="mine")), profiles)


FRACTION = jcs(farley(amount=1)).replace(b'"amount":1,', b'"amount":1.0,')
BIG = jcs(farley(amount=1)).replace(b'"amount":1,', b'"amount":9007199254740993,')


@pytest.mark.parametrize("canon", ["jcs", "js-object"])
def test_a_spelling_the_signature_holds_for_is_flagged(canon: str) -> None:
    words = "an integer written with a fraction or an exponent at 'payload.amount'"
    assert flags(FRACTION, canon) == (words,)
    assert flags(BIG, canon) == ("an integer beyond 2^53-1 at 'payload.amount'",)


@pytest.mark.parametrize("canon", ["py", "py-ascii", "verbatim-number"])
def test_a_spelling_that_is_signed_is_not(canon: str) -> None:
    assert flags(FRACTION, canon) == flags(BIG, canon) == ()


def test_a_plain_receipt_is_not() -> None:
    assert flags(jcs(farley(amount=1))) == ()


def test_a_spelling_the_format_refuses_is_not() -> None:
    """Then nobody can write it. Here the refusal is another format's, put into the reading's place."""
    raw = jcs(farley()).replace(b'"payload":{', b'"payload":{"x":-0,')
    profiles = Profiles.builtin()
    receipt = next(readings(raw, profiles))
    assert flagged(receipt, profiles) == ("minus zero at 'payload.x'",)
    receipt.profile = "ms-lesson18"
    assert flagged(receipt, profiles) == ()
