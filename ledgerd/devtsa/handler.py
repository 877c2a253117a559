"""One HTTP exchange with a development TSA: stamping with its faults, revocation, certificates."""

from __future__ import annotations

import os
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, ClassVar, Final, cast

from ledgerd.devtsa.faults import Mode
from ledgerd.devtsa.pki import NOTICE
from ledgerd.devtsa.responder import ResponderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ledgerd.devtsa.listener import Listener
    from ledgerd.devtsa.server import DevTsa

__all__ = ["Handler", "Seen"]

MAX_REQUEST_BYTES: Final = 64 * 1024
_IDLE_SECONDS: Final = 30.0
_DRIP_SECONDS: Final = 0.25
_BLOCK: Final = b"\0" * 65_536
_BLOCKS: Final = 1 << 14  # a gibibyte
_QUERY, _REPLY = "application/timestamp-query", "application/timestamp-reply"
_TEXT, _PEM = "text/plain; charset=utf-8", "application/x-pem-file"
_PAGE: Final = f"Timestamp authority for development. {NOTICE}.\n".encode()


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came, for tests."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Handler(BaseHTTPRequestHandler):
    """Answers one request and closes: what a client keeps open would outlive the server."""

    protocol_version = "HTTP/1.1"
    server_version = "dev-tsa"
    sys_version = ""
    timeout: ClassVar[float | None] = _IDLE_SECONDS

    @property
    def _tsa(self) -> DevTsa:
        return cast("Listener", self.server).tsa

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the command prints what matters."""

    def do_GET(self) -> None:
        """Revocation lists and certificates."""
        self._note(b"")
        tsa = self._tsa
        if self.path in ("/root.crl", "/ca.crl"):
            der = tsa.crl("root" if self.path == "/root.crl" else "ca")
            self._send(HTTPStatus.OK, der, "application/pkix-crl")
        elif self.path in ("/root.pem", "/ca.pem", "/tsa.pem"):
            self._send(HTTPStatus.OK, (tsa.folder / self.path[1:]).read_bytes(), _PEM)
        elif self.path == "/":
            self._send(HTTPStatus.OK, _PAGE, _TEXT)
        else:
            self._send(HTTPStatus.NOT_FOUND, _PAGE, _TEXT)

    def do_POST(self) -> None:
        """A timestamp, or the state of a certificate."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10):
            return self._send(HTTPStatus.LENGTH_REQUIRED, _PAGE, _TEXT)
        if int(length) > MAX_REQUEST_BYTES:
            return self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _PAGE, _TEXT)
        body = self.rfile.read(int(length))
        self._note(body)
        try:
            if self.path == "/ocsp":
                self._send(HTTPStatus.OK, self._tsa.ocsp(body), "application/ocsp-response")
            else:
                self._stamp(body)
        except ResponderError as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode(), _TEXT)
        except OSError:  # the client has gone
            self.close_connection = True
        return None

    def _note(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._tsa.seen.append(Seen(self.command, self.path, headers, body))

    def _stamp(self, request: bytes) -> None:
        mode = self._tsa.mode
        if self.headers.get_content_type() != _QUERY:
            self._send(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, _PAGE, _TEXT)
        elif mode in _REFUSALS:
            status, headers = _REFUSALS[mode]
            self._send(status, _PAGE, _TEXT, headers)
        elif mode is Mode.REDIRECT and self.path == "/":
            self._send(HTTPStatus.FOUND, b"", _TEXT, {"Location": "/real"})
        elif mode is Mode.HTML:
            self._send(HTTPStatus.OK, b"<html>Please log in</html>", "text/html")
        elif mode is Mode.EMPTY:
            self._send(HTTPStatus.OK, b"", _REPLY)
        elif mode is Mode.GARBAGE:
            self._send(HTTPStatus.OK, os.urandom(512), _REPLY)
        elif mode is Mode.HUGE:
            self._head(HTTPStatus.OK, _REPLY, {"Content-Length": str(len(_BLOCK) * _BLOCKS)})
            self._flood(_BLOCK)
        elif mode is Mode.HUGE_CHUNKED:
            self._head(HTTPStatus.OK, _REPLY, {"Transfer-Encoding": "chunked"})
            self._flood(b"%x\r\n" % len(_BLOCK) + _BLOCK + b"\r\n")
        else:
            self._answer(mode, request)

    def _answer(self, mode: Mode, request: bytes) -> None:
        """The modes that begin with a good response."""
        tsa = self._tsa
        if mode is Mode.SLOW_HEADERS:
            tsa.stopping.wait(tsa.hang_seconds)
        body = tsa.reply(request)
        if mode is Mode.REPLAY:
            body = tsa.replayed = tsa.replayed or body
        if mode is Mode.CLOSE:
            self._head(HTTPStatus.OK, _REPLY, {"Content-Length": str(len(body))})
            self.wfile.write(body[:40])
        elif mode is Mode.SLOW_BODY:
            self._head(HTTPStatus.OK, _REPLY, {"Content-Length": str(len(body))})
            self._drip(body)
        elif mode is Mode.TRUNCATED:
            self._send(HTTPStatus.OK, body[:-50], _REPLY)
        else:
            self._send(HTTPStatus.OK, body, _TEXT if mode is Mode.WRONG_TYPE else _REPLY)

    def _drip(self, body: bytes) -> None:
        """Byte by byte, so that no read of the client waits long."""
        left = int(self._tsa.hang_seconds / _DRIP_SECONDS)
        for at in range(len(body)):
            if at >= left or self._tsa.stopping.wait(_DRIP_SECONDS):
                return
            self.wfile.write(body[at : at + 1])

    def _flood(self, block: bytes) -> None:
        for _ in range(_BLOCKS):
            if self._tsa.stopping.is_set():
                return
            self.wfile.write(block)

    def _head(self, status: int, media_type: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def _send(
        self, status: int, body: bytes, media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._head(status, media_type, {"Content-Length": str(len(body))} | dict(headers or {}))
        self.wfile.write(body)


_REFUSALS: Final[dict[Mode, tuple[HTTPStatus, dict[str, str]]]] = {
    Mode.NOT_FOUND: (HTTPStatus.NOT_FOUND, {}),
    Mode.TOO_MANY: (HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "7"}),
    Mode.ERROR: (HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    Mode.MAINTENANCE: (HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "120"}),
    Mode.LOOP: (HTTPStatus.TEMPORARY_REDIRECT, {"Location": "/"}),
}
