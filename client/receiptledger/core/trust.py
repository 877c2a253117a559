"""What an auditor believes: the keys, authorities and demands that a bundle is held against.

Everything here comes from the auditor's own hands, never from a bundle: above all the roots of the
timestamp authorities, since a token brings the certificates of whoever made it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.note import VerifierKey
    from receiptledger.core.timestamp import TsaTrust

__all__ = ["MAX_TSAS", "POLICIES", "Trust"]

MAX_TSAS = 32  # authorities: every token is held against each of them
POLICIES = ("agent-key", "anchor", "claimed-time", "completeness", "remembered")


@dataclass(frozen=True, slots=True)
class Trust:
    """What the auditor believes, from the auditor's own hands.

    Attributes:
        log_keys: verification keys of logs; the checkpoint must be signed by one of them.
        agent_keys: agent id -> public keys that agent is known to use. An agent that is not listed
            is not known; one that is listed may use these keys and no others.
        remembered: a checkpoint verified earlier; the bundle's must extend it.
        require: what the bundle must show to be more than just valid; names from `POLICIES`.
        tsas: timestamp authorities to believe, each with its own roots. A token must satisfy one of
            them entirely.
        tsa_quorum: how many different operators of authorities (`TsaTrust.authority`) must agree on
            a bound in time, at least 1.
        moment: when the evidence is judged, aware: a token whose certificates have expired by then
            must have been renewed. None leaves expiry out.

    Raises:
        ValueError: a quorum below 1, or a moment without its offset from UTC.
    """

    log_keys: tuple[VerifierKey, ...]
    agent_keys: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    remembered: Checkpoint | None = None
    require: frozenset[str] = frozenset()
    tsas: tuple[TsaTrust, ...] = ()
    tsa_quorum: int = 1
    moment: datetime | None = None

    def __post_init__(self) -> None:
        if self.tsa_quorum < 1:
            raise ValueError(f"tsa_quorum is at least 1, got {self.tsa_quorum}")
        if self.moment is not None and self.moment.tzinfo is None:
            raise ValueError("moment has no offset from UTC")
