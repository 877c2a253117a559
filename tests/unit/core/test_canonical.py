"""Strict parsing and RFC 8785: published vectors, our own, and everything that is refused."""

from __future__ import annotations

import math
import time
from enum import IntEnum, StrEnum
from typing import Any

import orjson
import pytest

from receiptledger.core.canonical import (
    DEFAULT_LIMITS,
    MAX_DEPTH,
    Limits,
    canonicalize,
    describe,
    parse,
    shown,
)
from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers.receipts import jcs, lesson18, pretty


def refused(data: bytes, limits: Limits = DEFAULT_LIMITS) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        parse(data, limits)
    assert caught.value.want
    assert caught.value.got
    return caught.value


# RFC 8785, examples of section 3.2.2, 3.2.3 and appendix B, and the rules orjson breaks.
OWN_VECTORS = [
    (
        (
            r'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
            r'"string":"\u20ac$\u000F\u000aA\u0027\u0042\u0022\u005c\\\"\/",'
            r'"literals":[null,true,false]}'
        ),
        (
            '{"literals":[null,true,false],'
            '"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ),
    ),
    (
        (
            r'{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",'
            r'"1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",'
            r'"\u00f6":"Latin Small Letter O With Diaeresis"}'
        ),
        (
            '{"\\r":"Carriage Return","1":"One","\x80":"Control",'
            '"ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign",'
            '"😀":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}'
        ),
    ),
    ('{"v":1.0}', '{"v":1}'),
    ('{"v":-0.0}', '{"v":0}'),
    ('{"v":-0}', '{"v":0}'),
    ('{"v":1e16}', '{"v":10000000000000000}'),
    ('{"v":1e21}', '{"v":1e+21}'),
    ('{"v":0.00001}', '{"v":0.00001}'),
    ('{"v":0.000001}', '{"v":0.000001}'),
    ('{"v":0.0000015}', '{"v":0.0000015}'),
    ('{"v":1e-7}', '{"v":1e-7}'),
    ('{"v":1e-400}', '{"v":0}'),
    ('{"v":9007199254740991}', '{"v":9007199254740991}'),
    ('{"v":-9007199254740991}', '{"v":-9007199254740991}'),
    ('{"v":9007199254740992}', '{"v":9007199254740992}'),
    ('{"v":9007199254740993}', '{"v":9007199254740992}'),
    ('{"v":99999999999999999}', '{"v":100000000000000000}'),
    ('{"v":18446744073709551616}', '{"v":18446744073709552000}'),
    ('{"v":100000000000000000000}', '{"v":100000000000000000000}'),
    ('{"v":' + "1" * 300 + "}", '{"v":1.1111111111111112e+299}'),
    ('{"a":{"b":[[],{},[{}]]},"":""}', '{"":"","a":{"b":[[],{},[{}]]}}'),
    ('{"10":1,"9":2,"1":3}', '{"1":3,"10":1,"9":2}'),
    ('{"x__proto__":1}', '{"x__proto__":1}'),
    ('{"v":"__proto__"}', '{"v":"__proto__"}'),
    ('{"v":"\\ud83d\\ude00\x7f\u2028"}', '{"v":"😀\x7f\u2028"}'),
    (' \t\r\n{ "b" : [ 1 , 2 ] , "a" : "x" } \n', '{"a":"x","b":[1,2]}'),
    ('{"中文":1,"é":2}', '{"é":2,"中文":1}'),
]


@pytest.mark.parametrize(("source", "canonical"), OWN_VECTORS)
def test_own_vectors(source: str, canonical: str) -> None:
    expected = canonical.encode()
    parsed = parse(source.encode())
    assert parsed.canonical == expected
    assert canonicalize(parsed.value) == expected
    assert parse(expected).canonical == expected  # idempotent: issue 46 of PyPI rfc8785 is not


REFUSED = [
    ("empty", b"", "not one JSON document"),
    ("blank", b" \n", "not one JSON document"),
    ("cut", b'{"a":1', "not one JSON document"),
    ("trailing text", b'{"a":1} x', "not one JSON document"),
    ("trailing object", b'{"a":1}{"a":1}', "not one JSON document"),
    ("trailing NUL", b'{"a":1}\x00', "not one JSON document"),
    ("trailing comma", b'{"a":1,}', "not one JSON document"),
    ("comment", b'{"a":1/**/}', "not one JSON document"),
    ("single quotes", b"{'a':1}", "not one JSON document"),
    ("no-break space", '{"a":\N{NO-BREAK SPACE}1}'.encode(), "not one JSON document"),
    ("raw control character", b'{"a":"\x01"}', "not one JSON document"),
    ("raw newline in text", b'{"a":"\n"}', "not one JSON document"),
    ("bad escape", b'{"a":"\\x41"}', "not one JSON document"),
    ("short escape", b'{"a":"\\u12"}', "not one JSON document"),
    ("leading zero", b'{"a":01}', "not one JSON document"),
    ("plus sign", b'{"a":+1}', "not one JSON document"),
    ("no digit after the point", b'{"a":1.}', "not one JSON document"),
    ("hexadecimal", b'{"a":0x10}', "not one JSON document"),
    ("Arabic digit", '{"a":\N{ARABIC-INDIC DIGIT ONE}}'.encode(), "not one JSON document"),
    ("array", b"[1]", "not a JSON object"),
    ("array of arrays", b"[[],{}]", "not a JSON object"),
    ("text", b'"a"', "not a JSON object"),
    ("number", b"1", "not a JSON object"),
    ("boolean", b"true", "not a JSON object"),
    ("null", b"null", "not a JSON object"),
    ("byte order mark", b'\xef\xbb\xbf{"a":1}', "byte order mark"),
    ("UTF-16", '{"a":1}'.encode("utf-16"), "not UTF-8"),
    ("overlong UTF-8", b'{"a":"\xc0\x80"}', "not UTF-8"),
    ("surrogate in UTF-8", b'{"a":"\xed\xa0\x80"}', "not UTF-8"),
    ("beyond U+10FFFF", b'{"a":"\xf4\x90\x80\x80"}', "not UTF-8"),
    ("cut character", b'{"a":"\xe2\x82"}', "not UTF-8"),
    ("twin members", b'{"a":1,"a":1}', "appears twice"),
    ("twin members, escaped", b'{"a":1,"\\u0061":2}', "appears twice"),
    ("twin members inside", b'{"v":[{"b":{"a":1,"c":2,"a":1}}]}', "appears twice"),
    ("__proto__", b'{"__proto__":1}', "forbidden"),
    ("__proto__ inside", b'{"a":[{"__proto__":{}}]}', "forbidden"),
    ("__proto__ escaped", b'{"\\u005f_proto__":1}', "forbidden"),
    ("lone high surrogate", b'{"a":"\\ud800"}', "surrogate"),
    ("lone low surrogate", b'{"a":"\\udc00 x"}', "surrogate"),
    ("swapped surrogates", b'{"a":"\\ude00\\ud83d"}', "surrogate"),
    ("surrogate in a name", b'{"\\ud800":1}', "surrogate"),
    ("surrogate beside a float", b'{"a":1.0,"b":"\\udfff"}', "surrogate"),
    ("NaN", b'{"a":NaN}', "finite"),
    ("Infinity", b'{"a":Infinity}', "finite"),
    ("-Infinity", b'{"a":[-Infinity]}', "finite"),
    ("overflow", b'{"a":1e400}', "finite"),
    ("negative overflow", b'{"a":-1e400}', "finite"),
    ("integer overflow", b'{"a":' + b"9" * 400 + b"}", "finite"),
    ("integer of 5,000 digits", b'{"a":' + b"9" * 5_000 + b"}", "finite"),
]


@pytest.mark.parametrize(
    ("data", "fragment"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_refused_documents(data: bytes, fragment: str) -> None:
    error = refused(data)
    assert error.reason is Reason.MALFORMED
    assert fragment in error.message


def test_messages_name_twins_and_offsets_but_show_no_content() -> None:
    assert refused(b'{"pin":"4711","pin":"4712"}').got == "'pin'"
    assert refused(b'{"secret":"4711\xff"}').got == "a bad byte at offset 15"
    assert refused(b'{"v":1e400}').got == "a number of 5 characters"
    assert refused(b'{"v":NaN}').got == "NaN"
    long = refused(b'{"%s":1,"%s":1}' % (b"n" * 500, b"n" * 500)).got
    assert long is not None
    assert len(long) == 80
    for data in (b'{"pin":"4711","pin":"4712"}', b'{"a":"4711', b'{"a":"4711\xff"}', b'["4711"]'):
        assert "4711" not in str(refused(data))


def nested(depth: int) -> bytes:
    """An object that holds arrays inside each other, `depth` containers in all."""
    return b'{"v":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_depth_is_bounded_exactly_in_both_paths() -> None:
    assert parse(nested(32)).canonical == nested(32)
    assert parse(b" " + nested(32)).canonical == nested(32)
    for data in (nested(33), b" " + nested(33), b'{"a":1.0,"b":' + nested(32) + b"}"):
        error = refused(data)
        assert error.reason is Reason.TOO_LARGE
        assert error.want == "at most 32 levels"
    objects = b'{"a":' * 32 + b"1" + b"}" * 32
    assert parse(objects).canonical == objects
    assert refused(b'{"a":' + objects + b"}").reason is Reason.TOO_LARGE


def test_depth_counts_no_brackets_in_text() -> None:
    text = b'{"a":"' + b"[{" * 500 + rb"\"[[\\" + b'","b":"]]"}'
    assert parse(text).canonical == text
    assert parse(b" " + text).canonical == text


def test_the_deepest_limit_is_safe_in_both_paths() -> None:
    limits = Limits(max_depth=MAX_DEPTH)
    assert parse(nested(MAX_DEPTH), limits).canonical == nested(MAX_DEPTH)
    floats = b'{"v":' + b"[" * (MAX_DEPTH - 1) + b"1.0" + b"]" * (MAX_DEPTH - 1) + b"}"
    assert parse(floats, limits).canonical == floats.replace(b"1.0", b"1")


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b'{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'["' + b"[" * 100_000,
        b'"' + b'\\"' * 100_000,
        b'{"v":[' + b'"\\' * 100_000,
        b"[" + b'"a",' * 60_000,
        b"]" * 100_000 + b"[" * 100_000,
        b'{"v":' + b"1" * 200_000 + b"}",
        b'{"v":0.' + b"1" * 200_000 + b"e-5}]",
        b'{"v":"' + b"\xc3" * 200_000 + b'"}',
    ],
    ids=range(11),
)
def test_hostile_documents_are_refused_quickly(data: bytes) -> None:
    limits = Limits(max_bytes=1_000_000, max_members=100_000)
    started = time.process_time()
    refused(data, limits)
    assert time.process_time() - started < 1.0


def test_orjson_refuses_depth_before_it_recurses() -> None:
    # The fast path relies on this limit of orjson; below it, our own is exact.
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(b"[" * 1_025 + b"]" * 1_025)


def test_size_is_bounded() -> None:
    data = b'{"a":"' + b"x" * 65_528 + b'"}'
    assert len(data) == 65_536
    assert parse(data).canonical is data
    error = refused(data.replace(b"a", b"ab", 1))
    assert error.reason is Reason.TOO_LARGE
    assert (error.want, error.got) == ("at most 65536 bytes", "65537 bytes")


@pytest.mark.parametrize("space", [b"", b" "])
def test_members_and_elements_are_bounded_together(space: bytes) -> None:
    def document(elements: int) -> bytes:  # "v", "w", "{}" and the elements
        return space + b'{"v":[{},' + b",".join([b'","'] * elements) + b'],"w":[]}'

    assert parse(document(1_021)).value["w"] == []
    error = refused(document(1_022))
    assert error.reason is Reason.TOO_LARGE
    assert (error.want, error.got) == ("at most 1024 members", "1025")


@pytest.mark.parametrize(
    "bounds",
    [{"max_bytes": 0}, {"max_depth": 0}, {"max_members": 0}, {"max_depth": MAX_DEPTH + 1}],
)
def test_limits_that_make_no_sense(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be (positive|at most 128)"):
        Limits(**bounds)


def test_a_canonical_document_is_given_back_as_it_came() -> None:
    data = jcs(lesson18())
    parsed = parse(data)
    assert parsed.canonical is data
    assert parsed.plain
    other = parse(pretty(lesson18()))
    assert other.canonical == data
    assert other.value == parsed.value
    assert other.plain


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ('{"v":0.5}', True),
        ('{"v":0.00001}', True),
        ('{"v":-12345.678}', True),
        ('{"v":4503599627370495.5}', True),
        ('{"v":0.000009}', False),
        ('{"v":1.0}', False),
        ('{"v":9007199254740992}', False),
        ('{"v":1e300}', False),
        ('{"\ue000":1}', False),
        ('{"\ud7ff":1}', True),
        ('{"v":"\ue000"}', True),
    ],
)
def test_plain_tells_whether_orjson_writes_jcs(source: str, plain: bool) -> None:
    parsed = parse(source.encode())
    assert parsed.plain is plain
    assert parsed.canonical_part(parsed.value) == parsed.canonical == jcs(parsed.value)


class Word(StrEnum):
    ONE = "one"


class Digit(IntEnum):
    ONE = 1


class Ratio(float):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", b'"a"'),
        (1, b"1"),
        (None, b"null"),
        (True, b"true"),
        (1.0, b"1"),
        ((1, (2,)), b"[1,[2]]"),
        ({Word.ONE: Word.ONE}, b'{"one":"one"}'),
        ({"b": Digit.ONE, "a": Ratio(0.5)}, b'{"a":0.5,"b":1}'),
        ({"v": 10**300}, b'{"v":1e+300}'),
        ({"v": -(2**53)}, b'{"v":-9007199254740992}'),
        ({"__proto__": 1}, b'{"__proto__":1}'),
    ],
)
def test_values_of_our_own(value: Any, expected: bytes) -> None:
    assert canonicalize(value) == expected


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        ({"v": math.nan}, "finite"),
        ({"v": math.inf}, "finite"),
        ({"v": -math.inf}, "finite"),
        ({"v": 10**400}, "finite"),
        ({1: "a"}, "name is not text"),
        ({None: "a", "b": 1}, "name is not text"),
        ({"v": b"a"}, "no JSON form"),
        ({"v": {1, 2}}, "no JSON form"),
        ({"v": object()}, "no JSON form"),
        (b"a", "no JSON form"),
        ({"v": "\ud800"}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        ("\udfff", "surrogate"),
    ],
)
def test_values_without_canonical_form(value: Any, fragment: str) -> None:
    with pytest.raises(ReceiptError) as caught:
        canonicalize(value)
    assert caught.value.reason is Reason.MALFORMED
    assert fragment in caught.value.message


def test_a_value_that_holds_itself() -> None:
    value: dict[str, Any] = {}
    value["v"] = [value]
    with pytest.raises(ReceiptError) as caught:
        canonicalize(value)
    assert caught.value.reason is Reason.TOO_LARGE


def test_descriptions_show_no_content() -> None:
    values = (None, True, 1, -1.5, "abc", {"a": 1}, [1])
    assert [describe(value) for value in values] == [
        "null",
        "a boolean",
        "the number 1",
        "the number -1.5",
        "text of 3 characters",
        "an object",
        "an array",
    ]
    assert shown("a\n\N{RIGHT-TO-LEFT OVERRIDE}") == "'a\\n\\u202e'"
    assert len(shown("\U0001f600" * 80)) == 80
    assert shown("x" * 78) == "'" + "x" * 78 + "'"
