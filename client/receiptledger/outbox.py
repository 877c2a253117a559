"""The receipts that are not acknowledged yet, as a state machine without I/O.

One queue, oldest first, in two parts: receipts in batches that were sent and are unanswered, and
receipts that were not sent. A receipt leaves the queue when an answer settles it, and never otherwise:

- The queue is bounded in receipts and bytes. When it is full, adding fails; nothing is dropped.
- Answers come in the order of the batches. One that does not fit is refused, not guessed at.
- After a lost connection everything unanswered is sent again; DUPLICATE counts as done.

Two kinds. A *chained* outbox holds one agent's own chain: a refusal stops it, since nothing after a
refused receipt can be accepted, and positions must follow each other. A *loose* outbox holds anybody's
receipts: each is settled by its own answer, a refusal too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import LedgerError, Reason, ReceiptError, ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.chain import Head
    from receiptledger.wire import Answer

__all__ = [
    "Batch",
    "ForkError",
    "LostReceiptsError",
    "Outbox",
    "OutboxFullError",
    "RefusedError",
    "Settled",
]

MAX_RECEIPTS: Final = 10_000
MAX_BYTES: Final = 16 * 1024 * 1024
# Protobuf puts a tag and a length before each receipt: 1 byte and up to 4 for receipts below 256 MiB.
OVERHEAD_BYTES: Final = 5


class OutboxFullError(ServiceError):
    """The outbox holds as much as it may; nothing was added. Flush, or wait for the daemon."""


class RefusedError(ReceiptError):
    """The ledger refused a receipt.

    Attributes:
        raw: its bytes.
        receipt_hash: SHA-256 of them.
        answer: what the ledger said: position, expected hash, detail.
    """

    def __init__(self, raw: bytes, receipt_hash: bytes, answer: Answer, message: str) -> None:
        expected = answer.expected_hash
        super().__init__(
            answer.reason or Reason.UNAVAILABLE,
            message,
            want=None
            if expected is None
            else f"position {answer.position} and hash {digest_text(expected)}",
            got=digest_text(receipt_hash),
        )
        self.raw = raw
        self.receipt_hash = receipt_hash
        self.answer = answer

    @property
    def position(self) -> int:
        """Position in the ledger's answer; see :class:`receiptledger.wire.Answer`."""
        return self.answer.position


class ForkError(RefusedError):
    """The position is taken by another receipt: two writers share one chain, or a key leaked.

    Attributes:
        ours: hash of the receipt that was sent.
        theirs: hash of the receipt the ledger has; both are kept there as evidence.
    """

    def __init__(self, raw: bytes, receipt_hash: bytes, answer: Answer) -> None:
        super().__init__(
            raw,
            receipt_hash,
            answer,
            f"position {answer.position} of the chain is taken by another receipt. Does another "
            "process write under this agent id? Give each process its own",
        )
        self.ours = receipt_hash
        self.theirs = answer.expected_hash or b""


class LostReceiptsError(ServiceError):
    """The ledger no longer has a receipt that it acknowledged: it was rolled back or replaced."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Receipts to send together.

    Attributes:
        batch_id: to be echoed; never used twice on one outbox.
        first: number of its first receipt, as `add` returned it.
        receipts: their bytes.
    """

    batch_id: int
    first: int
    receipts: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """A receipt that left the outbox: its number, bytes, and the answer that settled it."""

    number: int
    raw: bytes
    answer: Answer


