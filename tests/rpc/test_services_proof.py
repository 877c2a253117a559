"""ProofService against a real daemon: whatever it serves verifies with the log's key alone."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.merkle import verify_consistency
from receiptledger.core.verify import Trust, verify_bundle
from receiptledger.v1 import proof_pb2, types_pb2
from tests.helpers.agents import Agent, FarleyAgent
from tests.helpers.daemons import log_key, open_daemon
from tests.helpers.peer import Peer, failure, open_peer, run, to_bundle

if TYPE_CHECKING:
    from pathlib import Path

A, B, FARLEY = Agent("agent-1", 1), Agent("agent-2", 2), FarleyAgent("issuer-1", 3)
RA, RB = A.receipts(10), B.receipts(3)
NEVER = 60_000  # milliseconds between seals: none of its own in a test


def digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def at(agent: str, position: int, stream: str = "") -> proof_pb2.ChainPosition:
    return proof_pb2.ChainPosition(
        chain=types_pb2.Chain(agent=agent, stream=stream), position=position
    )


async def fill(it: Peer) -> list[bytes]:
    """Three seals; their checkpoints."""
    batches = (RA[:4], [RA[4], *RB], RA[5:8])
    return [(await it.seal(raws)).checkpoint for raws in batches]


# Receipts


def test_a_receipt_by_hash_and_by_place(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await fill(it)
            by_hash = await it.proofs.GetReceipt(
                proof_pb2.GetReceiptRequest(receipt_hash=digest(RA[5]))
            )
            by_place = await it.proofs.GetReceipt(proof_pb2.GetReceiptRequest(at=at("agent-1", 5)))
            assert by_hash == by_place
            assert by_hash.receipt == RA[5]
            assert (by_hash.chain_key, by_hash.position) == (A.chain, 5)
            assert (by_hash.profile, by_hash.profile_version) == ("ms-lesson18", 1)
            assert by_hash.admitted_at_us > 1_700_000_000_000_000
            assert by_hash.leaf_index == 5

    run(work())


def test_an_unsealed_receipt_is_served_without_a_leaf(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await it.send(it.append(), RA[:2])
            found = await it.proofs.GetReceipt(proof_pb2.GetReceiptRequest(at=at("agent-1", 1)))
            assert found.receipt == RA[1]
            assert not found.HasField("leaf_index")

    run(work())


SELECT: dict[str, tuple[dict[str, Any], grpc.StatusCode, str]] = {
    "no selector": ({}, grpc.StatusCode.INVALID_ARGUMENT, "receipt_hash, or at"),
    "a short hash": (
        {"receipt_hash": bytes(31)},
        grpc.StatusCode.INVALID_ARGUMENT,
        "32 bytes",
    ),
    "an empty agent": ({"at": at("", 0)}, grpc.StatusCode.INVALID_ARGUMENT, "1..256 bytes"),
    "a long stream": (
        {"at": at("agent-1", 0, "s" * 257)},
        grpc.StatusCode.INVALID_ARGUMENT,
        "0..256 bytes",
    ),
    "a position beyond all": (
        {"at": at("agent-1", 2**63)},
        grpc.StatusCode.INVALID_ARGUMENT,
        "2^63-1",
    ),
    "the last position": ({"at": at("agent-1", 2**63 - 1)}, grpc.StatusCode.NOT_FOUND, "0..7"),
    "the next position": ({"at": at("agent-1", 8)}, grpc.StatusCode.NOT_FOUND, "0..7"),
    "an unknown hash": ({"receipt_hash": bytes(32)}, grpc.StatusCode.NOT_FOUND, ""),
    "an unknown agent": ({"at": at("nobody", 0)}, grpc.StatusCode.NOT_FOUND, ""),
    "another stream": ({"at": at("agent-1", 0, "s")}, grpc.StatusCode.NOT_FOUND, ""),
}


def test_selections_that_cannot_be_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await fill(it)
            for name, (given, code, want) in SELECT.items():
                for call in (
                    it.proofs.GetReceipt(proof_pb2.GetReceiptRequest(**given)),
                    it.proofs.GetProof(proof_pb2.GetProofRequest(**given)),
                ):
                    told = await failure(call)
                    assert told.code is code, name
                    assert told.reason == code.name, name
                    assert told.domain == "receiptledger"
                    assert want in told.metadata.get("want", ""), name
                    assert told.retry_seconds is None
            value, labels = daemon.metrics.value, {"result": "error"}
            for kind in ("receipt", "proof"):
                count = value("ledger_proof_requests_total", labels | {"kind": kind})
                assert count == len(SELECT)

    run(work())


# Proofs


def test_every_receipt_has_a_bundle_that_verifies(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            notes = await fill(it)
            await it.seal(FARLEY.receipts(2), key_hints=[FARLEY.public_key])
            key = log_key(tmp_path)
            remembered = open_checkpoint(notes[0], key)
            trust = Trust(
                (key,),
                agent_keys={"agent-1": (A.public_key,)},
                remembered=remembered,
                require=frozenset({"remembered"}),
            )
            for name, count in (("agent-1", 8), ("agent-2", 3), ("issuer-1", 2)):
                for position in range(count):
                    answer = await it.proofs.GetProof(
                        proof_pb2.GetProofRequest(at=at(name, position), since_size=remembered.size)
                    )
                    bundle = to_bundle(answer, remembered.size)
                    verdict = verify_bundle(bundle.encode(), trust)
                    assert verdict.exit_code == 0, verdict.to_json()
                    assert verdict.facts["agent"] == name
                    assert verdict.facts["position"] == position
            ok = {"kind": "proof", "result": "ok"}
            assert daemon.metrics.value("ledger_proof_requests_total", ok) == 13

    run(work())


def test_a_proof_at_a_chosen_checkpoint(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            notes = await fill(it)
            key = log_key(tmp_path)
            for note in notes:
                size = open_checkpoint(note, key).size
                answer = await it.proofs.GetProof(
                    proof_pb2.GetProofRequest(receipt_hash=digest(RA[2]), tree_size=size)
                )
                assert answer.checkpoint == note
                assert verify_bundle(to_bundle(answer).encode(), Trust((key,))).exit_code == 0

    run(work())


def test_proofs_that_cannot_be_given(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await fill(it)

            async def told(**given: Any) -> tuple[grpc.StatusCode, str, float | None]:
                request = proof_pb2.GetProofRequest(**given)
                it_failed = await failure(it.proofs.GetProof(request))
                return it_failed.code, it_failed.reason, it_failed.retry_seconds

            early = at("agent-1", 7)
            assert await told(at=early, tree_size=2) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "NOT_SEALED",
                0.25,
            )
            for size in (3, 99, 2**64 - 1):
                assert await told(at=early, tree_size=size) == (
                    grpc.StatusCode.NOT_FOUND,
                    "NOT_FOUND",
                    None,
                )
            for since in (99, 2**64 - 1):
                assert await told(at=early, since_size=since) == (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "INVALID_ARGUMENT",
                    None,
                )

    run(work())


def test_a_receipt_that_is_not_sealed_yet(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await it.send(it.append(), RA[:1])
            request = proof_pb2.GetProofRequest(receipt_hash=digest(RA[0]))
            told = await failure(it.proofs.GetProof(request))
            assert (told.code, told.reason) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "NOT_SEALED",
            )
            assert told.retry_seconds == 0.25
            assert "durable" in told.message
            await daemon._ingest.seal()
            answer = await it.proofs.GetProof(request)
            trust = Trust((log_key(tmp_path),))
            assert verify_bundle(to_bundle(answer).encode(), trust).exit_code == 0

    run(work())


# Checkpoints and consistency


def test_checkpoints_by_size(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            key = log_key(tmp_path)
            empty = await it.proofs.GetCheckpoint(proof_pb2.GetCheckpointRequest())
            assert open_checkpoint(empty.checkpoint, key).size == 0
            notes = await fill(it)
            for note in notes:
                size = open_checkpoint(note, key).size
                answer = await it.proofs.GetCheckpoint(
                    proof_pb2.GetCheckpointRequest(tree_size=size)
                )
                assert answer.checkpoint == note
            newest = await it.proofs.GetCheckpoint(proof_pb2.GetCheckpointRequest())
            assert newest.checkpoint == notes[-1]
            told = await failure(
                it.proofs.GetCheckpoint(proof_pb2.GetCheckpointRequest(tree_size=1))
            )
            assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "NOT_FOUND")
            assert told.metadata["got"] == "1"

    run(work())


def test_consistency_between_checkpoints(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            key = log_key(tmp_path)
            states = [open_checkpoint(note, key) for note in await fill(it)]
            for old in states:
                for new in states:
                    request = proof_pb2.GetConsistencyProofRequest(
                        first_size=old.size, second_size=new.size
                    )
                    if old.size > new.size:
                        told = await failure(it.proofs.GetConsistencyProof(request))
                        assert told.reason == "INVALID_ARGUMENT"
                        continue
                    answer = await it.proofs.GetConsistencyProof(request)
                    assert answer.second_size == new.size
                    verify_consistency(old.size, new.size, list(answer.proof), old.root, new.root)
            newest = await it.proofs.GetConsistencyProof(
                proof_pb2.GetConsistencyProofRequest(first_size=states[0].size)
            )
            assert newest.second_size == states[-1].size
            for sizes in ((0, 2), (0, 0), (2, 99), (2**64 - 1, 2**64 - 1)):
                told = await failure(
                    it.proofs.GetConsistencyProof(
                        proof_pb2.GetConsistencyProofRequest(
                            first_size=sizes[0], second_size=sizes[1]
                        )
                    )
                )
                assert told.code is grpc.StatusCode.INVALID_ARGUMENT
                assert "0 < first_size" in told.metadata["want"]

    run(work())


# Watching


def test_a_watcher_gets_the_newest_then_each_in_growing_order(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            key = log_key(tmp_path)
            watch: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            sizes = [open_checkpoint((await watch.read()).checkpoint, key).size]
            stream = it.append()
            for raw in RA[:4]:
                await it.send(stream, [raw])
                await daemon._ingest.seal()
                sizes.append(open_checkpoint((await watch.read()).checkpoint, key).size)
            assert sizes == [0, 2, 3, 4, 5]
            late: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            assert open_checkpoint((await late.read()).checkpoint, key).size == 5

    run(work())


def test_a_watcher_that_does_not_read_skips_and_never_goes_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            key = log_key(tmp_path)
            watch: Any = it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())
            await watch.read()
            stream = it.append()
            for raw in RA[:6]:
                await it.send(stream, [raw])
                await daemon._ingest.seal()
            sizes = [0]
            while sizes[-1] < 7:
                sizes.append(open_checkpoint((await watch.read()).checkpoint, key).size)
            assert sizes == sorted(set(sizes))

    run(work())


def test_too_many_watchers(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, max_watchers=1) as daemon, open_peer(daemon) as it:

            def watch() -> Any:
                return it.proofs.WatchCheckpoints(proof_pb2.WatchCheckpointsRequest())

            first = watch()
            await first.read()
            told = await failure(watch().read())
            assert (told.code, told.reason) == (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "OVERLOADED",
            )
            assert (told.metadata, told.retry_seconds) == ({"want": "at most 1"}, 1.0)
            first.cancel()
            for _ in range(1_000):  # the daemon learns of it a moment later
                second = watch()
                try:
                    assert (await second.read()).checkpoint
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # noqa: PT017
                else:
                    break
            else:
                pytest.fail("a watcher that left still counts")

    run(work())


def test_reads_go_on_while_many_seals_happen(tmp_path: Path) -> None:
    """Each proof is of one tree, whatever is published meanwhile."""

    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=10) as daemon, open_peer(daemon) as it:
            await it.seal(RA[:2])
            trust = Trust((log_key(tmp_path),))
            done = asyncio.Event()

            async def writing() -> None:
                for number in range(20):
                    await it.seal(Agent(f"other-{number}").receipts(1))
                done.set()

            async def reading() -> int:
                count = 0
                while not done.is_set():
                    answer = await it.proofs.GetProof(
                        proof_pb2.GetProofRequest(receipt_hash=digest(RA[1]), since_size=2)
                    )
                    verdict = verify_bundle(to_bundle(answer, 2).encode(), trust)
                    assert verdict.exit_code == 0, verdict.to_json()
                    count += 1
                return count

            results = await asyncio.gather(writing(), reading())
            assert results[1] > 0

    run(work())
