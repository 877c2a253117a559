"""A good token changed in every byte, and bytes of all kinds: never accepted with another meaning.

Some bytes are not signed, and some change nothing: certificates that nobody needs, tags that both sides
of a comparison share. What is accepted must say exactly what the good token says.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.timestamp import (
    RevocationEvidence,
    Timestamp,
    TimestampError,
    describe_response,
    verify_response,
    verify_token,
)
from receiptledger.core.timestamp_request import parse_request
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.tsa_forge import MESSAGE, NONCE
from tests.helpers.tsa_pki import INTER, ROOT, TRUST, TSA

if TYPE_CHECKING:
    from collections.abc import Iterator

INFO = forge.tst_info(
    ordering=forge.boolean(True),
    tsa=forge.directory_name(TSA.subject),
    extensions=forge.extension("1.2.3", forge.seq()),
)
ATTRIBUTES = [
    *forge.signed_attributes(INFO),
    forge.ess_v1(TSA.der),
    forge.ess_v2(TSA.der, INTER.der, issuer_serial=b""),
    forge.attribute("signingTime", forge.time(forge.NOW)),
]
RESPONSE = forge.response(
    pki.token_of(INFO, attributes=ATTRIBUTES), forge.status_info(0, [forge.text("Fine")])
)
GOOD = verify_response(RESPONSE, MESSAGE, TRUST, nonce=NONCE)

# What a timestamp means to whoever relies on it. Not the path: the same names and keys may be proven
# over another copy of an issuer's certificate.
MEANING = [field.name for field in fields(Timestamp) if field.name not in ("path", "warnings")]


def meaning(stamp: Timestamp) -> dict[str, Any]:
    return {name: getattr(stamp, name) for name in MEANING} | {"signer": stamp.path[0]}


def harmless(changed: bytes) -> bool:
    """Refused, or accepted as what it was; anything else fails the test."""
    try:
        stamp = verify_response(changed, MESSAGE, TRUST, nonce=NONCE)
    except TimestampError:
        return False
    assert meaning(stamp) == meaning(GOOD)
    return True


def changes_of(at: int) -> Iterator[bytes]:
    """Several changes of one byte: bits, neighbours, extremes, its loss and its repetition."""
    byte = RESPONSE[at]
    values = {byte ^ 1, byte ^ 0x20, byte ^ 0x80, (byte + 1) % 256, (byte - 1) % 256, 0, 0xFF}
    for value in values - {byte}:
        yield RESPONSE[:at] + bytes([value]) + RESPONSE[at + 1 :]
    yield RESPONSE[:at] + RESPONSE[at + 1 :]
    yield RESPONSE[:at] + bytes([byte]) + RESPONSE[at:]
    yield RESPONSE[:at]


@pytest.mark.parametrize("part", range(8))
def test_every_byte(part: int) -> None:
    accepted = 0
    for at in range(part, len(RESPONSE), 8):
        outcomes = [harmless(one) for one in changes_of(at) if one != RESPONSE]
        accepted += any(outcomes)
    # Not signed: the status text, digestAlgorithms and the version of SignedData. All the rest is.
    assert accepted < 10


def test_signed_parts_have_no_slack() -> None:
    """In the TSTInfo, the signed attributes and the signature, any change at all is refused."""
    for part in (INFO, *ATTRIBUTES, forge.sign(TSA.key, forge.tlv(0x31, *sorted(ATTRIBUTES)))):
        start = RESPONSE.index(part)
        for at in range(start, start + len(part)):
            for flip in (1, 0x10, 0x80, 0xFF):
                changed = RESPONSE[:at] + bytes([RESPONSE[at] ^ flip]) + RESPONSE[at + 1 :]
                assert not harmless(changed), at


def test_parts_of_two_tokens_do_not_mix() -> None:
    """Same authority, another message: no exchange of one part for the other's is accepted."""
    other = forge.tst_info(imprint=forge.imprint(b"other"))
    theirs = pki.response_of(other)
    mine = pki.response_of()
    pairs = [
        (forge.tst_info(), other),
        (forge.signed_attributes(forge.tst_info())[1], forge.signed_attributes(other)[1]),
    ]
    for ours, foreign in pairs:
        assert mine.count(ours) == theirs.count(foreign) == 1
        with pytest.raises(TimestampError):
            verify_response(mine.replace(ours, foreign), MESSAGE, TRUST, nonce=NONCE)
        with pytest.raises(TimestampError):
            verify_response(theirs.replace(foreign, ours), MESSAGE, TRUST, nonce=NONCE)


