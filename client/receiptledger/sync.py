"""Blocking faces of the agent and the auditor, for programs without an event loop.

All of them share one background thread with one event loop (gRPC's asyncio does badly with several), made
at the first use and again in a child process after a fork. What an object does is its asynchronous
twin's business; here is only the waiting.

Agents that are still open when the interpreter exits are closed, so that what was recorded is sent.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Self, TypeVar

from receiptledger.auditor import AsyncAuditor
from receiptledger.client import AsyncAgent
from receiptledger.core.errors import LedgerError
from receiptledger.forking import park
from receiptledger.wire import Ack

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from receiptledger.anchor_check import CheckedAnchor
    from receiptledger.backoff import Retry
    from receiptledger.builder import BuiltReceipt
    from receiptledger.core.bundle import Bundle
    from receiptledger.core.chain import Head
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.note import VerifierKey
    from receiptledger.core.timestamp import TsaTrust
    from receiptledger.core.verdict import Verdict
    from receiptledger.history import Seen
    from receiptledger.sender import SendOptions
    from receiptledger.signer import Signer
    from receiptledger.submit import SubmitResult
    from receiptledger.wire import Anchor, AnchorRound, StoredReceipt

__all__ = ["Agent", "Auditor"]

T = TypeVar("T")


class _Background:
    """The thread and its loop; see the module."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._forked = threading.Event()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:  # an interrupt: stop waiting there too
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="receiptledger", daemon=True
                )
                self._thread.start()
            return self._loop

    def before_fork(self) -> None:
        """Close gRPC and hold the loop still, so that the child inherits nothing half-done."""
        if self._loop is None or self._thread is threading.current_thread():
            return
        self._forked.clear()
        parked = threading.Event()
        asyncio.run_coroutine_threadsafe(self._park(parked), self._loop)
        parked.wait(_PARK_S)

    async def _park(self, parked: threading.Event) -> None:
        await park(_PARK_S / 2)
        parked.set()
        self._forked.wait(_PARK_S)  # blocks the loop on purpose

    def after_fork_in_parent(self) -> None:
        """Go on; senders reconnect as after any lost connection."""
        self._forked.set()


_PARK_S = 5.0  # closing channels takes milliseconds
_background = _Background()
_inherited: list[object] = []
_open_agents: weakref.WeakSet[Agent] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The thread stayed behind, its lock may be held for ever, and agents are the parent's."""
    global _background
    _inherited.append(_background)  # never freed: its loop may hold what only the parent may free
    _background = _Background()
    _open_agents.clear()


os.register_at_fork(
    before=lambda: _background.before_fork(),
    after_in_parent=lambda: _background.after_fork_in_parent(),
    after_in_child=_after_fork_in_child,
)


@atexit.register
def _close_agents() -> None:
    for agent in tuple(_open_agents):
        try:
            agent.close()
        except LedgerError as error:
            warnings.warn(
                f"a receipt ledger's agent was left open and could not be closed: {error}",
                ResourceWarning,
                stacklevel=1,
            )


