"""Receipts out of the bytes of a file, cut out of the source text and never written anew.

A signature holds for the exact bytes, so what a file holds around its receipts is taken off and the
receipts are left alone. Three shapes: one JSON document that is a receipt, in any spelling; one that is
an array of them; JSON Lines, one receipt a line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Item", "is_object", "receipts_of", "split_document", "split_lines"]

_SPACE = re.compile(r"[ \t\r\n]*")
_OBJECT = object()
# Only where values end, and whether one is an object, is wanted: build nothing, convert no number.
_SCANNER = json.JSONDecoder(
    object_pairs_hook=lambda _: _OBJECT, parse_int=lambda _: 0, parse_float=lambda _: 0
)


@dataclass(frozen=True, slots=True)
class Item:
    """One receipt and the line of the source it starts on, from 1."""

    line: int
    raw: bytes


def receipts_of(data: bytes) -> list[Item]:
    """The receipts of a whole file; a file that is none of the three shapes is one bad receipt.

    Empty lines hold no receipt, and an empty file holds none.
    """
    items = split_document(data)
    if items is not None:
        return items
    lines = list(split_lines(data))
    # A document with a fault in it is one receipt with that fault, not as many as it has lines.
    if any(is_object(item.raw) for item in lines):
        return lines
    return [Item(lines[0].line, data.strip(b" \t\r\n"))] if lines else []


def split_document(data: bytes) -> list[Item] | None:
    """Cut a JSON document into its receipts: itself, or the elements of an array.

    Elements of any kind are cut out; what is no receipt is for the verifier to refuse.

    Returns:
        None when it is no JSON document of one of these kinds.
    """
    try:
        text = data.decode("utf-8")
        return list(_elements(text))
    except (ValueError, RecursionError):  # both JSONDecodeError and UnicodeDecodeError are one
        return None


def split_lines(data: bytes) -> Iterator[Item]:
    """Each line that holds something, without its newline."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield Item(number, line)


def is_object(line: bytes) -> bool:
    """Whether a line is one JSON object by itself."""
    try:
        return _SCANNER.decode(line.decode("utf-8")) is _OBJECT
    except (ValueError, RecursionError):
        return False


def _elements(text: str) -> Iterator[Item]:
    at = _skip(text, 0)
    line = 1 + text.count("\n", 0, at)
    if text[at : at + 1] != "[":
        value, end = _SCANNER.raw_decode(text, at)
        if value is not _OBJECT or _skip(text, end) != len(text):
            raise ValueError("not one object")
        yield Item(line, text[at:end].encode("utf-8"))
        return
    position = at
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        _, end = _SCANNER.raw_decode(text, at)
        line += text.count("\n", position, at)
        position = at
        yield Item(line, text[at:end].encode("utf-8"))
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "]":
                raise ValueError("a comma before the end")
        elif text[at : at + 1] != "]":
            raise ValueError("no comma between elements")
    if _skip(text, at + 1) != len(text):
        raise ValueError("more after the array")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()
