"""Receipts read by their format's rules, and every member that must not pass."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.canonical import Limits
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profiles, compile_profile
from receiptledger.core.receipt import Receipt, chain_key, readings, verify_signature
from tests.helpers import rfc8032
from tests.helpers.reading import (
    PROFILES,
    accept,
    bad_signature,
    read,
    refused,
    with_member,
    without,
)
from tests.helpers.receipts import (
    ALICE,
    MALLORY,
    base64url,
    farley,
    jcs,
    lesson18,
    link,
    pretty,
    sign_farley,
    sign_lesson18,
)

if TYPE_CHECKING:
    from collections.abc import Callable

LESSON_RULES = ("ms-lesson18", "ms-lesson18-prehash")
OWN = json.loads((Path(__file__).parent / "data" / "receipts.json").read_text("utf-8"))


# Our own receipts, frozen: whoever changes a rule sees it here.


@pytest.mark.parametrize("case", OWN, ids=[case["name"] for case in OWN])
def test_own_receipts_read_as_ever(case: dict[str, Any]) -> None:
    raw = case["raw"].encode()
    receipt = accept(raw, bytes.fromhex(case["key"]))
    assert receipt.raw is raw
    for member, expected in case["reading"].items():
        got = getattr(receipt, member)
        got = got.hex() if isinstance(got, bytes) else list(got) if isinstance(got, tuple) else got
        assert got == expected, member
    # The same by other means: hashlib, rfc8785, and RFC 8032's own arithmetic.
    value = json.loads(raw)
    assert receipt.receipt_hash == hashlib.sha256(raw).digest()
    assert receipt.content_hash == receipt.link_hash == hashlib.sha256(jcs(value)).digest()
    assert rfc8032.sign(bytes.fromhex(case["seed"]), receipt.signing_input) == receipt.signature


def test_own_receipts_cover_the_oldest_formats() -> None:
    """Those of others are in `formats`, each beside its forger."""
    covered = {"ms-lesson18", "ms-lesson18-prehash", "draft-farley-04"}
    assert {case["reading"]["profile"] for case in OWN} == covered
    assert covered <= set(PROFILES.ids())


def test_the_chain_key_is_the_hash_of_the_length_prefixed_names() -> None:
    text = b"receiptledger/chain/v1\n\x00\x00\x00\x03b\xc3\xb6\x00\x00\x00\x01s"
    assert chain_key("bö", "s") == hashlib.sha256(text).digest()
    assert chain_key("a") == chain_key("a", "")
    keys = {chain_key(*names) for names in [("ab", ""), ("a", "b"), ("", "ab"), ("b", "a")]}
    assert len(keys) == 4
    for names in (("\ud800", ""), ("a", "\udfff")):
        refused(chain_key, *names, reason=Reason.INVALID_FIELD)


def test_a_receipt_computes_its_chain_once() -> None:
    receipt = read(lesson18())
    assert receipt.chain == chain_key("travel-bot", "")
    assert receipt.chain is receipt.chain


# Spellings.


def test_another_spelling_is_the_same_content() -> None:
    for document in (lesson18(note="Zürich \U0001f600"), farley(note="Zürich")):
        one, other = read(document), next(readings(pretty(document), PROFILES))
        assert one.receipt_hash != other.receipt_hash
        for member in ("content_hash", "link_hash", "signing_input", "unsigned", "chain"):
            assert getattr(one, member) == getattr(other, member)
        verify_signature(other, ALICE.key)


@pytest.mark.parametrize(
    "members",
    [
        {"score": 0.93},
        {"score": 1.0},
        {"count": 2**60},
        {"\ue000": 1, "\U0001f600": 2},
        {"nested": {"a": [None, True, {"b": "\x01\u2028"}], "tiny": 5e-324}},
        {"x__proto__": {}},
    ],
)
def test_numbers_and_names_orjson_would_write_otherwise(members: dict[str, Any]) -> None:
    canonical: dict[str, Any] = {name: float(v) if v == 2**60 else v for name, v in members.items()}
    for make in (lesson18, farley):
        document = make(**canonical)
        for raw in (jcs(document), pretty(document)):
            receipt = accept(raw, ALICE.key)
            assert receipt.content_hash == hashlib.sha256(jcs(document)).digest()


# Readings.


def test_lesson_18_is_read_by_the_current_rule_first() -> None:
    one, other = readings(jcs(lesson18()), PROFILES)
    assert (one.profile, other.profile) == LESSON_RULES
    assert other.signing_input == hashlib.sha256(one.signing_input).digest()
    different = {"profile", "signing_input"}
    for member in Receipt.__slots__:
        assert (getattr(one, member) == getattr(other, member)) == (member not in different)


def test_the_rule_that_holds_names_the_receipts_format() -> None:
    for prehash, rule in zip((False, True), LESSON_RULES, strict=True):
        document = lesson18(prehash=prehash)
        assert accept(jcs(document), ALICE.key).profile == rule
        assert accept(jcs(document), ALICE.key, rule).profile == rule
        other = LESSON_RULES[not prehash]
        error = bad_signature(accept, jcs(document), ALICE.key, other)
        assert error.message == f"the signature does not hold, read as {other}"
    error = bad_signature(accept, jcs(lesson18(signer=ALICE, note="x")), MALLORY.key)
    assert error.message.endswith("read as ms-lesson18 or ms-lesson18-prehash")


def test_readings_are_lazy() -> None:
    iterator = readings(b"not JSON", PROFILES)
    refused(next, iterator, reason=Reason.MALFORMED)
    assert list(iterator) == []


def test_readings_keep_the_limits() -> None:
    raw = jcs(lesson18())
    limits = Limits(max_bytes=len(raw) - 1)
    refused(next, readings(raw, PROFILES, limits=limits), reason=Reason.TOO_LARGE)


def test_a_named_format_is_the_only_one() -> None:
    only = list(readings(jcs(lesson18()), PROFILES, profile="ms-lesson18-prehash"))
    assert [receipt.profile for receipt in only] == ["ms-lesson18-prehash"]
    for name, reason in [
        ("draft-farley-04", Reason.INVALID_FIELD),
        ("", Reason.UNKNOWN_PROFILE),
        ("ms-lesson18 ", Reason.UNKNOWN_PROFILE),
    ]:
        refused(read, lesson18(), name, reason=reason)
    refused(read, {"a": 1}, reason=Reason.UNKNOWN_PROFILE)


def test_a_format_that_cannot_read_is_passed_over() -> None:
    """Of two formats that match, one needs a member the receipt has not."""
    template = """
