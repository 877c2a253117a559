"""The strict DER reader: one spelling per value, and bounded before anything is believed."""

from __future__ import annotations

from typing import Any

import pytest

from receiptledger.core import timestamp_der as der
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_encode import encode, encode_integer
from tests.helpers import tsa_forge as forge
from tests.helpers.cases import named
from tests.helpers.tsa_forge import integer, octets, seq, tlv


def refuse(call: Any, *arguments: Any, **named_arguments: Any) -> TimestampError:
    with pytest.raises(TimestampError) as caught:
        call(*arguments, **named_arguments)
    return caught.value


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = seq(data)
    return data


def test_a_tree() -> None:
    top = der.parse(seq(integer(1), tlv(0xA0, octets(b"x"), seq())))
    assert [child.tag for child in top.children] == [0x02, 0xA0]
    inner = top.children[1]
    assert inner.raw == tlv(0xA0, octets(b"x"), seq())
    assert inner.content == octets(b"x") + seq()
    assert [child.raw for child in inner.children] == [octets(b"x"), seq()]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 65_535, 65_536, 70_000])
def test_lengths(size: int) -> None:
    data = octets(bytes(size))
    assert encode(0x04, bytes(size)) == data
    assert der.parse(data, max_bytes=1 << 20).content == bytes(size)


REFUSED = {
    "nothing": b"",
    "a tag alone": b"\x30",
    "cut short": b"\x04\x03ab",
    "bytes after it": b"\x05\x00\x00",
    "a tag number above 30": b"\x1f\x1f\x00",
    "indefinite": b"\x30\x80\x00\x00",
    "a length of five bytes": b"\x04\x85\x00\x00\x00\x00\x01a",
    "a length that is cut short": b"\x04\x82\x01",
    "a long form for a short length": b"\x04\x81\x01a",
    "a length with a leading zero": b"\x04\x82\x00\x80" + bytes(128),
    "2 GiB claimed": b"\x30\x84\x7f\xff\xff\xff",
    "a member longer than what it is in": b"\x30\x03\x04\x05abcde",
    "33 levels": nested(33),
    "2,000 levels": nested(2_000),
    "4,001 values": seq(*[b"\x05\x00"] * 4_000),
}


@pytest.mark.parametrize("data", named(REFUSED))
def test_what_is_no_der(data: bytes) -> None:
    assert refuse(der.parse, data).cause is Cause.DER


def test_bounds_that_are_just_met() -> None:
    assert len(der.parse(seq(*[b"\x05\x00"] * 3_999)).children) == 3_999
    assert der.parse(nested(32)).tag == 0x30
    assert refuse(der.parse, bytes(11), max_bytes=10).cause is Cause.TOO_LARGE
    assert refuse(der.parse, seq(b"\x05\x00"), max_nodes=1).cause is Cause.DER


def test_what_is_opaque_is_cut_but_not_opened() -> None:
    garbage = tlv(0x30, b"\xff\xff\xff")
    data = seq(tlv(0xA0, garbage, garbage), seq(octets(b"")))
    top = der.parse(data, opaque=frozenset({(0x30, 0xA0)}))
    assert [child.raw for child in top.children[0].children] == [garbage, garbage]
    assert top.children[0].children[0].children == ()
    assert top.children[1].children[0].tag == 0x04
    refuse(der.parse, data)


INTEGERS = {
    b"\x00": 0,
    b"\x7f": 127,
    b"\x80": -128,
    b"\x00\x80": 128,
    b"\xff\x7f": -129,
    b"\x00" + b"\xff" * 63: 2**504 - 1,
}


@pytest.mark.parametrize(("content", "value"), INTEGERS.items())
def test_integers(content: bytes, value: int) -> None:
    assert der.integer(der.parse(tlv(2, content)), "x") == value
    assert encode_integer(value) == tlv(2, content) == integer(value)


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x00", b"\x00\x7f", b"\xff\xff", b"\xff\x80", b"\x01" * 65]
)
def test_integers_that_are_none(content: bytes) -> None:
    assert refuse(der.integer, der.parse(tlv(2, content)), "x").cause is Cause.DER


def test_a_value_of_another_type() -> None:
    error = refuse(der.integer, der.parse(octets(b"\x01")), "the serial")
    assert (error.want, error.got) == ("tag 0x02", "0x04")
    assert "the serial" in error.message


@pytest.mark.parametrize("content", [b"", b"\x01", b"\x00\x00"])
def test_booleans_that_are_none(content: bytes) -> None:
    refuse(der.boolean, der.parse(tlv(1, content)), "x")


@pytest.mark.parametrize(
    ("content", "data"), [(b"\x00", b""), (b"\x00\xff", b"\xff"), (b"\x07\x80", b"\x80")]
)
def test_bit_strings(content: bytes, data: bytes) -> None:
    assert der.bit_string(der.parse(tlv(3, content)), "x") == data


def test_bit_strings_of_whole_bytes() -> None:
    assert der.bit_string(der.parse(tlv(3, b"\x00\x80")), "x", whole=True) == b"\x80"
    refuse(der.bit_string, der.parse(tlv(3, b"\x01\x80")), "x", whole=True)


@pytest.mark.parametrize("content", [b"", b"\x08\x00", b"\x01", b"\x07\xff", b"\x01\x01"])
def test_bit_strings_that_are_none(content: bytes) -> None:
    refuse(der.bit_string, der.parse(tlv(3, content)), "x")


@pytest.mark.parametrize(
    "dotted", ["0.0", "0.39", "1.0", "2.0", "2.47", "2.48", "2.999.4294967296"]
)
def test_object_identifiers(dotted: str) -> None:
    assert der.object_identifier(der.parse(forge.oid(dotted)), "x") == dotted


@pytest.mark.parametrize("content", [b"", b"\x80\x01", b"\x2a\x80\x01", b"\x2a\x86", b"\x2a" * 65])
def test_object_identifiers_that_are_none(content: bytes) -> None:
    refuse(der.object_identifier, der.parse(tlv(6, content)), "x")


def test_algorithms() -> None:
    read = der.algorithm
    assert read(der.parse(forge.algorithm("sha256")), "x") == (forge.OIDS["sha256"], None)
    assert read(der.parse(forge.algorithm("sha256", b"")), "x") == (forge.OIDS["sha256"], None)
    parameters = read(der.parse(forge.algorithm("sha256", octets(b"p"))), "x")[1]
    assert parameters is not None
    assert parameters.content == b"p"
    for data in (
        seq(),
        seq(integer(1)),
        forge.algorithm("sha256", b"\x05\x01\x00"),
        forge.algorithm("sha256", b"\x05\x00" * 2),
        forge.algorithm("sha256", octets(b"") * 2),
    ):
        refuse(read, der.parse(data), "x")


def test_only_one() -> None:
    assert der.only(der.parse(seq(integer(1))), "x").content == b"\x01"
    assert refuse(der.only, der.parse(seq()), "x").got == "0"
    assert refuse(der.only, der.parse(seq(integer(1), integer(2))), "x").got == "2"
