"""The checks of a bundle that need nothing but their arguments.

Each raises EvidenceError or ReceiptError with the reason, or returns what it found in words. Which
check runs when, and what happens when one cannot, is `verify`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError, Reason, ReceiptError
from receiptledger.core.merkle import hash_leaf, verify_consistency, verify_inclusion
from receiptledger.core.note import split_note
from receiptledger.core.public_key import format_public_key
from receiptledger.core.receipt import readings
from receiptledger.core.segment import verify_member
from receiptledger.core.verdict import Check, Status

if TYPE_CHECKING:
    from receiptledger.core.bundle import Bundle, LeafProof
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.leaf import HeadLeaf, KeyLeaf
    from receiptledger.core.note import VerifierKey
    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt import Receipt

__all__ = [
    "check_agent_key",
    "check_consistency",
    "check_key_place",
    "check_links",
    "check_segment",
    "include",
    "open_trusted",
    "read_receipt",
]


_UNLINKED = "this format has no links of its own: the order is the ledger's"


def read_receipt(raw: bytes, head: HeadLeaf, profiles: Profiles) -> Receipt:
    """Read a receipt by the profile its head leaf commits to, never by what the receipt says."""
    receipt = next(readings(raw, profiles, profile=head.profile))
    if receipt.profile_version != head.profile_version:
        raise ReceiptError(
            Reason.UNKNOWN_PROFILE,
            "the receipt was sealed under another version of its format; get a newer verifier",
            want=f"{head.profile} version {head.profile_version}",
            got=f"version {receipt.profile_version}",
        )
    return receipt


def open_trusted(note: bytes, keys: tuple[VerifierKey, ...]) -> Checkpoint:
    """The checkpoint of a note that one of these keys signed under its own name."""
    origin = split_note(note)[0].split(b"\n", 1)[0].decode("utf-8", "replace")
    named = [key for key in keys if key.name == origin]
    if not named:
        raise EvidenceError(
            Reason.WRONG_LOG,
            "the checkpoint is of a log whose key you did not give",
            want=", ".join(key.name for key in keys) or "a log key",
            got=origin,
        )
    failure: EvidenceError | None = None
    for key in named:
        try:
            return open_checkpoint(note, key)
        except EvidenceError as error:
            failure = error
    assert failure is not None  # noqa: S101 - `named` is not empty
    raise failure


def include(name: str, leaf: LeafProof, checkpoint: Checkpoint) -> None:
    """Check that a leaf is in the log; the error says which leaf."""
    try:
        verify_inclusion(
            hash_leaf(leaf.leaf), leaf.index, checkpoint.size, leaf.proof, checkpoint.root
        )
    except EvidenceError as error:
        message = f"{name}: {error.message}"
        raise EvidenceError(error.reason, message, want=error.want, got=error.got) from None


def check_key_place(bundle: Bundle, head: HeadLeaf, key: KeyLeaf, receipt: Receipt) -> None:
    """Check that the key leaf may speak for this receipt: its chain, its position, its place."""
    if not receipt.chain == key.chain == head.chain:
        raise EvidenceError(
            Reason.WRONG_KEY,
            "receipt, key leaf and head leaf are not of one chain",
            want=digest_text(receipt.chain),
            got=f"key leaf {digest_text(key.chain)}, head leaf {digest_text(head.chain)}",
        )
    if key.since > bundle.position:
        raise EvidenceError(
            Reason.WRONG_KEY,
            "the key is allowed only from a later position",
            want=f"at most {bundle.position}",
            got=str(key.since),
        )
    # Trust at a position is decided by leaf order, never by clocks.
    if bundle.key.index >= bundle.head.index:
        raise EvidenceError(
            Reason.WRONG_KEY,
            "the key leaf does not stand before the head leaf",
            want=f"an index below {bundle.head.index}",
            got=str(bundle.key.index),
        )


def check_agent_key(key: KeyLeaf, index: int, known: tuple[bytes, ...] | None) -> str:
    """Hold the chain's key against those the auditor knows the agent by, None for no such agent."""
    if known is None:
        return f"logged as {key.mode} at leaf {index}; no key of this agent given"
    if key.key not in known:
        raise EvidenceError(
            Reason.WRONG_KEY,
            "the chain's key is none of those you trust for this agent",
            want=", ".join(map(format_public_key, known)),
            got=format_public_key(key.key),
        )
    return f"logged as {key.mode} at leaf {index}, and one you trust"


