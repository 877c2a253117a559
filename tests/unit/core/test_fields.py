"""Readers of single members: the one form each accepts, and everything it refuses."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import field_bytes, fields
from receiptledger.core.encoding import base64url_decode
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable

HASH = "sha256:" + "0a" * 32


def refused(read: Callable[[dict[str, Any]], object], value: dict[str, Any]) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        read(value)
    assert caught.value.want
    assert caught.value.got
    return caught.value


def invalid(read: Callable[[dict[str, Any]], object], value: dict[str, Any]) -> ReceiptError:
    error = refused(read, value)
    assert error.reason is Reason.INVALID_FIELD
    return error


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c", "a.b.c.d"])
def test_a_path_leads_to_its_member_or_nowhere(path: str) -> None:
    get = fields.getter(path)
    names = path.split(".")

    def document(leaf: object) -> dict[str, Any]:
        value: Any = leaf
        for name in reversed(names):
            value = {name: value}
        return dict(value)

    leaves: list[Any] = [0, None, "", False, {"x": 1}, []]
    for leaf in leaves:
        assert get(document(leaf)) is leaf
    assert get({}) is fields.MISSING
    for cut in range(1, len(names)):
        for there in (None, "text", ["b"], 1, {}, {"other": 1}):
            value: Any = there
            for name in reversed(names[:cut]):
                value = {name: value}
            assert get(value) is fields.MISSING
    if len(names) > 1:
        assert get({path: 1}) is fields.MISSING  # a name with dots is no path


@pytest.mark.parametrize(
    "name",
    [
        "a",
        " ",
        "x" * 256,
        "é" * 128,
        "\N{CJK UNIFIED IDEOGRAPH-4E2D}",
        "\U0001f600" * 64,
        "a\u2028b",
    ],
)
def test_names(name: str) -> None:
    assert fields.name_reader("id")({"id": name}) == name
    assert fields.stream_reader(["id"])({"id": name}) == name


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ({}, "no such member"),
        ({"id": None}, "null"),
        ({"id": 5}, "the number 5"),
        ({"id": True}, "a boolean"),
        ({"id": ["a"]}, "an array"),
        ({"id": "x" * 257}, "257 bytes"),
        ({"id": "é" * 129}, "258 bytes"),
        ({"id": "a\n"}, "2 bytes, some control characters"),
        ({"id": "\x00"}, "1 bytes, some control characters"),
        ({"id": "\x7f"}, "1 bytes, some control characters"),
        ({"id": "é\x85"}, "4 bytes, some control characters"),
        ({"id": "\x80"}, "2 bytes, some control characters"),
        ({"id": "\x9f"}, "2 bytes, some control characters"),
    ],
)
def test_names_that_are_refused(value: dict[str, Any], got: str) -> None:
    stream = fields.stream_reader(["id"])
    if value.get("id") is None:
        assert stream(value) == ""
    for read in (fields.name_reader("id"), *([stream] if value.get("id") is not None else [])):
        error = invalid(read, value)
        assert error.got == got
        assert "member id" in error.message


def test_an_agent_has_a_name_and_a_stream_may_have_none() -> None:
    error = invalid(fields.name_reader("id"), {"id": ""})
    assert (error.want, error.got) == ("1..256 bytes without control characters", "0 bytes")
    assert fields.stream_reader(["id"])({"id": ""}) == ""
    assert fields.stream_reader([])({"id": "x"}) == ""


def test_several_stream_members_never_run_together() -> None:
    read = fields.stream_reader(["host", "run.id"])
    assert read({"host": "a", "run": {"id": "b"}}) == '["a","b"]'
    seen = {
        read({"host": one, "run": {"id": other}})
        for one, other in [("a", "b,c"), ("a,b", "c"), ('a","b', "c"), ("", "a"), ("a", "")]
    }
    assert len(seen) == 5
    assert read({"host": "a"}) == read({"host": "a", "run": {"id": None}}) == '["a",""]'
    assert "member run.id" in invalid(read, {"host": "a", "run": {"id": 1}}).message
    assert read({"host": "x" * 125, "run": {"id": "y" * 124}})[:3] == '["x'
    error = invalid(read, {"host": "x" * 125, "run": {"id": "y" * 125}})
    assert (error.message, error.got) == ("member host with run.id has the wrong form", "257 bytes")


def test_sequence_numbers() -> None:
    read = fields.sequence_reader("n")
    assert [read({"n": number}) for number in (0, 1, 2**53 - 1)] == [0, 1, 2**53 - 1]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"n": -1}, "the number -1"),
        ({"n": 2**53}, f"the number {2**53}"),
        ({"n": 1.0}, "the number 1.0"),
        ({"n": True}, "a boolean"),
        ({"n": "1"}, "text of 1 characters"),
        ({"n": None}, "null"),
        ({}, "no such member"),
    ]
    for value, got in cases:
        error = invalid(read, value)
        assert (error.want, error.got) == (f"an integer 0..{2**53 - 1}", got)


def test_previous_hash_is_null_at_genesis() -> None:
    read = field_bytes.previous_reader("p", "sha256:hex", ["null"])
    assert read({"p": None}) is None
    assert read({"p": HASH}) == b"\x0a" * 32
    assert "(null in" in str(invalid(read, {}).want)


def test_previous_hash_is_omitted_at_genesis() -> None:
    read = field_bytes.previous_reader("p", "sha256:hex", ["omitted"])
    assert read({}) is None
    assert read({"p": HASH}) == b"\x0a" * 32
    error = invalid(read, {"p": None})
    assert "must omit it" in error.message
    assert error.got == "null"


@pytest.mark.parametrize("genesis", ["null", "omitted"])
@pytest.mark.parametrize(
    "text",
    [
        "0a" * 32,
        "sha256:" + "0A" * 32,
        "SHA256:" + "0a" * 32,
        "sha256:" + "0a" * 31,
        "sha256:" + "0a" * 33,
        HASH + "\n",
        " " + HASH,
        "sha512:" + "0a" * 32,
        "sha256:" + "0a" * 31 + "0g",
        "sha256:" + "0a" * 31 + " a",
        "sha256:" + "\N{FULLWIDTH DIGIT ZERO}" + "a" * 63,
        "",
        0,
        False,
        [HASH],
    ],
)
def test_previous_hashes_of_another_form(text: object, genesis: str) -> None:
    error = invalid(field_bytes.previous_reader("p", "sha256:hex", [genesis]), {"p": text})
    assert "0a0a" not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-25T14:30:00Z",
        "2026-04-25t14:30:00z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
        "2026-04-25T14:30:00.123456789Z",
        "2026-04-25T14:30:00+02:00",
        "2026-04-25T14:30:00.5-23:59",
        "2024-02-29T00:00:00Z",
        "2000-02-29T00:00:00Z",
        "2026-01-31T00:00:00Z",
        "2026-04-30T00:00:00Z",
        "2026-02-28T00:00:00Z",
        "2026-04-25T14:30:00." + "1" * 43 + "Z",
    ],
)
def test_times(text: str) -> None:
    assert fields.time_reader("t")({"t": text}) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-04-25",
        "2026-04-25 14:30:00Z",
        "2026-04-25T14:30:00",
        "2026-04-25T14:30Z",
        "2026-4-25T14:30:00Z",
        "2026-00-25T14:30:00Z",
        "2026-13-25T14:30:00Z",
        "2026-04-00T14:30:00Z",
        "2026-04-31T14:30:00Z",
        "2026-01-32T14:30:00Z",
        "2026-02-29T14:30:00Z",
        "2026-02-30T14:30:00Z",
        "2024-02-30T14:30:00Z",
        "2024-02-31T14:30:00Z",
        "1900-02-29T14:30:00Z",
        "2026-04-25T24:30:00Z",
        "2026-04-25T14:60:00Z",
        "2026-04-25T14:30:61Z",
        "2026-04-25T14:30:00.Z",
        "2026-04-25T14:30:00,5Z",
        "2026-04-25T14:30:00+2:00",
        "2026-04-25T14:30:00+24:00",
        "2026-04-25T14:30:00+02:60",
        "2026-04-25T14:30:00Z\n",
        "\N{ARABIC-INDIC DIGIT TWO}026-04-25T14:30:00Z",
        "2026-04-25T14:30:00." + "1" * 44 + "Z",
        "",
        None,
        1777127400,
    ],
)
def test_times_of_another_form(text: object) -> None:
    error = invalid(fields.time_reader("t"), {"t": text})
    assert "RFC 3339" in str(error.want)


BYTES = bytes(range(190, 254))
URL = base64.urlsafe_b64encode(BYTES).decode().rstrip("=")


@pytest.mark.parametrize(
    ("encoding", "size", "text"),
    [
        ("hex", 64, BYTES.hex()),
        ("base64url", 64, URL),
        ("base64url", 32, base64.urlsafe_b64encode(BYTES[:32]).decode().rstrip("=")),
        ("base64url", 33, base64.urlsafe_b64encode(BYTES[:33]).decode()),
    ],
)
def test_bytes(encoding: str, size: int, text: str) -> None:
    assert field_bytes.signature_reader("b", encoding, size)({"b": text}) == BYTES[:size]


def last_character_variants() -> list[str]:
    """All 64 texts that a lenient decoder reads alike but for the last 6 bits."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return [URL[:-1] + letter for letter in alphabet]


