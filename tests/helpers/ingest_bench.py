"""An Ingest with one stream and a fake writer that answers when the test says so."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ledgerd.admission import Answer
from ledgerd.board import Board
from ledgerd.ingest import Batch, BatchAnswer, Ingest
from ledgerd.keyring import Keyring
from ledgerd.metrics import Metrics
from ledgerd.store.interface import LogState
from ledgerd.writer import BatchJob, BatchResult
from receiptledger.core.canonical import Limits
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.profile import Profiles
from tests.helpers.agents import Agent

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ledgerd.writer import Job

__all__ = ["RAWS", "UNAVAILABLE", "Bench", "FakeWriter", "batch", "run", "state", "turns"]

RAWS = Agent().receipts(4)
UNAVAILABLE = ServiceError(Reason.UNAVAILABLE, "the store could not commit")


@dataclass
class FakeWriter:
    """Keeps jobs until the test answers them."""

    jobs: list[Job] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0

    def submit(self, job: Job) -> None:
        self.jobs.append(job)
        self.came.set()

    async def wait(self, count: int) -> None:
        """Until as many jobs came in all."""
        while len(self.jobs) < count:
            self.came.clear()
            await asyncio.wait_for(self.came.wait(), 30)

    def answer(self, at: int, error: ServiceError | None = None) -> None:
        """Settle a batch: every receipt accepted."""
        job = self.jobs[at]
        assert isinstance(job, BatchJob)
        self.number += len(job.items)
        answers = [Answer(None, False, n, b"", b"") for n in range(len(job.items))]
        job.done(error or BatchResult(answers, self.number))


class Bench:
    """An Ingest with one stream: batches are put in, answers come out."""

    def __init__(
        self, *, window: int = 2, max_batch: int = 3, threads: int = 2, seal_wait: float = 30.0
    ) -> None:
        self.writer = FakeWriter()
        self.board = Board()
        self.metrics = Metrics()
        self.refused: ServiceError | None = None  # why no receipts are taken
        self.ingest = Ingest(
            writer=self.writer,
            board=self.board,
            keyring=Keyring(pinning=True, enrolled={}, pinned=lambda chain: (), cache_size=10),
            profiles=Profiles.builtin(),
            metrics=self.metrics,
            limits=Limits(),
            max_batch_receipts=max_batch,
            max_batches_in_flight=window,
            seal_wait_seconds=seal_wait,
            verify_threads=threads,
            refusal=lambda: self.refused,
        )
        self.incoming: asyncio.Queue[Batch | None] = asyncio.Queue()
        self.reads = 0
        self.answers: list[BatchAnswer] = []
        self.answered = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def read(self) -> Batch | None:
        self.reads += 1
        return await self.incoming.get()

    async def write(self, answer: BatchAnswer) -> None:
        await self.may_write.wait()
        self.answers.append(answer)
        self.answered.set()

    def open(self) -> asyncio.Task[bool]:
        return asyncio.create_task(self.ingest.serve(self.read, self.write))

    def put(self, *batches: Batch | None) -> None:
        for batch in batches:
            self.incoming.put_nowait(batch)

    async def wait_answers(self, count: int) -> list[int]:
        """Ids of the answers, once there are as many."""
        while len(self.answers) < count:
            self.answered.clear()
            await asyncio.wait_for(self.answered.wait(), 30)
        return [answer.batch_id for answer in self.answers]


def batch(number: int, raws: list[bytes] | None = None, **given: object) -> Batch:
    return Batch(number, RAWS[:1] if raws is None else raws, **given)  # type: ignore[arg-type]


async def turns() -> None:
    """Let everything go on that can; no time passes."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(work: Coroutine[object, object, None], *benches: Bench) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    try:
        asyncio.run(bounded())
    finally:
        for bench in benches:
            bench.ingest.close()


def state(size: int, sealed_number: int) -> LogState:
    return LogState(size, bytes(32), b"note", sealed_number)
