"""The timestamps of a bundle: what they show about when its receipt was in the log.

`judge_anchors` judges every stamp by itself (`anchor_stamps`), then all together at the auditor's moment
and quorum (`anchor_bounds`), and says how the check comes out:

- fail: any stamp is bad, whoever made it; or none holds and one was revoked; or the bounds contradict
  each other, or the lower one the moment of judging.
- pass: a quorum of authorities says the receipt existed no later than some time.
- expired, not renewed: a quorum said so, but not all of it still holds at the auditor's moment.
- unknown: stamps cover the receipt, but too few are by authorities the auditor trusts.
- not checked: nothing covers the receipt, or the auditor named no authority.

Authorities of others are listed and never counted; their tokens are no failure. A token from after the
moment of judging shows nothing to exist, so it bounds nothing from above; that a receipt was appended
after it would be a contradiction, so it does count from below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from receiptledger.core.anchor_bounds import (
    COUNTED,
    authorities,
    is_future,
    names,
    not_after,
    not_before,
    renewed,
)
from receiptledger.core.anchor_evidence import SharedEvidence
from receiptledger.core.anchor_stamps import (
    Outcome,
    judge_stamp,
    logged_evidence,
    open_anchored,
    unplaced,
)
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.instants import format_instant, parse_instant
from receiptledger.core.verdict import Check, Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from receiptledger.core.anchor_stamps import Stamp
    from receiptledger.core.bundle import AnchoredCheckpoint, Bundle
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.revocation import RevocationEvidence
    from receiptledger.core.trust import Trust

__all__ = ["Anchoring", "judge_anchors"]

NAME = "timestamps"  # of the check
_BEFORE = COUNTED | {Outcome.FUTURE}  # what bounds a receipt from below


@dataclass(frozen=True, slots=True)
class Anchoring:
    """What the anchors of a bundle show.

    Attributes:
        check: the verdict's line.
        stamps: every stamp of the bundle, judged, in the bundle's order.
        index: of the receipt's head leaf.
        not_after: the receipt existed no later than this; None when it is not shown.
        not_before: the receipt was appended no earlier than this; None when it is not shown.
        anchored_by: names of the auditor's authorities behind `not_after`, sorted: those that say
            themselves that the receipt existed by then, and no later ones.
        preceded_by: the same behind `not_before`: those that say that it was appended after then.
        claim_fits: whether the receipt's own time is within the bounds; None when it cannot be said.
    """

    check: Check
    stamps: tuple[Stamp, ...] = ()
    index: int = 0
    not_after: datetime | None = None
    not_before: datetime | None = None
    anchored_by: tuple[str, ...] = ()
    preceded_by: tuple[str, ...] = ()
    claim_fits: bool | None = None

    def covers(self, stamp: Stamp) -> bool:
        """Whether a stamp's checkpoint contains the receipt's head leaf."""
        return stamp.size is not None and stamp.size > self.index

    def precedes(self, stamp: Stamp) -> bool:
        """Whether a stamp was logged before the receipt's head leaf."""
        return stamp.index < self.index

    def facts(self, *, shown: bool) -> dict[str, Any]:
        """Plain values for the verdict.

        Args:
            shown: whether the receipt was shown to be under the head leaf that these times are of.
        """
        upper, lower = (self.not_after, self.not_before) if shown else (None, None)
        return {
            "not_after": None if upper is None else format_instant(upper),
            "anchored_by": list(self.anchored_by) if shown else [],
            "not_before": None if lower is None else format_instant(lower),
            "preceded_by": list(self.preceded_by) if shown else [],
            "claimed_time_within_bounds": self.claim_fits if shown else None,
        }

    def listed(self) -> list[dict[str, Any]]:
        """Every stamp in plain values, for the verdict's report."""
        return [self._listed(stamp) for stamp in self.stamps]

    def _listed(self, stamp: Stamp) -> dict[str, Any]:
        timestamp = stamp.timestamp
        return {
            "tree_size": stamp.size,
            "leaf_index": stamp.index,
            "logged_as": stamp.logged_as,
            "outcome": stamp.outcome.value,
            "covers": self.covers(stamp),
            "precedes": self.precedes(stamp),
            "tsa": None if stamp.tsa is None else stamp.tsa.name,
            "authority": None if stamp.tsa is None else stamp.tsa.authority,
            "earliest": None if timestamp is None else format_instant(timestamp.earliest),
            "gen_time": None if timestamp is None else format_instant(timestamp.gen_time),
            "latest": None if timestamp is None else format_instant(timestamp.latest),
            "policy": None if timestamp is None else timestamp.policy,
            "serial": None if timestamp is None else str(timestamp.serial),
            "revocation": None if timestamp is None else timestamp.revocation,
            "warnings": [] if timestamp is None else list(timestamp.warnings),
            "cause": None if stamp.cause is None else stamp.cause.value,
            "detail": None if stamp.error is None else str(stamp.error),
        }


