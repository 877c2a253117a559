"""Keys of agents: what signs receipts, and the file a key is kept in.

A key file is one line, `receiptledger-ed25519-seed:` and the unpadded base64url of the 32-byte seed
(RFC 8032 section 5.1.5), with mode 0600. It is never overwritten: a lost agent key ends its chain.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final, Protocol

from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from receiptledger.core.encoding import base64url_decode, base64url_encode

__all__ = ["KEY_PREFIX", "KeyFileError", "SeedSigner", "Signer", "create_key_file", "load_signer"]

KEY_PREFIX: Final = "receiptledger-ed25519-seed:"
SEED_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_MAX_FILE_BYTES = 1_024  # a key file has 71
_OPEN_TO_OTHERS = 0o077


class KeyFileError(Exception):
    """A key file cannot be made or used; the message says what to do."""


class Signer(Protocol):
    """Signs for one agent. A hardware or remote key needs these two members and no more."""

    @property
    def public_key(self) -> bytes:
        """Ed25519 public key, 32 bytes."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Ed25519 signature over a message (RFC 8032, not pre-hashed), 64 bytes."""
        ...


class SeedSigner:
    """A key in memory. It never shows its seed.

    Args:
        seed: 32 secret bytes.

    Raises:
        KeyFileError: for another length or type.
    """

    __slots__ = ("_secret", "public_key")

    public_key: bytes
    """Ed25519 public key, 32 bytes."""

    def __init__(self, seed: bytes) -> None:
        if type(seed) is not bytes or len(seed) != SEED_BYTES:
            raise KeyFileError(f"a key is made from a seed of {SEED_BYTES} bytes")
        self.public_key, self._secret = crypto_sign_seed_keypair(seed)

    def __repr__(self) -> str:
        return f"SeedSigner(public_key={base64url_encode(self.public_key)})"

    def sign(self, message: bytes) -> bytes:
        """See :class:`Signer`."""
        return crypto_sign(message, self._secret)[:SIGNATURE_BYTES]


def create_key_file(path: Path | str) -> SeedSigner:
    """Make a new key and write it durably.

    Raises:
        KeyFileError: when the file exists or cannot be written.
    """
    path = Path(path)
    seed = secrets.token_bytes(SEED_BYTES)
    line = f"{KEY_PREFIX}{base64url_encode(seed)}\n".encode("ascii")
    try:
        # O_EXCL also refuses a symbolic link that somebody put there.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists, and a key is never overwritten: choose another file, or move it away"
        ) from None
    except OSError as error:
        raise KeyFileError(f"cannot create the key file {path}: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask took away
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(path.parent)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise KeyFileError(f"cannot write the key file {path}: {error.strerror}") from None
    return SeedSigner(seed)


def load_signer(path: Path | str) -> SeedSigner:
    """Read a key file.

    Raises:
        KeyFileError: when it is missing, open to other users, or not a key file.
    """
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe must not hang us
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())  # of what was opened, not of what the name means now
            if not stat.S_ISREG(status.st_mode):
                raise KeyFileError(f"{path} is no regular file: name the key file itself")
            text = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise KeyFileError(
            f"there is no key file {path}: make one with `receiptledger keygen -o {path}`"
        ) from None
    except OSError as error:
        raise KeyFileError(f"cannot read the key file {path}: {error.strerror}") from None
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OPEN_TO_OTHERS:
        raise KeyFileError(f"{path} is open to others (mode {mode:04o}): chmod 600 {path}")
    return SeedSigner(_seed(path, text))


def _seed(path: Path, text: bytes) -> bytes:
    """The seed of a key file's bytes; no message repeats any of them."""
    line = text.decode("ascii", "replace")
    if line.startswith(KEY_PREFIX) and line.endswith("\n"):
        with contextlib.suppress(ValueError):
            return base64url_decode(line[len(KEY_PREFIX) : -1], SEED_BYTES)
    raise KeyFileError(
        f"{path} is no key file: expected one line, {KEY_PREFIX} and 43 characters, as "
        "`receiptledger keygen` writes it"
    )


def _sync_folder(folder: Path) -> None:
    """A new name is durable only once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
