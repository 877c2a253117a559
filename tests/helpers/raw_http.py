"""An HTTP server that sends the very bytes it is told to, and remembers what came."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["RawServer", "answer"]


def answer(
    body: bytes = b"",
    *headers: str,
    status: str = "200 OK",
    media_type: str | None = "application/timestamp-reply",
) -> bytes:
    """The bytes of a response with an honest length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    if media_type is not None:
        lines.append(f"Content-Type: {media_type}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class RawServer:
    """Answers every request with the same bytes, or with what a function makes of the request.

    After its answer it closes, or with `endless` sends that again and again until the peer is gone.

    Attributes:
        requests: each request's bytes, head and body.
        sent: bytes that left for the peer.
    """

    def __init__(
        self,
        reply: bytes | Callable[[bytes], bytes],
        *,
        endless: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._reply = reply
        self._endless = endless
        self._tls = tls
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.requests: list[bytes] = []
        self.sent = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*self._open)  # each ends by itself now
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            request = head + await reader.readexactly(length)
            self.requests.append(request)
            reply = self._reply(request) if callable(self._reply) else self._reply
            await self._send(writer, reply)
            while self._endless:
                await self._send(writer, self._endless)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            del self._open[task]
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        self.sent += len(data)
