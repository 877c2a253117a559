"""Keys of signed notes: their text forms, their names, and signatures that must not hold."""

from __future__ import annotations

import base64
import hashlib
import json
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
DASH = "\N{EM DASH} ".encode()

# Our own vector, checked below against the RFC's own arithmetic.
LOG_VKEY = "example.com/log+d455c521+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"


def refused(call: Callable[..., object], *arguments: Any) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        call(*arguments)
    assert caught.value.reason is Reason.BAD_NOTE
    return caught.value


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
    for bad in (LOG.format()[:-2], LOG.format().replace("+d455", "+0000"), "x" + LOG.format()):
        assert secret not in str(refused(NoteSigner.parse, bad))
    without_type = base64.b64encode(bytes(range(0xA0, 0xC0))).decode()
    error = refused(NoteSigner.parse, f"PRIVATE+KEY+a+00000000+{without_type}")
    assert (error.want, error.got) == ("01 (Ed25519)", None)


BAD_NAMES = [
    *("", " ", "a b", "a+b", "+", "a\n", "\ta", "a\x00", "a\x1f", "a\x85b", "a\xa0b", "a\u1680"),
    *("a\u2003b", "a\u2028", "a\u2029", "a\u202f", "a\u205f", "a\u3000", "\ud800", "a\udcff"),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_no_key_can_have(name: str) -> None:
    refused(NoteSigner.from_seed, name, bytes(32))
    refused(VerifierKey, name, LOG.verifier.public_key)
    line = DASH + name.encode("utf-8", "surrogatepass") + b" AAAAAAA=\n"
    refused(note.parse_signature, line)
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
    name, key_id, encoded = LOG_VKEY.split("+", 2)
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


def test_libsodium_refuses_what_lax_verifiers_accept() -> None:
    # Under the identity as public key, R = identity and S = 0 hold for every message.
    identity = b"\x01" + b"\0" * 31
    refused(VerifierKey("a", identity).verify, TEXT, identity + b"\0" * 32)
    # S + L is the same scalar in another spelling.
    signature = note.parse_signature(LOG.sign(TEXT)).signature
    scalar = int.from_bytes(signature[32:], "little") + rfc8032.ORDER
    LOG.verifier.verify(TEXT, signature)
    refused(LOG.verifier.verify, TEXT, signature[:32] + scalar.to_bytes(32, "little"))


def test_foreign_ed25519_vectors(vectors: Path) -> None:
    cases = json.loads((vectors / "ed25519" / "ed25519_test.json").read_bytes())
    seen = {"valid": 0, "invalid": 0}
    for group in cases["testGroups"]:
        key = VerifierKey("a", bytes.fromhex(group["publicKey"]["pk"]))
        for case in group["tests"]:
            arguments = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            if case["result"] == "valid":
                key.verify(*arguments)
            else:
                refused(key.verify, *arguments)
            seen[case["result"]] += 1
    assert seen == {"valid": 88, "invalid": 63}
