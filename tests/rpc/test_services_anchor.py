"""AnchorService and the anchors of a proof, against a real daemon."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc

from ledgerd.store.interface import Changes
from ledgerd.writer import CommitJob
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from receiptledger.core.merkle import hash_leaf, verify_consistency, verify_inclusion
from receiptledger.v1 import anchor_pb2, proof_pb2
from tests.helpers.agents import Agent
from tests.helpers.anchor_records import evidence_of, record_of
from tests.helpers.daemons import log_key, open_daemon
from tests.helpers.peer import Peer, failure, open_peer, run, to_bundle
from tests.helpers.sync_ledger import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.daemon import Daemon
    from ledgerd.store.interface import AnchorRecord
    from receiptledger.core.errors import ServiceError

RA = Agent("agent-1", 1).receipts(10)
NEVER = 60_000  # milliseconds between seals: none of its own in a test


async def commit(daemon: Daemon, changes: Changes) -> None:
    """Through the daemon's own writer."""
    done: asyncio.Future[ServiceError | None] = asyncio.get_running_loop().create_future()
    daemon._writer.submit(CommitJob(changes, done.set_result))
    assert await done is None


async def stamp(daemon: Daemon, folder: Path, tsa: str = "tsa-a") -> AnchorRecord:
    """An answer over the newest checkpoint, stored and not sealed."""
    state = daemon._board.state
    assert state is not None
    record = record_of(daemon._store, state.note, log_key(folder), tsa)
    await commit(daemon, Changes(anchors=[record]))
    return record


async def prove(daemon: Daemon, number: int, *crls: bytes) -> None:
    """Evidence for an answer, stored and not sealed."""
    record = daemon._store.anchor(number)
    assert record is not None
    await commit(daemon, evidence_of(record, crls, [b"ocsp answer"]))


async def append(daemon: Daemon, it: Peer, raws: list[bytes]) -> None:
    """Receipts under a seal of their own."""
    await it.send(it.append(), raws)
    await daemon._ingest.seal()


async def fill(daemon: Daemon, it: Peer, folder: Path) -> None:
    """Two receipts, each stamped by two TSAs after its seal; the first with evidence."""
    for number in range(2):
        await append(daemon, it, RA[number : number + 1])
        for tsa in ("tsa-a", "tsa-b"):
            await stamp(daemon, folder, tsa)
        await daemon._ingest.seal()
    await prove(daemon, 0, b"list one", b"list two")
    await daemon._ingest.seal()


# Lists


