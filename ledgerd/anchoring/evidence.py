"""Fetches the revocation evidence of stored tokens, a day later, and stores it with them.

A revocation list that is older than a token says little about it, and the servers of lists end with
their CA. So each token gets its CRLs or OCSP responses once it is `delay` old; from then on a leaf of
the log commits them, and the next anchors cover that leaf. Every five minutes it is looked what is due;
what cannot be had is tried again every hour, and is visible as missing until it is there.

A token that does not hold under today's settings, because its TSA or its root was taken out of them,
is stranded: there is no path to fetch anything for. Those are counted apart, and hold up nobody.

A revoked certificate is evidence like any other: it is stored, so that every verifier sees it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from ledgerd.anchoring.stamp import said
from ledgerd.anchoring.state import verify_again
from ledgerd.store.interface import Changes, StoreError
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.revocation import fetch_evidence
from receiptledger.core.errors import ServiceError
from receiptledger.core.revocation import covers
from receiptledger.core.timestamp_cause import Cause, TimestampError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ledgerd.anchoring.journal import Journal
    from ledgerd.anchoring.metrics import AnchorMetrics
    from ledgerd.anchoring.stamp import Tsa
    from ledgerd.store.interface import AnchorRecord, Store
    from ledgerd.tsa.revocation import Fetch
    from receiptledger.core.revocation import RevocationEvidence
    from receiptledger.core.timestamp import Timestamp

__all__ = ["EVERY_SECONDS", "RETRY_SECONDS", "EvidenceKeeper"]

EVERY_SECONDS: Final = 300.0  # between two looks at what is due
RETRY_SECONDS: Final = 3_600.0  # until a TSA whose lists could not be had is tried again
MAX_LOOKED_AT: Final = 4_096  # tokens without evidence of one round
MAX_STRANDED: Final = 65_536  # of these besides
MAX_DONE: Final = 256  # of these, how many are given evidence in one round

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Due:
    """One token without evidence, without its bytes: there may be thousands."""

    number: int
    tsa: str
    stored_at: int


class EvidenceKeeper:
    """Event loop only; one round at a time.

    Args:
        store: read in the executor of the journal.
        tsas: the configured ones.
        journal: commits.
        metrics: of anchoring.
        fetcher: makes the way to fetch for one TSA and one round, which fetches each thing once.
        delay_seconds: age of a token at which its evidence is due.
    """

    def __init__(
        self,
        store: Store,
        tsas: Iterable[Tsa],
        journal: Journal,
        metrics: AnchorMetrics,
        *,
        fetcher: Callable[[Tsa], Fetch],
        delay_seconds: float,
    ) -> None:
        self._store = store
        self._tsas = {tsa.trust.name: tsa for tsa in tsas}
        self._journal = journal
        self._metrics = metrics
        self._fetcher = fetcher
        self._delay = delay_seconds
        self._next = float("-inf")
        self._retry_at: dict[str, float] = {}
        self._stranded: set[int] = set()  # numbers; settings do not change within a process

    def due(self, now: float) -> bool:
        """Whether it is time for a round."""
        return now >= self._next

    async def step(self, now: float) -> int:
        """One round over all tokens whose evidence is due.

        Args:
            now: seconds since the epoch.

        Returns:
            How many were given evidence.
        """
        self._next = now + EVERY_SECONDS
        done = 0
        try:
            due = await self._journal.read(partial(self._due, now))
            missing = []
            fetches: dict[str, Fetch] = {}
            strandings: Counter[str] = Counter()
            for item in due:
                tsa = self._tsas.get(item.tsa)
                # One failure tells of all later tokens: they have the same path, and a list that is
                # too old for one is too old for those after it.
                if tsa is not None and (
                    now < self._retry_at.get(item.tsa, now) or done >= MAX_DONE
                ):
                    missing.append(item)
                    continue
                found = None
                if tsa is not None:
                    found = await self._journal.read(partial(self._verified, item.number, tsa))
                if tsa is None or found is None:
                    self._stranded.add(item.number)
                    strandings[item.tsa] += 1
                    continue
                fetch = fetches.setdefault(item.tsa, self._fetcher(tsa))
                if await self._give(item, tsa, fetch, *found):
                    done += 1
                else:
                    self._retry_at[item.tsa] = now + RETRY_SECONDS
                    missing.append(item)
            self._show(missing, strandings, now)
            if done >= MAX_DONE:
                self._next = now  # more is waiting
        except (ServiceError, StoreError) as error:
            _log.error("revocation evidence could not be stored", error=str(error))
        return done

    def _due(self, now: float) -> list[_Due]:
        before = int((now - self._delay) * 1_000_000) + 1
        records = islice(self._store.anchors_without_evidence(before), MAX_LOOKED_AT + MAX_STRANDED)
        due = (
            _Due(r.number, r.tsa, r.stored_at) for r in records if r.number not in self._stranded
        )
        return list(islice(due, MAX_LOOKED_AT))

    def _show(self, missing: list[_Due], strandings: Counter[str], now: float) -> None:
        for name, count in strandings.items():
            _log.warning(
                "stored tokens do not hold under the settings of today: no evidence can be had for them",
                tsa=name,
                tokens=count,
                configured=name in self._tsas,
            )
        self._metrics.evidence_stranded.set(len(self._stranded))
        oldest = min((item.stored_at for item in missing), default=None)
        age = 0.0 if oldest is None else max(now - oldest / 1e6, 0.0)
        self._metrics.evidence_missing.set(len(missing))
        self._metrics.evidence_missing_seconds.set(age)

    async def _give(
        self, item: _Due, tsa: Tsa, fetch: Fetch, record: AnchorRecord, timestamp: Timestamp
    ) -> bool:
        """Fetch and store the evidence of one token; False when there is none to be had now.

        Raises:
            ServiceError, StoreError: it was fetched, and could not be stored.
        """
        try:
            evidence = await fetch_evidence(timestamp.path, fetch, gen_time=timestamp.gen_time)
        except TsaError as error:
            _log.warning(
                "revocation evidence cannot be had yet",
                tsa=item.tsa,
                anchor=item.number,
                cause=error.cause.value,
                detail=error.detail,
            )
            return False
        await self._judge(item, tsa, record, timestamp, evidence)
        parts = (*evidence.crls, *evidence.ocsps)
        await self._journal.commit(
            Changes(
                anchors=[replace(record, evidence=evidence.manifest())],
                blobs={hashlib.sha256(part).digest(): part for part in parts},
            )
        )
        return True

    def _verified(self, number: int, tsa: Tsa) -> tuple[AnchorRecord, Timestamp] | None:
        record = self._store.anchor(number)
        if record is None:  # its index led here: fsck says what is wrong
            raise StoreError(f"anchor {number} is gone from the store: run ledgerd fsck")
        try:
            return record, verify_again(self._store, record, tsa)
        except TimestampError:
            return None

    async def _judge(
        self,
        item: _Due,
        tsa: Tsa,
        record: AnchorRecord,
        timestamp: Timestamp,
        evidence: RevocationEvidence,
    ) -> None:
        """Say loudly what the evidence says against a token. It is stored either way."""
        work = partial(verify_again, self._store, record, tsa, evidence=evidence)
        try:
            judged = await self._journal.read(work)
        except TimestampError as error:
            self._metrics.failures.labels(item.tsa, error.cause.value).inc()
            if error.cause is Cause.REVOKED:
                self._metrics.attempts.labels(item.tsa, "security").inc()
            _log.error(
                "revocation evidence speaks against a stored token",
                tsa=item.tsa,
                anchor=item.number,
                cause=error.cause.value,
                error=said(error),
            )
            return
        self._metrics.warned(w for w in judged.warnings if w not in timestamp.warnings)
        whole = await self._journal.read(
            partial(covers, timestamp.path, evidence, timestamp.gen_time)
        )
        _log.info(
            "revocation evidence found", tsa=item.tsa, anchor=item.number, covers_whole_path=whole
        )
