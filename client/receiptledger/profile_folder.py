"""Receipt formats of an operator or auditor: the TOML files of a folder, beside the built-in ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.profile import Profiles

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAX_FILES", "MAX_FILE_BYTES", "load_profiles", "read_folder"]

MAX_FILES = 256
MAX_FILE_BYTES = 64 * 1024


def load_profiles(folder: Path | None) -> Profiles:
    """The built-in formats, and those of a folder's `*.toml` files in the order of their names.

    Args:
        folder: None for the built-in formats alone.

    Raises:
        ValueError: the folder or a file cannot be read, or a format is wrong; it names the file and
            what is wrong in it.
    """
    return Profiles.builtin() if folder is None else Profiles.with_folder(read_folder(folder))


def read_folder(folder: Path) -> tuple[tuple[str, str], ...]:
    """(File name, text) of a folder's `*.toml` files, in the order of their names.

    Raises:
        ValueError: the folder or a file cannot be read.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError as error:
        raise ValueError(f"cannot read the folder {folder}: {error.strerror}") from None
    if not 1 <= len(paths) <= MAX_FILES:
        raise ValueError(f"{folder} must hold 1..{MAX_FILES} files *.toml, got {len(paths)}")
    return tuple((str(path), _text(path)) for path in paths)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"{path} is too long for a receipt format: at most {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: a bad byte at offset {error.start}") from None
