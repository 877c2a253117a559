"""Every kind of damage to what is kept of timestamps is found, and named where it is."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from ledgerd.store import anchor_schema, schema
from ledgerd.store.families import DEFAULT, LEAVES
from ledgerd.store.fsck import Damage, check
from ledgerd.store.memory import MemoryStore
from ledgerd.store.rocks import RocksStore
from receiptledger.core.evidence_manifest import encode_manifest
from receiptledger.core.leaf import AnchorLeaf
from tests.helpers.ledger_bench import Bench, Sample, fill_anchored, flipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ledgerd.store.interface import Store

CRL = sha256(b"crl").digest()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = fill_anchored(RocksStore.open(folder / "db"), folder)
    made = Sample(ledger)
    ledger.store.close()
    return made


@pytest.mark.parametrize("kind", ["rocks", "memory"])
def test_a_good_ledger_is_clean(kind: str, tmp_path: Path) -> None:
    store: Store = RocksStore.open(tmp_path / "db") if kind == "rocks" else MemoryStore()
    ledger = fill_anchored(store, tmp_path)
    report = check(store, ledger.signer.verifier, guard=ledger.guard.read())
    store.close()
    assert report.problems == []
    assert report.tree_size == 9
    kinds = ("anchors", "blobs", "intents", "quarantined")
    assert [report.checked[kind] for kind in kinds] == [6, 3, 1, 3]


# Every byte.


def unseen(key: bytes, value: bytes, at: int | None) -> bool:
    """What nothing else in the ledger records: see `fsck_anchors`."""
    kind, number = key[:1], int.from_bytes(key[1:9], "big")
    if at is None:  # removed
        return kind == b"i" or (kind == b"q" and number == 2) or kind == b"c"
    if kind in b"iq":
        return True
    if kind != b"a":
        return False
    record = anchor_schema.decode_anchor(number, value)
    request = value.index(record.request)
    name = request - len(record.tsa)
    times = 9 <= at < 17 or (17 <= at < 25 and record.evidence is not None)
    asked = request <= at < request + len(record.request)
    # Without a leaf its name and response are its own word; with one, the leaf knows them.
    own = record.leaf_index is None and (53 <= at < 62 or name <= at)
    return times or asked or own


@pytest.mark.parametrize("kind", list("abilnquz"))
def test_a_change_of_any_record_is_found(sample: Sample, kind: str) -> None:
    """Each record removed, and bits flipped along its value and its key."""
    original = sample.rows()
    mine = {key: value for key, value in original[DEFAULT].items() if key[:1] == kind.encode()}
    tried = 0
    for key, value in mine.items():
        changes: list[tuple[int | None, bytes | None, bytes]] = [(None, None, key)]
        step = max(1, len(value) // 40)
        changes += [(at, flipped(value, at), key) for at in range(0, len(value), step)]
        changes += [(at, value, flipped(key, at)) for at in range(len(key))]
        for at, new_value, new_key in changes:
            rows = {**original, DEFAULT: dict(original[DEFAULT])}
            del rows[DEFAULT][key]
            if new_value is not None:
                rows[DEFAULT][new_key] = new_value
            found = not sample.check(rows).clean
            of_name = kind == "i" and new_key != key  # another authority's intent
            exempt = of_name or (new_key == key and unseen(key, value, at))
            assert found or exempt, (key, at, new_key)
            tried += 1
    assert tried > 3 * len(mine) > 0


# Named damage.


def no_row(key: bytes) -> Callable[[Bench], object]:
    return lambda bench: bench.remove(DEFAULT, key)


def row(key: bytes, value: bytes = b"") -> Callable[[Bench], object]:
    return lambda bench: bench.put(DEFAULT, (key, value))


def forge_leaf(bench: Bench) -> None:
    """The log's owner logs another response, and signs it."""
    leaf = bench.leaf(3)
    assert isinstance(leaf, AnchorLeaf)
    bench.put_leaf(3, replace(leaf, response=bytes(32)))
    bench.regrow()


