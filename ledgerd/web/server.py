"""Runs the HTTP application on the daemon's own event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from starlette.applications import Starlette

__all__ = ["WebServer"]


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon decides when to stop."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


class WebServer:
    """Owns the listening socket and the uvicorn server.

    Args:
        app: what to serve.
        address: HOST:PORT; port 0 picks a free one.
    """

    def __init__(self, app: Starlette, address: str) -> None:
        self._address = address
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_keep_alive=30,
                limit_concurrency=256,
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen and serve; returns HOST:PORT with the real port.

        Raises:
            OSError: the address cannot be bound.
        """
        host, _, port = self._address.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host.strip("[]"), int(port)))
        except OSError as error:
            listener.close()
            raise OSError(f"cannot listen on {self._address} for HTTP: {error.strerror}") from None
        self._task = asyncio.create_task(self._server.serve([listener]))
        return f"{host}:{listener.getsockname()[1]}"

    async def stop(self) -> None:
        """Finish what is being answered, then close."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
