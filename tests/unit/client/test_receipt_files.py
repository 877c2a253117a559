"""Which receipts a whole file holds: one document, an array, JSON Lines, or one with a fault."""

from __future__ import annotations

import pytest

from receiptledger.receipt_files import is_object, receipts_of
from tests.helpers.cases import named

PRETTY = b'{\n  "a": 1,\n  "b": {}\n}'


@pytest.mark.parametrize(
    ("data", "expected"),
    named(
        {
            "one": (b' {"a":1}\n', [(1, b'{"a":1}')]),
            "one over several lines": (b"\n" + PRETTY + b"\n", [(2, PRETTY)]),
            "an array": (b'[{"a":1},\n{"b":2}]', [(1, b'{"a":1}'), (2, b'{"b":2}')]),
            "an empty array": (b"[]", []),
            "lines": (b'{"a":1}\n\n{"b":2}\n', [(1, b'{"a":1}'), (3, b'{"b":2}')]),
            "lines of which one is broken": (
                b'{"a":1}\n{"b"\n{"c":3}',
                [(1, b'{"a":1}'), (2, b'{"b"'), (3, b'{"c":3}')],
            ),
            "nothing": (b"", []),
            "white space": (b" \n\n", []),
            "a document with a fault": (PRETTY + b"x\n", [(1, PRETTY + b"x")]),
            "a document that is cut": (b"\n{\n 'a': 1,\n", [(2, b"{\n 'a': 1,")]),
            "a byte order mark": (b"\xef\xbb\xbf{}", [(1, b"\xef\xbb\xbf{}")]),
            "no UTF-8": (b'{"a": "\xff"}', [(1, b'{"a": "\xff"}')]),
            "two in a line": (b"{}{}", [(1, b"{}{}")]),
            "a number": (b"7", [(1, b"7")]),
        }
    ),
)
def test_the_receipts_of_a_file(data: bytes, expected: list[tuple[int, bytes]]) -> None:
    assert [(item.line, item.raw) for item in receipts_of(data)] == expected


def test_what_is_an_object() -> None:
    assert is_object(b' {"a": [1]} \r')
    for other in (b"", b"7", b"[]", b"{", b"{}{}", b"\xff", b"[" * 100_000):
        assert not is_object(other)
