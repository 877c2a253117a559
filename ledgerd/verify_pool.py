"""Verifying processes, and the event loop's way to them.

A batch goes to the process with the least to do, over a socket that the event loop reads: no thread
waits. What a process could not verify (a bad receipt, or a key only the store knows) is verified again
here, by the same function with the daemon's own keyring, which gives the answer; so the processes save
time and decide nothing. When one dies its batches are verified here, slower, and it is logged.
"""

from __future__ import annotations

import asyncio
import marshal
import socket
import subprocess
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import structlog

from ledgerd.verification import Verified
from ledgerd.verify_worker import frame, unpack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ledgerd.admission import Item

    Answers = list[tuple[Any, ...] | None]
    Asked = asyncio.Future[Answers | None]  # None: the process is gone

__all__ = ["VerifyPool"]

_log = structlog.get_logger(__name__)

# Batches a process has: the one it works on, and the next, so that it never waits for the event loop.
_AHEAD = 2


class _Worker(asyncio.Protocol):
    """One process, and what it was asked and told."""

    def __init__(self, pool: VerifyPool) -> None:
        self.asked: deque[Asked] = deque()
        self.told = 0
        self.alive = True
        self._pool = pool
        self._came = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ledgerd.verify_worker"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )

    async def start(self, setup: object) -> None:
        """Connect, and send the first frame."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, sock=self._socket)
        self._transport.write(frame(setup))

    def ask(self, request: object, answer: Asked) -> None:
        """Send a batch. The process answers in order."""
        assert self._transport is not None, "the pool is started"  # noqa: S101
        self.asked.append(answer)
        self._transport.write(frame(request))

    def data_received(self, data: bytes) -> None:
        """Settle what is answered; see :class:`asyncio.Protocol`."""
        came = self._came
        came += data
        while len(came) >= 4 and len(came) >= (end := 4 + int.from_bytes(came[:4], "big")):
            answers: Answers = marshal.loads(bytes(came[4:end]))  # noqa: S302 - our own process
            del came[:end]
            _settle(self.asked.popleft(), answers)
        self._pool.hand_out()

    def connection_lost(self, exc: Exception | None) -> None:
        """The process died, or was told to end; see :class:`asyncio.Protocol`."""
        self.alive = False
        self._pool.lost(exc)
        while self.asked:
            _settle(self.asked.popleft(), None)

    def close(self) -> None:
        """End of its input: it finishes and exits."""
        if self._transport is None:
            self._socket.close()
        else:
            self._transport.close()


class VerifyPool:
    """Gives batches to processes. Made and used on one event loop.

    Args:
        processes: how many; at least 1.
        pinning, enrolled, max_bytes, cache_size: as the daemon's keyring and limits.
        formats: receipt formats beside the built-in ones, as (file name, TOML).
    """

    def __init__(
        self,
        processes: int,
        *,
        pinning: bool,
        enrolled: dict[str, tuple[bytes, ...]],
        max_bytes: int,
        cache_size: int,
        formats: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._setup = (pinning, enrolled, max_bytes, cache_size, formats)
        self._max_learned = cache_size
        self._learned: list[tuple[bytes, bytes]] = []  # keys of chains whose receipts carry none
        self._waiting: deque[tuple[tuple[Any, ...], Asked]] = deque()  # as many as streams may have
        self._closing = False
        self._workers = [_Worker(self) for _ in range(processes)]

    async def start(self) -> None:
        """Connect to the processes; before the first `verify`."""
        for worker in self._workers:
            await worker.start(self._setup)

    async def verify(
        self,
        raws: Sequence[bytes],
        profile: str | None,
        hints: Sequence[bytes],
        here: Callable[[Sequence[bytes]], Awaitable[list[Item]]],
    ) -> list[Item]:
        """Verify a batch.

        Args:
            raws: the receipts.
            profile: the format all are in, or None.
            hints: keys to try for new chains.
            here: verifies receipts in a thread of this process.
        """
        raws = list(raws)
        answer: Asked = asyncio.get_running_loop().create_future()
        self._waiting.append(((raws, profile, tuple(hints)), answer))
        self.hand_out()
        answers = await answer
        if answers is None:
            return await here(raws)
        items: list[Item | None] = [
            None if packed is None else unpack(raw, packed)
            for raw, packed in zip(raws, answers, strict=True)
        ]
        left = [at for at, item in enumerate(items) if item is None]
        if left:
            for at, item in zip(left, await here([raws[at] for at in left]), strict=True):
                items[at] = item
                self._learn(item)
        return [item for item in items if item is not None]

    def hand_out(self) -> None:
        """Give waiting batches to processes that have room, the idlest first."""
        while self._waiting:
            alive = [worker for worker in self._workers if worker.alive]
            worker = min(alive, key=lambda worker: len(worker.asked), default=None)
            if worker is not None and len(worker.asked) >= _AHEAD:
                return
            request, answer = self._waiting.popleft()
            if answer.done():  # its stream is gone
                continue
            if worker is None:
                _settle(answer, None)
                continue
            known = len(self._learned)
            worker.ask((*request, self._learned[worker.told : known]), answer)
            worker.told = known

    def lost(self, error: Exception | None) -> None:
        """A process is gone. Its batches are verified here, as are those that wait for the last one."""
        if not self._closing:
            reason = str(error) if error else "it closed its output"
            _log.error("a verifying process died, going on without it", error=reason)
        self.hand_out()

    def _learn(self, item: Item) -> None:
        """A key that only this process could know; the others are told with their next batch."""
        if isinstance(item, Verified) and item.receipt.key_hint is None:
            pair = (item.receipt.chain, item.key)
            if len(self._learned) < self._max_learned and pair not in self._learned[-64:]:
                self._learned.append(pair)

    async def close(self) -> None:
        """End all processes; nothing may be verified any more."""
        self._closing = True
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            await asyncio.to_thread(worker.process.wait)


def _settle(answer: Asked, answers: Answers | None) -> None:
    """Give an answer, unless its stream is gone."""
    if not answer.done():
        answer.set_result(answers)
