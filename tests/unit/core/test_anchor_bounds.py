"""Renewal over very many stamps: the same as by the rule read aloud, and in little time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.anchor_bounds import (
    CLOCK_ALLOWANCE,
    COUNTED,
    Life,
    is_future,
    life_of,
    outcomes,
    renewed,
)
from receiptledger.core.anchor_stamps import Outcome, Stamp
from receiptledger.core.timestamp import verify_response
from tests.helpers.anchored import AFTER, ALPHA

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
TOKEN = verify_response(ALPHA.answer(b"x", AFTER)[1], b"x", ALPHA.trust)


def life(
    *, time: int, until: int, size: int = 1, index: int = 0, by: str = "a", width: int = 1
) -> Life:
    """Times in days after `AFTER`, the accuracy in seconds."""
    at = AFTER + time * DAY
    return Life(by, size, index, at - width * SECOND, at, at + width * SECOND, AFTER + until * DAY)


def by_the_rule(lives: list[Life | None], quorum: int, moment: int) -> list[Outcome | None]:
    """The definition, in as many steps as it takes."""
    now = AFTER + moment * DAY
    result: list[Outcome | None] = [None] * len(lives)
    known = [at for at, one in enumerate(lives) if one is not None]
    for at in sorted(known, key=lambda at: lives[at].gen_time, reverse=True):  # type: ignore[union-attr]
        old = lives[at]
        assert old is not None
        if old.earliest - now > CLOCK_ALLOWANCE:
            result[at] = Outcome.FUTURE
        elif now <= old.until:
            result[at] = Outcome.HOLDS
        else:
            by = {
                newer.authority
                for number, newer in enumerate(lives)
                if newer is not None
                and result[number] in COUNTED
                and newer.size > old.index
                and newer.gen_time > old.gen_time
                and newer.latest <= old.until
            }
            result[at] = Outcome.RENEWED if len(by) >= quorum else Outcome.EXPIRED
    return result


LIVES = st.builds(
    life,
    time=st.integers(0, 12),
    until=st.integers(0, 14),
    size=st.integers(0, 6),
    index=st.integers(0, 6),
    by=st.sampled_from("abc"),
    width=st.sampled_from([1, 60, 2 * 86_400]),
)


@given(st.lists(st.none() | LIVES, max_size=24), st.integers(1, 3), st.integers(-1, 15))
def test_outcomes_are_those_of_the_rule(lives: list[Life | None], quorum: int, moment: int) -> None:
    assert outcomes(lives, quorum, AFTER + moment * DAY) == by_the_rule(lives, quorum, moment)


@pytest.mark.timeout(60)
def test_thirty_thousand_expired_stamps_take_seconds() -> None:
    """Held against each other one by one, they would take many minutes."""
    count = 30_000
    lives = [
        life(time=at % 700, until=900, size=at + 1, index=at, by=f"authority {at % 8}")
        for at in range(count)
    ]
    lives.append(life(time=800, until=2_000, size=count, index=count, by="last"))
    found = outcomes(lives, 1, AFTER + 1_000 * DAY)
    assert found[:count] == [Outcome.RENEWED] * count
    assert found[count] is Outcome.HOLDS
    again = outcomes(lives, 2, AFTER + 1_000 * DAY)
    assert again[:count].count(Outcome.EXPIRED) > count // 2


def stamp(**changes: object) -> Stamp:
    given = Stamp(b"", b"", b"", 3, 2, "x", Outcome.HOLDS, ALPHA.trust, TOKEN)
    return replace(given, **changes)  # type: ignore[arg-type]


def test_only_accepted_stamps_have_a_life() -> None:
    found = life_of(stamp())
    assert found is not None
    assert (found.authority, found.size, found.index) == ("alpha", 3, 2)
    assert (found.gen_time, found.latest - found.earliest) == (AFTER, 2 * SECOND)
    assert found.until == ALPHA.end
    for nothing in ({"tsa": None}, {"timestamp": None}, {"size": None}):
        assert life_of(stamp(**nothing)) is None


def test_refused_stamps_keep_their_outcome() -> None:
    void = stamp(tsa=None, timestamp=None, outcome=Outcome.VOID)
    late = ALPHA.end + SECOND
    assert [one.outcome for one in renewed([void, stamp()], 1, late)] == [
        Outcome.VOID,
        Outcome.EXPIRED,
    ]
    assert renewed([void, stamp()], 1, None) == [void, stamp()]


def test_what_is_the_future() -> None:
    assert not is_future(AFTER, None)
    assert not is_future(AFTER + CLOCK_ALLOWANCE, AFTER)
    assert is_future(AFTER + CLOCK_ALLOWANCE + SECOND, AFTER)
