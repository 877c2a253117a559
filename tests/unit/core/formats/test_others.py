"""Formats that have nothing in common with others: found, verified, linked, and every fault by name."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.receipt import authenticate, readings
from tests.helpers.forge import sha256_hex
from tests.helpers.forge_envelopes import ENVELOPES
from tests.helpers.forge_flat import FLATS
from tests.helpers.forge_more import MORE
from tests.helpers.forge_others import ACT, ANSWER, PIPELOCK, as_line, carried
from tests.helpers.forge_others import OTHERS as SOLE
from tests.helpers.reading import PROFILES, accept, refused, with_member, without
from tests.helpers.receipts import ALICE, MALLORY, lesson18

if TYPE_CHECKING:
    from pathlib import Path

    from tests.helpers.forge import Forger

LENGTH = 5
OTHERS = (*SOLE, *MORE)


def label(forger: Forger) -> str:
    return forger.profile


def write(document: Any) -> bytes:
    """In the document's own order, as these formats are sent."""
    return carried(document)


def faults(document: Any, profile: str | None = None) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        accept(write(document), ALICE.key, profile)
    return caught.value


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_a_chain_is_found_verified_and_linked(forger: Forger) -> None:
    receipts = [accept(write(document), ALICE.key) for document in forger.chain(LENGTH)]
    assert {receipt.profile for receipt in receipts} == {forger.profile}
    assert len({receipt.chain for receipt in receipts}) == 1
    assert receipts[0].previous is None
    for before, receipt in pairwise(receipts):
        assert receipt.linked is (forger.link is not None)
        assert receipt.previous == (before.link_hash if receipt.linked else None)
        if receipt.sequence is not None and before.sequence is not None:
            assert receipt.sequence == before.sequence + receipt.sequence_step
    if receipts[0].sequence is not None:
        assert receipts[0].sequence == receipts[0].sequence_start
    assert len({receipt.content_hash for receipt in receipts}) == LENGTH


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_no_other_format_takes_it(forger: Forger) -> None:
    for document in forger.chain(2):
        for other in PROFILES.ids():
            try:
                candidates = readings(write(document), PROFILES, profile=other)
                receipt = authenticate(next(candidates), candidates, ALICE.key)
            except ReceiptError:
                assert other != forger.profile
            else:
                assert receipt.profile == forger.profile == other


def test_receipts_of_the_other_formats_are_not_taken_for_these() -> None:
    ours = {forger.profile for forger in OTHERS} | {
        "nobulex-es256",
        "pipelock-v1-line",
        "pipelock-v2-line",
    }
    documents = [forger.receipt() for forger in ENVELOPES + FLATS]
    for document in [*documents, lesson18()]:
        found = {profile.id for profile in PROFILES.candidates(json.loads(json.dumps(document)))}
        assert found
        assert not found & ours


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_a_flipped_member(forger: Forger) -> None:
    error = faults(with_member(forger.receipt(), forger.signed, "other"))
    assert error.reason in (Reason.BAD_SIGNATURE, Reason.INVALID_FIELD)


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_signed_by_another_key(forger: Forger) -> None:
    document = forger.receipt(signer=MALLORY)
    accept(write(document), MALLORY.key)
    refused(accept, write(document), ALICE.key, reason=Reason.BAD_SIGNATURE)


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_a_signature_in_another_spelling(forger: Forger) -> None:
    document = forger.receipt()
    node: Any = document
    for step in forger.signature.split("."):
        node = node[step]
    digits = node.removeprefix("ed25519:")
    upper = [node.upper()] if set(digits) <= set("0123456789abcdef") else []  # hex has one case
    for text in (*upper, node + "=", node + " ", "0x" + node, node[:-1], "", None, 1):
        assert faults(with_member(document, forger.signature, text)).reason in (
            Reason.INVALID_FIELD,
            Reason.UNKNOWN_PROFILE,
        )
    faults(without(document, forger.signature))


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_a_member_outside_the_signed_bytes(forger: Forger) -> None:
    document = forger.receipt()
    honest = accept(write(document), ALICE.key)
    if forger.outside is None:
        return
    more = with_member(document, forger.outside, "x")
    if not forger.listed:
        assert faults(more).reason is Reason.INVALID_FIELD
        return
    receipt = accept(write(more), ALICE.key)
    assert forger.outside in receipt.unsigned
    assert receipt.content_hash == honest.content_hash


@pytest.mark.parametrize("forger", [one for one in OTHERS if one.previous], ids=label)
def test_a_first_receipt_of_another_form_and_links_in_other_encodings(forger: Forger) -> None:
    assert forger.previous is not None
    honest = forger.chain(2)[1]
    node: Any = honest
    for step in forger.previous.split("."):
        node = node[step]
    digits = node.removeprefix("sha256:")
    for text in ("", "genesis!", digits.upper(), digits[:-1], "sha512:" + digits, 0):
        body = with_member(forger.body(1, node, ALICE), _inside(forger), text)
        document = forger.seal(body, ALICE)
        assert faults(document).reason in (Reason.INVALID_FIELD, Reason.UNKNOWN_PROFILE)


def _inside(forger: Forger) -> str:
    """Path of the link in the body: where the body is the payload, without that step."""
    assert forger.previous is not None
    first, _, rest = forger.previous.partition(".")
    return rest if rest and first not in forger.body(0, None, ALICE) else forger.previous


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_proto(forger: Forger) -> None:
    raw = write(forger.receipt()).replace(b"{", b'{"__proto__":1,', 1)
    refused(accept, raw, ALICE.key, reason=Reason.MALFORMED)


