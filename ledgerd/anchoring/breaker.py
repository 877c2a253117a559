"""When a TSA that failed may be asked again: back-off, Retry-After and a breaker. Pure.

Three classes of causes, each with its own answer:

    transient   the network, an overloaded server    ask again soon, with full jitter; after five in a
                                                     row the breaker opens, probes after 1 min .. 1 h
    permanent   it will say the same again           the breaker opens at once, a probe an hour
    security    the answer is not what was asked     once more, then as permanent

A success closes everything. A server's Retry-After is honoured in every class, up to an hour. A request
that an operator asked for teaches only that: whoever tries out a repair must not put off the next try.
Times are seconds on one clock that never goes back; which one is the caller's business.

`second_opinion` is permanent, no matter of security: it is asked for only once the strict verifier has
accepted an answer, and what two good programs read differently they will read differently again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum, unique
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FAILURES_TO_OPEN", "PROBE_MAX_SECONDS", "Breaker", "Kind", "State", "kind_of"]

BACKOFF_BASE_SECONDS: Final = 5.0
BACKOFF_CAP_SECONDS: Final = 900.0
FAILURES_TO_OPEN: Final = 5  # transient ones in a row
PROBE_SECONDS: Final = 60.0  # the first probe of an open breaker; doubles
PROBE_MAX_SECONDS: Final = 3_600.0
RETRY_AFTER_CAP_SECONDS: Final = 3_600.0


@unique
class Kind(StrEnum):
    """What a failure asks for."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    SECURITY = "security"


_TRANSIENT: Final = frozenset(
    {
        Cause.TIMEOUT,
        Cause.TRANSPORT,
        Cause.HTTP_5XX,
        Cause.RATE_LIMITED,
        Cause.EMPTY_BODY,
        Cause.TOO_LARGE,
        Cause.DER,  # a body that was cut short
        Cause.STATUS_WAITING,
        Cause.TIME_NOT_AVAILABLE,
        Cause.ADD_INFO_NOT_AVAILABLE,  # `openssl ts` says so when its serial file is busy
        Cause.SYSTEM_FAILURE,
        Cause.LOST,
    }
)
# The answer was made for another question, by another key, or at another time than it says.
_SECURITY: Final = frozenset(
    {
        Cause.NONCE,
        Cause.IMPRINT,
        Cause.SIGNATURE,
        Cause.TIME_WINDOW,
        Cause.REVOKED,
    }
)


def kind_of(cause: Cause) -> Kind:
    """The class of a cause; whatever is not known to pass, or to be an attack, is permanent."""
    if cause in _SECURITY:
        return Kind.SECURITY
    return Kind.TRANSIENT if cause in _TRANSIENT else Kind.PERMANENT


@unique
class State(IntEnum):
    """Of a breaker; the number is what the metric shows."""

    CLOSED = 0
    HALF_OPEN = 1  # the next request is a probe
    OPEN = 2


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is remembered of one TSA's failures since its last success.

    Attributes:
        transient: transient failures in a row.
        security: security failures since the last success.
        probe_seconds: how long the breaker stays open; 0 while it is closed.
        wait_until: our own rules forbid asking before.
        told_until: the server asked not to be asked before.
    """

    transient: int = 0
    security: int = 0
    probe_seconds: float = 0.0
    wait_until: float = float("-inf")
    told_until: float = float("-inf")

    @property
    def well(self) -> bool:
        """No failure since the last success."""
        return self.transient == 0 and self.security == 0 and self.probe_seconds == 0

    @property
    def ask_from(self) -> float:
        """The moment from which it may be asked."""
        return max(self.wait_until, self.told_until)

    def state(self, now: float) -> State:
        """Open until a probe is allowed."""
        if self.probe_seconds == 0:
            return State.CLOSED
        return State.OPEN if now < self.ask_from else State.HALF_OPEN

    def failed(
        self,
        now: float,
        cause: Cause,
        *,
        retry_after: float | None = None,
        manual: bool = False,
        jitter: Callable[[], float],
    ) -> Breaker:
        """The breaker after one more failure.

        Args:
            now: seconds.
            cause: of the failure.
            retry_after: seconds the server asked for, or None.
            manual: an operator asked for it; our own rules stay as they were.
            jitter: a random number in [0, 1).
        """
        told = self.told_until
        if retry_after is not None:
            told = max(told, now + min(max(retry_after, 0.0), RETRY_AFTER_CAP_SECONDS))
        if manual:
            return replace(self, told_until=told)
        kind = kind_of(cause)
        after = replace(
            self,
            transient=self.transient + (kind is Kind.TRANSIENT),
            security=self.security + (kind is Kind.SECURITY),
            told_until=told,
        )
        once_more = kind is Kind.SECURITY and after.security == 1 and not self.probe_seconds
        if kind is Kind.TRANSIENT and self.probe_seconds:
            return after._opened(now, min(2 * self.probe_seconds, PROBE_MAX_SECONDS))
        if kind is Kind.TRANSIENT and after.transient >= FAILURES_TO_OPEN:
            return after._opened(now, PROBE_SECONDS)
        if kind is Kind.TRANSIENT or once_more:
            # Full jitter: many daemons of one outage must not come back in step.
            tries = max(after.transient, 1) - 1
            longest = min(BACKOFF_BASE_SECONDS * 2**tries, BACKOFF_CAP_SECONDS)
            return replace(after, wait_until=now + jitter() * longest)
        return after._opened(now, PROBE_MAX_SECONDS)

    def _opened(self, now: float, seconds: float) -> Breaker:
        return replace(self, probe_seconds=seconds, wait_until=now + seconds)
