"""Every kind of damage to a stored ledger is found, and named where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledgerd.store import schema
from ledgerd.store.families import (
    DEFAULT,
    FAMILIES,
    HASHES,
    HEADS,
    INDEX,
    JOURNAL,
    LEAVES,
    SEGMENTS,
    TILES,
)
from ledgerd.store.fsck import Damage
from ledgerd.store.interface import (
    ForkRecord,
    KeyRecord,
    Mark,
    Segment,
)
from ledgerd.store.rocks import RocksStore
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.leaf import HeadLeaf
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.note import NoteSigner
from receiptledger.core.tile import Frontier
from tests.helpers.agents import link

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.helpers.ledger_bench import (
    ANNA,
    ANNA_NEW,
    ANNAS,
    BERT,
    BERTS,
    CARL,
    DORA,
    EMIL,
    Bench,
    Sample,
    fill,
    flipped,
    place,
    row,
    tile_key,
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = fill(RocksStore.open(folder / "db"), folder)
    made = Sample(ledger)
    ledger.store.close()
    return made


# Every byte.


def unseen(family: str, key: bytes, at: int | None) -> bool:
    """What nothing else in the ledger records: see the module's docstring."""
    if at is None:  # removed
        middle = key[:1] == b"c" and int.from_bytes(key[1:], "big") in (6, 9)
        return family == DEFAULT and (middle or key[:1] == b"f")
    time = family == JOURNAL and 40 <= at < 48, family == DEFAULT and key[:1] == b"f" and at < 8
    return any(time)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_change_of_any_record_is_found(sample: Sample, family: str) -> None:
    """Each record removed, and bits flipped along its value and its key."""
    original = sample.rows()
    tried = 0
    for key, value in original[family].items():
        changes: list[tuple[int | None, bytes | None, bytes]] = [(None, None, key)]
        step = max(1, len(value) // 5)
        changes += [(at, flipped(value, at), key) for at in range(0, len(value), step)]
        changes += [(at, value, flipped(key, at)) for at in (0, len(key) - 1)]
        for at, new_value, new_key in changes:
            rows = {**original, family: dict(original[family])}
            del rows[family][key]
            if new_value is not None:
                rows[family][new_key] = new_value
            found = not sample.check(rows).clean
            exempt = unseen(family, key, at) and new_key == key
            assert found or exempt, (family, key, at, new_key)
            tried += 1
    assert tried > 3 * len(original[family]) > 0


# Named damage.


def damage_receipt(bench: Bench) -> None:
    bench.flip(JOURNAL, bench.number(BERT.chain, 1), 100)


def forge_receipt(bench: Bench) -> None:
    """By the agent itself, after it was sealed: only the segment knows."""
    bench.stored(ANNA.chain, 5, ANNA_NEW.receipt(5, link(ANNAS[4]), tool_name="other"))
    bench.head(ANNA.chain, link_hash=bench.entry(ANNA.chain, 5).link_hash)


def forge_all(bench: Bench) -> None:
    """The same with the head leaf made to fit: the tile and the signed root know."""
    forge_receipt(bench)
    entries = [bench.entry(ANNA.chain, at) for at in (3, 4, 5)]
    index = schema.decode_segment(*row(bench.rows, SEGMENTS, ANNA.chain, 3)).leaf_index
    leaf = bench.leaf(index)
    assert isinstance(leaf, HeadLeaf)
    forged = HeadLeaf(
        chain=leaf.chain,
        first=leaf.first,
        last=leaf.last,
        prev=leaf.prev,
        head=entries[-1].link_hash,
        segment=Frontier.empty().append([entry.leaf_hash for entry in entries])[0].root(),
        profile=leaf.profile,
        profile_version=leaf.profile_version,
    )
    bench.put_leaf(index, forged)


def forge_all_and_tile(bench: Bench) -> None:
    forge_all(bench)
    state = bench.state()
    leaves = [bench.rows[LEAVES][key] for key in sorted(bench.rows[LEAVES])]
    bench.rows[TILES][tile_key()] = b"".join(hash_leaf(leaf) for leaf in leaves)
    assert len(leaves) == state.size


def swap_receipts(bench: Bench) -> None:
    one, other = bench.number(BERT.chain, 0), bench.number(BERT.chain, 1)
    journal = bench.rows[JOURNAL]
    journal[one], journal[other] = journal[other], journal[one]


def resign_with_another_root(bench: Bench) -> None:
    """The log's owner signs another root for a size: everything else is as it was."""
    checkpoint = Checkpoint(bench.signer.verifier.name, 6, b"\x01" * 32)
    note = sign_checkpoint(checkpoint, bench.signer)
    bench.rows[DEFAULT][schema.checkpoint_key(6)] = note


def move_checkpoint(bench: Bench) -> None:
    notes = bench.rows[DEFAULT]
    notes[schema.checkpoint_key(7)] = notes.pop(schema.checkpoint_key(6))


def checkpoint_ahead(bench: Bench) -> None:
    bench.rows[DEFAULT][schema.checkpoint_key(13)] = bench.notes[12]


def key_leaf_after(bench: Bench) -> None:
    """Swap a key leaf and the head leaf that relies on it, and grow the log anew."""
    key, head = bench.leaf(0), bench.leaf(1)
    bench.put_leaf(0, head)
    bench.put_leaf(1, key)
    bench.key(ANNA, leaf_index=1)
    bench.segment(ANNA.chain, 0, leaf_index=0)
    bench.regrow()


def join_with_a_hole(bench: Bench) -> None:
    """The head leaf of a second segment names another previous head, and the log is grown anew."""
    index = schema.decode_segment(*row(bench.rows, SEGMENTS, CARL.chain, 3)).leaf_index
    leaf = bench.leaf(index)
    assert isinstance(leaf, HeadLeaf)
    bench.put_leaf(index, replace(leaf, prev=b"\x05" * 32))
    bench.regrow()


def leaf_of_nothing(bench: Bench) -> None:
    """A well-formed leaf that nothing in the ledger leads to."""
    leaf = bench.leaf(3)
    bench.put_leaf(3, replace(leaf, chain=b"\x02" * 32))


def foreign_leaf(bench: Bench) -> None:
    bench.rows[LEAVES][schema.encode_number(0)] = b'{"kind":"other"}'
    bench.regrow()


def old_state(bench: Bench) -> None:
    """The state of the seal before: marks and segments say otherwise."""
    bench.rows[DEFAULT][b"s"] = schema.encode_state(
        replace(bench.state(), size=9, note=bench.notes[9], root=b"\x00" * 32)
    )


def leaves_out_of_order(bench: Bench) -> None:
    """The two head leaves of a chain change places, and the log is grown anew."""
    first = schema.decode_segment(*row(bench.rows, SEGMENTS, CARL.chain, 0)).leaf_index
    last = schema.decode_segment(*row(bench.rows, SEGMENTS, CARL.chain, 3)).leaf_index
    one, other = bench.leaf(first), bench.leaf(last)
    bench.put_leaf(first, other)
    bench.put_leaf(last, one)
    bench.segment(CARL.chain, 0, leaf_index=last)
    bench.segment(CARL.chain, 3, leaf_index=first)
    bench.regrow()


def head_behind_and_entry_unreadable(bench: Bench) -> None:
    bench.head(BERT.chain, position=3)
    bench.rows[INDEX][schema.encode_place(BERT.chain, 4)] = b"x"


def fork_hash_unreadable(bench: Bench) -> None:
    (key,) = (key for key in bench.rows[DEFAULT] if key[:1] == b"f")
    bench.rows[HASHES][schema.receipt_key(key[41:])] = b"x"


def swap_segments(bench: Bench) -> None:
    bench.segment(BERT.chain, 0, leaf_index=0)


DAMAGE: list[tuple[str, Callable[[Bench], None], Damage, str]] = [
    ("receipt", damage_receipt, Damage.RECEIPT_HASH, place(BERT, 1)),
    (
        "receipt removed",
        lambda b: b.remove(JOURNAL, b.number(BERT.chain, 1)),
        Damage.UNREADABLE,
        place(BERT, 1),
    ),
    ("receipts swapped", swap_receipts, Damage.UNREADABLE, place(BERT, 0)),
    ("receipt rewritten by its agent", forge_receipt, Damage.SEGMENT_ROOT, place(ANNA, 3)),
    ("segment rewritten too", forge_all, Damage.LEAF, "leaf "),
    ("tile rewritten too", forge_all_and_tile, Damage.ROOT, "root of 9 leaves"),
    (
        "surplus receipt",
        lambda b: b.rows[JOURNAL].update(
            {schema.encode_number(18): b.rows[JOURNAL][b.number(BERT.chain, 1)]}
        ),
        Damage.NUMBER,
        "the journal",
    ),
    (
        "entry unreadable",
        lambda b: b.flip(INDEX, schema.encode_place(BERT.chain, 1), 0),
        Damage.UNREADABLE,
        place(BERT, 1),
    ),
    (
        "entry missing",
        lambda b: b.remove(INDEX, schema.encode_place(BERT.chain, 1)),
        Damage.MISSING,
        place(BERT, 1),
    ),
    (
        "entries missing",
        lambda b: [b.remove(INDEX, schema.encode_place(BERT.chain, at)) for at in (1, 2)],
        Damage.MISSING,
        place(BERT, 1) + "..2",
    ),
    (
        "newest entry missing",
        lambda b: b.remove(INDEX, schema.encode_place(BERT.chain, 4)),
        Damage.MISSING,
        place(BERT, 4),
    ),
    (
        "leaf hash",
        lambda b: b.entry(BERT.chain, 1, leaf_hash=b"\x01" * 32),
        Damage.LEAF_HASH,
        place(BERT, 1),
    ),
    (
        "content hash",
        lambda b: b.entry(BERT.chain, 1, content_hash=b"\x01" * 32),
        Damage.CONTENT_HASH,
        place(BERT, 1),
    ),
    (
        "link hash",
        lambda b: b.entry(BERT.chain, 1, link_hash=b"\x01" * 32),
        Damage.LINK_HASH,
        place(BERT, 1),
    ),
    (
        "key of an entry",
        lambda b: b.entry(BERT.chain, 1, key=ANNA.public_key),
        Damage.SIGNATURE,
        place(BERT, 1),
    ),
    (
        "stranger's key",
        lambda b: b.entry(BERT.chain, 1, key=ANNA.public_key),
        Damage.KEY,
        place(BERT, 1),
    ),
    (
        "format",
        lambda b: b.entry(BERT.chain, 1, profile="draft-farley-04"),
        Damage.RECEIPT,
        place(BERT, 1),
    ),
    (
        "unknown format",
        lambda b: b.entry(BERT.chain, 1, profile="no-such"),
        Damage.RECEIPT,
        place(BERT, 1),
    ),
    (
        "format version",
        lambda b: b.entry(BERT.chain, 1, profile_version=2),
        Damage.RECEIPT,
        place(BERT, 1),
    ),
    (
        "format of a segment",
        lambda b: b.entry(BERT.chain, 1, profile_version=2),
        Damage.SEGMENT,
        place(BERT, 0),
    ),
    ("number", lambda b: b.entry(BERT.chain, 1, number=0), Damage.NUMBER, place(BERT, 1)),
    ("head behind", lambda b: b.head(BERT.chain, position=3), Damage.HEAD, "head of "),
    ("head ahead", lambda b: b.head(BERT.chain, position=5), Damage.MISSING, place(BERT, 5)),
    ("head far ahead", lambda b: b.head(BERT.chain, position=2**62), Damage.HEAD, "head of "),
    ("head's link", lambda b: b.head(BERT.chain, link_hash=b"\x01" * 32), Damage.HEAD, "head of "),
    ("head's sequence", lambda b: b.head(BERT.chain, sequence=7), Damage.HEAD, "sequence"),
    ("head's sequence lost", lambda b: b.head(BERT.chain, sequence=None), Damage.HEAD, "sequence"),
    (
        "head of a chain without numbers",
        lambda b: b.head(CARL.chain, sequence=7),
        Damage.HEAD,
        "sequence",
    ),
    (
        "head unreadable",
        lambda b: b.rows[HEADS].update({BERT.chain: b"x"}),
        Damage.UNREADABLE,
        "head of ",
    ),
    ("head missing", lambda b: b.remove(HEADS, BERT.chain), Damage.SURPLUS, "entries"),
    (
        "head of nothing",
        lambda b: b.rows[HEADS].update({b"\x01" * 32: b.rows[HEADS][BERT.chain]}),
        Damage.HEAD,
        "head of ",
    ),
    (
        "head key",
        lambda b: b.rows[HEADS].update({b"\x01" * 31: b.rows[HEADS][BERT.chain]}),
        Damage.UNREADABLE,
        "list of chains",
    ),
    (
        "hash missing",
        lambda b: b.remove(HASHES, schema.receipt_key(link(BERTS[1]))),
        Damage.HASH_INDEX,
        place(BERT, 1),
    ),
    (
        "hash leads elsewhere",
        lambda b: b.rows[HASHES].update(
            {schema.receipt_key(link(BERTS[1])): schema.encode_place(BERT.chain, 0)}
        ),
        Damage.HASH_INDEX,
        place(BERT, 1),
    ),
    (
        "hash unreadable",
        lambda b: b.rows[HASHES].update({schema.receipt_key(link(BERTS[1])): b"x"}),
        Damage.UNREADABLE,
        place(BERT, 1),
    ),
    (
        "hash of nothing",
        lambda b: b.rows[HASHES].update(
            {schema.receipt_key(b"\x01" * 32): schema.encode_place(BERT.chain, 0)}
        ),
        Damage.SURPLUS,
        "hashes",
    ),
    ("leaf", lambda b: b.flip(LEAVES, schema.encode_number(4), 10), Damage.LEAF, "leaf 4"),
    (
        "leaf missing",
        lambda b: b.remove(LEAVES, schema.encode_number(4)),
        Damage.UNREADABLE,
        "leaf 4",
    ),
    (
        "leaves missing",
        lambda b: [b.remove(LEAVES, schema.encode_number(at)) for at in range(9, 12)],
        Damage.UNREADABLE,
        "leaves 9..11",
    ),
    ("leaf of nothing", leaf_of_nothing, Damage.SEGMENT, "leaf 3"),
    ("leaf of no known kind", foreign_leaf, Damage.LEAF, "leaf 0"),
    (
        "surplus leaf",
        lambda b: b.rows[LEAVES].update({schema.encode_number(12): b"x"}),
        Damage.SURPLUS,
        "leaves",
    ),
    ("tile", lambda b: b.flip(TILES, tile_key(), 32 * 4 + 1), Damage.TILE, "tile/0/000, hash 4"),
    ("tile missing", lambda b: b.remove(TILES, tile_key()), Damage.MISSING, "tile/0/000"),
    (
        "tile unreadable",
        lambda b: b.rows[TILES].update({tile_key(): b"x"}),
        Damage.UNREADABLE,
        "tile/0/000",
    ),
    (
        "tile too long",
        lambda b: b.rows[TILES].update({tile_key(): b.rows[TILES][tile_key()] + bytes(32)}),
        Damage.TILE,
        "tile/0/000, hashes",
    ),
    (
        "tile too short",
        lambda b: b.rows[TILES].update({tile_key(): b.rows[TILES][tile_key()][:-32]}),
        Damage.TILE,
        "tile/0/000, hashes",
    ),
    (
        "surplus tile",
        lambda b: b.rows[TILES].update({tile_key(1): bytes(32)}),
        Damage.SURPLUS,
        "tiles",
    ),
    (
        "checkpoint",
        lambda b: b.flip(DEFAULT, schema.checkpoint_key(6), 30),
        Damage.CHECKPOINT,
        "checkpoint of 6 leaves",
    ),
    (
        "checkpoint's signature",
        lambda b: b.flip(DEFAULT, schema.checkpoint_key(6), -20),
        Damage.CHECKPOINT,
        "checkpoint of 6 leaves",
    ),
    ("checkpoint moved", move_checkpoint, Damage.CHECKPOINT, "checkpoint of 7 leaves, size"),
    ("checkpoint ahead", checkpoint_ahead, Damage.CHECKPOINT, "checkpoint of 13 leaves"),
    (
        "first checkpoint missing",
        lambda b: b.remove(DEFAULT, schema.checkpoint_key(0)),
        Damage.MISSING,
        "checkpoint of 0 leaves",
    ),
    (
        "newest checkpoint missing",
        lambda b: b.remove(DEFAULT, schema.checkpoint_key(12)),
        Damage.MISSING,
        "checkpoint of 12 leaves",
    ),
    (
        "checkpoint key",
        lambda b: b.rows[DEFAULT].update({b"c1": b"x"}),
        Damage.UNREADABLE,
        "list of checkpoints",
    ),
    ("another root signed", resign_with_another_root, Damage.ROOT, "root of 6 leaves"),
    ("state missing", lambda b: b.remove(DEFAULT, b"s"), Damage.MISSING, "log state"),
    (
        "state unreadable",
        lambda b: b.rows[DEFAULT].update({b"s": b"x"}),
        Damage.UNREADABLE,
        "log state",
    ),
    (
        "state's note",
        lambda b: b.state(note=flipped(b.state().note, 30)),
        Damage.STATE,
        "log state",
    ),
    (
        "state's other note",
        lambda b: b.state(
            note=b.state().note.replace(b"\n\n", b"\n\n")
            + NoteSigner.from_seed("x", bytes(32)).sign(b"x\n")
        ),
        Damage.STATE,
        "log state, note",
    ),
    ("state's root", lambda b: b.state(root=b"\x01" * 32), Damage.STATE, "log state, root"),
    ("state's size", lambda b: b.state(size=13), Damage.STATE, "log state, size"),
    ("state far ahead", lambda b: b.state(size=2**62), Damage.STATE, "log state, size"),
    ("old state", old_state, Damage.SURPLUS, "leaves"),
    ("sealed number", lambda b: b.state(sealed_number=19), Damage.STATE, "sealed number"),
    ("sealed number too high", lambda b: b.state(sealed_number=17), Damage.STATE, place(BERT, 3)),
    (
        "segment missing",
        lambda b: b.remove(SEGMENTS, schema.encode_place(ANNA.chain, 0)),
        Damage.SEGMENT,
        place(ANNA, 0),
    ),
    (
        "last segment missing",
        lambda b: b.remove(SEGMENTS, schema.encode_place(DORA.chain, 0)),
        Damage.SEGMENT,
        "leaf ",
    ),
    (
        "segment unreadable",
        lambda b: b.rows[SEGMENTS].update({schema.encode_place(ANNA.chain, 0): b"x"}),
        Damage.UNREADABLE,
        place(ANNA, 0),
    ),
    (
        "segment too short",
        lambda b: b.segment(ANNA.chain, 0, last=1),
        Damage.SEGMENT,
        place(ANNA, 0),
    ),
    (
        "segment too long",
        lambda b: b.segment(ANNA.chain, 3, last=6),
        Damage.SEGMENT,
        place(ANNA, 3),
    ),
    (
        "segment far too long",
        lambda b: b.segment(ANNA.chain, 0, last=2_000),
        Damage.SEGMENT,
        place(ANNA, 0),
    ),
    (
        "segment starts late",
        lambda b: b.segment(ANNA.chain, 3, first=4),
        Damage.SEGMENT,
        place(ANNA, 3),
    ),
    (
        "segment starts early",
        lambda b: b.segment(ANNA.chain, 3, first=2),
        Damage.JOIN,
        place(ANNA, 2),
    ),
    ("segment's leaf is a key leaf", swap_segments, Damage.SEGMENT, place(BERT, 0)),
    (
        "segment's leaf is another's",
        lambda b: b.segment(BERT.chain, 0, leaf_index=1),
        Damage.SEGMENT,
        place(BERT, 0),
    ),
    (
        "segment's leaf is beyond the log",
        lambda b: b.segment(BERT.chain, 0, leaf_index=12),
        Damage.SEGMENT,
        place(BERT, 0),
    ),
    (
        "surplus segment",
        lambda b: b.put(SEGMENTS, schema.encode_segment(Segment(b"\x01" * 32, 0, 1, 1))),
        Damage.SURPLUS,
        "segments",
    ),
    ("join with a hole", join_with_a_hole, Damage.JOIN, place(CARL, 3)),
    (
        "key missing",
        lambda b: b.remove(DEFAULT, b"k" + BERT.chain + BERT.public_key),
        Damage.KEY,
        place(BERT, 0),
    ),
    (
        "key unreadable",
        lambda b: b.rows[DEFAULT].update({b"k" + BERT.chain + BERT.public_key: b"x"}),
        Damage.UNREADABLE,
        "keys of ",
    ),
    (
        "key without its leaf",
        lambda b: b.key(BERT, leaf_index=None),
        Damage.KEY_ORDER,
        place(BERT, 0),
    ),
    ("key's leaf is another", lambda b: b.key(BERT, leaf_index=0), Damage.KEY, "key "),
    ("key's leaf is beyond the log", lambda b: b.key(BERT, leaf_index=12), Damage.KEY, "key "),
    ("key leaf after what relies on it", key_leaf_after, Damage.KEY_ORDER, place(ANNA, 0)),
    ("key from later on", lambda b: b.key(BERT, since=1), Damage.KEY, place(BERT, 0)),
    ("key from nowhere", lambda b: b.key(BERT, since=9), Damage.KEY, "key "),
    ("key from earlier on", lambda b: b.key(ANNA_NEW, since=2), Damage.KEY, "key "),
    ("key's mode", lambda b: b.key(BERT, mode="registered"), Damage.KEY, "key "),
    ("unsealed key sealed", lambda b: b.key(EMIL, leaf_index=1), Damage.KEY, "key "),
    (
        "surplus key",
        lambda b: b.put(
            DEFAULT, schema.encode_key(KeyRecord(b"\x01" * 32, b"\x01" * 32, "pinned", 0, None))
        ),
        Damage.SURPLUS,
        "keys",
    ),
    (
        "mark removed",
        lambda b: b.remove(DEFAULT, schema.encode_mark(Mark(BERT.chain, 4))[0]),
        Damage.MARK,
        place(BERT, 4),
    ),
    ("mark of a sealed position", lambda b: b.mark(BERT.chain, 2), Damage.MARK, place(BERT, 2)),
    ("mark of a sealed chain", lambda b: b.mark(DORA.chain, 1), Damage.MARK, place(DORA, 1)),
    ("mark beyond the head", lambda b: b.mark(BERT.chain, 5), Damage.MARK, place(BERT, 5)),
    ("mark of no chain, first", lambda b: b.mark(b"\x00" * 32, 0), Damage.MARK, "position 0"),
    ("mark of no chain, last", lambda b: b.mark(b"\xff" * 32, 0), Damage.MARK, "position 0"),
    (
        "mark unreadable",
        lambda b: b.rows[DEFAULT].update({schema.encode_mark(Mark(BERT.chain, 4))[0]: b"x"}),
        Damage.UNREADABLE,
        "marks",
    ),
    ("fork", lambda b: b.fork(raw=b"{}"), Damage.FORK, place(ANNA, 1)),
    ("fork beyond the head", lambda b: b.fork(position=6), Damage.FORK, place(ANNA, 6)),
    (
        "fork that is the receipt",
        lambda b: b.fork(raw=ANNAS[1], receipt_hash=link(ANNAS[1])),
        Damage.FORK,
        place(ANNA, 1),
    ),
    ("head leaves out of order", leaves_out_of_order, Damage.JOIN, place(CARL, 3)),
    ("head behind what is unreadable", head_behind_and_entry_unreadable, Damage.HEAD, "head of "),
    ("fork's hash unreadable", fork_hash_unreadable, Damage.UNREADABLE, "forks of "),
    ("state's note is none", lambda b: b.state(note=b"x"), Damage.STATE, "log state"),
    (
        "fork unreadable",
        lambda b: [
            b.rows[DEFAULT].update({key: b"x"}) for key in list(b.rows[DEFAULT]) if key[:1] == b"f"
        ],
        Damage.UNREADABLE,
        "forks of ",
    ),
    (
        "surplus fork",
        lambda b: b.put(
            DEFAULT, schema.encode_fork(ForkRecord(b"\x01" * 32, 0, link(b"{}"), b"{}", 0))
        ),
        Damage.SURPLUS,
        "forks",
    ),
    (
        "unknown record",
        lambda b: b.rows[DEFAULT].update({b"x": b"x"}),
        Damage.SURPLUS,
        "no known kind",
    ),
    (
        "journal key",
        lambda b: b.rows[JOURNAL].update({b"\xff" * 8: b"x"}),
        Damage.UNREADABLE,
        "journal",
    ),
]


@pytest.mark.parametrize(
    ("damage", "what", "where"), [pytest.param(*d[1:], id=d[0]) for d in DAMAGE]
)
def test_damage_is_found_and_named(
    sample: Sample, damage: Callable[[Bench], None], what: Damage, where: str
) -> None:
    bench = Bench(sample)
    damage(bench)
    report = sample.check(bench.rows)
    named = [problem for problem in report.problems if problem.what is what]
    assert any(where in problem.where for problem in named), "\n".join(map(str, report.problems))
    assert not report.clean
    for problem in report.problems:
        assert problem.expected != problem.got


@pytest.mark.parametrize(
    "damage",
    [
        "receipt",
        "tile",
        "checkpoint",
        "head's link",
        "mark removed",
        "fork",
        "another root signed",
        "state's root",
        "hash missing",
    ],
)
def test_one_damaged_bit_is_one_problem(sample: Sample, damage: str) -> None:
    bench = Bench(sample)
    next(d[1] for d in DAMAGE if d[0] == damage)(bench)
    assert sample.check(bench.rows).problems_total == 1


def test_a_receipt_that_cannot_be_read_hides_no_other(sample: Sample) -> None:
    bench = Bench(sample)
    bench.flip(INDEX, schema.encode_place(BERT.chain, 0), 0)
    bench.flip(JOURNAL, bench.number(BERT.chain, 3), 100)
    bench.rows[HEADS][ANNA.chain] = b"x"
    bench.flip(JOURNAL, bench.number(ANNA.chain, 5), 100)
    wheres = {problem.where for problem in sample.check(bench.rows).problems}
    assert {place(BERT, 3), place(ANNA, 5)} <= wheres
