"""When a receipt was in the log: renewal, quorum and bounds over judged stamps.

A stamp over a checkpoint that covers the receipt's head leaf shows that the receipt existed no later
than the stamp's time. A stamp whose own anchor leaf stands before the head leaf shows that the receipt
was appended no earlier than the stamp's time, since nobody can log an answer before it is given.

Two rules keep one authority, or one broken key, from deciding alone:

- **Quorum.** Authorities are counted, never tokens. With a quorum of k, the upper bound is the k-th
  smallest over the authorities of each one's smallest time, the lower bound the k-th largest of each
  one's largest: fewer than k liars cannot move either beyond what an honest one says.
- **Renewal** (RFC 4998 section 5.2, made with log leaves). A stamp that no longer holds at the moment
  of judging counts when stamps of a quorum of authorities, that count themselves, were made later than
  it, while it still held, over checkpoints whose tree contains its anchor leaf. The newest are decided
  first, so the rule needs no recursion: a renewal is always later than what it renews.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from receiptledger.core.anchor_stamps import Outcome, Stamp
from receiptledger.core.renewal import holds_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from receiptledger.core.timestamp import Timestamp

__all__ = ["COUNTED", "authorities", "names", "not_after", "not_before", "renewed"]

COUNTED = frozenset({Outcome.HOLDS, Outcome.RENEWED})


def renewed(stamps: Sequence[Stamp], quorum: int, moment: datetime | None) -> list[Stamp]:
    """The stamps with their outcome at a moment: HOLDS becomes RENEWED or EXPIRED where it must.

    Args:
        stamps: judged each by itself, in any order; the result keeps it.
        quorum: authorities that must have renewed, at least 1.
        moment: aware; None for no expiry at all.
    """
    result = list(stamps)
    if moment is None:
        return result
    accepted = [(at, stamp.timestamp) for at, stamp in enumerate(stamps) if stamp.timestamp]
    for at, timestamp in sorted(accepted, key=lambda one: one[1].gen_time, reverse=True):
        if holds_at(timestamp, moment):
            continue
        count = len(authorities(one for one in result if _renews(one, stamps[at], timestamp)))
        outcome = Outcome.RENEWED if count >= quorum else Outcome.EXPIRED
        result[at] = replace(result[at], outcome=outcome)
    return result


def _renews(newer: Stamp, old: Stamp, timestamp: Timestamp) -> bool:
    """Whether a stamp, whose outcome is decided, vouches for an older one in time."""
    later = newer.timestamp
    return (
        later is not None
        and newer.outcome in COUNTED
        and newer.size is not None
        and newer.size > old.index
        and later.gen_time > timestamp.gen_time
        and holds_at(timestamp, later.latest)
    )


def authorities(stamps: Iterable[Stamp]) -> set[str]:
    """Who operates the accepted ones."""
    return {stamp.tsa.authority for stamp in stamps if stamp.tsa is not None}


def names(stamps: Iterable[Stamp]) -> list[str]:
    """The auditor's names of the accepted ones, sorted, each once."""
    return sorted({stamp.tsa.name for stamp in stamps if stamp.tsa is not None})


def not_after(stamps: Iterable[Stamp], quorum: int) -> datetime | None:
    """The upper bound that a quorum of covering stamps agrees on; None below the quorum."""
    firsts = _by_authority(stamps, lambda timestamp: timestamp.latest, min)
    return sorted(firsts)[quorum - 1] if len(firsts) >= quorum else None


def not_before(stamps: Iterable[Stamp], quorum: int) -> datetime | None:
    """The lower bound that a quorum of preceding stamps agrees on; None below the quorum."""
    lasts = _by_authority(stamps, lambda timestamp: timestamp.earliest, max)
    return sorted(lasts, reverse=True)[quorum - 1] if len(lasts) >= quorum else None


def _by_authority(
    stamps: Iterable[Stamp],
    end: Callable[[Timestamp], datetime],
    best: Callable[[datetime, datetime], datetime],
) -> list[datetime]:
    """Each authority's best time."""
    found: dict[str, datetime] = {}
    times = [(one.tsa.authority, end(one.timestamp)) for one in stamps if one.tsa and one.timestamp]
    for authority, time in times:
        found[authority] = best(found.get(authority, time), time)
    return list(found.values())
