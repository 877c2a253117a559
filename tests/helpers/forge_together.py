"""Receipts that belong together, from fixed seeds: halves of pairs, and actions for a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.helpers.forge import sha256_hex
from tests.helpers.forge_nobulex import nobulex
from tests.helpers.receipts import ALICE, MALLORY, base64url, jcs

if TYPE_CHECKING:
    from tests.helpers.receipts import Agent

__all__ = ["actions", "half", "hash_of", "pairs"]


def actions(count: int = 3) -> list[dict[str, Any]]:
    return [nobulex(f"act-{at}", timestamp_ms=1796050731479 + at) for at in range(count)]


def half(
    number: int, previous: str | None, signer: Agent = ALICE, **members: Any
) -> dict[str, Any]:
    header = base64url(b'{"alg":"EdDSA","b64":false,"crit":["b64"]}')
    body = {
        "agent_id": "did:key:buyer",
        "issued_at": f"2020-05-01T00:00:{number:02d}Z",
        "sequence": number,
        "previousReceiptHash": previous,
        **members,
    }
    signature = {
        "format": "detached-jws-jcs-ed25519",
        "protected": header,
        "sig": base64url(signer.sign(header.encode() + b"." + jcs(body))),
    }
    return {"payload": body, "signature": signature}


def hash_of(document: dict[str, Any]) -> str:
    return "sha256:" + sha256_hex(jcs(document["payload"]))


def pairs(signer: Agent = MALLORY) -> list[dict[str, Any]]:
    """Two intents, the first with an outcome."""
    first = half(1, None)
    second = half(2, hash_of(first))
    outcome = half(3, hash_of(second), signer, authorization_receipt_hash=hash_of(first))
    return [first, second, outcome]
