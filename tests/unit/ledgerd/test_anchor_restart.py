"""What a start finds in the store: coverage, ages, lost requests, what must be renewed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.anchoring import state as anchor_state
from ledgerd.anchoring.state import admitted_at, restore, verified, verify_again
from ledgerd.store.interface import StoreError
from ledgerd.store.memory import Fault
from receiptledger.core.timestamp_cause import Cause, TimestampError
from tests.helpers import tsa_pki as pki
from tests.helpers.anchor_world import START, FakeTsa, World, signer

if TYPE_CHECKING:
    from collections.abc import Coroutine

MARGIN = timedelta(days=180)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def again(world: World, *tsas: FakeTsa, **changes: Any) -> World:
    """The next process after a power loss at this moment."""
    return World(*tsas, ledger=world.ledger.crash(), now=world.now, **changes)


def test_a_start_knows_what_is_anchored_and_since_when() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            world.grow()
            await world.pass_time(610)
            world.now += 100
        async with again(world, FakeTsa("one"), FakeTsa("two")) as world:
            assert world.value("lag_seconds") == 0
            assert world.value("last_success_age_seconds", tsa="one") == pytest.approx(110, abs=11)
            assert world.value("renewal_due_seconds") < 1e9
            assert world.value("tsa_cert_expiry_seconds", tsa="two", role="signer") > 1e8
            assert world.anchorer.standing.authorities == 2
            await world.pass_time(900)
            assert world.tsas["one"].seen == [], "nothing new: nothing to ask"

    run(scenario())


def test_a_start_knows_how_old_the_oldest_unanchored_receipt_is() -> None:
    """From the time of its admission: restarts must not keep a log from ever being overdue."""

    async def scenario() -> None:
        async with World(FakeTsa("one", mode="down")) as world:
            world.grow(3)
            await world.pass_time(300)
        world.now += 5_000
        changes = {"max_unanchored": 5_200.0, "refuse": True}
        async with again(world, FakeTsa("one", mode="down"), **changes) as world:
            assert world.value("lag_seconds") == pytest.approx(5_300, abs=1)
            assert world.value("overdue") == 1
            assert world.anchorer.refusal() is not None, "before anything is served"
            await world.step()
            assert len(world.tsas["one"].seen) == 1, "due at once"

    run(scenario())


def test_each_tsa_is_asked_for_what_it_lacks_after_a_start() -> None:
    """One covers all; one is new, and its oldest leaf is the log's oldest."""

    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            await world.pass_time(610)
        async with again(world, FakeTsa("one"), FakeTsa("new")) as world:
            await world.pass_time(30)
            assert world.tsas["one"].seen == []
            assert len(world.records("new")) == 1

    run(scenario())


def test_two_requests_keep_their_distance_across_a_restart() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), max_leaves=1) as world:
            world.grow()
            await world.step()
            assert len(world.records()) == 1
            world.now += 5
        async with again(world, FakeTsa("one"), max_leaves=1) as world:
            world.grow()
            await world.step()
            assert world.tsas["one"].seen == []
            await world.pass_time(20)
            assert len(world.tsas["one"].seen) == 1

    run(scenario())


def test_a_lost_request_is_counted_and_repeated_with_a_new_nonce() -> None:
    async def scenario() -> None:
        lost = FakeTsa("one", mode="hang")
        async with World(lost, FakeTsa("two")) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(lost.seen) and len(world.records("two")) == 1)
            (intent,) = world.store.intents()
            assert intent.nonce == lost.seen[0].nonce
            survivor = world.ledger.crash()  # at this very moment
        async with World(FakeTsa("one"), FakeTsa("two"), ledger=survivor, now=world.now) as world:
            assert world.value("attempts_total", tsa="one", result="lost") == 1
            assert world.value("failures_total", tsa="one", cause="lost") == 1
            assert world.value("attempts_total", tsa="two", result="lost") == 0
            await world.step()
            assert world.tsas["one"].seen == [], "it was asked this very second"
            await world.pass_time(20)
            (asked,) = world.tsas["one"].seen
            assert asked.nonce != intent.nonce
            assert len(world.records("one")) == 1
            assert world.store.intents() == []
            assert world.tsas["two"].seen == []
            world.ledger.audit()

    run(scenario())


@pytest.mark.parametrize("faulty", [False, True])
def test_a_lost_request_to_a_removed_tsa_is_dropped(faulty: bool) -> None:
    async def scenario() -> None:
        lost = FakeTsa("gone", mode="hang")
        async with World(lost) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(lost.seen))
            survivor = world.ledger.crash()
        async with World(FakeTsa("one"), ledger=survivor, now=world.now) as world:
            if faulty:
                world.store.fail_next("lost")
                await world.anchorer.step(world.now)
                assert "gone" in [intent.tsa for intent in world.store.intents()]
            await world.step()
            assert [intent.tsa for intent in world.store.intents()] == []

    run(scenario())


