"""Moments as RFC 3339 text: how reports write them, and how a signer's claimed time is read.

What is written is always UTC. What is read may have an offset and more digits than microseconds; the
digits beyond are cut off.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

__all__ = ["format_instant", "parse_instant"]

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,40}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)


def format_instant(moment: datetime) -> str:
    """RFC 3339 in UTC; a fraction only where there is one, microseconds in full.

    Args:
        moment: aware.
    """
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def parse_instant(text: str) -> datetime:
    """A moment in UTC from RFC 3339 text.

    Raises:
        ValueError: another form, no such day or hour, a leap second (no `datetime` holds one), or
            a moment outside the years 1 to 9999 UTC.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("expected an RFC 3339 date and time, like 2026-04-25T14:30:00Z")
    *numbers, fraction, sign, hours, minutes = match.groups()
    offset = timedelta()
    if sign is not None:
        if int(hours) > 23 or int(minutes) > 59:
            raise ValueError("the offset from UTC is out of range")
        offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    micros = int((fraction or "")[:6].ljust(6, "0"))
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        local = datetime(year, month, day, hour, minute, second, micros, tzinfo=timezone(offset))
        return local.astimezone(UTC)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
