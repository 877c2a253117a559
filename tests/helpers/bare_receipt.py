"""A :class:`Receipt` put together by hand, for the tests of what is done with receipts once they are read."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from receiptledger.core.receipt_types import Receipt

if TYPE_CHECKING:
    from receiptledger.core.receipt_types import Pair

__all__ = ["bare_receipt"]


def bare_receipt(raw: bytes, profile: str, agent: str = "alice", **members: Any) -> Receipt:
    """What no member says is empty; contents are equal when the bytes are."""
    own = sha256(raw).digest()
    made: dict[str, Any] = {
        "raw": raw,
        "profile": profile,
        "profile_version": 1,
        "agent": agent,
        "stream": "",
        "sequence": None,
        "sequence_step": 1,
        "previous": None,
        "link_hash": own,
        "content_hash": own,
        "receipt_hash": own,
        "signing_input": b"",
        "signature": b"",
        "key_hint": None,
        "kid": None,
        "time": None,
        "unsigned": (),
    }
    pair: Pair | None = members.pop("pair", None)
    return Receipt(**{**made, **members}, pair=pair)
