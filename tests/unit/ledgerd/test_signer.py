"""The log's key file: made once, never replaced, refused when anything about it is wrong."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest

from ledgerd.signer import LogKeyError, create_log_key, load_log_key
from receiptledger.core.note import NoteSigner, open_note, sign_note
from tests.helpers.cases import named

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = "example.com/log"


def test_a_new_key_signs_after_being_read_again(tmp_path: Path) -> None:
    path = tmp_path / "log.key"
    made = create_log_key(path, ORIGIN)
    read = load_log_key(path, ORIGIN)
    assert read.verifier == made.verifier
    assert read.verifier.name == ORIGIN
    assert open_note(sign_note(b"text\n", read), made.verifier).text == b"text\n"


def test_two_new_keys_differ(tmp_path: Path) -> None:
    keys = {str(create_log_key(tmp_path / f"{n}.key", ORIGIN).verifier) for n in range(3)}
    assert len(keys) == 3


def test_nobody_else_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_log_key(tmp_path / "log.key", ORIGIN)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log.key").stat().st_mode) == 0o600


def test_folders_are_made(tmp_path: Path) -> None:
    create_log_key(tmp_path / "a" / "b" / "log.key", ORIGIN)
    assert (tmp_path / "a" / "b" / "log.key").exists()


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log.key"
    path.write_text("something")
    with pytest.raises(LogKeyError, match="exists; a log key is never replaced"):
        create_log_key(path, ORIGIN)
    assert path.read_text() == "something"


def test_a_key_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogKeyError, match="cannot write the log key"):
        create_log_key(tmp_path / "file" / "log.key", ORIGIN)


def test_the_key_is_on_stable_storage_when_it_is_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that signed under a key whose file a power loss took could never go on."""
    seen: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        info = os.fstat(descriptor)
        seen.append("folder" if stat.S_ISDIR(info.st_mode) else f"file of {info.st_size}")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    create_log_key(tmp_path / "log.key", ORIGIN)
    size = (tmp_path / "log.key").stat().st_size
    assert seen == [f"file of {size}", "folder"]


def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LogKeyError, match=r"cannot write the log key .*: No space left"):
        create_log_key(tmp_path / "log.key", ORIGIN)
    monkeypatch.undo()
    made = create_log_key(tmp_path / "log.key", ORIGIN)  # half a key is not in the next start's way
    assert load_log_key(tmp_path / "log.key", ORIGIN).verifier == made.verifier


def key_file(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


GOOD = NoteSigner.from_seed(ORIGIN, bytes(32)).format().encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    named(
        {
            "open to the group": (GOOD, 0o640, "open to others (mode 640): chmod 600"),
            "open to all": (GOOD, 0o604, "open to others (mode 604): chmod 600"),
            "writable by the group": (GOOD, 0o620, "open to others (mode 620): chmod 600"),
            "of another log": (
                NoteSigner.from_seed("example.com/other", bytes(32)).format().encode(),
                0o600,
                "is the key of log 'example.com/other', the setting origin says 'example.com/log'",
            ),
            "empty, after a crash while it was made": (b"", 0o600, "holds no log key"),
            "cut": (GOOD[:-6], 0o600, "holds no log key"),
            "a verification key": (
                str(NoteSigner.from_seed(ORIGIN, bytes(32)).verifier).encode(),
                0o600,
                "holds no log key",
            ),
            "not text": (b"\xff\xfe", 0o600, "cannot read the log key"),
        }
    ),
)
def test_files_that_are_no_key_of_this_log(
    content: bytes, mode: int, words: str, tmp_path: Path
) -> None:
    path = key_file(tmp_path / "log.key", content, mode)
    with pytest.raises(LogKeyError) as caught:
        load_log_key(path, ORIGIN)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_errors_show_nothing_of_the_key(tmp_path: Path) -> None:
    secret = GOOD.decode().strip().rpartition("+")[2]
    for content in (GOOD[:-3], GOOD.replace(b"log+", b"lag+"), b"x" + GOOD):
        path = key_file(tmp_path / "log.key", content)
        with pytest.raises(LogKeyError) as caught:
            load_log_key(path, ORIGIN)
        assert secret[:12] not in str(caught.value)


def test_a_missing_key_says_what_it_means(tmp_path: Path) -> None:
    with pytest.raises(LogKeyError, match=r"is missing\. Put the copy you kept back"):
        load_log_key(tmp_path / "log.key", ORIGIN)


def test_a_folder_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(LogKeyError, match="cannot read the log key"):
        load_log_key(tmp_path, ORIGIN)
