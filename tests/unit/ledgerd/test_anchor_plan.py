"""When which TSA is asked: each rule alone, together, and as properties over many steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerd.anchoring.breaker import Breaker
from ledgerd.anchoring.plan import (
    OVERDUE_PROBE_SECONDS,
    AnchorRules,
    Growth,
    Live,
    Tree,
    TsaView,
    anchored_size,
    clock_suspect,
    due,
    hindrance,
    still_live,
    up_to_date,
)
from receiptledger.core.timestamp_cause import Cause

NOW = 100_000.0
RULES = AnchorRules(
    interval=600, max_leaves=100, min_spacing=20, heartbeat=86_400, quorum=1, max_unanchored=3_600
)
A, B, C = (TsaView(name, name.upper()) for name in "abc")


def grown(*entries: tuple[int, float]) -> Growth:
    growth = Growth()
    for size, at in entries:
        growth.see(size, at)
    return growth


def names(*views: TsaView, tree: Tree, growth: Growth, now: float = NOW) -> tuple[str, ...]:
    return due(views, tree, growth, now, RULES)


def failed(cause: Cause = Cause.TIMEOUT, at: float = NOW - 100, times: int = 1) -> Breaker:
    breaker = Breaker()
    for _ in range(times):
        breaker = breaker.failed(at, cause, jitter=lambda: 1.0)
    return breaker


# When.


def test_an_empty_log_is_never_anchored() -> None:
    assert names(A, B, tree=Tree(0, 0), growth=Growth()) == ()
    assert names(replace(A, owed=True), tree=Tree(0, 0), growth=Growth()) == ()


@pytest.mark.parametrize(("age", "expected"), [(599.9, ()), (600, ("a", "b"))])
def test_the_age_of_the_oldest_leaf_decides(age: float, expected: tuple[str, ...]) -> None:
    growth = grown((3, NOW - age), (9, NOW))
    assert names(A, B, tree=Tree(9, 9), growth=growth) == expected


@pytest.mark.parametrize(("leaves", "expected"), [(99, ()), (100, ("a", "b"))])
def test_the_number_of_leaves_decides(leaves: int, expected: tuple[str, ...]) -> None:
    views = [replace(view, anchored=50) for view in (A, B)]
    tree = Tree(50 + leaves, 50 + leaves)
    assert names(*views, tree=tree, growth=grown((tree.content, NOW))) == expected


def test_anchor_leaves_are_no_growth() -> None:
    """Two anchor leaves behind an anchored size: nothing, however long."""
    views = [replace(view, anchored=10, stamped_at=NOW - 80_000) for view in (A, B)]
    growth = grown((10, NOW - 80_000))
    assert names(*views, tree=Tree(12, 10), growth=growth) == ()


@pytest.mark.parametrize(("age", "expected"), [(86_399, ()), (86_400, ("a", "b"))])
def test_an_idle_log_gets_a_heartbeat_a_day(age: float, expected: tuple[str, ...]) -> None:
    views = [replace(view, anchored=10, stamped_at=NOW - age) for view in (A, B)]
    assert names(*views, tree=Tree(12, 10), growth=grown((10, 0.0))) == expected


def test_no_heartbeat_over_the_very_same_checkpoint() -> None:
    view = replace(A, anchored=12, stamped_at=NOW - 90_000)
    assert names(view, tree=Tree(12, 10), growth=grown((10, 0.0))) == ()


def test_a_lost_request_is_repeated_at_once() -> None:
    growth = grown((10, NOW))
    assert names(replace(A, owed=True), B, tree=Tree(10, 10), growth=growth) == ("a", "b")
    assert names(A, B, tree=Tree(10, 10), growth=growth) == ()


# Whom.


def test_nobody_is_asked_twice_at_once_or_too_soon() -> None:
    growth, tree = grown((10, NOW - 700)), Tree(10, 10)
    assert names(replace(A, busy=True), B, tree=tree, growth=growth) == ("b",)
    assert names(replace(A, tried_at=NOW - 19.9), B, tree=tree, growth=growth) == ("b",)
    assert names(replace(A, tried_at=NOW - 20), B, tree=tree, growth=growth) == ("a", "b")


def test_a_breaker_is_respected() -> None:
    growth, tree = grown((10, NOW - 7_000)), Tree(10, 10)
    resting = replace(A, breaker=failed(Cause.CHAIN))
    assert names(resting, B, tree=tree, growth=growth) == ("b",)
    assert names(resting, B, tree=tree, growth=growth, now=NOW + 3_500) == ("a", "b")


def test_others_join_one_that_is_due() -> None:
    """B would be due later, but one checkpoint with both tokens is worth more than two with one."""
    behind = replace(A, anchored=5)
    ahead = replace(B, anchored=8, stamped_at=NOW - 30)
    growth = grown((5, NOW - 900), (8, NOW - 650), (10, NOW - 10))
    assert names(behind, ahead, tree=Tree(10, 10), growth=growth) == ("a", "b")
    covered = replace(ahead, anchored=10)
    assert names(behind, covered, tree=Tree(10, 10), growth=growth) == ("a",)


def test_others_do_not_follow_the_retries_of_one_that_fails() -> None:
    behind = replace(A, anchored=5, breaker=failed())
    ahead = replace(B, anchored=8, stamped_at=NOW - 30)
    growth = grown((5, NOW - 900), (8, NOW - 650), (10, NOW - 10))
    assert names(behind, ahead, tree=Tree(10, 10), growth=growth) == ("a",)


def test_an_operator_overrides_our_rules_but_not_the_servers() -> None:
    assert hindrance(A, NOW, RULES) is None
    assert hindrance(replace(A, breaker=failed(Cause.CHAIN)), NOW, RULES) is None
    assert "under way" in str(hindrance(replace(A, busy=True), NOW, RULES))
    spaced = str(hindrance(replace(A, tried_at=NOW - 5), NOW, RULES))
    assert spaced == (
        "it was asked 5 s ago; anchor_min_spacing_seconds is 20, so wait another 15 s"
    ), "the one that holds it back, and no other"
    told = Breaker().failed(NOW, Cause.RATE_LIMITED, retry_after=90, jitter=lambda: 0.0)
    pause = "its server asked for a pause (Retry-After), which lasts another 90 s"
    assert hindrance(replace(A, breaker=told), NOW, RULES) == pause
    assert hindrance(replace(A, breaker=told, tried_at=NOW - 5), NOW, RULES) == pause
    soon = Breaker().failed(NOW, Cause.RATE_LIMITED, retry_after=2, jitter=lambda: 0.0)
    assert "Retry-After" not in str(
        hindrance(replace(A, breaker=soon, tried_at=NOW - 5), NOW, RULES)
    )
    assert "another 1 s" in str(hindrance(replace(A, tried_at=NOW - 19.9), NOW, RULES))


@pytest.mark.parametrize("cause", [Cause.CHAIN, Cause.NONCE, Cause.TIMEOUT])
def test_while_overdue_a_broken_tsa_is_tried_every_minute(cause: Cause) -> None:
    growth = grown((5, NOW - 9_000))
    view = replace(A, breaker=failed(cause, at=NOW, times=12), tried_at=NOW)
    tree = Tree(5, 5)
    assert view.breaker.ask_from >= NOW + 3_600

    def asked(at: float, *, overdue: bool) -> bool:
        return due([view], tree, growth, at, RULES, overdue=overdue) == ("a",)

    assert not asked(NOW + OVERDUE_PROBE_SECONDS, overdue=False)
    assert not asked(NOW + OVERDUE_PROBE_SECONDS - 1, overdue=True)
    assert asked(NOW + OVERDUE_PROBE_SECONDS, overdue=True)


def test_while_overdue_a_server_that_asks_for_patience_gets_it_all_the_same() -> None:
    told = Breaker().failed(NOW, Cause.RATE_LIMITED, retry_after=900, jitter=lambda: 0.0)
    view = replace(A, breaker=told, tried_at=NOW)
    growth, tree = grown((5, NOW - 9_000)), Tree(5, 5)
    assert due([view], tree, growth, NOW + 899, RULES, overdue=True) == ()
    assert due([view], tree, growth, NOW + 900, RULES, overdue=True) == ("a",)


# What is covered.


def test_quorum_counts_authorities_not_tokens() -> None:
    one = [replace(A, anchored=9), TsaView("a2", "A", anchored=7), replace(B, anchored=4)]
    assert anchored_size(one, 1) == 9
    assert anchored_size(one, 2) == 4, "two tokens of one operator are one voice"
    assert anchored_size(one, 3) == 0
    assert anchored_size([], 1) == 0


def test_an_authority_is_up_to_date_until_it_is_three_intervals_behind() -> None:
    growth, tree = grown((5, NOW - 1_801), (8, NOW - 1_800)), Tree(9, 8)
    views = [replace(A, anchored=4), replace(B, anchored=5), replace(C, anchored=8)]
    assert up_to_date(views, tree, growth, NOW, RULES) == 2
    assert up_to_date(views, tree, growth, NOW + 1, RULES) == 1, "what covers everything is current"
    twins = [replace(A, anchored=4), TsaView("a2", "A", anchored=8)]
    assert up_to_date(twins, tree, growth, NOW, RULES) == 1
    assert up_to_date([A, B], Tree(0, 0), Growth(), NOW, RULES) == 2, "an empty log needs nothing"
    assert up_to_date([], tree, growth, NOW, RULES) == 0


@pytest.mark.parametrize(
    ("offsets", "suspect"),
    [
        ({}, False),
        ({"A": 100.0}, False),
        ({"A": 100.0, "B": 0.1}, False),
        ({"A": 100.0, "B": -100.0}, False),
        ({"A": 100.0, "B": 104.9}, True),
        ({"A": -40.0, "B": 0.0, "C": -41.0}, True),
        ({"A": 29.0, "B": 29.0}, False),
    ],
)
def test_two_that_agree_against_us_make_our_clock_suspect(
    offsets: dict[str, float], suspect: bool
) -> None:
    assert clock_suspect(offsets, 30.0) is suspect


def test_an_anchor_lives_until_a_later_checkpoint_covers_its_leaf() -> None:
    lives = (Live(0, 10, 1.0), Live(1, 12, 2.0), Live(2, None, 3.0))
    assert [live.number for live in still_live(lives, 10)] == [0, 1, 2]
    assert [live.number for live in still_live(lives, 11)] == [1, 2]
    assert [live.number for live in still_live(lives, 100)] == [2], "no leaf yet: nothing covers it"


# Growth.


def test_growth_knows_when_a_leaf_came() -> None:
    growth = grown((3, 10.0), (3, 11.0), (2, 12.0), (5, 20.0))
    assert len(growth) == 2
    assert [growth.since(covered) for covered in (0, 2, 3, 4, 5, 9)] == [10, 10, 20, 20, None, None]
    growth.forget(3)
    assert growth.since(0) == 20.0
    growth.forget(5)
    growth.see(5, 99.0)
    assert growth.since(4) == 20.0, "a size that was seen is not seen anew"
    assert growth.since(5) is None


def test_growth_thins_its_older_half_and_keeps_the_newer_one_exact() -> None:
    growth = Growth(limit=8)
    for size in range(1, 10):
        growth.see(size, float(size))
    assert len(growth) == 7
    assert [growth.since(size - 1) for size in range(1, 10)] == [1, 1, 3, 3, 5, 6, 7, 8, 9]


def test_growth_of_an_empty_log_is_none() -> None:
    growth = grown((0, 1.0))
    growth.forget(0)
    assert len(growth) == 0
    assert growth.since(0) is None


def test_a_clock_set_back_makes_no_leaf_younger_than_those_before() -> None:
    growth = grown((1, 50.0), (2, 40.0))
    assert growth.since(1) == 50.0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(0, 30)), max_size=400),
    st.lists(st.integers(0, 3_000), max_size=5),
)
def test_growth_stays_small_and_never_says_younger(
    steps: list[tuple[int, float]], questions: list[int]
) -> None:
    """Against a list of everything: bounded, and only older than the truth, never younger."""
    growth, truth, size, now = Growth(limit=16), [], 0, 0.0
    for more, pause in steps:
        size, now = size + more, now + pause
        growth.see(size, now)
        truth.append((size, now))
        assert len(growth) <= 16
    for covered in [*questions, max(size - 1, 0), size]:
        exact = next((at for s, at in truth if s > covered), None)
        said = growth.since(covered)
        assert (said is None) == (exact is None)
        if said is not None and exact is not None:
            assert said <= exact
            if len(growth) < 8 or growth._seen[-8][0] <= covered:
                assert said == exact, "the newer half is exact"


# Together.


@given(st.data())
def test_over_many_steps_the_spacing_holds_and_nothing_stays_unanchored(
    data: st.DataObject,
) -> None:
    """Whatever grows and fails: never two requests to one TSA within the spacing, never the old size
    again, and once all is well everything is covered within the interval."""
    growth, now, size = Growth(), NOW, 0
    views = {"a": A, "b": B}
    for _ in range(data.draw(st.integers(1, 60))):
        now += data.draw(st.floats(0, 300))
        size += data.draw(st.integers(0, 40))
        growth.see(size, now)
        for name in due(list(views.values()), Tree(size, size), growth, now, RULES):
            view = views[name]
            assert now - view.tried_at >= RULES.min_spacing
            assert size > view.anchored
            assert now >= view.breaker.ask_from
            view = replace(view, tried_at=now)
            if data.draw(st.booleans()):
                view = replace(view, anchored=size, stamped_at=now, breaker=Breaker())
            else:
                cause = data.draw(st.sampled_from([Cause.TIMEOUT, Cause.CHAIN, Cause.NONCE]))
                breaker = view.breaker.failed(now, cause, jitter=lambda: 1.0)
                view = replace(view, breaker=breaker)
            views[name] = view
        growth.forget(min(view.anchored for view in views.values()))
    now += 3_600 + RULES.interval  # the longest a breaker rests
    for name in due(list(views.values()), Tree(size, size), growth, now, RULES):
        views[name] = replace(views[name], anchored=size)
    assert anchored_size(views.values(), 2) == size
