"""The anchorer over a real writer and store, with TSAs that behave and TSAs that do not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.anchoring.journal import Journal
from ledgerd.store.memory import Fault
from ledgerd.tsa import second_opinion
from ledgerd.tsa.errors import TsaError
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from receiptledger.core.timestamp import verify_response
from receiptledger.core.timestamp_cause import Cause
from tests.helpers.anchor_world import START, FakeTsa, World, signer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ledgerd.writer import CommitJob


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


# When all is well.


def test_the_newest_checkpoint_is_stamped_by_all_and_logged() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            await world.step()
            assert world.records() == [], "an empty log"
            world.grow()
            await world.pass_time(590)
            assert world.records() == []
            assert world.value("lag_seconds") == pytest.approx(590, abs=11)
            size = world.grow()
            await world.pass_time(20)
            one, two = world.records()
            assert {one.tsa, two.tsa} == {"one", "two"}
            assert one.size == two.size == size, "the newest, not the one that was due"
            for record in (one, two):
                note = world.store.checkpoint(size)
                assert note is not None
                trust = world.tsas[record.tsa].tsa.trust
                stamp = verify_response(record.response, note, trust)
                assert record.gen_time == int(stamp.gen_time.timestamp() * 1e6)
                assert record.leaf_index is not None
                (leaf,) = world.store.leaves(record.leaf_index, 1)
                parsed = parse_leaf(leaf)
                assert isinstance(parsed, AnchorLeaf)
                assert (parsed.tsa, parsed.size, parsed.root) == (record.tsa, size, record.root)
            assert world.store.intents() == []
            assert world.value("lag_seconds") == 0
            assert world.value("unanchored_leaves") == 0
            assert world.value("quorum_tokens") == 2
            assert world.value("attempts_total", tsa="one", result="stored") == 1
            assert world.value("token_bytes_count") == 2
            assert world.value("request_seconds_count", tsa="two") == 1
            assert world.value("tsa_cert_expiry_seconds", tsa="one", role="signer") > 1e8
            assert world.value("tsa_cert_expiry_seconds", tsa="one", role="issuer") > 1e9
            assert 0 < world.value("renewal_due_seconds") < 1e9
            world.ledger.audit()

    run(scenario())


def test_an_idle_log_is_stamped_once_a_day_and_never_for_its_own_anchors() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            world.grow()
            await world.pass_time(3 * 86_400 + 3_600, every=600)
            assert [r.size for r in world.records("one")] == [r.size for r in world.records("two")]
            assert len(world.records("one")) == 4, "one for the leaf, then one a day"
            assert len(world.tsas["one"].seen) == 4
            world.ledger.audit()

    run(scenario())


def test_every_request_has_its_own_nonce_and_keeps_its_distance() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), max_leaves=1) as world:
            for _ in range(30):
                world.grow()
                await world.pass_time(10)
            seen = world.tsas["one"].seen
            assert len({asked.nonce for asked in seen}) == len(seen) == 15, "every 20 s at most"
            assert all(asked.nonce and asked.nonce.bit_length() <= 128 for asked in seen)
            assert all(asked.cert_req for asked in seen)

    run(scenario())


# When one is not well.


def test_a_tsa_that_is_down_for_an_hour_is_left_alone_and_comes_back() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            one, two = world.tsas.values()
            one.mode = "down"
            for _ in range(36):
                world.grow()
                await world.pass_time(100)
            # Five tries, then probes after 60 s, 120 s, 240 s ...
            assert 8 <= len(one.seen) <= 14
            assert world.value("breaker_state", tsa="one") == 2
            assert 5 <= len(two.seen) <= 7, "the other goes on as if nothing were"
            assert world.value("lag_seconds") < 700, "one authority is the quorum"
            assert world.value("failures_total", tsa="one", cause="transport") == len(one.seen)
            assert world.value("last_success_age_seconds", tsa="one") == float("inf")
            assert world.quarantined() == []
            one.mode = "ok"
            await world.pass_time(3_600)
            assert world.value("breaker_state", tsa="one") == 0
            assert world.value("quorum_tokens") == 2
            world.grow()
            await world.pass_time(610)
            newest = world.records("one")[-1].size
            assert newest == world.records("two")[-1].size, "in step again"
            world.ledger.audit()

    run(scenario())


def test_all_down_for_hours_is_overdue_and_said_so() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two"), max_unanchored=7_200.0) as world:
            for tsa in world.tsas.values():
                tsa.mode = "down"
            size = world.grow()
            await world.pass_time(7_100, every=50)
            assert world.value("overdue") == 0
            await world.pass_time(200, every=50)
            assert world.value("overdue") == 1
            assert world.value("lag_seconds") == pytest.approx(7_300, abs=60)
            assert world.value("unanchored_leaves") == size
            assert world.anchorer.refusal() is None, "the policy is warn"
            world.tsas["two"].mode = "ok"
            await world.pass_time(3_700, every=50)
            assert world.value("overdue") == 0

    run(scenario())


def test_appends_are_refused_while_overdue_when_the_operator_says_so() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="down")
        async with World(tsa, max_unanchored=3_600.0, refuse=True) as world:
            world.grow()
            await world.pass_time(3_500, every=50)
            assert world.anchorer.refusal() is None
            await world.pass_time(200, every=50)
            refusal = world.anchorer.refusal()
            assert refusal is not None
            assert refusal.reason is Reason.UNANCHORED
            for what in ("receiptledger anchors", "unanchored_policy", "resend later"):
                assert what in refusal.message
            tsa.mode = "ok"
            await world.pass_time(3_700, every=50)
            assert world.anchorer.refusal() is None

    run(scenario())


def test_a_tsa_that_lies_about_time_is_kept_as_evidence_and_not_believed() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", clock=-3_600.0), FakeTsa("two")) as world:
            world.grow()
            await world.pass_time(700)
            assert world.records("one") == []
            assert len(world.records("two")) == 1
            # Once, once more, then an hour of rest.
            assert len(world.tsas["one"].seen) == 2
            refused = world.quarantined()
            assert [item.cause for item in refused] == ["time_window"] * 2
            assert refused[0].request == world.tsas["one"].seen[0].encode()
            assert world.value("clock_offset_seconds", tsa="one") == pytest.approx(-3_600, abs=2)
            assert world.value("attempts_total", tsa="one", result="security") == 2
            assert world.value("clock_suspect") == 0, "one alone is wrong itself"
            assert world.store.intents() == []
            world.ledger.audit()

    run(scenario())


@pytest.mark.parametrize("clock", [-86_400.0 * 3_650, -40.0, 40.0, 86_400.0 * 365])
def test_no_token_from_another_time_is_stored(clock: float) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", clock=clock)) as world:
            world.grow()
            await world.pass_time(610)
            assert world.records() == []
            # Before its certificate begins there is not even a path.
            assert world.quarantined()[0].cause in ("time_window", "chain")

    run(scenario())


def test_two_that_agree_against_us_are_right() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two")) as world:
            world.wall_offset = 120.0  # our clock runs ahead
            world.grow()
            await world.pass_time(700)
            assert world.records() == [], "never with a clock that nobody shares"
            assert world.value("clock_suspect") == 1
            world.wall_offset = 0.0
            await world.pass_time(3_700)
            assert world.value("clock_suspect") == 0
            assert len(world.records()) >= 2

    run(scenario())


def test_a_tsa_that_rotates_its_certificate_under_its_root_is_noticed() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one")
        async with World(tsa) as world:
            world.grow()
            await world.pass_time(610)
            assert world.value("tsa_cert_changes_total", tsa="one") == 0
            tsa.signer = signer("one", certificate=2)
            world.grow()
            await world.pass_time(610)
            assert len(world.records()) == 2
            assert world.value("tsa_cert_changes_total", tsa="one") == 1

    run(scenario())


@pytest.mark.parametrize(
    ("mode", "cause"),
    [("other tsa", "chain"), ("rejection", "unaccepted_policy")],
)
def test_what_will_not_pass_opens_the_breaker_at_once(mode: str, cause: str) -> None:
    """Another TSA's token, as after a rotation to a new root: kept once, asked once an hour."""

    async def scenario() -> None:
        async with World(FakeTsa("one", mode=mode), FakeTsa("two")) as world:
            world.grow()
            await world.pass_time(3 * 3_600, every=60)
            assert len(world.tsas["one"].seen) == 3
            assert world.records("one") == []
            assert [item.cause for item in world.quarantined()] == [cause]
            assert world.value("failures_total", tsa="one", cause=cause) == 3
            assert world.value("attempts_total", tsa="one", result="permanent") == 3
            world.tsas["one"].mode = "ok"
            await world.pass_time(3_600, every=60)
            assert len(world.records("one")) == 1

    run(scenario())


