"""The one place of the suite that waits: for a condition, never for time to pass."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PATIENCE", "wait_for"]

PATIENCE: Final = 60.0  # seconds until a test gives up; far beyond what a loaded machine needs


def wait_for(
    condition: Callable[[], bool], what: str, *, patience: float = PATIENCE, every: float = 0.01
) -> None:
    """Return when the condition holds.

    Args:
        condition: cheap, without side effects.
        what: for the message.
        patience: seconds.
        every: seconds between two looks; 0 looks as often as other threads allow.

    Raises:
        AssertionError: it did not come to hold in time.
    """
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience} s in vain until {what}"
        time.sleep(every)