def leaf_of_nothing(bench: Bench) -> None:
    """An anchor leaf that no record knows."""
    leaf = bench.leaf(3)
    assert isinstance(leaf, AnchorLeaf)
    bench.rows[LEAVES][schema.encode_number(9)] = replace(leaf, tsa="tsa-x").encode()
    bench.state(size=10)
    bench.regrow()


def swap_leaves(bench: Bench) -> None:
    """Two anchors of one checkpoint, each under the other's leaf."""
    bench.anchor(0, leaf_index=3)
    bench.anchor(1, leaf_index=2)
    row(anchor_schema.anchor_leaf_key(2), schema.encode_number(1))(bench)
    row(anchor_schema.anchor_leaf_key(3), schema.encode_number(0))(bench)


def evidence_leaf_first(bench: Bench) -> None:
    """The leaf of the evidence before the leaf of the token."""
    bench.anchor(0, leaf_index=8, evidence_leaf_index=2)


def evidence_as_own_leaf(bench: Bench) -> None:
    """A record that takes the leaf without its evidence for both."""
    bench.anchor(0, evidence_leaf_index=2)
    no_row(anchor_schema.anchor_leaf_key(8))(bench)


def other_checkpoint(bench: Bench) -> None:
    """An anchor of a size that was never signed."""
    bench.anchor(5, size=8 - 1)
    no_row(anchor_schema.size_key(9, 5))(bench)
    row(anchor_schema.size_key(7, 5))(bench)


def forget_evidence(bench: Bench) -> None:
    """A record that lost its evidence and says so everywhere but in the log."""
    record = bench.anchor(2, evidence=None, evidence_leaf_index=None)
    row(anchor_schema.waiting_key(record.stored_at, 2))(bench)


def no_manifest(bench: Bench) -> None:
    bench.anchor(1, evidence=b"{}")


def part_from_elsewhere(bench: Bench) -> None:
    bench.anchor(1, evidence=encode_manifest([CRL, bytes(32)], []))


