"""Every kind of wrong anchor: one thing is not as it should be, and the check says which.

And the promise about all others: no changed byte of the anchors ever changes what is accepted.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.anchor_stamps import _bounds_exist
from receiptledger.core.bundle import Bundle, LeafProof
from receiptledger.core.checkpoint import sign_checkpoint
from receiptledger.core.errors import Reason
from receiptledger.core.note import sign_note
from receiptledger.core.revocation import RevocationEvidence
from receiptledger.core.timestamp import TimestampError, verify_response
from receiptledger.core.verdict import Status
from receiptledger.core.verify import verify_bundle
from tests.helpers import tsa_forge as forge
from tests.helpers.anchored import AFTER, ALPHA, BEFORE, BETA, AnchoredWorld, timestamps
from tests.helpers.cases import named
from tests.helpers.mini_log import MiniLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.tsa_pki import Identity

    Change = Callable[[AnchoredWorld], Bundle]


def with_anchor(bundle: Bundle, at: int, **changes: Any) -> Bundle:
    """The bundle with members of one anchored checkpoint changed."""
    anchors = list(bundle.anchors)
    anchors[at] = replace(anchors[at], **changes)
    return replace(bundle, anchors=tuple(anchors))


def with_stamp(bundle: Bundle, at: int, **changes: Any) -> Bundle:
    """The bundle with members of the first stamp of an anchored checkpoint changed."""
    first, *others = bundle.anchors[at].stamps
    return with_anchor(bundle, at, stamps=(replace(first, **changes), *others))


def rounds(**changes: Any) -> AnchoredWorld:
    """The world where the covering answer is made with these arguments."""
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    world.stamp(AFTER, ALPHA, **changes)
    return world


def leaf_of(**changes: Any) -> AnchoredWorld:
    """The world where the covering answer's leaf has members changed."""
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    request, response = ALPHA.answer(note, AFTER)
    world.logged(size, note, request, response, "alpha", changes)
    return world


def evidence_of(**changes: Any) -> AnchoredWorld:
    """The world where the covering answer has evidence, whose leaf has members changed."""
    world = AnchoredWorld.made(ALPHA)
    world.add_evidence(world.stamps[1], RevocationEvidence(ALPHA.crls(AFTER)), changes)
    return world


def forged_note(world: AnchoredWorld) -> bytes:
    """Signed by the log's key over another root."""
    checkpoint = replace(world.log.checkpoint(3), root=bytes(32))
    return sign_checkpoint(checkpoint, world.log.signer)


def one_size_twice(world: AnchoredWorld) -> Bundle:
    bundle = world.bundle()
    first, second = bundle.anchors
    return replace(bundle, anchors=(second, replace(second, stamps=first.stamps)))


def stamp_of_another_log() -> Bundle:
    world, other = AnchoredWorld.made(ALPHA), AnchoredWorld(MiniLog("example.com/other", 8))
    other.add_key()
    other.stamp(BEFORE, ALPHA)
    bundle = world.bundle()
    return with_anchor(bundle, 0, note=other.log.note(1), consistency=bundle.anchors[0].consistency)


