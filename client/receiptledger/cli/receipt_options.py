"""Options of the commands that check receipts by themselves, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from receiptledger.cli.options import read_file
from receiptledger.cli.output import CliError
from receiptledger.core.public_key import parse_public_key
from receiptledger.core.receipt_check import GivenKey
from receiptledger.profile_folder import load_profiles

if TYPE_CHECKING:
    from receiptledger.core.profile import Profiles

__all__ = ["Keys", "KidKeys", "ProfileFolder", "ProfileId", "given_keys", "open_profiles"]

MAX_KEYS = 256
_MAX_KEY_FILE_BYTES = 65_536

Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Public key you trust: Ed25519 in hex or base64url, ES256:KEY, ML-DSA-65:KEY, or a file "
        "with one a line. Repeatable.",
    ),
]
KidKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--kid-key",
        metavar="KID=KEY",
        help="The same, for receipts that name this key id only. Repeatable.",
    ),
]
ProfileId = Annotated[
    str | None,
    typer.Option("--profile", metavar="ID", help="The receipts' format; detected by default."),
]
ProfileFolder = Annotated[
    Path | None,
    typer.Option(
        "--profiles",
        metavar="FOLDER",
        help="Folder with further receipt formats, *.toml; see proto/FORMATS.md.",
    ),
]


def open_profiles(folder: Path | None) -> Profiles:
    """The known formats.

    Raises:
        CliError: a format in the folder cannot be used.
    """
    try:
        return load_profiles(folder)
    except ValueError as error:
        raise CliError(f"--profiles: {error}") from None


def given_keys(keys: list[str] | None, kid_keys: list[str] | None) -> tuple[GivenKey, ...]:
    """The keys the options give.

    Raises:
        CliError: one is none, or there are too many.
    """
    found = [GivenKey(key) for text in keys or () for key in _keys(text)]
    for text in kid_keys or ():
        # Keys hold no equals sign, key ids may.
        kid, equals, key = text.rpartition("=")
        if not equals or not kid:
            raise CliError(f"--kid-key expects KID=KEY, got {text[:120]!r}")
        found.append(GivenKey(_key(key, f"--kid-key {kid}"), kid))
    if len(found) > MAX_KEYS:
        raise CliError(f"{len(found)} keys, at most {MAX_KEYS}")
    return tuple(found)


def _keys(text: str) -> list[bytes]:
    """A key as it is, or those of a file."""
    try:
        return [parse_public_key(text)]
    except ValueError as error:
        if not _is_file(text):
            raise CliError(f"--key {text[:120]!r} is no public key and no file: {error}") from None
    lines = read_file(Path(text), _MAX_KEY_FILE_BYTES, "file of public keys")
    keys = [
        _key(line.strip(), f"{text}, line {number}")
        for number, line in enumerate(lines.decode("utf-8", "replace").split("\n"), 1)
        if line.strip() and not line.startswith("#")
    ]
    if not keys:
        raise CliError(f"{text} holds no public key")
    return keys


def _key(text: str, where: str) -> bytes:
    try:
        return parse_public_key(text)
    except ValueError as error:
        raise CliError(f"{where}: no public key: {error}") from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than a path may be, or with a zero byte
        return False
