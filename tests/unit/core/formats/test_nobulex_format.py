"""nobulex from the bytes to the verdict: receipts of both algorithms, and the export around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.nobulex import (
    PROFILES as OWN,
)
from receiptledger.core.nobulex import (
    check_batch,
    check_export,
    check_receipt,
    is_export,
    read_export,
    verify_batch_proof,
)
from receiptledger.core.p256 import ORDER, signature_from_der, signature_to_der
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from receiptledger.core.verdict import Status
from tests.helpers.forge import raw
from tests.helpers.forge_nobulex import BOB, Es256Agent, audit_path, batch, export, nobulex, seal
from tests.helpers.reading import (
    PROFILES,
    accept,
    bad_signature,
    refused,
    with_member,
    without,
)
from tests.helpers.receipts import ALICE, MALLORY, Agent, jcs

if TYPE_CHECKING:
    from pathlib import Path

SIGNERS: list[Any] = [ALICE, BOB]


@pytest.fixture
def folder(vectors: Path) -> Path:
    return vectors / "receipts" / "nobulex" / "generated"


def test_the_published_export(folder: Path) -> None:
    text = (folder / "chain-export.json").read_bytes()
    assert is_export(json.loads(text))
    found = read_export(text)
    statuses = {check.name: check.status for check in check_export(found)}
    assert statuses.pop("chain coverage") is Status.NOT_CHECKED
    assert set(statuses.values()) == {Status.PASS}
    finding = check_chain(found.receipts, [GivenKey(ALICE.key)], PROFILES)
    assert finding.outcome is Outcome.VALID
    refs = [entry.receipt["action_ref"] for entry in found.entries]
    root = batch(refs).hex()
    assert check_batch(refs, root).status is Status.PASS
    for index, ref in enumerate(refs):
        verify_batch_proof(ref, index, 3, audit_path(refs, index), root)


def test_changed_bytes_of_the_published_export(folder: Path) -> None:
    """One bit of every eleventh byte: refused, badly signed, or nothing anybody signed."""
    text = json.dumps(json.loads((folder / "chain-export.json").read_bytes())).encode()
    honest = [check.status for check in check_export(read_export(text))]
    free, seen = set(), 0
    for at in range(0, len(text), 11):
        changed = bytearray(text)
        changed[at] ^= 1 << at % 7
        try:
            found = read_export(bytes(changed))
        except ReceiptError:
            seen += 1
            continue
        checks = [check.status for check in check_export(found)]
        outcome = check_chain(found.receipts, [GivenKey(ALICE.key)], PROFILES).outcome
        if checks == honest and outcome is Outcome.VALID:
            free.add(text[max(0, at - 20) : at + 20])
        else:
            seen += 1
    assert seen > 180
    assert all(b'"verified"' in around or b" " in around for around in free)
    assert len(free) < 25


def test_the_published_es256_receipt(folder: Path) -> None:
    text = (folder / "es256-receipt.json").read_bytes()
    key = bytes.fromhex(json.loads(text)["signer_public_key"])
    finding = check_chain([text], [GivenKey(key)], PROFILES)
    assert finding.outcome is Outcome.VALID
    receipt = finding.findings[0].receipt
    assert receipt is not None
    assert (receipt.profile, receipt.algorithm) == ("nobulex-es256", "ES256")
    assert check_receipt(receipt)[0].status is Status.PASS
    other = check_chain([text], [GivenKey(ALICE.key)], PROFILES)
    assert (other.outcome, other.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)


@pytest.mark.parametrize("signer", SIGNERS, ids=["Ed25519", "ES256"])
def test_what_is_read(signer: Any) -> None:
    receipt = accept(raw(nobulex(signer=signer)), signer.key)
    assert receipt.profile in OWN
    assert (receipt.agent, receipt.stream, receipt.linked) == ("agent-neo", "", False)
    assert (receipt.time, receipt.key_hint) == ("2026-11-30T14:58:51.479000Z", signer.key)
    assert receipt.unsigned == ("signer_public_key",)
    assert (receipt.sequence, receipt.previous, receipt.pair) == (None, None, None)


@pytest.mark.parametrize("signer", SIGNERS, ids=["Ed25519", "ES256"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("verdict", "DENY"),
        ("action_type", "delete_db"),
        ("scope", "elsewhere"),
        ("agent_id", "agent-smith"),
        ("timestamp_ms", 1),
        ("action_ref", "0" * 64),
        ("metadata", {"amount": 1}),
        ("policy_version", "2"),
        ("attempt_id", "2"),
    ],
)
def test_a_member_changed_after_signing(signer: Any, path: str, value: Any) -> None:
    honest = nobulex(signer=signer, policy_version="1", attempt_id="1", metadata={"amount": 2})
    accept(raw(honest), signer.key)
    bad_signature(accept, raw(with_member(honest, path, value)), signer.key)
    if path in ("metadata", "policy_version", "attempt_id"):
        bad_signature(accept, raw(without(honest, path)), signer.key)


@pytest.mark.parametrize("signer", SIGNERS, ids=["Ed25519", "ES256"])
@pytest.mark.parametrize(
    "change",
    [
        {"note": "x"},
        {"signature": "00" * 10},
        {"signature": None},
        {"signer_public_key": "00" * 31},
        {"timestamp_ms": 1.5},
        {"timestamp_ms": "1"},
        {"agent_id": ""},
        {"agent_id": 7},
    ],
)
def test_a_member_of_another_form(signer: Any, change: dict[str, Any]) -> None:
    document = {**nobulex(signer=signer), **change}
    refused(accept, raw(document), signer.key, reason=Reason.INVALID_FIELD)


def test_another_version_is_another_format() -> None:
    document = seal({**nobulex(), "version": "nobulex-receipt-v0.2"})
    refused(accept, raw(document), ALICE.key, reason=Reason.UNKNOWN_PROFILE)


def test_a_signature_has_one_der_form_and_its_twin_makes_no_other_content() -> None:
    document = nobulex(signer=BOB)
    der = bytes.fromhex(document["signature"])
    r, s = (signature_from_der(der)[at : at + 32] for at in (0, 32))
    twin = r + (ORDER - int.from_bytes(s, "big")).to_bytes(32, "big")
    other = {**document, "signature": signature_to_der(twin).hex()}
    one, two = accept(raw(document), BOB.key), accept(raw(other), BOB.key)
    assert one.signature != two.signature
    assert one.content_hash == two.content_hash
    for wrong in (
        (r + s).hex(),
        document["signature"].upper(),
        document["signature"] + "00",
        "3081" + document["signature"][2:],
        der.replace(b"\x02", b"\x02\x00", 1).hex(),
    ):
        refused(
            accept,
            raw({**document, "signature": wrong}),
            BOB.key,
            "nobulex-es256",
            reason=Reason.INVALID_FIELD,
        )


@pytest.mark.parametrize(
    ("signer", "given"), [(ALICE, MALLORY), (MALLORY, ALICE), (BOB, Es256Agent(4712))]
)
def test_the_key_inside_is_never_trusted(signer: Any, given: Any) -> None:
    text = raw(nobulex(signer=signer))
    assert check_chain([text], [GivenKey(signer.key)], PROFILES).outcome is Outcome.VALID
    other = check_chain([text], [GivenKey(given.key)], PROFILES)
    assert (other.outcome, other.reason) == (Outcome.INVALID, Reason.WRONG_KEY)
    nobody = check_chain([text], [], PROFILES)
    assert (nobody.outcome, nobody.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)
    exchanged = with_member(nobulex(signer=signer), "signer_public_key", given.key.hex())
    bad_signature(accept, raw(exchanged), signer.key)
    bad_signature(accept, raw(exchanged), given.key)


def test_a_key_of_one_algorithm_says_nothing_of_the_other() -> None:
    """The length of a key is all that tells the algorithm: both keys given, each signs its own."""
    keys = [GivenKey(ALICE.key), GivenKey(BOB.key)]
    for signer in SIGNERS:
        finding = check_chain([raw(nobulex(signer=signer))], keys, PROFILES)
        assert finding.outcome is Outcome.VALID
    crossed = with_member(nobulex(), "signer_public_key", BOB.key.hex())
    assert check_chain([raw(crossed)], keys, PROFILES).outcome is Outcome.INVALID


def test_an_action_ref_the_signer_made_up_is_signed_well_and_told() -> None:
    text = raw(nobulex(action_ref="ab" * 32))
    receipt = accept(text, ALICE.key)
    (check,) = check_receipt(receipt)
    assert (check.status, check.reason) == (Status.FAIL, Reason.INVALID_FIELD)


def test_text_that_is_not_normalised_is_signed_as_it_is() -> None:
    document = nobulex(scope="Cafe\u0301")
    assert check_receipt(accept(raw(document), ALICE.key))[0].status is Status.PASS
    composed = {**document, "scope": "Caf\u00e9"}
    bad_signature(accept, raw(composed), ALICE.key)


def test_an_empty_member_is_as_good_as_none_to_its_makers_and_not_to_us() -> None:
    """Nobody's receipts have one: it could be added after signing."""
    for name, empty in (("metadata", {}), ("policy_version", ""), ("attempt_id", "")):
        bad_signature(accept, raw({**nobulex(), name: empty}), ALICE.key)


def test_both_algorithms_in_one_export() -> None:
    document = export([nobulex("a"), nobulex("b", signer=BOB), nobulex("c", signer=MALLORY)])
    found = read_export(jcs(document))
    assert all(check.status is not Status.FAIL for check in check_export(found))
    keys = [GivenKey(agent.key) for agent in (ALICE, BOB)]
    finding = check_chain(found.receipts, keys, PROFILES)
    assert [one.outcome for one in finding.findings] == [
        Outcome.VALID,
        Outcome.VALID,
        Outcome.INVALID,
    ]
    assert finding.reason is Reason.WRONG_KEY


def test_keys_of_other_lengths_are_no_keys() -> None:
    assert isinstance(ALICE, Agent)
    for key in (ALICE.key + b"\0", BOB.key[:64], b"\5" + BOB.key[1:]):
        document = {**nobulex(), "signer_public_key": key.hex()}
        refused(accept, raw(document), ALICE.key, reason=Reason.INVALID_FIELD)
