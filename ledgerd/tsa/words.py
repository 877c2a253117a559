"""What is said of foreign text and of other libraries' errors: plain, short, and without secrets.

Texts of Python and of its libraries show addresses in memory and names of classes, which help nobody
who runs a ledger. And a URL may carry a password before its host, even where none is allowed, since
that is where people put them: what is shown of it has none.
"""

from __future__ import annotations

import os
import re
import ssl
from typing import Final

import aiohttp

__all__ = ["CUT", "shown", "shown_url", "system_words", "transport_words", "without_userinfo"]

CUT: Final = 200  # characters of foreign text
_STACK = re.compile(r"\(_\w+\.c:\d+\)|\[[A-Z0-9_ ]+(: [A-Z0-9_]+)?\]|\[Errno -?\d+\]")


def shown(text: str) -> str:
    """Foreign text as it may stand in a log: quoted, ASCII, short."""
    return ascii(text[:CUT])


def without_userinfo(text: str) -> str:
    """The same without what stands between the scheme and an "@"; also of what is no good URL."""
    head, at, rest = text.rpartition("@")
    if not at:
        return text
    scheme, slashes, _ = head.partition("//")
    return f"{scheme}//***@{rest}" if slashes else f"***@{rest}"


def shown_url(text: str) -> str:
    """A URL as it may stand in a log."""
    return shown(without_userinfo(text))


def system_words(error: OSError | ValueError) -> str:
    """What the system or OpenSSL says, without its numbers and places in the source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or (
            _bare(str(error)) if error.args else "it failed"
        )
        return str(reason).replace("_", " ").lower()
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and number is not None and number > 0:
        return os.strerror(number)
    return _bare(getattr(error, "strerror", None) or str(error))


def _bare(text: str) -> str:
    return " ".join(_STACK.sub("", text).split())[:CUT]


def transport_words(error: aiohttp.ClientError | OSError | ValueError) -> str:
    """Why a request got no answer, for people."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {_place(error)} does not hold: {_certificate(error)}"
        case aiohttp.ClientConnectorDNSError():
            return f"the host {shown(error.host)} cannot be found: {system_words(error.os_error)}"
        case aiohttp.ClientConnectorSSLError():
            return f"no TLS with {_place(error)}: {system_words(error.os_error)}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot connect to the proxy {_place(error)}: {_connecting(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {_place(error)}: {_connecting(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answers with status {error.status}"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before there was an answer"
        case aiohttp.ClientPayloadError():
            return "the answer broke off before its end"
        case aiohttp.InvalidURL():
            return "the URL cannot be used"
        case aiohttp.ClientResponseError():
            return "the answer is no good HTTP"
        case OSError() if (
            error.errno is not None or error.strerror or isinstance(error, ssl.SSLError)
        ):
            return f"the connection broke: {system_words(error)}"
        case OSError() | aiohttp.ClientConnectionError():
            return "the connection broke"
        case aiohttp.ClientError():
            return "the exchange failed"
    return f"the request cannot be sent: {shown_url(_bare(str(error)))}"


def _place(
    error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError,
) -> str:
    return f"{shown(str(error.host))[1:-1]}:{error.port}"


def _certificate(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    return system_words(cause) if isinstance(cause, OSError | ValueError) else _bare(str(cause))


def _connecting(error: OSError) -> str:
    # With several addresses that fail in several ways there is no one number.
    return system_words(error) if error.errno is not None else "none of its addresses answers"