def judge_anchors(
    bundle: Bundle, newest: Checkpoint, trust: Trust, claimed: str | None
) -> Anchoring:
    """Judge every anchor of a bundle. Never raises for bad anchors: a bad one is a failed check.

    Args:
        bundle: as parsed.
        newest: its checkpoint, verified. That its head leaf is in there is checked elsewhere.
        trust: the auditor's log keys, authorities, quorum and moment.
        claimed: the receipt's own time as text, or None.
    """
    stamps = tuple(renewed(_judge_each(bundle, newest, trust), trust.tsa_quorum, trust.moment))
    seen = Anchoring(Check(NAME, Status.NOT_CHECKED, ""), stamps, bundle.head.index)
    after = [stamp for stamp in stamps if stamp.outcome in COUNTED and seen.covers(stamp)]
    before = [stamp for stamp in stamps if stamp.outcome in _BEFORE and seen.precedes(stamp)]
    upper, lower = not_after(after, trust.tsa_quorum), not_before(before, trust.tsa_quorum)
    failure = _failure(stamps, upper, lower, trust.moment)
    if failure is not None:  # nothing follows from evidence of which a part is false
        return replace(seen, check=failure)
    behind = [one for one in after if upper and one.timestamp and one.timestamp.latest <= upper]
    earlier = [one for one in before if lower and one.timestamp and one.timestamp.earliest >= lower]
    check = _check(seen, upper, behind, trust)
    fits, flag = _claim(claimed, upper, lower)
    return replace(
        seen,
        check=replace(check, detail=check.detail + flag),
        not_after=upper,
        not_before=lower,
        anchored_by=tuple(names(behind)),
        preceded_by=tuple(names(earlier)),
        claim_fits=fits,
    )


def _judge_each(bundle: Bundle, newest: Checkpoint, trust: Trust) -> list[Stamp]:
    placed: list[tuple[AnchoredCheckpoint, Checkpoint | EvidenceError]] = []
    evidence: list[RevocationEvidence] = []
    after = -1
    for anchor in bundle.anchors:
        try:
            anchored = open_anchored(anchor, newest, trust.log_keys, after)
        except EvidenceError as error:
            placed.append((anchor, error))
            continue
        after = anchored.size
        placed.append((anchor, anchored))
        evidence += _logged(anchor, anchored, newest)
    shared = SharedEvidence(evidence)
    stamps: list[Stamp] = []
    for anchor, where in placed:
        if isinstance(where, EvidenceError):
            stamps += [unplaced(stamp, anchor.note, where) for stamp in anchor.stamps]
            continue
        stamps += [
            judge_stamp(stamp, anchor.note, where, newest, trust.tsas, shared)
            for stamp in anchor.stamps
        ]
    return stamps


def _logged(
    anchor: AnchoredCheckpoint, anchored: Checkpoint, newest: Checkpoint
) -> list[RevocationEvidence]:
    """The evidence of a checkpoint's stamps, without what makes a stamp bad when it is judged."""
    found = []
    for stamp in anchor.stamps:
        try:
            found.append(logged_evidence(stamp, anchored, newest))
        except EvidenceError:
            continue
    return found


