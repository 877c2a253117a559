"""Receipts made from fixed seeds, without the project's own canonicaliser or profiles."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import rfc8785
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

Document = dict[str, Any]


class Agent:
    """A key pair from a seed."""

    def __init__(self, seed: bytes) -> None:
        self.key, self._secret = crypto_sign_seed_keypair(seed)

    def sign(self, message: bytes) -> bytes:
        return crypto_sign(message, self._secret)[:64]


ALICE = Agent(bytes(range(32)))
MALLORY = Agent(bytes(range(32, 64)))


def jcs(value: Any) -> bytes:
    return rfc8785.dumps(value)


def pretty(value: Any) -> bytes:
    """The same content in another spelling: unsorted, indented, escaped."""
    return json.dumps(value, indent=1).encode("ascii")


def link(document: Document) -> str:
    return "sha256:" + hashlib.sha256(jcs(document)).hexdigest()


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def lesson18(
    sequence: int = 0,
    previous: str | None = None,
    *,
    signer: Agent = ALICE,
    prehash: bool = False,
    **members: Any,
) -> Document:
    """A receipt of Microsoft's lesson 18, signed by the current or the older rule."""
    document: Document = {
        "type": "agent.tool_call.v1",
        "agent_id": "travel-bot",
        "tool_name": "lookup_flights",
        "tool_args_hash": "sha256:" + "4f" * 32,
        "result_hash": "sha256:" + "a0" * 32,
        "policy_id": "travel-policy-v3",
        "timestamp": "2026-04-25T14:30:00Z",
        "sequence": sequence,
        "previous_receipt_hash": previous,
        **members,
    }
    return sign_lesson18(document, signer=signer, prehash=prehash)


def sign_lesson18(
    document: Document, *, signer: Agent = ALICE, prehash: bool = False, **signature: Any
) -> Document:
    """Sign whatever is there; `signature` overrides members of the signature object."""
    body = {name: value for name, value in document.items() if name != "signature"}
    message = jcs(body)
    if prehash:
        message = hashlib.sha256(message).digest()
    made = {
        "alg": "EdDSA",
        "sig": base64url(signer.sign(message)),
        "public_key": base64url(signer.key),
    }
    return {**body, "signature": {**made, **signature}}


def farley(previous: str | None = None, *, signer: Agent = ALICE, **members: Any) -> Document:
    """A receipt of draft-farley-acta-signed-receipts-04; without `previous` it is a first one."""
    payload: Document = {
        "type": "protectmcp:decision",
        "tool_name": "read_file",
        "decision": "allow",
        "issued_at": "2026-03-15T00:00:00Z",
        "issuer_id": "sb:issuer:6XRv8ZfPuxt1",
        **members,
    }
    if previous is not None:
        payload["previousReceiptHash"] = previous
    return sign_farley(payload, signer=signer)


def sign_farley(payload: Document, *, signer: Agent = ALICE, **signature: Any) -> Document:
    """Sign whatever payload is there; `signature` overrides members of the signature object."""
    made = {
        "alg": "EdDSA",
        "kid": payload.get("issuer_id"),
        "sig": signer.sign(jcs(payload)).hex(),
    }
    return {"payload": payload, "signature": {**made, **signature}}
