"""What only some formats have: envelopes, digests, cosignatures, pairs, other contents and links."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, derive_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from receiptledger.core import p256
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profile, Profiles
from receiptledger.core.receipt import (
    Receipt,
    authenticate,
    first_readings,
    holds,
    readings,
    verify_signature,
)
from tests.helpers.agents import Agent
from tests.helpers.forge import did_key
from tests.helpers.profile_data import made_up, part, signed, toml
from tests.helpers.receipts import jcs

ALICE, BOB = Agent("alice", 1), Agent("bob", 2)
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
CURVE_KEY = derive_private_key(7, SECP256R1())


def url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(who: Agent, data: bytes) -> bytes:
    return who.sign(data)


def read(value: Any, profile: Profile) -> Receipt:
    raw = value if isinstance(value, bytes) else jcs(value)
    return next(readings(raw, Profiles([profile])))


def refused(value: Any, profile: Profile, reason: Reason = Reason.INVALID_FIELD) -> str:
    with pytest.raises(ReceiptError) as caught:
        read(value, profile)
    assert caught.value.reason is reason
    return str(caught.value)


BODY = {"kind": "k", "agent": "a"}


def flat(body: dict[str, Any] = BODY, **more: Any) -> dict[str, Any]:
    return {**body, "sig": sign(ALICE, jcs(body)).hex(), **more}


# Links and contents.


def test_without_links_a_receipt_is_named_by_its_bytes() -> None:
    receipt = read(flat(), made_up())
    assert not receipt.linked
    assert receipt.previous is None
    assert receipt.link_hash == receipt.receipt_hash
    verify_signature(receipt, ALICE.public_key)


def test_what_anybody_may_add_makes_no_other_content() -> None:
    profile = made_up(signed=signed(part("body", "drop = []")), agent='"body.agent"')
    honest = {"kind": 1, "body": BODY, "sig": sign(ALICE, jcs(BODY)).hex()}
    one, other = read(honest, profile), read({**honest, "note": "x"}, profile)
    assert other.unsigned == ("kind", "note")
    assert one.receipt_hash != other.receipt_hash
    assert one.content_hash == other.content_hash
    again = {**honest, "sig": sign(BOB, jcs(BODY)).hex()}
    assert read(again, profile).content_hash != one.content_hash


def test_members_that_are_not_signed_because_they_are_null_make_no_other_content() -> None:
    profile = made_up(signed=signed(part(nulls="drop-deep")), unsigned='"refuse"')
    one = read(flat(), profile)
    for more in ({"x": None}, {"x": {}, "y": None}):
        body = {name: item for name, item in {**BODY, **more}.items() if item is not None}
        other = {**BODY, **more, "sig": sign(ALICE, jcs(body)).hex()}
        receipt = read(other, profile)
        verify_signature(receipt, ALICE.public_key)
        assert (receipt.content_hash == one.content_hash) is (body == BODY)


LINK = '{{ path = "prev", of = {of}, encoding = "{encoding}", genesis = ["null"] }}'


@pytest.mark.parametrize(
    ("of", "encoding", "expected"),
    [
        ('"full", canon = "jcs"', "sha256:hex", jcs),
        (
            '"full", canon = "py"',
            "hex",
            lambda v: json.dumps(v, sort_keys=True, separators=(",", ":")),
        ),
        (f"{{ {part()} }}", "base64url", lambda v: jcs({n: v[n] for n in v if n != "sig"})),
    ],
)
def test_links(of: str, encoding: str, expected: Any) -> None:
    profile = made_up(previous=LINK.format(of=of, encoding=encoding))
    body = {**BODY, "n": 1.0, "prev": None}
    value = {**body, "sig": sign(ALICE, jcs(body)).hex()}
    data = expected(value)
    raw = json.dumps(value).encode()
    receipt = read(raw, profile)
    assert receipt.linked
    assert receipt.link_hash == sha256(data.encode() if isinstance(data, str) else data).digest()


def test_a_link_that_is_a_members_text() -> None:
    digests = (
        f'[{{ path = "hash", of = {{ {part(names="keep = [&]")} }}, encoding = "sha256:hex" }}]'
    )
    digests = digests.replace("&", '"agent", "prev"')
    profile = made_up(
        signed='{ text = "hash", prehash = "none", domain = "", forbid = [] }',
        digests=digests,
        previous=LINK.format(of='{ text = "hash" }', encoding="sha256:hex"),
    )
    inner = {"agent": "a", "prev": None}
    text = "sha256:" + sha256(jcs(inner)).hexdigest()
    value = {**inner, "kind": "k", "hash": text, "sig": sign(ALICE, text.encode()).hex()}
    receipt = read(value, profile)
    verify_signature(receipt, ALICE.public_key)
    assert "sha256:" + receipt.link_hash.hex() == text
    assert receipt.unsigned == ("kind",)
    assert "does not fit" in refused({**value, "agent": "b"}, profile)
    assert "hex digits" in refused({**value, "hash": "sha256:00"}, profile)
    assert "hex digits" in refused({**value, "hash": 1}, profile)
    assert "hex digits" in refused({name: value[name] for name in value if name != "hash"}, profile)


# Signing inputs.


def test_domains_prehashes_and_prefixes() -> None:
    data = jcs(BODY)
    for inner, prehash, expected in (
        (part(domain="D\\u0000"), "none", b"D\0" + data),
        (part(domain="D"), "sha256", b"D" + sha256(data).digest()),
        (part(), "sha256", sha256(data).digest()),
    ):
        profile = made_up(signed=signed(inner, prehash=prehash))
        assert read(flat(), profile).signing_input == expected
    prefixed = signed(f'prefix = "head", {part("body", "drop = []")}')
    profile = made_up(signed=prefixed, agent='"body.agent"')
    value = {"kind": 1, "body": BODY, "head": "abc", "sig": "00" * 64}
    assert read(value, profile).signing_input == b"abc." + data
    assert read(value, profile).unsigned == ("kind",)
    assert "member head" in refused({**value, "head": 1}, profile)


def test_blanked_members_are_not_signed() -> None:
    blank = '[{ path = "s.sig", value = "" }, { path = "s.kid", value = "null" }, { path = "t.x", value = "" }, { path = "none", value = "" }]'
    profile = made_up(
        signed=signed(part(names="drop = []", blank=blank)),
        signature='{ path = "s.sig", encoding = "hex" }',
    )
    value = {**BODY, "s": {"sig": "00" * 64, "kid": "k", "v": 1}, "t": 1}
    receipt = read(value, profile)
    assert receipt.signing_input == jcs({**BODY, "s": {"sig": "", "kid": None, "v": 1}, "t": 1})
    assert receipt.unsigned == ("s.kid",)


def test_nulls_of_the_part_itself() -> None:
    profile = made_up(signed=signed(part(nulls="drop", kept='["kept"]')))
    value = {
        **BODY,
        "x": None,
        "kept": None,
        "deep": {"y": None},
        "list": [{"z": None}],
        "sig": "00" * 64,
    }
    expected = {**BODY, "kept": None, "deep": {"y": None}, "list": [{"z": None}]}
    assert read(value, profile).signing_input == jcs(expected)
    deep = made_up(signed=signed(part(nulls="drop-deep")))
    expected = {**BODY, "deep": {}, "list": [{}]}
    assert read(value, deep).signing_input == jcs(expected)


def test_bytes_as_carried() -> None:
    profile = made_up(
        signed=signed(part("body", "drop = []", canon="as-carried")), agent='"body.agent"'
    )
    raw = b'{"kind": 1, "body": { "z" : 1.50, "agent":"a b" }, "sig": "%s"}' % (b"00" * 64)
    assert read(raw, profile).signing_input == b'{"z":1.50,"agent":"a b"}'
    assert "member body" in refused({"kind": 1, "body": "x", "sig": "00" * 64}, profile)


# Keys, agents, algorithms.


def test_an_agent_that_is_its_key() -> None:
    profile = made_up(agent="{ key = true }", key_hint='{ path = "key", encoding = "hex" }')
    body = {"kind": "k", "key": ALICE.public_key.hex()}
    assert read(flat(body), profile).agent == url(ALICE.public_key)


def es256(data: bytes) -> bytes:
    return p256.signature_from_der(CURVE_KEY.sign(data, ECDSA(SHA256())))


def test_an_ecdsa_signature_and_its_twin_are_one_content() -> None:
    profile = made_up(
        algorithm='{ path = "alg", values = { EdDSA = "Ed25519", ES256 = "ES256" } }',
        signature='{ path = "sig", encodings = { Ed25519 = "hex", ES256 = "der-hex" } }',
        unsigned='"refuse"',
    )
    body = {**BODY, "alg": "ES256"}
    signature = es256(jcs(body))
    number = ORDER - int.from_bytes(signature[32:], "big")
    twin = signature[:32] + number.to_bytes(32, "big")
    numbers = CURVE_KEY.public_key().public_numbers()
    key = b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
    one, other = (
        read({**body, "sig": p256.signature_to_der(each).hex()}, profile)
        for each in (signature, twin)
    )
    for receipt in (one, other):
        assert receipt.algorithm == "ES256"
        assert holds(receipt, key)
        assert not holds(receipt, ALICE.public_key)
    assert one.content_hash == other.content_hash
    assert one.receipt_hash != other.receipt_hash
    assert "DER" in refused({**body, "sig": "00" * 64}, profile)
    assert "DER" in refused({**body, "sig": "00" * 200}, profile)
    refused({**body, "alg": "RS256", "sig": ""}, profile, Reason.UNSUPPORTED_ALGORITHM)


# Cosignatures.

COSIGN = """[{ name = "parent", when = [{ path = "tags", exists = true }],
 signed = { base = "", drop = ["sig", "parent_sig", "parent_key"], set = [], nulls = "keep", keep_nulls = [], canon = "jcs", prehash = "none", domain = "", forbid = [] },
 algorithm = { is = "Ed25519" }, signature = { path = "parent_sig", encoding = "hex" }, key_hint = HINT, kid = "none" }]""".replace(
    "\n", ""
)
OUTSIDE = signed(part(names='drop = ["sig", "parent_sig", "parent_key"]'))


def cosigned(hint: str = '{ path = "parent_key", encoding = "hex" }') -> Profile:
    return made_up(cosign=COSIGN.replace("HINT", hint), signed=OUTSIDE, unsigned='"refuse"')


def test_a_cosignature_must_hold_when_it_is_asked_for() -> None:
    body = {**BODY, "tags": ["x"]}
    parent = {"parent_sig": sign(BOB, jcs(body)).hex(), "parent_key": BOB.public_key.hex()}
    receipt = read(flat(body, **parent), cosigned())
    assert [one.name for one in receipt.cosignatures] == ["parent"]
    assert holds(receipt, ALICE.public_key)
    for broken in ({"parent_sig": "00" * 64}, {"parent_key": ALICE.public_key.hex()}):
        wrong = read(flat(body, **{**parent, **broken}), cosigned())
        assert not holds(wrong, ALICE.public_key)
        with pytest.raises(ReceiptError, match="signature of the parent"):
            verify_signature(wrong, ALICE.public_key)
        with pytest.raises(ReceiptError, match="signature of the parent"):
            authenticate(wrong, iter(()), ALICE.public_key)
    assert "parent_sig" in refused(flat(body), cosigned())
    assert read(flat(), cosigned()).cosignatures == ()


def test_a_cosigner_that_signs_again_makes_no_other_content() -> None:
    """Else the cosigner could make a fork of the signer's chain."""
    body = {**BODY, "tags": []}
    one, other = (
        read(
            flat(body, parent_sig=sign(who, jcs(body)).hex(), parent_key=who.public_key.hex()),
            cosigned(),
        )
        for who in (ALICE, BOB)
    )
    assert one.receipt_hash != other.receipt_hash
    assert one.content_hash == other.content_hash


