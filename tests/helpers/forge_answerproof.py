"""answerproof receipts from fixed seeds, by the rules its maker describes and none of our code.

The tree is the recursion of RFC 6962, words are cut one character at a time, scores are fractions.
"""

from __future__ import annotations

import hashlib
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.helpers.forge import python
from tests.helpers.receipts import ALICE, base64url

if TYPE_CHECKING:
    from tests.helpers.receipts import Agent, Document

__all__ = [
    "CONTENTS",
    "SENTENCES",
    "answerproof",
    "citation",
    "claim",
    "content_hash",
    "grounding",
    "overlap",
    "respelled",
    "seal",
    "tree",
]

CONTENTS = {
    "kb-1": "Refunds are issued within 30 days of purchase. Keep the receipt.",
    "kb-2": "Shipping takes 5 business days.\nExpress costs more.",
    "kb-3": "Größere Pakete kosten mehr.",
}
SENTENCES = (
    "Refunds are issued within 30 days of purchase.",
    "Shipping takes 5 business days.",
    "The moon is made of cheese.",
)


def content_hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def tree(hashes: list[str]) -> str:
    """Root over content hashes: leaves are over the 32 bytes, a node's left half is a power of two."""
    if len(hashes) == 1:
        return hashlib.sha256(b"\0" + bytes.fromhex(hashes[0][7:])).hexdigest()
    half = 1
    while half * 2 < len(hashes):
        half *= 2
    left, right = tree(hashes[:half]), tree(hashes[half:])
    return hashlib.sha256(b"\1" + bytes.fromhex(left) + bytes.fromhex(right)).hexdigest()


def overlap(quote: str, content: str, length: int = 3) -> float:
    """Share of the quote's runs of words that are in the content too."""
    said, there = _words(quote), _words(content)
    length = min(length, len(said))
    if not length:
        return 0.0
    runs = {" ".join(said[at : at + length]) for at in range(len(said) - length + 1)}
    text = " " + " ".join(there) + " "
    found = sum(f" {run} " in text for run in runs)
    return round(float(Fraction(found, len(runs))), 4)


def _words(text: str) -> list[str]:
    words = [""]
    for character in text.lower():
        if character.isalnum() or character == "_":
            words[-1] += character
        else:
            words.append("")
    return [word for word in words if word]


def answerproof(
    contents: dict[str, str] | None = None,
    sentences: tuple[str, ...] = SENTENCES,
    *,
    signer: Agent = ALICE,
    principal: str = "user-42",
    threshold: float = 0.5,
    **members: Any,
) -> Document:
    """A receipt of one answer; `members` replace those of the payload after it was computed."""
    contents = CONTENTS if contents is None else contents
    sources: list[Document] = [
        {"id": name, "content_hash": content_hash(text), "score": 0.5, "metadata": {}}
        for name, text in contents.items()
    ]
    claims: list[Document] = []
    citations: list[Document] = []
    for sentence in sentences:
        scores = {name: overlap(sentence, text) for name, text in contents.items()}
        best = max(scores, key=lambda name: scores[name])
        supported = scores[best] >= threshold
        claims.append(
            {
                "text": sentence,
                "supported": supported,
                "source_ids": [best] if supported else [],
                "support_score": scores[best],
            }
        )
        if supported:
            citation: Document = {"source_id": best, "quote": sentence, "method": "3gram-overlap"}
            citations.append({**citation, "score": scores[best]})
    supported_claims = [claim for claim in claims if claim["supported"]]
    payload = {
        "schema_version": "1.0",
        "receipt_id": "11111111-2222-4333-8444-555555555555",
        "created_at": "2026-11-30T15:09:54.113992Z",
        "query": "What is the refund window?",
        "answer": " ".join(sentences),
        "principal": {"id": principal, "permissions": ["kb:read"], "tenant": "acme"},
        "model": {"name": "m", "provider": None, "params": {"temperature": 0.0, "max_tokens": 512}},
        "sources": sources,
        "cited_source_ids": sorted({citation["source_id"] for citation in citations}),
        "merkle_root": tree([source["content_hash"] for source in sources]),
        "citations": citations,
        "grounding": {
            "claims": claims,
            "unsupported_claims": [one["text"] for one in claims if not one["supported"]],
            "grounding_score": round(len(supported_claims) / len(claims), 4) if claims else 0.0,
        },
    }
    return seal({**payload, **members}, signer)


def seal(payload: Document, signer: Agent = ALICE) -> Document:
    """Sign whatever payload is there."""
    signature = {
        "algorithm": "ed25519",
        "public_key": base64url(signer.key),
        "signature": base64url(signer.sign(python(payload))),
    }
    return {"payload": payload, "signature": signature}


def respelled(raw: bytes) -> bytes:
    """What a JSON tool without floats of its own makes of a document: 1.0 becomes 1."""
    return re.sub(rb"(?<=[ :,\[])(-?[0-9]+)\.0(?=[,}\]\s])", rb"\1", raw)


# Parts of another payload.


def citation(**members: Any) -> dict[str, Any]:
    made = {"source_id": "kb-1", "quote": SENTENCES[0], "method": "3gram-overlap", "score": 1.0}
    return {**made, **members}


def claim(**members: Any) -> dict[str, Any]:
    made = {"text": SENTENCES[0], "supported": True, "source_ids": ["kb-1"], "support_score": 1.0}
    return {**made, **members}


def grounding(*claims: dict[str, Any], unsupported: Any = (), score: float = 1.0) -> dict[str, Any]:
    return {
        "claims": list(claims),
        "unsupported_claims": list(unsupported),
        "grounding_score": score,
    }
