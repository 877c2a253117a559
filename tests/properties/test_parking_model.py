"""Receipts in any order, over streams that come and go, against a simple model of what is held.

The model is one list of receipts per agent and one of what waits. It predicts which receipts are stored,
what waits, and every answer; nothing is ever answered twice, or later than its wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ledgerd.parking import Parking
from ledgerd.store.memory import Fault
from ledgerd.writer import BatchJob, BatchResult, ForsakeJob
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.profile import Profiles
from tests.helpers.agents import Agent, FarleyAgent
from tests.helpers.other_agents import NUMBERED, NumberedAgent
from tests.helpers.sync_ledger import NOW, SyncLedger

if TYPE_CHECKING:
    from ledgerd.admission import Answer
    from ledgerd.store.interface import Changes

LENGTH, MOST, WAIT = 12, 4, 10
AGENTS = [Agent("agent-1", 1), FarleyAgent("issuer-1", 2), NumberedAgent("agent-3", 3)]
RAWS = [agent.receipts(LENGTH) for agent in AGENTS]
HINTS = [agent.public_key for agent in AGENTS]
NUMBERS = [True, False, True]  # whether its number says how far ahead a receipt is
PROFILES = Profiles.with_folder([("numbered.toml", NUMBERED)])
STREAMS = ("red", "green", "blue")


@dataclass(eq=False)
class Batch:
    """What a batch should be told, and what it was."""

    stream: str
    expected: list[tuple[str, int] | None] = field(default_factory=list)  # None: it waits
    told: BatchResult | ServiceError | None = None


@dataclass(eq=False)
class Waiting:
    """One receipt that waits, by agent and place."""

    who: int
    place: int
    until: int
    batch: Batch
    at: int

    def settle(self, word: str, position: int) -> None:
        self.batch.expected[self.at] = (word, position)


class ParkingModel(RuleBasedStateMachine):
    """Random orders for one ledger."""

    @initialize()
    def begin(self) -> None:
        self.time = 0
        self.parking = Parking(
            max_receipts=MOST,
            max_bytes=10**6,
            wait_seconds=WAIT,
            clock=lambda: float(self.time),
        )
        self.ledger = SyncLedger(parking=self.parking, profiles=PROFILES)
        self.stored = [0 for _ in AGENTS]
        self.waiting: list[Waiting] = []
        self.batches: list[Batch] = []

    # The model.

    def admit(self, who: int, place: int, batch: Batch) -> None:
        stored = self.stored[who]
        if place < stored:
            batch.expected.append(("duplicate", place))
        elif place == stored:
            batch.expected.append(("accepted", place))
            self.stored[who] += 1
        elif self.room(who, place):
            self.waiting.append(Waiting(who, place, self.time + WAIT, batch, len(batch.expected)))
            batch.expected.append(None)
        else:
            batch.expected.append((Reason.GAP, stored))

    def room(self, who: int, place: int) -> bool:
        waiting = sum(one.who == who for one in self.waiting)
        return waiting < MOST and not (NUMBERS[who] and place - self.stored[who] > MOST)

    def release(self) -> None:
        while (one := self.ready()) is not None:
            word = "accepted" if one.place == self.stored[one.who] else "duplicate"
            one.settle(word, one.place)
            self.stored[one.who] = max(self.stored[one.who], one.place + 1)
            self.waiting.remove(one)
        for one in [one for one in self.waiting if one.until <= self.time]:
            one.settle(Reason.GAP, self.stored[one.who])
            self.waiting.remove(one)

    def ready(self) -> Waiting | None:
        """The oldest that waits for nothing."""
        return next((one for one in self.waiting if one.place <= self.stored[one.who]), None)

    # What happens.

    @rule(
        batches=st.lists(
            st.tuples(
                st.sampled_from(STREAMS),
                st.lists(
                    st.tuples(st.sampled_from(range(len(AGENTS))), st.integers(-2, 6)), max_size=5
                ),
            ),
            min_size=1,
            max_size=3,
        ),
        fault=st.sampled_from([*(None,) * 7, Fault.LOST, Fault.DONE]),
    )
    def send(self, batches: list[tuple[str, list[tuple[int, int]]]], fault: Fault | None) -> None:
        before = list(self.stored)
        jobs = []
        for stream, wanted in batches:
            batch, raws = Batch(stream), []
            for who, ahead in wanted:
                place = min(max(before[who] + ahead, 0), LENGTH - 1)
                raws.append(RAWS[who][place])
                self.admit(who, place, batch)
            self.batches.append(batch)

            def done(result: BatchResult | ServiceError, batch: Batch = batch) -> None:
                assert batch.told is None, "a batch is answered once"
                batch.told = result

            jobs.append(BatchJob(self.ledger.verify(raws, hints=HINTS), done, stream))
        self.release()
        hit = self.arm(fault)
        self.ledger.writer.step(jobs, NOW)
        self.settle(hit, before)

    @rule(seconds=st.integers(1, WAIT + 1))
    def time_goes_by(self, seconds: int) -> None:
        self.time += seconds
        self.release()
        self.ledger.writer.step([], NOW)
        self.check_answers()

    @rule(stream=st.sampled_from(STREAMS))
    def cut(self, stream: str) -> None:
        gone = [batch for batch in self.batches if batch.stream == stream]
        self.waiting = [one for one in self.waiting if one.batch not in gone]
        self.batches = [batch for batch in self.batches if batch not in gone]
        self.ledger.writer.forsake(ForsakeJob(stream))

    @rule()
    def seal(self) -> None:
        assert not isinstance(self.ledger.seal(), ServiceError)
        assert self.ledger.prove_all() == sum(self.stored)

    # The same for both.

    def arm(self, fault: Fault | None) -> list[Fault]:
        met: list[Fault] = []

        def before_commit(count: int, changes: Changes) -> Fault | None:
            del count
            if fault is None or not changes.admitted:
                return None
            met.append(fault)
            return fault

        self.ledger.store.before_commit = before_commit
        return met

    def settle(self, met: list[Fault], before: list[int]) -> None:
        self.ledger.store.before_commit = None
        if met:
            if met[0] is Fault.LOST:
                self.stored = before
            for batch in self.batches:
                assert isinstance(batch.told, ServiceError)
                assert batch.told.reason is Reason.UNAVAILABLE
            self.batches, self.waiting = [], []
        self.check_answers()

    def check_answers(self) -> None:
        for batch in list(self.batches):
            if None in batch.expected:
                assert batch.told is None, "answered while it waits"
                continue
            assert isinstance(batch.told, BatchResult)
            assert [_said(answer) for answer in batch.told.answers] == batch.expected
            self.batches.remove(batch)

    @invariant()
    def what_is_stored_is_a_chain_and_what_waits_is_counted(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for agent, raws, stored in zip(AGENTS, RAWS, self.stored, strict=True):
            for position in range(stored):
                found = self.ledger.store.receipt(agent.chain, position)
                assert found is not None
                assert found.raw == raws[position]
            assert self.ledger.store.receipt(agent.chain, stored) is None
        assert self.parking.receipts == len(self.waiting)
        assert (self.parking.bytes > 0) == bool(self.waiting)
        assert len(self.parking._batches) == len(self.batches)

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        self.time_goes_by(WAIT)
        assert self.batches == []
        assert not self.parking._chains
        self.ledger.seal()
        self.ledger.audit()


def _said(answer: Answer) -> tuple[str, int]:
    if answer.reason is not None:
        return answer.reason, answer.position
    return "duplicate" if answer.duplicate else "accepted", answer.position


ParkingModel.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestParkingModel = ParkingModel.TestCase
