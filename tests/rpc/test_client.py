"""The agent against a real daemon: recording, resuming, refusals, drains and restarts."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from receiptledger.backoff import Retry
from receiptledger.builder import ReceiptBuilder
from receiptledger.client import AsyncAgent, submit_receipts
from receiptledger.core.errors import Reason, ReceiptError, ServiceError
from receiptledger.outbox import ForkError, LostReceiptsError, RefusedError
from receiptledger.sender import SendOptions
from receiptledger.transport import Channel
from receiptledger.wire import Ack, CallError
from tests.helpers.agents import FarleyAgent
from tests.helpers.daemons import FREE, open_daemon
from tests.helpers.ledger_kit import agent_key, make_receipts

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

QUICK = SendOptions(linger_ms=0, retry=Retry(first_s=0.01, longest_s=0.05))
CALL = {"tool": "search", "args": {"q": 1}, "result": None, "policy_id": "p"}
NOWHERE = "127.0.0.1:1"


def run(work: Coroutine[object, object, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


def agent_at(address: str, name: str = "agent-1", **changes: object) -> AsyncAgent:
    return AsyncAgent(address, name, agent_key(name), **{"options": QUICK, **changes})  # type: ignore[arg-type]


async def head_of(address: str, name: str = "agent-1"):
    channel = Channel(address)
    try:
        return await channel.head(name)
    finally:
        await channel.close()


def test_records_and_continues_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
            async with agent_at(address) as agent:
                assert agent.head is None
                first = await agent.record(**CALL)
                rest = [await agent.record(**CALL) for _ in range(200)]
                await agent.flush()
                assert agent.unacknowledged == ()
                assert [r.position for r in rest] == list(range(1, 201))
            head = await head_of(address)
            assert head is not None
            assert (head.position, head.link_hash) == (200, rest[-1].receipt_hash)
            # A new process of the same agent goes on where the ledger says it was.
            async with agent_at(address) as agent:
                assert agent.head == head
                built = await agent.record(**CALL)
                assert built.position == 201
            # Leaving the block flushed it.
            assert (await head_of(address)).position == 201
            assert first.position == 0

    run(work())


def test_sealed_acks(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            async with agent_at(daemon.grpc_address, ack=Ack.SEALED) as agent:
                built = await agent.record(**CALL)
                await agent.flush()
                channel = Channel(daemon.grpc_address)
                assert (await channel.receipt(built.receipt_hash)).leaf_index == 1
                await channel.close()
            async for result in submit_receipts(
                daemon.grpc_address, [built.raw], ack=Ack.SEALED, options=QUICK
            ):
                assert (result.answer.outcome, result.answer.leaf_index) == ("duplicate", 1)

    run(work())


def test_time_of_the_receipt(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, agent_at(daemon.grpc_address) as agent:
            at = datetime(2020, 2, 29, 1, 2, 3, tzinfo=UTC)
            built = await agent.record(**CALL, at=at)
            assert b'"timestamp":"2020-02-29T01:02:03Z"' in built.raw
            before = datetime.now(UTC).replace(microsecond=0)
            built = await agent.record(**CALL)
            text = built.raw.split(b'"timestamp":"')[1][:20].decode()
            assert before <= datetime.fromisoformat(text) <= datetime.now(UTC)

    run(work())


def test_many_tasks_record_through_a_small_outbox(tmp_path: Path) -> None:
    async def work() -> None:
        options = SendOptions(linger_ms=1, batch_receipts=4, outbox_receipts=8, outbox_bytes=20_000)
        async with open_daemon(tmp_path) as daemon:
            async with agent_at(daemon.grpc_address, options=options) as agent:
                built = await asyncio.gather(*(agent.record(**CALL) for _ in range(100)))
                assert len(agent.unacknowledged) <= 8
            assert sorted(b.position for b in built) == list(range(100))
            assert (await head_of(daemon.grpc_address)).position == 99

    run(work())


def test_what_cannot_be_recorded_breaks_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, agent_at(daemon.grpc_address) as agent:
            with pytest.raises(ReceiptError):
                await agent.record(**{**CALL, "args": object()})
            await agent.record(**CALL)
            await agent.flush()

    run(work())


def test_two_writers_under_one_id_are_a_fork(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
            async with agent_at(address) as one:
                other = agent_at(address)
                await other.start()
                theirs = await one.record(**CALL)
                await one.flush()
                ours = await other.record(**{**CALL, "tool": "other"})
                with pytest.raises(ForkError) as info:
                    await other.flush()
                assert (info.value.ours, info.value.theirs) == (
                    ours.receipt_hash,
                    theirs.receipt_hash,
                )
                assert info.value.position == 0
                with pytest.raises(ForkError):
                    await other.record(**CALL)
                with pytest.raises(ForkError):
                    await other.close()
                assert other.unacknowledged == (ours.raw,)
                # The other one is not disturbed.
                await one.record(**CALL)

    run(work())


def test_the_error_of_the_block_is_not_hidden(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
            async with agent_at(address) as one:

                async def collide(error: Exception | None) -> None:
                    async with agent_at(address) as other:
                        await one.record(**CALL)
                        await one.flush()
                        await other.record(**{**CALL, "tool": "other"})
                        if error is not None:
                            raise error
                        await other.flush()

                with pytest.raises(KeyError) as info:
                    await collide(KeyError("mine"))
                assert any("fork" in note for note in info.value.__notes__)
                # The agent's own error, raised in the block, is not noted on itself.
                with pytest.raises(ForkError) as fork:
                    await collide(None)
                assert not hasattr(fork.value, "__notes__")

    run(work())


def test_a_key_that_the_chain_does_not_use(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            async with agent_at(daemon.grpc_address) as agent:
                await agent.record(**CALL)
            thief = AsyncAgent(daemon.grpc_address, "agent-1", agent_key("thief"), options=QUICK)
            await thief.start()
            await thief.record(**CALL)
            with pytest.raises(RefusedError) as info:
                await thief.flush()
            assert info.value.reason is Reason.WRONG_KEY
            with pytest.raises(RefusedError):
                await thief.close()

    run(work())


def test_registered_keys_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, trust_mode="registered") as daemon:
            agent = agent_at(daemon.grpc_address)
            await agent.start()
            await agent.record(**CALL)
            with pytest.raises(RefusedError, match="enrolled keys only") as info:
                await agent.flush()
            assert info.value.reason is Reason.UNKNOWN_KEY
            with pytest.raises(RefusedError):
                await agent.close()

    run(work())


def test_submitted_receipts_have_a_result_each(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, park_wait_ms=0) as daemon,
            agent_at(daemon.grpc_address) as agent,
        ):
            chain = make_receipts(4, "foreign")
            fork = make_receipts(2, "foreign", tool="forked")[1]
            raws = [
                chain[0],
                chain[2],  # a gap
                b"not json",
                chain[1].replace(b"search", b"delete"),  # tampered
                chain[1],
                chain[0],  # again
                fork,
                chain[2],
                bytes(70_000),
            ]
            results = [result async for result in agent.submit(raws)]
            assert [r.index for r in results] == list(range(len(raws)))
            got = [r.answer.reason or r.answer.outcome for r in results]
            assert got == [
                "accepted",
                Reason.GAP,
                Reason.MALFORMED,
                Reason.BAD_SIGNATURE,
                "accepted",
                "duplicate",
                Reason.FORK,
                "accepted",
                Reason.TOO_LARGE,
            ]
            gap, forked = results[1].answer, results[6].answer
            assert (gap.position, gap.expected_hash) == (1, sha256(chain[0]).digest())
            assert (forked.position, forked.expected_hash) == (1, sha256(chain[1]).digest())
            assert "position 1" in gap.detail
            # The agent's own chain was not touched by any of it.
            await agent.record(**CALL)
            await agent.flush()

    run(work())


def test_key_hints_and_a_named_profile(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            farley = FarleyAgent("farley")
            raws = farley.receipts(3)

            async def reasons(**options: object) -> set[str]:
                results = submit_receipts(daemon.grpc_address, raws, options=QUICK, **options)  # type: ignore[arg-type]
                return {r.answer.reason or r.answer.outcome async for r in results}

            assert await reasons() == {Reason.UNKNOWN_KEY}
            assert await reasons(profile="no-such-format") == {Reason.UNKNOWN_PROFILE}
            assert await reasons(key_hints=[bytes(31)]) == {Reason.INVALID_ARGUMENT}
            hints = [agent_key("x").public_key, farley.public_key]
            assert await reasons(key_hints=hints) == {"accepted"}
            assert await reasons(profile="draft-farley-04") == {"duplicate"}
            # Receipts built here cannot continue a chain without numbers.
            with pytest.raises(ReceiptError, match="another agent id"):
                await agent_at(daemon.grpc_address, "farley").start()

    run(work())


def test_resumes_when_the_daemon_restarts_on_the_same_port(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
            agent = agent_at(address)
            await agent.start()
            await agent.record(**CALL)
            await agent.flush()
            # Keep it busy while the daemon drains: what was not answered is sent again.
            recording = [asyncio.create_task(agent.record(**CALL)) for _ in range(300)]
            await daemon.stop()
        await asyncio.gather(*recording)
        await agent.record(**CALL)
        with pytest.raises(ServiceError, match=r"not acknowledged after 0.01 s"):
            await agent.flush(0.01)
        assert len(agent.unacknowledged) > 0
        async with open_daemon(tmp_path, listen=address):
            await agent.flush()
            assert agent.unacknowledged == ()
            await agent.record(**CALL)
            await agent.close()
            head = await head_of(address)
            assert head is not None
            assert head.position == 302

    run(work())


def test_an_idle_agent_outlives_the_daemon(tmp_path: Path) -> None:
    async def work() -> None:
        options = SendOptions(
            linger_ms=0, retry=Retry(first_s=0.001, longest_s=0.002, attempts=500)
        )
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
            agent = agent_at(address, options=options)
            await agent.start()
            await agent.record(**CALL)
            await agent.flush()
        # Away, and nothing to send: no attempt is made, so none can run out.
        async with open_daemon(tmp_path, listen=address):
            await agent.record(**CALL)
            await agent.close()

    run(work())


def test_a_ledger_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path / "one") as daemon:
            address = daemon.grpc_address
            agent = agent_at(address)
            await agent.start()
            await agent.record(**CALL)
            await agent.flush()
        async with open_daemon(tmp_path / "two", listen=address):
            lost = await agent.record(**CALL)
            with pytest.raises(LostReceiptsError, match="rolled back or replaced"):
                await agent.flush()
            assert agent.unacknowledged == (lost.raw,)
            with pytest.raises(LostReceiptsError):
                await agent.close()

    run(work())


def test_gives_up_and_says_what_is_left(tmp_path: Path) -> None:
    async def work() -> None:
        options = SendOptions(linger_ms=0, retry=Retry(first_s=0.001, longest_s=0.001, attempts=3))
        async with open_daemon(tmp_path) as daemon:
            agent = agent_at(daemon.grpc_address, options=options)
            await agent.start()
        built = await agent.record(**CALL)
        with pytest.raises(ServiceError, match="gave up after 3 failures in a row; 1 receipts"):
            await agent.flush()
        with pytest.raises(ServiceError, match="gave up"):
            await agent.record(**CALL)
        with pytest.raises(ServiceError, match="gave up"):
            await agent.close()
        assert agent.unacknowledged == (built.raw,)

    run(work())


def test_closing_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            agent = agent_at(daemon.grpc_address, close_s=0.01)
            await agent.start()
        built = await agent.record(**CALL)
        with pytest.raises(ServiceError, match=r"not acknowledged within 0.01 s of closing"):
            await agent.close()
        assert agent.unacknowledged == (built.raw,)

    run(work())


def test_nobody_there_at_the_start() -> None:
    async def work() -> None:
        agent = agent_at(NOWHERE, options=SendOptions(connect_s=0.05, retry=Retry(first_s=0.01)))
        with pytest.raises(
            CallError, match=r"cannot reach a ledger at 127.0.0.1:1: is ledgerd"
        ) as i:
            await agent.start()
        assert i.value.reason is Reason.UNAVAILABLE
        few = agent_at(NOWHERE, options=SendOptions(retry=Retry(first_s=0, attempts=2)))
        with pytest.raises(CallError, match="cannot reach"):
            await few.start()

    run(work())


def test_waits_for_a_daemon_that_is_starting(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            address = daemon.grpc_address
        agent = agent_at(address)
        starting = asyncio.create_task(agent.start())
        async with open_daemon(tmp_path, listen=address):
            await starting
            await agent.record(**CALL)
            await agent.close()

    run(work())


def test_bad_ids_and_misuse(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(ReceiptError, match="agent_id"):
            await agent_at(NOWHERE, "").start()
        agent = agent_at(NOWHERE)
        for call in (agent.record(**CALL), agent.flush()):
            with pytest.raises(ServiceError, match="not started"):
                await call
        with pytest.raises(ServiceError, match="not started"):
            agent.submit([])
        assert agent.unacknowledged == ()
        await agent.close()  # harmless
        async with open_daemon(tmp_path) as daemon:
            agent = agent_at(daemon.grpc_address)
            async with agent:
                pass
            with pytest.raises(ServiceError, match="closed already"):
                await agent.record(**CALL)
            await agent.close()  # again

    run(work())


def test_after_a_fork_of_the_process_it_refuses(tmp_path: Path) -> None:
    """A child that wrote on would fork its parent's chain."""

    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, agent_at(daemon.grpc_address) as agent:
            agent._pid = os.getpid() + 1  # as a child sees it
            with pytest.raises(ServiceError, match="before the process forked"):
                await agent.record(**CALL)
            await agent.close()  # leaves the parent's connection alone
            agent._pid = os.getpid()
            agent._channel._pid += 1
            with pytest.raises(CallError, match="before the process forked"):
                await agent._channel.head("x")
            agent._channel._pid -= 1
            await agent.record(**CALL)

    run(work())


