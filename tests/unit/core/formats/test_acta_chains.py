"""Forged chains of the formats around draft-farley, agent-governance-toolkit and sm-arp: each is found
without being named, verifies, links, and is taken for no other format."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from receiptledger.core.chain import Head, follows
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.receipt import chain_key, readings
from tests.helpers.forge import did_key, issuer_kid, raw, thumbprint
from tests.helpers.forge_envelopes import (
    ACTA_SDK,
    ADK,
    DRAFT_02,
    DRAFT_04,
    ENVELOPES,
    PROTECT_MCP,
    SWARMS,
    envelope,
)
from tests.helpers.forge_flat import AGT, ARP, FLAT, FLATS, V1, V2
from tests.helpers.reading import PROFILES, accept, bad_signature, refused
from tests.helpers.receipts import ALICE, MALLORY, jcs, lesson18, pretty

if TYPE_CHECKING:
    from tests.helpers.forge import Forger
    from tests.helpers.receipts import Document

ALL = ENVELOPES + FLATS
LINKED = tuple(forger for forger in ALL if forger.link is not None)
LENGTH = 5
# The first receipt of draft-farley-02 has no link, and is one of draft-farley-04 byte for byte.
ALIKE_AT_FIRST = {"draft-farley-02": "draft-farley-04", "draft-farley-04": "draft-farley-02"}


def label(forger: Forger) -> str:
    issuer = forger.receipt().get("payload", {}).get("issuer_id", "")
    return f"{forger.profile}-{issuer}" if forger.profile == "protect-mcp-adk" else forger.profile


def plain(forger: Forger, *names: str) -> Forger:
    """The same without payload members that show which dialect it is."""

    def body(number: int, previous: str | None, signer: object) -> Document:
        made = forger.body(number, previous, signer)  # type: ignore[arg-type]
        return {name: value for name, value in made.items() if name not in names}

    return replace(forger, body=body)


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_a_chain_is_found_verified_and_linked(forger: Forger) -> None:
    documents = forger.chain(LENGTH)
    receipts = [accept(raw(document), ALICE.key) for document in documents]
    found = [receipt.profile for receipt in receipts]
    first = "draft-farley-04" if forger is DRAFT_02 else forger.profile
    assert found == [first, *[forger.profile] * (LENGTH - 1)]
    named = [accept(raw(document), ALICE.key, forger.profile) for document in documents]
    assert {receipt.profile for receipt in named} == {forger.profile}
    for some in (receipts, named):
        assert len({receipt.chain for receipt in some}) == 1
        for before, receipt in pairwise(some):
            if forger.link is None:
                assert receipt.previous is None
                assert not receipt.linked
                continue
            assert receipt.linked
            assert receipt.previous == before.link_hash
            assert follows(Head(0, before.link_hash, before.sequence), receipt)
    assert named[0].previous is None
    assert [one.link_hash for one in named] == [one.link_hash for one in receipts]
    assert {receipt.algorithm for receipt in receipts} == {"Ed25519"}
    assert all(receipt.time.startswith("2026-") for receipt in receipts if receipt.time is not None)
    assert all(receipt.time is not None for receipt in receipts)


@pytest.mark.parametrize("forger", LINKED, ids=label)
def test_a_link_is_to_the_one_receipt_before(forger: Forger) -> None:
    receipts = [accept(raw(document), ALICE.key) for document in forger.chain(LENGTH)]
    links = [receipt.link_hash for receipt in receipts]
    assert len(set(links)) == LENGTH
    for at, receipt in enumerate(receipts):
        assert [link == receipt.previous for link in links].count(True) == (1 if at else 0)


def test_the_chain_each_format_names() -> None:
    key = ALICE.key
    chains = {
        DRAFT_02: (issuer_kid(key), ""),
        PROTECT_MCP: (issuer_kid(key), ""),
        ADK: ("protect-mcp-adk", "sess_0badc0ffee11"),
        ACTA_SDK: ("sdk:" + key.hex()[:12], ""),
        SWARMS: ("swarms:agent:" + thumbprint(key)[:12], "researcher"),
        FLAT: (issuer_kid(key), ""),
        V1: ("test-gateway", ""),
        V2: ("protect-mcp", thumbprint(key)),
        ARP: (did_key(key), ""),
    }
    for forger, (agent, stream) in chains.items():
        receipt = accept(raw(forger.receipt()), key, forger.profile)
        assert (receipt.agent, receipt.stream) == (agent, stream)
        assert receipt.chain == chain_key(agent, stream)


def test_agents_of_one_adapter_share_its_chain() -> None:
    chain = AGT.chain(4)
    assert len({document["agent_did"] for document in chain}) == 2
    receipts = [accept(raw(document), ALICE.key) for document in chain]
    assert len({receipt.chain for receipt in receipts}) == 1
    other = accept(raw(AGT.receipt(signer=MALLORY)), MALLORY.key)
    assert other.agent != receipts[0].agent
    assert other.stream == receipts[0].stream == "sess-1"


# No receipt of one format is one of another.


def accepted_as(document: Document, profile: str) -> bool:
    try:
        accept(raw(document), ALICE.key, profile)
    except ReceiptError:
        return False
    return True


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_no_other_format_takes_it(forger: Forger) -> None:
    for number, document in enumerate(forger.chain(3)):
        taken = {profile for profile in PROFILES.ids() if accepted_as(document, profile)}
        alike = {ALIKE_AT_FIRST.get(forger.profile, forger.profile)} if number == 0 else set()
        assert taken == {forger.profile} | alike


@pytest.mark.parametrize("prehash", [False, True], ids=["ms-lesson18", "ms-lesson18-prehash"])
def test_lesson_18_is_still_found(prehash: bool) -> None:
    document = lesson18(prehash=prehash)
    name = "ms-lesson18-prehash" if prehash else "ms-lesson18"
    assert accept(raw(document), ALICE.key).profile == name
    assert {profile for profile in PROFILES.ids() if accepted_as(document, profile)} == {name}


def test_the_first_receipt_of_02_says_the_same_under_04() -> None:
    first, second = DRAFT_02.chain(2)
    as_02, as_04 = (accept(raw(first), ALICE.key, f"draft-farley-{n}") for n in ("02", "04"))
    for name in ("agent", "stream", "chain", "previous", "link_hash", "content_hash", "time"):
        assert getattr(as_02, name) == getattr(as_04, name)
    assert accept(raw(second), ALICE.key).previous == as_04.link_hash


@pytest.mark.parametrize(
    "forger",
    [
        plain(PROTECT_MCP, "timing"),
        plain(ADK, "deny_reason"),
        plain(ACTA_SDK, "metadata"),
        plain(SWARMS, "confidence"),
    ],
    ids=label,
)
def test_found_rightly_without_anything_that_shows_the_dialect(forger: Forger) -> None:
    receipts = [accept(raw(document), ALICE.key) for document in forger.chain(4)]
    assert {receipt.profile for receipt in receipts} == {forger.profile}
    for before, receipt in pairwise(receipts):
        assert receipt.previous == before.link_hash


def test_a_link_over_the_payload_does_not_hold_under_a_format_that_takes_all() -> None:
    """The signature fits both when the issuer is the key's id; then the wrong name breaks the chain."""
    first, second = plain(ACTA_SDK, "metadata").chain(2)
    refused(accept, raw(first), ALICE.key, "draft-farley-04", reason=Reason.INVALID_FIELD)  # null
    right = [accept(raw(document), ALICE.key) for document in (first, second)]
    wrong = accept(raw(second), ALICE.key, "draft-farley-04")
    assert right[1].previous == right[0].link_hash
    assert wrong.link_hash != right[1].link_hash


