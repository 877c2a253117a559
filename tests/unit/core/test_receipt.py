"""Receipts read by their format's rules, their signatures, and everything that must not pass."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from receiptledger.core.canonical import Limits
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profile, Profiles
from receiptledger.core.receipt import (
    Receipt,
    authenticate,
    chain_key,
    check_signature,
    readings,
    verify_signature,
)

from tests.helpers import rfc8032
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
    from collections.abc import Callable, Iterator

PROFILES = Profiles.builtin()
LESSON_RULES = ("ms-lesson18", "ms-lesson18-prehash")
OWN = json.loads((Path(__file__).parent / "data" / "receipts.json").read_text("utf-8"))


def read(document: Any, profile: str | None = None) -> Receipt:
    return next(readings(jcs(document), PROFILES, profile=profile))


def accept(raw: bytes, key: bytes, profile: str | None = None) -> Receipt:
    candidates = readings(raw, PROFILES, profile=profile)
    return authenticate(next(candidates), candidates, key)


def refused(call: Callable[..., object], *arguments: Any, reason: Reason) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        call(*arguments)
    assert caught.value.reason is reason
    return caught.value


def bad_signature(call: Callable[..., object], *arguments: Any) -> ReceiptError:
    return refused(call, *arguments, reason=Reason.BAD_SIGNATURE)


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


def test_own_receipts_cover_every_format() -> None:
    assert {case["reading"]["profile"] for case in OWN} == set(PROFILES.ids())


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
equal = []
signed = {{ base = "", drop = ["sig", "alg"], canon = "jcs", prehash = "none", forbid = [] }}
signature = {{ path = "sig", encoding = "hex" }}
algorithm = {{ path = "alg", value = "EdDSA" }}
unsigned = "list"
key_hint = "none"
kid = "none"
agent = "{1}"
stream = []
sequence = "none"
time = "none"
previous = {{ path = "prev", preimage = "full", encoding = "sha256:hex", genesis = "omitted" }}
"""
    formats = [("first", "who"), ("second", "agent"), ("third", "nobody")]
    profiles = Profiles(Profile.from_toml(template.format(*f), f[0]) for f in formats)
    body = {"kind": "k", "agent": "a"}
    document = {**body, "alg": "EdDSA", "sig": ALICE.sign(jcs(body)).hex()}
    (receipt,) = readings(jcs(document), profiles)
    assert (receipt.profile, receipt.agent, receipt.unsigned) == ("second", "a", ("alg",))
    verify_signature(receipt, ALICE.key)
    none = {**document, "agent": 1}
    error = refused(next, readings(jcs(none), profiles), reason=Reason.INVALID_FIELD)
    assert "member who " in error.message  # of the preferred format


# Members that are missing or wrong, in each format.


def without(document: dict[str, Any], path: str) -> dict[str, Any]:
    return with_member(document, path, None, remove=True)


def with_member(
    document: dict[str, Any], path: str, value: Any, *, remove: bool = False
) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    *way, name = path.split(".")
    node = copy
    for step in way:
        node = node[step]
    node.pop(name, None)
    if not remove:
        node[name] = value
    return copy


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
    (farley, "payload.previousReceiptHash", "ab" * 32, "member payload.previousReceiptHash has"),
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


@pytest.mark.parametrize("make", [lesson18, farley])
def test_another_algorithm_is_undecidable(make: Callable[[], dict[str, Any]]) -> None:
    for name in ("ES256", "ML-DSA-65", "none", "Ed25519"):
        document = with_member(make(), "signature.alg", name)
        error = refused(read, document, reason=Reason.UNSUPPORTED_ALGORITHM)
        assert (error.want, error.got) == ("EdDSA", repr(name))


# Signatures.


def test_the_key_in_a_receipt_is_never_trusted() -> None:
    forged = lesson18(signer=MALLORY)
    assert read(forged).key_hint == MALLORY.key
    verify_signature(read(forged), MALLORY.key)  # it is consistent in itself
    error = bad_signature(verify_signature, read(forged), ALICE.key)
    assert error.message == "the receipt names another key"
    hidden = with_member(forged, "signature.public_key", base64url(ALICE.key))
    error = bad_signature(accept, jcs(hidden), ALICE.key)
    assert "does not hold" in error.message


