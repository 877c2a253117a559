"""Canonical bytes and strict parsing for any value and any bytes."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from receiptledger.core import canonical
from receiptledger.core.canonical import DEFAULT_LIMITS, Limits, canonicalize, parse
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings
from tests.helpers.receipts import ALICE, farley, jcs, lesson18

if TYPE_CHECKING:
    from collections.abc import Callable

SAFE = 2**53 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Where orjson and RFC 8785 part: around U+E000, and between the BMP's end and beyond.
ODD_TEXT = st.text(
    st.sampled_from('a\ud7ff\ue000\uffff\U00010000\U0010ffff"\\\x00\x1f\x7f'), max_size=4
)
NAMES = (TEXT | ODD_TEXT).filter(lambda name: name != "__proto__")
NUMBERS = (
    st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(1e-7, 1e-4)
    | st.floats(1e15, 1e22)
    | st.sampled_from([0.0, -0.0, 1e-5, 1e-6, 1e21, 1e22, 5e-324, 1.7976931348623157e308])
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT | ODD_TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)


def strictly(data: bytes) -> canonical.Parsed:
    return canonical._parse_strictly(data, DEFAULT_LIMITS)


def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call returns, or the ReceiptError it raises; any other exception fails the test."""
    try:
        return call(*arguments)
    except ReceiptError as error:
        return error


def outcome(parser: Callable[[bytes], canonical.Parsed], data: bytes) -> tuple[Any, ...]:
    result = attempt(parser, data)
    if isinstance(result, ReceiptError):
        return (result.reason, result.message, result.want, result.got)
    return (result.canonical, result.plain, repr(result.value))


@given(OBJECTS)
def test_canonical_bytes_are_those_of_rfc8785(value: dict[str, Any]) -> None:
    assert canonicalize(value) == rfc8785.dumps(value)


@given(VALUES)
def test_canonical_bytes_of_any_value(value: Any) -> None:
    assert canonicalize(value) == rfc8785.dumps(value)


@given(OBJECTS)
def test_round_trip(value: dict[str, Any]) -> None:
    data = canonicalize(value)
    parsed = parse(data)
    assert parsed.canonical == data
    assert parsed.value == json.loads(data, parse_int=lambda digits: float(digits))
    assert canonicalize(parsed.value) == data


@given(OBJECTS, st.sampled_from([None, 1]), st.booleans())
def test_every_spelling_has_one_canonical_form(
    value: dict[str, Any], indent: int | None, escaped: bool
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=escaped).encode("utf-8")
    parsed = parse(data)
    assert parsed.canonical == rfc8785.dumps(value)
    assert outcome(parse, data) == outcome(strictly, data)


@given(OBJECTS)
def test_the_fast_path_is_the_strict_path(value: dict[str, Any]) -> None:
    data = rfc8785.dumps(value)
    assert outcome(parse, data) == outcome(strictly, data)
    if parse(data).plain:
        assert parse(data).canonical is data


@given(OBJECTS)
def test_a_part_of_a_document_is_canonical_too(value: dict[str, Any]) -> None:
    parsed = parse(rfc8785.dumps(value))
    for name in parsed.value:
        rest = {other: item for other, item in parsed.value.items() if other != name}
        assert parsed.canonical_part(rest) == rfc8785.dumps(rest)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(9007199254740992.0)
@example(1e-5)
@example(math.nextafter(1e-5, 0))
def test_every_double(number: float) -> None:
    data = b'{"v":' + rfc8785.dumps(number) + b"}"
    assert canonicalize({"v": number}) == data
    assert parse(data).canonical == data
    assert parse(data).value["v"] == number


@given(st.integers(-(10**330), 10**330) | st.integers(-(2**70), 2**70))
def test_every_integer_is_the_double_it_means(number: int) -> None:
    data = b'{"v":%d}' % number
    try:
        expected = rfc8785.dumps({"v": number if abs(number) <= SAFE else float(number)})
    except OverflowError:
        with pytest.raises(ReceiptError):
            parse(data)
        with pytest.raises(ReceiptError):
            canonicalize({"v": number})
    else:
        assert parse(data).canonical == expected
        assert canonicalize({"v": number}) == expected


