"""Formats with more than one signature: AERF's parent and policy decision point, signet's two sides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from tests.helpers.forge import python, sha256_hex
from tests.helpers.forge_more import (
    AERF,
    AERF_FULL,
    CALLER,
    PARENT,
    PDP,
    SIGNET_V2,
    SIGNET_V3,
    counter_signed,
    key_id,
    signet_sealed,
)
from tests.helpers.forge_others import SIGNET
from tests.helpers.reading import PROFILES, accept, bad_signature, refused, with_member, without
from tests.helpers.receipts import ALICE, MALLORY, jcs

if TYPE_CHECKING:
    from receiptledger.core.receipt_check import ChainFinding

LATER = ("signature", "timestamp", "parent_signature", "parent_key_id", "log_inclusion_proof")
ISSUER = GivenKey(ALICE.key, key_id(ALICE))
BY_PARENT = GivenKey(PARENT.key, key_id(PARENT))
BY_PDP = GivenKey(PDP.key, key_id(PDP))


def raw(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def check(document: Any, *keys: GivenKey) -> ChainFinding:
    return check_chain([raw(document)], keys, PROFILES)


# AERF.


def test_all_three_signatures_are_read() -> None:
    document = AERF_FULL.receipt()
    receipt = accept(raw(document), ALICE.key)
    parent, pdp = receipt.cosignatures
    assert (parent.name, parent.kid) == ("parent", key_id(PARENT))
    assert parent.signing_input == receipt.signing_input
    assert (pdp.name, pdp.kid) == ("pdp", key_id(PDP))
    assert pdp.signing_input == jcs(
        {name: document[name] for name in ("context_hash_sha256", "in_policy", "policy_hash")}
    )
    assert receipt.unsigned == ("parent_key_id", "parent_signature")
    assert check(document, ISSUER, BY_PARENT, BY_PDP).outcome is Outcome.VALID
    assert accept(raw(AERF.receipt()), ALICE.key).cosignatures == ()


@pytest.mark.parametrize("missing", ["parent_signature", "pdp_signature"])
def test_an_action_that_matters_needs_both(missing: str) -> None:
    body = AERF_FULL.body(0, None, ALICE)
    document = without(counter_signed(body, ALICE), missing)
    if missing == "pdp_signature":  # inside what the issuer signs
        document = AERF.seal(document, ALICE)
    error = refused(accept, raw(document), ALICE.key, reason=Reason.INVALID_FIELD)
    assert missing in error.message
    assert check(document, ISSUER, BY_PARENT, BY_PDP).outcome is Outcome.INVALID


@pytest.mark.parametrize("tags", [[], None])
def test_tags_that_name_nothing_need_none(tags: list[str] | None) -> None:
    body = AERF.body(0, None, ALICE)
    document = AERF.seal({**body, "impact_tags": tags}, ALICE)
    assert accept(raw(document), ALICE.key).cosignatures == ()


def test_signatures_that_are_given_without_need_must_hold() -> None:
    document = counter_signed(AERF.body(0, None, ALICE), ALICE)
    assert len(accept(raw(document), ALICE.key).cosignatures) == 2
    assert check(document, ISSUER, BY_PARENT, BY_PDP).outcome is Outcome.VALID
    for name in ("parent_signature", "pdp_signature"):
        wrong = with_member(document, name, "00" * 64)
        if name == "pdp_signature":
            wrong = {
                **AERF.seal(wrong, ALICE),
                "parent_signature": PARENT.sign(signed(wrong)).hex(),
            }
        finding = check(wrong, ISSUER, BY_PARENT, BY_PDP)
        assert (finding.outcome, finding.reason) == (Outcome.INVALID, Reason.BAD_SIGNATURE)


def signed(document: dict[str, Any]) -> bytes:
    return python({name: item for name, item in document.items() if name not in LATER})


def test_by_other_keys() -> None:
    for parent, pdp in ((MALLORY, PDP), (PARENT, MALLORY)):
        document = counter_signed(AERF_FULL.body(0, None, ALICE), ALICE, parent, pdp)
        claimed = with_member(document, "parent_key_id", key_id(PARENT))
        claimed = with_member(claimed, "pdp_key_id", key_id(PDP))
        claimed = AERF.seal(claimed, ALICE)
        claimed["parent_signature"] = parent.sign(signed(claimed)).hex()
        finding = check(claimed, ISSUER, BY_PARENT, BY_PDP)
        assert (finding.outcome, finding.reason) == (Outcome.INVALID, Reason.BAD_SIGNATURE)


def test_without_a_key_it_cannot_be_said() -> None:
    document = AERF_FULL.receipt()
    for keys in ((ISSUER, BY_PARENT), (ISSUER, BY_PDP), (ISSUER,)):
        finding = check(document, *keys)
        assert (finding.outcome, finding.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)


def test_a_verdict_about_another_context() -> None:
    """The issuer re-signs a receipt around a verdict of the decision point that says something else."""
    document = counter_signed(AERF_FULL.body(0, None, ALICE), ALICE, verdict=False)
    finding = check(document, ISSUER, BY_PARENT, BY_PDP)
    assert (finding.outcome, finding.reason) == (Outcome.INVALID, Reason.BAD_SIGNATURE)
    assert "pdp" in finding.findings[0].detail


def test_numbers_stay_as_they_were_written() -> None:
    document = AERF.receipt()
    text = raw(document)
    assert b"1e-07" in text
    assert accept(text, ALICE.key).signing_input == signed(document)
    for old, new in ((b"1e-07", b"1e-7"), (b'"share": 1.0', b'"share": 1')):
        assert old in text
        bad_signature(accept, text.replace(old, new), ALICE.key)
    body = {**AERF.body(0, None, ALICE), "big": 2**63 + 1}
    assert accept(raw(AERF.seal(body, ALICE)), ALICE.key).signing_input == signed(body)
    plain = without(document, "signature")
    bad_signature(accept, raw({**plain, "signature": ALICE.sign(jcs(plain)).hex()}), ALICE.key)


def test_what_is_added_later_changes_no_link() -> None:
    document = AERF_FULL.receipt()
    receipt = accept(raw(document), ALICE.key)
    more = {**document, "timestamp": {"tsa": "x"}, "log_inclusion_proof": {"log_id": "y"}}
    later = accept(raw(more), ALICE.key)
    assert later.link_hash == receipt.link_hash
    assert later.link_hash.hex() == sha256_hex(signed(document))
    assert later.content_hash == receipt.content_hash
    assert later.unsigned == (
        "log_inclusion_proof",
        "parent_key_id",
        "parent_signature",
        "timestamp",
    )


def test_a_first_receipt_leaves_the_link_out() -> None:
    body = {**AERF.body(0, None, ALICE), "previous_receipt_hash": None}
    error = refused(accept, raw(AERF.seal(body, ALICE)), ALICE.key, reason=Reason.INVALID_FIELD)
    assert "must omit it" in error.message
    body["previous_receipt_hash"] = "sha256:" + "00" * 32
    refused(accept, raw(AERF.seal(body, ALICE)), ALICE.key, reason=Reason.INVALID_FIELD)


# signet.


def test_both_sides_of_a_bilateral_receipt() -> None:
    document = SIGNET_V3.receipt()
    receipt = accept(raw(document), ALICE.key)
    (caller,) = receipt.cosignatures
    assert (caller.name, caller.key_hint) == ("agent", CALLER.key)
    assert accept(raw(document["agent_receipt"]), CALLER.key).signing_input == caller.signing_input
    assert receipt.agent == document["server"]["pubkey"]
    assert receipt.unsigned == ("id",)
    assert check(document, GivenKey(ALICE.key), GivenKey(CALLER.key)).outcome is Outcome.VALID


def test_one_side_is_not_enough() -> None:
    document = SIGNET_V3.receipt()
    assert check(document, GivenKey(CALLER.key)).outcome is Outcome.INVALID
    finding = check(document, GivenKey(ALICE.key))
    assert (finding.outcome, finding.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)
    assert finding.findings[0].detail.startswith("signature agent: ")
    finding = check(document, GivenKey(ALICE.key), GivenKey(MALLORY.key))
    assert (finding.outcome, finding.reason) == (Outcome.INVALID, Reason.WRONG_KEY)


def test_the_agents_part_was_changed_before_the_server_signed() -> None:
    body = SIGNET_V3.body(0, None, ALICE)
    changed = with_member(body, "agent_receipt.action.tool", "delete")
    error = bad_signature(accept, raw(signet_sealed(changed, ALICE)), ALICE.key)
    assert error.message.startswith("signature of the agent: ")
    for path in ("agent_receipt.sig", "agent_receipt.signer.pubkey"):
        cut = signet_sealed(without(body, path), ALICE)
        error = refused(accept, raw(cut), ALICE.key, reason=Reason.INVALID_FIELD)
        assert path in error.message


def test_the_servers_part_was_changed() -> None:
    document = SIGNET_V3.receipt()
    for path in ("agent_receipt.id", "agent_receipt.sig", "response.outcome", "ts_response"):
        with_other = with_member(document, path, SIGNET_V3.receipt(1)["agent_receipt"].get("sig"))
        refused_for = accept_reason(with_other)
        assert refused_for in (Reason.BAD_SIGNATURE, Reason.INVALID_FIELD)


def accept_reason(document: Any) -> Reason | None:
    return check(document, GivenKey(ALICE.key), GivenKey(CALLER.key)).reason


def test_versions_are_told_apart() -> None:
    one, two, three = (forger.receipt() for forger in (SIGNET, SIGNET_V2, SIGNET_V3))
    for document, own in ((one, "signet-v1"), (two, "signet-v2"), (three, "signet-v3")):
        assert [profile.id for profile in PROFILES.candidates(document)] == [own]
        assert accept(raw(document), ALICE.key).profile == own
        for other in {"signet-v1", "signet-v2", "signet-v3"} - {own}:
            refused(accept, raw(document), ALICE.key, other, reason=Reason.INVALID_FIELD)
    assert PROFILES.candidates({**three, "v": 4}) == ()


def test_times_of_a_compound_receipt() -> None:
    document = SIGNET_V2.receipt()
    assert accept(raw(document), ALICE.key).time == document["ts_response"]
    body = {**SIGNET_V2.body(0, None, ALICE), "ts_response": 1796050731479}
    refused(accept, raw(signet_sealed(body, ALICE)), ALICE.key, reason=Reason.INVALID_FIELD)
