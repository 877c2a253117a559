"""A fresh timestamp against our clock, and the words for what is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from receiptledger.core.errors import EvidenceError, LedgerError, Reason
from receiptledger.core.timestamp import (
    Cause,
    TimestampError,
    check_time_window,
    verify_response,
)
from receiptledger.core.timestamp_algorithms import TABLE, not_after, usable
from tests.helpers import tsa_pki as pki
from tests.helpers.tsa_forge import MESSAGE, NOW

STAMP = verify_response(pki.response_of(), MESSAGE, pki.TRUST)
EXACT = replace(STAMP, accuracy=None)  # one second is taken
SECOND = timedelta(seconds=1)
SKEW = timedelta(seconds=30)


def offset(gen_time: timedelta, checkpoint: timedelta = -SECOND) -> timedelta:
    """Sent at NOW, received two seconds later; the arguments are relative to NOW."""
    return check_time_window(
        replace(EXACT, gen_time=NOW + gen_time),
        checkpoint_time=NOW + checkpoint,
        sent=NOW,
        received=NOW + 2 * SECOND,
        skew=SKEW,
    )


@pytest.mark.parametrize(
    ("gen_time", "ahead"),
    [
        (SECOND, timedelta(0)),
        (timedelta(0), -SECOND),
        (-SKEW - SECOND, -SKEW - 2 * SECOND),
        (2 * SECOND + SKEW + SECOND, SKEW + 2 * SECOND),
        (timedelta(milliseconds=1500), timedelta(milliseconds=500)),
    ],
)
def test_how_far_the_other_clock_is_ahead(gen_time: timedelta, ahead: timedelta) -> None:
    assert offset(gen_time) == ahead


@pytest.mark.parametrize(
    "gen_time", [-SKEW - SECOND - timedelta(microseconds=1), 2 * SECOND + SKEW + 2 * SECOND]
)
def test_outside_the_time_of_the_request(gen_time: timedelta) -> None:
    with pytest.raises(TimestampError) as caught:
        offset(gen_time, -timedelta(days=1))
    assert caught.value.cause is Cause.TIME_WINDOW
    assert "time of the request" in caught.value.message


def test_older_than_the_checkpoint() -> None:
    with pytest.raises(TimestampError) as caught:
        offset(timedelta(0), SKEW + SECOND + timedelta(microseconds=1))
    assert caught.value.cause is Cause.TIME_WINDOW
    assert "older" in caught.value.message
    assert offset(timedelta(0), SKEW + SECOND) == -SECOND


def test_the_difference_is_told() -> None:
    with pytest.raises(TimestampError) as caught:
        offset(timedelta(days=400), -timedelta(days=1))
    assert caught.value.got is not None
    assert "+34559999.000 s from our clock" in caught.value.got


# Causes


def test_every_cause_is_an_error_of_one_kind() -> None:
    for cause in Cause:
        error = TimestampError(cause, "why")
        assert isinstance(error, EvidenceError)
        assert isinstance(error, LedgerError)
        assert (error.reason, error.cause) == (Reason.BAD_TIMESTAMP, cause)
        assert str(error) == f"bad_timestamp: why ({cause})"


def test_causes_are_words_for_metrics() -> None:
    for cause in Cause:
        assert cause.value == cause.name.lower()


# The dated table


def test_the_first_to_expire_counts() -> None:
    assert not_after(["p256", "rsa2048", "sha256"]) == TABLE["rsa2048"]
    assert not_after(["p256", "sha256"]) == TABLE["p256"]
    assert not_after([]).year == 9999


@pytest.mark.parametrize(
    ("name", "like"),
    [("rsa2047", "rsa1024"), ("rsa3071", "rsa2048"), ("rsa4096", "rsa3072"), ("rsa512", "sha1")],
)
def test_rsa_keys_between_the_sizes(name: str, like: str) -> None:
    assert not_after([name]) == TABLE[like]


@pytest.mark.parametrize("name", ["sha1", "md5", "k256", "rsa", "rsa1024", ""])
def test_what_is_never_believed(name: str) -> None:
    with pytest.raises(TimestampError) as caught:
        usable([name], NOW)
    assert caught.value.cause is Cause.ALGORITHM_EXPIRED


def test_the_last_moment_of_an_algorithm() -> None:
    names = ["rsa2048", "sha256"]
    usable(names, TABLE["rsa2048"])
    with pytest.raises(TimestampError) as caught:
        usable(names, TABLE["rsa2048"] + SECOND)
    assert caught.value.want == "not after 2030-12-31"
    usable(names, TABLE["rsa2048"] + SECOND, {**TABLE, "rsa2048": TABLE["sha256"]})
