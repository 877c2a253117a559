"""The manifest of revocation evidence: the one form it has, and everything that is not it."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from receiptledger.core.canonical import canonicalize
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.evidence_manifest import (
    MAX_MANIFEST_BYTES,
    encode_manifest,
    parse_manifest,
)
from receiptledger.core.revocation import RevocationEvidence
from tests.helpers.cases import named

ONE, TWO, THREE = (bytes([number]) * 32 for number in (1, 2, 3))


def text(byte: str) -> str:
    return "sha256:" + byte * 32


# Our own vector: the form in proto/FORMATS.md, byte for byte.
DATA = (
    '{"crls":["' + text("01") + '","' + text("02") + '"],"kind":"revocation",'
    '"ocsps":["' + text("03") + '"],"v":1}'
).encode()
EMPTY = b'{"crls":[],"kind":"revocation","ocsps":[],"v":1}'


def changed(**members: Any) -> bytes:
    """The manifest with other members; `...` takes one away."""
    value = json.loads(DATA) | members
    return canonicalize({name: item for name, item in value.items() if item is not ...})


def test_bytes_and_back() -> None:
    assert encode_manifest([ONE, TWO], [THREE]) == DATA
    assert parse_manifest(DATA) == ((ONE, TWO), (THREE,))
    assert encode_manifest([], []) == EMPTY
    assert parse_manifest(EMPTY) == ((), ())


def test_the_order_of_parts_is_theirs() -> None:
    assert parse_manifest(encode_manifest([TWO, ONE, TWO], [])) == ((TWO, ONE, TWO), ())


def test_it_is_what_evidence_says_of_itself() -> None:
    """Two modules write the form; they write the same."""
    evidence = RevocationEvidence(crls=(b"crl", b"other"), ocsps=(b"ocsp",))
    crls, ocsps = parse_manifest(evidence.manifest())
    assert crls == (sha256(b"crl").digest(), sha256(b"other").digest())
    assert ocsps == (sha256(b"ocsp").digest(),)


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "another kind": (changed(kind="policy"), "one form"),
            "no kind": (changed(kind=...), "one form"),
            "another version": (changed(v=2), "one form"),
            "an extra member": (changed(note=""), "one form"),
            "no crls": (changed(crls=...), "missing or wrong"),
            "no ocsps": (changed(ocsps=...), "missing or wrong"),
            "null for a list": (changed(crls=None), "list"),
            "a text for a list": (changed(crls=text("01")), "list"),
            "an object for a list": (changed(ocsps={}), "list"),
            "a number in a list": (changed(crls=[1]), "hex digits"),
            "a short digest": (changed(crls=["sha256:01"]), "hex digits"),
            "a digest of other case": (changed(crls=[text("0A")]), "hex digits"),
            "a space": (DATA.replace(b",", b", ", 1), "one form"),
            "a newline after": (DATA + b"\n", "one form"),
            "a duplicate member": (DATA[:-1] + b',"v":1}', "not a JSON object"),
            "a list": (b"[" + DATA + b"]", "not a JSON object"),
            "cut": (DATA[:-1], "not a JSON object"),
            "empty": (b"", "not a JSON object"),
            "not UTF-8": (DATA.replace(b"rev", b"\xff\xfe"), "not a JSON object"),
            "too long": (b" " * (MAX_MANIFEST_BYTES + 1), "too long"),
        }
    ),
)
def test_bytes_no_manifest_has(data: bytes, words: str) -> None:
    with pytest.raises(EvidenceError, match=words) as caught:
        parse_manifest(data)
    assert caught.value.reason is Reason.BAD_TIMESTAMP


def test_every_changed_byte_is_refused_or_another_manifest() -> None:
    original = parse_manifest(DATA)
    for at in range(len(DATA)):
        for other in {DATA[at] ^ 1, DATA[at] ^ 32, 0, 255, 0x20, 0x22, 0x30} - {DATA[at]}:
            mutated = DATA[:at] + bytes([other]) + DATA[at + 1 :]
            try:
                found = parse_manifest(mutated)
            except EvidenceError:
                continue
            assert found != original
            assert encode_manifest(*found) == mutated
