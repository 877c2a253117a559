"""nobulex receipts, chains and batches from fixed seeds, by its maker's rules and none of our code."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.helpers.forge import sha256_hex
from tests.helpers.receipts import ALICE, Agent, jcs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.helpers.receipts import Document

__all__ = ["BOB", "Es256Agent", "audit_path", "batch", "export", "nobulex", "ref_of", "seal"]

NAMES = ("agent_id", "action_type", "scope", "timestamp_ms", "verdict", "action_ref", "version")
OPTIONAL = ("policy_version", "attempt_id", "metadata")


class Es256Agent:
    """A P-256 key from a number; its signatures are DER."""

    def __init__(self, secret: int) -> None:
        self._secret = ec.derive_private_key(secret, ec.SECP256R1())
        self.key = self._secret.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )

    def sign(self, message: bytes) -> bytes:
        return self._secret.sign(message, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


BOB = Es256Agent(4711)


def ref_of(document: Document) -> str:
    """The hash that names an action."""
    texts = {
        name: unicodedata.normalize("NFC", document[name])
        for name in ("agent_id", "action_type", "scope")
    }
    return sha256_hex(jcs({**texts, "timestamp_ms": document["timestamp_ms"]}))


def nobulex(
    action: str = "send_email", *, signer: Agent | Es256Agent = ALICE, **members: Any
) -> Document:
    """A receipt; `members` replace what it has before it is signed."""
    document: Document = {
        "agent_id": "agent-neo",
        "action_type": action,
        "scope": "user@example.com",
        "timestamp_ms": 1796050731479,
        "verdict": "ALLOW",
        "version": "nobulex-receipt-v0.1",
        **members,
    }
    return seal({"action_ref": ref_of(document), **document}, signer)


def seal(document: Document, signer: Agent | Es256Agent = ALICE) -> Document:
    """Sign whatever is there."""
    signed = {name: document[name] for name in NAMES if name in document}
    signed |= {name: document[name] for name in OPTIONAL if document.get(name)}
    return {
        **document,
        "signature": signer.sign(jcs(signed)).hex(),
        "signer_public_key": signer.key.hex(),
    }


def export(receipts: Sequence[Document]) -> Document:
    """The chain around receipts."""
    entries: list[Document] = []
    previous = "0" * 64
    for index, receipt in enumerate(receipts):
        own = sha256_hex((previous + receipt["action_ref"]).encode())
        entries.append(
            {"index": index, "receipt": receipt, "prev_hash": previous, "chain_hash": own}
        )
        previous = own
    return {
        "agent_id": receipts[0]["agent_id"] if receipts else "agent-neo",
        "chain_length": len(entries),
        "head_hash": previous if entries else None,
        "verified": True,
        "entries": entries,
    }


def batch(refs: Sequence[str]) -> bytes:
    """Root over the texts: RFC 6962 section 2.1, as it is written there."""
    if not refs:
        return hashlib.sha256(b"").digest()
    if len(refs) == 1:
        return hashlib.sha256(b"\0" + refs[0].encode()).digest()
    half = _half(len(refs))
    return hashlib.sha256(b"\1" + batch(refs[:half]) + batch(refs[half:])).digest()


def audit_path(refs: Sequence[str], index: int) -> list[str]:
    """RFC 6962 section 2.1.1, as it is written there; hex."""
    if len(refs) == 1:
        return []
    half = _half(len(refs))
    if index < half:
        return [*audit_path(refs[:half], index), batch(refs[half:]).hex()]
    return [*audit_path(refs[half:], index - half), batch(refs[:half]).hex()]


def _half(size: int) -> int:
    half = 1
    while half * 2 < size:
        half *= 2
    return half
