"""The auditor against a real daemon, and against servers that lie to it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from receiptledger.auditor import AsyncAuditor
from receiptledger.backoff import Retry
from receiptledger.client import submit_receipts
from receiptledger.core.bundle import Bundle, parse_bundle
from receiptledger.core.errors import EvidenceError, Reason, ServiceError
from receiptledger.core.receipt import chain_key
from receiptledger.core.verdict import ExitCode
from receiptledger.history import SplitViewError
from receiptledger.sender import SendOptions
from receiptledger.v1 import proof_pb2
from receiptledger.wire import Ack, CallError
from tests.helpers.daemons import log_key, open_daemon
from tests.helpers.fake_proofs import FakeProofs, serving
from tests.helpers.ledger_kit import MiniLedger, agent_key, make_receipts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

QUICK = SendOptions(linger_ms=0)
RETRY = Retry(first_s=0.001, longest_s=0.002, attempts=3)


def run(work: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


async def seal(address: str, raws: list[bytes]) -> None:
    """Send receipts and wait until they are sealed."""
    async for result in submit_receipts(address, raws, ack=Ack.SEALED, options=QUICK):
        assert result.answer.reason is None


def digest(raw: bytes) -> bytes:
    return sha256(raw).digest()


# A real daemon.


def test_proves_what_was_recorded(tmp_path: Path) -> None:
    async def work() -> None:
        state = tmp_path / "state"
        async with open_daemon(tmp_path) as daemon:
            address, key = daemon.grpc_address, log_key(tmp_path)
            raws = make_receipts(5)
            await seal(address, raws)
            keys = {"agent-1": (agent_key("agent-1").public_key,)}
            async with AsyncAuditor(address, str(key), state, agent_keys=keys) as auditor:
                assert auditor.remembered is None
                bundle = await auditor.prove(receipt_hash=digest(raws[3]))
                assert bundle.receipt.raw == raws[3]
                assert await auditor.prove(agent="agent-1", position=3) == bundle
                assert parse_bundle(bundle.encode()) == bundle
                verdict = auditor.verify(bundle, require=frozenset({"agent-key"}))
                assert verdict.exit_code is ExitCode.VALID
                assert auditor.verify(bundle.encode()).exit_code is ExitCode.VALID
                assert auditor.remembered is not None
                assert state.read_bytes() == auditor.remembered.note == bundle.checkpoint
                stored = await auditor.get_receipt(receipt_hash=digest(raws[3]))
                assert (stored.raw, stored.position) == (raws[3], 3)
                assert stored.chain == chain_key("agent-1")
                assert stored == await auditor.get_receipt(agent="agent-1", position=3)
                first = auditor.remembered.checkpoint
            await seal(address, make_receipts(2, "agent-2"))
            # Another run of the same auditor: what it saw is carried over and extended.
            async with AsyncAuditor(address, key, state) as auditor:
                assert auditor.remembered is not None
                assert auditor.remembered.checkpoint == first
                since = await auditor.prove(receipt_hash=digest(raws[0]), since=first)
                assert since.consistency is not None
                assert auditor.verify(since, remembered=first).exit_code is ExitCode.VALID
                seen = await auditor.checkpoint()
                assert seen.checkpoint.size > first.size
                assert state.read_bytes() == seen.note
                old = await auditor.checkpoint(first.size)
                assert old.checkpoint == first
                pinned = await auditor.prove(receipt_hash=digest(raws[0]), tree_size=first.size)
                assert pinned.checkpoint == old.note
                assert auditor.remembered.note == seen.note

    run(work())


def test_waits_for_the_seal(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=300) as daemon:
            raws = make_receipts(1)
            async for _ in submit_receipts(daemon.grpc_address, raws, options=QUICK):
                pass
            async with AsyncAuditor(daemon.grpc_address, log_key(tmp_path)) as auditor:
                with pytest.raises(ServiceError) as info:
                    await auditor.prove(receipt_hash=digest(raws[0]), seal_wait_s=0)
                assert info.value.reason is Reason.NOT_SEALED
                await auditor.prove(receipt_hash=digest(raws[0]))

    run(work())


def test_what_is_not_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            raws = make_receipts(1)
            await seal(daemon.grpc_address, raws)
            async with AsyncAuditor(daemon.grpc_address, log_key(tmp_path)) as auditor:
                for call in (
                    auditor.get_receipt(receipt_hash=bytes(32)),
                    auditor.prove(receipt_hash=bytes(32)),
                    auditor.prove(agent="nobody", position=0),
                    auditor.prove(agent="agent-1", position=7),
                    auditor.prove(receipt_hash=digest(raws[0]), tree_size=999),
                    auditor.checkpoint(999),
                ):
                    with pytest.raises(ServiceError) as info:
                        await call
                    assert info.value.reason is Reason.NOT_FOUND
                for bad in (
                    {},
                    {"receipt_hash": bytes(31)},
                    {"receipt_hash": bytes(32), "position": 1},
                    {"receipt_hash": bytes(32), "stream": "s"},
                    {"agent": "a"},
                    {"agent": "a", "position": -1},
                    {"agent": "\ud800", "position": 1},
                ):
                    with pytest.raises(CallError) as info:
                        await auditor.prove(**bad)  # type: ignore[arg-type]
                    assert info.value.reason is Reason.INVALID_ARGUMENT

    run(work())


def test_watches_across_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        sizes = []
        retry = Retry(first_s=0.01, longest_s=0.05)
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
            auditor = AsyncAuditor(address, log_key(tmp_path), retry=retry)
            watching = auditor.watch()
            sizes.append((await anext(watching)).checkpoint.size)
            following = asyncio.ensure_future(anext(watching))
            await seal(address, make_receipts(1))
            sizes.append((await following).checkpoint.size)
        following = asyncio.ensure_future(anext(watching))
        async with open_daemon(tmp_path, listen=address):
            await seal(address, make_receipts(1, "agent-2"))
            sizes.append((await following).checkpoint.size)
            await watching.aclose()
            await auditor.close()
        # The restarted daemon's first checkpoint was known already, and is not told again.
        assert sizes == [0, 2, 4]

    run(work())


def test_the_wrong_key(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            other = MiniLedger().vkey
            async with AsyncAuditor(daemon.grpc_address, other) as auditor:
                for call in (auditor.checkpoint(), anext(auditor.watch())):
                    with pytest.raises(EvidenceError) as info:
                        await call
                    assert info.value.reason is Reason.BAD_NOTE
                assert auditor.remembered is None

    run(work())


def test_what_can_be_no_key() -> None:
    with pytest.raises(EvidenceError):
        AsyncAuditor("127.0.0.1:7070", "nonsense")
    with pytest.raises(CallError, match="not an address"):
        AsyncAuditor("nowhere", MiniLedger().vkey)


# Servers that lie.


class Liar:
    """An auditor in front of a fake server."""

    def __init__(self) -> None:
        self.ledger = MiniLedger()
        self.raws = make_receipts(4)
        self.ledger.append(make_receipts(3, "other"))
        self.ledger.append(self.raws)
        self.ledger.seal()
        self.proofs = FakeProofs(self.ledger)

    def auditor(self, address: str, state: Path | None = None) -> AsyncAuditor:
        return AsyncAuditor(address, self.ledger.vkey, state, retry=RETRY)


def split_histories() -> tuple[MiniLedger, MiniLedger]:
    """One log up to a point, then two, signed with the same key."""
    honest = Liar().ledger
    other = honest.fork()
    honest.append(make_receipts(1, "agent-2"))
    honest.seal()
    for number in range(3):
        other.append(make_receipts(1, f"forged-{number}"))
        other.seal()
    return honest, other


@pytest.mark.parametrize("way", ["checkpoint", "prove", "watch", "observe"])
def test_a_split_view_is_caught_on_every_way_in(way: str, tmp_path: Path) -> None:
    async def work() -> None:
        liar = Liar()
        honest, forged = split_histories()
        liar.proofs.ledger = honest
        state = tmp_path / "state"
        async with serving(liar.proofs) as address, liar.auditor(address, state) as auditor:
            await auditor.checkpoint()
            liar.proofs.ledger = forged
            liar.proofs.published.put_nowait(forged.note())
            calls: dict[str, Callable[[], Coroutine[object, object, object]]] = {
                "checkpoint": auditor.checkpoint,
                "prove": lambda: auditor.prove(receipt_hash=digest(liar.raws[0])),
                "watch": lambda: anext(auditor.watch()),  # type: ignore[dict-item]
                "observe": lambda: auditor.observe(forged.note()),
            }
            with pytest.raises(SplitViewError) as info:
                await calls[way]()
            assert info.value.reason is Reason.INCONSISTENT
            assert (info.value.remembered, info.value.shown) == (honest.note(), forged.note())
            assert [p.read_bytes() for p in info.value.kept] == [honest.note(), forged.note()]
            assert state.read_bytes() == honest.note()

    run(work())


def test_a_rolled_back_ledger_is_caught() -> None:
    async def work() -> None:
        liar = Liar()
        old = liar.ledger.fork()
        liar.ledger.append(make_receipts(1, "agent-2"))
        liar.ledger.seal()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            await auditor.checkpoint()
            liar.proofs.ledger = old
            with pytest.raises(SplitViewError, match="rolled back"):
                await auditor.checkpoint()
            with pytest.raises(SplitViewError, match="rolled back"):
                await auditor.prove(receipt_hash=digest(liar.raws[0]))

    run(work())


def test_an_old_checkpoint_that_is_a_prefix_is_fine() -> None:
    async def work() -> None:
        liar = Liar()
        old = liar.ledger.note()
        liar.ledger.append(make_receipts(1, "agent-2"))
        liar.ledger.seal()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            newest = await auditor.checkpoint()
            await auditor.observe(old)
            assert auditor.remembered == newest

    run(work())


def _swap(response: proof_pb2.GetProofResponse, other: Bundle) -> None:
    from ledgerd.rpc import convert

    response.CopyFrom(convert.bundle_out(other))


SPOILS = {
    "tampered receipt": lambda r, liar: setattr(
        r.receipt, "receipt", r.receipt.receipt.replace(b"search", b"delete")
    ),
    "other receipt": lambda r, liar: _swap(r, liar.ledger.bundle_of(liar.raws[2])),
    "other chain": lambda r, liar: _swap(r, liar.ledger.bundle_of(make_receipts(3, "other")[1])),
    "position": lambda r, liar: setattr(r, "position", 2),
    "no receipt": lambda r, liar: r.ClearField("receipt"),
    "no head": lambda r, liar: r.ClearField("head"),
    "no key": lambda r, liar: r.ClearField("key"),
    "no checkpoint": lambda r, liar: r.ClearField("checkpoint"),
    "short proof": lambda r, liar: r.head.ClearField("proof"),
    "odd proof": lambda r, liar: r.head.proof.append(b"short"),
    "not text": lambda r, liar: setattr(r.receipt, "receipt", b"\xff"),
    "no previous": lambda r, liar: setattr(r.previous, "receipt", b"{}"),
    "other previous": lambda r, liar: setattr(r.previous, "receipt", liar.raws[3]),
    "index": lambda r, liar: setattr(r.key, "index", 3),
    "huge index": lambda r, liar: setattr(r.key, "index", 2**60),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("by_hash", [True, False], ids=["by hash", "by place"])
def test_no_bad_proof_is_returned(spoil: Callable[..., None], by_hash: bool) -> None:
    async def work() -> None:
        liar = Liar()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            select: dict[str, object] = (
                {"receipt_hash": digest(liar.raws[1])}
                if by_hash
                else {"agent": "agent-1", "position": 1}
            )
            await auditor.prove(**select)  # type: ignore[arg-type]
            liar.proofs.spoil = lambda response: spoil(response, liar)
            with pytest.raises(EvidenceError):
                await auditor.prove(**select)  # type: ignore[arg-type]

    run(work())


def test_a_number_no_ledger_has() -> None:
    async def work() -> None:
        liar = Liar()
        liar.proofs.spoil = lambda r: setattr(r, "position", 2**63)
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            with pytest.raises(CallError, match=r"cannot be understood.*9223372036854775808"):
                await auditor.prove(receipt_hash=digest(liar.raws[1]))

    run(work())


def test_a_since_that_is_not_shown() -> None:
    async def work() -> None:
        liar = Liar()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            since = (await auditor.checkpoint()).checkpoint
            liar.ledger.append(make_receipts(1, "agent-2"))
            liar.ledger.seal()
            bundle = await auditor.prove(receipt_hash=digest(liar.raws[1]), since=since)
            assert bundle.consistency is not None
            liar.proofs.spoil = lambda r: r.ClearField("consistency")
            with pytest.raises(EvidenceError, match="check of consistency"):
                await auditor.prove(receipt_hash=digest(liar.raws[1]), since=since)

    run(work())


def test_since_the_empty_log() -> None:
    async def work() -> None:
        liar = Liar()
        empty = MiniLedger()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            since = (await auditor.observe(empty.note())).checkpoint
            assert since.size == 0
            bundle = await auditor.prove(receipt_hash=digest(liar.raws[1]), since=since)
            assert bundle.consistency is None

    run(work())


def test_a_checkpoint_of_another_size() -> None:
    async def work() -> None:
        liar = Liar()
        size = liar.ledger.size
        liar.ledger.append(make_receipts(1, "agent-2"))
        liar.ledger.notes[2] = liar.ledger.seal()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            with pytest.raises(EvidenceError, match="another size"):
                await auditor.checkpoint(2)
            liar.proofs.spoil = lambda r: _swap(r, liar.ledger.bundle_of(liar.raws[1]))
            with pytest.raises(EvidenceError, match="another size"):
                await auditor.prove(receipt_hash=digest(liar.raws[1]), tree_size=size)

    run(work())


def test_another_stored_receipt() -> None:
    async def work() -> None:
        liar = Liar()
        liar.proofs.receipt = proof_pb2.GetReceiptResponse(
            receipt=b"another", chain_key=bytes(32), position=5
        )
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            for select in ({"receipt_hash": bytes(32)}, {"agent": "a", "position": 5}):
                with pytest.raises(EvidenceError, match="another receipt"):
                    await auditor.get_receipt(**select)  # type: ignore[arg-type]
            liar.proofs.receipt.chain_key = b"short"
            with pytest.raises(CallError, match="a hash of 5 bytes"):
                await auditor.get_receipt(agent="a", position=5)

    run(work())


def test_watching_gives_up_and_tells_final_failures() -> None:
    async def work() -> None:
        liar = Liar()
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            published = liar.proofs.published
            for item in (liar.ledger.note(), None, None, liar.ledger.note(), None, None, None):
                published.put_nowait(item)
            async with aclosing(auditor.watch()) as checkpoints:
                assert (await anext(checkpoints)).note == liar.ledger.note()
                # Two ends, one repeated checkpoint that resets the count, then three ends.
                with pytest.raises(CallError, match="ended the stream"):
                    await anext(checkpoints)
            assert published.empty()
            for _ in range(3):
                published.put_nowait(ServiceError(Reason.DRAINING, "shutting down"))
            liar.proofs.published = asyncio.Queue()
            liar.proofs.fail = ServiceError(Reason.INVALID_ARGUMENT, "no")
            with pytest.raises(CallError, match="no"):
                await anext(auditor.watch())

    run(work())


def test_a_bad_checkpoint_on_the_watch_is_told() -> None:
    async def work() -> None:
        liar = Liar()
        liar.proofs.published.put_nowait(b"nonsense")
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            with pytest.raises(EvidenceError):
                await anext(auditor.watch())

    run(work())


def test_a_proof_that_never_comes_is_not_waited_for() -> None:
    async def work() -> None:
        liar = Liar()
        liar.proofs.fail = ServiceError(Reason.NOT_SEALED, "not yet")
        async with serving(liar.proofs) as address, liar.auditor(address) as auditor:
            with pytest.raises(CallError) as info:
                await auditor.prove(receipt_hash=digest(liar.raws[1]), tree_size=2)
            assert info.value.reason is Reason.NOT_SEALED
            assert liar.proofs.asked == ["GetProof"]

    run(work())