def test_base64url_has_one_text_for_each_value() -> None:
    read = field_bytes.signature_reader("b", "base64url", 64)
    accepted = []
    for text in last_character_variants():
        try:
            accepted.append(read({"b": text}))
        except ReceiptError:
            with pytest.raises(ValueError, match="base64url"):
                base64url_decode(text, 64)
        else:
            assert base64url_decode(text, 64) == accepted[-1]
    assert len(accepted) == len(set(accepted)) == 4  # two bits of the last character count


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("base64url", URL + "=="),
        ("base64url", URL + "\n"),
        ("base64url", URL.replace("-", "+").replace("_", "/")),
        ("base64url", URL[:40] + "!" + URL[40:]),
        ("base64url", URL[:40] + "!" + URL[41:]),
        ("base64url", URL[:40] + "=" + URL[41:]),
        ("base64url", URL[:40] + "\N{FULLWIDTH LATIN SMALL LETTER A}" + URL[41:]),
        ("base64url", URL[:-1]),
        ("base64url", URL[:-2]),
        ("base64url", URL + "A"),
        ("base64url", URL + "AA"),
        ("base64url", ""),
        ("base64url", BYTES.hex()),
        ("base64url", None),
        ("base64url", 1),
        ("hex", BYTES.hex().upper()),
        ("hex", BYTES.hex()[:-1]),
        ("hex", BYTES.hex()[:-2]),
        ("hex", BYTES.hex() + "00"),
        ("hex", " " + BYTES.hex()[1:]),
        ("hex", BYTES.hex()[:2] + " " + BYTES.hex()[2:]),
        ("hex", BYTES.hex() + "\n"),
        ("hex", "0x" + BYTES.hex()[2:]),
        ("hex", "g" + BYTES.hex()[1:]),
        ("hex", URL),
        ("hex", ""),
        ("hex", ["00"]),
    ],
)
def test_bytes_of_another_form(encoding: str, text: object) -> None:
    error = invalid(field_bytes.signature_reader("b", encoding, 64), {"b": text})
    assert str(error.want).startswith("64 bytes in ")


