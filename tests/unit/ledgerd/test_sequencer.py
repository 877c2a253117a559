"""One seal step, and recovery: what is believed, what is refused, what is published in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from ledgerd.sequencer import RecoveryError, Sequencer
from ledgerd.store.interface import AnchorStore, Changes
from ledgerd.writer import CommitJob
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import ServiceError
from receiptledger.core.leaf import HeadLeaf, KeyLeaf, Leaf, parse_leaf
from receiptledger.core.merkle import EMPTY_ROOT, hash_leaf, root_hash
from receiptledger.core.note import NoteSigner
from receiptledger.core.tile import TileId
from tests.helpers.agents import Agent
from tests.helpers.stamps import prove, stamp
from tests.helpers.sync_ledger import NOW, SIGNER, MemoryGuard, SyncLedger

if TYPE_CHECKING:
    from ledgerd.store.interface import LogState
    from ledgerd.store.memory import MemoryStore

A, B = Agent("agent-1", 1), Agent("agent-2", 2)
RA, RB = A.receipts(6), B.receipts(3)


def sealed_ledger() -> SyncLedger:
    ledger = SyncLedger()
    ledger.append([*RA[:3], *RB[:1]])
    ledger.seal()
    return ledger


def leaves(ledger: SyncLedger) -> list[Leaf]:
    return [parse_leaf(leaf) for leaf in ledger.store.leaves(0, ledger.sequencer.tree_size)]


# Steps


def test_a_new_log_is_empty_signed_and_published() -> None:
    ledger = SyncLedger()
    state = ledger.state
    assert state is not None
    assert (state.size, state.root, state.sealed_number) == (0, EMPTY_ROOT, 0)
    assert open_checkpoint(state.note, SIGNER.verifier).size == 0
    assert ledger.guard.note == state.note
    assert ledger.store.log_state() == state
    assert ledger.sequencer.tree_size == 0


def test_a_step_commits_everything_unsealed_under_one_checkpoint() -> None:
    ledger = SyncLedger()
    ledger.append([*RA[:3], *RB[:1]])
    assert (ledger.sequencer.unsealed_receipts, ledger.sequencer.unsealed_chains) == (4, 2)
    state = ledger.sequencer.step()
    assert state is not None
    assert (state.size, state.sealed_number) == (4, 4)
    assert state == ledger.state == ledger.store.log_state()
    assert ledger.guard.note == ledger.store.checkpoint(4) == state.note
    checkpoint = open_checkpoint(state.note, SIGNER.verifier)
    hashes = [hash_leaf(leaf) for leaf in ledger.store.leaves(0, 4)]
    assert checkpoint.root == state.root == root_hash(hashes)
    assert [type(leaf) for leaf in leaves(ledger)] == [KeyLeaf, HeadLeaf] * 2
    assert list(ledger.store.marks()) == []
    assert (ledger.sequencer.unsealed_receipts, ledger.sequencer.unsealed_chains) == (0, 0)


def test_nothing_to_seal_is_no_new_checkpoint() -> None:
    ledger = sealed_ledger()
    commits, note = ledger.store.commits, ledger.guard.note
    assert ledger.sequencer.step() is None
    assert (ledger.store.commits, ledger.guard.note) == (commits, note)


def test_head_leaves_of_a_chain_join_over_seals() -> None:
    ledger = SyncLedger()
    for raw in RA:
        ledger.append([raw])
        ledger.seal()
    heads = [leaf for leaf in leaves(ledger) if isinstance(leaf, HeadLeaf)]
    assert [(head.first, head.last) for head in heads] == [(n, n) for n in range(6)]
    assert [head.prev for head in heads] == [None, *(head.head for head in heads[:-1])]


def test_several_commits_of_a_chain_are_one_segment() -> None:
    ledger = SyncLedger()
    for raw in RA:
        ledger.append([raw])
    assert ledger.sequencer.unsealed_receipts == 6
    ledger.seal()
    (head,) = [leaf for leaf in leaves(ledger) if isinstance(leaf, HeadLeaf)]
    assert (head.first, head.last) == (0, 5)
    assert list(ledger.store.marks()) == []


# Recovery


def test_a_restart_seals_what_was_not_sealed() -> None:
    ledger = sealed_ledger()
    ledger.append([*RA[3:5], *RB[1:2]])
    ledger.append([RA[5]])
    after = ledger.crash()
    assert (after.sequencer.unsealed_receipts, after.sequencer.unsealed_chains) == (4, 2)
    assert after.sequencer.tree_size == 4
    after.seal()
    heads = [leaf for leaf in leaves(after) if isinstance(leaf, HeadLeaf)]
    assert [(head.chain, head.first, head.last) for head in heads[2:]] == sorted(
        [(A.chain, 3, 5), (B.chain, 1, 1)]
    )
    after.prove_all()
    after.audit()


def test_a_restart_makes_the_leaves_it_would_have_made() -> None:
    def make() -> SyncLedger:
        ledger = sealed_ledger()
        ledger.append([RA[3], Agent("agent-3", 3).receipts(1)[0]])
        return ledger

    one, other = make(), make().crash()
    one.seal()
    other.seal()
    assert sorted(map(repr, leaves(one))) == sorted(map(repr, leaves(other)))


def test_recovery_publishes_again_and_signs_nothing() -> None:
    ledger = sealed_ledger()
    note = ledger.guard.note
    after = ledger.crash()
    assert after.state is not None
    assert after.state.note == note
    assert after.store.commits == 0


def damage(ledger: SyncLedger) -> MemoryStore:
    return ledger.store.crash()


def refused(store: MemoryStore, guard: MemoryGuard, words: str) -> None:
    before = guard.note
    with pytest.raises(RecoveryError, match=words):
        SyncLedger(store, guard)
    assert guard.note == before


def test_another_key_is_refused() -> None:
    ledger = sealed_ledger()
    store = ledger.store.crash()
    published: list[LogState] = []
    other = NoteSigner.from_seed("example.com/log", bytes(32))
    sequencer = Sequencer(store, other, ledger.guard, published.append)
    with pytest.raises(RecoveryError, match="If the log key was replaced, put the old one back"):
        sequencer.recover()
    assert published == []


def test_a_missing_tile_is_refused() -> None:
    ledger = sealed_ledger()
    store = damage(ledger)
    del store._tables.tiles[TileId(0, 0)]
    refused(store, ledger.guard, "the stored log cannot be used")


def test_a_flipped_bit_in_a_tile_is_refused() -> None:
    ledger = sealed_ledger()
    store = damage(ledger)
    row = store._tables.tiles[TileId(0, 0)]
    store._tables.tiles[TileId(0, 0)] = bytes([row[0] ^ 1]) + row[1:]
    refused(store, ledger.guard, "do not lead to the signed root")


@pytest.mark.parametrize("change", [{"size": 3}, {"root": bytes(32)}], ids=["size", "root"])
def test_a_state_that_contradicts_its_own_note_is_refused(change: dict[str, object]) -> None:
    ledger = sealed_ledger()
    store = damage(ledger)
    store._tables.state["log"] = replace(store._tables.state["log"], **change)  # type: ignore[arg-type]
    refused(store, ledger.guard, "do not lead to the signed root")


def test_a_flipped_bit_in_a_new_leaf_is_refused_before_signing_over_it() -> None:
    ledger = sealed_ledger()
    store = damage(ledger)
    store._tables.leaves[3] = store._tables.leaves[3].replace(b"1", b"2", 1)
    refused(store, ledger.guard, "leaf 3 does not hash to what its tile says")


def test_a_missing_new_leaf_is_refused() -> None:
    ledger = sealed_ledger()
    store = damage(ledger)
    del store._tables.leaves[2]
    refused(store, ledger.guard, "the newest leaves are damaged")


def test_a_mark_without_receipts_is_refused() -> None:
    ledger = sealed_ledger()
    ledger.append(RA[3:4])
    store = damage(ledger)
    del store._tables.heads[A.chain]
    refused(store, ledger.guard, "marked unsealed but has nothing new")


def test_a_hole_before_unsealed_receipts_is_refused() -> None:
    ledger = sealed_ledger()
    ledger.append(RA[3:4])
    store = damage(ledger)
    del store._tables.entries[A.chain, 2]
    refused(store, ledger.guard, "has no position 2")


def test_the_newest_tile_alone_is_hashed_again() -> None:
    """A start must not take longer as the log grows."""
    ledger = SyncLedger()
    for number in range(130):
        ledger.append(Agent(f"a-{number}", number).receipts(1))
    ledger.seal()
    assert ledger.sequencer.tree_size == 260
    store = ledger.store.crash()
    asked: list[tuple[int, int]] = []
    real = store.leaves

    def counted(first: int, count: int) -> list[bytes]:
        asked.append((first, count))
        return real(first, count)

    store.leaves = counted  # type: ignore[method-assign]
    SyncLedger(store, ledger.guard)
    assert asked == [(256, 4)]


def test_a_state_that_vanished_is_fatal() -> None:
    ledger = sealed_ledger()
    del ledger.store._tables.state["log"]
    with pytest.raises(RecoveryError, match="gone from the store"):
        ledger.sequencer.reload()


# Order


def test_commit_then_guard_then_publish() -> None:
    order: list[str] = []
    ledger = SyncLedger()
    ledger.append(RA[:1])

    def committing(count: int, changes: Changes) -> None:
        del count
        order.append("commit" if changes.sealed else "other commit")

    def guarding() -> str:
        order.append("guard")
        return ""

    def publishing(state: LogState) -> None:
        order.append(f"publish {state.size}")

    ledger.store.before_commit = committing
    ledger.guard.before_write = guarding
    ledger.sequencer._publish = publishing
    ledger.sequencer.step()
    assert order == ["commit", "guard", "publish 2"]
    order.clear()
    ledger.sequencer.reload()
    assert order == ["other commit", "guard", "publish 2"]


def test_observing_reads_the_link_before_only_for_chains_it_does_not_know() -> None:
    ledger = sealed_ledger()
    asked: list[int] = []
    real = ledger.store.entry

    def entry(chain: bytes, position: int) -> object:
        asked.append(position)
        return real(chain, position)

    ledger.store.entry = entry  # type: ignore[method-assign, assignment]
    for raws in (RA[3:5], RA[5:6]):
        plan = ledger.admission.plan([ledger.verify(raws)], NOW)
        ledger.store.commit(plan.changes)
        ledger.admission.adopt(plan)
        ledger.sequencer.observe(plan.changes)
    assert asked == [2]


# Anchors


def anchored_ledger() -> SyncLedger:
    """Three receipts and a receipt of two chains, two anchors of that size, nothing unsealed."""
    ledger = sealed_ledger()
    ledger.commit(stamp(ledger.store, "tsa-a"))
    ledger.commit(stamp(ledger.store, "tsa-b"))
    ledger.seal()
    return ledger


def kinds(ledger: SyncLedger) -> str:
    """One letter for each leaf."""
    return "".join(type(leaf).__name__[0] for leaf in leaves(ledger))


def test_anchors_are_sealed_after_the_receipts_or_alone() -> None:
    ledger = sealed_ledger()
    ledger.commit(stamp(ledger.store))
    assert ledger.sequencer.unsealed_anchors == 1
    ledger.append(RA[3:4])
    ledger.seal()
    assert kinds(ledger) == "KHKH" + "HA"
    ledger.commit(stamp(ledger.store))
    ledger.seal()
    assert kinds(ledger) == "KHKHHAA"
    assert ledger.sequencer.unsealed_anchors == 0
    assert ledger.seal() is None
    assert [one.leaf_index for one in ledger.store.anchors()] == [5, 6]
    ledger.audit()


def test_evidence_gets_a_leaf_at_the_next_seal() -> None:
    ledger = anchored_ledger()
    record = ledger.store.anchor(0)
    assert record is not None
    ledger.commit(prove(record, b"crl"))
    ledger.seal()
    assert kinds(ledger) == "KHKHAAA"
    done = ledger.store.anchor(0)
    assert done is not None
    assert (done.leaf_index, done.evidence_leaf_index) == (4, 6)
    ledger.audit()


def test_a_record_read_before_a_seal_gets_no_second_leaf() -> None:
    """Evidence takes a minute to fetch, and the record it is for was read before."""
    ledger = sealed_ledger()
    ledger.commit(stamp(ledger.store))
    stale = ledger.store.anchor(0)
    assert stale is not None
    assert stale.leaf_index is None
    ledger.seal()
    ledger.commit(prove(stale, b"crl"))
    ledger.seal()
    assert kinds(ledger) == "KHKHAA"
    ledger.audit()


def test_the_same_record_again_is_not_sealed_again() -> None:
    ledger = sealed_ledger()
    changes = stamp(ledger.store)
    ledger.commit(changes)
    ledger.commit(changes)
    ledger.seal()
    ledger.commit(changes)
    assert ledger.sequencer.unsealed_anchors == 0
    assert ledger.seal() is None
    assert kinds(ledger) == "KHKHA"


@pytest.mark.parametrize("power", [True, False])
def test_an_anchor_that_was_not_sealed_is_sealed_after_a_restart_once(power: bool) -> None:
    ledger = anchored_ledger()
    ledger.commit(stamp(ledger.store))
    record = ledger.store.anchor(1)
    assert record is not None
    ledger.commit(prove(record, b"crl"))
    for _ in range(2):
        ledger = ledger.crash(power=power)
        assert ledger.sequencer.unsealed_anchors == 2
    ledger.seal()
    ledger = ledger.crash(power=power)
    assert ledger.seal() is None
    assert kinds(ledger) == "KHKHAA" + "AA"
    assert [(one.leaf_index, one.evidence_leaf_index) for one in ledger.store.anchors()] == [
        (4, None),
        (5, 6),
        (7, None),
    ]
    ledger.audit()


def test_a_mark_of_an_anchor_that_has_its_leaf_is_refused() -> None:
    ledger = anchored_ledger()
    store = damage(ledger)
    record = store.anchor(0)
    assert record is not None
    store.unsealed_anchors = lambda: [record]  # type: ignore[method-assign]
    with pytest.raises(RecoveryError, match="anchor 0 is marked unsealed but has its leaf"):
        SyncLedger(store, ledger.guard)


# Content


def test_content_ends_at_the_last_leaf_that_is_no_anchor() -> None:
    ledger = SyncLedger()
    assert ledger.sequencer.content_size == 0
    ledger.append(RA[:1])
    assert ledger.sequencer.content_size == 0
    ledger.seal()
    assert ledger.sequencer.content_size == 2
    ledger.commit(stamp(ledger.store))
    ledger.append(RB[:1])
    ledger.seal()
    assert (ledger.sequencer.content_size, ledger.sequencer.tree_size) == (4, 5)
    ledger.commit(stamp(ledger.store))
    ledger.seal()
    assert (ledger.sequencer.content_size, ledger.sequencer.tree_size) == (4, 6)
    ledger.append(RA[1:2])
    ledger.seal()
    assert ledger.sequencer.content_size == ledger.sequencer.tree_size == 7


@pytest.mark.parametrize("count", [0, 1, 251, 252, 253, 254, 507, 508, 509])
def test_content_is_found_again_behind_any_number_of_anchors(count: int) -> None:
    """Four leaves of receipts, then anchors up to and over the edges of tiles."""
    ledger = sealed_ledger()
    for _ in range(count):
        ledger.commit(stamp(ledger.store))
    ledger.seal()
    after = ledger.crash()
    assert after.sequencer.tree_size == 4 + count
    assert after.sequencer.content_size == ledger.sequencer.content_size == 4


def test_a_log_of_anchors_alone_has_no_content() -> None:
    ledger = SyncLedger()
    ledger.commit(stamp(ledger.store))
    ledger.seal()
    assert ledger.crash().sequencer.content_size == ledger.sequencer.content_size == 0


@pytest.mark.parametrize("fault", ["lost", "done"])
def test_content_is_right_after_a_commit_in_doubt(fault: str) -> None:
    ledger = anchored_ledger()
    ledger.append(RA[3:4])
    ledger.store.fail_next(fault)
    assert isinstance(ledger.seal(), ServiceError)
    assert ledger.sequencer.content_size == 4
    ledger.writer.commit(CommitJob(Changes(), lambda _: None))
    assert ledger.sequencer.content_size == (7 if fault == "done" else 4)
    ledger.seal()
    assert ledger.sequencer.content_size == 7


def test_damaged_leaves_before_the_last_tile_are_said() -> None:
    """Only a log that ends in a whole tile of anchors reads further back."""
    ledger = sealed_ledger()
    for _ in range(260):
        ledger.commit(stamp(ledger.store))
    ledger.seal()
    store = damage(ledger)
    del store._tables.leaves[100]
    with pytest.raises(RecoveryError, match="leaves are damaged"):
        SyncLedger(store, ledger.guard)


# What ingest pays for it


def test_without_anchors_nothing_is_read_for_them() -> None:
    """A commit or a seal of receipts alone does not ask the store for anchors, nor hash any."""
    ledger = anchored_ledger()

    def asked(*_: object) -> NoReturn:
        raise AssertionError("read for nothing")

    for name in dir(AnchorStore):
        if not name.startswith("_"):
            setattr(ledger.store, name, asked)
    ledger.append([*RA[3:5], *RB[1:2]])
    assert ledger.seal() is not None
    ledger.append(RA[5:])
    assert ledger.seal() is not None
    assert kinds(ledger) == "KHKHAA" + "HHH"