def test_nobody_can_make_a_second_receipt_out_of_an_honest_one() -> None:
    """The key is outside the signed bytes, yet another one there is noticed: no forged forks."""
    altered = with_member(lesson18(), "signature.public_key", base64url(MALLORY.key))
    bad_signature(accept, jcs(altered), ALICE.key)
    extra = with_member(lesson18(), "signature.note", "x")
    refused(accept, jcs(extra), ALICE.key, reason=Reason.INVALID_FIELD)


def test_a_key_embedded_in_a_draft_receipt_is_not_read() -> None:
    receipt = read(farley(public_key=ALICE.key.hex()))
    assert (receipt.key_hint, receipt.kid) == (None, "sb:issuer:6XRv8ZfPuxt1")


def test_authenticate_reads_no_further_than_it_must() -> None:
    def never() -> Iterator[Receipt]:
        yield read(pytest.fail("read on"))

    receipt = read(lesson18())
    assert authenticate(receipt, never(), ALICE.key) is receipt


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_keys_of_another_length(size: int) -> None:
    error = bad_signature(verify_signature, read(farley()), bytes(size))
    assert (error.want, error.got) == ("32 bytes", f"{size} bytes")


def test_a_short_signature_takes_nothing_from_the_message() -> None:
    # Joined, these are a signature and a message; libsodium alone would let this pass.
    message = b"message"
    whole = ALICE.sign(message) + message
    check_signature(whole[:64], message, ALICE.key)
    for cut in (0, 1, 63, 65):
        error = bad_signature(check_signature, whole[:cut], whole[cut:], ALICE.key)
        assert error.got == f"{cut} bytes"


IDENTITY = (1).to_bytes(32, "little")
NEGATIVE_ZERO = ((1 << 255) | 1).to_bytes(32, "little")


@pytest.mark.parametrize(
    ("signature", "key"),
    [
        # Small-order keys and R: S = 0 satisfies the equation for any message at all.
        (IDENTITY + bytes(32), IDENTITY),
        (IDENTITY + bytes(32), (rfc8032.P + 1).to_bytes(32, "little")),  # y not below the prime
        (IDENTITY + bytes(32), NEGATIVE_ZERO),
        (IDENTITY + bytes(32), (rfc8032.P - 1).to_bytes(32, "little")),  # order 2
        (IDENTITY + bytes(32), bytes(32)),  # order 4
        (bytes(64), ALICE.key),
        (b"\xff" * 64, ALICE.key),
    ],
)
def test_signatures_that_other_libraries_accept(signature: bytes, key: bytes) -> None:
    for number in range(16):  # the equation's other side depends on the message, modulo 8
        bad_signature(check_signature, signature, b"message %d" % number, key)


def test_signatures_are_not_malleable() -> None:
    signature = ALICE.sign(b"message")
    number = int.from_bytes(signature[32:], "little") + rfc8032.ORDER
    assert number < 2**256
    other = signature[:32] + number.to_bytes(32, "little")
    bad_signature(check_signature, other, b"message", ALICE.key)


def test_every_published_ed25519_case(vectors: Path) -> None:
    groups = json.loads((vectors / "ed25519" / "ed25519_test.json").read_bytes())["testGroups"]
    counts = {"valid": 0, "invalid": 0}
    for group in groups:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            signature, message = bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"])
            if case["result"] == "valid":
                check_signature(signature, message, key)
            else:
                bad_signature(check_signature, signature, message, key)
            counts[case["result"]] += 1
    assert counts == {"valid": 88, "invalid": 63}


# No byte of a signed receipt can change.


@pytest.mark.parametrize(
    "document",
    [lesson18(3, "sha256:" + "7c" * 32), lesson18(prehash=True), farley("sha256:" + "7c" * 32)],
    ids=["ms-lesson18", "ms-lesson18-prehash", "draft-farley-04"],
)
def test_mutate_every_byte(document: dict[str, Any]) -> None:
    raw = jcs(document)
    assert accept(raw, ALICE.key).content_hash == hashlib.sha256(raw).digest()
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            with pytest.raises(ReceiptError):
                accept(bytes(changed), ALICE.key)
        for other in (raw[:at] + raw[at + 1 :], raw[:at] + raw[at : at + 1] + raw[at:]):
            with pytest.raises(ReceiptError):
                accept(other, ALICE.key)


