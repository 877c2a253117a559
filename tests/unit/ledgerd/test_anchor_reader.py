"""Which timestamps a proof shows: decided by the log below its size alone, and by nothing later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.anchoring import reader as anchor_reader
from ledgerd.anchoring.choice import MAX_COVERING, MAX_PRECEDING
from ledgerd.store.interface import StoreError
from receiptledger.core.bundle_anchors import MAX_ANCHORED_CHECKPOINTS, MAX_EVIDENCE_PARTS
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import Reason, ServiceError
from tests.helpers.agents import Agent
from tests.helpers.anchor_records import held, prove, shown, stamp, tuned
from tests.helpers.sync_ledger import SIGNER, SyncLedger

if TYPE_CHECKING:
    from receiptledger.core.bundle import AnchoredCheckpoint

A = Agent("agent-1", 1)
RA = A.receipts(60)


def grown(ledger: SyncLedger, position: int) -> int:
    """Append the next receipt and seal; the tree's new size."""
    ledger.append(RA[position : position + 1])
    ledger.seal()
    assert ledger.state is not None
    return ledger.state.size


def sealed(ledger: SyncLedger) -> int:
    """Seal what anchors are owed; the tree's new size."""
    ledger.seal()
    assert ledger.state is not None
    return ledger.state.size


def proven(
    ledger: SyncLedger, position: int, size: int = 0, *, quorum: int = 1
) -> tuple[AnchoredCheckpoint, ...]:
    """The anchors of a proof; every path of them verified."""
    reader = ledger.reader
    if quorum > 1:
        tuned(ledger, quorum=quorum)
    bundle = reader.prove(A.chain, position, size=size)
    held(bundle.anchors, open_checkpoint(bundle.checkpoint, SIGNER.verifier))
    return bundle.anchors


def test_a_log_without_anchors_shows_none() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    assert proven(ledger, 0) == ()
    assert ledger.reader.anchors.page(0, 256) == ([], 0)
    assert ledger.reader.anchors._choice.choose(0, ledger.reader.size) == []


def test_nothing_is_looked_up_twice_where_there_are_no_anchors() -> None:
    """Proofs of a log without TSAs cost one look per published checkpoint, not per proof."""
    ledger = SyncLedger()
    grown(ledger, 0)
    grown(ledger, 1)
    looks: list[str] = []

    class Spy:
        def __getattr__(self, name: str) -> Any:
            if "anchor" in name:
                looks.append(name)
            return getattr(ledger.store, name)

    tuned(ledger, store=Spy())
    for _ in range(5):
        assert proven(ledger, 0) == ()
    assert looks == ["anchors_by_leaf"]
    grown(ledger, 2)
    proven(ledger, 1)
    assert looks == ["anchors_by_leaf"] * 2


def test_a_receipt_after_the_newest_anchor_costs_no_look_for_covering_ones() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger)
    grown(ledger, 1)
    looks: list[str] = []

    class Spy:
        def __getattr__(self, name: str) -> Any:
            looks.append(name)
            return getattr(ledger.store, name)

    tuned(ledger, store=Spy())
    index = ledger.reader.leaf_index(A.chain, 1)
    assert index is not None
    assert index > 0
    ledger.reader.anchors.bounding(index, ledger.reader.size)
    assert "anchors_by_size" not in looks


def test_a_receipt_between_two_anchors_has_both_bounds() -> None:
    ledger = SyncLedger()
    first = grown(ledger, 0)
    stamp(ledger)
    second = grown(ledger, 1)  # the anchor's leaf is sealed with this one, after the head leaf
    assert shown(proven(ledger, 0)) == {first: ["tsa-a"]}
    assert shown(proven(ledger, 1)) == {}
    third = grown(ledger, 2)
    assert shown(proven(ledger, 2)) == {first: ["tsa-a"]}
    stamp(ledger)
    sealed(ledger)
    assert shown(proven(ledger, 0)) == {first: ["tsa-a"]}
    assert shown(proven(ledger, 1)) == {third: ["tsa-a"]}
    assert shown(proven(ledger, 2)) == {first: ["tsa-a"], third: ["tsa-a"]}
    assert second < third


