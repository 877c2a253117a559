"""Every series is there from the start, and every value is what a scripted run makes it."""

from __future__ import annotations

import re

import grpc

import receiptledger
from ledgerd.admission import Answer
from ledgerd.anchoring.metrics import CERTIFICATE_ROLES, RESULTS, WARNINGS
from ledgerd.metrics import PROOF_KINDS, RECEIPT_REASONS, Metrics
from ledgerd.parking import PARK_RESULTS
from ledgerd.rpc.status import CODES
from ledgerd.store.interface import StoreStats
from ledgerd.store.memory import Fault
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.timestamp_cause import Cause
from receiptledger.v1 import ingest_pb2, proof_pb2
from tests.helpers.agents import Agent, FarleyAgent, link
from tests.helpers.sync_ledger import SyncLedger

NAMES = {
    "ledger_build": "info",
    "ledger_ready": "gauge",
    "ledger_receipts": "counter",
    "ledger_receipts_rejected": "counter",
    "ledger_ack_seconds": "histogram",
    "ledger_batch_receipts": "histogram",
    "ledger_streams_active": "gauge",
    "ledger_stream_paused_seconds": "counter",
    "ledger_parked_receipts": "gauge",
    "ledger_parked_bytes": "gauge",
    "ledger_unparked": "counter",
    "ledger_unsealed_receipts": "gauge",
    "ledger_tree_size": "gauge",
    "ledger_last_seal_timestamp_seconds": "gauge",
    "ledger_seal_seconds": "histogram",
    "ledger_proof_requests": "counter",
    "ledger_proof_seconds": "histogram",
    "ledger_store_sync_seconds": "histogram",
    "ledger_store_errors": "counter",
    "ledger_store_bytes": "gauge",
    "ledger_store_free_bytes": "gauge",
    "ledger_store_background_errors": "gauge",
    "ledger_anchor_lag_seconds": "gauge",
    "ledger_anchor_unanchored_leaves": "gauge",
    "ledger_anchor_overdue": "gauge",
    "ledger_anchor_interval_seconds": "gauge",
    "ledger_anchor_max_unanchored_seconds": "gauge",
    "ledger_anchor_quorum": "gauge",
    "ledger_anchor_quorum_tokens": "gauge",
    "ledger_anchor_last_success_age_seconds": "gauge",
    "ledger_anchor_attempts": "counter",
    "ledger_anchor_failures": "counter",
    "ledger_anchor_request_seconds": "histogram",
    "ledger_anchor_token_bytes": "histogram",
    "ledger_anchor_clock_offset_seconds": "gauge",
    "ledger_anchor_clock_suspect": "gauge",
    "ledger_anchor_breaker_state": "gauge",
    "ledger_anchor_tsa_cert_expiry_seconds": "gauge",
    "ledger_anchor_tsa_cert_changes": "counter",
    "ledger_anchor_renewal_due_seconds": "gauge",
    "ledger_anchor_revocation_evidence_missing": "gauge",
    "ledger_anchor_revocation_evidence_missing_seconds": "gauge",
    "ledger_anchor_quarantined": "gauge",
    "ledger_anchor_revocation_evidence_stranded": "gauge",
    "ledger_anchor_warnings": "counter",
    "grpc_server_started": "counter",
    "grpc_server_handled": "counter",
    "grpc_server_handling_seconds": "histogram",
}
STATS = StoreStats(bytes_on_disk=11, free_bytes=22, background_errors=3)
SERIES = re.compile(r"^((?:ledger|grpc)_[a-z_]+)(\{[^}]*\})? (\S+)$", re.MULTILINE)


def page(metrics: Metrics) -> dict[str, float]:
    """Every sample of ours, by name and labels as the page shows them."""
    text = metrics.expose(lambda: STATS).decode()
    return {name + labels: float(value) for name, labels, value in SERIES.findall(text)}


