"""Genuine receipts of the formats that share draft-farley's envelope {payload, signature}."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from tests.helpers.forge import (
    Forger,
    issuer_kid,
    javascript,
    python,
    python_ascii,
    sha256_hex,
    thumbprint,
)
from tests.helpers.receipts import base64url, jcs

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.helpers.receipts import Agent, Document

    Write = Callable[[Any], bytes]

__all__ = [
    "ACTA_SDK",
    "ADK",
    "DRAFT_02",
    "DRAFT_04",
    "ENVELOPES",
    "LLAMAINDEX",
    "PROTECT_MCP",
    "PYDANTIC",
    "SWARMS",
    "envelope",
]


def envelope(
    payload: Document, signer: Agent, kid: str, write: Write, encode: Callable[[bytes], str]
) -> Document:
    """The payload with the signature over what `write` makes of it."""
    signature = encode(signer.sign(write(payload)))
    return {"payload": payload, "signature": {"alg": "EdDSA", "kid": kid, "sig": signature}}


def _issued_at(number: int) -> str:
    return f"2026-10-04T08:15:{number:02d}.250Z"


# The draft itself.


def _draft_body(number: int, previous: str | None, signer: Agent) -> Document:
    body: Document = {
        "type": "protectmcp:decision",
        "tool_name": "naïve_lookup",
        "decision": "allow",
        "issued_at": _issued_at(number),
        "issuer_id": issuer_kid(signer.key),
        "policy_digest": "sha256:" + "8c" * 32,
        "amount": 99.5,
    }
    return body if previous is None else {**body, "previousReceiptHash": previous}


def _draft_seal(body: Document, signer: Agent) -> Document:
    return envelope(body, signer, body["issuer_id"], jcs, bytes.hex)


def _draft(profile: str, prefix: str) -> Forger:
    return Forger(
        profile=profile,
        body=_draft_body,
        seal=_draft_seal,
        link=lambda document: prefix + sha256_hex(jcs(document)),
        signed="payload.tool_name",
        signature="signature.sig",
        previous="payload.previousReceiptHash",
        outside="signature.note",
    )


DRAFT_04 = _draft("draft-farley-04", "sha256:")
DRAFT_02 = _draft("draft-farley-02", "")

# protect-mcp 0.10.


def _protect_mcp_body(number: int, previous: str | None, signer: Agent) -> Document:
    body: Document = {
        "type": "protectmcp:decision",
        "tool_name": "Read",
        "decision": "allow",
        "reason": "policy_match",
        "policy_digest": "sha256:" + "8c" * 32,
        "mode": "enforce",
        "request_id": f"req-{number}",
        "spec": "draft-farley-acta-signed-receipts-03",
        "issuer_certification": "self-signed",
        "public_key": signer.key.hex(),
        "issuer_name": "protect-mcp",
        # Names that are array indices: in RFC 8785 "10" comes before "9".
        "timing": {"9": 0.25, "10": 7, "policy": 1e-7},
    }
    if previous is not None:
        body["previousReceiptHash"] = previous
    return {**body, "issued_at": _issued_at(number), "issuer_id": issuer_kid(signer.key)}


PROTECT_MCP = Forger(
    profile="protect-mcp",
    body=_protect_mcp_body,
    seal=lambda body, signer: envelope(body, signer, body["issuer_id"], javascript, bytes.hex),
    link=lambda document: sha256_hex(javascript(document)),
    signed="payload.tool_name",
    signature="signature.sig",
    previous="payload.previousReceiptHash",
    outside="signature.note",
)

# protect-mcp-adk 0.1.0 and its siblings.


def _adk_body(
    number: int,
    previous: str | None,
    signer: Agent,
    *,
    issuer: str = "protect-mcp-adk",
    step: int = 1,
) -> Document:
    del signer
    return {
        "type": "protectmcp:decision",
        "spec": "draft-farley-acta-signed-receipts-01",
        "tool_name": "search",
        "tool_input_hash": "sha256:" + "1c" * 32,
        "decision": "deny",
        "issued_at": _issued_at(number),
        "issuer_id": issuer,
        "session_id": "sess_0badc0ffee11",
        "sequence": 1 + step * number,
        "previousReceiptHash": previous,
        "deny_reason": "over límit",
    }


def _adk_seal(body: Document, signer: Agent, prefix: str = "sb:adk:") -> Document:
    return envelope(body, signer, prefix + signer.key.hex()[:12], python, bytes.hex)


def _adk(issuer: str, prefix: str, step: int) -> Forger:
    return Forger(
        profile="protect-mcp-adk",
        body=partial(_adk_body, issuer=issuer, step=step),
        seal=partial(_adk_seal, prefix=prefix),
        link=lambda document: "sha256:" + sha256_hex(python(document["payload"])),
        signed="payload.tool_name",
        signature="signature.sig",
        previous="payload.previousReceiptHash",
        outside="signature.note",
        loose=True,
    )


ADK = _adk("protect-mcp-adk", "sb:adk:", step=2)  # counts twice for every receipt
PYDANTIC = _adk("scopeblind-pydantic-ai", "sb:pydai:", step=1)
LLAMAINDEX = _adk("scopeblind-llamaindex", "sb:llama:", step=1)

# The SDK, and older passports.


def _sdk_body(number: int, previous: str | None, signer: Agent) -> Document:
    return {
        "type": "veritasacta:decision",
        "spec": "draft-farley-acta-signed-receipts-03",
        "tool_name": "search",
        "tool_input_hash": "sha256:" + "1c" * 32,
        "decision": "allow",
        "issued_at": _issued_at(number),
        "issuer_id": "sdk:" + signer.key.hex()[:12],
        "sequence": 1 + number,
        "previousReceiptHash": previous,
        "metadata": {"2": True, "11": None},
    }


ACTA_SDK = Forger(
    profile="acta-sdk",
    body=_sdk_body,
    seal=lambda body, signer: envelope(body, signer, body["issuer_id"], javascript, bytes.hex),
    link=lambda document: "sha256:" + sha256_hex(javascript(document["payload"])),
    signed="payload.tool_name",
    signature="signature.sig",
    previous="payload.previousReceiptHash",
    outside="signature.note",
    loose=True,
)

# scopeblind-swarms 0.1.0.


def _swarms_body(number: int, previous: str | None, signer: Agent) -> Document:
    body: Document = {
        "type": "scopeblind:swarms:tool-call",
        "agent_id": "researcher",
        "issuer_id": "swarms:agent:" + thumbprint(signer.key)[:12],
        "tool_name": "süche",
        "action": "swarms:tool:süche",
        "action_ref": "sha256:" + "7e" * 32,
        "decision": "allow",
        "confidence": 1.0,
        "issued_at": _issued_at(number),
    }
    return body if previous is None else {**body, "previousReceiptHash": previous}


SWARMS = Forger(
    profile="scopeblind-swarms",
    body=_swarms_body,
    seal=lambda body, signer: envelope(
        body, signer, thumbprint(signer.key), python_ascii, base64url
    ),
    link=lambda document: base64url(hashlib.sha256(python_ascii(document)).digest()),
    signed="payload.tool_name",
    signature="signature.sig",
    previous="payload.previousReceiptHash",
    outside="signature.note",
    loose=True,
)

ENVELOPES = (DRAFT_04, DRAFT_02, PROTECT_MCP, ADK, PYDANTIC, LLAMAINDEX, ACTA_SDK, SWARMS)
