"""Genuine receipts of formats that have nothing in common: see `forge` for what a Forger is."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

from tests.helpers.forge import Forger, base64_text, python, sha256_hex, without
from tests.helpers.receipts import base64url, jcs

if TYPE_CHECKING:
    from tests.helpers.receipts import Agent, Document

__all__ = ["OTHERS", "as_line", "carried"]

ZEROS = "sha256:" + "0" * 64


def _digest(data: bytes) -> str:
    return "sha256:" + sha256_hex(data)


def _hash(data: bytes) -> bytes:
    return bytes.fromhex(sha256_hex(data))


# agent-receipts.


def _no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _no_nulls(item)
            for name, item in value.items()
            if item is not None or name == "previous_receipt_hash"
        }
    return [_no_nulls(item) for item in value] if isinstance(value, list) else value


def _credential(number: int, previous: str | None, signer: Agent) -> Document:
    del signer
    return {
        "@context": ["https://www.w3.org/ns/credentials/v2"],
        "id": f"urn:receipt:own-{number}",
        "type": ["VerifiableCredential", "AgentReceipt"],
        "version": "0.5.0",
        "issuer": {"id": "did:agent:own", "session_id": None},
        "issuanceDate": f"2026-06-01T10:00:{number:02d}Z",
        "credentialSubject": {
            "principal": {"id": "did:user:own"},
            "action": {"id": f"act_{number}", "type": "filesystem.file.read", "detail": None},
            "outcome": {"status": "success", "notes": [{"text": "fine", "more": None}]},
            "chain": {
                "chain_id": "chain-own",
                "sequence": 1 + number,
                "previous_receipt_hash": previous,
            },
        },
    }


def _seal_credential(body: Document, signer: Agent) -> Document:
    proof = {
        "type": "Ed25519Signature2020",
        "created": "2026-06-01T10:00:30Z",
        "verificationMethod": "did:agent:own#key-1",
        "proofPurpose": "assertionMethod",
        "proofValue": "u" + base64url(signer.sign(jcs(_no_nulls(body)))),
    }
    return {**body, "proof": proof}


CREDENTIAL = Forger(
    profile="agent-receipts",
    body=_credential,
    seal=_seal_credential,
    link=lambda document: _digest(jcs(_no_nulls(without(document, "proof")))),
    signed="credentialSubject.action.type",
    signature="proof.proofValue",
    previous="credentialSubject.chain.previous_receipt_hash",
    outside="proof.note",
    listed=True,
    loose=True,
)


# Pipelock.


def carried(document: Document) -> bytes:
    """As Go would write it: its own order, no white space, some characters escaped."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def _action(number: int, previous: str | None, signer: Agent) -> Document:
    return {
        "version": 1,
        "action_record": {
            "version": 1,
            "action_id": f"a-{number}",
            "action_type": "http",
            "timestamp": f"2026-05-01T00:00:{number:02d}.123456789Z",
            "target": "https://example.test/<a>&b",
            "verdict": "allow",
            "chain_prev_hash": "genesis" if previous is None else previous,
            "chain_seq": number,
            "run_nonce": "run-1",
        },
        "signer_key": signer.key.hex(),
    }


def _seal_action(body: Document, signer: Agent) -> Document:
    signature = signer.sign(_hash(carried(body["action_record"])))
    return {**body, "signature": "ed25519:" + signature.hex()}


PIPELOCK = Forger(
    profile="pipelock-v1",
    body=_action,
    seal=_seal_action,
    link=lambda document: sha256_hex(carried(document)),
    signed="action_record.verdict",
    signature="signature",
    previous="action_record.chain_prev_hash",
    outside="ext",
    listed=True,
)


def as_line(document: Document, number: int) -> Document:
    """The recorder's line around a Pipelock receipt."""
    return {"v": 1, "seq": number, "type": "receipt", "detail": document, "hash": "00" * 32}


# signet, chain-receipt-core, ActLedger.


def _signet(number: int, previous: str | None, signer: Agent) -> Document:
    del previous
    return {
        "v": 1,
        "action": {"tool": "search", "params": {"n": number, "x": 0.5}, "params_hash": "sha256:00"},
        "signer": {"pubkey": "ed25519:" + base64_text(signer.key), "name": "bot", "owner": "me"},
        "ts": "2026-05-01T00:00:00.000Z",
        "nonce": f"n{number}",
    }


def _seal_signet(body: Document, signer: Agent) -> Document:
    signature = signer.sign(jcs(body))
    return {
        **body,
        "id": "rec_" + sha256_hex(signature)[:32],
        "sig": "ed25519:" + base64_text(signature),
    }


SIGNET = Forger(
    profile="signet-v1",
    body=_signet,
    seal=_seal_signet,
    link=None,
    signed="action.tool",
    signature="sig",
    previous=None,
    loose=True,
)


def _normal(value: Any) -> bytes:
    """Integers and text only: NFC, then ASCII."""
    text = unicodedata.normalize("NFC", json.dumps(value, ensure_ascii=False))
    return python_ascii_of(json.loads(text))


