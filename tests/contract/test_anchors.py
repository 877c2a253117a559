"""What every store must do with timestamps: anchors, intents, evidence, refused answers."""

from __future__ import annotations

import threading
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from ledgerd.store.interface import AnchorIntent, AnchorLinks, AnchorRecord, Changes, StoreError
from receiptledger.core.evidence_manifest import encode_manifest
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from tests.contract.test_store import Box
from tests.helpers.changes import EPOCH, Author, chain_of, digest, dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ledgerd.store.interface import Store

A = chain_of("a")
FOREVER = 2**63 - 1


@pytest.fixture(params=["rocks", "memory"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    box = Box(request.param, tmp_path)
    yield box
    box.store.close()


@pytest.fixture
def store(box: Box) -> Store:
    return box.store


@pytest.fixture
def author(store: Store) -> Author:
    """A log of two leaves: something to stamp."""
    author = Author()
    store.commit(author.batch(A))
    store.commit(author.seal(filler=1))
    return author


def numbers(records: Iterable[AnchorRecord]) -> list[int]:
    return [record.number for record in records]


class TestEmpty:
    def test_nothing_is_there(self, store: Store) -> None:
        assert store.intents() == store.unsealed_anchors() == []
        assert store.anchor(0) is store.blob(digest("x")) is store.anchor_at(0) is None
        assert store.next_anchor_number() == store.next_quarantine_number() == 0
        rows: list[Iterator[object]] = [
            store.anchors(),
            store.anchors_by_size(0),
            store.anchors_by_leaf(FOREVER),
            store.anchors_without_evidence(FOREVER),
            store.quarantined(),
            store.anchor_numbers(),
            store.blob_digests(),
            store.quarantine_numbers(),
        ]
        assert [list(row) for row in rows] == [[]] * 8

    def test_other_records_are_not_taken_for_anchors(self, box: Box, author: Author) -> None:
        """Checkpoints, marks, keys and forks share a family with them."""
        box.store.commit(author.enrol(A, "k"))
        box.store.commit(author.batch(A))
        self.test_nothing_is_there(box.reopen())


class TestAnchors:
    def test_one_is_found_by_everything(self, box: Box, author: Author) -> None:
        box.store.commit(changes := author.stamp())
        (record,) = changes.anchors
        for enter in (lambda: box.store, box.reopen):
            store = enter()
            assert store.anchor(0) == record
            assert store.next_anchor_number() == 1
            assert list(store.anchors()) == store.unsealed_anchors() == [record]
            assert list(store.anchors_by_size(2)) == [record]
            assert list(store.anchors_without_evidence(FOREVER)) == [record]
            assert list(store.anchors_by_leaf(FOREVER)) == []
            assert list(store.anchor_numbers()) == [0]
            assert store.anchor(1) is None

    def test_life_of_one(self, box: Box, author: Author) -> None:
        """Stored, sealed, proven, its evidence sealed: the indexes follow."""
        store = box.store
        store.commit(author.stamp())
        store.commit(author.seal())
        sealed = store.anchor(0)
        assert sealed is not None
        assert (sealed.leaf_index, sealed.evidence_leaf_index, sealed.unsealed) == (2, None, False)
        assert store.unsealed_anchors() == []
        assert list(store.anchors_by_leaf(3)) == [sealed]
        store.commit(author.prove(0, b"crl", b"another"))
        proven = store.anchor(0)
        assert proven is not None
        assert (proven.leaf_index, proven.evidence_leaf_index, proven.unsealed) == (2, None, True)
        assert store.unsealed_anchors() == [proven]
        assert list(store.anchors_without_evidence(FOREVER)) == []
        store.commit(author.seal())
        for enter in (lambda: box.store, box.reopen):
            done = enter().anchor(0)
            assert done == replace(proven, evidence_leaf_index=3)
            assert box.store.anchor_at(2) == box.store.anchor_at(3) == done
            assert box.store.anchor_at(1) is None
            assert box.store.unsealed_anchors() == []
            assert list(box.store.anchors_by_leaf(FOREVER)) == [done]

    def test_evidence_before_the_seal_shares_its_leaf(self, box: Box, author: Author) -> None:
        box.store.commit(author.stamp())
        box.store.commit(author.prove(0, b"crl"))
        box.store.commit(author.seal())
        record = box.reopen().anchor(0)
        assert record is not None
        assert (record.leaf_index, record.evidence_leaf_index, record.unsealed) == (2, 2, False)
        assert record.evidence is not None
        leaf = parse_leaf(box.store.leaves(2, 1)[0])
        assert isinstance(leaf, AnchorLeaf)
        assert leaf.evidence == sha256(record.evidence).digest()
        assert list(box.store.anchors_by_leaf(FOREVER)) == [record] == [box.store.anchor_at(2)]

    def test_a_leaf_index_comes_from_a_seal_only(self, box: Box, author: Author) -> None:
        """A record read before a seal and handed in with evidence after it loses nothing."""
        store = box.store
        (early,) = author.stamp().anchors
        store.commit(Changes(anchors=[replace(early, leaf_index=1, evidence_leaf_index=1)]))
        assert store.anchor(0) == early
        store.commit(author.seal())
        stale = author.prove(0, b"crl")
        stale.anchors = [replace(stale.anchors[0], leaf_index=None)]
        store.commit(stale)
        found = box.reopen().anchor(0)
        assert found is not None
        assert found.leaf_index == 2
        assert list(box.store.anchors_by_leaf(FOREVER)) == [found]

    def test_the_same_again_changes_nothing(self, box: Box, author: Author) -> None:
        """After a commit whose outcome was not known, a caller may try it once more."""
        store = box.store
        first = author.stamp()
        store.commit(first)
        store.commit(first)
        store.commit(author.seal())
        proof = author.prove(0, b"crl")
        store.commit(proof)
        store.commit(author.seal())
        before = dump(store)
        store.commit(first)
        store.commit(proof)
        assert dump(store) == before == dump(box.reopen())

    def test_order_by_size_and_by_leaf(self, box: Box, author: Author) -> None:
        store = box.store
        for size, tsa in [(2, "tsa-a"), (2, "tsa-b")]:
            store.commit(author.stamp(tsa, size))
        store.commit(author.seal())  # leaves 2, 3
        for size, tsa in [(4, "tsa-b"), (2, "tsa-c"), (4, "tsa-a")]:
            store.commit(author.stamp(tsa, size))
        store.commit(author.seal(filler=2))  # leaves 6, 7, 8
        store.commit(author.stamp("tsa-a", 9))
        for enter in (lambda: box.store, box.reopen):
            found = enter()
            assert numbers(found.anchors()) == [0, 1, 2, 3, 4, 5]
            assert numbers(found.anchors(3)) == [3, 4, 5]
            assert numbers(found.anchors_by_size(0)) == [0, 1, 3, 2, 4, 5]
            assert numbers(found.anchors_by_size(3)) == [2, 4, 5]
            assert numbers(found.anchors_by_size(5)) == [5]
            assert numbers(found.anchors_by_size(10)) == []
            assert numbers(found.anchors_by_leaf(FOREVER)) == [4, 3, 2, 1, 0]
            assert numbers(found.anchors_by_leaf(2**63)) == [4, 3, 2, 1, 0]
            assert numbers(found.anchors_by_leaf(8)) == [3, 2, 1, 0]
            assert numbers(found.anchors_by_leaf(6)) == [1, 0]
            assert numbers(found.anchors_by_leaf(2)) == numbers(found.anchors_by_leaf(0)) == []
            assert numbers(found.unsealed_anchors()) == [5]

    def test_evidence_leaves_are_passed_over(self, store: Store, author: Author) -> None:
        store.commit(author.stamp())
        store.commit(author.seal())  # leaf 2
        store.commit(author.prove(0, b"crl"))
        store.commit(author.stamp("tsa-b"))
        store.commit(author.seal())  # leaf 3 of the evidence, 4 of the other
        assert [one.leaf_index for one in store.anchors_by_leaf(5)] == [4, 2]
        assert [one.leaf_index for one in store.anchors_by_leaf(4)] == [2]

    def test_without_evidence_by_time(self, box: Box, author: Author) -> None:
        store = box.store
        for at in (50, 0, 0, -20):  # times 50, 10, 20, 10
            store.commit(author.stamp(at=at))
        assert numbers(store.anchors_without_evidence(FOREVER)) == [1, 3, 2, 0]
        assert numbers(store.anchors_without_evidence(EPOCH + 20)) == [1, 3]
        assert numbers(store.anchors_without_evidence(EPOCH + 10)) == []
        store.commit(author.prove(3, b"crl"))
        assert numbers(box.reopen().anchors_without_evidence(FOREVER)) == [1, 2, 0]

    def test_evidence_that_comes_while_the_list_is_read(self, store: Store, author: Author) -> None:
        for _ in range(3):
            store.commit(author.stamp())
        rows = store.anchors_without_evidence(FOREVER)
        assert next(rows).number == 0
        store.commit(author.prove(2, b"crl"))
        assert {1} <= set(numbers(rows)) <= {1, 2}

    def test_many(self, box: Box, author: Author) -> None:
        for at in range(600):
            box.store.commit(author.stamp(f"tsa-{at % 3}"))
            if at % 100 == 0:
                box.store.commit(author.seal())
        store = box.reopen()
        assert numbers(store.anchors()) == list(store.anchor_numbers()) == list(range(600))
        assert numbers(store.unsealed_anchors()) == list(range(501, 600))
        assert numbers(store.anchors_by_leaf(FOREVER)) == list(range(500, -1, -1))
        assert len(numbers(store.anchors_without_evidence(FOREVER))) == 600
        assert store.next_anchor_number() == 600

    def test_large_messages(self, box: Box, author: Author) -> None:
        changes = author.stamp()
        changes.anchors = [
            replace(changes.anchors[0], request=b"q" * 65_536, response=b"r" * 65_536)
        ]
        box.store.commit(changes)
        assert list(box.reopen().anchors()) == changes.anchors

    def test_what_is_read_is_the_readers_own(self, store: Store, author: Author) -> None:
        changes = author.stamp()
        store.commit(author.intend())
        store.commit(changes)
        before = dump(store)
        changes.anchors[0].size = 9
        for record in (store.anchor(0), *store.anchors(), *store.unsealed_anchors()):
            assert record is not None
            record.size = 9
        assert dump(store) == before


class TestIntents:
    def test_one_for_each_authority(self, box: Box, author: Author) -> None:
        box.store.commit(author.intend("tsa-b"))
        box.store.commit(author.intend("tsa-a"))
        newer = AnchorIntent("tsa-b", 2, 5, EPOCH + 9)
        box.store.commit(Changes(intents=[newer]))
        for enter in (lambda: box.store, box.reopen):
            assert [one.tsa for one in enter().intents()] == ["tsa-a", "tsa-b"]
            assert box.store.intents()[1] == newer

    def test_dropped_with_the_answer(self, box: Box, author: Author) -> None:
        for tsa in ("tsa-a", "tsa-b", "tsa-ab"):
            box.store.commit(author.intend(tsa))
        box.store.commit(author.stamp("tsa-a"))
        box.store.commit(author.refuse("tsa-b"))
        box.store.commit(Changes(dropped_intents=["tsa-b", "never-asked"]))
        assert [one.tsa for one in box.reopen().intents()] == ["tsa-ab"]

    def test_replaced_in_the_commit_that_drops_it(self, store: Store, author: Author) -> None:
        store.commit(author.intend())
        newer = AnchorIntent("tsa-a", 2, 5, EPOCH + 9)
        store.commit(Changes(intents=[newer], dropped_intents=["tsa-a"]))
        assert store.intents() == [newer]

    @pytest.mark.parametrize("nonce", [0, 1, 2**64, 2**128 - 1, 2**256 - 1])
    def test_any_nonce(self, box: Box, author: Author, nonce: int) -> None:
        box.store.commit(Changes(intents=[AnchorIntent("tsa-a", author.frontier.size, nonce, 0)]))
        assert box.reopen().intents()[0].nonce == nonce


class TestEvidence:
    def test_parts_by_digest(self, box: Box, author: Author) -> None:
        box.store.commit(author.stamp())
        parts = [b"crl", b"x" * 1_000_000]
        box.store.commit(author.prove(0, *parts))
        store = box.reopen()
        names = [sha256(part).digest() for part in parts]
        assert [store.blob(name) for name in names] == parts
        assert list(store.blob_digests()) == sorted(names)
        record = store.anchor(0)
        assert record is not None
        assert record.evidence == encode_manifest(names, [])

    def test_a_part_may_be_of_several(self, store: Store, author: Author) -> None:
        for _ in range(2):
            store.commit(author.stamp())
        store.commit(author.prove(0, b"crl"))
        store.commit(author.prove(1, b"crl", b"other"))
        assert len(list(store.blob_digests())) == 2

    def test_of_no_parts(self, store: Store, author: Author) -> None:
        store.commit(author.stamp())
        store.commit(author.prove(0))
        assert store.anchor(0) is not None
        assert store.unsealed_anchors()[0].evidence == encode_manifest([], [])


class TestRefused:
    def test_in_number_order(self, box: Box, author: Author) -> None:
        kept = []
        for at in range(30):
            changes = author.refuse(cause=f"cause_{at}")
            box.store.commit(changes)
            kept += changes.quarantined
        empty = replace(kept[-1], number=30, response=b"")
        box.store.commit(Changes(quarantined=[empty]))
        store = box.reopen()
        assert list(store.quarantined()) == [*kept, empty]
        assert list(store.quarantined(29)) == [kept[29], empty]
        assert list(store.quarantined(31)) == []
        assert list(store.quarantine_numbers()) == list(range(31))
        assert store.next_quarantine_number() == 31
        assert store.next_anchor_number() == 0


class TestRefusals:
    """What no store may take, and what is then there: what was there before."""

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda a: Changes(anchors=[replace(a.stamps[0], number=5)]),
            lambda a: Changes(anchors=[replace(a.stamps[0], response=b"other")]),
            lambda a: Changes(anchors=[replace(a.stamps[0], root=bytes(32))]),
            lambda a: Changes(anchors=[replace(a.stamps[0], evidence=encode_manifest([A], []))]),
            lambda a: Changes(anchors=[replace(a.stamps[0], number=1, tsa="A")]),
            lambda a: Changes(blobs={A: b"another digest"}),
            lambda a: Changes(intents=[AnchorIntent("tsa-a", 2, 2**256, 0)]),
            lambda a: Changes(intents=[AnchorIntent("no name", 2, 1, 0)]),
            lambda a: Changes(dropped_intents=["no name"]),
            lambda a: Changes(quarantined=[replace(a.refuse().quarantined[0], number=7)]),
            lambda a: Changes(quarantined=[replace(a.refuse().quarantined[0], cause="")]),
        ],
        ids=[
            "number not next",
            "other response",
            "other root",
            "other evidence",
            "no name of an authority",
            "part under another digest",
            "nonce too large",
            "intent of no authority",
            "drop of no authority",
            "refused number not next",
            "refused without cause",
        ],
    )
    def test_nothing_of_it_is_there(
        self, box: Box, author: Author, spoil: Callable[[Author], Changes]
    ) -> None:
        store = box.store
        store.commit(author.stamp())
        store.commit(author.seal())
        store.commit(author.prove(0, b"crl"))
        before = dump(store)
        changes = spoil(author)
        good = author.intend("tsa-z")
        changes.intents = [*good.intents, *changes.intents]
        with pytest.raises((StoreError, AssertionError)):
            store.commit(changes)
        assert dump(store) == before == dump(box.reopen())
        box.store.commit(Changes())


