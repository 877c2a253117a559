"""Keys of agents and the files they are kept in."""

from __future__ import annotations

import os
import resource
import stat
from typing import TYPE_CHECKING

import pytest

from receiptledger.core.encoding import base64url_encode
from receiptledger.core.receipt import check_signature
from receiptledger.signer import (
    KEY_PREFIX,
    KeyFileError,
    SeedSigner,
    create_key_file,
    load_signer,
)

if TYPE_CHECKING:
    from pathlib import Path

SEED = bytes(range(32))


def test_signs_what_the_ledger_verifies() -> None:
    signer = SeedSigner(SEED)
    # RFC 8032 key generation, computed once with an independent implementation.
    assert signer.public_key.hex() == (
        "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
    )
    signature = signer.sign(b"message")
    assert len(signature) == 64
    check_signature(signature, b"message", signer.public_key)


def test_never_shows_its_seed() -> None:
    signer = SeedSigner(SEED)
    assert base64url_encode(SEED) not in repr(signer)
    assert base64url_encode(signer.public_key) in repr(signer)


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), "x" * 32, bytearray(32)])
def test_refuses_other_seeds(seed: object) -> None:
    with pytest.raises(KeyFileError, match="32 bytes"):
        SeedSigner(seed)  # type: ignore[arg-type]


def test_error_is_no_value_error() -> None:
    assert not issubclass(KeyFileError, ValueError)


def test_file_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "agent.key"
    created = create_key_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_bytes()
    assert text.startswith(KEY_PREFIX.encode())
    assert text.count(b"\n") == 1
    assert text.endswith(b"\n")
    assert len(text) == len(KEY_PREFIX) + 43 + 1
    assert load_signer(str(path)).public_key == created.public_key


def test_two_files_hold_two_keys(tmp_path: Path) -> None:
    one, other = create_key_file(tmp_path / "1"), create_key_file(tmp_path / "2")
    assert one.public_key != other.public_key


def test_umask_does_not_widen_or_narrow_the_mode(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        create_key_file(tmp_path / "key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "agent.key"
    path.write_text("precious")
    with pytest.raises(KeyFileError, match="never overwritten"):
        create_key_file(path)
    assert path.read_text() == "precious"


def test_does_not_follow_a_link_when_creating(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError, match="never overwritten"):
        create_key_file(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot create"):
        create_key_file(tmp_path / "missing" / "key")


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    """A limit on file sizes fails the write as a full disk does."""
    path = tmp_path / "key"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(KeyFileError, match="cannot write the key file"):
            create_key_file(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not path.exists()


def test_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="receiptledger keygen -o"):
        load_signer(tmp_path / "none")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o777])
def test_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    create_key_file(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}.*chmod 600"):
        load_signer(path)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_open_to_the_owner_alone_is_accepted(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    create_key_file(path)
    path.chmod(mode)
    load_signer(path)


def test_a_folder_or_pipe_is_no_key_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="no regular file"):
        load_signer(tmp_path / "pipe")
    with pytest.raises(KeyFileError, match=r"cannot read|no regular file"):
        load_signer(tmp_path)


def _load(path: Path) -> tuple[bytes | None, str]:
    """The public key, or the refusal."""
    try:
        return load_signer(path).public_key, ""
    except KeyFileError as error:
        return None, str(error)


def test_every_changed_byte_of_a_file_is_noticed(tmp_path: Path) -> None:
    """Each byte matters: another spelling is refused, another valid seed is another key."""
    path = tmp_path / "key"
    path.touch(0o600)
    good = f"{KEY_PREFIX}{base64url_encode(SEED)}\n".encode()
    key = SeedSigner(SEED).public_key
    for index in range(len(good)):
        for flip in (0x01, 0x20, 0x80):
            bad = bytearray(good)
            bad[index] ^= flip
            path.write_bytes(bad)
            found, message = _load(path)
            assert found != key
            assert found is not None or "no key file" in message
            assert base64url_encode(SEED)[:20] not in message


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        KEY_PREFIX.encode(),
        f"{KEY_PREFIX}{base64url_encode(SEED)}".encode(),
        f"{KEY_PREFIX}{base64url_encode(SEED)}\n\n".encode(),
        f"{KEY_PREFIX}{base64url_encode(SEED)}=\n".encode(),
        f" {KEY_PREFIX}{base64url_encode(SEED)}\n".encode(),
        f"{KEY_PREFIX}{base64url_encode(SEED[:31])}\n".encode(),
        b"PRIVATE+KEY+log+00000000+AAAA\n",
        b"x" * 2_000,
    ],
    ids=lambda text: repr(text[:24]),
)
def test_other_forms_are_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(text)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="no key file"):
        load_signer(path)
