"""The outbox against named cases and against a model server that loses answers and connections."""

from __future__ import annotations

from collections import deque
from hashlib import sha256

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from receiptledger.core.chain import Head
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.outbox import (
    OVERHEAD_BYTES,
    Batch,
    ForkError,
    LostReceiptsError,
    Outbox,
    OutboxFullError,
    RefusedError,
)
from receiptledger.wire import Answer


def digest(raw: bytes) -> bytes:
    return sha256(raw).digest()


def ok(raw: bytes, position: int, *, duplicate: bool = False) -> Answer:
    return Answer(None, duplicate, position, digest(raw))


def refused(raw: bytes, reason: Reason, position: int = 0, expected: bytes | None = None) -> Answer:
    return Answer(reason, False, position, digest(raw), expected, f"{reason}: because")


def filled(count: int, **options: object) -> tuple[Outbox, list[bytes]]:
    outbox = Outbox(**{"chained": True, **options})  # type: ignore[arg-type]
    raws = [b"receipt %d" % n for n in range(count)]
    for number, raw in enumerate(raws):
        assert outbox.add(raw) == number
    outbox.resume(None)
    return outbox, raws


def batch_of(outbox: Outbox, receipts: int = 64, size: int = 10_000) -> Batch:
    batch = outbox.next_batch(receipts, size)
    assert batch is not None
    return batch


def test_happy_path() -> None:
    outbox, raws = filled(3)
    batch = batch_of(outbox, 2)
    assert batch.receipts == tuple(raws[:2])
    assert (batch.first, outbox.unsent, outbox.in_flight, len(outbox)) == (0, 1, 1, 3)
    settled = outbox.on_answer(batch.batch_id, [ok(raws[0], 0), ok(raws[1], 1, duplicate=True)])
    assert [(s.number, s.raw) for s in settled] == [(0, raws[0]), (1, raws[1])]
    assert (outbox.settled, len(outbox), outbox.in_flight, outbox.added) == (2, 1, 0, 3)
    last = batch_of(outbox)
    assert last.batch_id != batch.batch_id
    assert last.first == 2
    assert outbox.next_batch(64, 10_000) is None
    outbox.on_answer(last.batch_id, [ok(raws[2], 2)])
    assert outbox.unacknowledged == ()


def test_batches_are_bounded_in_bytes() -> None:
    outbox = Outbox(chained=False)
    for size in (100, 100, 500, 10):
        outbox.add(bytes(size))
    outbox.resume()
    message = 2 * (100 + OVERHEAD_BYTES)
    assert [len(r) for r in batch_of(outbox, 64, message).receipts] == [100, 100]
    # One that is larger than the bound goes alone, and is never held back for ever.
    assert [len(r) for r in batch_of(outbox, 64, message).receipts] == [500]
    assert outbox.unsent_bytes == 10
    assert [len(r) for r in batch_of(outbox, 64, message).receipts] == [10]
    assert outbox.unsent_bytes == 0


def test_full_in_receipts() -> None:
    outbox, raws = filled(2, max_receipts=2)
    assert not outbox.has_room(1)
    with pytest.raises(OutboxFullError) as info:
        outbox.add(b"x")
    assert info.value.reason is Reason.OVERLOADED
    assert outbox.unacknowledged == tuple(raws)
    batch = batch_of(outbox, 1)
    outbox.on_answer(batch.batch_id, [ok(raws[0], 0)])
    assert outbox.add(b"x") == 2


def test_full_in_bytes() -> None:
    outbox = Outbox(chained=True, max_bytes=10)
    outbox.add(bytes(6))
    assert outbox.has_room(4)
    assert not outbox.has_room(5)
    with pytest.raises(OutboxFullError):
        outbox.add(bytes(5))
    assert len(outbox) == 1
    outbox.add(bytes(4))


def test_nothing_is_sent_without_a_connection() -> None:
    outbox = Outbox(chained=True)
    outbox.add(b"x")
    assert outbox.next_batch(64, 1_000) is None
    outbox.resume(None)
    assert outbox.next_batch(64, 1_000) is not None
    outbox.on_disconnect()
    assert outbox.next_batch(64, 1_000) is None


def test_everything_unanswered_is_sent_again() -> None:
    outbox, raws = filled(4)
    first, second = batch_of(outbox, 2), batch_of(outbox, 1)
    outbox.on_answer(first.batch_id, [ok(raws[0], 0), ok(raws[1], 1)])
    outbox.on_disconnect()
    assert (outbox.unsent, outbox.in_flight) == (2, 0)
    # The ledger has the third receipt, but only an answer is an acknowledgement.
    assert outbox.resume(Head(2, digest(raws[2]), 2)) == tuple(raws[2:])
    again = batch_of(outbox)
    assert again.receipts == tuple(raws[2:])
    assert again.batch_id not in (first.batch_id, second.batch_id)
    outbox.on_answer(again.batch_id, [ok(raws[2], 2, duplicate=True), ok(raws[3], 3)])
    assert len(outbox) == 0


