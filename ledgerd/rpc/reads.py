"""What handlers share: errors become a rich status, blocking reads run in read threads."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from ledgerd.reader import readable
from ledgerd.rpc.status import to_status
from receiptledger.core.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from concurrent.futures import Executor

    import grpc

    from ledgerd.metrics import Metrics

__all__ = ["Reads", "aborting"]

T = TypeVar("T")


@asynccontextmanager
async def aborting(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:  # type: ignore[type-arg]
    """Turn our errors into a rich status."""
    try:
        yield
    except LedgerError as error:
        await context.abort_with_status(to_status(error))


class Reads:
    """Runs blocking reads in read threads, counted and timed."""

    def __init__(self, pool: Executor, metrics: Metrics) -> None:
        self._pool = pool
        self._metrics = metrics

    async def run(
        self,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
        kind: str,
        work: Callable[[], T],
    ) -> T:
        """Answer one call; what `work` refuses aborts it.

        Args:
            context: the call.
            kind: how metrics name it; one of `PROOF_KINDS`.
            work: blocks on the store.
        """
        started, result = time.perf_counter(), "error"
        try:
            loop = asyncio.get_running_loop()
            value = await loop.run_in_executor(self._pool, readable, work)
            result = "ok"
            return value
        except LedgerError as error:
            await context.abort_with_status(to_status(error))
            raise  # not reached: aborting raises
        finally:
            self._metrics.proof_requests.labels(kind, result).inc()
            self._metrics.proof_seconds.labels(kind).observe(time.perf_counter() - started)
