"""Every perfect subtree over a row of hashes, kept once so that proofs need no hashing.

A row is a tile's hashes or a segment's leaf hashes. Both only grow or never change, and a perfect
subtree never changes once its leaves exist, so a `Subtrees` stays true for every later proof.
"""

from __future__ import annotations

import hashlib

from receiptledger.core.proof_plan import plan_inclusion
from receiptledger.core.treehash import HASH_SIZE, bad_proof

__all__ = ["Subtrees"]


class Subtrees:
    """Hashes of all perfect subtrees over a row, level by level: twice the row's bytes.

    Args:
        row: concatenated 32-byte hashes, at least one.

    Raises:
        EvidenceError: BAD_PROOF, the row is empty or not whole hashes.
    """

    __slots__ = ("_levels", "width")

    def __init__(self, row: bytes) -> None:
        if not row or len(row) % HASH_SIZE:
            raise bad_proof("a row is not whole hashes", want="n x 32 bytes", got=len(row))
        sha256 = hashlib.sha256
        self.width = len(row) // HASH_SIZE
        self._levels = [row]
        while len(row) >= 2 * HASH_SIZE:
            whole = len(row) - len(row) % (2 * HASH_SIZE)  # a lone last hash completes no parent
            row = b"".join(
                [sha256(b"\x01" + row[at : at + 64]).digest() for at in range(0, whole, 64)]
            )
            self._levels.append(row)

    @property
    def size(self) -> int:
        """Bytes of hashes held."""
        return sum(map(len, self._levels))

    def node(self, level: int, index: int) -> bytes:
        """Hash of the subtree over hashes index * 2**level up to (index + 1) * 2**level.

        Raises:
            EvidenceError: BAD_PROOF, the row does not have all of them.
        """
        at = index * HASH_SIZE
        if level >= len(self._levels) or not 0 <= at < len(self._levels[level]):
            got = f"level {level}, index {index}"
            raise bad_proof("no such subtree", want=f"one over {self.width} hashes", got=got)
        return self._levels[level][at : at + HASH_SIZE]

    def path(self, index: int) -> list[bytes]:
        """RFC 6962 section 2.1.1 audit path of the hash at `index`, in the tree over the row.

        Raises:
            EvidenceError: BAD_PROOF, the index is not in the row.
        """
        plan = plan_inclusion(index, self.width)
        return plan.fold([self.node(level, at) for level, at in plan.nodes])
