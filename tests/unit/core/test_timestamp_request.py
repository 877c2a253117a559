"""Timestamp requests: byte for byte, and nothing else is read."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.timestamp import Cause, TimestampError
from receiptledger.core.timestamp_encode import encode_oid
from receiptledger.core.timestamp_request import TimestampRequest, parse_request
from tests.helpers import tsa_forge as forge
from tests.helpers.cases import named
from tests.helpers.tsa_forge import boolean, imprint, integer, octets, oid, seq, tlv

DIGEST = hashlib.sha256(forge.MESSAGE).digest()
SIZES = {"sha256": 32, "sha384": 48, "sha512": 64}


def test_byte_for_byte() -> None:
    request = TimestampRequest(DIGEST, nonce=0x0102030405060708, policy="1.2.3.4")
    assert (
        request.encode().hex()
        == (
            "3048020101"  # version 1
            "3031300d060960864801650304020105000420" + DIGEST.hex() + "06032a0304"  # reqPolicy
            "02080102030405060708"  # nonce
            "0101ff"  # certReq
        )
    )


def test_the_forge_writes_the_same() -> None:
    request = TimestampRequest(DIGEST, nonce=2**128 - 1)
    assert request.encode() == seq(integer(1), imprint(), integer(2**128 - 1), boolean(True))
    bare = TimestampRequest(DIGEST, cert_req=False)
    assert bare.encode() == seq(integer(1), imprint())


@given(
    st.sampled_from(sorted(SIZES)),
    st.none() | st.integers(0, 2**256 - 1),
    st.none() | st.sampled_from(["0.0", "1.39", "2.999.1", "1.3.6.1.4.1.57264.99.1", "2.5.29.0"]),
    st.booleans(),
)
def test_round_trip(name: str, nonce: int | None, policy: str | None, cert_req: bool) -> None:
    imprint = hashlib.new(name, forge.MESSAGE).digest()
    request = TimestampRequest(imprint, name, nonce, policy, cert_req)
    assert parse_request(request.encode()) == request


@pytest.mark.parametrize(
    "request_",
    [
        TimestampRequest(DIGEST[:-1]),
        TimestampRequest(DIGEST, "sha512"),
        TimestampRequest(bytes(20), "sha1"),
        TimestampRequest(DIGEST, nonce=-1),
        TimestampRequest(DIGEST, nonce=2**256),
        *(
            TimestampRequest(DIGEST, policy=policy)
            for policy in ("", "1", "3.1", "1.40", "1.2.", "1.02", "1.2.-3", "1.2.x", "1.2\n")
        ),
    ],
)
def test_what_cannot_be_asked(request_: TimestampRequest) -> None:
    with pytest.raises(ValueError, match=r"imprint|nonce|object identifier"):
        request_.encode()


GOOD = TimestampRequest(DIGEST, nonce=1).encode()
REFUSED = {
    "nothing": (b"", Cause.DER),
    "a byte too many": (GOOD + b"\0", Cause.DER),
    "version 2": (seq(integer(2), imprint(), integer(1)), Cause.DER),
    "no imprint": (seq(integer(1)), Cause.DER),
    "imprint of another size": (
        seq(integer(1), seq(forge.algorithm("sha256"), octets(bytes(20)))),
        Cause.DER,
    ),
    "imprint with a member too many": (
        seq(integer(1), seq(forge.algorithm("sha256"), octets(DIGEST), integer(1))),
        Cause.DER,
    ),
    "SHA-1": (seq(integer(1), imprint(digest="sha1")), Cause.HASH_ALGORITHM),
    "hash without NULL": (seq(integer(1), imprint(parameters=b"")), Cause.DER),
    "nonce negative": (seq(integer(1), imprint(), integer(-1)), Cause.DER),
    "nonce of 257 bits": (seq(integer(1), imprint(), integer(2**256)), Cause.DER),
    "certReq FALSE written out": (seq(integer(1), imprint(), boolean(False)), Cause.DER),
    "nonce before policy": (seq(integer(1), imprint(), integer(1), oid("1.2.3")), Cause.DER),
    "extensions": (seq(integer(1), imprint(), tlv(0xA0, seq())), Cause.DER),
    "a policy of a huge arc": (
        seq(integer(1), imprint(), tlv(0x06, b"\x2a" + b"\xff" * 40 + b"\x01")),
        Cause.DER,
    ),
    "a response": (forge.response(None), Cause.DER),
}


@pytest.mark.parametrize(("data", "cause"), named(REFUSED))
def test_what_is_not_read(data: bytes, cause: Cause) -> None:
    with pytest.raises(TimestampError) as caught:
        parse_request(data)
    assert caught.value.cause is cause


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_every_byte_counts(at: int) -> None:
    """No changed request is read as the same; what is read is what was written."""
    for flip in (0x01, 0x80, 0xFF):
        changed = GOOD[:at] + bytes([GOOD[at] ^ flip]) + GOOD[at + 1 :]
        try:
            request = parse_request(changed)
        except TimestampError:
            continue
        assert request.encode() == changed


@pytest.mark.parametrize(
    ("dotted", "content"),
    [("0.0", "00"), ("1.39", "4f"), ("2.40", "78"), ("2.48", "8100"), ("2.999.3", "883703")],
)
def test_object_identifiers(dotted: str, content: str) -> None:
    assert encode_oid(dotted) == tlv(0x06, bytes.fromhex(content))
