"""Bundles with a part that cannot be read: what is said, and what is then not checked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.bundle import Bundle, LeafProof, Member
from receiptledger.core.canonical import canonicalize
from receiptledger.core.errors import Reason
from receiptledger.core.leaf import HeadLeaf
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.segment import segment_root
from receiptledger.core.verdict import Status, Verdict
from receiptledger.core.verify import Trust, verify_bundle
from tests.helpers.agents import link
from tests.helpers.cases import named
from tests.helpers.mini_log import OTHER, RAWS, Sealed, World

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKS = (
    "parse",
    "signature",
    "key at position",
    "chain links",
    "segment inclusion",
    "log inclusion",
    "checkpoint signature",
    "consistency",
    "timestamps",
    "completeness",
    "unsigned members",
)
NOT_IN_BUNDLES = {"timestamps", "completeness"}


@pytest.fixture
def world() -> World:
    return World()


def outcomes(verdict: Verdict) -> dict[str, tuple[Status, Reason | None]]:
    return {check.name: (check.status, check.reason) for check in verdict.checks}


def failures(verdict: Verdict) -> dict[str, Reason | None]:
    return {check.name: check.reason for check in verdict.checks if check.status is Status.FAIL}


def skipped(verdict: Verdict) -> set[str]:
    return {c.name for c in verdict.checks if c.status is Status.NOT_CHECKED} - NOT_IN_BUNDLES


def detail(verdict: Verdict, name: str) -> str:
    return next(check.detail for check in verdict.checks if check.name == name)


def resealed(world: World, raws: list[bytes], position: int, **head: Any) -> Bundle:
    """What a lying log can do: commit to a segment with wrong receipts, and prove it well."""
    sealed = world.log.add_segment(raws, world.key, first=5)
    sealed = world.log.replace_head(sealed, replace(sealed.head, **head))
    return world.log.bundle(sealed, position, since=world.since)


def with_key(world: World, index: int) -> Bundle:
    return replace(world.bundle(), key=world.log.leaf(index))


def with_head_leaf(world: World, leaf: bytes) -> Bundle:
    return replace(world.bundle(), head=replace(world.bundle().head, leaf=leaf))


def with_head(world: World, **members: Any) -> Bundle:
    return resealed(world, RAWS[5:], 8, **members)


NEEDS_LEAVES = (
    set(CHECKS)
    - NOT_IN_BUNDLES
    - {
        "parse",
        "log inclusion",
        "checkpoint signature",
        "consistency",
    }
)
NEEDS_RECEIPT = NEEDS_LEAVES - {"segment inclusion"}


@pytest.mark.parametrize(
    ("make", "reason", "missing"),
    named(
        {
            "head leaf is a key leaf": (
                lambda world: replace(world.bundle(), head=world.log.leaf(world.key)),
                Reason.BAD_LEAF,
                NEEDS_LEAVES,
            ),
            "key leaf is a head leaf": (
                lambda world: with_key(world, world.second.head_index),
                Reason.BAD_LEAF,
                NEEDS_LEAVES,
            ),
            "head leaf is no leaf": (
                lambda world: with_head_leaf(world, b"{}"),
                Reason.BAD_LEAF,
                NEEDS_LEAVES,
            ),
            "key leaf is no leaf": (
                lambda world: replace(world.bundle(), key=LeafProof(b"x", 3, ())),
                Reason.BAD_LEAF,
                NEEDS_LEAVES,
            ),
            "receipt is no JSON": (
                lambda world: replace(world.bundle(), receipt=Member(b"x", ())),
                Reason.MALFORMED,
                NEEDS_RECEIPT,
            ),
            "receipt lacks a member": (
                lambda world: replace(
                    world.bundle(),
                    receipt=Member(RAWS[8].replace(b'"agent_id"', b'"agent_ID"'), ()),
                ),
                Reason.INVALID_FIELD,
                NEEDS_RECEIPT,
            ),
            "receipt is of another format": (
                lambda world: with_head(world, profile="draft-farley-04"),
                Reason.INVALID_FIELD,
                NEEDS_RECEIPT,
            ),
            "format unknown here": (
                lambda world: with_head(world, profile="future-format"),
                Reason.UNKNOWN_PROFILE,
                NEEDS_RECEIPT,
            ),
            "format in another version": (
                lambda world: with_head(world, profile_version=2),
                Reason.UNKNOWN_PROFILE,
                NEEDS_RECEIPT,
            ),
        }
    ),
)
def test_what_cannot_be_read_is_said_and_what_needs_it_is_not_checked(
    world: World, make: Callable[[World], Bundle], reason: Reason, missing: set[str]
) -> None:
    verdict = verify_bundle(make(world).encode(), world.trust)
    # What this verifier does not know may be good: neither a pass nor a fail.
    status = Status.UNKNOWN if reason is Reason.UNKNOWN_PROFILE else Status.FAIL
    assert outcomes(verdict)["parse"] == (status, reason)
    assert skipped(verdict) == missing
    assert verdict.exit_code in (1, 3)
    assert verdict.exit_code == 1 or reason is Reason.UNKNOWN_PROFILE
    for name in missing:
        what = "leaves" if missing == NEEDS_LEAVES else "receipt"
        if name != "unsigned members":
            assert detail(verdict, name) == f"the {what} cannot be read"
    assert verdict.facts.get("agent") is None
    assert ("profile" in verdict.facts) is (missing == NEEDS_RECEIPT)


def test_a_receipt_inside_a_segment_without_the_one_before_is_never_valid(world: World) -> None:
    """What is left out could hide a link that does not hold: the hole immudb had."""
    whole = world.bundle()
    assert whole.previous is not None
    verdict = verify_bundle(replace(whole, previous=None).encode(), world.trust)
    assert outcomes(verdict)["chain links"] == (Status.UNKNOWN, None)
    assert (verdict.result, verdict.exit_code) == ("undecidable", 3)


def test_another_version_says_what_to_do(world: World) -> None:
    verdict = verify_bundle(with_head(world, profile_version=2).encode(), world.trust)
    assert "get a newer verifier" in detail(verdict, "parse")
    assert "ms-lesson18 version 2" in detail(verdict, "parse")


def test_an_algorithm_nobody_here_can_check_is_undecidable(world: World) -> None:
    value = json.loads(RAWS[8])
    value["signature"]["alg"] = "ML-DSA-44"
    sealed = world.log.add_segment(RAWS[5:9], world.key, first=5)
    raws = [*RAWS[5:8], canonicalize(value)]
    sealed = Sealed(raws, sealed.head, sealed.head_index, world.key)
    verdict = verify_bundle(world.log.bundle(sealed, 8).encode(), Trust(world.trust.log_keys))
    assert outcomes(verdict)["parse"] == (Status.UNKNOWN, Reason.UNSUPPORTED_ALGORITHM)
    assert outcomes(verdict)["signature"] == (Status.NOT_CHECKED, None)
    # The segment proof is made over the receipt as changed, the root is not: that one fails.
    assert failures(verdict) == {"segment inclusion": Reason.BAD_PROOF}


def test_undecidable_is_exit_code_three_and_never_valid(world: World) -> None:
    value = json.loads(OTHER.receipts(1)[0])
    value["signature"]["alg"] = "ML-DSA-44"
    raw = canonicalize(value)
    head = HeadLeaf(
        OTHER.chain, 0, 0, None, link(raw), segment_root([hash_leaf(raw)]), "ms-lesson18", 1
    )
    sealed = Sealed([raw], head, world.log.add(head.encode()), world.foreign_key)
    verdict = verify_bundle(world.log.bundle(sealed, 0).encode(), Trust(world.trust.log_keys))
    assert failures(verdict) == {}
    assert (verdict.exit_code, verdict.result) == (3, "undecidable")