class Outbox:
    """See the module.

    Args:
        chained: True for one agent's own chain, False for anybody's receipts.
        head: chained only: the newest position the ledger has of the chain, None for a new one.
        max_receipts: bound on receipts.
        max_bytes: bound on their bytes.
    """

    def __init__(
        self,
        *,
        chained: bool,
        head: Head | None = None,
        max_receipts: int = MAX_RECEIPTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._chained = chained
        # Newest position and link hash the ledger is known to have; receipts built here link by
        # their receipt hash.
        self._acknowledged = (-1, b"") if head is None else (head.position, head.link_hash)
        self._max_receipts = max_receipts
        self._max_bytes = max_bytes
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._unsent_bytes = 0
        self._unsent = 0  # receipts at the end of the queue that are in no batch
        self._batches: deque[Batch] = deque()
        self._next_batch = 0
        self._connected = False
        self.settled = 0
        """Receipts that left since the start: receipt number n is settled when this exceeds n."""
        self.failure: LedgerError | None = None
        """Why nothing more can be sent, or None."""

    def __len__(self) -> int:
        """Receipts not acknowledged."""
        return len(self._queue)

    @property
    def added(self) -> int:
        """Receipts added since the start; the number of the next one."""
        return self.settled + len(self._queue)

    @property
    def unsent(self) -> int:
        """Receipts in no batch."""
        return self._unsent

    @property
    def unsent_bytes(self) -> int:
        """Their bytes."""
        return self._unsent_bytes

    @property
    def in_flight(self) -> int:
        """Batches sent and unanswered."""
        return len(self._batches)

    @property
    def unacknowledged(self) -> tuple[bytes, ...]:
        """Every receipt in the outbox, oldest first: what to keep when giving up."""
        return tuple(self._queue)

    def has_room(self, size: int) -> bool:
        """Whether a receipt of `size` bytes can be added."""
        return len(self._queue) < self._max_receipts and self._bytes + size <= self._max_bytes

    def add(self, raw: bytes) -> int:
        """Append a receipt; returns its number 0, 1, 2 ...

        Raises:
            OutboxFullError: there is no room; nothing was added.
            LedgerError: an earlier receipt was refused, so this one cannot be accepted.
        """
        if self.failure is not None:
            raise self.failure
        if not self.has_room(len(raw)):
            raise OutboxFullError(
                Reason.OVERLOADED,
                "the outbox is full of unacknowledged receipts; nothing was dropped",
                want=f"at most {self._max_receipts} receipts of {self._max_bytes} bytes in all",
                got=f"{len(self._queue)} of {self._bytes} bytes, and one of {len(raw)} bytes",
            )
        self._queue.append(raw)
        self._bytes += len(raw)
        self._unsent += 1
        self._unsent_bytes += len(raw)
        return self.added - 1

    def next_batch(self, max_receipts: int, max_bytes: int) -> Batch | None:
        """Move the oldest unsent receipts into a batch.

        Args:
            max_receipts: bound on the batch, at least 1.
            max_bytes: bound on the message's bytes; a larger receipt goes alone.

        Returns:
            None when there is nothing to send, or no connection to send it on.
        """
        if not self._connected or not self._unsent or self.failure is not None:
            return None
        start = len(self._queue) - self._unsent
        receipts: list[bytes] = []
        size = message = 0
        for raw in islice(self._queue, start, start + max_receipts):
            message += len(raw) + OVERHEAD_BYTES
            if receipts and message > max_bytes:
                break
            receipts.append(raw)
            size += len(raw)
        batch = Batch(self._next_batch, self.settled + start, tuple(receipts))
        self._next_batch += 1
        self._unsent -= len(receipts)
        self._unsent_bytes -= size
        self._batches.append(batch)
        return batch

    def on_answer(self, batch_id: int, answers: Sequence[Answer]) -> list[Settled]:
        """Take the answer to the oldest batch in flight.

        Returns:
            The receipts that were settled by it, in order.

        Raises:
            ForkError, RefusedError: chained only: the first receipt that was refused. It and all
                after it stay; what was accepted before it is settled.
            ServiceError: UNAVAILABLE, the answer does not belong to that batch.
        """
        if self.failure is not None:
            raise self.failure
        batch = self._batches[0] if self._batches else None
        if batch is None or batch.batch_id != batch_id or len(answers) != len(batch.receipts):
            raise _mismatch(
                "an answer to another batch",
                "none" if batch is None else f"batch {batch.batch_id} of {len(batch.receipts)}",
                f"batch {batch_id} of {len(answers)}",
            )
        digests = [sha256(raw).digest() for raw in batch.receipts]
        for digest, answer in zip(digests, answers, strict=True):
            if answer.receipt_hash not in (digest, b""):
                raise _mismatch(
                    "an answer to another receipt",
                    digest_text(digest),
                    digest_text(answer.receipt_hash),
                )
        self._batches.popleft()
        settled: list[Settled] = []
        for raw, digest, answer in zip(batch.receipts, digests, answers, strict=True):
            if self._chained:
                self._check_chained(raw, digest, answer)
            self._queue.popleft()
            self._bytes -= len(raw)
            settled.append(Settled(self.settled, raw, answer))
            self.settled += 1
        return settled

    def on_disconnect(self) -> None:
        """The connection is gone: whether the batches in flight arrived is unknown."""
        self._connected = False
        self._batches.clear()
        self._unsent, self._unsent_bytes = len(self._queue), self._bytes

    def resume(self, head: Head | None = None) -> tuple[bytes, ...]:
        """A connection is there: start again with the oldest unacknowledged receipt.

        Everything is sent again that was not answered, also what `head` covers: only an answer is an
        acknowledgement. A head says nothing about seals, and the few duplicates cost little.

        Args:
            head: chained only: what the ledger says the chain's newest position is now.

        Returns:
            The receipts that will be sent, oldest first.

        Raises:
            LostReceiptsError: the ledger lacks, or has another receipt in place of, the newest one
                that it acknowledged.
        """
        self.on_disconnect()
        self.failure = None
        if self._chained:
            self._check_head(head)
        self._connected = True
        return tuple(self._queue)

    def _check_chained(self, raw: bytes, digest: bytes, answer: Answer) -> None:
        """A refusal stops the chain; an acceptance must be of the next position."""
        if answer.reason is not None:
            self.failure = _refusal(raw, digest, answer)
            raise self.failure
        expected = self._acknowledged[0] + 1
        if answer.position != expected:
            raise _mismatch(
                "an answer that names another position", str(expected), str(answer.position)
            )
        self._acknowledged = (expected, digest)

    def _check_head(self, head: Head | None) -> None:
        position, link = self._acknowledged
        if position < 0 or (head is not None and head.position > position):
            return
        if head is None or head.position < position:
            self.failure = LostReceiptsError(
                Reason.NOT_FOUND,
                "the ledger no longer has receipts that it acknowledged: it was rolled back or "
                "replaced. Keep this agent's receipts and tell the ledger's operator",
                want=f"a head at position {position} or later",
                got="no such chain" if head is None else f"position {head.position}",
            )
            raise self.failure
        if head.link_hash != link:
            self.failure = LostReceiptsError(
                Reason.INCONSISTENT,
                f"the ledger has another receipt at position {position} than the one it "
                "acknowledged. Keep this agent's receipts and tell the ledger's operator",
                want=digest_text(link),
                got=digest_text(head.link_hash),
            )
            raise self.failure


def _refusal(raw: bytes, digest: bytes, answer: Answer) -> RefusedError:
    if answer.reason is Reason.FORK:
        return ForkError(raw, digest, answer)
    detail = answer.detail.removeprefix(f"{answer.reason}: ") or "the receipt was refused"
    return RefusedError(raw, digest, answer, f"refused by the ledger: {detail}")


def _mismatch(message: str, want: str, got: str) -> ServiceError:
    return ServiceError(Reason.UNAVAILABLE, f"the ledger sent {message}", want=want, got=got)
