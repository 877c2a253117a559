"""The guard file: replaced whole, durably, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from ledgerd.guard import FileGuard


def descriptors() -> Path:
    """A folder with a link to each open file of this process."""
    return Path("/dev/fd")


def test_no_file_is_no_guard(tmp_path: Path) -> None:
    assert FileGuard(tmp_path / "guard").read() is None


def test_what_was_written_is_read_by_the_next_process(tmp_path: Path) -> None:
    guard = FileGuard(tmp_path / "guard")
    for note in (b"one\n", b"", b"\x00\xff two\n" * 1_000, b"three\n"):
        guard.write(note)
        assert FileGuard(tmp_path / "guard").read() == note
    assert [file.name for file in tmp_path.iterdir()] == ["guard"]


def test_a_half_written_file_of_a_crash_is_never_read(tmp_path: Path) -> None:
    guard = FileGuard(tmp_path / "guard")
    guard.write(b"old\n")
    (tmp_path / "guard.new").write_bytes(b"ha")
    assert guard.read() == b"old\n"
    guard.write(b"new\n")
    assert guard.read() == b"new\n"
    assert not (tmp_path / "guard.new").exists()


def test_it_is_on_stable_storage_when_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's bytes before its name, the name before the return: any other order can lose it."""
    seen: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        info = os.fstat(descriptor)
        seen.append("folder" if stat.S_ISDIR(info.st_mode) else f"file of {info.st_size}")
        real_fsync(descriptor)

    def rename(source: str, target: str) -> None:
        seen.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    FileGuard(tmp_path / "guard").write(b"note\n")
    assert seen == ["file of 5", "rename", "folder"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_says_so_and_leaves_the_old_note(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = FileGuard(tmp_path / "guard")
    guard.write(b"old\n")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="no space"):
        guard.write(b"new\n")
    monkeypatch.undo()
    assert guard.read() == b"old\n"
    guard.write(b"new\n")
    assert guard.read() == b"new\n"


def test_no_descriptor_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = FileGuard(tmp_path / "guard")
    guard.write(b"old\n")
    before = len(list(descriptors().iterdir()))
    calls = 0

    def second_fails(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # the folder's
            raise OSError(errno.EIO, "folder")

    monkeypatch.setattr(os, "fsync", second_fails)
    with pytest.raises(OSError, match="folder"):
        guard.write(b"new\n")
    assert len(list(descriptors().iterdir())) == before


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        FileGuard(tmp_path / "none" / "guard").write(b"x")


def test_a_guard_that_cannot_be_read_is_not_taken_for_missing(tmp_path: Path) -> None:
    (tmp_path / "guard").mkdir()
    with pytest.raises(OSError, match="directory"):
        FileGuard(tmp_path / "guard").read()
