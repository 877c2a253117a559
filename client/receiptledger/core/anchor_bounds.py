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

And nobody can have been given a token that is made later: one from after the moment of judging, but for
the difference of clocks, renews nothing and shows nothing to exist; see `anchors` for what it does.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from receiptledger.core.anchor_stamps import Outcome, Stamp
from receiptledger.core.renewal import holds_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from receiptledger.core.timestamp import Timestamp

__all__ = [
    "CLOCK_ALLOWANCE",
    "COUNTED",
    "Life",
    "authorities",
    "is_future",
    "life_of",
    "names",
    "not_after",
    "not_before",
    "outcomes",
    "renewed",
]

COUNTED = frozenset({Outcome.HOLDS, Outcome.RENEWED})
CLOCK_ALLOWANCE: Final = timedelta(minutes=5)  # how far the auditor's own clock may be behind


@dataclass(frozen=True, slots=True)
class Life:
    """What decides until when an accepted stamp is worth something, and what it renews.

    Attributes:
        authority: who operates it.
        size: leaves of the stamped checkpoint.
        index: of its own anchor leaf.
        earliest: the token was not made before this.
        gen_time: of the token.
        latest: the token was made by this.
        until: the last moment at which it holds by itself.
    """

    authority: str
    size: int
    index: int
    earliest: datetime
    gen_time: datetime
    latest: datetime
    until: datetime


def life_of(stamp: Stamp) -> Life | None:
    """What counts of a stamp; None for one that no authority accepts."""
    token, tsa, size = stamp.timestamp, stamp.tsa, stamp.size
    if token is None or tsa is None or size is None:
        return None
    return Life(
        authority=tsa.authority,
        size=size,
        index=stamp.index,
        earliest=token.earliest,
        gen_time=token.gen_time,
        latest=token.latest,
        until=holds_until(token),
    )


def is_future(time: datetime, moment: datetime | None) -> bool:
    """Whether a time is so far after the moment of judging that no clock explains it."""
    return moment is not None and time - moment > CLOCK_ALLOWANCE


def renewed(stamps: Sequence[Stamp], quorum: int, moment: datetime | None) -> list[Stamp]:
    """The stamps with their outcome at a moment: HOLDS becomes RENEWED, EXPIRED or FUTURE where it must.

    Args:
        stamps: judged each by itself, in any order; the result keeps it.
        quorum: authorities that must have renewed, at least 1.
        moment: aware; None for no expiry at all.
    """
    if moment is None:
        return list(stamps)
    found = outcomes([life_of(stamp) for stamp in stamps], quorum, moment)
    return [
        stamp if outcome is None else replace(stamp, outcome=outcome)
        for stamp, outcome in zip(stamps, found, strict=True)
    ]


def outcomes(lives: Sequence[Life | None], quorum: int, moment: datetime) -> list[Outcome | None]:
    """What has become of each accepted stamp by a moment; None where there is no life.

    Takes little more time than sorting them: a log has many thousands.
    """
    result: list[Outcome | None] = [None] * len(lives)
    known = [(at, life) for at, life in enumerate(lives) if life is not None]
    times = sorted({life.latest for _, life in known})
    ladders: dict[str, _Ladder] = {}  # of each authority: its stamps that count, newest first
    known.sort(key=lambda one: one[1].gen_time, reverse=True)
    for _, same_time in groupby(known, key=lambda one: one[1].gen_time):
        decided = [(at, life, _outcome(life, ladders, quorum, moment)) for at, life in same_time]
        for at, life, outcome in decided:  # only now: a renewal is later than what it renews
            result[at] = outcome
            if outcome in COUNTED:
                ladders.setdefault(life.authority, _Ladder(times)).add(life)
    return result


def _outcome(life: Life, ladders: dict[str, _Ladder], quorum: int, moment: datetime) -> Outcome:
    if is_future(life.earliest, moment):
        return Outcome.FUTURE
    if moment <= life.until:
        return Outcome.HOLDS
    count = sum(ladder.largest(life.until) > life.index for ladder in ladders.values())
    return Outcome.RENEWED if count >= quorum else Outcome.EXPIRED


class _Ladder:
    """The largest tree that one authority stamped by a time; a Fenwick tree of maxima.

    Args:
        times: every `latest` there is, ascending.
    """

    __slots__ = ("_largest", "_times")

    def __init__(self, times: Sequence[datetime]) -> None:
        self._times = times
        self._largest: dict[int, int] = {}

    def add(self, life: Life) -> None:
        """One more stamp."""
        at = bisect_right(self._times, life.latest)
        while at <= len(self._times):
            self._largest[at] = max(self._largest.get(at, 0), life.size)
            at += at & -at

    def largest(self, until: datetime) -> int:
        """The largest size over the stamps whose `latest` is not after a time; 0 without any."""
        at, found = bisect_right(self._times, until), 0
        while at:
            found = max(found, self._largest.get(at, 0))
            at -= at & -at
        return found


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
