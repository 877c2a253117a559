"""Overdue anchors: what is logged, how soon service is back, and that trying a repair does no harm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from receiptledger.core.timestamp_cause import Cause
from tests.helpers.anchor_world import FakeTsa, World

if TYPE_CHECKING:
    from collections.abc import Coroutine

OVERDUE = {"interval": 600.0, "max_unanchored": 3_600.0}


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def events(logs: list[Any], *wanted: str) -> list[str]:
    return [line["event"] for line in logs if any(word in line["event"] for word in wanted)]


@pytest.mark.parametrize("refuse", [False, True])
def test_the_journal_says_when_it_begins_and_when_it_ends(refuse: bool) -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="down")
        async with World(tsa, refuse=refuse, **OVERDUE) as world:
            world.grow()
            with capture_logs() as logs:
                await world.pass_time(3_500, every=50)
                assert events(logs, "overdue", "receipts") == []
                await world.pass_time(600, every=50)
                began = ["anchors are overdue"]
                began += ["receipts are refused from now on"] if refuse else []
                assert events(logs, "overdue", "receipts") == began, "once, not at each step"
                first = next(line for line in logs if line["event"] == "anchors are overdue")
                assert first["log_level"] == "error"
                assert first["lag_seconds"] > first["max_unanchored_seconds"] == 3_600
                assert first["unanchored_leaves"] == 2
                tsa.mode = "ok"
                await world.pass_time(120, every=10)
                ended = ["anchors are no longer overdue"]
                ended += ["receipts are taken again"] if refuse else []
                assert events(logs, "overdue", "receipts") == began + ended

    run(scenario())


def test_a_start_with_overdue_anchors_says_so() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode="down"), **OVERDUE) as world:
            world.grow()
        with capture_logs() as logs:
            late = world.now + 5_000
            async with World(
                FakeTsa("one", mode="down"),
                ledger=world.ledger.crash(),
                now=late,
                refuse=True,
                **OVERDUE,
            ):
                assert events(logs, "overdue", "refused") == [
                    "anchors are overdue",
                    "receipts are refused from now on",
                ]

    run(scenario())


@pytest.mark.parametrize("refuse", [False, True])
@pytest.mark.parametrize("mode", ["down", "other tsa", "other nonce", "rejection"])
def test_service_is_back_within_about_a_minute(mode: str, refuse: bool) -> None:
    """However long it was gone, and whatever the breaker learnt from it."""

    async def scenario() -> None:
        tsas = FakeTsa("one", mode=mode), FakeTsa("two", mode=mode)
        async with World(*tsas, refuse=refuse, quorum=2, **OVERDUE) as world:
            world.grow()
            await world.pass_time(12 * 3_600, every=30)
            assert world.value("overdue") == 1
            for tsa in tsas:
                tsa.mode = "ok"
            await world.pass_time(80, every=10)
            assert world.value("overdue") == 0
            assert world.anchorer.refusal() is None
            assert world.value("breaker_state", tsa="one") == 0

    run(scenario())


def test_while_not_overdue_a_broken_tsa_has_its_rest() -> None:
    async def scenario() -> None:
        tsas = FakeTsa("one", mode="other tsa"), FakeTsa("two")
        async with World(*tsas, **OVERDUE) as world:
            for _ in range(24):
                world.grow()
                await world.pass_time(600, every=30)
            assert world.value("overdue") == 0
            assert len(tsas[0].seen) <= 5, "once an hour"

    run(scenario())


def test_evidence_of_an_answer_that_is_false_each_minute_is_kept_once_an_hour() -> None:
    """A clock that is wrong for a night must not fill the store."""

    async def scenario() -> None:
        tsa = FakeTsa("one", clock=-3_600.0)
        async with World(tsa, **OVERDUE) as world:
            world.grow()
            await world.pass_time(11 * 3_600, every=60)
            assert world.value("overdue") == 1
            assert len(tsa.seen) > 500
            assert 10 <= len(world.quarantined()) <= 13
            kept = len(world.quarantined())
            world.now += 30
            await world.anchorer.anchor_now()
            assert len(world.quarantined()) == kept + 1, "what an operator asked for is kept"

    run(scenario())


@pytest.mark.parametrize("mode", ["down", "other tsa", "other nonce"])
def test_trying_out_a_repair_puts_nothing_off(mode: str) -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode=mode)
        async with World(tsa, FakeTsa("two")) as world:
            world.grow()
            await world.pass_time(1_200)
            before = world.anchorer._states["one"].view.breaker
            assert not before.well
            for _ in range(10):
                world.now += 20
                done = await world.anchorer.anchor_now()
                assert done.results[0].cause is not None
            assert world.anchorer._states["one"].view.breaker == before
            assert world.value("attempts_total", tsa="one", result="error") == 0

    run(scenario())


def test_a_try_of_an_operator_that_fails_leaves_a_healthy_tsa_healthy() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", mode="other tsa")
        async with World(tsa) as world:
            world.grow()
            done = await world.anchorer.anchor_now()
            assert done.results[0].cause == Cause.CHAIN
            assert world.value("breaker_state", tsa="one") == 0
            tsa.mode = "ok"
            await world.pass_time(610)
            assert len(world.records()) == 1, "when it was due, not an hour later"

    run(scenario())


@pytest.mark.parametrize(
    ("mode", "cause"),
    [("garbage", "der"), ("other nonce", "nonce"), ("rejection", "unaccepted_policy")],
)
def test_a_cause_is_said_once(mode: str, cause: str) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one", mode=mode)) as world:
            world.grow()
            with capture_logs() as logs:
                (result,) = (await world.anchorer.anchor_now()).results
            assert result.cause == cause
            assert "bad_timestamp" not in result.detail
            assert f"({cause})" not in result.detail
            (line,) = [line for line in logs if "no usable timestamp" in line["event"]]
            assert (line["cause"], line["detail"]) == (cause, result.detail)
            assert line["asked_by_an_operator"] is True

    run(scenario())
