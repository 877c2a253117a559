"""`receiptledger receipt verify` and `inspect`: exit codes, keys, and texts of strangers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from receiptledger.cli import receipt as command
from receiptledger.cli.app import app
from receiptledger.core import pairing
from receiptledger.core.profiles import read_sources
from tests.helpers import forge, forge_answerproof, forge_more, forge_nobulex
from tests.helpers.cases import named
from tests.helpers.receipts import (
    ALICE,
    MALLORY,
    Agent,
    base64url,
    farley,
    jcs,
    lesson18,
    link,
    pretty,
)

if TYPE_CHECKING:
    from pathlib import Path

FIRST = lesson18()
SECOND = lesson18(1, link(FIRST))
THIRD = lesson18(2, link(SECOND))
KID = "sb:issuer:6XRv8ZfPuxt1"
KEY = ("--key", base64url(ALICE.key))


def cli(*args: object, stdin: bytes = b"") -> Result:
    """Run the command; a traceback fails the test."""
    result = CliRunner().invoke(app, ["receipt", *map(str, args)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "1.json": jcs(FIRST),
        "2.json": pretty(SECOND),
        "3.json": jcs(THIRD),
        "chain.jsonl": b"\n".join(map(jcs, (FIRST, SECOND, THIRD))),
        "old.json": jcs(lesson18(prehash=True)),
        "mallory.json": jcs(lesson18(signer=MALLORY)),
        "farley.json": jcs(farley()),
        "changed.json": jcs({**FIRST, "tool_name": "pay"}),
        "empty": b"",
        "text": b"hello\n",
        "cut.json": jcs(FIRST)[:-1],
        "keys": f"# ours\n\n{MALLORY.key.hex()}\n{ALICE.key.hex()}\n".encode(),
        "no-keys": b"# none\n",
        "bad-keys": b"\nnonsense\n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


# verify


def test_valid(folder: Path) -> None:
    result = cli("verify", folder / "1.json", *KEY)
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert text.startswith(f"valid  {folder / '1.json'}\n")
    assert "ms-lesson18 version 1, travel-bot, sequence 0" in text
    assert "not signed    signature.alg, signature.public_key" in text
    assert f"Ed25519 holds under {base64url(ALICE.key)}" in text
    assert "\nresult: valid\n" in text
    assert "It does not show when" in text


def test_valid_as_json(folder: Path) -> None:
    result = cli("verify", folder / "1.json", folder / "2.json", *KEY, "--json")
    value = json.loads(result.stdout)
    assert result.exit_code == value["exit_code"] == 0
    assert (value["result"], value["reason"]) == ("valid", None)
    assert value["notes"] == [
        "that no receipt follows the last one cannot be seen from receipts alone"
    ]
    first, second = value["receipts"]
    assert second["name"] == str(folder / "2.json")
    assert first == {
        "name": str(folder / "1.json"),
        "outcome": "valid",
        "reason": None,
        "detail": f"Ed25519 holds under {base64url(ALICE.key)}",
        "diagnosis": None,
        "checks": [],
        "notes": [],
        "profile": "ms-lesson18",
        "profile_version": 1,
        "agent": "travel-bot",
        "stream": "",
        "sequence": 0,
        "time": "2026-04-25T14:30:00Z",
        "algorithm": "Ed25519",
        "kid": None,
        "linked": True,
        "unsigned": ["signature.alg", "signature.public_key"],
    }
    assert value["beside"] == []
    assert value["pairing"] == {
        "pairs": [],
        "unpaired_intents": [],
        "findings": [],
        "findings_not_listed": 0,
    }


@pytest.mark.parametrize(
    ("files", "code", "words"),
    named(
        {
            "lines": (["chain.jsonl"], 0, "chain.jsonl:3"),
            "files": (["1.json", "2.json", "3.json"], 0, "result: valid"),
            "a gap": (["1.json", "3.json"], 1, "result: invalid (gap)"),
            "changed": (["changed.json"], 1, "result: invalid (bad_signature)"),
            "signed by another": (["mallory.json"], 1, "result: invalid (wrong_key)"),
            "two spellings": (["1.json", "1.json", "2.json"], 0, "again"),
        }
    ),
)
def test_several(folder: Path, files: list[str], code: int, words: str) -> None:
    result = cli("verify", *(folder / name for name in files), *KEY)
    assert result.exit_code == code
    assert words in result.stdout
    as_json = cli("verify", *(folder / name for name in files), *KEY, "--json")
    assert as_json.exit_code == json.loads(as_json.stdout)["exit_code"] == code


def test_undecidable_without_a_key(folder: Path) -> None:
    result = cli("verify", folder / "mallory.json")
    assert result.exit_code == 3
    assert "result: undecidable (unknown_key)" in result.stdout
    assert "which is not trusted" in result.stdout
    assert cli("verify", folder / "farley.json", "--kid-key", f"x={KEY[1]}").exit_code == 3


@pytest.mark.parametrize(
    "keys",
    named(
        {
            "base64url": (("--key", base64url(ALICE.key)),),
            "hex": (("--key", ALICE.key.hex()),),
            "several": (("--key", MALLORY.key.hex(), "--key", ALICE.key.hex()),),
            "by key id": (("--kid-key", f"{KID}={ALICE.key.hex()}"),),
            "by two key ids": (
                ("--kid-key", f"a=b={ALICE.key.hex()}", "--kid-key", f"{KID}={ALICE.key.hex()}"),
            ),
        }
    ),
)
def test_keys(folder: Path, keys: tuple[str, ...]) -> None:
    assert cli("verify", folder / "farley.json", *keys).exit_code == 0


def test_keys_of_a_file(folder: Path) -> None:
    assert cli("verify", folder / "farley.json", "--key", folder / "keys").exit_code == 0


@pytest.mark.parametrize(
    ("args", "words"),
    named(
        {
            "no file": ((), "Missing argument 'FILE...'"),
            "a file that is not there": (("nowhere.json",), "cannot read the file of receipts"),
            "an empty file": (("empty",), "empty holds no receipt"),
            "a text": (("text",), "text holds no receipt: neither JSON objects nor an array"),
            "a receipt that is cut": (("cut.json",), "cut.json holds no receipt"),
            "a key that is none": (("1.json", "--key", "xyz"), "is no public key and no file"),
            "a key with a zero byte": (("1.json", "--key", "x\0"), "no public key and no file"),
            "a key longer than paths": (("1.json", "--key", "x" * 5_000), "no public key and"),
            "a file without keys": (("1.json", "--key", "no-keys"), "holds no public key"),
            "a file of other lines": (("1.json", "--key", "bad-keys"), "bad-keys, line 2: no pub"),
            "a key id without a key": (("1.json", "--kid-key", KID), "--kid-key expects KID=KEY"),
            "a key without its id": (("1.json", "--kid-key", f"={KEY[1]}"), "expects KID=KEY"),
            "a key id with a bad key": (("1.json", "--kid-key", "k=zz"), "--kid-key k: no public"),
            "an unknown format": (("1.json", "--profile", "x"), "--profile expects one of ms-"),
            "a folder that is none": (("1.json", "--profiles", "x"), "--profiles: cannot read the"),
            "standard input twice": (("-", "-"), "- is the standard input, which is read once"),
        }
    ),
)
def test_misuse(
    folder: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(folder)
    result = cli("verify", *args)
    assert result.exit_code == 2
    assert words in result.stderr.replace("\n", " ")
    assert result.stdout == ""


def test_limits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [item for _ in range(257) for item in KEY]
    assert "257 keys, at most 256" in cli("verify", folder / "1.json", *many).stderr
    monkeypatch.setattr(command, "MAX_RECEIPTS", 2)
    result = cli("verify", folder / "chain.jsonl", *KEY)
    assert result.exit_code == 2
    assert "more than 2 receipts: give them in parts" in result.stderr
    monkeypatch.setattr(command, "MAX_FILE_BYTES", 10)
    assert "at most 10 bytes" in cli("verify", folder / "1.json", *KEY).stderr


def test_from_standard_input() -> None:
    assert cli("verify", "-", *KEY, stdin=jcs(FIRST)).exit_code == 0
    assert cli("inspect", "-", stdin=jcs(FIRST)).exit_code == 0


def test_the_format_that_would_fit_is_named(folder: Path) -> None:
    result = cli("verify", folder / "old.json", *KEY, "--profile", "ms-lesson18")
    assert result.exit_code == 1
    words = "it is signed as ms-lesson18-prehash signs, not as ms-lesson18"
    assert f"diagnosis     {words}" in result.stdout
    right = cli("verify", folder / "old.json", *KEY, "--profile", "ms-lesson18-prehash")
    assert right.exit_code == 0


def test_a_folder_of_formats(folder: Path, tmp_path: Path) -> None:
    text = dict(read_sources())["draft-farley-04.toml"].replace('"draft-farley-04"', '"mine"')
    formats = tmp_path / "formats"
    formats.mkdir()
    (formats / "mine.toml").write_text(text)
    args = ("verify", folder / "farley.json", *KEY, "--profile", "mine")
    assert cli(*args).exit_code == 2
    result = cli(*args, "--profiles", formats)
    assert (result.exit_code, "mine version 1" in result.stdout) == (0, True)
    shown = cli("inspect", folder / "farley.json", "--profiles", formats)
    assert "draft-farley-04 or draft-farley-02 or mine" in shown.stdout


# What some formats have beside signature and order.


def write(path: Path, *documents: Any) -> Path:
    path.write_bytes(b"\n".join(map(forge.raw, documents)))
    return path


def test_a_nobulex_export(tmp_path: Path) -> None:
    chain = forge_nobulex.export([forge_nobulex.nobulex(scope=f"s-{n}") for n in range(2)])
    result = cli("verify", write(tmp_path / "chain.json", chain), *KEY)
    assert result.exit_code == 0, result.stdout
    assert f"valid  {tmp_path / 'chain.json'} entry 1" in result.stdout
    assert "pass        chain links     " in result.stdout
    assert "not checked chain coverage" in result.stdout
    chain["head_hash"] = "00" * 32
    result = cli("verify", write(tmp_path / "chain.json", chain), *KEY)
    assert result.exit_code == 1
    assert "fail        chain head" in result.stdout
    value = json.loads(cli("verify", tmp_path / "chain.json", *KEY, "--json").stdout)
    assert (value["result"], value["reason"]) == ("invalid", "invalid_field")
    (beside,) = value["beside"]
    assert beside["name"] == str(tmp_path / "chain.json")
    assert [one["name"] for one in beside["checks"] if one["status"] == "fail"] == ["chain head"]


def test_an_answer_and_its_sources(tmp_path: Path) -> None:
    answer = write(tmp_path / "answer.json", forge_answerproof.answerproof())
    sources = tmp_path / "sources.json"
    sources.write_text(json.dumps(forge_answerproof.CONTENTS))
    result = cli("verify", answer, *KEY)
    assert result.exit_code == 0, result.stdout
    assert "not checked source contents" in result.stdout
    result = cli("verify", answer, *KEY, "--sources", sources)
    assert result.exit_code == 0, result.stdout
    assert "pass        source contents 3 of 3 contents given" in result.stdout
    sources.write_text(json.dumps({**forge_answerproof.CONTENTS, "kb-1": "Refunds? Never."}))
    result = cli("verify", answer, *KEY, "--sources", sources)
    assert result.exit_code == 1
    assert "invalid: bad_proof" in result.stdout
    assert "fail        source contents" in result.stdout
    sources.write_text('{"kb-1": 7}')
    result = cli("verify", answer, *KEY, "--sources", sources)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--sources {sources}: invalid_field: the content of source 'kb-1'" in result.stderr
    assert cli("verify", answer, *KEY, "--sources", tmp_path / "none").exit_code == 2
    assert "read once" in cli("verify", "-", *KEY, "--sources", "-").stderr


def test_an_answer_under_a_key_of_its_own_is_not_trusted(tmp_path: Path) -> None:
    answer = write(tmp_path / "answer.json", forge_answerproof.answerproof(signer=MALLORY))
    assert cli("verify", answer, *KEY).exit_code == 1
    assert cli("verify", answer).exit_code == 3


def half(signer: Agent, number: int, **members: Any) -> dict[str, Any]:
    """One half of a bilateral pair."""
    payload = {
        "receipt_id": f"r-{number}",
        "agent_id": "did:key:buyer",
        "merchant_id": "did:web:seller",
        "sequence": number,
        "issued_at": f"2026-05-16T12:00:{number:02}Z",
        **members,
    }
    header = base64url(b'{"alg":"EdDSA","b64":false,"crit":["b64"]}')
    made = base64url(signer.sign(header.encode() + b"." + jcs(payload)))
    signature = {"format": "detached-jws-jcs-ed25519", "protected": header, "sig": made}
    return {"payload": payload, "signature": signature}


def test_pairs_are_told(tmp_path: Path) -> None:
    first = half(ALICE, 1, previousReceiptHash=None)
    named = link(first["payload"])
    second = half(MALLORY, 2, previousReceiptHash=named, authorization_receipt_hash=named)
    third = half(ALICE, 3, previousReceiptHash=link(second["payload"]))
    odd = half(
        MALLORY,
        4,
        previousReceiptHash=link(third["payload"]),
        authorization_receipt_hash="sha256:" + "ab" * 32,
    )
    path = write(tmp_path / "pairs.jsonl", first, second, third, odd)
    keys = (*KEY, "--key", base64url(MALLORY.key))
    result = cli("verify", path, *keys)
    assert result.exit_code == 0, result.stdout
    assert f"pair: {path}:1 and its outcome {path}:2" in result.stdout
    assert f"intent without an outcome: {path}:3" in result.stdout
    assert f"outcome of an intent that is not here: {path}:4" in result.stdout
    report = json.loads(cli("verify", path, *keys, "--json").stdout)["pairing"]
    assert report["pairs"] == [
        {"intent": f"{path}:1", "outcome": f"{path}:2", "seconds": 1.0, "two_signers": True}
    ]
    assert "role" in cli("inspect", path).stdout


def test_more_faults_of_pairs_than_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "MAX_FINDINGS", 0)
    named = "sha256:" + "ab" * 32
    odd = half(ALICE, 1, previousReceiptHash=None, authorization_receipt_hash=named)
    result = cli("verify", write(tmp_path / "odd.json", odd), *KEY)
    assert "and 1 more faults of pairs" in result.stdout


def test_a_receipt_of_several_signers(tmp_path: Path) -> None:
    path = write(tmp_path / "aerf.json", forge_more.AERF_FULL.receipt())
    parent, pdp = (base64url(one.key) for one in (forge_more.PARENT, forge_more.PDP))
    result = cli("verify", path, *KEY, "--key", parent, "--key", pdp)
    assert result.exit_code == 0, result.stdout
    assert f"parent: Ed25519 holds under {parent}; pdp: Ed25519 holds under {pdp}" in result.stdout
    assert cli("verify", path, *KEY).exit_code == 3
    shown = cli("inspect", path).stdout
    assert "signature parent" in shown
    assert forge_more.key_id(forge_more.PARENT) in shown


# inspect


def test_inspect(folder: Path) -> None:
    result = cli("inspect", folder / "mallory.json")
    assert result.exit_code == 0
    text = result.stdout
    assert "format                  ms-lesson18 or ms-lesson18-prehash" in text
    assert f"key_inside_not_trusted  {base64url(MALLORY.key)}" in text
    assert "  tool_name              lookup_flights" in text
    assert "Nothing here was verified" in text


def test_inspect_as_json(folder: Path) -> None:
    result = cli("inspect", folder / "chain.jsonl", "--json")
    values: list[dict[str, Any]] = json.loads(result.stdout)
    assert [value["verified"] for value in values] == [False] * 3
    assert [value["sequence"] for value in values] == [0, 1, 2]
    assert values[1]["previous"] == link(FIRST) == values[0]["link_hash"]
    assert values[2]["content"] == THIRD


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "another format": (b'{"a":[1,null,"x"]}', "unknown_profile: no known receipt format"),
            "a format known by name": (
                b'{"@version":"EP-RECEIPT-v1"}',
                "EMILIA EP-RECEIPT-v1 (by name only)",
            ),
            "a member twice": (b'{"a":1,"a":2}', "malformed: a member appears twice"),
        }
    ),
)
def test_inspect_what_is_no_receipt(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    result = cli("inspect", path)
    assert result.exit_code == 0
    assert words in result.stdout
    assert cli("inspect", path, "--json").exit_code == 0


def test_inspect_misuse(folder: Path) -> None:
    for name in ("nowhere", "empty", "text"):
        assert cli("inspect", folder / name).exit_code == 2


# Receipts come from strangers, and a terminal obeys control characters.

ODD = "\x1b[31m\x07\x9b\u202e\u2066\u200f\ufeff\u2028\x7f\n"


@pytest.mark.parametrize("member", ["agent_id", "policy_id", "tool_name", "note\x1b[2J\u202e"])
@pytest.mark.parametrize("args", [("verify",), ("verify", "--json"), ("inspect",)])
def test_nothing_of_a_receipt_is_obeyed(tmp_path: Path, member: str, args: tuple[str, ...]) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(jcs(lesson18(**{member: ODD})))
    result = cli(args[0], path, *args[1:], *(KEY if args[0] == "verify" else ()))
    assert result.exit_code in (0, 1)
    for character in {*ODD, *member} - {"\n"}:
        if not character.isascii() or not character.isprintable():
            assert character not in result.stdout
    if args[0] == "inspect":
        assert "\\u001b[31m\\u0007\\u009b\\u202e" in result.stdout


def test_odd_names_are_escaped_where_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(jcs({**lesson18(), "signature": {"a\x1b": "x", "\u202e": "y"}}))
    for args in (("verify", path, *KEY), ("verify", path, *KEY, "--json"), ("inspect", path)):
        text = cli(*args).stdout
        assert "\x1b" not in text
        assert "\u202e" not in text
