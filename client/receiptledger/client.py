"""What an agent uses: records receipts at once, sends them in the background, loses none.

`record` builds, signs and queues; it waits only while the outbox is full. `flush` waits until the ledger
has acknowledged what was recorded before. Leaving the `async with` block flushes. One agent id is one
chain and one writer: give each process its own id.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from receiptledger.backoff import Backoff
from receiptledger.builder import MAX_BUILT_BYTES, PROFILE, ReceiptBuilder
from receiptledger.core.errors import LedgerError, Reason, ServiceError
from receiptledger.link import ChainLink
from receiptledger.outbox import Outbox
from receiptledger.sender import Sender, SendOptions
from receiptledger.submit import SubmitResult, submit
from receiptledger.transport import Channel
from receiptledger.wire import Ack, CallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
    from types import TracebackType

    from receiptledger.builder import BuiltReceipt
    from receiptledger.core.chain import Head
    from receiptledger.signer import Signer

__all__ = ["AsyncAgent", "submit_receipts"]


class AsyncAgent:
    """One agent's connection to a ledger, for one event loop.

    Args:
        address: HOST:PORT of the ledger's gRPC.
        agent_id: whose receipts; 1..256 bytes of UTF-8. One process at a time writes under it.
        signer: the agent's key.
        ack: what an acknowledgement means.
        options: how receipts are gathered and sent.
        close_s: seconds that closing waits for acknowledgements.

    Raises:
        ServiceError: INVALID_ARGUMENT for a bad address.
    """

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
        self._options = options or SendOptions()
        self._channel = Channel(address, timeout_s=self._options.connect_s)
        self._agent_id = agent_id
        self._signer = signer
        self._ack = Ack(ack)
        self._close_s = close_s
        self._pid = os.getpid()
        self._parts: tuple[ReceiptBuilder, Outbox, Sender] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except LedgerError as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(f"and closing the receipt ledger's agent failed: {failure}")

    async def start(self) -> None:
        """Ask the ledger where the agent's chain is, and begin sending.

        Raises:
            ServiceError: no answer within the retries.
            ReceiptError: the chain, or the agent id, cannot be continued with receipts built here.
        """
        ReceiptBuilder(self._agent_id, self._signer)  # a bad id is refused before anything is sent
        link = ChainLink(self._channel, agent=self._agent_id, profile=PROFILE, ack=self._ack)
        try:
            head = await self._first_head(link)
            builder = ReceiptBuilder(self._agent_id, self._signer, head)
        except BaseException:
            await self._channel.close()
            raise
        options = self._options
        outbox = Outbox(
            chained=True,
            head=head,
            max_receipts=options.outbox_receipts,
            max_bytes=options.outbox_bytes,
        )
        sender = Sender(outbox, link, options, chained=True)
        sender.start()
        self._parts = (builder, outbox, sender)

    async def _first_head(self, link: ChainLink) -> Head | None:
        """The chain's head; within `connect_s`, since the caller waits for it."""
        clock = asyncio.get_running_loop().time
        backoff = Backoff(self._options.retry)
        started = clock()
        while True:
            try:
                return await link.head()
            except CallError as error:
                wait = backoff.failed(clock(), 0.5, error.retry_after or 0.0)
                late = clock() + (wait or 0.0) - started >= self._options.connect_s
                if error.retry_after is None or wait is None or late:
                    raise
            await asyncio.sleep(wait)

    @property
    def unacknowledged(self) -> tuple[bytes, ...]:
        """The receipts the ledger has not acknowledged, oldest first; after a failure, keep them."""
        return () if self._parts is None else self._parts[1].unacknowledged

    @property
    def head(self) -> Head | None:
        """The newest receipt of the chain, acknowledged or not."""
        return self._running()[0].head

    async def record(
        self, *, tool: str, args: Any, result: Any, policy_id: str, at: datetime | None = None
    ) -> BuiltReceipt:
        """Sign and queue the receipt of one tool call. Waits only while the outbox is full.

        Args:
            tool: name of the tool, 1..256 bytes of UTF-8.
            args: its arguments, any JSON value; only their hash is recorded.
            result: what it returned, likewise.
            policy_id: the policy that allowed the call.
            at: when it happened; now by default.

        Raises:
            ReceiptError: the arguments cannot be recorded, or the ledger refused an earlier receipt
                (RefusedError, ForkError).
            ServiceError: the sender gave up; `unacknowledged` has what it could not deliver.
        """
        builder, outbox, sender = self._running()
        await sender.room(MAX_BUILT_BYTES)
        # No await from here on: receipts enter the outbox in the order of the chain.
        built = builder.build(
            tool=tool,
            args=args,
            result=result,
            policy_id=policy_id,
            at=datetime.now(UTC) if at is None else at,
        )
        outbox.add(built.raw)
        sender.notify()
        return built

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything recorded before this call is acknowledged.

        Args:
            timeout: seconds to wait at most; None waits as long as the retries do.

        Raises:
            ReceiptError: the ledger refused a receipt (RefusedError, ForkError).
            ServiceError: UNAVAILABLE, not in time, or the sender gave up.
        """
        _, outbox, sender = self._running()
        try:
            async with asyncio.timeout(timeout):
                await sender.settled(outbox.added)
        except TimeoutError:
            raise _late(
                f"{len(outbox)} receipts are not acknowledged after {timeout} s; they stay queued",
                sender.failure,
            ) from None

    async def close(self) -> None:
        """Flush, then disconnect. What cannot be delivered stays in `unacknowledged`.

        Raises:
            ReceiptError, ServiceError: as `flush` does, waiting `close_s` seconds.
        """
        if self._parts is None or os.getpid() != self._pid:
            return
        _, outbox, sender = self._parts
        try:
            async with asyncio.timeout(self._close_s):
                await sender.finish()
        except TimeoutError:
            raise _late(
                f"{len(outbox)} receipts were not acknowledged within {self._close_s} s of closing; "
                "they are in `unacknowledged`",
                sender.failure,
            ) from None
        finally:
            await sender.abort()
            await self._channel.close()

    def submit(
        self,
        raws: Iterable[bytes] | AsyncIterable[bytes],
        *,
        profile: str = "",
        key_hints: Sequence[bytes] = (),
    ) -> AsyncGenerator[SubmitResult]:
        """Send receipts of other signers as they are; see :func:`receiptledger.submit.submit`.

        They travel on a stream of their own, so that this agent's receipts never wait for them.
        """
        self._running()
        link = ChainLink(self._channel, profile=profile, ack=self._ack, key_hints=key_hints)
        return submit(link, raws, self._options)

    def _running(self) -> tuple[ReceiptBuilder, Outbox, Sender]:
        if os.getpid() != self._pid:
            raise ServiceError(
                Reason.INVALID_ARGUMENT,
                "this agent was made before the process forked, and two writers would fork its "
                "chain; make a new agent, with its own agent id, in each process",
            )
        if self._parts is None:
            raise ServiceError(
                Reason.INVALID_ARGUMENT, "the agent is not started: use it in `async with`"
            )
        return self._parts


async def submit_receipts(
    address: str,
    raws: Iterable[bytes] | AsyncIterable[bytes],
    *,
    profile: str = "",
    key_hints: Sequence[bytes] = (),
    ack: Ack = Ack.DURABLE,
    options: SendOptions | None = None,
) -> AsyncGenerator[SubmitResult]:
    """Send receipts of any signers over a connection of their own, without an agent.

    Args:
        address: HOST:PORT of the ledger's gRPC.
        raws: the receipts' exact bytes.
        profile: receipt format of all of them; "" = detected.
        key_hints: public keys of 32 bytes to try for chains the ledger does not know; at most 16.
        ack: what an acknowledgement means.
        options: how to gather and send.

    Raises:
        ServiceError: as :func:`receiptledger.submit.submit`.
    """
    options = options or SendOptions()
    channel = Channel(address, timeout_s=options.connect_s)
    try:
        link = ChainLink(channel, profile=profile, ack=Ack(ack), key_hints=key_hints)
        results = submit(link, raws, options)
        try:
            async for result in results:
                yield result
        finally:
            await results.aclose()
    finally:
        await channel.close()


def _late(message: str, failure: ServiceError | None) -> ServiceError:
    """Time is up; the reason and the words of the newest failure, if there was one."""
    if failure is None:
        return ServiceError(Reason.UNAVAILABLE, message)
    return ServiceError(failure.reason, f"{message}. The last failure: {failure.message}")