def test_the_project_has_one_rule_for_base64url() -> None:
    read = field_bytes.signature_reader("b", "base64url", 64)
    for text in (URL, URL + "==", URL[:-1], "", URL.replace("_", "/"), URL[:40] + "=" + URL[41:]):
        try:
            expected = base64url_decode(text, 64)
        except ValueError:
            invalid(read, {"b": text})
        else:
            assert read({"b": text}) == expected


def test_another_algorithm_is_undecidable_and_no_algorithm_is_a_fault() -> None:
    check = fields.algorithm_reader("s.alg", {"EdDSA": "Ed25519"})
    assert check({"s": {"alg": "EdDSA"}}) == "Ed25519"
    for name in ("ES256", "eddsa", "none", "", "ML-DSA-65", "x" * 500):
        error = refused(check, {"s": {"alg": name}})
        assert error.reason is Reason.UNSUPPORTED_ALGORITHM
        assert error.want == "EdDSA"
        assert len(error.got or "") <= 80
    wrong: list[dict[str, Any]] = [{}, {"s": {}}, {"s": {"alg": None}}, {"s": {"alg": ["EdDSA"]}}]
    for value in wrong:
        invalid(check, value)


def test_forbidden_members() -> None:
    check = fields.forbid_check("p.signature")
    check({"p": {}, "signature": 1})
    values: list[Any] = [None, "", "00", {}]
    for found in values:
        error = invalid(check, {"p": {"signature": found}})
        assert error.message == "member p.signature is forbidden"


def test_members_that_must_be_equal() -> None:
    check = fields.equal_check("p.id", "s.kid")
    check({"p": {"id": "a"}, "s": {"kid": "a"}})
    error = invalid(check, {"p": {"id": "a"}, "s": {"kid": "b" * 500}})
    assert (error.message, error.want) == ("members p.id and s.kid differ", "'a'")
    assert len(error.got or "") == 80
    cases: list[tuple[dict[str, Any], str]] = [
        ({"s": {"kid": "a"}}, "p.id"),
        ({"p": {"id": "a"}}, "s.kid"),
        ({"p": {"id": None}, "s": {"kid": None}}, "p.id"),
        ({"p": {"id": 1}, "s": {"kid": 1}}, "p.id"),
        ({}, "p.id"),
    ]
    for value, path in cases:
        assert f"member {path} " in invalid(check, value).message


def test_what_a_format_does_not_have() -> None:
    assert fields.constant(None)({"x": 1}) is None


@pytest.mark.parametrize(
    ("unit", "number", "text"),
    [
        (1_000, 0, "1970-01-01T00:00:00Z"),
        (1_000, 1_796_050_732_123, "2026-11-30T14:58:52.123000Z"),
        (1_000_000, 1_796_050_732.25, "2026-11-30T14:58:52.250000Z"),
        (1_000_000, 1_796_050_732, "2026-11-30T14:58:52Z"),
        (1_000_000, 253_402_300_799, "9999-12-31T23:59:59Z"),
    ],
)
def test_unix_times(unit: int, number: float, text: str) -> None:
    assert fields.unix_time_reader("t", unit)({"t": number}) == text


@pytest.mark.parametrize("number", [-1, 253_402_300_800_000, 1.5, True, "1", None, 10**300])
def test_unix_times_of_another_form(number: object) -> None:
    assert "milliseconds" in (
        invalid(fields.unix_time_reader("t", 1_000), {"t": number}).want or ""
    )


def test_names_that_may_be_missing() -> None:
    read = fields.optional_name_reader("n")
    assert read({}) is read({"n": None}) is None
    assert read({"n": "x"}) == "x"
    invalid(read, {"n": ""})
