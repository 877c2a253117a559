"""Column families of the store, and the format stamp among them. What is in them: `schema`."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "DEFAULT",
    "FAMILIES",
    "FORMAT",
    "FORMAT_FAMILY",
    "HASHES",
    "HEADS",
    "INDEX",
    "JOURNAL",
    "LEAVES",
    "SEGMENTS",
    "TILES",
    "format_of",
]

FORMAT: Final = 1

# Column families. The format stamp is the name of an empty one: unlike a key, it can be read
# without opening the database (which writes to the folder), and it travels with every copy.
DEFAULT: Final = "default"
JOURNAL: Final = "journal"
INDEX: Final = "index"
HEADS: Final = "heads"
HASHES: Final = "hashes"
LEAVES: Final = "leaves"
TILES: Final = "tiles"
SEGMENTS: Final = "segments"
FORMAT_FAMILY: Final = f"format-{FORMAT}"
FAMILIES: Final = (JOURNAL, INDEX, HEADS, HASHES, LEAVES, TILES, SEGMENTS, DEFAULT)


def format_of(family: str) -> int | None:
    """The format a column family's name stamps, or None when the name is no stamp."""
    match = re.fullmatch(r"format-([1-9][0-9]{0,8})", family)
    return int(match[1]) if match else None
