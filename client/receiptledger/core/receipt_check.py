"""Receipts checked by themselves: under keys the auditor gives, without a ledger.

Each receipt is read by every format it may be of, and the signature decides, as in a ledger. Then the
receipts are one chain, in the order given: each must follow the one before by the rules of `chain`.

Three outcomes. *Valid*: signed by a given key, and in its place. *Invalid*: it cannot be what it claims,
whoever signed it. *Undecidable*: what is needed to decide is not here, a key or an algorithm. A key
inside a receipt never makes it valid: anybody can sign with a key of their own. It only tells a receipt
somebody else signed (`wrong_key`) from one that was changed (`bad_signature`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.core.canonical import DEFAULT_LIMITS, parse
from receiptledger.core.diagnosis import diagnose_link, diagnose_signature
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.known_formats import known_by_name
from receiptledger.core.receipt_order import Entry, put_in_order
from receiptledger.core.receipt_read import read
from receiptledger.core.receipt_signed import (
    GivenKey,
    Outcome,
    Signed,
    authenticate,
    without_reason,
)
from receiptledger.core.spelling import flagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt import Receipt
    from receiptledger.core.receipt_order import Place
    from receiptledger.core.verdict import Check

__all__ = ["ChainFinding", "GivenKey", "Outcome", "ReceiptFinding", "check_chain"]

MAX_WHOLE_TRIALS = 8  # formats that are tried for a whole list, each with all its signatures
MAX_DIAGNOSES = 16  # of one list: one may cost as much as a thousand signatures

_DIAGNOSED = (Reason.BAD_SIGNATURE, Reason.INVALID_FIELD, Reason.UNKNOWN_PROFILE)
_WORST = (Outcome.INVALID, Outcome.UNDECIDABLE, Outcome.VALID)


@dataclass(slots=True)
class ReceiptFinding:
    """What can be said about one receipt.

    Attributes:
        name: what the caller calls it.
        outcome: see the module.
        reason: from the closed list; None when valid.
        detail: in words, for people.
        receipt: its reading by the format that was found, None when it could not be read.
        diagnosis: another known rule that would fit, in words; never changes the outcome.
        notes: what else is worth knowing.
        key: the given key that signed it; None when none did.
        checks: what the format has beside signature and order, checked by whoever knows it.
    """

    name: str
    outcome: Outcome
    reason: Reason | None
    detail: str
    receipt: Receipt | None = None
    diagnosis: str | None = None
    notes: list[str] = field(default_factory=list)
    key: bytes | None = None
    checks: list[Check] = field(default_factory=list)

    def fail(self, reason: Reason, detail: str) -> None:
        """Turn it invalid, unless it is already for a reason that came first."""
        if self.outcome is not Outcome.INVALID:
            self.outcome, self.reason, self.detail = Outcome.INVALID, reason, detail


@dataclass(slots=True)
class ChainFinding:
    """What can be said about a list of receipts: the worst of its findings, and the first reason for it.

    Attributes:
        findings: one for each receipt, in order.
        notes: about the list as a whole.
    """

    findings: list[ReceiptFinding]
    notes: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """Invalid when one is, else undecidable when one is; valid needs at least one receipt."""
        outcomes = {finding.outcome for finding in self.findings}
        return next((one for one in _WORST if one in outcomes), Outcome.UNDECIDABLE)

    @property
    def reason(self) -> Reason | None:
        """Of the first finding with the outcome."""
        return next((one.reason for one in self.findings if one.outcome is self.outcome), None)


@dataclass(slots=True)
class _Read:
    """One receipt under every format that can read it, or why none can."""

    raw: bytes
    readings: list[Receipt]
    error: ReceiptError | None


def check_chain(
    raws: Sequence[bytes],
    keys: Sequence[GivenKey],
    profiles: Profiles,
    profile: str | None = None,
    names: Sequence[str] | None = None,
) -> ChainFinding:
    """Check receipts by themselves. Never raises for bad receipts.

    Args:
        raws: each receipt's bytes; several are one chain in order.
        keys: the auditor's own.
        profiles: formats that are known.
        profile: id of the only format to read by; else it is detected.
        names: what to call each receipt; their numbers by default.
    """
    names = names or [f"receipt {number}" for number in range(1, len(raws) + 1)]
    items = [_read(raw, profiles, profile) for raw in raws]
    common = _prefer_common(items)
    signed = [authenticate(one.readings, keys) if one.readings else None for one in items]
    places = _order(signed)
    if any(place.reason for place in places):
        # Formats that only their links tell apart: one that fits the whole list is what it follows.
        for other in common[:MAX_WHOLE_TRIALS]:
            replaced = _try_whole(items, other, keys)
            if replaced is not None:
                signed[:], places = replaced
                break
    findings = []
    left = MAX_DIAGNOSES
    for name, one, under, place in zip(names, items, signed, places, strict=True):
        finding = _finding(name, one, under, place, profiles)
        if finding.outcome is not Outcome.VALID and left > 0:
            left -= 1
            finding.diagnosis = _diagnosis(finding, one, place, keys, profiles)
        findings.append(finding)
    return ChainFinding(findings, _notes(findings))


def _read(raw: bytes, profiles: Profiles, profile: str | None) -> _Read:
    """All readings of one receipt.

    When no format reads it, one that names an algorithm nothing here can check goes before one that
    refuses a member: the receipt is of the first, for all anybody can tell.
    """
    try:
        parsed = parse(raw)
        candidates = profiles.find(parsed.value, profile)
    except ReceiptError as error:
        return _Read(raw, [], error)
    receipt_hash = sha256(raw).digest()
    found: list[Receipt] = []
    failures: list[ReceiptError] = []
    for candidate in candidates:
        try:
            found.append(read(raw, parsed, candidate, receipt_hash, DEFAULT_LIMITS))
        except ReceiptError as error:
            failures.append(error)
    if found:
        return _Read(raw, found, None)
    failures.sort(key=lambda error: error.reason is not Reason.UNSUPPORTED_ALGORITHM)
    return _Read(raw, [], failures[0])


def _prefer_common(items: Sequence[_Read]) -> tuple[str, ...]:
    """Put the formats that read every receipt first, since one chain is of one format; their ids."""
    sets = [{reading.profile for reading in one.readings} for one in items if one.readings]
    if len(sets) < 2:
        return ()
    common = set.intersection(*sets)
    for one in items:
        one.readings.sort(key=lambda reading: reading.profile not in common)
    first = next(one for one in items if one.readings)
    return tuple(reading.profile for reading in first.readings if reading.profile in common)


def _order(signed: Sequence[Signed | None]) -> list[Place]:
    return put_in_order(
        [
            Entry(None if one is None else one.reading, one is not None and _valid(one))
            for one in signed
        ]
    )


def _valid(signed: Signed) -> bool:
    return signed.outcome is Outcome.VALID


def _try_whole(
    items: Sequence[_Read], profile: str, keys: Sequence[GivenKey]
) -> tuple[list[Signed], list[Place]] | None:
    """All receipts by one format, when that makes each of them valid and in its place."""
    signed = []
    for one in items:
        named = [reading for reading in one.readings if reading.profile == profile]
        if not named:
            return None
        found = authenticate(named, keys)
        if not _valid(found):
            return None
        signed.append(found)
    places = _order(signed)
    return None if any(place.reason for place in places) else (signed, places)


def _finding(
    name: str, one: _Read, signed: Signed | None, place: Place, profiles: Profiles
) -> ReceiptFinding:
    if signed is None:
        return _unread(name, one)
    finding = ReceiptFinding(
        name,
        signed.outcome,
        signed.reason,
        signed.detail,
        signed.reading,
        notes=signed.notes + place.notes,
        key=signed.key,
    )
    odd = flagged(signed.reading, profiles)
    if odd:
        finding.notes.append(f"read differently by some parsers: {'; '.join(odd)}")
    if place.reason is not None:
        finding.fail(place.reason, place.detail)
    return finding


def _unread(name: str, one: _Read) -> ReceiptFinding:
    """A receipt no format reads."""
    error = one.error
    assert error is not None  # noqa: S101 - it is what stands in for readings
    reason, detail = error.reason, without_reason(error)
    if reason is Reason.UNSUPPORTED_ALGORITHM:
        return ReceiptFinding(name, Outcome.UNDECIDABLE, reason, detail)
    if reason is Reason.UNKNOWN_PROFILE:
        known = known_by_name(parse(one.raw).value)
        if known is not None:
            detail = f"the format {known} is known here by name only, not how it is checked"
            return ReceiptFinding(name, Outcome.UNDECIDABLE, reason, detail)
    return ReceiptFinding(name, Outcome.INVALID, reason, detail)


def _diagnosis(
    finding: ReceiptFinding,
    one: _Read,
    place: Place,
    keys: Sequence[GivenKey],
    profiles: Profiles,
) -> str | None:
    """The rule that would fit where one did not."""
    words = None
    if finding.reason in _DIAGNOSED:
        given = [key.key for key in keys]
        words = diagnose_signature(one.raw, given, profiles, finding.receipt)
    if words is None and place.before is not None:
        words = diagnose_link(one.raw, finding.receipt, place.before, profiles)
    return words


def _notes(findings: Sequence[ReceiptFinding]) -> list[str]:
    """What no check of receipts alone can show."""
    notes = []
    formats = [finding.receipt for finding in findings if finding.receipt is not None]
    if len(findings) > 1 and any(receipt.linked for receipt in formats):
        notes.append("that no receipt follows the last one cannot be seen from receipts alone")
    unlinked = sorted({receipt.profile for receipt in formats if not receipt.linked})
    if unlinked:
        notes.append(
            f"{', '.join(unlinked)} has no chain of its own: order and completeness are what a ledger "
            "adds"
        )
    return notes
