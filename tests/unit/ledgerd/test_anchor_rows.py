"""Reading anchors out of damaged rows: damage is an error, never another answer or "not there"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ledgerd.store import anchor_schema, schema
from ledgerd.store.families import DEFAULT
from ledgerd.store.interface import StoreError
from ledgerd.store.rocks import RocksStore
from tests.helpers.changes import Author, chain_of
from tests.helpers.ledger_bench import Bench, Sample, fill_anchored
from tests.helpers.ledgers import DictStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOREVER = 2**63 - 1


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = fill_anchored(RocksStore.open(folder / "db"), folder)
    made = Sample(ledger)
    ledger.store.close()
    return made


READS: dict[str, Callable[[DictStore], Any]] = {
    "by size": lambda store: [one.number for one in store.anchors_by_size(0)],
    "by leaf": lambda store: [one.number for one in store.anchors_by_leaf(FOREVER)],
    "unsealed": lambda store: [one.number for one in store.unsealed_anchors()],
    "waiting": lambda store: [one.number for one in store.anchors_without_evidence(FOREVER)],
    "all": lambda store: [one.number for one in store.anchors()],
    "refused": lambda store: [one.number for one in store.quarantined()],
}
GOOD = {
    "by size": [0, 1, 2, 3, 4, 5],
    "by leaf": [4, 3, 2, 1, 0],
    "unsealed": [1, 5],
    "waiting": [3, 4, 5],
    "all": [0, 1, 2, 3, 4, 5],
    "refused": [0, 1, 2],
}


@pytest.mark.parametrize("name", READS)
def test_the_sample_reads_well(sample: Sample, name: str) -> None:
    assert READS[name](DictStore(sample.rows())) == GOOD[name]


@pytest.mark.parametrize(
    ("name", "key", "value", "words"),
    [
        ("by size", anchor_schema.size_key(2, 9), b"", "leads to anchor 9, which is not there"),
        ("by size", anchor_schema.size_key(3, 1), b"", "anchor 1 is not of 3 leaves"),
        ("by size", anchor_schema.size_key(3, 1), b"x", "does not decode"),
        (
            "by leaf",
            anchor_schema.anchor_leaf_key(9),
            schema.encode_number(9),
            "leads to anchor 9, which is not there",
        ),
        ("by leaf", anchor_schema.anchor_leaf_key(9), b"x", "does not decode"),
        ("unsealed", anchor_schema.unsealed_key(9), b"", "leads to anchor 9"),
        ("unsealed", anchor_schema.unsealed_key(1), b"x", "does not decode"),
        ("waiting", anchor_schema.waiting_key(5, 9), b"", "leads to anchor 9"),
        ("waiting", anchor_schema.waiting_key(5, 3), b"x", "does not decode"),
        ("all", anchor_schema.anchor_key(3), b"x", "does not decode"),
        ("all", b"a9", b"x", "does not decode"),
        ("refused", anchor_schema.quarantine_key(1), b"x", "does not decode"),
    ],
)
def test_a_damaged_row_is_an_error(
    sample: Sample, name: str, key: bytes, value: bytes, words: str
) -> None:
    bench = Bench(sample)
    bench.put(DEFAULT, (key, value))
    with pytest.raises(StoreError, match=words):
        READS[name](DictStore(bench.rows))


def test_a_leaf_that_an_anchor_does_not_know_is_passed_over(sample: Sample) -> None:
    """`fsck` names it; a reader shows what the records say."""
    bench = Bench(sample)
    bench.put(DEFAULT, (anchor_schema.anchor_leaf_key(5), schema.encode_number(3)))
    assert READS["by leaf"](DictStore(bench.rows)) == GOOD["by leaf"]


def test_a_damaged_part_of_evidence_is_an_error(sample: Sample) -> None:
    bench = Bench(sample)
    bench.put(DEFAULT, (anchor_schema.blob_key(bytes(32)), b""))
    with pytest.raises(StoreError, match="does not decode"):
        DictStore(bench.rows).blob(bytes(32))


def test_a_commit_without_timestamps_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anchors are merged with what is there; ingest must not pay for that."""
    store, author = RocksStore.open(tmp_path / "db"), Author()
    store.commit(author.batch(chain_of("a")))
    store.commit(author.seal())
    store.commit(author.stamp())

    def read(*_: object) -> NoReturn:
        raise AssertionError("a commit has read")

    for name in ("_get", "_last", "_page"):
        monkeypatch.setattr(store, name, read)
    store.commit(author.batch(chain_of("a"), chain_of("b")))
    store.commit(author.seal())  # a seal of anchors needs no read either
    monkeypatch.undo()
    record = store.anchor(0)
    store.close()
    assert record is not None
    assert record.leaf_index == author.stamps[0].leaf_index == 3
