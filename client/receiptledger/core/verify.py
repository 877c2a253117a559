"""Offline verification of a bundle against what the auditor brings.

The order of the checks is DESIGN's: parse, signature, key at position, chain links, segment inclusion,
log inclusion, checkpoint signature, consistency with a remembered checkpoint, timestamps,
completeness, unsigned members. Each check uses only what is signed or hashed into the checkpoint, or
what the auditor's :class:`Trust` says. A check that cannot run because an earlier part is unreadable
is reported as not checked, with the reason; nothing is skipped silently.

The checks themselves are in `verify_checks` and `anchors`; here is when each of them runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from receiptledger.core.anchors import Anchoring, judge_anchors
from receiptledger.core.bundle import Bundle, parse_bundle
from receiptledger.core.diagnosis import diagnose_link, diagnose_signature, explained
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError, LedgerError, Reason, ReceiptError
from receiptledger.core.leaf import HeadLeaf, KeyLeaf, parse_leaf
from receiptledger.core.profile import Profiles
from receiptledger.core.public_key import format_public_key
from receiptledger.core.receipt import Receipt, verify_signature
from receiptledger.core.spelling import flagged
from receiptledger.core.trust import POLICIES, Trust
from receiptledger.core.verdict import Check, Status, Verdict
from receiptledger.core.verify_checks import (
    check_agent_key,
    check_consistency,
    check_key_place,
    check_links,
    check_segment,
    include,
    open_trusted,
    read_receipt,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.checkpoint import Checkpoint

__all__ = ["POLICIES", "Trust", "verify_bundle"]

# What this verifier cannot decide is unknown: an older one than the ledger, or another algorithm.
_UNDECIDABLE = (Reason.UNSUPPORTED_ALGORITHM, Reason.UNKNOWN_PROFILE)


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
        self.anchoring: Anchoring | None = None

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
        self.receipt = read_receipt(self.bundle.receipt.raw, head, self.profiles)
        return f"one receipt of format {head.profile} version {head.profile_version}"

    def _check_signature(self) -> str:
        key, receipt = self._need_key(), self._need_receipt()
        try:
            verify_signature(receipt, key.key)
        except ReceiptError as error:
            if error.reason is not Reason.BAD_SIGNATURE:
                raise
            rule = diagnose_signature(receipt.raw, [key.key], self.profiles, receipt)
            raise explained(error, rule) from None
        # A cosigner's key is known to nobody here: its signature was held against the key it names.
        others = [f"; {one.name}: against no key of yours" for one in receipt.cosignatures]
        return f"{receipt.algorithm} holds under {format_public_key(key.key)}" + "".join(others)

    def _check_key(self) -> str:
        head, key, receipt = self._need_head(), self._need_key(), self._need_receipt()
        check_key_place(self.bundle, head, key, receipt)
        include("key leaf", self.bundle.key, self._need_checkpoint())
        known = self.trust.agent_keys.get(receipt.agent)
        return check_agent_key(key, self.bundle.key.index, known)

    def _check_links(self) -> Check | str:
        head, receipt = self._need_head(), self._need_receipt()
        try:
            return check_links(self.bundle, head, receipt, self.profiles)
        except EvidenceError as error:
            raise explained(error, self._diagnose_link(error, head, receipt)) from None

    def _diagnose_link(self, error: EvidenceError, head: HeadLeaf, receipt: Receipt) -> str | None:
        """Which rule the receipt links by instead, when the link is what failed."""
        previous = self.bundle.previous
        if error.reason is not Reason.BROKEN_LINK or previous is None:
            return None
        try:
            before = read_receipt(previous.raw, head, self.profiles)
        except LedgerError:
            return None
        return diagnose_link(receipt.raw, receipt, before, self.profiles)

    def _check_segment(self) -> str:
        return check_segment(self.bundle, self._need_head())

    def _check_log(self) -> str:
        checkpoint = self._need_checkpoint()
        include("head leaf", self.bundle.head, checkpoint)
        return f"head leaf {self.bundle.head.index} of {checkpoint.size}"

    def _check_checkpoint(self) -> str:
        self.checkpoint = open_trusted(self.bundle.checkpoint, self.trust.log_keys)
        return f"{self.checkpoint.origin}, {self.checkpoint.size} leaves"

    def _check_consistency(self) -> Check | str:
        old, new = self.trust.remembered, self._need_checkpoint()
        if old is None:
            return Check("consistency", Status.NOT_CHECKED, "no earlier checkpoint given")
        return check_consistency(self.bundle, old, new)

    def _check_timestamps(self) -> Check:
        claimed = None if self.receipt is None else self.receipt.time
        checkpoint = self._need_checkpoint()
        self.anchoring = judge_anchors(self.bundle, checkpoint, self.trust, claimed)
        return self.anchoring.check

    def _check_completeness(self) -> Check:
        return Check(
            "completeness",
            Status.NOT_CHECKED,
            "a bundle of one receipt: integrity and place only, not that these are all receipts",
        )

    def _check_unsigned(self) -> str:
        receipt = self._need_receipt()
        words = "every member is covered by the signature"
        if receipt.unsigned:
            words = "not covered by the signature: " + ", ".join(receipt.unsigned)
        odd = flagged(receipt, self.profiles)
        return f"{words}; read differently by some parsers: {'; '.join(odd)}" if odd else words

    # What follows from the checks.

    def _facts(self) -> None:
        facts: dict[str, Any] = {"position": self.bundle.position}
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
        shown = {check.name for check in self.verdict.checks if check.status is Status.PASS}
        facts["state"] = self._state(shown)
        if self.anchoring is not None:
            # Times are of the head leaf: without it in the log they say nothing about the receipt.
            facts |= self.anchoring.facts(shown=facts["state"] is not None)
        self.verdict.facts, self.verdict.anchoring = facts, self.anchoring

    @staticmethod
    def _state(shown: set[str]) -> str | None:
        """How far the receipt has come, of what the checks that passed show."""
        if not {"segment inclusion", "log inclusion", "checkpoint signature"} <= shown:
            return None
        return "anchored" if "timestamps" in shown else "sealed"

    def _policy(self) -> None:
        shown = {check.name: check.status for check in self.verdict.checks}
        lacking = {
            "anchor": shown["timestamps"] is not Status.PASS,
            "claimed-time": self.anchoring is None or self.anchoring.claim_fits is not True,
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
