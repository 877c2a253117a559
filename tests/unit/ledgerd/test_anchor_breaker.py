"""When a TSA that failed is asked again: each class of cause, jitter, Retry-After, probes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerd.anchoring.breaker import (
    BACKOFF_CAP_SECONDS,
    FAILURES_TO_OPEN,
    PROBE_MAX_SECONDS,
    Breaker,
    Kind,
    State,
    kind_of,
)
from receiptledger.core.timestamp_cause import Cause

NOW = 1_000.0
TRANSIENT = [cause for cause in Cause if kind_of(cause) is Kind.TRANSIENT]
PERMANENT = [cause for cause in Cause if kind_of(cause) is Kind.PERMANENT]
SECURITY = [cause for cause in Cause if kind_of(cause) is Kind.SECURITY]


def most() -> float:
    return 1.0


def least() -> float:
    return 0.0


def after(*causes: Cause, now: float = NOW) -> Breaker:
    """Failures at one moment, with the longest jitter."""
    breaker = Breaker()
    for cause in causes:
        breaker = breaker.failed(now, cause, jitter=most)
    return breaker


def test_every_cause_has_its_class() -> None:
    assert {"timeout", "transport", "http_5xx", "rate_limited", "time_not_available"} <= {
        *TRANSIENT
    }
    assert {"system_failure", "too_large", "empty_body", "lost"} <= {*TRANSIENT}
    assert {"nonce", "imprint", "signature", "time_window"} <= {*SECURITY}
    named = {"http_4xx", "redirect", "media_type", "content_type", "bad_alg", "bad_request"}
    named |= {"unaccepted_policy", "unaccepted_extension", "chain", "ess", "policy", "eku"}
    assert named <= {*PERMANENT}
    assert {"second_opinion", "credentials"} <= {*PERMANENT}, "nobody said anything false"
    assert sorted([*TRANSIENT, *PERMANENT, *SECURITY]) == sorted(Cause)


def test_a_new_breaker_is_closed() -> None:
    breaker = Breaker()
    assert breaker.well
    assert breaker.state(NOW) is State.CLOSED
    assert breaker.ask_from < NOW


@pytest.mark.parametrize("cause", TRANSIENT)
def test_transient_failures_back_off_and_open_at_the_fifth(cause: Cause) -> None:
    waits = []
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        assert breaker.state(NOW) is State.CLOSED
        breaker = breaker.failed(NOW, cause, jitter=most)
        waits.append(breaker.ask_from - NOW)
    assert waits == [5, 10, 20, 40, 60]
    assert not breaker.well
    assert breaker.state(NOW + 59.9) is State.OPEN
    assert breaker.state(NOW + 60) is State.HALF_OPEN


def test_a_failed_probe_doubles_up_to_an_hour() -> None:
    breaker, waits, now = after(*[Cause.TIMEOUT] * FAILURES_TO_OPEN), [], NOW
    for _ in range(8):
        now = breaker.ask_from
        assert breaker.state(now) is State.HALF_OPEN
        breaker = breaker.failed(now, Cause.HTTP_5XX, jitter=most)
        waits.append(breaker.ask_from - now)
    assert waits == [120, 240, 480, 960, 1920, 3600, 3600, 3600]


@pytest.mark.parametrize("cause", PERMANENT)
def test_a_permanent_failure_opens_at_once_for_an_hour(cause: Cause) -> None:
    breaker = after(cause)
    assert breaker.state(NOW) is State.OPEN
    assert breaker.ask_from == NOW + PROBE_MAX_SECONDS
    again = breaker.failed(breaker.ask_from, cause, jitter=most)
    assert again.ask_from == breaker.ask_from + PROBE_MAX_SECONDS


@pytest.mark.parametrize("cause", SECURITY)
def test_a_security_failure_is_tried_once_more_and_no_oftener(cause: Cause) -> None:
    first = after(cause)
    assert first.state(NOW) is State.CLOSED
    assert first.ask_from == NOW + 5
    second = first.failed(first.ask_from, cause, jitter=most)
    assert second.state(first.ask_from) is State.OPEN
    assert second.ask_from == first.ask_from + PROBE_MAX_SECONDS


def test_a_security_failure_between_transient_ones_stays_counted() -> None:
    breaker = after(Cause.NONCE, Cause.TIMEOUT, Cause.NONCE)
    assert breaker.state(NOW) is State.OPEN
    assert breaker.ask_from == NOW + PROBE_MAX_SECONDS


def test_a_security_failure_of_a_probe_waits_the_full_hour() -> None:
    breaker = after(*[Cause.TIMEOUT] * FAILURES_TO_OPEN, Cause.IMPRINT)
    assert breaker.ask_from == NOW + PROBE_MAX_SECONDS


def test_jitter_is_full() -> None:
    assert Breaker().failed(NOW, Cause.TIMEOUT, jitter=least).ask_from == NOW
    assert Breaker().failed(NOW, Cause.TIMEOUT, jitter=lambda: 0.5).ask_from == NOW + 2.5


@pytest.mark.parametrize(
    ("told", "waits"), [(120, 120), (7_200, 3_600), (1, 5), (-5, 5), (0, 5), (None, 5)]
)
def test_retry_after_is_honoured_up_to_an_hour(told: float | None, waits: float) -> None:
    breaker = Breaker().failed(NOW, Cause.RATE_LIMITED, retry_after=told, jitter=most)
    assert breaker.ask_from == NOW + waits
    assert breaker.state(NOW) is State.CLOSED


def test_retry_after_holds_an_open_breaker_open() -> None:
    breaker = after(*[Cause.TIMEOUT] * (FAILURES_TO_OPEN - 1))
    breaker = breaker.failed(NOW, Cause.RATE_LIMITED, retry_after=600, jitter=most)
    assert breaker.state(NOW + 599) is State.OPEN
    assert breaker.state(NOW + 600) is State.HALF_OPEN


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("before", [(), (Cause.TIMEOUT,) * FAILURES_TO_OPEN, (Cause.CHAIN,)])
def test_what_an_operator_tries_teaches_nothing_but_what_the_server_asks(
    cause: Cause, before: tuple[Cause, ...]
) -> None:
    breaker = after(*before)
    assert breaker.failed(NOW + 30, cause, manual=True, jitter=most) == breaker
    told = breaker.failed(NOW + 30, cause, retry_after=90, manual=True, jitter=most)
    assert told.told_until == NOW + 120
    assert (told.wait_until, told.probe_seconds) == (breaker.wait_until, breaker.probe_seconds)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(list(Cause)),
        st.none() | st.floats(-10, 1e6),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 5_000),
    ),
    max_size=30,
)


@given(STEPS)
def test_it_always_asks_again_within_an_hour_and_never_goes_back(
    steps: list[tuple[Cause, float | None, float, float]],
) -> None:
    """Whatever fails in whatever order: bounded waits, and no moment earlier than one promised."""
    breaker, now = Breaker(), NOW
    for cause, told, jitter, pause in steps:
        now = max(now + pause, breaker.ask_from)  # it is never asked before
        before = breaker.told_until
        breaker = breaker.failed(now, cause, retry_after=told, jitter=lambda j=jitter: j)
        assert not breaker.well
        assert now <= breaker.ask_from <= now + PROBE_MAX_SECONDS
        assert breaker.told_until >= before
        if breaker.state(now) is State.CLOSED and told is None:
            assert breaker.wait_until <= now + BACKOFF_CAP_SECONDS
            assert breaker.transient < FAILURES_TO_OPEN
        if kind_of(cause) is Kind.PERMANENT:
            assert breaker.state(now) is State.OPEN
