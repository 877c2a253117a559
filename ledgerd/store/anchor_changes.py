"""What a commit of timestamps does to the rows of a store.

Anchors are few and change after they were written, so such a commit reads what is there first
(:func:`merge`): a number is never given twice, no record is written over with another one, and nothing
but a seal moves a leaf index.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ledgerd.store import anchor_schema as schema
from ledgerd.store.fields import encode_number
from ledgerd.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ledgerd.store.interface import AnchorRecord, Changes, Quarantined

__all__ = ["check_following", "dropped_keys", "merge", "put_rows", "sealed_rows"]

Row = tuple[bytes, bytes]  # key, value


def merge(
    records: Iterable[AnchorRecord],
    stored: Callable[[int], AnchorRecord | None],
    following: Callable[[], int],
) -> list[AnchorRecord]:
    """What is stored when records are committed: new ones, and old ones that gained evidence.

    Args:
        records: handed in by the caller; their leaf indexes are ignored.
        stored: reads what is there under a number.
        following: reads the number the next new anchor gets.

    Raises:
        StoreError: a number is not the next one, or a record contradicts what is there.
    """
    merged: dict[int, AnchorRecord] = {}
    added = 0
    for record in records:
        former = merged.get(record.number) or stored(record.number)
        if former is None:
            number = following() + added
            if record.number != number:
                raise StoreError(f"anchor {record.number} comes, {number} is next")
            added += 1
            former = replace(record, leaf_index=None, evidence_leaf_index=None)
        evidence = record.evidence if former.evidence is None else former.evidence
        expected = replace(
            record,
            leaf_index=former.leaf_index,
            evidence=evidence,
            evidence_leaf_index=former.evidence_leaf_index,
        )
        other_evidence = record.evidence not in (None, evidence)
        if other_evidence or replace(former, evidence=evidence) != expected:
            raise StoreError(f"anchor {record.number} is there already and says otherwise")
        merged[record.number] = expected
    return list(merged.values())


def check_following(refused: Sequence[Quarantined], following: Callable[[], int]) -> None:
    """Raise StoreError unless refused answers are numbered on from `following`."""
    for number, one in enumerate(refused, following() if refused else 0):
        if one.number != number:
            raise StoreError(f"refused answer {one.number} comes, {number} is next")


def put_rows(changes: Changes, merged: Iterable[AnchorRecord]) -> Iterator[Row]:
    """Rows of the default family that a commit writes, after those of :func:`dropped_keys` went."""
    for intent in changes.intents:
        yield schema.intent_key(intent.tsa), schema.encode_intent(intent)
    for record in merged:
        yield schema.anchor_key(record.number), schema.encode_anchor(record)
        yield schema.size_key(record.size, record.number), b""
        if record.unsealed:
            yield schema.unsealed_key(record.number), b""
        if record.evidence is None:
            yield schema.waiting_key(record.stored_at, record.number), b""
    for digest, data in changes.blobs.items():
        yield schema.blob_key(digest), schema.encode_blob(digest, data)
    for refused in changes.quarantined:
        yield schema.quarantine_key(refused.number), schema.encode_quarantined(refused)


def dropped_keys(changes: Changes, merged: Iterable[AnchorRecord]) -> Iterator[bytes]:
    """Rows of the default family that a commit deletes."""
    yield from map(schema.intent_key, changes.dropped_intents)
    for record in merged:
        if record.evidence is not None:
            yield schema.waiting_key(record.stored_at, record.number)


def sealed_rows(record: AnchorRecord) -> Iterator[Row]:
    """Rows a seal writes for an anchor that gained a leaf index; its mark "unsealed" goes."""
    yield schema.anchor_key(record.number), schema.encode_anchor(record)
    for index in (record.leaf_index, record.evidence_leaf_index):
        if index is not None:
            yield schema.anchor_leaf_key(index), encode_number(record.number)