def test_a_token_that_was_stored_is_not_asked_for_again_after_a_kill() -> None:
    """The commit is durable, the answer never came: the record is there, the intent gone."""

    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            world.now += 600
            world.store.fail_at(2, "done")  # the token's commit
            await world.anchorer.step(world.now)
            await world.until(lambda: world.store.next_anchor_number() == 1)
            survivor = world.ledger.crash()
        async with World(FakeTsa("one"), ledger=survivor, now=world.now) as world:
            await world.pass_time(300)
            assert world.tsas["one"].seen == []
            assert len(world.records()) == 1
            world.ledger.audit()

    run(scenario())


@pytest.mark.parametrize("mode", ["hang", "other nonce", "ok"])
def test_a_restart_loop_keeps_the_distance_however_the_last_request_ended(mode: str) -> None:
    """By the newest intent, refused answer or token of each TSA."""

    async def scenario() -> None:
        first = FakeTsa("one", mode=mode)
        changes = {"max_leaves": 1, "min_spacing": 50.0}
        async with World(first, **changes) as world:
            world.grow()
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(first.seen))
            if mode != "hang":
                await world.anchorer.settled()
            ledger = world.ledger.crash()
        for _ in range(4):
            tsa = FakeTsa("one", mode="down")
            async with World(tsa, ledger=ledger, now=world.now + 10, **changes) as world:
                world.grow()
                await world.step()
                assert tsa.seen == []
                ledger = world.ledger.crash()
        tsa = FakeTsa("one")
        async with World(tsa, ledger=ledger, now=world.now + 10, **changes) as world:
            await world.step()
            assert len(tsa.seen) == 1, "and not for longer"

    run(scenario())


def test_a_request_noted_by_a_clock_that_ran_ahead_does_not_silence_a_tsa() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            await world.pass_time(610)
        early = world.now - 86_400
        async with World(FakeTsa("one"), ledger=world.ledger.crash(), now=early) as world:
            assert world.anchorer._states["one"].view.tried_at == early

    run(scenario())


def test_a_request_that_a_clean_stop_gave_up_is_not_lost() -> None:
    async def scenario() -> None:
        tsas = FakeTsa("one", mode="hang"), FakeTsa("two")
        async with World(*tsas) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(tsas[0].seen) and len(world.records("two")) == 1)
            async with asyncio.timeout(1):
                await world.anchorer.stop()
            assert world.store.intents() == []
        async with again(world, FakeTsa("one"), FakeTsa("two")) as world:
            assert world.value("attempts_total", tsa="one", result="lost") == 0
            assert world.value("failures_total", tsa="one", cause="lost") == 0
            await world.step()
            assert len(world.records("one")) == 1

    run(scenario())


