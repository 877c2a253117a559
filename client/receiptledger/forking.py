"""What becomes of connections when the process forks.

gRPC does not survive a fork while it is in use: the child hangs in it, or crashes, even when it only
frees what it inherited. So before a fork the connections of the shared background loop are parked:
closed until their next use, so that gRPC ends and the child starts clean. A child of a process where
gRPC ran on (in a loop of the program's own) is refused new connections instead of left to hang.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from typing import Protocol

__all__ = ["broke_grpc", "park", "register"]


class _Connection(Protocol):
    """What can be parked."""

    async def park(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close if it belongs to this loop, until the next use."""


class _State:
    """Of this process.

    Attributes:
        connections: every one there is.
        polling: whether gRPC was in use when the last fork began.
        inherited: what a child got half-done: never to be used, nor freed.
    """

    def __init__(self) -> None:
        self.connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self.polling = False
        self.inherited: list[tuple[_Connection, ...]] = []

    def before(self) -> None:
        self.polling = _is_polling()

    def after_in_child(self) -> None:
        if self.polling:
            self.inherited.append(tuple(self.connections))


_state = _State()
os.register_at_fork(before=_state.before, after_in_child=_state.after_in_child)


def register(connection: _Connection) -> None:
    """Note a connection; it is forgotten when it is freed."""
    _state.connections.add(connection)


def broke_grpc() -> bool:
    """Whether this process is a child that inherited gRPC in use."""
    return bool(_state.inherited)


async def park(patience_s: float) -> None:
    """Park every connection of this loop; calls in progress break as if the ledger had gone away.

    Args:
        patience_s: seconds to wait for gRPC to end.
    """
    loop = asyncio.get_running_loop()
    await asyncio.gather(*[one.park(loop) for one in tuple(_state.connections)])
    deadline = loop.time() + patience_s
    while _is_polling() and loop.time() < deadline:
        await asyncio.sleep(0.001)  # the broken calls end
        gc.collect()  # and are freed, cycles and all


def _is_polling() -> bool:
    """Whether gRPC's own thread for asyncio runs: it ends when the last call or channel is freed."""
    return any("_poll_wrapper" in thread.name for thread in threading.enumerate())
