"""RFC 8785 by its author's published data, and inputs where common serialisers differ."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from receiptledger.core.canonical import canonicalize, parse
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from pathlib import Path

JCS_FILES = ("arrays", "french", "structures", "unicode", "values", "weird")


@pytest.mark.parametrize("name", JCS_FILES)
def test_published_files(vectors: Path, name: str) -> None:
    folder = vectors / "jcs"
    source = (folder / "input" / f"{name}.json").read_bytes()
    expected = (folder / "output" / f"{name}.json").read_bytes()
    assert bytes.fromhex((folder / "outhex" / f"{name}.txt").read_text()) == expected
    parsed = parse(b'{"v":' + source + b"}")  # some of the files are arrays
    assert parsed.canonical == b'{"v":' + expected + b"}"
    assert canonicalize(parsed.value["v"]) == expected
    again = parse(parsed.canonical)
    assert (again.canonical, again.value) == (parsed.canonical, parsed.value)


def test_published_numbers(vectors: Path) -> None:
    lines = (vectors / "jcs" / "es6_10k.txt").read_text("ascii").splitlines()
    assert len(lines) == 10_000
    for line in lines:
        bits, text = line.split(",")
        number = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))[0]
        document = b'{"v":' + text.encode() + b"}"
        assert canonicalize({"v": number}) == document
        parsed = parse(document)
        assert parsed.canonical == document
        assert float(parsed.value["v"]) == number


def test_published_differences_between_serialisers(vectors: Path) -> None:
    cases = json.loads((vectors / "jcs" / "canon-diff.json").read_bytes())["cases"]
    assert len(cases) == 33
    for case in cases:
        source = case["input"].encode()
        if case["name"] == "depth-200":  # the file describes this input in words
            source = b'{"v":' + b"[" * 200 + b"]" * 200 + b"}"
        if case["jcs"].startswith("ERROR"):
            with pytest.raises(ReceiptError) as caught:
                parse(source)
            assert caught.value.reason in (Reason.MALFORMED, Reason.TOO_LARGE), case["name"]
        else:
            assert parse(source).canonical == case["jcs"].encode(), case["name"]
