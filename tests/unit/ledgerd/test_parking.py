"""Receipts ahead of their chain, through the real admission and writer: parked, settled, bounded."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from ledgerd.parking import Parking
from ledgerd.store.memory import Fault
from ledgerd.writer import BatchJob, BatchResult, ForsakeJob, UnparkJob
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.profile import Profiles
from tests.helpers.agents import Agent, FarleyAgent, link
from tests.helpers.other_agents import NUMBERED, BareAgent, NumberedAgent
from tests.helpers.sync_ledger import NOW, SyncLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ledgerd.admission import Answer
    from ledgerd.store.interface import Changes

A, B = Agent("agent-1", 1), Agent("agent-2", 2)
FARLEY, NUMBERS = FarleyAgent("issuer-1", 3), NumberedAgent("agent-3", 4)
RA, RB, RF, RN = A.receipts(9), B.receipts(3), FARLEY.receipts(9), NUMBERS.receipts(9)
CHAINS = pytest.mark.parametrize(
    ("agent", "raws"), [(A, RA), (FARLEY, RF), (NUMBERS, RN)], ids=["numbered", "linked", "bare"]
)
WAIT = 2.0
PROFILES = Profiles.with_folder([("numbered.toml", NUMBERED)])


class Lot:
    """A ledger that parks, a clock that a test moves, and what each batch was told."""

    def __init__(
        self,
        *,
        receipts: int = 100,
        size: int = 10**6,
        wait: float = WAIT,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.time = 50.0
        self.parking = Parking(
            max_receipts=receipts,
            max_bytes=size,
            wait_seconds=wait,
            clock=clock or (lambda: self.time),
        )
        self.ledger = SyncLedger(parking=self.parking, profiles=PROFILES)
        self.told: dict[str, BatchResult | ServiceError] = {}
        self.commits: list[int] = []
        self.ledger.store.before_commit = self._look

    def _look(self, count: int, changes: Changes) -> None:
        del count
        if changes.admitted:
            self.commits.append(len(changes.admitted))

    def job(self, name: str, raws: Sequence[bytes], owner: object = None) -> BatchJob:
        def done(result: BatchResult | ServiceError) -> None:
            assert name not in self.told, "a batch is answered once"
            self.told[name] = result

        items = self.ledger.verify(raws, hints=[FARLEY.public_key, NUMBERS.public_key])
        return BatchJob(items, done, owner)

    def send(self, name: str, raws: Sequence[bytes], owner: object = None) -> None:
        self.ledger.writer.step([self.job(name, raws, owner)], NOW)

    def pass_by(self, seconds: float) -> None:
        """Time, and the writer's look at it."""
        self.time += seconds
        self.ledger.writer.step([], NOW)

    def answers(self, name: str) -> list[Answer]:
        result = self.told[name]
        assert isinstance(result, BatchResult)
        return result.answers

    def words(self, name: str) -> list[tuple[str, int]]:
        """Outcome and position of each receipt of a batch."""
        return [
            (a.reason or ("duplicate" if a.duplicate else "accepted"), a.position)
            for a in self.answers(name)
        ]

    def count(self, result: str) -> float | None:
        return self.ledger.metrics.value("ledger_unparked_total", {"result": result})

    def held(self) -> list[bytes]:
        """Bytes of the receipts that the chain of the first one has."""
        store, found = self.ledger.store, []
        for chain, head in store.chains():
            for position in range(head.position + 1):
                stored = store.receipt(chain, position)
                assert stored is not None
                found.append(stored.raw)
        return found


def accepted(*positions: int) -> list[tuple[str, int]]:
    return [("accepted", position) for position in positions]


# Held, and admitted


