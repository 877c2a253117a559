"""What can go wrong between us and a timestamp authority, as one error with a cause from the closed list.

The verifier in core raises its own error for what a response says; this one is for what only the
daemon sees: the network, HTTP, and two verifiers that do not agree. Both carry a cause, and whoever
decides about retries looks at the cause alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.errors import LedgerError, Reason

if TYPE_CHECKING:
    from receiptledger.core.timestamp_cause import Cause

__all__ = ["TsaError"]


class TsaError(LedgerError):
    """A timestamp authority, or a server of its revocation lists, gave us nothing we can use.

    Attributes:
        cause: what programs branch on.
        detail: for people: what was expected and what came. Never credentials, never a body.
        retry_after_seconds: what the server asked for, at most an hour; None when it did not ask.
    """

    def __init__(self, cause: Cause, detail: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(Reason.BAD_TIMESTAMP, detail)
        self.cause = cause
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.cause})"
