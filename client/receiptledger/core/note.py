"""Signed notes (C2SP signed-note, with the semantics of golang.org/x/mod/sumdb/note).

A note is a text that ends in a newline, an empty line, and signature lines:
`U+2014 SP <name> SP <base64 of key id || signature> LF`. Signed is the text with its final newline.

Rules:

- UTF-8, no control character but the newline. The last empty line ends the text, so a text may
  hold empty lines. At least one signature line, at most 100.
- A signature whose (name, key id) is not known is ignored. One that is known must hold, or the
  whole note is refused; so is a note that no known key signed.
- Lines are separated by 0A alone, and base64 has one spelling: a note that was changed in any byte
  of its text or of a known signature is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from receiptledger.core.note_keys import (
    KEY_ID_BYTES,
    SIGNATURE_PREFIX,
    NoteSigner,
    VerifierKey,
    bad_note,
    base64_bytes,
    is_name,
)

__all__ = [
    "MAX_NOTE_BYTES",
    "MAX_SIGNATURES",
    "NoteSigner",
    "OpenedNote",
    "Signature",
    "VerifierKey",
    "open_note",
    "parse_signature",
    "sign_note",
    "split_note",
]

MAX_SIGNATURES: Final = 100
# A hundred signatures of the longest kind in use (ML-DSA-44: 3.3 KB in base64), and their text.
MAX_NOTE_BYTES: Final = 524_288

_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]")


class Signature(NamedTuple):
    """One signature line, parsed but not verified: `signature` is 1 byte or more."""

    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class OpenedNote:
    """A note of which at least one signature was verified, and none failed.

    Attributes:
        text: the signed bytes, with their final newline.
        signed_by: the keys whose signature holds, in the order of their first line.
        unknown: number of different signature lines by keys that were not given.
    """

    text: bytes
    signed_by: tuple[VerifierKey, ...]
    unknown: int


def sign_note(text: bytes, *signers: NoteSigner) -> bytes:
    """Make a note: the text, an empty line, and a signature line by each signer in turn.

    Args:
        text: UTF-8 that ends in a newline, no other control characters.
        signers: one or more, no two of the same name and key id.

    Raises:
        EvidenceError: BAD_NOTE, the result would not be a note that can be opened.
    """
    # Checked here: text without its newline would move into the signature block, or out of it.
    if not text.endswith(b"\n"):
        raise bad_note("note text does not end in a newline", want="a final 0A")
    keys = {(signer.verifier.name, signer.verifier.key_id) for signer in signers}
    if len(keys) != len(signers):
        raise bad_note("two signers share a name and key id", want="different signers")
    note = text + b"\n" + b"".join([signer.sign(text) for signer in signers])
    split_note(note)
    return note


def split_note(note: bytes) -> tuple[bytes, list[bytes]]:
    """Take a note apart without verifying anything.

    Returns:
        The text with its final newline, and the signature lines, each with its newline: the text,
        a newline and the lines, joined, are the note. :func:`parse_signature` reads every line.

    Raises:
        EvidenceError: BAD_NOTE, it has not the form of a note.
    """
    text, lines, _ = _parse(note)
    return text, lines


def open_note(note: bytes, *verifiers: VerifierKey) -> OpenedNote:
    """Verify a note.

    Unlike x/mod, a second, different line of a known key is verified too instead of skipped:
    nothing that claims a known key goes unchecked.

    Args:
        note: the whole note, at most `MAX_NOTE_BYTES`.
        verifiers: the keys to trust.

    Raises:
        EvidenceError: BAD_NOTE, it has not the form of a note, a signature that claims one of the
            keys does not hold, two of the keys share the name and key id of a line, or none of
            them signed it.
    """
    text, lines, signatures = _parse(note)
    known: dict[tuple[str, bytes], list[VerifierKey]] = {}
    for verifier in verifiers:
        known.setdefault((verifier.name, verifier.key_id), []).append(verifier)

    signed_by: dict[VerifierKey, None] = {}  # in order, each once
    unknown = 0
    distinct = dict(zip(lines, signatures, strict=True)).values()  # a repeated line counts once
    for name, key_id, signature in distinct:
        keys = known.get((name, key_id))
        if keys is None:
            unknown += 1
            continue
        if len(keys) > 1:
            raise bad_note("ambiguous key: given twice", got=f"{name}+{key_id.hex()}")
        keys[0].verify(text, signature)
        signed_by[keys[0]] = None
    if not signed_by:
        raise bad_note(
            "no known key signed the note",
            want=", ".join(f"{key.name}+{key.key_id.hex()}" for key in verifiers) or "a key",
            got=", ".join(f"{line.name}+{line.key_id.hex()}" for line in signatures),
        )
    return OpenedNote(text, tuple(signed_by), unknown)


def parse_signature(line: bytes) -> Signature:
    """Read one signature line, with its newline, without verifying it.

    Raises:
        EvidenceError: BAD_NOTE, for anything else.
    """
    encoded_name, _, encoded = line.removeprefix(SIGNATURE_PREFIX)[:-1].partition(b" ")
    # Bytes that are not UTF-8 become lone surrogates, which no name may hold.
    name = encoded_name.decode("utf-8", "surrogateescape")
    data = base64_bytes(encoded)
    whole = line.startswith(SIGNATURE_PREFIX) and line.endswith(b"\n")
    if not whole or not is_name(name) or data is None or len(data) <= KEY_ID_BYTES:
        raise bad_note(
            "malformed signature line",
            want="U+2014, name, base64 of key id and signature",
            got=ascii(line[:120].decode("utf-8", "replace")),
        )
    return Signature(name, data[:KEY_ID_BYTES], data[KEY_ID_BYTES:])


def _parse(note: object) -> tuple[bytes, list[bytes], list[Signature]]:
    """Text, signature lines, and the same lines parsed."""
    if type(note) is not bytes:
        raise bad_note("a note is bytes", want="bytes", got=type(note).__name__)
    if len(note) > MAX_NOTE_BYTES:
        raise bad_note("note is too long", want=f"at most {MAX_NOTE_BYTES}", got=str(len(note)))
    try:
        note.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_note("note is not UTF-8", got=f"byte {error.start}") from None
    control = _CONTROL.search(note)
    if control is not None:
        raise bad_note("control character in a note", want="none but 0A", got=control[0].hex())
    split = note.rfind(b"\n\n")
    block = note[split + 2 :]
    if split < 0 or not block.endswith(b"\n"):
        raise bad_note(
            "not a signed note", want="a text, an empty line, and signature lines that end in 0A"
        )
    count = block.count(b"\n")
    if count > MAX_SIGNATURES:
        raise bad_note("too many signatures", want=f"at most {MAX_SIGNATURES}", got=str(count))
    # Not splitlines(): it breaks at more than the newline.
    lines = [line + b"\n" for line in block[:-1].split(b"\n")]
    return note[: split + 1], lines, [parse_signature(line) for line in lines]
