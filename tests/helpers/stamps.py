"""Commits of timestamps for any store, as an anchorer would make them; the tokens are made-up bytes.

What is done with a token's hash is the same for a real one, and these need no authority.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from ledgerd.store.interface import AnchorIntent, AnchorRecord, Changes, Quarantined
from receiptledger.core.evidence_manifest import encode_manifest
from receiptledger.core.tile import Frontier

if TYPE_CHECKING:
    from ledgerd.store.interface import LogState
    from receiptledger.core.tile import TileId

__all__ = ["EPOCH", "intend", "prove", "refuse", "stamp"]

EPOCH = 1_796_000_000_000_000  # microseconds


class _Store(Protocol):
    def log_state(self) -> LogState | None: ...
    def tile(self, tile: TileId) -> bytes: ...
    def anchor(self, number: int) -> AnchorRecord | None: ...
    def next_anchor_number(self) -> int: ...
    def next_quarantine_number(self) -> int: ...


def _size(store: _Store) -> int:
    state = store.log_state()
    assert state is not None
    return state.size


def intend(store: _Store, tsa: str = "tsa-a") -> Changes:
    """Before a request for the newest checkpoint."""
    size = _size(store)
    return Changes(intents=[AnchorIntent(tsa, size, 2**127 + size, EPOCH + size)])


def stamp(
    store: _Store, tsa: str = "tsa-a", *, size: int | None = None, salt: object = ""
) -> Changes:
    """An answer for a checkpoint, the newest by default, under the next number."""
    size = _size(store) if size is None else size
    number = store.next_anchor_number()
    record = AnchorRecord(
        number=number,
        size=size,
        root=Frontier.load(size, store.tile).root(),
        tsa=tsa,
        request=f"request {number} {salt}".encode(),
        response=f"response {number} {tsa} {size} {salt}".encode(),
        gen_time=EPOCH + number,
        stored_at=EPOCH + 2 * number,
    )
    return Changes(anchors=[record], dropped_intents=[tsa])


def prove(record: AnchorRecord, *parts: bytes) -> Changes:
    """Revocation evidence of an anchor; the first part is a CRL, the others OCSP responses."""
    digests = [sha256(part).digest() for part in parts]
    proven = replace(record, evidence=encode_manifest(digests[:1], digests[1:]))
    return Changes(anchors=[proven], blobs=dict(zip(digests, parts, strict=True)))


def refuse(store: _Store, tsa: str = "tsa-a", cause: str = "nonce") -> Changes:
    """An answer that was refused, under the next number."""
    number = store.next_quarantine_number()
    refused = Quarantined(number, tsa, _size(store), cause, b"request", b"answer", EPOCH + number)
    return Changes(quarantined=[refused], dropped_intents=[tsa])
