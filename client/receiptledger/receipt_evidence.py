"""Documents with receipts in them, checked by themselves, and what is reported about them.

The rules are those of `core.receipt_check`; here are the things beside single receipts and chains. A
document may be the export of a chain that is outside its receipts. A receipt may be evidence of an answer
whose sources the auditor has. Receipts may be halves of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from receiptledger.core import answerproof, nobulex
from receiptledger.core.canonical import parse
from receiptledger.core.errors import ReceiptError
from receiptledger.core.pairing import Pairing, pair
from receiptledger.core.receipt_check import ChainFinding, Outcome, ReceiptFinding, check_chain
from receiptledger.core.receipt_signed import without_reason
from receiptledger.core.verdict import Check, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from receiptledger.core.errors import Reason
    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt import Receipt
    from receiptledger.core.receipt_check import GivenKey

__all__ = [
    "Beside",
    "Document",
    "Evidence",
    "check_documents",
    "open_exports",
    "pair_up",
    "report_beside",
    "report_checks",
    "report_finding",
    "report_pairing",
]

TWO_SIGNERS = frozenset({"tap-bilateral"})  # formats whose halves must be by two signers
_WORST = (Outcome.INVALID, Outcome.UNDECIDABLE, Outcome.VALID)


@dataclass(frozen=True, slots=True)
class Document:
    """One document out of a file, and what to call it."""

    name: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Beside:
    """Checks of something that is no receipt: an export, or the sources that were given.

    Attributes:
        name: what the caller calls it.
        checks: in the order they were run.
    """

    name: str
    checks: list[Check]


@dataclass(slots=True)
class Evidence:
    """What can be said about documents: the worst of it, and the first reason for that.

    Attributes:
        chain: the receipts, checked, with the checks of their own in them.
        beside: what is no receipt, checked.
    """

    chain: ChainFinding
    beside: list[Beside] = field(default_factory=list)

    @property
    def findings(self) -> list[ReceiptFinding]:
        """One for each receipt, in order."""
        return self.chain.findings

    @property
    def notes(self) -> list[str]:
        """About the list as a whole."""
        return self.chain.notes

    @property
    def outcome(self) -> Outcome:
        """Invalid when one is, else undecidable when one is."""
        outcomes = {self.chain.outcome, *(_outcome(one.checks)[0] for one in self.beside)}
        return next(one for one in _WORST if one in outcomes)

    @property
    def reason(self) -> Reason | None:
        """Of the first thing with the outcome, receipts first."""
        outcome = self.outcome
        if self.chain.outcome is outcome:
            return self.chain.reason
        found = (_outcome(one.checks) for one in self.beside)
        return next((check.reason for one, check in found if one is outcome and check), None)


def _outcome(checks: Iterable[Check]) -> tuple[Outcome, Check | None]:
    """What checks come to, and the first that makes it so."""
    unsure = None
    for check in checks:
        if check.status is Status.FAIL:
            return Outcome.INVALID, check
        if check.status is Status.UNKNOWN:
            unsure = unsure or check
    return (Outcome.VALID, None) if unsure is None else (Outcome.UNDECIDABLE, unsure)


def open_exports(documents: Sequence[Document]) -> tuple[list[Document], list[Beside]]:
    """Take the receipts out of exports, and check what is around them. Never raises for bad ones.

    Args:
        documents: receipts and exports.

    Returns:
        All receipts in order, and the checks of each export.
    """
    receipts: list[Document] = []
    found: list[Beside] = []
    for document in documents:
        try:
            export = _export(document.raw)
        except ReceiptError as error:
            words = without_reason(error)
            form = Check(nobulex.EXPORT_CHECKS[0], Status.FAIL, words, error.reason)
            found.append(Beside(document.name, [form]))
            continue
        if export is None:
            receipts.append(document)
            continue
        found.append(Beside(document.name, nobulex.check_export(export)))
        receipts += [
            Document(f"{document.name} entry {at}", raw) for at, raw in enumerate(export.receipts)
        ]
    return receipts, found


def _export(raw: bytes) -> nobulex.Export | None:
    """An export, None for anything else.

    Raises:
        ReceiptError: it says it is one, and cannot be read as one.
    """
    # Two names that every export with an entry has, so that receipts are not parsed once more. An
    # export that spells them with escapes is no known receipt, and invalid.
    if b'"entries"' not in raw or b'"head_hash"' not in raw:
        return None
    try:
        value = parse(raw, nobulex.EXPORT_LIMITS).value
    except ReceiptError:
        return None  # the check of receipts says what is wrong with it
    return nobulex.read_export(raw) if nobulex.is_export(value) else None


def check_documents(
    documents: Sequence[Document],
    keys: Sequence[GivenKey],
    profiles: Profiles,
    profile: str | None = None,
    sources: Mapping[str, str] | None = None,
) -> Evidence:
    """Check documents, which are one chain in order. Never raises for bad ones.

    Args:
        documents: at least one.
        keys: the auditor's own.
        profiles: formats that are known.
        profile: id of the only format to read by; else it is detected.
        sources: contents by source id, from the auditor's own hands; None when there are none.
    """
    opened, beside = open_exports(documents)
    raws, names = [one.raw for one in opened], [one.name for one in opened]
    chain = check_chain(raws, keys, profiles, profile, names)
    evidence = Evidence(chain, beside)
    _check_contents(evidence, sources)
    return evidence


def _check_contents(evidence: Evidence, sources: Mapping[str, str] | None) -> None:
    """What a receipt says of itself beside its signature, where its format says such things."""
    answers = []
    for finding in evidence.findings:
        receipt = finding.receipt
        if receipt is None:
            continue
        if receipt.profile == answerproof.PROFILE:
            answers.append((finding, receipt, answerproof.source_ids(receipt)))
        elif receipt.profile in nobulex.PROFILES:
            _add(finding, nobulex.check_receipt(receipt))
    known = frozenset().union(*(ids for _, _, ids in answers))
    for finding, receipt, ids in answers:
        # Contents may be given for several receipts at once; one that no receipt has fits none.
        given = sources or {}
        own = {name: given[name] for name in given if name in ids or name not in known}
        _add(finding, answerproof.check_evidence(receipt, own))
    if sources is not None and not answers:
        words = "contents were given, and no receipt here is evidence of an answer's sources"
        unused = Check("source contents", Status.UNKNOWN, words)
        evidence.beside.append(Beside("--sources", [unused]))


def _add(finding: ReceiptFinding, checks: list[Check]) -> None:
    finding.checks += checks
    outcome, check = _outcome(checks)
    if check is None:
        return
    words = f"{check.name}: {check.detail}"
    if outcome is Outcome.INVALID and check.reason is not None:
        finding.fail(check.reason, words)
    elif finding.outcome is Outcome.VALID:
        finding.outcome, finding.detail = outcome, words


def pair_up(
    findings: Sequence[ReceiptFinding],
    now: datetime | None = None,
    limit: timedelta | None = None,
) -> Pairing:
    """Put the halves together among receipts that a given key signed.

    Args:
        findings: of receipts in their order.
        now: the moment to tell ages at, with a time zone; None tells none.
        limit: how long an intent may wait for its outcome; None for ever.
    """
    signed = {
        one.receipt: one.key for one in findings if one.receipt is not None and one.key is not None
    }
    return pair(list(signed), now=now, limit=limit, signer=signed.get, two_signers=TWO_SIGNERS)


# Reports.


def report_finding(finding: ReceiptFinding) -> dict[str, Any]:
    """Plain values for a report, in a fixed order."""
    receipt = finding.receipt
    report: dict[str, Any] = {
        "name": finding.name,
        "outcome": finding.outcome.value,
        "reason": None if finding.reason is None else finding.reason.value,
        "detail": finding.detail,
        "diagnosis": finding.diagnosis,
        "checks": report_checks(finding.checks),
        "notes": finding.notes,
    }
    if receipt is not None:
        report |= {
            "profile": receipt.profile,
            "profile_version": receipt.profile_version,
            "agent": receipt.agent,
            "stream": receipt.stream,
            "sequence": receipt.sequence,
            "time": receipt.time,
            "algorithm": receipt.algorithm,
            "kid": receipt.kid,
            "linked": receipt.linked,
            "unsigned": list(receipt.unsigned),
        }
    return report


def report_checks(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Plain values, as a bundle's verdict has them."""
    return [
        {
            "name": check.name,
            "status": check.status.value,
            "reason": None if check.reason is None else check.reason.value,
            "detail": check.detail,
        }
        for check in checks
    ]


def report_beside(beside: Beside) -> dict[str, Any]:
    """Plain values about what is no receipt."""
    return {"name": beside.name, "checks": report_checks(beside.checks)}


def report_pairing(pairing: Pairing, findings: Sequence[ReceiptFinding]) -> dict[str, Any]:
    """Plain values: receipts by the names they were given.

    Args:
        pairing: of these findings.
        findings: which have the names.
    """
    names = {one.receipt: one.name for one in findings if one.receipt is not None}

    def name(receipt: Receipt | None) -> str | None:
        return None if receipt is None else names[receipt]

    return {
        "pairs": [
            {
                "intent": name(one.intent),
                "outcome": name(one.outcome),
                "seconds": one.seconds,
                "two_signers": one.bilateral,
            }
            for one in pairing.pairs
        ],
        "unpaired_intents": [
            {"intent": name(one.intent), "seconds": one.seconds, "overdue": one.overdue}
            for one in pairing.unpaired
        ],
        "findings": [
            {
                "fault": one.fault.value,
                "receipt": name(one.receipt),
                "other": name(one.other),
                "detail": one.detail,
            }
            for one in pairing.findings
        ],
        "findings_not_listed": pairing.not_listed,
    }
