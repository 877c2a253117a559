"""The plan of one seal: leaves in order, keys before what relies on them, segments that join."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace

import pytest

from ledgerd.seal import Unsealed, UnsealedChain, is_anchor_leaf, plan_seal
from ledgerd.store.interface import (
    Admitted,
    AnchorRecord,
    Changes,
    Entry,
    KeyRecord,
    Mark,
    Segment,
)
from receiptledger.core.leaf import AnchorLeaf, HeadLeaf, KeyLeaf, parse_leaf
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.tile import Frontier
from tests.helpers import rfc6962


def name(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


CHAIN, OTHER, KEY, KEY2 = name("chain"), name("other"), name("key"), name("key 2")


def raw(position: int) -> bytes:
    return f"receipt {position}".encode()


def entry(position: int, *, key: bytes = KEY, profile: str = "f", version: int = 1) -> Entry:
    bytes_ = raw(position)
    return Entry(
        position,
        hash_leaf(bytes_),
        hashlib.sha256(bytes_).digest(),
        name("content", position),
        name("link", position),
        profile,
        version,
        key,
    )


def pending(first: int, entries: list[Entry], keys: list[KeyRecord] | None = None) -> UnsealedChain:
    last = first + len(entries) - 1
    prev = name("link", first - 1) if first else None
    return UnsealedChain(first, prev, entries, keys or [], [Mark(CHAIN, last)])


def record(key: bytes = KEY, since: int = 0) -> KeyRecord:
    return KeyRecord(CHAIN, key, "pinned", since, None)


def test_nothing_unsealed_is_an_empty_plan() -> None:
    frontier, _ = Frontier.empty().append([name("leaf")])
    plan = plan_seal(frontier, Unsealed(next_number=7))
    assert (plan.first_leaf, plan.leaves, plan.tiles) == (1, [], {})
    assert plan.frontier == frontier
    assert plan.sealed_number == 7


def test_a_new_chain_is_a_key_leaf_and_a_head_leaf() -> None:
    frontier, _ = Frontier.empty().append([name(n) for n in range(5)])
    entries = [entry(n) for n in range(3)]
    plan = plan_seal(frontier, Unsealed({CHAIN: pending(0, entries, [record()])}, 3, 3))
    key, head = (parse_leaf(leaf) for leaf in plan.leaves)
    assert key == KeyLeaf(CHAIN, KEY, "pinned", 0)
    root = rfc6962.mth(tuple(raw(n) for n in range(3)))
    assert head == HeadLeaf(CHAIN, 0, 2, None, name("link", 2), root, "f", 1)
    assert plan.keys == [replace(record(), leaf_index=5)]
    assert plan.segments == [Segment(CHAIN, 0, 2, 6)]
    assert plan.cleared == [Mark(CHAIN, 2)]
    assert plan.frontier.size == 7
    expected, tiles = frontier.append([hash_leaf(leaf) for leaf in plan.leaves])
    assert (plan.frontier, plan.tiles) == (expected, tiles)


def test_a_chain_goes_on_where_it_was_sealed() -> None:
    plan = plan_seal(Frontier.empty(), Unsealed({CHAIN: pending(5, [entry(5), entry(6)])}, 2, 7))
    (head,) = (parse_leaf(leaf) for leaf in plan.leaves)
    assert isinstance(head, HeadLeaf)
    assert (head.first, head.last, head.prev) == (5, 6, name("link", 4))
    assert plan.keys == []


@pytest.mark.parametrize(
    ("change", "keys"),
    [({"key": KEY2}, 2), ({"profile": "g"}, 1), ({"version": 2}, 1)],
    ids=["key", "format", "version"],
)
def test_a_change_starts_a_new_segment_that_joins(change: dict[str, object], keys: int) -> None:
    entries = [entry(0), entry(1), entry(2, **change), entry(3)]  # type: ignore[arg-type]
    records = [record(), record(KEY2, 2)][:keys]
    plan = plan_seal(Frontier.empty(), Unsealed({CHAIN: pending(0, entries, records)}, 4, 4))
    leaves = [parse_leaf(leaf) for leaf in plan.leaves]
    heads = [leaf for leaf in leaves if isinstance(leaf, HeadLeaf)]
    assert [(head.first, head.last) for head in heads] == [(0, 1), (2, 2), (3, 3)]
    for before, after in itertools.pairwise(heads):
        assert after.prev == before.head
        assert after.first == before.last + 1
    assert [segment.leaf_index for segment in plan.segments] == [
        index for index, leaf in enumerate(leaves) if isinstance(leaf, HeadLeaf)
    ]
    for key_record in plan.keys:
        assert key_record.leaf_index is not None
        leaf = leaves[key_record.leaf_index]
        assert isinstance(leaf, KeyLeaf)
        assert (leaf.key, leaf.since) == (key_record.key, key_record.since)
        first_use = next(n for n, one in enumerate(entries) if one.key == key_record.key)
        relying = next(s for s in plan.segments if s.first <= first_use <= s.last)
        assert key_record.leaf_index < relying.leaf_index
    assert len(plan.keys) == keys


def test_a_key_leaf_stands_right_before_what_relies_on_it() -> None:
    entries = [entry(0), entry(1, key=KEY2)]
    plan = plan_seal(
        Frontier.empty(), Unsealed({CHAIN: pending(0, entries, [record(), record(KEY2, 1)])}, 2, 2)
    )
    assert [type(parse_leaf(leaf)) for leaf in plan.leaves] == [KeyLeaf, HeadLeaf] * 2


def test_long_runs_are_several_segments() -> None:
    entries = [entry(n) for n in range(2_050)]
    plan = plan_seal(Frontier.empty(), Unsealed({CHAIN: pending(0, entries)}, 2_050, 2_050))
    assert [(s.first, s.last) for s in plan.segments] == [
        (0, 1_023),
        (1_024, 2_047),
        (2_048, 2_049),
    ]


def test_chains_are_sealed_in_the_order_they_came() -> None:
    unsealed = Unsealed({OTHER: pending(0, [entry(0)]), CHAIN: pending(0, [entry(0)])}, 2, 2)
    plan = plan_seal(Frontier.empty(), unsealed)
    assert [segment.chain for segment in plan.segments] == [OTHER, CHAIN]


def test_planning_changes_nothing() -> None:
    def make() -> Unsealed:
        chain = pending(0, [entry(0), entry(1, key=KEY2)], [record(), record(KEY2, 1)])
        return Unsealed({CHAIN: chain}, 2, 2)

    unsealed = make()
    first, second = (plan_seal(Frontier.empty(), unsealed) for _ in range(2))
    assert first == second
    assert unsealed == make()


# What is unsealed


def admitted(position: int, number: int, chain: bytes = CHAIN) -> Admitted:
    one = replace(entry(position), number=number)
    return Admitted(chain, position, one, raw(position), 0)


def test_admissions_add_up() -> None:
    unsealed = Unsealed()
    unsealed.add(
        Changes(admitted=[admitted(3, 10)], marks=[Mark(CHAIN, 3)], keys=[record(KEY2, 3)]),
        {CHAIN: name("link", 2)},
    )
    unsealed.add(
        Changes(
            admitted=[admitted(4, 11), admitted(0, 12, OTHER)],
            marks=[Mark(CHAIN, 4), Mark(OTHER, 0)],
        ),
        {OTHER: None},
    )
    assert (unsealed.receipts, unsealed.next_number) == (3, 13)
    chain, other = unsealed.chains[CHAIN], unsealed.chains[OTHER]
    assert (chain.first, chain.prev) == (3, name("link", 2))
    assert [one.number for one in chain.entries] == [10, 11]
    assert chain.marks == [Mark(CHAIN, 3), Mark(CHAIN, 4)]
    assert chain.keys == [record(KEY2, 3)]
    assert (other.first, other.prev, other.marks) == (0, None, [Mark(OTHER, 0)])


def test_refusals_add_nothing() -> None:
    unsealed = Unsealed(next_number=5)
    unsealed.add(Changes(), {})
    assert unsealed == Unsealed(next_number=5)


# Anchors


def anchor(number: int, **changes: object) -> AnchorRecord:
    made = AnchorRecord(
        number, 1, name("root"), f"tsa-{number}", b"ask", b"answer %d" % number, 5, 6
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def anchor_leaf(record: AnchorRecord, evidence: bytes | None = None) -> AnchorLeaf:
    response = hashlib.sha256(record.response).digest()
    digest = None if evidence is None else hashlib.sha256(evidence).digest()
    return AnchorLeaf(1, name("root"), record.tsa, response, digest)


def unsealed(*records: AnchorRecord) -> Unsealed:
    return Unsealed(anchors={record.number: record for record in records})


def test_anchors_come_last_in_number_order() -> None:
    frontier, _ = Frontier.empty().append([name("leaf")])
    work = unsealed(anchor(9), anchor(2), anchor(5))
    work.chains = {CHAIN: pending(0, [entry(0)], [record()]), OTHER: pending(0, [entry(0)])}
    plan = plan_seal(frontier, work)
    kinds = [type(parse_leaf(leaf)) for leaf in plan.leaves]
    assert kinds == [KeyLeaf, HeadLeaf, HeadLeaf, AnchorLeaf, AnchorLeaf, AnchorLeaf]
    assert plan.content_leaves == 3
    assert [(one.number, one.leaf_index) for one in plan.anchors] == [(2, 4), (5, 5), (9, 6)]
    assert [is_anchor_leaf(leaf) for leaf in plan.leaves] == [False] * 3 + [True] * 3
    hashes = [name("leaf"), *map(hash_leaf, plan.leaves)]
    assert plan.frontier == Frontier.empty().append(hashes)[0]


def test_anchors_alone_are_a_plan() -> None:
    first = anchor(0)
    work = unsealed(first)
    assert not work.nothing
    plan = plan_seal(Frontier.empty(), work)
    assert [parse_leaf(leaf) for leaf in plan.leaves] == [anchor_leaf(first)]
    assert plan.content_leaves == 0
    assert plan.anchors == [replace(first, leaf_index=0)]
    assert first.leaf_index is None  # a plan changes nothing


def test_evidence_that_came_later_has_a_leaf_of_its_own() -> None:
    first = anchor(0, leaf_index=3, evidence=b"{}")
    plan = plan_seal(Frontier.empty(), unsealed(first))
    assert [parse_leaf(leaf) for leaf in plan.leaves] == [anchor_leaf(first, b"{}")]
    assert plan.anchors == [replace(first, evidence_leaf_index=0)]


def test_evidence_that_came_first_shares_the_leaf() -> None:
    first = anchor(0, evidence=b"{}")
    plan = plan_seal(Frontier.empty(), unsealed(first))
    assert [parse_leaf(leaf) for leaf in plan.leaves] == [anchor_leaf(first, b"{}")]
    assert plan.anchors == [replace(first, leaf_index=0, evidence_leaf_index=0)]


def test_what_is_no_leaf_is_no_anchor_leaf() -> None:
    assert not is_anchor_leaf(b"{}")
    assert not is_anchor_leaf(anchor_leaf(anchor(0)).encode() + b" ")


def test_nothing_is_nothing() -> None:
    assert Unsealed().nothing
    assert not Unsealed(chains={CHAIN: pending(0, [entry(0)])}).nothing
