"""`receiptledger conformance`: rows that come out as expected, rows that do not, and broken manifests."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from receiptledger import conformance
from receiptledger.cli.app import app
from receiptledger.core.profiles import read_sources
from tests.helpers import forge_nobulex
from tests.helpers.receipts import ALICE, MALLORY, farley, jcs, lesson18, link, pretty

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [{"alg": "Ed25519", "public": ALICE.key.hex()}]
FIRST = lesson18()
SECOND = lesson18(1, link(FIRST))
THIRD = lesson18(2, link(SECOND))
FILES: dict[str, bytes] = {
    "1.json": jcs(FIRST),
    "2.json": pretty(SECOND),
    "3.json": jcs(THIRD),
    "chain.jsonl": b"\n".join(map(jcs, (FIRST, SECOND, THIRD))) + b"\n",
    "array.json": b"[" + b",\n".join(map(pretty, (FIRST, SECOND, THIRD))) + b"]",
    "mallory.json": jcs(lesson18(signer=MALLORY)),
    "empty.json": b"",
    "none.json": b"[]",
    "farley.json": jcs(farley()),
}
GOOD: list[dict[str, Any]] = [
    {"name": "one", "files": ["1.json"], "expect": "valid"},
    {"name": "named", "files": ["1.json"], "profile": "ms-lesson18", "expect": "valid"},
    {"name": "pretty", "files": ["2.json"], "expect": "valid"},
    {"name": "files", "files": ["1.json", "2.json", "3.json"], "expect": "valid"},
    {"name": "lines", "files": ["chain.jsonl"], "expect": "valid"},
    {"name": "array", "files": ["array.json"], "expect": "valid"},
    {"name": "gap", "files": ["1.json", "3.json"], "expect": "invalid", "reason": "gap"},
    {"name": "any reason", "files": ["1.json", "3.json"], "expect": "invalid"},
    {"name": "mallory", "files": ["mallory.json"], "expect": "invalid", "reason": "wrong_key"},
    {"name": "empty", "files": ["empty.json"], "expect": "invalid", "reason": "malformed"},
    {"name": "none", "files": ["none.json"], "expect": "invalid", "reason": "malformed"},
    {
        "name": "no key",
        "files": ["1.json"],
        "keys": [],
        "expect": "undecidable",
        "reason": "unknown_key",
    },
    {
        "name": "other profile",
        "files": ["1.json"],
        "profile": "draft-farley-04",
        "expect": "invalid",
        "reason": "invalid_field",
    },
    {
        "name": "no such profile",
        "files": ["1.json"],
        "profile": "nonsense",
        "expect": "invalid",
        "reason": "unknown_profile",
    },
    {
        "name": "by key id",
        "files": ["farley.json"],
        "keys": [{**KEYS[0], "kid": "sb:issuer:6XRv8ZfPuxt1"}],
        "expect": "valid",
    },
    {
        "name": "other key id",
        "files": ["farley.json"],
        "keys": [{**KEYS[0], "kid": "other"}],
        "expect": "undecidable",
        "reason": "unknown_key",
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def run(folder: Path, *rows: dict[str, Any], args: tuple[object, ...] = ()) -> Result:
    """The command on a manifest of these rows; a traceback fails the test."""
    full = [{"keys": KEYS, **row} for row in rows]
    (folder / "manifest.json").write_text(json.dumps(full))
    return cli(folder, *args)


def cli(*args: object) -> Result:
    result = CliRunner().invoke(app, ["conformance", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_all_as_expected(folder: Path) -> None:
    result = run(folder, *GOOD)
    assert result.exit_code == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["row", "expected", "came", "out", "format"]
    assert [line.split()[0] for line in lines[1:-1]] == ["ok"] * len(GOOD)
    assert lines[-1] == f"{len(GOOD)} of {len(GOOD)} rows came out as expected"


def test_as_json(folder: Path) -> None:
    result = run(folder, *GOOD, args=("--json",))
    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert (value["result"], value["as_expected"]) == ("as expected", len(GOOD))
    by_name = {row["name"]: row for row in value["rows"]}
    assert list(by_name) == [row["name"] for row in GOOD]
    gap = by_name["gap"]
    assert (gap["as_expected"], gap["outcome"], gap["reason"]) == (True, "invalid", "gap")
    assert (gap["expect"], gap["expect_reason"]) == ("invalid", "gap")
    assert gap["formats"] == ["ms-lesson18"]
    assert [one["name"] for one in gap["receipts"]] == ["1.json", "3.json"]
    assert [one["outcome"] for one in gap["receipts"]] == ["valid", "invalid"]
    assert gap["receipts"][1]["sequence"] == 2
    assert gap["receipts"][1]["unsigned"] == ["signature.alg", "signature.public_key"]
    assert [one["name"] for one in by_name["lines"]["receipts"]] == [
        "chain.jsonl:1",
        "chain.jsonl:2",
        "chain.jsonl:3",
    ]
    assert result.stdout == run(folder, *GOOD, args=("--json",)).stdout


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"files": ["1.json"], "expect": "invalid"}, "Ed25519 holds under"),
        ({"files": ["mallory.json"], "expect": "valid"}, "none of those you gave for it"),
        (
            {"files": ["1.json", "3.json"], "expect": "invalid", "reason": "fork"},
            "position 1 with previous hash",
        ),
        (
            {"files": ["1.json"], "expect": "valid", "profile": "ms-lesson18-prehash"},
            "it is signed as ms-lesson18 signs, not as ms-lesson18-prehash",
        ),
        (
            {
                "files": ["1.json"],
                "expect": "valid",
                "keys": [{"alg": "ES384", "public": "00"}],
            },
            "keys of unknown algorithms: ES384",
        ),
    ],
)
def test_a_row_that_came_out_otherwise_is_told(
    folder: Path, row: dict[str, Any], words: str
) -> None:
    result = run(folder, GOOD[0], {"name": "two", **row})
    assert result.exit_code == 1
    assert "NOT   two" in result.stdout
    assert words in result.stdout
    assert result.stdout.splitlines()[-1] == "1 of 2 rows came out as expected"
    as_json = run(folder, GOOD[0], {"name": "two", **row}, args=("--json",))
    assert as_json.exit_code == 1
    value = json.loads(as_json.stdout)
    assert (value["result"], value["as_expected"]) == ("not as expected", 1)
    assert [one["as_expected"] for one in value["rows"]] == [True, False]


def test_a_document_around_receipts_that_is_wrong_is_told(folder: Path) -> None:
    chain = forge_nobulex.export([forge_nobulex.nobulex()])
    (folder / "good.json").write_text(json.dumps(chain))
    (folder / "bad.json").write_text(json.dumps({**chain, "head_hash": "00" * 32}))
    good = {"name": "good", "files": ["good.json"], "expect": "valid"}
    bad = {"name": "bad", "files": ["bad.json"], "expect": "invalid", "reason": "invalid_field"}
    assert run(folder, good, bad).exit_code == 0
    result = run(folder, {**good, "files": ["bad.json"]})
    assert result.exit_code == 1
    assert "bad.json: chain head: head_hash must be" in result.stdout
    value = json.loads(run(folder, bad, args=("--json",)).stdout)
    assert value["rows"][0]["beside"][0]["name"] == "bad.json"


def test_a_broken_manifest_is_misuse(folder: Path) -> None:
    for as_json in ((), ("--json",)):
        result = run(folder, GOOD[0], {"name": "x", "files": ["1.json"]}, args=as_json)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "row 2 ('x'), member expect is missing" in result.stderr
    assert cli(folder / "nowhere").exit_code == 2


def test_strangers_texts_do_not_reach_the_terminal(folder: Path) -> None:
    (folder / "odd.json").write_bytes(jcs(lesson18(agent_id="\u202ebot", tool_name="\x1b[2J")))
    row = {"name": "red \x1b[31m\u202e", "files": ["odd.json"], "keys": [], "expect": "valid"}
    result = run(folder, row)
    assert result.exit_code == 1
    assert "red \\u001b[31m\\u202e" in result.stdout
    as_json = run(folder, row, args=("--json",))
    assert json.loads(as_json.stdout)["rows"][0]["name"] == row["name"]
    for text in (result.stdout, as_json.stdout):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_folder_of_formats(folder: Path, tmp_path: Path) -> None:
    text = dict(read_sources())["draft-farley-04.toml"].replace('"draft-farley-04"', '"mine"')
    formats = tmp_path / "formats"
    formats.mkdir()
    (formats / "mine.toml").write_text(text)
    row = {"name": "mine", "files": ["farley.json"], "profile": "mine", "expect": "valid"}
    assert run(folder, row).exit_code == 1
    assert run(folder, row, args=("--profiles", formats)).exit_code == 0
    (formats / "mine.toml").write_text(text.replace('unsigned = "refuse"', ""))
    result = run(folder, row, args=("--profiles", formats))
    assert result.exit_code == 2
    assert f"{formats / 'mine.toml'}: member unsigned must be present" in result.stderr


def test_limits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "MAX_RECEIPTS", 2)
    result = run(folder, GOOD[4])
    assert result.exit_code == 2
    assert "row 'lines' has more than 2 receipts" in result.stderr
    monkeypatch.setattr(conformance, "MAX_FILE_BYTES", 10)
    result = run(folder, GOOD[0])
    assert result.exit_code == 2
    assert "has more than 10 bytes" in result.stderr


def test_a_file_that_goes_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = conformance.receipts_of

    def remove(data: bytes) -> Any:
        (folder / "3.json").unlink(missing_ok=True)
        return real(data)

    monkeypatch.setattr(conformance, "receipts_of", remove)
    result = run(folder, {"name": "x", "files": ["1.json", "3.json"], "expect": "invalid"})
    assert result.exit_code == 2
    assert "row 'x': cannot read" in result.stderr


def test_the_command_itself(folder: Path) -> None:
    """As a process: the table on a pipe has no colour, and a terminal gets a bar that goes away."""
    run(folder, *GOOD)
    command = [sys.executable, "-m", "receiptledger", "conformance", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb") as terminal:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=60)
        os.close(theirs)
        shown = b""
        try:
            while chunk := terminal.read1(4_096):
                shown += chunk
        except OSError:  # the other end is closed: how Linux ends a terminal
            pass
    assert done.returncode == 0
    assert b"checking" in shown


def test_help_is_there() -> None:
    assert "conformance" in CliRunner().invoke(app, ["--help"]).stdout
    assert "manifest.json" in cli("--help").stdout