def test_an_anchor_is_shown_once_its_own_leaf_is_in_the_tree() -> None:
    ledger = SyncLedger()
    size = grown(ledger, 0)
    stamp(ledger)
    assert proven(ledger, 0) == ()  # stored, not sealed
    sealed(ledger)
    assert shown(proven(ledger, 0)) == {size: ["tsa-a"]}
    assert proven(ledger, 0, size) == ()  # as of the stamped checkpoint, for ever


def test_the_nearest_checkpoint_with_a_quorum_covers() -> None:
    ledger = SyncLedger()
    sizes = []
    for number, tsas in enumerate((["tsa-a"], ["tsa-a"], ["tsa-b", "tsa-a"], ["tsa-c"])):
        sizes.append(grown(ledger, number))
        for tsa in tsas:
            stamp(ledger, tsa)
        sealed(ledger)
    one = shown(proven(ledger, 0))
    assert one == {sizes[0]: ["tsa-a"]}
    two = shown(proven(ledger, 0, quorum=2))
    assert two == {sizes[0]: ["tsa-a"], sizes[1]: ["tsa-a"], sizes[2]: ["tsa-b", "tsa-a"]}
    three = shown(proven(ledger, 0, quorum=3))
    assert list(three) == sizes
    assert len(sizes) == MAX_COVERING


def test_without_a_quorum_there_is_what_there_is() -> None:
    ledger = SyncLedger()
    sizes = []
    for number in range(MAX_COVERING + 2):
        sizes.append(grown(ledger, number))
        stamp(ledger)
        sealed(ledger)
    assert list(shown(proven(ledger, 0, quorum=2))) == sizes[:MAX_COVERING]
    assert list(shown(proven(ledger, len(sizes) - 1, quorum=2)))[-1] == sizes[-1]


def test_the_newest_token_of_each_tsa_precedes() -> None:
    ledger = SyncLedger()
    sizes = []
    for number, tsa in enumerate(("tsa-c", "tsa-b", "tsa-a", "tsa-a")):
        sizes.append(grown(ledger, number))
        stamp(ledger, tsa)
        sealed(ledger)
    grown(ledger, 4)
    before = shown(proven(ledger, 4))
    assert before == {sizes[0]: ["tsa-c"], sizes[1]: ["tsa-b"], sizes[3]: ["tsa-a"]}


def test_a_tsa_silent_for_long_is_not_searched_for() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger, "tsa-old")
    for number in range(1, MAX_PRECEDING + 1):
        grown(ledger, number)
        last = stamp(ledger)
        sealed(ledger)
    grown(ledger, MAX_PRECEDING + 1)
    assert shown(proven(ledger, MAX_PRECEDING + 1)) == {last.size: ["tsa-a"]}


def test_a_second_token_of_one_tsa_over_one_checkpoint_is_left_out() -> None:
    ledger = SyncLedger()
    size = grown(ledger, 0)
    kept = stamp(ledger)
    stamp(ledger)
    stamp(ledger, "tsa-b")
    sealed(ledger)
    (anchor,) = proven(ledger, 0)
    assert shown([anchor]) == {size: ["tsa-a", "tsa-b"]}
    assert anchor.stamps[0].response == kept.response


def test_the_same_question_has_the_same_bytes_for_ever() -> None:
    ledger = SyncLedger()
    for number in range(6):
        grown(ledger, number)
        stamp(ledger, f"tsa-{'ab'[number % 2]}")
        sealed(ledger)
    state = ledger.state
    assert state is not None
    questions = [(place, size) for place in range(6) for size in (state.size, state.size - 1)]
    published = ledger.promises.published
    questions = [(p, s) for p, s in questions if s in published]
    index = ledger.reader.leaf_index
    questions = [(p, s) for p, s in questions if (index(A.chain, p) or 0) < s]
    before = [ledger.reader.prove(A.chain, p, size=s).encode() for p, s in questions]
    assert any(b'"stamps"' in bundle for bundle in before)
    stamp(ledger, "tsa-z", size=sorted(published)[1])  # late, over an old checkpoint
    for number in range(5):
        prove(ledger, number, [b"a list for %d" % number])
    for number in range(6, 20):
        grown(ledger, number)
        stamp(ledger, "tsa-c")
        sealed(ledger)
    for crashed in (False, True):
        survivor = ledger.crash() if crashed else ledger
        again = [survivor.reader.prove(A.chain, p, size=s).encode() for p, s in questions]
        assert again == before
        # Asked in another order, so that nothing remembered plays a part.
        back = [survivor.reader.prove(A.chain, p, size=s).encode() for p, s in questions[::-1]]
        assert back == before[::-1]


