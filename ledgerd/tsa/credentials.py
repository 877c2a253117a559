"""Who we are to a timestamp authority, and whom we believe it is: secrets and TLS, from files.

Files are looked at for each request, so a rotated token or certificate needs no restart. All of this
may block on a disk, so it runs in a thread; nothing here is logged, and errors name files, never
what is in them.
"""

from __future__ import annotations

import base64
import re
import ssl
from typing import TYPE_CHECKING

from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.words import system_words
from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.tsa.settings import TsaSettings

__all__ = ["Credentials"]

MAX_SECRET_BYTES = 8 * 1024
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750 section 2.1
_TLS_WORDS = {
    "key values mismatch": "the key does not belong to the certificate",
    "no certificate or crl found": "there is no certificate in it",
    "pem lib": "it is not PEM, or is encrypted, or the key is missing",
}
_Stamp = tuple[tuple[str, int, int, int], ...]


class Credentials:
    """The secrets of one TSA's settings. One user at a time."""

    def __init__(self, settings: TsaSettings) -> None:
        self._settings = settings
        self._contexts: dict[bool, tuple[_Stamp, ssl.SSLContext]] = {}

    def check(self) -> None:
        """Use every file once, before anything is asked.

        Raises:
            TsaError: credentials, as :meth:`authorization` and :meth:`tls`.
        """
        self.authorization()
        self.tls(as_client=True)

    def authorization(self) -> dict[str, str]:
        """The header that says who we are, or nothing.

        Raises:
            TsaError: credentials, when a file cannot be read or holds no secret.
        """
        settings = self._settings
        if settings.bearer_token_file is not None:
            token = _secret(settings.bearer_token_file)
            if not _BEARER.fullmatch(token):
                raise TsaError(
                    Cause.CREDENTIALS,
                    f"{settings.bearer_token_file} does not hold one bearer token",
                )
            return {"Authorization": f"Bearer {token}"}
        if settings.username is not None and settings.password_file is not None:
            pair = f"{settings.username}:{_secret(settings.password_file)}".encode()
            return {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}
        return {}

    def tls(self, *, as_client: bool) -> ssl.SSLContext:
        """How to connect: servers are always verified; with our certificate if `as_client`.

        Reading the system's roots takes tens of milliseconds, so a context is kept while its files
        stay as they are.

        Raises:
            TsaError: credentials, when a file cannot be read or used.
        """
        settings = self._settings
        files = [settings.ca_file]
        if as_client:
            files += [settings.client_certificate_file, settings.client_key_file]
        try:
            stamp = tuple(_stamp(path) for path in files if path is not None)
            kept = self._contexts.get(as_client)
            if kept is None or kept[0] != stamp:
                kept = self._contexts[as_client] = stamp, self._context(as_client=as_client)
            return kept[1]
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            # An error of the system names its file, one of OpenSSL does not.
            named = [getattr(error, "filename", None) or path for path in files if path is not None]
            names = ", ".join(dict.fromkeys(map(str, named)))
            detail = f"cannot use {names} for TLS: {_tls_words(error)}"
            raise TsaError(Cause.CREDENTIALS, detail) from None

    def _context(self, *, as_client: bool) -> ssl.SSLContext:
        settings = self._settings
        files = settings.ca_file, settings.client_certificate_file, settings.client_key_file
        for path in files[: 3 if as_client else 1]:
            if path is not None:  # OpenSSL would not say which one it cannot read
                with path.open("rb"):
                    pass
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.ca_file is not None:
            context.load_verify_locations(settings.ca_file)
        if as_client and settings.client_certificate_file is not None:
            # The empty password keeps OpenSSL from asking for one on a terminal.
            context.load_cert_chain(
                settings.client_certificate_file, settings.client_key_file, password=""
            )
        return context


def _tls_words(error: OSError | ValueError) -> str:
    words = system_words(error)
    return _TLS_WORDS.get(words, words)


def _stamp(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        why = system_words(error) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise TsaError(Cause.CREDENTIALS, f"cannot read {path}: {why}") from None
    if not text or len(data) > MAX_SECRET_BYTES or not text.isprintable():
        raise TsaError(Cause.CREDENTIALS, f"{path} does not hold one line with a secret")
    return text
