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
from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.tsa.settings import TsaSettings

__all__ = ["Credentials"]

MAX_SECRET_BYTES = 8 * 1024
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750 section 2.1
_Stamp = tuple[tuple[str, int, int, int], ...]


class Credentials:
    """The secrets of one TSA's settings. One user at a time."""

    def __init__(self, settings: TsaSettings) -> None:
        self._settings = settings
        self._contexts: dict[bool, tuple[_Stamp, ssl.SSLContext]] = {}

    def authorization(self) -> dict[str, str]:
        """The header that says who we are, or nothing.

        Raises:
            TsaError: transport, when a file cannot be read or holds no secret.
        """
        settings = self._settings
        if settings.bearer_token_file is not None:
            token = _secret(settings.bearer_token_file)
            if not _BEARER.fullmatch(token):
                raise TsaError(
                    Cause.TRANSPORT, f"{settings.bearer_token_file} does not hold one bearer token"
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
            TsaError: transport, when a file cannot be read or used.
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
            names = ", ".join(str(path) for path in files if path is not None)
            raise TsaError(Cause.TRANSPORT, f"cannot use {names} for TLS: {error}") from None

    def _context(self, *, as_client: bool) -> ssl.SSLContext:
        settings = self._settings
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


def _stamp(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        text = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise TsaError(Cause.TRANSPORT, f"cannot read {path}: {type(error).__name__}") from None
    if not text or len(data) > MAX_SECRET_BYTES or not text.isprintable():
        raise TsaError(Cause.TRANSPORT, f"{path} does not hold one line with a secret")
    return text