def test_mutate_every_byte_of_another_spelling() -> None:
    """Where bytes may differ and mean the same, only what means the same is accepted."""
    raw = pretty(farley(city="Zürich"))
    content = accept(raw, ALICE.key).content_hash
    accepted = 0
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            try:
                receipt = accept(bytes(changed), ALICE.key)
            except ReceiptError:
                continue
            assert receipt.content_hash == content
            accepted += 1
    assert accepted == 2  # \u00fc with either letter in upper case


# Published receipts of Microsoft's lesson 18.

LESSON_KEY = base64.urlsafe_b64decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
LESSON_SETS = {"v2-direct": "ms-lesson18", "v1-prehash": "ms-lesson18-prehash"}


@pytest.fixture(params=LESSON_SETS)
def lesson_set(request: pytest.FixtureRequest, vectors: Path) -> tuple[dict[str, Any], str, str]:
    """(content of each file, id of its rule, id of the other rule)."""
    folder = vectors / "receipts" / "ms-lesson18" / "rebuilt"
    prefix = request.param + "-"
    found = {
        path.stem.removeprefix(prefix): json.loads(path.read_bytes())
        for path in folder.glob(prefix + "*.json")
    }
    assert len(found) == 7
    (other,) = (rule for name, rule in LESSON_SETS.items() if name != request.param)
    return found, LESSON_SETS[request.param], other


def test_published_lesson_receipts(lesson_set: tuple[dict[str, Any], str, str]) -> None:
    found, rule, other = lesson_set
    valid = found["01-valid"]
    for raw in (jcs(valid), pretty(valid)):
        assert accept(raw, LESSON_KEY).profile == rule
        bad_signature(accept, raw, LESSON_KEY, other)
    receipt = accept(jcs(valid), LESSON_KEY, rule)
    assert (receipt.agent, receipt.sequence, receipt.previous) == ("contoso-travel-bot", 0, None)
    assert receipt.time == "2026-04-25T14:30:00Z"
    assert receipt.unsigned == ("signature.alg", "signature.public_key")
    bad_signature(accept, jcs(found["02-tampered"]), LESSON_KEY)
    attacked = found["04-attacker-resigned"]
    bad_signature(accept, jcs(attacked), LESSON_KEY)
    hint = read(attacked).key_hint
    assert hint is not None
    assert accept(jcs(attacked), hint).profile == rule  # self-consistent, which proves nothing


def test_published_lesson_chains(lesson_set: tuple[dict[str, Any], str, str]) -> None:
    found, rule, other = lesson_set

    def chain(name: str) -> list[Receipt]:
        receipts = [accept(jcs(document), LESSON_KEY) for document in found[name]]
        assert {receipt.profile for receipt in receipts} == {rule}
        for document in found[name]:
            bad_signature(accept, jcs(document), LESSON_KEY, other)
        return receipts

    def breaks(receipts: list[Receipt]) -> list[int]:
        before = [None, *(receipt.link_hash for receipt in receipts)]
        pairs = zip(before, receipts, strict=False)
        return [at for at, (hash_, receipt) in enumerate(pairs) if receipt.previous != hash_]

    whole = chain("03-chain")
    assert breaks(whole) == []
    assert [receipt.sequence for receipt in whole] == [0, 1, 2]
    gap = chain("03b-chain-gap")
    assert breaks(gap) == [1]
    assert [receipt.sequence for receipt in gap] == [0, 2]
    assert breaks(chain("03c-chain-resigned-middle")) == [2]
    cut = chain("03d-chain-tail-cut")  # only an outside record of the head can tell
    assert breaks(cut) == []
    assert len(cut) == 2


# Published receipts of draft-farley.

