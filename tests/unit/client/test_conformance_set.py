"""The project's own conformance set: what it holds, that it is made anew byte for byte, and passes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from receiptledger.cli.app import app
from receiptledger.core.algorithms import check_signature
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profiles
from tests.vectors.make import FOLDER, make, write

ROOT = Path(__file__).resolve().parents[3]
FORMATS = Profiles.builtin().ids()


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return make()


@pytest.fixture(scope="module")
def rows(made: dict[str, bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(made["manifest.json"])
    return found


def test_the_folder_is_what_the_script_makes(made: dict[str, bytes], tmp_path: Path) -> None:
    """`python -m tests.vectors.make` writes it anew; nothing in it is random."""
    there = {
        str(path.relative_to(FOLDER)): path.read_bytes()
        for path in FOLDER.rglob("*")
        if path.is_file()
    }
    assert sorted(there) == sorted(made)
    assert [name for name in made if there[name] != made[name]] == []
    write(made, tmp_path / "again")
    written = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert len(written) == len(made)


def test_every_row_comes_out_as_expected() -> None:
    result = CliRunner().invoke(app, ["conformance", str(FOLDER), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    value = json.loads(result.stdout)
    odd = [row for row in value["rows"] if not row["as_expected"]]
    if not has_ml_dsa():  # then nothing is said about such a signature, neither good nor bad
        mine = [row for row in odd if "ml-dsa-65" in row["name"]]
        assert {row["reason"] for row in mine} == {"unsupported_algorithm"}
        odd = [row for row in odd if row not in mine]
    assert odd == []
    assert result.exit_code == (0 if has_ml_dsa() else 1)


def has_ml_dsa() -> bool:
    try:
        check_signature(bytes(3309), b"", bytes(1952), "ML-DSA-65")
    except ReceiptError as error:
        return error.reason is not Reason.UNSUPPORTED_ALGORITHM
    return False


def test_every_format_has_rows(rows: list[dict[str, Any]]) -> None:
    for name in FORMATS:
        mine = [row for row in rows if row["name"].startswith(f"{name}: ")]
        assert {row["expect"] for row in mine} == {"valid", "invalid", "undecidable"}, name
        assert any(row.get("profile") == name for row in mine), name
        cases = {row["name"].partition(": ")[2] for row in mine}
        assert cases >= {"single", "pretty", "flipped", "resigned", "no-key"}, name
        assert cases >= {"several"} or cases >= {"chain", "gap", "fork", "edited-resigned"}, name


def test_every_reason_a_receipt_can_have_is_there(rows: list[dict[str, Any]]) -> None:
    """All of the receipt's form, authenticity and place, of the closed list."""
    order = list(Reason)
    wanted = order[: order.index(Reason.BAD_LEAF)]
    assert {row["reason"] for row in rows if "reason" in row} == {one.value for one in wanted}


def test_what_is_flagged_is_said() -> None:
    """Rows of receipts that parsers read differently are valid, and the report names the difference."""
    result = CliRunner().invoke(app, ["conformance", str(FOLDER), "--json"])
    flagged = {
        row["name"]: [note for one in row["receipts"] for note in one["notes"]]
        for row in json.loads(result.stdout)["rows"]
        if row["name"].startswith("traps: flagged-")
    }
    assert len(flagged) == 6
    for name, notes in flagged.items():
        assert any(note.startswith("read differently by some parsers: ") for note in notes), name


# What the README tells people to run.


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("README.md", ["receipt", "receipt", "conformance"]),
        ("tests/vectors/README.md", ["conformance"]),
    ],
)
def test_the_readme_s_commands(file: str, expected: list[str], tmp_path: Path) -> None:
    text = (ROOT / file).read_text("utf-8")
    commands = re.findall(r"^(receiptledger (?:receipt|conformance) .+)$", text, re.MULTILINE)
    assert [command.split()[1] for command in commands] == expected
    chain = (FOLDER / "ms-lesson18" / "chain.jsonl").read_bytes()
    (tmp_path / "receipts.jsonl").write_bytes(chain)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    row = json.loads((FOLDER / "manifest.json").read_bytes())[0]
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AGENT_KEY": row["keys"][0]["public"],
    }
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, timeout=60
        )
        assert done.returncode == 0, f"{command}\n{done.stdout!r}{done.stderr!r}"
