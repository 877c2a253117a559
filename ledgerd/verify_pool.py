"""Verifying processes, and the threads' way to them.

Each verifying thread borrows an idle process for one batch and waits without the interpreter lock.
What a process could not verify (a bad receipt, or a key only the store knows) is verified again here,
by the same function with the daemon's own keyring, which gives the answer; so the processes save time
and decide nothing. When one dies its batches are verified here, slower, and it is logged.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
from typing import TYPE_CHECKING

import structlog

from ledgerd.verification import Verified
from ledgerd.verify_worker import read_frame, unpack, write_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ledgerd.admission import Item

__all__ = ["VerifyPool"]

_log = structlog.get_logger(__name__)


class _Worker:
    """One process and what it was told."""

    def __init__(self, setup: object) -> None:
        self.told = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ledgerd.verify_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._source, self._sink = self._process.stdout, self._process.stdin
        write_frame(self._sink, setup)

    def ask(self, request: object) -> list[tuple[object, ...] | None]:
        """Send a batch and wait. Raises OSError or EOFError when the process is gone."""
        write_frame(self._sink, request)
        answer: list[tuple[object, ...] | None] = read_frame(self._source)
        return answer

    def close(self) -> None:
        """End of its input: it finishes and exits."""
        with contextlib.suppress(OSError):  # it was gone already
            self._sink.close()
        self._source.close()
        self._process.wait()


class VerifyPool:
    """Borrows processes to threads.

    Args:
        processes: how many; at least 1.
        pinning, enrolled, max_bytes, cache_size: as the daemon's keyring and limits.
    """

    def __init__(
        self,
        processes: int,
        *,
        pinning: bool,
        enrolled: dict[str, tuple[bytes, ...]],
        max_bytes: int,
        cache_size: int,
    ) -> None:
        setup = (pinning, enrolled, max_bytes, cache_size)
        self._max_learned = cache_size
        self._learned: list[tuple[bytes, bytes]] = []  # keys of chains whose receipts carry none
        self._workers = [_Worker(setup) for _ in range(processes)]
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def verify(
        self,
        raws: Sequence[bytes],
        profile: str | None,
        hints: Sequence[bytes],
        here: Callable[[Sequence[bytes]], list[Item]],
    ) -> list[Item]:
        """Verify a batch; blocks. Call it from at most as many threads as there are processes.

        Args:
            raws: the receipts.
            profile: the format all are in, or None.
            hints: keys to try for new chains.
            here: verifies receipts in this process.
        """
        raws = list(raws)
        answers = self._ask(raws, profile, hints)
        if answers is None:
            return here(raws)
        items: list[Item | None] = [
            None if packed is None else unpack(raw, packed)
            for raw, packed in zip(raws, answers, strict=True)
        ]
        left = [at for at, item in enumerate(items) if item is None]
        if left:
            for at, item in zip(left, here([raws[at] for at in left]), strict=True):
                items[at] = item
                self._learn(item)
        return [item for item in items if item is not None]

    def _ask(
        self, raws: list[bytes], profile: str | None, hints: Sequence[bytes]
    ) -> list[tuple[object, ...] | None] | None:
        worker = self._idle.get()
        if worker is None:  # in the place of one that died
            self._idle.put(None)
            return None
        known = len(self._learned)
        try:
            answers = worker.ask((raws, profile, tuple(hints), self._learned[worker.told : known]))
        except (OSError, EOFError) as error:
            _log.error("a verifying process died, going on without it", error=str(error))
            self._idle.put(None)
            return None
        worker.told = known
        self._idle.put(worker)
        return answers

    def _learn(self, item: Item) -> None:
        """A key that only this process could know; the others are told with their next batch."""
        if isinstance(item, Verified) and item.receipt.key_hint is None:
            pair = (item.receipt.chain, item.key)
            if len(self._learned) < self._max_learned and pair not in self._learned[-64:]:
                self._learned.append(pair)

    def close(self) -> None:
        """End all processes; nothing may be verified any more. Blocks."""
        for worker in self._workers:
            worker.close()
