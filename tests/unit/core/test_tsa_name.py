"""Names of certificates, compared as RFC 5280 section 7.1 says."""

from __future__ import annotations

import pytest

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import parse
from receiptledger.core.timestamp_limits import (
    MAX_FOLDED_BYTES,
    MAX_NAME_ATTRIBUTES,
    MAX_NAME_BYTES,
)
from receiptledger.core.tsa_name import check_name, name_text, same_name
from tests.helpers.cases import named
from tests.helpers.tsa_forge import integer, name, octets, oid, seq, set_of, tlv

CN, MAIL, X500 = "2.5.4.3", "1.2.840.113549.1.9.1", "2.5.4.45"


def check(name_: bytes) -> None:
    check_name(parse(name_))


def of(*attributes: tuple[str, bytes]) -> bytes:
    """A Name of one-attribute parts."""
    return seq(*(set_of(seq(oid(kind), value)) for kind, value in attributes))


def text(value: str, tag: int = 0x0C) -> bytes:
    return tlv(tag, value.encode())


SAME = {
    "equal": (name("A"), name("A")),
    "printable and UTF-8": (name("A", tag=0x13), name("A")),
    "teletex": (name("Zürich", tag=0x14), name("Zürich")),
    "BMP": (name("Zürich", tag=0x1E), name("Zürich")),
    "universal": (name("Zürich", tag=0x1C), name("ZÜRICH")),
    "visible and numeric": (of((CN, text("1", 0x1A))), of((CN, text("1", 0x12)))),
    "IA5 mail address": (of((MAIL, text("a@B.example", 0x16))), of((MAIL, text("A@b.example")))),
    "spaces": (name("  A   b "), name("A b")),
    "composed and decomposed": (name("Zu\u0308rich"), name("Z\u00fcrich")),
    "sharp s": (name("STRASSE"), name("Straße")),
    "no parts": (seq(), seq()),
    "attributes of one part in any order": (
        seq(tlv(0x31, seq(oid(CN), text("a")), seq(oid(MAIL), text("b")))),
        seq(tlv(0x31, seq(oid(MAIL), text("B")), seq(oid(CN), text("A")))),
    ),
    "bytes of no string type": (of((X500, tlv(3, b"\0\1"))), of((X500, tlv(3, b"\0\1")))),
}
DIFFERENT = {
    "another value": (name("A"), name("B")),
    "another type of attribute": (of((CN, text("a"))), of((MAIL, text("a")))),
    "order of the parts": (
        of((CN, text("a")), (MAIL, text("b"))),
        of((MAIL, text("b")), (CN, text("a"))),
    ),
    "a part more": (of((CN, text("a"))), of((CN, text("a")), (CN, text("a")))),
    "an attribute twice": (
        seq(tlv(0x31, *[seq(oid(CN), text("a"))] * 2)),
        seq(tlv(0x31, seq(oid(CN), text("a")))),
    ),
    "one of two texts twice": (
        seq(tlv(0x31, *[seq(oid(CN), text("a"))] * 2, seq(oid(CN), text("b")))),
        seq(tlv(0x31, *[seq(oid(CN), text("b"))] * 2, seq(oid(CN), text("a")))),
    ),
    "joined words": (name("Ab"), name("A b")),
    "bytes against text": (of((CN, tlv(3, b"\0a"))), of((CN, text("a")))),
    "text that is not UTF-8": (of((CN, tlv(0x0C, b"\xff"))), of((CN, tlv(0x0C, b"\xfe")))),
}


@pytest.mark.parametrize(("one", "other"), named(SAME))
def test_the_same_name(one: bytes, other: bytes) -> None:
    assert same_name(one, other)
    assert same_name(other, one)


@pytest.mark.parametrize(("one", "other"), named(DIFFERENT))
def test_another_name(one: bytes, other: bytes) -> None:
    assert not same_name(one, other)
    assert not same_name(other, one)


BAD = {
    "nothing": b"",
    "no SEQUENCE": set_of(),
    "a part that is no SET": seq(seq()),
    "an attribute that is no SEQUENCE": seq(set_of(octets(b""))),
    "no OID": seq(set_of(seq(integer(1), text("a")))),
    "no value": seq(set_of(seq(oid(CN)))),
    "two values": seq(set_of(seq(oid(CN), text("a"), text("b")))),
}


@pytest.mark.parametrize("bad", named(BAD))
def test_what_is_no_name(bad: bytes) -> None:
    for call in (check, name_text, lambda one: same_name(one, name("A"))):
        with pytest.raises(TimestampError) as caught:
            call(bad)
        assert caught.value.cause is Cause.DER


def test_bounds_of_a_name() -> None:
    check(name("x" * 900))
    check(of(*[(CN, text("a"))] * MAX_NAME_ATTRIBUTES))
    for bad in (
        name("x" * MAX_NAME_BYTES),
        of(*[(CN, text("a"))] * (MAX_NAME_ATTRIBUTES + 1)),
        seq(set_of(*[seq(oid(CN), text("a"))] * (MAX_NAME_ATTRIBUTES + 1))),
    ):
        with pytest.raises(TimestampError) as caught:
            check(bad)
        assert caught.value.cause is Cause.DER
    with pytest.raises(TimestampError) as caught:
        name_text(name("x" * MAX_NAME_BYTES))
    assert caught.value.cause is Cause.TOO_LARGE


def test_a_long_name_is_the_same_byte_for_byte_only() -> None:
    """Folding costs many times the bytes: one character may become eighteen."""
    fits = "x" * (MAX_FOLDED_BYTES - len(name("")) - 6)
    assert same_name(name(fits, tag=0x13), name(fits))
    assert same_name(name(fits + "xyz"), name(fits + "xyz"))
    assert not same_name(name(fits + "xyz", tag=0x13), name(fits + "xyz"))
    assert not same_name(name(fits), name(fits + "xyz"))


def test_a_name_for_people() -> None:
    assert name_text(name("Zürich TSA", tag=0x1E)) == "O=Forge, CN=Zürich TSA"
    both = seq(set_of(seq(oid(CN), text("a")), seq(oid("1.2.3"), tlv(3, b"\0"))))
    assert name_text(both) == "1.2.3=#030100+CN=a"
    assert name_text(seq()) == ""
