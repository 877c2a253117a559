"""`anchors verify` over many timestamps: what is kept of each, and what only the last one decides."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.cli.anchor_verify import _Found, _report, _verify
from receiptledger.cli.output import Output
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.revocation import RevocationEvidence
from receiptledger.wire import Anchor
from tests.helpers.anchored import AFTER, ALPHA, BEFORE, BETA, AnchoredWorld
from tests.helpers.authority import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from receiptledger.core.anchor_stamps import Stamp
    from receiptledger.core.trust import Trust

NOW = AFTER + timedelta(days=1)


def anchor(number: int, tsa: str = "alpha") -> Anchor:
    """As the ledger lists it."""
    return Anchor(number, tsa, 1, bytes(32), 0, 0, bytes(32), 9, number, None, None)


def judged(world: AnchoredWorld, trust: Trust | None = None) -> tuple[Stamp, ...]:
    """Each stamp of a world by itself, as the ledger gives them one by one."""
    trust = replace(world.trust() if trust is None else trust, moment=None)
    found: list[Stamp] = []
    for stamp in world.stamps:
        anchoring = world.verify(world.bundle(stamp), trust).anchoring
        assert anchoring is not None
        found += anchoring.stamps
    return tuple(found)


def decided(world: AnchoredWorld, moment: datetime = NOW, trust: Trust | None = None) -> list[str]:
    found = _Found()
    for number, stamp in enumerate(judged(world, trust)):
        found.judged(anchor(number), stamp)
    found.decide(1, moment)
    return [row.outcome for row in found.rows]


def test_what_is_kept_of_each_is_little() -> None:
    """No token, no note, no certificate: a log has very many timestamps."""
    world = AnchoredWorld.made(ALPHA)
    found = _Found()
    for number, stamp in enumerate(judged(world) * 50):
        found.judged(anchor(number), stamp)
    found.decide(1, NOW)
    values = [getattr(row, field.name) for row in found.rows for field in fields(row)]
    assert {type(value).__name__ for value in values} <= {"int", "str", "NoneType", "Life", "tuple"}
    assert max(len(value) for value in values if isinstance(value, str)) < 20
    assert len({id(row.path) for row in found.rows}) == 1


def test_a_compromise_shown_beside_one_voids_all_of_its_key() -> None:
    for at in (0, 2):
        world = AnchoredWorld.made()
        crls = ALPHA.crls(AFTER + timedelta(days=9), AFTER + timedelta(days=8), 1)
        world.add_evidence(world.stamps[at], RevocationEvidence(crls))
        assert decided(world) == ["revoked", "holds"] * 2


def test_a_compromised_key_renews_nothing() -> None:
    later = Authority("later", end=ALPHA.end + timedelta(days=3_000))
    world = AnchoredWorld.made(ALPHA)
    for days in (100, 50):
        world.stamp(ALPHA.end - timedelta(days=days), later)
    trust = world.trust(ALPHA, later)
    late = ALPHA.end + timedelta(days=1)
    assert decided(world, late, trust=trust) == ["renewed"] * 2 + ["holds"] * 2
    crls = later.crls(late, late, 1)
    world.add_evidence(world.stamps[3], RevocationEvidence(crls))
    assert decided(world, late, trust=trust) == ["expired, not renewed"] * 2 + ["revoked"] * 2


def test_a_time_from_the_future_is_below_the_policy(capsys: pytest.CaptureFixture[str]) -> None:
    world = AnchoredWorld.made(ALPHA, BETA)
    found = _Found()
    for number, stamp in enumerate(judged(world)):
        found.judged(anchor(number), stamp)
    found.decide(1, BEFORE + timedelta(minutes=1))
    assert [row.outcome for row in found.rows] == ["holds"] * 2 + ["from the future"] * 2
    assert _report(Output(True), found.rows) == 3
    *rows, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert summary["summary"] == {"from the future": 2, "holds": 2}
    assert [row["gen_time"] for row in rows[1:3]] == [
        "2026-11-30T09:50:00Z",
        "2026-11-30T10:10:00Z",
    ]


class Ledger:
    """In the place of an auditor's connection: a list that may be another one each time."""

    lists: list[list[Anchor]]

    def __init__(self, *_: object, **__: object) -> None:
        self.asked = 0

    async def __aenter__(self) -> Ledger:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def anchors(self) -> AsyncGenerator[Anchor]:
        self.asked += 1
        for one in self.lists[self.asked - 1]:
            yield one

    async def checkpoint(self) -> Any:
        class Seen:
            checkpoint = AnchoredWorld.made().log.checkpoint()

        return Seen

    async def anchor(self, number: int, *, tree_size: int) -> Any:
        raise EvidenceError(Reason.BAD_PROOF, f"none of {number} at {tree_size}")


def all_of(*lists: list[Anchor]) -> list[tuple[int, str]]:
    Ledger.lists = list(lists)
    seen: list[tuple[int, int]] = []
    world = AnchoredWorld.made()
    progress = lambda done, total: seen.append((done, total))  # noqa: E731
    found = asyncio.run(_verify("x:1", world.trust(), None, None, progress))
    assert seen == [(at, len(lists[0])) for at in range(1, len(lists[0]) + 1)]
    return [(row.number, row.outcome) for row in found.rows]


def test_what_was_stamped_meanwhile_is_left_for_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its checkpoint may be newer than the one that all are proved under."""
    monkeypatch.setattr("receiptledger.auditor.AsyncAuditor", Ledger)
    two, three = ([anchor(at) for at in range(count)] for count in (2, 3))
    assert all_of(two, three) == [(0, "bad"), (1, "bad")]
    with pytest.raises(EvidenceError, match="fewer timestamps than a moment ago"):
        all_of(three, two)