class Agent:
    """One agent's connection to a ledger; see :class:`receiptledger.client.AsyncAgent`."""

    def __init__(
        self,
        address: str,
        agent_id: str,
        signer: Signer,
        *,
        ack: Ack = Ack.DURABLE,
        options: SendOptions | None = None,
        close_s: float = 30.0,
    ) -> None:
        self._agent = AsyncAgent(
            address, agent_id, signer, ack=ack, options=options, close_s=close_s
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _open_agents.discard(self)
        _background.run(self._agent.__aexit__(kind, error, traceback))

    def start(self) -> None:
        """See the twin."""
        _background.run(self._agent.start())
        _open_agents.add(self)

    @property
    def unacknowledged(self) -> tuple[bytes, ...]:
        """See the twin."""
        return self._agent.unacknowledged

    @property
    def head(self) -> Head | None:
        """See the twin."""
        return self._agent.head

    def record(
        self, *, tool: str, args: Any, result: Any, policy_id: str, at: datetime | None = None
    ) -> BuiltReceipt:
        """See the twin."""
        return _background.run(
            self._agent.record(tool=tool, args=args, result=result, policy_id=policy_id, at=at)
        )

    def flush(self, timeout: float | None = None) -> None:
        """See the twin."""
        _background.run(self._agent.flush(timeout))

    def close(self) -> None:
        """See the twin."""
        _open_agents.discard(self)
        _background.run(self._agent.close())

    def submit(
        self, raws: Iterable[bytes], *, profile: str = "", key_hints: Sequence[bytes] = ()
    ) -> Iterator[SubmitResult]:
        """See the twin. `raws` is read in another thread."""
        return _each(self._agent.submit(_off_loop(raws), profile=profile, key_hints=key_hints))


class Auditor:
    """One auditor's connection to one log; see :class:`receiptledger.auditor.AsyncAuditor`."""

    def __init__(
        self,
        address: str,
        log_key: str | VerifierKey,
        state_file: Path | str | None = None,
        *,
        agent_keys: Mapping[str, tuple[bytes, ...]] | None = None,
        tsas: Sequence[TsaTrust] = (),
        tsa_quorum: int = 1,
        timeout_s: float = 10.0,
        retry: Retry | None = None,
    ) -> None:
        self._auditor = AsyncAuditor(
            address,
            log_key,
            state_file,
            agent_keys=agent_keys,
            tsas=tsas,
            tsa_quorum=tsa_quorum,
            timeout_s=timeout_s,
            retry=retry,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """See the twin."""
        _background.run(self._auditor.start())

    def close(self) -> None:
        """See the twin."""
        _background.run(self._auditor.close())

    @property
    def remembered(self) -> Seen | None:
        """See the twin."""
        return self._auditor.remembered

    def checkpoint(self, size: int = 0) -> Seen:
        """See the twin."""
        return _background.run(self._auditor.checkpoint(size))

    def observe(self, note: bytes) -> Seen:
        """See the twin."""
        return _background.run(self._auditor.observe(note))

    def watch(self) -> Iterator[Seen]:
        """See the twin."""
        return _each(self._auditor.watch())

    def get_receipt(
        self,
        *,
        receipt_hash: bytes | None = None,
        agent: str | None = None,
        stream: str = "",
        position: int | None = None,
    ) -> StoredReceipt:
        """See the twin."""
        return _background.run(
            self._auditor.get_receipt(
                receipt_hash=receipt_hash, agent=agent, stream=stream, position=position
            )
        )

    def prove(
        self,
        *,
        receipt_hash: bytes | None = None,
        agent: str | None = None,
        stream: str = "",
        position: int | None = None,
        tree_size: int = 0,
        since: Checkpoint | None = None,
        seal_wait_s: float = 5.0,
    ) -> Bundle:
        """See the twin."""
        return _background.run(
            self._auditor.prove(
                receipt_hash=receipt_hash,
                agent=agent,
                stream=stream,
                position=position,
                tree_size=tree_size,
                since=since,
                seal_wait_s=seal_wait_s,
            )
        )

    def verify(
        self,
        bundle: Bundle | bytes,
        *,
        remembered: Checkpoint | None = None,
        require: frozenset[str] = frozenset(),
        moment: datetime | None = None,
    ) -> Verdict:
        """See the twin."""
        return self._auditor.verify(bundle, remembered=remembered, require=require, moment=moment)

    def anchors(self, first: int = 0) -> Iterator[Anchor]:
        """See the twin."""
        return _each(self._auditor.anchors(first))

    def anchor(self, number: int, *, tree_size: int = 0) -> CheckedAnchor:
        """See the twin."""
        return _background.run(self._auditor.anchor(number, tree_size=tree_size))

    def anchor_now(self, *, timeout_s: float = 60.0) -> AnchorRound:
        """See the twin."""
        return _background.run(self._auditor.anchor_now(timeout_s=timeout_s))


_END = object()


def _each(results: AsyncGenerator[T]) -> Iterator[T]:
    """An asynchronous generator as a blocking one; closed when this one is."""

    async def following() -> Any:
        return await anext(results, _END)

    try:
        while (item := _background.run(following())) is not _END:
            yield item
    finally:
        _background.run(results.aclose())


async def _off_loop(items: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Read the caller's iterable where it may block; what is in memory already cannot."""
    if isinstance(items, (list, tuple)):
        for item in items:
            yield item
        return
    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, None)) is not None:
        yield item
