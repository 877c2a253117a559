"""One anchored checkpoint of a bundle, and one stamp over it: what each of them shows by itself.

Order of the checks, shape before hashes before signatures:

1. The note is a checkpoint of the bundle's own log, signed by a log key the auditor trusts, and the
   bundle's checkpoint extends it.
2. The anchor leaf is in the log and names this checkpoint (size and root) and this very response.
3. Evidence, where shown: its leaf is in the log and names the same, and the manifest of these parts.
   What it says counts for every stamp of the same certificates (`anchor_evidence`).
4. The request asks for exactly this note.
5. The response answers it and satisfies one of the auditor's authorities entirely. Authorities are
   tried one by one and never pooled; the first that accepts is the one the stamp counts for, so one
   token never counts twice.

A stamp that no authority of the auditor accepts is told apart: `NOT_TRUSTED` when only the auditor's
own choice stands against it (no path to a root, a pin, a policy, a window), `VOID` when its
certificate was revoked, `BAD` when it does not hold whoever is trusted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from receiptledger.core.anchor_evidence import SharedEvidence
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError, LedgerError, Reason
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from receiptledger.core.merkle import verify_consistency
from receiptledger.core.revocation import GOOD_REVOKED_LATER
from receiptledger.core.timestamp import (
    NO_EVIDENCE,
    Cause,
    RevocationEvidence,
    Timestamp,
    TimestampError,
    TsaTrust,
    verify_response,
)
from receiptledger.core.timestamp_request import TimestampRequest, parse_request
from receiptledger.core.verify_checks import include, open_trusted

if TYPE_CHECKING:
    from datetime import datetime

    from receiptledger.core.bundle import AnchoredCheckpoint, AnchorEvidence, AnchorStamp, LeafProof
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.note import VerifierKey

__all__ = ["Outcome", "Stamp", "judge_stamp", "logged_evidence", "open_anchored", "unplaced"]

# What only the auditor's own choice of authorities says: another auditor may trust such a token.
_NOT_TRUSTED: Final = frozenset(
    {
        Cause.CHAIN,
        Cause.NO_SIGNER_CERTIFICATE,
        Cause.POLICY,
        Cause.TRUST_WINDOW,
        Cause.TSA_PIN,
        Cause.UNKNOWN_TSA,
    }
)


@unique
class Outcome(StrEnum):
    """What a stamp is worth."""

    HOLDS = "holds"
    RENEWED = "renewed"  # too old to hold by itself; later stamps that hold cover it in time
    EXPIRED = "expired, not renewed"
    FUTURE = "from the future"  # of the moment of judging
    NOT_TRUSTED = "not trusted"  # by no authority the auditor named
    VOID = "revoked"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Stamp:
    """One stamp of a bundle, judged.

    Attributes:
        note: the stamped checkpoint, as in the bundle.
        request: the RFC 3161 query.
        response: its answer.
        size: leaves of the stamped checkpoint; None when that cannot be trusted.
        index: of the anchor leaf that logs the answer.
        logged_as: the authority as the log's operator calls it; None when the leaf is unreadable.
        outcome: what it is worth; HOLDS until time is considered.
        tsa: the auditor's authority that accepts it, or None.
        timestamp: what that one verified, or None.
        error: why it is not accepted, or None.
        compromised: certificates of its path, DER, that void all their tokens whenever they were made.
    """

    note: bytes
    request: bytes
    response: bytes
    size: int | None
    index: int
    logged_as: str | None
    outcome: Outcome
    tsa: TsaTrust | None = None
    timestamp: Timestamp | None = None
    error: LedgerError | None = None
    compromised: tuple[bytes, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """The cause of a refused token; None for an accepted one, and when a leaf or proof is bad."""
        return self.error.cause if isinstance(self.error, TimestampError) else None


def open_anchored(
    anchor: AnchoredCheckpoint,
    newest: Checkpoint,
    keys: tuple[VerifierKey, ...],
    after: int,
) -> Checkpoint:
    """The stamped checkpoint, verified to be an earlier state of the bundle's own log.

    Args:
        anchor: as in the bundle.
        newest: the bundle's checkpoint, verified.
        keys: the auditor's log keys.
        after: size of the anchored checkpoint before it in the bundle, -1 for none: each is larger.

    Raises:
        EvidenceError: with the reason of the first check that fails.
    """
    old = open_trusted(anchor.note, keys)
    if old.origin != newest.origin:
        raise EvidenceError(
            Reason.WRONG_LOG, "of another log than the bundle", want=newest.origin, got=old.origin
        )
    if not after < old.size <= newest.size:
        raise EvidenceError(
            Reason.BAD_BUNDLE,
            "anchored checkpoints do not ascend to the bundle's own",
            want=f"a size of {after + 1}..{newest.size}",
            got=str(old.size),
        )
    if old.size == 0:  # no consistency proof exists (RFC 6962 section 2.1.2), and none is needed
        if anchor.consistency:
            raise EvidenceError(Reason.BAD_PROOF, "a consistency proof from the empty log")
        return old
    verify_consistency(old.size, newest.size, anchor.consistency, old.root, newest.root)
    return old


def unplaced(stamp: AnchorStamp, note: bytes, error: LedgerError) -> Stamp:
    """A stamp over what is no earlier checkpoint of this log, for a reason."""
    return Stamp(
        note=note,
        request=stamp.request,
        response=stamp.response,
        size=None,
        index=stamp.leaf.index,
        logged_as=None,
        outcome=Outcome.BAD,
        error=error,
    )


def logged_evidence(
    stamp: AnchorStamp, anchored: Checkpoint, newest: Checkpoint
) -> RevocationEvidence:
    """The evidence beside a stamp, when it is what the log committed to for this very stamp.

    Raises:
        EvidenceError: with the reason of the first check that fails.
    """
    leaf = _logged("anchor leaf", stamp.leaf, newest)
    _check_leaf(leaf, anchored, stamp.response)
    return _evidence(stamp.evidence, leaf, newest)


def judge_stamp(
    stamp: AnchorStamp,
    note: bytes,
    anchored: Checkpoint,
    newest: Checkpoint,
    tsas: tuple[TsaTrust, ...],
    shared: SharedEvidence | None = None,
) -> Stamp:
    """What a stamp over a verified checkpoint shows by itself; time and quorum are for later.

    Args:
        stamp: as in the bundle.
        note: the stamped bytes.
        anchored: the checkpoint in them, verified.
        newest: the bundle's checkpoint, verified.
        tsas: the auditor's authorities.
        shared: all evidence of the bundle; None for the stamp's own alone.
    """
    logged_as: str | None = None
    verified, outcome = _Verified(), Outcome.BAD
    failure: EvidenceError | None
    try:
        leaf = _logged("anchor leaf", stamp.leaf, newest)
        logged_as = leaf.tsa
        _check_leaf(leaf, anchored, stamp.response)
        evidence = _evidence(stamp.evidence, leaf, newest)
        request = _request(stamp.request, note)
        if shared is None:
            shared = SharedEvidence((evidence,))
        verified = _accepting(stamp.response, note, request, evidence, shared, tsas)
        failure = verified.refusal
        outcome = Outcome.HOLDS if verified.refusal is None else _outcome_of(verified.refusal)
    except EvidenceError as error:
        failure = error
    return Stamp(
        note=note,
        request=stamp.request,
        response=stamp.response,
        size=anchored.size,
        index=stamp.leaf.index,
        logged_as=logged_as,
        outcome=outcome,
        tsa=verified.tsa,
        timestamp=verified.timestamp,
        error=failure,
        compromised=verified.compromised,
    )


def _logged(name: str, proof: LeafProof, newest: Checkpoint) -> AnchorLeaf:
    leaf = parse_leaf(proof.leaf)
    if not isinstance(leaf, AnchorLeaf):
        raise EvidenceError(Reason.BAD_LEAF, f"{name}: of another kind", want="anchor")
    include(name, proof, newest)
    return leaf


def _check_leaf(leaf: AnchorLeaf, anchored: Checkpoint, response: bytes) -> None:
    if (leaf.size, leaf.root) != (anchored.size, anchored.root):
        raise _bad_leaf(
            "anchor leaf: of another checkpoint",
            f"size {anchored.size}, root {digest_text(anchored.root)}",
            f"size {leaf.size}, root {digest_text(leaf.root)}",
        )
    digest = hashlib.sha256(response).digest()
    if leaf.response != digest:
        raise _bad_leaf(
            "anchor leaf: of another response", digest_text(digest), digest_text(leaf.response)
        )


def _evidence(
    shown: AnchorEvidence | None, leaf: AnchorLeaf, newest: Checkpoint
) -> RevocationEvidence:
    """The evidence, when it is the one that was logged for this very stamp."""
    if shown is None:
        return NO_EVIDENCE
    logged = _logged("evidence leaf", shown.leaf, newest)
    if (logged.size, logged.root, logged.tsa, logged.response) != (
        leaf.size,
        leaf.root,
        leaf.tsa,
        leaf.response,
    ):
        raise _bad_leaf(
            "evidence leaf: of another stamp",
            f"size {leaf.size}, {leaf.tsa}, response {digest_text(leaf.response)}",
            f"size {logged.size}, {logged.tsa}, response {digest_text(logged.response)}",
        )
    evidence = RevocationEvidence(shown.crls, shown.ocsps)
    digest = hashlib.sha256(evidence.manifest()).digest()
    if logged.evidence != digest:
        raise _bad_leaf(
            "evidence leaf: of other evidence",
            digest_text(digest),
            "none" if logged.evidence is None else digest_text(logged.evidence),
        )
    return evidence


def _request(data: bytes, note: bytes) -> TimestampRequest:
    """The query, when it asks for this note. Nobody signs it: it only adds a nonce and a policy."""
    request = parse_request(data)
    digest = hashlib.new(request.hash_algorithm, note).digest()
    if request.imprint != digest:
        raise TimestampError(
            Cause.IMPRINT,
            "the request asks for another message",
            want=digest.hex(),
            got=request.imprint.hex(),
        )
    return request


@dataclass(frozen=True, slots=True)
class _Verified:
    """Who accepts a token, or why nobody does."""

    tsa: TsaTrust | None = None
    timestamp: Timestamp | None = None
    refusal: TimestampError | None = None
    compromised: tuple[bytes, ...] = ()


def _accepting(
    response: bytes,
    note: bytes,
    request: TimestampRequest,
    evidence: RevocationEvidence,
    shared: SharedEvidence,
    tsas: tuple[TsaTrust, ...],
) -> _Verified:
    """The first authority that accepts the response, or the gravest reason why none does."""
    failure = TimestampError(Cause.UNKNOWN_TSA, "no timestamp authority was given")
    compromised: tuple[bytes, ...] = ()
    for at, tsa in enumerate(tsas):
        try:
            timestamp = verify_response(response, note, tsa, nonce=request.nonce)
            _check_asked(timestamp, request)
            _bounds_exist(timestamp)
            # Before it can be refused as revoked: the refusal does not tell the path.
            compromised += shared.compromised(timestamp.path)
            state = shared.state(timestamp.path, evidence, timestamp.gen_time)
        except TimestampError as error:
            if at == 0 or _gravity(error) > _gravity(failure):
                failure = error
        else:
            return _Verified(tsa, _with_revocation(timestamp, state))
    return _Verified(refusal=failure, compromised=compromised)


def _with_revocation(timestamp: Timestamp, state: str) -> Timestamp:
    """As verified together with the evidence that says this."""
    more = ("revoked_later",) if state == GOOD_REVOKED_LATER else ()
    return replace(timestamp, revocation=state, warnings=(*timestamp.warnings, *more))


def _check_asked(timestamp: Timestamp, request: TimestampRequest) -> None:
    """RFC 3161 section 2.4.2: the policy and the hash are those that were asked for."""
    if request.policy is not None and timestamp.policy != request.policy:
        raise TimestampError(
            Cause.POLICY,
            "issued under another policy than asked for",
            want=request.policy,
            got=timestamp.policy,
        )
    if timestamp.hash_algorithm != request.hash_algorithm:
        raise TimestampError(
            Cause.IMPRINT,
            "the imprint is of another hash than asked for",
            want=request.hash_algorithm,
            got=timestamp.hash_algorithm,
        )


def _bounds_exist(timestamp: Timestamp) -> tuple[datetime, datetime]:
    """Both ends of the interval, which a time at the end of the calendar does not have."""
    try:
        return timestamp.earliest, timestamp.latest
    except OverflowError:
        raise TimestampError(
            Cause.GEN_TIME, "genTime is at the end of the calendar", got=str(timestamp.gen_time)
        ) from None


def _outcome_of(error: TimestampError) -> Outcome:
    if error.cause is Cause.REVOKED:
        return Outcome.VOID
    return Outcome.NOT_TRUSTED if error.cause in _NOT_TRUSTED else Outcome.BAD


def _gravity(error: TimestampError) -> int:
    """Bad above void above not trusted: what is known to be wrong is not hidden by who is unknown."""
    return (Outcome.NOT_TRUSTED, Outcome.VOID, Outcome.BAD).index(_outcome_of(error))


def _bad_leaf(message: str, want: str, got: str) -> EvidenceError:
    return EvidenceError(Reason.BAD_LEAF, message, want=want, got=got)
