"""Record encodings: byte for byte, round trip, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerd.store import schema
from ledgerd.store.families import FAMILIES, FORMAT_FAMILY, format_of
from ledgerd.store.interface import (
    Entry,
    ForkRecord,
    Head,
    KeyRecord,
    LogState,
    Mark,
    Segment,
    Stored,
    StoreError,
)
from receiptledger.core.tile import TileId

if TYPE_CHECKING:
    from collections.abc import Callable

MAX = 2**63 - 1

integers = st.integers(0, MAX)
hashes = st.binary(min_size=32, max_size=32)
some = st.binary(min_size=1, max_size=200)
profiles = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def pair(encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> tuple[Any, Any]:
    """A one-part record as a (key, value) record without a key."""
    return (lambda record: (b"", encode(record))), (lambda _, value: decode(value))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    receipt = draw(hashes)
    content = draw(st.one_of(st.just(receipt), hashes))
    link = draw(st.one_of(st.just(receipt), st.just(content), hashes))
    return Entry(
        number=draw(integers),
        leaf_hash=draw(hashes),
        receipt_hash=receipt,
        content_hash=content,
        link_hash=link,
        profile=draw(profiles),
        profile_version=draw(st.integers(0, 2**32 - 1)),
        key=draw(hashes),
    )


def chained(
    encode: Callable[[bytes, Any], bytes], decode: Callable[[bytes], tuple[bytes, Any]]
) -> tuple[Any, Any]:
    return pair(lambda record: encode(*record), decode)


# name -> (encode to (key, value), decode from key and value), records, one example, its bytes
ONE, TWO, THREE, FOUR = (bytes([digit]) * 32 for digit in b"\x01\x02\x03\x04")
N5 = "0000000000000005"
N6 = "0000000000000006"
FIVE = (b"\x05" * 32).hex()
KINDS: dict[str, tuple[tuple[Any, Any], st.SearchStrategy[Any], Any, str]] = {
    "number": (pair(schema.encode_number, schema.decode_number), integers, 5, N5),
    "place": (
        chained(schema.encode_place, schema.decode_place),
        st.tuples(hashes, integers),
        (ONE, 5),
        ONE.hex() + N5,
    ),
    "stored": (
        pair(schema.encode_stored, schema.decode_stored),
        st.builds(Stored, hashes, integers, some, integers),
        Stored(ONE, 5, b"{}", 6),
        ONE.hex() + N5 + N6 + "7b7d",
    ),
    "entry": (
        pair(schema.encode_entry, schema.decode_entry),
        entries(),
        Entry(5, TWO, THREE, THREE, FOUR, "pf", 6, ONE),
        "01" + N5 + "00000006" + "02" + "7066" + (ONE + TWO + THREE + FOUR).hex(),
    ),
    "entry with all hashes": (
        pair(schema.encode_entry, schema.decode_entry),
        entries(),
        Entry(5, TWO, THREE, FOUR, b"\x05" * 32, "", 6, ONE),
        "00" + N5 + "00000006" + "00" + (ONE + TWO + THREE + FOUR).hex() + FIVE,
    ),
    "entry with one hash": (
        pair(schema.encode_entry, schema.decode_entry),
        entries(),
        Entry(5, TWO, THREE, THREE, THREE, "é", 6, ONE),
        "03" + N5 + "00000006" + "02" + "c3a9" + (ONE + TWO + THREE).hex(),
    ),
    "entry linked by content": (
        pair(schema.encode_entry, schema.decode_entry),
        entries(),
        Entry(5, TWO, THREE, FOUR, FOUR, "p", 6, ONE),
        "04" + N5 + "00000006" + "01" + "70" + (ONE + TWO + THREE + FOUR).hex(),
    ),
    "entry linked by receipt": (
        pair(schema.encode_entry, schema.decode_entry),
        entries(),
        Entry(5, TWO, THREE, FOUR, THREE, "p", 6, ONE),
        "02" + N5 + "00000006" + "01" + "70" + (ONE + TWO + THREE + FOUR).hex(),
    ),
    "head": (
        pair(schema.encode_head, schema.decode_head),
        st.builds(Head, integers, hashes, st.none() | integers),
        Head(5, ONE, 6),
        N5 + ONE.hex() + N6,
    ),
    "head without number": (
        pair(schema.encode_head, schema.decode_head),
        st.builds(Head, integers, hashes, st.none()),
        Head(5, ONE, None),
        N5 + ONE.hex(),
    ),
    "receipt key": (
        pair(schema.receipt_key, schema.decode_receipt_key),
        hashes,
        ONE,
        "72" + ONE.hex(),
    ),
    "alias key": (
        chained(schema.alias_key, schema.decode_alias_key),
        st.tuples(hashes, hashes),
        (ONE, TWO),
        "61" + (ONE + TWO).hex(),
    ),
    "leaf": (pair(schema.encode_leaf, schema.decode_leaf), some, b"{}", "7b7d"),
    "tile key": (
        pair(schema.tile_key, schema.decode_tile_key),
        st.builds(TileId, st.integers(0, 63), integers),
        TileId(1, 5),
        "01" + N5,
    ),
    "row": (
        pair(schema.encode_row, schema.decode_row),
        st.lists(hashes, min_size=1, max_size=4).map(b"".join),
        ONE + TWO,
        (ONE + TWO).hex(),
    ),
    "segment": (
        (schema.encode_segment, schema.decode_segment),
        st.tuples(hashes, integers, integers, integers).map(
            lambda parts: Segment(parts[0], min(parts[1:3]), max(parts[1:3]), parts[3])
        ),
        Segment(ONE, 5, 5, 6),
        ONE.hex() + N5 + "|" + N5 + N6,
    ),
    "state": (
        pair(schema.encode_state, schema.decode_state),
        st.builds(LogState, integers, hashes, some, integers),
        LogState(5, ONE, b"note", 6),
        N5 + N6 + ONE.hex() + b"note".hex(),
    ),
    "checkpoint key": (
        pair(schema.checkpoint_key, schema.decode_checkpoint_key),
        integers,
        5,
        "63" + N5,
    ),
    "key": (
        (schema.encode_key, schema.decode_key),
        st.builds(
            KeyRecord,
            hashes,
            hashes,
            st.sampled_from(["pinned", "registered"]),
            integers,
            st.none() | integers,
        ),
        KeyRecord(ONE, TWO, "pinned", 5, None),
        "6b" + (ONE + TWO).hex() + "|" + "70" + N5,
    ),
    "logged key": (
        (schema.encode_key, schema.decode_key),
        st.nothing(),
        KeyRecord(ONE, TWO, "registered", 5, 6),
        "6b" + (ONE + TWO).hex() + "|" + "72" + N5 + N6,
    ),
    "fork": (
        (schema.encode_fork, schema.decode_fork),
        st.builds(ForkRecord, hashes, integers, hashes, some, integers),
        ForkRecord(ONE, 5, TWO, b"{}", 6),
        "66" + ONE.hex() + N5 + TWO.hex() + "|" + N6 + "7b7d",
    ),
    "mark": (
        (schema.encode_mark, schema.decode_mark),
        st.builds(Mark, hashes, integers),
        Mark(ONE, 5),
        "6d" + ONE.hex() + N5 + "|",
    ),
}
NAMES = sorted(KINDS)


def example(name: str) -> tuple[Any, bytes, bytes]:
    (encode, _), _, record, _ = KINDS[name]
    return (record, *encode(record))


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_as_documented(name: str) -> None:
    (_, decode), _, record, expected = KINDS[name]
    parts = [bytes.fromhex(part) for part in expected.split("|")]
    key, value = parts if len(parts) == 2 else (b"", parts[0])
    assert example(name) == (record, key, value)
    assert decode(key, value) == record


@given(st.data())
@pytest.mark.parametrize("name", [name for name in NAMES if name != "logged key"])
def test_round_trip(name: str, data: st.DataObject) -> None:
    (encode, decode), records, _, _ = KINDS[name]
    record = data.draw(records)
    assert decode(*encode(record)) == record


def check_strict(name: str, key: bytes, value: bytes) -> None:
    """Either StoreError, or exactly what the encoder writes."""
    (encode, decode), _, _, _ = KINDS[name]
    try:
        record = decode(key, value)
    except StoreError:
        return
    assert encode(record) == (key, value)


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_changed(name: str) -> None:
    _, key, value = example(name)
    whole = key + value
    for at in range(len(whole)):
        for new in {whole[at] ^ 0x01, whole[at] ^ 0x80, 0x00, 0xFF, 0x02, 0x08}:
            changed = whole[:at] + bytes([new]) + whole[at + 1 :]
            check_strict(name, changed[: len(key)], changed[len(key) :])


@pytest.mark.parametrize("name", NAMES)
def test_every_length(name: str) -> None:
    _, key, value = example(name)
    for end in range(len(key)):
        check_strict(name, key[:end], value)
    for end in range(len(value)):
        check_strict(name, key, value[:end])
    for extra in (b"\x00", b"\xff", ONE):
        check_strict(name, key, value + extra)
        if key:
            check_strict(name, key + extra, value)


@given(st.data(), st.binary(max_size=200))
@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(name: str, data: st.DataObject, value: bytes) -> None:
    _, key, _ = example(name)
    check_strict(name, data.draw(st.just(key) | st.binary(max_size=80)) if key else b"", value)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("number", "", "8000000000000000"),
        ("stored", "", ONE.hex() + N5 + N6),
        ("stored", "", ONE.hex() + "8000000000000000" + N6 + "7b7d"),
        ("stored", "", ONE.hex() + N5 + "8000000000000000" + "7b7d"),
        # A hash that is spelled out although a flag would say it.
        ("entry", "", "00" + N5 + "00000006" + "00" + (ONE + TWO + THREE + THREE + FOUR).hex()),
        ("entry", "", "00" + N5 + "00000006" + "00" + (ONE + TWO + THREE + FOUR + THREE).hex()),
        ("entry", "", "00" + N5 + "00000006" + "00" + (ONE + TWO + THREE + FOUR + FOUR).hex()),
        ("entry", "", "01" + N5 + "00000006" + "00" + (ONE + TWO + THREE + THREE).hex()),
        ("entry", "", "02" + N5 + "00000006" + "00" + (ONE + TWO + THREE + THREE).hex()),
        # Flags that mean nothing, or nothing together.
        ("entry", "", "05" + N5 + "00000006" + "00" + (ONE + TWO + THREE).hex()),
        ("entry", "", "06" + N5 + "00000006" + "00" + (ONE + TWO + THREE).hex()),
        ("entry", "", "08" + N5 + "00000006" + "00" + (ONE + TWO + THREE + FOUR).hex()),
        # A profile that is not UTF-8; a number out of bounds.
        ("entry", "", "03" + N5 + "00000006" + "01" + "ff" + (ONE + TWO + THREE).hex()),
        ("entry", "", "03" + "80" + N5[2:] + "00000006" + "00" + (ONE + TWO + THREE).hex()),
        ("row", "", ""),
        ("row", "", "00" * 31),
        ("row", "", "00" * (8192 + 32)),
        ("leaf", "", ""),
        ("leaf", "", "00" * 65_536),
        ("tile key", "", "40" + N5),
        ("segment", ONE.hex() + N6, N5 + N5),
        ("state", "", N5 + N6 + ONE.hex()),
        ("key", "6b" + (ONE + TWO).hex(), "71" + N5),
        ("key", "6b" + (ONE + TWO).hex(), "70" + N5 + "00"),
        ("key", "6c" + (ONE + TWO).hex(), "70" + N5),
        ("fork", "66" + ONE.hex() + N5 + TWO.hex(), N6),
        ("mark", "6d" + ONE.hex() + N5, "00"),
        ("mark", "6e" + ONE.hex() + N5, ""),
    ],
)
def test_damage_is_named(name: str, key: str, value: str) -> None:
    (_, decode), _, _, _ = KINDS[name]
    with pytest.raises(StoreError, match="damaged record"):
        decode(bytes.fromhex(key), bytes.fromhex(value))


ENTRY = Entry(5, TWO, THREE, THREE, FOUR, "pf", 6, ONE)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        *[("number", number) for number in (-1, 2**63, 2**64, 2**70)],
        *[("place", (ONE, number)) for number in (-1, 2**63)],
        ("place", (b"short", 5)),
        ("stored", Stored(ONE, 5, b"", 6)),
        ("stored", Stored(ONE[1:], 5, b"{}", 6)),
        *[("stored", Stored(ONE, number, b"{}", 6)) for number in (-1, 2**63)],
        *[("stored", Stored(ONE, 5, b"{}", number)) for number in (-1, 2**63)],
        *[("entry", replace(ENTRY, number=number)) for number in (-1, 2**63)],
        *[("entry", replace(ENTRY, profile_version=number)) for number in (-1, 2**32)],
        *[
            ("entry", replace(ENTRY, **{field: b"\x09" * length}))
            for field in ("leaf_hash", "receipt_hash", "content_hash", "link_hash", "key")
            for length in (0, 31, 33)
        ],
        ("entry", replace(ENTRY, profile="é" * 128)),
        ("entry", replace(ENTRY, profile="\ud800")),
        ("head", Head(-1, ONE, None)),
        ("head", Head(5, ONE[1:], None)),
        ("head", Head(5, ONE, 2**63)),
        ("receipt key", b"short"),
        ("alias key", (ONE, b"short")),
        ("leaf", b""),
        ("leaf", bytes(65_536)),
        ("tile key", TileId(64, 0)),
        ("tile key", TileId(-1, 0)),
        ("tile key", TileId(0, -1)),
        ("row", b""),
        ("row", bytes(33)),
        ("row", bytes(8192 + 32)),
        ("segment", Segment(ONE, 6, 5, 0)),
        ("segment", Segment(ONE, 5, 5, -1)),
        ("state", LogState(5, ONE, b"", 6)),
        ("state", LogState(5, b"short", b"note", 6)),
        ("key", KeyRecord(ONE, TWO, "guessed", 5, None)),
        ("key", KeyRecord(ONE, b"short", "pinned", 5, None)),
        ("key", KeyRecord(ONE, TWO, "pinned", 5, -1)),
        ("fork", ForkRecord(ONE, 5, TWO, b"", 6)),
        ("fork", ForkRecord(ONE, 5, b"short", b"{}", 6)),
        ("mark", Mark(ONE, -1)),
    ],
)
def test_what_has_no_encoding_is_refused(name: str, record: Any) -> None:
    (encode, _), _, _, _ = KINDS[name]
    with pytest.raises(StoreError, match="cannot be stored"):
        encode(record)


def test_head_and_scope_take_a_chain_key() -> None:
    assert schema.head_key(ONE) == ONE
    assert schema.scope(b"k", ONE) == b"k" + ONE
    with pytest.raises(StoreError):
        schema.head_key(ONE[1:])
    with pytest.raises(StoreError):
        schema.scope(b"k", ONE[1:])


@given(st.lists(st.tuples(hashes, integers), max_size=20))
def test_places_sort_as_chain_then_number(places: list[tuple[bytes, int]]) -> None:
    keys = [schema.encode_place(*place) for place in places]
    assert sorted(keys) == [schema.encode_place(*place) for place in sorted(places)]


def test_keys_of_the_default_family_cannot_be_taken_for_one_another() -> None:
    kinds = ["checkpoint key", "fork", "key", "mark"]
    keys = [example(name)[1] or example(name)[2] for name in kinds] + [schema.STATE_KEY]
    assert len({key[:1] for key in keys}) == len(keys)


def test_records_name_no_receipt_content_in_errors() -> None:
    with pytest.raises(StoreError) as caught:
        schema.encode_stored(Stored(ONE, -1, b"secret", 6))
    assert "secret" not in str(caught.value)


def test_format_stamp() -> None:
    assert format_of(FORMAT_FAMILY) == 1
    assert format_of("format-12") == 12
    assert [format_of(name) for name in (*FAMILIES, "format-", "format-01", "format-1x")] == (
        [None] * (len(FAMILIES) + 3)
    )
