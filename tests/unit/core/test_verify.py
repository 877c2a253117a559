"""Every check of a bundle by itself: damage in one place fails that check and no other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.bundle import Bundle, Consistency, LeafProof, Member
from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.errors import Reason
from receiptledger.core.verdict import Status, Verdict
from receiptledger.core.verify import Trust, verify_bundle
from tests.helpers.agents import FarleyAgent, link
from tests.helpers.cases import named
from tests.helpers.mini_log import AGENT, OTHER, RAWS, World

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


# Good bundles


@pytest.mark.parametrize("position", [0, 1, 4, 5, 6, 11], ids="first at{}".format)
def test_a_good_bundle_passes_every_check_it_has_evidence_for(world: World, position: int) -> None:
    verdict = verify_bundle(world.bundle(position).encode(), world.trust)
    assert tuple(check.name for check in verdict.checks) == CHECKS
    expected = {
        name: (Status.NOT_CHECKED if name in NOT_IN_BUNDLES else Status.PASS, None)
        for name in CHECKS
    }
    assert outcomes(verdict) == expected
    assert verdict.exit_code == 0
    assert verdict.lacking == []


def test_the_facts_are_those_of_the_log(world: World) -> None:
    verdict = verify_bundle(world.bundle(8).encode(), world.trust)
    assert verdict.facts == {
        "position": 8,
        "agent": "agent-1",
        "stream": "",
        "receipt_hash": digest_text(link(RAWS[8])),
        "claimed_time": "2026-11-30T10:00:00Z",
        "chain": digest_text(AGENT.chain),
        "profile": "ms-lesson18",
        "profile_version": 1,
        "leaf_index": world.second.head_index,
        "log": "example.com/log",
        "tree_size": len(world.log.leaves),
        "root": digest_text(world.log.checkpoint().root),
        "state": "sealed",
        "not_after": None,
        "anchored_by": [],
        "not_before": None,
        "preceded_by": [],
        "claimed_time_within_bounds": None,
    }


def test_the_report_is_the_same_for_the_same_input(world: World) -> None:
    data = world.bundle().encode()
    reports = {verify_bundle(data, world.trust).to_json() for _ in range(3)}
    reports.add(verify_bundle(World().bundle().encode(), World().trust).to_json())
    assert len(reports) == 1


def test_words_say_what_was_found(world: World) -> None:
    verdict = verify_bundle(world.bundle(8).encode(), world.trust)
    words = {check.name: check.detail for check in verdict.checks}
    assert words["parse"] == "one receipt of format ms-lesson18 version 1"
    assert base64url_encode(AGENT.public_key) in words["signature"]
    assert "no key of this agent given" in words["key at position"]
    assert words["chain links"] == "links to the receipt at position 7"
    assert words["segment inclusion"] == "receipt 4 of 7 of its segment"
    assert words["log inclusion"] == f"head leaf {world.second.head_index} of 7"
    assert words["consistency"] == f"extends the remembered checkpoint of {world.since} leaves"
    assert words["unsigned members"].endswith(": signature.alg, signature.public_key")


def test_a_receipt_without_number_and_key_verifies(world: World) -> None:
    farley = FarleyAgent("issuer-1", 5)
    key = world.log.add_key(farley.chain, farley.public_key, mode="registered")
    sealed = world.log.add_segment(farley.receipts(3), key)
    verdict = verify_bundle(world.log.bundle(sealed, 1).encode(), Trust(world.trust.log_keys))
    assert verdict.exit_code == 0
    assert verdict.facts["profile"] == "draft-farley-04"
    assert "registered" in detail(verdict, "key at position")


def test_a_receipt_read_by_the_older_signing_rule_is_judged_by_that_rule(world: World) -> None:
    """The head leaf says by which format, never the receipt: lesson 18 has two under one type."""
    raw = AGENT.receipt(0, None, note="x")
    sealed = world.log.add_segment([raw], world.key)
    head = replace(sealed.head, profile="ms-lesson18-prehash")
    sealed = world.log.replace_head(sealed, head)
    verdict = verify_bundle(world.log.bundle(sealed, 0).encode(), Trust(world.trust.log_keys))
    assert failures(verdict) == {"signature": Reason.BAD_SIGNATURE}


# One damage, one failing check


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def damaged(proof: tuple[bytes, ...], at: int = 0) -> tuple[bytes, ...]:
    return (*proof[:at], flipped(proof[at]), *proof[at + 1 :])


def resealed(world: World, raws: list[bytes], position: int, **head: Any) -> Bundle:
    """What a lying log can do: commit to a segment with wrong receipts, and prove it well."""
    sealed = world.log.add_segment(raws, world.key, first=5)
    sealed = world.log.replace_head(sealed, replace(sealed.head, **head))
    return world.log.bundle(sealed, position, since=world.since)


def unsigned_change(world: World) -> Bundle:
    value = json.loads(RAWS[8])
    value["tool_name"] = "other"
    raws = [*RAWS[5:8], canonicalize(value)]
    return resealed(world, raws, 8)


def relinked(world: World) -> Bundle:
    raws = [*RAWS[5:8], AGENT.receipt(8, link(RAWS[6])), *AGENT.receipts(1, after=RAWS[8])]
    return resealed(world, raws, 8)


def renumbered(world: World) -> Bundle:
    return resealed(world, [*RAWS[5:8], AGENT.receipt(9, link(RAWS[7])), RAWS[9]], 8)


def cuckoo(world: World) -> Bundle:
    """Another agent's receipt inside the segment."""
    stranger = OTHER.receipt(7, link(RAWS[6]))
    raws = [*RAWS[5:7], stranger, AGENT.receipt(8, link(stranger)), RAWS[9]]
    return resealed(world, raws, 8)