def _failure(
    stamps: tuple[Stamp, ...],
    upper: datetime | None,
    lower: datetime | None,
    moment: datetime | None,
) -> Check | None:
    """What makes the evidence false, if anything does."""
    bad = [stamp for stamp in stamps if stamp.outcome is Outcome.BAD]
    void = [stamp for stamp in stamps if stamp.outcome is Outcome.VOID]
    held = COUNTED | {Outcome.EXPIRED}
    if not bad and not any(stamp.outcome in held for stamp in stamps):
        bad = void
    if bad:
        first = bad[0]
        where = "" if first.size is None else f" over size {first.size}"
        more = "" if len(bad) == 1 else f" (and {len(bad) - 1} more)"
        reason = None if first.error is None else first.error.reason
        words = f"the stamp logged at leaf {first.index}{where}{more}: {first.error}"
        return Check(NAME, Status.FAIL, words, reason)
    if lower is not None and moment is not None and is_future(lower, moment):
        words = (
            f"time from the future: appended no earlier than {format_instant(lower)}, but judged as "
            f"of {format_instant(moment)}"
        )
        return Check(NAME, Status.FAIL, words, Reason.BAD_TIMESTAMP)
    if upper is not None and lower is not None and lower > upper:
        words = (
            "the authorities contradict each other: appended no earlier than "
            f"{format_instant(lower)}, and existing no later than {format_instant(upper)}"
        )
        return Check(NAME, Status.FAIL, words, Reason.BAD_TIMESTAMP)
    return None


def _check(seen: Anchoring, upper: datetime | None, behind: list[Stamp], trust: Trust) -> Check:
    """How the check comes out when nothing is false; `behind` are the stamps that make the bound."""
    stamps, quorum = seen.stamps, trust.tsa_quorum
    if not stamps:
        return _not_checked("no timestamp tokens in this bundle: no proof of time")
    if not trust.tsas:
        return _not_checked(f"{_tokens(len(stamps))}, not verified: no timestamp authority given")
    covering = [stamp for stamp in stamps if seen.covers(stamp)]
    if not covering:
        return _not_checked("no timestamp covers this receipt yet" + _not_counted(stamps, ()))
    counted = authorities(stamp for stamp in covering if stamp.outcome in COUNTED)
    agreeing = counted if upper is None else authorities(behind)
    agree = "1 authority agrees" if len(agreeing) == 1 else f"{len(agreeing)} authorities agree"
    later = len(counted - agreeing)
    words = f"{agree}, {quorum} asked for" + (f"; {later} more stamped it later" if later else "")
    words += _not_counted(stamps, covering) + _revocation(stamps)
    if upper is not None:
        return Check(NAME, Status.PASS, words)
    expired = authorities(stamp for stamp in covering if stamp.outcome is Outcome.EXPIRED)
    status = Status.EXPIRED if len(counted | expired) >= quorum else Status.UNKNOWN
    return Check(NAME, status, words)


def _not_counted(stamps: Sequence[Stamp], covering: Sequence[Stamp]) -> str:
    """Why some stamps do not count: the covering ones, and any that is revoked or from the future."""
    return "".join(
        f"; {_tokens(count)} {outcome.value}"
        for outcome, among in (
            (Outcome.EXPIRED, covering),
            (Outcome.VOID, stamps),
            (Outcome.NOT_TRUSTED, covering),
            (Outcome.FUTURE, stamps),
        )
        if (count := sum(stamp.outcome is outcome for stamp in among))
    )


def _revocation(stamps: tuple[Stamp, ...]) -> str:
    """What is not known about the tokens that count, or is known and harmless."""
    known = [one.timestamp.revocation for one in stamps if one.outcome in COUNTED and one.timestamp]
    return "".join(
        f"; {_tokens(count)} with revocation {state}"
        for state in sorted(set(known) - {"good"})
        if (count := known.count(state))
    )


def _claim(
    claimed: str | None, upper: datetime | None, lower: datetime | None
) -> tuple[bool | None, str]:
    """Hold the receipt's own time against the bounds; a contradiction is flagged in words.

    It is no failure of the timestamps: the signer's clock may be wrong, or the receipt may have been
    kept for a while before it was sent.
    """
    try:
        time = parse_instant(claimed or "")
    except ValueError:  # no time, or one that no calendar holds
        return None, ""
    if upper is not None and time > upper:
        return False, f"; the receipt claims {claimed}, which is after it existed"
    if lower is not None and time < lower:
        return False, f"; the receipt claims {claimed}, which is before it can have been appended"
    return (None if upper is None else True), ""


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"


def _not_checked(words: str) -> Check:
    return Check(NAME, Status.NOT_CHECKED, words)
