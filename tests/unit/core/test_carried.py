"""A document as it was carried: spans of members and numbers as written."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from receiptledger.core import canonical
from receiptledger.core.carried import FloatLexeme, IntegerLexeme, Lexeme, compact, exact, find
from receiptledger.core.errors import Reason, ReceiptError

DOCUMENT = b"""
{
  "text" : "a \\" } ] , : \\\\" ,
  "numbers": [ 1.0, -0, 1E+2, 9007199254740993 ],
  "nested" : { "a b" : { "": [ { "x": "]" } , { } ] } , "t":true },
  "esc\\u0061ped\\/" : null,
  "\\u00e9": "\xc3\xa9 \\u00E9",
  "quote\\"" :{"}":"{"},
  "last": false
}
\t"""


def missing(path: tuple[str, ...], document: bytes = DOCUMENT) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        find(document, path)
    assert caught.value.reason == Reason.MALFORMED
    return caught.value


def test_the_document_is_one_the_parser_takes() -> None:
    assert canonical.parse(DOCUMENT).value["escaped/"] is None


@pytest.mark.parametrize(
    ("path", "span"),
    [
        ((), DOCUMENT.strip()),
        (("text",), rb'"a \" } ] , : \\"'),
        (("numbers",), b"[ 1.0, -0, 1E+2, 9007199254740993 ]"),
        (("nested",), b'{ "a b" : { "": [ { "x": "]" } , { } ] } , "t":true }'),
        (("nested", "a b"), b'{ "": [ { "x": "]" } , { } ] }'),
        (("nested", "a b", ""), b'[ { "x": "]" } , { } ]'),
        (("nested", "t"), b"true"),
        (("escaped/",), b"null"),
        (("é",), '"é \\u00E9"'.encode()),
        (('quote"',), b'{"}":"{"}'),
        (('quote"', "}"), b'"{"'),
        (("last",), b"false"),
    ],
)
def test_spans(path: tuple[str, ...], span: bytes) -> None:
    assert find(DOCUMENT, path) == span
    value: Any = json.loads(DOCUMENT)
    for name in path:
        value = value[name]
    assert json.loads(span) == value
    assert json.loads(compact(span)) == value


@pytest.mark.parametrize(
    "path",
    [
        ("nothing",),
        ("x",),  # exists deeper only
        ("a b",),
        ("nested", "text"),
        ("escaped\\/",),
        ("esc\\u0061ped\\/",),
        ("text ",),
        ("}",),
    ],
)
def test_members_that_are_not_there(path: tuple[str, ...]) -> None:
    error = missing(path)
    assert error.got == "an object without it"


@pytest.mark.parametrize(
    "path", [("text", "a"), ("numbers", "0"), ("escaped/", "a"), ("last", "false"), ("é", "")]
)
def test_paths_lead_through_objects_only(path: tuple[str, ...]) -> None:
    error = missing(path)
    assert error.got == "something else than an object"


def test_a_name_is_shown_harmlessly() -> None:
    assert missing(("\x1b[31m",)).want == r"a member '\x1b[31m'"


def test_an_empty_object() -> None:
    assert find(b" { } ", ()) == b"{ }"
    missing(("a",), b"{ }")


@pytest.mark.parametrize(
    ("document", "path", "offset"),
    [
        (b'{"a":"b', ("a",), 5),
        (b'{"a":[1,"]"', ("a",), 11),
        (b'{"a":{"b":1', ("a",), 11),
        (b'{"a" 1}', ("a",), 5),
        (b'{"a"', ("a",), 4),
        (b'{"a":', ("a",), 5),
        (b'{"a":1', ("b",), 6),
        (b'{"a":1 "b":2}', ("b",), 7),
        (b'{"a":1;"b":2}', ("b",), 6),
        (b'{"a":1,,"b":2}', ("b",), 7),
        (b"{a:1}", ("a",), 1),
        (b"{'a':1}", ("a",), 1),
        (b'{1:2,"a":1}', ("a",), 1),
        (b"{", ("a",), 1),
        (b'{"a":?}', ("a",), 5),
    ],
)
def test_what_is_no_json_is_refused(document: bytes, path: tuple[str, ...], offset: int) -> None:
    error = missing(path, document)
    assert error.got == f"something else at offset {offset}"


@pytest.mark.parametrize(
    ("data", "compacted"),
    [
        (b"", b""),
        (b' { "a" : [ 1 , 2 ] }\r\n', b'{"a":[1,2]}'),
        (b'" a\tb "', b'" a\tb "'),
        (rb'{"a\" b" : "\\" , "c" : " \\\" "}', rb'{"a\" b":"\\","c":" \\\" "}'),
        ("\ufeff".encode() + b" 1", "\ufeff".encode() + b"1"),  # not JSON white space
        ("\u00a0\u2028".encode(), "\u00a0\u2028".encode()),
    ],
)
def test_white_space_outside_strings(data: bytes, compacted: bytes) -> None:
    assert compact(data) == compacted
    assert compact(compacted) == compacted


def test_long_documents_take_one_pass() -> None:
    """Each of these makes a scanner that looks twice at a byte take minutes."""
    size = 300_000
    hard = b'"' + b"\\\\" * size + b'"'
    assert compact(hard) == hard
    wide = b"{" + b",".join(b'"%d" : "\\""' % number for number in range(size // 4)) + b"}"
    assert find(wide, (str(size // 4 - 1),)) == b'"\\""'
    deep = b'{"a":' * 2_000 + b"1" + b"}" * 2_000
    assert find(deep, ("a",)) == deep[5:-1]
    spaces = b"{" + b" " * size + b"}"
    assert compact(spaces) == b"{}"
    for escape in (b"\\\\", b'\\"'):
        unclosed = b'{"a":["' + escape * size
        missing(("a",), unclosed)
        missing(("b",), unclosed)
        assert compact(unclosed) == unclosed


# Numbers.


@pytest.mark.parametrize(
    "text", ["0", "-0", "7", "-12", "9007199254740993", "123456789012345678901234567890"]
)
def test_integers_are_exact(text: str) -> None:
    number = exact(b'{"n":' + text.encode() + b"}")["n"]
    assert isinstance(number, IntegerLexeme)
    assert isinstance(number, Lexeme)
    assert number.text == text
    assert number == int(text)
    assert json.dumps(number) == str(int(text))


@pytest.mark.parametrize("text", ["0.0", "-0.0", "1.0", "1e5", "1E+5", "0.10", "1.5e-7", "1e308"])
def test_floats_are_what_python_reads(text: str) -> None:
    number = exact(b"[" + text.encode() + b"]")[0]
    assert isinstance(number, FloatLexeme)
    assert isinstance(number, Lexeme)
    assert number.text == text
    assert repr(float(number)) == repr(float(text))
    assert json.dumps(number) == repr(float(text))


def test_the_longest_integer_the_parser_takes() -> None:
    digits = "9" * 308
    document = b'{"n":' + digits.encode() + b"}"
    canonical.parse(document)
    assert exact(document)["n"] == int(digits)
    assert len(digits) < sys.int_info.default_max_str_digits


def test_members_keep_their_order() -> None:
    assert list(exact(b'{"b":1,"a":{"10":1,"9":2}}')) == ["b", "a"]
    assert list(exact(b'{"b":1,"a":{"10":1,"9":2}}')["a"]) == ["10", "9"]
