"""`receiptledger receipt verify` on sources, chains outside receipts, and pairs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from receiptledger.cli.app import app
from tests.helpers.cases import named
from tests.helpers.forge import raw
from tests.helpers.forge_answerproof import CONTENTS, answerproof
from tests.helpers.forge_nobulex import export
from tests.helpers.forge_together import actions, pairs
from tests.helpers.receipts import ALICE, MALLORY, base64url

if TYPE_CHECKING:
    from pathlib import Path

KEY = ("--key", base64url(ALICE.key))


def cli(*args: object) -> Result:
    result = CliRunner().invoke(app, ["receipt", "verify", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    path = tmp_path / "answer.json"
    path.write_bytes(raw(answerproof()))
    return path


def sources_file(answer: Path, value: Any) -> tuple[str, Path]:
    path = answer.with_name("sources.json")
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return "--sources", path


@pytest.mark.parametrize(
    ("sources", "code", "status"),
    named(
        {
            "an object": (CONTENTS, 0, "pass"),
            "an array": (
                [{"id": name, "content": text} for name, text in CONTENTS.items()],
                0,
                "pass",
            ),
            "some of them": ({"kb-1": CONTENTS["kb-1"]}, 0, "pass"),
            "another content": ({"kb-1": "Never."}, 1, "fail"),
        }
    ),
)
def test_sources_of_the_command(answer: Path, sources: Any, code: int, status: str) -> None:
    args = (answer, *KEY, *sources_file(answer, sources))
    text = cli(*args)
    shown = f"{status:<12}source contents "
    assert (text.exit_code, shown in text.stdout) == (code, True), text.output
    value = json.loads(cli(*args, "--json").stdout)
    assert value["exit_code"] == code
    found = {check["name"]: check for check in value["receipts"][0]["checks"]}["source contents"]
    assert found["status"] == status
    # Sources that are cited and were not given are named.
    missing = status == "pass" and len(sources) < len(CONTENTS)
    assert ("'kb-2'" in found["detail"]) is missing


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "a list of texts": (b'["a"]', "source 0 has the wrong form"),
            "an id twice": (b'[{"id":"a","content":"x"},{"id":"a","content":"y"}]', "two sources"),
            "a number": (b'{"kb-1": 1}', "the content of source 'kb-1' has the wrong form"),
            "more after the array": (b'[],"sources":[]', "malformed"),
            "no JSON": (b"kb-1", "malformed"),
        }
    ),
)
def test_sources_that_cannot_be_read_are_misuse(answer: Path, data: bytes, words: str) -> None:
    result = cli(answer, *KEY, *sources_file(answer, data))
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_nothing_of_sources_and_ids_is_obeyed(answer: Path) -> None:
    odd = "\x1b[2J\u202e\x9b"
    answer.write_bytes(raw(answerproof({odd: "Odd."}, ("Odd.",), principal="user")))
    for contents in ({odd: "Odd."}, {odd: odd}, {odd + "x": odd}, {}):
        for args in ((), ("--json",)):
            text = cli(answer, *KEY, *sources_file(answer, contents), *args).stdout
            assert not set("\x1b\u202e\x9b") & set(text)
            assert "source contents" in text


def test_an_export_and_pairs_of_the_command(tmp_path: Path) -> None:
    chain = tmp_path / "chain.json"
    chain.write_bytes(raw(export(actions())))
    result = cli(chain, *KEY)
    assert result.exit_code == 0
    assert "pass        chain links " in result.stdout
    assert "not checked chain coverage " in result.stdout
    (beside,) = json.loads(cli(chain, *KEY, "--json").stdout)["beside"]
    assert beside["name"] == str(chain)
    assert beside["checks"][-1]["status"] == "not checked"
    files = []
    for at, document in enumerate(pairs()):
        files.append(tmp_path / f"{at}.json")
        files[-1].write_bytes(raw(document))
    keys = (*KEY, "--key", base64url(MALLORY.key))
    text = cli(*files, *keys).stdout
    assert f"pair: {files[0]} and its outcome {files[2]}" in text
    assert f"intent without an outcome: {files[1]}" in text
    value = json.loads(cli(*files, *keys, "--json").stdout)
    assert value["pairing"]["pairs"][0]["outcome"] == str(files[2])
    assert [one["intent"] for one in value["pairing"]["unpaired_intents"]] == [str(files[1])]


# Published documents.


def published(vectors: Path, name: str) -> Path:
    return vectors / "receipts" / name / "generated"


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("01-valid", 0, None),
        ("02-tampered-answer", 1, "bad_signature"),
        ("03-valid-float-1.0", 0, None),
        ("04-float-rewritten-as-int", 1, "bad_signature"),
        ("05-attacker-own-key", 1, "wrong_key"),
        ("06-valid-unicode-keys", 0, None),
    ],
)
def test_published_answers(vectors: Path, name: str, code: int, reason: str | None) -> None:
    folder = published(vectors, "answerproof")
    known = json.loads((folder / "keys-and-sources.json").read_bytes())
    result = cli(folder / f"{name}.json", "--key", known["signer_public_key_b64url"], "--json")
    value = json.loads(result.stdout)
    assert (result.exit_code, value["reason"]) == (code, reason)
    if name.startswith("04"):
        assert "(1.0, not 1" in value["receipts"][0]["diagnosis"]


def test_published_sources(vectors: Path, tmp_path: Path) -> None:
    folder = published(vectors, "answerproof")
    known = json.loads((folder / "keys-and-sources.json").read_bytes())
    path = tmp_path / "sources.json"
    key = ("--key", known["signer_public_key_b64url"], "--sources", path)
    path.write_text(json.dumps(known["sources"]))
    assert cli(folder / "01-valid.json", *key).exit_code == 0
    path.write_text(json.dumps({**known["sources"], "kb-1": "Refunds are never issued."}))
    result = cli(folder / "01-valid.json", *key)
    assert (result.exit_code, "(bad_proof)" in result.stdout) == (1, True)


def test_the_published_export(vectors: Path) -> None:
    path = published(vectors, "nobulex") / "chain-export.json"
    key = json.loads(path.read_bytes())["entries"][0]["receipt"]["signer_public_key"]
    result = cli(path, "--key", key)
    assert (result.exit_code, "pass        chain links " in result.stdout) == (0, True)
    assert result.stdout.count("valid  ") == 3
