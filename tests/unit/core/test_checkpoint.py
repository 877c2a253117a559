"""Checkpoints: their three lines, their signature, and whose they are."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import checkpoint, note
from receiptledger.core.checkpoint import Checkpoint
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.merkle import EMPTY_ROOT, MAX_SIZE
from receiptledger.core.note import NoteSigner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIGNER = NoteSigner.from_seed("example.com/log", bytes(range(32)))
ROOT = bytes(range(32))
CHECKPOINT = Checkpoint("example.com/log", 1234, ROOT)
TEXT = b"example.com/log\n1234\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
SIGNED = checkpoint.sign_checkpoint(CHECKPOINT, SIGNER)


def refused(reason: Reason, call: Callable[..., object], *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        call(*arguments)
    assert caught.value.reason is reason
    return caught.value


def malformed(call: Callable[..., object], *arguments: Any) -> EvidenceError:
    return refused(Reason.BAD_CHECKPOINT, call, *arguments)


# Text


def test_text_byte_for_byte_and_back() -> None:
    assert CHECKPOINT.encode() == TEXT
    assert Checkpoint.parse(TEXT) == CHECKPOINT


@pytest.mark.parametrize("size", [1, 9, 10, 2**53, 10**18, MAX_SIZE])
def test_sizes_and_back(size: int) -> None:
    sized = Checkpoint("a", size, ROOT)
    assert sized.encode().split(b"\n")[1] == str(size).encode()
    assert Checkpoint.parse(sized.encode()) == sized


def test_the_empty_log_has_one_root() -> None:
    empty = Checkpoint("a", 0, EMPTY_ROOT)
    assert empty.encode() == b"a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
    assert Checkpoint.parse(empty.encode()) == empty
    error = malformed(Checkpoint, "a", 0, ROOT)
    assert (error.want, error.got) == (EMPTY_ROOT.hex(), ROOT.hex())
    malformed(Checkpoint.parse, b"a\n0\n" + base64.b64encode(ROOT) + b"\n")


@pytest.mark.parametrize(
    "size",
    [
        *(
            b"",
            b"-1",
            b"+1",
            b"01",
            b"00",
            b"1 ",
            b" 1",
            b"1_000",
            b"1e3",
            b"1.0",
            b"0x1",
            b"1,000",
        ),
        *("\uff11".encode(), "\u0661".encode(), b"9223372036854775808", b"1" * 20, b"1" * 5000),
        *(b"1\r", b"1\x0b", b"\xff", "1\u2028".encode()),
    ],
)
def test_sizes_that_are_none(size: bytes) -> None:
    malformed(Checkpoint.parse, b"a\n" + size + b"\n" + base64.b64encode(ROOT) + b"\n")


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_roots_of_another_length(length: int) -> None:
    malformed(Checkpoint.parse, b"a\n1\n" + base64.b64encode(b"r" * length) + b"\n")
    malformed(Checkpoint, "a", 1, b"r" * length)


def test_roots_have_one_spelling() -> None:
    encoded = base64.b64encode(b"\xff" * 32)
    good = b"a\n1\n" + encoded + b"\n"
    assert Checkpoint.parse(good).root == b"\xff" * 32
    for bad in (
        encoded.replace(b"/", b"_"),
        encoded.rstrip(b"="),
        encoded + b"=",
        encoded[:-2] + b"9=",  # the last four bits are trailing: 8 and 9 decode alike
        b" " + encoded,
        encoded[:4] + b"\r" + encoded[4:],
        b"\xff" * 32,
        (b"\xff" * 32).hex().encode(),
    ):
        malformed(Checkpoint.parse, b"a\n1\n" + bad + b"\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"\n\n\n",
        TEXT[:-1],
        TEXT + b"\n",
        TEXT + b"an extension line\n",
        TEXT + b"an extension line",
        b"\n" + TEXT,
        TEXT.replace(b"\n", b"\r\n"),
        b"example.com/log\n1234\n",
        TEXT.replace(b"example.com/log", b""),
        TEXT.replace(b"example.com/log", b"example.com log"),
        TEXT.replace(b"example.com/log", b"example.com+log"),
        TEXT.replace(b"example.com/log", "example.com\u2028log".encode()),
        TEXT.replace(b"example.com/log", b"example.com\x85log"),
        TEXT.replace(b"example.com/log", b"\xed\xa0\x80"),
    ],
)
def test_texts_that_are_no_checkpoint(text: bytes) -> None:
    malformed(Checkpoint.parse, text)


@pytest.mark.parametrize(
    ("origin", "size", "root"),
    [
        *(
            ("", 1, ROOT),
            ("a b", 1, ROOT),
            ("a+b", 1, ROOT),
            ("a\nb", 1, ROOT),
            ("\ud800", 1, ROOT),
        ),
        *((b"a", 1, ROOT), (None, 1, ROOT), ("a", -1, ROOT), ("a", MAX_SIZE + 1, ROOT)),
        *(("a", True, ROOT), ("a", 1.0, ROOT), ("a", "1", ROOT), ("a", None, ROOT)),
        *(("a", 1, bytearray(32)), ("a", 1, "r" * 32), ("a", 1, None), ("a", 0, b"")),
    ],
)
def test_a_checkpoint_cannot_be_made_of_anything_else(origin: Any, size: Any, root: Any) -> None:
    malformed(Checkpoint, origin, size, root)


def test_errors_do_not_repeat_long_foreign_texts() -> None:
    for text in (b"x y" * 100_000, b"\xff" * 100_000):
        for bad in (text + b"\n1\n\n", b"a\n" + text + b"\n\n", b"a\n1\n" + text + b"\n"):
            assert len(str(malformed(Checkpoint.parse, bad))) < 500


def test_every_changed_byte_of_a_text_is_refused_or_is_another_checkpoint() -> None:
    for at in range(len(TEXT)):
        for value in range(256):
            changed = TEXT[:at] + bytes([value]) + TEXT[at + 1 :]
            try:
                other = Checkpoint.parse(changed)
            except EvidenceError:
                continue
            assert other.encode() == changed
            assert (other == CHECKPOINT) == (changed == TEXT)


# Signature


def test_signed_and_opened() -> None:
    assert note.sign_note(TEXT, SIGNER) == SIGNED
    assert checkpoint.open_checkpoint(SIGNED, SIGNER.verifier) == CHECKPOINT


def test_the_logs_line_may_come_after_others() -> None:
    witness = NoteSigner.from_seed("witness.example/w1", bytes(32))
    signed = TEXT + b"\n" + witness.sign(TEXT) + SIGNER.sign(TEXT)
    assert checkpoint.open_checkpoint(signed, SIGNER.verifier) == CHECKPOINT
    # A witness vouches for what it saw. It is not the log.
    error = refused(Reason.WRONG_LOG, checkpoint.open_checkpoint, signed, witness.verifier)
    assert (error.want, error.got) == ("witness.example/w1", "example.com/log")


def test_a_key_signs_and_opens_its_own_log_only() -> None:
    other = Checkpoint("example.com/other", 1234, ROOT)
    refused(Reason.WRONG_LOG, checkpoint.sign_checkpoint, other, SIGNER)
    signed = note.sign_note(other.encode(), SIGNER)
    refused(Reason.WRONG_LOG, checkpoint.open_checkpoint, signed, SIGNER.verifier)


def test_a_key_of_the_same_name_is_another_key() -> None:
    other = NoteSigner.from_seed("example.com/log", bytes(32))
    refused(Reason.BAD_NOTE, checkpoint.open_checkpoint, SIGNED, other.verifier)
    forged = note.sign_note(TEXT.replace(b"1234", b"1235"), other)
    refused(Reason.BAD_NOTE, checkpoint.open_checkpoint, forged, SIGNER.verifier)


def test_a_signed_text_with_an_extension_line_is_refused() -> None:
    signed = note.sign_note(TEXT + b"extension\n", SIGNER)
    refused(Reason.BAD_CHECKPOINT, checkpoint.open_checkpoint, signed, SIGNER.verifier)


def test_every_flipped_bit_of_a_signed_checkpoint_is_refused() -> None:
    for at in range(len(SIGNED)):
        for bit in range(8):
            changed = SIGNED[:at] + bytes([SIGNED[at] ^ 1 << bit]) + SIGNED[at + 1 :]
            refused(Reason.BAD_NOTE, checkpoint.open_checkpoint, changed, SIGNER.verifier)


# Foreign vectors


def test_foreign_checkpoint(vectors: Path) -> None:
    """The example's text and signature line. Its verifier key is published nowhere."""
    example = json.loads((vectors / "tlog" / "spec-examples.derived.json").read_bytes())
    signed = example["checkpoint"].encode()
    text, (line,) = note.split_note(signed)
    parsed = Checkpoint.parse(text)
    assert (parsed.origin, parsed.size) == ("example.com/behind-the-sofa", 20_852_163)
    assert base64.b64encode(parsed.root) == b"CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
    assert parsed.encode() == text
    signature = note.parse_signature(line)
    assert (signature.name, len(signature.signature)) == (parsed.origin, 64)
    key = NoteSigner.from_seed(parsed.origin, bytes(32))
    refused(Reason.BAD_NOTE, checkpoint.open_checkpoint, signed, key.verifier)
    ours = signed + key.sign(text) + example["cosignature_line"].encode()
    assert note.open_note(ours, key.verifier).unknown == 2
    assert checkpoint.open_checkpoint(ours, key.verifier) == parsed
    # What a witness signs is its own header and the very same text.
    header, _, body = example["cosignature_message"].encode().partition(b"example.com")
    assert header == b"cosignature/v1\ntime 1679315147\n"
    assert Checkpoint.parse(b"example.com" + body) == parsed
