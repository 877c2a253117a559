"""What one answer of a TSA changes: its breaker, what is kept, what is counted, what is renewed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from ledgerd.anchoring.breaker import PROBE_MAX_SECONDS, Breaker, Kind, kind_of
from ledgerd.anchoring.metrics import STORED
from ledgerd.anchoring.plan import NOT_ASKED, Live, TsaResult, ask_from, still_live
from receiptledger.core.renewal import renew_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from ledgerd.anchoring.journal import Journal
    from ledgerd.anchoring.metrics import AnchorMetrics
    from ledgerd.anchoring.stamp import Accepted, Refused, Target
    from ledgerd.anchoring.state import TsaState
    from ledgerd.store.interface import AnchorStore

__all__ = ["Outcomes"]

MAX_LIVES: Final = 256  # anchors without a leaf pile up only while nothing is sealed

_log = structlog.get_logger(__name__)


class Outcomes:
    """Event loop only.

    Args:
        store: read for leaf indexes.
        journal: where results are kept.
        metrics: of anchoring.
        renew_before: how long before a token's end a newer one must cover it.
        jitter: a random number in [0, 1).

    Attributes:
        lives: anchors that no later anchored checkpoint covers.
    """

    def __init__(
        self,
        store: AnchorStore,
        journal: Journal,
        metrics: AnchorMetrics,
        *,
        renew_before: timedelta,
        jitter: Callable[[], float],
    ) -> None:
        self._store = store
        self._journal = journal
        self._metrics = metrics
        self._renew_before = renew_before
        self._jitter = jitter
        self.lives: tuple[Live, ...] = ()

    async def stored(self, state: TsaState, target: Target, answer: Accepted) -> TsaResult:
        """Store a token that holds, then believe in it."""
        name, timestamp = state.view.name, answer.timestamp
        record = await self._journal.keep(name, target, answer)
        state.view = replace(
            state.view,
            anchored=max(state.view.anchored, record.size),
            # When it was asked: then all TSAs of a round are due together again.
            stamped_at=state.view.tried_at,
            breaker=Breaker(),
        )
        state.failure, state.gen_time = None, record.gen_time
        if state.saw(timestamp):
            self._metrics.cert_changes.labels(name).inc()
            _log.warning("a TSA signs with a new certificate", tsa=name)
        self._metrics.attempts.labels(name, STORED).inc()
        self._metrics.token_bytes.observe(len(record.response))
        self._metrics.warned(timestamp.warnings)
        due_at = renew_by(timestamp, self._renew_before).timestamp()
        await self._renewed(record.size, Live(record.number, None, due_at))
        _log.info(
            "anchored",
            tsa=name,
            size=record.size,
            anchor=record.number,
            gen_time=timestamp.gen_time.isoformat(),
            offset_seconds=round(answer.offset, 3),
        )
        return TsaResult(name, None, record.gen_time, f"anchor {record.number} is stored")

    async def _renewed(self, size: int, newest: Live) -> None:
        """A checkpoint was anchored: whatever has its leaf under it has been renewed."""
        waiting = [live.number for live in self.lives if live.leaf_index is None]
        found = await self._journal.read(partial(self._leaf_indexes, waiting))
        lives = [
            replace(live, leaf_index=found.get(live.number, live.leaf_index)) for live in self.lives
        ]
        kept = sorted([*still_live(lives, size), newest], key=lambda live: live.renew_by)
        self.lives = tuple(kept[:MAX_LIVES])

    def _leaf_indexes(self, numbers: Sequence[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for number in numbers:
            record = self._store.anchor(number)
            if record is not None and record.leaf_index is not None:
                found[number] = record.leaf_index
        return found

    async def refused(
        self,
        state: TsaState,
        target: Target,
        answer: Refused,
        now: float,
        *,
        manual: bool = False,
        overdue: bool = False,
    ) -> TsaResult:
        """Remember a failure, keep what may be evidence, say so.

        Args:
            state: of the TSA.
            target: what it was asked about.
            answer: what came.
            now: seconds, on the clock of the breaker.
            manual: an operator asked for it.
            overdue: anchors are, so it will be asked again soon whatever it did.
        """
        name, cause = state.view.name, answer.cause
        kind, again = kind_of(cause), state.failure is cause
        state.failure = cause
        evidence = _is_evidence(state, kind, now, again=again, manual=manual)
        breaker = state.view.breaker.failed(
            now, cause, retry_after=answer.retry_after, manual=manual, jitter=self._jitter
        )
        state.view = replace(state.view, breaker=breaker)
        self._metrics.attempts.labels(name, kind.value).inc()
        self._metrics.failures.labels(name, cause.value).inc()
        kept = await self._journal.refuse(name, target, answer, evidence=evidence)
        self._metrics.quarantined.inc(kept)
        state.kept_at = now if kept else state.kept_at
        log = _log.warning if kind is Kind.TRANSIENT else _log.error
        log(
            "a TSA gave no usable timestamp",
            tsa=name,
            cause=cause.value,
            kind=kind.value,
            detail=answer.detail,
            size=target.size,
            kept_as_evidence=kept,
            asked_by_an_operator=manual,
            not_asked_for_seconds=round(max(ask_from(state.view, overdue=overdue) - now, 0.0), 1),
        )
        return TsaResult(name, cause.value, None, answer.detail)

    def our_fault(self, state: TsaState, error: Exception) -> TsaResult:
        """The request could not be made or its result not stored: the TSA's record stays clean."""
        name = state.view.name
        self._metrics.attempts.labels(name, "error").inc()
        _log.error("a timestamp request could not be carried out", tsa=name, error=str(error))
        return TsaResult(name, NOT_ASKED, None, f"this ledger could not do it: {error}")


def _is_evidence(state: TsaState, kind: Kind, now: float, *, again: bool, manual: bool) -> bool:
    """Whether the bytes of an answer are worth keeping; before the failure is counted.

    What is merely permanent, as a certificate under a new root, is kept when it starts. What has to do
    with security is kept each time, but of an open breaker that is probed every minute, because
    anchors are overdue, once an hour: else a wrong clock would fill the store within a day.
    """
    if kind is Kind.TRANSIENT:
        return False
    if not again or manual:
        return kind is Kind.SECURITY or not again
    rested = state.kept_at is None or now - state.kept_at >= PROBE_MAX_SECONDS
    return kind is Kind.SECURITY and (state.view.breaker.probe_seconds == 0 or rested)
