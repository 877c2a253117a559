"""A log with timestamps: receipts between two rounds of stamps, and an auditor who knows the authorities.

Leaf 0 is the agent's key. The checkpoint of size 1 is stamped at `BEFORE`, its anchor leaves follow. Then
the receipts' head leaf, and a checkpoint that covers it, stamped at `AFTER`; its anchor leaves end the log.
Everything is made here from fixed seeds; what a test wants wrong it changes in the parts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from receiptledger.core.bundle import (
    AnchoredCheckpoint,
    AnchorEvidence,
    AnchorStamp,
    Bundle,
)
from receiptledger.core.leaf import AnchorLeaf
from receiptledger.core.trust import Trust
from receiptledger.core.verify import verify_bundle
from tests.helpers.authority import Authority
from tests.helpers.mini_log import AGENT, RAWS, MiniLog

if TYPE_CHECKING:
    from receiptledger.core.revocation import RevocationEvidence
    from receiptledger.core.verdict import Check, Verdict

__all__ = ["AFTER", "ALPHA", "BEFORE", "BETA", "AnchoredWorld", "Logged", "timestamps"]

BEFORE = datetime(2026, 11, 30, 9, 50, tzinfo=UTC)
AFTER = datetime(2026, 11, 30, 10, 10, tzinfo=UTC)  # the receipts claim 10:00:00
ALPHA, BETA = Authority("alpha"), Authority("beta")


@dataclass
class Logged:
    """One stamp and its place in the log."""

    size: int
    note: bytes
    request: bytes
    response: bytes
    index: int
    tsa: str
    evidence: tuple[RevocationEvidence, int] | None = None


@dataclass
class AnchoredWorld:
    """A log under construction; nothing is checked, so that wrong ones can be made too."""

    log: MiniLog = field(default_factory=MiniLog)
    stamps: list[Logged] = field(default_factory=list)

    @classmethod
    def made(cls, *authorities: Authority) -> AnchoredWorld:
        """The world of this module's docstring, stamped by these authorities, both by default."""
        world = cls.empty()
        chosen = authorities or (ALPHA, BETA)
        world.round(BEFORE, *chosen)
        world.seal()
        world.round(AFTER, *chosen)
        return world

    @classmethod
    def empty(cls) -> AnchoredWorld:
        """Only the agent's key."""
        world = cls()
        world.add_key()
        return world

    def add_key(self) -> None:
        """Log the agent's key."""
        self.key = self.log.add_key(AGENT.chain, AGENT.public_key)

    def seal(self) -> None:
        """Log the receipts."""
        self.sealed = self.log.add_segment(RAWS[:5], self.key)

    def round(self, at: datetime, *authorities: Authority, **changes: Any) -> list[Logged]:
        """Stamp the newest checkpoint by each of them, then log the answers."""
        note, size = self.log.note(), len(self.log.leaves)
        made = []
        for authority in authorities:
            request, response = authority.answer(note, at, **changes)
            made.append(self.logged(size, note, request, response, authority.name))
        return made

    def stamp(self, at: datetime, authority: Authority, **changes: Any) -> Logged:
        """A round by one authority."""
        return self.round(at, authority, **changes)[0]

    def logged(
        self,
        size: int,
        note: bytes,
        request: bytes,
        response: bytes,
        tsa: str,
        leaf_members: dict[str, Any] | None = None,
    ) -> Logged:
        """Log one answer, its leaf with members changed."""
        leaf = replace(self.anchor_leaf(size, response, tsa), **(leaf_members or {}))
        stamp = Logged(size, note, request, response, self.log.add(leaf.encode()), tsa)
        self.stamps.append(stamp)
        return stamp

    def anchor_leaf(self, size: int, response: bytes, tsa: str) -> AnchorLeaf:
        """The leaf of an answer."""
        return AnchorLeaf(
            size=size,
            root=self.log.checkpoint(size).root,
            tsa=tsa,
            response=hashlib.sha256(response).digest(),
            evidence=None,
        )

    def add_evidence(
        self,
        stamp: Logged,
        evidence: RevocationEvidence,
        leaf_members: dict[str, Any] | None = None,
    ) -> None:
        """Log revocation evidence of a stamp, its leaf with members changed."""
        digest = hashlib.sha256(evidence.manifest()).digest()
        leaf = self.anchor_leaf(stamp.size, stamp.response, stamp.tsa)
        leaf = replace(leaf, **({"evidence": digest} | (leaf_members or {})))
        stamp.evidence = (evidence, self.log.add(leaf.encode()))

    def anchors(self, *stamps: Logged) -> tuple[AnchoredCheckpoint, ...]:
        """The anchored checkpoints of a bundle at the newest size, with these stamps or all."""
        found: dict[int, list[Logged]] = {}
        for stamp in stamps or self.stamps:
            found.setdefault(stamp.size, []).append(stamp)
        return tuple(
            AnchoredCheckpoint(
                note=of_size[0].note,
                consistency=self.log.consistency(size).proof if size else (),
                stamps=tuple(self.anchor_stamp(stamp) for stamp in of_size),
            )
            for size, of_size in sorted(found.items())
        )

    def anchor_stamp(self, stamp: Logged) -> AnchorStamp:
        """One stamp as a bundle holds it."""
        evidence = None
        if stamp.evidence is not None:
            parts, index = stamp.evidence
            evidence = AnchorEvidence(self.log.leaf(index), parts.crls, parts.ocsps)
        return AnchorStamp(stamp.request, stamp.response, self.log.leaf(stamp.index), evidence)

    def bundle(self, *stamps: Logged, position: int = 2) -> Bundle:
        """The bundle of one receipt, with these stamps or all."""
        bundle = self.log.bundle(self.sealed, position)
        return replace(bundle, anchors=self.anchors(*stamps))

    def trust(self, *authorities: Authority, **changes: Any) -> Trust:
        """An auditor who trusts the log and these authorities, both by default."""
        tsas = tuple(one.trust for one in authorities or (ALPHA, BETA))
        trust = Trust((self.log.signer.verifier,), tsas=tsas)
        return replace(trust, moment=AFTER + timedelta(days=1), **changes)

    def verify(self, bundle: Bundle | None = None, trust: Trust | None = None) -> Verdict:
        """Through the bytes of the file."""
        data = (self.bundle() if bundle is None else bundle).encode()
        return verify_bundle(data, self.trust() if trust is None else trust)


def timestamps(verdict: Verdict) -> Check:
    """The line of the verdict."""
    return next(check for check in verdict.checks if check.name == "timestamps")