@pytest.mark.parametrize(
    ("mode", "cause"), [("other nonce", "nonce"), ("other message", "imprint")]
)
def test_an_answer_to_another_question_is_evidence_each_time(mode: str, cause: str) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode=mode)) as world:
            world.grow()
            await world.pass_time(600 + 3_700, every=10)
            assert len(world.tsas["one"].seen) == 3
            assert [item.cause for item in world.quarantined()] == [cause] * 3
            assert world.value("attempts_total", tsa="one", result="security") == 3
            assert world.records() == []

    run(scenario())


def test_a_replayed_token_is_refused() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            await world.pass_time(610)
            world.tsas["one"].mode = "replay"
            world.grow()
            await world.pass_time(640)
            assert len(world.records()) == 1
            assert {item.cause for item in world.quarantined()} <= {"nonce", "imprint"}
            assert len(world.quarantined()) == 2
            world.ledger.audit()

    run(scenario())


def test_a_server_that_asks_for_patience_gets_it() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode="busy")) as world:
            world.grow()
            await world.pass_time(600 + 290)
            assert len(world.tsas["one"].seen) == 1
            await world.pass_time(30)
            assert len(world.tsas["one"].seen) == 2

    run(scenario())


def test_a_tsa_that_hangs_holds_up_nobody() -> None:
    """Neither the other TSA, nor a later round of it, nor a single append."""

    async def scenario() -> None:
        async with World(FakeTsa("one", mode="hang"), FakeTsa("two")) as world:
            for _ in range(3):
                world.grow()
                world.now += 600
                await world.anchorer.step(world.now)
                assert "two" in world.anchorer._tasks
                await world.until(lambda: [*world.anchorer._tasks] == ["one"])
                world.seal()
            assert len(world.records("two")) == 3
            assert len(world.tsas["one"].seen) == 1, "never two requests at once"
            assert [intent.tsa for intent in world.store.intents()] == ["one"]
            world.tsas["one"].release.set()
            await world.anchorer.settled()
            assert world.value("failures_total", tsa="one", cause="timeout") == 1
            assert world.store.intents() == []

    run(scenario())


