"""A real daemon, killed at any moment and started again on the same folder, breaks no promise.

Acknowledged receipts are there, byte for byte; checkpoints that anybody saw are extended by all later
ones; no size ever gets two roots; and what is on the disk holds together. Seeded: CRASH_SEED repeats a
run's choices (the moments also depend on the machine), CRASH_KILLS makes it longer.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING

import grpc
import pytest

from ledgerd.store.fsck import GuardState, check
from ledgerd.store.rocks import RocksStore
from receiptledger.core.bundle import Bundle, LeafProof, Member
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.verify import Trust, verify_bundle
from receiptledger.v1 import proof_pb2, proof_pb2_grpc
from tests.helpers.agents import link
from tests.helpers.crowd import Crowd, check_consistency, check_receipts
from tests.helpers.daemon_process import RunningDaemon
from tests.helpers.polling import wait_for

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.helpers.crowd import Watcher

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SEED = int(os.environ.get("CRASH_SEED", "20261130"))
KILLS = int(os.environ.get("CRASH_KILLS", "25"))
MOST_KILLS = 3 * KILLS  # until each kind of moment was met
TERMINATIONS = 5
SETTINGS = {"seal_interval_ms": 20, "log_level": "info"}

# What a kill can leave behind, and what of it a run must have met.
MOMENTS = {
    "admitted, not acknowledged",
    "admitted, not sealed",
    "sealed, guard behind",
    "guard half replaced",
}


async def strike(daemon: RunningDaemon, data: Path, crowd: Crowd, moment: int) -> None:
    """Kill the daemon: at any time, just after a batch was sent, while the guard is replaced, or as
    soon as a new checkpoint is seen."""
    random, kind = crowd.random, moment % 4
    await asyncio.sleep(random.uniform(0.05, 0.6))
    if kind == 0:
        daemon.kill()
    elif kind == 1:
        sent = crowd.sent
        await asyncio.to_thread(wait_for, lambda: crowd.sent > sent, "a batch is sent", every=0.0)
        await asyncio.sleep(random.uniform(0, 0.004))
        daemon.kill()
    elif kind == 2:
        new = data / "guard.new"
        await asyncio.to_thread(wait_for, new.exists, "the guard is written", every=0.0)
        daemon.kill()
    else:
        assert crowd.watcher is not None
        crowd.watcher.on_new = daemon.kill
        await asyncio.to_thread(daemon.wait)
        crowd.watcher.on_new = None


async def one_life(data: Path, crowd: Crowd, moment: int) -> None:
    """Start, hold it against all promises, load it, kill it."""
    with RunningDaemon(data, **SETTINGS) as daemon:
        await asyncio.to_thread(daemon.wait_ready)
        await check_promises(daemon, crowd)
        load = asyncio.create_task(crowd.run(daemon.grpc, daemon.http, daemon.log_key))
        killing = asyncio.create_task(strike(daemon, data, crowd, moment))
        await asyncio.wait((load, killing), return_when=asyncio.FIRST_EXCEPTION)
        await killing
        await load
        assert daemon.wait() == -9
        assert daemon.events("commit failed, outcome unknown") == []


async def check_promises(daemon: RunningDaemon, crowd: Crowd) -> None:
    """After a restart: the newest receipts of every agent, and some of the older ones."""
    raws: list[bytes] = []
    for sender in crowd.senders:
        promised = sender.raws[: sender.acknowledged]
        raws += promised[-100:]
        raws += crowd.random.sample(promised, min(len(promised), 10))
    async with grpc.aio.insecure_channel(daemon.grpc) as channel:
        await check_receipts(channel, raws)
        if crowd.watcher is not None:
            roots = crowd.watcher.roots
            note = await newest_note(channel)
            assert crowd.watcher.see(note) >= max(roots)
            sizes = sorted(size for size in roots if size)[-20:]
            await check_consistency(channel, roots, itertools.pairwise(sizes))


async def newest_note(channel: grpc.aio.Channel) -> bytes:
    stub = proof_pb2_grpc.ProofServiceStub(channel)
    note: bytes = (await stub.GetCheckpoint(proof_pb2.GetCheckpointRequest())).checkpoint
    return note


def left_behind(data: Path, copy: Path, watcher: Watcher, *, fsck: bool) -> set[str]:
    """What a kill left, read from a copy: the daemon itself shall find the folder as it was left."""
    verifier = watcher.verifier
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy)
    guard = (copy / "guard").read_bytes()
    found = {"guard half replaced"} if (copy / "guard.new").exists() else set()
    store = RocksStore.open(copy / "db", create=False)
    try:
        state = store.log_state()
        assert state is not None
        if any(True for _ in store.marks()):
            found.add("admitted, not sealed")
        guarded = open_checkpoint(guard, verifier).size
        assert max(watcher.roots) <= guarded <= state.size, "committed, guarded, then shown"
        if guarded < state.size:
            found.add("sealed, guard behind")
        if fsck:
            report = check(store, verifier, guard=guard)
            assert report.problems == []
            assert report.guard in (GuardState.EQUAL, GuardState.BEHIND)
    finally:
        store.close()
    return found


async def check_everything(daemon: RunningDaemon, crowd: Crowd, random: Random) -> None:
    """At the end: each receipt ever acknowledged, each checkpoint ever seen, and proofs."""
    assert crowd.watcher is not None
    async with grpc.aio.insecure_channel(daemon.grpc) as channel:
        for sender in crowd.senders:
            await check_receipts(channel, sender.raws[: sender.acknowledged])
        crowd.watcher.see(await newest_note(channel))
        roots = {size: root for size, root in crowd.watcher.roots.items() if size}
        sizes = sorted(roots)
        assert len(sizes) > 3
        pairs = [*itertools.pairwise(sizes), *((size, sizes[-1]) for size in sizes)]
        pairs += (tuple(sorted(random.choices(sizes, k=2))) for _ in range(100))
        await check_consistency(channel, roots, pairs)
        stub = proof_pb2_grpc.ProofServiceStub(channel)
        trust = Trust(log_keys=(crowd.watcher.verifier,))
        for sender in crowd.senders:
            promised = sender.raws[: sender.acknowledged]
            for raw in random.sample(promised, min(len(promised), 10)):
                verdict = verify_bundle((await prove(stub, raw)).encode(), trust)
                assert verdict.exit_code == 0, verdict


async def prove(stub: proof_pb2_grpc.ProofServiceStub, raw: bytes) -> Bundle:
    proof = await stub.GetProof(proof_pb2.GetProofRequest(receipt_hash=link(raw)))  # type: ignore[misc]
    previous = None
    if proof.HasField("previous"):
        previous = Member(proof.previous.receipt, tuple(proof.previous.proof))
    return Bundle(
        position=proof.position,
        receipt=Member(proof.receipt.receipt, tuple(proof.receipt.proof)),
        previous=previous,
        head=LeafProof(proof.head.leaf, proof.head.index, tuple(proof.head.proof)),
        key=LeafProof(proof.key.leaf, proof.key.index, tuple(proof.key.proof)),
        checkpoint=proof.checkpoint,
    )


async def terminate_under_load(data: Path, crowd: Crowd) -> None:
    """SIGTERM: everything read is answered, streams are told, everything durable is sealed."""
    with RunningDaemon(data, **SETTINGS) as daemon:
        await asyncio.to_thread(daemon.wait_ready)
        await check_promises(daemon, crowd)
        load = asyncio.create_task(crowd.run(daemon.grpc, daemon.http, daemon.log_key))
        before = [sender.acknowledged for sender in crowd.senders]
        await asyncio.to_thread(
            wait_for,
            lambda: (
                load.done()
                or all(s.acknowledged > b for s, b in zip(crowd.senders, before, strict=True))
            ),
            "every agent was answered",
        )
        await asyncio.sleep(crowd.random.uniform(0, 0.1))
        daemon.terminate()
        await load
        assert daemon.wait() == 0, daemon.stderr
        assert all(sender.told for sender in crowd.senders)
        assert crowd.watcher is not None
        assert "shutting down" in crowd.watcher.ended
        (stopped,) = daemon.events("stopped")
    store = RocksStore.open(data / "db", create=False)
    try:
        state = store.log_state()
        assert state is not None
        assert list(store.marks()) == []
        assert state.sealed_number == store.next_number()
        assert state.size == stopped["tree_size"]
        # Whatever a daemon has read and committed before it went, it has answered.
        assert sum(sender.acknowledged for sender in crowd.senders) == store.next_number()
    finally:
        store.close()


@pytest.mark.parametrize("how", ["killed", "terminated"])
def test_a_daemon_that_stops_at_any_moment_breaks_no_promise(how: str, tmp_path: Path) -> None:
    print(f"CRASH_SEED={SEED}")
    data, crowd = tmp_path / "data", Crowd(SEED)
    met: Counter[str] = Counter()
    if how == "killed":
        kill_again_and_again(data, tmp_path / "copy", crowd, met)
    else:
        for _ in range(TERMINATIONS):
            asyncio.run(terminate_under_load(data, crowd))
    with RunningDaemon(data, **SETTINGS) as daemon:
        daemon.wait_ready()
        asyncio.run(check_everything(daemon, crowd, crowd.random))
        daemon.terminate()
        assert daemon.wait() == 0
    assert crowd.watcher is not None
    left = left_behind(data, tmp_path / "copy", crowd.watcher, fsck=True)
    assert left == set(), "an orderly stop leaves nothing to do"
    acknowledged = sum(sender.acknowledged for sender in crowd.senders)
    print(f"{acknowledged} receipts acknowledged, {len(crowd.watcher.roots)} checkpoints; {met}")


def kill_again_and_again(data: Path, copy: Path, crowd: Crowd, met: Counter[str]) -> None:
    """At least KILLS times, and on until each kind of moment was met."""
    for kills in itertools.count():
        if kills >= KILLS and (met.keys() >= MOMENTS or kills >= MOST_KILLS):
            break
        asyncio.run(one_life(data, crowd, kills))
        assert crowd.watcher is not None
        met.update(left_behind(data, copy, crowd.watcher, fsck=kills % 5 == 4))
        met.update(["admitted, not acknowledged"] * any(s.ahead for s in crowd.senders))
    assert met.keys() >= MOMENTS, met