CHECKPOINTS: dict[str, tuple[Change, Reason, str]] = {
    "no note": (
        lambda world: with_anchor(world.bundle(), 1, note=b"hello\n"),
        Reason.BAD_NOTE,
        "not a signed note",
    ),
    "a note signed by nobody": (
        lambda world: with_anchor(world.bundle(), 1, note=world.log.checkpoint(3).encode() + b"\n"),
        Reason.BAD_NOTE,
        "",
    ),
    "a note that is no checkpoint": (
        lambda world: with_anchor(
            world.bundle(), 1, note=sign_note(b"example.com/log\nhello\n", world.log.signer)
        ),
        Reason.BAD_CHECKPOINT,
        "",
    ),
    "a note of another log": (
        lambda world: with_anchor(world.bundle(), 1, note=MiniLog("example.com/third").note(0)),
        Reason.WRONG_LOG,
        "whose key you did not give",
    ),
    "a note of another log that is trusted too": (
        lambda _: stamp_of_another_log(),
        Reason.WRONG_LOG,
        "of another log than the bundle",
    ),
    "another root under the log's own signature": (
        lambda world: with_anchor(world.bundle(), 1, note=forged_note(world)),
        Reason.BAD_PROOF,
        "old root",
    ),
    "a consistency proof too short": (
        lambda world: with_anchor(world.bundle(), 1, consistency=()),
        Reason.BAD_PROOF,
        "wrong length",
    ),
    "a consistency proof of another size": (
        lambda world: with_anchor(
            world.bundle(), 1, consistency=world.bundle().anchors[0].consistency
        ),
        Reason.BAD_PROOF,
        "",
    ),
    "a consistency proof of other hashes": (
        lambda world: with_anchor(
            world.bundle(),
            1,
            consistency=tuple(bytes(32) for _ in world.bundle().anchors[1].consistency),
        ),
        Reason.BAD_PROOF,
        "does not lead",
    ),
    "a larger checkpoint than the bundle's": (
        lambda world: replace(
            world.bundle(),
            checkpoint=world.log.note(3),
            anchors=(replace(world.bundle().anchors[1], note=world.log.note(4)),),
        ),
        Reason.BAD_BUNDLE,
        "do not ascend",
    ),
    "one size twice": (
        one_size_twice,
        Reason.BAD_BUNDLE,
        "do not ascend",
    ),
    "descending sizes": (
        lambda world: replace(world.bundle(), anchors=world.bundle().anchors[::-1]),
        Reason.BAD_BUNDLE,
        "do not ascend",
    ),
}
LEAVES: dict[str, tuple[Change, Reason, str]] = {
    "no leaf": (
        lambda world: with_stamp(world.bundle(), 1, leaf=LeafProof(b"x", 3, ())),
        Reason.BAD_LEAF,
        "not a JSON object",
    ),
    "a leaf of another kind": (
        lambda world: with_stamp(world.bundle(), 1, leaf=world.log.leaf(0)),
        Reason.BAD_LEAF,
        "anchor leaf: of another kind",
    ),
    "the leaf of another stamp": (
        lambda world: with_stamp(world.bundle(), 1, leaf=world.log.leaf(1)),
        Reason.BAD_LEAF,
        "of another checkpoint",
    ),
    "a leaf that is not in the log": (
        lambda world: with_stamp(
            world.bundle(),
            1,
            leaf=replace(
                world.log.leaf(3),
                leaf=world.anchor_leaf(3, world.stamps[1].response, "other").encode(),
            ),
        ),
        Reason.BAD_PROOF,
        "anchor leaf: inclusion proof",
    ),
    "a leaf at another index": (
        lambda world: with_stamp(world.bundle(), 1, leaf=replace(world.log.leaf(3), index=2)),
        Reason.BAD_PROOF,
        "anchor leaf",
    ),
    "a leaf beyond the log": (
        lambda world: with_stamp(world.bundle(), 1, leaf=replace(world.log.leaf(3), index=4)),
        Reason.BAD_PROOF,
        "anchor leaf: leaf index",
    ),
    "a wrong path": (
        lambda world: with_stamp(
            world.bundle(),
            1,
            leaf=replace(world.log.leaf(3), proof=tuple(b"\x01" * 32 for _ in "12")),
        ),
        Reason.BAD_PROOF,
        "does not lead to the root",
    ),
    "no path": (
        lambda world: with_stamp(world.bundle(), 1, leaf=replace(world.log.leaf(3), proof=())),
        Reason.BAD_PROOF,
        "wrong length",
    ),
    "a logged leaf of another response": (
        lambda _: leaf_of(response=bytes(32)).bundle(),
        Reason.BAD_LEAF,
        "of another response",
    ),
    "a logged leaf of another size": (
        lambda _: leaf_of(size=2).bundle(),
        Reason.BAD_LEAF,
        "of another checkpoint",
    ),
    "a logged leaf of another root": (
        lambda _: leaf_of(root=bytes(32)).bundle(),
        Reason.BAD_LEAF,
        "of another checkpoint",
    ),
    "another response than the logged one": (
        lambda world: with_stamp(
            world.bundle(), 1, response=ALPHA.answer(world.stamps[1].note, BEFORE)[1]
        ),
        Reason.BAD_LEAF,
        "of another response",
    ),
}
EVIDENCE: dict[str, tuple[Change, Reason, str]] = {
    "logged for another authority": (
        lambda _: evidence_of(tsa="beta").bundle(),
        Reason.BAD_LEAF,
        "evidence leaf: of another stamp",
    ),
    "logged for another response": (
        lambda _: evidence_of(response=bytes(32)).bundle(),
        Reason.BAD_LEAF,
        "evidence leaf: of another stamp",
    ),
    "logged for another size": (
        lambda _: evidence_of(size=1).bundle(),
        Reason.BAD_LEAF,
        "evidence leaf: of another stamp",
    ),
    "logged for another root": (
        lambda _: evidence_of(root=bytes(32)).bundle(),
        Reason.BAD_LEAF,
        "evidence leaf: of another stamp",
    ),
    "logged without evidence": (
        lambda _: evidence_of(evidence=None).bundle(),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "of another digest": (
        lambda _: evidence_of(evidence=bytes(32)).bundle(),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "not the logged one": (
        lambda _: with_evidence(evidence_of(), crls=ALPHA.crls(BEFORE)),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "a part left out": (
        lambda _: with_evidence(evidence_of(), crls=ALPHA.crls(AFTER)[:1]),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "parts in another order": (
        lambda _: with_evidence(evidence_of(), crls=ALPHA.crls(AFTER)[::-1]),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "a list given as a response": (
        lambda _: with_evidence(evidence_of(), crls=(), ocsps=ALPHA.crls(AFTER)),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "with the stamp's own leaf": (
        lambda world: with_evidence(evidence_of(), leaf=lambda _: evidence_of().log.leaf(3)),
        Reason.BAD_LEAF,
        "evidence leaf: of other evidence",
    ),
    "with a leaf of another kind": (
        lambda _: with_evidence(evidence_of(), leaf=lambda world: world.log.leaf(0)),
        Reason.BAD_LEAF,
        "evidence leaf: of another kind",
    ),
    "with a wrong path": (
        lambda _: with_evidence(
            evidence_of(), leaf=lambda world: replace(world.log.leaf(4), proof=(bytes(32),))
        ),
        Reason.BAD_PROOF,
        "evidence leaf: inclusion proof",
    ),
}


def with_evidence(
    world: AnchoredWorld,
    leaf: Callable[[AnchoredWorld], LeafProof] | None = None,
    **changes: Any,
) -> Bundle:
    bundle = world.bundle()
    evidence = bundle.anchors[1].stamps[0].evidence
    assert evidence is not None
    if leaf is not None:
        changes["leaf"] = leaf(world)
    return with_stamp(bundle, 1, evidence=replace(evidence, **changes))


def other_log_keys(world: AnchoredWorld) -> Any:
    other = MiniLog("example.com/other", 8).signer.verifier
    return replace(world.trust(), log_keys=(world.log.signer.verifier, other))


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        *named(CHECKPOINTS),
        *named(LEAVES),
        *named({f"evidence {k}": v for k, v in EVIDENCE.items()}),
    ],
)
def test_a_wrong_anchor_fails_the_check(change: Change, reason: Reason, words: str) -> None:
    world = AnchoredWorld.made(ALPHA)
    verdict = world.verify(change(world), other_log_keys(world))
    found = timestamps(verdict)
    assert (found.status, found.reason) == (Status.FAIL, reason), found.detail
    assert words in found.detail
    assert "the stamp logged at leaf" in found.detail
    assert verdict.exit_code == 1
    assert verdict.facts["not_after"] is None
    assert verdict.facts["not_before"] is None
    assert verdict.facts["state"] in ("sealed", None)


def flipped(info: bytes, signer: Identity) -> dict[str, Any]:
    """A signature that is not the signer's."""
    return {"signature": forge.sign(signer.key, info + b"x")}


def attributes(*kept: bytes) -> Callable[[bytes, Identity], dict[str, Any]]:
    """Signed attributes without the one that names the signer, and with these."""
    return lambda info, _: {"attributes": [*forge.signed_attributes(info), *kept]}


ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "a token over another message": ({"stamped": b"another note\n"}, "imprint"),
    "a request for another message": ({"asked": {"imprint": bytes(32)}}, "imprint"),
    "a request with another nonce": ({"asked": {"nonce": 1}}, "nonce"),
    "a broken signature": ({"spoil": flipped}, "signature"),
    "a token that names no signer": ({"spoil": attributes()}, "ess"),
    "a token that names another signer": (
        {"spoil": attributes(forge.ess_v2(BETA.tsa.der))},
        "ess",
    ),
    "a wrong message digest": (
        {
            "spoil": lambda _, signer: {
                "attributes": [*forge.signed_attributes(b"other"), forge.ess_v2(signer.der)]
            }
        },
        "signed_attribute",
    ),
    "no signed attributes": ({"spoil": lambda *_: {"attributes": []}}, "no_signed_attributes"),
    "a critical extension": (
        {"info": {"extensions": forge.extension("1.2.3", b"", critical=True)}},
        "critical_extension",
    ),
}


@pytest.mark.parametrize(("changes", "cause"), named(ANSWERS))
def test_a_bad_token_is_a_failure_with_its_cause(changes: dict[str, Any], cause: str) -> None:
    world = rounds(**changes)
    verdict = world.verify()
    assert timestamps(verdict).status is Status.FAIL
    assert timestamps(verdict).reason is Reason.BAD_TIMESTAMP
    listed = verdict.to_dict()["timestamps"]
    assert [stamp["outcome"] for stamp in listed] == ["holds", "bad"]
    assert listed[1]["cause"] == cause
    assert f"({cause})" in timestamps(verdict).detail


def test_the_policy_that_was_asked_for_is_the_tokens() -> None:
    verdict = rounds(asked={"policy": "1.2.3.4"}).verify()
    assert timestamps(verdict).status is Status.UNKNOWN
    assert verdict.to_dict()["timestamps"][1]["cause"] == "policy"
    assert rounds(asked={"policy": forge.POLICY}).verify().exit_code == 0


def test_the_hash_that_was_asked_for_is_the_tokens() -> None:
    world = rounds()
    digest = hashlib.sha512(world.stamps[1].note).digest()
    asked = {"imprint": digest, "hash_algorithm": "sha512"}
    verdict = rounds(asked=asked).verify()
    assert timestamps(verdict).status is Status.FAIL
    assert verdict.to_dict()["timestamps"][1]["cause"] == "imprint"


@pytest.mark.parametrize(
    ("response", "cause"),
    named(
        {
            "no DER": (b"hello", "der"),
            "a rejection": (bytes.fromhex("30053003020102"), "status_rejection"),
            "granted without token": (bytes.fromhex("30053003020100"), "no_token"),
        }
    ),
)
def test_a_logged_answer_that_is_no_stamp(response: bytes, cause: str) -> None:
    world = AnchoredWorld.made(ALPHA)
    note, size = world.log.note(), len(world.log.leaves)
    request, _ = ALPHA.answer(note, AFTER)
    world.logged(size, note, request, response, "alpha")
    verdict = world.verify()
    assert timestamps(verdict).status is Status.FAIL
    assert verdict.to_dict()["timestamps"][2]["cause"] == cause


def test_a_request_that_is_none() -> None:
    world = AnchoredWorld.made(ALPHA)
    verdict = world.verify(with_stamp(world.bundle(), 1, request=b"\x30\x00"))
    assert timestamps(verdict).status is Status.FAIL
    assert verdict.to_dict()["timestamps"][1]["cause"] == "der"


def test_another_authoritys_token_is_not_the_named_ones() -> None:
    """The log says alpha and got beta's answer: it counts for beta, or for nobody."""
    world = AnchoredWorld.empty()
    world.stamp(BEFORE, ALPHA)
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    request, response = BETA.answer(note, AFTER)
    world.logged(size, note, request, response, "alpha")
    assert timestamps(world.verify(trust=world.trust(ALPHA))).status is Status.UNKNOWN
    both = world.verify()
    assert (timestamps(both).status, both.facts["anchored_by"]) == (Status.PASS, ["beta"])
    assert timestamps(world.verify(trust=world.trust(tsa_quorum=2))).status is Status.UNKNOWN


def test_one_bad_authority_of_two_is_a_failure_and_said_once() -> None:
    """A token that is false is evidence of a lie, whatever the other one says."""
    world = AnchoredWorld.empty()
    world.round(BEFORE, ALPHA, BETA)
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    for authority, spoil in ((ALPHA, flipped), (BETA, None)):
        request, response = authority.answer(note, AFTER, spoil=spoil)
        world.logged(size, note, request, response, authority.name)
    verdict = world.verify()
    assert timestamps(verdict).status is Status.FAIL
    assert timestamps(verdict).detail.startswith("the stamp logged at leaf 4 over size 4: ")
    outcomes = [stamp["outcome"] for stamp in verdict.to_dict()["timestamps"]]
    assert outcomes == ["holds", "holds", "bad", "holds"]


def test_several_bad_stamps_are_counted() -> None:
    world = AnchoredWorld.made()
    bundle = world.bundle()
    verdict = world.verify(with_anchor(bundle, 1, consistency=()))
    assert "the stamp logged at leaf 4 (and 1 more): bad_proof" in timestamps(verdict).detail


def test_a_time_at_the_end_of_the_calendar_has_no_bounds() -> None:
    world = AnchoredWorld.made(ALPHA)
    good = verify_response(world.stamps[0].response, world.stamps[0].note, ALPHA.trust)
    for time in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
        odd = replace(good, gen_time=time)
        with pytest.raises(TimestampError, match="end of the calendar"):
            _bounds_exist(odd)


def test_the_gravest_reason_is_told() -> None:
    """What is wrong whoever is trusted is not hidden by an authority that is merely another one."""
    for authorities in ((ALPHA, BETA), (BETA, ALPHA)):
        world = rounds(spoil=flipped)
        verdict = world.verify(trust=world.trust(*authorities))
        assert verdict.to_dict()["timestamps"][1]["cause"] == "signature"


# Splices and bytes


def test_stamps_exchanged_between_checkpoints_are_never_accepted() -> None:
    world = AnchoredWorld.made()
    bundle = world.bundle()
    first, second = bundle.anchors
    for anchors in (
        (replace(first, stamps=second.stamps),),
        (replace(first, stamps=second.stamps), replace(second, stamps=first.stamps)),
        (replace(second, stamps=first.stamps),),
        (replace(first, note=second.note), second),
        (replace(first, consistency=second.consistency), second),
    ):
        assert world.verify(replace(bundle, anchors=anchors)).exit_code == 1


def test_parts_exchanged_between_stamps_are_never_accepted() -> None:
    world = AnchoredWorld.made()
    bundle = world.bundle()
    one, other = bundle.anchors[1].stamps
    for member in ("request", "response", "leaf"):
        changed = replace(one, **{member: getattr(other, member)})
        shown = (changed,) if member == "response" else (changed, other)  # none stands there twice
        verdict = world.verify(with_anchor(bundle, 1, stamps=shown))
        if member == "request":  # the same note was asked for, with another nonce
            assert timestamps(verdict).status is Status.FAIL
        assert verdict.exit_code == 1, member


def test_stamps_left_out_only_widen_the_bounds() -> None:
    world = AnchoredWorld.made()
    whole = world.verify()
    for kept in range(1, 16):
        stamps = [stamp for at, stamp in enumerate(world.stamps) if kept >> at & 1]
        verdict = world.verify(world.bundle(*stamps))
        assert verdict.exit_code == 0
        assert verdict.facts["not_after"] in (None, whole.facts["not_after"])
        assert verdict.facts["not_before"] in (None, whole.facts["not_before"])


@pytest.mark.slow
@pytest.mark.parametrize("evidence", [False, True], ids=["plain", "with evidence"])
def test_no_changed_byte_of_the_anchors_changes_what_is_accepted(evidence: bool) -> None:
    world = AnchoredWorld.empty()
    world.seal()
    world.stamp(AFTER, ALPHA)
    if evidence:
        world.add_evidence(world.stamps[0], RevocationEvidence(ALPHA.crls(AFTER)))
    data, trust = world.bundle().encode(), world.trust()
    good = verify_bundle(data, trust)
    assert good.exit_code == 0
    assert good.facts["state"] == "anchored"
    start, end = data.index(b'"anchors":'), data.index(b'"consistency":null,"head"')
    accepted = []
    for at in range(start, end):
        mutated = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        verdict = verify_bundle(mutated, trust)
        if verdict.exit_code == 0:
            accepted.append(at)
            assert verdict.to_json() == good.to_json(), (at, data[at - 20 : at + 20])
    # Nobody signs the request: whether it asked for certificates can be changed, and means nothing.
    assert len(accepted) <= 2
