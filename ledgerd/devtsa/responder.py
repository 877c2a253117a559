"""Answers timestamp requests with `openssl ts -reply`, one at a time, in a private folder.

OpenSSL keeps the last serial number in a file and locks nothing: parallel replies repeat serials, and
two tokens with one serial are what RFC 3161 section 2.1 forbids. So a lock stands around it, between
threads and, as two processes may have been given one folder, between processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "POLICY",
    "POLICY_2",
    "Digest",
    "EssDigest",
    "OpenSslTsa",
    "ResponderError",
    "find_openssl",
]

# The enterprise number for documentation (RFC 5612).
POLICY: Final = "1.3.6.1.4.1.32473.3161.1"
POLICY_2: Final = "1.3.6.1.4.1.32473.3161.2"  # given only to who asks for it
Digest = Literal["sha256", "sha384", "sha512"]
EssDigest = Literal["sha1", "sha256", "sha384", "sha512"]  # sha1: the attribute of RFC 2634
_SECONDS: Final = 20
_VERSION_SECONDS: Final = 10


class ResponderError(Exception):
    """The openssl command is missing, too old, or did not answer; the message says what to do."""


def find_openssl() -> str:
    """Path of an openssl command that can stamp.

    Raises:
        ResponderError: when there is none of version 3 or newer.
    """
    command = shutil.which("openssl")
    if command is None:
        raise ResponderError("the openssl command is needed and was not found; install OpenSSL 3")
    done = subprocess.run(  # noqa: S603 - found on the PATH
        [command, "version"], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False
    )
    name, _, rest = done.stdout.partition(" ")
    if name != "OpenSSL" or not rest[:1].isdigit() or int(rest.partition(".")[0]) < 3:
        raise ResponderError(
            f"OpenSSL 3 is needed; {command} is {done.stdout.strip() or 'unknown'}"
        )
    return command


class OpenSslTsa:
    """A TSA's signing side. Safe for threads.

    Args:
        folder: with tsa.pem, tsa.key and ca.pem; the rest is written here.
        digest: of the signature.
        ess: digest that names the signer in its signed attribute.
        precision: digits of a second in the time, 0 to 6.
    """

    def __init__(
        self,
        folder: Path,
        *,
        digest: Digest = "sha256",
        ess: EssDigest = "sha256",
        precision: int = 3,
    ) -> None:
        self._folder = folder
        self._openssl = find_openssl()
        self._lock = threading.Lock()
        self._config = folder / "ts.cnf"
        self._config.write_text(_configuration(folder, digest, ess, precision), "utf-8")
        serial = folder / "serial"
        if not serial.exists():
            serial.write_text("01\n", "ascii")  # hexadecimal, an even number of digits

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else signs, or sees half-written files, within."""
        with self._lock, (self._folder / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def reply(self, request: bytes) -> bytes:
        """The TimeStampResp for a TimeStampReq; refusals are responses too.

        Raises:
            ResponderError: when openssl gave none.
        """
        query, answer = self._folder / "query.tsq", self._folder / "answer.tsr"
        command = [self._openssl, "ts", "-reply", "-config", str(self._config), "-section", "tsa"]
        command += ["-queryfile", str(query), "-out", str(answer)]
        # Its own file, or the system's would be read first and could name engines and providers.
        environment = os.environ | {"OPENSSL_CONF": str(self._config)}
        with self.exclusive():
            query.write_bytes(request)
            answer.unlink(missing_ok=True)
            try:
                done = subprocess.run(  # noqa: S603 - found on the PATH
                    command, env=environment, capture_output=True, timeout=_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                raise ResponderError(f"openssl ts gave no answer in {_SECONDS} s") from None
            # Its exit code is 0 for refusals too; what counts is whether it wrote a response.
            if answer.exists():
                return answer.read_bytes()
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ResponderError(f"openssl ts ended with {done.returncode}: {said}")


def _configuration(folder: Path, digest: str, ess: str, precision: int) -> str:
    place = _quoted(str(folder.resolve()))
    return f"""# Written at each start by the development TSA. Not for production.
[tsa]
serial = {place}/serial
signer_cert = {place}/tsa.pem
signer_key = {place}/tsa.key
certs = {place}/ca.pem
signer_digest = {digest}
default_policy = {POLICY}
other_policies = {POLICY_2}
digests = sha256, sha384, sha512
accuracy = secs:1
clock_precision_digits = {precision}
ordering = no
tsa_name = yes
ess_cert_id_chain = no
ess_cert_id_alg = {ess}
"""


def _quoted(path: str) -> str:
    """A path as OpenSSL's configuration reads it back."""
    return "".join("\\" + c if c in "\\$#\"'" else c for c in path)
