"""Receipts that belong together: an intent and its outcome, an authorization and its result.

A receipt of an intent says that something may or will be done, one of an outcome that it was, and names
the intent: by its hash or by an id. Often two signers write them, a buyer and a seller. An intent
without an outcome is no fault by itself, but somebody should be told once it is old; an outcome without
an intent was never agreed to, as far as the receipts at hand go.

Only receipts whose signature holds may be given: what they say of each other is believed. What a
receipt is, and what names it, its format says (`Receipt.pair`). An id out of a receipt is the signer's
choice, so it means something within one format only, and first of all within one chain.

Who signed is told by keys, never by names: of bilateral receipts both halves may carry the name of one
agent. So whoever checked the signatures says which key each one holds under.

Linear in the number of receipts; what is found is listed up to a bound and counted beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from receiptledger.core.canonical import shown
from receiptledger.core.instants import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime, timedelta

    from receiptledger.core.receipt_types import Pair, Receipt

__all__ = [
    "MAX_FINDINGS",
    "Fault",
    "Finding",
    "Paired",
    "Pairing",
    "Unpaired",
    "claimed_time",
    "named_key",
    "pair",
]

MAX_FINDINGS: Final = 1_000

_Key = tuple[str, str]  # format, id


@unique
class Fault(StrEnum):
    """What is wrong with a receipt's place in a pair."""

    REPEATED = "the same receipt again"
    TWO_INTENTS = "two intents of one id"
    TWO_OUTCOMES = "two outcomes for one intent"
    OUTCOME_FIRST = "outcome before its intent"
    LATE = "outcome after the time limit"
    NO_INTENT = "outcome of an intent that is not here"
    OF_AN_OUTCOME = "outcome of another outcome"
    AMBIGUOUS = "outcome of an id that intents of several chains have"
    ONE_SIGNER = "both halves by one signer"


@dataclass(frozen=True, slots=True)
class Paired:
    """An intent and its first outcome.

    Attributes:
        intent, outcome: the receipts.
        seconds: from one to the other, negative when the outcome claims to be earlier; None when one
            of them has no time.
        bilateral: whether two keys signed them; None when that is not known.
    """

    intent: Receipt
    outcome: Receipt
    seconds: float | None
    bilateral: bool | None


