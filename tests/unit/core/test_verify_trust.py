"""What the auditor brings decides: log keys, agent keys, a remembered checkpoint, demands.

And the one promise about everything else: no changed byte of a bundle is ever called valid.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.bundle import Bundle, Consistency
from receiptledger.core.canonical import canonicalize
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.encoding import base64url_encode
from receiptledger.core.errors import Reason
from receiptledger.core.leaf import HeadLeaf
from receiptledger.core.merkle import EMPTY_ROOT, hash_leaf
from receiptledger.core.note import NoteSigner, sign_note
from receiptledger.core.profile import Profiles, compile_profile
from receiptledger.core.receipt import chain_key
from receiptledger.core.segment import segment_root
from receiptledger.core.verdict import Check, Status, Verdict
from receiptledger.core.verify import POLICIES, Trust, verify_bundle
from tests.helpers.agents import Agent, link
from tests.helpers.cases import named
from tests.helpers.mini_log import AGENT, OTHER, RAWS, MiniLog, Sealed, World

if TYPE_CHECKING:
    from collections.abc import Callable

STRANGER = NoteSigner.from_seed("example.com/log", bytes(31) + b"\x09")
NEEDS_CHECKPOINT = {"key at position", "log inclusion", "consistency"}


@pytest.fixture
def world() -> World:
    return World()


def check(verdict: Verdict, name: str) -> Check:
    return next(check for check in verdict.checks if check.name == name)


def failures(verdict: Verdict) -> dict[str, Reason | None]:
    return {check.name: check.reason for check in verdict.checks if check.status is Status.FAIL}


def with_note(world: World, note: bytes) -> Bundle:
    return replace(world.bundle(), checkpoint=note)


# The checkpoint


def extended(world: World) -> bytes:
    return sign_note(world.log.checkpoint().encode() + b"extension\n", world.log.signer)


def signature_cut(world: World) -> bytes:
    return world.log.note().rstrip(b"\n")[:-4] + b"AAA=\n"


@pytest.mark.parametrize(
    ("note", "reason"),
    named(
        {
            "signed by another key of the same name": (
                lambda world: sign_checkpoint(world.log.checkpoint(), STRANGER),
                Reason.BAD_NOTE,
            ),
            "signature damaged": (signature_cut, Reason.BAD_NOTE),
            "not signed": (
                lambda world: world.log.checkpoint().encode() + b"\n",
                Reason.BAD_NOTE,
            ),
            "not a note": (lambda world: b"hello\n", Reason.BAD_NOTE),
            "empty": (lambda world: b"", Reason.BAD_NOTE),
            "of a log whose key was not given": (
                lambda world: MiniLog("example.com/other").note(0),
                Reason.WRONG_LOG,
            ),
            "with an extension line": (extended, Reason.BAD_CHECKPOINT),
            "not a checkpoint": (
                lambda world: sign_note(b"example.com/log\nhello\n", world.log.signer),
                Reason.BAD_CHECKPOINT,
            ),
        }
    ),
)
def test_a_checkpoint_that_is_not_trusted(
    world: World, note: Callable[[World], bytes], reason: Reason
) -> None:
    verdict = verify_bundle(with_note(world, note(world)).encode(), world.trust)
    assert failures(verdict) == {"checkpoint signature": reason}
    for name in NEEDS_CHECKPOINT:
        assert check(verdict, name).status is Status.NOT_CHECKED
        assert check(verdict, name).detail == "the checkpoint is not trusted"
    assert verdict.exit_code == 1
    assert "log" not in verdict.facts
    assert verdict.facts["state"] is None


def test_without_any_log_key_nothing_is_valid(world: World) -> None:
    verdict = verify_bundle(world.bundle().encode(), Trust(()))
    assert failures(verdict) == {"checkpoint signature": Reason.WRONG_LOG}
    assert "a log key" in check(verdict, "checkpoint signature").detail


def test_a_log_may_have_two_keys_and_any_of_them_may_sign(world: World) -> None:
    key = world.log.signer.verifier
    for keys in ((STRANGER.verifier, key), (key, STRANGER.verifier)):
        trust = replace(world.trust, log_keys=keys)
        assert verify_bundle(world.bundle().encode(), trust).exit_code == 0
    only_other = replace(world.trust, log_keys=(STRANGER.verifier,))
    assert verify_bundle(world.bundle().encode(), only_other).exit_code == 1


def test_a_well_signed_checkpoint_of_another_tree_proves_nothing(world: World) -> None:
    other = Checkpoint("example.com/log", len(world.log.leaves), bytes(32))
    verdict = verify_bundle(
        with_note(world, sign_checkpoint(other, world.log.signer)).encode(),
        replace(world.trust, remembered=None),
    )
    assert failures(verdict) == {
        "key at position": Reason.BAD_PROOF,
        "log inclusion": Reason.BAD_PROOF,
    }
    assert verdict.facts["state"] is None


# Agent keys


def test_a_key_the_auditor_knows(world: World) -> None:
    other = Agent("agent-1", 9).public_key
    trust = replace(world.trust, agent_keys={"agent-1": (other, AGENT.public_key)})
    verdict = verify_bundle(world.bundle().encode(), trust)
    assert verdict.exit_code == 0
    assert check(verdict, "key at position").detail.endswith("and one you trust")


def test_a_key_the_auditor_does_not_trust(world: World) -> None:
    other = Agent("agent-1", 9).public_key
    trust = replace(world.trust, agent_keys={"agent-1": (other,)})
    verdict = verify_bundle(world.bundle().encode(), trust)
    assert failures(verdict) == {"key at position": Reason.WRONG_KEY}
    words = check(verdict, "key at position").detail
    assert base64url_encode(other) in words
    assert base64url_encode(AGENT.public_key) in words
    assert verdict.exit_code == 1


def test_keys_of_another_agent_say_nothing(world: World) -> None:
    trust = replace(world.trust, agent_keys={"agent-2": (OTHER.public_key,)})
    assert verify_bundle(world.bundle().encode(), trust).exit_code == 0


# A remembered checkpoint


def consistency(world: World, remembered: Checkpoint | None, bundle: Bundle | None = None) -> Check:
    trust = replace(world.trust, remembered=remembered)
    verdict = verify_bundle((bundle or world.bundle()).encode(), trust)
    return check(verdict, "consistency")


def test_without_a_remembered_checkpoint_consistency_is_not_checked(world: World) -> None:
    found = consistency(world, None)
    assert (found.status, found.detail) == (Status.NOT_CHECKED, "no earlier checkpoint given")


def test_the_same_checkpoint_needs_no_proof(world: World) -> None:
    bundle = replace(world.bundle(), consistency=None)
    found = consistency(world, world.log.checkpoint(), bundle)
    assert found.status is Status.PASS


def test_two_roots_of_one_size_are_evidence(world: World) -> None:
    forked = Checkpoint("example.com/log", len(world.log.leaves), bytes(32))
    found = consistency(world, forked)
    assert (found.status, found.reason) == (Status.FAIL, Reason.INCONSISTENT)
    assert "keep both notes" in found.detail


def test_another_root_of_the_remembered_size(world: World) -> None:
    found = consistency(world, replace(world.old, root=bytes(32)))
    assert (found.status, found.reason) == (Status.FAIL, Reason.BAD_PROOF)


def test_a_remembered_checkpoint_of_another_log(world: World) -> None:
    found = consistency(world, replace(world.old, origin="example.com/other"))
    assert (found.status, found.reason) == (Status.FAIL, Reason.WRONG_LOG)


@pytest.mark.parametrize("size", [1, 3, 6], ids="size {}".format)
def test_a_proof_from_another_size_leaves_it_open(world: World, size: int) -> None:
    remembered = world.log.checkpoint(size)
    trust = replace(world.trust, remembered=remembered)
    verdict = verify_bundle(world.bundle().encode(), trust)
    found = check(verdict, "consistency")
    assert (found.status, found.reason) == (Status.UNKNOWN, None)
    assert f"size {size}" in found.detail
    assert (verdict.exit_code, verdict.result) == (3, "undecidable")
    again = replace(world.bundle(), consistency=world.log.consistency(size))
    assert consistency(world, remembered, again).status is Status.PASS


def test_no_proof_leaves_it_open(world: World) -> None:
    bundle = replace(world.bundle(), consistency=None)
    assert consistency(world, world.old, bundle).status is Status.UNKNOWN


def test_a_bundle_older_than_what_is_remembered_is_not_called_consistent(world: World) -> None:
    newer = Checkpoint("example.com/log", 1_000, bytes(32))
    assert consistency(world, newer).status is Status.UNKNOWN
    backwards = replace(world.bundle(), consistency=Consistency(1_000, ()))
    found = consistency(world, newer, backwards)
    assert (found.status, found.reason) == (Status.FAIL, Reason.BAD_PROOF)


def test_every_log_extends_the_empty_log(world: World) -> None:
    """RFC 6962 has no proof from size 0, so none may be asked for: it would stay open for ever."""
    empty = Checkpoint("example.com/log", 0, EMPTY_ROOT)
    bundle = replace(world.bundle(), consistency=None)
    found = consistency(world, empty, bundle)
    assert found.status is Status.PASS
    assert "empty" in found.detail


# Demands


def demanding(world: World, *demands: str, keys: bool = False) -> Verdict:
    agent_keys: dict[str, tuple[bytes, ...]] = {"agent-1": (AGENT.public_key,)} if keys else {}
    trust = replace(world.trust, agent_keys=agent_keys, require=frozenset(demands))
    return verify_bundle(world.bundle().encode(), trust)


def test_what_is_asked_for_and_not_shown_is_exit_code_three(world: World) -> None:
    for name in ("anchor", "claimed-time", "completeness", "agent-key"):
        verdict = demanding(world, name)
        assert verdict.lacking == [name]
        assert (verdict.exit_code, verdict.result) == (3, "valid, below the asked policy")
        assert failures(verdict) == {}


def test_what_is_asked_for_and_shown_is_valid(world: World) -> None:
    assert demanding(world, "remembered").exit_code == 0
    assert demanding(world, "agent-key", keys=True).exit_code == 0


def test_a_demand_to_remember_without_a_remembered_checkpoint(world: World) -> None:
    trust = replace(world.trust, remembered=None, require=frozenset({"remembered"}))
    verdict = verify_bundle(world.bundle().encode(), trust)
    assert (verdict.lacking, verdict.exit_code) == (["remembered"], 3)


def test_lacking_names_are_in_one_order(world: World) -> None:
    trust = replace(world.trust, remembered=None, require=frozenset(POLICIES))
    assert verify_bundle(world.bundle().encode(), trust).lacking == list(POLICIES)
    assert list(POLICIES) == sorted(POLICIES)


def test_an_invalid_bundle_is_invalid_whatever_is_asked(world: World) -> None:
    bundle = replace(world.bundle(), position=7)
    trust = replace(world.trust, require=frozenset(POLICIES))
    assert verify_bundle(bundle.encode(), trust).exit_code == 1


def test_an_unreadable_receipt_lacks_the_agents_key(world: World) -> None:
    bundle = replace(world.bundle(), receipt=replace(world.bundle().receipt, raw=b"x"))
    trust = replace(world.trust, require=frozenset({"agent-key"}))
    verdict = verify_bundle(bundle.encode(), trust)
    assert verdict.lacking == ["agent-key"]
    assert verdict.exit_code == 1


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"\xff\n", RAWS[0] + b"\n"])
def test_what_is_no_bundle_is_exit_code_two(world: World, data: bytes) -> None:
    verdict = verify_bundle(data, world.trust)
    assert (verdict.exit_code, verdict.result) == (2, "unreadable")
    assert [check.name for check in verdict.checks] == ["parse"]
    assert verdict.checks[0].reason is Reason.BAD_BUNDLE
    assert verdict.facts == {}


# Formats


ALL_SIGNED = """
id = "all-signed"
version = 3
title = "Everything but the signature is signed"
detect = [{ path = "kind", equals = "all-signed" }]
unwrap = "none"
equal = []
signed = { base = "", drop = ["sig"], set = [], nulls = "keep", keep_nulls = [], canon = "jcs", prehash = "none", domain = "", forbid = [] }
digests = []
signature = { path = "sig", encoding = "base64url" }
algorithm = { path = "alg", values = { EdDSA = "Ed25519" } }
cosign = []
unsigned = "refuse"
key_hint = "none"
kid = "none"
agent = "agent"
stream = ["session"]
sequence = "none"
time = "none"
previous = { path = "prev", of = "full", canon = "jcs", encoding = "sha256:hex", genesis = ["null"] }
pair = "none"
"""


def test_formats_are_the_auditors_own(world: World) -> None:
    value = {"kind": "all-signed", "alg": "EdDSA", "agent": "z", "session": "s", "prev": None}
    value["sig"] = base64url_encode(AGENT.sign(canonicalize(value)))
    raw = canonicalize(value)
    profiles = Profiles([compile_profile(ALL_SIGNED, "all-signed.toml")])
    chain = chain_key("z", "s")
    key = world.log.add_key(chain, AGENT.public_key)
    head = HeadLeaf(chain, 0, 0, None, link(raw), segment_root([hash_leaf(raw)]), "all-signed", 3)
    sealed = Sealed([raw], head, world.log.add(head.encode()), key)
    data = world.log.bundle(sealed, 0).encode()
    trust = Trust(world.trust.log_keys)
    verdict = verify_bundle(data, trust, profiles)
    assert verdict.exit_code == 0
    assert check(verdict, "unsigned members").detail == "every member is covered by the signature"
    assert verdict.facts["stream"] == "s"
    assert verdict.facts["claimed_time"] is None
    unknown = verify_bundle(data, trust)
    assert check(unknown, "parse").reason is Reason.UNKNOWN_PROFILE
    assert (unknown.result, unknown.exit_code) == ("undecidable", 3)


# Every byte


@pytest.mark.parametrize("position", [0, 8], ids=["segment start", "inside"])
def test_no_changed_byte_is_ever_valid(world: World, position: int) -> None:
    data = world.bundle(position).encode()
    assert verify_bundle(data, world.trust).exit_code == 0
    for at, byte in enumerate(data):
        for other in (byte ^ 1, 0x31 if byte == 0x30 else 0x30):
            mutated = data[:at] + bytes([other]) + data[at + 1 :]
            verdict = verify_bundle(mutated, world.trust)
            assert verdict.exit_code != 0, (at, bytes([byte]), bytes([other]))


def test_members_left_out_or_exchanged_never_change_the_facts_of_a_valid_bundle(
    world: World,
) -> None:
    """A bundle spliced from the parts of good ones is invalid, or says what the good one says."""
    good = {position: world.bundle(position) for position in (1, 5, 8)}
    facts = {
        position: verify_bundle(bundle.encode(), world.trust).facts
        for position, bundle in good.items()
    }
    for position, bundle in good.items():
        for other in good.values():
            for member in ("position", "receipt", "previous", "head", "key", "consistency"):
                for value in (getattr(other, member), None):
                    if value is None and member in ("position", "receipt", "head", "key"):
                        continue
                    changes: dict[str, Any] = {member: value}
                    spliced = replace(bundle, **changes)
                    verdict = verify_bundle(spliced.encode(), world.trust)
                    if verdict.exit_code == 0:
                        assert verdict.facts == facts[position]


def test_reports_of_bad_bundles_are_deterministic_too(world: World) -> None:
    value = json.loads(world.bundle().encode())
    value["position"] = 6
    data = canonicalize(value) + b"\n"
    reports = {verify_bundle(data, world.trust).to_json() for _ in range(3)}
    assert len(reports) == 1
    assert json.loads(reports.pop())["exit_code"] == 1
