"""Agents that sign receipts, honest and not: real bytes for every test that needs some.

Two formats: lesson 18 (numbers its receipts, carries its key) and draft-farley (neither). The same
calls give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import base64url_encode
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import Receipt, chain_key, readings

__all__ = ["Agent", "FarleyAgent", "digest", "link", "read", "respelled"]


class Agent:
    """Signs lesson-18 receipts under one Ed25519 key."""

    def __init__(self, name: str = "agent-1", seed: int = 1) -> None:
        self.name = name
        self.public_key, self._secret = crypto_sign_seed_keypair(seed.to_bytes(32, "big"))
        self.chain = chain_key(name)

    def receipt(self, sequence: int, previous: bytes | None, **members: Any) -> bytes:
        """One receipt that names `previous`, a link hash; other members as given."""
        value: dict[str, Any] = {
            "type": "agent.tool_call.v1",
            "agent_id": self.name,
            "tool_name": "lookup",
            "tool_args_hash": "sha256:" + "0" * 64,
            "result_hash": "sha256:" + "1" * 64,
            "policy_id": "policy-1",
            "timestamp": "2026-11-30T10:00:00Z",
            "sequence": sequence,
            "previous_receipt_hash": None if previous is None else digest(previous),
            **members,
        }
        value["signature"] = {
            "alg": "EdDSA",
            "sig": base64url_encode(self.sign(canonicalize(value))),
            "public_key": base64url_encode(self.public_key),
        }
        return canonicalize(value)

    def receipts(self, count: int, *, after: bytes | None = None, **members: Any) -> list[bytes]:
        """`count` receipts of a chain, from its start or after a receipt of it."""
        sequence = 0 if after is None else json.loads(after)["sequence"] + 1
        previous = None if after is None else link(after)
        made = []
        for number in range(sequence, sequence + count):
            made.append(self.receipt(number, previous, **members))
            previous = link(made[-1])
        return made

    def sign(self, data: bytes) -> bytes:
        """64 bytes."""
        return crypto_sign(data, self._secret)[:64]


class FarleyAgent(Agent):
    """Signs draft-farley envelopes: no numbers, and no key inside."""

    algorithm = "EdDSA"  # as the envelope names it

    def receipt(self, sequence: int, previous: bytes | None, **members: Any) -> bytes:
        """One envelope; the sequence only makes its content differ."""
        payload: dict[str, Any] = {
            "type": "protectmcp:decision",
            "issuer_id": self.name,
            "issued_at": f"2026-11-30T10:00:{sequence % 60:02}Z",
            "step": sequence,
            **members,
        }
        if previous is not None:
            payload["previousReceiptHash"] = digest(previous)
        signature = self.sign(canonicalize(payload)).hex()
        return canonicalize(
            {
                "payload": payload,
                "signature": {"alg": self.algorithm, "kid": self.name, "sig": signature},
            }
        )

    def receipts(self, count: int, *, after: bytes | None = None, **members: Any) -> list[bytes]:
        """`count` envelopes of a chain, from its start or after an envelope of it."""
        step = 0 if after is None else json.loads(after)["payload"]["step"] + 1
        previous = None if after is None else link(after)
        made = []
        for number in range(step, step + count):
            made.append(self.receipt(number, previous, **members))
            previous = link(made[-1])
        return made


def digest(data: bytes) -> str:
    """The text form of 32 bytes."""
    return "sha256:" + data.hex()


def link(raw: bytes) -> bytes:
    """Link hash of a canonical receipt: both formats hash all of it."""
    return hashlib.sha256(raw).digest()


def read(raw: bytes, profile: str | None = None) -> Receipt:
    """The preferred reading of a receipt."""
    return next(readings(raw, Profiles.builtin(), profile=profile))


def respelled(raw: bytes) -> bytes:
    """The same content in other bytes."""
    return json.dumps(json.loads(raw), indent=1).encode()
