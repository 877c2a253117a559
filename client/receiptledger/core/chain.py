"""Continuity of one agent's chain: where a receipt belongs, and why it is refused.

A chain is a list of positions 0, 1, 2 ... The next receipt must name the link hash of the newest one
(its head) as its previous hash, and a format's own sequence number must advance by its own rule. The
rules, in the order they are asked:

1. It links to the head and its number advances: ACCEPTED at head + 1.
2. Its content is in the chain already, in any spelling: DUPLICATE of that position, for ever.
3. It claims a position that is taken: FORK. The claim is its sequence number where the format has
   one, else the position after the receipt it links to (position 0 for a genesis receipt).
4. It claims the next position but links elsewhere: BROKEN_LINK.
5. It links to the head but its number is wrong: WRONG_SEQUENCE.
6. Anything further ahead: GAP.

A receipt of a format without links says nothing of the one before it: the ledger gives it the next
position. Only rule 2 and its number, if it has one, are asked: one that advances is ACCEPTED, one that
is taken is a FORK, one further ahead a GAP, one between two steps WRONG_SEQUENCE. A chain has links
from its first receipt on or never, else nothing would hold its parts together: what does not fit is a
BROKEN_LINK.

`decide` is called with receipts whose signature holds; a badly signed one never gets this far, so a
FORK is always evidence against the holder of the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Protocol

from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from receiptledger.core.receipt import Receipt

__all__ = ["Decision", "Head", "History", "Outcome", "decide", "follows"]


@unique
class Outcome(StrEnum):
    """What continuity says about one receipt."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    GAP = "gap"
    FORK = "fork"
    BROKEN_LINK = "broken_link"
    WRONG_SEQUENCE = "wrong_sequence"


@dataclass(slots=True)
class Head:
    """The newest receipt of one chain."""

    position: int
    link_hash: bytes  # 32: what the next receipt's previous hash must be
    sequence: int | None  # the format's own number, when it has one
    linked: bool = True  # whether its format, and so the chain, has links


class History(Protocol):
    """What a decision may ask about earlier positions; only the unusual cases do."""

    def identity(self, position: int) -> tuple[bytes, bytes]:
        """(content hash, receipt hash) of a position that is taken."""

    def position_of(self, digest: bytes) -> int | None:
        """Position whose content or link hash is `digest`, or None."""


@dataclass(slots=True)
class Decision:
    """The outcome, with what the sender needs to go on.

    Attributes:
        outcome: see :class:`Outcome`.
        position: ACCEPTED, DUPLICATE: the receipt's position. FORK: the position that is taken.
            Otherwise the position that is expected next.
        expected: FORK: receipt hash of the one that is there. GAP, BROKEN_LINK, WRONG_SEQUENCE: the
            link hash the next receipt must name, None at a chain's start and where it names none.
        detail: what was expected and what came; empty for ACCEPTED and DUPLICATE.
    """

    outcome: Outcome
    position: int
    expected: bytes | None = None
    detail: str = ""

    def error(self) -> ReceiptError:
        """The refusal as an error; only for outcomes that refuse."""
        return ReceiptError(Reason(self.outcome.value), self.detail)


def follows(head: Head, receipt: Receipt) -> bool:
    """Rule 1, and nearly every receipt: it links to the head and its number, if any, advances."""
    if receipt.previous != head.link_hash or not head.linked:
        return False
    number, before = receipt.sequence, head.sequence
    return number is None or before is None or number == before + receipt.sequence_step