def test_both_verifiers_must_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them refuses is evidence; a TSA that only the strict one can read is configured so."""

    def refuse(*_: object) -> None:
        raise TsaError(Cause.SECOND_OPINION, "it does not hold")

    monkeypatch.setattr(second_opinion, "check", refuse)

    async def scenario() -> None:
        async with World(FakeTsa("one"), FakeTsa("two", strict_only=True)) as world:
            world.grow()
            await world.pass_time(610)
            assert [r.tsa for r in world.records()] == ["two"]
            assert [item.cause for item in world.quarantined()] == ["second_opinion"]
            assert world.value("attempts_total", tsa="one", result="permanent") == 1
            assert world.value("attempts_total", tsa="one", result="security") == 0, "not false"

    run(scenario())


def test_a_bug_in_us_is_survived_and_counted() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode="bug"), FakeTsa("two")) as world:
            world.grow()
            await world.pass_time(610)
            assert world.value("attempts_total", tsa="one", result="error") == 1
            assert len(world.records("two")) == 1
            world.tsas["one"].mode = "ok"
            await world.pass_time(30)
            assert len(world.records("one")) == 1

    run(scenario())


# Quorum.


def test_two_names_of_one_operator_are_one_authority() -> None:
    async def scenario() -> None:
        tsas = FakeTsa("one", operator="Example"), FakeTsa("two", operator="Example")
        async with World(*tsas, FakeTsa("three", mode="down"), quorum=2) as world:
            world.grow()
            await world.pass_time(700)
            assert len(world.records()) == 2
            assert world.value("lag_seconds") > 600
            await world.pass_time(1_800)
            assert world.value("quorum_tokens") == 1
            world.tsas["three"].mode = "ok"
            await world.pass_time(2_000)
            assert world.value("lag_seconds") == 0
            assert world.value("quorum_tokens") == 2

    run(scenario())


# On request.


def test_anchor_now_says_how_each_tsa_did() -> None:
    async def scenario() -> None:
        tsas = FakeTsa("one"), FakeTsa("two", mode="other nonce"), FakeTsa("three", mode="busy")
        async with World(*tsas) as world:
            with pytest.raises(ServiceError, match="the log is empty") as caught:
                await world.anchorer.anchor_now()
            assert caught.value.reason is Reason.NOT_SEALED
            size = world.grow()
            done = await world.anchorer.anchor_now()
            assert done.size == size
            assert done.quorum_reached
            assert [item.tsa for item in done.results] == ["one", "two", "three"]
            assert [item.cause for item in done.results] == [None, "nonce", "rate_limited"]
            assert done.results[0].gen_time == int(START) * 1_000_000
            with pytest.raises(ServiceError) as caught:
                await world.anchorer.anchor_now()
            assert caught.value.reason is Reason.OVERLOADED
            world.now += 20
            again = await world.anchorer.anchor_now()
            assert [item.cause for item in again.results] == [None, "nonce", "not_asked"]
            assert "has stamped this checkpoint already" in again.results[0].detail
            assert "Retry-After" in again.results[2].detail
            assert len(world.tsas["one"].seen) == 1

    run(scenario())


def test_anchor_now_goes_through_an_open_breaker() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode="other tsa")) as world:
            world.grow()
            await world.pass_time(700)
            assert world.value("breaker_state", tsa="one") == 2
            world.tsas["one"].mode = "ok"
            done = await world.anchorer.anchor_now()
            assert done.quorum_reached
            world.anchorer.measure(world.now)
            assert world.value("breaker_state", tsa="one") == 0

    run(scenario())


def test_anchor_now_waits_for_what_is_under_way_and_says_what_it_was_about() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="hang")
        async with World(tsa) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(tsa.seen))
            world.grow()
            asking = asyncio.create_task(world.anchorer.anchor_now())
            await asyncio.sleep(0)
            assert not asking.done()
            tsa.release.set()
            done = await asking
            assert [item.cause for item in done.results] == ["timeout"]
            assert not done.quorum_reached
            assert len(tsa.seen) == 1

    run(scenario())


def test_anchor_now_does_not_pass_an_older_checkpoint_off_as_the_newest() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)  # under way, about the first checkpoint
            world.grow()
            done = await world.anchorer.anchor_now()
            assert not done.quorum_reached
            (result,) = done.results
            assert result.cause == "not_asked"
            assert "older checkpoint" in result.detail

    run(scenario())


def test_a_caller_that_goes_away_leaves_the_requests_alone() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="hang")
        async with World(tsa) as world:
            world.grow()
            asking = asyncio.create_task(world.anchorer.anchor_now())
            await world.until(lambda: bool(tsa.seen))
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            tsa.mode = "ok"
            tsa.release.set()
            await world.anchorer.settled()
            assert world.store.intents() == [], "the request was brought to its end"

    run(scenario())


# When the store is not well.


def test_a_commit_whose_caller_is_gone_ends_quietly() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            jobs: list[CommitJob] = []
            journal = Journal(
                world.store, jobs.append, world._pool, wall=world.wall, max_quarantined=1
            )
            waiting = asyncio.create_task(journal.intend("one", 1, 1))
            await world.until(lambda: bool(jobs))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            jobs[0].done(None)
            jobs[0].done(ServiceError(Reason.UNAVAILABLE, "too late to matter"))

    run(scenario())


def test_a_store_that_fails_for_long_does_not_lose_the_token() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            world.now += 600
            for commit in range(2, 9):  # the token's, then the barriers
                world.store.fail_at(commit, Fault.LOST)
            await world.step()
            assert len(world.records()) == 1
            assert len(world.tsas["one"].seen) == 1
            world.ledger.audit()

    run(scenario())


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DONE])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_token_is_stored_exactly_once_whatever_becomes_of_the_commit(
    fault: Fault, which: int
) -> None:
    """Commit 0 is the intent; 1 the token; 2, after a fault, the seal."""

    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            world.now += 600
            world.store.fail_at(which + 1, fault)
            await world.pass_time(120)
            assert len(world.records()) == 1
            assert world.store.intents() == []
            assert len(world.tsas["one"].seen) == 1, "no token is asked for twice"
            world.ledger.audit()

    run(scenario())


def test_nothing_is_sent_without_an_intent() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            world.grow()
            world.now += 600
            world.store.fail_next(Fault.LOST)
            await world.anchorer.step(world.now)
            await world.anchorer.settled()
            assert world.tsas["one"].seen == []
            assert world.value("attempts_total", tsa="one", result="error") == 1
            assert world.value("breaker_state", tsa="one") == 0, "not the TSA's fault"

    run(scenario())


# Quarantine, memory.


def test_quarantine_is_bounded_and_the_rest_is_counted() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="other nonce")
        async with World(tsa, max_quarantined=3) as world:
            world.grow()
            await world.pass_time(600 + 8 * 3_700, every=100)
            assert len(tsa.seen) >= 8
            assert len(world.quarantined()) == 3
            assert world.value("quarantined") == 3
            assert world.value("failures_total", tsa="one", cause="nonce") == len(tsa.seen)
            assert world.store.intents() == []
            world.ledger.audit()

    run(scenario())


def test_an_operator_may_keep_nothing() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode="other nonce"), max_quarantined=0) as world:
            world.grow()
            await world.pass_time(700)
            assert world.quarantined() == []

    run(scenario())


# The end.


def test_a_stop_ends_what_is_under_way_and_closes_the_ways() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="hang")
        world = World(tsa)
        async with world:
            world.grow()
            world.now += 600
            await world.anchorer.step(world.now)
            await world.until(lambda: bool(tsa.seen))
            asking = asyncio.create_task(world.anchorer.anchor_now())
            await asyncio.sleep(0)
            await world.anchorer.stop()
            assert tsa.closed
            (result,) = (await asking).results
            assert result.detail == "the daemon is shutting down"
            assert world.store.intents() == [], "given up, not lost"

    run(scenario())


def test_causes_of_answers_are_the_metrics_labels() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            for cause in Cause:
                assert world.value("failures_total", tsa="one", cause=cause.value) == 0

    run(scenario())