@dataclass(frozen=True, slots=True)
class Unpaired:
    """An intent without an outcome.

    Attributes:
        intent: the receipt.
        seconds: its age; None when it has no time, or none was asked for.
        overdue: whether it is older than the limit; None when that cannot be told.
    """

    intent: Receipt
    seconds: float | None
    overdue: bool | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.

    Attributes:
        fault: which.
        receipt: the one at fault; of two, the later one in the list.
        other: the one it collides with, or None.
        detail: in words. Ids in it are escaped for a terminal, not for a page.
    """

    fault: Fault
    receipt: Receipt
    other: Receipt | None
    detail: str


@dataclass(slots=True)
class Pairing:
    """What belongs together among some receipts.

    Attributes:
        pairs: in the order of their intents.
        unpaired: intents without outcome, in the order given.
        findings: faults, at most `MAX_FINDINGS`, in the order given.
        not_listed: faults beyond that.
        others: receipts that are neither intent nor outcome.
    """

    pairs: list[Paired] = field(default_factory=list)
    unpaired: list[Unpaired] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_listed: int = 0
    others: int = 0

    @property
    def overdue(self) -> list[Unpaired]:
        """Intents that are known to be older than the limit."""
        return [one for one in self.unpaired if one.overdue]


def claimed_time(receipt: Receipt) -> datetime | None:
    """When a receipt was made, by the word of its signer; None when it says nothing readable."""
    if receipt.time is None:
        return None
    try:
        return parse_instant(receipt.time)
    except ValueError:
        return None


def named_key(receipt: Receipt) -> bytes | None:
    """The key inside a receipt, under which its signature must hold; None when there is none."""
    return receipt.key_hint


def pair(
    receipts: Sequence[Receipt],
    *,
    now: datetime | None = None,
    limit: timedelta | None = None,
    when: Callable[[Receipt], datetime | None] = claimed_time,
    signer: Callable[[Receipt], bytes | None] = named_key,
    ordered: bool = True,
    two_signers: Collection[str] = (),
) -> Pairing:
    """Put intents and outcomes together.

    Args:
        receipts: whose signatures hold.
        now: the moment to tell ages at, with a time zone; None tells none.
        limit: how long an intent may wait for its outcome; None for ever.
        when: the moment of a receipt. By default its signer's claim, which is no proof; a ledger
            knows when it admitted it.
        signer: the key a receipt's signature holds under; None when it is not known.
        ordered: whether the order of the list says what came first, as in one chain.
        two_signers: ids of formats whose halves must be by two signers.
    """
    state = _State(when, signer, limit, ordered, frozenset(two_signers))
    outcomes = state.take(receipts)
    for place, outcome, named in outcomes:
        state.settle(place, outcome, named)
    state.conclude(now)
    return state.result


@dataclass(slots=True)
class _Intent:
    place: int
    receipt: Receipt
    outcome: Receipt | None = None


@dataclass(slots=True)
class _State:
    when: Callable[[Receipt], datetime | None]
    signer: Callable[[Receipt], bytes | None]
    limit: timedelta | None
    ordered: bool
    two_signers: frozenset[str]
    result: Pairing = field(default_factory=Pairing)
    intents: list[_Intent] = field(default_factory=list)
    # By format and id: the first intent of each chain, the first of all under b"".
    known: dict[_Key, dict[bytes, _Intent]] = field(default_factory=dict)
    outcome_ids: dict[_Key, Receipt] = field(default_factory=dict)
    found: list[tuple[int, Finding]] = field(default_factory=list)

    def take(self, receipts: Sequence[Receipt]) -> list[tuple[int, Receipt, Pair]]:
        """Remember the intents; the outcomes with their places."""
        outcomes = []
        seen: dict[tuple[str, bytes], Receipt] = {}
        for place, receipt in enumerate(receipts):
            named = receipt.pair
            if named is None:
                self.result.others += 1
                continue
            first = seen.setdefault((receipt.profile, receipt.content_hash), receipt)
            if first is not receipt:
                self.fault(place, Fault.REPEATED, receipt, first, "it is in the list already")
            elif named.ref is None:
                self.remember(place, receipt, named)
            else:
                outcomes.append((place, receipt, named))
                self.outcome_ids.setdefault((receipt.profile, named.id), receipt)
        return outcomes

    def remember(self, place: int, receipt: Receipt, named: Pair) -> None:
        intent = _Intent(place, receipt)
        self.intents.append(intent)
        chains = self.known.setdefault((receipt.profile, named.id), {b"": intent})
        first = chains.setdefault(receipt.chain, intent)
        if first is not intent:
            words = f"the id {shown(named.id)} names an intent of this chain already"
            self.fault(place, Fault.TWO_INTENTS, receipt, first.receipt, words)

    def settle(self, place: int, outcome: Receipt, named: Pair) -> None:
        """Give an outcome to its intent: the one of its own chain, else the first that has the id."""
        assert named.ref is not None, "asked by take"  # noqa: S101
        chains = self.known.get((outcome.profile, named.ref))
        if chains is None:
            self.astray(place, outcome, named.ref)
            return
        intent = chains.get(outcome.chain)
        if intent is None:
            intent = chains[b""]
            if len(chains) > 2:  # b"" and more than one chain
                words = f"intents of {len(chains) - 1} chains have the id {shown(named.ref)}"
                self.fault(place, Fault.AMBIGUOUS, outcome, intent.receipt, words)
        if intent.outcome is not None:
            words = f"the intent {shown(named.ref)} has an outcome already"
            self.fault(place, Fault.TWO_OUTCOMES, outcome, intent.outcome, words)
            return
        intent.outcome = outcome
        self.judge(place, intent, outcome)

    def astray(self, place: int, outcome: Receipt, ref: str) -> None:
        other = self.outcome_ids.get((outcome.profile, ref))
        if other is None:
            words = f"no intent {shown(ref)} is among the receipts"
            self.fault(place, Fault.NO_INTENT, outcome, None, words)
        else:
            words = f"{shown(ref)} is an outcome itself"
            self.fault(place, Fault.OF_AN_OUTCOME, outcome, other, words)

    def judge(self, place: int, intent: _Intent, outcome: Receipt) -> None:
        """What is wrong with a pair that was found."""
        seconds = self.between(intent.receipt, outcome)
        if self.ordered and place < intent.place:
            words = "it comes before its intent in the list"
            self.fault(place, Fault.OUTCOME_FIRST, outcome, intent.receipt, words)
        elif seconds is not None and seconds < 0:
            words = f"it is {-seconds:g} s older than its intent"
            self.fault(place, Fault.OUTCOME_FIRST, outcome, intent.receipt, words)
        if self.limit is not None and seconds is not None and seconds > self.limit.total_seconds():
            words = (
                f"it came {seconds:g} s after its intent, at most {self.limit.total_seconds():g}"
            )
            self.fault(place, Fault.LATE, outcome, intent.receipt, words)
        if outcome.profile in self.two_signers and self.bilateral(intent.receipt, outcome) is False:
            words = f"two signers are expected of {outcome.profile}, one key signed both"
            self.fault(place, Fault.ONE_SIGNER, outcome, intent.receipt, words)

    def between(self, intent: Receipt, outcome: Receipt) -> float | None:
        first, second = self.when(intent), self.when(outcome)
        return None if first is None or second is None else (second - first).total_seconds()

    def bilateral(self, intent: Receipt, outcome: Receipt) -> bool | None:
        first, second = self.signer(intent), self.signer(outcome)
        return None if first is None or second is None else first != second

    def fault(
        self, place: int, fault: Fault, receipt: Receipt, other: Receipt | None, detail: str
    ) -> None:
        self.found.append((place, Finding(fault, receipt, other, detail)))

    def conclude(self, now: datetime | None) -> None:
        """Pairs, what is left over, and the findings in the order of the list."""
        for intent in self.intents:
            outcome = intent.outcome
            if outcome is not None:
                one = intent.receipt
                seconds, two = self.between(one, outcome), self.bilateral(one, outcome)
                self.result.pairs.append(Paired(one, outcome, seconds, two))
            else:
                self.result.unpaired.append(self.waiting(intent.receipt, now))
        self.found.sort(key=lambda item: item[0])
        self.result.findings = [finding for _, finding in self.found[:MAX_FINDINGS]]
        self.result.not_listed = len(self.found) - len(self.result.findings)

    def waiting(self, intent: Receipt, now: datetime | None) -> Unpaired:
        made = None if now is None else self.when(intent)
        if now is None or made is None:
            return Unpaired(intent, None, False if self.limit is None else None)
        age = now - made
        return Unpaired(intent, age.total_seconds(), self.limit is not None and age > self.limit)
