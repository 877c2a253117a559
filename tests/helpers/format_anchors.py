"""The worked example of FORMATS.md, one step further: its checkpoint stamped, and the answer logged."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.certificates import to_pem
from receiptledger.core.bundle import AnchoredCheckpoint, AnchorStamp, Bundle, LeafProof
from receiptledger.core.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from receiptledger.core.leaf import AnchorLeaf
from receiptledger.core.merkle import hash_leaf, inclusion_path, root_hash
from tests.helpers.authority import Authority

if TYPE_CHECKING:
    from receiptledger.core.note import NoteSigner

__all__ = ["STAMPED_AT", "TSA", "anchor_examples"]

TSA = Authority("tsa-1")
STAMPED_AT = datetime(2026, 11, 30, 9, 10, tzinfo=UTC)


def anchor_examples(bundle: Bundle, signer: NoteSigner) -> dict[str, bytes]:
    """The root of an authority, and a bundle of the same receipt with its answer.

    Args:
        bundle: the example without anchors, at a log of two leaves.
        signer: of the log.
    """
    note = bundle.checkpoint
    old = open_checkpoint(note, signer.verifier)
    request, response = TSA.answer(note, STAMPED_AT)
    anchor = AnchorLeaf(old.size, old.root, TSA.name, sha256(response).digest(), None).encode()
    leaves = [bundle.key.leaf, bundle.head.leaf, anchor]
    hashes = [hash_leaf(leaf) for leaf in leaves]
    proofs = [
        LeafProof(leaf, at, tuple(inclusion_path(hashes, at))) for at, leaf in enumerate(leaves)
    ]
    anchored = AnchoredCheckpoint(
        note=note,
        consistency=(hashes[2],),  # from two leaves to three: what was added
        stamps=(AnchorStamp(request, response, proofs[2]),),
    )
    whole = replace(
        bundle,
        key=proofs[0],
        head=proofs[1],
        checkpoint=sign_checkpoint(Checkpoint(old.origin, 3, root_hash(hashes)), signer),
        anchors=(anchored,),
    )
    return {"tsa-root": to_pem((TSA.root.der,)), "anchored-bundle": whole.encode()}
