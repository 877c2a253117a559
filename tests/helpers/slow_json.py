"""JSON read and written one character at a time: slow oracles for the tests of dialects.

Each does one thing the way its definition reads, and shares nothing with the code under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Written:
    """A number's characters."""

    text: str


def without_space(document: str) -> str:
    """The document without the white space outside strings."""
    kept, inside, escaped = "", False, False
    for character in document:
        if inside:
            kept += character
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character not in " \t\r\n":
            kept += character
            inside = character == '"'
    return kept


def members(document: str) -> dict[tuple[str, ...], str]:
    """Text of every value that a path through objects leads to, white space removed.

    Args:
        document: valid JSON.
    """
    found: dict[tuple[str, ...], str] = {}
    _collect(without_space(document), (), found)
    return found


def _collect(text: str, path: tuple[str, ...], found: dict[tuple[str, ...], str]) -> None:
    found[path] = text
    if text.startswith("{") and text != "{}":
        for member in _split(text[1:-1]):
            quote = _end_of_string(member)
            name = json.loads(member[:quote])
            assert member[quote] == ":"
            _collect(member[quote + 1 :], (*path, name), found)


def _split(text: str) -> list[str]:
    """What commas outside strings and containers separate."""
    parts, start, depth, at = [], 0, 0, 0
    while at < len(text):
        character = text[at]
        if character == '"':
            at += _end_of_string(text[at:])
            continue
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _end_of_string(text: str) -> int:
    at = 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def with_written_numbers(document: str) -> Any:
    """The document with every number as its characters."""
    return json.loads(document, parse_int=Written, parse_float=Written)


def verbatim(value: Any) -> str:
    """Written numbers, names in the order of their UTF-8 bytes, RFC 8785 strings, no white space."""
    if isinstance(value, Written):
        return value.text
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-8"))
        listed = [
            json.dumps(name, ensure_ascii=False) + ":" + verbatim(value[name]) for name in names
        ]
        return "{" + ",".join(listed) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(verbatim, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
