"""Makes deploy/demo/courier.jsonl: a chain of draft-farley-04 receipts from a fixed, public seed.

`python -m tests.helpers.demo_receipts` writes the file; a test compares it with what this makes.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from nacl import bindings

from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import digest_text

__all__ = ["COUNT", "FILE", "SEED", "make"]

SEED = sha256(b"receiptledger demo courier").digest()
COUNT = 250
FILE = Path(__file__).resolve().parents[2] / "deploy" / "demo" / "courier.jsonl"
ISSUER = "sb:issuer:demo-courier"


def make() -> bytes:
    """The file's bytes: one receipt a line, each linked to the one before."""
    _, secret = bindings.crypto_sign_seed_keypair(SEED)
    previous: bytes | None = None
    lines = []
    for number in range(COUNT):
        payload: dict[str, object] = {
            "type": "protectmcp:decision",
            "issued_at": f"2026-11-30T08:{number // 60:02}:{number % 60:02}Z",
            "issuer_id": ISSUER,
            "tool_name": ("route.plan", "parcel.pickup", "parcel.deliver")[number % 3],
            "decision": "allow",
            "policy_digest": digest_text(sha256(b"courier policy 7").digest()),
            "request_id": f"parcel-{number // 3}",
        }
        if previous is not None:
            payload["previousReceiptHash"] = digest_text(previous)
        signature = bindings.crypto_sign(canonicalize(payload), secret)[:64].hex()
        receipt = {
            "payload": payload,
            "signature": {"alg": "EdDSA", "kid": ISSUER, "sig": signature},
        }
        raw = canonicalize(receipt)
        previous = sha256(raw).digest()
        lines.append(raw + b"\n")
    return b"".join(lines)


if __name__ == "__main__":
    FILE.write_bytes(make())
