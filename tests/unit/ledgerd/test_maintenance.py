"""`ledgerd fsck` on folders: exit codes, what is printed, and damage on the disk itself."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from rocksdict import AccessType, Options, Rdict
from typer.testing import CliRunner

from ledgerd.commands import app
from ledgerd.store import schema
from ledgerd.store.families import DEFAULT, FAMILIES, JOURNAL
from ledgerd.store.rocks import RocksStore
from receiptledger.core.note import NoteSigner
from tests.helpers.agents import Agent
from tests.helpers.ledger_bench import fill, flipped
from tests.helpers.ledgers import ORIGIN, Ledger

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

KEY = NoteSigner.from_seed(ORIGIN, b"\x07" * 32)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder, left as a stopped daemon leaves it."""
    folder = tmp_path_factory.mktemp("data")
    ledger = fill(RocksStore.open(folder / "db"), folder)
    ledger.store.close()
    (folder / "log.key").write_text(KEY.format() + "\n")
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "data")


def fsck(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["fsck", *map(str, arguments)])


def test_a_clean_folder(folder: Path) -> None:
    result = fsck(folder)
    assert result.exit_code == 0, result.output
    assert "Clean: every receipt" in result.stdout
    assert f"log         {ORIGIN}" in result.stdout
    assert "18 of 5 chains, 3 not sealed yet" in result.stdout
    assert "guard       equal to the log" in result.stdout
    assert (
        "timestamps  0 anchors, 0 parts of evidence, 0 intents, 0 refused answers\n"
        in result.stdout
    )
    assert "\x1b" not in result.output
    assert result.stderr == ""


def test_json_is_for_machines(folder: Path) -> None:
    result = fsck(folder, "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["clean"] is True
    assert report["log"] == ORIGIN
    assert report["checked"]["receipts"] == 18
    assert report["problems"] == []
    assert report["root"].startswith("sha256:")
    assert report["seconds"] >= 0


def test_a_check_changes_nothing_and_can_be_repeated(folder: Path) -> None:
    first, second = (json.loads(fsck(folder, "--json").stdout) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def damage(folder: Path, family: str, key: bytes, at: int) -> None:
    """Flip a bit of a record, by the database's own library."""
    names = {name: Options(raw_mode=True) for name in Rdict.list_cf(str(folder / "db"))}
    options = names.pop(DEFAULT)
    database = Rdict(str(folder / "db"), options, names, access_type=AccessType.read_write())
    rows = database if family == DEFAULT else database.get_column_family(family)
    rows[key] = flipped(rows[key], at)
    del rows
    database.close()


def test_a_damaged_record(folder: Path) -> None:
    damage(folder, JOURNAL, schema.encode_number(3), 100)
    result = fsck(folder)
    assert result.exit_code == 1
    assert "\n1 problem:\n" in result.stdout
    assert "receipt hash: chain sha256:" in result.stdout
    assert "expected sha256:" in result.stdout
    assert "Nothing was changed" in result.stdout
    report = json.loads(fsck(folder, "--json").stdout)
    assert report["clean"] is False
    assert [problem["what"] for problem in report["problems"]] == ["receipt hash"]
    assert set(report["problems"][0]) == {"what", "where", "expected", "got"}


def test_damaged_files_are_named_or_refused(folder: Path) -> None:
    """A flipped bit in each file of the database: a checksum notices, wherever it is."""
    store = RocksStore.open(folder / "db")
    for family in FAMILIES:  # from the log into tables
        store._families[family].flush()
    store.close()
    files = sorted((folder / "db").glob("*.sst"))
    assert len(files) >= len(FAMILIES)
    for file in files:
        good = file.read_bytes()
        file.write_bytes(flipped(good, len(good) // 8))
        result = fsck(folder)
        file.write_bytes(good)
        assert result.exit_code in (1, 2), (file, result.output)
        assert "orrupt" in result.output, (file, result.output)
        assert result.exception is None or isinstance(result.exception, SystemExit)
    assert fsck(folder).exit_code == 0


def test_more_problems_than_are_shown(folder: Path) -> None:
    raws = Agent("fred", 8).receipts(101)
    ledger = Ledger(RocksStore.open(folder / "db"), folder)
    ledger.admit(raws)
    ledger.store.close()
    for number in range(18, 119):
        damage(folder, JOURNAL, schema.encode_number(number), 60)
    result = fsck(folder)
    assert "\n101 problems; the first 100:\n" in result.stdout
    assert result.stdout.count("receipt hash: ") == 100


# What cannot be checked: exit code 2, and what to do.


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


def test_a_folder_in_use_is_refused(folder: Path) -> None:
    store = RocksStore.open(folder / "db")
    assert "in use by another ledgerd: stop that one" in refused(fsck(folder))
    store.close()


def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    assert "there is no ledger in" in refused(fsck(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "notes.txt").write_text("mine")
    assert "is not a ledger folder" in refused(fsck(tmp_path))


def test_without_the_key_file_the_key_has_to_be_given(folder: Path) -> None:
    (folder / "log.key").unlink()
    assert "--log-key" in refused(fsck(folder))
    assert fsck(folder, "--log-key", KEY.verifier).exit_code == 0


@pytest.mark.parametrize("text", ["", "PRIVATE+KEY+x", "\xff"])
def test_a_bad_key_file_is_refused(folder: Path, text: str) -> None:
    (folder / "log.key").write_text(text, encoding="latin-1")
    message = refused(fsck(folder))
    assert "log.key" in message
    assert text not in message or not text


def test_a_bad_key_is_refused(folder: Path) -> None:
    assert "--log-key holds no key of a log" in refused(fsck(folder, "--log-key", "x+y+z"))


def test_another_logs_key_is_refused(folder: Path) -> None:
    other = NoteSigner.from_seed("other/log", bytes(32)).verifier
    message = refused(fsck(folder, "--log-key", other))
    assert "not of the log whose key was given" in message
    assert ORIGIN in message


# The guard.


def test_a_guard_kept_elsewhere(folder: Path, tmp_path: Path) -> None:
    (folder / "guard").rename(tmp_path / "guard")
    result = fsck(folder)
    assert result.exit_code == 0
    assert "not checked: there is no guard file; if it is kept elsewhere, give --guard" in (
        result.stdout
    )
    assert "equal to the log" in fsck(folder, "--guard", tmp_path / "guard").stdout
    assert "there is no guard file" in refused(fsck(folder, "--guard", tmp_path / "none"))
    assert "cannot read the guard" in refused(fsck(folder, "--guard", tmp_path))


def test_a_guard_that_is_damaged(folder: Path) -> None:
    (folder / "guard").write_bytes(flipped((folder / "guard").read_bytes(), 30))
    result = fsck(folder)
    assert result.exit_code == 1
    assert "guard       contradicts the log" in result.stdout
