"""Which members are signed, and the list of those that are not."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from receiptledger.core.canonical import parse
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.signed import Part, Signing, unsigned_reader
from tests.helpers.receipts import jcs

WHOLE = Part((), ("signature",), None)
PAYLOAD = Part(("payload",), (), None)
DEEP = Part(("a", "b"), ("x",), None)
KEPT = Part((), (), ("id", "time"))


@pytest.mark.parametrize(
    ("part", "inside", "outside"),
    [
        (WHOLE, ["id", "a.signature", "a.b.c"], ["signature", "signature.sig"]),
        (PAYLOAD, ["payload.id", "payload.a.b"], ["payload", "id", "signature.sig", "payloads.id"]),
        (DEEP, ["a.b.c", "a.b.c.x"], ["a", "a.b", "a.b.x", "a.b.x.y", "a.c.d", "b.a.c"]),
        (KEPT, ["id", "time.zone"], ["signature", "ids", "a.id"]),
    ],
)
def test_coverage(part: Part, inside: list[str], outside: list[str]) -> None:
    assert [path for path in inside + outside if part.covers(path)] == inside


def test_what_holds_signed_members_cannot_be_outside() -> None:
    assert [path for path in ("a", "a.b", "a.b.x", "a.c", "b") if DEEP.holds(path)] == ["a", "a.b"]
    assert not WHOLE.holds("signature")


@pytest.mark.parametrize(
    ("part", "value", "signed"),
    [
        (WHOLE, {"b": 1, "a": 2, "signature": {"sig": ""}}, {"a": 2, "b": 1}),
        (WHOLE, {"a": 2}, {"a": 2}),
        (WHOLE, {"a": 1.0, "signature": ""}, {"a": 1}),
        (PAYLOAD, {"payload": {"b": 1, "a": 2}, "signature": {}}, {"a": 2, "b": 1}),
        (PAYLOAD, {"payload": {}, "signature": {}}, {}),
        (DEEP, {"a": {"b": {"x": 1, "y": 1e30}}}, {"y": 1e30}),
        (KEPT, {"time": "now", "other": 1, "id": "a"}, {"id": "a", "time": "now"}),
        (KEPT, {"other": 1, "id": "a"}, {"id": "a"}),
    ],
)
def test_the_signed_bytes(part: Part, value: dict[str, Any], signed: Any) -> None:
    parsed = parse(jcs(value))
    before = jcs(parsed.value)
    assert part.writer()(parsed) == Signing(part).signing_input()(parsed) == jcs(signed)
    hashed = Signing(part, prehash=True)
    assert hashed.signing_input()(parsed) == hashlib.sha256(jcs(signed)).digest()
    assert jcs(parsed.value) == before  # the receipt itself is left as it was


@pytest.mark.parametrize("value", [{}, {"payload": None}, {"payload": "text"}, {"payload": [{}]}])
def test_a_receipt_without_the_signed_object(value: dict[str, Any]) -> None:
    with pytest.raises(ReceiptError) as caught:
        PAYLOAD.writer()(parse(jcs(value)))
    assert caught.value.reason is Reason.INVALID_FIELD
    assert caught.value.want == "an object"


LISTED = [
    (WHOLE, "signature.sig", {"a": 1, "signature": {"sig": ""}}, ()),
    (WHOLE, "signature.sig", {"signature": {"sig": "", "alg": ""}}, ("signature.alg",)),
    (
        WHOLE,
        "signature.sig",
        {"signature": {"z": 1, "sig": "", "alg": "", "a": {"sig": 1}}},
        ("signature.a", "signature.alg", "signature.z"),
    ),
    (Part((), ("s", "t"), None), "s", {"s": "", "t": {"u": 1}, "v": 1}, ("t",)),
    (PAYLOAD, "signature.sig", {"payload": {"a": 1}, "signature": {"sig": ""}}, ()),
    (
        PAYLOAD,
        "signature.sig",
        {"payload": {}, "signature": {"sig": "", "alg": ""}, "id": 1, "signature.alg": 2},
        ("id", "signature.alg", "signature.alg"),
    ),
    (
        DEEP,
        "a.sig",
        {"a": {"b": {"c": 1, "x": 2}, "sig": "", "k": 1}, "z": 0},
        ("z", "a.k", "a.b.x"),
    ),
    (DEEP, "a.b.x.s", {"a": {"b": {"x": {"s": "", "t": 1}}}}, ("a.b.x.t",)),
    (KEPT, "sig", {"id": 1, "sig": "", "extra": {"id": 1}, "a": 0}, ("a", "extra")),
    (KEPT, "p.q.sig", {"id": 1, "p": {"q": {"sig": "", "r": 1}, "s": 1}}, ("p.q.r", "p.s")),
]


@pytest.mark.parametrize(("part", "signature", "value", "expected"), LISTED)
def test_members_outside_are_listed(
    part: Part, signature: str, value: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert unsigned_reader(Signing(part), signature, (), closed=False)(value) == expected
    # What the format knows changes nothing in the list.
    known = ("signature.alg", "signature.kid", "a.k")
    assert unsigned_reader(Signing(part), signature, known, closed=False)(value) == expected


def test_a_closed_format_lets_only_known_members_be_outside() -> None:
    read = unsigned_reader(
        Signing(PAYLOAD), "signature.sig", ("signature.kid", "payload.id"), closed=True
    )
    assert read({"payload": {}, "signature": {"sig": "", "kid": ""}}) == ("signature.kid",)
    assert read({"payload": {}, "signature": {"sig": ""}}) == ()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"payload": {}, "signature": {"sig": "", "kid": "", "x": 1}}, "'signature.x'"),
        ({"payload": {}, "signature": {"sig": "", "kid": ""}, "x": 1}, "'x'"),
        (
            {"payload": {}, "signature": {"sig": "", "kid": ""}, "signature.kid": 1},
            "'signature.kid'",  # a name with a dot, not the known path
        ),
    ]
    for value, name in cases:
        with pytest.raises(ReceiptError) as caught:
            read(value)
        assert caught.value.reason is Reason.INVALID_FIELD
        assert (caught.value.want, caught.value.got) == ("only signature.kid", name)


def test_the_quick_answer_is_the_long_one() -> None:
    known = ("signature.kid", "signature.alg")
    for part in (WHOLE, PAYLOAD):
        usual = {"payload": {}, "signature": {"sig": "", "kid": "", "alg": ""}}
        quick = unsigned_reader(Signing(part), "signature.sig", known, closed=False)
        plain = unsigned_reader(Signing(part), "signature.sig", (), closed=False)
        assert quick(usual) == plain(usual) == ("signature.alg", "signature.kid")