@given(OBJECTS.filter(bool), st.data())
def test_a_member_twice_is_refused_wherever_it_is(
    value: dict[str, Any], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(value)))
    twin = rfc8785.dumps(name) + b":" + rfc8785.dumps(value[name])
    whole = rfc8785.dumps(value)
    for document in (whole[:-1] + b"," + twin + b"}", b"{" + twin + b"," + whole[1:]):
        for outer in (document, b'{"":[0,' + document + b"]}"):
            with pytest.raises(ReceiptError) as caught:
                parse(outer)
            assert caught.value.reason is Reason.MALFORMED
            assert caught.value.message == "a member appears twice"


# Foreign bytes: only ReceiptError may escape.

PIECES = [
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"1", b"-", b".", b"e", b"0", b" ", b"\n"),
    *(b"null", b"true", b"NaN", b'"a"', b'"a":', b"\\u", b"d800", b"\xc3", b"\xbc", b"\xff"),
    *(b'{"a":', b"[" * 40, b"9" * 20, b"1e999", b'"__proto__":', b"\xef\xbb\xbf", b"\x00"),
]
JSONISH = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@given(st.binary(max_size=200) | JSONISH | JSONISH.map(lambda inner: b'{"v":' + inner + b"}"))
def test_any_bytes(data: bytes) -> None:
    result = attempt(parse, data)
    if isinstance(result, ReceiptError):
        assert result.reason in (Reason.MALFORMED, Reason.TOO_LARGE)
        assert len(result.want or "") <= 80
        assert len(result.got or "") <= 100
    else:
        assert result.value == json.loads(data, parse_int=lambda digits: float(digits))
        assert parse(result.canonical).canonical == result.canonical
    assert outcome(parse, data) == outcome(strictly, data)


@given(st.text(max_size=40), st.integers(0, 40))
def test_lone_surrogates_never_pass(text: str, at: int) -> None:
    document = {"v": [text[:at] + "\udc80" + text[at:], {"k\ud800": 1}]}
    with pytest.raises(ReceiptError) as caught:
        parse(json.dumps(document).encode())
    assert "surrogate" in caught.value.message
    with pytest.raises(ReceiptError):
        canonicalize(document)


@given(VALUES, st.integers(1, 4), st.integers(1, 12))
def test_limits_are_exact(value: Any, depth: int, members: int) -> None:
    data = rfc8785.dumps({"v": value})

    def measure(item: Any) -> tuple[int, int]:
        inner = list(item.values()) if isinstance(item, dict) else item
        if not isinstance(inner, list):
            return 0, 0
        depths = [measure(one) for one in inner]
        return 1 + max((d for d, _ in depths), default=0), len(inner) + sum(m for _, m in depths)

    levels, count = measure({"v": value})
    for raw in (data, b" " + data):
        result = attempt(parse, raw, Limits(max_depth=depth, max_members=members))
        if isinstance(result, ReceiptError):
            assert result.reason is Reason.TOO_LARGE
        assert isinstance(result, ReceiptError) == (levels > depth or count > members)


RECEIPTS = [jcs(lesson18()), jcs(farley())]


@given(st.sampled_from(RECEIPTS), st.integers(0, 700), st.integers(0, 30), JSONISH)
def test_any_receipt(raw: bytes, at: int, cut: int, inserted: bytes) -> None:
    """Bytes of a receipt replaced by others: it is read, or refused as a receipt."""
    changed = raw[:at] + inserted + raw[at + cut :]
    result = attempt(lambda: list(readings(changed, Profiles.builtin())))
    if not isinstance(result, ReceiptError):
        assert result
        assert {receipt.raw for receipt in result} == {changed}


@given(st.sampled_from(["type", "agent_id", "sequence", "timestamp", "signature"]), VALUES)
def test_any_member_of_a_receipt(name: str, value: Any) -> None:
    raw = canonicalize({**lesson18(), name: value})
    result = attempt(lambda: next(readings(raw, Profiles.builtin())))
    if isinstance(result, ReceiptError):
        assert result.want
        assert result.got
    else:
        assert result.key_hint == ALICE.key
        assert type(result.sequence) is int
        assert result.content_hash == result.receipt_hash
