"""Reads at one published size: nothing newer shows through, nothing older changes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from ledgerd.reader import Reader
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.merkle import hash_leaf, root_hash, verify_consistency
from receiptledger.core.tile import TileId, decode_entries, tile_width
from receiptledger.core.verify import Trust, verify_bundle
from tests.helpers.agents import Agent
from tests.helpers.cases import named
from tests.helpers.sync_ledger import NOW, SIGNER, SyncLedger

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerd.store.interface import LogState

A, B = Agent("agent-1", 1), Agent("agent-2", 2)
RA, RB = A.receipts(12), B.receipts(3)
TRUST = Trust((SIGNER.verifier,))


@pytest.fixture
def ledger() -> SyncLedger:
    """Sizes 0, 2, 5, 6 were published; A's last two receipts are not sealed."""
    made = SyncLedger()
    for batch in (RA[:4], [RA[4], *RB], RA[5:10]):
        made.append(batch)
        made.seal()
    made.append(RA[10:])
    return made


def refused(reason: Reason, call: Callable[..., object], *args: object, **named: object) -> str:
    with pytest.raises(ServiceError) as caught:
        call(*args, **named)
    assert caught.value.reason is reason
    return str(caught.value)


# Receipts


def test_a_receipt_by_hash_and_by_place(ledger: SyncLedger) -> None:
    reader = ledger.reader
    assert reader.locate(hashlib.sha256(RA[7]).digest()) == (A.chain, 7)
    place = reader.place(A.chain, 7)
    assert (place.stored.raw, place.stored.admitted_at) == (RA[7], NOW)
    assert place.entry.receipt_hash == hashlib.sha256(RA[7]).digest()
    assert place.leaf_index == 5
    assert reader.head(A.chain).position == 11  # type: ignore[union-attr]
    assert reader.head(Agent("nobody").chain) is None


def test_what_is_not_there(ledger: SyncLedger) -> None:
    reader = ledger.reader
    assert "ff" * 32 in refused(Reason.NOT_FOUND, reader.locate, b"\xff" * 32)
    assert "no receipt of this chain" in refused(
        Reason.NOT_FOUND, reader.place, Agent("nobody").chain, 0
    )
    words = refused(Reason.NOT_FOUND, reader.place, A.chain, 12)
    assert "0..11" in words
    assert "got 12" in words


def test_an_unsealed_receipt_has_no_leaf(ledger: SyncLedger) -> None:
    assert ledger.reader.place(A.chain, 11).leaf_index is None
    assert ledger.reader.leaf_index(A.chain, 11) is None
    assert ledger.reader.leaf_index(A.chain, 9) == 5


# Checkpoints


def test_every_published_checkpoint_is_served(ledger: SyncLedger) -> None:
    assert sorted(ledger.promises.published) == [0, 2, 5, 6]
    for size in (2, 5, 6):
        note = ledger.reader.checkpoint(size)
        assert note == ledger.promises.published[size]
        assert open_checkpoint(note, SIGNER.verifier).size == size
    assert ledger.reader.checkpoint(0) == ledger.promises.published[6]


@pytest.mark.parametrize("size", [1, 3, 7, 2**63, 2**64 - 1])
def test_no_checkpoint_of_other_sizes(ledger: SyncLedger, size: int) -> None:
    words = refused(Reason.NOT_FOUND, ledger.reader.checkpoint, size)
    assert "the newest is 6" in words


# Proofs


@pytest.mark.parametrize("size", [0, 2, 5, 6])
@pytest.mark.parametrize("since", [0, 1, 2, 4, 5, 6])
def test_every_proof_verifies(ledger: SyncLedger, size: int, since: int) -> None:
    reader, newest = ledger.reader, size or 6
    hashes = [hash_leaf(leaf) for leaf in ledger.store.leaves(0, 6)]
    for agent, count in ((A, 12), (B, 3)):
        for position in range(count):
            index = reader.leaf_index(agent.chain, position)

            def prove(chain: bytes = agent.chain, position: int = position) -> bytes:
                return reader.prove(chain, position, size=size, since=since).encode()

            if index is None or index >= newest:
                refused(Reason.NOT_SEALED, prove)
            elif since > newest:
                refused(Reason.INVALID_ARGUMENT, prove)
            else:
                verdict = verify_bundle(prove(), TRUST)
                assert verdict.exit_code == 0
                assert verdict.facts["tree_size"] == newest
                bundle = reader.prove(agent.chain, position, size=size, since=since)
                if since:
                    assert bundle.consistency is not None
                    proof, root = bundle.consistency.proof, root_hash(hashes[:newest])
                    verify_consistency(since, newest, proof, root_hash(hashes[:since]), root)


