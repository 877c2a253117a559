"""Composition root: builds every part, runs them, and takes them down in order.

Start: store, guard and key are held against each other before anything listens. Stop (SIGTERM, SIGINT):
health says NOT_SERVING, open streams are told and finish what they sent, everything durable is sealed,
then the store is closed; exit code 0. A fatal contradiction stops the process with code 1.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import structlog

from ledgerd.admission import Admission
from ledgerd.anchoring.setup import AnchorSetupError, build_anchorer, steady_clock
from ledgerd.board import Board
from ledgerd.formats import FormatsError, open_formats
from ledgerd.guard import FileGuard, GuardError
from ledgerd.ingest import Ingest
from ledgerd.keyring import Keyring
from ledgerd.metrics import Metrics
from ledgerd.parking import Parking
from ledgerd.reader import Reader
from ledgerd.rpc.anchors import AnchorHandlers
from ledgerd.rpc.server import RpcServer
from ledgerd.rpc.service import IngestHandlers, ProofHandlers
from ledgerd.sequencer import RecoveryError, Sequencer
from ledgerd.signer import LogKeyError, create_log_key, load_log_key
from ledgerd.store.interface import Store, StoreError
from ledgerd.store.rocks import RocksStore
from ledgerd.verify_pool import VerifyPool
from ledgerd.web.app import Readiness, create_app
from ledgerd.web.server import WebServer
from ledgerd.writer import Writer
from receiptledger.core.canonical import Limits
from receiptledger.core.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerd.anchoring.anchorer import Anchorer
    from ledgerd.config import Settings
    from ledgerd.store.interface import LogState
    from receiptledger.core.note import NoteSigner

__all__ = ["Daemon", "StartError", "run"]

GC_THRESHOLD = 100_000  # objects made and not dropped before the young are searched for cycles

_ANCHOR_TICK_SECONDS = (
    1.0  # how often it is looked whether a TSA is due; the rest is seconds to hours
)
_MAX_RETRY_SECONDS = 5.0  # between two tries to seal while the store or the guard fails

# What a start is refused for; each message says what to do.
_REFUSALS = (GuardError, RecoveryError, LogKeyError, StoreError, AnchorSetupError)

_log = structlog.get_logger(__name__)


class StartError(Exception):
    """The daemon cannot start; the message says what to do."""


def run(settings: Settings, *, create_guard: bool = False) -> int:
    """Run a daemon until it is told to stop; returns the process's exit code.

    Raises:
        StartError: it cannot start.
    """
    sys.setswitchinterval(settings.switch_interval_us / 1e6)
    # Receipts are made and dropped by the thousand and never form cycles; Python's default looks for
    # cycles every 700 of them. What does (tracebacks, tasks) is found all the same, only later.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    return asyncio.run(_main(settings, create_guard=create_guard))


async def _main(settings: Settings, *, create_guard: bool) -> int:
    daemon = Daemon(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await daemon.start(create_guard=create_guard)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((stopping, daemon.failed), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await daemon.stop()
    return 1 if daemon.failed.done() else 0


class Daemon:
    """One ledger: its store, threads and servers. Make it on a running event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[BaseException] = self._loop.create_future()
        self.metrics = Metrics()
        self.grpc_address = ""
        self.http_address = ""
        self._ready = False
        self._verify_pool: VerifyPool | None = None
        self._anchorer: Anchorer | None = None
        self._clock = steady_clock()

    async def start(self, *, create_guard: bool = False) -> None:
        """Open, check, recover, then listen.

        Raises:
            StartError: something contradicts or is missing; nothing was signed or served.
        """
        started = time.perf_counter()
        settings = self._settings
        try:
            self._formats = open_formats(settings.profiles_dir)
            self._store = _open_store(settings)
        except (FormatsError, StoreError, OSError) as error:
            raise StartError(str(error)) from None
        try:
            signer = _log_key(settings, self._store)
            self._assemble(signer)
            self._sequencer.recover(create_guard=create_guard)
            self._recover_anchors()
        except (*_REFUSALS, OSError) as error:
            if self._verify_pool is not None:
                await self._verify_pool.close()
            self._store.close()
            raise StartError(str(error)) from None
        self.metrics.unsealed_receipts.set(self._sequencer.unsealed_receipts)
        if self._verify_pool is not None:
            await self._verify_pool.start()
        self._writer.start()
        self._ticker = asyncio.create_task(self._seal_ticker())
        self._anchor_ticker = asyncio.create_task(self._anchor_ticks())
        try:
            self.http_address = await self._web.start()
            self.grpc_address = await self._rpc.start()
        except OSError as error:
            await self.stop()
            raise StartError(str(error)) from None
        self._ready = True
        _log.info(
            "ready",
            grpc=self.grpc_address,
            http=self.http_address,
            log_key=str(signer.verifier),
            tree_size=self._sequencer.tree_size,
            unsealed_receipts=self._sequencer.unsealed_receipts,
            seconds=round(time.perf_counter() - started, 3),
        )

    def _assemble(self, signer: NoteSigner) -> None:
        """Wire the parts; the only place that knows all of them."""
        settings, store, metrics = self._settings, self._store, self.metrics
        self._board = Board()
        keyring = Keyring(
            pinning=settings.trust_mode == "pinned",
            enrolled=_enrolled(settings),
            pinned=lambda chain: tuple(record.key for record in store.keys(chain)),
            cache_size=settings.max_chains_cached,
        )
        parking = Parking(
            max_receipts=settings.park_max_receipts,
            max_bytes=settings.park_max_bytes,
            wait_seconds=settings.park_wait_ms / 1_000,
        )
        admission = Admission(
            store,
            keyring,
            max_chains_cached=settings.max_chains_cached,
            max_forks_per_chain=settings.max_forks_per_chain,
            parking=parking,
        )
        self._sequencer = Sequencer(store, signer, FileGuard(settings.guard_file), self._publish)
        self._writer = Writer(
            store,
            admission,
            self._sequencer,
            parking,
            metrics,
            deliver=self._deliver,
            on_fatal=self._fatal,
            max_group_receipts=settings.max_group_receipts,
            seal_max_leaves=settings.seal_max_leaves,
        )
        threads = settings.verify_threads or os.cpu_count() or 1
        processes = threads if settings.verify_processes < 0 else settings.verify_processes
        self._verify_pool = self._start_pool(processes)
        self._ingest = Ingest(
            writer=self._writer,
            board=self._board,
            keyring=keyring,
            profiles=self._formats.profiles,
            metrics=metrics,
            limits=Limits(max_bytes=settings.max_receipt_bytes),
            max_batch_receipts=settings.max_batch_receipts,
            max_batches_in_flight=settings.max_batches_in_flight,
            seal_wait_seconds=settings.seal_wait_seconds,
            verify_threads=processes or threads,
            verify_pool=self._verify_pool,
            refusal=self._refusal,
        )
        reader = Reader(
            store,
            lambda: self._board.state,
            max_cache_bytes=settings.max_proof_cache_bytes,
            anchor_quorum=settings.anchor_quorum,
        )
        self._reads = ThreadPoolExecutor(settings.read_threads, thread_name_prefix="read")
        self._anchorer = build_anchorer(
            settings,
            store,
            self._reads,
            metrics.anchors,
            submit=self._writer.submit,
            published=lambda: self._board.state,
            content_size=lambda: self._sequencer.content_size,
            clock=self._clock,
        )
        self._assemble_servers(reader)

    def _assemble_servers(self, reader: Reader) -> None:
        settings, store, metrics = self._settings, self._store, self.metrics
        handlers = IngestHandlers(
            self._ingest, reader, self._reads, metrics, max_streams=settings.max_streams
        )
        proofs = ProofHandlers(
            reader,
            self._board,
            self._reads,
            metrics,
            barrier=self._ingest.barrier,
            draining=self._ingest.draining,
            max_watchers=settings.max_watchers,
        )
        anchors = AnchorHandlers(
            reader,
            self._reads,
            metrics,
            control=self._anchorer,
            barrier=self._ingest.barrier,
            draining=self._ingest.draining,
        )
        self._rpc = RpcServer(settings, metrics, handlers, proofs, anchors)
        app = create_app(reader, self._reads, metrics, stats=store.stats, readiness=self._readiness)
        self._web = WebServer(app, settings.http_listen)

    def _start_pool(self, processes: int) -> VerifyPool | None:
        settings = self._settings
        if processes == 0:
            return None
        return VerifyPool(
            processes,
            pinning=settings.trust_mode == "pinned",
            enrolled=_enrolled(settings),
            max_bytes=settings.max_receipt_bytes,
            cache_size=settings.max_chains_cached,
            formats=self._formats.sources,
        )

    async def stop(self) -> None:
        """Drain and close. Everything acknowledged is durable; everything durable is sealed."""
        settings = self._settings
        self._ready = False
        _log.info("draining", seconds=settings.drain_seconds)
        if self.grpc_address:
            await self._rpc.enter_drain()
        self._ingest.drain()
        self._anchor_ticker.cancel()
        if self._anchorer is not None:
            # Before the streams get their time: no TSA that hangs may hold up a stop.
            await self._anchorer.stop()
        if self.grpc_address:
            # Without a writer no stream gets its answers: waiting for them would be for nothing.
            await self._rpc.stop(0 if self.failed.done() else settings.drain_seconds)
        self._ticker.cancel()
        if not self.failed.done():
            try:
                await self._ingest.seal()
            except ServiceError as error:
                _log.error("the last seal failed; a restart seals what is left", error=str(error))
        await self._web.stop()
        await self._loop.run_in_executor(None, self._close)
        if self._verify_pool is not None:
            await self._verify_pool.close()
        _log.info("stopped", tree_size=self._sequencer.tree_size)

    def _close(self) -> None:
        self._writer.stop()
        self._ingest.close()
        self._reads.shutdown(wait=True)
        self._store.close()

    async def _seal_ticker(self) -> None:
        """Ask for a seal every interval; the writer does nothing when nothing is unsealed."""
        interval = wait = self._settings.seal_interval_ms / 1_000
        while True:
            await asyncio.sleep(wait)
            try:
                await self._ingest.seal()
                wait = interval
            except ServiceError as error:
                wait = max(interval, min(2 * wait, _MAX_RETRY_SECONDS))
                _log.error("seal failed, will be tried again", seconds=wait, error=str(error))

    async def _anchor_ticks(self) -> None:
        """Look whether a TSA is due; nothing here waits for one, or for a disk."""
        while self._anchorer is not None:
            try:
                await self._anchorer.step(self._clock())
            except Exception:
                _log.exception("the anchor step failed, will be tried again")
            await asyncio.sleep(_ANCHOR_TICK_SECONDS)

    def _recover_anchors(self) -> None:
        state = self._store.log_state()
        if self._anchorer is not None and state is not None:
            self._anchorer.recover(state)

    def _refusal(self) -> ServiceError | None:
        return None if self._anchorer is None else self._anchorer.refusal()

    def _publish(self, state: LogState) -> None:
        """A state may be seen; from the writer thread, or the loop's own during start."""
        self.metrics.tree_size.set(state.size)
        self._loop.call_soon_threadsafe(self._board.post, state)

    def _deliver(self, calls: list[Callable[[], None]]) -> None:
        """Run callbacks on the event loop: one wake-up for a whole group."""
        self._loop.call_soon_threadsafe(_run_all, calls)

    def _fatal(self, error: BaseException) -> None:
        """The writer cannot go on: stop the process rather than half-work."""
        _log.critical("fatal, stopping", error=str(error), kind=type(error).__name__)
        self._loop.call_soon_threadsafe(self._set_failed, error)

    def _set_failed(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    def _readiness(self) -> Readiness:
        state = self._board.state
        anchors: Readiness = {}
        if self._anchorer is not None:
            current = self._anchorer.measure(self._clock())
            anchors = {
                "anchored_size": current.anchored,
                "anchor_lag_seconds": round(current.lag, 1),
                "unanchored_leaves": current.leaves,
                "anchors_overdue": current.overdue,
            }
        return {
            "ready": self._ready
            and state is not None
            and self._writer.healthy
            and not self.failed.done()
            and self._refusal() is None,
            "draining": self._ingest.draining.is_set(),
            "store_healthy": self._writer.healthy,
            "tree_size": 0 if state is None else state.size,
            "unsealed_receipts": self._sequencer.unsealed_receipts,
            "store_errors": int(self.metrics.value("ledger_store_errors_total") or 0),
            **anchors,
        }


def _run_all(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _open_store(settings: Settings) -> Store:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    return RocksStore.open(settings.database)


def _log_key(settings: Settings, store: Store) -> NoteSigner:
    """The log's key; a new ledger gets a new one, an old one never does."""
    path = settings.log_key_file
    # A guard without a key is of a log that went on elsewhere, or lost both: never a new one.
    new = store.log_state() is None and not settings.guard_file.exists()
    if new and not path.exists():
        return create_log_key(path, settings.origin)
    return load_log_key(path, settings.origin)


def _enrolled(settings: Settings) -> dict[str, tuple[bytes, ...]]:
    keys: dict[str, tuple[bytes, ...]] = {}
    for item in settings.agent_keys:
        keys[item.agent] = (*keys.get(item.agent, ()), item.key)
    return keys
