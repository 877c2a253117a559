"""How anchoring stands: what the metrics, the readiness page and the refusal of appends say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from ledgerd.anchoring.plan import (
    AnchorRules,
    Growth,
    Tree,
    anchored_size,
    clock_suspect,
    up_to_date,
)
from receiptledger.core.errors import Reason, ServiceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ledgerd.anchoring.metrics import AnchorMetrics
    from ledgerd.anchoring.plan import Live
    from ledgerd.anchoring.state import TsaState

__all__ = ["NO_STANDING", "OverdueLog", "Standing", "refusal", "show", "standing"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the log is anchored.

    Attributes:
        anchored: size up to which a quorum of authorities has stamped.
        leaves: how many it does not cover; anchor leaves at the end do not count.
        lag: age of the oldest of these, seconds; 0 when there is none.
        overdue: the lag is longer than the operator allows.
        authorities: how many are up to date.
    """

    anchored: int
    leaves: int
    lag: float
    overdue: bool
    authorities: int


NO_STANDING = Standing(0, 0, 0.0, overdue=False, authorities=0)


class OverdueLog:
    """Says when anchors become overdue, when they no longer are, and what that does to receipts.

    Args:
        rules: settings.
        refuse: receipts are refused while anchors are overdue.
    """

    def __init__(self, rules: AnchorRules, *, refuse: bool) -> None:
        self._rules = rules
        self._refuse = refuse
        self._since: float | None = None

    def see(self, current: Standing, now: float) -> None:
        """How it stands now; only a change is logged.

        Args:
            current: as measured.
            now: seconds.
        """
        if current.overdue and self._since is None:
            self._since = now
            _log.error(
                "anchors are overdue",
                lag_seconds=round(current.lag, 1),
                max_unanchored_seconds=self._rules.max_unanchored,
                unanchored_leaves=current.leaves,
                anchored_size=current.anchored,
            )
            if self._refuse:
                _log.error("receipts are refused from now on", reason=Reason.UNANCHORED.value)
        elif not current.overdue and self._since is not None:
            seconds, self._since = round(now - self._since, 1), None
            _log.warning(
                "anchors are no longer overdue", seconds=seconds, anchored_size=current.anchored
            )
            if self._refuse:
                _log.warning("receipts are taken again", seconds=seconds)


def standing(
    states: Collection[TsaState], tree: Tree, growth: Growth, now: float, rules: AnchorRules
) -> Standing:
    """How it stands at a time, seconds on the clock of `growth`."""
    views = [state.view for state in states]
    anchored = anchored_size(views, rules.quorum)
    since = growth.since(anchored) if tree.content > anchored else None
    lag = 0.0 if since is None else max(now - since, 0.0)
    leaves = max(tree.content - anchored, 0)
    current = up_to_date(views, tree, growth, now, rules)
    return Standing(anchored, leaves, lag, lag > rules.max_unanchored, current)


def show(
    metrics: AnchorMetrics,
    states: Collection[TsaState],
    lives: Iterable[Live],
    now: float,
    current: Standing,
) -> None:
    """Set every gauge that time alone moves."""
    metrics.lag_seconds.set(current.lag)
    metrics.unanchored_leaves.set(current.leaves)
    metrics.overdue.set(current.overdue)
    metrics.quorum_tokens.set(current.authorities)
    due = min((live.renew_by for live in lives), default=float("inf"))
    metrics.renewal_due_seconds.set(due - now)
    offsets: dict[str, float] = {}
    skew = 0.0
    for state in states:
        view, name = state.view, state.view.name
        age = float("inf") if view.stamped_at is None else max(now - view.stamped_at, 0.0)
        metrics.last_success_age_seconds.labels(name).set(age)
        metrics.breaker_state.labels(name).set(view.breaker.state(now))
        for role, end in state.ends.items():
            metrics.cert_expiry_seconds.labels(name, role).set(end - now)
        if state.offset is not None:
            metrics.clock_offset_seconds.labels(name).set(state.offset)
            offsets[view.authority] = state.offset
            skew = max(skew, state.tsa.settings.max_clock_skew_seconds)
    metrics.clock_suspect.set(clock_suspect(offsets, skew))


def refusal(current: Standing, rules: AnchorRules) -> ServiceError:
    """What an appender is told while anchors are overdue and the operator wants none then."""
    return ServiceError(
        Reason.UNANCHORED,
        f"this ledger takes no receipts now: its oldest receipt without a timestamp is "
        f"{current.lag:.0f} s old. Nothing is lost; keep your receipts and resend later. Its operator: "
        "see /readyz and `receiptledger anchors list`, repair or replace the timestamp authorities, or set "
        "unanchored_policy to warn",
        want=f"a quorum of timestamps at most {rules.max_unanchored:.0f} s old",
        got=f"{current.leaves} leaves without",
    )
