"""Builds the anchorer of a daemon from its settings; a part of the composition root."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import structlog

from ledgerd.anchoring.anchorer import Anchorer
from ledgerd.anchoring.evidence import EvidenceKeeper
from ledgerd.anchoring.journal import Journal
from ledgerd.anchoring.plan import AnchorRules
from ledgerd.anchoring.stamp import Tsa
from ledgerd.tsa.credentials import Credentials
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.revocation import EvidenceFetch

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from ledgerd.anchoring.metrics import AnchorMetrics
    from ledgerd.config import Settings
    from ledgerd.store.interface import LogState, Store
    from ledgerd.writer import CommitJob
    from receiptledger.core.timestamp import TsaTrust

__all__ = ["AnchorSetupError", "build_anchorer", "read_trusts", "steady_clock", "warnings"]

_log = structlog.get_logger(__name__)

EVIDENCE_SECONDS: Final = 30.0  # for one CRL or OCSP response


class AnchorSetupError(Exception):
    """A file of a [[tsa]] cannot be used; the message names the TSA, the file and what to do."""


def read_trusts(settings: Settings) -> list[TsaTrust]:
    """The certificates of every configured TSA; its secrets and keys are tried out as well.

    Raises:
        AnchorSetupError: a file cannot be used.
    """
    trusts = []
    for item in settings.tsa:
        try:
            trusts.append(item.trust())
            Credentials(item).check()
        except TsaError as error:
            raise AnchorSetupError(f"[[tsa]] {item.name}: {error.detail}") from None
        except ValueError as error:
            raise AnchorSetupError(f"[[tsa]] {item.name}: {error}") from None
    return trusts


def warnings(settings: Settings, now: datetime) -> list[str]:
    """What is no mistake and yet keeps a TSA from being of use; time alone can bring it about.

    Args:
        settings: as loaded.
        now: aware.
    """
    found = ((item.name, item.outside_trust(now)) for item in settings.tsa)
    return [f"[[tsa]] {name}: {why}" for name, why in found if why is not None]


def steady_clock() -> Callable[[], float]:
    """Seconds since the epoch as of now, from here on on a clock that nobody sets.

    A clock that is set back an hour must not silence the schedule for an hour.
    """
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def build_anchorer(
    settings: Settings,
    store: Store,
    executor: Executor,
    metrics: AnchorMetrics,
    *,
    submit: Callable[[CommitJob], None],
    published: Callable[[], LogState | None],
    content_size: Callable[[], int],
    clock: Callable[[], float],
) -> Anchorer | None:
    """Wire the parts of anchoring; None when no TSA is configured.

    Raises:
        AnchorSetupError: as :func:`read_trusts`.
    """
    if not settings.tsa:
        return None
    metrics.init(item.name for item in settings.tsa)
    metrics.quorum.set(settings.anchor_quorum)
    metrics.interval_seconds.set(settings.anchor_interval_seconds)
    metrics.max_unanchored_seconds.set(settings.max_unanchored_seconds)
    for warning in warnings(settings, datetime.now(UTC)):
        _log.warning("a timestamp authority is of no use now", problem=warning)
    https = {item.name: TsaHttp(item) for item in settings.tsa}
    pairs = zip(settings.tsa, read_trusts(settings), strict=True)
    tsas = [Tsa(item, trust, https[item.name]) for item, trust in pairs]
    journal = Journal(
        store, submit, executor, wall=time.time, max_quarantined=settings.max_quarantined
    )
    evidence = EvidenceKeeper(
        store,
        tsas,
        journal,
        metrics,
        fetcher=lambda tsa: EvidenceFetch(https[tsa.trust.name], deadline_seconds=EVIDENCE_SECONDS),
        delay_seconds=settings.evidence_delay_hours * 3_600,
    )
    rules = AnchorRules(
        interval=settings.anchor_interval_seconds,
        max_leaves=settings.anchor_max_leaves,
        min_spacing=settings.anchor_min_spacing_seconds,
        heartbeat=settings.anchor_heartbeat_seconds,
        quorum=settings.anchor_quorum,
        max_unanchored=settings.max_unanchored_seconds,
    )
    return Anchorer(
        store,
        tsas,
        rules,
        journal,
        published=published,
        content_size=content_size,
        metrics=metrics,
        executor=executor,
        clock=clock,
        wall=time.time,
        evidence=evidence,
        renew_before=timedelta(days=settings.renew_before_days),
        refuse=settings.unanchored_policy == "refuse",
    )
