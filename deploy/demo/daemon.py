"""A real `ledgerd` in a process of its own, for the demo."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DemoDaemon"]


class DemoDaemon:
    """Starts at once, with the TOML of `config`; `stop` drains it.

    Attributes:
        grpc, http: HOST:PORT it listens on.
        log_key: the log's verification key, as it printed it.
        pid: its process.
    """

    def __init__(self, folder: Path, origin: str, config: str) -> None:
        self._log = (folder / "ledgerd.log").open("w+", encoding="utf-8")
        (folder / "ledgerd.toml").write_text(config)
        self.command = [
            *(sys.executable, "-m", "ledgerd", "serve", "--config", str(folder / "ledgerd.toml")),
            *("--data-dir", str(folder / "data"), "--set", f"origin={origin}"),
            *("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
        ]
        # In a group of its own: Ctrl-C ends the demo, which then drains the daemon.
        self._process = subprocess.Popen(self.command, stderr=self._log, start_new_session=True)
        self.pid = self._process.pid
        ready = self._ready()
        self.grpc, self.http, self.log_key = ready["grpc"], ready["http"], ready["log_key"]

    def _ready(self) -> dict[str, Any]:
        """The daemon's "ready" event."""
        while True:
            try:
                self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                for line in self._lines():
                    if line.get("event") == "ready":
                        return line
            else:
                self._log.seek(0)
                sys.exit(f"ledgerd did not start:\n{self._log.read()}")

    def _lines(self) -> list[dict[str, Any]]:
        self._log.seek(0)
        # A line that is still being written has no newline yet.
        return [json.loads(line) for line in self._log.read().split("\n")[:-1] if line[:1] == "{"]

    def stop(self) -> int:
        """SIGTERM, wait for the drain, return the exit code."""
        self._process.terminate()
        return self._process.wait(60)
