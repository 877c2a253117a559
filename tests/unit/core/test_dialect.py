"""Canonical dialects: where each differs from the others, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785

from receiptledger.core import canonical
from receiptledger.core.canonical import parse
from receiptledger.core.dialect import DIALECTS, EXACT_DIALECTS, Source, encode
from receiptledger.core.errors import Reason, ReceiptError


def source(document: bytes, base: tuple[str, ...] = ()) -> Source:
    return Source(parse(document), document, base)


def whole(dialect: str, document: bytes) -> bytes:
    """The document in a dialect, from the form of it that the dialect wants."""
    given = source(document)
    return encode(dialect, given.exact if dialect in EXACT_DIALECTS else given.parsed.value, given)


def value(dialect: str, text: str) -> str:
    """One value in a dialect, as the only member of a document."""
    result = whole(dialect, b'{"v":' + text.encode() + b"}").decode()
    assert result.startswith('{"v":')
    return result[5:-1]


def malformed(dialect: str, part: Any) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        encode(dialect, part, source(b"{}"))
    assert caught.value.reason == Reason.MALFORMED
    assert caught.value.want
    assert caught.value.got
    return caught.value


def test_the_dialects_there_are() -> None:
    assert DIALECTS == (
        "jcs",
        "py",
        "py-ascii",
        "jcs-ascii-nfc",
        "js-object",
        "verbatim-number",
        "as-carried",
    )
    assert set(DIALECTS) - EXACT_DIALECTS == {"jcs", "js-object"}


@pytest.mark.parametrize("dialect", ["", "JCS", "rfc8785", "py_ascii"])
def test_other_dialects(dialect: str) -> None:
    with pytest.raises(ValueError, match=r"expected a dialect of jcs, py, .*, got"):
        encode(dialect, {}, source(b"{}"))


NUMBERS = """
written                 jcs                      py                       jcs-ascii-nfc
0                       0                        0                        0
-0                      0                        0                        0
-0.0                    0                        -0.0                     0
1.0                     1                        1.0                      1
1.10                    1.1                      1.1                      1.1
1e2                     100                      100.0                    100
1E+2                    100                      100.0                    100
0.0001                  0.0001                   0.0001                   0.0001
0.00001                 0.00001                  1e-05                    1e-5
0.0000012               0.0000012                1.2e-06                  1.2e-6
1e-7                    1e-7                     1e-07                    1e-7
1e-10                   1e-10                    1e-10                    1e-10
9007199254740991        9007199254740991         9007199254740991         9007199254740991
9007199254740993        9007199254740992         9007199254740993         9007199254740993
9007199254740993.0      9007199254740992         9007199254740992.0       9007199254740992
1e15                    1000000000000000         1000000000000000.0       1000000000000000
1e16                    10000000000000000        1e+16                    1e16
123456789012345680.0    123456789012345680       1.2345678901234568e+17   1.2345678901234568e17
1e20                    100000000000000000000    1e+20                    1e20
100000000000000000001   100000000000000000000    100000000000000000001    100000000000000000001
1e21                    1e+21                    1e+21                    1e21
-1.5e300                -1.5e+300                -1.5e+300                -1.5e300
5e-324                  5e-324                   5e-324                   5e-324
"""
ROWS = [line.split() for line in NUMBERS.strip().splitlines()[1:]]


@pytest.mark.parametrize(("written", "jcs", "py", "nfc"), ROWS)
def test_numbers(written: str, jcs: str, py: str, nfc: str) -> None:
    assert value("jcs", written) == jcs
    assert value("js-object", written) == jcs
    assert value("py", written) == py
    assert value("py-ascii", written) == py
    assert value("jcs-ascii-nfc", written) == nfc
    assert value("verbatim-number", written) == written
    assert value("as-carried", written) == written


TEXTS = [
    # as carried, RFC 8785 and Python, ASCII, ASCII after NFC
    (r'"\u0061\/"', '"a/"', '"a/"', '"a/"'),
    (r'"\"\\\b\f\n\r\t"', r'"\"\\\b\f\n\r\t"', r'"\"\\\b\f\n\r\t"', r'"\"\\\b\f\n\r\t"'),
    (r'"\u0000\u001F"', r'"\u0000\u001f"', r'"\u0000\u001f"', r'"\u0000\u001f"'),
    ('"\x7f"', '"\x7f"', r'"\u007f"', r'"\u007f"'),
    ('"é"', '"é"', r'"\u00e9"', r'"\u00e9"'),
    (r'"\u00E9"', '"é"', r'"\u00e9"', r'"\u00e9"'),
    ('"e\u0301"', '"e\u0301"', r'"e\u0301"', r'"\u00e9"'),
    ('"\u212b"', '"\u212b"', r'"\u212b"', r'"\u00c5"'),
    ('"\u2028<>&"', '"\u2028<>&"', r'"\u2028<>&"', r'"\u2028<>&"'),
    ('"\U0001f600"', '"\U0001f600"', r'"\ud83d\ude00"', r'"\ud83d\ude00"'),
    (r'"\ud83d\ude00"', '"\U0001f600"', r'"\ud83d\ude00"', r'"\ud83d\ude00"'),
    (r'"\\u00e9"', r'"\\u00e9"', r'"\\u00e9"', r'"\\u00e9"'),
]


@pytest.mark.parametrize(("written", "plain", "escaped", "normal"), TEXTS)
def test_texts(written: str, plain: str, escaped: str, normal: str) -> None:
    for dialect in ("jcs", "js-object", "py", "verbatim-number"):
        assert value(dialect, written) == plain, dialect
    assert value("py-ascii", written) == escaped
    assert value("jcs-ascii-nfc", written) == normal
    assert value("as-carried", written) == written


ORDERS = [
    # as carried, then what each dialect makes of it
    (
        ["b", "a", "B"],
        {"jcs": ["B", "a", "b"], "js-object": ["B", "a", "b"], "py": ["B", "a", "b"]},
    ),
    (
        ["10", "9", "1"],
        {"jcs": ["1", "10", "9"], "js-object": ["1", "9", "10"], "py": ["1", "10", "9"]},
    ),
    (["a", "0", "-1", "01", "1.5"], {"js-object": ["0", "-1", "01", "1.5", "a"]}),
    (
        ["5000000000", "4294967296", "4294967295", "4294967294", "4294967293"],
        {
            "js-object": ["4294967293", "4294967294", "4294967295", "4294967296", "5000000000"],
            "jcs": ["4294967293", "4294967294", "4294967295", "4294967296", "5000000000"],
        },
    ),
    # The largest array index is 2^32 - 2: above, names are texts again.
    (["10", "4294967295", "4294967294"], {"js-object": ["10", "4294967294", "4294967295"]}),
    (["9", "1000000000000", "10"], {"js-object": ["9", "10", "1000000000000"]}),
    (["4294967295", "5"], {"js-object": ["5", "4294967295"], "jcs": ["4294967295", "5"]}),
    (["4294967295", "-1"], {"js-object": ["-1", "4294967295"]}),
    (["4294967294", "-1"], {"js-object": ["4294967294", "-1"]}),
    # UTF-16 has characters beyond the BMP below U+E000, code points and UTF-8 above U+FFFF.
    (
        ["\ue000", "\U00010000", "é"],
        {
            "jcs": ["é", "\U00010000", "\ue000"],
            "js-object": ["é", "\U00010000", "\ue000"],
            "jcs-ascii-nfc": ["é", "\U00010000", "\ue000"],
            "py": ["é", "\ue000", "\U00010000"],
            "py-ascii": ["é", "\ue000", "\U00010000"],
            "verbatim-number": ["é", "\ue000", "\U00010000"],
        },
    ),
    # Sorted as it came, e before f; normalised only then, é after f.
    (["f", "e\u0301"], {"jcs-ascii-nfc": ["é", "f"], "jcs": ["e\u0301", "f"]}),
    (["", "\x00", " "], {"jcs": ["", "\x00", " "], "py": ["", "\x00", " "]}),
]


@pytest.mark.parametrize(("names", "expected"), ORDERS)
def test_order_of_names(names: list[str], expected: dict[str, list[str]]) -> None:
    document = json.dumps(dict.fromkeys(names, 0), ensure_ascii=False).encode()
    for dialect, order in expected.items():
        assert list(json.loads(whole(dialect, document))) == order, dialect
    assert list(json.loads(whole("as-carried", document))) == names


def test_names_are_written_as_texts_are() -> None:
    document = '{ "\\u00e9\x7f\\/" : { "\U0001f600" : [ ] } }'.encode()
    assert whole("jcs", document) == '{"é\x7f/":{"\U0001f600":[]}}'.encode()
    for dialect in ("py-ascii", "jcs-ascii-nfc"):
        assert whole(dialect, document) == rb'{"\u00e9\u007f/":{"\ud83d\ude00":[]}}'
    for dialect in ("py", "js-object", "verbatim-number"):
        assert whole(dialect, document) == '{"é\x7f/":{"\U0001f600":[]}}'.encode()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_all_have_in_common(dialect: str) -> None:
    document = b' { "a" : [ true , false , null , [ ] , { } , "" ] } '
    assert whole(dialect, document) == b'{"a":[true,false,null,[],{},""]}'
    assert whole(dialect, b"{ }") == b"{}"


# What is refused.


def test_two_names_that_become_one_are_refused() -> None:
    """One of the members would hide behind the other."""
    document = '{"é":1,"e\u0301":2}'.encode()
    given = source(document)
    with pytest.raises(ReceiptError, match="two member names become one") as caught:
        encode("jcs-ascii-nfc", given.exact, given)
    assert caught.value.reason == Reason.MALFORMED
    for dialect in set(DIALECTS) - {"jcs-ascii-nfc"}:
        assert len(json.loads(whole(dialect, document))) == 2


def test_a_prototype_member_is_refused() -> None:
    """JavaScript signers lose it: it could be added after signing. The parser refuses it as well."""
    for part in ({"__proto__": 1}, {"a": [{"__proto__": {}}]}):
        error = malformed("js-object", part)
        assert error.message == "a member name is forbidden"
    with pytest.raises(ReceiptError):
        parse(b'{"__proto__":1}')


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("part", [{"a": {1}}, {"a": b"x"}, [object()], {"a": 1j}])
def test_values_outside_json(dialect: str, part: Any) -> None:
    malformed(dialect, part)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_outside_json(dialect: str, number: float) -> None:
    malformed(dialect, {"a": number})


def test_integers_no_double_holds() -> None:
    for dialect in ("jcs", "js-object"):
        malformed(dialect, {"a": 10**400})


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("part", [{"a": "\ud800"}, {"\udfff": 1}, {"a": "é\ud83d"}])
def test_half_of_a_surrogate_pair(dialect: str, part: Any) -> None:
    malformed(dialect, part)


@pytest.mark.parametrize("part", [{"a": 1}, {"a": 1.5}, [0]])
def test_a_number_that_lost_how_it_was_written(part: Any) -> None:
    assert malformed("verbatim-number", part).message == "the number has no form of its own"


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "as-carried"])
def test_values_too_deep(dialect: str) -> None:
    part: Any = []
    for _ in range(200_000):
        part = [part]
    with pytest.raises(ReceiptError) as caught:
        encode(dialect, part, source(b"{}"))
    assert caught.value.reason == Reason.TOO_LARGE
    while part:  # taken apart step by step: freeing it in one go recurses in C
        part = part.pop()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_deepest_document_the_parser_takes(dialect: str) -> None:
    limits = canonical.Limits(max_depth=canonical.MAX_DEPTH)
    document = b'{"a":' * 127 + b"{}" + b"}" * 127
    given = Source(parse(document, limits), document)
    part = given.exact if dialect in EXACT_DIALECTS else given.parsed.value
    assert encode(dialect, part, given) == document


# Parts of a document.


DOCUMENT = b"""{ "outer" : { "b" : { "z" : 1.0 , "a" : "\\/" } , "a" : [ { "n" : 1e2 } ] , "t" : "\\u0061" } ,
  "twin" : { "z" : 1.0 , "a" : "/" } }"""


def test_bytes_as_carried_are_found_by_identity() -> None:
    """Equal values may be written apart: only the very object of the document has bytes."""
    given = source(DOCUMENT)
    outer = given.exact["outer"]
    assert outer["b"] == given.exact["twin"]
    assert encode("as-carried", outer["b"], given) == rb'{"z":1.0,"a":"\/"}'
    assert encode("as-carried", given.exact["twin"], given) == b'{"z":1.0,"a":"/"}'
    assert encode("as-carried", outer["a"], given) == b'[{"n":1e2}]'
    assert encode("as-carried", given.exact, given) == given.carried(())


def test_what_was_changed_has_no_bytes_as_carried() -> None:
    given = source(DOCUMENT)
    changed = {**given.exact, "outer": None}
    copy = dict(given.exact)
    in_array = given.exact["outer"]["a"][0]  # no path through objects leads there
    text = given.exact["outer"]["t"]
    for part in (changed, copy, in_array, text, given.parsed.value, None, 1.0):
        with pytest.raises(ReceiptError, match="bytes as carried exist only") as caught:
            encode("as-carried", part, given)
        assert caught.value.reason == Reason.MALFORMED


def test_a_source_may_be_about_a_part() -> None:
    given = source(DOCUMENT, ("outer",))
    assert given.exact is given.exact  # made once
    assert list(given.exact) == ["b", "a", "t"]
    assert given.carried(("b", "a")) == rb'"\/"'
    assert given.carried(()) == rb'{"b":{"z":1.0,"a":"\/"},"a":[{"n":1e2}],"t":"\u0061"}'
    assert encode("as-carried", given.exact["b"], given) == rb'{"z":1.0,"a":"\/"}'
    assert encode("verbatim-number", given.exact, given) == (
        b'{"a":[{"n":1e2}],"b":{"a":"/","z":1.0},"t":"a"}'
    )


def test_members_that_are_not_there() -> None:
    for call in (
        lambda: source(DOCUMENT).carried(("inner",)),
        lambda: source(DOCUMENT, ("inner",)).exact,
        lambda: source(DOCUMENT, ("outer", "t", "x")).carried(()),
    ):
        with pytest.raises(ReceiptError) as caught:
            call()
        assert caught.value.reason == Reason.MALFORMED


def test_rules_applied_before() -> None:
    """Members dropped and set, as formats say: the rest keeps its numbers."""
    given = source(b'{"b":1.50,"signature":"x","a":9007199254740993}')
    part = {**given.exact, "signature": None}
    assert encode("py", part, given) == b'{"a":9007199254740993,"b":1.5,"signature":null}'
    assert encode("verbatim-number", part, given) == (
        b'{"a":9007199254740993,"b":1.50,"signature":null}'
    )
    del part["signature"]
    assert encode("jcs-ascii-nfc", part, given) == b'{"a":9007199254740993,"b":1.5}'


def test_jcs_is_that_of_the_parser() -> None:
    given = source(b'{"b":1.0,"a":9007199254740993,"\xf0\x90\x80\x80":1,"\xee\x80\x80":2}')
    assert encode("jcs", given.parsed.value, given) == given.parsed.canonical
    assert encode("jcs", given.exact, given) == given.parsed.canonical
    assert rfc8785.dumps(given.parsed.value) == given.parsed.canonical
