"""How anchoring stands: what the metrics, the readiness page and the refusal of appends say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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

__all__ = ["NO_STANDING", "Standing", "refusal", "show", "standing"]


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
        "see /readyz and `receiptledger anchors`, repair or replace the timestamp authorities, or set "
        "unanchored_policy to warn",
        want=f"a quorum of timestamps at most {rules.max_unanchored:.0f} s old",
        got=f"{current.leaves} leaves without",
    )
