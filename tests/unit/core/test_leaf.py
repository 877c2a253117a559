"""Log leaves: the one form each kind has, and everything that is not it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.leaf import (
    KEY_MODES,
    MAX_LEAF_BYTES,
    AnchorLeaf,
    HeadLeaf,
    KeyLeaf,
    Leaf,
    is_tsa_name,
    parse_leaf,
)
from tests.helpers.cases import named

CHAIN, PREV, LINK, ROOT = (bytes([number]) * 32 for number in (1, 2, 3, 4))
HEAD = HeadLeaf(CHAIN, 5, 9, PREV, LINK, ROOT, "ms-lesson18", 1)
GENESIS = replace(HEAD, first=0, last=0, prev=None)
KEY = KeyLeaf(CHAIN, bytes(range(32)), "pinned", 5)
ANCHOR = AnchorLeaf(7, ROOT, "tsa-1", LINK, None)
PROVEN = replace(ANCHOR, evidence=PREV)


def text(byte: str) -> str:
    return "sha256:" + byte * 32


# Our own vectors: the forms in proto/FORMATS.md, byte for byte.
HEAD_BYTES = (
    '{"chain":"' + text("01") + '","count":5,"first":5,"head":"' + text("03") + '","kind":"head",'
    '"last":9,"prev":"' + text("02") + '","profile":"ms-lesson18","profile_version":1,'
    '"segment":"' + text("04") + '","v":1}'
).encode()
GENESIS_BYTES = (
    '{"chain":"' + text("01") + '","count":1,"first":0,"head":"' + text("03") + '","kind":"head",'
    '"last":0,"prev":null,"profile":"ms-lesson18","profile_version":1,'
    '"segment":"' + text("04") + '","v":1}'
).encode()
KEY_BYTES = (
    '{"alg":"Ed25519","chain":"' + text("01") + '",'
    '"key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","kind":"key","mode":"pinned",'
    '"since":5,"v":1}'
).encode()
ANCHOR_BYTES = (
    '{"evidence":null,"kind":"anchor","response":"' + text("03") + '","root":"' + text("04") + '",'
    '"size":7,"tsa":"tsa-1","v":1}'
).encode()
PROVEN_BYTES = ANCHOR_BYTES.replace(b"null", b'"' + text("02").encode() + b'"')
ALL = [HEAD_BYTES, GENESIS_BYTES, KEY_BYTES, ANCHOR_BYTES, PROVEN_BYTES]
NAMES = ["head", "genesis", "key", "anchor", "anchor with evidence"]


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_leaf(data)
    assert caught.value.reason is Reason.BAD_LEAF
    return caught.value


def changed(data: bytes, **members: Any) -> bytes:
    """The leaf with other members; `...` takes one away."""
    value = json.loads(data) | members
    return canonicalize({name: item for name, item in value.items() if item is not ...})


@pytest.mark.parametrize(
    ("leaf", "data"),
    [*zip([HEAD, GENESIS, KEY, ANCHOR, PROVEN], ALL, strict=True)],
    ids=NAMES,
)
def test_bytes_and_back(leaf: Leaf, data: bytes) -> None:
    assert leaf.encode() == data
    assert parse_leaf(data) == leaf


@pytest.mark.parametrize("mode", KEY_MODES)
def test_key_modes(mode: str) -> None:
    leaf = replace(KEY, mode=mode)
    assert parse_leaf(leaf.encode()) == leaf


def test_the_largest_numbers() -> None:
    head = replace(HEAD, first=SAFE_INTEGER, last=SAFE_INTEGER, profile_version=1_000_000)
    assert parse_leaf(head.encode()) == head
    key = replace(KEY, since=SAFE_INTEGER)
    assert parse_leaf(key.encode()) == key
    anchor = replace(ANCHOR, size=SAFE_INTEGER)
    assert parse_leaf(anchor.encode()) == anchor


@pytest.mark.parametrize("name", ["a", "0", "tsa.example_1-b", "a" * 64])
def test_names_of_authorities(name: str) -> None:
    leaf = replace(ANCHOR, tsa=name)
    assert parse_leaf(leaf.encode()) == leaf
    assert is_tsa_name(name)


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "_a", "A", "a b", "a/b", "a\n", "tsä", "a" * 65, None, 7, ["a"]]
)
def test_what_is_no_name_of_an_authority(name: object) -> None:
    assert not is_tsa_name(name)
    assert "name of an authority" in refused(changed(ANCHOR_BYTES, tsa=name)).message


def test_a_segment_has_at_most_1024_receipts() -> None:
    assert parse_leaf(replace(HEAD, last=5 + 1_023).encode()) == replace(HEAD, last=5 + 1_023)
    assert "segment" in refused(replace(HEAD, last=5 + 1_024).encode()).message
    assert HEAD.count == 5


@pytest.mark.parametrize(("size", "name"), [(32, "Ed25519"), (65, "ES256"), (1_952, "ML-DSA-65")])
def test_a_key_leaf_names_the_algorithm_of_its_key(size: int, name: str) -> None:
    leaf = replace(KEY, key=bytes(size))
    assert f'"alg":"{name}"'.encode() in leaf.encode()
    assert parse_leaf(leaf.encode()) == leaf


@pytest.mark.parametrize("size", [0, 31, 33, 64, 1_951])
def test_a_key_of_no_algorithm_has_no_leaf(size: int) -> None:
    with pytest.raises(ValueError, match=f"got {size} bytes"):
        replace(KEY, key=bytes(size)).encode()


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (replace(HEAD, last=4), "segment"),
        (replace(HEAD, prev=None), "prev is null"),
        (replace(GENESIS, prev=PREV), "prev is null"),
        (replace(HEAD, profile=""), "profile"),
        (replace(HEAD, profile_version=1_000_001), "integer"),
        (replace(HEAD, profile_version=-1), "integer"),
        (replace(HEAD, first=-1, last=0), "integer"),
        (replace(HEAD, chain=CHAIN[:-1]), "hex digits"),
        (replace(HEAD, head=LINK + b"\0"), "hex digits"),
        (replace(HEAD, segment=b""), "hex digits"),
        (replace(HEAD, prev=PREV[:-1]), "hex digits"),
        (replace(KEY, chain=CHAIN[:-1]), "hex digits"),
        (replace(KEY, mode="trusted"), "mode"),
        (replace(KEY, since=-1), "integer"),
        (replace(ANCHOR, size=-1), "integer"),
        (replace(ANCHOR, root=ROOT[:-1]), "hex digits"),
        (replace(ANCHOR, response=b""), "hex digits"),
        (replace(ANCHOR, evidence=PREV + b"\0"), "hex digits"),
    ],
)
def test_values_no_leaf_can_have(leaf: Leaf, words: str) -> None:
    assert words in refused(leaf.encode()).message


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "another kind": (changed(HEAD_BYTES, kind="tail"), "unknown kind"),
            "no kind": (changed(HEAD_BYTES, kind=...), "unknown kind"),
            "a kind that is no text": (changed(HEAD_BYTES, kind=["head"]), "unknown kind"),
            "the members of another kind": (changed(KEY_BYTES, kind="head"), "missing or wrong"),
            "no evidence": (changed(ANCHOR_BYTES, evidence=...), "missing or wrong"),
            "evidence that is no digest": (changed(ANCHOR_BYTES, evidence=""), "hex digits"),
            "evidence that is false": (changed(ANCHOR_BYTES, evidence=False), "hex digits"),
            "an anchor of another version": (changed(ANCHOR_BYTES, v=2), "one form"),
            "a time in an anchor": (changed(ANCHOR_BYTES, time=1), "one form"),
            "a wrong count": (changed(HEAD_BYTES, count=4), "one form"),
            "no count": (changed(HEAD_BYTES, count=...), "one form"),
            "an extra member": (changed(HEAD_BYTES, note=""), "one form"),
            "another version": (changed(HEAD_BYTES, v=2), "one form"),
            "another algorithm": (
                changed(KEY_BYTES, alg="RSA"),
                "one of Ed25519, ES256, ML-DSA-65",
            ),
            "a list as algorithm": (changed(KEY_BYTES, alg=["Ed25519"]), "one of Ed25519"),
            "no algorithm": (changed(KEY_BYTES, alg=...), "missing or wrong"),
            "the algorithm of another key": (changed(KEY_BYTES, alg="ES256"), "65 bytes"),
            "a short key": (changed(KEY_BYTES, key="A" * 42), "32 bytes"),
            "a long key": (changed(KEY_BYTES, key="A" * 44), "32 bytes"),
            "a missing member": (changed(HEAD_BYTES, segment=...), "missing or wrong"),
            "a number as text": (changed(HEAD_BYTES, first="5"), "integer"),
            "true as a number": (changed(KEY_BYTES, since=True), "integer"),
            "a number as profile": (changed(HEAD_BYTES, profile=18), "profile"),
            "a list as mode": (changed(KEY_BYTES, mode=["pinned"]), "mode"),
            "a digest of other case": (changed(HEAD_BYTES, chain=text("0A")), "hex digits"),
            "a padded key": (changed(KEY_BYTES, key="A" * 43 + "="), "base64url"),
            "a space": (HEAD_BYTES.replace(b",", b", ", 1), "one form"),
            "a newline after": (HEAD_BYTES + b"\n", "one form"),
            "members in another order": (b'{"v":1,' + HEAD_BYTES[1:-7] + b"}", "one form"),
            "an escaped letter": (KEY_BYTES.replace(b"pinned", rb"pi\u006ened"), "one form"),
            "a float": (KEY_BYTES.replace(b'"since":5', b'"since":5.0'), "integer"),
            "a duplicate member": (HEAD_BYTES[:-1] + b',"v":1}', "not a JSON object"),
            "a list": (b"[" + HEAD_BYTES + b"]", "not a JSON object"),
            "cut": (HEAD_BYTES[:-1], "not a JSON object"),
            "empty": (b"", "not a JSON object"),
            "not UTF-8": (HEAD_BYTES.replace(b"ms", b"\xff\xfe"), "not a JSON object"),
            "too long": (b" " * (MAX_LEAF_BYTES + 1), "too long"),
        }
    ),
)
def test_bytes_no_leaf_has(data: bytes, words: str) -> None:
    assert words in refused(data).message


def test_a_leaf_may_be_as_long_as_an_entry_bundle_carries() -> None:
    room = MAX_LEAF_BYTES - len(HEAD_BYTES)
    longest = replace(HEAD, profile="ms-lesson18" + "x" * room)
    assert len(longest.encode()) == MAX_LEAF_BYTES
    assert parse_leaf(longest.encode()) == longest
    error = refused(replace(longest, profile=longest.profile + "x").encode())
    assert (error.want, error.got) == (f"at most {MAX_LEAF_BYTES} bytes", "65536")


@pytest.mark.parametrize("data", ALL, ids=NAMES)
def test_every_changed_byte_is_refused_or_another_leaf(data: bytes) -> None:
    original = parse_leaf(data)
    for at in range(len(data)):
        for other in {data[at] ^ 1, data[at] ^ 32, 0, 255, 0x20, 0x22, 0x30} - {data[at]}:
            mutated = data[:at] + bytes([other]) + data[at + 1 :]
            try:
                leaf = parse_leaf(mutated)
            except EvidenceError as error:
                assert error.reason is Reason.BAD_LEAF  # noqa: PT017
                continue
            assert leaf != original
            assert leaf.encode() == mutated


@pytest.mark.parametrize("data", ALL, ids=NAMES)
def test_every_cut_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        refused(data[:length])
        refused(data[length:] if length else b"")
