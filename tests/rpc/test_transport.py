"""From gRPC failures to our errors, and what the client makes of answers it cannot understand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from ledgerd.rpc.status import to_status
from receiptledger.address import parse_address
from receiptledger.core.chain import Head
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.transport import Channel
from receiptledger.v1 import ingest_pb2, types_pb2
from receiptledger.wire import CallError
from tests.helpers.fake_proofs import FakeIngest, serving

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(work: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


async def failure_of(ingest: FakeIngest) -> CallError:
    """What a single call fails with."""
    async with serving(ingest=ingest) as address:
        channel = Channel(address)
        try:
            with pytest.raises(CallError) as info:
                await channel.head("agent")
        finally:
            await channel.close()
    return info.value


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_crosses_the_wire(reason: Reason) -> None:
    async def work() -> None:
        sent = ServiceError(reason, "what; expected is said", want="this", got="that; got")
        ingest = FakeIngest()
        ingest.abort = lambda context: context.abort_with_status(to_status(sent))
        came = await failure_of(ingest)
        assert (came.reason, came.message) == (reason, sent.message)
        assert (came.want, came.got) == (sent.want, sent.got)
        assert str(came) == str(sent)

    run(work())


def test_without_want_and_got() -> None:
    async def work() -> None:
        ingest = FakeIngest()
        sent = ServiceError(Reason.DRAINING, "soon")
        ingest.abort = lambda context: context.abort_with_status(to_status(sent))
        came = await failure_of(ingest)
        assert (came.message, came.want, came.got, came.retry_after) == ("soon", None, None, 1.0)

    run(work())


@pytest.mark.parametrize(
    ("code", "reason", "retry", "words"),
    [
        (grpc.StatusCode.UNAVAILABLE, Reason.UNAVAILABLE, 0.0, "cannot reach a ledger at"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Reason.UNAVAILABLE, 0.0, "no answer from"),
        (grpc.StatusCode.INTERNAL, Reason.UNAVAILABLE, 0.0, "INTERNAL (boom)"),
        (grpc.StatusCode.UNKNOWN, Reason.UNAVAILABLE, 0.0, "UNKNOWN (boom)"),
        (grpc.StatusCode.CANCELLED, Reason.UNAVAILABLE, 0.0, "CANCELLED (boom)"),
        (grpc.StatusCode.ABORTED, Reason.UNAVAILABLE, 0.0, "ABORTED"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.OVERLOADED, None, "a limit of the ledger"),
        (grpc.StatusCode.UNIMPLEMENTED, Reason.INVALID_ARGUMENT, None, "no receipt ledger"),
        (grpc.StatusCode.NOT_FOUND, Reason.NOT_FOUND, None, "NOT_FOUND (boom)"),
        (grpc.StatusCode.PERMISSION_DENIED, Reason.INVALID_ARGUMENT, None, "PERMISSION_DENIED"),
    ],
)
def test_failures_that_are_not_the_ledgers_own(
    code: grpc.StatusCode, reason: Reason, retry: float | None, words: str
) -> None:
    async def work() -> None:
        ingest = FakeIngest()
        ingest.abort = lambda context: context.abort(code, "boom")
        came = await failure_of(ingest)
        assert (came.reason, came.retry_after) == (reason, retry)
        assert words in came.message
        assert "127.0.0.1:" in came.message

    run(work())


def _rich(code: grpc.StatusCode, *details: object) -> grpc.Status:
    status = status_pb2.Status(code=code.value[0], message="rich")
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)  # type: ignore[arg-type]
        status.details.append(packed)
    return rpc_status.to_status(status)


def _retry(seconds: int) -> error_details_pb2.RetryInfo:
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds))


@pytest.mark.parametrize(
    ("details", "reason", "retry"),
    [
        # A proxy's own overload: retried, since it asks for it.
        ([_retry(3)], Reason.OVERLOADED, 3.0),
        ([_retry(10**6)], Reason.OVERLOADED, 60.0),
        ([_retry(-5)], Reason.OVERLOADED, 0.0),
        # Other people's ErrorInfo, and reasons we do not know.
        ([error_details_pb2.ErrorInfo(reason="FORK", domain="example")], Reason.OVERLOADED, None),
        (
            [error_details_pb2.ErrorInfo(reason="NEW", domain="receiptledger")],
            Reason.OVERLOADED,
            None,
        ),
        ([error_details_pb2.DebugInfo(detail="x")], Reason.OVERLOADED, None),
    ],
    ids=["retry", "too long", "negative", "foreign", "unknown", "other"],
)
def test_details_of_others(details: list[object], reason: Reason, retry: float | None) -> None:
    async def work() -> None:
        ingest = FakeIngest()
        status = _rich(grpc.StatusCode.RESOURCE_EXHAUSTED, *details)
        ingest.abort = lambda context: context.abort_with_status(status)
        came = await failure_of(ingest)
        assert (came.reason, came.retry_after) == (reason, retry)

    run(work())


def test_details_that_contradict_the_status() -> None:
    async def work() -> None:
        ingest = FakeIngest()
        rich = _rich(grpc.StatusCode.NOT_FOUND)

        async def abort(context: grpc.aio.ServicerContext) -> None:
            context.set_trailing_metadata(rich.trailing_metadata)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "boom")

        ingest.abort = abort
        came = await failure_of(ingest)
        assert (came.reason, came.retry_after) == (Reason.UNAVAILABLE, 0.0)

    run(work())


def test_something_else_listens_there() -> None:
    """An HTTP server, say: the port next to the right one."""

    async def work() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        channel = Channel(f"127.0.0.1:{port}", timeout_s=5)
        with pytest.raises(CallError, match="is this its gRPC port") as info:
            await channel.head("agent")
        assert info.value.reason is Reason.UNAVAILABLE
        await channel.close()
        server.close()

    run(work())


def test_nobody_answers_in_time() -> None:
    async def work() -> None:
        ingest = FakeIngest()
        ingest.abort = lambda context: asyncio.Event().wait()
        async with serving(ingest=ingest) as address:
            channel = Channel(address, timeout_s=0.05)
            with pytest.raises(CallError, match=r"no answer from .* in time"):
                await channel.head("agent")
            await channel.close()

    run(work())


def test_heads() -> None:
    async def work() -> None:
        ingest = FakeIngest()
        async with serving(ingest=ingest) as address:
            channel = Channel(address)
            assert await channel.head("agent") is None
            head = ingest.head.head
            head.exists, head.position, head.link_hash = True, 3, bytes(32)
            assert await channel.head("agent", "stream") == Head(3, bytes(32), None)
            head.sequence = 4
            assert await channel.head("agent") == Head(3, bytes(32), 4)
            head.link_hash = b"short"
            with pytest.raises(CallError, match=r"cannot be understood.*a hash of 5 bytes"):
                await channel.head("agent")
            head.link_hash, head.position = bytes(32), 2**63
            with pytest.raises(CallError, match="the number 9223372036854775808"):
                await channel.head("agent")
            await channel.close()
            await channel.close()

    run(work())


@pytest.mark.parametrize(
    "answer",
    [
        ingest_pb2.Answer(),
        ingest_pb2.Answer(outcome=99),  # type: ignore[arg-type]
        ingest_pb2.Answer(outcome=types_pb2.OUTCOME_REJECTED),
        ingest_pb2.Answer(outcome=types_pb2.OUTCOME_REJECTED, reason=99),  # type: ignore[arg-type]
        ingest_pb2.Answer(outcome=types_pb2.OUTCOME_ACCEPTED, receipt_hash=b"short"),
        ingest_pb2.Answer(outcome=types_pb2.OUTCOME_ACCEPTED, position=2**63),
    ],
    ids=["empty", "outcome", "no reason", "reason", "hash", "position"],
)
def test_answers_that_cannot_be_understood(answer: ingest_pb2.Answer) -> None:
    async def work() -> None:
        ingest = FakeIngest()
        ingest.responses.append(ingest_pb2.AppendResponse(answers=[answer]))
        async with serving(ingest=ingest) as address:
            channel = Channel(address)
            stream = channel.append()
            await stream.write(0, [b"x"])
            with pytest.raises(CallError, match="cannot be understood") as info:
                await stream.read()
            assert info.value.retry_after is None
            stream.cancel()
            await channel.close()

    run(work())


def test_a_stream_from_end_to_end() -> None:
    async def work() -> None:
        ingest = FakeIngest()
        good = ingest_pb2.Answer(outcome=types_pb2.OUTCOME_DUPLICATE, position=1, leaf_index=0)
        ingest.responses.append(
            ingest_pb2.AppendResponse(answers=[good], checkpoint=b"note", draining=True)
        )
        async with serving(ingest=ingest) as address:
            channel = Channel(address)
            stream = channel.append()
            await stream.write(7, [b"x"])
            batch = await stream.read()
            assert batch is not None
            assert (batch.batch_id, batch.checkpoint, batch.draining) == (7, b"note", True)
            answer = batch.answers[0]
            assert (answer.outcome, answer.position, answer.leaf_index) == ("duplicate", 1, 0)
            assert (answer.receipt_hash, answer.expected_hash) == (b"", None)
            await stream.finish()
            assert await stream.read() is None
            # Ended: what comes now fails, and says so.
            with pytest.raises(CallError):
                await stream.write(8, [b"y"])
            await channel.close()

    run(work())


def test_a_stream_that_breaks() -> None:
    async def work() -> None:
        ingest = FakeIngest()
        ingest.abort = lambda context: context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
        async with serving(ingest=ingest) as address:
            channel = Channel(address)
            stream = channel.append()
            await stream.write(0, [b"x"])
            with pytest.raises(CallError, match="INVALID_ARGUMENT") as info:
                await stream.read()
            assert info.value.retry_after is None
            with pytest.raises(CallError):
                await stream.write(1, [b"y"])
            await channel.close()

    run(work())


def test_a_stream_that_was_dropped_here() -> None:
    """gRPC raises CancelledError, as if the task had been cancelled; nobody cancelled it."""

    async def work() -> None:
        ingest = FakeIngest()
        ingest.abort = lambda context: asyncio.Event().wait()
        async with serving(ingest=ingest) as address:
            channel = Channel(address)
            stream = channel.append()
            await stream.write(0, [b"x"])
            reading = asyncio.create_task(stream.read())
            await asyncio.sleep(0)
            stream.cancel()
            with pytest.raises(CallError, match="dropped") as info:
                await reading
            assert info.value.retry_after == 0
            # And a task that is cancelled stays cancelled.
            again = asyncio.create_task(channel.head("agent"))
            await asyncio.sleep(0)
            again.cancel()
            with pytest.raises(asyncio.CancelledError):
                await again
            await channel.close()

    run(work())


@pytest.mark.parametrize("good", ["h:1", "127.0.0.1:7070", "[::1]:65535", "a-b.c_d.example:80"])
def test_good_addresses(good: str) -> None:
    assert parse_address(good) == good