@CHAINS
def test_a_receipt_ahead_waits_for_what_is_missing_from_any_stream(
    agent: Agent, raws: list[bytes]
) -> None:
    lot = Lot()
    lot.send("first", raws[:1])
    lot.send("ahead", raws[2:4], "one stream")
    assert "ahead" not in lot.told
    assert lot.held() == raws[:1]
    assert lot.ledger.metrics.value("ledger_parked_receipts") == 2
    lot.send("missing", raws[1:2], "another stream")
    assert lot.words("missing") == accepted(1)
    assert lot.words("ahead") == accepted(2, 3)
    assert [a.chain for a in lot.answers("ahead")] == [agent.chain] * 2
    assert lot.held() == raws[:4]
    assert lot.commits == [1, 3]
    assert lot.count("admitted") == 2
    assert (lot.parking.receipts, lot.parking.bytes) == (0, 0)
    assert lot.ledger.metrics.value("ledger_parked_bytes") == 0
    lot.ledger.seal()
    assert lot.ledger.prove_all() == 4
    lot.ledger.audit()


@CHAINS
def test_any_order_within_one_batch_is_one_commit(agent: Agent, raws: list[bytes]) -> None:
    del agent
    lot = Lot()
    order = [4, 2, 0, 3, 1, 5]
    lot.send("batch", [raws[n] for n in order])
    assert lot.words("batch") == accepted(*order)
    assert lot.held() == raws[:6]
    assert lot.commits == [6]
    assert lot.parking.receipts == 0


@CHAINS
def test_a_chain_that_comes_backwards_is_admitted_with_its_first_receipt(
    agent: Agent, raws: list[bytes]
) -> None:
    del agent
    lot = Lot()
    for number in range(8, 0, -1):
        lot.send(str(number), [raws[number]])
    assert lot.told == {}
    lot.send("0", [raws[0]])
    assert {name: lot.words(name) for name in lot.told} == {
        str(number): accepted(number) for number in range(9)
    }
    assert lot.commits == [9]


def test_the_others_of_a_batch_are_durable_while_it_waits() -> None:
    lot = Lot()
    lot.send("batch", [RB[0], RA[1], RB[1], b"x"])
    assert lot.told == {}
    assert lot.held() == RB[:2]
    lot.send("other", RB[2:])  # and nobody else waits
    assert lot.words("other") == accepted(2)
    lot.send("missing", RA[:1])
    assert lot.words("batch") == [
        ("accepted", 0),
        ("accepted", 1),
        ("accepted", 1),
        ("malformed", 0),
    ]


def test_a_batch_says_how_far_it_is_durable_when_it_is_answered() -> None:
    """A sender that asked for a seal waits for the one that covers its last receipt."""
    lot = Lot()
    lot.send("batch", [RB[0], RA[1]])
    lot.send("missing", [RA[0]])
    waited, other = lot.told["batch"], lot.told["missing"]
    assert isinstance(waited, BatchResult)
    assert isinstance(other, BatchResult)
    assert (waited.next_number, other.next_number) == (3, 3)
    assert (waited.waited, other.waited) == (True, False)


def test_several_batches_of_one_group_are_each_answered_when_they_can_be() -> None:
    lot = Lot()
    jobs = [lot.job("two", [RA[2], RB[0]]), lot.job("none", []), lot.job("four", [RA[4], RA[1]])]
    lot.ledger.writer.step(jobs, NOW)
    assert list(lot.told) == ["none"]
    lot.send("zero", [RA[0]])
    assert lot.words("two") == accepted(2, 0)
    assert "four" not in lot.told
    lot.send("three", [RA[3]])
    assert lot.words("four") == accepted(4, 1)


def test_a_receipt_that_waits_twice_is_stored_once() -> None:
    lot = Lot()
    lot.send("one", [RA[1]], 1)
    lot.send("two", [RA[1], RA[1]], 2)
    lot.send("missing", [RA[0], RA[1]], 3)
    assert lot.words("missing") == accepted(0, 1)
    assert lot.words("one") == [("duplicate", 1)]
    assert lot.words("two") == [("duplicate", 1)] * 2
    assert lot.count("duplicate") == 3
    assert lot.held() == RA[:2]