class TestInventory:
    def test_everything_is_counted(self, box: Box, author: Author) -> None:
        store = box.store
        for _ in range(3):
            store.commit(author.stamp())
        store.commit(author.prove(0, b"crl"))  # one leaf for both
        store.commit(author.seal())
        store.commit(author.prove(1, b"crl", b"other"))
        store.commit(author.seal())  # a leaf of its own
        store.commit(author.stamp())
        store.commit(author.intend("tsa-x"))
        store.commit(author.refuse())
        for enter in (lambda: box.store, box.reopen):
            counts = enter().counts()
            assert (counts.anchors, counts.blobs) == (4, 2)
            assert (counts.intents, counts.quarantined, counts.unknown) == (1, 1, 0)
            # 4 sizes, 3 leaves of anchors and 1 of evidence, 2 without evidence, 1 unsealed
            assert counts.anchor_links == 4 + 4 + 2 + 1

    def test_what_leads_to_an_anchor(self, box: Box, author: Author) -> None:
        def links() -> tuple[bool, ...]:
            record = box.reopen().anchor(0)
            assert record is not None
            found = box.store.anchor_links(record)
            return tuple(getattr(found, name) for name in AnchorLinks.__slots__)

        assert AnchorLinks.__slots__ == (
            "by_size",
            "by_leaf",
            "by_evidence_leaf",
            "unsealed",
            "without_evidence",
        )
        box.store.commit(author.stamp())
        assert links() == (True, False, False, True, True)
        box.store.commit(author.seal())
        assert links() == (True, True, False, False, True)
        box.store.commit(author.prove(0, b"crl"))
        assert links() == (True, True, False, True, False)
        box.store.commit(author.seal())
        assert links() == (True, True, True, False, False)