def check_links(
    bundle: Bundle, head: HeadLeaf, receipt: Receipt, profiles: Profiles
) -> Check | str:
    """Check that the receipt follows the one before it, and that its segment ends where it says."""
    position = bundle.position
    if not head.first <= position <= head.last:
        raise EvidenceError(
            Reason.BROKEN_LINK,
            "the position is outside its segment",
            want=f"{head.first}..{head.last}",
            got=str(position),
        )
    if position == head.last and receipt.link_hash != head.head:
        raise _link("the head leaf", head.head, receipt.link_hash)
    if position == head.first:
        if bundle.previous is not None:
            raise EvidenceError(Reason.BAD_BUNDLE, "a segment's first receipt has no previous")
        if receipt.linked and receipt.previous != head.prev:
            raise _link("the receipt before", head.prev, receipt.previous)
        return (
            "links to what the head leaf names before the segment" if receipt.linked else _UNLINKED
        )
    if bundle.previous is None:
        # Left unchecked, the inside of a segment could show anything: never a pass.
        return Check("chain links", Status.UNKNOWN, "the receipt before is not in this bundle")
    before = read_receipt(bundle.previous.raw, head, profiles)
    if before.chain != receipt.chain:
        raise EvidenceError(Reason.BROKEN_LINK, "the receipt before is of another chain")
    if receipt.linked and receipt.previous != before.link_hash:
        raise _link("the receipt before", before.link_hash, receipt.previous)
    if receipt.sequence is not None and before.sequence is not None:
        expected = before.sequence + receipt.sequence_step
        if receipt.sequence != expected:
            raise EvidenceError(
                Reason.WRONG_SEQUENCE,
                "the format's own number does not advance",
                want=str(expected),
                got=str(receipt.sequence),
            )
    return f"links to the receipt at position {position - 1}" if receipt.linked else _UNLINKED


def check_segment(bundle: Bundle, head: HeadLeaf) -> str:
    """Check that the receipt, and the one before it, are in the segment the head leaf commits."""
    index = bundle.position - head.first
    member = bundle.receipt
    verify_member(member.raw, index, head.count, member.proof, head.segment)
    if bundle.previous is not None:
        before = bundle.previous
        verify_member(before.raw, index - 1, head.count, before.proof, head.segment)
    return f"receipt {index + 1} of {head.count} of its segment"


def check_consistency(bundle: Bundle, old: Checkpoint, new: Checkpoint) -> Check | str:
    """Check that the log at `new` extends what the auditor remembers of it."""
    if old.origin != new.origin:
        raise EvidenceError(
            Reason.WRONG_LOG,
            "the remembered checkpoint is of another log",
            want=old.origin,
            got=new.origin,
        )
    if old.size == new.size:
        if old.root != new.root:
            raise EvidenceError(
                Reason.INCONSISTENT,
                "two signed roots for one size: keep both notes as evidence",
                want=digest_text(old.root),
                got=digest_text(new.root),
            )
        return "the same checkpoint as the remembered one"
    if old.size == 0:  # no such proof exists (RFC 6962 section 2.1.2), and none is needed
        return "the remembered checkpoint is of the empty log, which every log extends"
    shown = bundle.consistency
    if shown is None or shown.size != old.size:
        return Check(
            "consistency",
            Status.UNKNOWN,
            f"no consistency proof from the remembered size {old.size}; fetch the bundle again "
            "with that checkpoint given",
        )
    verify_consistency(old.size, new.size, shown.proof, old.root, new.root)
    return f"extends the remembered checkpoint of {old.size} leaves"


def _link(what: str, want: bytes | None, got: bytes | None) -> EvidenceError:
    return EvidenceError(
        Reason.BROKEN_LINK,
        f"the previous hash is not that of {what}",
        want="none" if want is None else digest_text(want),
        got="none" if got is None else digest_text(got),
    )
