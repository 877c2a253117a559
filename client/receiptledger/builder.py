"""Builds receipts of our default format, `agent.tool_call.v1` of Microsoft's lesson 18 (current rule).

A receipt names a tool and the hashes of its arguments and result, never the values: what the agent
handled stays with the agent. It is signed over its RFC 8785 bytes without the signature, and emitted
in RFC 8785 bytes, so its receipt hash, content hash and link hash are one value.

Pure: the clock is an argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import canonicalize, shown
from receiptledger.core.chain import Head
from receiptledger.core.encoding import SAFE_INTEGER, base64url_encode, digest_text
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from receiptledger.signer import Signer

__all__ = ["MAX_BUILT_BYTES", "PROFILE", "BuiltReceipt", "ReceiptBuilder", "value_hash"]

PROFILE: Final = "ms-lesson18"
MAX_NAME_BYTES: Final = 256  # agent, tool and policy ids, in UTF-8
# Three names in their longest JSON spelling (a quote or a backslash takes two bytes), and the rest.
MAX_BUILT_BYTES: Final = 3 * 2 * MAX_NAME_BYTES + 1_024

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")  # Unicode category Cc


@dataclass(frozen=True, slots=True)
class BuiltReceipt:
    """One signed receipt.

    Attributes:
        raw: its bytes, to be sent as they are.
        position: its place in the agent's chain.
        sequence: the number inside it.
        receipt_hash: SHA-256 of `raw`, 32 bytes: its identity, and what the next receipt links to.
    """

    raw: bytes
    position: int
    sequence: int
    receipt_hash: bytes


def value_hash(value: object) -> str:
    """`sha256:` hex over the RFC 8785 bytes of any JSON value.

    Raises:
        ReceiptError: MALFORMED for what has no JSON form, TOO_LARGE for what is nested too deeply.
    """
    return digest_text(sha256(canonicalize(value)).digest())


class ReceiptBuilder:
    """Signs one agent's receipts, each linked to the one before.

    Args:
        agent_id: 1..256 bytes of UTF-8 without control characters.
        signer: the agent's key.
        head: the chain's newest receipt, None for a new chain.

    Raises:
        ReceiptError: INVALID_FIELD for an unusable id; WRONG_SEQUENCE when the chain's newest
            receipt is of a format without numbers, which this one cannot continue.
    """

    def __init__(self, agent_id: str, signer: Signer, head: Head | None = None) -> None:
        self._agent_id = _name("agent_id", agent_id)
        self._signer = signer
        self._public_key = base64url_encode(signer.public_key)
        if head is not None and head.sequence is None:
            raise ReceiptError(
                Reason.WRONG_SEQUENCE,
                "the chain's newest receipt is of a format without sequence numbers; use another "
                "agent id for receipts built here",
                want="a sequence number",
            )
        self._head = head

    @property
    def agent_id(self) -> str:
        """Whose receipts."""
        return self._agent_id

    @property
    def head(self) -> Head | None:
        """The newest receipt, built here or found at the start."""
        return self._head

    def build(
        self, *, tool: str, args: Any, result: Any, policy_id: str, at: datetime
    ) -> BuiltReceipt:
        """Make the next receipt and advance the chain.

        Args:
            tool: name of the tool, 1..256 bytes of UTF-8 without control characters.
            args: its arguments, any JSON value; only their hash is recorded.
            result: what it returned, likewise.
            policy_id: the policy that allowed the call, like `tool`.
            at: when it happened, with a time zone; recorded in whole seconds of UTC.

        Raises:
            ReceiptError: INVALID_FIELD, MALFORMED or TOO_LARGE for arguments that cannot be
                recorded; the chain has not advanced then.
        """
        head = self._head
        sequence = 0 if head is None or head.sequence is None else head.sequence + 1
        if sequence > SAFE_INTEGER:
            raise ReceiptError(
                Reason.INVALID_FIELD, "the chain is full", want=f"sequence <= {SAFE_INTEGER}"
            )
        receipt: dict[str, Any] = {
            "type": "agent.tool_call.v1",
            "agent_id": self._agent_id,
            "tool_name": _name("tool", tool),
            "tool_args_hash": value_hash(args),
            "result_hash": value_hash(result),
            "policy_id": _name("policy_id", policy_id),
            "timestamp": _timestamp(at),
            "sequence": sequence,
            "previous_receipt_hash": None if head is None else digest_text(head.link_hash),
        }
        signature = self._signer.sign(canonicalize(receipt))
        receipt["signature"] = {
            "alg": "EdDSA",
            "sig": base64url_encode(signature),
            "public_key": self._public_key,
        }
        raw = canonicalize(receipt)
        digest = sha256(raw).digest()
        position = 0 if head is None else head.position + 1
        self._head = Head(position, digest, sequence)
        return BuiltReceipt(raw, position, sequence, digest)


def _name(what: str, value: object) -> str:
    """The ledger's rule for an agent id, kept for the other names too: they end up in messages."""
    if isinstance(value, str) and not _CONTROLS.search(value):
        try:
            if 1 <= len(value.encode("utf-8")) <= MAX_NAME_BYTES:
                return value
        except UnicodeEncodeError:
            pass
    raise ReceiptError(
        Reason.INVALID_FIELD,
        f"{what} cannot be recorded",
        want=f"text of 1..{MAX_NAME_BYTES} bytes of UTF-8 without control characters",
        got=shown(value) if isinstance(value, str) else type(value).__name__,
    )


def _timestamp(at: datetime) -> str:
    """RFC 3339 in whole seconds of UTC."""
    if at.tzinfo is None:
        raise ReceiptError(
            Reason.INVALID_FIELD, "a time without its zone is ambiguous", want="a zone, such as UTC"
        )
    try:
        utc = at.astimezone(UTC)
    except OverflowError:
        raise ReceiptError(
            Reason.INVALID_FIELD, "a time outside the calendar", want="years 1..9999 in UTC"
        ) from None
    # Not strftime("%Y"): it does not pad years below 1000 on every platform.
    return utc.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