def test_a_cosignature_has_no_forbidden_members() -> None:
    with pytest.raises(ValueError, match=r"cosign\[0\].signed.forbid must be empty"):
        made_up(cosign=COSIGN.replace("HINT", '"none"').replace("forbid = []", 'forbid = ["x"]'))


def test_a_key_that_stands_for_the_agent_must_be_in_the_receipt() -> None:
    with pytest.raises(ValueError, match="agent must be a path"):
        made_up(agent="{ key = true }")


def test_a_batch_whose_first_format_cannot_read_it() -> None:
    """Two formats match; the one that reads it is found, and the words are those of one by one."""
    first = made_up(id='"first"', agent='"who"')
    profiles = Profiles([first, made_up()])
    raws = [jcs(flat()), jcs({"kind": 1, "sig": "00" * 64})]
    good, bad = first_readings(raws, profiles)
    assert isinstance(good, Receipt)
    assert good.profile == "made-up"
    assert isinstance(bad, ReceiptError)
    assert "member who" in bad.message


def test_an_operators_formats_come_after_ours() -> None:
    text = toml()
    profiles = Profiles.with_folder([("mine.toml", text)])
    assert profiles.ids() == (*Profiles.builtin().ids(), "made-up")
    assert Profiles.with_folder([]) is Profiles.builtin()
    with pytest.raises(ValueError, match=r"^other.toml: the receipt format made-up exists already"):
        Profiles.with_folder([("mine.toml", text), ("other.toml", text)])
    with pytest.raises(ValueError, match="ms-lesson18 exists already"):
        Profiles.with_folder([("mine.toml", toml(id='"ms-lesson18"'))])


