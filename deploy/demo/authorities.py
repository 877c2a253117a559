"""Two timestamp authorities for the demo: real RFC 3161 servers on this machine, with keys of their own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from receiptledger.core.errors import Reason
from receiptledger.core.timestamp import TsaTrust
from receiptledger.wire import CallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger import AsyncAuditor
    from receiptledger.core.bundle import Bundle
    from receiptledger.wire import AnchorRound

__all__ = ["DemoAuthority", "anchor", "prove_anchored"]

_SEAL_SECONDS = 10.0  # for the leaves of the tokens to be sealed; a quarter of a second is usual


class DemoAuthority:
    """`ledgerd dev-tsa` in a process of its own, until `stop`.

    Attributes:
        config: its `[[tsa]]` block for the ledger.
        trust: what an auditor believes of it: its own root.
        pid: its process.
    """

    def __init__(self, folder: Path, name: str, key: str) -> None:
        command = [sys.executable, "-m", "ledgerd", "dev-tsa", "--dir", str(folder / name)]
        # In a group of its own, as the daemon: Ctrl-C ends the demo, which then ends it.
        self._process = subprocess.Popen(
            [*command, "--name", name, "--key", key, "--json"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the timestamp authority {name} did not start")
        facts: dict[str, Any] = json.loads(line)
        root = load_pem_x509_certificate(Path(facts["root"]).read_bytes())
        self.config: str = facts["config"]
        self.trust = TsaTrust(
            name,
            name,
            roots=(root.public_bytes(Encoding.DER),),
            policies=frozenset(facts["settings"]["policies"]),
        )

    def stop(self) -> int:
        """SIGTERM, wait, return the exit code."""
        self._process.terminate()
        return self._process.wait(60)


async def anchor(auditor: AsyncAuditor, say: Callable[[str], None]) -> AnchorRound:
    """Have the newest checkpoint stamped by both, and tell what they said."""
    done = await _round(auditor)
    for result in done.results:
        if result.gen_time_us is None:
            say(f"{result.tsa}: {result.cause}: {result.detail}")
        else:
            time = datetime.fromtimestamp(result.gen_time_us / 1e6, UTC)
            what = f"the checkpoint of {done.tree_size} leaves"
            say(f"{result.tsa} says: {what} existed at {time:%Y-%m-%dT%H:%M:%SZ}")
    return done


async def _round(auditor: AsyncAuditor) -> AnchorRound:
    """The demo asks again sooner than a ledger likes: its authorities have a limit."""
    while True:
        try:
            return await auditor.anchor_now()
        except CallError as error:
            if error.reason is not Reason.OVERLOADED:
                raise
            await asyncio.sleep(error.retry_after or 1.0)


async def prove_anchored(auditor: AsyncAuditor, receipt_hash: bytes) -> Bundle:
    """The evidence, once the tokens over its checkpoint are in the log themselves."""
    async with asyncio.timeout(_SEAL_SECONDS):
        while True:
            bundle = await auditor.prove(receipt_hash=receipt_hash)
            after = [a for a in bundle.anchors if _size(a.note) > bundle.head.index]
            if sum(len(anchored.stamps) for anchored in after) >= 2:
                return bundle
            await asyncio.sleep(0.05)


def _size(note: bytes) -> int:
    """Tree size of a checkpoint: its second line."""
    return int(note.split(b"\n")[1])
