"""Segments: the runs of one chain's receipts that are sealed together.

A segment is one chain, one profile and version, one key, contiguous positions, at most 1,024 receipts.
Its root is the RFC 6962 root over the raw receipts, so a receipt proof is two Merkle paths, never a
walk of the chain. Leaf hashes are kept apart from the receipts, so proofs survive erasure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from receiptledger.core.merkle import hash_leaf, root_hash, verify_inclusion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["SEGMENT_MAX", "runs", "segment_root", "verify_member"]

SEGMENT_MAX = 1_024  # receipts: bounds the work of one proof to 10 hashes


class _Entry(Protocol):
    """What decides where a segment ends."""

    @property
    def profile(self) -> str: ...
    @property
    def profile_version(self) -> int: ...
    @property
    def key(self) -> bytes: ...


E = TypeVar("E", bound=_Entry)


def runs(entries: Iterable[E], limit: int = SEGMENT_MAX) -> Iterator[list[E]]:
    """Split contiguous entries of one chain into segments.

    A new segment starts where the profile, its version or the key changes, and after `limit` entries.
    """
    run: list[E] = []
    for entry in entries:
        if run and (
            len(run) == limit
            or entry.key != run[0].key
            or entry.profile != run[0].profile
            or entry.profile_version != run[0].profile_version
        ):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def segment_root(leaf_hashes: Sequence[bytes]) -> bytes:
    """Root over SHA-256(0x00 || raw receipt) hashes, in position order."""
    return root_hash(leaf_hashes)


def verify_member(raw: bytes, index: int, count: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that exact receipt bytes are at `index` of a segment of `count`.

    Raises:
        EvidenceError: BAD_PROOF.
    """
    verify_inclusion(hash_leaf(raw), index, count, proof, root)
