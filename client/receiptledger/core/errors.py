"""One tree of errors, one closed list of reasons.

Every refusal, by the daemon or by a verifier, is a :class:`LedgerError` with a :class:`Reason`. The
subclass says whose fault it is; the reason is what programs branch on; the message is for people and
says what was expected and what came. Parsers of foreign bytes let no other exception escape.

    LedgerError
    |- ReceiptError     the receipt is at fault: form, signature or place in its chain
    |- EvidenceError    a leaf, proof, note, checkpoint or bundle does not prove what it should
    '- ServiceError     the service cannot answer now, or was asked wrongly
"""

from __future__ import annotations

from enum import StrEnum, unique

__all__ = ["EvidenceError", "LedgerError", "Reason", "ReceiptError", "ServiceError"]


@unique
class Reason(StrEnum):
    """Why something was refused. Closed: adding one changes the protocol (see `proto/`)."""

    # A receipt's form.
    MALFORMED = "malformed"  # not one strict JSON object in UTF-8
    TOO_LARGE = "too_large"  # more bytes, members or depth than the limits allow
    UNKNOWN_PROFILE = "unknown_profile"  # no known receipt format matches
    INVALID_FIELD = "invalid_field"  # a member the format needs is missing or has the wrong form
    UNSUPPORTED_ALGORITHM = "unsupported_algorithm"  # undecidable here, neither good nor bad
    # A receipt's authenticity.
    BAD_SIGNATURE = "bad_signature"  # the signature does not hold under the chain's key
    UNKNOWN_KEY = "unknown_key"  # no key is enrolled or offered for the chain
    WRONG_KEY = "wrong_key"  # signed well, but by a key this chain does not use
    # A receipt's place in its chain.
    GAP = "gap"  # receipts between the chain's head and this one are missing
    FORK = "fork"  # other content at a position that is taken
    BROKEN_LINK = "broken_link"  # next in sequence, but its previous hash is not the head's
    WRONG_SEQUENCE = "wrong_sequence"  # links to the head, but its own number does not advance
    # Evidence.
    BAD_LEAF = "bad_leaf"
    BAD_PROOF = "bad_proof"
    BAD_NOTE = "bad_note"
    BAD_CHECKPOINT = "bad_checkpoint"
    BAD_BUNDLE = "bad_bundle"
    WRONG_LOG = "wrong_log"  # signed by, or naming, another log than the one asked for
    INCONSISTENT = "inconsistent"  # two signed states of one log contradict each other
    BAD_TIMESTAMP = "bad_timestamp"  # an RFC 3161 response or token does not hold; see its cause
    # Service.
    INVALID_ARGUMENT = "invalid_argument"
    NOT_FOUND = "not_found"
    NOT_SEALED = "not_sealed"  # admitted, but under no signed checkpoint yet
    OVERLOADED = "overloaded"
    DRAINING = "draining"
    UNAVAILABLE = "unavailable"  # the outcome is unknown: ask for the chain head, then resend
    UNANCHORED = "unanchored"  # appends are refused while the log's anchors are overdue
    NOT_CONFIGURED = "not_configured"  # what was asked for needs what this daemon was not given


class LedgerError(Exception):
    """Base of all errors this project raises on purpose.

    Attributes:
        reason: machine-readable cause from the closed list.
        want: what was expected, or None. Never receipt contents beyond hashes, names and numbers.
        got: what came instead, or None.
    """

    def __init__(
        self, reason: Reason, message: str, *, want: str | None = None, got: str | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.want = want
        self.got = got

    def __str__(self) -> str:
        parts = [f"{self.reason}: {self.message}"]
        if self.want is not None:
            parts.append(f"expected {self.want}")
        if self.got is not None:
            parts.append(f"got {self.got}")
        return "; ".join(parts)


class ReceiptError(LedgerError):
    """The receipt is at fault; sending the same bytes again can help only after what `want` says."""


class EvidenceError(LedgerError):
    """The evidence does not prove what it claims."""


class ServiceError(LedgerError):
    """The service cannot answer, or was asked for something it cannot give.

    Attributes:
        retry_after: seconds after which trying again makes sense; None when it does not, or when that
            follows from the reason.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        want: str | None = None,
        got: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason, message, want=want, got=got)
        self.retry_after = retry_after
