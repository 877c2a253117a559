"""Offline verification of a bundle against what the auditor brings.

The order of the checks is DESIGN's: parse, signature, key at position, chain links, segment inclusion,
log inclusion, checkpoint signature, consistency with a remembered checkpoint, timestamps,
completeness, unsigned members. Each check uses only what is signed or hashed into the checkpoint, or
what the auditor's :class:`Trust` says. A check that cannot run because an earlier part is unreadable
is reported as not checked, with the reason; nothing is skipped silently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from receiptledger.core.bundle import Bundle, LeafProof, parse_bundle
from receiptledger.core.checkpoint import Checkpoint, open_checkpoint
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.errors import EvidenceError, LedgerError, Reason, ReceiptError
from receiptledger.core.leaf import HeadLeaf, KeyLeaf, parse_leaf
from receiptledger.core.merkle import hash_leaf, verify_consistency, verify_inclusion
from receiptledger.core.note import split_note
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import Receipt, readings, verify_signature
from receiptledger.core.segment import verify_member
from receiptledger.core.verdict import Check, Status, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.note import VerifierKey

__all__ = ["POLICIES", "Trust", "verify_bundle"]

# What this verifier cannot decide is unknown: an older one than the ledger, or another algorithm.
_UNDECIDABLE = (Reason.UNSUPPORTED_ALGORITHM, Reason.UNKNOWN_PROFILE)

POLICIES = ("agent-key", "anchor", "completeness", "remembered")


@dataclass(frozen=True, slots=True)
class Trust:
    """What the auditor believes, from the auditor's own hands.

    Attributes:
        log_keys: verification keys of logs; the checkpoint must be signed by one of them.
        agent_keys: agent id -> public keys that agent is known to use. An agent that is not listed
            is not known; one that is listed may use these keys and no others.
        remembered: a checkpoint verified earlier; the bundle's must extend it.
        require: what the bundle must show to be more than just valid; names from `POLICIES`.
    """

    log_keys: tuple[VerifierKey, ...]
    agent_keys: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    remembered: Checkpoint | None = None
    require: frozenset[str] = frozenset()


def verify_bundle(data: bytes, trust: Trust, profiles: Profiles | None = None) -> Verdict:
    """Check every claim of a bundle. Never raises for bad input, never touches the network.

    Args:
        data: the bundle file's bytes.
        trust: the auditor's keys and demands.
        profiles: receipt formats; the built-in ones by default.
    """
    verdict = Verdict()
    try:
        bundle = parse_bundle(data)
    except EvidenceError as error:
        verdict.readable = False
        verdict.checks.append(Check("parse", Status.FAIL, str(error), error.reason))
        return verdict
    _Verification(bundle, trust, profiles or Profiles.builtin(), verdict).run()
    return verdict


class _Missing(Exception):  # noqa: N818 - a signal between checks, not an error
    """A check needs a part that an earlier check found unreadable."""


class _Verification:
    """One run over one bundle; holds what earlier checks established."""

    def __init__(self, bundle: Bundle, trust: Trust, profiles: Profiles, verdict: Verdict) -> None:
        self.bundle = bundle
        self.trust = trust
        self.profiles = profiles
        self.verdict = verdict
        self.receipt: Receipt | None = None
        self.head: HeadLeaf | None = None
        self.key: KeyLeaf | None = None
        self.checkpoint: Checkpoint | None = None

    def run(self) -> None:
        """All checks, in order; the checkpoint is opened first since the paths lead to it."""
        checkpoint = self._attempt("checkpoint signature", self._check_checkpoint)
        self._add("parse", self._check_parse)
        self._add("signature", self._check_signature)
        self._add("key at position", self._check_key)
        self._add("chain links", self._check_links)
        self._add("segment inclusion", self._check_segment)
        self._add("log inclusion", self._check_log)
        self.verdict.checks.append(checkpoint)
        self._add("consistency", self._check_consistency)
        self._add("timestamps", self._check_timestamps)
        self._add("completeness", self._check_completeness)
        self._add("unsigned members", self._check_unsigned)
        self._facts()
        self._policy()

    def _add(self, name: str, check: Callable[[], Check | str]) -> None:
        self.verdict.checks.append(self._attempt(name, check))

    @staticmethod
    def _attempt(name: str, check: Callable[[], Check | str]) -> Check:
        try:
            result = check()
        except _Missing as missing:
            return Check(name, Status.NOT_CHECKED, str(missing))
        except LedgerError as error:
            # What this verifier cannot decide is unknown, never a pass and never a fail.
            status = Status.UNKNOWN if error.reason in _UNDECIDABLE else Status.FAIL
            return Check(name, status, str(error), error.reason)
        return result if isinstance(result, Check) else Check(name, Status.PASS, result)

    # The checks, in the order they are reported.

    def _check_parse(self) -> str:
        head = parse_leaf(self.bundle.head.leaf)
        if not isinstance(head, HeadLeaf):
            raise EvidenceError(Reason.BAD_LEAF, "the head leaf is of another kind", want="head")
        key = parse_leaf(self.bundle.key.leaf)
        if not isinstance(key, KeyLeaf):
            raise EvidenceError(Reason.BAD_LEAF, "the key leaf is of another kind", want="key")
        self.head, self.key = head, key
        self.receipt = self._read(self.bundle.receipt.raw)
        return f"one receipt of format {head.profile} version {head.profile_version}"

    def _read(self, raw: bytes) -> Receipt:
        """Read a receipt by the profile its head leaf commits to, never by what the receipt says."""
        head = self._need_head()
        receipt = next(readings(raw, self.profiles, profile=head.profile))
        if receipt.profile_version != head.profile_version:
            raise ReceiptError(
                Reason.UNKNOWN_PROFILE,
                "the receipt was sealed under another version of its format; get a newer verifier",
                want=f"{head.profile} version {head.profile_version}",
                got=f"version {receipt.profile_version}",
            )
        return receipt

    def _check_signature(self) -> str:
        key, receipt = self._need_key(), self._need_receipt()
        verify_signature(receipt, key.key)
        return f"Ed25519 holds under {base64url_encode(key.key)}"

    def _check_key(self) -> str:
        head, key, receipt = self._need_head(), self._need_key(), self._need_receipt()
        if not receipt.chain == key.chain == head.chain:
            raise EvidenceError(
                Reason.WRONG_KEY,
                "receipt, key leaf and head leaf are not of one chain",
                want=digest_text(receipt.chain),
                got=f"key leaf {digest_text(key.chain)}, head leaf {digest_text(head.chain)}",
            )
        if key.since > self.bundle.position:
            raise EvidenceError(
                Reason.WRONG_KEY,
                "the key is allowed only from a later position",
                want=f"at most {self.bundle.position}",
                got=str(key.since),
            )
        # Trust at a position is decided by leaf order, never by clocks.
        if self.bundle.key.index >= self.bundle.head.index:
            raise EvidenceError(
                Reason.WRONG_KEY,
                "the key leaf does not stand before the head leaf",
                want=f"an index below {self.bundle.head.index}",
                got=str(self.bundle.key.index),
            )
        self._include("key leaf", self.bundle.key)
        known = self.trust.agent_keys.get(receipt.agent)
        if known is None:
            return (
                f"logged as {key.mode} at leaf {self.bundle.key.index}; no key of this agent given"
            )
        if key.key not in known:
            raise EvidenceError(
                Reason.WRONG_KEY,
                "the chain's key is none of those you trust for this agent",
                want=", ".join(base64url_encode(k) for k in known),
                got=base64url_encode(key.key),
            )
        return f"logged as {key.mode} at leaf {self.bundle.key.index}, and one you trust"

    def _check_links(self) -> Check | str:
        head, receipt = self._need_head(), self._need_receipt()
        position = self.bundle.position
        if not head.first <= position <= head.last:
            raise EvidenceError(
                Reason.BROKEN_LINK,
                "the position is outside its segment",
                want=f"{head.first}..{head.last}",
                got=str(position),
            )
        if position == head.last and receipt.link_hash != head.head:
            raise _link("the head leaf", head.head, receipt.link_hash)
        if position == head.first:
            if self.bundle.previous is not None:
                raise EvidenceError(Reason.BAD_BUNDLE, "a segment's first receipt has no previous")
            if receipt.previous != head.prev:
                raise _link("the receipt before", head.prev, receipt.previous)
            return "links to what the head leaf names before the segment"
        if self.bundle.previous is None:
            # Left unchecked, the inside of a segment could show anything: never a pass.
            return Check("chain links", Status.UNKNOWN, "the receipt before is not in this bundle")
        before = self._read(self.bundle.previous.raw)
        if before.chain != receipt.chain:
            raise EvidenceError(Reason.BROKEN_LINK, "the receipt before is of another chain")
        if receipt.previous != before.link_hash:
            raise _link("the receipt before", before.link_hash, receipt.previous)
        if receipt.sequence is not None and before.sequence is not None:
            expected = before.sequence + receipt.sequence_step
            if receipt.sequence != expected:
                raise EvidenceError(
                    Reason.WRONG_SEQUENCE,
                    "the format's own number does not advance",
                    want=str(expected),
                    got=str(receipt.sequence),
                )
        return f"links to the receipt at position {position - 1}"

    def _check_segment(self) -> str:
        head, bundle = self._need_head(), self.bundle
        index = bundle.position - head.first
        member = bundle.receipt
        verify_member(member.raw, index, head.count, member.proof, head.segment)
        if bundle.previous is not None:
            before = bundle.previous
            verify_member(before.raw, index - 1, head.count, before.proof, head.segment)
        return f"receipt {index + 1} of {head.count} of its segment"

    def _check_log(self) -> str:
        self._include("head leaf", self.bundle.head)
        size = self._need_checkpoint().size
        return f"head leaf {self.bundle.head.index} of {size}"

    def _include(self, name: str, leaf: LeafProof) -> None:
        checkpoint = self._need_checkpoint()
        try:
            verify_inclusion(
                hash_leaf(leaf.leaf), leaf.index, checkpoint.size, leaf.proof, checkpoint.root
            )
        except EvidenceError as error:
            message = f"{name}: {error.message}"
            raise EvidenceError(error.reason, message, want=error.want, got=error.got) from None

    def _check_checkpoint(self) -> str:
        note = self.bundle.checkpoint
        origin = split_note(note)[0].split(b"\n", 1)[0].decode("utf-8", "replace")
        named = [key for key in self.trust.log_keys if key.name == origin]
        if not named:
            raise EvidenceError(
                Reason.WRONG_LOG,
                "the checkpoint is of a log whose key you did not give",
                want=", ".join(key.name for key in self.trust.log_keys) or "a log key",
                got=origin,
            )
        failure: EvidenceError | None = None
        for key in named:
            try:
                self.checkpoint = open_checkpoint(note, key)
            except EvidenceError as error:
                failure = error
            else:
                return f"{origin}, {self.checkpoint.size} leaves"
        assert failure is not None  # noqa: S101 - `named` is not empty
        raise failure

    def _check_consistency(self) -> Check | str:
        old, new = self.trust.remembered, self._need_checkpoint()
        if old is None:
            return Check("consistency", Status.NOT_CHECKED, "no earlier checkpoint given")
        if old.origin != new.origin:
            raise EvidenceError(
                Reason.WRONG_LOG,
                "the remembered checkpoint is of another log",
                want=old.origin,
                got=new.origin,
            )
        if old.size == new.size:
            if old.root != new.root:
                raise EvidenceError(
                    Reason.INCONSISTENT,
                    "two signed roots for one size: keep both notes as evidence",
                    want=digest_text(old.root),
                    got=digest_text(new.root),
                )
            return "the same checkpoint as the remembered one"
        if old.size == 0:  # no such proof exists (RFC 6962 section 2.1.2), and none is needed
            return "the remembered checkpoint is of the empty log, which every log extends"
        shown = self.bundle.consistency
        if shown is None or shown.size != old.size:
            return Check(
                "consistency",
                Status.UNKNOWN,
                f"no consistency proof from the remembered size {old.size}; fetch the bundle again "
                "with that checkpoint given",
            )
        verify_consistency(old.size, new.size, shown.proof, old.root, new.root)
        return f"extends the remembered checkpoint of {old.size} leaves"

    def _check_timestamps(self) -> Check:
        return Check(
            "timestamps", Status.NOT_CHECKED, "no timestamp tokens in this bundle: no proof of time"
        )

    def _check_completeness(self) -> Check:
        return Check(
            "completeness",
            Status.NOT_CHECKED,
            "a bundle of one receipt: integrity and place only, not that these are all receipts",
        )

    def _check_unsigned(self) -> str:
        unsigned = self._need_receipt().unsigned
        if not unsigned:
            return "every member is covered by the signature"
        return "not covered by the signature: " + ", ".join(unsigned)

    # What follows from the checks.

    def _facts(self) -> None:
        facts: dict[str, str | int | None] = {"position": self.bundle.position}
        if self.receipt is not None:
            facts |= {
                "agent": self.receipt.agent,
                "stream": self.receipt.stream,
                "receipt_hash": digest_text(self.receipt.receipt_hash),
                "claimed_time": self.receipt.time,
            }
        if self.head is not None:
            facts |= {
                "chain": digest_text(self.head.chain),
                "profile": self.head.profile,
                "profile_version": self.head.profile_version,
                "leaf_index": self.bundle.head.index,
            }
        if self.checkpoint is not None:
            facts |= {
                "log": self.checkpoint.origin,
                "tree_size": self.checkpoint.size,
                "root": digest_text(self.checkpoint.root),
            }
        sealed = {"segment inclusion", "log inclusion", "checkpoint signature"}
        shown = {check.name for check in self.verdict.checks if check.status is Status.PASS}
        facts["state"] = "sealed" if sealed <= shown else None
        self.verdict.facts = facts

    def _policy(self) -> None:
        shown = {check.name: check.status for check in self.verdict.checks}
        lacking = {
            "anchor": shown["timestamps"] is not Status.PASS,
            "completeness": shown["completeness"] is not Status.PASS,
            "remembered": shown["consistency"] is not Status.PASS,
            "agent-key": self.receipt is None or self.receipt.agent not in self.trust.agent_keys,
        }
        self.verdict.lacking = [
            name for name in POLICIES if name in self.trust.require and lacking[name]
        ]

    def _need_receipt(self) -> Receipt:
        if self.receipt is None:
            raise _Missing("the receipt cannot be read")
        return self.receipt

    def _need_head(self) -> HeadLeaf:
        if self.head is None:
            raise _Missing("the leaves cannot be read")
        return self.head

    def _need_key(self) -> KeyLeaf:
        if self.key is None:
            raise _Missing("the leaves cannot be read")
        return self.key

    def _need_checkpoint(self) -> Checkpoint:
        if self.checkpoint is None:
            raise _Missing("the checkpoint is not trusted")
        return self.checkpoint


def _link(what: str, want: bytes | None, got: bytes | None) -> EvidenceError:
    return EvidenceError(
        Reason.BROKEN_LINK,
        f"the previous hash is not that of {what}",
        want="none" if want is None else digest_text(want),
        got="none" if got is None else digest_text(got),
    )
