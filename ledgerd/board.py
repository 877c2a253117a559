"""What is published: the newest signed state, and who waits for the next.

Posted from the writer thread through the event loop; read from anywhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ledgerd.store.interface import LogState

__all__ = ["Board"]


class Board:
    """Newest published state. Owned by the event loop it was made on."""

    def __init__(self) -> None:
        self._state: LogState | None = None
        self._changed = asyncio.Event()

    @property
    def state(self) -> LogState | None:
        """The newest published state; None until the first. Safe from any thread."""
        return self._state

    def post(self, state: LogState) -> None:
        """Publish a state; older or equal ones change nothing. Event loop only."""
        if self._state is not None and state.size <= self._state.size:
            return
        self._state = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def sealed(self, number: int) -> LogState:
        """Wait until the receipt with this admission number is under a published checkpoint."""
        while self._state is None or self._state.sealed_number <= number:
            await self._changed.wait()
        return self._state

    async def watch(self) -> AsyncIterator[LogState]:
        """The newest state at once, then each later one; a slow reader skips, never goes back."""
        seen = -1
        while True:
            changed = self._changed
            if self._state is not None and self._state.size > seen:
                seen = self._state.size
                yield self._state
            else:
                await changed.wait()
