"""From our reasons to gRPC status codes with google.rpc rich details: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from receiptledger.core.errors import LedgerError, Reason, ServiceError

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["CODES", "DOMAIN", "RETRY_SECONDS", "to_status"]

DOMAIN = "receiptledger"

# Reasons a whole call can fail with. Reasons of single receipts travel in answers, never here.
CODES: Final[dict[Reason, grpc.StatusCode]] = {
    Reason.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.NOT_SEALED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.DRAINING: grpc.StatusCode.UNAVAILABLE,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.UNANCHORED: grpc.StatusCode.UNAVAILABLE,
    Reason.NOT_CONFIGURED: grpc.StatusCode.FAILED_PRECONDITION,
}

# Reasons worth trying again, and after how many seconds. Without RetryInfo a client gives up.
RETRY_SECONDS: Final[dict[Reason, float]] = {
    Reason.NOT_SEALED: 0.25,
    Reason.OVERLOADED: 1.0,
    Reason.DRAINING: 1.0,
    Reason.UNAVAILABLE: 1.0,
    Reason.UNANCHORED: 30.0,
}


def to_status(error: LedgerError) -> grpc.Status:
    """The status to abort a call with: code, message, ErrorInfo, and RetryInfo where it helps."""
    metadata = {"want": error.want, "got": error.got}
    details: list[Message] = [
        error_details_pb2.ErrorInfo(
            reason=error.reason.name,
            domain=DOMAIN,
            metadata={name: value for name, value in metadata.items() if value is not None},
        )
    ]
    seconds = RETRY_SECONDS.get(error.reason)
    if isinstance(error, ServiceError) and error.retry_after is not None:
        seconds = error.retry_after
    if seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(int(seconds * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    code: tuple[int, str] = CODES.get(error.reason, grpc.StatusCode.INTERNAL).value
    status = status_pb2.Status(code=code[0], message=str(error))
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    result: grpc.Status = rpc_status.to_status(status)
    return result
