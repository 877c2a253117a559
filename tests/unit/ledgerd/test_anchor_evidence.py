"""Revocation evidence: when it is fetched, what is stored, what is said of it, what is missing."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.anchoring import evidence as anchor_evidence
from receiptledger.core.evidence_manifest import parse_manifest
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from receiptledger.core.revocation import RevocationEvidence, covers
from tests.helpers import tsa_pki as pki
from tests.helpers.anchor_world import START, FakeTsa, World, signer

if TYPE_CHECKING:
    from collections.abc import Coroutine

DAY = 86_400.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


async def stamped(world: World) -> None:
    """One token of each TSA."""
    world.grow()
    await world.pass_time(610)


def test_evidence_comes_a_day_later_and_is_logged() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one")
        async with World(tsa) as world:
            await stamped(world)
            await world.pass_time(DAY - 3_600, every=600)
            assert tsa.fetched == []
            await world.pass_time(2 * 3_600, every=600)
            record = world.records()[0]
            assert tsa.fetched == [
                "http://crl.test/one/ca.crl",
                "http://crl.test/one/root.crl",
            ], "once each"
            assert record.evidence is not None
            crls, ocsps = parse_manifest(record.evidence)
            assert ocsps == ()
            found = [world.store.blob(digest) for digest in crls]
            assert all(found)
            evidence = RevocationEvidence(tuple(blob for blob in found if blob))
            who = signer("one")
            path = (who.tsa.der, who.ca.der, who.root.der)
            moment = datetime.fromtimestamp(record.gen_time / 1e6, UTC)
            assert covers(path, evidence, moment)
            assert record.evidence_leaf_index is not None
            (leaf,) = world.store.leaves(record.evidence_leaf_index, 1)
            parsed = parse_leaf(leaf)
            assert isinstance(parsed, AnchorLeaf)
            assert parsed.evidence == hashlib.sha256(record.evidence).digest()
            assert parsed.response == hashlib.sha256(record.response).digest()
            assert world.value("revocation_evidence_missing") == 0
            world.ledger.audit()

    run(scenario())


def test_one_round_fetches_once_for_many_tokens() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one")
        async with World(tsa) as world:
            for _ in range(5):
                await stamped(world)
            assert await world.anchorer.step_evidence(world.now) == 0, "too early for all"
            world.now += DAY
            assert await world.anchorer.step_evidence(world.now) == 5
            assert len(set(tsa.fetched)) == 2
            assert await world.anchorer.step_evidence(world.now) == 0, "done"
            world.seal()
            assert len(list(world.store.anchors_without_evidence(2**62))) == 0
            world.ledger.audit()

    run(scenario())


def test_what_cannot_be_had_is_missing_and_tried_every_hour() -> None:
    async def scenario() -> None:
        tsa, other = FakeTsa("one", crls=False), FakeTsa("two")
        async with World(tsa, other) as world:
            await stamped(world)
            await world.pass_time(DAY + 3_600, every=600)
            tries = len(tsa.fetched)
            assert tries >= 1
            assert world.value("revocation_evidence_missing") == 1, "the other has its own"
            await world.pass_time(48 * 3_600, every=600)
            assert 45 <= len(tsa.fetched) - tries <= 50
            assert world.value("revocation_evidence_missing_seconds") >= 71 * 3_600
            assert world.value("revocation_evidence_missing") > 1
            tsa.crls = True
            await world.pass_time(2 * 3_600, every=600)
            assert world.value("revocation_evidence_missing") == 0
            assert world.value("revocation_evidence_missing_seconds") == 0
            world.ledger.audit()

    run(scenario())


def test_a_list_older_than_the_token_will_not_do() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one", lists_at=at(0))
        async with World(tsa) as world:
            await stamped(world)
            world.now += DAY
            assert await world.anchorer.step_evidence(world.now) == 0
            assert world.records()[0].evidence is None
            assert world.value("revocation_evidence_missing") == 1
            tsa.lists_at = at(DAY)
            assert await world.anchorer.step_evidence(world.now) == 0, "not before an hour is over"
            world.now += 3_600
            assert await world.anchorer.step_evidence(world.now) == 1

    run(scenario())


def test_a_revoked_certificate_is_stored_and_shouted_about() -> None:
    """keyCompromise voids every token of the key: exactly what a verifier must get to see."""

    async def scenario() -> None:
        tsa = FakeTsa("one")
        tsa.revoked = (pki.entry(signer("one").tsa, at(3_600), 1),)
        async with World(tsa) as world:
            await stamped(world)
            world.now += DAY
            assert await world.anchorer.step_evidence(world.now) == 1
            assert world.records()[0].evidence is not None
            assert world.value("failures_total", tsa="one", cause="revoked") == 1
            assert world.value("attempts_total", tsa="one", result="security") == 1
            world.seal()
            world.ledger.audit()

    run(scenario())


def test_revoked_later_for_a_harmless_reason_is_a_warning() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one")
        tsa.revoked = (pki.entry(signer("one").tsa, at(3_600), 4),)
        async with World(tsa) as world:
            await stamped(world)
            world.now += DAY
            assert await world.anchorer.step_evidence(world.now) == 1
            assert world.value("warnings_total", kind="revoked_later") == 1
            assert world.value("attempts_total", tsa="one", result="security") == 0

    run(scenario())


def test_tokens_of_a_removed_tsa_are_stranded_and_hold_up_nobody() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("gone"), FakeTsa("one")) as world:
            await stamped(world)
            world.now += DAY
        async with World(FakeTsa("one"), ledger=world.ledger.crash(), now=world.now) as world:
            assert await world.anchorer.step_evidence(world.now) == 1
            assert world.value("revocation_evidence_stranded") == 1
            assert world.value("revocation_evidence_missing") == 0
            assert world.value("revocation_evidence_missing_seconds") == 0

    run(scenario())


def test_a_token_that_today_leads_nowhere_gets_none() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            await stamped(world)
            world.now += DAY
        moved = FakeTsa("one")
        configured = moved.tsa
        trust = type(configured.trust)("one", "one", (signer("elsewhere").root.der,))
        world = World(moved, ledger=world.ledger.crash(), now=world.now)
        async with world:
            elsewhere = type(configured)(configured.settings, trust, moved)
            world.evidence._tsas["one"] = elsewhere
            assert await world.anchorer.step_evidence(world.now) == 0
            assert moved.fetched == []

    run(scenario())


@pytest.mark.parametrize("fault", ["lost", "done"])
def test_a_store_that_fails_is_tried_again(fault: str) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            await stamped(world)
            world.now += DAY
            world.store.fail_next(fault)
            assert await world.anchorer.step_evidence(world.now) == 0
            world.seal()
            await world.anchorer.step_evidence(world.now)
            world.seal()
            assert world.records()[0].evidence is not None
            world.ledger.audit()

    run(scenario())


def test_one_round_is_bounded_and_the_next_goes_on_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anchor_evidence, "MAX_DONE", 2)

    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            for _ in range(5):
                await stamped(world)
            world.now += DAY
            assert await world.anchorer.step_evidence(world.now) == 2
            assert world.value("revocation_evidence_missing") == 3
            assert world.evidence.due(world.now)
            assert await world.anchorer.step_evidence(world.now) == 2
            assert await world.anchorer.step_evidence(world.now) == 1
            assert not world.evidence.due(world.now)
            assert world.evidence.due(world.now + 300)

    run(scenario())


def test_a_round_that_breaks_is_logged_and_the_next_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one")) as world:
            await stamped(world)
            world.now += DAY

            async def broken(now: float) -> int:
                raise RuntimeError(f"nobody thought of this at {now}")

            monkeypatch.setattr(world.evidence, "step", broken)
            await world.anchorer.step(world.now)
            with pytest.raises(RuntimeError):
                await asyncio.gather(*world.anchorer._under_way())
            await world.anchorer.settled()
            monkeypatch.undo()
            await world.anchorer.step(world.now)
            await world.anchorer.settled()
            assert world.records()[0].evidence is not None

    run(scenario())


def test_the_delay_is_the_operators() -> None:
    async def scenario() -> None:
        async with World(FakeTsa("one"), evidence_delay=0.0) as world:
            await stamped(world)
            await world.pass_time(3_610, every=300)
            assert world.records()[0].evidence is not None

    run(scenario())


def test_a_certificate_of_a_year_is_long_enough_for_these_tests() -> None:
    assert signer("one").tsa.der != signer("two").tsa.der
    assert at(0) + timedelta(days=365) < pki.NOT_AFTER


def moved(world: World, tsa: FakeTsa, *roots: bytes) -> None:
    """The operator changed the roots of a TSA, and restarted."""
    before = tsa.tsa
    trust = type(before.trust)(tsa.name, tsa.name, roots)
    world.evidence._tsas[tsa.name] = type(before)(before.settings, trust, tsa)


def test_tokens_under_a_replaced_root_are_counted_apart_and_hold_up_nobody() -> None:
    """Stranded for ever; the new ones behind them get their evidence all the same."""

    async def scenario() -> None:
        new = signer("one-moved")
        old = FakeTsa("one")
        async with World(old) as world:
            await stamped(world)
            await stamped(world)
            world.now += DAY
        tsa = FakeTsa("one")
        async with World(tsa, ledger=world.ledger.crash(), now=world.now) as world:
            moved(world, tsa, new.root.der)
            assert await world.anchorer.step_evidence(world.now) == 0
            assert tsa.fetched == []
            assert world.value("revocation_evidence_stranded") == 2
            assert world.value("revocation_evidence_missing") == 0
            assert world.value("revocation_evidence_missing_seconds") == 0, "no alert for ever"
            moved(world, tsa, new.root.der, signer("one").root.der)
            world.evidence._stranded.clear()  # the next process
            assert await world.anchorer.step_evidence(world.now) == 2, "the old root beside the new"
            assert world.value("revocation_evidence_stranded") == 0

    run(scenario())


def test_stranded_tokens_do_not_hide_those_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; and each is verified once in a process."""
    monkeypatch.setattr(anchor_evidence, "MAX_LOOKED_AT", 2)

    async def scenario() -> None:
        async with World(FakeTsa("gone"), FakeTsa("one")) as world:
            for _ in range(3):
                await stamped(world)
            world.now += DAY
        async with World(FakeTsa("one"), ledger=world.ledger.crash(), now=world.now) as world:
            given = 0
            for _ in range(4):
                given += await world.anchorer.step_evidence(world.now)
            assert given == 3
            assert world.value("revocation_evidence_stranded") == 3

    run(scenario())


def test_what_is_due_is_found_within_five_minutes() -> None:
    async def scenario() -> None:
        tsa = FakeTsa("one")
        async with World(tsa) as world:
            await stamped(world)
            stored = world.records()[0].stored_at / 1e6
            world.now = stored + DAY - 1
            await world.step()
            assert world.records()[0].evidence is None
            await world.pass_time(300)
            assert world.records()[0].evidence is not None

    run(scenario())
