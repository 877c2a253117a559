"""Prometheus metrics: base units, labels from closed sets, every series there from the start.

No label ever carries an agent, a chain or a hash. tests/unit/ledgerd/test_metrics.py holds each name
against its documentation in deploy/RUNBOOK.md and each value against a scripted run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import receiptledger
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
from receiptledger.core.errors import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ledgerd.admission import Answer
    from ledgerd.store.interface import StoreStats

disable_created_metrics()  # `_created` series double the page and nobody reads them

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
)
PROOF_KINDS = ("receipt", "proof", "consistency", "checkpoint", "tile")
_ACK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_BATCH_BUCKETS = tuple(2**n for n in range(11))


class Metrics:
    """All metrics of one daemon, in a registry of their own."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        Info("ledger_build", "Version of the daemon.", registry=registry).info(
            {"version": receiptledger.__version__}
        )
        self._receipts = Counter(
            "ledger_receipts", "Receipts answered, by result.", ["result"], registry=registry
        )
        self._rejected = Counter(
            "ledger_receipts_rejected",
            "Receipts refused, by reason.",
            ["reason"],
            registry=registry,
        )
        self.ack_seconds = Histogram(
            "ledger_ack_seconds",
            "Seconds from reading a batch to its answer, DURABLE level.",
            buckets=_ACK_BUCKETS,
            registry=registry,
        )
        self.batch_receipts = Histogram(
            "ledger_batch_receipts",
            "Receipts per batch.",
            buckets=_BATCH_BUCKETS,
            registry=registry,
        )
        self.store_sync_seconds = Histogram(
            "ledger_store_sync_seconds",
            "Seconds of one durable group commit.",
            buckets=_ACK_BUCKETS,
            registry=registry,
        )
        self.store_errors = Counter(
            "ledger_store_errors",
            "Commits that failed or whose outcome is unknown.",
            registry=registry,
        )
        self.streams_active = Gauge(
            "ledger_streams_active", "Open Append streams.", registry=registry
        )
        self.stream_paused_seconds = Counter(
            "ledger_stream_paused_seconds",
            "Seconds streams were not read because too many of their batches were unanswered.",
            registry=registry,
        )
        self.unsealed_receipts = Gauge(
            "ledger_unsealed_receipts",
            "Durable receipts under no checkpoint yet.",
            registry=registry,
        )
        self.tree_size = Gauge(
            "ledger_tree_size", "Leaves of the published log.", registry=registry
        )
        self.last_seal_timestamp_seconds = Gauge(
            "ledger_last_seal_timestamp_seconds",
            "Unix time of the newest seal; 0 until this process sealed.",
            registry=registry,
        )
        self.seal_seconds = Histogram(
            "ledger_seal_seconds",
            "Seconds of one seal: plan, sign, commit, guard, publish.",
            buckets=_ACK_BUCKETS,
            registry=registry,
        )
        self.proof_requests = Counter(
            "ledger_proof_requests",
            "Reads answered, by kind.",
            ["kind", "result"],
            registry=registry,
        )
        self.proof_seconds = Histogram(
            "ledger_proof_seconds",
            "Seconds to answer a read, by kind.",
            ["kind"],
            buckets=(0.0005, *_ACK_BUCKETS),
            registry=registry,
        )
        self.store_bytes = Gauge("ledger_store_bytes", "Bytes of the database.", registry=registry)
        self.store_free_bytes = Gauge(
            "ledger_store_free_bytes", "Bytes free on the database's disk.", registry=registry
        )
        self.store_background_errors = Gauge(
            "ledger_store_background_errors", "Background errors of RocksDB.", registry=registry
        )
        self.grpc_started = Counter(
            "grpc_server_started",
            "gRPC calls started.",
            ["grpc_service", "grpc_method"],
            registry=registry,
        )
        self.grpc_handled = Counter(
            "grpc_server_handled",
            "gRPC calls ended, by status code.",
            ["grpc_service", "grpc_method", "grpc_code"],
            registry=registry,
        )
        self.grpc_seconds = Histogram(
            "grpc_server_handling_seconds",
            "Seconds of gRPC calls; a stream counts once, when it ends.",
            ["grpc_service", "grpc_method"],
            registry=registry,
        )
        self._accepted = self._receipts.labels("accepted")
        self._duplicate = self._receipts.labels("duplicate")
        self._refused = self._receipts.labels("rejected")
        for reason in RECEIPT_REASONS:
            self._rejected.labels(reason.value)
        for kind in PROOF_KINDS:
            self.proof_seconds.labels(kind)
            for result in ("ok", "error"):
                self.proof_requests.labels(kind, result)

    def admitted(self, batches: Iterable[list[Answer]]) -> None:
        """Count the answers of one committed group."""
        accepted = duplicate = 0
        for answers in batches:
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
