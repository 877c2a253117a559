"""Genuine receipts of the flat formats around draft-farley, of agent-governance-toolkit and sm-arp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helpers.forge import (
    Forger,
    base64_text,
    did_key,
    issuer_kid,
    python,
    sha256_hex,
    thumbprint,
    without,
)
from tests.helpers.receipts import jcs

if TYPE_CHECKING:
    from tests.helpers.receipts import Agent, Document

__all__ = ["ACTA_V1", "AGT", "ARP", "FLAT", "FLATS", "FLAT_ALG", "V1", "V2", "agt_signed"]


def _seal(body: Document, signer: Agent) -> Document:
    """With a hex signature over all that is there."""
    return {**body, "signature": signer.sign(jcs(body)).hex()}


# draft-farley's flat shape.


def _flat_body(number: int, previous: str | None, signer: Agent) -> Document:
    body: Document = {
        "type": "protectmcp:decision",
        "tool_name": "delete_database",
        "decision": "deny",
        "issued_at": f"2026-03-22T14:32:{number:02d}Z",
        "issuer_id": issuer_kid(signer.key),
        "utilisation": 0.75,
    }
    return body if previous is None else {**body, "previousReceiptHash": previous}


def _flat_alg_body(number: int, previous: str | None, signer: Agent) -> Document:
    body = _flat_body(number, previous, signer)
    return {**body, "alg": "EdDSA", "kid": body["issuer_id"]}


FLAT = Forger(
    profile="draft-farley-flat",
    body=_flat_body,
    seal=_seal,
    link=lambda document: "sha256:" + sha256_hex(jcs(document)),
    signed="tool_name",
    signature="signature",
    previous="previousReceiptHash",
)
FLAT_ALG = Forger(
    profile="draft-farley-flat-alg",
    body=_flat_alg_body,
    seal=_seal,
    link=lambda document: "sha256:" + sha256_hex(jcs(document)),
    signed="tool_name",
    signature="signature",
    previous="previousReceiptHash",
)


# Before the draft.


def _v1_body(number: int, previous: str | None, signer: Agent) -> Document:
    return {
        "receipt_id": f"rcpt-own-{number:04d}",
        "receipt_version": "1.0",
        "issuer_id": "test-gateway",
        "tool_name": "Bash",
        "tool_input": {"command": "git status", "timeout": 1.5},
        "input_hash": "sha256:" + "e0" * 32,
        "decision": "allow",
        "policy_id": "autoresearch-safe",
        "timestamp": f"2026-07-12T04:37:{number:02d}Z",
        "sequence": 1 + number,
        "parent_receipt_hash": previous,
        "public_key": signer.key.hex(),
    }


V1 = Forger(
    profile="draft-farley-v1",
    body=_v1_body,
    seal=_seal,
    link=lambda document: "sha256:" + sha256_hex(jcs(without(document, "signature"))),
    signed="tool_name",
    signature="signature",
    previous="parent_receipt_hash",
)


def _v2_body(number: int, previous: str | None, signer: Agent) -> Document:
    del previous
    return {
        "v": 2,
        "type": "decision_receipt",
        "algorithm": "ed25519",
        "kid": thumbprint(signer.key),
        "issuer": "protect-mcp",
        "issued_at": f"2026-01-01T00:00:{number:02d}Z",
        "payload": {"decision": "allow", "tool": "http.get", "request_id": f"req-{number}"},
    }


V2 = Forger(
    profile="draft-farley-v2",
    body=_v2_body,
    seal=_seal,
    link=None,
    signed="payload.tool",
    signature="signature",
    previous=None,
)


def _acta_v1_body(number: int, previous: str | None, signer: Agent) -> Document:
    del previous
    return {
        "v": 1,
        "type": "receipt",
        "timestamp": f"2026-04-19T00:00:{number:02d}Z",
        "tool_name": "read_file",
        "decision": "allow",
        "public_key": signer.key.hex(),
    }


ACTA_V1 = Forger(
    profile="acta-v1",
    body=_acta_v1_body,
    seal=_seal,
    link=None,
    signed="tool_name",
    signature="signature",
    previous=None,
)


# agent-governance-toolkit, tutorial 33.

_AGT_NAMES = (
    "agent_did",
    "args_hash",
    "cedar_decision",
    "cedar_policy_id",
    "receipt_id",
    "timestamp",
    "tool_name",
)
_AGT_OPTIONAL = ("parent_receipt_hash", "session_id")


def agt_signed(document: Document) -> bytes:
    """The bytes that are signed and linked to."""
    named = {name: document[name] for name in _AGT_NAMES}
    optional = {name: document.get(name) for name in _AGT_OPTIONAL}
    return python({**named, **{name: text for name, text in optional.items() if text is not None}})


def _agt_body(number: int, previous: str | None, signer: Agent) -> Document:
    del signer
    return {
        "receipt_id": f"0f2c7e10-1111-4222-8333-{number:012d}",
        "tool_name": "lösche",
        "agent_did": f"did:mesh:agent-{1 + number % 2}",  # two agents in one chain
        "cedar_policy_id": "policy:mcp-tools:v1",
        "cedar_decision": "deny" if number % 2 else "allow",
        "args_hash": "fe" * 32,
        "timestamp": 1790000000.0 + number / 2,  # every second one in whole seconds
        "session_id": "sess-1",
        "parent_receipt_hash": previous,
    }


def _agt_seal(body: Document, signer: Agent) -> Document:
    signed = agt_signed(body)
    return {
        **body,
        "payload_hash": sha256_hex(signed),
        "signature": signer.sign(signed).hex(),
        "signer_public_key": signer.key.hex(),
        "error": None,
    }


AGT = Forger(
    profile="agt-mcp",
    body=_agt_body,
    seal=_agt_seal,
    link=lambda document: sha256_hex(agt_signed(document)),
    signed="tool_name",
    signature="signature",
    previous="parent_receipt_hash",
    outside="note",
    listed=True,
    loose=True,
)


# sm-arp.


def _arp_body(number: int, previous: str | None, signer: Agent) -> Document:
    body: Document = {
        "version": "arp/0.1",
        "receipt_id": f"6e0a1f3e-5a51-4c0e-9d5a-{number:012d}",
        "issuer_did": did_key(signer.key),
        "principal_did": did_key(bytes(range(32))),
        "issued_at": f"2026-05-01T10:00:{number:02d}Z",
        "action": {
            "category": "purchase",
            "human_summary": "bought a kettle for €49",
            "outcome": "completed",
            "amount": {"currency": "EUR", "cents": 4900},
            "machine_payload": {"weight_kg": 1.25},
        },
    }
    return body if previous is None else {**body, "previous_receipt_hash": previous}


ARP = Forger(
    profile="sm-arp",
    body=_arp_body,
    seal=lambda body, signer: {**body, "signature": base64_text(signer.sign(jcs(body)))},
    link=lambda document: "sha256:" + sha256_hex(jcs(document)),
    signed="action.human_summary",
    signature="signature",
    previous="previous_receipt_hash",
)

FLATS = (FLAT, FLAT_ALG, V1, V2, ACTA_V1, AGT, ARP)
