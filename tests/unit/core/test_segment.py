"""Segments: where a run of receipts ends, its root, and proofs of its members."""

from __future__ import annotations

import hashlib
import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.segment import (
    SEGMENT_MAX,
    runs,
    segment_root,
    verify_member,
)
from tests.helpers import rfc6962
from tests.helpers.cases import named


class One(NamedTuple):
    """An entry: what decides, and which one it is."""

    profile: str
    profile_version: int
    key: bytes
    number: int


def split(*kinds: tuple[str, int, bytes], limit: int = SEGMENT_MAX) -> list[list[int]]:
    entries = [One(*kind, number) for number, kind in enumerate(kinds)]
    return [[one.number for one in run] for run in runs(entries, limit)]


A = ("format-a", 1, b"key")


def test_one_run() -> None:
    assert split(A, A, A) == [[0, 1, 2]]


def test_nothing_is_no_run() -> None:
    assert split() == []


@pytest.mark.parametrize(
    "other",
    [("format-b", 1, b"key"), ("format-a", 2, b"key"), ("format-a", 1, b"other key")],
    ids=["profile", "version", "key"],
)
def test_a_change_starts_a_new_run_and_so_does_the_change_back(
    other: tuple[str, int, bytes],
) -> None:
    assert split(A, A, other, A) == [[0, 1], [2], [3]]


def test_a_run_ends_at_the_limit() -> None:
    assert split(*[A] * 7, limit=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert [len(run) for run in split(*[A] * (2 * SEGMENT_MAX + 1))] == [1_024, 1_024, 1]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.sampled_from([b"k", b"l"]))),
    st.integers(1, 5),
)
def test_runs_keep_everything_in_order_and_no_two_could_be_one(
    kinds: list[tuple[str, int, bytes]], limit: int
) -> None:
    parts = split(*kinds, limit=limit)
    assert [number for part in parts for number in part] == list(range(len(kinds)))
    for part in parts:
        assert 1 <= len(part) <= limit
        assert len({kinds[number] for number in part}) == 1
    for part, following in itertools.pairwise(parts):
        assert len(part) == limit or kinds[part[0]] != kinds[following[0]]


def raws(count: int) -> list[bytes]:
    return [f"receipt {number}".encode() for number in range(count)]


def leaf_hashes(entries: list[bytes]) -> list[bytes]:
    return [hashlib.sha256(b"\x00" + raw).digest() for raw in entries]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 100])
def test_the_root_is_the_rfcs_and_every_member_has_a_proof(count: int) -> None:
    entries = raws(count)
    root = segment_root(leaf_hashes(entries))
    assert root == rfc6962.mth(tuple(entries))
    for index, raw in enumerate(entries):
        verify_member(raw, index, count, rfc6962.path(index, tuple(entries)), root)


def test_the_longest_segment_needs_ten_hashes() -> None:
    entries = raws(SEGMENT_MAX)
    for index in (0, 511, 1_023):
        proof = rfc6962.path(index, tuple(entries))
        assert len(proof) == 10
        verify_member(entries[index], index, 1_024, proof, segment_root(leaf_hashes(entries)))


ENTRIES = raws(6)
HASHES = leaf_hashes(ENTRIES)
ROOT = segment_root(HASHES)
PROOF = rfc6962.path(3, tuple(ENTRIES))


@pytest.mark.parametrize(
    ("raw", "index", "count", "proof", "root"),
    named(
        {
            "other bytes": (ENTRIES[3] + b" ", 3, 6, PROOF, ROOT),
            "the leaf hash for the bytes": (HASHES[3], 3, 6, PROOF, ROOT),
            "another index": (ENTRIES[3], 2, 6, PROOF, ROOT),
            "index below": (ENTRIES[3], -1, 6, PROOF, ROOT),
            "index beyond": (ENTRIES[3], 6, 6, PROOF, ROOT),
            "another count": (ENTRIES[3], 3, 4, PROOF, ROOT),
            "a hash too few": (ENTRIES[3], 3, 6, PROOF[:-1], ROOT),
            "a hash too many": (ENTRIES[3], 3, 6, [*PROOF, bytes(32)], ROOT),
            "hashes swapped": (ENTRIES[3], 3, 6, [PROOF[1], PROOF[0], PROOF[2]], ROOT),
            "another root": (ENTRIES[3], 3, 6, PROOF, bytes(32)),
            "an empty segment": (ENTRIES[3], 0, 0, [], ROOT),
        }
    ),
)
def test_a_proof_of_something_else(
    raw: bytes, index: int, count: int, proof: list[bytes], root: bytes
) -> None:
    verify_member(ENTRIES[3], 3, 6, PROOF, ROOT)
    with pytest.raises(EvidenceError) as caught:
        verify_member(raw, index, count, proof, root)
    assert caught.value.reason is Reason.BAD_PROOF
