"""Links in other encodings, other dialects and other first receipts of the formats `test_others` is about."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers.forge import base64_text, python, sha256_hex
from tests.helpers.forge_more import AERF, AERF_FULL, EVIDENCE, EVIDENCE_NAMED, SIGNET_V2, SIGNET_V3
from tests.helpers.forge_others import (
    ACT,
    CORE,
    CREDENTIAL,
    OTHERS,
    PIPELOCK,
    SIGNET,
    TAP,
    as_line,
    carried,
)
from tests.helpers.reading import accept, bad_signature, refused, with_member
from tests.helpers.receipts import ALICE, MALLORY, base64url, jcs

if TYPE_CHECKING:
    from tests.helpers.forge import Forger

BARE = (PIPELOCK, EVIDENCE, EVIDENCE_NAMED, AERF, AERF_FULL)  # links in hex, without sha256:
LINKED = (*BARE, *(forger for forger in OTHERS if forger.link is not None and forger not in BARE))
DIGEST = bytes.fromhex("a5" * 32)


def label(forger: Forger) -> str:
    return forger.profile


@pytest.mark.parametrize("forger", LINKED, ids=label)
def test_a_link_in_another_encoding(forger: Forger) -> None:
    own = DIGEST.hex() if forger in BARE else "sha256:" + DIGEST.hex()
    body = forger.body(1, own, ALICE)
    assert accept(carried(forger.seal(body, ALICE)), ALICE.key).previous == DIGEST
    others = {
        DIGEST.hex(),
        "sha256:" + DIGEST.hex(),
        DIGEST.hex().upper(),
        "sha256:" + DIGEST.hex().upper(),
        "SHA256:" + DIGEST.hex(),
        base64url(DIGEST),
        base64_text(DIGEST),
        "sha256:" + base64url(DIGEST),
        own + " ",
        own[:-2],
    } - {own}
    for text in others:
        document = forger.seal(forger.body(1, text, ALICE), ALICE)
        error = refused(accept, carried(document), ALICE.key, reason=Reason.INVALID_FIELD)
        assert str(forger.previous).split(".")[-1] in f"{error.message} {error.want}"


@pytest.mark.parametrize("forger", [ACT, CORE, CREDENTIAL, TAP], ids=label)
def test_base64url_with_padding_or_in_another_alphabet(forger: Forger) -> None:
    document: Any = forger.receipt()
    *way, name = forger.signature.split(".")
    node = document
    for step in way:
        node = node[step]
    text = node[name]
    digits = text.removeprefix("u") if forger is CREDENTIAL else text
    signature = base64.urlsafe_b64decode(digits + "==")
    for wrong in (text + "==", base64_text(signature), signature.hex()):
        changed = with_member(document, forger.signature, wrong)
        refused(accept, carried(changed), ALICE.key, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("forger", [SIGNET, SIGNET_V2, SIGNET_V3], ids=label)
def test_base64_without_padding(forger: Forger) -> None:
    document = forger.receipt()
    signature = base64.b64decode(document["sig"].removeprefix("ed25519:"))
    own = (document["sig"], base64_text(signature))
    assert own[0] == "ed25519:" + own[1]
    for wrong in (own[0].rstrip("="), "ed25519:" + base64url(signature), own[1], signature.hex()):
        changed = with_member(document, "sig", wrong)
        with pytest.raises(ReceiptError) as caught:
            accept(carried(changed), ALICE.key)
        assert caught.value.reason in (Reason.INVALID_FIELD, Reason.UNKNOWN_PROFILE)
        refused(accept, carried(changed), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("forger", [SIGNET, SIGNET_V2, SIGNET_V3, PIPELOCK, EVIDENCE], ids=label)
def test_the_key_inside_is_no_trust_and_must_fit(forger: Forger) -> None:
    theirs = forger.receipt(signer=MALLORY)
    assert accept(carried(theirs), MALLORY.key).key_hint == MALLORY.key
    error = bad_signature(accept, carried(theirs), ALICE.key)
    assert error.message.startswith("the receipt names another key")


# Pipelock: first receipts, bytes as they were carried.


def test_first_receipts_of_a_run() -> None:
    for text in ("genesis", "g1:" + "24" * 32):
        body = PIPELOCK.body(0, text, ALICE)
        assert accept(carried(PIPELOCK.seal(body, ALICE)), ALICE.key).previous is None
    for text in ("g2:" + "24" * 32, "Genesis", "genesis ", "0" * 63):
        document = PIPELOCK.seal(PIPELOCK.body(0, text, ALICE), ALICE)
        refused(accept, carried(document), ALICE.key, reason=Reason.INVALID_FIELD)


def test_another_order_or_spelling_of_an_action_is_another_one() -> None:
    document = PIPELOCK.receipt()
    record = document["action_record"]
    turned = {**document, "action_record": dict(reversed(record.items()))}
    bad_signature(accept, carried(turned), ALICE.key)
    text = carried(document)
    assert b"\\u003c" in text
    bad_signature(accept, text.replace(b"\\u003c", b"<"), ALICE.key)
    bad_signature(accept, jcs(document), ALICE.key)
    line = as_line(document, 0)
    assert accept(carried(line), ALICE.key).profile == "pipelock-v1-line"
    refused(accept, carried(line), ALICE.key, "pipelock-v1", reason=Reason.INVALID_FIELD)
    refused(accept, text, ALICE.key, "pipelock-v1-line", reason=Reason.INVALID_FIELD)


def test_an_action_that_is_signed_without_the_hash() -> None:
    document = PIPELOCK.receipt()
    text = "ed25519:" + ALICE.sign(carried(document["action_record"])).hex()
    bad_signature(accept, carried({**document, "signature": text}), ALICE.key)


def test_a_run_is_a_chain() -> None:
    body = PIPELOCK.body(0, None, ALICE)
    other = with_member(body, "action_record.run_nonce", "run-2")
    one, two = (accept(carried(PIPELOCK.seal(item, ALICE)), ALICE.key) for item in (body, other))
    assert (one.agent, one.stream, two.stream) == (two.agent, "run-1", "run-2")


# chain-receipt-core: a dialect of its own.


def test_text_is_normalised_and_escaped() -> None:
    document = CORE.receipt()
    receipt = accept(carried(document), ALICE.key)
    composed = json.loads(carried(document).decode().replace("r\u0301", "\u0155"))
    assert composed != document
    again = accept(carried(composed), ALICE.key)
    assert (again.signing_input, again.link_hash) == (receipt.signing_input, receipt.link_hash)
    assert again.content_hash == receipt.content_hash
    blank = {**document, "signature": None}
    for message in (jcs(blank), python(blank)):
        text = base64url(ALICE.sign(hashlib.sha256(message).digest()))
        changed = with_member(document, "signature.signature", text)
        bad_signature(accept, carried(changed), ALICE.key)


def test_a_chain_begins_at_its_root() -> None:
    document = CORE.receipt()
    assert document["chain"]["prev_receipt_hash"] == document["chain"]["chain_root_hash"]
    assert accept(carried(document), ALICE.key).previous is None
    zeros = CORE.body(0, "sha256:" + "0" * 64, ALICE)  # not the root: a receipt before is meant
    assert accept(carried(CORE.seal(zeros, ALICE)), ALICE.key).previous == bytes(32)


# ActLedger: the text of a hash is signed.


def test_a_hash_is_signed_as_text() -> None:
    document = ACT.receipt()
    receipt = accept(carried(document), ALICE.key)
    assert receipt.signing_input == document["hash"].encode()
    assert receipt.link_hash == bytes.fromhex(document["hash"].removeprefix("sha256:"))
    digest = bytes.fromhex(document["hash"].removeprefix("sha256:"))
    body = ACT.body(0, None, ALICE)
    for message in (digest, jcs(body), document["hash"].removeprefix("sha256:").encode()):
        changed = with_member(document, "sig.value", base64url(ALICE.sign(message)))
        bad_signature(accept, carried(changed), ALICE.key)
    other = {**document, "task_id": "t2"}
    error = refused(accept, carried(other), ALICE.key, reason=Reason.INVALID_FIELD)
    assert error.message == "the digest at hash does not fit the receipt"
    fitting = jcs({name: other[name] for name in body})
    bad_signature(accept, carried({**other, "hash": "sha256:" + sha256_hex(fitting)}), ALICE.key)


def test_its_algorithm_has_one_name() -> None:
    document = ACT.receipt()
    assert document["sig"]["alg"] == "Ed25519"
    for name in ("ed25519", "EdDSA", "ES256"):
        changed = with_member(document, "sig.alg", name)
        refused(accept, carried(changed), ALICE.key, reason=Reason.UNSUPPORTED_ALGORITHM)
    more = {**document, "note": "anybody can write this"}
    refused(accept, carried(more), ALICE.key, reason=Reason.INVALID_FIELD)
