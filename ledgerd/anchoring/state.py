"""What the anchorer knows of each TSA, and how a start rebuilds it from the store.

Memory is bounded by the number of TSAs: of all the tokens ever stored only the newest of each TSA
matters, and the few whose leaves no later checkpoint covers yet.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog
from cryptography import x509

from ledgerd.anchoring.plan import Live, TsaView
from ledgerd.anchoring.stamp import said
from ledgerd.store.interface import StoreError
from receiptledger.core.leaf import HeadLeaf, parse_leaf
from receiptledger.core.renewal import renew_by
from receiptledger.core.timestamp import NO_EVIDENCE, verify_response
from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_request import parse_request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from ledgerd.anchoring.stamp import Tsa
    from ledgerd.store.interface import AnchorIntent, AnchorRecord, Store
    from receiptledger.core.revocation import RevocationEvidence
    from receiptledger.core.timestamp import Timestamp
    from receiptledger.core.timestamp_cause import Cause

__all__ = ["Restored", "TsaState", "admitted_at", "restore", "verified", "verify_again"]

MAX_LOOKED_BACK: Final = (
    4_096  # records; a TSA not seen for that long counts as one without a token
)
MAX_REFUSED_LOOKED_AT: Final = 64  # refused answers; a minute's worth of many TSAs
MAX_LEAVES_LOOKED_AT: Final = 1_024
_LEAVES_READ: Final = 64

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class TsaState:
    """One TSA; changed on the event loop only.

    Attributes:
        tsa: its configuration.
        view: what the plan looks at.
        gen_time: in its newest token, microseconds since the epoch; None without one.
        failure: cause of the newest failure, None after a success.
        offset: how far its clock was last seen ahead of ours, seconds.
        kept_at: when an answer of it was last kept as evidence, seconds; None for never.
        signer: SHA-256 of the certificate that signed its newest token.
        ends: role -> when that certificate ends, seconds since the epoch.
    """

    tsa: Tsa
    view: TsaView
    gen_time: int | None = None
    failure: Cause | None = None
    offset: float | None = None
    kept_at: float | None = None
    signer: bytes | None = None
    ends: dict[str, float] = field(default_factory=dict)

    def saw(self, timestamp: Timestamp) -> bool:
        """Remember who signed a token; True when that is another certificate than before."""
        signer = hashlib.sha256(timestamp.path[0]).digest()
        changed = self.signer is not None and self.signer != signer
        self.signer = signer
        for role, certificate in zip(("signer", "issuer"), timestamp.path, strict=False):
            loaded = x509.load_der_x509_certificate(certificate)
            self.ends[role] = loaded.not_valid_after_utc.timestamp()
        return changed


@dataclass(slots=True)
class Restored:
    """What a start finds.

    Attributes:
        states: one a configured TSA, in their order.
        lives: anchors that no later anchored checkpoint covers.
        lost: intents without a result.
        quarantined: refused answers kept.
    """

    states: dict[str, TsaState]
    lives: tuple[Live, ...]
    lost: list[AnchorIntent]
    quarantined: int


def restore(
    store: Store, tsas: Sequence[Tsa], margin: timedelta, *, now: float = math.inf
) -> Restored:
    """Read the newest records, back to where every TSA was met and everything older is renewed.

    Args:
        store: the ledger's.
        tsas: the configured ones.
        margin: how long before a token's end it must be renewed.
        now: seconds. What was noted by a clock that ran ahead counts as of now.

    Raises:
        StoreError: it cannot be read.
    """
    states = {tsa.trust.name: TsaState(tsa, _new_view(tsa)) for tsa in tsas}
    lives: list[Live] = []
    missing, largest, end = set(states), 0, store.next_anchor_number()
    for number in range(end - 1, max(end - 1 - MAX_LOOKED_BACK, -1), -1):
        record = store.anchor(number)
        if record is None:  # fsck says so; a start is not the place to refuse service for it
            continue
        largest = max(largest, record.size)
        renewed = record.leaf_index is not None and record.leaf_index < largest
        if renewed and not missing:
            break
        state = states.get(record.tsa)
        newest = record.tsa in missing
        if state is None or (renewed and not newest):
            continue
        timestamp = verified(store, record, state.tsa)
        if timestamp is not None and not renewed:
            due = renew_by(timestamp, margin).timestamp()
            lives.append(Live(number, record.leaf_index, due))
        if newest:
            missing.discard(record.tsa)
            _remember(state, record, timestamp)
    lost = store.intents()
    refused = store.next_quarantine_number()
    # Also across a restart two requests keep their distance, however the last one ended.
    for intent in lost:
        _tried(states.get(intent.tsa), intent.started_at)
    for item in store.quarantined(max(refused - MAX_REFUSED_LOOKED_AT, 0)):
        _tried(states.get(item.tsa), item.refused_at)
    for state in states.values():
        state.view = replace(state.view, tried_at=min(state.view.tried_at, now))
    return Restored(states, tuple(lives), lost, refused)


def _tried(state: TsaState | None, at: int) -> None:
    if state is not None:
        state.view = replace(state.view, tried_at=max(state.view.tried_at, at / 1e6))


def _new_view(tsa: Tsa) -> TsaView:
    return TsaView(tsa.trust.name, tsa.trust.authority)


def _remember(state: TsaState, record: AnchorRecord, timestamp: Timestamp | None) -> None:
    state.view = TsaView(
        state.view.name,
        state.view.authority,
        anchored=record.size,
        stamped_at=record.stored_at / 1e6,
        tried_at=record.stored_at / 1e6,
    )
    state.gen_time = record.gen_time
    if timestamp is not None:
        state.saw(timestamp)


def verify_again(
    store: Store, record: AnchorRecord, tsa: Tsa, *, evidence: RevocationEvidence = NO_EVIDENCE
) -> Timestamp:
    """A stored token, as today's configuration sees it.

    Raises:
        TimestampError: it does not hold. It did when it was stored: the TSA's roots or policies were
            changed since, or the evidence speaks against it.
        StoreError: its checkpoint cannot be read.
    """
    note = store.checkpoint(record.size)
    if note is None:
        raise StoreError(
            f"anchor {record.number} is over a checkpoint that is gone: run ledgerd fsck"
        )
    nonce = parse_request(record.request).nonce
    return verify_response(record.response, note, tsa.trust, nonce=nonce, evidence=evidence)


def verified(store: Store, record: AnchorRecord, tsa: Tsa) -> Timestamp | None:
    """The same for whoever can go on without: None, and a log line, when it does not hold."""
    try:
        return verify_again(store, record, tsa)
    except TimestampError as error:
        _log.warning(
            "a stored token does not hold under the TSA's settings of today",
            anchor=record.number,
            tsa=record.tsa,
            cause=error.cause.value,
            error=said(error),
        )
        return None


def admitted_at(store: Store, first: int, size: int) -> float | None:
    """When the first receipt whose leaf is at or after an index was admitted, seconds; None for none.

    Args:
        store: the ledger's.
        first: leaf index to look from.
        size: leaves of the log.

    Raises:
        StoreError: it cannot be read.
    """
    end = min(size, first + MAX_LEAVES_LOOKED_AT)
    while first < end:
        count = min(_LEAVES_READ, end - first)
        for leaf in store.leaves(first, count):
            parsed = parse_leaf(leaf)
            if isinstance(parsed, HeadLeaf):
                stored = store.receipt(parsed.chain, parsed.first)
                if stored is not None:
                    return stored.admitted_at / 1e6
        first += count
    return None