def test_a_cosigner_without_a_key_at_hand_is_left_to_who_knows_it() -> None:
    body = {**BODY, "tags": []}
    receipt = read(flat(body, parent_sig="00" * 64), cosigned('"none"'))
    verify_signature(receipt, ALICE.public_key)
    assert receipt.cosignatures[0].key_hint is None


# Pairs.


def test_pairs() -> None:
    either = made_up(pair='{ role = "either", id = "link", ref = "for" }')
    intent, outcome = read(flat(), either), read(flat({**BODY, "for": "x"}), either)
    assert intent.pair is not None
    assert (intent.pair.role, intent.pair.ref) == ("intent", None)
    assert intent.pair.id == "sha256:" + intent.receipt_hash.hex()
    assert outcome.pair is not None
    assert (outcome.pair.role, outcome.pair.ref) == ("outcome", "x")
    named = made_up(pair='{ role = "intent", id = "call" }')
    pair = read(flat({**BODY, "call": "c1"}), named).pair
    assert pair is not None
    assert (pair.role, pair.id, pair.ref) == ("intent", "c1", None)
    by_bytes = made_up(pair='{ role = "outcome", id = "receipt", ref = "for" }')
    assert "names no intent" in refused(flat(), by_bytes)
    assert "member for" in refused(flat({**BODY, "for": 1}), by_bytes)


