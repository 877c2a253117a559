"""The bounded memory of what was read: refusals too, oldest out first, by number and by weight."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_memory import Memory, digest_of


class Reads:
    """Makes the values of a memory, and writes down what it was asked to make."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def value(self, number: int) -> str:
        self.made.append(number)
        return f"value {number}"

    def refuse(self, number: int) -> str:
        self.made.append(number)
        raise TimestampError(Cause.EKU, f"no {number}", want="yes", got="no")


def test_a_value_is_made_once() -> None:
    memory: Memory[int, str] = Memory(4)
    reads = Reads()
    for _ in range(3):
        assert memory.get(1, lambda: reads.value(1)) == "value 1"
    assert reads.made == [1]
    assert len(memory) == 1


def test_a_refusal_is_made_once_and_raised_every_time_anew() -> None:
    memory: Memory[int, str] = Memory(4)
    reads = Reads()
    raised = []
    for _ in range(3):
        with pytest.raises(TimestampError) as caught:
            memory.get(1, lambda: reads.refuse(1))
        error = caught.value
        assert (error.cause, error.message, error.want, error.got) == (
            Cause.EKU,
            "no 1",
            "yes",
            "no",
        )
        raised.append(error)
    assert reads.made == [1]
    assert len({id(error) for error in raised}) == 3  # a shared one would gather tracebacks


def test_another_error_is_not_remembered() -> None:
    memory: Memory[int, str] = Memory(4)

    def fail() -> str:
        raise MemoryError

    with pytest.raises(MemoryError):
        memory.get(1, fail)
    assert memory.get(1, lambda: "later") == "later"


def test_the_least_recently_used_goes_first() -> None:
    memory: Memory[int, str] = Memory(3)
    reads = Reads()

    def get(number: int) -> None:
        memory.get(number, lambda: reads.value(number))

    for number in (1, 2, 3, 1, 4):  # 2 is the oldest by use
        get(number)
    assert len(memory) == 3
    for number in (1, 3, 4):
        get(number)
    assert reads.made == [1, 2, 3, 4]
    get(2)
    assert reads.made == [1, 2, 3, 4, 2]


def test_a_bound_by_weight() -> None:
    memory: Memory[int, str] = Memory(100, 10)
    for number, weight in enumerate((4, 4, 2)):
        memory.get(number, lambda: "kept", weight)
    assert (len(memory), memory.weight) == (3, 10)
    memory.get(9, lambda: "kept", 3)
    assert (len(memory), memory.weight) == (3, 9)  # the oldest had to go
    memory.get(10, lambda: "too heavy", 11)
    assert (len(memory), memory.weight) == (0, 0)  # not even alone
    assert memory.get(10, lambda: "and still an answer", 11) == "and still an answer"


def test_clear() -> None:
    memory: Memory[int, str] = Memory(4)
    memory.get(1, lambda: "once")
    memory.clear()
    assert memory.get(1, lambda: "again") == "again"


def test_threads_may_share_one() -> None:
    memory: Memory[int, int] = Memory(8, 64)

    def run(start: int) -> bool:
        keys = (number % 13 for number in range(start, start + 3_000))
        return all(memory.get(key, partial(int, key), key) == key for key in keys)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(run, range(4)))
    finally:
        sys.setswitchinterval(interval)
    memory.get(99, lambda: 99)
    assert len(memory) <= 8
    assert memory.weight <= 64


def test_the_key_of_some_bytes() -> None:
    assert digest_of(b"abc", 3).hex().startswith("ba7816bf")
    for data, cause in ((b"abcd", Cause.TOO_LARGE), (bytearray(b"abc"), Cause.DER)):
        with pytest.raises(TimestampError) as caught:
            digest_of(data, 3)  # type: ignore[arg-type]
        assert caught.value.cause is cause
