"""Ledgers that are good, ledgers somebody wrote nonsense to, guards, keys, and large logs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledgerd.store import fsck_report, schema
from ledgerd.store.families import (
    DEFAULT,
    JOURNAL,
    LEAVES,
    TILES,
)
from ledgerd.store.fsck import Damage, GuardState, check
from ledgerd.store.interface import (
    Admitted,
    Changes,
    Entry,
    Head,
    Mark,
    Store,
    Stored,
)
from ledgerd.store.memory import MemoryStore
from ledgerd.store.rocks import RocksStore
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.leaf import parse_leaf
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.note import NoteSigner
from tests.helpers.agents import Agent, link, read
from tests.helpers.ledgers import DictStore, Ledger

if TYPE_CHECKING:
    from pathlib import Path

from tests.helpers.ledger_bench import (
    BERT,
    BERTS,
    DORA,
    DORAS,
    Bench,
    Sample,
    fill,
    flipped,
    place,
    tile_key,
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = fill(RocksStore.open(folder / "db"), folder)
    made = Sample(ledger)
    ledger.store.close()
    return made


# Good ledgers.


@pytest.mark.parametrize("kind", ["rocks", "memory"])
def test_a_good_ledger_is_clean(kind: str, tmp_path: Path) -> None:
    store: Store = RocksStore.open(tmp_path / "db") if kind == "rocks" else MemoryStore()
    ledger = fill(store, tmp_path)
    calls: list[tuple[int, int]] = []
    report = check(
        store,
        ledger.signer.verifier,
        guard=ledger.guard.read(),
        progress=lambda done, total: calls.append((done, total)),
    )
    store.close()
    assert report.problems == []
    assert report.clean
    assert report.checked == {
        "receipts": 18,
        "unsealed_receipts": 3,
        "chains": 5,
        "segments": 7,
        "leaves": 12,
        "tiles": 1,
        "checkpoints": 4,
        "keys": 6,
        "forks": 1,
        "marks": 2,
        "anchors": 0,
        "blobs": 0,
        "intents": 0,
        "quarantined": 0,
    }
    state = ledger.published[-1]
    assert (report.tree_size, report.root, report.guard) == (12, state.root, GuardState.EQUAL)
    assert calls[-1] == (30, 30)


def test_a_database_without_a_first_commit_is_clean(tmp_path: Path) -> None:
    store = RocksStore.open(tmp_path / "db")
    report = check(store, NoteSigner.from_seed("x", bytes(32)).verifier)
    store.close()
    assert report.problems == []
    assert report.tree_size == 0


def test_a_log_without_leaves_is_clean(tmp_path: Path) -> None:
    store = RocksStore.open(tmp_path / "db")
    ledger = Ledger(store, tmp_path)
    report = check(store, ledger.signer.verifier, guard=ledger.guard.read())
    store.close()
    assert report.problems == []
    assert report.guard is GuardState.EQUAL
    assert report.checked["checkpoints"] == 1


def test_the_rows_of_the_sample_are_clean(sample: Sample) -> None:
    report = sample.check(sample.rows())
    assert report.problems == []
    assert report.guard is GuardState.EQUAL


# What a store does not look at when it is written.


def admitted(raw: bytes, agent: Agent, position: int, number: int, **changes: object) -> Changes:
    receipt = read(raw)
    entry = Entry(
        number=number,
        leaf_hash=hash_leaf(raw),
        receipt_hash=receipt.receipt_hash,
        content_hash=receipt.content_hash,
        link_hash=receipt.link_hash,
        profile=receipt.profile,
        profile_version=receipt.profile_version,
        key=agent.public_key,
    )
    entry = replace(entry, **changes)  # type: ignore[arg-type]
    return Changes(
        admitted=[Admitted(agent.chain, position, entry, raw, 1)],
        heads={agent.chain: Head(position, receipt.link_hash, receipt.sequence)},
        marks=[Mark(agent.chain, position)],
    )


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        pytest.param(DORA.receipt(2, link(DORAS[0])), Damage.LINK, id="links past its neighbour"),
        pytest.param(DORA.receipt(2, None), Damage.LINK, id="links to nothing"),
        pytest.param(DORA.receipt(4, link(DORAS[1])), Damage.SEQUENCE, id="number jumps"),
        pytest.param(BERT.receipt(2, link(DORAS[1])), Damage.CHAIN, id="another agent's"),
        pytest.param(
            Agent("dora", 9).receipt(2, link(DORAS[1])), Damage.SIGNATURE, id="signed by another"
        ),
    ],
)
def test_an_admission_against_the_rules_is_found(tmp_path: Path, raw: bytes, what: Damage) -> None:
    store = RocksStore.open(tmp_path / "db")
    ledger = fill(store, tmp_path)
    store.commit(admitted(raw, DORA, 2, 18))
    report = check(store, ledger.signer.verifier, guard=ledger.guard.read())
    store.close()
    assert [(p.what, p.where) for p in report.problems if p.what is what] == [
        (what, place(DORA, 2))
    ]


@pytest.mark.parametrize("raw", [DORA.receipt(5, None), DORA.receipt(0, b"\x01" * 32)])
def test_a_chain_with_another_beginning_is_found(tmp_path: Path, raw: bytes) -> None:
    store = RocksStore.open(tmp_path / "db")
    ledger = Ledger(store, tmp_path)
    store.commit(admitted(raw, DORA, 0, 0))
    report = check(store, ledger.signer.verifier)
    store.close()
    assert {p.what for p in report.problems} & {Damage.SEQUENCE, Damage.LINK}


# The guard and the key.


def note(sample: Sample, size: int, root: bytes, name: str | None = None) -> bytes:
    signer = sample.signer if name is None else NoteSigner.from_seed(name, b"\x08" * 32)
    return sign_checkpoint(Checkpoint(signer.verifier.name, size, root), signer)


def test_a_guard_behind_the_log_is_no_problem(sample: Sample) -> None:
    report = sample.check(sample.rows(), guard=sample.notes[6])
    assert report.problems == []
    assert report.guard is GuardState.BEHIND


def test_no_guard_is_said_and_no_problem(sample: Sample) -> None:
    report = check(DictStore(sample.rows()), sample.signer.verifier, threads=1)
    assert report.problems == []
    assert report.guard is GuardState.NOT_CHECKED


@pytest.mark.parametrize(
    ("size", "name", "state"),
    [
        (13, None, GuardState.AHEAD),
        (12, None, GuardState.BAD),
        (7, None, GuardState.BAD),
        (6, None, GuardState.BAD),
        (12, "other/log", GuardState.BAD),
    ],
)
def test_a_guard_that_contradicts_the_log_is_found(
    sample: Sample, size: int, name: str | None, state: GuardState
) -> None:
    """Ahead; another root for the newest size, one between two seals, and one of a seal; not ours."""
    report = sample.check(sample.rows(), guard=note(sample, size, b"\x01" * 32, name))
    assert [problem.what for problem in report.problems] == [Damage.GUARD]
    assert report.guard is state


def test_a_guard_without_a_log_is_found(tmp_path: Path, sample: Sample) -> None:
    store = RocksStore.open(tmp_path / "db")
    report = check(store, sample.signer.verifier, guard=sample.guard)
    store.close()
    assert Damage.GUARD in {problem.what for problem in report.problems}
    assert report.guard is GuardState.AHEAD


def test_a_guard_of_another_log_is_one_problem_of_the_ledger(sample: Sample) -> None:
    assert sample.check(sample.rows(), guard=b"x").guard is GuardState.BAD


def test_another_logs_key_is_refused(sample: Sample) -> None:
    """Not damage: 12 bad checkpoints would send the operator to the wrong place."""
    other = NoteSigner.from_seed("other/log", bytes(32)).verifier
    with pytest.raises(EvidenceError, match="not of the log whose key was given") as caught:
        check(DictStore(sample.rows()), other)
    assert caught.value.reason is Reason.WRONG_LOG


def test_a_damaged_key_id_is_damage_and_no_other_log(sample: Sample) -> None:
    bench = Bench(sample)
    lines = bench.state().note.split(b"\n")
    bench.state(note=b"\n".join([*lines[:4], lines[4][:-4] + b"AAAA", b""]))
    assert Damage.STATE in {problem.what for problem in sample.check(bench.rows).problems}


# Larger ledgers.


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A chain of two segments of which one is full, and 520 leaves: two full tiles and a third."""
    folder = tmp_path_factory.mktemp("large")
    ledger = Ledger(RocksStore.open(folder / "db"), folder)
    ledger.admit(BERT.receipts(1_030))
    ledger.seal()
    for batch in range(2):
        agents = [Agent(f"agent-{batch}-{at}", at + 10) for at in range(130)]
        ledger.admit([agent.receipt(0, None) for agent in agents])
        ledger.seal()
    made = Sample(ledger)
    ledger.store.close()
    return made


