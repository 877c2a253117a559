"""Signed notes: keys, signing, opening, and everything that must not open."""

from __future__ import annotations

import base64
import hashlib
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

# Our own vector, checked below against the RFC's own arithmetic.
LOG_VKEY = "example.com/log+9d80b2c4+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
LOG_LINE = LOG.sign(TEXT)
WITNESS_LINE = WITNESS.sign(TEXT)


def refused(call: Callable[..., object], *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        call(*arguments)
    assert caught.value.reason is Reason.BAD_NOTE
    return caught.value


def line(name: bytes, data: bytes) -> bytes:
    return DASH + name + b" " + base64.b64encode(data) + b"\n"


# Keys


def test_key_text_forms_are_what_the_format_says() -> None:
    public = rfc8032.public_key(bytes(range(32)))
    key_id = hashlib.sha256(b"example.com/log\n\x01" + public).digest()[:4]
    encoded = base64.b64encode(b"\x01" + public).decode()
    assert str(LOG.verifier) == f"example.com/log+{key_id.hex()}+{encoded}" == LOG_VKEY
    assert LOG.verifier.key_id == key_id
    secret = base64.b64encode(b"\x01" + bytes(range(32))).decode()
    assert LOG.format() == f"PRIVATE+KEY+example.com/log+{key_id.hex()}+{secret}"


def test_keys_read_back() -> None:
    for signer in (LOG, WITNESS):
        key = VerifierKey.parse(str(signer.verifier))
        assert key == signer.verifier
        assert hash(key) == hash(signer.verifier)
        again = NoteSigner.parse(signer.format())
        assert again.verifier == signer.verifier
        assert again.sign(TEXT) == signer.sign(TEXT)


def test_key_with_pluses_in_its_base64_reads_back() -> None:
    seeds = (n.to_bytes(32, "big") for n in range(100))
    keys = [NoteSigner.from_seed("a", seed).verifier for seed in seeds]
    assert sum(str(key).count("+") > 2 for key in keys) > 20
    assert [VerifierKey.parse(str(key)) for key in keys] == keys


def test_a_private_key_does_not_show_itself() -> None:
    secret = base64.b64encode(bytes(range(32))).decode()[:20]
    assert secret not in repr(LOG) + str(LOG)
    assert LOG_VKEY in repr(LOG)
    for bad in (LOG.format()[:-2], LOG.format().replace("+9d80", "+0000"), "x" + LOG.format()):
        assert secret not in str(refused(NoteSigner.parse, bad))


BAD_NAMES = [
    *("", " ", "a b", "a+b", "+", "a\n", "\ta", "a\x00", "a\x1f", "a\x85b", "a\xa0b", "a\u1680"),
    *("a\u2003b", "a\u2028", "a\u2029", "a\u202f", "a\u205f", "a\u3000", "\ud800", "a\udcff"),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_no_key_can_have(name: str) -> None:
    refused(NoteSigner.from_seed, name, bytes(32))
    refused(VerifierKey, name, LOG.verifier.public_key)
    refused(note.parse_signature, line(name.encode("utf-8", "surrogatepass"), b"12345"))
    encoded = base64.b64encode(b"\x01" + LOG.verifier.public_key).decode()
    id_bytes = f"{name}\n".encode("utf-8", "surrogatepass") + b"\x01" + LOG.verifier.public_key
    key_id = hashlib.sha256(id_bytes).hexdigest()[:8]
    refused(VerifierKey.parse, f"{name}+{key_id}+{encoded}")


@pytest.mark.parametrize("name", ["a", "log.example/2026", "日本", "a\u200bb", "\x7f", "—"])
def test_names_that_a_key_can_have(name: str) -> None:
    signer = NoteSigner.from_seed(name, bytes(32))
    assert VerifierKey.parse(str(signer.verifier)).name == name
    assert note.open_note(note.sign_note(TEXT, signer), signer.verifier).text == TEXT


@pytest.mark.parametrize("key", [b"", b"\0" * 31, b"\0" * 33, bytearray(32), "0" * 32, None])
def test_keys_are_32_bytes(key: Any) -> None:
    refused(NoteSigner.from_seed, "a", key)
    refused(VerifierKey, "a", key)


def vkey(data: bytes, name: str = "a") -> str:
    key_id = hashlib.sha256(name.encode() + b"\n" + data).hexdigest()[:8]
    return f"{name}+{key_id}+{base64.b64encode(data).decode()}"


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01" + b"k" * 31, b"\x01" + b"k" * 33])
def test_verifier_keys_of_the_wrong_length(data: bytes) -> None:
    refused(VerifierKey.parse, vkey(data))


@pytest.mark.parametrize("kind", [0, 2, 4, 5, 6, 0xFA, 0xFF])
def test_verifier_keys_of_other_types(kind: int) -> None:
    VerifierKey.parse(vkey(b"\x01" + b"k" * 32))
    error = refused(VerifierKey.parse, vkey(bytes([kind]) + b"k" * 32))
    assert (error.want, error.got) == ("01 (Ed25519)", f"{kind:02x}")


def test_key_texts_have_one_spelling() -> None:
    name, key_id, encoded = LOG_VKEY.split("+")
    for bad in (
        f"{name}+{key_id.upper()}+{encoded}",
        f"{name}+{key_id}+{encoded}\n",
        f" {name}+{key_id}+{encoded}",
        f"{name}+{key_id}+{encoded}=",
        f"{name}+{key_id}+{encoded[:4]}\n{encoded[4:]}",
        f"{name}+0{key_id}+{encoded}",
        f"{name}++{encoded}",
        f"{name}+{key_id}+",
        f"{name}+{key_id}",
        f"{name}+{key_id}+{encoded}+",
        f"{name}+{key_id}+{encoded}\u0661",
        f"{name}+{key_id}+\ud800{encoded}",
        *("", "+", "++", name),
    ):
        refused(VerifierKey.parse, bad)
        refused(NoteSigner.parse, f"PRIVATE+KEY+{bad}")
    refused(NoteSigner.parse, LOG.format().removeprefix("PRIVATE+"))
    refused(NoteSigner.parse, LOG.format().lower())


def test_every_part_and_every_changed_character_of_a_key_is_refused() -> None:
    for parse, text in ((VerifierKey.parse, LOG_VKEY), (NoteSigner.parse, LOG.format())):
        for start in range(len(text)):
            for end in range(start + 1, len(text) + 1):
                if (start, end) != (0, len(text)):
                    refused(parse, text[start:end])
        for at in range(len(text)):
            for code in range(256):
                if code != ord(text[at]):
                    refused(parse, text[:at] + chr(code) + text[at + 1 :])


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
    assert error.got == "example.com/log+9d80b2c4"
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
    assert encoded.endswith(b"==\n") is False  # 68 bytes: one pad, so one pad's worth of play
    head = TEXT + b"\n" + DASH + b"example.com/log"
    return {
        "empty": b"",
        "text only": TEXT,
        "no signature": TEXT + b"\n",
        "blank line only": b"\n\n",
        "no blank line": TEXT.rstrip(b"\n") + b"\n" + LOG_LINE,
        "no text": LOG_LINE,
        "no final newline": NOTE[:-1],
        "trailing blank line": NOTE + b"\n",
        "trailing text": NOTE + b"x\n",
        "blank line between signatures": NOTE + b"\n" + WITNESS_LINE,
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
    if name != "base64url":  # may be the same bytes for another key
        refused(note.split_note, bad)


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
    text = "z z" * 100_000 + LOG_VKEY.removeprefix("example.com/log")
    assert len(str(refused(VerifierKey.parse, text))) < 500


def test_libsodium_refuses_what_lax_verifiers_accept() -> None:
    # Under the identity as public key, R = identity and S = 0 hold for every message.
    identity = b"\x01" + b"\0" * 31
    refused(VerifierKey("a", identity).verify, TEXT, identity + b"\0" * 32)
    # S + L is the same scalar in another spelling.
    signature = note.parse_signature(LOG_LINE).signature
    scalar = int.from_bytes(signature[32:], "little") + rfc8032.ORDER
    LOG.verifier.verify(TEXT, signature)
    refused(LOG.verifier.verify, TEXT, signature[:32] + scalar.to_bytes(32, "little"))


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
