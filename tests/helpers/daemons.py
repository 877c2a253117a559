"""Real daemons on free ports: one in this process's event loop, or one as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerd.config import Settings
from ledgerd.daemon import Daemon
from ledgerd.signer import load_log_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from receiptledger.core.note import NoteSigner, VerifierKey

__all__ = [
    "FREE",
    "DaemonProcess",
    "daemon_process",
    "log_key",
    "log_signer",
    "open_daemon",
    "settings_for",
]

FREE = "127.0.0.1:0"


def settings_for(folder: Path, **changes: object) -> Settings:
    """Settings of a test daemon: free ports, quick seals, nothing from the environment's defaults."""
    values = {
        "data_dir": folder / "data",
        "listen": FREE,
        "http_listen": FREE,
        "seal_interval_ms": 10,
        "verify_processes": 0,  # half a second of start-up each; tests of their own start them
        "drain_seconds": 5.0,
        "log_level": "error",
    }
    return Settings(**{**values, **changes})  # type: ignore[arg-type]


@asynccontextmanager
async def open_daemon(folder: Path, **changes: object) -> AsyncIterator[Daemon]:
    """A daemon in this event loop, stopped at the end unless the test did."""
    daemon = Daemon(settings_for(folder, **changes))
    await daemon.start()
    try:
        yield daemon
    finally:
        if daemon._ready:
            await daemon.stop()


def log_key(folder: Path) -> VerifierKey:
    """The verification key of the log in a test daemon's folder."""
    settings = settings_for(folder)
    return load_log_key(settings.log_key_file, settings.origin).verifier


def log_signer(daemon: DaemonProcess) -> NoteSigner:
    """The signing key of a daemon's log, as a dishonest operator has it."""
    settings = settings_for(daemon.folder)
    return load_log_key(settings.log_key_file, settings.origin)


@dataclass
class DaemonProcess:
    """A running `ledgerd serve`."""

    process: subprocess.Popen[bytes]
    folder: Path
    address: str
    log_key: str

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


@contextmanager
def daemon_process(folder: Path, listen: str = FREE) -> Iterator[DaemonProcess]:
    """A daemon with an interpreter, event loop and gRPC of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LEDGERD_")}
    command = [
        sys.executable, "-m", "ledgerd", "serve", "--data-dir", str(folder / "data"),
        "--listen", listen, "--http", FREE, "--set", "seal_interval_ms=10",
        "--set", "log_format=json",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    try:
        assert process.stderr is not None
        seen = []
        for line in process.stderr:
            seen.append(line)
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") == "ready":
                yield DaemonProcess(process, folder, event["grpc"], event["log_key"])
                return
        raise AssertionError(b"".join(seen).decode())
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)
