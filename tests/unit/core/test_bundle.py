"""The bundle file: one form, strictly read, whatever its parts claim."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from receiptledger.core.bundle import (
    BUNDLE_TYPE,
    MAX_BUNDLE_BYTES,
    AnchoredCheckpoint,
    AnchorEvidence,
    AnchorStamp,
    Bundle,
    Consistency,
    LeafProof,
    Member,
    parse_bundle,
)
from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import EvidenceError, Reason
from tests.helpers.cases import named

H = [bytes([number]) * 32 for number in range(70)]
FULL = Bundle(
    position=3,
    receipt=Member('{"a":"\N{SNOWMAN}"}'.encode(), (H[1], H[2])),
    previous=Member(b'{ "b" : 1 }\n', (H[3],)),
    head=LeafProof(b'{"kind":"head"}', 7, (H[4], H[5], H[6])),
    key=LeafProof(b'{"kind":"key"}', 2, ()),
    checkpoint="example.com/log\n9\nAAAA\n\n\N{EM DASH} example.com/log BBBB\n".encode(),
    consistency=Consistency(5, (H[7],)),
)
BARE = replace(FULL, previous=None, consistency=None)
STAMP = AnchorStamp(
    request=b"\x30\x01q",
    response=b"\x30\x02\xff\xfe",
    leaf=LeafProof(b'{"kind":"anchor"}', 8, (H[8],)),
    evidence=AnchorEvidence(
        LeafProof(b'{"kind":"anchor","x":1}', 8, ()), (b"crl",), (b"ocsp", b"o")
    ),
)
ANCHORED = replace(
    FULL,
    anchors=(
        AnchoredCheckpoint(
            b"note 1\n", (H[9],), (STAMP, replace(STAMP, response=b"\x30\x00", evidence=None))
        ),
        AnchoredCheckpoint(b"note 2\n", (), (replace(STAMP, response=b"\x30\x01"),)),
    ),
)


def text(number: int) -> str:
    return "sha256:" + f"{number:02x}" * 32


# Our own vector: the form in proto/FORMATS.md, byte for byte.
BARE_BYTES = (
    '{"anchors":[],"checkpoint":"example.com/log\\n9\\nAAAA\\n\\n\N{EM DASH} example.com/log BBBB\\n",'
    '"consistency":null,'
    '"head":{"index":7,"leaf":"{\\"kind\\":\\"head\\"}",'
    f'"proof":["{text(4)}","{text(5)}","{text(6)}"]}},'
    '"key":{"index":2,"leaf":"{\\"kind\\":\\"key\\"}","proof":[]},'
    '"position":3,"previous":null,'
    f'"receipt":{{"proof":["{text(1)}","{text(2)}"],"raw":"{{\\"a\\":\\"\N{SNOWMAN}\\"}}"}},'
    '"type":"receiptledger/bundle/v1"}\n'
).encode()


def refused(data: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_bundle(data)
    assert caught.value.reason is Reason.BAD_BUNDLE
    return caught.value


def changed(**members: Any) -> bytes:
    """The full bundle with other members; `...` takes one away."""
    value = json.loads(FULL.encode()) | members
    return canonicalize({name: item for name, item in value.items() if item is not ...}) + b"\n"


def inner(member: str, **members: Any) -> bytes:
    """The full bundle with members of one of its objects changed."""
    value = json.loads(FULL.encode())[member] | members
    return changed(**{member: {name: item for name, item in value.items() if item is not ...}})


def test_bytes_and_back() -> None:
    assert BARE.encode() == BARE_BYTES
    assert parse_bundle(BARE_BYTES) == BARE
    assert parse_bundle(FULL.encode()) == FULL
    assert parse_bundle(ANCHORED.encode()) == ANCHORED


def test_receipts_are_kept_as_their_exact_bytes() -> None:
    raw = b'{"b":1e0,\r\n\t"a":"\\u00e9\\/"} '
    bundle = replace(FULL, receipt=Member(raw, ()))
    assert parse_bundle(bundle.encode()).receipt.raw == raw


def test_the_largest_parts() -> None:
    bundle = replace(
        FULL,
        position=SAFE_INTEGER,
        receipt=Member(b"x", tuple(H[:10])),
        head=LeafProof(b"x", SAFE_INTEGER, tuple(H[:64])),
        consistency=Consistency(SAFE_INTEGER, tuple(H[:64])),
    )
    assert parse_bundle(bundle.encode()) == bundle


@pytest.mark.parametrize(
    "bundle",
    named(
        {
            "receipt": replace(FULL, receipt=Member(b"\xff", ())),
            "previous": replace(FULL, previous=Member(b"\xc3", ())),
            "leaf": replace(FULL, head=LeafProof(b"\xed\xa0\x80", 0, ())),
            "checkpoint": replace(FULL, checkpoint=b"\xff"),
        }
    ),
)
def test_a_part_that_is_not_utf8_has_no_form(bundle: Bundle) -> None:
    with pytest.raises(EvidenceError) as caught:
        bundle.encode()
    assert caught.value.reason is Reason.BAD_BUNDLE


WRONG = "missing or wrong"


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "empty": (b"", "newline"),
            "no newline": (FULL.encode()[:-1], "newline"),
            "two newlines": (FULL.encode() + b"\n", "one form"),
            "a carriage return": (FULL.encode()[:-1] + b"\r\n", "one form"),
            "not JSON": (b"bundle\n", "not one strict JSON object"),
            "a list": (b"[]\n", "not one strict JSON object"),
            "an empty object": (b"{}\n", "unknown type"),
            "no type": (changed(type=...), "unknown type"),
            "another type": (changed(type="receiptledger/bundle/v2"), "unknown type"),
            "a type that is no text": (changed(type=[BUNDLE_TYPE]), "unknown type"),
            "no position": (changed(position=...), WRONG),
            "a negative position": (changed(position=-1), WRONG),
            "a position as text": (changed(position="3"), WRONG),
            "true as position": (changed(position=True), WRONG),
            "a position too large": (
                FULL.encode().replace(b'"position":3', b'"position":9007199254740992'),
                WRONG,
            ),
            "an extra member": (changed(note="x"), "one form"),
            "an extra inner member": (inner("receipt", note="x"), "one form"),
            "no receipt": (changed(receipt=...), WRONG),
            "receipt null": (changed(receipt=None), WRONG),
            "receipt a list": (changed(receipt=[]), WRONG),
            "receipt a text": (changed(receipt="{}"), WRONG),
            "receipt without raw": (inner("receipt", raw=...), WRONG),
            "raw an object": (inner("receipt", raw={"a": 1}), WRONG),
            "receipt without proof": (inner("receipt", proof=...), WRONG),
            "eleven segment hashes": (inner("receipt", proof=[text(1)] * 11), WRONG),
            "no previous": (changed(previous=...), WRONG),
            "previous false": (changed(previous=False), WRONG),
            "previous empty": (changed(previous={}), WRONG),
            "head null": (changed(head=None), WRONG),
            "leaf a number": (inner("head", leaf=1), WRONG),
            "index a float": (
                FULL.encode().replace(b'"index":7', b'"index":7.0'),
                WRONG,
            ),
            "index negative": (inner("key", index=-1), WRONG),
            "a proof that is an object": (inner("head", proof={}), WRONG),
            "65 log hashes": (inner("head", proof=[text(1)] * 65), WRONG),
            "a hash too short": (inner("head", proof=["sha256:00"]), WRONG),
            "a hash in upper case": (inner("head", proof=["sha256:" + "AB" * 32]), WRONG),
            "a hash that is a number": (inner("head", proof=[1]), WRONG),
            "no key": (changed(key=...), WRONG),
            "checkpoint a list": (changed(checkpoint=["x"]), WRONG),
            "no consistency": (changed(consistency=...), WRONG),
            "consistency a list": (changed(consistency=[]), WRONG),
            "consistency without size": (inner("consistency", size=...), WRONG),
            "65 consistency hashes": (inner("consistency", proof=[text(1)] * 65), WRONG),
            "spaces": (json.dumps(json.loads(FULL.encode())).encode() + b"\n", "one form"),
            "a byte order mark": (b"\xef\xbb\xbf" + FULL.encode(), "not one strict JSON object"),
            "not UTF-8": (
                FULL.encode().replace(b'"a', b'"\xff'),
                "not one strict JSON object",
            ),
            "a duplicate member": (
                FULL.encode()[:-2] + b',"type":"receiptledger/bundle/v1"}\n',
                "not one strict JSON object",
            ),
            "too deep": (b'{"a":' * 9 + b"1" + b"}" * 9 + b"\n", "not one strict JSON object"),
            "too long": (
                b'{"a":"' + b"x" * MAX_BUNDLE_BYTES + b'"}\n',
                "not one strict JSON object",
            ),
        }
    ),
)
def test_files_that_are_no_bundle(data: bytes, words: str) -> None:
    assert words in refused(data).message


def test_members_in_another_order_are_an_edit() -> None:
    value = json.loads(BARE_BYTES)
    ordered = dict(sorted(value.items(), reverse=True))
    compact = json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()
    assert "edited" in refused(compact + b"\n").message


def test_an_unknown_type_says_what_was_expected_and_not_everything_that_came() -> None:
    error = refused(changed(type="x" * 1000))
    assert error.want == BUNDLE_TYPE
    assert len(error.got or "") <= 60


def test_every_changed_byte_is_refused_or_another_bundle() -> None:
    data = FULL.encode()
    for at in range(len(data)):
        for other in {data[at] ^ 1, data[at] ^ 32, 0, 255, 0x20, 0x22, 0x5C} - {data[at]}:
            mutated = data[:at] + bytes([other]) + data[at + 1 :]
            try:
                bundle = parse_bundle(mutated)
            except EvidenceError as error:
                assert error.reason is Reason.BAD_BUNDLE  # noqa: PT017
                continue
            assert bundle != FULL
            assert bundle.encode() == mutated


def test_every_cut_is_refused() -> None:
    data = FULL.encode()
    for length in range(len(data)):
        refused(data[:length])
        refused(data[length:] if length else b"\n")
