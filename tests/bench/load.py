"""Load generator: several agents stream prebuilt batches; runs in a process of its own.

Usage: python -m tests.bench.load ADDRESS AGENTS BATCH COUNT [PREFIX]   -> one JSON line
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import grpc

from receiptledger.v1 import ingest_pb2, types_pb2
from tests.bench.receipts import build_chains

WINDOW = 4  # batches an agent keeps unanswered
METHOD = "/receiptledger.v1.IngestService/Append"


async def agent(channel: grpc.aio.Channel, batches: list[bytes]) -> tuple[list[bytes], list[float]]:
    """Stream one agent's batches; returns the answers and each batch's seconds to its answer."""
    call = channel.stream_stream(METHOD)()
    window, sent, answers, seconds = asyncio.Semaphore(WINDOW), [], [], []

    async def send() -> None:
        for batch in batches:
            await window.acquire()
            sent.append(time.perf_counter())
            await call.write(batch)
        await call.done_writing()

    sending = asyncio.create_task(send())
    for number in range(len(batches)):
        answers.append(await call.read())
        seconds.append(time.perf_counter() - sent[number])
        window.release()
    await sending
    return answers, seconds


def count_accepted(answers: list[bytes]) -> int:
    """Receipts that were accepted, once the clock has stopped."""
    parsed = map(ingest_pb2.AppendResponse.FromString, answers)
    return sum(a.outcome == types_pb2.OUTCOME_ACCEPTED for r in parsed for a in r.answers)


async def run(address: str, agents: int, batch: int, count: int, prefix: str) -> dict[str, float]:
    """Build, then load; only the load is timed."""
    plans = [
        [
            ingest_pb2.AppendRequest(receipts=chain[at : at + batch]).SerializeToString()
            for at in range(0, count, batch)
        ]
        for chain in build_chains(agents, count, prefix)
    ]
    async with grpc.aio.insecure_channel(address) as channel:
        await channel.channel_ready()
        started, cpu = time.perf_counter(), time.process_time()
        results = await asyncio.gather(*(agent(channel, plan) for plan in plans))
        elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    latencies = sorted(second for _, seconds in results for second in seconds)
    accepted = sum(count_accepted(answers) for answers, _ in results)
    return {
        "accepted": accepted,
        "per_second": accepted / elapsed,
        "ack_p50_ms": 1e3 * latencies[len(latencies) // 2],
        "ack_p99_ms": 1e3 * latencies[int(len(latencies) * 0.99)],
        "client_cpu_us": 1e6 * cpu / accepted,
    }


def main() -> None:
    """Parse arguments, run, print."""
    address, agents, batch, count, *prefix = sys.argv[1:]
    work = run(address, int(agents), int(batch), int(count), *(prefix or ["agent"]))
    print(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    main()
