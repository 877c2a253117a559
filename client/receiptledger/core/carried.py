"""A document as it was carried: spans of single members, and numbers as they were written.

For receipt formats that sign bytes no serialiser of ours could write again. Everything here works on
bytes that `canonical.parse` accepted, so it is one JSON object in UTF-8 of bounded size and depth,
with no member twice; each function takes time linear in the length all the same, and refuses what it
does not understand.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from receiptledger.core.canonical import shown
from receiptledger.core.errors import Reason, ReceiptError

__all__ = ["FloatLexeme", "IntegerLexeme", "Lexeme", "compact", "exact", "find"]


class Lexeme:
    """A number and how it was written. Either class below is also the number Python reads there.

    Attributes:
        text: the number's characters in the document.
    """

    __slots__ = ()
    text: str


class IntegerLexeme(Lexeme, int):
    """A number without fraction and exponent, exact whatever its size."""

    def __new__(cls, text: str) -> IntegerLexeme:  # noqa: D102
        number = super().__new__(cls, text)
        number.text = text
        return number


class FloatLexeme(Lexeme, float):
    """A number with a fraction or an exponent: the nearest IEEE double."""

    def __new__(cls, text: str) -> FloatLexeme:  # noqa: D102
        number = super().__new__(cls, text)
        number.text = text
        return number


_EXACT: Final = json.JSONDecoder(parse_int=IntegerLexeme, parse_float=FloatLexeme)

# Possessive throughout, so that no match is tried twice; where strings are searched for, one that does
# not end runs to the end, so that no quote in it is tried either. Bytes below 0x80 are never part of
# a longer UTF-8 sequence: the brackets and quotes found here are the document's.
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb"[-+.0-9A-Za-z]++")
_ANY_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?(?:"|\Z)'
_NO_SPACE: Final = re.compile(rb'(?:[^" \t\r\n]++|' + _ANY_STRING + rb")++", re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(_ANY_STRING + rb"|([\[{])|([\]}])", re.DOTALL)


def exact(raw: bytes) -> Any:
    """The document with every number as a :class:`Lexeme` and members in the order they came.

    Args:
        raw: bytes that `canonical.parse` accepted.
    """
    return _EXACT.decode(raw.decode("utf-8"))


def compact(data: bytes) -> bytes:
    """JSON text without the white space outside its strings."""
    return b"".join(_NO_SPACE.findall(data))


def find(raw: bytes, path: tuple[str, ...]) -> bytes:
    """One member's value as it stands in the document.

    Args:
        raw: bytes that `canonical.parse` accepted.
        path: names of the members that lead to it, through objects only; () for the document.

    Raises:
        ReceiptError: MALFORMED when there is no such member, or on the way to it no JSON.
    """
    if not path:
        return raw.strip(b" \t\r\n")
    at = _after_space(raw, 0)
    for name in path:
        at = _member(raw, at, name)
    return raw[at : _end_of_value(raw, at)]


def _member(raw: bytes, at: int, name: str) -> int:
    """Where the value of an object's member starts; the object starts at `at`."""
    if raw[at : at + 1] != b"{":
        raise _missing(name, "something else than an object")
    at = _after_space(raw, at + 1)
    separator = raw[at : at + 1]
    while separator != b"}":
        end = _end(_STRING, raw, at)
        found = _is_name(raw[at:end], name)
        at = _after_space(raw, end)
        if raw[at : at + 1] != b":":
            raise _broken(at)
        at = _after_space(raw, at + 1)
        if found:
            return at
        at = _after_space(raw, _end_of_value(raw, at))
        separator = raw[at : at + 1]
        if separator == b",":
            at = _after_space(raw, at + 1)
        elif separator != b"}":
            raise _broken(at)
    raise _missing(name, "an object without it")


def _is_name(string: bytes, name: str) -> bool:
    """Whether a JSON string, quotes included, is a name."""
    text = string.decode("utf-8")
    return (json.loads(text) if "\\" in text else text[1:-1]) == name


def _end_of_value(raw: bytes, at: int) -> int:
    first = raw[at : at + 1]
    if first == b'"':
        return _end(_STRING, raw, at)
    if first not in (b"{", b"["):
        return _end(_SCALAR, raw, at)
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(raw, at):
        if token[1]:
            depth += 1
        elif token[2]:
            depth -= 1
            if depth == 0:
                return token.end()
    raise _broken(len(raw))


def _after_space(raw: bytes, at: int) -> int:
    return _end(_SPACE, raw, at)


def _end(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    match = pattern.match(raw, at)
    if match is None:
        raise _broken(at)
    return match.end()


def _missing(name: str, got: str) -> ReceiptError:
    return ReceiptError(
        Reason.MALFORMED, "a member is missing", want=f"a member {shown(name)}", got=got
    )


def _broken(at: int) -> ReceiptError:
    return ReceiptError(
        Reason.MALFORMED, "not JSON", want="strict JSON", got=f"something else at offset {at}"
    )
