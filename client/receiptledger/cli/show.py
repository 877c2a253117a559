"""How verdicts and files are shown to people, and what `inspect` finds in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from receiptledger.cli.output import CliError
from receiptledger.core.bundle import BUNDLE_TYPE, parse_bundle
from receiptledger.core.canonical import Limits
from receiptledger.core.checkpoint import Checkpoint
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.errors import EvidenceError, LedgerError
from receiptledger.core.leaf import AnchorLeaf, HeadLeaf, parse_leaf
from receiptledger.core.note import parse_signature, split_note
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings
from receiptledger.core.timestamp import describe_response
from receiptledger.core.verdict import LIMITS_OF_PROOF, Status

if TYPE_CHECKING:
    from receiptledger.cli.output import Output
    from receiptledger.core.bundle import AnchoredCheckpoint, Bundle, LeafProof, Member
    from receiptledger.core.receipt import Receipt
    from receiptledger.core.verdict import Verdict

__all__ = [
    "NOT_VERIFIED",
    "STATUS_STYLES",
    "describe",
    "describe_anchor",
    "show_facts",
    "show_verdict",
]

NOT_VERIFIED = (
    "Nothing here was verified: this is only what the file says. Use `receiptledger verify`."
)
STATUS_STYLES = {
    Status.PASS: "green",
    Status.FAIL: "bold red",
    Status.UNKNOWN: "yellow",
    Status.NOT_CHECKED: "dim",
    Status.EXPIRED: "bold yellow",
}
_LIMITS = Limits(max_bytes=1_048_576)


def show_facts(output: Output, verdict: Verdict) -> None:
    """What a bundle is about, as far as it could be read."""
    shown = verdict.facts
    if "agent" in shown:
        stream = f" / {shown['stream']}" if shown["stream"] else ""
        output.text(f"receipt {shown['receipt_hash']}")
        output.text(f"position {shown['position']} of {shown['agent']}{stream}")
    if "log" in shown:
        output.text(f"log {shown['log']}, {shown['tree_size']} leaves, root {shown['root']}")
    if shown.get("not_after"):
        by = ", ".join(shown["anchored_by"])
        output.text(f"existed no later than {shown['not_after']} ({by})", "green")
    if shown.get("not_before"):
        by = ", ".join(shown["preceded_by"])
        output.text(f"appended no earlier than {shown['not_before']} ({by})", "green")
    if shown.get("claimed_time_within_bounds") is False:
        output.text(f"claims another time: {shown['claimed_time']}", "bold yellow")


def show_verdict(output: Output, verdict: Verdict) -> None:
    """One line per check, the result, and what it does not prove."""
    show_facts(output, verdict)
    for check in verdict.checks:
        style = STATUS_STYLES[check.status]
        output.styled(
            [(f"{check.status.value:<12}", style), (f" {check.name:<22}{check.detail}", "")]
        )
    if verdict.lacking:
        output.text(f"asked for and not shown: {', '.join(verdict.lacking)}", "yellow")
    good = verdict.exit_code == 0
    output.text(f"result: {verdict.result}", "bold green" if good else "bold red")
    output.text(LIMITS_OF_PROOF)


def describe(data: bytes, name: str) -> dict[str, Any]:
    """What a file says.

    Raises:
        CliError: it is none of the known kinds.
    """
    failures: dict[str, LedgerError] = {}
    for kind, read in _KINDS.items():
        try:
            return {"kind": kind, "verified": False, **read(data)}
        except LedgerError as error:
            failures[kind] = error
    for kind, mark in _MARKS.items():
        if mark in data:  # a damaged file is named by what it set out to be
            raise CliError(f"{name} is no {kind} that can be read: {failures[kind]}")
    raise CliError(f"{name} is no bundle, checkpoint, log leaf or receipt of a known format")


def _bundle(data: bytes) -> dict[str, Any]:
    bundle: Bundle = parse_bundle(data)
    shown: dict[str, Any] = {
        "position": bundle.position,
        "receipt": _member(bundle.receipt),
        "previous": None if bundle.previous is None else _member(bundle.previous),
        "head": _leaf_proof(bundle.head),
        "key": _leaf_proof(bundle.key),
        "checkpoint": _checkpoint(bundle.checkpoint),
    }
    if bundle.consistency is not None:
        shown["consistency"] = {
            "from_size": bundle.consistency.size,
            "proof_hashes": len(bundle.consistency.proof),
        }
    shown["anchors"] = {
        f"checkpoint {number}": describe_anchor(anchor)
        for number, anchor in enumerate(bundle.anchors, 1)
    }
    return shown


def describe_anchor(anchor: AnchoredCheckpoint) -> dict[str, Any]:
    """What an anchored checkpoint and its stamps say."""
    shown: dict[str, Any] = {
        **_checkpoint(anchor.note),
        "consistency_proof_hashes": len(anchor.consistency),
    }
    for number, stamp in enumerate(anchor.stamps, 1):
        evidence = stamp.evidence
        shown[f"stamp {number}"] = {
            **_leaf_proof(stamp.leaf),
            "response": _response(stamp.response),
            "evidence": None
            if evidence is None
            else {
                **_leaf_proof(evidence.leaf),
                "crls": len(evidence.crls),
                "ocsps": len(evidence.ocsps),
            },
        }
    return shown


def _response(data: bytes) -> dict[str, Any]:
    """The heart of a response; `timestamp inspect` shows all of it."""
    try:
        info = (describe_response(data).get("token") or {}).get("info") or {}
    except EvidenceError as error:
        return {"unreadable": str(error)}
    return {
        "bytes": len(data),
        **{name: info.get(name) for name in ("gen_time", "policy", "serial")},
    }


def _member(member: Member) -> dict[str, Any]:
    return {**_receipt(member.raw), "segment_proof_hashes": len(member.proof)}


def _leaf_proof(leaf: LeafProof) -> dict[str, Any]:
    return {"leaf_index": leaf.index, **_leaf(leaf.leaf), "log_proof_hashes": len(leaf.proof)}


def _checkpoint(data: bytes) -> dict[str, Any]:
    text, lines = split_note(data)
    checkpoint = Checkpoint.parse(text)
    signatures = [parse_signature(line) for line in lines]
    return {
        "log": checkpoint.origin,
        "tree_size": checkpoint.size,
        "root": digest_text(checkpoint.root),
        "signed_by": ", ".join(f"{one.name}+{one.key_id.hex()}" for one in signatures),
    }


def _leaf(data: bytes) -> dict[str, Any]:
    leaf = parse_leaf(data.removesuffix(b"\n"))
    if isinstance(leaf, HeadLeaf):
        return {
            "leaf": "head",
            "chain": digest_text(leaf.chain),
            "first": leaf.first,
            "last": leaf.last,
            "prev": None if leaf.prev is None else digest_text(leaf.prev),
            "head": digest_text(leaf.head),
            "segment": digest_text(leaf.segment),
            "profile": leaf.profile,
            "profile_version": leaf.profile_version,
        }
    if isinstance(leaf, AnchorLeaf):
        return {
            "leaf": "anchor",
            "size": leaf.size,
            "root": digest_text(leaf.root),
            "tsa": leaf.tsa,
            "response_hash": digest_text(leaf.response),
            "evidence_hash": None if leaf.evidence is None else digest_text(leaf.evidence),
        }
    return {
        "leaf": "key",
        "chain": digest_text(leaf.chain),
        "key": base64url_encode(leaf.key),
        "mode": leaf.mode,
        "since": leaf.since,
    }


def _receipt(data: bytes) -> dict[str, Any]:
    found: list[Receipt] = list(readings(data, Profiles.builtin(), limits=_LIMITS))
    first = found[0]
    hint = first.key_hint
    return {
        "profile": " or ".join(reading.profile for reading in found),
        "agent": first.agent,
        "stream": first.stream,
        "sequence": first.sequence,
        "time": first.time,
        "previous": None if first.previous is None else digest_text(first.previous),
        "link_hash": digest_text(first.link_hash),
        "receipt_hash": digest_text(first.receipt_hash),
        "chain": digest_text(first.chain),
        "key_hint": None if hint is None else base64url_encode(hint),
        "not_signed": ", ".join(first.unsigned) or None,
        "content": json.loads(data),
    }


_KINDS = {"bundle": _bundle, "checkpoint": _checkpoint, "leaf": _leaf, "receipt": _receipt}
# What shows that a file set out to be of a kind.
_MARKS = {
    "bundle": BUNDLE_TYPE.encode(),
    "checkpoint": "\n\n\N{EM DASH} ".encode(),
    "leaf": b'"kind":',
    "receipt": b'"signature"',
}
