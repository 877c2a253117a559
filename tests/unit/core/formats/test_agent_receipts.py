"""Every published vector of Agent Receipts (obsigna) comes out as published."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.receipt import Receipt, readings
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from tests.helpers.reading import (
    PROFILES,
    accept,
    bad_signature,
    read,
    refused,
    with_member,
    without,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.receipts import Document

PROOF = {
    "type": "Ed25519Signature2020",
    "verificationMethod": "did:agent:test-agent#key-1",
    "proofValue": "u" + "A" * 86,
}
NEWER = ("v020", "v030", "v040", "v050")
BASELINE = "receipt_all_optional_absent"


@pytest.fixture
def published(vectors: Path) -> Path:
    return vectors / "receipts" / "agent-receipts"


def load(path: Path) -> Any:
    return json.loads(path.read_bytes())


def raw(document: Document) -> bytes:
    return json.dumps(document, indent=2).encode()


def key_of(data: Any) -> bytes:
    lines = data["keys"]["publicKey"].split("\n")
    return base64.b64decode("".join(line for line in lines if not line.startswith("-----")))[-32:]


def named(receipt: Receipt) -> str:
    return "sha256:" + receipt.link_hash.hex()


@pytest.mark.parametrize("signer", ["py", "go"])
def test_signed_by_both_kits(published: Path, signer: str) -> None:
    data = load(published / "cross-sdk-tests" / f"{signer}_vectors.json")
    receipt = accept(raw(data["signing"]["signed"]), key_of(data))
    assert (receipt.profile, receipt.agent) == ("agent-receipts", "did:agent:test-agent")
    assert receipt.kid == data["signing"]["verificationMethod"]
    assert receipt.signing_input.decode() == data["canonicalization"]["receiptExpected"]
    assert named(receipt) == data["hashing"]["receiptExpected"]
    unsigned = {**data["signing"]["unsigned"], "proof": data["signing"]["signed"]["proof"]}
    assert accept(raw(unsigned), key_of(data)).content_hash == receipt.content_hash


@pytest.mark.parametrize("version", NEWER)
def test_receipts_and_chains_of_each_version(published: Path, version: str) -> None:
    data = load(published / "cross-sdk-tests" / f"{version}_vectors.json")
    key, seen = key_of(data), 0
    for case in data.values():
        if not isinstance(case, dict) or "expectedValid" not in case:
            continue
        assert case["expectedValid"] is True
        documents = case["receipts"] if "receipts" in case else [case["receipt"]]
        receipts = [accept(raw(document), key) for document in documents]
        seen += len(receipts)
        if "expectedReceiptHash" in case:
            assert named(receipts[0]) == case["expectedReceiptHash"]
        for before, receipt in pairwise(receipts):
            assert (receipt.previous, receipt.chain) == (before.link_hash, before.chain)
        found = check_chain([raw(one) for one in documents], [GivenKey(key)], PROFILES)
        assert found.outcome is Outcome.VALID
        for document in documents:
            changed = with_member(document, "credentialSubject.outcome.status", "changed")
            bad_signature(accept, raw(changed), key)
    assert seen >= 2


def test_a_receipt_that_is_taken_out_of_a_chain_is_missed(published: Path) -> None:
    data = load(published / "cross-sdk-tests" / "v020_vectors.json")
    first, _, third = map(raw, data["terminalChain"]["receipts"])
    found = check_chain([first, third], [GivenKey(key_of(data))], PROFILES)
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.GAP)


def test_receipt_hashes(published: Path) -> None:
    """Null or left out is one receipt, but for the previous hash; nothing else is dropped or escaped."""
    cases = load(published / "cross-sdk-tests" / "canonicalization_vectors.json")
    cases = [case for case in cases["receipt_hash_vectors"] if "receipt" in case]
    hashes = {case["name"]: case["expectedHash"] for case in cases}
    for case in cases:
        receipt = read({**case["receipt"], "proof": PROOF})
        same = case["expectedHash"].startswith("SAME_AS_")
        assert named(receipt) == hashes[BASELINE if same else case["name"]], case["name"]
        assert case.get("mustContainSubstring", "") in receipt.signing_input.decode()
    assert len(cases) >= 10


MALFORMED = {
    "wrong_proof_type": Reason.UNKNOWN_PROFILE,
    "mutated_action_type": Reason.BAD_SIGNATURE,
    "mutated_principal_id": Reason.BAD_SIGNATURE,
    "truncated_proof_value": Reason.INVALID_FIELD,
    "wrong_multibase_prefix": Reason.INVALID_FIELD,
    "flipped_proof_byte": Reason.BAD_SIGNATURE,
}


def test_malformed_receipts(published: Path) -> None:
    data = load(published / "cross-sdk-tests" / "malformed_vectors.json")
    key = key_of(data)
    assert {case["name"] for case in data["receipts"]} == MALFORMED.keys()
    for case in data["receipts"]:
        refused(accept, raw(case["receipt"]), key, reason=MALFORMED[case["name"]])
    (chain,) = data["chains"]
    first, broken, last = chain["receipts"]
    before, after = accept(raw(first), key), accept(raw(last), key)
    bad_signature(accept, raw(broken), key)
    assert after.previous not in (None, before.link_hash)
    found = check_chain([raw(one) for one in chain["receipts"]], [GivenKey(key)], PROFILES)
    assert found.outcome is Outcome.INVALID


def test_a_rotation_event_is_an_ordinary_receipt_of_the_old_key(published: Path) -> None:
    document = load(published / "spec" / "test-vectors" / "rotation-event" / "example.json")
    receipt = read(document)
    assert (receipt.agent, receipt.stream, receipt.sequence, receipt.previous) == (
        "did:agent:rotation-fixture-issuer",
        "chain_rotation_fixture_001",
        1,
        None,
    )
    rotation = document["credentialSubject"]["keyRotation"]
    new = base64.urlsafe_b64decode(rotation["new_public_key"][1:] + "=")
    bad_signature(accept, raw(document), new)  # the new key does not bring itself in
    assert b'"signed_with":"old"' in receipt.signing_input


def test_illustrations_are_read_and_do_not_verify(published: Path) -> None:
    key = key_of(load(published / "cross-sdk-tests" / "py_vectors.json"))
    names = sorted((published / "spec" / "examples").glob("*.json"))
    assert len(names) >= 9
    for name in names:
        assert next(readings(name.read_bytes(), PROFILES)).profile == "agent-receipts"
        bad_signature(accept, name.read_bytes(), key)


def test_a_chain_member_left_out(published: Path) -> None:
    """A first receipt says null: one without the member is of no format."""
    data = load(published / "cross-sdk-tests" / "py_vectors.json")
    signed = data["signing"]["signed"]
    for path, reason in (
        ("credentialSubject.chain.previous_receipt_hash", Reason.INVALID_FIELD),
        ("credentialSubject.chain.chain_id", Reason.INVALID_FIELD),
        ("credentialSubject.chain.sequence", Reason.INVALID_FIELD),
        ("issuer.id", Reason.INVALID_FIELD),
    ):
        with pytest.raises(ReceiptError) as caught:
            accept(raw(without(signed, path)), key_of(data), "agent-receipts")
        assert caught.value.reason is reason, path
