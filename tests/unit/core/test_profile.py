"""Receipt formats as data: the built-in ones, detection, and everything a format's data may not say."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from receiptledger.core import profiles as data
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profile, Profiles, compile_profile
from tests.helpers.receipts import farley, lesson18

BASE = """
id = "made-up"
version = 3
title = "A format of our own"
detect = [{ path = "kind", equals = "made-up" }]
unwrap = "none"
equal = []
signed = { base = "body", drop = ["note"], set = [], nulls = "keep", keep_nulls = [], canon = "jcs", prehash = "none", domain = "", forbid = [] }
digests = []
signature = { path = "proof.sig", encoding = "hex" }
algorithm = { path = "proof.alg", values = { EdDSA = "Ed25519" } }
cosign = []
unsigned = "list"
key_hint = { path = "proof.key", encoding = "base64url" }
kid = "proof.kid"
agent = "body.agent"
stream = ["body.host", "body.run"]
sequence = { path = "body.n", start = 1, step = 2 }
time = { path = "body.at", form = "rfc3339" }
previous = { path = "body.prev", of = "full", canon = "jcs", encoding = "sha256:hex", genesis = ["omitted"] }
pair = "none"
"""


def load(text: str = BASE) -> Profile:
    return compile_profile(text, "made-up.toml")


def changed(old: str, new: str) -> str:
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


def test_the_built_in_formats() -> None:
    profiles = Profiles.builtin()
    assert profiles is Profiles.builtin()
    assert profiles.ids() == tuple(name.removesuffix(".toml") for name in data.SOURCES)
    assert {profiles.get(name).version for name in profiles.ids()} == {1}
    for name in profiles.ids():
        assert profiles.get(name).id == name
        assert profiles.get(name).title


def test_every_file_of_the_package_is_a_format_in_the_list() -> None:
    names = {item.name for item in files(data).iterdir() if item.name.endswith(".toml")}
    assert names == set(data.SOURCES)
    assert [name for name, _ in data.read_sources()] == list(data.SOURCES)
    for name, text in data.read_sources():
        assert tomllib.loads(text)["id"] == name.removesuffix(".toml")


def test_the_two_rules_of_lesson_18_differ_only_in_the_hash() -> None:
    texts = dict(data.read_sources())
    current = tomllib.loads(texts["ms-lesson18.toml"])
    older = tomllib.loads(texts["ms-lesson18-prehash.toml"])
    assert current["signed"].pop("prehash") == "none"
    assert older["signed"].pop("prehash") == "sha256"
    for member in ("id", "title"):
        assert current.pop(member) != older.pop(member)
    assert current == older


def test_detection() -> None:
    profiles = Profiles.builtin()

    def found(value: dict[str, Any]) -> list[str]:
        return [profile.id for profile in profiles.candidates(value)]

    lesson, draft = lesson18(), farley()
    assert found(lesson) == ["ms-lesson18", "ms-lesson18-prehash"]
    assert found(draft) == ["draft-farley-04", "draft-farley-02"]
    assert found({**lesson, **draft}) == [*found(lesson), *found(draft)]
    assert found({}) == []
    assert found({"type": ["agent.tool_call.v1"]}) == []
    assert found({"payload": draft["payload"], "signature": draft["signature"]["sig"]}) == []
    assert found({"payload": "text", "signature": draft["signature"]}) == []


def test_find_names_what_is_missing() -> None:
    profiles = Profiles.builtin()
    assert profiles.find(lesson18()) == profiles.candidates(lesson18())
    assert profiles.find(lesson18(), "ms-lesson18-prehash") == (
        profiles.get("ms-lesson18-prehash"),
    )
    with pytest.raises(ReceiptError) as caught:
        profiles.find({"b": "secret", "a": 1})
    assert caught.value.reason is Reason.UNKNOWN_PROFILE
    assert caught.value.got == "the members 'a, b'"
    assert caught.value.want == "one of " + ", ".join(profiles.ids())

    with pytest.raises(ReceiptError) as caught:
        profiles.find(lesson18(), "no-such\nformat" + "x" * 500)
    assert caught.value.reason is Reason.UNKNOWN_PROFILE
    assert len(caught.value.got or "") == 80

    with pytest.raises(ReceiptError) as caught:
        profiles.find(lesson18(), "draft-farley-04")
    assert caught.value.reason is Reason.INVALID_FIELD
    assert caught.value.want == "a member payload.issuer_id"


def test_rules_of_detection() -> None:
    rule = 'detect = [{ path = "kind", equals = "made-up" }]'

    def matches(rules: str, value: dict[str, Any]) -> bool:
        return bool(Profiles([load(changed(rule, f"detect = {rules}"))]).candidates(value))

    prefix = '[{ path = "a.kind", prefix = "made-" }]'
    assert matches(prefix, {"a": {"kind": "made-up"}})
    for kind in ("mad", "x-made-", None, 1, ["made-"], {"made-": 1}):
        assert not matches(prefix, {"a": {"kind": kind}})
    both = '[{ path = "a", exists = true }, { path = "b", equals = "1" }]'
    assert matches(both, {"a": None, "b": "1"})
    for value in ({"a": None}, {"b": "1"}, {"a": None, "b": 1}):
        assert not matches(both, value)
    with pytest.raises(ReceiptError, match="starting with 'made-'"):
        load(changed(rule, f"detect = {prefix}")).require({})
    with pytest.raises(ReceiptError, match="equal to '1'"):
        load(changed(rule, f"detect = {both}")).require({"a": 1})


def test_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="two receipt formats have the id made-up"):
        Profiles([load(), load()])


def test_a_format_compiles_to_its_readers() -> None:
    profile = load()
    body = {
        "agent": "a", "host": "h", "run": "r", "n": 7,
        "at": "2026-04-25T14:30:00Z", "prev": "sha256:" + "01" * 32, "note": "n",
    }  # fmt: skip
    proof = {"alg": "EdDSA", "sig": "02" * 64, "kid": "k", "key": "A" * 43}
    value = {"kind": "made-up", "body": body, "proof": proof}
    assert (profile.id, profile.version, profile.title) == ("made-up", 3, "A format of our own")
    assert profile.agent is not None
    assert profile.agent(value) == "a"
    assert not profile.closed
    assert profile.stream(value) == '["h","r"]'
    assert profile.sequence(value) == 7
    assert (profile.sequence_start, profile.sequence_step) == (1, 2)
    assert profile.time(value) == "2026-04-25T14:30:00Z"
    assert profile.previous(value) == b"\x01" * 32
    assert profile.main.algorithm(value) == "Ed25519"
    assert profile.main.signature["Ed25519"](value) == b"\x02" * 64
    assert profile.main.kid(value) == "k"
    assert profile.main.key_hint(value) == bytes(32)
    assert profile.unsigned(value) == ("kind", "proof.alg", "proof.key", "proof.kid", "body.note")


def test_what_a_format_says_it_has_not() -> None:
    text = BASE
    for line in ("key_hint = ", "kid = ", "sequence = ", "time = "):
        before, _, rest = text.partition("\n" + line)
        text = f'{before}\n{line}"none"\n{rest.partition(chr(10))[2]}'
    profile = load(text.replace('["body.host", "body.run"]', "[]"))
    assert profile.stream({}) == ""
    assert (profile.sequence({}), profile.sequence_start, profile.sequence_step) == (None, 0, 1)
    assert (profile.time({}), profile.main.key_hint({}), profile.main.kid({})) == (None, None, None)


def test_only_some_members_signed() -> None:
    signed = 'signed = { base = "body", drop = ["note"],'
    keep = '["run", "prev", "n", "host", "at", "agent"]'
    profile = load(changed(signed, f'signed = {{ base = "body", keep = {keep},'))
    value = {"body": {"agent": "a", "other": 1}, "proof": {"sig": ""}}
    assert profile.unsigned(value) == ("body.other",)
    with pytest.raises(ValueError, match="member agent must be inside the signed bytes"):
        load(changed(signed, f'signed = {{ base = "body", keep = {keep.replace("agent", "x")},'))


MEMBERS = [
    "id", "version", "title", "detect", "unwrap", "equal", "signed", "digests", "signature",
    "algorithm", "cosign", "unsigned", "key_hint", "kid", "agent", "stream", "sequence", "time",
    "previous", "pair",
]  # fmt: skip


def test_the_list_of_members_is_complete() -> None:
    assert set(tomllib.loads(BASE)) == set(MEMBERS)


@pytest.mark.parametrize("member", MEMBERS)
def test_no_member_may_be_missing(member: str) -> None:
    lines = [line for line in BASE.splitlines() if not line.startswith(member + " ")]
    with pytest.raises(ValueError, match=f"^made-up.toml: member {member} must be present$"):
        load("\n".join(lines))


INNER = [
    ("signed", "base"), ("signed", "drop"), ("signed", "set"), ("signed", "nulls"),
    ("signed", "keep_nulls"), ("signed", "canon"), ("signed", "prehash"), ("signed", "domain"),
    ("signed", "forbid"), ("signature", "path"),
    ("algorithm", "path"), ("algorithm", "values"), ("key_hint", "path"), ("key_hint", "encoding"),
    ("sequence", "path"), ("sequence", "start"), ("sequence", "step"), ("time", "path"),
    ("time", "form"), ("previous", "path"), ("previous", "of"), ("previous", "canon"),
    ("previous", "encoding"), ("previous", "genesis"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "member"), INNER)
def test_no_inner_member_may_be_missing_or_unknown(table: str, member: str) -> None:
    line = next(line for line in BASE.splitlines() if line.startswith(f"{table} = "))
    assert line.count(f" {member.strip()} = ") == 1
    member = member.strip()
    other = line.replace(f" {member} = ", f" {member}s = ")
    label = f"member {table}.{member} must be present"
    with pytest.raises(ValueError, match=rf"^made-up.toml: {label}$"):
        load(changed(line, other))
    more = line.replace(f" {member} = ", f" {member}s = 1, {member} = ")
    label = f"member {table}.{member}s must be left out"
    with pytest.raises(ValueError, match=rf"^made-up.toml: {label}"):
        load(changed(line, more))


WRONG = [
    ("not TOML", 'id = "made-up"', "id = made-up", "Invalid value"),
    ("unknown", 'id = "made-up"', 'id = "made-up"\nident = "x"', "member ident must be left out"),
    ("id", 'id = "made-up"', 'id = "Made up"', "member id must be text of the form"),
    ("id type", 'id = "made-up"', "id = 1", "member id must be text"),
    ("version 0", "version = 3", "version = 0", "member version must be an integer 1..1000000"),
    ("version type", "version = 3", "version = true", "member version must be an integer"),
    ("version text", "version = 3", 'version = "3"', "member version must be an integer"),
    ("title", '"A format of our own"', '""', "member title must be text"),
    ("no rule", '[{ path = "kind", equals = "made-up" }]', "[]", "detect must be an array that"),
    ("rule type", '[{ path = "kind", equals = "made-up" }]', "[1]", "member detect must be a table"),
    ("rules type", '[{ path = "kind", equals = "made-up" }]', '"x"', "detect must be an array"),
    ("rule empty", 'path = "kind", equals = "made-up"', 'path = "kind"', r"detect\[0\].exists must"),
    ("rule false", 'equals = "made-up"', "exists = false", r"detect\[0\].exists must be true"),
    ("rule two", 'equals = "made-up"', 'equals = "a", prefix = "a"', r"detect\[0\].prefix must be"),
    ("rule path", 'path = "kind"', 'path = "ki..nd"', r"detect\[0\].path must be names joined"),
    ("rule value", 'equals = "made-up"', "equals = 1", r"detect\[0\].equals must be text"),
    ("pairs", "equal = []", 'equal = ["a"]', "member equal must be an array of pairs"),
    ("pair of one", "equal = []", 'equal = [["a"]]', "member equal must be an array of pairs"),
    ("pair of numbers", "equal = []", "equal = [[1, 2]]", "member equal must be names joined"),
    ("equal type", "equal = []", 'equal = "a"', "member equal must be an array"),
    ("base", 'base = "body"', 'base = "."', "signed.base must be names joined by dots"),
    ("drop path", 'drop = ["note"]', 'drop = ["a.b"]', "signed.drop must be an array of names"),
    ("drop and keep", 'drop = ["note"]', 'drop = [], keep = ["n"]', "signed.drop must be left out"),
    ("canon", 'keep_nulls = [], canon = "jcs"', 'keep_nulls = [], canon = "x"', "signed.canon must be one of jcs"),
    ("carried", 'keep_nulls = [], canon = "jcs"', 'keep_nulls = [], canon = "as-carried"', "signed.canon must be another"),
    ("nulls", 'nulls = "keep"', 'nulls = "all"', "signed.nulls must be one of keep, drop, drop-deep"),
    ("set outside", "set = []", 'set = [{ path = "x", value = "" }]', "path must be a member inside base"),
    ("set base", "set = []", 'set = [{ path = "body", value = "" }]', "path must be a member inside base"),
    ("set value", "set = []", 'set = [{ path = "body.x", value = "y" }]', 'value must be empty, or "null"'),
    ("domain", 'domain = ""', "domain = 1", "signed.domain must be text"),
    ("text", 'base = "body", drop = ["note"], set = [], nulls = "keep", keep_nulls = [], canon = "jcs"', 'text = "body.agent"', "signed.text must be the path of one of the digests"),
    ("unwrap", 'unwrap = "none"', 'unwrap = { kind = "cose" }', "unwrap.kind must be one of member, dsse, jws"),
    ("unwrap type", 'unwrap = "none"', "unwrap = 1", "unwrap must be a table"),
    ("jws path", 'unwrap = "none"', 'unwrap = { kind = "jws", path = "a.b" }', "unwrap.path must be text"),
    ("enveloped", 'unwrap = "none"', 'unwrap = { kind = "jws", path = "a" }', "signed must be one of envelope"),
    ("dsse number", 'unwrap = "none"', 'unwrap = { kind = "dsse", payload_type = "t", signature = 99 }', "unwrap.signature must be an integer 0..15"),
    ("digests", "digests = []", "digests = [{}]", r"digests\[0\].path must be present"),
    ("digest domain", "digests = []", 'digests = [{ path = "d", encoding = "hex", of = { base = "", drop = [], set = [], nulls = "keep", keep_nulls = [], canon = "jcs", domain = "x" } }]', "of.domain must be empty"),
    ("cosign", "cosign = []", 'cosign = [{ name = "A" }]', r"cosign\[0\].name must be text"),
    ("agent key", 'agent = "body.agent"', "agent = { key = false }", "agent.key must be true"),
    ("time form", 'form = "rfc3339"', 'form = "iso"', "time.form must be one of rfc3339, unix-ms, unix-s"),
    ("link canon", 'of = "full", canon = "jcs"', 'of = "full", canon = "x"', "previous.canon must be one of jcs"),
    ("link text", 'of = "full", canon = "jcs"', 'of = { text = "h" }', "of.text must be the path of one of the"),
    ("pair", 'pair = "none"', 'pair = { role = "both" }', "pair.role must be one of intent, outcome, either"),
    ("pair id", 'pair = "none"', 'pair = { role = "intent", id = "x.y" }', "pair.id must be inside the signed"),
    ("pair ref", 'pair = "none"', 'pair = { role = "either", id = "link", ref = "x" }', "pair.ref must be inside"),
    ("no rule value", 'equals = "made-up"', "one_of = []", r"detect\[0\].one_of must be an array of at"),
    ("rule twice", 'equals = "made-up"', 'one_of = ["a", "a"]', r"detect\[0\].one_of must be an array of at"),
    ("rule texts", 'equals = "made-up"', "one_of = [1]", r"detect\[0\].one_of must be an array of texts"),
    ("rule number", 'equals = "made-up"', 'number = "1"', r"detect\[0\].number must be an integer"),
    ("rule is", 'equals = "made-up"', 'is = "list"', r"detect\[0\].is must be one of null, text"),
    ("encoding unknown", 'encoding = "hex" }', 'encodin = "hex" }', "signature.encoding must be present"),
    ("encoding more", 'encoding = "hex" }', 'encoding = "hex", x = 1 }', "signature.x must be left out"),
    ("values", 'values = { EdDSA = "Ed25519" }', "values = {}", "algorithm.values must be a table that is"),
    ("encodings", 'encoding = "hex"', 'encodings = { ES256 = "hex" }', "signature.encodings must be one for each"),
    ("der", 'encoding = "hex"', 'encoding = "der-hex"', "signature.encoding must be another one than der-hex"),
    ("prehash", 'prehash = "none"', 'prehash = "md5"', "signed.prehash must be one of none, sha256"),
    ("forbid", "forbid = []", "forbid = [1]", "signed.forbid must be names joined by dots"),
    ("signature inside", '"proof.sig"', '"body.sig"', "signature.path must be outside the signed"),
    ("signature is base", '"proof.sig"', '"body"', "signature.path must be outside the signed"),
    ("encoding", 'encoding = "hex"', 'encoding = "x"', "encoding must be one of hex, base64url"),
    ("algorithm", 'EdDSA = "Ed25519"', 'EdDSA = "RS256"', "algorithm.values.EdDSA must be one of Ed"),
    ("algorithm is", 'path = "proof.alg", values = { EdDSA = "Ed25519" }', 'is = "x"', "algorithm.is must be"),
    ("algorithm type", '{ path = "proof.alg", values = { EdDSA = "Ed25519" } }', '"x"', "algorithm must be a table"),
    ("unsigned", 'unsigned = "list"', 'unsigned = "none"', "unsigned must be one of refuse, list"),
    ("key_hint", 'encoding = "base64url"', 'encoding = "none"', "key_hint.encoding must be one of"),
    ("key_hint type", "key_hint = {", "key_hint = []\nx = {", "key_hint must be a table"),
    ("kid", 'kid = "proof.kid"', 'kid = ""', "member kid must be names joined by dots"),
    ("agent outside", '"body.agent"', '"agent"', "agent must be inside the signed bytes, agent is"),
    ("agent dropped", '"body.agent"', '"body.note"', "agent must be inside the signed bytes"),
    ("stream outside", '"body.run"', '"run"', "stream must be inside the signed bytes, run is out"),
    ("sequence outside", '"body.n"', '"body"', "sequence.path must be inside the signed bytes"),
    ("sequence step", "step = 2", "step = 0", "sequence.step must be an integer 1.."),
    ("sequence start", "start = 1", "start = -1", "sequence.start must be an integer 0.."),
    ("time outside", '"body.at"', '"proof.at"', "time.path must be inside the signed bytes"),
    ("previous outside", '"body.prev"', '"prev"', "previous.path must be inside the signed bytes"),
    ("preimage", '"full"', '"payload"', "previous.of must be one of full"),
    ("link encoding", '"sha256:hex"', '"base32"', "previous.encoding must be one of sha256:hex"),
    ("genesis", '["omitted"]', '["none"]', "previous.genesis must be null, omitted"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "fault"), [case[1:] for case in WRONG], ids=[c[0] for c in WRONG]
)
def test_wrong_data_is_refused_with_file_and_member(old: str, new: str, fault: str) -> None:
    with pytest.raises(ValueError, match=rf"^made-up.toml: .*{fault}"):
        load(changed(old, new))
