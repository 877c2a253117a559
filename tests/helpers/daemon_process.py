"""A real daemon in a process of its own, to be stopped by any means, or refused a start.

>>> with RunningDaemon(folder) as daemon:
...     daemon.wait_ready()
...     daemon.terminate()
...     assert daemon.wait() == 0
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from receiptledger.core.note import VerifierKey
from tests.helpers.polling import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["RunningDaemon", "ledgerd"]

ANY_PORT: Final = "127.0.0.1:0"


def _environment() -> dict[str, str]:
    """Ours, without settings of a daemon that happens to run here."""
    return {name: text for name, text in os.environ.items() if not name.startswith("LEDGERD_")}


def ledgerd(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command of `ledgerd` that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "ledgerd", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=_environment(),
        check=False,
    )


class RunningDaemon:
    """`ledgerd serve` on free ports of the loopback interface.

    Args:
        data: its data folder.
        arguments: further arguments of `serve`.
        settings: further settings by name, such as seal_interval_ms=20.

    Attributes:
        ready: the event it logged when it was ready; empty before.
        pid: of its process.
    """

    def __init__(self, data: Path, *arguments: str, **settings: object) -> None:
        values = {"listen": ANY_PORT, "http_listen": ANY_PORT, "log_format": "json", **settings}
        sets = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
        self.ready: dict[str, Any] = {}
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False  # nothing more comes from standard error
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ledgerd", "serve", "--data-dir", str(data), *arguments, *sets],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, name=f"stderr of {self.pid}")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """It is gone afterwards, whatever happened."""
        if self._process.poll() is None:
            self.kill()
        self.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                event = _event(line)
                with self._changed:
                    self._lines.append(line)
                    if event.get("event") == "ready":
                        self.ready = event
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_ready(self) -> Self:
        """Return when it serves.

        Raises:
            AssertionError: it ended instead, or takes too long; with what it said.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.ready or self._ended, PATIENCE)
            assert self.ready, f"the daemon did not become ready:\n{''.join(self._lines)}"
        return self

    @property
    def grpc(self) -> str:
        """HOST:PORT of gRPC."""
        return str(self.ready["grpc"])

    @property
    def http(self) -> str:
        """URL of HTTP, without a slash at the end."""
        return f"http://{self.ready['http']}"

    @property
    def log_key(self) -> VerifierKey:
        """The log's verification key."""
        return VerifierKey.parse(self.ready["log_key"])

    @property
    def stderr(self) -> str:
        """What it has said so far; everything, once it was waited for."""
        with self._changed:
            return "".join(self._lines)

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it logged under a name."""
        with self._changed:
            events = map(_event, self._lines)
            return [event for event in events if event.get("event") == name]

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more, nothing is flushed."""
        self._process.kill()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def interrupt(self) -> None:
        """SIGINT, as from a terminal."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Exit code, -9 when it was killed; all it said was read."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


def _event(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