def changed(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What moved, without durations."""
    assert before.keys() == after.keys(), "a series appeared that was not there from the start"
    return {
        name: value - before[name]
        for name, value in after.items()
        if value != before[name] and "_bucket" not in name and "_seconds_sum" not in name
    }


def daemon_metrics() -> Metrics:
    metrics = Metrics()
    services = [
        ingest_pb2.DESCRIPTOR.services_by_name["IngestService"],
        proof_pb2.DESCRIPTOR.services_by_name["ProofService"],
    ]
    metrics.init_grpc(
        [(service.full_name, method.name) for service in services for method in service.methods],
        [code.name for code in grpc.StatusCode],
    )
    metrics.anchors.init(["one", "two"])
    return metrics


# What is there


def test_names_and_types_are_these_and_no_others() -> None:
    text = daemon_metrics().expose(lambda: STATS).decode()
    found = dict(re.findall(r"^# TYPE ((?:ledger|grpc)_\S+) (\S+)$", text, re.MULTILINE))
    expected = {
        name + {"counter": "_total", "info": "_info"}.get(kind, ""): (
            "gauge" if kind == "info" else kind
        )
        for name, kind in NAMES.items()
    }
    assert found == expected
    assert "_created" not in text


def test_every_series_is_there_before_anything_happened() -> None:
    found = page(daemon_metrics())
    for result in ("accepted", "duplicate", "rejected"):
        assert found[f'ledger_receipts_total{{result="{result}"}}'] == 0
    for reason in RECEIPT_REASONS:
        assert found[f'ledger_receipts_rejected_total{{reason="{reason.value}"}}'] == 0
    for result in PARK_RESULTS:
        assert found[f'ledger_unparked_total{{result="{result}"}}'] == 0
    for kind in PROOF_KINDS:
        assert found[f'ledger_proof_seconds_count{{kind="{kind}"}}'] == 0
        for result in ("ok", "error"):
            assert found[f'ledger_proof_requests_total{{kind="{kind}",result="{result}"}}'] == 0
    handled = [name for name in found if name.startswith("grpc_server_handled_total")]
    assert len(handled) == 7 * len(list(grpc.StatusCode))
    assert found["ledger_last_seal_timestamp_seconds"] == 0
    zero = {name for name, value in found.items() if value == 0}
    assert found.keys() - zero == {
        f'ledger_build_info{{version="{receiptledger.__version__}"}}',
        "ledger_store_bytes",
        "ledger_store_free_bytes",
        "ledger_store_background_errors",
        "ledger_anchor_renewal_due_seconds",  # +Inf: without a token there is nothing to renew
        *(f'ledger_anchor_last_success_age_seconds{{tsa="{tsa}"}}' for tsa in ("one", "two")),
        *(
            f'ledger_anchor_tsa_cert_expiry_seconds{{role="{role}",tsa="{tsa}"}}'
            for tsa in ("one", "two")
            for role in CERTIFICATE_ROLES
        ),
    }


def test_every_series_of_a_tsa_is_there_before_it_was_asked() -> None:
    found = page(daemon_metrics())
    for tsa in ("one", "two"):
        for result in RESULTS:
            assert found[f'ledger_anchor_attempts_total{{result="{result}",tsa="{tsa}"}}'] == 0
        for cause in Cause:
            assert found[f'ledger_anchor_failures_total{{cause="{cause}",tsa="{tsa}"}}'] == 0
        for name in ("clock_offset_seconds", "breaker_state", "request_seconds_count"):
            assert found[f'ledger_anchor_{name}{{tsa="{tsa}"}}'] == 0
    for kind in WARNINGS:
        assert found[f'ledger_anchor_warnings_total{{kind="{kind}"}}'] == 0


def test_oddities_of_tokens_are_counted_by_kinds_that_are_known() -> None:
    metrics = daemon_metrics()
    before = page(metrics)
    metrics.anchors.warned(["ess_v1", "no_accuracy", "something new"])
    assert changed(before, page(metrics)) == {
        'ledger_anchor_warnings_total{kind="ess_v1"}': 1,
        'ledger_anchor_warnings_total{kind="no_accuracy"}': 1,
        'ledger_anchor_warnings_total{kind="other"}': 1,
    }


def test_every_reason_a_receipt_can_be_refused_for_is_a_series() -> None:
    """Closed: a reason of a receipt is counted; one of a call is a gRPC code; evidence is neither."""
    evidence = {
        Reason.BAD_LEAF,
        Reason.BAD_PROOF,
        Reason.BAD_NOTE,
        Reason.BAD_CHECKPOINT,
        Reason.BAD_BUNDLE,
        Reason.WRONG_LOG,
        Reason.INCONSISTENT,
        Reason.BAD_TIMESTAMP,
    }
    assert set(RECEIPT_REASONS) | set(CODES) | evidence == set(Reason)
    assert set(RECEIPT_REASONS) & set(CODES) == {Reason.INVALID_ARGUMENT, Reason.UNANCHORED}
    assert not evidence & (set(RECEIPT_REASONS) | set(CODES))


def test_no_label_is_open() -> None:
    labels = set(re.findall(r'(\w+)="', daemon_metrics().expose(lambda: STATS).decode()))
    ours = {"result", "reason", "kind", "grpc_service", "grpc_method", "grpc_code", "le", "version"}
    ours |= {"tsa", "cause", "role"}
    platform = {"generation", "implementation", "major", "minor", "patchlevel"}
    assert labels == ours | platform


# What they say


def test_answers_are_counted_by_result_and_reason() -> None:
    metrics = Metrics()
    before = page(metrics)
    answers = [
        Answer(None, False, 0, b"", b""),
        Answer(None, False, 1, b"", b""),
        Answer(None, True, 0, b"", b""),
        *(Answer(reason, False, 0, b"", None) for reason in RECEIPT_REASONS),
        Answer(Reason.GAP, False, 0, b"", None),
    ]
    metrics.admitted([answers[:3], [], answers[3:]])
    expected = {
        'ledger_receipts_total{result="accepted"}': 2,
        'ledger_receipts_total{result="duplicate"}': 1,
        'ledger_receipts_total{result="rejected"}': len(RECEIPT_REASONS) + 1,
        "ledger_batch_receipts_count": 2,  # one that only asks for a commit is no batch
        "ledger_batch_receipts_sum": len(answers),
    } | {
        f'ledger_receipts_rejected_total{{reason="{reason.value}"}}': 1 + (reason is Reason.GAP)
        for reason in RECEIPT_REASONS
    }
    assert changed(before, page(metrics)) == expected


def test_a_scripted_run_moves_each_value_by_what_it_did() -> None:
    ledger = SyncLedger()
    metrics = ledger.metrics
    agent, farley, forger = Agent(), FarleyAgent("issuer-1", 2), Agent("agent-1", 9)
    raws = agent.receipts(4)
    before = page(metrics)

    ledger.append(raws[:3])
    ledger.send(
        [raws[0], agent.receipt(1, link(raws[0]), note="fork"), agent.receipts(6)[5]],
        [b"x", b"{}", forger.receipt(3, link(raws[2])), farley.receipts(1)[0]],
        [agent.receipt(3, link(b"elsewhere")), agent.receipt(9, link(raws[2])), raws[3]],
    )
    after = page(metrics)
    assert changed(before, after) == {
        'ledger_receipts_total{result="accepted"}': 4,
        'ledger_receipts_total{result="duplicate"}': 1,
        'ledger_receipts_total{result="rejected"}': 8,
        'ledger_receipts_rejected_total{reason="fork"}': 1,
        'ledger_receipts_rejected_total{reason="gap"}': 1,
        'ledger_receipts_rejected_total{reason="malformed"}': 1,
        'ledger_receipts_rejected_total{reason="unknown_profile"}': 1,
        'ledger_receipts_rejected_total{reason="wrong_key"}': 1,
        'ledger_receipts_rejected_total{reason="unknown_key"}': 1,
        'ledger_receipts_rejected_total{reason="broken_link"}': 1,
        'ledger_receipts_rejected_total{reason="wrong_sequence"}': 1,
        "ledger_batch_receipts_count": 4,
        "ledger_batch_receipts_sum": 13,
        "ledger_store_sync_seconds_count": 2,
        "ledger_unsealed_receipts": 4,
    }

    before = after
    ledger.seal()
    ledger.seal()  # nothing left
    after = page(metrics)
    moved = changed(before, after)
    assert moved.pop("ledger_last_seal_timestamp_seconds") > 1_700_000_000
    assert moved == {
        "ledger_unsealed_receipts": -4,
        "ledger_tree_size": 2,
        "ledger_seal_seconds_count": 1,
    }

    before = after
    ledger.store.fail_next(Fault.LOST)
    assert isinstance(ledger.send(agent.receipts(1, after=raws[3]))[0], ServiceError)
    assert changed(before, page(metrics)) == {"ledger_store_errors_total": 1}


def test_durations_are_seconds() -> None:
    metrics = Metrics()
    metrics.sealed(7, 1_796_000_000.5, 0.25)
    metrics.ack_seconds.observe(0.004)
    found = page(metrics)
    assert found["ledger_seal_seconds_sum"] == 0.25
    assert found["ledger_last_seal_timestamp_seconds"] == 1_796_000_000.5
    assert found["ledger_tree_size"] == 7
    assert found['ledger_ack_seconds_bucket{le="0.005"}'] == 1
    assert found['ledger_ack_seconds_bucket{le="0.0025"}'] == 0


def test_the_stores_figures_are_those_of_the_moment() -> None:
    metrics = Metrics()
    found = page(metrics)
    assert found["ledger_store_bytes"] == 11
    assert found["ledger_store_free_bytes"] == 22
    assert found["ledger_store_background_errors"] == 3
    metrics.expose(lambda: StoreStats(1, 2, 0))
    assert metrics.value("ledger_store_bytes") == 1
    assert metrics.value("ledger_store_background_errors") == 0


def test_a_value_that_does_not_exist_is_none() -> None:
    metrics = Metrics()
    assert metrics.value("ledger_nothing") is None
    assert metrics.value("ledger_receipts_total", {"result": "accepted"}) == 0


def test_two_daemons_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.store_errors.inc()
    assert other.value("ledger_store_errors_total") == 0
