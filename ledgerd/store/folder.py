"""Whose folder is this, and is anyone using it? Decided before the database touches it.

Opening a RocksDB database writes to it, even to look. So the folder is judged by the names in it
and by the column families its MANIFEST lists, and locked by our own lock file, which is made first:
a folder that has it without a complete database is a creation that was interrupted.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from ledgerd.store.families import FAMILIES, FORMAT, FORMAT_FAMILY, format_of
from ledgerd.store.interface import ChangedFormatError, StoreError, StoreInUseError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

__all__ = ["DATABASE_NAME", "LOCK_NAME", "FolderLock", "in_use", "is_new", "list_names"]

LOCK_NAME = "ledgerd.lock"
DATABASE_NAME = "CURRENT"  # RocksDB's pointer to its MANIFEST: there once a database exists

_OURS = {*FAMILIES, FORMAT_FAMILY}
_IGNORED = {"lost+found"}  # in the root of a fresh ext4 volume


def list_names(path: Path) -> set[str]:
    """Names in a folder; none when it does not exist.

    Raises:
        ChangedFormatError: something else than a folder has this name.
        StoreError: the folder cannot be read.
    """
    try:
        return {item.name for item in path.iterdir()} - _IGNORED
    except FileNotFoundError:
        return set()
    except NotADirectoryError as error:
        raise ChangedFormatError(f"{path} is a file; a ledger needs a folder of its own") from error
    except OSError as error:
        raise StoreError(f"cannot read the folder {path}: {error}") from error


def is_new(path: Path, names: Collection[str], families: Collection[str] | None) -> bool:
    """Judge a folder: False when it holds a store, True when one is to be created in it.

    Args:
        path: the folder.
        names: what :func:`list_names` gave.
        families: column families of the database in it, None when there is no database.

    Raises:
        ChangedFormatError: neither. Says what was found and what to do.
    """
    began = LOCK_NAME in names
    if families is None:
        if names and not began:
            raise _foreign(path, f"it holds {_sample(names)} and no ledger")
        _check_unused(path, names)
        return True
    stamps = [stamp for stamp in map(format_of, families) if stamp is not None]
    if stamps and max(stamps) > FORMAT:
        raise ChangedFormatError(
            f"{path} was written by a newer ledgerd (store format {max(stamps)}; this one knows "
            f"{FORMAT}): run that version, or restore a backup of format {FORMAT}"
        )
    if set(families) == _OURS:
        return False
    if not began or not set(families) < _OURS:
        raise _foreign(path, f"it holds another database, with column families {_sample(families)}")
    _check_unused(path, names)
    return True


def _check_unused(path: Path, names: Collection[str]) -> None:
    """An interrupted creation holds no data yet; anything else would be built over and lost."""
    data = [name for name in names if name.endswith(".sst")]
    data += [name for name in names if name.endswith(".log") and (path / name).stat().st_size]
    if data:
        raise ChangedFormatError(
            f"{path} holds data of a ledger ({_sample(data)}) that its files {DATABASE_NAME} and "
            "MANIFEST do not lead to: restore the folder from a backup"
        )


class FolderLock:
    """Exclusive use of a folder, by flock: ends with the process, holds within it too."""

    def __init__(self, path: Path) -> None:
        """Make the folder and the lock file where missing, and take the lock.

        Raises:
            StoreInUseError: it is taken.
            StoreError: the folder cannot be made or written.
        """
        try:
            if not path.is_dir():
                path.mkdir(mode=0o700, parents=True)
                _sync_folder(path.parent)
            self._file = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"cannot use the folder {path}: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise in_use(path) from error

    def release(self) -> None:
        """Let others in. Idempotent."""
        file, self._file = self._file, -1
        if file >= 0:
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough while a fork holds it too
            os.close(file)


def in_use(path: Path) -> StoreInUseError:
    """The error for a folder another store has open."""
    return StoreInUseError(
        f"the folder {path} is in use by another ledgerd: stop that one, or use another folder"
    )


def _foreign(path: Path, found: str) -> ChangedFormatError:
    return ChangedFormatError(
        f"{path} is not a ledger folder: {found}. Nothing was changed; use an empty folder"
    )


def _sample(names: Collection[str]) -> str:
    shown = sorted(names)[:5]
    more = len(names) - len(shown)
    return ", ".join(map(repr, shown)) + (f" and {more} more" if more else "")


def _sync_folder(path: Path) -> None:
    """Make a new name in a folder survive power loss."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
