"""What to anchor when, and with whom: pure rules over what is known, time is an argument.

A TSA is due when it may be asked and one of these holds:

    age         the oldest leaf that its newest token does not cover was seen `interval` ago
    count       that many leaves are not covered by it
    heartbeat   its newest token is a day old: even an idle log shows that it goes on, and the leaves of
                older tokens get under a newer one, which renews them
    owed        a request to it was lost in a crash

While anchors are overdue no TSA rests for longer than OVERDUE_PROBE_SECONDS by our own rules, so that a
repair is found out within about a minute.

It is always asked about the newest checkpoint, never about an older one that failed: one token covers
everything before. Leaves of anchors alone are no growth, or an idle log would anchor its own anchors
for ever. When a TSA in good health is due, all others that may be asked join in, so that one checkpoint
carries all their tokens.

Coverage is counted by authority: the log is anchored up to the largest size that tokens of `quorum`
different authorities reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final

from ledgerd.anchoring.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "NOT_ASKED",
    "OVERDUE_PROBE_SECONDS",
    "AnchorRound",
    "AnchorRules",
    "Growth",
    "Live",
    "Tree",
    "TsaResult",
    "TsaView",
    "anchored_size",
    "ask_from",
    "clock_suspect",
    "due",
    "hindrance",
    "still_live",
    "up_to_date",
]

# In place of a cause: this TSA was left out of the round; `detail` says why.
NOT_ASKED: Final = "not_asked"
OVERDUE_PROBE_SECONDS: Final = 60.0  # between two tries of a broken TSA while anchors are overdue
CURRENT_INTERVALS: Final = 3  # a TSA that is further behind is not working
_AGREE_SECONDS: Final = 5.0  # two clocks that differ by less agree against ours


@dataclass(frozen=True, slots=True)
class TsaResult:
    """How one TSA did in one round.

    Attributes:
        tsa: its name in the configuration.
        cause: None when its token is stored; else a `Cause` value, or NOT_ASKED.
        gen_time: time in the token, microseconds since the epoch; None without one.
        detail: for people.
    """

    tsa: str
    cause: str | None
    gen_time: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class AnchorRound:
    """One checkpoint, brought to all TSAs.

    Attributes:
        size: tree size of that checkpoint.
        results: one a TSA, in the order of the configuration.
        quorum_reached: enough authorities have stamped this checkpoint or a later one.
    """

    size: int
    results: tuple[TsaResult, ...]
    quorum_reached: bool


@dataclass(frozen=True, slots=True)
class AnchorRules:
    """The operator's settings; seconds."""

    interval: float = 600.0
    max_leaves: int = 10_000
    min_spacing: float = 20.0
    heartbeat: float = 86_400.0
    quorum: int = 1
    max_unanchored: float = 14_400.0


@dataclass(frozen=True, slots=True)
class Tree:
    """What is published.

    Attributes:
        size: leaves under the newest checkpoint.
        content: the same without the anchor leaves at its end.
    """

    size: int
    content: int


@dataclass(frozen=True, slots=True)
class TsaView:
    """One TSA as the plan sees it.

    Attributes:
        name: in the configuration.
        authority: who runs it.
        anchored: size of the largest checkpoint it stamped; 0 for none.
        stamped_at: when it last did, seconds; None for never.
        tried_at: when it was last asked.
        breaker: its failures.
        busy: a request is under way.
        owed: a request was lost in a crash.
    """

    name: str
    authority: str
    anchored: int = 0
    stamped_at: float | None = None
    tried_at: float = float("-inf")
    breaker: Breaker = field(default_factory=Breaker)
    busy: bool = False
    owed: bool = False


class Growth:
    """When leaves were first seen, so that the age of the oldest one not covered is known.

    Bounded: beyond `limit` entries the older half is thinned. A thinned leaf looks older than it is,
    never younger, and only to a TSA that is far behind anyway.
    """

    def __init__(self, limit: int = 1_024) -> None:
        self._limit = limit
        # (size, seconds): leaves below `size` were there by then; both grow.
        self._seen: list[tuple[int, float]] = []

    def __len__(self) -> int:
        return len(self._seen)

    def see(self, size: int, at: float) -> None:
        """The content has `size` leaves; a size already seen changes nothing."""
        if size <= (self._seen[-1][0] if self._seen else 0):
            return
        # A clock that was set back must not make leaves look younger than those before them.
        self._seen.append((size, max(at, self._seen[-1][1]) if self._seen else at))
        if len(self._seen) > self._limit:
            half = len(self._seen) // 4 * 2
            old = self._seen[:half]
            pairs = zip(old[::2], old[1::2], strict=True)
            self._seen[:half] = [(size, at) for (_, at), (size, _) in pairs]

    def since(self, covered: int) -> float | None:
        """When the first leaf at or after index `covered` was seen; None when there is none."""
        return next((at for size, at in self._seen if size > covered), None)

    def forget(self, covered: int) -> None:
        """Every TSA covers the leaves below `covered`."""
        keep = next((i for i, (size, _) in enumerate(self._seen) if size > covered), None)
        # The newest entry stays: it says which size is no growth any more.
        self._seen[: len(self._seen) - 1 if keep is None else keep] = []


