"""The teeth of MemoryStore bite for timestamps too: each invariant broken once, and each fault."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.store.interface import AnchorIntent, Changes, StoreError
from ledgerd.store.memory import Fault, MemoryStore
from receiptledger.core.evidence_manifest import encode_manifest
from tests.helpers.changes import Author, chain_of, dump

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerd.store.interface import AnchorRecord, Sealed

A = chain_of("a")


@pytest.fixture
def author() -> Author:
    return Author()


@pytest.fixture
def store(author: Author) -> MemoryStore:
    """Three leaves, then an anchor's; one anchor with its leaf, one without."""
    store = MemoryStore()
    store.commit(author.batch(A))
    store.commit(author.seal(filler=2))
    store.commit(author.stamp("tsa-a"))
    store.commit(author.seal())
    store.commit(author.stamp("tsa-b"))
    return store


def bites(store: MemoryStore, changes: Changes, match: str) -> None:
    """AssertionError, and nothing of the commit is left."""
    before = dump(store)
    with pytest.raises(AssertionError, match=match):
        store.commit(changes)
    assert dump(store) == before


class TestCommits:
    @pytest.mark.parametrize(
        ("changed", "match"),
        [
            ({"root": bytes(32)}, "another root than its checkpoint"),
            ({"size": 1}, "a size without checkpoint"),
            ({"size": 9}, "a size without checkpoint"),
            ({"evidence": b"{}"}, "not a manifest"),
            ({"evidence": encode_manifest([A], [])}, "parts are not all there"),
        ],
    )
    def test_anchor(
        self, store: MemoryStore, author: Author, changed: dict[str, Any], match: str
    ) -> None:
        changes = author.stamp()
        changes.anchors = [replace(changes.anchors[0], **changed)]
        bites(store, changes, match)

    def test_a_part_that_nothing_names(self, store: MemoryStore, author: Author) -> None:
        changes = author.prove(0, b"crl")
        changes.blobs[sha256(b"other").digest()] = b"other"
        bites(store, changes, "a part of evidence that no anchor of its commit names")

    def test_parts_without_their_anchor(self, store: MemoryStore, author: Author) -> None:
        changes = author.prove(0, b"crl")
        changes.anchors = []
        bites(store, changes, "no anchor of its commit names")

    def test_sizes_nobody_signed(self, store: MemoryStore, author: Author) -> None:
        bites(store, Changes(intents=[AnchorIntent("tsa-a", 2, 1, 1)]), "size without checkpoint")
        changes = author.refuse()
        changes.quarantined = [replace(changes.quarantined[0], size=2)]
        bites(store, changes, "size without checkpoint")


# Seals


def forgotten(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, leaf_index=None)


def leaf_of_another_seal(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, leaf_index=0)


def leaf_past_the_end(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, leaf_index=sealed.state.size)


def leaf_of_another(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, leaf_index=sealed.first_leaf)


def changed_content(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, gen_time=1)


def evidence_from_nowhere(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, evidence=encode_manifest([], []), evidence_leaf_index=record.leaf_index)


def no_such_anchor(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, number=7)


def evidence_leaf_without_evidence(record: AnchorRecord, sealed: Sealed) -> AnchorRecord:
    return replace(record, evidence_leaf_index=record.leaf_index)


SEALS: dict[Callable[[AnchorRecord, Sealed], AnchorRecord], str] = {
    forgotten: "did not gain its leaf",
    leaf_of_another_seal: "anchor leaf index is not in this seal",
    leaf_past_the_end: "anchor leaf index is not in this seal",
    leaf_of_another: "anchor leaf is not that of its record",
    changed_content: "an anchor changed in a seal",
    evidence_from_nowhere: "an anchor changed in a seal",
    evidence_leaf_without_evidence: "a leaf of evidence that is not there",
    no_such_anchor: "a leaf for an anchor that is not there",
}


class TestSeals:
    @pytest.mark.parametrize("spoil", SEALS, ids=lambda spoil: spoil.__name__)
    def test_spoilt(
        self,
        store: MemoryStore,
        author: Author,
        spoil: Callable[[AnchorRecord, Sealed], AnchorRecord],
    ) -> None:
        changes = author.seal(filler=1)
        assert changes.sealed is not None
        changes.sealed.anchors = [spoil(changes.sealed.anchors[0], changes.sealed)]
        bites(store, changes, SEALS[spoil])

    def test_unspoilt(self, store: MemoryStore, author: Author) -> None:
        store.commit(author.seal())
        assert store.unsealed_anchors() == []

    def test_another_leaf_for_one_that_has_its_own(
        self, store: MemoryStore, author: Author
    ) -> None:
        changes = author.seal()
        assert changes.sealed is not None
        index = changes.sealed.first_leaf
        changes.sealed.anchors = [replace(author.stamps[0], leaf_index=index)]
        bites(store, changes, "an anchor got another leaf")

    def test_one_that_gains_nothing(self, store: MemoryStore, author: Author) -> None:
        changes = author.seal()
        assert changes.sealed is not None
        changes.sealed.anchors = [*changes.sealed.anchors, author.stamps[0]]
        bites(store, changes, "did not gain its leaf")

    def test_the_leaf_of_evidence_names_it(self, store: MemoryStore, author: Author) -> None:
        store.commit(author.prove(0, b"crl"))
        changes = author.seal()
        assert changes.sealed is not None
        own, other = changes.sealed.anchors
        changes.sealed.anchors = [
            replace(own, evidence_leaf_index=other.leaf_index),
            replace(other, leaf_index=own.evidence_leaf_index),
        ]
        bites(store, changes, "anchor leaf is not that of its record")


# Faults


@pytest.fixture(params=["stamp", "prove", "refuse", "intend", "seal"])
def changes(request: pytest.FixtureRequest, author: Author, store: MemoryStore) -> Changes:
    """One commit of each kind, after `store`."""
    makers: dict[str, Callable[[], Changes]] = {
        "stamp": author.stamp,
        "prove": lambda: author.prove(0, b"crl"),
        "refuse": author.refuse,
        "intend": author.intend,
        "seal": author.seal,
    }
    return makers[request.param]()


@pytest.mark.parametrize("fault", list(Fault))
def test_a_commit_is_all_there_or_gone(store: MemoryStore, changes: Changes, fault: Fault) -> None:
    before = dump(store)
    store.fail_next(fault)
    with pytest.raises(StoreError):
        store.commit(changes)
    seen = dump(store)
    assert (seen == before) is (fault is Fault.LOST)
    after = store.crash(power=True)
    assert dump(after) == (seen if fault is Fault.DONE else before)
    if fault is not Fault.DONE:
        after.commit(changes)  # nothing of it is in the way


def test_a_survivor_shares_nothing(store: MemoryStore, author: Author) -> None:
    store.commit(author.prove(0, b"crl"))
    before = dump(store)
    after = store.crash()
    assert dump(after) == before
    after.commit(author.seal())
    assert {record.number for record in store._tables.anchors.values() if record.unsealed} == {0, 1}
