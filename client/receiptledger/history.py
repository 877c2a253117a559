"""An auditor's memory of one log: the newest checkpoint that was verified, and what contradicts it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from receiptledger.core.checkpoint import Checkpoint, open_checkpoint
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.merkle import verify_consistency
from receiptledger.wire import CallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from receiptledger.core.note import VerifierKey
    from receiptledger.remembered import CheckpointFile

    # (smaller size, larger size) -> RFC 6962 consistency proof, not verified
    FetchProof = Callable[[int, int], Awaitable[tuple[bytes, ...]]]

__all__ = ["History", "Seen", "SplitViewError"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A checkpoint whose signature was verified, and the note it came in."""

    checkpoint: Checkpoint
    note: bytes


class SplitViewError(EvidenceError):
    """The log signed two states that contradict each other, or hides that one extends the other.

    Attributes:
        remembered: the note seen earlier.
        shown: the note that contradicts it.
        kept: files with both, when there is a state file.
    """

    def __init__(
        self,
        message: str,
        remembered: Seen,
        shown: Seen,
        *,
        want: str | None = None,
        got: str | None = None,
    ) -> None:
        super().__init__(Reason.INCONSISTENT, message, want=want, got=got)
        self.remembered = remembered.note
        self.shown = shown.note
        self.kept: tuple[Path, ...] = ()


class History:
    """Holds every new checkpoint against the last one, and remembers the newer of both.

    Args:
        key: the log's verification key.
        file: where the last one is kept between runs, or None.
        fetch: asks the ledger for a consistency proof.
    """

    def __init__(self, key: VerifierKey, file: CheckpointFile | None, fetch: FetchProof) -> None:
        self._key = key
        self._file = file
        self._fetch = fetch
        self._lock = asyncio.Lock()  # one checkpoint is compared and remembered at a time
        self.last: Seen | None = None
        """The newest checkpoint verified, in this run or an earlier one."""

    async def load(self) -> None:
        """Read the file, when there is one.

        Raises:
            EvidenceError: it is not a checkpoint of this log.
            ServiceError: it cannot be read.
        """
        note = None if self._file is None else await asyncio.to_thread(self._file.read)
        if note is None or self._file is None:
            return
        try:
            self.last = self.open(note)
        except EvidenceError as error:
            raise EvidenceError(
                error.reason,
                f"the state file {self._file.path} is not a checkpoint of this log: {error.message}",
                want=error.want,
                got=error.got,
            ) from None

    def open(self, note: bytes) -> Seen:
        """Verify a note's signature; it is not held against the last one yet.

        Raises:
            EvidenceError: BAD_NOTE, BAD_CHECKPOINT, WRONG_LOG.
        """
        return Seen(open_checkpoint(note, self._key), note)

    async def observe(self, new: Seen) -> None:
        """Hold an opened checkpoint against the last one.

        Raises:
            SplitViewError: they contradict each other; nothing is forgotten.
            ServiceError: the ledger cannot answer now, or the file cannot be written.
        """
        async with self._lock:
            old = self.last
            if old is not None:
                try:
                    await self._compare(old, new)
                except SplitViewError as split:
                    if self._file is not None:
                        split.kept = await asyncio.to_thread(self._file.keep, old.note, new.note)
                    raise
            if old is None or new.checkpoint.size > old.checkpoint.size:
                if self._file is not None:
                    await asyncio.to_thread(self._file.write, new.note)
                self.last = new

    async def _compare(self, old: Seen, new: Seen) -> None:
        """Raise unless the smaller tree is a prefix of the larger."""
        small, large = sorted((old.checkpoint, new.checkpoint), key=lambda c: c.size)
        if small.size == large.size:
            if small.root != large.root:
                want, got = digest_text(old.checkpoint.root), digest_text(new.checkpoint.root)
                message = f"the log signed two roots for {small.size} leaves"
                raise SplitViewError(message, old, new, want=want, got=got)
            return
        if small.size == 0:
            return  # every log extends the empty one, which has one root only
        try:
            proof = await self._fetch(small.size, large.size)
            verify_consistency(small.size, large.size, proof, small.root, large.root)
        except (EvidenceError, CallError) as error:
            # A ledger that refuses sizes which were signed does not have that history (any more).
            if isinstance(error, CallError) and error.reason is not Reason.INVALID_ARGUMENT:
                raise
            raise SplitViewError(
                f"the ledger cannot show that the log of {large.size} leaves extends the one of "
                f"{small.size}, both signed: it was rolled back, or shows different histories "
                f"({error.message})",
                old,
                new,
                want=error.want,
                got=error.got,
            ) from None
