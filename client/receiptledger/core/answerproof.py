"""What an answerproof receipt says of an answer and its sources, checked beside its signature.

answerproof (1.0) is evidence of one answer: the sources that were found, a Merkle root over the hashes
of their contents, which of them the answer cites with which words, and how many of its claims are
supported. The checks are those of its own verifier, with what that one lets pass:

* a receipt without claims may have any score there, and one without contents given passes as a whole;
* of two sources of one id, only the last is held against its content;
* contents that are no text are turned into text, and hashes of any length and algorithm are taken;
* citations may quote words that are nowhere in the answer, and claims be missing from their own list.

Whose the receipt is, is not asked here: the key inside is never trusted, see `receipt_check`. Whether the
answer is true is asked nowhere: who signed it, computed all of this. Nothing of a receipt's text is
interpreted; what of it is shown, is escaped for a terminal, and must be escaped again for a page.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.answerproof_form import completed, evidence_of, explain_signature
from receiptledger.core.answerproof_sources import check_contents, check_overlap, read_sources
from receiptledger.core.canonical import shown
from receiptledger.core.encoding import parse_digest
from receiptledger.core.errors import EvidenceError, Reason, ReceiptError
from receiptledger.core.treehash import bad_proof, hash_leaf, hash_node
from receiptledger.core.verdict import Check, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from receiptledger.core.receipt import Receipt

__all__ = [
    "CHECKS",
    "PROFILE",
    "check_evidence",
    "completed",
    "explain_signature",
    "read_sources",
    "source_ids",
    "source_proof",
    "verify_source_proof",
]

PROFILE: Final = "answerproof"
CHECKS: Final = (
    "evidence form",
    "merkle root",
    "inclusion",
    "cited sources",
    "citations",
    "grounding",
    "source contents",
    "overlap",
)

_MAX_STEPS = 63  # of a proof: no tree is higher
_TOLERANCE = 1e-6  # scores are rounded to four digits
_SHOWN = 3  # faults of one check that are told


def check_evidence(receipt: Receipt, sources: Mapping[str, str] | None = None) -> list[Check]:
    """One check for each of `CHECKS`, in that order. Never raises for a bad receipt.

    Args:
        receipt: read as answerproof. Whether its signature holds is another matter.
        sources: contents by source id, from the auditor's own hands; None when there are none.
    """
    try:
        payload = evidence_of(receipt)
    except ReceiptError as error:
        words = str(error).removeprefix(f"{error.reason}: ")
        left = "the receipt is not of answerproof's form"
        return [
            Check(CHECKS[0], Status.FAIL, words, error.reason),
            *(Check(name, Status.NOT_CHECKED, left) for name in CHECKS[1:]),
        ]
    return [
        Check(CHECKS[0], Status.PASS, "every member is there and of its type"),
        *_merkle(payload),
        _cited(payload),
        _citations(payload),
        _grounding(payload),
        check_contents(payload, sources),
        check_overlap(payload, sources),
    ]


def source_ids(receipt: Receipt) -> frozenset[str]:
    """Ids of a receipt's sources; none when it is not of answerproof's form."""
    try:
        return frozenset(_ids(evidence_of(receipt)))
    except ReceiptError:
        return frozenset()


def _result(name: str, faults: Sequence[str], passed: str) -> Check:
    if not faults:
        return Check(name, Status.PASS, passed)
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    words = "; ".join(faults[:_SHOWN]) + more
    return Check(name, Status.FAIL, words, Reason.INVALID_FIELD)


# The Merkle tree over the sources: RFC 6962's shape, a lone last node is carried up as it is.


def _merkle(payload: dict[str, Any]) -> tuple[Check, Check]:
    try:
        levels = _levels(payload)
    except EvidenceError as error:
        words = str(error).removeprefix(f"{error.reason}: ")
        return (
            Check("merkle root", Status.FAIL, words, error.reason),
            Check("inclusion", Status.NOT_CHECKED, "there is no tree to be in"),
        )
    root, signed = levels[-1][0].hex(), payload["merkle_root"]
    count = len(levels[0])
    if root != signed:
        words = f"expected {root}, the root over {count} content hashes, got {shown(signed)}"
        made = Check("merkle root", Status.FAIL, words, Reason.BAD_PROOF)
    else:
        made = Check(
            "merkle root", Status.PASS, f"it is the root over the content hashes, {count} in number"
        )
    return made, _inclusion(payload, levels)


def _levels(payload: dict[str, Any]) -> list[list[bytes]]:
    """Hashes of the tree, the leaves' first and the root last.

    Raises:
        EvidenceError: BAD_PROOF, no sources, or a content hash that is none.
    """
    level = []
    for at, source in enumerate(payload["sources"]):
        try:
            level.append(hash_leaf(parse_digest(source["content_hash"])))
        except ValueError as error:
            raise bad_proof(
                f"content_hash of source {at} is no SHA-256",
                want=str(error).removeprefix("expected "),
                got=f"text of {len(source['content_hash'])} characters",
            ) from None
    if not level:
        raise bad_proof("no sources, so nothing for a Merkle root to be over", want="one", got=0)
    levels = [level]
    while len(level) > 1:
        lone = level[-1:] if len(level) % 2 else []
        level = [hash_node(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)] + lone
        levels.append(level)
    return levels


def _path(levels: Sequence[Sequence[bytes]], index: int) -> list[dict[str, str]]:
    steps = []
    for level in levels[:-1]:
        sibling = index ^ 1
        if sibling < len(level):
            side = "left" if sibling < index else "right"
            steps.append({"sibling": level[sibling].hex(), "position": side})
        index //= 2
    return steps


def _inclusion(payload: dict[str, Any], levels: Sequence[Sequence[bytes]]) -> Check:
    """Every cited source proven to be under the signed root, each by a proof of its own."""
    cited = set(payload["cited_source_ids"])
    faults, proven = [], 0
    for at, source in enumerate(payload["sources"]):
        if source["id"] in cited:
            try:
                verify_source_proof(
                    source["content_hash"], _path(levels, at), payload["merkle_root"]
                )
            except EvidenceError:
                faults.append(f"source {shown(source['id'])} is not under the signed root")
            else:
                proven += 1
    if not faults:
        return Check(
            "inclusion", Status.PASS, f"cited sources proven to be under the signed root: {proven}"
        )
    return Check("inclusion", Status.FAIL, _result("", faults, "").detail, Reason.BAD_PROOF)


def source_proof(receipt: Receipt, source_id: str) -> list[dict[str, str]]:
    """What shows that a source's content hash is under the receipt's Merkle root, as answerproof has it.

    Returns:
        `{"sibling": hex, "position": "left" or "right"}` from the leaf up.

    Raises:
        ReceiptError: INVALID_FIELD, not of answerproof's form.
        EvidenceError: BAD_PROOF, a content hash is none; NOT_FOUND, no such source.
    """
    payload = evidence_of(receipt)
    levels = _levels(payload)
    for at, source in enumerate(payload["sources"]):
        if source["id"] == source_id:
            return _path(levels, at)
    raise EvidenceError(
        Reason.NOT_FOUND, "no source has that id", want="a source's id", got=shown(source_id)
    )


def verify_source_proof(content_hash: str, proof: object, root: str) -> None:
    """Check that a content hash is under a Merkle root.

    Args:
        content_hash: `sha256:` and hex.
        proof: an array of steps as :func:`source_proof` makes them; foreign.
        root: hex, out of a receipt whose signature holds.

    Raises:
        EvidenceError: BAD_PROOF.
    """
    try:
        running = hash_leaf(parse_digest(content_hash))
    except ValueError as error:
        raise bad_proof("the content hash has the wrong form", want=error, got="another") from None
    if not isinstance(proof, list) or len(proof) > _MAX_STEPS:
        raise bad_proof("the proof has the wrong form", want=f"at most {_MAX_STEPS} steps")
    for at, step in enumerate(proof):
        sibling, side = _step(step, at)
        running = hash_node(sibling, running) if side == "left" else hash_node(running, sibling)
    if running.hex() != root:
        raise bad_proof("the proof leads to another root", want=shown(root), got=running.hex())


def _step(step: object, at: int) -> tuple[bytes, str]:
    if isinstance(step, dict) and step.keys() == {"sibling", "position"}:
        sibling, side = step["sibling"], step["position"]
        try:
            return parse_digest(f"sha256:{sibling}"), {"left": "left", "right": "right"}[side]
        except (ValueError, KeyError, TypeError):
            pass
    want = "sibling, 64 lower-case hex digits, and position, left or right"
    raise bad_proof(f"step {at} of the proof has the wrong form", want=want, got="something else")


# What the receipt says of its own answer.


def _ids(payload: dict[str, Any]) -> list[str]:
    return [source["id"] for source in payload["sources"]]


def _unknown(what: str, names: Iterable[str], known: set[str]) -> list[str]:
    return [f"{what} {shown(name)}, which is no source" for name in names if name not in known]


def _cited(payload: dict[str, Any]) -> Check:
    counted = Counter(_ids(payload))
    cited = payload["cited_source_ids"]
    faults = [
        f"{times} sources have the id {shown(name)}" for name, times in counted.items() if times > 1
    ]
    faults += _unknown("cited_source_ids names", cited, set(counted))
    used = {citation["source_id"] for citation in payload["citations"]}
    faults += [
        f"{shown(name)} is listed as cited and in no citation" for name in cited if name not in used
    ]
    faults += [
        f"{shown(name)} is in a citation and not listed as cited"
        for name in sorted(used - set(cited))
    ]
    return _result(
        "cited sources", faults, f"{len(cited)} of {len(counted)} sources, all there, are cited"
    )


def _citations(payload: dict[str, Any]) -> Check:
    known, answer = set(_ids(payload)), payload["answer"]
    faults = []
    for at, citation in enumerate(payload["citations"]):
        faults += _unknown(f"citation {at} is of", [citation["source_id"]], known)
        if not citation["quote"].strip():
            faults.append(f"citation {at} quotes nothing")
        elif citation["quote"] not in answer:
            faults.append(f"what citation {at} quotes is not in the answer")
        faults += _score(f"score of citation {at}", citation["score"])
    return _result("citations", faults, f"quotes found in the answer: {len(payload['citations'])}")


def _grounding(payload: dict[str, Any]) -> Check:
    """Only that it agrees with itself: whether a source supports a claim is the signer's word."""
    grounding, known, answer = payload["grounding"], set(_ids(payload)), payload["answer"]
    claims = grounding["claims"]
    faults = []
    for at, claim in enumerate(claims):
        faults += _unknown(f"claim {at} names", claim["source_ids"], known)
        if claim["supported"] and not claim["source_ids"]:
            faults.append(f"claim {at} is supported by no source")
        if not claim["text"].strip() or claim["text"] not in answer:
            faults.append(f"claim {at} is not in the answer")
        faults += _score(f"support_score of claim {at}", claim["support_score"])
    missing = [claim["text"] for claim in claims if not claim["supported"]]
    if Counter(missing) != Counter(grounding["unsupported_claims"]):
        faults.append(
            f"unsupported_claims must be the {len(missing)} claims that are not supported, it has "
            f"{len(grounding['unsupported_claims'])}, or others"
        )
    supported = len(claims) - len(missing)
    score = round(supported / len(claims), 4) if claims else 0.0
    if abs(score - grounding["grounding_score"]) > _TOLERANCE:
        faults.append(
            f"grounding_score must be {score}, {supported} of {len(claims)} claims, it is "
            f"{grounding['grounding_score']}"
        )
    said = f"{supported} of {len(claims)} claims supported, by the signer's own count"
    return _result("grounding", faults, said + _left_over(answer, claims))


def _score(what: str, score: float) -> list[str]:
    return [] if 0.0 <= score <= 1.0 else [f"{what} must be 0..1, it is {score}"]


def _left_over(answer: str, claims: Sequence[dict[str, Any]]) -> str:
    """How much of the answer is in none of the claims, which follow each other in it."""
    end = left = 0
    for claim in claims:
        found = answer.find(claim["text"], end)
        if found >= 0:
            left += len(answer[end:found].strip())
            end = found + len(claim["text"])
    left += len(answer[end:].strip())
    return f"; {left} characters of the answer are in no claim" if left else ""