def test_a_message_beyond_the_daemons_limit_is_final(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(
            tmp_path, max_message_bytes=5_000, max_receipt_bytes=3_000
        ) as daemon:
            agent = agent_at(daemon.grpc_address)
            await agent.start()
            for _ in range(30):
                await agent.record(**CALL)
            with pytest.raises(CallError, match="a limit of the ledger") as info:
                await agent.flush()
            assert info.value.reason is Reason.OVERLOADED
            with pytest.raises(CallError):
                await agent.close()

    run(work())


def test_too_many_streams_are_retried(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, max_streams=1) as daemon:
            one = agent_at(daemon.grpc_address, "agent-1")
            await one.start()
            await one.record(**CALL)
            await one.flush()
            two = agent_at(daemon.grpc_address, "agent-2")
            await two.start()
            await two.record(**CALL)
            with pytest.raises(ServiceError, match="not acknowledged"):
                await two.flush(0.2)
            await one.close()
            await two.flush()  # its turn
            await two.close()

    run(work())


def test_the_builder_alone_is_enough(tmp_path: Path) -> None:
    """Sign with the builder, send with anything: the receipts are just bytes."""

    async def work() -> None:
        async with open_daemon(tmp_path, listen=FREE) as daemon:
            builder = ReceiptBuilder("alone", agent_key("alone"))
            raws = [builder.build(**CALL, at=datetime.now(UTC)).raw for _ in range(3)]
            results = submit_receipts(daemon.grpc_address, iter(raws), options=QUICK)
            assert [r.answer.position async for r in results] == [0, 1, 2]

    run(work())