# What index.json expects of these depends on when a key was valid, which this module does not know:
# it answers for a signature and a key. Key windows, revocation and a claimed time that an outside
# commitment contradicts are for whoever keeps the keys and the log.
LEFT_TO_KEY_MANAGEMENT = {
    "argentum-superseded-reject.json": "signature holds; issued after the key's valid_until",
    "keywindow-at-valid-until.json": "signature holds; issued at valid_until, which is excluded",
    "keywindow-after.json": "signature holds; after valid_until (valid where no window is given)",
    "keywindow-before.json": "signature holds; issued before the key's valid_from",
    "revocation-after.json": "signature holds; issued after the key was revoked",
    "timeliness-receipt.json": "signature holds; its time contradicts a logged commitment",
}
# No key from outside is given for these, so no verdict; none of their embedded keys may be read.
EMBEDDED_KEY_ONLY = {
    "embedded-acta-envelope.json": None,
    "embedded-decision-receipt.json": Reason.UNKNOWN_PROFILE,  # an older flat shape
    "embeddedreject-001-passport.json": Reason.INVALID_FIELD,  # kid is not the issuer
    "embeddedreject-002-v1-flat.json": Reason.UNKNOWN_PROFILE,
    "embeddedreject-003-v2.json": Reason.UNKNOWN_PROFILE,
    "embeddedreject-004-jwk.json": Reason.INVALID_FIELD,
}


def farley_cases(vectors: Path) -> tuple[Path, list[dict[str, Any]]]:
    folder = vectors / "receipts" / "draft-farley" / "rebuilt"
    return folder, json.loads((folder / "index.json").read_bytes())["cases"]


def key_of(folder: Path, jwks: str, kid: str | None) -> bytes:
    keys = json.loads((folder / jwks).read_bytes())["keys"]
    (found,) = (key["x"] for key in keys if key["kid"] == kid)
    return base64.urlsafe_b64decode(found + "=")


def test_published_draft_receipts(vectors: Path) -> None:
    folder, cases = farley_cases(vectors)
    answered, left = set(), set()
    for case in cases:
        for name in case["file"].split(" logged_at ")[0].split(" + "):
            if case["jwks"] is None or name == "timeliness-commitment.json":
                continue
            answered.add(name)
            raw = (folder / name).read_bytes()
            if name.startswith("signinginput-") and case["expect"] == "invalid":
                error = refused(accept, raw, bytes(32), reason=Reason.INVALID_FIELD)
                assert "payload.signature is forbidden" in error.message
                continue
            first = next(readings(raw, PROFILES))
            assert first.profile == "draft-farley-04"
            key = key_of(folder, case["jwks"], first.kid)
            if name == "argentum-drift-reject.json":  # signed over pretty-printed JSON
                bad_signature(verify_signature, first, key)
                continue
            verify_signature(first, key)
            if case["expect"] != "valid":
                left.add(name)
    assert len(answered) == 17
    assert left == set(LEFT_TO_KEY_MANAGEMENT)


def test_published_draft_chain_and_commitment(vectors: Path) -> None:
    folder, _ = farley_cases(vectors)
    one, two = (
        next(readings((folder / f"timeliness-{name}.json").read_bytes(), PROFILES))
        for name in ("genesis", "receipt")
    )
    assert one.previous is None
    assert two.previous == one.link_hash
    assert one.chain == two.chain
    commitment = (folder / "timeliness-commitment.json").read_bytes()
    terminal = json.loads(commitment)["payload"]["terminal_hash"]
    assert terminal == "sha256:" + one.link_hash.hex()
    # A commitment is of the same envelope and no receipt: it says no time.
    error = refused(next, readings(commitment, PROFILES), reason=Reason.INVALID_FIELD)
    assert "payload.issued_at" in error.message


def test_published_receipts_with_embedded_keys(vectors: Path) -> None:
    folder, cases = farley_cases(vectors)
    assert {case["file"] for case in cases if case["jwks"] is None} == set(EMBEDDED_KEY_ONLY)
    for name, reason in EMBEDDED_KEY_ONLY.items():
        iterator = readings((folder / name).read_bytes(), PROFILES)
        if reason is not None:
            refused(next, iterator, reason=reason)
            continue
        receipt = next(iterator)
        assert (receipt.key_hint, receipt.kid) == (None, "conformance")
        bad_signature(verify_signature, receipt, ALICE.key)


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