def due(
    views: Sequence[TsaView],
    tree: Tree,
    growth: Growth,
    now: float,
    rules: AnchorRules,
    *,
    overdue: bool = False,
) -> tuple[str, ...]:
    """Names of the TSAs to ask for a token over the newest checkpoint, now.

    Args:
        views: every configured TSA.
        tree: what is published.
        growth: when it grew.
        now: seconds, on the clock of the views and of `growth`.
        rules: settings.
        overdue: anchors are.
    """
    free = [view for view in views if _free(view, tree, now, rules, overdue=overdue)]
    wanting = [view for view in free if _wants(view, tree, growth, now, rules)]
    if any(view.breaker.well for view in wanting):
        # Not for one that is being retried: it would drag the others along at each of its tries.
        joining = [view for view in free if tree.content > view.anchored]
        wanting = [view for view in free if view in wanting or view in joining]
    return tuple(view.name for view in wanting)


def ask_from(view: TsaView, *, overdue: bool) -> float:
    """The moment from which a TSA may be asked, as far as its failures go.

    Args:
        view: the TSA.
        overdue: anchors are; then our own rules yield, never what its server asked for.
    """
    wait = view.breaker.wait_until
    if overdue:
        wait = min(wait, view.tried_at + OVERDUE_PROBE_SECONDS)
    return max(wait, view.breaker.told_until)


def _free(
    view: TsaView, tree: Tree, now: float, rules: AnchorRules, *, overdue: bool = False
) -> bool:
    return (
        not view.busy
        and tree.size > view.anchored
        and now >= ask_from(view, overdue=overdue)
        and now - view.tried_at >= rules.min_spacing
    )


def _wants(view: TsaView, tree: Tree, growth: Growth, now: float, rules: AnchorRules) -> bool:
    if view.owed:
        return True
    if view.stamped_at is not None and now - view.stamped_at >= rules.heartbeat:
        return True
    if tree.content - view.anchored >= rules.max_leaves:
        return True
    since = growth.since(view.anchored)
    return tree.content > view.anchored and since is not None and now - since >= rules.interval


def hindrance(view: TsaView, now: float, rules: AnchorRules) -> str | None:
    """Why a TSA cannot be asked although an operator wants it to be; None when it can.

    An operator's wish overrides the back-off and the breaker, which are ours, but neither the spacing
    nor what the server itself asked for.
    """
    if view.busy:
        return "a request to it is under way already"
    told, spaced = view.breaker.told_until - now, view.tried_at + rules.min_spacing - now
    if told > max(spaced, 0):
        return f"its server asked for a pause (Retry-After), which lasts another {_whole(told)} s"
    if spaced > 0:
        return (
            f"it was asked {_whole(rules.min_spacing - spaced)} s ago; anchor_min_spacing_seconds is "
            f"{rules.min_spacing:g}, so wait another {_whole(spaced)} s"
        )
    return None


def _whole(seconds: float) -> str:
    """Never less than there is: who waits that long is let in."""
    return f"{math.ceil(seconds)}"


def anchored_size(views: Iterable[TsaView], quorum: int) -> int:
    """The largest size up to which `quorum` different authorities have stamped; 0 when none."""
    sizes = sorted(_by_authority(views).values(), reverse=True)
    return sizes[quorum - 1] if len(sizes) >= quorum else 0


def up_to_date(
    views: Iterable[TsaView], tree: Tree, growth: Growth, now: float, rules: AnchorRules
) -> int:
    """How many authorities cover every leaf that is older than a few intervals."""
    oldest = now - CURRENT_INTERVALS * rules.interval

    def current(size: int) -> bool:
        since = growth.since(size) if tree.content > size else None
        return since is None or since >= oldest

    return sum(map(current, _by_authority(views).values()))


def _by_authority(views: Iterable[TsaView]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for view in views:
        sizes[view.authority] = max(sizes.get(view.authority, 0), view.anchored)
    return sizes


def clock_suspect(offsets: Mapping[str, float], skew: float) -> bool:
    """Whether two authorities agree with each other and not with our clock.

    Args:
        offsets: authority -> how far its clock is ahead of ours, seconds.
        skew: how far clocks may differ, seconds.
    """
    far = [offset for offset in offsets.values() if abs(offset) > skew]
    return any(abs(one - other) <= _AGREE_SECONDS for one, other in combinations(far, 2))


@dataclass(frozen=True, slots=True)
class Live:
    """An anchor that no later anchored checkpoint covers yet.

    Attributes:
        number: of its record.
        leaf_index: of its leaf; None until that is sealed.
        renew_by: until when it must be covered, seconds since the epoch.
    """

    number: int
    leaf_index: int | None
    renew_by: float


def still_live(lives: Iterable[Live], size: int) -> tuple[Live, ...]:
    """Those whose leaf is not under a checkpoint of `size` leaves that was just anchored."""
    return tuple(live for live in lives if live.leaf_index is None or live.leaf_index >= size)