DAMAGE: list[tuple[str, Callable[[Bench], object], Damage, str]] = [
    (
        "response",
        lambda b: b.anchor(1, response=b"x"),
        Damage.ANCHOR,
        "anchor 1, response (leaf 3)",
    ),
    ("authority", lambda b: b.anchor(1, tsa="tsa-x"), Damage.ANCHOR, "anchor 1, tsa (leaf 3)"),
    ("root", lambda b: b.anchor(1, root=bytes(32)), Damage.ANCHOR, "anchor 1, root"),
    ("root of an unsealed one", lambda b: b.anchor(5, root=bytes(32)), Damage.ANCHOR, "anchor 5"),
    ("size never signed", other_checkpoint, Damage.ANCHOR, "anchor 5"),
    ("size of another", lambda b: b.anchor(4, size=2), Damage.ANCHOR, "anchor 4, root"),
    ("forged leaf", forge_leaf, Damage.ANCHOR, "anchor 1, response (leaf 3)"),
    ("leaf of nothing", leaf_of_nothing, Damage.ANCHOR_INDEX, "leaf 9"),
    ("leaf of another", swap_leaves, Damage.ANCHOR, "anchor 0, tsa (leaf 3)"),
    ("leaf of receipts", lambda b: b.anchor(1, leaf_index=5), Damage.ANCHOR, "anchor 1"),
    ("leaf beyond the log", lambda b: b.anchor(1, leaf_index=9), Damage.ANCHOR, "anchor 1"),
    ("leaf before its checkpoint", lambda b: b.anchor(4, leaf_index=4), Damage.ANCHOR, "anchor 4"),
    ("leaf lost", lambda b: b.anchor(1, leaf_index=None), Damage.ANCHOR_INDEX, "leaf 3"),
    ("evidence leaf first", evidence_leaf_first, Damage.ANCHOR, "anchor 0, evidence"),
    ("leaf without evidence", evidence_as_own_leaf, Damage.ANCHOR, "anchor 0, evidence (leaf 2)"),
    ("evidence leaf lost", forget_evidence, Damage.ANCHOR, "anchor 2, evidence (leaf 4)"),
    (
        "evidence changed",
        lambda b: b.anchor(0, evidence=encode_manifest([CRL], [])),
        Damage.ANCHOR,
        "anchor 0, evidence, evidence (leaf 8)",
    ),
    ("evidence that is no manifest", no_manifest, Damage.EVIDENCE, "anchor 1"),
    ("evidence of a part that is nowhere", part_from_elsewhere, Damage.EVIDENCE, "anchor 1"),
    ("part missing", no_row(anchor_schema.blob_key(CRL)), Damage.EVIDENCE, "anchor 1"),
    ("part", row(anchor_schema.blob_key(CRL), b"lrc"), Damage.EVIDENCE, "part of evidence"),
    ("part empty", row(anchor_schema.blob_key(CRL)), Damage.UNREADABLE, "part of evidence"),
    ("surplus part", row(b"b" + sha256(b"x").digest(), b"x"), Damage.SURPLUS, "blobs"),
    ("key of a part", row(b"b", b"x"), Damage.UNREADABLE, "parts of evidence"),
    ("anchor missing", no_row(anchor_schema.anchor_key(1)), Damage.MISSING, "anchor 1"),
    (
        "anchors missing",
        lambda b: [b.remove(DEFAULT, anchor_schema.anchor_key(at)) for at in (1, 2)],
        Damage.MISSING,
        "anchor 1..2",
    ),
    ("newest anchor missing", no_row(anchor_schema.anchor_key(5)), Damage.SURPLUS, "index records"),
    ("anchor unreadable", row(anchor_schema.anchor_key(1), b"x"), Damage.UNREADABLE, "anchor 1"),
    ("key of an anchor", row(b"a", b"x"), Damage.UNREADABLE, "list of anchors"),
    ("size index", no_row(anchor_schema.size_key(2, 1)), Damage.ANCHOR_INDEX, "by its size"),
    ("leaf index", no_row(anchor_schema.anchor_leaf_key(3)), Damage.ANCHOR_INDEX, "by its leaf"),
    (
        "leaf index of evidence",
        no_row(anchor_schema.anchor_leaf_key(8)),
        Damage.ANCHOR_INDEX,
        "by the leaf of its evidence",
    ),
    (
        "leaf index unreadable",
        row(anchor_schema.anchor_leaf_key(3), b"x"),
        Damage.ANCHOR_INDEX,
        "anchor 1, by its leaf",
    ),
    ("unsealed mark lost", no_row(anchor_schema.unsealed_key(5)), Damage.ANCHOR_INDEX, "anchor 5"),
    ("unsealed mark left", row(anchor_schema.unsealed_key(0)), Damage.ANCHOR_INDEX, "anchor 0"),
    ("mark of no anchor", row(anchor_schema.unsealed_key(9)), Damage.SURPLUS, "index records"),
    (
        "evidence is not waited for",
        lambda b: b.remove(DEFAULT, anchor_schema.waiting_key(b.anchor(5).stored_at, 5)),
        Damage.ANCHOR_INDEX,
        "anchor 5, as without evidence",
    ),
    (
        "evidence is waited for",
        lambda b: b.put(DEFAULT, (anchor_schema.waiting_key(b.anchor(0).stored_at, 0), b"")),
        Damage.ANCHOR_INDEX,
        "anchor 0, as without evidence",
    ),
    (
        "refused answer missing",
        no_row(anchor_schema.quarantine_key(1)),
        Damage.MISSING,
        "refused answer 1",
    ),
    (
        "refused answer unreadable",
        row(anchor_schema.quarantine_key(1), b"x"),
        Damage.UNREADABLE,
        "refused answer 1",
    ),
    ("key of a refused answer", row(b"q", b"x"), Damage.UNREADABLE, "list of quarantined"),
    ("intent unreadable", row(b"itsa-b", b"x"), Damage.UNREADABLE, "intents"),
    (
        "intent beyond the log",
        row(b"itsa-b", schema.encode_number(10) + bytes(40)),
        Damage.INTENT,
        "intent of tsa-b",
    ),
]