def test_proofs_that_cannot_be_given(ledger: SyncLedger) -> None:
    prove = ledger.reader.prove
    refused(Reason.NOT_FOUND, prove, A.chain, 12)
    refused(Reason.NOT_FOUND, prove, Agent("nobody").chain, 0)
    refused(Reason.NOT_FOUND, prove, A.chain, 1, size=3)
    words = refused(Reason.NOT_SEALED, prove, A.chain, 11)
    assert "got checkpoint of 6 leaves" in words
    refused(Reason.NOT_SEALED, prove, A.chain, 4, size=2)


def test_the_same_question_has_the_same_answer_for_ever(ledger: SyncLedger) -> None:
    before = ledger.reader.prove(A.chain, 3, size=5, since=2).encode()
    ledger.seal()
    for number in range(20):
        ledger.append(Agent(f"more-{number}").receipts(2))
        ledger.seal()
    assert ledger.reader.prove(A.chain, 3, size=5, since=2).encode() == before
    assert ledger.crash().reader.prove(A.chain, 3, size=5, since=2).encode() == before


def test_a_seal_published_during_a_proof_does_not_mix_two_trees(ledger: SyncLedger) -> None:
    """Known from other logs: note of one moment, proof of the next."""
    old = ledger.state
    ledger.seal()
    new = ledger.state
    assert old is not None
    assert new is not None
    assert new.size > old.size
    for looks in range(8):
        states = [*[old] * looks, *[new] * 100]
        reader = Reader(ledger.store, iter(states).__next__, max_cache_bytes=1_048_576)
        for position in (0, 4, 9):
            bundle = reader.prove(A.chain, position, since=2)
            assert verify_bundle(bundle.encode(), TRUST).exit_code == 0, looks


def test_what_is_committed_and_not_published_is_not_shown(ledger: SyncLedger) -> None:
    state = ledger.state
    ledger.guard.faults = ["lost"]
    assert isinstance(ledger.seal(), ServiceError)
    assert ledger.store.log_state().size > 6  # type: ignore[union-attr]
    assert ledger.state == state
    reader = ledger.reader
    assert reader.leaf_index(A.chain, 11) is None
    assert reader.place(A.chain, 11).leaf_index is None
    refused(Reason.NOT_SEALED, reader.prove, A.chain, 11)
    refused(Reason.NOT_FOUND, reader.checkpoint, 7)
    refused(Reason.NOT_FOUND, reader.tile, TileId(0, 0), 7)
    refused(Reason.NOT_FOUND, reader.entries, 0, 7)
    refused(Reason.INVALID_ARGUMENT, reader.consistency, 2, 7)


def test_the_key_leaf_is_that_of_the_receipts_own_key() -> None:
    second = Agent("agent-1", 7)
    keys: dict[str, tuple[bytes, ...]] = {"agent-1": (A.public_key, second.public_key)}
    made = SyncLedger(trust_mode="registered", enrolled=keys)
    made.append(RA[:2])
    made.append([second.receipt(2, hashlib.sha256(RA[1]).digest())])
    made.seal()
    assert made.prove_all() == 3
    leaves = [made.reader.prove(A.chain, position).key.index for position in range(3)]
    assert leaves == [0, 0, 2]


# Consistency


def test_consistency_between_any_two_sizes(ledger: SyncLedger) -> None:
    hashes = [hash_leaf(leaf) for leaf in ledger.store.leaves(0, 6)]
    for new in range(1, 7):
        for old in range(1, new + 1):
            proof, size = ledger.reader.consistency(old, new)
            assert size == new
            verify_consistency(old, new, proof, root_hash(hashes[:old]), root_hash(hashes[:new]))
    assert ledger.reader.consistency(2, 0) == ledger.reader.consistency(2, 6)