def test_a_large_ledger_is_clean(large: Sample) -> None:
    report = large.check(large.rows())
    assert report.problems == []
    assert report.checked["segments"] == 262
    assert (report.tree_size, report.checked["tiles"]) == (523, 4)


@pytest.mark.parametrize(
    ("level", "index", "at", "where"),
    [
        (0, 0, 5, "tile/0/000, hash 5"),
        (0, 1, 255, "tile/0/001, hash 255"),
        (0, 2, 3, "tile/0/002, hash 3"),
        (1, 0, 1, "tile/1/000, hash 1"),
    ],
)
def test_a_damaged_tile_is_one_problem(
    large: Sample, level: int, index: int, at: int, where: str
) -> None:
    rows = large.rows()
    key = tile_key(index, level)
    rows[TILES][key] = flipped(rows[TILES][key], at * 32)
    assert [(p.what, p.where) for p in large.check(rows).problems] == [(Damage.TILE, where)]


def test_a_missing_upper_tile_is_named(large: Sample) -> None:
    rows = large.rows()
    del rows[TILES][tile_key(0, 1)]
    assert [p.where for p in large.check(rows).problems] == ["tile/1/000, hashes"]
    rows[TILES][tile_key(0, 1)] = b"x"
    assert [p.where for p in large.check(rows).problems] == ["tile/1/000"]


