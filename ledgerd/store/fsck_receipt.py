"""One stored receipt against what the index says of it, by the receipt's bytes alone.

Runs in worker threads: nearly all of it is hashing and libsodium's signature check. Touches no store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ledgerd.store.fsck_report import Damage
from receiptledger.core.canonical import Limits
from receiptledger.core.errors import ReceiptError
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.receipt import Receipt, readings, verify_signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.store.interface import Entry
    from receiptledger.core.chain import Head
    from receiptledger.core.profile import Profiles

__all__ = ["Facts", "Item", "check_receipts"]

# Not the daemon's setting of the day, but the most it can ever have been set to: what was admitted
# once stays good.
LIMITS: Final = Limits(max_bytes=1024 * 1024)


@dataclass(slots=True)
class Item:
    """One receipt to check, with its surroundings.

    Attributes:
        chain: key of the chain it is stored under.
        position: its place there.
        raw: its bytes.
        entry: what the index says of it.
        key: the public key that its entry names.
        known: whether the position before it is known (always at position 0).
        before: link hash of the position before it; None at position 0.
        head: the chain's head, given with its newest receipt.
    """

    chain: bytes
    position: int
    raw: bytes
    entry: Entry
    key: bytes
    known: bool
    before: bytes | None
    head: Head | None = None


@dataclass(slots=True)
class Facts:
    """What the bytes say; `receipt` is None when they cannot be read."""

    item: Item
    receipt: Receipt | None = None
    problems: list[tuple[Damage, object, object]] = field(default_factory=list)

    def expect(self, what: Damage, expected: object, got: object) -> None:
        """Note a problem unless both are equal."""
        if expected != got:
            self.problems.append((what, expected, got))


def check_receipts(items: Sequence[Item], profiles: Profiles) -> list[Facts]:
    """Check each receipt by itself, in order."""
    return [_check(item, profiles) for item in items]


def _check(item: Item, profiles: Profiles) -> Facts:
    facts, entry, raw = Facts(item), item.entry, item.raw
    facts.expect(Damage.RECEIPT_HASH, entry.receipt_hash, sha256(raw).digest())
    if facts.problems:
        return facts  # other bytes: nothing else about them would say more
    facts.expect(Damage.LEAF_HASH, hash_leaf(raw), entry.leaf_hash)
    try:
        receipt = next(readings(raw, profiles, profile=entry.profile, limits=LIMITS))
    except ReceiptError as error:
        facts.problems.append((Damage.RECEIPT, f"a receipt of format {entry.profile}", error))
        return facts
    if receipt.profile_version != entry.profile_version:
        # The rules it was admitted by are not known to this version: undecided is not clean.
        known, admitted = receipt.profile_version, entry.profile_version
        facts.expect(Damage.RECEIPT, f"version {known} of format {entry.profile}", admitted)
        return facts
    facts.receipt = receipt
    facts.expect(Damage.CONTENT_HASH, receipt.content_hash, entry.content_hash)
    facts.expect(Damage.LINK_HASH, receipt.link_hash, entry.link_hash)
    facts.expect(Damage.CHAIN, receipt.chain, item.chain)
    if item.known and receipt.linked:
        facts.expect(Damage.LINK, item.before, receipt.previous)
    try:
        verify_signature(receipt, item.key)
    except ReceiptError as error:
        facts.problems.append((Damage.SIGNATURE, f"one by the key {entry.key.hex()}", error))
    return facts
