"""What gRPC raises, as our own errors: the only place of the client that reads a failed call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from receiptledger.core.errors import Reason
from receiptledger.wire import CallError

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["guard"]

DOMAIN: Final = "receiptledger"
MAX_RETRY_SECONDS: Final = 60.0  # what a daemon may ask us to wait
# Failures that did not come from the ledger's own code: their reason, and whether to try again.
_CODES: Final = {
    grpc.StatusCode.UNAVAILABLE: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.CANCELLED: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.ABORTED: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.INTERNAL: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.UNKNOWN: (Reason.UNAVAILABLE, True),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (Reason.OVERLOADED, False),
    grpc.StatusCode.NOT_FOUND: (Reason.NOT_FOUND, False),
}


async def guard(operation: Awaitable[Any], address: str) -> Any:
    """Wait for gRPC; whatever it raises becomes ours.

    Ours is raised when gRPC's is no longer handled: as its context it would keep the call, and with
    the call gRPC itself, alive for as long as somebody keeps our error. See `forking`.
    """
    failure: BaseException
    try:
        return await operation
    except grpc.aio.AioRpcError as error:
        failure = _failure(error, address)
    except asyncio.InvalidStateError:
        failure = CallError(Reason.UNAVAILABLE, f"the stream to {address} has ended", retry_after=0)
    except asyncio.CancelledError as error:
        failure = _dropped(error, address)
    raise failure


def _dropped(error: asyncio.CancelledError, address: str) -> BaseException:
    """What a CancelledError means: gRPC also raises it when the call was cancelled, not the task."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return error
    return CallError(Reason.UNAVAILABLE, f"the call to {address} was dropped", retry_after=0)


def _failure(error: grpc.aio.AioRpcError, address: str) -> CallError:
    """Our error for a failed call: from google.rpc.ErrorInfo, else from the status code."""
    info, retry_after = _details(error)
    if info is not None and info.domain == DOMAIN and info.reason in Reason.__members__:
        reason = Reason[info.reason]
        want, got = info.metadata.get("want"), info.metadata.get("got")
        message = (error.details() or "").removeprefix(f"{reason}: ")
        message = message.removesuffix(f"; got {got}").removesuffix(f"; expected {want}")
        return CallError(reason, message, want=want, got=got, retry_after=retry_after)
    code = error.code()
    reason, transient = _CODES.get(code, (Reason.INVALID_ARGUMENT, False))
    if retry_after is None and transient:
        retry_after = 0.0
    details = error.details() or code.name
    return CallError(reason, _explain(code, address, details), retry_after=retry_after)


def _details(
    error: grpc.aio.AioRpcError,
) -> tuple[error_details_pb2.ErrorInfo | None, float | None]:
    """ErrorInfo and RetryInfo of a rich status, where it has them."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # the rich status contradicts the plain one: believe neither's details
        status = None
    info: error_details_pb2.ErrorInfo | None = None
    seconds: float | None = None
    for detail in () if status is None else status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            seconds = min(max(retry.retry_delay.ToMilliseconds() / 1_000, 0.0), MAX_RETRY_SECONDS)
    return info, seconds


def _explain(code: grpc.StatusCode, address: str, details: str) -> str:
    if code is grpc.StatusCode.UNAVAILABLE:
        return (
            f"cannot reach a ledger at {address}: is ledgerd running there, and is this its gRPC "
            f"port? ({details})"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from {address} in time ({details})"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return f"{address} is no receipt ledger, or an older one ({details})"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return f"a limit of the ledger at {address} is reached ({details})"
    return f"the call to {address} failed: {code.name} ({details})"
