"""The one thread that commits, without the thread: jobs in, answers out, in the right order."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledgerd.sequencer import RecoveryError
from ledgerd.store.interface import Changes, LogState, StoreError, StoreFailedError
from ledgerd.store.memory import Fault
from ledgerd.writer import BatchJob, BatchResult, CommitJob, SealJob
from receiptledger.core.errors import Reason, ServiceError
from tests.helpers.agents import Agent
from tests.helpers.stamps import stamp
from tests.helpers.sync_ledger import SyncLedger

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = Agent("agent-1", 1), Agent("agent-2", 2)
RA, RB = A.receipts(8), B.receipts(3)
Told = list[tuple[str, object]]


def batch(ledger: SyncLedger, raws: list[bytes], told: Told, name: str = "batch") -> BatchJob:
    return BatchJob(ledger.verify(raws), lambda result: told.append((name, result)))


def seal(told: Told, name: str = "seal") -> SealJob:
    return SealJob(lambda result: told.append((name, result)))


def commit(ledger: SyncLedger, told: Told, name: str = "commit") -> CommitJob:
    return CommitJob(stamp(ledger.store), lambda result: told.append((name, result)))


def run(ledger: SyncLedger, *jobs: BatchJob | SealJob | CommitJob) -> None:
    """What the thread does with jobs that were all there when it looked, until it is told to stop."""
    for job in jobs:
        ledger.writer.submit(job)
    ledger.writer._jobs.put(None)
    ledger.writer._run()


def watch_commits(ledger: SyncLedger) -> list[str]:
    seen: list[str] = []

    def look(count: int, changes: Changes) -> None:
        del count
        seen.append("seal" if changes.sealed else f"admit {len(changes.admitted)}")

    ledger.store.before_commit = look
    return seen


# Groups


def test_waiting_batches_share_one_commit_and_are_answered_in_order() -> None:
    ledger, told = SyncLedger(), Told()
    seen = watch_commits(ledger)
    names = ("one", "two", "three")
    run(ledger, *(batch(ledger, RA[n : n + 2], told, name) for n, name in zip((0, 2, 4), names)))  # noqa: B905
    assert seen == ["admit 6"]
    assert [name for name, _ in told] == list(names)
    for _, result in told:
        assert isinstance(result, BatchResult)
        assert {answer.reason for answer in result.answers} == {None}
        assert result.next_number == 6


def test_a_group_ends_at_its_limit() -> None:
    ledger, told = SyncLedger(max_group_receipts=3), Told()
    seen = watch_commits(ledger)
    run(ledger, *(batch(ledger, RA[n : n + 2], told) for n in (0, 2, 4, 6)))
    assert seen == ["admit 4", "admit 4"]


def test_a_seal_keeps_its_place_among_the_batches() -> None:
    ledger, told = SyncLedger(), Told()
    seen = watch_commits(ledger)
    run(
        ledger,
        batch(ledger, RA[:1], told, "first"),
        seal(told),
        batch(ledger, RA[1:2], told, "second"),
        batch(ledger, RA[2:3], told, "third"),
        seal(told, "seal again"),
    )
    assert seen == ["admit 1", "seal", "admit 2", "seal"]
    assert [name for name, _ in told] == ["first", "seal", "second", "third", "seal again"]
    states = [result for name, result in told if name.startswith("seal")]
    assert [state.sealed_number for state in states if isinstance(state, LogState)] == [1, 3]


def test_everything_before_the_stop_is_done() -> None:
    ledger, told = SyncLedger(max_group_receipts=2), Told()
    run(ledger, *(batch(ledger, RA[n : n + 1], told) for n in range(5)), seal(told))
    assert [name for name, _ in told] == ["batch"] * 5 + ["seal"]
    assert ledger.writer._jobs.empty()


def test_many_chains_seal_themselves() -> None:
    ledger, told = SyncLedger(seal_max_leaves=2), Told()
    seen = watch_commits(ledger)
    run(ledger, batch(ledger, RA[:2], told))
    assert seen == ["admit 2"]
    run(ledger, batch(ledger, RB[:1], told))
    assert seen == ["admit 2", "admit 1", "seal"]
    assert ledger.state is not None
    assert ledger.state.sealed_number == 3


def test_the_thread_does_the_same() -> None:
    ledger, told = SyncLedger(), Told()
    ledger.writer.start()
    ledger.writer.submit(batch(ledger, RA[:1], told))
    ledger.writer.submit(seal(told))
    ledger.writer.stop()
    assert [name for name, _ in told] == ["batch", "seal"]


# What is committed when


def test_an_answer_leaves_only_after_its_commit_returned() -> None:
    ledger, told = SyncLedger(), Told()
    before: list[int] = []
    ledger.store.before_commit = lambda count, changes: before.append(len(told))
    run(ledger, batch(ledger, RA[:1], told), seal(told), batch(ledger, RA[1:2], told))
    assert before == [0, 1, 2]


def test_a_group_that_adds_nothing_needs_no_commit_of_its_own() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:2])
    commits = ledger.store.commits
    ledger.append([RA[0], b"x", RA[5]])
    assert ledger.store.commits == commits


def test_the_first_group_of_a_process_is_committed_even_when_it_adds_nothing() -> None:
    """What an earlier process wrote may not be on the disk yet; a duplicate says that it is."""
    ledger = SyncLedger()
    ledger.append(RA[:2])
    after = ledger.crash(power=False)
    commits = after.store.commits
    assert after.append(RA[:1])[0].duplicate
    assert after.store.commits == commits + 1
    assert after.append(RA[:1])[0].duplicate
    assert after.store.commits == commits + 1


@pytest.mark.parametrize("fault", list(Fault))
def test_a_failed_commit_fails_its_whole_group_and_only_that(fault: Fault) -> None:
    ledger, told = SyncLedger(), Told()
    ledger.append(RA[:1])
    ledger.store.fail_next(fault)
    run(ledger, batch(ledger, RA[1:2], told, "one"), batch(ledger, RB[:1], told, "two"))
    assert [name for name, _ in told] == ["one", "two"]
    for _, result in told:
        assert isinstance(result, ServiceError)
        assert result.reason is Reason.UNAVAILABLE
        assert "unknown" in result.message
    assert ledger.metrics.value("ledger_store_errors_total") == 1
    if fault is not Fault.UNSYNCED:
        (answer,) = ledger.append(RA[1:2])
        assert answer.position == 1
        assert answer.duplicate is (fault is Fault.DONE)


def test_after_a_failure_nothing_remembered_is_believed() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:1])
    ledger.store.fail_next(Fault.DONE)
    ledger.send(RA[1:3], RB[:1])
    answers = ledger.append([RA[3], RB[1]])
    assert [(a.reason, a.position) for a in answers] == [(None, 3), (None, 1)]
    assert ledger.sequencer.unsealed_receipts == 6
    ledger.seal()
    assert ledger.prove_all() == 6
    ledger.audit()


def test_a_failing_read_fails_the_group_too() -> None:
    ledger = SyncLedger()

    def broken(chain: bytes) -> None:
        raise StoreError("block is damaged")

    real = ledger.store.head
    ledger.store.head = broken  # type: ignore[method-assign]
    (result,) = ledger.send(RA[:1])
    assert isinstance(result, ServiceError)
    ledger.store.head = real  # type: ignore[method-assign]
    assert ledger.append(RA[:1])[0].reason is None


def test_a_failed_seal_says_so_and_the_next_one_seals() -> None:
    for fault in (Fault.LOST, Fault.DONE):
        ledger = SyncLedger()
        ledger.append(RA[:2])
        ledger.store.fail_next(fault)
        assert isinstance(ledger.seal(), ServiceError)
        assert not isinstance(ledger.seal(), ServiceError)
        assert ledger.state is not None
        assert ledger.state.sealed_number == 2


def test_a_failed_guard_write_publishes_nothing_until_it_works() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:2])
    ledger.guard.faults = ["lost", "lost", "lost"]
    for _ in range(3):
        assert isinstance(ledger.seal(), ServiceError)
        assert set(ledger.promises.published) == {0}
    ledger.seal()
    assert set(ledger.promises.published) == {0, 2}
    ledger.audit()


def test_what_is_unsealed_is_counted_anew_after_a_failure() -> None:
    """A seal that was done and reported lost: the gauge must not stay up, an alert waits on it."""
    ledger = SyncLedger()
    ledger.append(RA[:2])
    ledger.store.fail_next(Fault.DONE)
    ledger.seal()
    assert ledger.metrics.value("ledger_unsealed_receipts") == 2
    ledger.seal()
    assert ledger.metrics.value("ledger_unsealed_receipts") == 0


# What is no receipt


def test_a_commit_keeps_its_place_and_is_answered_when_it_is_durable() -> None:
    ledger, told = SyncLedger(), Told()
    ledger.append(RA[:1])
    ledger.seal()
    seen: list[str] = []

    def look(count: int, changes: Changes) -> None:
        del count
        kind = "anchors" if changes.anchors else f"admit {len(changes.admitted)}"
        seen.append("seal" if changes.sealed else kind)
        assert len(told) == len(seen) - 1  # nothing is answered before its commit

    ledger.store.before_commit = look
    run(
        ledger,
        batch(ledger, RA[1:2], told, "first"),
        commit(ledger, told),
        batch(ledger, RA[2:3], told, "second"),
        seal(told),
    )
    assert seen == ["admit 1", "anchors", "admit 1", "seal"]
    assert [name for name, _ in told] == ["first", "commit", "second", "seal"]
    assert told[1][1] is None
    record = ledger.store.anchor(0)
    assert record is not None
    assert record.leaf_index == 3
    assert ledger.metrics.value("ledger_store_sync_seconds_count") == 4


def test_a_commit_of_nothing_is_a_commit() -> None:
    """Whoever doubts what he reads asks for one."""
    ledger, told = SyncLedger(), Told()
    ledger.append(RA[:1])
    before = ledger.store.commits
    run(ledger, CommitJob(Changes(), lambda result: told.append(("commit", result))))
    assert ledger.store.commits == before + 1
    assert told == [("commit", None)]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_failed_commit_is_told_and_doubted(fault: Fault) -> None:
    ledger, told = SyncLedger(), Told()
    ledger.append(RA[:1])
    ledger.seal()
    ledger.store.fail_next(fault)
    run(ledger, commit(ledger, told))
    ((_, answer),) = told
    assert isinstance(answer, ServiceError)
    assert answer.reason is Reason.UNAVAILABLE
    assert not ledger.writer.healthy
    assert ledger.metrics.value("ledger_store_errors_total") == 1
    assert isinstance(ledger.fatal, StoreFailedError) is (fault is Fault.UNSYNCED)
    if fault is Fault.UNSYNCED:
        return
    (answer_again,) = ledger.append(RA[1:2])
    assert answer_again.position == 1
    assert ledger.sequencer.unsealed_anchors == (1 if fault is Fault.DONE else 0)
    ledger.seal()
    ledger.audit()


def test_an_anchor_that_cannot_be_read_again_is_doubted_and_not_forgotten() -> None:
    ledger, told = SyncLedger(), Told()
    ledger.append(RA[:1])
    ledger.seal()
    real = ledger.store.anchor

    def broken(number: int) -> None:
        raise StoreError("block is damaged")

    ledger.store.anchor = broken  # type: ignore[method-assign, assignment]
    run(ledger, commit(ledger, told))
    assert isinstance(told[0][1], ServiceError)
    ledger.store.anchor = real  # type: ignore[method-assign]
    ledger.seal()
    record = ledger.store.anchor(0)
    assert record is not None
    assert record.leaf_index == 2
    ledger.audit()


@pytest.mark.parametrize("part", ["admitted", "heads", "marks", "keys", "forks", "sealed"])
def test_receipts_and_seals_have_jobs_of_their_own(part: str) -> None:
    value = {A.chain: object()} if part == "heads" else [object()]
    with pytest.raises(ValueError, match="jobs of their own"):
        CommitJob(replace(Changes(), **{part: value}), lambda _: None)  # type: ignore[arg-type]


# Fatal


def test_a_contradiction_stops_the_thread_for_good() -> None:
    ledger, told = SyncLedger(), Told()
    ledger.append(RA[:1])
    ledger.seal()
    ledger.store.fail_next(Fault.LOST)
    ledger.send(RA[1:2])
    del ledger.store._tables.state["log"]
    run(ledger, batch(ledger, RA[1:2], told), batch(ledger, RA[1:2], told))
    assert isinstance(ledger.fatal, RecoveryError)
    assert told == []
    assert not ledger.writer._jobs.empty()


def test_a_bug_in_a_plan_is_fatal_and_not_an_answer() -> None:
    ledger, told = SyncLedger(), Told()

    def broken(batches: object, now: int) -> None:
        raise ZeroDivisionError

    ledger.admission.plan = broken  # type: ignore[method-assign, assignment]
    run(ledger, batch(ledger, RA[:1], told))
    assert isinstance(ledger.fatal, ZeroDivisionError)
    assert told == []


def test_a_failed_sync_is_answered_and_then_fatal() -> None:
    """No later commit could be believed: the process must stop, so that a restart reads the disk."""
    ledger, told = SyncLedger(), Told()
    ledger.store.fail_next(Fault.UNSYNCED)
    run(ledger, batch(ledger, RA[:1], told, "first"))
    assert isinstance(ledger.fatal, StoreFailedError)
    ((name, answer),) = told
    assert name == "first"
    assert isinstance(answer, ServiceError)
    assert answer.reason is Reason.UNAVAILABLE


def test_what_is_logged_of_a_failure_names_no_receipt(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = SyncLedger()
    raws = Agent("canary-agent", 5).receipts(1, tool_name="canary-tool")
    ledger.store.fail_next(Fault.LOST)
    ledger.send(raws)
    output = capsys.readouterr()
    text = output.out + output.err
    assert "outcome unknown" in text
    assert "canary" not in text
    assert json.loads(raws[0])["signature"]["sig"] not in text


def test_callbacks_of_a_group_are_delivered_together() -> None:
    ledger, told = SyncLedger(), Told()
    deliveries: list[int] = []

    def deliver(calls: list[Callable[[], None]]) -> None:
        deliveries.append(len(calls))
        for call in calls:
            call()

    ledger.writer._deliver = deliver
    run(ledger, batch(ledger, RA[:1], told), batch(ledger, RB[:1], told), seal(told))
    assert deliveries == [2, 1]
