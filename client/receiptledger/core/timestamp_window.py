"""Whether a fresh timestamp fits the time it was asked for (RFC 3161 section 2.2).

The nonce shows that an answer is new; this shows that the authority's clock and ours agree. Only the
daemon asks, when the answer arrives; an offline verifier has no clock to go by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.timestamp_cause import Cause, TimestampError

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from receiptledger.core.timestamp_types import Timestamp

__all__ = ["check_time_window"]


def check_time_window(
    ts: Timestamp,
    *,
    checkpoint_time: datetime,
    sent: datetime,
    received: datetime,
    skew: timedelta,
) -> timedelta:
    """Check that genTime is not older than what was stamped, and lies between sending and receiving.

    Args:
        ts: the verified timestamp.
        checkpoint_time: when the stamped checkpoint was made, by our clock.
        sent: when the request left, by our clock.
        received: when the answer was there, by our clock.
        skew: how far the two clocks may differ.

    Returns:
        genTime minus the middle of sending and receiving: how far the authority's clock is ahead.

    Raises:
        TimestampError: TIME_WINDOW; `got` holds the same signed difference, in seconds.
    """
    offset = ts.gen_time - (sent + (received - sent) / 2)
    got = f"{offset.total_seconds():+.3f} s from our clock"
    if ts.latest < checkpoint_time - skew:
        raise TimestampError(
            Cause.TIME_WINDOW,
            "genTime is older than the checkpoint it stamps",
            want=f"not before {checkpoint_time.isoformat()}",
            got=f"{ts.gen_time.isoformat()}, {got}",
        )
    if not sent - skew <= ts.latest or not ts.earliest <= received + skew:
        raise TimestampError(
            Cause.TIME_WINDOW,
            "genTime does not fit the time of the request",
            want=f"{sent.isoformat()} to {received.isoformat()}, give or take {skew}",
            got=f"{ts.gen_time.isoformat()}, {got}",
        )
    return offset