# Bytes of all kinds: only our own error may escape.

TOKEN = pki.token_of(INFO)
CRL = pki.crl(INTER, [pki.entry(TSA, forge.NOW, 4)], more=[])
OCSP = pki.ocsp([pki.single(TSA, INTER, pki.GOOD)], INTER)
CRITICAL = forge.extension("1.2.3.4", forge.seq(), critical=True)

EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from(["set", "insert", "cut", "swap"]),
        st.binary(min_size=1, max_size=6),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: list[tuple[float, str, bytes, int]]) -> bytes:
    for place, how, new, size in edits:
        at = int(place * (len(data) + 1))
        if how == "set":
            data = data[:at] + new + data[at + len(new) :]
        elif how == "insert":
            data = data[:at] + new + data[at:]
        elif how == "cut":
            data = data[:at] + data[at + size :]
        else:
            data = data[:at] + data[at + size : at + 2 * size] + data[at : at + size]
    return data


@given(EDITS)
def test_edited_responses(edits: list[tuple[float, str, bytes, int]]) -> None:
    changed = edited(RESPONSE, edits)
    harmless(changed)
    with suppress(TimestampError):
        json.dumps(describe_response(changed))


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    for call in (
        lambda: verify_response(data, MESSAGE, TRUST),
        lambda: verify_token(data, MESSAGE, TRUST),
        lambda: parse_request(data),
        lambda: describe_response(data),
    ):
        with suppress(TimestampError):
            call()


TAGS = st.sampled_from([0x02, 0x03, 0x04, 0x06, 0x0C, 0x17, 0x18, 0x80, 0x81, 0x82])
SHAPES = st.recursive(
    st.builds(forge.tlv, TAGS, st.binary(max_size=12)),
    lambda inner: st.builds(
        lambda tag, parts: forge.tlv(tag, *parts),
        st.sampled_from([0x30, 0x31, 0xA0, 0xA1, 0xA2, 0xA3, 0xA4]),
        st.lists(inner, max_size=5),
    ),
    max_leaves=25,
)


@given(SHAPES, SHAPES)
def test_any_shapes(one: bytes, other: bytes) -> None:
    """DER of any grammar in every place where a structure is expected."""
    responses = [
        one,
        forge.response(one),
        pki.response_of(one),
        pki.response_of(forge.tst_info(accuracy=one, tsa=other)),
        pki.response_of(extra=[forge.attribute("algorithmProtection", one)]),
        pki.response_of(
            attributes=[*forge.signed_attributes(forge.tst_info()), forge.attribute("ess-v2", one)]
        ),
        pki.response_of(certificates=[one, TSA.der, other, INTER.der]),
        pki.response_of(identifier=one, unsigned=other),
        pki.response_of(signature_identifier=one),
    ]
    for response in responses:
        with suppress(TimestampError):
            verify_response(response, MESSAGE, TRUST, nonce=NONCE)
        with suppress(TimestampError):
            json.dumps(describe_response(response))


@given(EDITS, st.booleans(), SHAPES)
def test_edited_evidence(
    edits: list[tuple[float, str, bytes, int]], crl: bool, shape: bytes
) -> None:
    """Changed evidence is refused or says nothing; it never turns into good news."""
    original = CRL if crl else OCSP
    for blob in (edited(original, edits), shape):
        if blob == original:
            continue
        evidence = RevocationEvidence((blob,), ()) if crl else RevocationEvidence((), (blob,))
        try:
            stamp = verify_response(RESPONSE, MESSAGE, TRUST, nonce=NONCE, evidence=evidence)
        except TimestampError:
            continue
        assert stamp.revocation == "unknown"


@given(EDITS)
def test_edited_certificates(edits: list[tuple[float, str, bytes, int]]) -> None:
    certificates = [TSA.der, edited(INTER.der, edits), edited(ROOT.der, edits)]
    try:
        stamp = verify_response(
            pki.response_of(INFO, certificates=certificates), MESSAGE, TRUST, nonce=NONCE
        )
    except TimestampError:
        return
    assert stamp.path == pki.PATH