def test_receipts_between_the_same_anchors_share_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = SyncLedger()
    for number in range(8):
        grown(ledger, number)
        if number % 4 == 3:
            stamp(ledger)
            sealed(ledger)
    found = [proven(ledger, place) for place in range(8)]
    assert all(one is found[0] for one in found[:4])
    assert all(one is found[4] for one in found[4:])
    assert found[0] != found[4]
    monkeypatch.setattr(anchor_reader, "_KEPT", 1)
    tuned(ledger)
    assert [proven(ledger, place) for place in range(8)] == found
    assert len(ledger.reader.anchors._kept) == 1


# Evidence


def test_evidence_is_shown_once_its_leaf_is_in_the_tree() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger)
    before = sealed(ledger)
    prove(ledger, 0, [b"list one", b"list two"], [b"answer"])
    assert proven(ledger, 0)[0].stamps[0].evidence is None
    sealed(ledger)
    evidence = proven(ledger, 0)[0].stamps[0].evidence
    assert evidence is not None
    assert (evidence.crls, evidence.ocsps) == ((b"list one", b"list two"), (b"answer",))
    assert proven(ledger, 0, before)[0].stamps[0].evidence is None


def test_evidence_that_came_before_the_leaf_shares_it() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger)
    prove(ledger, 0, [b"list"])
    sealed(ledger)
    (shown_stamp,) = proven(ledger, 0)[0].stamps
    assert shown_stamp.evidence is not None
    assert shown_stamp.evidence.leaf == shown_stamp.leaf


def test_evidence_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    for tsa in ("tsa-a", "tsa-b", "tsa-c"):
        stamp(ledger, tsa)
    for number in range(3):
        prove(ledger, number, [b"%d" % number * 1_000])
    sealed(ledger)
    stamps = proven(ledger, 0, quorum=3)[0].stamps
    weights = [len(s.request) + len(s.response) for s in stamps]
    monkeypatch.setattr(anchor_reader, "MAX_ANCHOR_BYTES", sum(weights) + 2_000)
    stamps = proven(ledger, 0, quorum=3)[0].stamps
    assert [s.evidence is not None for s in stamps] == [True, True, False]
    monkeypatch.setattr(anchor_reader, "MAX_ANCHOR_BYTES", sum(weights[:2]))
    stamps = proven(ledger, 0, quorum=3)[0].stamps
    assert [s.evidence for s in stamps] == [None, None]


def test_evidence_of_more_parts_than_a_bundle_holds_is_left_out() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger)
    prove(ledger, 0, [b"list %d" % part for part in range(MAX_EVIDENCE_PARTS + 1)])
    sealed(ledger)
    assert proven(ledger, 0)[0].stamps[0].evidence is None
    view, _ = ledger.reader.anchor(0)  # where nothing is left out
    assert view.evidence is not None
    assert len(view.evidence.crls) == MAX_EVIDENCE_PARTS + 1


