"""Prometheus metrics: base units, labels from closed sets, every series there from the start.

No label ever carries an agent, a chain or a hash. tests/unit/ledgerd/test_metrics.py holds each name
against its documentation in deploy/RUNBOOK.md and each value against a scripted run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

import receiptledger
from ledgerd.anchoring.metrics import AnchorMetrics
from ledgerd.parking import PARK_RESULTS
from receiptledger.core.errors import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ledgerd.admission import Answer
    from ledgerd.store.interface import StoreStats

disable_created_metrics()  # type: ignore[no-untyped-call]  # `_created` series double the page and nobody reads them

__all__ = ["PROOF_KINDS", "RECEIPT_REASONS", "Metrics"]

RECEIPT_REASONS = (
    Reason.MALFORMED,
    Reason.TOO_LARGE,
    Reason.UNKNOWN_PROFILE,
    Reason.INVALID_FIELD,
    Reason.UNSUPPORTED_ALGORITHM,
    Reason.BAD_SIGNATURE,
    Reason.UNKNOWN_KEY,
    Reason.WRONG_KEY,
    Reason.GAP,
    Reason.FORK,
    Reason.BROKEN_LINK,
    Reason.WRONG_SEQUENCE,
    Reason.INVALID_ARGUMENT,
    Reason.UNANCHORED,  # whole batches, each time they are sent
)
PROOF_KINDS = ("receipt", "proof", "consistency", "checkpoint", "tile", "anchor", "anchors")
_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BATCH_BUCKETS = tuple(2**n for n in range(11))


class Metrics:
    """All metrics of one daemon, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        build = Info("ledger_build", "Version of the daemon.", registry=self._registry)
        build.info({"version": receiptledger.__version__})
        self.ready = self._gauge(
            "ledger_ready",
            "1 when receipts are accepted and the newest commit succeeded, as /readyz.",
        )
        self._init_ingest()
        self._init_log()
        self._init_reads()
        self._init_store()
        self._init_calls()
        self.anchors = AnchorMetrics(self._registry)

    def _init_ingest(self) -> None:
        receipts = self._counter("ledger_receipts", "Receipts answered, by result.", "result")
        self._accepted = receipts.labels("accepted")
        self._duplicate = receipts.labels("duplicate")
        self._refused = receipts.labels("rejected")
        self._rejected = self._counter(
            "ledger_receipts_rejected", "Receipts refused, by reason.", "reason"
        )
        for reason in RECEIPT_REASONS:
            self._rejected.labels(reason.value)
        self.ack_seconds = self._histogram(
            "ledger_ack_seconds",
            "Seconds from reading a batch to its answer, DURABLE level; nothing parked.",
        )
        self.batch_receipts = self._histogram(
            "ledger_batch_receipts", "Receipts per batch.", buckets=_BATCH_BUCKETS
        )
        self.streams_active = self._gauge("ledger_streams_active", "Open Append streams.")
        self.stream_paused_seconds = self._counter(
            "ledger_stream_paused_seconds",
            "Seconds streams were not read because too many of their batches were unanswered.",
        )
        self.parked_receipts = self._gauge(
            "ledger_parked_receipts", "Receipts ahead of their chain that wait for what is missing."
        )
        self.parked_bytes = self._gauge(
            "ledger_parked_bytes", "Bytes they count for, of park_max_bytes."
        )
        self._unparked = self._counter(
            "ledger_unparked", "Receipts ahead of their chain, by what became of them.", "result"
        )
        for result in PARK_RESULTS:
            self._unparked.labels(result)

    def _init_log(self) -> None:
        self.unsealed_receipts = self._gauge(
            "ledger_unsealed_receipts", "Durable receipts under no checkpoint yet."
        )
        self.tree_size = self._gauge("ledger_tree_size", "Leaves of the published log.")
        self.last_seal_timestamp_seconds = self._gauge(
            "ledger_last_seal_timestamp_seconds",
            "Unix time of the newest seal; 0 until this process sealed.",
        )
        self.seal_seconds = self._histogram(
            "ledger_seal_seconds", "Seconds of one seal: plan, sign, commit, guard, publish."
        )

    def _init_reads(self) -> None:
        self.proof_requests = self._counter(
            "ledger_proof_requests", "Reads answered, by kind.", "kind", "result"
        )
        self.proof_seconds = self._histogram(
            "ledger_proof_seconds",
            "Seconds to answer a read, by kind.",
            "kind",
            buckets=(0.0005, *_SECONDS_BUCKETS),
        )
        for kind in PROOF_KINDS:
            self.proof_seconds.labels(kind)
            for result in ("ok", "error"):
                self.proof_requests.labels(kind, result)

    def _init_store(self) -> None:
        self.store_sync_seconds = self._histogram(
            "ledger_store_sync_seconds", "Seconds of one durable group commit."
        )
        self.store_errors = self._counter(
            "ledger_store_errors", "Commits that failed or whose outcome is unknown."
        )
        self.store_bytes = self._gauge("ledger_store_bytes", "Bytes of the database.")
        self.store_free_bytes = self._gauge(
            "ledger_store_free_bytes", "Bytes free on the database's disk."
        )
        self.store_background_errors = self._gauge(
            "ledger_store_background_errors", "Background errors of RocksDB."
        )

    def _init_calls(self) -> None:
        method = ("grpc_service", "grpc_method")
        self.grpc_started = self._counter("grpc_server_started", "gRPC calls started.", *method)
        self.grpc_handled = self._counter(
            "grpc_server_handled", "gRPC calls ended, by status code.", *method, "grpc_code"
        )
        self.grpc_seconds = self._histogram(
            "grpc_server_handling_seconds",
            "Seconds of gRPC calls; a stream counts once, when it ends.",
            *method,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self._registry)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS_BUCKETS
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def admitted(self, batches: Iterable[list[Answer]]) -> None:
        """Count the answers of one committed group."""
        accepted = duplicate = 0
        for answers in batches:
            if answers:  # a barrier asks for a commit without receipts
                self.batch_receipts.observe(len(answers))
            for answer in answers:
                if answer.reason is not None:
                    self._refused.inc()
                    self._rejected.labels(answer.reason.value).inc()
                elif answer.duplicate:
                    duplicate += 1
                else:
                    accepted += 1
        self._accepted.inc(accepted)
        self._duplicate.inc(duplicate)

    def refused(self, receipts: int, reason: Reason) -> None:
        """A batch was refused as a whole before anything was looked at.

        Args:
            receipts: how many it has.
            reason: one of RECEIPT_REASONS.
        """
        self._refused.inc(receipts)
        self._rejected.labels(reason.value).inc(receipts)

    def parked(self, receipts: int, size: int) -> None:
        """What is parked now.

        Args:
            receipts: how many.
            size: bytes they count for.
        """
        self.parked_receipts.set(receipts)
        self.parked_bytes.set(size)

    def unparked(self, results: Iterable[str]) -> None:
        """What became of receipts that were ahead of their chain; each one of PARK_RESULTS."""
        for result in results:
            self._unparked.labels(result).inc()

    def sealed(self, size: int, now: float, seconds: float) -> None:
        """A seal is published.

        Args:
            size: leaves.
            now: Unix time, seconds.
            seconds: how long it took.
        """
        self.tree_size.set(size)
        self.last_seal_timestamp_seconds.set(now)
        self.seal_seconds.observe(seconds)

    def init_grpc(self, methods: Iterable[tuple[str, str]], codes: Iterable[str]) -> None:
        """Create every gRPC series, so that a rate over it works from the first call on."""
        codes = tuple(codes)
        for service, method in methods:
            self.grpc_started.labels(service, method)
            self.grpc_seconds.labels(service, method)
            for code in codes:
                self.grpc_handled.labels(service, method, code)

    def expose(self, stats: Callable[[], StoreStats]) -> bytes:
        """The text format, with the store's figures as of now."""
        figures = stats()
        self.store_bytes.set(figures.bytes_on_disk)
        self.store_free_bytes.set(figures.free_bytes)
        self.store_background_errors.set(figures.background_errors)
        return generate_latest(self._registry)

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """One sample's value; for tests and the readiness page."""
        return self._registry.get_sample_value(name, labels or {})
