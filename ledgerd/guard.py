"""The guard: the last signed checkpoint, in its own fsynced file outside the database.

A log must never sign two different roots for one size. The database alone cannot promise that: a
stale backup put back forgets what was signed. So every checkpoint is written here after the seal's
commit and before it is published, and the start compares:

- guard ahead of the database: the database is older than what was signed. Refuse to sign.
- database ahead: a crash between commit and guard. The newer checkpoint was never published; it must
  extend the guard's; then the guard is advanced.
- same size, other root: the log has split. Refuse for good.

The file is the signed note itself, so it is evidence too, and a forged guard is noticed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FileGuard", "Guard", "GuardError"]


class GuardError(Exception):
    """The guard and the database disagree, or the guard cannot be used. Nothing was signed."""


class Guard(Protocol):
    """Remembers the last signed checkpoint."""

    def read(self) -> bytes | None:
        """The signed note, or None when no guard was ever written."""

    def write(self, note: bytes) -> None:
        """Replace it, durably: on stable storage when this returns. Raises OSError."""


class FileGuard:
    """A guard in a file, replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """See :class:`Guard`."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, note: bytes) -> None:
        """See :class:`Guard`. A crash leaves the old note or the new one, never a mixture."""
        temporary = self._path.with_name(self._path.name + ".new")
        with temporary.open("wb") as file:
            file.write(note)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        # The rename itself is durable only once the folder is.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