def test_closed(store: Store, author: Author) -> None:
    store.commit(author.stamp())
    record = author.stamps[0]
    store.close()
    reads: list[Callable[[], object]] = [
        store.intents,
        store.unsealed_anchors,
        lambda: store.anchor(0),
        lambda: list(store.anchors()),
        lambda: list(store.anchors_by_size(0)),
        lambda: list(store.anchors_by_leaf(9)),
        lambda: list(store.anchors_without_evidence(FOREVER)),
        store.next_anchor_number,
        lambda: store.blob(A),
        lambda: list(store.quarantined()),
        store.next_quarantine_number,
        lambda: list(store.anchor_numbers()),
        lambda: store.anchor_at(0),
        lambda: list(store.blob_digests()),
        lambda: list(store.quarantine_numbers()),
        lambda: store.commit(Changes(anchors=[record])),
    ]
    for read in reads:
        with pytest.raises(StoreError, match="closed"):
            read()


def test_readers_see_whole_commits(store: Store, author: Author) -> None:
    """A leaf index leads to a leaf that is there; evidence to its parts."""
    done = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                for record in store.anchors():
                    if record.leaf_index is not None:
                        assert isinstance(
                            parse_leaf(store.leaves(record.leaf_index, 1)[0]), AnchorLeaf
                        )
                    if record.evidence is not None:
                        assert store.blob(sha256(b"%d" % record.number).digest()) is not None
                numbers(store.anchors_by_leaf(FOREVER))
                numbers(store.anchors_by_size(0))
                numbers(store.anchors_without_evidence(FOREVER))
                store.unsealed_anchors()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for at in range(30):
            store.commit(author.stamp())
            store.commit(author.seal())
            store.commit(author.prove(at, b"%d" % at))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert problems == []
