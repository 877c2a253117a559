"""The HTTP pages of a real daemon: tiles and checkpoint for anybody, health and metrics for operators.

Requests are written as bytes, so that no client tidies a path up before the daemon sees it.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from ledgerd.daemon import Daemon, StartError
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.merkle import hash_leaf, root_hash
from receiptledger.core.tile import TileId, decode_entries, entries_path, tile_path, tile_width
from tests.helpers.agents import Agent
from tests.helpers.daemons import log_key, open_daemon, settings_for
from tests.helpers.peer import open_peer, run

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.store.interface import Store

RA = Agent().receipts(8)
HANDLED = (
    'grpc_server_handled_total{grpc_code="OK",grpc_method="Append",'
    'grpc_service="receiptledger.v1.IngestService"} 1.0'
)


class Page:
    """One answer."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {
            name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
        }


async def get(daemon: Daemon, target: str, method: str = "GET") -> Page:
    """Ask for a target exactly as it is written."""
    host, _, port = daemon.http_address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        request = f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("latin-1"))
        await writer.drain()
        return Page(await reader.read())
    finally:
        writer.close()
        await writer.wait_closed()


# The log


def test_the_checkpoint_is_the_newest_note(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            empty = await get(daemon, "/checkpoint")
            assert open_checkpoint(empty.body, log_key(tmp_path)).size == 0
            sealed = await it.seal(RA[:3])
            page = await get(daemon, "/checkpoint")
            assert page.status == 200
            assert page.body == sealed.checkpoint
            assert page.headers["content-type"] == "text/plain; charset=utf-8"
            assert page.headers["cache-control"] == "no-cache"

    run(work())


async def check_tiles(daemon: Daemon, store: Store, size: int) -> int:
    """Every tile and entry bundle of a tree against the store's leaves; how many there were."""
    leaves = store.leaves(0, size)
    level = [hash_leaf(leaf) for leaf in leaves]
    count = tree_level = 0
    while level:
        for index in range((len(level) + 255) // 256):
            width = tile_width(TileId(tree_level, index), size)
            for wanted in sorted({1, width // 2, width} - {0}):
                hashes = level[index * 256 : index * 256 + wanted]
                page = await get(daemon, f"/{tile_path(TileId(tree_level, index), wanted)}")
                assert page.status == 200
                assert page.body == b"".join(hashes)
                assert page.headers["content-type"] == "application/octet-stream"
                assert page.headers["cache-control"] == "public, max-age=31536000, immutable"
                count += 1
                if tree_level == 0:
                    page = await get(daemon, f"/{entries_path(index, wanted)}")
                    first = index * 256
                    assert decode_entries(page.body, wanted) == leaves[first : first + wanted]
        level = [root_hash(level[at : at + 256]) for at in range(0, len(level) - 255, 256)]
        tree_level += 1
    return count


def test_tiles_and_entries_are_those_of_the_log(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, seal_interval_ms=60_000) as daemon,
            open_peer(daemon) as it,
        ):
            sizes = []
            for start in (0, 90, 190):  # some are sent again
                stream = it.append()
                raws = [Agent(f"a-{n}").receipts(1)[0] for n in range(start, start + 100)]
                await it.send(stream, raws)
                state = await daemon._ingest.seal()
                assert state is not None
                sizes.append(state.size)
                await check_tiles(daemon, daemon._store, state.size)
            assert sizes == [200, 380, 580]
            assert await check_tiles(daemon, daemon._store, 580) == 3 * 3 + 2

    run(work())


def test_a_tree_can_be_read_and_checked_from_tiles_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await it.seal([Agent(f"a-{n}").receipts(1)[0] for n in range(140)])
            page = await get(daemon, "/checkpoint")
            checkpoint = open_checkpoint(page.body, log_key(tmp_path))
            leaves: list[bytes] = []
            for index in range((checkpoint.size + 255) // 256):
                width = tile_width(TileId(0, index), checkpoint.size)
                page = await get(daemon, f"/{entries_path(index, width)}")
                leaves += decode_entries(page.body, width)
            assert root_hash([hash_leaf(leaf) for leaf in leaves]) == checkpoint.root

    run(work())


MISSING = [
    # Not in the tree of 280 leaves.
    "/tile/0/002",
    "/tile/0/001",
    "/tile/0/001.p/25",
    "/tile/1/000.p/2",
    "/tile/1/000",
    "/tile/2/000.p/1",
    "/tile/entries/001.p/25",
    "/tile/entries/001",
    "/tile/entries/999.p/1",
    # Not paths of tiles.
    "/tile/0/000.p/0",
    "/tile/0/000.p/256",
    "/tile/0/000.p/257",
    "/tile/0/000.p/01",
    "/tile/0/000.p/-1",
    "/tile/0/000.p/1/",
    "/tile/0/000.p/",
    "/tile/0/000.p",
    "/tile/0/0",
    "/tile/0/00",
    "/tile/0/0000",
    "/tile/0/x000/000",
    "/tile/0/x001",
    "/tile/0/001/000",
    "/tile/00/000",
    "/tile/01/000",
    "/tile/+0/000",
    "/tile/-1/000",
    "/tile/64/000",
    "/tile/255/000",
    "/tile/a/000",
    "/tile//000",
    "/tile/0//000",
    "/tile//0/000",
    "/tile/0/000/",
    "/tile/",
    "/tile/entries/",
    "/tile/entries/000.p/0",
    "/tile/entries/000.p/256",
    "/tile/entries/00",
    "/tile/entries/0000",
    "/tile/entries//000",
    "/tile/0/000.p/1%0a",
    "/tile/0/%c2%b2%c2%b2%c2%b2",
    # Nothing of ours.
    "/",
    "/tiles/0/000",
    "/checkpoint/x",
    "/checkpoint.txt",
    "/data/log.key",
    # Ways out of a folder, though none is served.
    "/tile/../log.key",
    "/tile/0/../../log.key",
    "/tile/%2e%2e/%2e%2e/log.key",
    "/tile/..%2f..%2flog.key",
    "/tile/entries/../../../../etc/passwd",
    "/../../etc/passwd",
    "/tile/0/000\\..\\x",
    "//etc/passwd",
    "/tile/0/000%00",
]


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await it.seal([Agent(f"a-{n}").receipts(1)[0] for n in range(140)])
            for target in ("/tile/0/000", "/tile/0/001.p/24", "/tile/1/000.p/1"):
                assert (await get(daemon, target)).status == 200, target
            for target in MISSING:
                page = await get(daemon, target)
                assert page.status == 404, target
                assert b"PRIVATE" not in page.body
                assert len(page.body) < 300

    run(work())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_pages_are_only_read(tmp_path: Path, method: str) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            for target in ("/checkpoint", "/tile/0/000.p/1", "/metrics", "/readyz", "/healthz"):
                assert (await get(daemon, target, method)).status == 405

    run(work())


def test_a_head_request_has_no_body(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon:
            page = await get(daemon, "/checkpoint", "HEAD")
            assert (page.status, page.body) == (200, b"")

    run(work())


# Operators


def test_health_pages(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, seal_interval_ms=60_000) as daemon,
            open_peer(daemon) as it,
        ):
            alive = await get(daemon, "/healthz")
            assert (alive.status, alive.body) == (200, b"ok\n")
            await it.send(it.append(), RA[:3])
            page = await get(daemon, "/readyz")
            assert page.status == 200
            assert page.headers["content-type"] == "application/json"
            assert json.loads(page.body) == {
                "ready": True,
                "draining": False,
                "store_healthy": True,
                "tree_size": 0,
                "unsealed_receipts": 3,
                "store_errors": 0,
            }

    run(work())


def test_not_ready_while_draining_and_alive_to_the_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            stream = it.append()
            await it.send(stream, RA[:1])
            stopping = asyncio.create_task(daemon.stop())
            assert (await stream.read()).draining
            page = await get(daemon, "/readyz")
            assert page.status == 503
            told = json.loads(page.body)
            assert (told["ready"], told["draining"]) == (False, True)
            assert (await get(daemon, "/healthz")).status == 200
            assert (await get(daemon, "/checkpoint")).status == 200
            await stream.done_writing()
            await stopping

    run(work())


def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_daemon(tmp_path) as daemon, open_peer(daemon) as it:
            await it.seal([*RA[:2], b"x"])
            for target in (
                "/tile/0/000.p/1",
                "/tile/0/001",
                "/tile/entries/000.p/1",
                "/checkpoint",
            ):
                await get(daemon, target)
            page = await get(daemon, "/metrics")
            assert page.status == 200
            assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            lines = page.body.decode().splitlines()
            for line in (
                'ledger_receipts_total{result="accepted"} 2.0',
                'ledger_receipts_total{result="rejected"} 1.0',
                'ledger_receipts_rejected_total{reason="malformed"} 1.0',
                "ledger_tree_size 2.0",
                "ledger_ready 1.0",
                "ledger_streams_active 0.0",
                'ledger_proof_requests_total{kind="tile",result="ok"} 2.0',
                'ledger_proof_requests_total{kind="tile",result="error"} 1.0',
                'ledger_proof_requests_total{kind="checkpoint",result="ok"} 1.0',
                HANDLED,
            ):
                assert line in lines, line
            values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            assert float(values["ledger_store_bytes"]) > 0
            assert float(values["ledger_store_free_bytes"]) > 0
            assert float(values["ledger_last_seal_timestamp_seconds"]) > 1_700_000_000
            assert RA[0][:20].decode() not in page.body.decode()
            assert "agent-1" not in page.body.decode()

    run(work())


def test_an_ipv6_address(tmp_path: Path) -> None:
    async def work() -> None:
        daemon = Daemon(settings_for(tmp_path, http_listen="[::1]:0"))
        try:
            await daemon.start()
        except StartError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        assert daemon.http_address.startswith("[::1]:")
        reader, writer = await asyncio.open_connection("::1", int(daemon.http_address[6:]))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()
        await writer.wait_closed()
        await daemon.stop()

    run(work())
