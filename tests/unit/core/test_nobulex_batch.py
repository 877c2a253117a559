"""nobulex's Merkle batches: roots over actions, and proofs that an action is in one."""

from __future__ import annotations

from typing import Any

import pytest

from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.nobulex import batch_root, check_batch, verify_batch_proof
from receiptledger.core.verdict import Status
from tests.helpers.forge import sha256_hex
from tests.helpers.forge_nobulex import audit_path, batch


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31])
def test_a_batch_is_a_tree_of_rfc_6962(count: int) -> None:
    refs = [sha256_hex(str(at).encode()) for at in range(count)]
    root = batch(refs).hex()
    assert batch_root(refs) == root
    assert check_batch(refs, root).status is Status.PASS
    for index, ref in enumerate(refs):
        path = audit_path(refs, index)
        verify_batch_proof(ref, index, count, path, root)
        other = "0" * 64
        with pytest.raises(EvidenceError):
            verify_batch_proof(other, index, count, path, root)
        with pytest.raises(EvidenceError):
            verify_batch_proof(ref, index, count, [*path, other], root)
        with pytest.raises(EvidenceError):
            verify_batch_proof(ref, index, count, path, other)
        with pytest.raises(EvidenceError):
            verify_batch_proof(ref, index + count, count, path, root)


REFS = [sha256_hex(bytes([at])) for at in range(6)]


@pytest.mark.parametrize(
    "refs",
    [REFS[:-1], REFS[1:], [*REFS, REFS[-1]], REFS[::-1], [REFS[0].upper(), *REFS[1:]], []],
    ids=["cut", "first gone", "doubled", "reordered", "capitals", "none"],
)
def test_another_batch(refs: list[str]) -> None:
    found = check_batch(refs, batch(REFS).hex())
    assert (found.status, found.reason) == (Status.FAIL, Reason.BAD_PROOF)
    assert f"the root over {len(refs)} actions" in found.detail


@pytest.mark.parametrize("bad", [None, 7, "", "zz" * 32, "AB" * 32, "ab" * 31, b"ab", []])
def test_hashes_that_are_none(bad: Any) -> None:
    path = audit_path(REFS, 2)
    for proof, root in (([bad, *path[1:]], batch(REFS).hex()), (path, bad)):
        with pytest.raises(EvidenceError) as caught:
            verify_batch_proof(REFS[2], 2, 6, proof, root)
        assert caught.value.reason is Reason.BAD_PROOF
