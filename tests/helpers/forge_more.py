"""Genuine receipts with more than one signature, or with blanked ones: see `forge` for what a Forger is."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from tests.helpers.forge import Forger, base64_text, python, sha256_hex, without
from tests.helpers.receipts import Agent, jcs

if TYPE_CHECKING:
    from typing import Any

    from tests.helpers.receipts import Document

__all__ = [
    "AERF",
    "AERF_FULL",
    "CALLER",
    "EVIDENCE",
    "EVIDENCE_NAMED",
    "MORE",
    "PARENT",
    "PDP",
    "SIGNET_V2",
    "SIGNET_V3",
    "counter_signed",
    "key_id",
    "signet_sealed",
]

CALLER = Agent(bytes(range(64, 96)))  # whose receipt a signet server countersigns
PARENT = Agent(bytes(range(96, 128)))
PDP = Agent(bytes(range(128, 160)))


# signet.


def _pubkey(signer: Agent) -> str:
    return "ed25519:" + base64_text(signer.key)


def _call(number: int) -> Document:
    params = {"n": number, "x": 0.5, "größe": 1e-7}
    return {
        "tool": "search",
        "params": params,
        "params_hash": "sha256:" + sha256_hex(jcs(params)),
        "target": "",
        "transport": "stdio",
    }


def signet_sealed(body: Document, signer: Agent) -> Document:
    """With the signature over all that is there, and the id made of it."""
    signature = signer.sign(jcs(body))
    rest = {name: value for name, value in body.items() if name != "v"}
    return {
        "v": body["v"],
        "id": "rec_" + sha256_hex(signature)[:32],
        **rest,
        "sig": "ed25519:" + base64_text(signature),
    }


def _compound(number: int, previous: str | None, signer: Agent) -> Document:
    del previous
    return {
        "v": 2,
        "action": _call(number),
        "response": {"content_hash": "sha256:" + "b2" * 32},
        "signer": {"pubkey": _pubkey(signer), "name": "bot", "owner": "me"},
        "ts_request": f"2026-05-01T00:00:{number:02d}.000Z",
        "ts_response": f"2026-05-01T00:00:{number:02d}.250Z",
        "nonce": f"rnd_{number:032x}",
    }


def _bilateral(number: int, previous: str | None, signer: Agent) -> Document:
    del previous
    own = {
        "v": 1,
        "action": _call(number),
        "signer": {"pubkey": _pubkey(CALLER), "name": "bot", "owner": "me"},
        "ts": f"2026-05-01T00:00:{number:02d}.000Z",
        "nonce": f"rnd_{number:032x}",
    }
    return {
        "v": 3,
        "agent_receipt": signet_sealed(own, CALLER),
        "response": {"content_hash": "sha256:" + "b2" * 32, "outcome": {"status": "executed"}},
        "server": {"pubkey": _pubkey(signer), "name": "shop"},
        "ts_response": f"2026-05-01T00:00:{number:02d}.250Z",
        "nonce": f"rnd_{number + 4096:032x}",
    }


SIGNET_V2 = Forger(
    profile="signet-v2",
    body=_compound,
    seal=signet_sealed,
    link=None,
    signed="response.content_hash",
    signature="sig",
    previous=None,
    loose=True,
)
SIGNET_V3 = Forger(
    profile="signet-v3",
    body=_bilateral,
    seal=signet_sealed,
    link=None,
    signed="response.content_hash",
    signature="sig",
    previous=None,
    outside="extensions",
    listed=True,
    loose=True,
)


# Pipelock's evidence receipts.

BLANK = dict.fromkeys(("signer_key_id", "key_purpose", "algorithm", "signature"), "")


def _evidence(number: int, previous: str | None, signer: Agent) -> Document:
    del signer
    return {
        "record_type": "evidence_receipt_v2",
        "receipt_version": 2,
        "payload_kind": "proxy_decision",
        "event_id": f"01F8MECHZX3TBDSZ7XRADM79{number:02d}",
        "timestamp": f"2026-07-24T22:57:{number:02d}.708583012Z",
        "principal": "local",
        "actor": "pipelock",
        "signature": BLANK,
        "chain_seq": number,
        "chain_prev_hash": "genesis" if previous is None else previous,
        "payload": {"target": "https://example.test/<ä>&b", "verdict": "allow"},
    }


def _seal_evidence(body: Document, signer: Agent, name: str | None = None) -> Document:
    signature = {
        "signer_key_id": signer.key.hex() if name is None else name,
        "key_purpose": "receipt-signing",
        "algorithm": "ed25519",
        "signature": "ed25519:" + signer.sign(jcs(body)).hex(),
    }
    return {**body, "signature": signature}


def _evidence_forger(profile: str, name: str | None) -> Forger:
    return Forger(
        profile=profile,
        body=_evidence,
        seal=partial(_seal_evidence, name=name),
        link=lambda document: sha256_hex(jcs(document)),
        signed="payload.verdict",
        signature="signature.signature",
        previous="chain_prev_hash",
        loose=True,
    )


EVIDENCE = _evidence_forger("pipelock-v2", None)
EVIDENCE_NAMED = _evidence_forger("pipelock-v2-named", "receipt-signing-prod")


# AERF.

_LATER = ("signature", "timestamp", "parent_signature", "parent_key_id", "log_inclusion_proof")


def key_id(signer: Agent) -> str:
    return sha256_hex(signer.key)[:16]


def _aerf_signed(document: Document) -> bytes:
    return python(without(document, *_LATER))  # the numbers are those Python writes


def _aerf(number: int, previous: str | None, signer: Agent, **members: Any) -> Document:
    evidence = {"amount": "1250.00", "share": 1.0, "tiny": 1e-07, "\ufb33": 1, "\U0001f600": 2}
    body: Document = {
        "id": f"0f2c7e10-1111-4222-8333-{number:012d}",
        "type": "notarised_evidence",
        "plan_id": "0f2c7e10-1111-4222-8333-444444444444",
        "agent": "claims-agent",
        "action": "submit:claim:CLM-1",
        "in_policy": True,
        "policy_reason": "matched scope submit:claim:*",
        "evidence": evidence,
        "evidence_hash_sha512": hashlib.sha512(python(evidence)).hexdigest(),
        "observed_at": f"2026-05-11T12:{number:02d}:00+00:00",
        "key_id": key_id(signer),
        **members,
    }
    return body if previous is None else {**body, "previous_receipt_hash": previous}


def _seal_aerf(body: Document, signer: Agent) -> Document:
    return {**body, "signature": signer.sign(_aerf_signed(body)).hex()}


AERF = Forger(
    profile="aerf",
    body=_aerf,
    seal=_seal_aerf,
    link=lambda document: sha256_hex(_aerf_signed(document)),
    signed="policy_reason",
    signature="signature",
    previous="previous_receipt_hash",
    outside="timestamp",
    listed=True,
)


def counter_signed(
    body: Document, signer: Agent, parent: Agent = PARENT, pdp: Agent = PDP, *, verdict: bool = True
) -> Document:
    """Signed by the policy decision point (over `verdict`), the signer and the parent."""
    context = {"context_hash_sha256": "c0" * 32, "policy_hash": "d0" * 32}
    said = jcs({**context, "in_policy": verdict})
    body = {**body, **context, "pdp_signature": pdp.sign(said).hex(), "pdp_key_id": key_id(pdp)}
    sealed = _seal_aerf(body, signer)
    return {
        **sealed,
        "parent_signature": parent.sign(_aerf_signed(sealed)).hex(),
        "parent_key_id": key_id(parent),
    }


AERF_FULL = Forger(
    profile="aerf",
    body=partial(_aerf, impact_tags=["FINANCE-DISBURSEMENT"]),
    seal=counter_signed,
    link=lambda document: sha256_hex(_aerf_signed(document)),
    signed="policy_reason",
    signature="signature",
    previous="previous_receipt_hash",
    outside="log_inclusion_proof",
    listed=True,
    loose=True,
)

MORE = (SIGNET_V2, SIGNET_V3, EVIDENCE, EVIDENCE_NAMED, AERF, AERF_FULL)
