"""What a receipt says under each format it may be of, in plain values; nothing is verified."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from receiptledger.core.canonical import Limits, parse
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import ReceiptError
from receiptledger.core.known_formats import known_by_name
from receiptledger.core.public_key import format_public_key
from receiptledger.core.receipt import readings

if TYPE_CHECKING:
    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt import Cosignature, Receipt

__all__ = ["describe_receipt"]

LIMITS = Limits(
    max_bytes=1_048_576, max_members=16_384
)  # a report may show more than a ledger takes


def describe_receipt(raw: bytes, profiles: Profiles) -> dict[str, Any]:
    """What is in a document, and what it says as a receipt if it is one of a known format."""
    try:
        value = parse(raw, LIMITS).value
    except ReceiptError as error:
        return {"unreadable": str(error)}
    try:
        found = list(readings(raw, profiles, limits=LIMITS))
    except ReceiptError as error:
        known = known_by_name(value)
        shown = {"format": None if known is None else f"{known} (by name only)"}
        return {**shown, "not_read": str(error), "content": json.loads(raw)}
    return {**_reading(found[0], found), "content": json.loads(raw)}


def _reading(first: Receipt, found: list[Receipt]) -> dict[str, Any]:
    hint = first.key_hint
    return {
        "format": " or ".join(reading.profile for reading in found),
        "agent": first.agent,
        "stream": first.stream,
        "sequence": first.sequence,
        "time": first.time,
        "algorithm": first.algorithm,
        "kid": first.kid,
        "key_inside_not_trusted": None if hint is None else format_public_key(hint),
        "previous": None if first.previous is None else digest_text(first.previous),
        "order": "a hash chain of its own" if first.linked else "none of its own: the ledger's",
        "link_hash": digest_text(first.link_hash),
        "receipt_hash": digest_text(first.receipt_hash),
        "chain": digest_text(first.chain),
        **{f"signature {one.name}": _cosignature(one) for one in first.cosignatures},
        **({} if first.pair is None else {"pair": _pair(first)}),
        "not_signed": ", ".join(first.unsigned) or None,
    }


def _cosignature(one: Cosignature) -> dict[str, Any]:
    return {
        "algorithm": one.algorithm,
        "kid": one.kid,
        "key_inside_not_trusted": None if one.key_hint is None else format_public_key(one.key_hint),
    }


def _pair(first: Receipt) -> dict[str, Any]:
    pair = first.pair
    assert pair is not None  # noqa: S101 - asked by the caller
    return {"role": pair.role, "id": pair.id, "ref": pair.ref}