def test_a_leaf_in_the_second_tile_is_named(large: Sample) -> None:
    rows = large.rows()
    key = schema.encode_number(300)
    leaf = parse_leaf(rows[LEAVES][key])
    rows[LEAVES][key] = replace(leaf, chain=b"\x01" * 32).encode()
    problems = large.check(rows).problems
    assert (Damage.LEAF, "leaf 300") in [(p.what, p.where) for p in problems]
    assert Damage.ROOT not in {p.what for p in problems}


def test_a_lost_leaf_is_carried_by_its_tile(large: Sample) -> None:
    rows = large.rows()
    del rows[LEAVES][schema.encode_number(300)]
    wheres = [(p.what, p.where) for p in large.check(rows).problems]
    assert (Damage.UNREADABLE, "leaf 300") in wheres
    assert Damage.ROOT not in {what for what, _ in wheres}


def test_a_tree_that_cannot_be_grown_is_said_once(large: Sample) -> None:
    """Leaf and tile gone alike: no signed root can be met any more."""
    rows = large.rows()
    key = schema.encode_number(2)
    rows[LEAVES][key] = replace(parse_leaf(rows[LEAVES][key]), chain=b"\x01" * 32).encode()
    rows[TILES][tile_key()] = flipped(rows[TILES][tile_key()], 2 * 32)
    problems = large.check(rows).problems
    assert [p.where for p in problems if p.what is Damage.ROOT] == ["root of 3 leaves"]


def test_problems_are_counted_and_bounded(large: Sample) -> None:
    rows = large.rows()
    for number in range(500):
        key = schema.encode_number(number)
        rows[JOURNAL][key] = flipped(rows[JOURNAL][key], 100)
    report = large.check(rows)
    assert report.problems_total == 500
    assert len(report.problems) == fsck_report.MAX_PROBLEMS
    assert report.as_dict()["problems_total"] == 500


def test_without_anything_signed_leaves_are_held_against_tiles(large: Sample) -> None:
    rows = large.rows()
    rows[DEFAULT] = {k: v for k, v in rows[DEFAULT].items() if k[:1] not in (b"c", b"s")}
    rows[TILES][tile_key(1)] = flipped(rows[TILES][tile_key(1)], 40)
    problems = check(DictStore(rows), large.signer.verifier).problems
    assert (Damage.TILE, "tile/0/001, hash 1") in [(p.what, p.where) for p in problems]


def test_stored_is_what_was_signed(sample: Sample) -> None:
    """The bench itself: what it rewrites decodes, so that damage is in the values."""
    bench = Bench(sample)
    bench.stored(BERT.chain, 4, BERTS[4])
    assert sample.check(bench.rows).problems == []
    assert isinstance(
        schema.decode_stored(bench.rows[JOURNAL][bench.number(BERT.chain, 4)]), Stored
    )
