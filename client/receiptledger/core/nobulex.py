"""nobulex's chain, which is outside its receipts, and its Merkle batches.

A receipt names an action by `action_ref`: the hex SHA-256 of the RFC 8785 form of agent, type, scope and
time, texts in Unicode's form NFC. An export lists receipts with `prev_hash` and `chain_hash`, the SHA-256
of both texts joined; the first `prev_hash` is 64 zeros. A batch is an RFC 6962 tree whose entries are the
texts of `action_ref`.

So neither commits to a verdict, to metadata or to a signature, and none of it is signed but the receipts:
what a chain that holds does not show, is said in a check of its own. Keys are not asked for here: the
receipts of an export are checked as any others, see `receipt_check`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import MAX_DEPTH, Limits, canonicalize, describe, parse, shown
from receiptledger.core.carried import find
from receiptledger.core.encoding import parse_digest
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.merkle import verify_inclusion
from receiptledger.core.treehash import bad_proof, hash_leaf, root_hash
from receiptledger.core.verdict import Check, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from receiptledger.core.receipt import Receipt

__all__ = [
    "EXPORT_CHECKS",
    "PROFILES",
    "Entry",
    "Export",
    "action_ref",
    "batch_root",
    "check_batch",
    "check_export",
    "check_receipt",
    "is_export",
    "read_export",
    "verify_batch_proof",
]

PROFILES: Final = ("nobulex", "nobulex-es256")  # ids of the formats of its receipts
EXPORT_CHECKS: Final = ("chain form", "action refs", "chain links", "chain head", "chain coverage")
GENESIS: Final = "0" * 64

EXPORT_LIMITS: Final = Limits(max_bytes=64 * 1024 * 1024, max_members=2_000_000)
_EXPORT = frozenset({"agent_id", "chain_length", "head_hash", "verified", "entries"})
_ENTRY = frozenset({"index", "receipt", "prev_hash", "chain_hash"})
_REF = ("agent_id", "action_type", "scope")
_SHOWN = 3  # faults of one check that are told
_COVERAGE: Final = (
    "the chain is over action_ref alone, so over agent, type, scope and time: a verdict or metadata "
    "changed and signed again by the key's holder leaves it whole, and receipts cut off its end leave no "
    "trace; agent_id, chain_length, head_hash and verified of the export are signed by nobody"
)
_BETWEEN: Final = re.compile(r"[ \t\r\n,]*+")
_SCANNER = json.JSONDecoder(parse_int=lambda _: 0, parse_float=lambda _: 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an export.

    Attributes:
        raw: its receipt's bytes as they stand in the export.
        receipt: the same, parsed.
        index, previous, own: the members index, prev_hash and chain_hash, whatever they are.
    """

    raw: bytes
    receipt: dict[str, Any]
    index: object
    previous: object
    own: object


@dataclass(frozen=True, slots=True)
class Export:
    """A chain as nobulex writes it to a file. Nothing in it is checked yet.

    Attributes:
        agent, length, head: the members agent_id, chain_length and head_hash, whatever they are.
        entries: in the order of the file.
    """

    agent: object
    length: object
    head: object
    entries: tuple[Entry, ...]

    @property
    def receipts(self) -> list[bytes]:
        """The receipts' own bytes, in order."""
        return [entry.raw for entry in self.entries]


def is_export(value: dict[str, Any]) -> bool:
    """Whether a parsed document says it is an export of a chain."""
    return (
        value.keys() == _EXPORT
        and type(value["entries"]) is list
        and all(type(entry) is dict and "chain_hash" in entry for entry in value["entries"])
    )


