"""What is said when there is no answer: plain words, whatever library failed, and no secret."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.settings import TsaSettings
from ledgerd.tsa.words import shown_url, system_words, transport_words, without_userinfo
from receiptledger.core.timestamp_cause import Cause
from tests.helpers.polling import PATIENCE
from tests.helpers.raw_http import RawServer, answer
from tests.helpers.tls_kit import TlsAuthority

if TYPE_CHECKING:
    from pathlib import Path

FOREIGN = re.compile(r"[A-Z]\w+Error|<|>|0x[0-9a-f]+|Errno|_ssl|\[SSL|object at|None")


def failure(url: str, **changes: Any) -> TsaError:
    """What a request to somewhere fails with."""
    config = TsaSettings.model_validate(
        {"name": "t", "url": url, "roots": ["unread.pem"]} | changes
    )

    async def run() -> None:
        async with TsaHttp(config) as http:
            await http.post(b"q", deadline_seconds=PATIENCE)

    with pytest.raises(TsaError) as caught:
        asyncio.run(run())
    assert caught.value.cause is Cause.TRANSPORT
    assert not FOREIGN.search(caught.value.detail), caught.value.detail
    return caught.value


def against(reply: bytes, tls: ssl.SSLContext | None = None, **changes: Any) -> TsaError:
    async def run() -> TsaError:
        async with RawServer(reply, tls=tls) as server:
            return await asyncio.to_thread(failure, server.url, **changes)

    return asyncio.run(run())


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


# Real failures.


def test_nobody_there_and_a_proxy_that_is_not_there() -> None:
    port = free_port()
    url, proxy = "http://127.0.0.1:1/", f"http://u:hunter2@127.0.0.1:{port}"
    assert failure(f"http://127.0.0.1:{port}/").detail == (
        f"cannot connect to 127.0.0.1:{port}: Connection refused"
    )
    assert failure(url, proxy=proxy).detail == (
        f"cannot connect to the proxy 127.0.0.1:{port}: Connection refused"
    )


def test_a_host_that_nobody_knows() -> None:
    assert "host 'nobody.invalid' cannot be found" in failure("http://nobody.invalid/").detail


def test_answers_that_break_off_or_are_none() -> None:
    short = answer(b"x").replace(b"Content-Length: 1", b"Content-Length: 100")
    assert short != answer(b"x")
    assert against(short).detail == "the answer broke off before its end"
    assert "no good HTTP" in against(b"SSH-2.0-OpenSSH\r\n\r\n").detail
    assert "before there was an answer" in against(b"").detail


def test_web_servers_whose_certificate_does_not_hold(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    stranger = against(answer(b"x"), authority.server()).detail
    assert re.match(r"the certificate of 127\.0\.0\.1:\d+ does not hold: unable to get", stranger)
    wrong = authority.server("other", address="127.0.0.2")
    other_host = against(answer(b"x"), wrong, ca_file=authority.file).detail
    assert "does not hold: IP address mismatch" in other_host


# Whatever else there is.

KEY = ConnectionKey("h", 1, False, True, None, None, None)
ODD: dict[str, tuple[Any, str]] = {
    "several addresses": (
        aiohttp.ClientConnectorError(KEY, OSError("Multiple exceptions: [Errno 111] a, b")),
        "cannot connect to h:1: none of its addresses answers",
    ),
    "no TLS": (
        aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "[SSL: X_Y] x y (_ssl.c:1)")),
        "no TLS with h:1: x y",
    ),
    "a broken pipe": (aiohttp.ClientOSError(errno.EPIPE, "x"), "the connection broke: Broken pipe"),
    "a reset": (
        ConnectionResetError(errno.ECONNRESET, "x"),
        "the connection broke: Connection reset",
    ),
    "a reset without words": (ConnectionResetError(), "the connection broke"),
    "a reset of the library": (aiohttp.ClientConnectionResetError("x"), "the connection broke"),
    "a closed session": (
        aiohttp.ClientConnectionError("Session is closed"),
        "the connection broke",
    ),
    "an error of TLS": (
        ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x (_ssl.c:1)"),
        "the connection",
    ),
    "a URL": (aiohttp.InvalidURL("http://u:hunter2@h/"), "the URL cannot be used"),
    "a value": (ValueError("bad http://u:hunter2@h/ <x>"[:24]), "the request cannot be sent: "),
    "something new": (aiohttp.ClientError("<object at 0x7f>"), "the exchange failed"),
}


@pytest.mark.parametrize("name", ODD)
def test_rarer_failures(name: str) -> None:
    error, said = ODD[name]
    words = transport_words(error)
    assert words.startswith(said)
    assert not FOREIGN.search(words), words
    assert "hunter2" not in words or "@" not in str(error)


def test_what_a_proxy_says() -> None:
    error = aiohttp.ClientHttpProxyError(None, (), status=407, message="x")  # type: ignore[arg-type]
    assert transport_words(error) == "the proxy answers with status 407"


def test_the_words_of_the_system() -> None:
    assert system_words(FileNotFoundError(errno.ENOENT, "x", "f")) == "No such file or directory"
    assert system_words(ValueError("embedded null byte")) == "embedded null byte"
    assert system_words(socket.gaierror(-2, "Name or service not known")) == (
        "Name or service not known"
    )
    assert system_words(ssl.SSLError(1, "[SSL] PEM lib (_ssl.c:4149)")) == "pem lib"
    assert system_words(ssl.SSLError()) == "it failed"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/", "https://h/"),
        ("https://u@h/", "https://***@h/"),
        ("https://u:p@h/", "https://***@h/"),
        ("https://u:p@q@h/", "https://***@h/"),
        ("https://u:p//q@h/", "https://***@h/"),
        ("u:p@h", "***@h"),
        ("//u:p@h", "//***@h"),
        ("", ""),
    ],
)
def test_what_is_shown_of_a_url(url: str, shown: str) -> None:
    assert without_userinfo(url) == shown
    assert shown_url(url) == repr(shown)
