"""`make bench`: throughput, proofs, timestamps and start-up, each as a ratio or against its target.

Usage: python -m tests.bench [--receipts N] [--startup N] [--batches 1,16,64,256]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from receiptledger.v1 import proof_pb2, proof_pb2_grpc, types_pb2
from tests.bench.anchors import INTERVAL, Authorities, round_seconds
from tests.bench.ceiling import verifications_per_second

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENTS = 8
SIGNED_BYTES = 520  # bytes under the signature of the receipts used here


@contextmanager
def daemon(folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """A real daemon process; yields its "ready" event plus what it used."""
    command = [sys.executable, "-m", "ledgerd", "serve", "--data-dir", str(folder), *arguments]
    command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        ready = json.loads(line)
        assert ready["event"] == "ready", line
        yield ready | {"start_seconds": time.perf_counter() - started, "pid": process.pid}
    finally:
        process.terminate()
        process.stderr.read()
        process.wait(60)


def cpu_seconds(pid: object) -> float:
    """User and system time of a process and its children so far."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if str(pid) in (fields[1], path.parent.name):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def load(address: object, batch: int, count: int, prefix: str) -> dict[str, float]:
    """Run the load generator in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.load", str(address), str(AGENTS)]
    done = subprocess.run(
        [*command, str(batch), str(count), prefix], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


async def proofs(address: object, chains: list[str], count: int, total: int) -> tuple[float, float]:
    """Answers and inclusion proofs per second for receipts at random, eight askers at once."""
    shown = 0
    pick = random.Random(1)
    async with grpc.aio.insecure_channel(str(address)) as channel:
        stub = proof_pb2_grpc.ProofServiceStub(channel)

        async def ask(number: int) -> None:
            for _ in range(number):
                at = proof_pb2.ChainPosition(
                    chain=types_pb2.Chain(agent=pick.choice(chains)), position=pick.randrange(count)
                )
                got = await stub.GetProof(proof_pb2.GetProofRequest(at=at))
                # Of the receipt, its neighbour where there is one, the head leaf and the key leaf.
                nonlocal shown
                shown += 3 + got.HasField("previous")

        await ask(50)
        shown = 0
        started = time.perf_counter()
        await asyncio.gather(*(ask(total // 8) for _ in range(8)))
        elapsed = time.perf_counter() - started
        return total / elapsed, shown / elapsed


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--receipts", type=int, default=64_000, help="receipts per batch size")
    parser.add_argument("--startup", type=int, default=1_000_000, help="receipts for the start-up")
    parser.add_argument("--batches", default="1,16,64,256", help="batch sizes")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}, ")
    print(f"load generator on the same cores, {AGENTS} agents, fsync on\n")
    with tempfile.TemporaryDirectory() as name:
        throughput(Path(name), options)
    with tempfile.TemporaryDirectory() as name:
        timestamps(Path(name))
    if options.startup:
        with tempfile.TemporaryDirectory() as name:
            startup(Path(name), options.startup)


def throughput(folder: Path, options: argparse.Namespace) -> None:
    """Accepted receipts and proofs per second against libsodium alone."""
    ceiling = verifications_per_second(SIGNED_BYTES)
    print(f"libsodium alone, all cores: {ceiling:,.0f} verifications/s\n")
    print("batch   accepted/s   of libsodium   ack p50   ack p99   daemon CPU/receipt")
    with daemon(folder) as ready:
        for batch in map(int, options.batches.split(",")):
            each = options.receipts // AGENTS if batch > 1 else options.receipts // AGENTS // 16
            before = cpu_seconds(ready["pid"])
            result = load(ready["grpc"], batch, each, f"b{batch}")
            cpu = 1e6 * (cpu_seconds(ready["pid"]) - before) / result["accepted"]
            print(
                f"{batch:5} {result['per_second']:12,.0f} {result['per_second'] / ceiling:14.2f} "
                f"{result['ack_p50_ms']:8.1f}ms {result['ack_p99_ms']:7.1f}ms {cpu:15.0f} us"
            )
        again = verifications_per_second(SIGNED_BYTES)
        print(f"\nlibsodium alone, again: {again:,.0f} verifications/s")
        time.sleep(1)  # the last seal
        chains = [f"b{batch}-{n}" for n in range(AGENTS)]
        answers, shown = asyncio.run(proofs(ready["grpc"], chains, each, 4_000))
        print(f"inclusion proofs: {shown:,.0f}/s in {answers:,.0f} answers/s, target 1,000/s")


def timestamps(folder: Path) -> None:
    """What a verification and a round of anchoring cost, against their targets."""
    with Authorities(folder) as authorities:
        print()
        for key, first, further in authorities.verifications():
            print(
                f"strict verification, {key:8} {1e3 * first:5.2f} ms for an authority's first token, "
                f"{1e3 * further:5.2f} ms each further one, target 4 ms"
            )
        with daemon(folder / "data", "--config", str(authorities.config)) as ready:
            used = round_seconds(
                ready["grpc"], ready["log_key"], 20, lambda: cpu_seconds(ready["pid"])
            )
        share = 100 * used / (INTERVAL * (os.cpu_count() or 1))
        print(
            f"a round with two authorities: {1e3 * used:.0f} ms of daemon CPU, "
            f"{share:.4f} % of all cores at the default interval, target 1 %"
        )


def startup(folder: Path, receipts: int) -> None:
    """Seconds from exec to ready with many receipts in the log."""
    with daemon(folder) as ready:
        result = load(ready["grpc"], 256, receipts // AGENTS, "s")
        print(f"\nfilled with {result['accepted']:,.0f} receipts at {result['per_second']:,.0f}/s")
    with daemon(folder) as ready:
        print(
            f"start-up with them: {ready['start_seconds']:.2f} s from exec to ready "
            f"({ready['seconds']} s of it opening and checking the log), target 3 s"
        )


if __name__ == "__main__":
    main()
