"""First half of ingest: form and signature of each receipt, in worker threads.

Nearly all the time is libsodium's, which runs without the interpreter lock, so a thread per core
verifies on all cores. Nothing here writes; what passes goes to admission in the order it came.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.core.algorithms import algorithm_of
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.public_key import shown_key
from receiptledger.core.receipt import Receipt, authenticate, first_readings, holds, readings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.keyring import Keyring
    from receiptledger.core.canonical import Limits
    from receiptledger.core.profile import Profiles

__all__ = ["Refused", "Verified", "verify_batch"]


@dataclass(slots=True)
class Verified:
    """A receipt whose signature holds under `key`, and its leaf hash in a segment tree."""

    receipt: Receipt
    key: bytes
    leaf_hash: bytes


@dataclass(slots=True)
class Refused:
    """A receipt that is refused whatever its place, with its identity for the answer."""

    receipt_hash: bytes
    error: ReceiptError


def verify_batch(
    raws: Sequence[bytes],
    *,
    profile: str | None,
    hints: Sequence[bytes],
    profiles: Profiles,
    keyring: Keyring,
    limits: Limits,
) -> list[Verified | Refused]:
    """Check every receipt of a batch by itself; one bad receipt never blocks the others.

    All are read before the first signature is checked: the interpreter and libsodium drive each other
    out of the processor's caches, which costs a tenth when they take turns at every receipt.

    A new chain's key, learned from one receipt of the batch, serves the batch's later ones.
    """
    firsts = first_readings(raws, profiles, profile, limits)
    fresh: dict[bytes, tuple[bytes, ...]] = {}
    found: list[bytes | Verified | Refused] = []  # bytes: the first reading holds under this key
    for raw, first in zip(raws, firsts, strict=True):
        if isinstance(first, ReceiptError):
            found.append(Refused(sha256(raw).digest(), first))
            continue
        keys = keyring.allowed(first) or fresh.get(first.chain, ())
        if len(keys) == 1 and holds(first, keys[0]):  # nearly always
            found.append(keys[0])
            continue
        try:
            tries = tuple(readings(raw, profiles, profile=profile, limits=limits))
            found.append(_try_all(tries, keys, hints, keyring, fresh))
        except ReceiptError as error:
            found.append(Refused(first.receipt_hash, error))
    items: list[Verified | Refused] = []
    for first, item in zip(firsts, found, strict=True):
        if isinstance(item, bytes):
            assert isinstance(first, Receipt)  # noqa: S101 - refusals were found above
            item = Verified(first, item, hash_leaf(first.raw))
        items.append(item)
    return items


def _try_all(
    tries: tuple[Receipt, ...],
    keys: tuple[bytes, ...],
    hints: Sequence[bytes],
    keyring: Keyring,
    fresh: dict[bytes, tuple[bytes, ...]],
) -> Verified:
    """Every reading under every key: new chains, chains of several keys, and what does not hold.

    Raises:
        ReceiptError: why none holds; UNSUPPORTED_ALGORITHM when that cannot be told here.
    """
    first = tries[0]
    failure: ReceiptError | None = None
    for key in keys or keyring.candidates(first, hints):
        try:
            receipt = authenticate(first, iter(tries[1:]), key)
        except ReceiptError as error:
            if failure is None or algorithm_of(key) == first.algorithm:
                failure = error
            continue
        if not keys:
            fresh[receipt.chain] = (key,)
        return Verified(receipt, key, hash_leaf(receipt.raw))
    assert failure is not None, "there was a key to try"  # noqa: S101
    raise _explain(first, tries, keys, failure)


def _explain(
    first: Receipt, tries: Sequence[Receipt], keys: Sequence[bytes], error: ReceiptError
) -> ReceiptError:
    """Tell a re-signed receipt (another key's good signature) from a broken one."""
    hint = first.key_hint
    if error.reason is not Reason.BAD_SIGNATURE or not keys or hint is None or hint in keys:
        return error
    try:
        authenticate(tries[0], iter(tries[1:]), hint)
    except ReceiptError:
        return error
    return ReceiptError(
        Reason.WRONG_KEY,
        "the signature holds, but under a key this chain does not use",
        want=" or ".join(shown_key(key) for key in keys),
        got=shown_key(hint),
    )
