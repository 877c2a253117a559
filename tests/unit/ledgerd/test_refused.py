"""`ledgerd refused`: what was refused and kept can be looked at, and got out, of a stopped ledger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from ledgerd.commands import app
from ledgerd.store.interface import Changes, Quarantined
from ledgerd.store.rocks import RocksStore
from tests.helpers.ledger_bench import fill

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

NONCE = Quarantined(0, "tsa-one", 1, "nonce", b"query 0", b"reply 0", 1_798_761_599_000_000)
CHAIN = Quarantined(1, "tsa.two", 10**6, "chain", b"query 1", b"", 1_798_761_600_000_000)


def refused(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["refused", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two refused answers; the checkpoint of the second is not there."""
    data = tmp_path / "data"
    data.mkdir()
    store = fill(RocksStore.open(data / "db"), data).store
    size = next(iter(store.checkpoint_sizes()))
    NONCE.size = size
    store.commit(Changes(quarantined=[NONCE, CHAIN]))
    store.close()
    return data


def test_they_are_listed(folder: Path) -> None:
    result = refused(folder)
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["number", "tsa", "size", "cause", "refused", "at", "bytes"],
        ["0", "tsa-one", str(NONCE.size), "nonce", "2026-12-31T23:59:59Z", "7"],
        ["1", "tsa.two", "1000000", "chain", "2027-01-01T00:00:00Z", "0"],
    ]


def test_json_is_for_machines(folder: Path, tmp_path: Path) -> None:
    result = refused(folder, "--json", "--out", tmp_path / "out")
    first, second = json.loads(result.stdout)
    assert {name: first[name] for name in ("number", "tsa", "size", "cause", "bytes")} == {
        "number": 0,
        "tsa": "tsa-one",
        "size": NONCE.size,
        "cause": "nonce",
        "bytes": 7,
    }
    assert first["refused_at"] == "2026-12-31T23:59:59Z"
    assert [name.rpartition(".")[2] for name in first["files"]] == ["tsq", "tsr", "note"]
    assert [name.rpartition(".")[2] for name in second["files"]] == ["tsq", "tsr"]
    assert json.loads(refused(folder, "--json").stdout)[0]["files"] == []


def test_their_bytes_are_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    result = refused(folder, "--out", out)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == [
        "000000-tsa-one-nonce.note",
        "000000-tsa-one-nonce.tsq",
        "000000-tsa-one-nonce.tsr",
        "000001-tsa.two-chain.tsq",
        "000001-tsa.two-chain.tsr",
    ]
    assert (out / "000000-tsa-one-nonce.tsq").read_bytes() == b"query 0"
    assert (out / "000000-tsa-one-nonce.tsr").read_bytes() == b"reply 0"
    assert (out / "000001-tsa.two-chain.tsr").read_bytes() == b""
    store = RocksStore.open(folder / "db", create=False)
    assert (out / "000000-tsa-one-nonce.note").read_bytes() == store.checkpoint(NONCE.size)
    store.close()
    assert f"wrote {out / '000001-tsa.two-chain.tsr'}" in result.stdout
    assert refused(folder, "--out", out).exit_code == 0, "the same again is no mistake"


def test_evidence_is_never_written_over(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused(folder, "--out", out)
    (out / "000000-tsa-one-nonce.tsr").write_bytes(b"something else")
    result = refused(folder, "--out", out)
    assert result.exit_code == 2
    assert "000000-tsa-one-nonce.tsr is there and holds something else" in result.stderr
    assert (out / "000000-tsa-one-nonce.tsr").read_bytes() == b"something else"


def test_a_folder_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = refused(folder, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "ledgerd: cannot make the folder" in result.stderr
    (tmp_path / "out" / "000000-tsa-one-nonce.tsr").mkdir(parents=True)
    result = refused(folder, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "ledgerd: cannot write" in result.stderr


def test_none_are_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    fill(RocksStore.open(data / "db"), data).store.close()
    assert refused(data).stdout == "no refused answers are kept\n"
    assert json.loads(refused(data, "--json").stdout) == []


def test_a_folder_in_use_or_of_something_else(folder: Path, tmp_path: Path) -> None:
    store = RocksStore.open(folder / "db", create=False)
    try:
        result = refused(folder)
        assert result.exit_code == 2
        assert "in use by another ledgerd" in result.stderr
    finally:
        store.close()
    result = refused(tmp_path / "none")
    assert result.exit_code == 2
    assert "there is no ledger in" in result.stderr
