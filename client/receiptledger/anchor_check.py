"""Holds one timestamp of a ledger against the auditor's own keys and authorities.

The checks themselves are those of a bundle's verifier (`core.anchor_stamps`): what stands in a list of
anchors is worth no more than what stands in a bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.core.anchor_stamps import Stamp, judge_stamp, open_anchored
from receiptledger.core.bundle import AnchoredCheckpoint, AnchorStamp
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError, Reason

if TYPE_CHECKING:
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.note import VerifierKey
    from receiptledger.core.timestamp import TsaTrust
    from receiptledger.wire import AnchorProof

__all__ = ["CheckedAnchor", "check_anchor"]


@dataclass(frozen=True, slots=True)
class CheckedAnchor:
    """One timestamp, verified as far as the auditor can.

    Attributes:
        proof: as the ledger gave it: its checkpoint is the log's and extends the stamped one.
        stamp: what the token is worth; None while the checkpoint does not cover its leaf, and so
            nothing shows that the log holds it.
    """

    proof: AnchorProof
    stamp: Stamp | None


def check_anchor(
    proof: AnchorProof, newest: Checkpoint, key: VerifierKey, tsas: tuple[TsaTrust, ...]
) -> CheckedAnchor:
    """Verify what surrounds a token, and judge the token.

    Args:
        proof: as the ledger gave it.
        newest: its checkpoint, verified.
        key: the log's.
        tsas: the auditor's authorities.

    Raises:
        EvidenceError: what was stamped is no earlier state of the log, or the ledger says one thing of
            the anchor and shows another. A token that does not hold is no error: see the stamp.
    """
    said = proof.anchor
    anchored = open_anchored(
        AnchoredCheckpoint(proof.note, proof.consistency, ()), newest, (key,), -1
    )
    digest = sha256(proof.response).digest()
    for what, want, got in (
        ("checkpoint", f"{anchored.size} leaves", f"{said.tree_size} leaves"),
        ("checkpoint", digest_text(anchored.root), digest_text(said.root)),
        ("response", digest_text(digest), digest_text(said.response_hash)),
        ("leaf", _index(None if proof.leaf is None else proof.leaf.index), _index(said.leaf_index)),
    ):
        if want != got:
            raise EvidenceError(
                Reason.BAD_TIMESTAMP,
                f"the ledger says another {what} of anchor {said.number} than it shows",
                want=want,
                got=got,
            )
    if proof.leaf is None:
        return CheckedAnchor(proof, None)
    stamp = AnchorStamp(proof.request, proof.response, proof.leaf, proof.evidence)
    return CheckedAnchor(proof, judge_stamp(stamp, proof.note, anchored, newest, tsas))


def _index(index: int | None) -> str:
    return "none" if index is None else str(index)