def python_ascii_of(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


ROOT = "sha256:" + "7a" * 32


def _core(number: int, previous: str | None, signer: Agent) -> Document:
    return {
        "chain": {
            "chain_root_hash": ROOT,
            "sequence_number": number,
            "prev_receipt_hash": ROOT if previous is None else previous,
        },
        "client": {"emitter_pubkey": "ed25519:" + base64url(signer.key), "name": "bücher\u0301"},
        "event": "tool_call",
    }


def _seal_core(body: Document, signer: Agent) -> Document:
    signature = signer.sign(_hash(_normal({**body, "signature": None})))
    return {**body, "signature": {"signature": base64url(signature), "alg": "ed25519"}}


CORE = Forger(
    profile="chain-receipt-core",
    body=_core,
    seal=_seal_core,
    link=lambda document: _digest(_normal({**document, "signature": None})),
    signed="event",
    signature="signature.signature",
    previous="chain.prev_receipt_hash",
    outside="signature.note",
    listed=True,
    loose=True,
)


def _act(number: int, previous: str | None, signer: Agent) -> Document:
    del signer
    return {
        "v": "actledger.receipt/0.2",
        "id": f"r{number}",
        "app_id": "shop",
        "seq": 1 + number,
        "prev_hash": ZEROS if previous is None else previous,
        "task_id": "t1",
        "transition": {"from": "open", "to": "paid"},
        "actor": {"type": "agent", "id": "bot"},
        "body": {"cents": 1250},
        "evidence": [],
        "issued_at": f"2026-05-01T00:00:{number:02d}Z",
    }


def _seal_act(body: Document, signer: Agent) -> Document:
    text = _digest(jcs(body))
    sig = {"alg": "Ed25519", "kid": "k1", "value": base64url(signer.sign(text.encode()))}
    return {**body, "hash": text, "sig": sig}


ACT = Forger(
    profile="actledger",
    body=_act,
    seal=_seal_act,
    link=lambda document: str(document["hash"]),
    signed="task_id",
    signature="sig.value",
    previous="prev_hash",
    loose=True,
)


# Bilateral receipts, answerproof, nobulex.

HEADER = base64url(b'{"alg":"EdDSA","b64":false,"crit":["b64"],"kid":"did:key:own"}')


def _tap(number: int, previous: str | None, signer: Agent) -> Document:
    del signer
    return {
        "receipt_id": f"tap-{number}",
        "issued_at": f"2026-05-01T00:00:{number:02d}Z",
        "sequence": 1 + number,
        "previousReceiptHash": previous,
        "agent_id": "did:key:own",
        "merchant_id": "did:key:shop",
    }


def _seal_tap(body: Document, signer: Agent) -> Document:
    signature = {
        "format": "detached-jws-jcs-ed25519",
        "protected": HEADER,
        "sig": base64url(signer.sign(HEADER.encode() + b"." + jcs(body))),
    }
    return {"payload": body, "signature": signature}


TAP = Forger(
    profile="tap-bilateral",
    body=_tap,
    seal=_seal_tap,
    link=lambda document: _digest(jcs(document["payload"])),
    signed="payload.merchant_id",
    signature="signature.sig",
    previous="payload.previousReceiptHash",
    outside="signature.note",
    listed=True,
)


def _answer(number: int, previous: str | None, signer: Agent) -> Document:
    del previous, signer
    return {
        "schema_version": "1.0",
        "receipt_id": f"own-{number}",
        "created_at": f"2026-05-01T00:00:{number:02d}.000001Z",
        "query": "?",
        "answer": "Grüße 1.0",
        "principal": {"id": "user-1", "permissions": [], "tenant": None},
        "sources": [{"id": "kb", "content_hash": "sha256:" + "0" * 64, "score": 1.0}],
        "merkle_root": "00" * 32,
    }


def _seal_answer(body: Document, signer: Agent) -> Document:
    signature = {
        "algorithm": "ed25519",
        "public_key": base64url(signer.key),
        "signature": base64url(signer.sign(python(body))),
    }
    return {"payload": body, "signature": signature}


ANSWER = Forger(
    profile="answerproof",
    body=_answer,
    seal=_seal_answer,
    link=None,
    signed="payload.answer",
    signature="signature.signature",
    previous=None,
    outside="signature.note",
)


def _nobulex(number: int, previous: str | None, signer: Agent) -> Document:
    del previous, signer
    return {
        "agent_id": "neo",
        "action_type": "pay",
        "scope": "shop",
        "timestamp_ms": 1_796_050_731_479 + number,
        "verdict": "ALLOW",
        "action_ref": "ab" * 32,
        "version": "nobulex-receipt-v0.1",
    }


def _seal_nobulex(body: Document, signer: Agent) -> Document:
    return {
        **body,
        "signature": signer.sign(jcs(body)).hex(),
        "signer_public_key": signer.key.hex(),
    }


NOBULEX = Forger(
    profile="nobulex",
    body=_nobulex,
    seal=_seal_nobulex,
    link=None,
    signed="verdict",
    signature="signature",
    previous=None,
    outside="note",
)

OTHERS = (CREDENTIAL, PIPELOCK, SIGNET, CORE, ACT, TAP, ANSWER, NOBULEX)
