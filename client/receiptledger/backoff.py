"""How long to wait before the next attempt, and when to give up. Pure: time and chance are arguments."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Backoff", "Retry"]


@dataclass(frozen=True, slots=True)
class Retry:
    """When to try again.

    Attributes:
        first_s: seconds before the second attempt, at most.
        factor: growth from one wait to the next.
        longest_s: seconds of the longest wait.
        attempts: failures in a row after which to give up.
        give_up_s: seconds since the first of them after which to give up.
    """

    first_s: float = 0.1
    factor: float = 2.0
    longest_s: float = 10.0
    attempts: int = 1_000
    give_up_s: float = 300.0  # a daemon's restart takes seconds, a repaired machine minutes

    def __post_init__(self) -> None:
        if not (0 <= self.first_s <= self.longest_s and self.factor >= 1 and self.attempts >= 1):
            raise ValueError(
                "retry: expected 0 <= first_s <= longest_s, factor >= 1, attempts >= 1"
            )


class Backoff:
    """One row of failures: exponential waits with full jitter, bounded in number and time.

    Full jitter, so that a thousand agents do not come back to a restarted daemon all at once.
    """

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.failures = 0
        self._since = 0.0

    def succeeded(self) -> None:
        """Something was achieved: the row ends."""
        self.failures = 0

    def failed(self, now: float, chance: float, at_least: float = 0.0) -> float | None:
        """Seconds to wait after one more failure, or None to give up.

        Args:
            now: seconds of a clock that never goes back.
            chance: 0 <= chance < 1.
            at_least: seconds the daemon asked for.
        """
        retry = self._retry
        if self.failures == 0:
            self._since = now
        self.failures += 1
        if self.failures >= retry.attempts or now - self._since >= retry.give_up_s:
            return None
        # The exponent is bounded: a float overflows at 2^1024.
        growth = retry.factor ** min(self.failures - 1, 64)
        longest = min(retry.first_s * growth, retry.longest_s)
        return at_least + longest * chance
