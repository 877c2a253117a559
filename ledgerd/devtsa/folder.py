"""What a development TSA's folder remembers of how it was made, and whether that is what is wanted."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, get_args

from ledgerd.devtsa.pki import NOTICE, KeyKind

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DevTsaError", "Made", "read_made", "write_made"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}", re.ASCII)  # a common name has 64 at most
_FILE: Final = "devtsa.json"
_ABOUT: Final = f"""{NOTICE}

This folder holds a timestamp authority for development and tests, with all its keys. Whoever can read
them can date anything. Never list its root among the authorities of a ledger that matters.
"""


class DevTsaError(Exception):
    """The development TSA cannot start; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Made:
    """How it was made; its certificates say the same.

    Raises:
        ValueError: when the name or the kind of key is none.
    """

    name: str
    key: KeyKind
    port: int

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"a name has 1 to 32 of a-z, 0-9, '.', '_', '-' and begins with a letter or digit, "
                f"not {self.name!r}"
            )
        if self.key not in get_args(KeyKind):
            raise ValueError(f"a key is one of {', '.join(get_args(KeyKind))}, not {self.key!r}")


def read_made(
    folder: Path, *, name: str | None = None, key: KeyKind | None = None, port: int = 0
) -> Made | None:
    """How a folder's TSA was made, or None when it is still to be made there.

    Raises:
        DevTsaError: when it holds something else, or one that was made otherwise than wished.
    """
    path = folder / _FILE
    if not path.exists():
        # With a root's key but without that file: making it was broken off.
        if folder.exists() and any(folder.iterdir()) and not (folder / "root.key").exists():
            raise DevTsaError(f"{folder} holds something else; name an empty or a new folder")
        return None
    try:
        row = json.loads(path.read_text("utf-8"))
        made = Made(str(row["name"]), row["key"], int(row["port"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DevTsaError(f"{path} cannot be read: {error!r}; delete {folder}") from None
    for what, wish in (("name", name), ("key", key), ("port", port or None)):
        if wish is not None and wish != getattr(made, what):
            raise DevTsaError(
                f"{folder} was made with {what} {getattr(made, what)}, not {wish}: leave it out, "
                "or begin anew in another folder"
            )
    return made


def write_made(folder: Path, made: Made) -> None:
    """Remember it. Written last: a folder without this file is made anew."""
    (folder / f"{NOTICE.replace(' ', '-')}.txt").write_text(_ABOUT, "utf-8")
    (folder / _FILE).write_text(json.dumps(asdict(made) | {"about": NOTICE}) + "\n", "utf-8")