def test_many_checkpoints_stay_within_what_a_bundle_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quorum no TSA reaches, each TSA on checkpoints of its own: the limits add up."""
    ledger = SyncLedger()
    for number in range(30):
        grown(ledger, number)
        stamp(ledger, f"tsa-{number}")
        sealed(ledger)
    found = proven(ledger, 15, quorum=30)
    assert len(found) == MAX_COVERING + MAX_PRECEDING
    assert len(found) <= MAX_ANCHORED_CHECKPOINTS
    monkeypatch.setattr(anchor_reader, "MAX_ANCHORED_CHECKPOINTS", MAX_COVERING + 1)
    few = proven(ledger, 15, quorum=30)
    assert few == found[MAX_PRECEDING - 1 :]  # what covers comes first, then the nearest before


# What is damaged is said, never skipped.


@pytest.mark.parametrize("part", ["blob", "note", "manifest"])
def test_a_missing_part_is_an_error(part: str) -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger)
    prove(ledger, 0, [b"list"])
    sealed(ledger)
    store = ledger.store

    class Damaged:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def blob(self, digest: bytes) -> bytes | None:
            return None if part == "blob" else store.blob(digest)

        def checkpoint(self, size: int) -> bytes | None:
            return None if part == "note" else store.checkpoint(size)

        def anchors_by_size(self, first: int) -> Any:
            for record in store.anchors_by_size(first):
                if part == "manifest":
                    record.evidence = b"{}"
                yield record

    tuned(ledger, store=Damaged())
    with pytest.raises(StoreError, match=r"missing|damaged"):
        ledger.reader.prove(A.chain, 0)


# Lists and single anchors


def test_pages_in_order() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    for number in range(5):
        stamp(ledger, f"tsa-{number}")
    page = ledger.reader.anchors.page
    found, count = page(0, 2)
    assert ([one.number for one in found], count) == ([0, 1], 5)
    assert [one.number for one in page(3, 256)[0]] == [3, 4]
    assert page(5, 256) == ([], 5)
    assert page(2**63 - 1, 256) == ([], 5)


def test_an_anchor_stored_during_a_look_is_of_the_next_page() -> None:
    ledger = SyncLedger()
    grown(ledger, 0)
    stamp(ledger)
    stamp(ledger, "tsa-b")

    class Racing:
        def __getattr__(self, name: str) -> Any:
            return getattr(ledger.store, name)

        def next_anchor_number(self) -> int:
            return 1

    tuned(ledger, store=Racing())
    found, count = ledger.reader.anchors.page(0, 256)
    assert ([one.number for one in found], count) == ([0], 1)


def test_one_anchor_as_of_a_checkpoint() -> None:
    ledger = SyncLedger()
    size = grown(ledger, 0)
    stamp(ledger)
    unsealed, at = ledger.reader.anchor(0)
    assert (unsealed.leaf, unsealed.evidence, unsealed.consistency, at) == (None, None, (), size)
    assert unsealed.note == unsealed.checkpoint
    prove(ledger, 0, [b"list"])
    newest = sealed(ledger)
    view, at = ledger.reader.anchor(0)
    assert at == newest
    assert view.leaf is not None
    assert view.evidence is not None
    assert view.note == ledger.promises.published[size]
    assert view.consistency
    old, _ = ledger.reader.anchor(0, size)
    assert (old.leaf, old.evidence) == (None, None)


def test_anchors_that_cannot_be_shown() -> None:
    ledger = SyncLedger()
    first = grown(ledger, 0)

    def refused(reason: Reason, number: int, size: int = 0) -> str:
        with pytest.raises(ServiceError) as caught:
            ledger.reader.anchor(number, size)
        assert caught.value.reason is reason
        return str(caught.value)

    assert "no anchor yet" in refused(Reason.NOT_FOUND, 0)
    grown(ledger, 1)
    stamp(ledger)
    assert "0..0" in refused(Reason.NOT_FOUND, 1)
    assert "no checkpoint was published" in refused(Reason.NOT_FOUND, 0, first + 100)
    assert "older than the one" in refused(Reason.INVALID_ARGUMENT, 0, first)


def test_nothing_is_shown_of_an_empty_log() -> None:
    """No consistency proof leads from the empty tree (RFC 6962 section 2.1.2)."""
    ledger = SyncLedger()
    stamp(ledger)
    sealed(ledger)
    view, size = ledger.reader.anchor(0)
    assert (view.record.size, view.consistency, size) == (0, (), 1)
    assert view.leaf is not None