def test_an_issuer_that_is_the_key_id_does_not_hide_the_format() -> None:
    kid = "sb:adk:" + ALICE.key.hex()[:12]
    body = {**ADK.body(1, "sha256:" + "5a" * 32, ALICE), "issuer_id": kid}
    document = ADK.seal(body, ALICE)
    assert document["payload"]["issuer_id"] == document["signature"]["kid"]
    assert accept(raw(document), ALICE.key).profile == "protect-mcp-adk"


def test_a_sequence_does_not_make_a_receipt_of_04_another() -> None:
    """Members of one's own are allowed there; only the old names of the draft say otherwise."""
    more = {"sequence": 2, "spec": "draft-farley-acta-signed-receipts-04"}
    body = {**DRAFT_04.body(1, "sha256:" + "5a" * 32, ALICE), **more}
    assert accept(raw(DRAFT_04.seal(body, ALICE)), ALICE.key).profile == "draft-farley-04"


def test_protect_mcp_after_0_10_is_draft_farley_04() -> None:
    body = {**PROTECT_MCP.body(1, "sha256:" + "5a" * 32, ALICE)}
    document = envelope(body, ALICE, body["issuer_id"], jcs, bytes.hex)
    receipt = accept(raw(document), ALICE.key)
    assert (receipt.profile, receipt.previous) == ("draft-farley-04", bytes.fromhex("5a" * 32))


# Spelling.


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_white_space_order_and_escapes_make_no_other_receipt(forger: Forger) -> None:
    for document in forger.chain(2):
        receipt = accept(raw(document), ALICE.key)
        again = accept(pretty(dict(reversed(document.items()))), ALICE.key)
        assert again.receipt_hash != receipt.receipt_hash
        # Without links the bytes themselves are the receipt's name; they are kept once all the same.
        link = ("link_hash",) if receipt.linked else ()
        for name in ("profile", "chain", *link, "content_hash", "signing_input", "unsigned"):
            assert getattr(again, name) == getattr(receipt, name)


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_another_key_signs_another_receipt(forger: Forger) -> None:
    theirs = accept(raw(forger.receipt(signer=MALLORY)), MALLORY.key)
    ours = accept(raw(forger.receipt()), ALICE.key)
    assert theirs.content_hash != ours.content_hash
    bad_signature(accept, raw(forger.receipt(signer=MALLORY)), ALICE.key)


def test_readings_name_every_format_a_receipt_may_be_of() -> None:
    first, second = PROTECT_MCP.chain(2)
    of_first = [receipt.profile for receipt in readings(raw(first), PROFILES)]
    of_second = [receipt.profile for receipt in readings(raw(second), PROFILES)]
    assert of_first == ["protect-mcp", "draft-farley-04", "draft-farley-02"]
    assert of_second == ["protect-mcp", "draft-farley-02"]


def test_what_is_outside_is_named() -> None:
    unsigned = {
        DRAFT_02: ("signature.alg", "signature.kid"),
        PROTECT_MCP: ("signature.alg", "signature.kid"),
        ADK: ("signature.alg", "signature.kid"),
        SWARMS: ("signature.alg", "signature.kid"),
        FLAT: (),
        V1: (),
        V2: (),
        ARP: (),
        AGT: ("error", "payload_hash", "signer_public_key"),
    }
    for forger, paths in unsigned.items():
        assert read_raw(forger).unsigned == paths


def read_raw(forger: Forger) -> object:
    return next(readings(raw(forger.receipt()), PROFILES, profile=forger.profile))