@pytest.mark.parametrize("forger", OTHERS, ids=label)
def test_no_byte_can_change_what_a_receipt_is(forger: Forger) -> None:
    """Whatever byte changes: refused, or the same content in the same place."""
    raw = write(forger.receipt())
    honest = accept(raw, ALICE.key)
    for at in range(len(raw)):
        changed = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        try:
            receipt = accept(changed, ALICE.key)
        except ReceiptError:
            continue
        assert receipt.content_hash == honest.content_hash, raw[at - 20 : at + 20]
        if receipt.profile != honest.profile:  # nothing signs the key's id: see test_evidence
            assert (receipt.profile, receipt.agent) == ("pipelock-v2-named", "evidence_receipt_v2")
            continue
        assert receipt.chain == honest.chain
        assert (receipt.previous, receipt.sequence) == (honest.previous, honest.sequence)


def test_a_number_respelled() -> None:
    document = ANSWER.receipt()
    raw = write(document)
    assert raw.count(b":1.0}") == 1
    refused(accept, raw.replace(b":1.0}", b":1}"), ALICE.key, reason=Reason.BAD_SIGNATURE)


def test_a_hash_that_does_not_fit() -> None:
    document = ACT.receipt()
    error = faults({**document, "hash": "sha256:" + "00" * 32})
    assert "the digest at hash does not fit" in error.message
    assert faults({**document, "v": "actledger.receipt/9"}).reason is Reason.UNKNOWN_PROFILE


def test_pipelock_lines() -> None:
    """The same receipts inside their recorder's lines: one chain, the same links."""
    documents = PIPELOCK.chain(LENGTH)
    bare = [accept(write(document), ALICE.key) for document in documents]
    lines = [
        accept(write(as_line(document, number)), ALICE.key)
        for number, document in enumerate(documents)
    ]
    assert {line.profile for line in lines} == {"pipelock-v1-line"}
    for one, line in zip(bare, lines, strict=True):
        assert (
            line.link_hash
            == one.link_hash
            == bytes.fromhex(sha256_hex(write(documents[bare.index(one)])))
        )
        assert (line.previous, line.sequence, line.chain) == (one.previous, one.sequence, one.chain)
        assert line.unsigned == ("hash", "seq", "type", "v", "signer_key", "version")
    spaced = json.dumps(documents[0], indent=1, ensure_ascii=False).encode()
    for character in (b"<", b">", b"&"):
        spaced = spaced.replace(character, b"\\u%04x" % character[0])
    assert accept(spaced, ALICE.key).link_hash == bare[0].link_hash


# Published vectors.


def test_published_answerproof_receipts(vectors: Path) -> None:
    folder = vectors / "receipts" / "answerproof" / "generated"
    for name, reason in (
        ("01-valid", None),
        ("02-tampered-answer", Reason.BAD_SIGNATURE),
        ("03-valid-float-1.0", None),
        ("04-float-rewritten-as-int", Reason.BAD_SIGNATURE),
        ("05-attacker-own-key", Reason.BAD_SIGNATURE),
        ("06-valid-unicode-keys", None),
    ):
        raw = (folder / f"{name}.json").read_bytes()
        if reason is None:
            receipt = accept(raw, ALICE.key)
            assert (receipt.profile, receipt.linked) == ("answerproof", False)
        else:
            refused(accept, raw, ALICE.key, reason=reason)


def test_published_nobulex_receipts(vectors: Path) -> None:
    folder = vectors / "receipts" / "nobulex" / "generated"
    export = json.loads((folder / "chain-export.json").read_text())
    for entry in export["entries"]:
        receipt = accept(write(entry["receipt"]), ALICE.key)
        assert (receipt.profile, receipt.agent) == ("nobulex", export["agent_id"])
    document = json.loads((folder / "es256-receipt.json").read_text())
    key = bytes.fromhex(document["signer_public_key"])
    receipt = accept(write(document), key)
    assert (receipt.profile, receipt.algorithm) == ("nobulex-es256", "ES256")
    refused(accept, write({**document, "verdict": "DENY"}), key, reason=Reason.BAD_SIGNATURE)


VERSIONS = ("py", "go", "v020", "v030", "v040", "v050")


@pytest.mark.parametrize("version", VERSIONS)
def test_published_agent_receipts(vectors: Path, version: str) -> None:
    """Every signed receipt in the file verifies, and chains in it link."""
    data = json.loads(
        (
            vectors / "receipts" / "agent-receipts" / "cross-sdk-tests" / f"{version}_vectors.json"
        ).read_text()
    )
    key = _key(data["keys"]["publicKey"])
    found = 0
    for value in data.values():
        for receipts in _signed(value):
            read = [accept(write(document), key) for document in receipts]
            found += len(read)
            assert {receipt.profile for receipt in read} == {"agent-receipts"}
            for before, receipt in pairwise(read):
                assert receipt.previous == before.link_hash
    assert found >= 1


def _key(pem: str) -> bytes:
    import base64

    return base64.b64decode("".join(pem.splitlines()[1:-1]))[-32:]


def _signed(value: Any) -> list[list[Any]]:
    if isinstance(value, dict) and isinstance(value.get("receipts"), list):
        return [[one for one in value["receipts"] if "proof" in one]]
    if isinstance(value, dict):
        inner = value.get("receipt", value.get("signed"))
        return [[inner]] if isinstance(inner, dict) and "proof" in inner else []
    return (
        [[one] for one in value if isinstance(one, dict) and "proof" in one]
        if isinstance(value, list)
        else []
    )
