"""`receiptledger conformance` on the foreign vectors: every row as their authors say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from receiptledger.cli.app import app
from tests.helpers.published import GROUPS, NOT_EXPRESSIBLE, write_set

if TYPE_CHECKING:
    from pathlib import Path

# How many rows each folder must give, so that none is lost silently.
COUNTS = {
    "ms-lesson18": 32,
    "draft-farley": 19,
    "answerproof": 6,
    "nobulex": 6,
    "agt-mcp-receipts": 2,
    "protect-mcp-adk": 2,
    "agent-receipts": 37,
}


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_every_row_comes_out_as_published(group: str, vectors: Path, tmp_path: Path) -> None:
    rows = write_set(group, vectors, tmp_path)
    assert len(rows) == COUNTS[group]
    result = CliRunner().invoke(app, ["conformance", str(tmp_path), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    value = json.loads(result.stdout)
    assert [row for row in value["rows"] if not row["as_expected"]] == []
    assert (result.exit_code, value["as_expected"]) == (0, len(rows))


def test_no_folder_is_left_out(vectors: Path) -> None:
    folders = {path.name for path in (vectors / "receipts").iterdir() if path.is_dir()}
    assert folders == set(GROUPS)


def test_only_what_a_manifest_cannot_say_is_left_out(vectors: Path) -> None:
    index = json.loads((vectors / "receipts/draft-farley/rebuilt/index.json").read_text("utf-8"))
    names = {f"{case['file']} with {case['jwks']}" for case in index["cases"]}
    assert names >= NOT_EXPRESSIBLE
    assert len(index["cases"]) == COUNTS["draft-farley"] + len(NOT_EXPRESSIBLE) + 1
