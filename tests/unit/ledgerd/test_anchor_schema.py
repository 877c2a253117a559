"""Records of timestamps in the store: one spelling each, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerd.store import anchor_schema as schema
from ledgerd.store import schema as other_schema
from ledgerd.store.anchor_changes import merge
from ledgerd.store.interface import AnchorIntent, AnchorRecord, Quarantined, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = b"\x01" * 32
NINE = "0000000000000009"


def number(value: int) -> str:
    return f"{value:016x}"


integers = st.integers(0, 2**63 - 1)
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True)
messages = st.binary(min_size=1, max_size=300)
leaves = st.none() | integers


@st.composite
def anchors(draw: st.DrawFn) -> AnchorRecord:
    leaf, evidence = draw(leaves), draw(st.none() | messages)
    both = leaf is not None and evidence is not None
    return AnchorRecord(
        number=9,
        size=draw(integers),
        root=draw(st.binary(min_size=32, max_size=32)),
        tsa=draw(names),
        request=draw(messages),
        response=draw(messages),
        gen_time=draw(integers),
        stored_at=draw(integers),
        leaf_index=leaf,
        evidence=evidence,
        evidence_leaf_index=draw(leaves) if both else None,
    )


ANCHOR = AnchorRecord(9, 5, ROOT, "tsa-1", b"ask", b"answer", 6, 7)
PROVEN = replace(ANCHOR, leaf_index=10, evidence=b"{}", evidence_leaf_index=11)
INTENT = AnchorIntent("tsa-1", 5, 2**128 - 1, 6)
REFUSED = Quarantined(9, "tsa-1", 5, "nonce", b"ask", b"answer", 6)
BLOB = b"a list"
HEAD = number(5) + number(6) + number(7) + ROOT.hex() + "05" + "00000003" + "00000006"
TAIL = b"tsa-1askanswer".hex()
REFUSED_HEAD = number(6) + number(5) + "05" + "05" + "00000003"

# name -> (encode to (key, value), decode), records, one example, its bytes
KINDS: dict[
    str,
    tuple[
        Callable[[Any], tuple[bytes, bytes]],
        Callable[[bytes, bytes], Any],
        st.SearchStrategy[Any],
        Any,
        str,
    ],
] = {
    "anchor": (
        lambda one: (schema.anchor_key(one.number), schema.encode_anchor(one)),
        lambda key, value: schema.decode_anchor(schema.decode_anchor_key(key), value),
        anchors(),
        ANCHOR,
        "61" + NINE + "|00" + HEAD + TAIL,
    ),
    "anchor with evidence": (
        lambda one: (schema.anchor_key(one.number), schema.encode_anchor(one)),
        lambda key, value: schema.decode_anchor(schema.decode_anchor_key(key), value),
        anchors(),
        PROVEN,
        "61" + NINE + "|07" + HEAD + TAIL + number(10) + number(11) + b"{}".hex(),
    ),
    "size": (
        lambda pair: (schema.size_key(*pair), b""),
        schema.decode_pair_key,
        st.tuples(integers, integers),
        (5, 9),
        "7a" + number(5) + NINE + "|",
    ),
    "unsealed": (
        lambda one: (schema.unsealed_key(one), b""),
        schema.decode_unsealed,
        integers,
        9,
        "75" + NINE + "|",
    ),
    "leaf": (
        lambda pair: (
            schema.anchor_leaf_key(pair[0]),
            other_schema.encode_number(pair[1]),
        ),
        schema.decode_anchor_leaf,
        st.tuples(integers, integers),
        (5, 9),
        "6c" + number(5) + "|" + NINE,
    ),
    "intent": (
        lambda one: (schema.intent_key(one.tsa), schema.encode_intent(one)),
        schema.decode_intent,
        st.builds(AnchorIntent, names, integers, st.integers(0, 2**256 - 1), integers),
        INTENT,
        "69" + b"tsa-1".hex() + "|" + number(5) + number(6) + "00" * 16 + "ff" * 16,
    ),
    "refused": (
        lambda one: (schema.quarantine_key(one.number), schema.encode_quarantined(one)),
        lambda key, value: schema.decode_quarantined(schema.decode_quarantine_key(key), value),
        st.builds(
            Quarantined,
            integers,
            names,
            integers,
            st.from_regex(r"[a-z0-9_]{1,64}", fullmatch=True),
            messages,
            st.binary(max_size=100),
            integers,
        ),
        REFUSED,
        "71" + NINE + "|" + REFUSED_HEAD + b"tsa-1nonceaskanswer".hex(),
    ),
    "blob": (
        lambda data: (
            schema.blob_key(sha256(data).digest()),
            schema.encode_blob(sha256(data).digest(), data),
        ),
        lambda key, value: (schema.decode_blob_key(key), schema.decode_blob(value))[1],
        messages,
        BLOB,
        "62" + sha256(BLOB).hexdigest() + "|" + BLOB.hex(),
    ),
}
NAMES = sorted(KINDS)


def example(name: str) -> tuple[Any, bytes, bytes]:
    encode, _, _, record, _ = KINDS[name]
    return (record, *encode(record))


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_as_documented(name: str) -> None:
    _, decode, _, record, expected = KINDS[name]
    key, value = (bytes.fromhex(part) for part in expected.split("|"))
    assert example(name) == (record, key, value)
    assert decode(key, value) == record


@given(st.data())
@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str, data: st.DataObject) -> None:
    encode, decode, records, _, _ = KINDS[name]
    record = data.draw(records)
    assert decode(*encode(record)) == record


def check_strict(name: str, key: bytes, value: bytes) -> None:
    """Either StoreError, or exactly what the encoder writes."""
    encode, decode, _, _, _ = KINDS[name]
    try:
        record = decode(key, value)
    except StoreError:
        return
    if name == "blob":
        return  # whether it has the digest of its key is for `fsck`
    if name == "size" and key[:1] == b"n":
        assert schema.waiting_key(*record) == key
        return
    assert encode(record) == (key, value)


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_changed(name: str) -> None:
    _, key, value = example(name)
    whole = key + value
    for at in range(len(whole)):
        for new in {whole[at] ^ 0x01, whole[at] ^ 0x80, 0x00, 0xFF, 0x02, 0x04, 0x08, 0x6E}:
            changed = whole[:at] + bytes([new]) + whole[at + 1 :]
            check_strict(name, changed[: len(key)], changed[len(key) :])


@pytest.mark.parametrize("name", NAMES)
def test_every_length(name: str) -> None:
    _, key, value = example(name)
    for end in range(len(key)):
        check_strict(name, key[:end], value)
    for end in range(len(value)):
        check_strict(name, key, value[:end])
    for extra in (b"\x00", b"\xff", ROOT):
        check_strict(name, key, value + extra)
        check_strict(name, key + extra, value)


@given(st.data(), st.binary(max_size=200))
@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(name: str, data: st.DataObject, value: bytes) -> None:
    _, key, _ = example(name)
    check_strict(name, data.draw(st.just(key) | st.binary(max_size=80)), value)


BIG = "80" + "00" * 7


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("anchor", "61" + NINE, ""),
        ("anchor", "62" + NINE, "00" + HEAD + TAIL),
        ("anchor", "61" + NINE, "04" + HEAD + TAIL + number(10)),  # an evidence leaf alone
        ("anchor", "61" + NINE, "05" + HEAD + TAIL + number(10) * 2),  # without evidence
        ("anchor", "61" + NINE, "08" + HEAD + TAIL),
        ("anchor", "61" + NINE, "00" + HEAD + TAIL + "00"),
        ("anchor", "61" + NINE, "01" + HEAD + TAIL),
        ("anchor", "61" + NINE, "01" + HEAD + TAIL + BIG),
        ("anchor", "61" + NINE, "02" + HEAD + TAIL),  # evidence of no bytes
        ("anchor", "61" + NINE, "02" + HEAD + TAIL + "00" * 65_537),
        ("anchor", "61" + NINE, "00" + BIG + HEAD[16:] + TAIL),
        ("anchor", "61" + NINE, "00" + HEAD.replace("00000003", "00000000") + TAIL),
        ("anchor", "61" + NINE, "00" + HEAD.replace("00000006", "0000ffff") + TAIL),
        ("anchor", "61" + NINE, "00" + HEAD + TAIL.replace("74", "54", 1)),
        ("anchor", "61" + NINE, "00" + HEAD + TAIL.replace("74", "ff", 1)),
        ("size", "7a" + number(5) + NINE, "00"),
        ("size", "61" + number(5) + NINE, ""),
        ("unsealed", "75" + NINE, "00"),
        ("unsealed", "75", ""),
        ("leaf", "6c" + number(5), ""),
        ("leaf", "75" + number(5), NINE),
        ("intent", "69", number(5) + number(6) + "00" * 32),
        ("intent", "69" + "41", number(5) + number(6) + "00" * 32),
        ("intent", "69" + "61", number(5) + number(6) + "00" * 31),
        ("intent", "69" + "61", number(5) + BIG + "00" * 32),
        ("refused", "71" + NINE, REFUSED_HEAD),
        ("refused", "71", REFUSED_HEAD + b"tsa-1nonceask".hex()),
        ("refused", "71" + NINE, REFUSED_HEAD + b"tsa-1NONCEask".hex()),
        ("refused", "71" + NINE, REFUSED_HEAD + b"tsa-1nonceas".hex()),
        ("refused", "71" + NINE, REFUSED_HEAD[:-8] + "00000000" + b"tsa-1nonce".hex()),
        ("refused", "71" + NINE, BIG + REFUSED_HEAD[16:] + b"tsa-1nonceask".hex()),
        ("refused", "71" + NINE, REFUSED_HEAD + b"tsa-1nonceask".hex() + "00" * 65_537),
        ("blob", "62" + ROOT.hex(), ""),
        ("blob", "62" + ROOT.hex(), "00" * 1_048_577),
        ("blob", "62", "00"),
    ],
)
def test_damage_is_named(name: str, key: str, value: str) -> None:
    _, decode, _, _, _ = KINDS[name]
    with pytest.raises(StoreError, match="damaged record"):
        decode(bytes.fromhex(key), bytes.fromhex(value))


@pytest.mark.parametrize(
    ("name", "record"),
    [
        *[
            ("anchor", replace(ANCHOR, **{field: value}))
            for field in ("number", "size", "gen_time", "stored_at", "leaf_index")
            for value in (-1, 2**63)
        ],
        *[("anchor", replace(ANCHOR, root=bytes(length))) for length in (0, 31, 33)],
        *[
            ("anchor", replace(ANCHOR, **{field: bytes(length)}))
            for field in ("request", "response", "evidence")
            for length in (0, 65_537)
        ],
        *[("anchor", replace(ANCHOR, tsa=name)) for name in ("", "A", "a" * 65, "a b")],
        ("anchor", replace(ANCHOR, evidence_leaf_index=5)),
        ("anchor", replace(ANCHOR, leaf_index=5, evidence_leaf_index=5)),
        ("anchor", replace(ANCHOR, evidence=b"{}", evidence_leaf_index=5)),
        ("anchor", replace(PROVEN, evidence_leaf_index=-1)),
        ("size", (-1, 9)),
        ("unsealed", -1),
        ("leaf", (2**63, 9)),
        *[("intent", replace(INTENT, nonce=value)) for value in (-1, 2**256)],
        *[("intent", replace(INTENT, size=value)) for value in (-1, 2**63)],
        ("intent", replace(INTENT, tsa="")),
        ("refused", replace(REFUSED, tsa="-")),
        *[("refused", replace(REFUSED, cause=text)) for text in ("", "Nonce", "a" * 65, "a b")],
        *[("refused", replace(REFUSED, request=bytes(length))) for length in (0, 65_537)],
        ("refused", replace(REFUSED, response=bytes(65_537))),
        *[("refused", replace(REFUSED, refused_at=value)) for value in (-1, 2**63)],
        ("blob", b""),
        ("blob", bytes(1_048_577)),
    ],
)
def test_what_has_no_encoding_is_refused(name: str, record: Any) -> None:
    encode, _, _, _, _ = KINDS[name]
    with pytest.raises(StoreError, match="cannot be stored"):
        encode(record)


def test_a_blob_under_another_digest_is_refused() -> None:
    with pytest.raises(StoreError, match="cannot be stored"):
        schema.encode_blob(ROOT, BLOB)


def test_the_largest_messages() -> None:
    record = replace(PROVEN, request=bytes(65_536), response=bytes(65_536), evidence=bytes(65_536))
    assert schema.decode_anchor(9, schema.encode_anchor(record)) == record
    refused = replace(REFUSED, response=bytes(65_536))
    assert schema.decode_quarantined(9, schema.encode_quarantined(refused)) == refused


def test_keys_of_the_default_family_cannot_be_taken_for_one_another() -> None:
    """The first byte says what a key is of; schema has c, f, k, m and s."""
    keys = [example(name)[1] for name in NAMES if name != "anchor with evidence"]
    keys.append(schema.waiting_key(1, 2))
    kinds = [key[:1] for key in keys] + [b"c", b"f", b"k", b"m", other_schema.STATE_KEY]
    assert len(set(kinds)) == len(kinds)
    documented = {
        line.partition('"')[2][:1].encode()
        for line in (other_schema.__doc__ or "").splitlines()
        if line[14:15] == '"' and (line.startswith((" " * 14, "    default")))
    }
    assert documented - {b"r"} == set(kinds) | {b"a"}


@given(st.lists(st.tuples(integers, integers), max_size=20))
def test_pairs_sort_as_numbers(pairs: list[tuple[int, int]]) -> None:
    assert sorted(schema.size_key(*pair) for pair in pairs) == [
        schema.size_key(*pair) for pair in sorted(pairs)
    ]


# What becomes of a record that is handed in.


def merged(record: AnchorRecord, former: AnchorRecord | None) -> AnchorRecord:
    stored = {} if former is None else {former.number: former}
    (found,) = merge([record], stored.get, lambda: 9)
    return found


def test_a_new_record_has_no_leaf_whatever_it_says() -> None:
    assert merged(replace(ANCHOR, leaf_index=3), None) == ANCHOR
    assert merged(PROVEN, None) == replace(ANCHOR, evidence=b"{}")


def test_a_record_keeps_its_leaf_when_evidence_comes() -> None:
    sealed = replace(ANCHOR, leaf_index=10)
    assert merged(replace(ANCHOR, evidence=b"{}"), sealed) == replace(sealed, evidence=b"{}")
    assert merged(replace(ANCHOR, evidence=b"{}"), PROVEN) == PROVEN
    assert merged(ANCHOR, PROVEN) == PROVEN


def test_several_records_in_one_commit() -> None:
    second = replace(ANCHOR, number=10)
    both = [ANCHOR, second, replace(ANCHOR, evidence=b"{}")]
    assert merge(both, {}.get, lambda: 9) == [replace(ANCHOR, evidence=b"{}"), second]


@pytest.mark.parametrize("found", [8, 10])
def test_a_number_that_is_not_next_is_refused(found: int) -> None:
    with pytest.raises(StoreError, match=f"anchor {found} comes, 9 is next"):
        merge([replace(ANCHOR, number=found)], {}.get, lambda: 9)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 4},
        {"root": bytes(32)},
        {"tsa": "tsa-2"},
        {"request": b"x"},
        {"response": b"x"},
        {"gen_time": 1},
        {"stored_at": 1},
        {"evidence": b"[]"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_is_not_written_over(change: dict[str, Any]) -> None:
    """A number given twice, after a commit whose outcome was not known."""
    with pytest.raises(StoreError, match="anchor 9 is there already"):
        merged(replace(PROVEN, **change), PROVEN)
