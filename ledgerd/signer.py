"""The log's signing key: one file, mode 0600, in the `PRIVATE+KEY+` text form of signed notes."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

from receiptledger.core.errors import LedgerError
from receiptledger.core.note import NoteSigner

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LogKeyError", "create_log_key", "load_log_key"]


class LogKeyError(Exception):
    """The log's key file is missing, readable by others, or not a key."""


def create_log_key(path: Path, origin: str) -> NoteSigner:
    """Make a new key for a log and write it durably; an existing file is never replaced.

    Raises:
        LogKeyError: when the file exists or cannot be written.
    """
    signer = NoteSigner.from_seed(origin, secrets.token_bytes(32))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(path, signer.format() + "\n")
    except FileExistsError as error:
        if error.filename != str(path):  # a file where a folder of the path should be
            raise LogKeyError(f"cannot write the log key {path}: {error}") from None
        raise LogKeyError(f"{path} exists; a log key is never replaced") from None
    except OSError as error:
        raise LogKeyError(f"cannot write the log key {path}: {error.strerror}") from None
    return signer


def _write_new(path: Path, text: str) -> None:
    """A file that is on stable storage when this returns, or is not there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # The name is durable only once the folder is; a log that signed must not lose its key.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        path.unlink(missing_ok=True)  # nothing was signed under it; half a key would block a start
        raise


def load_log_key(path: Path, origin: str) -> NoteSigner:
    """Read the log's key.

    Raises:
        LogKeyError: when it is missing, open to others, malformed, or of another log than `origin`.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text("ascii").strip()
    except FileNotFoundError:
        raise LogKeyError(
            f"the log key {path} is missing. Put the copy you kept back in its place; a ledger "
            "that has signed checkpoints cannot go on under a new key."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise LogKeyError(f"cannot read the log key {path}: {error}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise LogKeyError(
            f"{path} is open to others (mode {stat.S_IMODE(mode):o}): chmod 600 {path}"
        )
    try:
        signer = NoteSigner.parse(text)
    except LedgerError as error:
        raise LogKeyError(f"{path} holds no log key: {error.message}") from None
    if signer.verifier.name != origin:
        raise LogKeyError(
            f"{path} is the key of log {signer.verifier.name!r}, the setting origin says {origin!r}"
        )
    return signer
