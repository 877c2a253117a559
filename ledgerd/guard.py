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

from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.note import VerifierKey

__all__ = ["FileGuard", "Guard", "GuardError", "check_guard", "refuse_lost_log"]


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


def check_guard(
    guard: Guard,
    verifier: VerifierKey,
    size: int,
    root_at: Callable[[int], bytes],
    *,
    create_guard: bool,
) -> None:
    """Hold a database against the guard, before anything is signed or published.

    Args:
        guard: the last signed checkpoint.
        verifier: the log's key.
        size: leaves the database has.
        root_at: the database's root of a size up to that.
        create_guard: accept a missing guard for a log that has leaves.

    Raises:
        GuardError: they disagree.
        OSError: the guard cannot be read.
    """
    note = guard.read()
    if note is None:
        # A crash between the very first commit and the guard leaves an empty log without one.
        if size == 0 or create_guard:
            return
        raise GuardError(
            f"the guard file is missing, but the log has {size} leaves. If it was moved, set "
            "guard_path. If it is lost and this database is the newest copy, start once with "
            "--create-guard."
        )
    guarded = _open(note, verifier)
    if guarded.size > size:
        raise GuardError(
            f"the database has {size} leaves, but {guarded.size} were signed: it was restored "
            "from an old copy. Signing again would fork the log. Put the newest copy back, or start "
            "a new log with a new origin and key."
        )
    if root_at(guarded.size) != guarded.root:
        raise GuardError(
            f"the database and the guard have different roots for {guarded.size} leaves: the log has "
            "split. Keep both as evidence and start a new log with a new origin and key."
        )


def refuse_lost_log(guard: Guard, verifier: VerifierKey) -> None:
    """A guard without a log: the database is gone, and a new one would reuse its sizes.

    Raises:
        GuardError: leaves were signed.
        OSError: the guard cannot be read.
    """
    note = guard.read()
    if note is None:
        return
    size = _open(note, verifier).size
    if size > 0:
        raise GuardError(
            f"the database is empty, but the guard says {size} leaves were signed. Put the database "
            "back, or start a new log with a new origin and key."
        )


def _open(note: bytes, verifier: VerifierKey) -> Checkpoint:
    try:
        return open_checkpoint(note, verifier)
    except LedgerError as error:
        raise GuardError(f"the guard file is not a checkpoint of this log: {error}") from None