def test_what_has_no_order_is_never_parked() -> None:
    lot = Lot()
    agent = BareAgent()
    raws = agent.receipts(3)
    items = lot.ledger.verify(raws[::-1], hints=[agent.public_key])
    lot.ledger.writer.step([BatchJob(items, lambda result: lot.told.update(all=result))], NOW)
    assert lot.words("all") == accepted(0, 1, 2)
    assert lot.held() == raws[::-1]


# Not admitted


@CHAINS
def test_what_does_not_come_in_time_is_a_gap(agent: Agent, raws: list[bytes]) -> None:
    del agent
    lot = Lot()
    lot.send("first", raws[:1])
    lot.send("ahead", raws[3:5])
    lot.pass_by(WAIT - 0.01)
    assert "ahead" not in lot.told
    lot.pass_by(0.02)
    assert lot.words("ahead") == [("gap", 1)] * 2
    linked = raws is not RN
    for answer in lot.answers("ahead"):
        assert answer.expected == (link(raws[0]) if linked else None)
        assert answer.detail.endswith("; what is missing did not come while this one waited")
        assert "expected next" in answer.detail
    assert lot.count("timed_out") == 2
    rejected = ("ledger_receipts_rejected_total", {"reason": "gap"})
    assert lot.ledger.metrics.value(*rejected) == 2
    lot.send("again", raws[1:5])
    assert lot.words("again") == accepted(1, 2, 3, 4)


def test_waits_end_one_by_one_the_oldest_first() -> None:
    lot = Lot()
    for name, raw in (("a", RA[2]), ("b", RF[2]), ("c", RA[3])):
        lot.send(name, [raw])
        lot.time += 0.5
    assert lot.parking.seconds_left() == pytest.approx(0.5)
    lot.pass_by(0.5)
    assert list(lot.told) == ["a"]
    lot.pass_by(WAIT)
    assert list(lot.told) == ["a", "b", "c"]
    assert lot.parking.seconds_left() is None
    lot.pass_by(WAIT)


def test_without_a_wait_a_gap_is_said_at_once() -> None:
    lot = Lot(wait=0)
    lot.send("ahead", [RA[1], RA[0]])
    assert lot.words("ahead") == [("gap", 0), ("accepted", 0)]
    assert not any("waited" in answer.detail for answer in lot.answers("ahead"))
    assert lot.count("no_room") == 0


@pytest.mark.parametrize("first", [0, 1], ids=["stored one first", "other one first"])
def test_two_that_wait_for_one_place_are_a_fork(first: int) -> None:
    """Both are signed by the agent's key: one is stored, the other one kept as evidence."""
    lot = Lot()
    rivals = [RF[2], FARLEY.receipt(2, link(RF[1]), note="rival")]
    lot.send("one", [rivals[first]])
    lot.send("other", [rivals[1 - first]])
    lot.send("rest", RF[:2])
    assert lot.words("one") == accepted(2)
    assert lot.words("other") == [("fork", 2)]
    assert lot.held() == [*RF[:2], rivals[first]]
    (kept,) = lot.ledger.store.forks(FARLEY.chain)
    assert kept.raw == rivals[1 - first]
    assert lot.count("refused") == 1


def test_a_fork_that_links_elsewhere_is_found_when_its_wait_is_over() -> None:
    lot = Lot()
    rival = A.receipt(3, link(b"elsewhere"))
    lot.send("rival", [rival])
    lot.send("chain", RA[:5])
    assert "rival" not in lot.told
    lot.pass_by(WAIT)
    assert lot.words("rival") == [("fork", 3)]
    assert lot.ledger.store.forks(A.chain)[0].raw == rival
    assert lot.count("refused") == 1


def test_a_number_out_of_turn_is_said_when_its_predecessor_comes() -> None:
    lot = Lot()
    jumps = A.receipt(7, link(RA[1]))
    lot.send("jumps", [jumps])
    lot.send("chain", RA[:2])
    assert lot.words("jumps") == [("wrong_sequence", 2)]