def decide(head: Head | None, receipt: Receipt, history: History) -> Decision:
    """Where an authenticated receipt belongs in its chain. Pure; raises nothing.

    Args:
        head: newest position of the receipt's chain, or None for a new chain.
        receipt: a receipt whose signature was verified.
        history: the chain's earlier positions.
    """
    if head is None:
        return _first(receipt)
    if follows(head, receipt):
        return Decision(Outcome.ACCEPTED, head.position + 1)
    links = receipt.previous == head.link_hash
    known = history.position_of(receipt.content_hash)
    if known is not None and history.identity(known)[0] == receipt.content_hash:
        return Decision(Outcome.DUPLICATE, known)
    if not (receipt.linked and head.linked):
        return _without_links(head, receipt, history)
    claimed = _claimed(head, receipt, history)
    if claimed is not None and claimed <= head.position:
        return _fork(claimed, receipt, history)
    expected = head.position + 1
    if links:
        return Decision(Outcome.WRONG_SEQUENCE, expected, head.link_hash, _numbers(head, receipt))
    if claimed == expected:
        return Decision(
            Outcome.BROKEN_LINK,
            expected,
            head.link_hash,
            f"position {expected} must name previous hash {_text(head.link_hash)}, "
            f"this one names {_text(receipt.previous)}",
        )
    return Decision(
        Outcome.GAP,
        expected,
        head.link_hash,
        f"position {expected} with previous hash {_text(head.link_hash)} is expected next, this one "
        + (f"claims position {claimed}" if claimed is not None else "")
        + (f"names {_text(receipt.previous)}, not in the chain" if claimed is None else ""),
    )


def _first(receipt: Receipt) -> Decision:
    """A chain begins with its genesis receipt; a chain whose start was not sent has a gap."""
    if receipt.previous is not None:
        return Decision(
            Outcome.GAP,
            0,
            None,
            "the chain is new here, so its genesis receipt is expected first, "
            f"this one names previous hash {_text(receipt.previous)}",
        )
    if receipt.sequence is not None and receipt.sequence != receipt.sequence_start:
        ahead, odd = divmod(receipt.sequence - receipt.sequence_start, receipt.sequence_step)
        return Decision(
            # A number is all that tells a first receipt without links from a later one.
            Outcome.GAP if ahead > 0 and not odd and not receipt.linked else Outcome.WRONG_SEQUENCE,
            0,
            None,
            f"a chain starts at sequence {receipt.sequence_start}, got {receipt.sequence}",
        )
    return Decision(Outcome.ACCEPTED, 0)


def _without_links(head: Head, receipt: Receipt, history: History) -> Decision:
    """A receipt that names none before it, or a chain whose receipts do not."""
    expected, named = head.position + 1, head.link_hash if head.linked else None
    if receipt.linked is not head.linked:
        have, has = ("have", "none") if head.linked else ("have no", "them")
        return Decision(
            Outcome.BROKEN_LINK,
            expected,
            named,
            f"the receipts of this chain {have} links, and the format of this one has {has}: send it "
            "under another agent or stream name",
        )
    if receipt.sequence is None or head.sequence is None:
        return Decision(Outcome.ACCEPTED, expected)
    ahead, odd = divmod(receipt.sequence - head.sequence, receipt.sequence_step)
    if odd:
        return Decision(Outcome.WRONG_SEQUENCE, expected, named, _numbers(head, receipt))
    if ahead == 1:
        return Decision(Outcome.ACCEPTED, expected)
    if ahead < 1:
        return _fork(max(head.position + ahead, 0), receipt, history)
    return Decision(Outcome.GAP, expected, named, _numbers(head, receipt))


def _claimed(head: Head, receipt: Receipt, history: History) -> int | None:
    """The position a receipt says it has, or None when it links to nothing we know."""
    if receipt.sequence is not None and head.sequence is not None:
        ahead, odd = divmod(receipt.sequence - head.sequence, receipt.sequence_step)
        # A number between two steps claims no position; before the start, it claims the start.
        return None if odd else max(head.position + ahead, 0)
    if receipt.previous is None:
        return 0
    before = history.position_of(receipt.previous)
    return None if before is None else before + 1


def _fork(claimed: int, receipt: Receipt, history: History) -> Decision:
    there = history.identity(claimed)[1]
    return Decision(
        Outcome.FORK,
        claimed,
        there,
        f"position {claimed} is taken by receipt {_text(there)}, "
        f"this one is {_text(receipt.receipt_hash)}",
    )


def _numbers(head: Head, receipt: Receipt) -> str:
    return (
        f"sequence {(head.sequence or 0) + receipt.sequence_step} is expected next, "
        f"got {receipt.sequence}"
    )


def _text(digest: bytes | None) -> str:
    return "none" if digest is None else "sha256:" + digest.hex()
