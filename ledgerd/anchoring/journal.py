"""What anchoring keeps in the store, all through the one writer.

Order for one request: intent, send, then either the token or the refusal together with the intent's
end. A crash in between leaves an intent without a result; the next start counts it as lost and asks
again with a new nonce.

A commit whose outcome is unknown is not given up: a token that a TSA made is not to be asked for twice
because a disk was full for a minute. The store is read again, and only what is not there is committed
again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import structlog

from ledgerd.anchoring.stamp import micros
from ledgerd.store.interface import AnchorIntent, AnchorRecord, Changes, Quarantined, StoreError
from ledgerd.writer import CommitJob
from receiptledger.core.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from ledgerd.anchoring.stamp import Accepted, Refused, Target
    from ledgerd.store.interface import AnchorStore

__all__ = ["Journal"]

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Journal:
    """Owned by the event loop.

    Args:
        store: read only, in the executor.
        submit: hands a job to the writer.
        executor: threads that may block on the store.
        wall: seconds since the epoch, for the ledger's own claims of time.
        max_quarantined: refused answers to keep.
        retry_seconds: between two tries to commit while the store fails.
    """

    def __init__(
        self,
        store: AnchorStore,
        submit: Callable[[CommitJob], None],
        executor: Executor,
        *,
        wall: Callable[[], float],
        max_quarantined: int,
        retry_seconds: float = 1.0,
    ) -> None:
        self._store = store
        self._submit = submit
        self._executor = executor
        self._wall = wall
        self._max_quarantined = max_quarantined
        self._retry_seconds = retry_seconds
        # Numbers are given here, so two tokens must not look for the next one at once.
        self._lock = asyncio.Lock()

    async def intend(self, tsa: str, size: int, nonce: int) -> None:
        """A request is about to leave.

        Raises:
            ServiceError: it could not be stored; then nothing may be sent.
        """
        await self.commit(Changes(intents=[AnchorIntent(tsa, size, nonce, self._now())]))

    async def keep(self, tsa: str, target: Target, accepted: Accepted) -> AnchorRecord:
        """Store a token and end its intent; tries until the store commits."""
        async with self._lock:
            while True:
                try:
                    number = await self.read(self._store.next_anchor_number)
                    record = AnchorRecord(
                        number=number,
                        size=target.size,
                        root=target.root,
                        tsa=tsa,
                        request=accepted.request,
                        response=accepted.response,
                        gen_time=micros(accepted.timestamp.gen_time),
                        stored_at=self._now(),
                    )
                    await self.commit(Changes(anchors=[record], dropped_intents=[tsa]))
                    return record
                except (ServiceError, StoreError) as error:
                    _log.error("a token is not stored yet, will be tried again", error=str(error))
                found = await self._after_doubt(accepted.response)
                if found is not None:
                    return found

    async def _after_doubt(self, response: bytes) -> AnchorRecord | None:
        """Once the store commits again: the newest record, when it holds this response."""
        while True:
            await asyncio.sleep(self._retry_seconds)
            try:
                # What can be read may not be durable before a commit has succeeded after it.
                await self.commit(Changes())
                number = await self.read(self._store.next_anchor_number) - 1
                record = (
                    await self.read(partial(self._store.anchor, number)) if number >= 0 else None
                )
            except (ServiceError, StoreError):
                continue
            return record if record is not None and record.response == response else None

    async def refuse(self, tsa: str, target: Target, refused: Refused, *, evidence: bool) -> bool:
        """End an intent; with `evidence` keep the answer's bytes, up to the limit.

        Returns:
            Whether the bytes were kept.

        Raises:
            ServiceError: it could not be stored: the intent may look lost at the next start.
            StoreError: the same.
        """
        changes = Changes(dropped_intents=[tsa])
        if not evidence or refused.response is None:
            await self.commit(changes)
            return False
        async with self._lock:
            number = await self.read(self._store.next_quarantine_number)
            if number < self._max_quarantined:
                changes.quarantined = [
                    Quarantined(
                        number=number,
                        tsa=tsa,
                        size=target.size,
                        cause=refused.cause.value,
                        request=refused.request,
                        response=refused.response,
                        refused_at=self._now(),
                    )
                ]
            await self.commit(changes)
            return bool(changes.quarantined)

    async def commit(self, changes: Changes) -> None:
        """Commit through the writer, and return when it is durable.

        Raises:
            ServiceError: UNAVAILABLE, the outcome is unknown.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit(CommitJob(changes, partial(_settle, future)))
        await future

    async def read(self, work: Callable[[], T]) -> T:
        """Read the store outside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _now(self) -> int:
        return int(self._wall() * 1_000_000)


def _settle(future: asyncio.Future[None], error: ServiceError | None) -> None:
    """End a wait, unless whoever waited is gone."""
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
