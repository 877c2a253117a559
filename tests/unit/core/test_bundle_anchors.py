"""The anchors of a bundle file: one form, and limits that hold whoever made it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from receiptledger.core.bundle import (
    AnchoredCheckpoint,
    AnchorEvidence,
    AnchorStamp,
    Bundle,
    LeafProof,
    Member,
    parse_bundle,
)
from receiptledger.core.bundle_anchors import (
    MAX_ANCHOR_BYTES,
    MAX_ANCHORED_CHECKPOINTS,
    MAX_EVIDENCE_BYTES,
    MAX_EVIDENCE_PARTS,
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    MAX_STAMPS,
)
from receiptledger.core.canonical import canonicalize
from receiptledger.core.errors import EvidenceError, Reason
from tests.helpers.cases import named

H = [bytes([number]) * 32 for number in range(70)]
STAMP = AnchorStamp(
    request=b"\x30\x01q",
    response=b"\x30\x02\xff\xfe",
    leaf=LeafProof(b'{"kind":"anchor"}', 8, (H[8],)),
    evidence=AnchorEvidence(LeafProof(b'{"x":1}', 9, ()), (b"crl",), (b"ocsp", b"\x00")),
)
BARE = replace(STAMP, evidence=None)
OTHER = replace(STAMP, response=b"\x30\x02\xff\xfd")
FIRST = AnchoredCheckpoint(b"note 1\n", (H[9],), (OTHER, replace(BARE, response=b"\x30\x01r")))
SECOND = AnchoredCheckpoint("note \N{EM DASH}\n".encode(), (), (STAMP,))
BUNDLE = Bundle(
    position=3,
    receipt=Member(b"{}", ()),
    previous=None,
    head=LeafProof(b"{}", 7, ()),
    key=LeafProof(b"{}", 2, ()),
    checkpoint=b"note\n",
    anchors=(FIRST, SECOND),
)


def refused(data: bytes) -> str:
    with pytest.raises(EvidenceError) as caught:
        parse_bundle(data)
    assert caught.value.reason is Reason.BAD_BUNDLE
    return caught.value.message


def changed(*path: str | int, to: Any) -> bytes:
    """The bundle with one value of its anchors changed; `...` takes it away."""
    whole = json.loads(BUNDLE.encode())
    value = whole["anchors"]
    for step in path[:-1]:
        value = value[step]
    if to is ...:
        del value[path[-1]]
    else:
        value[path[-1]] = to
    return canonicalize(whole) + b"\n"


def several(stamp: AnchorStamp, count: int, first: int = 0) -> tuple[AnchorStamp, ...]:
    """Stamps of different responses of the same length."""
    length = len(stamp.response)
    return tuple(
        replace(stamp, response=number.to_bytes(2, "big").rjust(length, b"r")[-length:])
        for number in range(first, first + count)
    )


def with_anchors(*anchors: AnchoredCheckpoint) -> bytes:
    return replace(BUNDLE, anchors=anchors).encode()


def test_bytes_and_back() -> None:
    assert parse_bundle(BUNDLE.encode()) == BUNDLE


def test_the_written_form() -> None:
    anchors = json.loads(BUNDLE.encode())["anchors"]
    assert anchors[1] == {
        "checkpoint": "note \N{EM DASH}\n",
        "consistency": [],
        "stamps": [
            {
                "request": "MAFx",
                "response": "MAL__g",
                "leaf": {
                    "leaf": '{"kind":"anchor"}',
                    "index": 8,
                    "proof": ["sha256:" + "08" * 32],
                },
                "evidence": {
                    "leaf": {"leaf": '{"x":1}', "index": 9, "proof": []},
                    "crls": ["Y3Js"],
                    "ocsps": ["b2NzcA", "AA"],
                },
            }
        ],
    }
    assert anchors[0]["stamps"][1]["evidence"] is None


def test_anchors_are_always_there() -> None:
    whole = json.loads(BUNDLE.encode())
    assert json.loads(with_anchors())["anchors"] == []
    del whole["anchors"]
    assert "missing or wrong" in refused(canonicalize(whole) + b"\n")


STAMP_AT = (0, "stamps", 0)


@pytest.mark.parametrize(
    "data",
    named(
        {
            "an anchor that is a list": changed(0, to=[]),
            "an anchor that is null": changed(0, to=None),
            "no note": changed(0, "checkpoint", to=...),
            "a note that is a number": changed(0, "checkpoint", to=7),
            "no consistency": changed(0, "consistency", to=...),
            "consistency null": changed(0, "consistency", to=None),
            "65 consistency hashes": changed(0, "consistency", to=["sha256:" + "00" * 32] * 65),
            "no stamps": changed(0, "stamps", to=...),
            "an empty list of stamps": changed(0, "stamps", to=[]),
            "stamps an object": changed(0, "stamps", to={}),
            "a stamp that is a text": changed(0, "stamps", 0, to="x"),
            "an unknown member": changed(0, "url", to="http://x"),
            "an unknown member of a stamp": changed(*STAMP_AT, "tsa", to="x"),
            "no request": changed(*STAMP_AT, "request", to=...),
            "an empty request": changed(*STAMP_AT, "request", to=""),
            "a request that is null": changed(*STAMP_AT, "request", to=None),
            "an empty response": changed(*STAMP_AT, "response", to=""),
            "one letter": changed(*STAMP_AT, "response", to="A"),
            "padded": changed(*STAMP_AT, "response", to="MAL__g=="),
            "the other alphabet": changed(*STAMP_AT, "response", to="MAL//g"),
            "bits behind the last byte": changed(*STAMP_AT, "response", to="MAL__h"),
            "not ASCII": changed(*STAMP_AT, "response", to="MAL__\N{SNOWMAN}"),
            "a line break inside": changed(*STAMP_AT, "response", to="MAL_\n_g"),
            "no leaf": changed(*STAMP_AT, "leaf", to=...),
            "a leaf without proof": changed(*STAMP_AT, "leaf", "proof", to=...),
            "a negative index": changed(*STAMP_AT, "leaf", "index", to=-1),
            "no evidence member": changed(*STAMP_AT, "evidence", to=...),
            "evidence a list": changed(*STAMP_AT, "evidence", to=[]),
            "evidence without leaf": changed(*STAMP_AT, "evidence", "leaf", to=...),
            "evidence without lists": changed(*STAMP_AT, "evidence", "crls", to=...),
            "a list that is a text": changed(*STAMP_AT, "evidence", "ocsps", to="b2NzcA"),
            "an empty part": changed(*STAMP_AT, "evidence", "crls", to=[""]),
        }
    ),
)
def test_another_form_is_no_bundle(data: bytes) -> None:
    assert refused(data)


def test_a_note_that_is_not_text_has_no_form() -> None:
    with pytest.raises(EvidenceError, match="not UTF-8"):
        with_anchors(replace(FIRST, note=b"\xff"))


# Limits


def test_as_much_as_is_allowed() -> None:
    full = tuple(H[number % 60] for number in range(64))
    leaf = LeafProof(b"x", 7, full)
    part = b"\x01" * 100
    evidence = AnchorEvidence(leaf, (part,) * MAX_EVIDENCE_PARTS, (part,) * MAX_EVIDENCE_PARTS)
    stamp = AnchorStamp(b"q" * MAX_REQUEST_BYTES, b"r" * 20_000, leaf, evidence)
    each = MAX_STAMPS // MAX_ANCHORED_CHECKPOINTS
    anchors = tuple(
        AnchoredCheckpoint(b"n" * 300, full, several(stamp, each, each * number))
        for number in range(MAX_ANCHORED_CHECKPOINTS)
    )
    bundle = replace(BUNDLE, anchors=anchors)
    assert parse_bundle(bundle.encode()) == bundle


def test_the_largest_single_parts() -> None:
    evidence = AnchorEvidence(STAMP.leaf, (b"c" * MAX_EVIDENCE_BYTES,), ())
    stamp = replace(STAMP, response=b"r" * MAX_RESPONSE_BYTES, evidence=evidence)
    bundle = replace(BUNDLE, anchors=(replace(FIRST, stamps=(stamp,)),))
    assert parse_bundle(bundle.encode()) == bundle


def test_as_many_bytes_as_are_allowed_and_no_more() -> None:
    """Requests, responses and evidence count together, and of each stamp: verifying costs by bytes."""
    part = b"c" * MAX_EVIDENCE_BYTES
    evidence = AnchorEvidence(STAMP.leaf, (part,), (part,))
    stamps = several(replace(STAMP, response=b"r" * 100, evidence=evidence), 2)
    left = MAX_ANCHOR_BYTES - sum(stamp.weight for stamp in stamps[:1])
    assert left == MAX_ANCHOR_BYTES - 2 * MAX_EVIDENCE_BYTES - 100 - len(STAMP.request)
    for spare, fits in ((0, True), (1, False)):
        shorter = replace(evidence, crls=(part,), ocsps=(part[: len(part) - 206 + spare],))
        full = (stamps[0], replace(stamps[1], evidence=shorter))
        assert (sum(stamp.weight for stamp in full) <= MAX_ANCHOR_BYTES) == fits
        data = with_anchors(replace(FIRST, stamps=full))
        if fits:
            assert parse_bundle(data).anchors[0].stamps == full
        else:
            assert f"at most {MAX_ANCHOR_BYTES}" in refused(data)


@pytest.mark.parametrize(
    "anchors",
    named(
        {
            "over one checkpoint": ((replace(FIRST, stamps=(BARE, BARE)),),),
            "over two": ((replace(FIRST, stamps=(BARE,)), replace(SECOND, stamps=(BARE,))),),
            "with another request": (
                (replace(FIRST, stamps=(BARE, replace(BARE, request=b"\x30\x00"))),),
            ),
            "with another leaf": (
                (replace(FIRST, stamps=(BARE, replace(BARE, leaf=FIRST.stamps[0].leaf))),),
            ),
            "with evidence and without": ((replace(FIRST, stamps=(BARE, STAMP)),),),
        }
    ),
)
def test_one_response_twice_is_no_bundle(anchors: tuple[AnchoredCheckpoint, ...]) -> None:
    """It shows nothing more, and would be paid for twice."""
    assert "one response stands there twice" in refused(with_anchors(*anchors))


def many(stamps: int) -> bytes:
    return with_anchors(replace(FIRST, stamps=several(BARE, stamps)))


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "one stamp too many": (many(MAX_STAMPS + 1), f"at most {MAX_STAMPS} stamps"),
            "thousands of stamps": (many(5_000), "too many members"),
            "one stamp too many in all": (
                with_anchors(
                    *(replace(FIRST, stamps=several(BARE, 11, 11 * at)) for at in range(3))
                ),
                f"33 stamps in all, at most {MAX_STAMPS}",
            ),
            "one checkpoint too many": (
                with_anchors(*[SECOND] * (MAX_ANCHORED_CHECKPOINTS + 1)),
                f"at most {MAX_ANCHORED_CHECKPOINTS} checkpoints",
            ),
            "a request too long": (
                with_anchors(
                    replace(FIRST, stamps=(replace(BARE, request=bytes(MAX_REQUEST_BYTES + 1)),))
                ),
                f"1..{MAX_REQUEST_BYTES} bytes",
            ),
            "a response too long": (
                with_anchors(
                    replace(FIRST, stamps=(replace(BARE, response=bytes(MAX_RESPONSE_BYTES + 1)),))
                ),
                f"1..{MAX_RESPONSE_BYTES} bytes",
            ),
            "a revocation list too long": (
                with_anchors(
                    replace(
                        FIRST,
                        stamps=(
                            replace(
                                STAMP,
                                evidence=AnchorEvidence(
                                    STAMP.leaf, (bytes(MAX_EVIDENCE_BYTES + 1),), ()
                                ),
                            ),
                        ),
                    )
                ),
                f"1..{MAX_EVIDENCE_BYTES} bytes",
            ),
            "too many revocation lists": (
                with_anchors(
                    replace(
                        FIRST,
                        stamps=(
                            replace(
                                STAMP,
                                evidence=AnchorEvidence(
                                    STAMP.leaf, (), (b"x",) * (MAX_EVIDENCE_PARTS + 1)
                                ),
                            ),
                        ),
                    )
                ),
                f"at most {MAX_EVIDENCE_PARTS} ocsps",
            ),
        }
    ),
)
def test_more_than_is_allowed(data: bytes, words: str) -> None:

    assert re.search(words, refused(data))


# Every byte


def test_every_changed_byte_is_refused_or_another_bundle() -> None:
    data = BUNDLE.encode()
    for at in range(len(data)):
        for other in {data[at] ^ 1, data[at] ^ 32, 0, 255, 0x20, 0x22, 0x5C} - {data[at]}:
            mutated = data[:at] + bytes([other]) + data[at + 1 :]
            try:
                bundle = parse_bundle(mutated)
            except EvidenceError as error:
                assert error.reason is Reason.BAD_BUNDLE  # noqa: PT017
                continue
            assert bundle != BUNDLE
            assert bundle.encode() == mutated
