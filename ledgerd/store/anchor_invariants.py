"""What must be true of every commit of timestamps; part of :mod:`ledgerd.store.invariants`.

Numbers that do not go on and records that contradict what is there raise StoreError, as in a real
store (:mod:`ledgerd.store.anchor_changes`): a caller may run into that after a commit whose outcome it
did not learn. Everything else is an AssertionError: a bug above the store.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from ledgerd.store.anchor_changes import check_following, merge
from ledgerd.store.anchor_schema import encode_anchor, encode_blob, encode_intent, intent_key
from ledgerd.store.anchor_schema import encode_quarantined as encode_refused
from receiptledger.core.errors import EvidenceError
from receiptledger.core.evidence_manifest import parse_manifest
from receiptledger.core.leaf import AnchorLeaf
from receiptledger.core.tile import Frontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol

    from ledgerd.store.interface import AnchorIntent, AnchorRecord, Changes, Quarantined
    from ledgerd.store.invariants import Tables

    class Commit(Protocol):
        """A commit under way, see `invariants`."""

        tables: Tables

        def put(self, table: str, key: Any, value: Any) -> None: ...
        def add(self, table: str, key: Any, value: Any) -> None: ...
        def drop(self, table: str, key: Any) -> None: ...


__all__ = ["apply_anchoring", "require", "seal_anchor"]


def apply_anchoring(commit: Commit, changes: Changes) -> None:
    """Everything of timestamps that is not part of a seal."""
    tables = commit.tables
    for name in changes.dropped_intents:
        intent_key(name)
        if name in tables.intents:
            commit.drop("intents", name)
    for intent in changes.intents:
        _put_intent(commit, intent)
    for digest, data in changes.blobs.items():
        commit.add("blobs", digest, encode_blob(digest, data))
    merged = merge(changes.anchors, tables.anchors.get, lambda: len(tables.anchors))
    for record in merged:
        _put_anchor(commit, record)
    named = _parts(merged)
    require(changes.blobs.keys() <= named, "a part of evidence that no anchor of its commit names")
    _put_refused(commit, changes.quarantined)


def _put_intent(commit: Commit, intent: AnchorIntent) -> None:
    encode_intent(intent)
    intent_key(intent.tsa)
    require(intent.size in commit.tables.checkpoints, "an intent for a size without checkpoint")
    commit.put("intents", intent.tsa, replace(intent))


def _put_anchor(commit: Commit, record: AnchorRecord) -> None:
    tables = commit.tables
    encode_anchor(record)
    require(record.size in tables.checkpoints, "an anchor of a size without checkpoint")
    root = Frontier.load(record.size, lambda tile: tables.tiles.get(tile, b"")).root()
    require(record.root == root, "an anchor of another root than its checkpoint has")
    require(_parts([record]) <= tables.blobs.keys(), "evidence whose parts are not all there")
    commit.put("anchors", record.number, record)


def _put_refused(commit: Commit, refused: Sequence[Quarantined]) -> None:
    check_following(refused, lambda: len(commit.tables.quarantined))
    for one in refused:
        encode_refused(one)
        require(one.size in commit.tables.checkpoints, "an answer about a size without checkpoint")
        commit.add("quarantined", one.number, replace(one))


def seal_anchor(commit: Commit, record: AnchorRecord, added: range) -> None:
    """An anchor that gained a leaf index in a seal of these leaves."""
    tables = commit.tables
    require(record.number in tables.anchors, "a leaf for an anchor that is not there")
    former = tables.anchors[record.number]
    before = (former.leaf_index, former.evidence_leaf_index)
    after = (record.leaf_index, record.evidence_leaf_index)
    gained = replace(former, leaf_index=after[0], evidence_leaf_index=after[1])
    require(record == gained, "an anchor changed in a seal")
    require(
        record.evidence is not None or record.evidence_leaf_index is None,
        "a leaf of evidence that is not there",
    )
    require(before != after and not record.unsealed, "an anchor did not gain its leaf in a seal")
    evidence = None if record.evidence is None else sha256(record.evidence).digest()
    for was, now in zip(before, after, strict=True):
        require(was in (None, now), "an anchor got another leaf")
        if now is None or was == now:
            continue
        require(now in added, "anchor leaf index is not in this seal")
        committed = evidence if now == after[1] else None
        response = sha256(record.response).digest()
        leaf = AnchorLeaf(record.size, record.root, record.tsa, response, committed)
        require(tables.leaves[now] == leaf.encode(), "anchor leaf is not that of its record")
        commit.add("anchor_leaves", now, record.number)
    commit.put("anchors", record.number, replace(record))


def _parts(records: Iterable[AnchorRecord]) -> set[bytes]:
    """Digests that the evidence of these records names."""
    digests: set[bytes] = set()
    for record in records:
        if record.evidence is not None:
            try:
                crls, ocsps = parse_manifest(record.evidence)
            except EvidenceError as error:
                raise AssertionError(f"evidence is not a manifest: {error}") from error
            digests.update(crls, ocsps)
    return digests


def require(held: bool, broken: str) -> None:
    """Raise AssertionError, saying what is broken, unless it held."""
    if not held:
        raise AssertionError(broken)