def test_a_number_that_was_taken_meanwhile_is_a_fork() -> None:
    lot = Lot()
    rival = NUMBERS.receipt(3, note="rival")
    lot.send("rival", [rival])
    lot.send("chain", RN[:4])
    assert lot.words("rival") == [("fork", 2)]


def test_the_key_of_a_new_chain_is_that_of_its_first_receipt() -> None:
    """Verified under a key of its own while the chain had none; admission decides again."""
    lot = Lot()
    forger = Agent("agent-1", 9)
    lot.send("forged", [forger.receipts(2)[1]])
    lot.send("forged too", [forger.receipt(1, link(RA[0]))])
    lot.send("chain", RA[:2])
    assert lot.words("chain") == accepted(0, 1)
    assert lot.words("forged too") == [("wrong_key", 2)]
    lot.pass_by(WAIT)
    assert lot.words("forged") == [("wrong_key", 2)]
    assert lot.ledger.store.forks(A.chain) == []


# Bounds


def test_a_chain_may_have_so_many_and_others_have_theirs() -> None:
    lot = Lot(receipts=2)
    lot.send("a", [RA[1], RA[2], RA[2], RB[1]])
    lot.send("full", [RA[2]])
    assert lot.words("full") == [("gap", 0)]
    assert lot.count("no_room") == 2
    lot.send("missing", [RA[0], RB[0]])
    assert lot.words("a") == [("accepted", 1), ("accepted", 2), ("gap", 0), ("accepted", 1)]
    lot.send("room again", [RA[4]])
    assert "room again" not in lot.told


def test_all_together_may_have_so_many_bytes() -> None:
    lot = Lot()
    lot.send("one", [RA[1]])
    each = lot.parking.bytes
    assert each > len(RA[1])
    lot = Lot(size=2 * each)
    lot.send("one", [RA[1]])
    lot.send("two", [RB[1]])
    lot.send("three", [RF[1]])
    assert list(lot.told) == ["three"]
    assert lot.words("three") == [("gap", 0)]
    assert lot.parking.bytes <= 2 * each
    lot.pass_by(WAIT)
    lot.send("again", [RF[1]])
    assert "again" not in lot.told


@pytest.mark.parametrize(
    ("agent", "previous"), [(A, link(b"missing")), (NUMBERS, None)], ids=["linked", "bare"]
)
def test_a_number_may_be_so_far_ahead(agent: Agent, previous: bytes | None) -> None:
    lot = Lot(receipts=3)
    first = 0 if agent is A else 1
    lot.send("new chain", [agent.receipt(first + number, previous) for number in (3, 4)])
    lot.pass_by(WAIT)
    assert lot.words("new chain") == [("gap", 0)] * 2
    assert ["waited" in answer.detail for answer in lot.answers("new chain")] == [True, False]
    lot.send("chain", [agent.receipt(first, None)])
    lot.send("known chain", [agent.receipt(first + number, previous) for number in (4, 5)])
    lot.pass_by(WAIT)
    assert ["waited" in answer.detail for answer in lot.answers("known chain")] == [True, False]


def test_a_flood_leaves_nothing_behind() -> None:
    """Filled again and again, by receipts that no one ever completes."""
    lot = Lot(receipts=5, size=50_000)
    for turn in range(30):
        agent = Agent(f"flood-{turn % 7}", 20 + turn % 7)
        raws = [agent.receipt(1 + n, link(b"never %d" % n), salt=turn) for n in range(8)]
        lot.send(str(turn), raws)
        assert lot.parking.bytes <= 50_000
        assert lot.parking.receipts <= 10
        lot.pass_by(WAIT / 3)
    lot.pass_by(WAIT)
    assert len(lot.told) == 30
    assert {word for turn in range(30) for word in lot.words(str(turn))} == {("gap", 0)}
    assert (lot.parking.bytes, lot.parking.receipts) == (0, 0)
    assert not lot.parking._chains
    assert not lot.parking._batches


# Ends


