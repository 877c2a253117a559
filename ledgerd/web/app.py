"""The HTTP application: C2SP tlog-tiles for anybody, metrics and health for operators."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ledgerd.reader import readable
from receiptledger.core.errors import LedgerError, Reason
from receiptledger.core.tile import parse_entries_path, parse_tile_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from starlette.requests import Request

    from ledgerd.metrics import Metrics
    from ledgerd.reader import Reader
    from ledgerd.store.interface import StoreStats

__all__ = ["Readiness", "create_app"]

_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}
# A checkpoint changes with every seal; a few seconds spare the daemon, not the reader's freshness.
_FRESH = {"cache-control": "no-cache"}
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HTTP_CODES = {Reason.NOT_FOUND: 404, Reason.UNAVAILABLE: 503}

Readiness = dict[str, str | int | float | bool]


def create_app(
    reader: Reader,
    pool: Executor,
    metrics: Metrics,
    *,
    stats: Callable[[], StoreStats],
    readiness: Callable[[], Readiness],
) -> Starlette:
    """Build the application.

    Args:
        reader: answers tile and checkpoint reads.
        pool: threads to read in.
        metrics: what /metrics shows.
        stats: the store's figures.
        readiness: details for /readyz; its member `ready` decides between 200 and 503.
    """
    pages = _Pages(reader, pool, metrics, stats, readiness)
    return Starlette(
        routes=[
            Route("/checkpoint", pages.checkpoint),
            Route("/tile/entries/{path:path}", pages.entries),
            Route("/tile/{path:path}", pages.tile),
            Route("/metrics", pages.metrics),
            Route("/healthz", pages.healthz),
            Route("/readyz", pages.readyz),
        ]
    )


class _Pages:
    """One method a page."""

    def __init__(
        self,
        reader: Reader,
        pool: Executor,
        metrics: Metrics,
        stats: Callable[[], StoreStats],
        readiness: Callable[[], Readiness],
    ) -> None:
        self._reader = reader
        self._pool = pool
        self._metrics = metrics
        self._stats = stats
        self._readiness = readiness

    async def checkpoint(self, request: Request) -> Response:
        """The newest signed checkpoint."""
        del request
        work = partial(self._reader.checkpoint, 0)
        return await self._read("checkpoint", work, "text/plain; charset=utf-8", _FRESH)

    async def tile(self, request: Request) -> Response:
        """Hashes of one tile, full or partial."""
        path = _path(request)

        def work() -> bytes:
            tile, width = parse_tile_path(path)
            return self._reader.tile(tile, width)

        return await self._read("tile", work, "application/octet-stream", _IMMUTABLE)

    async def entries(self, request: Request) -> Response:
        """Leaves of one entry bundle, full or partial."""
        path = _path(request)

        def work() -> bytes:
            index, width = parse_entries_path(path)
            return self._reader.entries(index, width)

        return await self._read("tile", work, "application/octet-stream", _IMMUTABLE)

    async def metrics(self, request: Request) -> Response:
        """Prometheus text format."""
        del request
        self._metrics.ready.set(1 if self._readiness()["ready"] else 0)
        work = partial(self._metrics.expose, self._stats)
        body = await asyncio.get_running_loop().run_in_executor(self._pool, work)
        return Response(body, media_type=_METRICS_TYPE)

    async def healthz(self, request: Request) -> Response:
        """The process lives and its event loop turns."""
        del request
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Whether receipts are accepted and proofs served, and why not."""
        del request
        details = self._readiness()
        return JSONResponse(details, status_code=200 if details["ready"] else 503)

    async def _read(
        self, kind: str, work: Callable[[], bytes], media_type: str, headers: dict[str, str]
    ) -> Response:
        started, result = time.perf_counter(), "ok"
        try:
            body = await asyncio.get_running_loop().run_in_executor(self._pool, readable, work)
            return Response(body, media_type=media_type, headers=headers)
        except LedgerError as error:
            result = "error"
            return PlainTextResponse(f"{error}\n", status_code=_HTTP_CODES.get(error.reason, 400))
        finally:
            self._metrics.proof_requests.labels(kind, result).inc()
            self._metrics.proof_seconds.labels(kind).observe(time.perf_counter() - started)


def _path(request: Request) -> str:
    """The whole path without its first slash; a route's own parameter loses a final newline."""
    path: str = request.scope["path"]
    return path.removeprefix("/")
