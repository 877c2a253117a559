"""Checkpoints: a signed statement of a log's size and root (C2SP tlog-checkpoint).

Rules:

- Three lines: origin, size in decimal, root in base64. No extension lines: whoever signs one
  vouches for bytes no reader of ours would check.
- The origin is the name of the log's key. A checkpoint that names another log is refused even if
  the signature holds.
- The empty log has one root, SHA-256 of nothing. Sizes stop at 2^63-1.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Final

from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.note import NoteSigner, VerifierKey, open_note, sign_note
from receiptledger.core.note_keys import base64_bytes, is_name
from receiptledger.core.treehash import EMPTY_ROOT, HASH_SIZE, MAX_SIZE

__all__ = ["Checkpoint", "open_checkpoint", "sign_checkpoint"]

# int() would also take signs, spaces, underscores and the digits of other scripts.
_SIZE: Final = re.compile(rb"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's size and root.

    Attributes:
        origin: the log's name, not empty, no spaces or plus.
        size: number of leaves, 0..2^63-1.
        root: 32 bytes; SHA-256 of nothing when the size is 0.

    Raises:
        EvidenceError: BAD_CHECKPOINT, one of them cannot be that.
    """

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        if not is_name(self.origin):
            raise _bad("origin is not usable", "text without spaces or plus", ascii(self.origin))
        if type(self.size) is not int or not 0 <= self.size <= MAX_SIZE:
            raise _bad("size is out of range", "0..2^63-1", repr(self.size))
        if type(self.root) is not bytes or len(self.root) != HASH_SIZE:
            raise _bad("root has the wrong form", f"{HASH_SIZE} bytes", repr(self.root))
        if self.size == 0 and self.root != EMPTY_ROOT:
            raise _bad("the empty log has another root", EMPTY_ROOT.hex(), self.root.hex())

    def encode(self) -> bytes:
        """The text that is signed: three lines."""
        root = base64.b64encode(self.root).decode("ascii")
        return f"{self.origin}\n{self.size}\n{root}\n".encode()

    @classmethod
    def parse(cls, text: bytes) -> Checkpoint:
        """Read what :meth:`encode` wrote, and nothing else.

        Raises:
            EvidenceError: BAD_CHECKPOINT, for any other bytes, extension lines among them.
        """
        lines = text.split(b"\n")
        if len(lines) != 4 or lines[3]:
            raise _bad("wrong number of lines", "3 lines", f"{len(lines)} parts")
        origin, size, root_text, _ = lines
        try:
            name = origin.decode("utf-8")
        except UnicodeDecodeError:
            raise _bad("origin is not UTF-8", "UTF-8", repr(origin)) from None
        if not _SIZE.fullmatch(size):
            raise _bad("size is malformed", "decimal digits without leading zeros", repr(size))
        root = base64_bytes(root_text)
        if root is None:
            raise _bad("root is malformed", "base64 of 32 bytes", repr(root_text))
        return cls(name, int(size), root)


def open_checkpoint(note: bytes, verifier: VerifierKey) -> Checkpoint:
    """Verify and read a log's signed checkpoint. Signatures of other keys are ignored.

    Args:
        note: the signed note.
        verifier: the log's key, from the reader's own hands.

    Raises:
        EvidenceError: BAD_NOTE, the note is malformed or not signed by this key; BAD_CHECKPOINT,
            its text is not a checkpoint; WRONG_LOG, it is the checkpoint of another log.
    """
    checkpoint = Checkpoint.parse(open_note(note, verifier).text)
    _check_origin(checkpoint, verifier)
    return checkpoint


def sign_checkpoint(checkpoint: Checkpoint, signer: NoteSigner) -> bytes:
    """Make the signed note of a checkpoint.

    It does not know what was signed before: never two roots for one size is the caller's to keep.

    Raises:
        EvidenceError: WRONG_LOG, the origin is not the signer's name.
    """
    _check_origin(checkpoint, signer.verifier)
    return sign_note(checkpoint.encode(), signer)


def _check_origin(checkpoint: Checkpoint, verifier: VerifierKey) -> None:
    if checkpoint.origin != verifier.name:
        raise EvidenceError(
            Reason.WRONG_LOG,
            "checkpoint is of another log",
            want=verifier.name,
            got=checkpoint.origin[:120],
        )


def _bad(message: str, want: str, got: str) -> EvidenceError:
    return EvidenceError(Reason.BAD_CHECKPOINT, message, want=want, got=got[:120])
