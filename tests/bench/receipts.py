"""Prebuilt chains of lesson-18 receipts, made in worker processes."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context

from nacl import bindings

from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import base64url_encode, digest_text

__all__ = ["build_chains"]


def build_chain(name: str, count: int) -> list[bytes]:
    """`count` receipts of one agent, about 640 bytes each."""
    public, secret = bindings.crypto_sign_seed_keypair(sha256(name.encode()).digest())
    key, previous, chain = base64url_encode(public), None, []
    for sequence in range(count):
        digest = sha256(b"%d" % sequence).hexdigest()
        receipt: dict[str, object] = {
            "type": "agent.tool_call.v1",
            "agent_id": name,
            "tool_name": "lookup_flights",
            "tool_args_hash": "sha256:" + digest,
            "result_hash": "sha256:" + digest[::-1],
            "policy_id": "contoso-travel-policy-v3",
            "timestamp": "2026-04-25T14:30:00Z",
            "sequence": sequence,
            "previous_receipt_hash": previous,
        }
        signature = bindings.crypto_sign(canonicalize(receipt), secret)[:64]
        receipt["signature"] = {
            "alg": "EdDSA",
            "sig": base64url_encode(signature),
            "public_key": key,
        }
        raw = canonicalize(receipt)
        previous = digest_text(sha256(raw).digest())
        chain.append(raw)
    return chain


def build_chains(agents: int, count: int, prefix: str = "agent") -> list[list[bytes]]:
    """One chain per agent, built on all cores."""
    names = [f"{prefix}-{number}" for number in range(agents)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(build_chain, names, [count] * agents))
