"""Signed notes: signing, opening, and everything that must not open."""

from __future__ import annotations

import base64
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import note
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.note import NoteSigner, VerifierKey
from tests.helpers import rfc8032

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = NoteSigner.from_seed("example.com/log", bytes(range(32)))
WITNESS = NoteSigner.from_seed("wïtness.example/1", bytes(32))
TEXT = "Zeile 1\n\nline 3 \N{SNOWMAN}\n".encode()
NOTE = note.sign_note(TEXT, LOG)
DASH = "\N{EM DASH} ".encode()

LOG_LINE = LOG.sign(TEXT)
WITNESS_LINE = WITNESS.sign(TEXT)


def refused(call: Callable[..., object], *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        call(*arguments)
    assert caught.value.reason is Reason.BAD_NOTE
    return caught.value


def line(name: bytes, data: bytes) -> bytes:
    return DASH + name + b" " + base64.b64encode(data) + b"\n"


# Signing


def test_a_signed_note_byte_for_byte() -> None:
    # Ed25519 is deterministic, so another implementation must make the same bytes.
    signature = rfc8032.sign(bytes(range(32)), TEXT)
    want = TEXT + b"\n" + line(b"example.com/log", LOG.verifier.key_id + signature)
    assert want == NOTE
    assert note.sign_note(TEXT, LOG, WITNESS) == want + WITNESS.sign(TEXT)
    assert note.parse_signature(WITNESS_LINE).signature == rfc8032.sign(bytes(32), TEXT)


@pytest.mark.parametrize(
    "text", [b"", b"text", b"text\r\n", b"a\0\n", b"\x1b\n", b"\t\n", b"\xff\n", b"\xed\xa0\x80\n"]
)
def test_text_that_cannot_be_signed(text: bytes) -> None:
    refused(note.sign_note, text, LOG)


@pytest.mark.parametrize("text", [b"\n", b"\n\n", b"a\n\n", b"\n\na\n", DASH + b"x AAAAAAA=\n"])
def test_text_that_looks_like_another_part_of_a_note(text: bytes) -> None:
    signed = note.sign_note(text, LOG)
    assert note.open_note(signed, LOG.verifier).text == text
    assert note.split_note(signed) == (text, [LOG.sign(text)])


def test_text_without_its_newline_cannot_slip_a_line_into_the_signatures() -> None:
    refused(note.sign_note, TEXT + b"\n" + WITNESS_LINE[:-1], LOG)


def test_signers_that_cannot_sign_together() -> None:
    refused(note.sign_note, TEXT)
    refused(note.sign_note, TEXT, LOG, LOG)
    signers = [NoteSigner.from_seed(f"w{n}", bytes(32)) for n in range(101)]
    assert len(note.split_note(note.sign_note(TEXT, *signers[:100]))[1]) == 100
    refused(note.sign_note, TEXT, *signers)


def test_length_limit() -> None:
    room = note.MAX_NOTE_BYTES - len(LOG.sign(b"")) - 2
    longest = note.sign_note(b"x" * room + b"\n", LOG)
    assert len(longest) == note.MAX_NOTE_BYTES
    assert note.open_note(longest, LOG.verifier).unknown == 0
    refused(note.sign_note, b"x" * (room + 1) + b"\n", LOG)


# Opening


def test_open_known_unknown_and_both() -> None:
    both = note.sign_note(TEXT, LOG, WITNESS)
    log, witness = LOG.verifier, WITNESS.verifier
    assert note.open_note(both, log) == note.OpenedNote(TEXT, (log,), 1)
    assert note.open_note(both, witness) == note.OpenedNote(TEXT, (witness,), 1)
    assert note.open_note(both, witness, log) == note.OpenedNote(TEXT, (log, witness), 0)
    other_way = TEXT + b"\n" + WITNESS_LINE + LOG_LINE
    assert note.open_note(other_way, log, witness).signed_by == (witness, log)
    error = refused(note.open_note, NOTE, witness)
    assert error.got == "example.com/log+d455c521"
    assert refused(note.open_note, NOTE).want == "a key"


def test_sharing_only_the_name_or_only_the_id_does_not_make_a_key_known() -> None:
    same_name = NoteSigner.from_seed("example.com/log", bytes(32))
    assert note.open_note(NOTE + same_name.sign(TEXT), LOG.verifier).unknown == 1
    refused(note.open_note, NOTE, same_name.verifier)
    same_id = line(b"example.com/other", LOG.verifier.key_id + b"s" * 64)
    assert note.open_note(NOTE + same_id, LOG.verifier).unknown == 1


@pytest.mark.parametrize("length", [1, 63, 64, 65, 72, 2420])
def test_a_known_signature_that_fails_refuses_the_whole_note(length: int) -> None:
    forged = line(b"example.com/log", LOG.verifier.key_id + b"s" * length)
    refused(note.open_note, TEXT + b"\n" + forged, LOG.verifier)
    for signed in (TEXT + b"\n" + WITNESS_LINE + forged, TEXT + b"\n" + forged + WITNESS_LINE):
        refused(note.open_note, signed, LOG.verifier, WITNESS.verifier)
        assert note.open_note(signed, WITNESS.verifier).unknown == 1
    # Not even after a good line of the same key.
    refused(note.open_note, NOTE + forged, LOG.verifier)


def test_a_signature_cannot_lend_its_tail_to_the_text() -> None:
    longer = note.parse_signature(LOG.sign(b"more" + TEXT)).signature
    lent = line(b"example.com/log", LOG.verifier.key_id + longer + b"more")
    refused(note.open_note, TEXT + b"\n" + lent, LOG.verifier)


def test_repeated_lines_count_once() -> None:
    signed = NOTE + LOG_LINE + WITNESS_LINE + WITNESS_LINE + LOG_LINE
    assert note.open_note(signed, LOG.verifier) == note.OpenedNote(TEXT, (LOG.verifier,), 1)
    other = line("wïtness.example/1".encode(), WITNESS.verifier.key_id + b"another")
    assert note.open_note(signed + other, LOG.verifier).unknown == 2


def test_a_key_given_twice_is_ambiguous_where_it_matters() -> None:
    log, witness = LOG.verifier, WITNESS.verifier
    assert "ambiguous" in str(refused(note.open_note, NOTE, log, witness, log))
    assert note.open_note(NOTE, witness, log, witness).signed_by == (log,)


def test_a_hundred_signatures_and_no_more() -> None:
    for extra in (LOG_LINE, WITNESS_LINE):
        assert note.open_note(NOTE + extra * 99, LOG.verifier).signed_by == (LOG.verifier,)
        error = refused(note.open_note, NOTE + extra * 100, LOG.verifier)
        assert (error.want, error.got) == ("at most 100", "101")


def malformed() -> dict[str, bytes]:
    encoded = LOG_LINE.split(b" ")[2]
    assert encoded.endswith(b"=\n")
    assert {b"+"[0], b"/"[0]} & {*encoded}
    head = TEXT + b"\n" + DASH + b"example.com/log"
    return {
        "empty": b"",
        "text only": TEXT,
        "no signature": TEXT + b"\n",
        "blank line only": b"\n\n",
        "no blank line": TEXT.rstrip(b"\n") + b"\n" + LOG_LINE,
        "no text": LOG_LINE,
        "no text, but its blank line": b"\n" + LOG.sign(b""),
        "no final newline": NOTE[:-1],
        "trailing blank line": NOTE + b"\n",
        "trailing text": NOTE + b"x\n",
        "line that is no signature": NOTE + b"Unexpected line.\n",
        "line that is no signature, first": TEXT + b"\nUnexpected line.\n" + LOG_LINE,
        "hyphen instead of dash": NOTE.replace(DASH, b"- "),
        "no space after dash": NOTE.replace(DASH, DASH[:-1]),
        "two spaces after dash": NOTE.replace(DASH, DASH + b" "),
        "no name": TEXT + b"\n" + DASH + encoded,
        "empty name": TEXT + b"\n" + DASH + b" " + encoded,
        "no signature bytes": head + b"\n",
        "empty signature bytes": head + b" \n",
        "key id only": head + b" " + base64.b64encode(b"1234") + b"\n",
        "space after signature": head + b" " + encoded[:-1] + b" \n",
        "another word": head + b" " + encoded[:-1] + b" x\n",
        "base64 without padding": head + b" " + encoded.replace(b"=", b""),
        "base64url": head + b" " + encoded.replace(b"/", b"_").replace(b"+", b"-"),
        "base64 with newline": head + b" " + encoded[:8] + b"\n" + encoded[8:],
        "base64 twice": head + b" " + encoded[:-1] + encoded,
        "carriage returns": NOTE.replace(b"\n", b"\r\n"),
        "carriage return at the end": NOTE[:-1] + b"\r\n",
        "NUL": b"\0" + NOTE,
        "tab": b"\t" + NOTE,
        "not UTF-8": b"\xff" + NOTE,
        "overlong UTF-8": b"\xc0\xaf" + NOTE,
        "encoded surrogate": b"\xed\xa0\x80" + NOTE,
        "cut UTF-8": TEXT + b"\xe2\x80\n\n" + LOG_LINE,
        "too long": b"x" * note.MAX_NOTE_BYTES + NOTE,
    }


@pytest.mark.parametrize("name", malformed())
def test_malformed_notes(name: str) -> None:
    bad = malformed()[name]
    assert bad != NOTE
    refused(note.open_note, bad, LOG.verifier)
    refused(note.split_note, bad)


def test_the_last_blank_line_ends_the_text() -> None:
    # The log's own line is now part of what the witness would have had to sign.
    signed = NOTE + b"\n" + WITNESS_LINE
    assert note.split_note(signed) == (NOTE, [WITNESS_LINE])
    refused(note.open_note, signed, LOG.verifier)
    refused(note.open_note, signed, LOG.verifier, WITNESS.verifier)


def test_trailing_bits_of_base64_cannot_vary() -> None:
    # 70 bytes leave four bits unused; Python's decoder ignores what is in them.
    loose = line(b"example.com/other", b"\0" * 70)
    assert loose.endswith(b"A==\n")
    note.split_note(NOTE + loose)
    assert base64.b64decode(b"AB==", validate=True) == base64.b64decode(b"AA==")
    refused(note.split_note, NOTE + loose.replace(b"A==\n", b"B==\n"))


@pytest.mark.parametrize("wrong", [None, "text", bytearray(NOTE), memoryview(NOTE), 5])
def test_a_note_is_bytes(wrong: Any) -> None:
    refused(note.open_note, wrong, LOG.verifier)
    refused(note.split_note, wrong)


NO_LINES = [b"", b"\n", DASH, DASH + b"a AAAAAAA=", DASH + b"\xff AAAAAAA=\n"]


@pytest.mark.parametrize("wrong", [*NO_LINES, LOG_LINE[1:], LOG_LINE + b"\n"])
def test_parse_signature_reads_one_whole_line(wrong: bytes) -> None:
    assert note.parse_signature(DASH + b"a AAAAAAA=\n") == ("a", b"\0" * 4, b"\0")
    refused(note.parse_signature, wrong)


def test_errors_do_not_repeat_long_foreign_texts() -> None:
    long = NoteSigner.from_seed("x" * 100_000, bytes(32))
    assert len(str(refused(note.open_note, note.sign_note(TEXT, long), LOG.verifier))) < 500
    assert len(str(refused(note.split_note, NOTE + b"y" * 100_000 + b"\n"))) < 1000
    text = "z z" * 100_000 + str(LOG.verifier).removeprefix("example.com/log")
    assert len(str(refused(VerifierKey.parse, text))) < 500


def test_opened_notes_and_keys_are_plain_values() -> None:
    opened = note.open_note(NOTE, LOG.verifier)
    assert pickle.loads(pickle.dumps(opened)) == opened
    with pytest.raises(AttributeError):
        LOG.verifier.name = "other"  # type: ignore[misc]


# Every byte changed


def test_every_changed_byte_of_a_note_is_refused() -> None:
    for at in range(len(NOTE)):
        for value in range(256):
            if value != NOTE[at]:
                changed = NOTE[:at] + bytes([value]) + NOTE[at + 1 :]
                refused(note.open_note, changed, LOG.verifier)


def test_every_dropped_and_doubled_byte_of_a_note_is_refused() -> None:
    for at in range(len(NOTE)):
        refused(note.open_note, NOTE[:at] + NOTE[at + 1 :], LOG.verifier)
        refused(note.open_note, NOTE[: at + 1] + NOTE[at:], LOG.verifier)
        refused(note.open_note, NOTE[:at], LOG.verifier)


def test_a_changed_byte_of_an_unknown_signature_changes_nothing_or_is_refused() -> None:
    signed = NOTE + WITNESS_LINE
    for at in range(len(NOTE), len(signed)):
        for value in range(256):
            changed = signed[:at] + bytes([value]) + signed[at + 1 :]
            try:
                opened = note.open_note(changed, LOG.verifier)
            except EvidenceError as error:
                reason = error.reason
            else:
                reason = Reason.BAD_NOTE
                assert opened == note.OpenedNote(TEXT, (LOG.verifier,), 1)
            assert reason is Reason.BAD_NOTE


# Foreign vectors


def test_foreign_note_and_key(vectors: Path) -> None:
    example = json.loads((vectors / "tlog" / "spec-examples.derived.json").read_bytes())
    key = VerifierKey.parse(example["signed_note"]["vkey"])
    signed = example["signed_note"]["note"].encode()
    assert str(key) == example["signed_note"]["vkey"]
    opened = note.open_note(signed, key)
    assert opened == note.OpenedNote(b"This is an example message.\n", (key,), 0)
    for at in range(len(signed)):
        for bit in range(8):
            changed = signed[:at] + bytes([signed[at] ^ 1 << bit]) + signed[at + 1 :]
            refused(note.open_note, changed, key)


def test_foreign_cosignature_line(vectors: Path) -> None:
    example = json.loads((vectors / "tlog" / "spec-examples.derived.json").read_bytes())
    cosignature = example["cosignature_line"].encode()
    decoded = example["cosignature_decoded"]
    name, key_id, signature = note.parse_signature(cosignature)
    assert name == "witness.example.com/w1"
    assert key_id.hex() == decoded["key_id"]
    assert int.from_bytes(signature[:8], "big") == decoded["timestamp"]
    assert len(signature) - 8 == decoded["sig_len"]
    assert len(key_id + signature) == decoded["total_len"]
    assert note.open_note(NOTE + cosignature, LOG.verifier).unknown == 1
