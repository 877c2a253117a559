"""What timestamps cost: one strict verification, and one round of anchoring at a running daemon."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding

from ledgerd.devtsa.command import config_block
from ledgerd.devtsa.server import DevTsa
from receiptledger import AsyncAgent, AsyncAuditor, SeedSigner
from receiptledger.core.errors import Reason
from receiptledger.core.timestamp import TsaTrust, verify_response
from receiptledger.core.timestamp_request import TimestampRequest
from receiptledger.wire import CallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Authorities", "round_seconds"]

TOKENS = 40
INTERVAL = 600  # seconds: the daemon's default between two rounds


class Authorities:
    """Two authorities, P-256 and RSA-3072, until the end of the `with` block."""

    def __init__(self, folder: Path) -> None:
        self._tsas = (
            DevTsa(folder / "one", name="one", key="p256"),
            DevTsa(folder / "two", name="two", key="rsa3072"),
        )
        self._stack = ExitStack()
        self.config = folder / "ledgerd.toml"
        blocks = "\n".join(config_block(tsa) for tsa in self._tsas)
        self.config.write_text(f"anchor_min_spacing_seconds = 1\n{blocks}")

    def __enter__(self) -> Authorities:
        for tsa in self._tsas:
            self._stack.enter_context(tsa)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def verifications(self) -> Iterator[tuple[str, float, float]]:
        """For each: the kind of its key, CPU seconds for the first token, and for each further one."""
        for tsa in self._tsas:
            root = tsa.pki.root.certificate.public_bytes(Encoding.DER)
            trust = TsaTrust(tsa.name, tsa.name, roots=(root,))
            seconds = []
            for number in range(TOKENS):
                note = b"%d" % number
                request = TimestampRequest(sha256(note).digest(), nonce=number + 1)
                response = tsa.reply(request.encode())
                started = time.process_time()
                verify_response(response, note, trust, nonce=number + 1)
                seconds.append(time.process_time() - started)
            yield tsa.key, seconds[0], sum(seconds[1:]) / (TOKENS - 1)


def round_seconds(address: str, log_key: str, count: int, cpu: Callable[[], float]) -> float:
    """CPU seconds of a daemon at rest for one round of anchoring with all its authorities.

    Args:
        address: of the daemon.
        log_key: its verification key.
        count: rounds.
        cpu: CPU seconds the daemon has used so far.
    """
    return asyncio.run(_rounds(address, log_key, count, cpu))


async def _rounds(address: str, log_key: str, count: int, cpu: Callable[[], float]) -> float:
    signer = SeedSigner(bytes(32))
    async with AsyncAuditor(address, log_key) as auditor:
        async with AsyncAgent(address, "bench", signer) as agent:
            await agent.record(tool="t", args={}, result={}, policy_id="p")
            await agent.flush(30)
        await auditor.prove(agent="bench", position=0)
        await _round(auditor)  # connections are open from here on
        before, started = cpu(), time.perf_counter()
        for _ in range(count):
            await _round(auditor)
        used, elapsed = cpu() - before, time.perf_counter() - started
        before = cpu()
        await asyncio.sleep(elapsed)
        return max(used - (cpu() - before), 0.0) / count


async def _round(auditor: AsyncAuditor) -> None:
    while True:
        try:
            done = await auditor.anchor_now()
        except CallError as error:
            if error.reason is not Reason.OVERLOADED:
                raise
            await asyncio.sleep(error.retry_after or 0.1)
            continue
        assert done.quorum_reached, done
        return