def test_a_fork_carries_both_hashes() -> None:
    outbox, raws = filled(3)
    batch = batch_of(outbox)
    there = digest(b"another")
    answers = [ok(raws[0], 0), refused(raws[1], Reason.FORK, 1, there)]
    answers.append(refused(raws[2], Reason.GAP, 1, there))
    with pytest.raises(ForkError) as info:
        outbox.on_answer(batch.batch_id, answers)
    error = info.value
    assert (error.ours, error.theirs, error.position) == (digest(raws[1]), there, 1)
    assert error.raw == raws[1]
    assert there.hex() in str(error)
    assert digest(raws[1]).hex() in str(error)
    # What was accepted before is settled; the rest stays, and nothing goes on.
    assert outbox.settled == 1
    assert outbox.unacknowledged == tuple(raws[1:])
    assert outbox.next_batch(64, 10_000) is None
    for call in (lambda: outbox.add(b"x"), lambda: outbox.on_answer(9, [])):
        with pytest.raises(ForkError):
            call()


def test_a_refusal_names_reason_and_place() -> None:
    outbox, raws = filled(1)
    batch = batch_of(outbox)
    want = digest(b"head")
    with pytest.raises(RefusedError) as info:
        outbox.on_answer(batch.batch_id, [refused(raws[0], Reason.GAP, 4, want)])
    error = info.value
    assert not isinstance(error, ForkError)
    assert (error.reason, error.position) == (Reason.GAP, 4)
    assert "refused by the ledger: because" in error.message
    assert error.want is not None
    assert "position 4" in error.want
    assert want.hex() in error.want


def test_a_refusal_without_detail() -> None:
    outbox, raws = filled(1)
    batch = batch_of(outbox)
    with pytest.raises(RefusedError, match="the receipt was refused") as info:
        outbox.on_answer(batch.batch_id, [Answer(Reason.UNKNOWN_KEY, False, 0, digest(raws[0]))])
    assert info.value.want is None


def test_a_refused_receipt_can_be_sent_again() -> None:
    """The key was enrolled meanwhile: refusals are answers, not state."""
    outbox, raws = filled(2)
    batch = batch_of(outbox)
    with pytest.raises(RefusedError):
        outbox.on_answer(batch.batch_id, [refused(r, Reason.UNKNOWN_KEY) for r in raws])
    outbox.on_disconnect()
    assert outbox.resume(None) == tuple(raws)
    assert outbox.failure is None
    again = batch_of(outbox)
    outbox.on_answer(again.batch_id, [ok(raws[0], 0), ok(raws[1], 1)])
    assert len(outbox) == 0


def test_loose_refusals_are_results() -> None:
    outbox = Outbox(chained=False)
    raws = [b"a", b"b", b"c"]
    for raw in raws:
        outbox.add(raw)
    outbox.resume()
    batch = batch_of(outbox)
    answers = [ok(b"a", 7), refused(b"b", Reason.FORK, 3, bytes(32)), ok(b"c", 0)]
    settled = outbox.on_answer(batch.batch_id, answers)
    assert [s.answer.reason for s in settled] == [None, Reason.FORK, None]
    assert len(outbox) == 0


@pytest.mark.parametrize("chained", [True, False])
def test_answers_that_do_not_fit(chained: bool) -> None:
    outbox, raws = filled(2, chained=chained)
    with pytest.raises(ServiceError, match="another batch"):
        outbox.on_answer(0, [])
    batch = batch_of(outbox)
    good = [ok(raws[0], 0), ok(raws[1], 1)]
    for batch_id, answers in [
        (batch.batch_id + 1, good),
        (batch.batch_id, good[:1]),
        (batch.batch_id, [*good, good[0]]),
    ]:
        with pytest.raises(ServiceError, match="another batch"):
            outbox.on_answer(batch_id, answers)
    with pytest.raises(ServiceError, match="another receipt"):
        outbox.on_answer(batch.batch_id, good[::-1])
    assert (outbox.settled, len(outbox)) == (0, 2)
    # An answer without a hash is allowed: the receipt was not hashed.
    outbox.on_answer(batch.batch_id, [Answer(None, False, n, b"") for n in range(2)])


def test_positions_of_a_chain_follow_each_other() -> None:
    outbox = Outbox(chained=True, head=Head(4, bytes(32), 4))
    outbox.add(b"x")
    outbox.resume(Head(4, bytes(32), 4))
    batch = batch_of(outbox)
    with pytest.raises(ServiceError, match="another position"):
        outbox.on_answer(batch.batch_id, [ok(b"x", 6)])


