"""What crosses the wire, in plain types: the sender and the outbox know these, never protobuf."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Protocol

from receiptledger.core.errors import Reason, ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.bundle import AnchorEvidence, LeafProof
    from receiptledger.core.chain import Head

__all__ = [
    "Ack",
    "Anchor",
    "AnchorProof",
    "AnchorRound",
    "Answer",
    "BatchAnswer",
    "CallError",
    "IngestLink",
    "Selector",
    "StoredReceipt",
    "Stream",
    "TsaResult",
]

Selector = bytes | tuple[str, str, int]
"""Which receipt: its hash, or (agent, stream, position)."""


@unique
class Ack(StrEnum):
    """How much must be true before a batch is answered."""

    DURABLE = "durable"  # on stable storage
    SEALED = "sealed"  # under a signed, published checkpoint


@dataclass(frozen=True, slots=True)
class Answer:
    """What happened to one receipt.

    Attributes:
        reason: why it was refused; None when it is durable.
        duplicate: it was durable already.
        position: its place in its chain; for GAP, BROKEN_LINK and WRONG_SEQUENCE the position that is
            expected next, for FORK the one that is taken.
        receipt_hash: SHA-256 of its bytes, or b"".
        expected_hash: GAP, BROKEN_LINK, WRONG_SEQUENCE: link hash the next receipt must name, None at
            a chain's start. FORK: receipt hash of the one that is there. Otherwise None.
        detail: for people; empty unless refused.
        leaf_index: with ack level SEALED, the head leaf that commits it.
    """

    reason: Reason | None
    duplicate: bool
    position: int
    receipt_hash: bytes
    expected_hash: bytes | None = None
    detail: str = ""
    leaf_index: int | None = None

    @property
    def outcome(self) -> str:
        """`accepted`, `duplicate` or `refused`."""
        if self.reason is not None:
            return "refused"
        return "duplicate" if self.duplicate else "accepted"


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer to one batch, a notice that the daemon is draining, or both.

    Attributes:
        batch_id: which batch; means nothing without answers.
        answers: one for each receipt, in order; empty for a bare notice.
        checkpoint: signed note that covers the accepted receipts, with ack level SEALED; else b"".
        draining: no further batch of this stream is read.
    """

    batch_id: int
    answers: Sequence[Answer]
    checkpoint: bytes = b""
    draining: bool = False


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A receipt as the ledger says it has it. Nothing of this is proven.

    Attributes:
        raw: its bytes.
        chain: chain key, 32 bytes.
        position: place in the chain.
        profile: format it was read by.
        profile_version: version of that format's data.
        admitted_at_us: microseconds since the epoch by the ledger's clock: a claim.
        leaf_index: the head leaf that commits it; None while it is not sealed.
    """

    raw: bytes
    chain: bytes
    position: int
    profile: str
    profile_version: int
    admitted_at_us: int
    leaf_index: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A timestamp as the ledger says it has it. Nothing of this is proven.

    Attributes:
        number: 0, 1, 2 ... in the order they were stored.
        tsa: name of the timestamp authority in the daemon's configuration.
        tree_size: leaves under the checkpoint that was stamped.
        root: root of that checkpoint, 32 bytes.
        gen_time_us: the time in the token, microseconds since the epoch.
        stored_at_us: microseconds since the epoch by the ledger's clock: a claim.
        response_hash: SHA-256 of the response.
        response_bytes: its length.
        leaf_index: its anchor leaf; None while it is not sealed.
        evidence_hash: SHA-256 of the manifest of its revocation evidence; None while there is none.
        evidence_leaf_index: the anchor leaf that names the evidence; None likewise.
    """

    number: int
    tsa: str
    tree_size: int
    root: bytes
    gen_time_us: int
    stored_at_us: int
    response_hash: bytes
    response_bytes: int
    leaf_index: int | None
    evidence_hash: bytes | None
    evidence_leaf_index: int | None


@dataclass(frozen=True, slots=True)
class AnchorProof:
    """A timestamp with its evidence. All paths lead to `checkpoint`.

    Attributes:
        anchor: what the ledger says of it.
        note: the signed checkpoint that was stamped.
        request: RFC 3161 request, DER.
        response: RFC 3161 response as received, DER.
        evidence: revocation evidence with its leaf; None while there is none.
        checkpoint: signed note.
        consistency: from the stamped checkpoint to this one.
        leaf: its anchor leaf; None while the checkpoint does not cover it.
    """

    anchor: Anchor
    note: bytes
    request: bytes
    response: bytes
    evidence: AnchorEvidence | None
    checkpoint: bytes
    consistency: tuple[bytes, ...]
    leaf: LeafProof | None


@dataclass(frozen=True, slots=True)
class TsaResult:
    """What one timestamp authority said.

    Attributes:
        tsa: its name in the daemon's configuration.
        cause: why there is no token; None when it is stored.
        detail: for people.
        gen_time_us: the time in the token, microseconds since the epoch; None without one.
    """

    tsa: str
    cause: str | None
    detail: str
    gen_time_us: int | None


@dataclass(frozen=True, slots=True)
class AnchorRound:
    """What every timestamp authority said to one checkpoint.

    Attributes:
        tree_size: leaves under it.
        results: one for each authority.
        quorum_reached: enough of them have stamped it, by the daemon's own setting.
    """

    tree_size: int
    results: tuple[TsaResult, ...]
    quorum_reached: bool


class CallError(ServiceError):
    """A call failed; without a `retry_after` it is not worth trying again."""


class Stream(Protocol):
    """One open Append stream. Every method raises CallError when the stream is broken."""

    async def write(self, batch_id: int, receipts: Sequence[bytes]) -> None:
        """Send one batch; waits while the daemon holds the sender back."""

    async def finish(self) -> None:
        """Say that no batch follows."""

    async def read(self) -> BatchAnswer | None:
        """The next answer; None when the daemon ended the stream in good order."""

    def cancel(self) -> None:
        """Drop the stream; undoes nothing that was committed."""


class IngestLink(Protocol):
    """What a sender asks of the connection."""

    async def head(self) -> Head | None:
        """Newest position of the sender's own chain, None for a new one. Raises CallError."""

    def open(self) -> Stream:
        """Open a stream."""
