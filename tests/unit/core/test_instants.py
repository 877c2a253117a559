"""Moments as text: one form written, RFC 3339 read, nothing guessed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from receiptledger.core.instants import format_instant, parse_instant
from tests.helpers.cases import named

NOON = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def test_written_in_utc() -> None:
    assert format_instant(NOON) == "2026-11-30T12:00:00Z"
    assert format_instant(NOON + timedelta(microseconds=500)) == "2026-11-30T12:00:00.000500Z"
    assert format_instant(NOON.astimezone(timezone(timedelta(hours=-5)))) == "2026-11-30T12:00:00Z"


@pytest.mark.parametrize(
    ("text", "moment"),
    named(
        {
            "plain": ("2026-11-30T12:00:00Z", NOON),
            "small letters": ("2026-11-30t12:00:00z", NOON),
            "east": ("2026-11-30T13:30:00+01:30", NOON),
            "west": ("2026-11-30T07:00:00-05:00", NOON),
            "minus zero": ("2026-11-30T12:00:00-00:00", NOON),
            "millis": ("2026-11-30T12:00:00.5Z", NOON + timedelta(milliseconds=500)),
            "more than micros": (
                "2026-11-30T12:00:00.0000019Z",
                NOON + timedelta(microseconds=1),
            ),
            "first": ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        }
    ),
)
def test_read(text: str, moment: datetime) -> None:
    assert parse_instant(text) == moment
    assert parse_instant(text).tzinfo is UTC
    assert parse_instant(format_instant(moment)) == moment


@pytest.mark.parametrize(
    "text",
    named(
        {
            "empty": "",
            "no zone": "2026-11-30T12:00:00",
            "a space": "2026-11-30 12:00:00Z",
            "only a day": "2026-11-30",
            "no such day": "2026-02-30T12:00:00Z",
            "no such month": "2026-13-01T12:00:00Z",
            "no such hour": "2026-11-30T24:00:00Z",
            "a leap second": "2026-12-31T23:59:60Z",
            "a wide offset": "2026-11-30T12:00:00+24:00",
            "odd minutes of offset": "2026-11-30T12:00:00+01:60",
            "an empty fraction": "2026-11-30T12:00:00.Z",
            "an endless fraction": f"2026-11-30T12:00:00.{'1' * 41}Z",
            "other digits": "\N{FULLWIDTH DIGIT TWO}026-11-30T12:00:00Z",
            "before the calendar": "0001-01-01T00:00:00+00:01",
            "after the calendar": "9999-12-31T23:59:59-00:01",
            "year zero": "0000-01-01T00:00:00Z",
            "a newline": "2026-11-30T12:00:00Z\n",
        }
    ),
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_instant(text)