def read_export(raw: bytes, limits: Limits = EXPORT_LIMITS) -> Export:
    """Read an export.

    Raises:
        ReceiptError: MALFORMED or TOO_LARGE from the parser; INVALID_FIELD when it is no export, or
            an entry has other members than nobulex writes, or no receipt.
    """
    value = parse(raw, limits).value
    if not is_export(value):
        raise _invalid("the document is no export", "members " + ", ".join(sorted(_EXPORT)), value)
    entries = []
    spans = _elements(find(raw, ("entries",)))
    for at, (entry, span) in enumerate(zip(value["entries"], spans, strict=True)):
        if entry.keys() != _ENTRY or type(entry["receipt"]) is not dict:
            want = "members " + ", ".join(sorted(_ENTRY)) + ", the receipt an object"
            raise _invalid(f"entry {at} has the wrong form", want, entry)
        own = find(span, ("receipt",))
        parts = entry["receipt"], entry["index"], entry["prev_hash"], entry["chain_hash"]
        entries.append(Entry(own, *parts))
    return Export(value["agent_id"], value["chain_length"], value["head_hash"], tuple(entries))


def _elements(array: bytes) -> Iterator[bytes]:
    """The elements of an array that was parsed already, as they stand in it."""
    text = array.decode("utf-8")
    at = _after(_BETWEEN, text, 1)
    while text[at] != "]":
        _, end = _SCANNER.raw_decode(text, at)
        yield text[at:end].encode("utf-8")
        at = _after(_BETWEEN, text, end)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _invalid(message: str, want: str, value: object) -> ReceiptError:
    return ReceiptError(Reason.INVALID_FIELD, message, want=want, got=describe(value))


# One receipt.


def action_ref(value: dict[str, Any]) -> str:
    """What a receipt's `action_ref` must be.

    Args:
        value: a parsed receipt. One without scope has an empty one, as nobulex writes it.

    Raises:
        ReceiptError: INVALID_FIELD for a member that has not its type.
    """
    preimage: dict[str, Any] = {}
    for name in _REF:
        text = value.get(name, "" if name == "scope" else None)
        if type(text) is not str:
            raise _invalid(f"member {name} has the wrong form", "text", text)
        preimage[name] = unicodedata.normalize("NFC", text)
    time = value.get("timestamp_ms")
    if type(time) is not int:
        raise _invalid("member timestamp_ms has the wrong form", "an integer", time)
    return sha256(canonicalize({**preimage, "timestamp_ms": time})).hexdigest()


def check_receipt(receipt: Receipt) -> list[Check]:
    """The check "action refs" of one receipt, read as nobulex. Never raises for a bad one."""
    size = len(receipt.raw)
    limits = Limits(max_bytes=size, max_depth=MAX_DEPTH, max_members=size)
    return [_action_refs([parse(receipt.raw, limits).value])]


def _action_refs(receipts: Sequence[dict[str, Any]]) -> Check:
    faults = []
    for at, value in enumerate(receipts):
        try:
            wanted = action_ref(value)
        except ReceiptError as error:
            faults.append(f"receipt {at}: {error.message}")
            continue
        if value.get("action_ref") != wanted:
            faults.append(f"receipt {at}: action_ref must be {wanted}, the hash of its members")
    passed = f"each is the hash of its receipt's members, {len(receipts)} in all"
    return _result("action refs", faults, passed, Reason.INVALID_FIELD)


def _result(name: str, faults: Sequence[str], passed: str, reason: Reason) -> Check:
    if not faults:
        return Check(name, Status.PASS, passed)
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return Check(name, Status.FAIL, "; ".join(faults[:_SHOWN]) + more, reason)


# The chain around the receipts.


def check_export(export: Export) -> list[Check]:
    """One check for each of `EXPORT_CHECKS`, in that order. Never raises for a bad export.

    The receipts' signatures are not among them.
    """
    if not export.entries:
        return [
            Check(EXPORT_CHECKS[0], Status.UNKNOWN, "no entries: the export shows nothing"),
            *(Check(name, Status.NOT_CHECKED, "no entries") for name in EXPORT_CHECKS[1:]),
        ]
    links, head = _links(export)
    return [
        _form(export),
        _action_refs([entry.receipt for entry in export.entries]),
        links,
        head,
        Check("chain coverage", Status.NOT_CHECKED, _COVERAGE),
    ]


