"""The listening socket of a development TSA, and the threads of its connections."""

from __future__ import annotations

import socket
import threading
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from ledgerd.devtsa.handler import Handler

if TYPE_CHECKING:
    from ledgerd.devtsa.server import DevTsa

__all__ = ["HOST", "Listener"]

HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 64


class Listener(ThreadingHTTPServer):
    """Counts its connections and can break them off, so that stopping waits for nobody.

    Raises:
        OSError, OverflowError: in the constructor, when it cannot listen there.
    """

    daemon_threads = False  # server_close() waits for them
    request_queue_size = 128

    def __init__(self, tsa: DevTsa, port: int) -> None:
        self.tsa = tsa
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((HOST, port), Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server who we are, as the base class does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take no more connections than there may be threads."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                return False
            self._open.add(request)
        return True

    def shutdown_request(self, request: Any) -> None:
        """One connection has ended."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event."""

    def break_connections(self) -> None:
        """Wake every thread that waits for a client."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # gone by itself
                    continue
