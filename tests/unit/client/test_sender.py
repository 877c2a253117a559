"""The sender against a ledger in memory whose wire breaks on request. Nothing here waits for a clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from receiptledger.backoff import Retry
from receiptledger.core.chain import Head
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.outbox import ForkError, LostReceiptsError, Outbox, Settled
from receiptledger.sender import Sender, SendOptions
from receiptledger.wire import Answer, CallError
from tests.helpers.fake_link import FakeLedger, FakeLink, Fault, down

if TYPE_CHECKING:
    from collections.abc import Coroutine

OPTIONS = SendOptions(linger_ms=0, batch_receipts=4, retry=Retry(first_s=0, attempts=5))
FOREVER = 3_600_000.0


class Rig:
    """A sender, its outbox and its fake ledger; `naps` are the waits it asked for."""

    def __init__(
        self,
        *faults: Fault,
        options: SendOptions = OPTIONS,
        chained: bool = True,
        ledger: FakeLedger | None = None,
        chance: float = 0.0,
    ) -> None:
        self.link = FakeLink(ledger, *faults)
        head = self.link.ledger.head
        self.outbox = Outbox(chained=chained, head=head, max_receipts=options.outbox_receipts)
        self.naps: list[float] = []
        self.settled: list[Settled] = []
        self.notes: list[bytes] = []
        self.added: list[bytes] = []
        self.sender = Sender(
            self.outbox,
            self.link,
            options,
            chained=chained,
            on_settled=self._on_settled,
            sleep=self._nap,
            chance=lambda: chance,
        )

    async def __aenter__(self) -> Rig:
        self.sender.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.sender.abort()

    def _on_settled(self, settled: list[Settled], note: bytes) -> None:
        self.settled += settled
        self.notes.append(note)

    async def _nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        await asyncio.sleep(0)

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            raw = b"receipt %d" % len(self.added)
            self.outbox.add(raw)
            self.added.append(raw)
            self.sender.notify()

    async def deliver(self) -> None:
        await self.sender.settled(self.outbox.added)
        assert self.link.ledger.chain == self.added


async def settle_down() -> None:
    """Let every task run until none has anything left to do without outside help."""
    for _ in range(50):
        await asyncio.sleep(0)


def run(work: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(bounded())


def test_delivers_in_batches_and_in_order() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.add(10)
            await rig.deliver()
            assert [len(b) for b in rig.link.ledger.batches] == [4, 4, 2]
            assert [s.raw for s in rig.settled] == rig.added
            assert rig.notes == [b"note"] * 3
            assert len(rig.link.streams) == 1

    run(work())


def test_lingers_until_a_batch_is_full() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, linger_ms=FOREVER)) as rig:
            rig.add(3)
            await settle_down()
            assert rig.link.ledger.batches == []
            rig.add(1)
            await settle_down()
            assert [len(b) for b in rig.link.ledger.batches] == [4]

    run(work())


def test_lingers_until_the_bytes_are_full() -> None:
    async def work() -> None:
        options = replace(OPTIONS, linger_ms=FOREVER, batch_receipts=1_000, batch_bytes=1_024)
        async with Rig(options=options) as rig:
            for raw in (b"a" * 500, b"b" * 500):
                rig.outbox.add(raw)
                rig.sender.notify()
            await settle_down()
            assert rig.link.ledger.batches == []
            rig.outbox.add(b"c" * 100)
            rig.sender.notify()
            await rig.sender.settled(3)
            assert [len(b) for b in rig.link.ledger.batches] == [2, 1]

    run(work())


def test_the_linger_ends() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, linger_ms=1)) as rig:
            rig.add(1)
            await rig.sender._changed.wait()  # a millisecond of the real clock
            assert rig.link.ledger.chain == rig.added

    run(work())


def test_a_flush_does_not_linger() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, linger_ms=FOREVER)) as rig:
            rig.add(2)
            await settle_down()
            await rig.deliver()
            # What comes after it lingers again.
            rig.add(1)
            await settle_down()
            assert len(rig.link.ledger.chain) == 2

    run(work())


def test_a_flush_waits_for_what_was_there_only() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.link.flowing.clear()
            rig.add(4)
            flushing = asyncio.create_task(rig.sender.settled(4))
            await settle_down()
            rig.add(4)
            rig.link.flowing.set()
            await flushing
            assert rig.outbox.settled >= 4

    run(work())


def test_batches_in_flight_are_bounded() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, batches_in_flight=2)) as rig:
            rig.link.flowing.clear()
            rig.add(20)
            await settle_down()
            assert rig.outbox.in_flight == 2
            rig.link.flowing.set()
            await rig.deliver()
            assert rig.link.streams[0].most_in_flight <= 2

    run(work())


@pytest.mark.parametrize("lose", [True, False], ids=["batch lost", "answer lost"])
def test_resumes_after_a_cut(lose: bool) -> None:
    async def work() -> None:
        faults = [Fault(cut_after=1, lose=lose), Fault(cut_after=0, lose=lose)]
        async with Rig(*faults) as rig:
            rig.add(10)
            await rig.deliver()
            assert len(rig.link.streams) == 3
            assert all(s.cancelled for s in rig.link.streams[:2])
            assert rig.naps == [0.0, 0.0]

    run(work())


@pytest.mark.parametrize("bare", [True, False])
def test_honours_a_drain(bare: bool) -> None:
    async def work() -> None:
        async with Rig(Fault(drain_after=1, bare=bare)) as rig:
            rig.add(10)
            await rig.deliver()
            assert len(rig.link.streams) == 2
            # Told to drain, it half-closed instead of being cut off.
            assert rig.link.streams[0].finished

    run(work())


def test_a_drain_of_an_idle_stream_costs_nothing() -> None:
    async def work() -> None:
        async with Rig(Fault(drain_after=1)) as rig:
            rig.add(1)
            await rig.deliver()
            await settle_down()
            assert rig.naps == []  # nothing to send, nothing to wait for
            assert len(rig.link.streams) == 1
            rig.add(1)
            await rig.deliver()

    run(work())


def test_a_stream_that_ends_early_is_not_hammered() -> None:
    async def work() -> None:
        options = replace(OPTIONS, retry=Retry(first_s=1.0, longest_s=1.0, attempts=5))
        async with Rig(Fault(end_after=0), options=options, chance=0.5) as rig:
            rig.add(1)
            await rig.deliver()
            assert rig.naps == [0.5]

    run(work())


def test_the_daemons_wish_is_respected() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.link.heads.append(down(7.0))
            rig.add(1)
            await rig.deliver()
            assert rig.naps == [7.0]

    run(work())


def test_gives_up_and_keeps_everything() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.link.heads.extend([down()] * 5)
            rig.add(3)
            with pytest.raises(ServiceError) as info:
                await rig.sender.settled(3)
            assert info.value.reason is Reason.UNAVAILABLE
            assert "gave up after 5 failures" in info.value.message
            assert "3 receipts are unacknowledged" in info.value.message
            assert "the ledger is away" in info.value.message
            assert rig.outbox.unacknowledged == tuple(rig.added)
            # And says so for ever.
            for call in (rig.sender.room(1), rig.sender.settled(0), rig.sender.finish()):
                with pytest.raises(ServiceError, match="gave up"):
                    await call

    run(work())


def test_progress_resets_the_row_of_failures() -> None:
    async def work() -> None:
        faults = [Fault(cut_after=1) for _ in range(12)]  # more than the five attempts
        async with Rig(*faults) as rig:
            rig.add(60)
            await rig.deliver()

    run(work())


def test_a_final_failure_is_not_retried() -> None:
    async def work() -> None:
        async with Rig(Fault(cut_after=0, error=down(None))) as rig:
            rig.add(1)
            with pytest.raises(CallError, match="away"):
                await rig.sender.settled(1)
            assert rig.naps == []

    run(work())


def test_a_fork_ends_it() -> None:
    async def work() -> None:
        theirs = sha256(b"theirs").digest()

        def refuse(raw: bytes) -> Answer | None:
            if raw != b"receipt 2":
                return None
            return Answer(Reason.FORK, False, 2, sha256(raw).digest(), theirs, "fork: taken")

        async with Rig(ledger=FakeLedger(refuse=refuse)) as rig:
            rig.add(4)
            with pytest.raises(ForkError) as info:
                await rig.sender.settled(4)
            assert info.value.theirs == theirs
            assert rig.outbox.settled == 2
            with pytest.raises(ForkError):
                await rig.sender.room(1)

    run(work())


def test_a_ledger_that_was_rolled_back_ends_it() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.add(4)
            await rig.deliver()
            rig.link.ledger.chain = rig.link.ledger.chain[:2]
            rig.link.faults.append(Fault())
            await rig.sender.abort()
            # A new sender over the same outbox, as after a reconnect.
            again = Sender(rig.outbox, rig.link, OPTIONS, chained=True)
            again.start()
            rig.outbox.add(b"next")
            again.notify()
            with pytest.raises(LostReceiptsError):
                await again.settled(5)

    run(work())


def test_an_answer_to_another_batch_ends_it() -> None:
    async def work() -> None:
        async with Rig(Fault(error=RuntimeError("unused"))) as rig:
            stream_answer = Answer(None, False, 0, bytes(32))
            rig.link.ledger.take = lambda receipts: [stream_answer]  # type: ignore[method-assign]
            rig.add(1)
            with pytest.raises(ServiceError, match="another receipt"):
                await rig.sender.settled(1)

    run(work())


@pytest.mark.parametrize(
    "fault",
    [
        Fault(cut_after=0, error=RuntimeError("a bug while reading")),
        Fault(write_error=RuntimeError("a bug while writing")),
    ],
    ids=["reader", "writer"],
)
def test_a_crash_surfaces(fault: Fault) -> None:
    async def work() -> None:
        async with Rig(fault) as rig:
            rig.add(1)
            with pytest.raises(
                ServiceError, match="the sender crashed: RuntimeError: a bug"
            ) as info:
                await rig.sender.settled(1)
            assert isinstance(info.value.__cause__, RuntimeError)
            with pytest.raises(ServiceError, match="crashed"):
                await rig.sender.room(1)
            assert rig.link.streams[0].cancelled

    run(work())


def test_a_broken_write_is_explained_by_the_reader() -> None:
    async def work() -> None:
        fault = Fault(write_error=down(), end_after=0)
        async with Rig(fault) as rig:
            rig.add(1)
            await rig.deliver()
            assert len(rig.link.streams) == 2

    run(work())


def test_room_waits_and_hurries() -> None:
    async def work() -> None:
        options = replace(OPTIONS, outbox_receipts=2, linger_ms=FOREVER)
        async with Rig(options=options) as rig:
            rig.add(2)
            await settle_down()
            assert rig.link.ledger.batches == []
            await rig.sender.room(10)
            assert rig.outbox.has_room(10)

    run(work())


def test_room_for_many_waiters() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, outbox_receipts=3)) as rig:

            async def one() -> None:
                await rig.sender.room(20)
                rig.add(1)

            await asyncio.gather(*(one() for _ in range(25)))
            await rig.deliver()
            assert len(rig.added) == 25

    run(work())


def test_finish_delivers_and_half_closes() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, linger_ms=FOREVER)) as rig:
            rig.add(6)
            await rig.sender.finish()
            assert rig.link.ledger.chain == rig.added
            assert rig.link.streams[0].finished
            with pytest.raises(ServiceError, match="closed already"):
                await rig.sender.room(1)
            with pytest.raises(ServiceError, match="closed already"):
                await rig.sender.settled(99)

    run(work())


def test_finish_of_an_idle_sender_opens_nothing() -> None:
    async def work() -> None:
        async with Rig() as rig:
            await settle_down()
            await rig.sender.finish()
            assert rig.link.streams == []
            assert rig.link.head_calls == 0

    run(work())


def test_finish_survives_a_cut() -> None:
    async def work() -> None:
        async with Rig(Fault(cut_after=0), Fault(end_after=0)) as rig:
            rig.add(6)
            await rig.sender.finish()
            assert rig.link.ledger.chain == rig.added

    run(work())


def test_nothing_is_added_while_closing() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.link.flowing.clear()
            rig.add(1)
            finishing = asyncio.create_task(rig.sender.finish())
            await settle_down()
            with pytest.raises(ServiceError, match="closing"):
                await rig.sender.room(1)
            rig.link.flowing.set()
            await finishing

    run(work())


def test_whoever_waited_for_room_while_closing_is_still_served() -> None:
    async def work() -> None:
        async with Rig(options=replace(OPTIONS, outbox_receipts=1)) as rig:
            rig.link.flowing.clear()
            rig.add(1)

            async def late() -> None:
                await rig.sender.room(20)
                rig.add(1)

            waiting = asyncio.create_task(late())
            await settle_down()
            finishing = asyncio.create_task(rig.sender.finish())
            await settle_down()
            rig.link.flowing.set()
            await asyncio.gather(waiting, finishing)
            assert rig.link.ledger.chain == rig.added
            assert len(rig.added) == 2

    run(work())


def test_abort_keeps_the_outbox() -> None:
    async def work() -> None:
        async with Rig() as rig:
            rig.link.flowing.clear()
            rig.add(3)
            waiting = asyncio.create_task(rig.sender.settled(3))
            await settle_down()
            await rig.sender.abort()
            with pytest.raises(ServiceError, match="closed"):
                await waiting
            assert rig.outbox.unacknowledged == tuple(rig.added)
            assert rig.link.streams[0].cancelled

    run(work())


def test_a_sender_that_never_started() -> None:
    async def work() -> None:
        rig = Rig()
        await rig.sender.abort()
        await rig.sender.finish()
        rig.sender.check()

    run(work())


def test_continues_an_old_chain() -> None:
    async def work() -> None:
        ledger = FakeLedger(chain=[b"old 0", b"old 1"])
        async with Rig(ledger=ledger) as rig:
            rig.add(3)
            await rig.sender.settled(3)
            assert ledger.chain == [b"old 0", b"old 1", *rig.added]
            assert isinstance(ledger.head, Head)

    run(work())


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_receipts": 0},
        {"batches_in_flight": 0},
        {"outbox_receipts": 0},
        {"batch_bytes": 10},
        {"outbox_bytes": 10},
        {"linger_ms": -1},
        {"connect_s": 0},
    ],
    ids=str,
)
def test_wrong_options(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="send options"):
        SendOptions(**wrong)  # type: ignore[arg-type]