def with_key(world: World, index: int) -> Bundle:
    return replace(world.bundle(), key=world.log.leaf(index))


def in_future(world: World) -> Bundle:
    """A key leaf that stands in time, for a later position."""
    since = world.log.add_key(AGENT.chain, AGENT.public_key, since=9)
    sealed = world.log.add_segment(RAWS[5:], since, first=5)
    return world.log.bundle(sealed, 8, since=world.since)


def swapped(bundle: Bundle, member: str, value: object) -> Bundle:
    changes: dict[str, Any] = {member: value}
    return replace(bundle, **changes)


def cut_proof(world: World, member: str) -> Bundle:
    bundle = world.bundle()
    part: LeafProof = getattr(bundle, member)
    return swapped(bundle, member, replace(part, proof=part.proof[:-1]))


def bad_proof(world: World, member: str) -> Bundle:
    bundle = world.bundle()
    part: LeafProof | Member = getattr(bundle, member)
    return swapped(bundle, member, replace(part, proof=damaged(part.proof)))


ALONE: dict[str, tuple[Callable[[World], Bundle], str, Reason]] = {
    "a member of the receipt changed": (unsigned_change, "signature", Reason.BAD_SIGNATURE),
    "key leaf of another chain with the same key": (
        lambda world: with_key(world, world.same_key_elsewhere),
        "key at position",
        Reason.WRONG_KEY,
    ),
    "key leaf after the head leaf": (
        lambda world: with_key(world, world.late_key),
        "key at position",
        Reason.WRONG_KEY,
    ),
    "key leaf for a later position": (in_future, "key at position", Reason.WRONG_KEY),
    "key leaf not in the log": (
        lambda world: bad_proof(world, "key"),
        "key at position",
        Reason.BAD_PROOF,
    ),
    "key leaf proof cut": (
        lambda world: cut_proof(world, "key"),
        "key at position",
        Reason.BAD_PROOF,
    ),
    "linked to an earlier receipt": (relinked, "chain links", Reason.BROKEN_LINK),
    "number skipped inside a segment": (renumbered, "chain links", Reason.WRONG_SEQUENCE),
    "previous receipt of another chain": (cuckoo, "chain links", Reason.BROKEN_LINK),
    "head leaf names another link before the segment": (
        lambda world: resealed(world, RAWS[5:], 5, prev=bytes(32)),
        "chain links",
        Reason.BROKEN_LINK,
    ),
    "head leaf names another head": (
        lambda world: resealed(world, RAWS[5:], 11, head=bytes(32)),
        "chain links",
        Reason.BROKEN_LINK,
    ),
    "receipt proof damaged": (
        lambda world: bad_proof(world, "receipt"),
        "segment inclusion",
        Reason.BAD_PROOF,
    ),
    "previous proof damaged": (
        lambda world: bad_proof(world, "previous"),
        "segment inclusion",
        Reason.BAD_PROOF,
    ),
    "head leaf names another segment root": (
        lambda world: resealed(world, RAWS[5:], 8, segment=bytes(32)),
        "segment inclusion",
        Reason.BAD_PROOF,
    ),
    "head leaf not in the log": (
        lambda world: bad_proof(world, "head"),
        "log inclusion",
        Reason.BAD_PROOF,
    ),
    "head leaf proof cut": (
        lambda world: cut_proof(world, "head"),
        "log inclusion",
        Reason.BAD_PROOF,
    ),
    "head leaf index moved": (
        lambda world: replace(
            world.bundle(), head=replace(world.bundle().head, index=world.second.head_index + 1)
        ),
        "log inclusion",
        Reason.BAD_PROOF,
    ),
    "consistency proof damaged": (
        lambda world: replace(
            world.bundle(),
            consistency=Consistency(world.since, damaged(world.log.consistency(world.since).proof)),
        ),
        "consistency",
        Reason.BAD_PROOF,
    ),
    "consistency proof cut": (
        lambda world: replace(
            world.bundle(),
            consistency=Consistency(world.since, world.log.consistency(world.since).proof[:-1]),
        ),
        "consistency",
        Reason.BAD_PROOF,
    ),
}