def test_what_a_gone_stream_left_is_dropped() -> None:
    lot = Lot(receipts=2)
    lot.send("gone", [RA[1], RB[0], RA[2]], "gone")
    lot.send("stays", [RF[1]], "stays")
    lot.ledger.writer.forsake(ForsakeJob("gone"))
    assert lot.count("dropped") == 2
    assert lot.ledger.metrics.value("ledger_parked_receipts") == 1
    lot.send("again", RA[1:3], "new")  # there is room, and it waits again
    lot.send("first", [RA[0], RF[0]], "new")
    assert lot.words("again") == accepted(1, 2)
    assert lot.words("stays") == accepted(1)
    lot.pass_by(WAIT)
    assert "gone" not in lot.told
    lot.ledger.writer.forsake(ForsakeJob("gone"))
    assert lot.count("dropped") == 2


def test_draining_answers_what_waits_and_lets_nothing_wait_again() -> None:
    lot = Lot()
    lot.send("waits", [RA[1], RB[0]])
    lot.ledger.writer.unpark()
    assert lot.words("waits") == [("gap", 0), ("accepted", 0)]
    lot.send("late", [RA[2]])
    assert lot.words("late") == [("gap", 0)]
    assert lot.count("no_room") == 0
    lot.ledger.writer.unpark()


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DONE])
@pytest.mark.parametrize("filling", [True, False])
def test_a_failed_commit_takes_all_that_waits_with_it(fault: Fault, filling: bool) -> None:
    """Whatever became of it is unknown, and everybody asks for the head and sends again."""
    lot = Lot()
    lot.send("waits", [RA[1]])
    lot.send("waits too", [RF[1], RB[0]])
    lot.ledger.store.fail_next(fault)
    lot.send("fails", [RA[0]] if filling else [RB[1]])
    assert set(lot.told) == {"waits", "waits too", "fails"}
    for result in lot.told.values():
        assert isinstance(result, ServiceError)
        assert result.reason is Reason.UNAVAILABLE
    assert (lot.parking.receipts, lot.parking.bytes) == (0, 0)
    assert lot.count("dropped") == 2
    lot.send("again", [RA[1], RA[0], RF[1]])
    done = filling and fault is Fault.DONE
    lot.pass_by(WAIT)
    words = ["duplicate", "duplicate", "gap"] if done else ["accepted", "accepted", "gap"]
    assert [word for word, _ in lot.words("again")] == words
    lot.ledger.audit()


def test_a_crash_loses_only_what_was_never_answered() -> None:
    lot = Lot()
    lot.send("waits", [RA[0], RA[2]])
    survivor = lot.ledger.crash()
    assert [a.duplicate for a in survivor.append(RA[:3])] == [True, False, False]


# The thread


def test_the_thread_ends_a_wait_by_itself() -> None:
    lot = Lot(wait=0.05, clock=time.monotonic)
    told = threading.Event()

    def deliver(calls: list[Callable[[], None]]) -> None:
        for call in calls:
            call()
            told.set()

    lot.ledger.writer._deliver = deliver
    lot.ledger.writer.start()
    lot.ledger.writer.submit(lot.job("ahead", [RA[1]]))
    assert told.wait(30)
    assert lot.words("ahead") == [("gap", 0)]
    told.clear()
    lot.ledger.writer.submit(lot.job("next", [RA[0]]))
    assert told.wait(30)
    lot.ledger.writer.stop()
    assert lot.words("next") == accepted(0)


def test_the_thread_takes_every_kind_of_job() -> None:
    lot = Lot()
    writer = lot.ledger.writer
    writer.submit(lot.job("gone", [RA[1]], "gone"))
    writer.submit(ForsakeJob("gone"))
    writer.submit(lot.job("waits", [RA[2]]))
    writer.submit(UnparkJob())
    writer.submit(lot.job("late", [RA[3]]))
    writer._jobs.put(None)
    writer._run()
    assert list(lot.told) == ["waits", "late"]
    assert lot.count("dropped") == 1