id = "{0}"
version = 1
title = "t"
detect = [{{ path = "kind", equals = "k" }}]
unwrap = "none"
equal = []
signed = {{ base = "", drop = ["sig", "alg"], set = [], nulls = "keep", keep_nulls = [], canon = "jcs", prehash = "none", domain = "", forbid = [] }}
digests = []
signature = {{ path = "sig", encoding = "hex" }}
algorithm = {{ path = "alg", values = {{ EdDSA = "Ed25519" }} }}
cosign = []
unsigned = "list"
key_hint = "none"
kid = "none"
agent = "{1}"
stream = []
sequence = "none"
time = "none"
previous = {{ path = "prev", of = "full", canon = "jcs", encoding = "sha256:hex", genesis = ["omitted"] }}
pair = "none"
"""
    formats = [("first", "who"), ("second", "agent"), ("third", "nobody")]
    profiles = Profiles(compile_profile(template.format(*f), f[0]) for f in formats)
    body = {"kind": "k", "agent": "a"}
    document = {**body, "alg": "EdDSA", "sig": ALICE.sign(jcs(body)).hex()}
    (receipt,) = readings(jcs(document), profiles)
    assert (receipt.profile, receipt.agent, receipt.unsigned) == ("second", "a", ("alg",))
    verify_signature(receipt, ALICE.key)
    none = {**document, "agent": 1}
    error = refused(next, readings(jcs(none), profiles), reason=Reason.INVALID_FIELD)
    assert "member who " in error.message  # of the preferred format


# Members that are missing or wrong, in each format.


@pytest.mark.parametrize(
    "path",
    ["agent_id", "timestamp", "sequence", "previous_receipt_hash", "signature",
     "signature.alg", "signature.sig", "signature.public_key"],
)  # fmt: skip
def test_lesson_18_needs(path: str) -> None:
    error = refused(read, without(lesson18(), path), reason=Reason.INVALID_FIELD)
    assert path in error.message
    assert error.got == "no such member"


@pytest.mark.parametrize("path", ["payload.issued_at", "signature.alg"])
def test_draft_farley_needs(path: str) -> None:
    error = refused(read, without(farley(), path), reason=Reason.INVALID_FIELD)
    assert path in error.message
    assert error.got == "no such member"


@pytest.mark.parametrize("path", ["payload", "payload.issuer_id", "signature.kid", "signature.sig"])
def test_draft_farley_is_known_by(path: str) -> None:
    refused(read, without(farley(), path), reason=Reason.UNKNOWN_PROFILE)
    refused(read, without(farley(), path), "draft-farley-04", reason=Reason.INVALID_FIELD)


WRONG = [
    (lesson18, "agent_id", "", "member agent_id has"),
    (lesson18, "agent_id", "a\nb", "member agent_id has"),
    (lesson18, "agent_id", 7, "member agent_id has"),
    (lesson18, "sequence", 1.5, "member sequence has"),
    (lesson18, "sequence", True, "member sequence has"),
    (lesson18, "sequence", "0", "member sequence has"),
    (lesson18, "sequence", -1, "member sequence has"),
    (lesson18, "timestamp", "2026-04-25", "member timestamp has"),
    (lesson18, "previous_receipt_hash", "ab" * 32, "member previous_receipt_hash has"),
    (lesson18, "signature", "text", "member signature.alg has"),
    (lesson18, "signature.alg", None, "member signature.alg has"),
    (lesson18, "signature.sig", "00" * 64, "member signature.sig has"),
    (lesson18, "signature.sig", base64url(bytes(63)), "member signature.sig has"),
    (lesson18, "signature.sig", base64url(bytes(65)), "member signature.sig has"),
    (lesson18, "signature.sig", base64url(bytes(64)) + "==", "member signature.sig has"),
    (lesson18, "signature.public_key", base64url(bytes(31)), "member signature.public_key has"),
    (lesson18, "signature.public_key", base64url(bytes(33)), "member signature.public_key has"),
    (lesson18, "signature.public_key", None, "member signature.public_key has"),
    (lesson18, "signature.kid", "x", "outside the signed bytes"),
    (farley, "payload", "text", None),
    (farley, "payload.issuer_id", "other", "members payload.issuer_id and signature.kid differ"),
    (farley, "payload.issuer_id", 1, "member payload.issuer_id has"),
    (farley, "signature.kid", "other", "members payload.issuer_id and signature.kid differ"),
    (farley, "payload.issued_at", None, "member payload.issued_at has"),
    (farley, "payload.previousReceiptHash", None, "must omit it"),
    (farley, "payload.previousReceiptHash", "AB" * 32, "member payload.previousReceiptHash has"),
    (farley, "payload.signature", None, "member payload.signature is forbidden"),
    (farley, "signature.sig", "AB" * 64, "member signature.sig has"),
    (farley, "signature.sig", "ab" * 63, "member signature.sig has"),
    (farley, "signature.sig", base64url(bytes(64)), "member signature.sig has"),
    (farley, "signature.public_key", base64url(ALICE.key), "outside the signed bytes"),
    (farley, "expires", "2026-04-25T14:30:00Z", "outside the signed bytes"),
    (farley, "payload.type", "protectmcp:restraint", ""),
]  # fmt: skip


@pytest.mark.parametrize(("make", "path", "value", "message"), WRONG)
def test_wrong_members(
    make: Callable[[], dict[str, Any]], path: str, value: Any, message: str | None
) -> None:
    raw = jcs(with_member(make(), path, value))
    with pytest.raises(ReceiptError) as caught:
        accept(raw, ALICE.key)
    error = caught.value
    if message is None:
        assert error.reason is Reason.UNKNOWN_PROFILE
    elif message:
        assert error.reason is Reason.INVALID_FIELD
        assert message in error.message
    else:
        assert error.reason is Reason.BAD_SIGNATURE
    assert error.want
    assert error.got


@pytest.mark.parametrize(
    ("make", "known"), [(lesson18, ["EdDSA"]), (farley, ["EdDSA", "ES256", "ML-DSA-65"])]
)
def test_another_algorithm_is_undecidable(
    make: Callable[[], dict[str, Any]], known: list[str]
) -> None:
    for name in {"ES256", "ML-DSA-65", "none", "Ed25519"} - set(known):
        document = with_member(make(), "signature.alg", name)
        error = refused(read, document, reason=Reason.UNSUPPORTED_ALGORITHM)
        assert (error.want, error.got) == (" or ".join(known), repr(name))


# Chains of our own.


def test_links_follow_the_whole_receipt() -> None:
    first = lesson18()
    second = read(lesson18(1, link(first)))
    assert second.previous == read(first).link_hash
    resigned = sign_lesson18(first, signer=MALLORY)
    assert read(resigned).link_hash != read(first).link_hash  # the signature is linked too
    genesis = farley()
    assert read(genesis).previous is None
    assert read(farley(link(genesis))).previous == read(genesis).link_hash
    assert (
        read(sign_farley(genesis["payload"], signer=MALLORY)).link_hash != read(genesis).link_hash
    )


def test_refusals_show_no_content() -> None:
    secret = "4111-1111"
    for document in (
        lesson18(agent_id=f"{secret}\n"),
        lesson18(timestamp=secret),
        lesson18(previous=secret),
        with_member(lesson18(), "signature.sig", secret),
        with_member(farley(), "payload.signature", secret),
        {"type": secret},
    ):
        with pytest.raises(ReceiptError) as caught:
            read(document)
        assert secret not in str(caught.value)