# Envelopes.

INSIDE = {"kind": "k", "agent": "a"}


def test_a_receipt_that_is_a_member_of_another_object() -> None:
    profile = made_up(
        unwrap='{ kind = "member", path = "a.detail" }',
        detect='[{ path = "a.detail", exists = true }]',
    )
    value = {"v": 1, "a": {"detail": flat(sig2=1), "t": 2}}
    profile_open = made_up(
        unwrap='{ kind = "member", path = "a.detail" }',
        detect='[{ path = "a.detail", exists = true }]',
        signed=signed(part(names='drop = ["sig", "sig2"]')),
    )
    receipt = read(value, profile_open)
    verify_signature(receipt, ALICE.public_key)
    assert receipt.raw == jcs(value)
    assert receipt.unsigned == ("v", "a.t", "sig2")
    assert receipt.link_hash == receipt.receipt_hash
    assert "member a.detail" in refused({"v": 1, "a": {"detail": 1}}, profile)


DSSE = made_up(
    unwrap='{ kind = "dsse", payload_type = "application/x", signature = 1 }',
    detect='[{ path = "payloadType", exists = true }]',
    signed='"envelope"',
    signature='"envelope"',
)


def dsse(payload: bytes = jcs(INSIDE), **more: Any) -> dict[str, Any]:
    encoded = b"DSSEv1 13 application/x %d %s" % (len(payload), payload)
    return {
        "payloadType": "application/x",
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"sig": "eA=="},
            {"keyid": "k", "sig": base64.b64encode(sign(ALICE, encoded)).decode()},
        ],
        **more,
    }


