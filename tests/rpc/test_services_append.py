"""IngestService against a real daemon: every answer a receipt can get, and the stream that goes on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, TypeVar

import grpc
import pytest

from ledgerd.ingest import MAX_KEY_HINTS
from receiptledger.core.canonical import canonicalize
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.encoding import base64url_encode
from receiptledger.v1 import ingest_pb2, types_pb2
from tests.helpers.agents import Agent, FarleyAgent, link, respelled
from tests.helpers.daemons import log_key, open_daemon
from tests.helpers.peer import open_peer, outcomes, run

if TYPE_CHECKING:
    from pathlib import Path


A, B, FARLEY = Agent("agent-1", 1), Agent("agent-2", 2), FarleyAgent("issuer-1", 3)
RA, RB = A.receipts(10), B.receipts(3)
SEALED = ingest_pb2.ACK_LEVEL_SEALED
T = TypeVar("T")
# A client that takes little before it reads; by itself gRPC takes megabytes of answers.
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
NEVER = 60_000  # milliseconds between seals: none of its own in a test


def chain(name: str, stream: str = "") -> types_pb2.Chain:
    return types_pb2.Chain(agent=name, stream=stream)


# Answers


def test_accepted_and_durable(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon, open_peer(daemon) as it:
            stream = it.append()
            response = await it.send(stream, [RA[0], RB[0], RA[1]])
            assert outcomes(response) == [("accepted", 0), ("accepted", 0), ("accepted", 1)]
            assert [a.receipt_hash for a in response.answers] == [
                hashlib.sha256(raw).digest() for raw in (RA[0], RB[0], RA[1])
            ]
            assert response.checkpoint == b""
            assert not response.draining
            for answer in response.answers:
                assert answer.reason == types_pb2.REASON_UNSPECIFIED
                assert not answer.HasField("leaf_index")
                assert (answer.detail, answer.expected_hash) == ("", b"")
            durable = await it.send(stream, RA[2:3], ack_level=ingest_pb2.ACK_LEVEL_DURABLE)
            assert outcomes(durable) == [("accepted", 2)]
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF
            assert await stream.code() is grpc.StatusCode.OK

    run(work())


def test_sealed_answers_carry_the_checkpoint_and_the_leaf(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            stream = it.append()
            response = await it.send(stream, [RA[0], b"x", RB[0], RA[1]], ack_level=SEALED)
            assert [word for word, _ in outcomes(response)] == [
                "accepted",
                "malformed",
                "accepted",
                "accepted",
            ]
            checkpoint = open_checkpoint(response.checkpoint, log_key(tmp_path))
            assert checkpoint.size == 4
            first, refused, second, third = response.answers
            assert (first.leaf_index, second.leaf_index, third.leaf_index) == (1, 3, 1)
            assert not refused.HasField("leaf_index")
            again = await it.send(stream, RA[:1], ack_level=SEALED)
            assert outcomes(again) == [("duplicate", 0)]
            assert again.answers[0].leaf_index == 1
            only_refused = await it.send(stream, [b"x"], ack_level=SEALED)
            assert open_checkpoint(only_refused.checkpoint, log_key(tmp_path)).size >= 4

    run(work())


def test_every_refusal_names_its_reason_and_the_stream_goes_on(tmp_path: Path) -> None:
    value = json.loads(RA[3])
    forger = Agent("agent-1", 9)
    cases: dict[str, tuple[bytes, int, bytes | None]] = {
        "malformed": (b"{", 0, None),
        "too_large": (RA[3][:-1] + b',"x":"' + b"x" * 3_000 + b'"}', 0, None),
        "unknown_profile": (b'{"type":"nothing known"}', 0, None),
        "invalid_field": (canonicalize(value | {"sequence": "3"}), 0, None),
        "unsupported_algorithm": (RA[3].replace(b'"EdDSA"', b'"ES256"'), 0, None),
        "bad_signature": (canonicalize(value | {"tool_name": "x"}), 0, None),
        "unknown_key": (FARLEY.receipts(1)[0], 0, None),
        "wrong_key": (forger.receipt(3, link(RA[2])), 0, None),
        "gap": (RA[5], 3, link(RA[2])),
        "fork": (A.receipt(1, link(RA[0]), note=1), 1, hashlib.sha256(RA[1]).digest()),
        "broken_link": (A.receipt(3, link(b"elsewhere")), 3, link(RA[2])),
        "wrong_sequence": (A.receipt(8, link(RA[2])), 3, link(RA[2])),
    }

    async def work() -> None:
        async with (
            open_daemon(tmp_path, seal_interval_ms=NEVER, max_receipt_bytes=2_000) as daemon,
            open_peer(daemon) as it,
        ):
            stream = it.append()
            await it.send(stream, RA[:3])
            together = await it.send(
                stream, [*(raw for raw, _, _ in cases.values()), RB[0], RA[1], respelled(RA[2])]
            )
            assert outcomes(together) == [
                *((name, position) for name, (_, position, _) in cases.items()),
                ("accepted", 0),
                ("duplicate", 1),
                ("duplicate", 2),
            ]
            for answer, (raw, _, expected) in zip(together.answers, cases.values(), strict=False):
                assert answer.receipt_hash == hashlib.sha256(raw).digest()
                assert answer.expected_hash == (expected or b"")
                assert answer.detail
            for name, (raw, position, _) in cases.items():
                assert outcomes(await it.send(stream, [raw])) == [(name, position)]
            assert outcomes(await it.send(stream, RA[3:5])) == [("accepted", 3), ("accepted", 4)]
            for name in cases:
                labels = {"reason": name}
                assert daemon.metrics.value("ledger_receipts_rejected_total", labels) == 2

    run(work())


def test_a_gap_at_the_start_of_a_chain_expects_no_hash(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            response = await it.send(it.append(), RA[2:3])
            assert outcomes(response) == [("gap", 0)]
            assert response.answers[0].expected_hash == b""

    run(work())


# Batches


Given = dict[str, object]


@pytest.mark.parametrize(
    ("raws", "given", "want"),
    [
        (RA[:5], {}, "at most 4"),
        (RA[:1], {"key_hints": [bytes(32)] * (MAX_KEY_HINTS + 1)}, f"at most {MAX_KEY_HINTS}"),
        (RA[:1], {"key_hints": [bytes(31)]}, "32 bytes"),
        (RA[:2], {"ack_level": 7}, "DURABLE or SEALED"),
    ],
    ids=["receipts", "hints", "hint length", "ack level"],
)
def test_a_batch_beyond_the_limits_is_refused_whole(
    tmp_path: Path, raws: list[bytes], given: Given, want: str
) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, max_batch_receipts=4) as daemon,
            open_peer(daemon) as it,
        ):
            stream = it.append()
            response = await it.send(stream, raws, **given)
            assert outcomes(response) == [("invalid_argument", 0)] * len(raws)
            assert all(want in answer.detail for answer in response.answers)
            assert outcomes(await it.send(stream, RA[:4])) == [("accepted", n) for n in range(4)]

    run(work())


def test_an_empty_batch_is_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            stream = it.append()
            response = await it.send(stream, [])
            assert (list(response.answers), response.draining) == ([], False)
            assert outcomes(await it.send(stream, RA[:1])) == [("accepted", 0)]

    run(work())


def test_a_message_beyond_the_limit_ends_the_call(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, max_message_bytes=8_192, max_receipt_bytes=4_096) as daemon,
            open_peer(daemon) as it,
        ):
            stream = it.append()
            await it.send(stream, RA[:2])
            await stream.write(ingest_pb2.AppendRequest(receipts=[b"x" * 9_000]))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert outcomes(await it.send(it.append(), RA[2:3])) == [("accepted", 2)]

    run(work())


def test_key_hints_open_chains_of_formats_without_keys(tmp_path: Path) -> None:
    raws = FARLEY.receipts(3)

    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            stream = it.append()
            assert outcomes(await it.send(stream, raws[:1])) == [("unknown_key", 0)]
            wrong = await it.send(stream, raws[:1], key_hints=[A.public_key])
            assert outcomes(wrong) == [("bad_signature", 0)]
            hints = [A.public_key, FARLEY.public_key]
            opened = await it.send(stream, raws[:2], key_hints=hints)
            assert outcomes(opened) == [("accepted", 0), ("accepted", 1)]
            assert outcomes(await it.send(stream, raws[2:])) == [("accepted", 2)]

    run(work())


def test_a_named_format_is_the_only_one_tried(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            stream = it.append()
            wrong = await it.send(stream, RA[:1], profile="draft-farley-04")
            assert outcomes(wrong) == [("invalid_field", 0)]
            unknown = await it.send(stream, RA[:1], profile="nothing")
            assert outcomes(unknown) == [("unknown_profile", 0)]
            assert outcomes(await it.send(stream, RA[:1], profile="ms-lesson18")) == [
                ("accepted", 0)
            ]

    run(work())


def test_enrolled_agents_only(tmp_path: Path) -> None:
    keys = [{"agent": "agent-1", "public_key": base64url_encode(A.public_key)}]

    async def work() -> None:
        async with (
            open_daemon(tmp_path, trust_mode="registered", agent_keys=keys) as daemon,
            open_peer(daemon) as it,
        ):
            response = await it.send(it.append(), [RA[0], RB[0]])
            assert outcomes(response) == [("accepted", 0), ("unknown_key", 0)]

    run(work())


# Many at once


def test_streams_of_many_agents_go_on_together(tmp_path: Path) -> None:
    agents = [Agent(f"crowd-{number}", number) for number in range(12)]

    async def one(it: object, agent: Agent) -> list[tuple[str, int]]:
        stream, said = it.append(), []  # type: ignore[attr-defined]
        raws = agent.receipts(9)
        for at in range(0, 9, 3):
            await stream.write(ingest_pb2.AppendRequest(batch_id=at, receipts=raws[at : at + 3]))
        for at in range(0, 9, 3):
            response = await stream.read()
            assert response.batch_id == at
            said += outcomes(response)
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        return said

    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            for said in await asyncio.gather(*(one(it, agent) for agent in agents)):
                assert said == [("accepted", n) for n in range(9)]
            accepted = daemon.metrics.value("ledger_receipts_total", {"result": "accepted"})
            assert accepted == 9 * len(agents)

    run(work())