def test_an_empty_list(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            answer = await it.anchors.ListAnchors(anchor_pb2.ListAnchorsRequest())
            assert (list(answer.anchors), answer.count) == ([], 0)

    run(work())


def test_what_a_list_says(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await fill(daemon, it, tmp_path)
            last = await stamp(daemon, tmp_path)
            answer = await it.anchors.ListAnchors(anchor_pb2.ListAnchorsRequest())
            assert answer.count == 5
            assert [one.number for one in answer.anchors] == [0, 1, 2, 3, 4]
            first, second = answer.anchors[:2]
            stored = daemon._store.anchor(0)
            assert stored is not None
            assert (first.tsa, first.tree_size, first.root) == ("tsa-a", stored.size, stored.root)
            assert (first.gen_time_us, first.stored_at_us) == (NOW, NOW + 1_000)
            assert first.response_hash == hashlib.sha256(stored.response).digest()
            assert first.response_bytes == len(stored.response)
            assert stored.evidence is not None
            assert first.evidence_hash == hashlib.sha256(stored.evidence).digest()
            assert first.evidence_leaf_index == stored.evidence_leaf_index
            assert first.leaf_index == stored.leaf_index
            assert (second.evidence_hash, second.HasField("evidence_leaf_index")) == (b"", False)
            unsealed = answer.anchors[4]
            assert not unsealed.HasField("leaf_index")
            assert unsealed.tree_size == last.size
            ok = {"kind": "anchors", "result": "ok"}
            assert daemon.metrics.value("ledger_proof_requests_total", ok) == 1

    run(work())


def test_pages(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await it.seal(RA[:1])
            first = record_of(daemon._store, daemon._board.state.note, log_key(tmp_path), "tsa-a")  # type: ignore[union-attr]
            await commit(daemon, Changes(anchors=[replace(first, number=n) for n in range(300)]))

            async def page(first: int, limit: int = 0) -> list[int]:
                request = anchor_pb2.ListAnchorsRequest(first=first, limit=limit)
                answer = await it.anchors.ListAnchors(request)
                assert answer.count == 300
                return [anchor.number for anchor in answer.anchors]

            assert await page(0) == list(range(256))
            assert await page(256) == list(range(256, 300))
            assert await page(7, 3) == [7, 8, 9]
            assert await page(299, 256) == [299]
            assert await page(300) == []
            assert await page(2**63 - 1) == []
            for bad in ({"limit": 257}, {"first": 2**63}, {"limit": 2**32 - 1}):
                told = await failure(
                    it.anchors.ListAnchors(anchor_pb2.ListAnchorsRequest(**bad))  # type: ignore[arg-type]
                )
                assert (told.code, told.reason) == (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "INVALID_ARGUMENT",
                )
                assert told.metadata["got"] == str(*bad.values())
                assert told.retry_seconds is None

    run(work())


# Single anchors


def test_one_anchor_with_its_evidence(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await fill(daemon, it, tmp_path)
            key, stored = log_key(tmp_path), daemon._store.anchor(0)
            assert stored is not None
            got = await it.anchors.GetAnchor(anchor_pb2.GetAnchorRequest(number=0))
            newest, old = open_checkpoint(got.checkpoint, key), open_checkpoint(got.note, key)
            assert (old.size, old.root) == (stored.size, stored.root)
            proof = tuple(got.consistency)
            verify_consistency(old.size, newest.size, proof, old.root, newest.root)
            for part in (got.leaf, got.evidence_leaf):
                path = tuple(part.proof)
                leaf = hash_leaf(part.leaf)
                verify_inclusion(leaf, part.index, newest.size, path, newest.root)
            own, evidence = parse_leaf(got.leaf.leaf), parse_leaf(got.evidence_leaf.leaf)
            assert isinstance(own, AnchorLeaf)
            assert isinstance(evidence, AnchorLeaf)
            assert own.response == hashlib.sha256(got.response).digest()
            assert (own.evidence, evidence.evidence) == (None, got.anchor.evidence_hash)
            assert (got.request, got.response) == (stored.request, stored.response)
            assert list(got.crls) == [b"list one", b"list two"]
            assert list(got.ocsps) == [b"ocsp answer"]
            listed = await it.anchors.ListAnchors(anchor_pb2.ListAnchorsRequest(limit=1))
            assert got.anchor == listed.anchors[0]

    run(work())


def test_one_anchor_as_of_an_older_checkpoint(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await append(daemon, it, RA[:1])
            record = await stamp(daemon, tmp_path)
            request = anchor_pb2.GetAnchorRequest(number=0)
            fresh = await it.anchors.GetAnchor(request)
            assert not fresh.HasField("leaf")
            assert not fresh.anchor.HasField("leaf_index")
            assert fresh.note == fresh.checkpoint
            await daemon._ingest.seal()
            sealed = await it.anchors.GetAnchor(request)
            assert sealed.anchor.leaf_index == sealed.leaf.index
            size = open_checkpoint(sealed.checkpoint, log_key(tmp_path)).size
            await prove(daemon, 0, b"list")
            await daemon._ingest.seal()
            assert (await it.anchors.GetAnchor(request)).HasField("evidence_leaf")
            old = anchor_pb2.GetAnchorRequest(number=0, tree_size=size)
            assert await it.anchors.GetAnchor(old) == sealed
            first = anchor_pb2.GetAnchorRequest(number=0, tree_size=record.size)
            assert await it.anchors.GetAnchor(first) == fresh

    run(work())


def test_anchors_that_cannot_be_given(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:

            async def told(**given: int) -> tuple[str, str | None]:
                request = anchor_pb2.GetAnchorRequest(**given)
                it_failed = await failure(it.anchors.GetAnchor(request))
                assert it_failed.code.name == it_failed.reason
                assert it_failed.retry_seconds is None
                return it_failed.reason, it_failed.metadata.get("want")

            assert await told(number=0) == ("NOT_FOUND", "none: there is no anchor yet")
            await append(daemon, it, RA[:1])
            older = open_checkpoint(daemon._board.state.note, log_key(tmp_path)).size  # type: ignore[union-attr]
            await append(daemon, it, RA[1:2])
            record = await stamp(daemon, tmp_path)
            assert await told(number=1) == ("NOT_FOUND", "0..0")
            assert await told(number=2**63 - 1) == ("NOT_FOUND", "0..0")
            assert await told(number=2**63) == ("INVALID_ARGUMENT", "at most 2^63-1")
            reason, want = await told(number=0, tree_size=99)
            assert reason == "NOT_FOUND"
            assert await told(number=0, tree_size=older) == (
                "INVALID_ARGUMENT",
                f"a tree size of at least {record.size}",
            )
            assert want is not None

    run(work())


# Proofs


def test_a_proof_carries_its_anchors(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            await fill(daemon, it, tmp_path)
            request = proof_pb2.GetProofRequest(receipt_hash=hashlib.sha256(RA[1]).digest())
            answer = await it.proofs.GetProof(request)
            bundle = to_bundle(answer)
            position, size = bundle.head.index, len(bundle.anchors)
            assert size == 2
            before, after = bundle.anchors
            assert all(one.leaf.index < position for one in before.stamps)
            assert open_checkpoint(after.note, log_key(tmp_path)).size > position
            assert [one.leaf.index > position for one in after.stamps] == [True, True]
            evidence = [one.evidence for anchor in bundle.anchors for one in anchor.stamps]
            assert [one is not None for one in evidence] == [True, False, False, False]
            assert evidence[0] is not None
            assert evidence[0].crls == (b"list one", b"list two")
            again = await it.proofs.GetProof(
                proof_pb2.GetProofRequest(
                    receipt_hash=request.receipt_hash,
                    tree_size=open_checkpoint(bundle.checkpoint, log_key(tmp_path)).size,
                )
            )
            assert again == answer

    run(work())


# AnchorNow


def test_without_tsas_nothing_can_be_anchored(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            told = await failure(it.anchors.AnchorNow(anchor_pb2.AnchorNowRequest()))
            assert (told.code, told.reason) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "NOT_CONFIGURED",
            )
            assert "no timestamp authority" in told.message
            assert told.retry_seconds is None

    run(work())


# Around the service


def test_the_service_is_known_to_health_and_metrics(tmp_path: Path) -> None:
    async def work() -> None:
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            health = health_pb2_grpc.HealthStub(it.channel)
            request = health_pb2.HealthCheckRequest(service="receiptledger.v1.AnchorService")
            assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
            await it.anchors.ListAnchors(anchor_pb2.ListAnchorsRequest())
            labels = {
                "grpc_service": "receiptledger.v1.AnchorService",
                "grpc_method": "ListAnchors",
                "grpc_code": "OK",
            }
            assert daemon.metrics.value("grpc_server_handled_total", labels) == 1
            for method in ("AnchorNow", "GetAnchor"):
                never = labels | {"grpc_method": method}
                assert daemon.metrics.value("grpc_server_handled_total", never) == 0

    run(work())