def test_dsse() -> None:
    receipt = read(dsse(extra=1), DSSE)
    verify_signature(receipt, ALICE.public_key)
    assert receipt.agent == "a"
    assert receipt.unsigned == ("extra", "signatures[0]", "signatures[1].keyid")
    good = dsse()
    wrong: list[dict[str, Any]] = [
        {"payloadType": "x"}, {"payload": 1}, {"payload": "e30"}, {"payload": "e31="},
        {"payload": "é"}, {"payload": ""}, {"signatures": []}, {"signatures": {}},
        {"signatures": [1, 2]}, {"signatures": [{}, {}]}, {"signatures": [{}, {"sig": "eA=="}]},
    ]  # fmt: skip
    for change in wrong:
        refused({**good, **change}, DSSE)
    refused(dsse(b"[]"), DSSE, Reason.MALFORMED)
    assert "member agent" in refused(dsse(b"{}"), DSSE)


JWS = made_up(
    unwrap='{ kind = "jws", path = "jws" }',
    detect='[{ path = "jws", exists = true }]',
    signed='"envelope"',
    signature='"envelope"',
    algorithm='{ path = "alg", values = { EdDSA = "Ed25519" } }',
)


def jws(header: bytes = b'{"alg":"EdDSA"}', payload: bytes = jcs(INSIDE)) -> str:
    signed_text = f"{url(header)}.{url(payload)}"
    return f"{signed_text}.{url(sign(ALICE, signed_text.encode()))}"


def test_jws() -> None:
    receipt = read({"jws": jws(), "more": 1}, JWS)
    verify_signature(receipt, ALICE.public_key)
    assert (receipt.agent, receipt.unsigned) == ("a", ("more",))
    text = jws()
    for wrong in ("a.b", "a.b.c.d", 1, text + "=", text[:-3], "é" + text, "*" + text[1:]):
        refused({"jws": wrong}, JWS)
    refused({"jws": jws(b'{"alg":"RS256"}')}, JWS, Reason.UNSUPPORTED_ALGORITHM)
    refused({"jws": jws(b"{}")}, JWS)
    refused({"jws": jws(b'{"alg":"EdDSA","crit":["b64"]}')}, JWS)
    refused({"jws": jws(b'{"alg":"EdDSA","b64":false}')}, JWS)
    refused({"jws": jws(b'{"x":"' + b"y" * 5_000 + b'"}')}, JWS, Reason.TOO_LARGE)
    refused({"jws": jws(payload=b"[]")}, JWS, Reason.MALFORMED)


def test_foreign_member_names_are_not_remembered_without_end() -> None:
    profiles = Profiles([made_up()])
    for number in range(1_100):
        assert profiles.candidates({"kind": 1, f"x{number}": 1})
    assert 0 < len(profiles._detection._shapes) <= 1_024
    before = len(profiles._detection._shapes)
    assert profiles.candidates({"kind": 1, "y" * 2_000: 1})
    assert len(profiles._detection._shapes) == before


def test_a_closed_format_with_pairs_keeps_its_content() -> None:
    closed = made_up(unsigned='"refuse"', pair='{ role = "intent", id = "receipt" }')
    assert closed.closed
    receipt = read(flat(), closed)
    assert receipt.content_hash == sha256(jcs(flat())).digest()
    assert receipt.pair is not None


# Nobody without the key makes a second content out of an honest receipt.


def contents(profile: Profile, *values: dict[str, Any]) -> set[bytes]:
    found = set()
    for value in values:
        receipt = read(value, profile)
        verify_signature(receipt, ALICE.public_key)
        found.add(receipt.content_hash)
    return found


def test_a_key_with_several_texts_makes_no_other_content() -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": url(ALICE.public_key)}
    outside = signed(part(names='drop = ["sig", "key"]'))
    profile = made_up(
        signed=outside, key_hint='{ path = "key", encoding = "jwk" }', unsigned='"refuse"'
    )
    assert len(contents(profile, flat(key=jwk), flat(key={**jwk, "kid": "x"}))) == 1
    did = did_key(ALICE.public_key)
    profile = made_up(
        signed=outside, key_hint='{ path = "key", encoding = "did:key" }', unsigned='"refuse"'
    )
    fragment = f"{did}#{did.removeprefix('did:key:')}"
    assert len(contents(profile, flat(key=did), flat(key=fragment))) == 1


def test_equal_members_that_are_both_outside_make_no_other_content() -> None:
    profile = made_up(
        signed=signed(part(names='drop = ["sig", "a", "b"]')),
        equal='[["a", "b"]]',
        unsigned='"refuse"',
    )
    assert len(contents(profile, flat(a="1", b="1"), flat(a="2", b="2"))) == 1


