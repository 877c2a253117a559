"""Tile names and entry bundles: one spelling each, and nothing else is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import merkle, tile
from receiptledger.core.errors import EvidenceError, Reason, ServiceError
from receiptledger.core.tile import TileId

if TYPE_CHECKING:
    from pathlib import Path

PATHS = [
    ("000", 0),
    ("999", 999),
    ("x001/000", 1000),
    ("x999/999", 999_999),
    ("x001/x000/000", 1_000_000),
    ("x001/x234/067", 1_234_067),
    ("x009/x223/x372/x036/x854/x775/807", merkle.MAX_SIZE),
]


@pytest.mark.parametrize(("text", "index"), PATHS)
def test_paths_and_back(text: str, index: int) -> None:
    for level in (0, 7, 10, 63):
        assert tile.tile_path(TileId(level, index)) == f"tile/{level}/{text}"
        assert tile.parse_tile_path(f"tile/{level}/{text}") == (TileId(level, index), 256)
    assert tile.entries_path(index) == f"tile/entries/{text}"
    assert tile.parse_entries_path(f"tile/entries/{text}") == (index, 256)
    for width in range(1, 256):
        path = tile.tile_path(TileId(0, index), width)
        assert path == f"tile/0/{text}.p/{width}"
        assert tile.parse_tile_path(path) == (TileId(0, index), width)
        path = tile.entries_path(index, width)
        assert path == f"tile/entries/{text}.p/{width}"
        assert tile.parse_entries_path(path) == (index, width)


def test_foreign_tile_paths(vectors: Path) -> None:
    cases = json.loads((vectors / "tlog" / "spec-examples.derived.json").read_bytes())["tile_paths"]
    assert len(cases) == 4
    for index, text in cases.items():
        assert tile.tile_path(TileId(0, int(index))) == f"tile/0/{text}"
        assert tile.parse_entries_path(f"tile/entries/{text}") == (int(index), 256)


BAD_WORDS = """
0 00 0000 1000 x001 x001/ 001/000 x01/000 x1000/000 X001/000 x001/x000 x001//000
x000/001 x000/x001/000 x000/000 -01 +01 0_1 a01 ./000 ../000 %30 000? 000#
000.p 000.p/ 000.p/0 000.p/00 000.p/01 000.p/256 000.p/257 000.p/999 000.p/1000
000.p/-1 000.p/+1 000.p/1/ 000/p/1 000p/1 000.P/1 000.p/1.p/1
x009/x223/x372/x036/x854/x775/808 x001/x009/x223/x372/x036/x854/x775/807
"""
BAD_NUMBERS = [
    *BAD_WORDS.split(),
    *("", " 01", "01 ", "001\n", "000.p/1 ", "000.p/1\n", "000\0"),
    *("\uff10\uff10\uff10", "\u0661\u0661\u0661", "000.p/\u0661"),  # digits of other scripts
]


@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_paths_have_one_spelling(number: str) -> None:
    for call, prefix in (
        (tile.parse_tile_path, "tile/0/"),
        (tile.parse_entries_path, "tile/entries/"),
    ):
        with pytest.raises(ServiceError) as caught:
            call(prefix + number)
        assert caught.value.reason is Reason.NOT_FOUND


BAD_PATH_WORDS = """
/ tile tile/ tile/0 tile/00/000 tile/01/000 tile/64/000 tile/100/000 tile/a/000
tile/-1/000 /tile/0/000 tile/0/000/ Tile/0/000 tile//000 checkpoint tile/entries
"""
BAD_PATHS = [
    *BAD_PATH_WORDS.split(),
    *("", "tile/\u0660/000", "tile/0/000\ud800", "x" * 100_000),
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_other_paths_are_not_found(path: str) -> None:
    for call in (tile.parse_tile_path, tile.parse_entries_path):
        with pytest.raises(ServiceError) as caught:
            call(path)
        assert caught.value.reason is Reason.NOT_FOUND
        assert len(str(caught.value)) < 1000
        assert str(caught.value).isascii()


def test_the_two_kinds_of_path_do_not_mix() -> None:
    with pytest.raises(ServiceError):
        tile.parse_tile_path("tile/entries/000")
    with pytest.raises(ServiceError):
        tile.parse_entries_path("tile/0/000")


def test_every_changed_character_of_a_path_is_refused_or_names_another_tile() -> None:
    path = "tile/12/x001/x234/067.p/8"
    parsed = tile.parse_tile_path(path)
    for at in range(len(path)):
        for code in range(256):
            changed = path[:at] + chr(code) + path[at + 1 :]
            try:
                other = tile.parse_tile_path(changed)
            except ServiceError:
                continue
            assert tile.tile_path(*other) == changed
            assert (other == parsed) == (changed == path)


@pytest.mark.parametrize(
    ("level", "index", "width"),
    [(-1, 0, 1), (64, 0, 1), (0, -1, 1), (0, 2**63, 1), (0, 0, 0), (0, 0, 257), (0, 0, -1)],
)
def test_paths_of_tiles_that_cannot_be(level: int, index: int, width: int) -> None:
    with pytest.raises(ServiceError) as caught:
        tile.tile_path(TileId(level, index), width)
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    if level == 0:
        with pytest.raises(ServiceError):
            tile.entries_path(index, width)


# Entry bundles


def badly(call: Any, *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        call(*arguments)
    assert caught.value.reason is Reason.BAD_LEAF
    return caught.value


def test_entry_bundle_bytes() -> None:
    entries = [b"", b"a", b"bc" * 200]
    data = b"\0\0" + b"\0\1a" + b"\1\x90" + b"bc" * 200
    assert tile.encode_entries(entries) == data
    assert tile.decode_entries(data, 3) == entries
    for short in range(len(data)):
        assert badly(tile.decode_entries, data[:short], 3).message == "entries are cut short"
    for width in (0, 1, 2, 4, 256):
        badly(tile.decode_entries, data, width)
    badly(tile.decode_entries, data + b"\0", 3)


def test_entry_limits() -> None:
    longest = [b"x" * 65_535] * 256
    assert tile.decode_entries(tile.encode_entries(longest), 256) == longest
    badly(tile.encode_entries, [b"x" * 65_536])
    badly(tile.encode_entries, [])
    badly(tile.encode_entries, [b""] * 257)


def test_every_changed_byte_of_a_bundle_is_refused_or_changes_an_entry() -> None:
    data = tile.encode_entries([b"", b"first", b"second"])
    for at in range(len(data)):
        for value in range(256):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                entries = tile.decode_entries(changed, 3)
            except EvidenceError:
                continue
            assert tile.encode_entries(entries) == changed
