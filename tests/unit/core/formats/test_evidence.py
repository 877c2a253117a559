"""Pipelock's evidence receipts: blanked members, three formats for one record, first receipts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.public_key import format_public_key
from tests.helpers.forge import sha256_hex
from tests.helpers.forge_more import BLANK, EVIDENCE, EVIDENCE_NAMED
from tests.helpers.forge_others import as_line
from tests.helpers.reading import PROFILES, accept, bad_signature, refused, with_member, without
from tests.helpers.receipts import ALICE, MALLORY, jcs


def raw(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def test_what_is_signed_and_what_is_linked() -> None:
    document = EVIDENCE.receipt()
    receipt = accept(raw(document), ALICE.key)
    assert receipt.signing_input == jcs({**document, "signature": BLANK})
    assert receipt.link_hash.hex() == sha256_hex(jcs(document))
    assert receipt.agent == format_public_key(ALICE.key)
    assert receipt.time == document["timestamp"]
    assert receipt.unsigned == (
        "signature.signer_key_id",
        "signature.key_purpose",
        "signature.algorithm",
    )


def test_lines_of_the_recorder() -> None:
    documents = EVIDENCE.chain(5)
    bare = [accept(raw(document), ALICE.key) for document in documents]
    lines = [
        accept(raw(as_line(document, 2 * number)), ALICE.key)
        for number, document in enumerate(documents)
    ]
    assert {line.profile for line in lines} == {"pipelock-v2-line"}
    for one, line in zip(bare, lines, strict=True):
        assert line.link_hash == one.link_hash
        assert line.content_hash == one.content_hash
        assert (line.previous, line.sequence, line.chain) == (one.previous, one.sequence, one.chain)
        assert line.unsigned[:4] == ("hash", "seq", "type", "v")
    for before, line in pairwise(lines):
        assert line.previous == before.link_hash


def test_a_key_with_a_name() -> None:
    """Only the given key tells whose it is: the name is not signed, and so it names no agent."""
    document = EVIDENCE_NAMED.receipt()
    receipt = accept(raw(document), ALICE.key)
    assert (receipt.agent, receipt.kid) == ("evidence_receipt_v2", "receipt-signing-prod")
    assert receipt.stream == '["local","pipelock"]'
    other = with_member(document, "signature.signer_key_id", "somebody-else")
    again = accept(raw(other), ALICE.key)
    assert (again.agent, again.stream) == (receipt.agent, receipt.stream)
    assert again.content_hash == receipt.content_hash
    body = EVIDENCE_NAMED.body(0, None, ALICE)
    nameless = {name: item for name, item in body.items() if name not in ("principal", "actor")}
    sealed = EVIDENCE_NAMED.seal(nameless, ALICE)
    assert accept(raw(sealed), ALICE.key).stream == '["",""]'


def test_a_key_id_that_is_another_key() -> None:
    document = with_member(EVIDENCE.receipt(), "signature.signer_key_id", MALLORY.key.hex())
    error = bad_signature(accept, raw(document), ALICE.key)
    assert error.message.startswith("the receipt names another key")
    bad_signature(accept, raw(document), MALLORY.key)
    upper = with_member(EVIDENCE.receipt(), "signature.signer_key_id", ALICE.key.hex().upper())
    found = PROFILES.candidates(upper)
    assert [profile.id for profile in found] == ["pipelock-v2-named"]
    refused(accept, raw(upper), ALICE.key, "pipelock-v2", reason=Reason.INVALID_FIELD)


def test_blanked_members_are_there_and_no_others() -> None:
    document = EVIDENCE.receipt()
    for name in ("key_purpose", "algorithm"):
        cut = without(document, f"signature.{name}")
        reason = Reason.INVALID_FIELD if name == "algorithm" else Reason.UNKNOWN_PROFILE
        refused(accept, raw(cut), ALICE.key, reason=reason)
    bad_signature(accept, raw(with_member(document, "signature.note", "x")), ALICE.key)
    other = with_member(document, "signature.algorithm", "ml-dsa-65")
    refused(accept, raw(other), ALICE.key, reason=Reason.UNSUPPORTED_ALGORITHM)


@pytest.mark.parametrize("text", ["genesis", "sha256:0"])
def test_first_receipts(text: str) -> None:
    document = EVIDENCE.seal({**EVIDENCE.body(0, None, ALICE), "chain_prev_hash": text}, ALICE)
    assert accept(raw(document), ALICE.key).previous is None


@pytest.mark.parametrize("text", ["", "sha256:00", "Genesis", None, "0" * 63, "sha256:" + "0" * 64])
def test_other_first_receipts(text: str | None) -> None:
    document = EVIDENCE.seal({**EVIDENCE.body(0, None, ALICE), "chain_prev_hash": text}, ALICE)
    error = refused(accept, raw(document), ALICE.key, reason=Reason.INVALID_FIELD)
    assert "chain_prev_hash" in error.message


def test_signed_in_another_way() -> None:
    """The signature cut out, or over a hash: not what Pipelock signs."""
    body = EVIDENCE.body(0, None, ALICE)
    bare = {name: item for name, item in body.items() if name != "signature"}
    for message in (jcs(bare), bytes.fromhex(sha256_hex(jcs(body))), raw(body)):
        document = EVIDENCE.receipt()
        text = "ed25519:" + ALICE.sign(message).hex()
        bad_signature(accept, raw(with_member(document, "signature.signature", text)), ALICE.key)
