"""Waiting and giving up; time and chance are arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.backoff import Backoff, Retry

RETRY = Retry(first_s=1.0, factor=2.0, longest_s=8.0, attempts=100, give_up_s=100.0)


def test_grows_to_the_longest_wait() -> None:
    backoff = Backoff(RETRY)
    assert [backoff.failed(0.0, 0.5) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_success_starts_a_new_row() -> None:
    backoff = Backoff(RETRY)
    backoff.failed(0.0, 0.5)
    backoff.failed(99.0, 0.5)
    backoff.succeeded()
    assert backoff.failures == 0
    assert backoff.failed(150.0, 0.5) == 0.5
    assert backoff.failed(249.0, 0.5) == 1.0


def test_adds_to_what_the_daemon_asked_for() -> None:
    assert Backoff(RETRY).failed(0.0, 0.0, 3.0) == 3.0
    assert Backoff(RETRY).failed(0.0, 0.5, 3.0) == 3.5


def test_gives_up_after_the_attempts() -> None:
    backoff = Backoff(Retry(first_s=1.0, longest_s=8.0, attempts=3))
    assert backoff.failed(0.0, 0.0) is not None
    assert backoff.failed(0.0, 0.0) is not None
    assert backoff.failed(0.0, 0.0) is None


def test_gives_up_after_the_time() -> None:
    backoff = Backoff(RETRY)
    assert backoff.failed(1_000.0, 0.0) is not None
    assert backoff.failed(1_099.9, 0.0) is not None
    assert backoff.failed(1_100.0, 0.0) is None


@given(st.integers(1, 3_000), st.floats(0, 1, exclude_max=True))
def test_no_row_is_too_long(failures: int, chance: float) -> None:
    backoff = Backoff(Retry(factor=10.0, longest_s=10.0, attempts=10_000))
    for _ in range(failures):
        wait = backoff.failed(0.0, chance)
        assert wait is not None
        assert 0 <= wait <= 10.0


@pytest.mark.parametrize(
    "wrong", [{"first_s": -1.0}, {"first_s": 11.0}, {"factor": 0.5}, {"attempts": 0}], ids=str
)
def test_wrong_bounds(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="retry"):
        Retry(**wrong)  # type: ignore[arg-type]
