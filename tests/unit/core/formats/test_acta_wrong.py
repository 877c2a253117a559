"""What is refused of the formats around draft-farley, agent-governance-toolkit and sm-arp, and why."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers.forge import (
    base64_text,
    javascript,
    python,
    python_ascii,
    raw,
    sha256_hex,
)
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
from tests.helpers.forge_flat import AGT, ARP, FLATS, V1, agt_signed
from tests.helpers.reading import accept, bad_signature, refused, with_member, without
from tests.helpers.receipts import ALICE, MALLORY, base64url, jcs
from tests.unit.core.formats.test_acta_chains import label

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.forge import Forger
    from tests.helpers.receipts import Document

ALL = ENVELOPES + FLATS
LINKED = tuple(forger for forger in ALL if forger.previous is not None)
HEX = tuple(forger for forger in ALL if forger not in (SWARMS, ARP))


def member(document: Document, path: str) -> Any:
    node: Any = document
    for name in path.split("."):
        node = node[name]
    return node


def second(forger: Forger) -> Document:
    return forger.chain(2)[1]


# Signatures.


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_a_flipped_member(forger: Forger) -> None:
    changed = with_member(second(forger), forger.signed, "Delete")
    if forger is AGT:  # its digest of the signed bytes is looked at first
        error = refused(accept, raw(changed), ALICE.key, reason=Reason.INVALID_FIELD)
        assert "payload_hash" in error.message
        changed["payload_hash"] = sha256_hex(agt_signed(changed))
    bad_signature(accept, raw(changed), ALICE.key)
    bad_signature(accept, raw(changed), ALICE.key, forger.profile)


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_signed_by_another_key(forger: Forger) -> None:
    body = forger.body(0, None, ALICE)
    bad_signature(accept, raw(forger.seal(body, MALLORY)), ALICE.key)


@pytest.mark.parametrize("forger", [PROTECT_MCP, V1, AGT, ARP], ids=label)
def test_the_key_inside_is_no_trust_and_must_fit(forger: Forger) -> None:
    theirs = forger.receipt(signer=MALLORY)
    error = bad_signature(accept, raw(theirs), ALICE.key, forger.profile)
    assert error.message.startswith("the receipt names another key")
    assert accept(raw(theirs), MALLORY.key).key_hint == MALLORY.key


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_a_signature_cut_or_left_out(forger: Forger) -> None:
    document = second(forger)
    text = member(document, forger.signature)
    for wrong in (text[:-2], text + text[:2], "", None, 7):
        changed = with_member(document, forger.signature, wrong)
        error = refused(
            accept, raw(changed), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD
        )
        assert forger.signature in error.message or forger.signature in str(error.want)
    refused(
        accept,
        raw(without(document, forger.signature)),
        ALICE.key,
        forger.profile,
        reason=Reason.INVALID_FIELD,
    )


# Spelling of signatures.


@pytest.mark.parametrize("forger", HEX, ids=label)
def test_hex_in_upper_case(forger: Forger) -> None:
    document = second(forger)
    text = member(document, forger.signature)
    changed = with_member(document, forger.signature, text.upper())
    error = refused(accept, raw(changed), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)
    assert "lower-case hex" in str(error.want)


def test_base64_in_another_spelling() -> None:
    swarms, arp = second(SWARMS), second(ARP)
    text, arp_text = swarms["signature"]["sig"], arp["signature"]
    signature = base64.urlsafe_b64decode(text + "==")
    assert base64_text(signature) == text.replace("-", "+").replace("_", "/") + "=="
    spare = text[:-1] + chr(ord(text[-1]) + 1)  # other spare bits, the same bytes
    assert base64.urlsafe_b64decode(spare + "==") == signature
    for wrong in (text + "==", base64_text(signature), signature.hex(), spare, text + "\n"):
        changed = with_member(swarms, "signature.sig", wrong)
        refused(accept, raw(changed), ALICE.key, "scopeblind-swarms", reason=Reason.INVALID_FIELD)
    arp_signature = base64.b64decode(arp_text)
    for wrong in (
        arp_text.rstrip("="),
        base64url(arp_signature),
        arp_signature.hex(),
        arp_text[:-3] + chr(ord(arp_text[-3]) + 1) + "==",
    ):
        changed = with_member(arp, "signature", wrong)
        refused(accept, raw(changed), ALICE.key, reason=Reason.INVALID_FIELD)


# Members that do not belong there.


@pytest.mark.parametrize("forger", [one for one in ALL if one.outside], ids=label)
def test_a_member_outside_the_signed_bytes(forger: Forger) -> None:
    document = second(forger)
    assert forger.outside is not None
    changed = with_member(document, forger.outside, "anybody can write this")
    if not forger.listed:
        error = refused(
            accept, raw(changed), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD
        )
        assert forger.outside in str(error.got)
        return
    honest, receipt = (accept(raw(one), ALICE.key) for one in (document, changed))
    assert forger.outside in receipt.unsigned
    assert forger.outside not in honest.unsigned
    assert receipt.content_hash == honest.content_hash  # so it is a duplicate, and no fork


@pytest.mark.parametrize("forger", ENVELOPES, ids=label)
def test_a_third_member_of_the_envelope(forger: Forger) -> None:
    changed = {**second(forger), "anchors": []}
    refused(accept, raw(changed), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("forger", [ADK, ACTA_SDK, SWARMS], ids=label)
def test_another_key_id_makes_no_other_receipt(forger: Forger) -> None:
    """No signed member says it, so a stranger can write another: a forged fork otherwise."""
    document = second(forger)
    changed = with_member(document, "signature.kid", "sb:adk:000000000000")
    honest, receipt = (accept(raw(one), ALICE.key) for one in (document, changed))
    assert (receipt.kid, receipt.profile) == ("sb:adk:000000000000", forger.profile)
    assert receipt.content_hash == honest.content_hash


@pytest.mark.parametrize("forger", [DRAFT_02, PROTECT_MCP], ids=label)
def test_a_key_id_that_is_not_the_issuer(forger: Forger) -> None:
    changed = with_member(second(forger), "signature.kid", "sb:issuer:000000000000")
    refused(accept, raw(changed), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("value", [None, "", "x", {}], ids=["null", "empty", "text", "object"])
@pytest.mark.parametrize("forger", ENVELOPES, ids=label)
def test_a_signature_member_inside_the_payload(forger: Forger, value: object) -> None:
    body = {**forger.body(0, None, ALICE), "signature": value}
    document = forger.seal(body, ALICE)
    error = refused(accept, raw(document), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)
    assert "payload.signature is forbidden" in error.message
    refused(accept, raw(document), ALICE.key, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("name", ["verification_key", "issuer_key", "signer_public_key"])
def test_swarms_refuses_a_key_in_the_payload(name: str) -> None:
    body = {**SWARMS.body(0, None, ALICE), name: ALICE.key.hex()}
    error = refused(accept, raw(SWARMS.seal(body, ALICE)), ALICE.key, reason=Reason.INVALID_FIELD)
    assert f"payload.{name} is forbidden" in error.message


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_proto(forger: Forger) -> None:
    """Added after signing it would be lost by JavaScript's sorted copy, so it is never read."""
    holder, _, _ = forger.signed.rpartition(".")
    changed = with_member(second(forger), f"{holder}.__proto__".lstrip("."), {"decision": "deny"})
    assert b'"__proto__"' in raw(changed)
    refused(accept, raw(changed), ALICE.key, reason=Reason.MALFORMED)
    body = forger.body(0, None, ALICE)
    signed = forger.seal({**body, "__proto__": 1}, ALICE)
    if forger is not AGT:  # there it is dropped from what is signed
        assert b'"__proto__"' in raw(signed)
        refused(accept, raw(signed), ALICE.key, reason=Reason.MALFORMED)


