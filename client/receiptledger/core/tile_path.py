"""Names of tiles and the form of entry bundles (C2SP tlog-tiles).

Rules:

- A tile is 256 hashes wide. `tile/<level>/<index>` is a full one, and with `.p/<width>` after it
  the first 1..255 hashes of one. Indexes are written in groups of three digits, all but the last
  prefixed with "x". `tile/entries/...` names the leaves' own bytes in the same way.
- A path has one spelling: the parsers accept what the formatters write, and nothing else.
- Entries are u16be(length) || bytes, one after the other, hence at most 65,535 bytes each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from receiptledger.core.errors import EvidenceError, Reason, ServiceError
from receiptledger.core.treehash import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MAX_ENTRY_BYTES",
    "MAX_LEVEL",
    "TILE_WIDTH",
    "TileId",
    "decode_entries",
    "encode_entries",
    "entries_path",
    "parse_entries_path",
    "parse_tile_path",
    "tile_path",
    "tile_width",
]

TILE_WIDTH: Final = 256  # hashes of a full tile: eight levels of the tree
MAX_LEVEL: Final = 63  # of the path format; a tree of 2^63-1 leaves fills levels 0..7
MAX_ENTRY_BYTES: Final = 65_535  # a 16-bit length goes before each entry

# Seven groups hold every index up to 2^63-1.
_INDEX = r"((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?"
_TILE = re.compile(r"tile/([0-9]|[1-5][0-9]|6[0-3])/" + _INDEX)
_ENTRIES = re.compile(r"tile/entries/" + _INDEX)


class TileId(NamedTuple):
    """A tile: `index` counts the tiles of its level from the left; level 0 holds leaf hashes."""

    level: int
    index: int  # type: ignore[assignment]  # hides tuple.index(), which nobody needs here


def tile_path(tile: TileId, width: int = TILE_WIDTH) -> str:
    """Path of a tile below the log's prefix, such as `tile/0/x001/x234/067.p/8`.

    Args:
        tile: level 0..63 and index 0..2^63-1.
        width: hashes in it, 1..256; 256 names the full tile.

    Raises:
        ServiceError: INVALID_ARGUMENT, there is no such tile.
    """
    _check(tile.level, "tile level", 0, MAX_LEVEL)
    return f"tile/{tile.level}/{_numbered(tile.index, width)}"


def entries_path(index: int, width: int = TILE_WIDTH) -> str:
    """Path of an entry bundle below the log's prefix, such as `tile/entries/x001/000.p/8`.

    Args:
        index: of the level 0 tile that holds the entries' leaf hashes, 0..2^63-1.
        width: entries in it, 1..256; 256 names the full bundle.

    Raises:
        ServiceError: INVALID_ARGUMENT, there is no such bundle.
    """
    return f"tile/entries/{_numbered(index, width)}"


def parse_tile_path(path: str) -> tuple[TileId, int]:
    """Read what :func:`tile_path` wrote: the tile and its width, 1..256.

    Raises:
        ServiceError: NOT_FOUND, for any other text.
    """
    match = _TILE.fullmatch(path)
    if match is None:
        raise _not_found(path)
    index, width = _parse_numbered(path, match[2], match[3])
    return TileId(int(match[1]), index), width


def parse_entries_path(path: str) -> tuple[int, int]:
    """Read what :func:`entries_path` wrote: the bundle's index and its width, 1..256.

    Raises:
        ServiceError: NOT_FOUND, for any other text.
    """
    match = _ENTRIES.fullmatch(path)
    if match is None:
        raise _not_found(path)
    return _parse_numbered(path, match[1], match[2])


def tile_width(tile: TileId, size: int) -> int:
    """How many hashes of a tile exist in a tree of `size` leaves, 0..256.

    A hash at level l exists once all of its 256**l leaves do.
    """
    present = (size >> (8 * tile.level)) - tile.index * TILE_WIDTH
    return max(0, min(TILE_WIDTH, present))


def encode_entries(entries: Sequence[bytes]) -> bytes:
    """Write an entry bundle of 1..256 entries.

    Raises:
        EvidenceError: BAD_LEAF, an entry is over 65,535 bytes, or there are none or too many.
    """
    if not 0 < len(entries) <= TILE_WIDTH:
        raise _bad_bundle("wrong number of entries", f"1..{TILE_WIDTH}", len(entries))
    parts = []
    for entry in entries:
        if len(entry) > MAX_ENTRY_BYTES:
            raise _bad_bundle("entry is too long", f"at most {MAX_ENTRY_BYTES} bytes", len(entry))
        parts.append(len(entry).to_bytes(2, "big"))
        parts.append(entry)
    return b"".join(parts)


def decode_entries(data: bytes, width: int) -> list[bytes]:
    """Read an entry bundle of exactly `width` entries.

    Args:
        data: the bundle's bytes.
        width: entries that must be in it, 1..256, from the path it was read under.

    Raises:
        EvidenceError: BAD_LEAF, the bundle is short or has bytes left over.
    """
    entries = []
    at = 0
    for number in range(width):
        begin = at + 2
        # A short length prefix reads as a smaller number; `end` is past the data all the same.
        end = begin + int.from_bytes(data[at:begin], "big")
        if end > len(data):
            raise _bad_bundle("entries are cut short", f"{width} entries", number)
        entries.append(data[begin:end])
        at = end
    if at != len(data):
        raise _bad_bundle("bytes after the last entry", f"{at} bytes", len(data))
    return entries


def _numbered(index: int, width: int) -> str:
    _check(index, "tile index", 0, MAX_SIZE)
    _check(width, "tile width", 1, TILE_WIDTH)
    digits = str(index)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    path = "/x".join(groups[:-1])
    path = f"x{path}/{groups[-1]}" if path else groups[-1]
    return path if width == TILE_WIDTH else f"{path}.p/{width}"


def _parse_numbered(path: str, number: str, partial: str | None) -> tuple[int, int]:
    index = int(number.replace("/", "").replace("x", ""))
    width = TILE_WIDTH if partial is None else int(partial)
    full_as_partial = partial is not None and width >= TILE_WIDTH
    # "x000/001" is a second spelling of "001".
    if index > MAX_SIZE or full_as_partial or number.startswith("x000"):
        raise _not_found(path)
    return index, width


def _check(value: int, what: str, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ServiceError(
            Reason.INVALID_ARGUMENT,
            f"{what} is out of range",
            want=f"{low}..{high}",
            got=str(value),
        )


def _not_found(path: str) -> ServiceError:
    return ServiceError(
        Reason.NOT_FOUND,
        "no such tile",
        want="tile/<level>/<index>[.p/<width>] or tile/entries/<index>[.p/<width>]",
        got=ascii(path[:80]),
    )


def _bad_bundle(message: str, want: str, got: int) -> EvidenceError:
    return EvidenceError(Reason.BAD_LEAF, message, want=want, got=str(got))