@pytest.mark.parametrize(
    ("damage", "what", "where"), [pytest.param(*one[1:], id=one[0]) for one in DAMAGE]
)
def test_damage_is_found_and_named(
    sample: Sample, damage: Callable[[Bench], object], what: Damage, where: str
) -> None:
    bench = Bench(sample)
    damage(bench)
    report = sample.check(bench.rows, guard=bench.state().note)
    named = [problem for problem in report.problems if problem.what is what]
    assert any(where in problem.where for problem in named), "\n".join(map(str, report.problems))
    for problem in report.problems:
        assert problem.expected != problem.got


@pytest.mark.parametrize(
    "name",
    [
        "response",
        "authority",
        "part",
        "size index",
        "unsealed mark lost",
        "refused answer missing",
    ],
)
def test_one_damaged_record_is_one_problem(sample: Sample, name: str) -> None:
    bench = Bench(sample)
    next(one[1] for one in DAMAGE if one[0] == name)(bench)
    problems = sample.check(bench.rows, guard=bench.state().note).problems
    assert len({problem.where for problem in problems}) == 1, "\n".join(map(str, problems))


def test_an_answer_about_more_than_there_is(sample: Sample) -> None:
    bench = Bench(sample)
    key = anchor_schema.quarantine_key(2)
    refused = anchor_schema.decode_quarantined(2, bench.rows[DEFAULT][key])
    bench.put(DEFAULT, (key, anchor_schema.encode_quarantined(replace(refused, size=10))))
    (problem,) = sample.check(bench.rows).problems
    assert (problem.what, problem.where) == (Damage.QUARANTINED, "refused answer 2")
    assert problem.got == "10"


def test_a_record_that_cannot_be_read_hides_no_other(sample: Sample) -> None:
    bench = Bench(sample)
    row(anchor_schema.anchor_key(0), b"x")(bench)
    bench.anchor(3, response=b"x")
    row(anchor_schema.quarantine_key(0), b"x")(bench)
    row(anchor_schema.blob_key(CRL))(bench)
    wheres = [problem.where for problem in sample.check(bench.rows).problems]
    assert "anchor 0" in wheres
    assert "anchor 3, response (leaf 6)" in wheres
    assert "refused answer 0" in wheres


def test_a_checkpoint_that_cannot_be_used_is_said_of_its_anchors_too(sample: Sample) -> None:
    bench = Bench(sample)
    bench.put(DEFAULT, (schema.checkpoint_key(5), b"x"))
    found = {(problem.what, problem.where) for problem in sample.check(bench.rows).problems}
    assert (Damage.CHECKPOINT, "checkpoint of 5 leaves") in found
    assert (Damage.ANCHOR, "anchor 4") in found


def test_a_leaf_that_cannot_be_read_is_one_problem(sample: Sample) -> None:
    """The walk over the log names it; its anchor is not blamed for it."""
    bench = Bench(sample)
    bench.remove(LEAVES, schema.encode_number(3))
    problems = sample.check(bench.rows).problems
    assert [(one.what, one.where) for one in problems] == [(Damage.UNREADABLE, "leaf 3")]


def test_a_store_that_lists_what_it_does_not_have(tmp_path: Path) -> None:
    store = MemoryStore()
    ledger = fill_anchored(store, tmp_path)
    store.anchor = lambda number: None  # type: ignore[method-assign]
    problems = check(store, ledger.signer.verifier).problems
    assert (Damage.UNREADABLE, "anchor 5") in [(one.what, one.where) for one in problems]
