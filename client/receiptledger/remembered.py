"""The last verified checkpoint, kept in a file: an auditor's memory between runs.

Without it a ledger could show one history today and another tomorrow. The file is the signed note
itself, replaced atomically, and only with a checkpoint that was verified; when two notes contradict each
other, both are kept beside it.
"""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.note import MAX_NOTE_BYTES

__all__ = ["CheckpointFile", "replace_file"]


class CheckpointFile:
    """One file with one signed note. Blocks on the disk."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def read(self) -> bytes | None:
        """The note, None when there is no file. Not verified.

        Raises:
            ServiceError: INVALID_ARGUMENT, it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                return file.read(MAX_NOTE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable("read", self.path, error) from None

    def write(self, note: bytes) -> None:
        """Replace the note durably.

        Raises:
            ServiceError: INVALID_ARGUMENT, it cannot be written; the old one is still there.
        """
        try:
            replace_file(self.path, note)
        except OSError as error:
            raise _unusable("write", self.path, error) from None

    def keep(self, *notes: bytes) -> tuple[Path, ...]:
        """Put contradicting notes beside the file, each under a name made of its hash.

        Raises:
            ServiceError: INVALID_ARGUMENT, they cannot be written.
        """
        paths = []
        for note in notes:
            name = f"{self.path.name}.conflict-{sha256(note).hexdigest()[:16]}"
            path = self.path.with_name(name)
            try:
                replace_file(path, note)
            except OSError as error:
                raise _unusable("write", path, error) from None
            paths.append(path)
        return tuple(paths)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a mixture.

    Raises:
        OSError: nothing was replaced, or whether it was is unknown.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)  # mkstemp makes private files; these are evidence, to be handed around
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    # The rename itself is durable only once the folder is.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unusable(verb: str, path: Path, error: OSError) -> ServiceError:
    return ServiceError(
        Reason.INVALID_ARGUMENT, f"cannot {verb} the file {path}: {error.strerror or error}"
    )