def test_a_member_twice() -> None:
    text = raw(DRAFT_02.receipt()).replace(b'{"type"', b'{"tool_name": "Delete", "type"', 1)
    refused(accept, text, ALICE.key, reason=Reason.MALFORMED)


# Links.


@pytest.mark.parametrize("forger", LINKED, ids=label)
def test_the_other_form_of_a_first_receipt(forger: Forger) -> None:
    assert forger.previous is not None
    body = forger.body(0, None, ALICE)
    name = forger.previous.rpartition(".")[2]
    other = {key: value for key, value in body.items() if key != name}
    if name not in body:
        other[name] = None
    document = forger.seal(other, ALICE)
    if forger is AGT:  # null and left out are signed alike there; the form that is written is null
        document = without(forger.seal(body, ALICE), name)
    error = refused(accept, raw(document), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)
    assert forger.previous in f"{error.message} {error.want}"
    for wrong in ("", "genesis", 0, False, {}):
        document = forger.seal({**body, name: wrong}, ALICE)
        refused(accept, raw(document), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)


@pytest.mark.parametrize("forger", LINKED, ids=label)
def test_a_link_in_another_encoding(forger: Forger) -> None:
    digest = bytes.fromhex("a5" * 32)
    texts = {
        "sha256:hex": "sha256:" + digest.hex(),
        "hex": digest.hex(),
        "base64url": base64url(digest),
        "base64": base64_text(digest),
        "upper": "sha256:" + digest.hex().upper(),
        "upper hex": digest.hex().upper(),
        "short": digest.hex()[:-2],
        "sha512": "sha512:" + digest.hex(),
    }
    taken = []
    for name, text in texts.items():
        document = forger.seal(forger.body(1, text, ALICE), ALICE)
        if name == own_encoding(forger):
            assert accept(raw(document), ALICE.key, forger.profile).previous == digest
            taken.append(name)
            continue
        refused(accept, raw(document), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)
    assert len(taken) == 1


