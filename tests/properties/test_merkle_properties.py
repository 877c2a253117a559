"""Tree, tiles, notes and checkpoints over arbitrary inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core import checkpoint, merkle, note, tile
from receiptledger.core.checkpoint import Checkpoint
from receiptledger.core.errors import EvidenceError, LedgerError, Reason, ServiceError
from receiptledger.core.note import NoteSigner, VerifierKey
from receiptledger.core.tile import Frontier, TileId
from tests.helpers import rfc6962

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRIES = tuple(n.to_bytes(2, "big") for n in range(1200))
LEAVES = [merkle.hash_leaf(entry) for entry in ENTRIES]

sizes = st.integers(1, len(ENTRIES))
hashes = st.binary(min_size=32, max_size=32)
large = st.integers(1, merkle.MAX_SIZE) | st.integers(0, 62).map(lambda bit: 1 << bit)
names = st.text(min_size=1, max_size=20).filter(
    lambda name: not any(c.isspace() or c < " " or c == "+" for c in name)
)
texts = st.text().map(lambda text: text.encode("utf-8", "replace"))
clean_texts = texts.filter(lambda text: not any(b < 0x20 and b != 0x0A for b in text))


# The tree


@given(st.lists(st.integers(0, 300), max_size=6), st.integers(0, 5))
def test_any_batches_give_the_tree(batches: list[int], reload_after: int) -> None:
    """However leaves arrive, and wherever the daemon restarts, the tree is the same."""
    frontier, rows = Frontier.empty(), dict[TileId, bytes]()
    for number, batch in enumerate(batches):
        batch = min(batch, len(LEAVES) - frontier.size)
        frontier, changed = frontier.append(LEAVES[frontier.size : frontier.size + batch])
        rows.update(changed)
        if number == reload_after:
            frontier = Frontier.load(frontier.size, lambda wanted: rows.get(wanted, b""))
    assert frontier.root() == rfc6962.mth(ENTRIES[: frontier.size])
    for where, row in rows.items():
        assert len(row) == 32 * tile.tile_width(where, frontier.size)


@given(sizes, st.data())
def test_inclusion_proof(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_path(LEAVES[:size], index)
    root = rfc6962.mth(ENTRIES[:size])
    assert proof == rfc6962.path(index, ENTRIES[:size])
    merkle.verify_inclusion(LEAVES[index], index, size, proof, root)
    other = data.draw(st.integers(0, size - 1))
    if other != index:
        with pytest.raises(EvidenceError):
            merkle.verify_inclusion(LEAVES[other], index, size, proof, root)
        with pytest.raises(EvidenceError):
            merkle.verify_inclusion(LEAVES[index], other, size, proof, root)


@given(sizes, sizes)
def test_consistency_proof(one: int, other: int) -> None:
    old, new = sorted((one, other))
    _, rows = Frontier.empty().append(LEAVES)
    plan = merkle.plan_consistency(old, new)
    proof = plan.fold(tile.read_nodes(plan.nodes, rows.__getitem__))
    assert proof == rfc6962.proof(old, ENTRIES[:new])
    old_root, new_root = rfc6962.mth(ENTRIES[:old]), rfc6962.mth(ENTRIES[:new])
    merkle.verify_consistency(old, new, proof, old_root, new_root)
    if old != new:
        with pytest.raises(EvidenceError):
            merkle.verify_consistency(old, new, proof, new_root, new_root)
        with pytest.raises(EvidenceError):
            merkle.verify_consistency(old, new, proof, old_root, old_root)


@given(large, large)
def test_plans_of_the_largest_trees_have_the_length_the_verifier_wants(a: int, b: int) -> None:
    """No tree of that size exists to prove in; planning and checking must agree all the same."""
    low, high = sorted((a, b))
    if low < high:
        plan = merkle.plan_inclusion(low, high)
        proof = plan.fold([merkle.EMPTY_ROOT] * len(plan.nodes))
        merkle.root_from_inclusion(merkle.EMPTY_ROOT, low, high, proof)
        plan = merkle.plan_consistency(low, high)
        proof = plan.fold([merkle.EMPTY_ROOT] * len(plan.nodes))
        with pytest.raises(EvidenceError, match="does not lead to"):
            merkle.verify_consistency(low, high, proof, b"\0" * 32, b"\0" * 32)
    for plan in (merkle.plan_consistency(low, high), merkle.plan_inclusion(low - 1, high)):
        assert len(plan.groups) <= 64
        assert all((node.index + 1) << node.level <= high for node in plan.nodes)


@given(st.integers(0, merkle.MAX_SIZE), st.integers(0, merkle.MAX_SIZE))
def test_range_nodes_cover_the_range(one: int, other: int) -> None:
    begin, end = sorted((one, other))
    at = begin
    for level, index in merkle.range_nodes(begin, end):
        assert index << level == at
        at += 1 << level
    assert at == end
    assert len(merkle.edge_nodes(end)) == end.bit_count()


@given(hashes, st.integers(-2, 2**65), st.integers(-2, 2**65), st.lists(hashes, max_size=70))
def test_no_other_exception_escapes_verification(
    value: bytes, one: int, other: int, proof: list[bytes]
) -> None:
    with pytest.raises(EvidenceError) as caught:
        merkle.verify_inclusion(value, one, other, proof, b"\0" * 32)
    assert caught.value.reason is Reason.BAD_PROOF
    with pytest.raises(EvidenceError) as caught:
        merkle.verify_consistency(one, other, proof, value, b"\0" * 32)
    assert caught.value.reason is Reason.BAD_PROOF


# Tiles


@given(st.integers(0, 63), st.integers(0, merkle.MAX_SIZE), st.integers(1, 256))
def test_tile_paths_round_trip(level: int, index: int, width: int) -> None:
    where = TileId(level, index)
    assert tile.parse_tile_path(tile.tile_path(where, width)) == (where, width)
    assert tile.parse_entries_path(tile.entries_path(index, width)) == (index, width)


@given(st.text(alphabet="tile/enrsx.p0123456789", max_size=30) | st.text())
def test_a_path_that_parses_is_the_one_we_write(path: str) -> None:
    try:
        assert tile.tile_path(*tile.parse_tile_path(path)) == path
    except ServiceError as error:
        assert error.reason is Reason.NOT_FOUND  # noqa: PT017 - either outcome is right
    try:
        assert tile.entries_path(*tile.parse_entries_path(path)) == path
    except ServiceError as error:
        assert error.reason is Reason.NOT_FOUND  # noqa: PT017 - either outcome is right


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=256))
def test_entries_round_trip(entries: list[bytes]) -> None:
    assert tile.decode_entries(tile.encode_entries(entries), len(entries)) == entries


# Notes and checkpoints


@given(names, hashes)
def test_keys_round_trip(name: str, seed: bytes) -> None:
    signer = NoteSigner.from_seed(name, seed)
    assert VerifierKey.parse(str(signer.verifier)) == signer.verifier
    assert NoteSigner.parse(signer.format()).format() == signer.format()


@given(clean_texts, st.lists(st.tuples(names, hashes), min_size=1, max_size=5, unique=True))
def test_notes_round_trip(text: bytes, keys: list[tuple[str, bytes]]) -> None:
    signers = [NoteSigner.from_seed(*key) for key in keys]
    verifiers = tuple(signer.verifier for signer in signers)
    text += b"\n"
    signed = note.sign_note(text, *signers)
    assert note.open_note(signed, *verifiers) == note.OpenedNote(text, verifiers, 0)
    first = note.OpenedNote(text, verifiers[:1], len(verifiers) - 1)
    assert note.open_note(signed, verifiers[0]) == first
    opened_text, lines = note.split_note(signed)
    assert opened_text + b"\n" + b"".join(lines) == signed


def escapes(parse: Callable[[bytes], object], data: bytes) -> bool:
    """Whether anything but our own error comes out of a parser."""
    try:
        parse(data)
    except LedgerError:
        return False
    except Exception:
        return True
    return False


SIGNED = note.sign_note(b"a\n", NoteSigner.from_seed("a", bytes(32)))


@given(
    st.binary()
    | st.binary(max_size=5).map(lambda data: SIGNED + data)
    | st.tuples(st.integers(0, len(SIGNED)), st.binary(max_size=3)).map(
        lambda cut: SIGNED[: cut[0]] + cut[1] + SIGNED[cut[0] :]
    )
)
def test_no_other_exception_escapes_a_parser_of_bytes(data: bytes) -> None:
    assert not escapes(note.split_note, data)
    assert not escapes(note.parse_signature, data)
    assert not escapes(Checkpoint.parse, data)
    assert not escapes(lambda data: VerifierKey.parse(data.decode("latin-1")), data)
    assert not escapes(lambda data: NoteSigner.parse(data.decode("latin-1")), data)
    assert not escapes(lambda data: tile.decode_entries(data, 3), data)


@given(names, st.integers(1, merkle.MAX_SIZE), hashes, hashes)
def test_checkpoints_round_trip(origin: str, size: int, root: bytes, seed: bytes) -> None:
    signer = NoteSigner.from_seed(origin, seed)
    made = Checkpoint(origin, size, root)
    assert Checkpoint.parse(made.encode()) == made
    signed = checkpoint.sign_checkpoint(made, signer)
    assert checkpoint.open_checkpoint(signed, signer.verifier) == made