def test_a_ledger_that_lost_what_it_acknowledged() -> None:
    outbox, raws = filled(3)
    batch = batch_of(outbox, 2)
    outbox.on_answer(batch.batch_id, [ok(raws[0], 0), ok(raws[1], 1)])
    for head in (None, Head(0, digest(raws[0]), 0)):
        outbox.on_disconnect()
        with pytest.raises(LostReceiptsError) as info:
            outbox.resume(head)
        assert info.value.reason is Reason.NOT_FOUND
        assert outbox.next_batch(64, 10_000) is None
    with pytest.raises(LostReceiptsError) as info:
        outbox.resume(Head(1, bytes(32), 1))
    assert info.value.reason is Reason.INCONSISTENT
    with pytest.raises(LostReceiptsError):
        outbox.add(b"y")
    assert outbox.resume(Head(1, digest(raws[1]), 1)) == tuple(raws[2:])
    # Somebody else went on: the ledger will call it a fork, with both receipts as evidence.
    assert outbox.resume(Head(7, bytes(32), 7)) == tuple(raws[2:])


def test_a_loose_outbox_asks_for_no_head() -> None:
    outbox, _ = filled(1, chained=False)
    batch = batch_of(outbox)
    outbox.on_answer(batch.batch_id, [Answer(None, False, 0, b"")])
    assert outbox.resume(None) == ()


class Model(RuleBasedStateMachine):
    """A ledger, a wire that can break at any point, and an outbox that must lose nothing.

    The wire keeps order but may lose everything from some point on, in both directions: batches that
    never arrive, and answers that never come back although the receipts are durable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limits = {"max_receipts": 12, "max_bytes": 200}
        self.outbox = Outbox(chained=True, **self.limits)
        self.everything: list[bytes] = []
        self.durable: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.going: deque[Batch] = deque()
        self.coming: deque[tuple[int, list[Answer]]] = deque()
        self.connected = False

    @rule(size=st.integers(1, 40))
    def add(self, size: int) -> None:
        raw = b"%d:" % len(self.everything) + bytes(size)
        if self.outbox.has_room(len(raw)):
            assert self.outbox.add(raw) == len(self.everything)
            self.everything.append(raw)
        else:
            with pytest.raises(OutboxFullError):
                self.outbox.add(raw)

    @rule(receipts=st.integers(1, 5), size=st.integers(1, 120))
    def send(self, receipts: int, size: int) -> None:
        batch = self.outbox.next_batch(receipts, size)
        if batch is None:
            assert not self.connected or self.outbox.unsent == 0
            return
        assert self.connected
        assert 1 <= len(batch.receipts) <= receipts
        total = sum(len(r) + OVERHEAD_BYTES for r in batch.receipts)
        assert total <= size or len(batch.receipts) == 1
        self.going.append(batch)

    @precondition(lambda self: self.going)
    @rule()
    def ledger_takes_a_batch(self) -> None:
        batch = self.going.popleft()
        answers = []
        for raw in batch.receipts:
            if raw in self.durable:
                answers.append(ok(raw, self.durable.index(raw), duplicate=True))
            else:
                answers.append(ok(raw, len(self.durable)))
                self.durable.append(raw)
        self.coming.append((batch.batch_id, answers))

    @precondition(lambda self: self.coming)
    @rule()
    def answer_arrives(self) -> None:
        batch_id, answers = self.coming.popleft()
        settled = self.outbox.on_answer(batch_id, answers)
        assert len(settled) == len(answers)
        self.acknowledged += [s.raw for s in settled]

    @precondition(lambda self: self.connected)
    @rule()
    def connection_breaks(self) -> None:
        self.going.clear()
        self.coming.clear()
        self.outbox.on_disconnect()
        self.connected = False

    @precondition(lambda self: not self.connected)
    @rule()
    def connection_is_back(self) -> None:
        head = None
        if self.durable:
            head = Head(len(self.durable) - 1, digest(self.durable[-1]), None)
        again = self.outbox.resume(head)
        assert list(again) == self.everything[len(self.acknowledged) :]
        self.connected = True

    @invariant()
    def nothing_is_lost_doubled_or_reordered(self) -> None:
        assert self.durable == self.everything[: len(self.durable)]
        assert self.acknowledged == self.everything[: len(self.acknowledged)]
        assert len(self.acknowledged) <= len(self.durable)
        assert self.outbox.unacknowledged == tuple(self.everything[len(self.acknowledged) :])

    @invariant()
    def counts_agree(self) -> None:
        outbox = self.outbox
        assert outbox.settled == len(self.acknowledged)
        assert outbox.added == len(self.everything)
        assert len(outbox) <= self.limits["max_receipts"]
        assert sum(map(len, outbox.unacknowledged)) <= self.limits["max_bytes"]
        sent = sum(len(b.receipts) for b in outbox._batches)
        assert sent + outbox.unsent == len(outbox)
        unsent = outbox.unacknowledged[sent:]
        assert outbox.unsent_bytes == sum(map(len, unsent))

    def teardown(self) -> None:
        """However it went, a working connection delivers everything."""
        if not self.connected:
            self.connection_is_back()
        while len(self.outbox):
            self.send(5, 120)
            while self.going:
                self.ledger_takes_a_batch()
            while self.coming:
                self.answer_arrives()
        assert self.acknowledged == self.everything == self.durable


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=60)
