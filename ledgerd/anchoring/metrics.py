"""Metrics of anchoring: how far behind, how each TSA does, what is due.

Labels come from closed sets: the names of the configured TSAs, causes, kinds. Every series is there
once `init` was told the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from ledgerd.anchoring.breaker import Kind
from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

__all__ = ["CERTIFICATE_ROLES", "RESULTS", "WARNINGS", "AnchorMetrics"]

STORED: Final = "stored"
# "error": a fault of this daemon, as a store that does not commit.
RESULTS: Final = (STORED, *(kind.value for kind in Kind), "lost", "error")
WARNINGS: Final = ("ess_v1", "ess_chain", "no_accuracy", "revoked_later", "other")
CERTIFICATE_ROLES: Final = ("signer", "issuer")
_SECONDS_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BYTES_BUCKETS: Final = tuple(2**n for n in range(9, 17))


class AnchorMetrics:
    """All of them, in the daemon's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._init_log()
        self._init_tsas()

    def _init_log(self) -> None:
        self.lag_seconds = self._gauge(
            "lag_seconds", "Age of the oldest leaf that no quorum of TSAs covers; 0 when all are."
        )
        self.unanchored_leaves = self._gauge(
            "unanchored_leaves", "Leaves that no quorum of TSAs covers."
        )
        self.max_unanchored_seconds = self._gauge(
            "max_unanchored_seconds", "The setting; 0 when no TSA is configured."
        )
        self.interval_seconds = self._gauge(
            "interval_seconds", "The setting; 0 when no TSA is configured."
        )
        self.quorum = self._gauge("quorum", "The setting; 0 when no TSA is configured.")
        self.quorum_tokens = self._gauge(
            "quorum_tokens", "Authorities whose tokens cover every leaf older than three intervals."
        )
        self.overdue = self._gauge("overdue", "1 when the lag is beyond max_unanchored_seconds.")
        self.clock_suspect = self._gauge(
            "clock_suspect", "1 when two authorities agree with each other and not with our clock."
        )
        self.renewal_due_seconds = self._gauge(
            "renewal_due_seconds",
            "Seconds until the first token that no later one covers must be renewed.",
        )
        self.evidence_missing = self._gauge(
            "revocation_evidence_missing", "Tokens whose revocation evidence is due and not there."
        )
        self.evidence_missing_seconds = self._gauge(
            "revocation_evidence_missing_seconds",
            "Age of the oldest token whose revocation evidence is due and not there; 0 for none.",
        )
        self.evidence_stranded = self._gauge(
            "revocation_evidence_stranded",
            "Tokens without revocation evidence that do not hold under today's settings.",
        )
        self.quarantined = self._gauge("quarantined", "Refused answers kept as evidence.")
        self.token_bytes = Histogram(
            "ledger_anchor_token_bytes",
            "Bytes of stored responses.",
            buckets=_BYTES_BUCKETS,
            registry=self._registry,
        )
        # +Inf, not 0: without a token nothing is due, which is not the same as due now.
        self.renewal_due_seconds.set(float("inf"))

    def _init_tsas(self) -> None:
        self.last_success_age_seconds = self._gauge(
            "last_success_age_seconds", "Age of a TSA's newest token; +Inf without one.", "tsa"
        )
        self.attempts = self._counter("attempts", "Requests, by how they ended.", "tsa", "result")
        self.failures = self._counter("failures", "Requests that failed, by cause.", "tsa", "cause")
        self.request_seconds = Histogram(
            "ledger_anchor_request_seconds",
            "Seconds from sending a request to its whole answer.",
            ("tsa",),
            buckets=_SECONDS_BUCKETS,
            registry=self._registry,
        )
        self.clock_offset_seconds = self._gauge(
            "clock_offset_seconds", "How far a TSA's clock is ahead of ours, last seen.", "tsa"
        )
        self.breaker_state = self._gauge(
            "breaker_state", "0 closed, 1 probing, 2 open: not asked for now.", "tsa"
        )
        self.cert_expiry_seconds = self._gauge(
            "tsa_cert_expiry_seconds",
            "Seconds until a TSA's certificate ends; +Inf until one was seen.",
            "tsa",
            "role",
        )
        self.cert_changes = self._counter(
            "tsa_cert_changes", "Times a TSA signed with another certificate than before.", "tsa"
        )
        self.warnings = self._counter("warnings", "Oddities of accepted tokens.", "kind")
        for kind in WARNINGS:
            self.warnings.labels(kind)

    def init(self, tsas: Iterable[str]) -> None:
        """Create every series of the configured TSAs."""
        for tsa in tsas:
            self.last_success_age_seconds.labels(tsa).set(float("inf"))
            for result in RESULTS:
                self.attempts.labels(tsa, result)
            for cause in Cause:
                self.failures.labels(tsa, cause.value)
            for family in (self.request_seconds, self.clock_offset_seconds, self.breaker_state):
                family.labels(tsa)
            for role in CERTIFICATE_ROLES:
                self.cert_expiry_seconds.labels(tsa, role).set(float("inf"))
            self.cert_changes.labels(tsa)

    def warned(self, warnings: Iterable[str]) -> None:
        """Count the oddities of one token; unknown ones as "other"."""
        for kind in warnings:
            self.warnings.labels(kind if kind in WARNINGS else "other").inc()

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"ledger_anchor_{name}", text, labels, registry=self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"ledger_anchor_{name}", text, labels, registry=self._registry)
