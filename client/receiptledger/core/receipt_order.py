"""Receipts of a list put in their places: each after the one before, by the rules of `chain`.

Only receipts that are signed by a given key make a chain. One that is not has no place in it, but it is
said whether the next one links to it: then the fault is told once and not again for all that follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from receiptledger.core.canonical import shown
from receiptledger.core.chain import Decision, Head, Outcome, decide, follows
from receiptledger.core.errors import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.receipt import Receipt

__all__ = ["Entry", "Place", "put_in_order"]

_BEHIND = "it follows the receipt before it, which has no place in the chain"


@dataclass(frozen=True, slots=True)
class Entry:
    """One receipt of the list.

    Attributes:
        receipt: its reading, None when it has none.
        signed: whether a given key signed it.
    """

    receipt: Receipt | None
    signed: bool


@dataclass(slots=True)
class Place:
    """What the order says about one receipt.

    Attributes:
        reason: None when it is in its place, or when nothing can be said.
        detail: what was expected and what came, for a reason.
        notes: what else is worth knowing.
        before: the receipt just before it in the list, where a link to it was expected.
    """

    reason: Reason | None = None
    detail: str = ""
    notes: list[str] = field(default_factory=list)
    before: Receipt | None = None


class _Chain:
    """The places of one chain that are taken; what `decide` asks about."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self._identities: list[tuple[bytes, bytes]] = []
        self._positions: dict[bytes, int] = {}

    def identity(self, position: int) -> tuple[bytes, bytes]:
        return self._identities[position]

    def position_of(self, digest: bytes) -> int | None:
        return self._positions.get(digest)

    def append(self, receipt: Receipt) -> None:
        position = len(self._identities)
        self.head = Head(position, receipt.link_hash, receipt.sequence, receipt.linked)
        self._identities.append((receipt.content_hash, receipt.receipt_hash))
        self._positions[receipt.content_hash] = position
        self._positions[receipt.link_hash] = position


def put_in_order(entries: Sequence[Entry]) -> list[Place]:
    """The place of each receipt of a list, which is one chain in order.

    A single receipt is in its place wherever that is; when it is no first receipt, a note says so.
    Receipts of a format without a chain of its own only must not be there twice.
    """
    chains: dict[bytes, _Chain] = {}
    linked: Receipt | None = None  # the first receipt that is signed and has a chain
    last: Receipt | None = None
    places = []
    for entry in entries:
        receipt = entry.receipt
        if receipt is None:
            place = Place(before=last)
        elif len(entries) == 1:
            place = _alone(receipt)
        elif not entry.signed:
            place = _unsigned(receipt, last)
        else:
            if receipt.linked:
                linked = linked or receipt
            if linked is not None and receipt.linked and receipt.chain != linked.chain:
                place = _of_another_chain(receipt, linked, last)
            else:
                place = _put(chains.setdefault(receipt.chain, _Chain()), receipt, last)
        places.append(place)
        last = receipt
    return places


def _alone(receipt: Receipt) -> Place:
    place = Place()
    if receipt.previous is not None:
        place.notes.append(
            "it is not the first of its chain, and the receipts before it were not given"
        )
    return place


def _put(chain: _Chain, receipt: Receipt, last: Receipt | None) -> Place:
    decision = decide(chain.head, receipt, chain)
    if decision.outcome is Outcome.ACCEPTED:
        chain.append(receipt)
        return Place()
    if decision.outcome is Outcome.DUPLICATE:
        return Place(
            notes=[f"the same receipt as number {decision.position + 1} of its chain, again"]
        )
    if last is not None and last.linked and _follows(last, receipt):
        return Place(notes=[_BEHIND])
    return Place(Reason(decision.outcome.value), _words(decision, chain), before=last)


def _words(decision: Decision, chain: _Chain) -> str:
    if decision.outcome is Outcome.GAP and chain.head is None:
        return f"the receipts before it are missing: {decision.detail}"
    return decision.detail


def _unsigned(receipt: Receipt, last: Receipt | None) -> Place:
    place = Place()
    if last is not None and receipt.linked and last.linked and not _follows(last, receipt):
        place.notes.append("it does not link to the receipt before it either")
        place.before = last
    return place


def _follows(last: Receipt, receipt: Receipt) -> bool:
    return follows(Head(0, last.link_hash, last.sequence, last.linked), receipt)


def _of_another_chain(receipt: Receipt, first: Receipt, last: Receipt | None) -> Place:
    if receipt.pair is not None and last is not None and _follows(last, receipt):
        # Halves of one deal are by two signers, each with a chain of its own.
        return Place(notes=[f"it is of {_names(receipt)}, and links to the receipt before it"])
    detail = (
        f"it is of another chain than the receipts before it: {_names(first)} is expected, "
        f"this one is of {_names(receipt)}"
    )
    return Place(Reason.BROKEN_LINK, detail)


def _names(receipt: Receipt) -> str:
    return shown(receipt.agent) + (f" / {shown(receipt.stream)}" if receipt.stream else "")