def test_digests_in_another_dialect_make_no_other_content() -> None:
    of = part(names='drop = ["sig", "d"]', canon="py")
    profile = made_up(
        signed=signed(part(names='drop = ["sig", "d"]')),
        digests=f'[{{ path = "d", of = {{ {of} }}, encoding = "hex" }}]',
        unsigned='"refuse"',
    )
    body = {**BODY, "n": 1}
    signature = sign(ALICE, jcs(body)).hex()
    found = set()
    for number in ("1", "1.0"):
        text = f'{{"agent":"a","kind":"k","n":{number}}}'
        digest = sha256(text.encode()).hexdigest()
        raw = f'{text[:-1]},"d":"{digest}","sig":"{signature}"}}'.encode()
        receipt = read(raw, profile)
        verify_signature(receipt, ALICE.public_key)
        found.add(receipt.content_hash)
    assert len(found) == 1


def test_the_agent_of_a_closed_format_can_be_its_key() -> None:
    profile = made_up(
        agent="{ key = true }", key_hint='{ path = "key", encoding = "hex" }', unsigned='"refuse"'
    )
    assert profile.closed
    receipt = read(flat({"kind": "k", "key": ALICE.public_key.hex()}), profile)
    assert receipt.agent == url(ALICE.public_key)


def test_named_members_may_be_in_several_objects() -> None:
    profile = made_up(
        signed=signed(part(names='drop = ["s", "k"]')),
        signature='{ path = "s.sig", encoding = "hex" }',
        key_hint='{ path = "k.inner.key", encoding = "hex" }',
        unsigned='"refuse"',
    )
    value = {
        **BODY,
        "s": {"sig": sign(ALICE, jcs(BODY)).hex()},
        "k": {"inner": {"key": ALICE.public_key.hex()}},
    }
    assert read(value, profile).unsigned == ("k.inner.key",)
    for more in ({"s": {**value["s"], "x": 1}}, {"k": {**value["k"], "x": 1}}):
        assert "outside the signed bytes" in refused({**value, **more}, profile)


DETECTED = [
    ('{ path = "a.b", exists = true }', {"a": {"b": 1}}, [{}, {"a": 1}, {"a": {}}, {"c": {"b": 1}}]),
    ('{ path = "a.b", absent = true }', {"a": {"c": 1}}, [{"a": {"b": None}}]),
    ('{ path = "a.b", absent = true }', {}, []),
    ('{ path = "a.b.c", exists = true }', {"a": {"b": {"c": 1}}}, [{"a": {"b": {}}}, {"a": {"b": 1}}]),
    ('{ path = "a", absent = true }', {"b": 1}, [{"a": None}]),
    ('{ path = "a.b", number = 2 }', {"a": {"b": 2}}, [{"a": {"b": 2.5}}, {"a": {"b": True}}, {"a": {}}]),
    ('{ path = "a", one_of = ["x", "y"] }', {"a": "y"}, [{"a": "z"}, {"a": None}, {}]),
    ('{ path = "a", is = "null" }', {"a": None}, [{"a": 1}, {}]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "good", "others"), DETECTED)
@pytest.mark.parametrize("more", [{}, {"p": 1, "q": 1, "r": {}, "s": 1}], ids=["envelope", "flat"])
def test_what_is_told_by_names_and_what_by_values(
    rule: str, good: dict[str, Any], others: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    profiles = Profiles([made_up(detect=f"[{rule}]")])
    for _ in range(2):  # the second time from memory
        assert profiles.candidates({**good, **more})
        for other in others:
            assert not profiles.candidates({**other, **more}), other


def test_a_later_reading_that_cannot_be_decided_is_what_is_told() -> None:
    """Neither good nor bad: an algorithm this machine cannot check is no bad signature."""
    receipt = read(flat(), made_up())
    other = replace(receipt, algorithm="unheard-of")
    with pytest.raises(ReceiptError) as caught:
        authenticate(replace(receipt, signature=bytes(64)), iter([other]), ALICE.public_key)
    assert caught.value.reason is Reason.UNSUPPORTED_ALGORITHM