def _form(export: Export) -> Check:
    total = len(export.entries)
    faults = []
    if not _is_number(export.length, total):
        faults.append(f"chain_length must be {total}, it is {_named(export.length)}")
    for at, entry in enumerate(export.entries):
        if not _is_number(entry.index, at):
            faults.append(f"index of entry {at} must be {at}, it is {_named(entry.index)}")
        if entry.receipt.get("agent_id") != export.agent:
            faults.append(f"the receipt of entry {at} is of another agent than the export")
    return _result(
        "chain form", faults, f"entries, all of one agent: {total}", Reason.INVALID_FIELD
    )


def _is_number(value: object, wanted: int) -> bool:
    return type(value) is int and value == wanted


def _named(value: object) -> str:
    return shown(value) if isinstance(value, str) else describe(value)


def _links(export: Export) -> tuple[Check, Check]:
    """The links, each from what the one before must be and not from what it says; then the head."""
    faults = []
    previous = GENESIS
    for at, entry in enumerate(export.entries):
        if entry.previous != previous:
            faults.append(
                f"prev_hash of entry {at} must be {previous}, it is {_named(entry.previous)}"
            )
        ref = entry.receipt.get("action_ref")
        previous = sha256(
            (previous + (ref if type(ref) is str else "")).encode("utf-8")
        ).hexdigest()
        if entry.own != previous:
            faults.append(f"chain_hash of entry {at} must be {previous}, it is {_named(entry.own)}")
    passed = f"{len(export.entries)} entries follow each other"
    links = _result("chain links", faults, passed, Reason.BROKEN_LINK)
    wrong = (
        []
        if export.head == previous
        else [f"head_hash must be {previous}, the last entry's, it is {_named(export.head)}"]
    )
    return links, _result("chain head", wrong, f"it is {previous}", Reason.INVALID_FIELD)


# Batches: one Merkle root over many actions.


def batch_root(action_refs: Iterable[str]) -> str:
    """The root over the texts of some `action_ref`, in order; hex."""
    return root_hash([hash_leaf(ref.encode("utf-8")) for ref in action_refs]).hex()


def check_batch(action_refs: Sequence[str], root: str) -> Check:
    """The check "batch root": the root is the one over these actions, no more and no less.

    Args:
        action_refs: of receipts that were checked, in the batch's order.
        root: hex, from where the auditor trusts it, perhaps an anchor.
    """
    made = batch_root(action_refs)
    if made != root:
        words = f"expected {made}, the root over {len(action_refs)} actions, got {shown(root)}"
        return Check("batch root", Status.FAIL, words, Reason.BAD_PROOF)
    words = f"it is the root over {len(action_refs)} actions, and commits to no verdict of theirs"
    return Check("batch root", Status.PASS, words)


def verify_batch_proof(ref: str, index: int, size: int, proof: Sequence[object], root: str) -> None:
    """Check that an action is in a batch (RFC 6962 section 2.1.1).

    Args:
        ref: its `action_ref`.
        index: its place in the batch.
        size: actions in the batch.
        proof: hashes in hex from the leaf up; foreign.
        root: hex, from where the auditor trusts it.

    Raises:
        EvidenceError: BAD_PROOF.
    """
    hashes = [_hash(item, f"hash {at} of the proof") for at, item in enumerate(proof)]
    verify_inclusion(hash_leaf(ref.encode("utf-8")), index, size, hashes, _hash(root, "the root"))


def _hash(text: object, what: str) -> bytes:
    try:
        return parse_digest(f"sha256:{text}" if type(text) is str else None)
    except ValueError:
        got = describe(text)
        raise bad_proof(f"{what} has the wrong form", want="64 hex digits", got=got) from None