@pytest.mark.parametrize(("make", "check", "reason"), named(ALONE))
def test_damage_in_one_place_fails_one_check(
    world: World, make: Callable[[World], Bundle], check: str, reason: Reason
) -> None:
    verdict = verify_bundle(make(world).encode(), world.trust)
    assert failures(verdict) == {check: reason}
    assert skipped(verdict) == set()
    assert verdict.exit_code == 1
    assert verdict.result == "invalid"


def test_every_check_that_can_fail_by_itself_has_a_case() -> None:
    alone = {check for _, check, _ in ALONE.values()}
    elsewhere = {"parse", "checkpoint signature"}  # nothing else can be checked without them
    assert alone | elsewhere | NOT_IN_BUNDLES | {"unsigned members"} == set(CHECKS)


# Damage that takes other checks with it


def stranger(world: World) -> Bundle:
    """Another agent's whole receipt in this agent's place, well proven."""
    raws = [*RAWS[5:8], OTHER.receipts(1)[0]]
    return resealed(world, raws, 8)


def head_at_start(world: World) -> Bundle:
    bundle = world.bundle(5)
    return replace(bundle, previous=world.log.member(world.second, 1))


@pytest.mark.parametrize(
    ("make", "expected"),
    named(
        {
            "a byte of the receipt": (
                lambda world: replace(
                    world.bundle(),
                    receipt=replace(
                        world.bundle().receipt, raw=RAWS[8].replace(b"lookup", b"lookuq")
                    ),
                ),
                {"signature": Reason.BAD_SIGNATURE, "segment inclusion": Reason.BAD_PROOF},
            ),
            "another spelling of the receipt": (
                lambda world: replace(
                    world.bundle(), receipt=replace(world.bundle().receipt, raw=RAWS[8] + b" ")
                ),
                {"segment inclusion": Reason.BAD_PROOF},
            ),
            "a byte of the previous receipt": (
                lambda world: replace(
                    world.bundle(),
                    previous=Member(
                        RAWS[7].replace(b"lookup", b"lookuq"),
                        world.log.member(world.second, 2).proof,
                    ),
                ),
                {"chain links": Reason.BROKEN_LINK, "segment inclusion": Reason.BAD_PROOF},
            ),
            "position before the segment": (
                lambda world: replace(world.bundle(), position=4, key=world.bundle(4).key),
                {"chain links": Reason.BROKEN_LINK, "segment inclusion": Reason.BAD_PROOF},
            ),
            "position after the segment": (
                lambda world: replace(world.bundle(), position=12),
                {"chain links": Reason.BROKEN_LINK, "segment inclusion": Reason.BAD_PROOF},
            ),
            "a previous receipt at the segment's start": (
                head_at_start,
                {"chain links": Reason.BAD_BUNDLE, "segment inclusion": Reason.BAD_PROOF},
            ),
            "another agent's receipt": (
                stranger,
                {
                    "signature": Reason.BAD_SIGNATURE,
                    "key at position": Reason.WRONG_KEY,
                    "chain links": Reason.BROKEN_LINK,
                },
            ),
            "another agent's key": (
                lambda world: with_key(world, world.foreign_key),
                {"signature": Reason.BAD_SIGNATURE, "key at position": Reason.WRONG_KEY},
            ),
            "a head leaf the log does not have": (
                lambda world: replace(
                    world.bundle(),
                    head=replace(
                        world.bundle().head, leaf=replace(world.second.head, last=10).encode()
                    ),
                ),
                {"log inclusion": Reason.BAD_PROOF},
            ),
        }
    ),
)
def test_damage_that_shows_in_several_checks(
    world: World, make: Callable[[World], Bundle], expected: dict[str, Reason]
) -> None:
    verdict = verify_bundle(make(world).encode(), world.trust)
    assert failures(verdict) == expected
    assert verdict.exit_code == 1
