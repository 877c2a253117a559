"""A real daemon whose log holds real tokens of the tests' own authorities, put in through its writer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ledgerd.store.interface import Changes
from ledgerd.writer import CommitJob
from receiptledger.client import submit_receipts
from receiptledger.sender import SendOptions
from receiptledger.wire import Ack
from tests.helpers.anchor_records import evidence_of, record_of
from tests.helpers.daemons import log_key, open_daemon

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.daemon import Daemon
    from ledgerd.store.interface import AnchorRecord
    from receiptledger.core.errors import ServiceError
    from tests.helpers.authority import Authority

__all__ = ["EPOCH", "Stamper", "stamped_folder"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = 60_000  # milliseconds between seals: none of its own in a test
_QUICK = SendOptions(linger_ms=0)


class Stamper:
    """Plays receipts, authorities and seals onto a daemon that seals only when told."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder

    async def commit(self, changes: Changes) -> None:
        """Through the daemon's own writer."""
        done: asyncio.Future[ServiceError | None] = asyncio.get_running_loop().create_future()
        self.daemon._writer.submit(CommitJob(changes, done.set_result))
        assert await done is None

    async def seal(self) -> int:
        """Seal what is there; the tree's size."""
        await self.daemon._ingest.seal()
        state = self.daemon._board.state
        assert state is not None
        return state.size

    async def append(self, raws: list[bytes]) -> int:
        """Receipts, sealed; the tree's size."""
        sending = submit_receipts(self.daemon.grpc_address, raws, ack=Ack.DURABLE, options=_QUICK)
        async for result in sending:
            assert result.answer.reason is None, result.answer
        return await self.seal()

    async def stamp(self, authority: Authority, at: datetime) -> AnchorRecord:
        """A token over the newest checkpoint, stored and not sealed."""
        state = self.daemon._board.state
        assert state is not None
        request, response = authority.answer(state.note, at)
        record = record_of(
            self.daemon._store,
            state.note,
            log_key(self.folder),
            authority.name,
            request=request,
            response=response,
            at=(at - EPOCH) // timedelta(microseconds=1),
        )
        await self.commit(Changes(anchors=[record]))
        return record

    async def prove(self, number: int, crls: tuple[bytes, ...]) -> None:
        """Evidence for a token, stored and not sealed."""
        record = self.daemon._store.anchor(number)
        assert record is not None
        await self.commit(evidence_of(record, crls, ()))


async def stamped_folder(
    folder: Path, raws: list[bytes], start: datetime, *authorities: Authority
) -> None:
    """A daemon's folder: each receipt an hour after the one before, and stamped by all right after.

    The first token has revocation evidence of a day later.
    """
    async with open_daemon(folder, seal_interval_ms=NEVER) as daemon:
        stamper = Stamper(daemon, folder)
        for number, raw in enumerate(raws):
            await stamper.append([raw])
            for authority in authorities:
                await stamper.stamp(authority, start + timedelta(hours=number))
            await stamper.seal()
        await stamper.prove(0, authorities[0].crls(start + timedelta(days=1)))
        await stamper.seal()
