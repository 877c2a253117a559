"""One request to one TSA, and the judgement of its answer.

An answer is accepted when the strict verifier, the second opinion and the clock all agree; whatever
else came is a :class:`Refused` with its cause. Nothing here is remembered, and nothing is stored.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ledgerd.tsa import second_opinion
from ledgerd.tsa.errors import TsaError
from receiptledger.core.timestamp import check_time_window, verify_response
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_request import TimestampRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from ledgerd.tsa.settings import TsaSettings
    from receiptledger.core.timestamp import Timestamp, TsaTrust

__all__ = ["Accepted", "Refused", "Target", "Transport", "Tsa", "ask", "instant", "micros", "said"]

_EPOCH = datetime.fromtimestamp(0, UTC)


class Transport(Protocol):
    """What is asked of the way to one TSA; `ledgerd.tsa.http.TsaHttp` is the real one."""

    async def post(self, request: bytes, *, deadline_seconds: float) -> bytes:
        """Send a request, return the answer. Raises TsaError."""

    async def close(self) -> None:
        """Give up what is under way."""


@dataclass(frozen=True, slots=True)
class Tsa:
    """One configured TSA: what is said of it, what is believed of it, and the way to it."""

    settings: TsaSettings
    trust: TsaTrust
    http: Transport


@dataclass(frozen=True, slots=True)
class Target:
    """The checkpoint to stamp.

    Attributes:
        size: its leaves.
        root: its root.
        note: its exact bytes, signed by the log; these are stamped.
        seen_at: when it was first seen here, seconds since the epoch by the wall clock.
    """

    size: int
    root: bytes
    note: bytes
    seen_at: float


@dataclass(frozen=True, slots=True)
class Accepted:
    """A token that holds.

    Attributes:
        request: as sent.
        response: as received.
        timestamp: what was verified.
        offset: how far the TSA's clock is ahead of ours, seconds.
        seconds: from sending to the whole answer.
    """

    request: bytes
    response: bytes
    timestamp: Timestamp
    offset: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """What came instead of a token that holds.

    Attributes:
        request: as sent.
        response: as received; None when nothing that could be a response came.
        cause: why it does not count.
        detail: for people.
        retry_after: seconds the server asked for, or None.
        offset: as in Accepted, for a token that is good but for its time.
        seconds: from sending to the end.
    """

    request: bytes
    response: bytes | None
    cause: Cause
    detail: str
    retry_after: float | None
    offset: float | None
    seconds: float


async def ask(
    tsa: Tsa, target: Target, nonce: int, *, executor: Executor, wall: Callable[[], float]
) -> Accepted | Refused:
    """Ask one TSA to stamp a checkpoint, within its deadline.

    Args:
        tsa: whom.
        target: what.
        nonce: fresh and unpredictable.
        executor: where the answer is verified, some 5 ms of a core.
        wall: seconds since the epoch.
    """
    settings, loop = tsa.settings, asyncio.get_running_loop()
    request = TimestampRequest(
        imprint=hashlib.new(settings.hash, target.note).digest(),
        hash_algorithm=settings.hash,
        nonce=nonce,
        policy=settings.request_policy,
        cert_req=True,
    ).encode()
    # Both clocks: when it was sent by the one the world uses, how long it took by one nobody sets.
    sent, started = wall(), loop.time()
    try:
        response = await tsa.http.post(request, deadline_seconds=settings.timeout_seconds)
    except TsaError as error:
        seconds = loop.time() - started
        return Refused(
            request, None, error.cause, error.detail, error.retry_after_seconds, None, seconds
        )
    seconds = loop.time() - started
    work = partial(_judge, tsa, target, nonce, request, response, sent, seconds)
    return await loop.run_in_executor(executor, work)


def _judge(
    tsa: Tsa,
    target: Target,
    nonce: int,
    request: bytes,
    response: bytes,
    sent: float,
    seconds: float,
) -> Accepted | Refused:
    """Both verifiers and the clock must agree."""
    offset: float | None = None
    try:
        timestamp = verify_response(response, target.note, tsa.trust, nonce=nonce)
        if not tsa.settings.strict_only:
            second_opinion.check(response, target.note, tsa.trust, nonce)
        offset = timestamp.gen_time.timestamp() - (sent + seconds / 2)
        check_time_window(
            timestamp,
            checkpoint_time=instant(target.seen_at),
            sent=instant(sent),
            received=instant(sent + seconds),
            skew=timedelta(seconds=tsa.settings.max_clock_skew_seconds),
        )
    except (TimestampError, TsaError) as error:
        return Refused(request, response, error.cause, said(error), None, offset, seconds)
    return Accepted(request, response, timestamp, offset, seconds)


def said(error: TimestampError | TsaError) -> str:
    """What it says, without the cause, which stands beside it wherever it is shown."""
    parts = [error.message]
    parts += [] if error.want is None else [f"expected {error.want}"]
    parts += [] if error.got is None else [f"got {error.got}"]
    return "; ".join(parts)


def instant(seconds: float) -> datetime:
    """Seconds since the epoch as a moment in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def micros(moment: datetime) -> int:
    """A moment as microseconds since the epoch, exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