@pytest.mark.parametrize("fault", ["lost", "never"])
def test_a_stop_with_a_store_that_fails_ends_all_the_same(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the request counts as lost, which it is."""
    monkeypatch.setattr("ledgerd.anchoring.anchorer.STOP_SECONDS", 0.05)

    async def scenario() -> None:
        tsa = FakeTsa("one", mode="hang")
        async with World(tsa) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(tsa.seen))
            if fault == "lost":
                world.store.fail_next(Fault.LOST)
            else:
                monkeypatch.setattr(world.journal, "_submit", lambda job: None)
            await world.anchorer.stop()
            assert [intent.tsa for intent in world.store.intents()] == ["one"]
            assert tsa.closed

    run(scenario())


def test_a_stop_waits_for_a_token_that_is_there() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one")
        async with World(tsa) as world:
            world.grow()
            world.now += 600
            world.store.fail_at(2, Fault.LOST)  # the token's commit; it is tried again
            await world.anchorer.step(world.now)
            await world.until(lambda: not world.anchorer._asking)
            await world.anchorer.stop()
            assert len(world.records()) == 1
            assert world.store.intents() == []

    run(scenario())


# Renewal.


def test_an_anchor_is_renewed_by_the_next_anchored_checkpoint() -> None:
    async def scenario() -> None:
        early = datetime.fromtimestamp(START + 200 * 86_400, UTC)
        tsa = FakeTsa("one")
        tsa.signer = signer("one", certificate=7, end=early)
        async with World(tsa) as world:
            world.grow()
            await world.pass_time(610)
            due = world.value("renewal_due_seconds")
            assert due == pytest.approx(20 * 86_400, abs=700), "200 days, 180 before that"
            tsa.signer = signer("one")
            await world.pass_time(86_400, every=600)  # the heartbeat renews
            assert world.value("renewal_due_seconds") > 10 * 365 * 86_400
            assert len(world.anchorer._outcomes.lives) == 1
        async with again(world, FakeTsa("one")) as world:
            assert world.value("renewal_due_seconds") > 10 * 365 * 86_400
            assert len(world.anchorer._outcomes.lives) == 1

    run(scenario())


def test_an_anchor_without_a_leaf_is_not_renewed() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            size = world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.anchorer.settled()
            assert [r.leaf_index for r in world.records()] == [None, None]
            assert len(world.anchorer._outcomes.lives) == 2
            found = restore(world.store, [t.tsa for t in world.tsas.values()], MARGIN)
            assert {live.leaf_index for live in found.lives} == {None}
            world.seal()
            found = restore(world.store, [t.tsa for t in world.tsas.values()], MARGIN)
            assert {live.leaf_index for live in found.lives} == {size, size + 1}

    run(scenario())


def test_the_number_of_unrenewed_anchors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerd.anchoring.outcome.MAX_LIVES", 3)

    async def scenario() -> None:
        async with World(*(FakeTsa(f"tsa-{n}") for n in range(5))) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.anchorer.settled()
            assert len(world.records()) == 5
            assert len(world.anchorer._outcomes.lives) == 3

    run(scenario())


# What the configuration no longer knows.


def test_tokens_of_before_go_on_to_count_when_the_roots_change() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            await world.pass_time(610)
            (record,) = world.records()
            store = world.ledger.crash().store
            foreign = FakeTsa("one")
            configured = foreign.tsa
            trust = type(configured.trust)("one", "one", (signer("elsewhere").root.der,))
            moved = type(configured)(configured.settings, trust, foreign)
            with pytest.raises(TimestampError) as caught:
                verify_again(store, record, moved)
            assert caught.value.cause is Cause.CHAIN
            assert verified(store, record, moved) is None
            found = restore(store, [moved], MARGIN)
            assert found.states["one"].view.anchored == record.size
            assert found.states["one"].signer is None
            assert found.lives == ()

    run(scenario())


def test_a_checkpoint_that_is_gone_is_a_damaged_store() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            await world.pass_time(610)
            (record,) = world.records()
            record.size = 999
            with pytest.raises(StoreError, match="run ledgerd fsck"):
                verify_again(world.store, record, world.tsas["one"].tsa)

    run(scenario())


def test_a_start_looks_back_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor_state, "MAX_LOOKED_BACK", 2)

    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two", mode="ok")) as world:
            for _ in range(3):
                world.grow()
                await world.pass_time(640)
                world.tsas["two"].mode = "down"
            tsas = [tsa.tsa for tsa in world.tsas.values()]
            assert len(world.records("two")) == 1
            found = restore(world.store, tsas, MARGIN)
            assert found.states["one"].view.anchored == world.records("one")[-1].size
            assert found.states["two"].view.anchored == 0, "as if it had none: it is asked anew"
            monkeypatch.setattr(anchor_state, "MAX_LOOKED_BACK", 100)
            found = restore(world.store, tsas, MARGIN)
            assert found.states["two"].view.anchored == world.records("two")[0].size

    run(scenario())


def test_a_start_reads_few_records_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            for _ in range(10):
                world.grow()
                await world.pass_time(640)
            assert len(world.records()) >= 20
            reads: list[int] = []
            read = world.store.anchor
            monkeypatch.setattr(world.store, "anchor", lambda n: reads.append(n) or read(n))
            restore(world.store, [tsa.tsa for tsa in world.tsas.values()], MARGIN)
            assert len(reads) == 3, "the newest two, and the first that is renewed"

    run(scenario())


def test_records_that_cannot_be_read_are_left_to_fsck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            await world.pass_time(610)
            monkeypatch.setattr(world.store, "anchor", lambda _: None)
            found = restore(world.store, [world.tsas["one"].tsa], MARGIN)
            assert found.states["one"].view.anchored == 0

    run(scenario())


# The age of a leaf.


def test_the_age_of_a_leaf_is_its_first_receipts() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            size = world.grow()
            assert size == 2, "a key leaf and a head leaf"
            assert admitted_at(world.store, 0, size) == START
            assert admitted_at(world.store, 1, size) == START
            assert admitted_at(world.store, 2, size) is None
            await world.pass_time(610)
            assert admitted_at(world.store, 2, 3) is None, "an anchor leaf has no receipts"
            world.store.receipt = lambda chain, position: None  # type: ignore[method-assign]
            assert admitted_at(world.store, 0, size) is None

    run(scenario())


def test_the_age_is_looked_for_in_a_bounded_number_of_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anchor_state, "MAX_LEAVES_LOOKED_AT", 1)

    async def scenario() -> None:
        async with World(FakeTsa("one", mode="down")) as world:
            world.grow()
            world.now += 77
            assert admitted_at(world.store, 0, 2) is None, "leaf 0 is the key's"
        async with again(world, FakeTsa("one")) as world:
            assert world.value("lag_seconds") == 0, "then it counts from the start"

    run(scenario())


def test_pki_of_the_tests_outlives_them() -> None:
    assert pki.NOT_AFTER.timestamp() > START + 10 * 365 * 86_400
