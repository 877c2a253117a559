"""The worked examples of proto/FORMATS.md, computed from fixed seeds.

`python -m tests.helpers.format_examples` prints each with its name, to paste when a format changes.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from nacl import bindings

from receiptledger.core.bundle import Bundle, LeafProof, Member
from receiptledger.core.canonical import canonicalize
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.evidence_manifest import encode_manifest
from receiptledger.core.leaf import AnchorLeaf, HeadLeaf, KeyLeaf
from receiptledger.core.merkle import hash_leaf, inclusion_path, root_hash
from receiptledger.core.note import NoteSigner
from receiptledger.core.receipt import chain_key
from tests.helpers.format_anchors import anchor_examples

__all__ = ["AGENT", "AGENT_SEED", "LOG_SEED", "ORIGIN", "examples", "receipt"]

AGENT, AGENT_SEED = "demo-agent", bytes(range(32))
ORIGIN, LOG_SEED = "log.example/receipts", bytes(range(32, 64))


def receipt(sequence: int, previous: bytes | None) -> tuple[bytes, bytes]:
    """(signed bytes, receipt bytes) of one lesson-18 receipt of the example agent."""
    public, secret = bindings.crypto_sign_seed_keypair(AGENT_SEED)
    body: dict[str, object] = {
        "type": "agent.tool_call.v1",
        "agent_id": AGENT,
        "tool_name": "book_flight" if sequence else "lookup_flights",
        "tool_args_hash": digest_text(sha256(canonicalize({"from": "VIE"})).digest()),
        "result_hash": digest_text(sha256(canonicalize({"ok": True})).digest()),
        "policy_id": "travel-policy-v3",
        "timestamp": f"2026-11-30T09:00:0{sequence}Z",
        "sequence": sequence,
        "previous_receipt_hash": None if previous is None else digest_text(previous),
    }
    signed = canonicalize(body)
    body["signature"] = {
        "alg": "EdDSA",
        "public_key": base64url_encode(public),
        "sig": base64url_encode(bindings.crypto_sign(signed, secret)[:64]),
    }
    return signed, canonicalize(body)


def examples() -> dict[str, bytes]:
    """Every example of FORMATS.md by name."""
    public, _ = bindings.crypto_sign_seed_keypair(AGENT_SEED)
    signed, first = receipt(0, None)
    _, second = receipt(1, sha256(first).digest())
    chain = chain_key(AGENT, "")
    segment = root_hash([hash_leaf(first), hash_leaf(second)])
    key = KeyLeaf(chain, public, "pinned", 0).encode()
    head = HeadLeaf(
        chain=chain,
        first=0,
        last=1,
        prev=None,
        head=sha256(second).digest(),
        segment=segment,
        profile="ms-lesson18",
        profile_version=1,
    ).encode()
    leaves = [hash_leaf(key), hash_leaf(head)]
    signer = NoteSigner.from_seed(ORIGIN, LOG_SEED)
    checkpoint = Checkpoint(ORIGIN, 2, root_hash(leaves))
    note = sign_checkpoint(checkpoint, signer)
    # Stand-ins of a few bytes for what an authority and its issuer send in DER.
    response, crl, ocsp = b"a response", b"a CRL", b"an OCSP response"
    manifest = encode_manifest([sha256(crl).digest()], [sha256(ocsp).digest()])
    anchor = AnchorLeaf(2, checkpoint.root, "tsa-1", sha256(response).digest(), None)
    proven = replace(anchor, evidence=sha256(manifest).digest())
    bundle = Bundle(
        position=1,
        receipt=Member(second, (hash_leaf(first),)),
        previous=Member(first, (hash_leaf(second),)),
        head=LeafProof(head, 1, tuple(inclusion_path(leaves, 1))),
        key=LeafProof(key, 0, tuple(inclusion_path(leaves, 0))),
        checkpoint=note,
    )
    return {
        "signed-bytes-0": signed,
        "receipt-0": first,
        "receipt-1": second,
        "receipt-hash-0": digest_text(sha256(first).digest()).encode(),
        "chain-key": digest_text(chain).encode(),
        "segment-leaf-0": digest_text(hash_leaf(first)).encode(),
        "segment-leaf-1": digest_text(hash_leaf(second)).encode(),
        "segment-root": digest_text(segment).encode(),
        "key-leaf": key,
        "head-leaf": head,
        "leaf-hash-0": digest_text(leaves[0]).encode(),
        "leaf-hash-1": digest_text(leaves[1]).encode(),
        "log-key": str(signer.verifier).encode(),
        "checkpoint-text": checkpoint.encode(),
        "checkpoint": note,
        "anchor-leaf": anchor.encode(),
        "evidence-manifest": manifest,
        "anchor-leaf-evidence": proven.encode(),
        "bundle": bundle.encode(),
        **anchor_examples(bundle, signer),
    }


if __name__ == "__main__":
    for name, data in examples().items():
        print(f"```text {name}\n{data.decode().rstrip(chr(10))}\n```\n")
