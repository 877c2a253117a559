"""The order of the durable writes: each one lost, and each one done but reported lost.

A scripted run makes a handful of durable writes: commits of admissions, of timestamps and their
evidence, commits of seals, guard writes. Each of them is made to fail once in every way it can, and
then the sender and the operator go on in every way they might. Whatever happened, at the end:

- every acknowledged receipt is there, and sealed;
- every token that was said to be stored is there, with one leaf, and its evidence too;
- no two published checkpoints of one size differ, and each extends every earlier one;
- the guard is never behind what was published;
- every chain verifies, from receipts to bundles, and fsck finds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from ledgerd.guard import GuardError
from ledgerd.sequencer import RecoveryError
from ledgerd.store.interface import Changes, StoreError
from ledgerd.store.memory import Fault, MemoryStore
from ledgerd.writer import BatchResult
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.note import NoteSigner
from tests.helpers.agents import Agent
from tests.helpers.stamps import intend, prove, stamp
from tests.helpers.sync_ledger import SIGNER, MemoryGuard, Promises, SyncLedger

A, B, C, STRANGER = (Agent(f"agent-{number}", number) for number in (1, 2, 3, 4))
RA, RB, RC = A.receipts(6), B.receipts(3), C.receipts(2)
STRANGE = STRANGER.receipts(12)

# What the senders want, in order; None is a seal. Agent B's second batch comes with a duplicate.
# What the anchorer wants is (what, name of the token): its evidence comes after its leaf for the first
# token, so that a seal is of that alone, and before its leaf for the second.
Step = list[list[bytes]] | tuple[str, str] | None
SCRIPT: list[Step] = [
    [RA[:2], RB[:1]],
    None,
    ("intend", "one"),
    ("keep", "one"),
    [RA[2:4]],
    [RC, RB[1:2]],
    None,
    ("prove", "one"),
    None,
    ("keep", "two"),
    ("prove", "two"),
    [RA[3:6], RB[1:3]],
    None,
]
WANTED = {*RA, *RB, *RC}
AFTERMATHS = ("go on", "other batch first", "power loss", "kill", "power loss, other batch first")


@dataclass
class Faults:
    """Counts the durable writes of all processes of a run, and lets some of them fail."""

    plan: dict[int, str]
    writes: list[str] = field(default_factory=list)
    hit: list[int] = field(default_factory=list)

    def __call__(self, kind: str) -> str:
        at = len(self.writes)
        self.writes.append(kind)
        fault = self.plan.get(at, "")
        if fault:
            self.hit.append(at)
        return fault

    def commit(self, count: int, changes: Changes) -> Fault | None:
        del count
        kind = "seal" if changes.sealed is not None else "admission"
        fault = self("anchoring" if changes.has_anchoring else kind)
        return Fault(fault) if fault else None

    def guard(self) -> str:
        fault = self("guard")
        return "lost" if fault == Fault.UNSYNCED else fault


class Run:
    """One run of the script under a plan of faults."""

    def __init__(self, plan: dict[int, str], aftermath: str) -> None:
        self.faults = Faults(plan)
        self.aftermath = aftermath
        self.strange = iter(STRANGE)
        self.promises = Promises()
        self.guard = MemoryGuard()
        self.guard.before_write = self.faults.guard
        self.store = MemoryStore()
        self.store.before_commit = self.faults.commit
        self.ledger = self.start()
        self.restarts = 0

    def start(self) -> SyncLedger:
        """A process that comes up, if need be at the second or third attempt."""
        for _ in range(4):
            ledger = SyncLedger(self.store, self.guard, self.promises, recover=False)
            try:
                ledger.sequencer.recover()
            except (StoreError, OSError):
                self.replace_store(power=self.aftermath != "kill")
            else:
                return ledger
        raise AssertionError("it does not start any more")

    def replace_store(self, *, power: bool) -> None:
        self.store = self.store.crash(power=power)
        self.store.before_commit = self.faults.commit

    def restart(self) -> None:
        self.restarts += 1
        self.replace_store(power="power" in self.aftermath)
        self.ledger = self.start()

    def play(self) -> None:
        for step in SCRIPT:
            for attempt in range(6):
                if self.attempt(step):
                    break
                if attempt == 3:
                    self.restart()  # an operator looks at last
                else:
                    self.after_failure()
            else:
                raise AssertionError("it never succeeds again")

    def attempt(self, step: Step) -> bool:
        if step is None:
            return not isinstance(self.ledger.seal(), ServiceError)
        if isinstance(step, tuple):
            return self.anchor(*step)
        results = self.ledger.send(*step)
        for result in results:
            if isinstance(result, ServiceError):
                assert result.reason is Reason.UNAVAILABLE
            else:
                assert [answer.detail for answer in result.answers if answer.reason] == []
        return all(isinstance(result, BatchResult) for result in results)

    def anchor(self, what: str, token: str) -> bool:
        """As the anchorer does it: what may be there already is looked for after a commit only."""
        ledger = self.ledger
        if ledger.commit(Changes()) is not None:
            return False
        stored = [one for one in ledger.store.anchors() if one.response == token.encode()]
        if what == "intend":
            changes = intend(ledger.store)
        elif what == "prove":
            changes = prove(stored[0], token.encode(), b"list of all")
        elif stored:
            ledger.promises.committed(Changes(anchors=stored))
            return True
        else:
            changes = stamp(ledger.store)
            changes.anchors = [replace(changes.anchors[0], response=token.encode())]
        return ledger.commit(changes) is None

    def after_failure(self) -> None:
        if "power" in self.aftermath or self.aftermath == "kill":
            self.restart()
        if "other" in self.aftermath:
            self.ledger.send([next(self.strange)])
            self.ledger.seal()

    def check(self) -> None:
        """Everything wanted is promised, sealed, proven; then the audit, after a power loss."""
        assert not isinstance(self.ledger.seal(), ServiceError)
        store = self.ledger.store
        assert sorted(one.response for one in store.anchors()) == [b"one", b"two"]
        assert len(self.promises.anchors) == 2
        assert [one.evidence_leaf_index is None for one in store.anchors()] == [False, False]
        assert store.unsealed_anchors() == store.intents() == []
        promised = {raw for _, _, raw in self.promises.receipts.values()}
        assert promised >= WANTED
        assert self.ledger.prove_all() >= len(promised)
        state = self.ledger.state
        assert state is not None
        assert self.promises.published[state.size] == state.note
        self.ledger.audit()


def run(plan: dict[int, str], aftermath: str) -> Run:
    made = Run(plan, aftermath)
    made.play()
    made.check()
    return made


WRITES = run({}, "go on").faults.writes


def test_the_script_makes_the_writes_it_is_about() -> None:
    assert [
        *("seal", "guard"),  # the empty log
        *("admission", "seal", "guard"),
        *("admission", "anchoring", "admission", "anchoring"),  # the first of each two is empty
        *("admission", "admission", "seal", "guard"),
        *("admission", "anchoring", "seal", "guard"),
        *("admission", "anchoring", "admission", "anchoring"),
        *("admission", "seal", "guard"),
    ] == WRITES


@pytest.mark.parametrize("aftermath", AFTERMATHS)
@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("at", range(len(WRITES)), ids=lambda at: f"{at} {WRITES[at]}")
def test_one_write_fails(at: int, fault: Fault, aftermath: str) -> None:
    made = run({at: fault}, aftermath)
    assert made.faults.hit == [at]


@pytest.mark.parametrize("aftermath", AFTERMATHS)
def test_two_writes_fail(aftermath: str) -> None:
    """The second fault meets the recovery from the first: the reload, the start, or the next step."""
    for first in range(len(WRITES)):
        for second in range(first + 1, first + 4):
            for faults in (("lost", "done"), ("done", "done")):
                made = run(dict(zip((first, second), faults, strict=True)), aftermath)
                assert made.faults.hit[0] == first


def test_a_batch_whose_commit_is_in_doubt_is_never_acknowledged() -> None:
    for fault in Fault:
        ledger = SyncLedger()
        ledger.store.fail_next(fault)
        (result,) = ledger.send(RA[:2])
        assert isinstance(result, ServiceError)
        assert ledger.promises.receipts == {}


def test_a_duplicate_of_what_may_not_be_durable_is_not_acknowledged() -> None:
    """Readers see an unsynced batch; a resend must not be told it is there."""
    ledger = SyncLedger()
    ledger.store.fail_next(Fault.UNSYNCED)
    ledger.send(RA[:2])
    for _ in range(3):
        (result,) = ledger.send(RA[:2])
        assert isinstance(result, ServiceError)
    after = ledger.crash(power=True)
    assert [answer.duplicate for answer in after.append(RA[:2])] == [False, False]
    after.audit()


def test_a_checkpoint_that_may_not_be_durable_is_neither_guarded_nor_published() -> None:
    """Else a power loss leaves a guard ahead of the database, and the log can never start again."""
    ledger = SyncLedger()
    ledger.append(RA[:2])
    ledger.store.fail_next(Fault.UNSYNCED)
    for _ in range(3):
        assert isinstance(ledger.seal(), ServiceError)
        assert isinstance(ledger.send(RA[2:3])[0], ServiceError)
    assert set(ledger.promises.published) == {0}
    assert ledger.guard.size == 0
    after = ledger.crash(power=True)
    assert not isinstance(after.seal(), ServiceError)
    after.audit()


def test_sealed_receipts_are_not_sealed_twice_after_a_seal_reported_lost() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:3])
    ledger.store.fail_next(Fault.DONE)
    assert isinstance(ledger.seal(), ServiceError)
    assert ledger.seal() is None
    assert ledger.state is not None
    assert ledger.state.size == 2
    ledger.audit()


# Timestamps


@pytest.mark.parametrize("fault", list(Fault))
def test_a_token_whose_commit_is_in_doubt_gets_at_most_one_leaf(fault: Fault) -> None:
    ledger = sealed(1)
    ledger.store.fail_next(fault)
    assert ledger.commit(stamp(ledger.store)) is not None
    assert ledger.promises.anchors == {}
    after = ledger.crash(power=True)
    after.seal()
    there = fault is Fault.DONE
    assert [one.leaf_index for one in after.store.anchors()] == [2] * there
    after.audit()


def test_a_number_given_in_doubt_is_not_given_again_to_another_token() -> None:
    """The commit was done and reported lost; whoever does not look is refused, and nothing is lost."""
    ledger = sealed(1)
    first, second = stamp(ledger.store), stamp(ledger.store, salt="another")
    ledger.store.fail_next(Fault.DONE)
    ledger.commit(first)
    assert isinstance(ledger.commit(second), ServiceError)
    assert ledger.store.anchor(0) == first.anchors[0]
    assert ledger.commit(stamp(ledger.store, salt="another")) is None
    ledger.seal()
    assert [one.leaf_index for one in ledger.store.anchors()] == [2, 3]
    ledger.audit()


def test_a_seal_of_anchors_reported_lost_is_not_made_twice() -> None:
    ledger = sealed(1)
    ledger.commit(stamp(ledger.store))
    ledger.store.fail_next(Fault.DONE)
    assert isinstance(ledger.seal(), ServiceError)
    assert ledger.seal() is None
    assert (ledger.sequencer.tree_size, ledger.sequencer.content_size) == (3, 2)
    ledger.audit()


def test_a_seal_of_anchors_that_was_lost_is_made_again() -> None:
    ledger = sealed(1)
    ledger.commit(stamp(ledger.store))
    ledger.store.fail_next(Fault.LOST)
    assert isinstance(ledger.seal(), ServiceError)
    assert not isinstance(ledger.seal(), ServiceError)
    assert (ledger.sequencer.tree_size, ledger.sequencer.content_size) == (3, 2)
    ledger.audit()


def test_an_anchor_seal_that_may_not_be_durable_is_neither_guarded_nor_published() -> None:
    ledger = sealed(1)
    ledger.commit(stamp(ledger.store))
    ledger.store.fail_next(Fault.UNSYNCED)
    for _ in range(2):
        assert isinstance(ledger.seal(), ServiceError)
        assert isinstance(ledger.commit(intend(ledger.store)), ServiceError)
    assert max(ledger.promises.published) == ledger.guard.size == 2
    after = ledger.crash(power=True)
    assert not isinstance(after.seal(), ServiceError)
    assert after.sequencer.tree_size == 3
    after.audit()


# The guard against the database


def sealed(count: int) -> SyncLedger:
    """A ledger with `count` seals of one receipt each."""
    ledger = SyncLedger()
    for raw in RA[:count]:
        ledger.append([raw])
        ledger.seal()
    return ledger


def test_a_stale_restore_is_refused() -> None:
    ledger = sealed(2)
    backup = ledger.store.crash()
    ledger = SyncLedger(backup.crash(), ledger.guard, ledger.promises)
    ledger.append(RA[2:3])
    ledger.seal()
    with pytest.raises(GuardError, match="restored from an old copy"):
        SyncLedger(backup.crash(), ledger.guard)


def test_a_stale_restore_is_refused_even_when_a_guard_may_be_created() -> None:
    ledger = sealed(2)
    old = SyncLedger(recover=False)
    old.guard.note = ledger.guard.note
    with pytest.raises(GuardError, match="database is empty, but the guard says 3"):
        old.sequencer.recover(create_guard=True)
    assert old.store.log_state() is None


def other_root(size: int) -> bytes:
    return sign_checkpoint(Checkpoint("example.com/log", size, bytes(32)), SIGNER)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_another_root_for_a_size_both_know_is_refused(size: int) -> None:
    ledger = sealed(2)
    ledger.guard.note = other_root(size)
    before = ledger.store.crash()
    with pytest.raises(GuardError, match=f"different roots for {size} leaves"):
        SyncLedger(before, ledger.guard)
    assert ledger.guard.note == other_root(size)


def test_a_missing_guard_is_refused_unless_it_may_be_created() -> None:
    ledger = sealed(1)
    ledger.guard.note = None
    store = ledger.store.crash()
    again = SyncLedger(store, ledger.guard, recover=False)
    with pytest.raises(GuardError, match="guard file is missing, but the log has 2 leaves"):
        again.sequencer.recover()
    assert ledger.guard.note is None
    again.sequencer.recover(create_guard=True)
    assert ledger.guard.size == 2


def test_a_guard_missing_for_an_empty_log_is_the_crash_of_the_first_start() -> None:
    guard = MemoryGuard()
    guard.faults = ["lost"]
    ledger = SyncLedger(guard=guard, recover=False)
    with pytest.raises(OSError, match="guard write lost"):
        ledger.sequencer.recover()
    assert ledger.promises.published == {}
    again = SyncLedger(ledger.store.crash(), guard, ledger.promises)
    assert set(again.promises.published) == {0}
    again.audit()


def test_a_database_ahead_of_the_guard_advances_it_and_publishes() -> None:
    ledger = sealed(1)
    ledger.append(RA[1:2])
    ledger.guard.faults = ["lost"]
    assert isinstance(ledger.seal(), ServiceError)
    assert set(ledger.promises.published) == {0, 2}
    after = ledger.crash()
    assert set(after.promises.published) == {0, 2, 3}
    assert after.guard.size == 3
    after.audit()


def test_a_database_far_ahead_whose_older_tiles_are_gone_is_damage_not_a_traceback() -> None:
    ledger = SyncLedger()
    agents = [Agent(f"agent-{number}", number) for number in range(1, 4)]
    ledger.append([agent.receipts(1)[0] for agent in agents])
    ledger.seal()
    note = ledger.guard.note
    for number in range(10, 140):
        ledger.append(Agent(f"agent-{number}", number).receipts(1))
    ledger.seal()
    assert ledger.state is not None
    assert ledger.state.size > 256
    store = ledger.store.crash()
    del store._tables.tiles[next(tile for tile in store._tables.tiles if tile == (0, 0))]
    ledger.guard.note = note
    with pytest.raises(RecoveryError, match="damaged"):
        SyncLedger(store, ledger.guard)


@pytest.mark.parametrize("lost", [False, True], ids=["with a log", "database lost"])
@pytest.mark.parametrize("note", [b"", b"garbage\n", b"of another key"])
def test_a_guard_that_is_no_checkpoint_of_this_log_is_refused(note: bytes, lost: bool) -> None:
    ledger = sealed(1)
    if note == b"of another key":
        other = NoteSigner.from_seed("example.com/log", bytes(32))
        note = sign_checkpoint(Checkpoint("example.com/log", 2, bytes(32)), other)
    store = MemoryStore() if lost else ledger.store.crash()
    ledger.guard.note = note
    with pytest.raises(GuardError, match="not a checkpoint of this log"):
        SyncLedger(store, ledger.guard)


def test_an_empty_guard_of_an_empty_database_is_a_new_log() -> None:
    guard = SyncLedger().guard
    assert guard.size == 0
    again = SyncLedger(MemoryStore(), guard)
    assert again.state is not None
    assert again.state.size == 0