def own_encoding(forger: Forger) -> str:
    if forger in (DRAFT_02, PROTECT_MCP, AGT):
        return "hex"
    return "base64url" if forger is SWARMS else "sha256:hex"


def test_a_sequence_that_is_none() -> None:
    for forger, path in ((V1, "sequence"), (ACTA_SDK, "sequence")):
        for wrong in (-1, "1", None, True, 1.5):
            document = forger.seal({**forger.body(0, None, ALICE), path: wrong}, ALICE)
            refused(accept, raw(document), ALICE.key, forger.profile, reason=Reason.INVALID_FIELD)


# Dialects.

ODD: Document = {"1": 1.0, "10": 1e-7, "9": "ü", "￿": 1, "😀": 2}


@pytest.mark.parametrize(
    ("forger", "own"),
    [
        (DRAFT_04, jcs),
        (DRAFT_02, jcs),
        (PROTECT_MCP, javascript),
        (ADK, python),
        (ACTA_SDK, javascript),
        (SWARMS, python_ascii),
    ],
    ids=lambda value: value.profile if hasattr(value, "profile") else value.__name__,
)
def test_signed_in_another_dialect(forger: Forger, own: Callable[[Any], bytes]) -> None:
    """All write this one their own way, and only one of them is the format's."""
    body = {**forger.body(0, None, ALICE), "odd": ODD}
    kid = forger.receipt()["signature"]["kid"]
    encode = base64url if forger is SWARMS else bytes.hex
    written = set()
    for write in (jcs, python, python_ascii, javascript):
        written.add(write(body))
        document = envelope(body, ALICE, kid, write, encode)
        if write is own:
            assert accept(raw(document), ALICE.key, forger.profile).signing_input == own(body)
        else:
            bad_signature(accept, raw(document), ALICE.key, forger.profile)
    assert len(written) == 4


@pytest.mark.parametrize("forger", [ADK, SWARMS, AGT], ids=label)
def test_a_float_written_as_an_integer(forger: Forger) -> None:
    """Python tells 1.0 from 1, so whoever rewrites it breaks the signature."""
    if forger is AGT:
        document, path = AGT.receipt(), "timestamp"
    else:
        body = {**forger.body(0, None, ALICE), "confidence": 1.0}
        document, path = forger.seal(body, ALICE), "payload.confidence"
    value = member(document, path)
    assert type(value) is float
    assert value.is_integer()
    assert accept(raw(document), ALICE.key).profile == forger.profile
    changed = with_member(document, path, int(value))
    if forger is AGT:
        changed["payload_hash"] = sha256_hex(agt_signed(changed))
    bad_signature(accept, raw(changed), ALICE.key, forger.profile)


@pytest.mark.parametrize("forger", [DRAFT_04, DRAFT_02, PROTECT_MCP, ACTA_SDK], ids=label)
def test_numbers_respelled_where_only_their_value_is_signed(forger: Forger) -> None:
    body = {**forger.body(0, None, ALICE), "amount": 250, "share": 0.000001}
    honest = raw(forger.seal(body, ALICE))
    receipt = accept(honest, ALICE.key, forger.profile)
    for spelling in (b"250.0", b"2.5e2", b"25e1"):
        changed = honest.replace(b'"amount": 250', b'"amount": ' + spelling)
        assert changed != honest
        again = accept(changed, ALICE.key, forger.profile)
        assert (again.content_hash, again.link_hash) == (receipt.content_hash, receipt.link_hash)
    bad_signature(
        accept, honest.replace(b'"amount": 250', b'"amount": 250.5'), ALICE.key, forger.profile
    )


# All of the bytes.


@pytest.mark.parametrize("forger", ALL, ids=label)
def test_no_byte_can_change_what_a_receipt_is(forger: Forger) -> None:
    """One bit of each byte: refused, or a member nobody signed, which makes no other receipt."""
    text = raw(second(forger))
    honest = accept(text, ALICE.key)
    kept = set()
    for at in range(len(text)):
        changed = bytearray(text)
        changed[at] ^= 1 << at % 7
        try:
            receipt = accept(bytes(changed), ALICE.key)
        except ReceiptError:
            continue
        kept.add(at)
        for name in ("profile", "chain", "previous", "content_hash", "time", "kid"):
            if name != "kid" or not forger.loose:
                assert getattr(receipt, name) == getattr(honest, name), bytes(changed)
    spaces = {at for at in kept if text[at : at + 1] == b" "}
    assert bool(kept - spaces) == forger.loose
