"""Receipts that arrive out of order, against a real daemon and over several connections."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from receiptledger.v1 import ingest_pb2, types_pb2
from tests.helpers.agents import Agent, FarleyAgent
from tests.helpers.daemons import open_daemon
from tests.helpers.peer import open_peer, outcomes, run
from tests.helpers.polling import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.daemon import Daemon

A, B, FARLEY = Agent("agent-1", 1), Agent("agent-2", 2), FarleyAgent("issuer-1", 3)
RA, RB, RF = A.receipts(64), B.receipts(4), FARLEY.receipts(64)
LONG = 60_000  # milliseconds: nobody's wait ends in a test


def parked(daemon: Daemon) -> float | None:
    return daemon.metrics.value("ledger_parked_receipts")


async def until_parked(daemon: Daemon, count: int) -> None:
    await asyncio.to_thread(wait_for, lambda: parked(daemon) == count, f"{count} are parked")


async def write(stream: Any, batch_id: int, raws: list[bytes], **given: Any) -> None:
    await stream.write(
        ingest_pb2.AppendRequest(
            batch_id=batch_id, receipts=raws, key_hints=[FARLEY.public_key], **given
        )
    )


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("raws", [RA, RF], ids=["numbered", "linked"])
def test_two_connections_send_halves_of_one_chain_in_any_order(
    tmp_path: Path, raws: list[bytes], processes: int
) -> None:
    """Every other receipt by each, each half shuffled: one chain, and every answer says accepted."""
    shuffled = random.Random(7)
    halves = [list(range(0, 64, 2)), list(range(1, 64, 2))]
    for half in halves:
        shuffled.shuffle(half)

    async def send(it: Any, half: list[int]) -> dict[int, tuple[str, int]]:
        stream, batches = it.append(), [half[at : at + 4] for at in range(0, len(half), 4)]

        async def read() -> dict[int, tuple[str, int]]:
            found = {}
            for number, places in enumerate(batches):
                response = await stream.read()
                assert response.batch_id == number, "answers keep their order"
                found.update(zip(places, outcomes(response), strict=True))
            return found

        reading = asyncio.create_task(read())
        for number, places in enumerate(batches):
            await write(stream, number, [raws[place] for place in places])
        found = await reading
        await stream.done_writing()
        return found

    async def work() -> None:
        changes = {
            "park_wait_ms": LONG,
            "max_batches_in_flight": 16,
            "verify_processes": processes,
        }
        async with (
            open_daemon(tmp_path, **changes) as daemon,
            open_peer(daemon) as one,
            open_peer(daemon) as other,
        ):
            found = await asyncio.gather(send(one, halves[0]), send(other, halves[1]))
            together = found[0] | found[1]
            assert together == {place: ("accepted", place) for place in range(64)}
            assert parked(daemon) == 0
            admitted = daemon.metrics.value("ledger_unparked_total", {"result": "admitted"})
            assert admitted is not None
            assert admitted > 0
            assert daemon.metrics.value("ledger_receipts_total", {"result": "accepted"}) == 64

    run(work())


def test_a_stream_whose_window_is_full_of_what_waits_is_freed_by_another(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, park_wait_ms=LONG, max_batches_in_flight=2) as daemon,
            open_peer(daemon) as one,
            open_peer(daemon) as other,
        ):
            stream = one.append()
            for number in range(4):
                await write(stream, number, [RA[number + 1]])
            await until_parked(daemon, 2)  # the other two are not read
            assert outcomes(await other.send(other.append(), RA[:1])) == [("accepted", 0)]
            for number in range(4):
                response = await stream.read()
                assert (response.batch_id, outcomes(response)) == (
                    number,
                    [("accepted", number + 1)],
                )

    run(work())


def test_other_streams_do_not_wait_and_a_seal_covers_what_did(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, park_wait_ms=LONG) as daemon,
            open_peer(daemon) as one,
            open_peer(daemon) as other,
        ):
            stream, beside = one.append(), other.append()
            await write(stream, 1, [RA[1], RB[0]], ack_level=ingest_pb2.ACK_LEVEL_SEALED)
            await until_parked(daemon, 1)
            assert outcomes(await other.send(beside, RB[:2])) == [
                ("duplicate", 0),  # of the batch that waits: it is durable
                ("accepted", 1),
            ]
            assert outcomes(await other.send(beside, RA[:1])) == [("accepted", 0)]
            response = await stream.read()
            assert outcomes(response) == [("accepted", 1), ("accepted", 0)]
            assert response.checkpoint
            assert all(answer.HasField("leaf_index") for answer in response.answers)

    run(work())


def test_a_wait_that_is_over_names_what_is_missing(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, park_wait_ms=50) as daemon, open_peer(daemon) as it:
            stream = it.append()
            await it.send(stream, RA[:2])
            response = await it.send(stream, [RA[4], RB[0]])
            assert outcomes(response) == [("gap", 2), ("accepted", 0)]
            (answer, _) = response.answers
            assert "position 2 with previous hash sha256:" in answer.detail
            assert answer.detail.endswith("what is missing did not come while this one waited")
            again = await it.send(stream, RA[2:5])
            assert outcomes(again) == [("accepted", 2), ("accepted", 3), ("accepted", 4)]

    run(work())


def test_a_cancelled_stream_takes_what_it_parked_with_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, park_wait_ms=LONG) as daemon,
            open_peer(daemon) as one,
            open_peer(daemon) as other,
        ):
            stream = one.append()
            await write(stream, 1, [RA[1]])
            await write(stream, 2, [RA[2], RF[1]])
            await until_parked(daemon, 3)
            stream.cancel()
            await until_parked(daemon, 0)
            assert daemon.metrics.value("ledger_unparked_total", {"result": "dropped"}) == 3
            beside = other.append()
            assert outcomes(await other.send(beside, RA[:1])) == [("accepted", 0)]
            request = ingest_pb2.GetChainHeadRequest(chain=types_pb2.Chain(agent="agent-1"))
            head = (await other.ingest.GetChainHead(request)).head
            assert head.position == 0
            assert outcomes(await other.send(beside, RA[1:3])) == [("accepted", 1), ("accepted", 2)]

    run(work())


def test_a_daemon_that_drains_answers_what_waits_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, park_wait_ms=LONG) as daemon, open_peer(daemon) as it:
            stream = it.append()
            await write(stream, 1, [RB[0], RA[1]])
            await until_parked(daemon, 1)
            stopping = asyncio.create_task(daemon.stop())
            response = await stream.read()
            assert outcomes(response) == [("accepted", 0), ("gap", 0)]
            assert (await stream.read()).draining
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF
            await stopping

    run(work())
