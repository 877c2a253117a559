"""All perfect subtrees of a row, against the RFC's recursion."""

from __future__ import annotations

import hashlib

import pytest

from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.subtrees import Subtrees
from tests.helpers import rfc6962

ENTRIES = tuple(f"entry {number}".encode() for number in range(256))
HASHES = [hashlib.sha256(b"\x00" + entry).digest() for entry in ENTRIES]
WIDTHS = [*range(1, 18), 31, 32, 33, 255, 256]


def tree(width: int) -> Subtrees:
    return Subtrees(b"".join(HASHES[:width]))


@pytest.mark.parametrize("width", WIDTHS)
def test_every_node_and_every_path_is_the_rfcs(width: int) -> None:
    made = tree(width)
    assert made.width == width
    for level in range(9):
        for index in range(width >> level):
            leaves = ENTRIES[index << level : (index + 1) << level]
            assert made.node(level, index) == rfc6962.mth(leaves)
    for index in range(width):
        assert made.path(index) == rfc6962.path(index, ENTRIES[:width])


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_not_complete_is_refused(width: int) -> None:
    made = tree(width)
    for level in range(10):
        for index in (width >> level, -1):
            with pytest.raises(EvidenceError) as caught:
                made.node(level, index)
            assert caught.value.reason is Reason.BAD_PROOF
            assert f"level {level}, index {index}" in str(caught.value)
    for index in (-1, width):
        with pytest.raises(EvidenceError):
            made.path(index)


@pytest.mark.parametrize("row", [b"", b"\x00", bytes(31), bytes(33), bytes(65)])
def test_a_row_is_whole_hashes(row: bytes) -> None:
    with pytest.raises(EvidenceError) as caught:
        Subtrees(row)
    assert caught.value.reason is Reason.BAD_PROOF


@pytest.mark.parametrize("width", WIDTHS)
def test_size_is_the_bytes_held(width: int) -> None:
    nodes = sum(width >> level for level in range(width.bit_length()))
    assert tree(width).size == 32 * nodes < 64 * width
