"""RFC 6962 section 2.1 word for word: slow, recursive, and the oracle of every tree test.

`D` is a tuple of entries (not of hashes). Names, cases and their order are the RFC's. The cache
only saves hashing the same entries twice; the recursion is untouched.
"""
# ruff: noqa: N803 - the RFC's own names

from __future__ import annotations

import hashlib
from functools import cache

Entries = tuple[bytes, ...]


def split_point(n: int) -> int:
    """The largest power of two smaller than n."""
    k = 1
    while k * 2 < n:
        k *= 2
    return k


@cache
def mth(D: Entries) -> bytes:
    """Section 2.1, Merkle Tree Hash."""
    n = len(D)
    if n == 0:
        return hashlib.sha256().digest()
    if n == 1:
        return hashlib.sha256(b"\x00" + D[0]).digest()
    k = split_point(n)
    return hashlib.sha256(b"\x01" + mth(D[:k]) + mth(D[k:])).digest()


def path(m: int, D: Entries) -> list[bytes]:
    """Section 2.1.1, Merkle Audit Paths."""
    n = len(D)
    if n == 1:
        return []
    k = split_point(n)
    if m < k:
        return [*path(m, D[:k]), mth(D[k:])]
    return [*path(m - k, D[k:]), mth(D[:k])]


def proof(m: int, D: Entries) -> list[bytes]:
    """Section 2.1.2, Merkle Consistency Proofs; 0 < m < n, and the RFC's m = n gives none."""
    return subproof(m, D, True)


def subproof(m: int, D: Entries, b: bool) -> list[bytes]:
    """Section 2.1.2: `b` says whether D[m] is the subtree the verifier already has."""
    n = len(D)
    if m == n:
        return [] if b else [mth(D)]
    k = split_point(n)
    if m <= k:
        return [*subproof(m, D[:k], b), mth(D[k:])]
    return [*subproof(m - k, D[k:], False), mth(D[:k])]
