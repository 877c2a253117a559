"""Receipts out of files: exactly their bytes, whatever surrounds them."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.cli import source
from receiptledger.cli.output import CliError
from receiptledger.cli.source import Item, read_items, read_lines, split_document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def items(data: bytes, *, array: bool = False) -> list[tuple[int, bytes]]:
    """What a file with these bytes holds."""

    async def lines() -> AsyncIterator[bytes]:
        for line in io.BytesIO(data):
            yield line

    async def work() -> list[Item]:
        return [item async for item in read_items(lines(), array=array)]

    return [(item.line, item.raw) for item in asyncio.run(work())]


A, B = b'{"a": 1}', b' { "b":\t2 } '


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n \n", []),
        (A + b"\n" + B + b"\n", [(1, A), (2, B)]),
        (A + b"\n" + B, [(1, A), (2, B)]),
        (b"\n\n" + A + b"\n\n" + B + b"\n", [(3, A), (5, B)]),
        (A + b"\r\n" + B + b"\r\n", [(1, A + b"\r"), (2, B + b"\r")]),
        (A + b"\nnot json\n\xff\n", [(1, A), (2, b"not json"), (3, b"\xff")]),
        # The first line is broken, so nothing tells what it is: every line is sent as it is.
        (b"{broken\n" + A + b"\n", [(1, b"{broken"), (2, A)]),
        (b"\xff\n" + A + b"\n", [(1, b"\xff"), (2, A)]),
        (b"7\n" + A, [(1, b"7"), (2, A)]),
        # One document.
        (b'\n{\n  "a": 1\n}\n', [(2, b'{\n  "a": 1\n}')]),
        (b"[]", []),
        (b" [ ] \n", []),
        (b"[" + A + b"," + B.strip() + b"]", [(1, A), (1, B.strip())]),
        (b"[\n" + A + b",\n\n " + B.strip() + b"\n]\n", [(2, A), (4, B.strip())]),
        (b'[{"a":[1,{"b":"]}"}]}]', [(1, b'{"a":[1,{"b":"]}"}]}')]),
        (b'[1, "two", null]', [(1, b"1"), (1, b'"two"'), (1, b"null")]),
        ('[{"é": "\u2028"}]'.encode(), [(1, '{"é": "\u2028"}'.encode())]),
        # Twins, big numbers and NaN are the ledger's to refuse: they are cut out as they are.
        (b'[{"a":1,"a":2},{"n":' + b"9" * 5_000 + b"}]", None),
        (b'[{"n":NaN}]', [(1, b'{"n":NaN}')]),
        # Not a document after all: lines.
        (b"[" + A + b",]", [(1, b"[" + A + b",]")]),
        (b"[" + A + b" " + A + b"]", [(1, b"[" + A + b" " + A + b"]")]),
        (b"[" + A + b"] x", [(1, b"[" + A + b"] x")]),
        (b"{\n} {}", [(1, b"{"), (2, b"} {}")]),
        (b"[" * 100_000, [(1, b"[" * 100_000)]),
        (b'{"a":' * 100_000, [(1, b'{"a":' * 100_000)]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_shapes(data: bytes, expected: list[tuple[int, bytes]] | None) -> None:
    if expected is None:
        expected = [(1, b'{"a":1,"a":2}'), (1, b'{"n":' + b"9" * 5_000 + b"}")]
    assert items(data) == expected


def test_array_means_a_document_for_certain() -> None:
    assert items(A + b"\n", array=True) == [(1, A)]
    assert items(b"[" + A + b"]", array=True) == [(1, A)]
    for bad in (A + b"\n" + A, b"", b"7", b"\xff"):
        with pytest.raises(CliError, match="neither one JSON object nor an array"):
            items(bad, array=True)


json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=6,
).flatmap(
    lambda value: st.sampled_from(
        [json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)]
    )
)


@given(st.lists(json_texts, max_size=6), st.sampled_from([",", " , ", ",\n\n", "\r\n,\t"]))
def test_elements_are_cut_exactly(texts: list[str], comma: str) -> None:
    document = ("[ " + comma.join(texts) + "\n]").encode()
    found = split_document(document)
    assert found is not None
    assert [item.raw for item in found] == [text.encode() for text in texts]
    for item in found:
        lines = document.split(b"\n")[item.line - 1 :]
        assert item.raw.split(b"\n")[0] in lines[0]


@given(st.lists(st.dictionaries(st.text(max_size=4), st.integers(), max_size=3), max_size=5))
def test_json_lines_are_kept_exactly(values: list[dict[str, int]]) -> None:
    raws = [json.dumps(value).encode() for value in values]
    assert [raw for _, raw in items(b"\n".join(raws))] == raws


@given(st.binary(max_size=60))
def test_any_bytes_are_read(data: bytes) -> None:
    assert all(raw in data for _, raw in items(data))


def test_a_document_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_DOCUMENT_BYTES", 100)
    with pytest.raises(CliError, match="write one receipt a line instead"):
        items(b"[\n" + b"1,\n" * 50)
    assert len(items((A + b"\n") * 50)) == 50  # lines are not held


async def lines_of(path: Path) -> list[bytes]:
    return [line async for line in read_lines(path)]


def test_reads_files(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    path.write_bytes(b"one\n\ntwo")
    assert asyncio.run(lines_of(path)) == [b"one\n", b"\n", b"two"]
    with pytest.raises(CliError, match=r"cannot read .*No such file"):
        asyncio.run(lines_of(tmp_path / "missing"))
    with pytest.raises(CliError, match=r"cannot read .*directory"):
        asyncio.run(lines_of(tmp_path))


def test_lines_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 10)
    path = tmp_path / "receipts"
    path.write_bytes(b"short\n" + b"x" * 11 + b"\n")
    with pytest.raises(CliError, match=r"line 2 of .* is longer than 10 bytes"):
        asyncio.run(lines_of(path))


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch):
    """A pipe in the place of the standard input; gives the end to write to."""
    import sys

    reading, writing = os.pipe()
    with os.fdopen(reading, "r") as stdin, os.fdopen(writing, "wb", buffering=0) as end:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield end
        assert os.get_blocking(stdin.fileno())


def test_a_pipe_is_read_as_it_comes(piped) -> None:
    async def work() -> None:
        lines = read_lines(Path("-"))
        piped.write(b"one\ntw")
        assert await anext(lines) == b"one\n"  # although the writer is not through
        piped.write(b"o\nlast")
        assert await anext(lines) == b"two\n"
        piped.close()
        assert [line async for line in lines] == [b"last"]

    asyncio.run(work())


def test_lines_of_a_pipe_are_bounded(piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 10)

    async def work() -> None:
        piped.write(b"one\n" + b"x" * 50)
        piped.close()
        lines = read_lines(Path("-"))
        assert await anext(lines) == b"one\n"
        with pytest.raises(CliError, match="line 2 of the standard input"):
            await anext(lines)

    asyncio.run(work())


def test_a_file_as_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert asyncio.run(lines_of(Path("-"))) == [b"one\n", b"two\n"]
