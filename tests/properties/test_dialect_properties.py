"""Dialects of any document, against oracles that share nothing with them."""

from __future__ import annotations

import json
import unicodedata
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.core.canonical import Parsed, parse
from receiptledger.core.dialect import DIALECTS, EXACT_DIALECTS, Source, encode
from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers import ecmascript, slow_json
from tests.helpers.documents import DOCUMENTS, spelt

if TYPE_CHECKING:
    from collections.abc import Callable


def source(document: str) -> Source:
    raw = document.encode("utf-8")
    return Source(parse(raw), raw)


def whole(dialect: str, given: Source) -> bytes:
    return encode(dialect, given.exact if dialect in EXACT_DIALECTS else given.parsed.value, given)


def dumps(document: str, *, ensure_ascii: bool) -> bytes:
    return json.dumps(
        json.loads(document), sort_keys=True, separators=(",", ":"), ensure_ascii=ensure_ascii
    ).encode("utf-8")


def doubles(document: str) -> Any:
    """The document as JavaScript reads it: it has no integers."""
    return json.loads(document, parse_int=float)


def own_number(number: float) -> str:
    """`jcs-ascii-nfc`: integers in full; floats as Python writes them, exponents as JavaScript."""
    if isinstance(number, int):
        return str(number)
    if abs(number) < 1e16 and number == int(number):
        return str(int(number))
    return repr(number).replace("e+", "e").replace("e-0", "e-")


def own_text(text: str) -> str:
    return json.dumps(unicodedata.normalize("NFC", text))


def own(value: Any) -> str:
    if isinstance(value, dict):
        names = sorted(value, key=ecmascript.code_units)
        return "{" + ",".join(own_text(name) + ":" + own(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(own, value)) + "]"
    if isinstance(value, str):
        return own_text(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return own_number(value)


def has_twins(value: Any) -> bool:
    """Whether an object has two names that NFC makes one."""
    if isinstance(value, dict):
        normal = {unicodedata.normalize("NFC", name) for name in value}
        return len(normal) < len(value) or any(map(has_twins, value.values()))
    return isinstance(value, list) and any(map(has_twins, value))


# The bytes of a document in each dialect, from its text.
ORACLES: dict[str, Callable[[str], bytes]] = {
    "jcs": lambda document: rfc8785.dumps(doubles(document)),
    "py": lambda document: dumps(document, ensure_ascii=False),
    "py-ascii": lambda document: dumps(document, ensure_ascii=True),
    "jcs-ascii-nfc": lambda document: own(json.loads(document)).encode("ascii"),
    "js-object": lambda document: ecmascript.stringify(doubles(document)).encode("utf-8"),
    "verbatim-number": lambda document: slow_json.verbatim(
        slow_json.with_written_numbers(document)
    ).encode("utf-8"),
    "as-carried": lambda document: slow_json.without_space(document).encode("utf-8"),
}


@given(DOCUMENTS)
def test_each_dialect_is_its_definition(document: str) -> None:
    given = source(document)
    for dialect in DIALECTS:
        if dialect == "jcs-ascii-nfc" and has_twins(json.loads(document)):
            with pytest.raises(ReceiptError) as caught:
                whole(dialect, given)
            assert caught.value.reason == Reason.MALFORMED
        else:
            assert whole(dialect, given) == ORACLES[dialect](document), dialect


@given(DOCUMENTS)
def test_members_as_carried(document: str) -> None:
    given = source(document)
    for path, text in slow_json.members(document).items():
        assert given.carried(path) == text.encode("utf-8"), path
        inner = Source(given.parsed, given.raw, path)
        assert inner.carried(()) == text.encode("utf-8")
        assert inner.exact == json.loads(text)


@given(DOCUMENTS)
def test_a_dialect_writes_its_own_output_again(document: str) -> None:
    """`jcs-ascii-nfc` does not: it sorts names before it normalises them."""
    given = source(document)
    for dialect in set(DIALECTS) - {"jcs-ascii-nfc"}:
        once = whole(dialect, given).decode("utf-8")
        assert whole(dialect, source(once)) == once.encode("utf-8"), dialect
        assert slow_json.without_space(once) == once, dialect


@given(DOCUMENTS, st.integers(0, 2**32))
def test_neither_order_nor_spelling_matters(document: str, seed: int) -> None:
    """Another spelling of one document, numbers kept as written, has the same bytes."""
    other = spelt(slow_json.with_written_numbers(document), Random(seed))
    for dialect in set(DIALECTS) - {"as-carried"}:
        assert result(dialect, document) == result(dialect, other), dialect


def result(dialect: str, document: str) -> bytes | str:
    try:
        return whole(dialect, source(document))
    except ReceiptError as error:
        return error.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON)
def test_nothing_but_our_error_escapes(part: Any) -> None:
    """Values no parser gives, NaN, bytes and lone surrogates among them."""
    given = Source(Parsed({}, b"{}", True, b"{}"), b"{}")
    for dialect in DIALECTS:
        try:
            written = encode(dialect, part, given)
        except ReceiptError as error:
            assert error.reason == Reason.MALFORMED  # noqa: PT017 - most values are fine
        else:
            json.loads(written)