@pytest.mark.parametrize(
    ("first", "second"), [(0, 0), (0, 5), (6, 5), (1, 7), (7, 0), (2**64 - 1, 2**64 - 1)]
)
def test_sizes_without_a_consistency_proof(ledger: SyncLedger, first: int, second: int) -> None:
    words = refused(Reason.INVALID_ARGUMENT, ledger.reader.consistency, first, second)
    assert "<= 6" in words


def test_an_empty_log_proves_nothing() -> None:
    reader = SyncLedger().reader
    refused(Reason.INVALID_ARGUMENT, reader.consistency, 0, 0)
    refused(Reason.INVALID_ARGUMENT, reader.consistency, 1, 0)
    refused(Reason.NOT_FOUND, reader.tile, TileId(0, 0), 1)
    refused(Reason.NOT_FOUND, reader.entries, 0, 1)
    assert open_checkpoint(reader.checkpoint(0), SIGNER.verifier).size == 0


# Tiles


@pytest.fixture(scope="module")
def large() -> SyncLedger:
    """600 leaves: two full tiles, a partial one, and a second level."""
    made = SyncLedger()
    made.append([Agent(f"a-{number}").receipts(1)[0] for number in range(300)])
    made.seal()
    return made


def test_tiles_and_entries_are_those_of_the_store(large: SyncLedger) -> None:
    leaves = large.store.leaves(0, 600)
    hashes = [hash_leaf(leaf) for leaf in leaves]
    for index, width in ((0, 256), (0, 1), (0, 255), (1, 256), (2, 88), (2, 1)):
        first = index * 256
        row = large.reader.tile(TileId(0, index), width)
        assert row == b"".join(hashes[first : first + width])
        entries = large.reader.entries(index, width)
        assert decode_entries(entries, width) == leaves[first : first + width]
    top = large.reader.tile(TileId(1, 0), 2)
    assert top == root_hash(hashes[:256]) + root_hash(hashes[256:512])
    assert large.reader.tile(TileId(1, 0), 1) == top[:32]


@pytest.mark.parametrize(
    ("tile", "width"),
    named(
        {
            "wider than there is": (TileId(0, 2), 89),
            "a full tile that is not full": (TileId(0, 2), 256),
            "behind the end": (TileId(0, 3), 1),
            "level without full tiles": (TileId(1, 0), 3),
            "level above the tree": (TileId(2, 0), 1),
            "the highest level": (TileId(63, 0), 1),
            "no hashes": (TileId(0, 0), 0),
            "fewer than none": (TileId(0, 0), -1),
            "far behind": (TileId(0, 2**54), 1),
        }
    ),
)
def test_tiles_the_tree_does_not_have(large: SyncLedger, tile: TileId, width: int) -> None:
    assert width > tile_width(tile, 600) or width <= 0
    refused(Reason.NOT_FOUND, large.reader.tile, tile, width)
    if tile.level == 0:
        refused(Reason.NOT_FOUND, large.reader.entries, tile.index, width)


def test_proofs_across_tiles_verify_with_a_cache_of_any_size(large: SyncLedger) -> None:
    for size in (1, 10_000, 10_000_000):
        reader = Reader(large.store, lambda: large.state, max_cache_bytes=size)
        for number in (0, 127, 128, 255, 256, 299):
            bundle = reader.prove(Agent(f"a-{number}").chain, 0, since=256 + number % 7)
            assert verify_bundle(bundle.encode(), TRUST).exit_code == 0


def test_before_the_first_state_nothing_is_served() -> None:
    ledger = SyncLedger(recover=False)
    nothing: list[LogState] = []
    reader = Reader(ledger.store, lambda: nothing[0] if nothing else None, max_cache_bytes=1)
    for call in (
        lambda: reader.checkpoint(0),
        lambda: reader.consistency(1, 2),
        lambda: reader.tile(TileId(0, 0), 1),
        lambda: reader.entries(0, 1),
    ):
        assert "not open yet" in refused(Reason.UNAVAILABLE, call)
    ledger.sequencer.recover()
    ledger.append(RA[:1])
    assert reader.leaf_index(A.chain, 0) is None


def test_a_key_whose_leaf_is_missing_is_not_sealed(ledger: SyncLedger) -> None:
    ledger.store.keys = lambda chain: []  # type: ignore[method-assign]
    assert "key leaf" in refused(Reason.NOT_SEALED, ledger.reader.prove, A.chain, 0)
