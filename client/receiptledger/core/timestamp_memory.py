"""A small bounded memory of what was read, refusals included.

The same token is held against one authority after the other, the same list against one stamp after the
other. Reading is remembered by the bytes' SHA-256, so that a second time costs little; a refusal is
remembered too, or bytes that cannot be read would be the dear ones. Answers never depend on what is
remembered.

Threads may share one: every step is a single operation of a dict, and the worst that two can do to each
other is to read twice.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Generic, TypeVar

from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_der import check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Memory", "digest_of"]

K = TypeVar("K", bound="Hashable")
T = TypeVar("T")


class _Refusal:
    """What a refusal said. The error itself would keep its traceback, and that the frames."""

    __slots__ = ("cause", "got", "message", "want")

    def __init__(self, error: TimestampError) -> None:
        self.cause = error.cause
        self.message = error.message
        self.want = error.want
        self.got = error.got

    def error(self) -> TimestampError:
        return TimestampError(self.cause, self.message, want=self.want, got=self.got)


class Memory(Generic[K, T]):
    """Outcomes by key; the least recently used goes first.

    Args:
        entries: how many are kept at most.
        weight: upper bound on the sum of what they weigh, in the caller's unit; None for no bound.
    """

    __slots__ = ("_entries", "_kept", "_weight")

    def __init__(self, entries: int, weight: int | None = None) -> None:
        self._entries = entries
        self._weight = weight
        self._kept: dict[K, tuple[int, T | _Refusal]] = {}

    def get(self, key: K, make: Callable[[], T], weight: int = 0) -> T:
        """What `make` returned or refused for this key; it is called if that is not remembered.

        Raises:
            TimestampError: whatever `make` raises, as a new error each time.
        """
        found = self._kept.pop(key, None)
        if found is None:
            found = (weight, _outcome(make))
            self._kept[key] = found
            self._forget()
        else:
            self._kept[key] = found  # the youngest again
        outcome = found[1]
        if isinstance(outcome, _Refusal):
            raise outcome.error()
        return outcome

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def weight(self) -> int:
        """What all that is kept weighs."""
        return sum(weight for weight, _ in list(self._kept.values()))

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def _forget(self) -> None:
        kept = list(self._kept.items())  # oldest first
        count = len(kept)
        total = 0 if self._weight is None else sum(weight for _, (weight, _) in kept)
        for key, (weight, _) in kept:
            if count <= self._entries and (self._weight is None or total <= self._weight):
                return
            self._kept.pop(key, None)
            count -= 1
            total -= weight


def digest_of(data: bytes, max_bytes: int) -> bytes:
    """The key of some bytes: their SHA-256, so that the bytes themselves need not be kept.

    Raises:
        TimestampError: TOO_LARGE; DER, these are no bytes.
    """
    check_size(data, max_bytes)
    return hashlib.sha256(data).digest()


def _outcome(make: Callable[[], T]) -> T | _Refusal:
    try:
        return make()
    except TimestampError as error:
        return _Refusal(error)
