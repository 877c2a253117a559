"""AnchorNow: the real handlers before a control that says what a test wants."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest

from ledgerd.anchoring.plan import AnchorRound, TsaResult
from ledgerd.metrics import Metrics
from ledgerd.rpc.anchors import AnchorHandlers
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.v1 import anchor_pb2, anchor_pb2_grpc
from tests.helpers.peer import failure, run
from tests.helpers.sync_ledger import NOW, SyncLedger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Control:
    """Says what a test wants."""

    def __init__(self) -> None:
        self.result: AnchorRound | ServiceError = AnchorRound(0, (), quorum_reached=False)
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def anchor_now(self) -> AnchorRound:
        self.asked.set()
        await self.go.wait()
        if isinstance(self.result, ServiceError):
            raise self.result
        return self.result


@asynccontextmanager
async def controlled(
    control: Control, draining: asyncio.Event
) -> AsyncIterator[anchor_pb2_grpc.AnchorServiceStub]:
    """The real handlers in a server of their own, before a control of the test."""

    async def barrier() -> None:
        """Everything is durable."""

    with ThreadPoolExecutor(1) as pool:
        handlers = AnchorHandlers(
            SyncLedger().reader,
            pool,
            Metrics(),
            control=control,
            barrier=barrier,
            draining=draining,
        )
        server = grpc.aio.server()
        anchor_pb2_grpc.add_AnchorServiceServicer_to_server(handlers, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield anchor_pb2_grpc.AnchorServiceStub(channel)
        await server.stop(None)


def test_what_every_tsa_said() -> None:
    async def work() -> None:
        control = Control()
        async with controlled(control, asyncio.Event()) as stub:
            control.result = AnchorRound(
                42,
                (
                    TsaResult("tsa-a", None, NOW, "anchor 7 is stored"),
                    TsaResult("tsa-b", "nonce", None, "another nonce"),
                    TsaResult("tsa-c", None, 0, ""),
                ),
                quorum_reached=True,
            )
            answer = await stub.AnchorNow(anchor_pb2.AnchorNowRequest())
            assert (answer.tree_size, answer.quorum_reached) == (42, True)
            said = [(one.tsa, one.cause, one.detail) for one in answer.results]
            assert said == [
                ("tsa-a", "", "anchor 7 is stored"),
                ("tsa-b", "nonce", "another nonce"),
                ("tsa-c", "", ""),
            ]
            times = [
                one.gen_time_us if one.HasField("gen_time_us") else None for one in answer.results
            ]
            assert times == [NOW, None, 0]

    run(work())


@pytest.mark.parametrize(
    ("error", "code", "seconds"),
    [
        (
            ServiceError(Reason.OVERLOADED, "too soon", retry_after=12.5),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            12.5,
        ),
        (ServiceError(Reason.NOT_SEALED, "empty"), grpc.StatusCode.FAILED_PRECONDITION, 0.25),
        (ServiceError(Reason.UNAVAILABLE, "the store"), grpc.StatusCode.UNAVAILABLE, 1.0),
    ],
)
def test_why_nothing_was_anchored(
    error: ServiceError, code: grpc.StatusCode, seconds: float
) -> None:
    async def work() -> None:
        control = Control()
        control.result = error
        async with controlled(control, asyncio.Event()) as stub:
            told = await failure(stub.AnchorNow(anchor_pb2.AnchorNowRequest()))
            assert (told.code, told.reason) == (code, error.reason.name)
            assert told.retry_seconds == seconds

    run(work())


def test_a_draining_daemon_starts_no_round() -> None:
    async def work() -> None:
        control, draining = Control(), asyncio.Event()
        draining.set()
        async with controlled(control, draining) as stub:
            told = await failure(stub.AnchorNow(anchor_pb2.AnchorNowRequest()))
            assert (told.code, told.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
            assert not control.asked.is_set()

    run(work())
