"""The demo's three agents.

- booking-bot records live through the client library.
- the courier's receipts come from a file, signed elsewhere in another format, and are sent as they are.
- contoso-travel-bot is Microsoft's lesson 18: the published chain of three where the vectors are at hand,
  continued with the lesson's own public test key (RFC 8032, test 1).
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from receiptledger import AsyncAgent, SeedSigner, submit_receipts
from receiptledger.builder import BuiltReceipt, ReceiptBuilder
from receiptledger.core.chain import Head
from receiptledger.core.errors import LedgerError
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings

__all__ = ["AGENTS", "Acks", "DemoAgent", "fork_of", "gap_after", "send"]

COUNT = 300
HERE = Path(__file__).resolve().parent
LESSON = HERE.parents[2] / "shared/vectors/receipts/ms-lesson18/rebuilt/v2-direct-03-chain.json"
COURIER_SEED = sha256(b"receiptledger demo courier").digest()
RFC8032_TEST1 = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
TOOLS = ("lookup_flights", "hold_seat", "confirm_booking", "charge_card")


@dataclass
class Acks:
    """What one agent sent, and how it was acknowledged."""

    agent: str
    profile: str
    receipts: list[bytes] = field(default_factory=list)
    acked: int = 0
    started: float = field(default_factory=time.perf_counter)
    first_seconds: float = 0.0
    all_seconds: float = 0.0

    def ack(self, count: int) -> None:
        """So many more receipts are acknowledged."""
        self.all_seconds = time.perf_counter() - self.started
        self.first_seconds = self.first_seconds or self.all_seconds
        self.acked += count


@dataclass(frozen=True)
class DemoAgent:
    """One agent: its name, its key, and how it sends."""

    name: str
    profile: str
    signer: SeedSigner
    run: Callable[[DemoAgent, str, Acks], Awaitable[None]]

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        return self.signer.public_key


async def send(agent: DemoAgent, address: str) -> Acks:
    """Stream all receipts of one agent and wait for every answer."""
    acks = Acks(agent.name, agent.profile)
    await agent.run(agent, address, acks)
    return acks


async def _record(agent: DemoAgent, address: str, acks: Acks) -> None:
    """Through the client library, which batches; flushed now and then, so that acks are seen."""
    async with AsyncAgent(address, agent.name, agent.signer) as client:
        while len(acks.receipts) < COUNT:
            for _ in range(20):
                number = len(acks.receipts)
                built = await client.record(
                    tool=TOOLS[number % len(TOOLS)],
                    args={"trip": number // len(TOOLS)},
                    result={"ok": True},
                    policy_id="travel-v3",
                )
                acks.receipts.append(built.raw)
            await client.flush(30)
            acks.ack(20)


async def _submit(agent: DemoAgent, address: str, acks: Acks) -> None:
    """Receipts as they are."""
    acks.started = time.perf_counter()
    hints = (agent.public_key,)
    async for result in submit_receipts(address, acks.receipts, key_hints=hints):
        if result.answer.reason is not None:
            raise LedgerError(result.answer.reason, result.answer.detail)
        acks.ack(1)


async def _courier(agent: DemoAgent, address: str, acks: Acks) -> None:
    acks.receipts = (HERE / "courier.jsonl").read_bytes().rstrip(b"\n").split(b"\n")
    await _submit(agent, address, acks)


async def _lesson(agent: DemoAgent, address: str, acks: Acks) -> None:
    head = None
    if LESSON.is_file():
        acks.receipts = _elements(LESSON.read_text("utf-8"))
        last = json.loads(acks.receipts[-1])
        # The link hash is over the canonical form; the next receipt of the lesson names it.
        head = Head(len(acks.receipts) - 1, _link_hash(acks.receipts[-1]), last["sequence"])
    builder = ReceiptBuilder(agent.name, agent.signer, head)
    at = datetime(2026, 4, 25, 14, 31, tzinfo=UTC)
    while len(acks.receipts) < COUNT:
        number = len(acks.receipts)
        built = builder.build(
            tool=TOOLS[number % len(TOOLS)],
            args={"flight": number},
            result={"seat": f"{number % 30}A"},
            policy_id="contoso-travel-policy-v3",
            at=at + timedelta(seconds=number),
        )
        acks.receipts.append(built.raw)
    await _submit(agent, address, acks)


def _elements(text: str) -> list[bytes]:
    """The exact source text of each object of a JSON array: receipts are never re-serialised."""
    decoder, found, at = json.JSONDecoder(), [], text.index("[") + 1
    while (start := text.find("{", at)) >= 0:
        _, at = decoder.raw_decode(text, start)
        found.append(text[start:at].encode())
    return found


def _link_hash(raw: bytes) -> bytes:
    return next(readings(raw, Profiles.builtin())).link_hash


def fork_of(agent: DemoAgent, receipts: list[bytes]) -> bytes:
    """Validly signed, but other content at the newest position."""
    last = json.loads(receipts[-2])
    head = Head(len(receipts) - 2, sha256(receipts[-2]).digest(), last["sequence"])
    return _built(agent, head, "refund_card").raw


def gap_after(agent: DemoAgent, receipts: list[bytes]) -> bytes:
    """Validly signed, but the receipts between the head and this one were never sent."""
    last = json.loads(receipts[-1])
    head = Head(len(receipts) + 1, sha256(b"never sent").digest(), last["sequence"] + 2)
    return _built(agent, head, "charge_card").raw


def _built(agent: DemoAgent, head: Head, tool: str) -> BuiltReceipt:
    builder = ReceiptBuilder(agent.name, agent.signer, head)
    at = datetime(2026, 11, 30, tzinfo=UTC)
    return builder.build(tool=tool, args={}, result={}, policy_id="travel-v3", at=at)


AGENTS = (
    DemoAgent(
        "booking-bot", "ms-lesson18", SeedSigner(sha256(b"demo booking-bot").digest()), _record
    ),
    DemoAgent("sb:issuer:demo-courier", "draft-farley-04", SeedSigner(COURIER_SEED), _courier),
    DemoAgent("contoso-travel-bot", "ms-lesson18", SeedSigner(RFC8032_TEST1), _lesson),
)
