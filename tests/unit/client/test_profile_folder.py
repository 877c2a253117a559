"""Receipt formats out of a folder: in order, bounded, and each fault named with its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from receiptledger import profile_folder
from receiptledger.core.profile import Profiles
from receiptledger.core.profiles import read_sources
from receiptledger.profile_folder import load_profiles

if TYPE_CHECKING:
    from pathlib import Path

DRAFT = dict(read_sources())["draft-farley-04.toml"]
OTHER = DRAFT.replace('id = "draft-farley-04"', 'id = "my-format"')


def refused(folder: Path) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are compared below
        load_profiles(folder)
    return str(caught.value)


def test_without_a_folder() -> None:
    assert load_profiles(None) is Profiles.builtin()


def test_a_folder_adds_its_formats(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(OTHER)
    (tmp_path / "a.toml").write_text(OTHER.replace("my-format", "another"))
    (tmp_path / "notes.txt").write_text("not read")
    assert load_profiles(tmp_path).ids() == (*Profiles.builtin().ids(), "another", "my-format")


def test_a_fault_names_file_and_member(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(OTHER.replace('agent = "payload.issuer_id"', 'agent = "signature.kid"'))
    message = refused(tmp_path)
    assert message.startswith(f"{path}: ")
    assert "agent" in message


def test_a_fault_in_the_toml_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('id = "a"\nversion = = 1\n')
    message = refused(tmp_path)
    assert message.startswith(f"{tmp_path / 'a.toml'}")
    assert "line 2" in message


def test_no_format_replaces_a_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(DRAFT)
    assert "draft-farley-04" in refused(tmp_path)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "nowhere")
    assert "must hold 1..256 files *.toml, got 0" in refused(tmp_path)


def test_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"#" * (profile_folder.MAX_FILE_BYTES + 1))
    assert refused(tmp_path) == f"{path} is too long for a receipt format: at most 65536 bytes"
    path.write_bytes(b"# \xff")
    assert refused(tmp_path) == f"{path} is not UTF-8: a bad byte at offset 2"
    path.unlink()
    path.mkdir()
    assert refused(tmp_path) == f"cannot read {path}: Is a directory"
    monkeypatch.setattr(profile_folder, "MAX_FILES", 1)
    (tmp_path / "b.toml").mkdir()
    assert "must hold 1..1 files *.toml, got 2" in refused(tmp_path)
