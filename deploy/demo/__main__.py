"""`make demo`: the main job end to end, with nothing faked.

A daemon on RocksDB in a temporary folder, three agents that stream receipts, a sealed checkpoint that two
timestamp authorities stamp; then the auditor: a proof bundle, the daemon stopped, the bundle verified
offline by the command line, one byte changed; before that a refused fork, a refused gap, and the metrics.

Environment: KEEP=1 leaves the daemon running. OUT=DIR leaves the files there.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from deploy.demo.agents import AGENTS, Acks, fork_of, gap_after, send
from deploy.demo.authorities import DemoAuthority, anchor, prove_anchored
from deploy.demo.daemon import DemoDaemon
from receiptledger import AsyncAgent, AsyncAuditor, SeedSigner, submit_receipts
from receiptledger.core.note import VerifierKey
from receiptledger.core.trust import Trust
from receiptledger.trust import format_trust

if TYPE_CHECKING:
    from receiptledger.core.timestamp import TsaTrust
    from receiptledger.wire import Answer

ORIGIN = "demo.localhost/receipts"
POSITION = 107  # of booking-bot: the receipt the auditor asks about
OPERATOR = SeedSigner(sha256(b"demo operator").digest())
SHOWN_METRICS = (
    "ledger_receipts_total",
    'ledger_receipts_rejected_total{reason="fork"}',
    'ledger_receipts_rejected_total{reason="gap"}',
    "ledger_tree_size",
    "ledger_anchor_lag_seconds",
    'ledger_anchor_attempts_total{result="stored"',
    "ledger_unsealed_receipts",
    "ledger_ack_seconds_count",
    "ledger_ack_seconds_sum",
    "ledger_seal_seconds_count",
    "ledger_store_bytes",
)

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def say(title: str) -> None:
    """A heading."""
    console.print(f"\n[bold cyan]{title}[/]")


def main() -> int:
    """Run all acts; returns the exit code."""
    keep = os.environ.get("KEEP", "") not in ("", "0")
    folder = Path(tempfile.mkdtemp(prefix="receiptledger-demo-"))
    out = Path(os.environ.get("OUT") or folder / "out").absolute()
    out.mkdir(parents=True, exist_ok=True)
    servers: list[DemoAuthority | DemoDaemon] = []
    good = False
    try:
        good = _play(folder, out, servers, keep=keep)
    finally:
        if not (keep and good):
            for server in reversed(servers):
                server.stop()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if good else 1


def _play(
    folder: Path, out: Path, servers: list[DemoAuthority | DemoDaemon], *, keep: bool
) -> bool:
    started = time.perf_counter()
    say("1. A ledger starts, on an empty folder, with two timestamp authorities beside it")
    authorities = []
    for name, key in (("tsa-one", "p256"), ("tsa-two", "rsa3072")):
        authorities.append(DemoAuthority(folder, name, key))
        servers.append(authorities[-1])
    config = "\n".join(["anchor_min_spacing_seconds = 1\n", *(a.config for a in authorities)])
    daemon = DemoDaemon(folder, ORIGIN, config)
    servers.append(daemon)
    console.print(f"   gRPC {daemon.grpc}, HTTP {daemon.http}\n   log key {daemon.log_key}")
    asyncio.run(_use(daemon, out, [authority.trust for authority in authorities]))
    if not keep:
        say("7. The daemon is told to stop (SIGTERM): it drains, seals, and exits")
        code = servers.pop().stop()
        console.print(f"   exit code {code}; from here on there is no server")
        if code != 0:
            return False
    good = _verify_offline(out)
    console.print(f"\nDone in {time.perf_counter() - started:.1f} s.")
    if keep:
        _what_next(daemon, out, servers)
    elif os.environ.get("OUT"):
        console.print(f"Files: {out}")
    return good


async def _use(daemon: DemoDaemon, out: Path, tsas: list[TsaTrust]) -> None:
    """Acts 2 to 6, while the daemon runs."""
    async with AsyncAuditor(daemon.grpc, daemon.log_key) as auditor:
        async with AsyncAgent(daemon.grpc, "operator", OPERATOR) as operator:
            await operator.record(tool="open_ledger", args={}, result={}, policy_id="demo")
            await operator.flush(30)
        await auditor.prove(agent="operator", position=0)  # waits for the seal
        await anchor(auditor, _line)  # what comes after these leaves cannot be older than they are
    say("2. Three agents stream signed receipts at the same time; each answer means: fsynced")
    results = await asyncio.gather(*(send(agent, daemon.grpc) for agent in AGENTS))
    _show_acks(results)
    booking = results[0]
    (out / "receipts.jsonl").write_bytes(b"".join(raw + b"\n" for raw in booking.receipts))

    async with AsyncAuditor(daemon.grpc, daemon.log_key) as auditor:
        say("3. The sealed checkpoint: the whole log in three lines, signed")
        seen = await auditor.checkpoint()
        for line in seen.note.decode().rstrip("\n").split("\n"):
            console.print("   " + line, markup=False, soft_wrap=True)
        (out / "checkpoint").write_bytes(seen.note)
        console.print("   Two authorities stamp it, each by its own clock (RFC 3161):")
        await anchor(auditor, _line)
        wanted = sha256(booking.receipts[POSITION]).digest()
        bundle = await prove_anchored(auditor, wanted)
        (out / "bundle.json").write_bytes(bundle.encode())
        say(f"4. The auditor takes a proof of one receipt, position {POSITION} of booking-bot")
        size, steps = len(bundle.encode()), len(bundle.receipt.proof) + len(bundle.head.proof)
        console.print(
            f"   bundle.json: {size} bytes, {steps} hashes from the receipt to the checkpoint"
        )
    (out / "log.vkey").write_text(daemon.log_key + "\n")
    trust = Trust(
        (VerifierKey.parse(daemon.log_key),),
        {"booking-bot": (AGENTS[0].public_key,)},
        tsas=tuple(tsas),
        tsa_quorum=2,
        require=frozenset({"agent-key", "anchor"}),
    )
    (out / "trust.toml").write_text(format_trust(trust))

    say(
        "5. What is refused: other content at a taken position, and a receipt with some missing before it"
    )
    fork, gap = fork_of(AGENTS[0], booking.receipts), gap_after(AGENTS[0], booking.receipts)
    async for result in submit_receipts(daemon.grpc, [fork, gap]):
        _show_refusal(result.answer)

    say("6. What the operator sees at /metrics")
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=10) as page:
        text = page.read().decode()
    (out / "metrics.txt").write_text(text)
    for line in text.splitlines():
        if line.startswith(SHOWN_METRICS):
            console.print("   " + line, markup=False)


def _line(text: str) -> None:
    console.print("   " + text, markup=False, soft_wrap=True)


def _show_acks(results: list[Acks]) -> None:
    table = Table(box=None, padding=(0, 0, 0, 3), header_style="bold")
    for name in ("agent", "format", "receipts", "acked", "first ack", "all acked", "chain head"):
        table.add_column(name, justify="left" if name in ("agent", "format") else "right")
    for acks in results:
        table.add_row(
            acks.agent,
            acks.profile,
            str(len(acks.receipts)),
            str(acks.acked),
            f"{1e3 * acks.first_seconds:.0f} ms",
            f"{1e3 * acks.all_seconds:.0f} ms",
            sha256(acks.receipts[-1]).hexdigest()[:16] + "…",
        )
    console.print(table)


def _show_refusal(answer: Answer) -> None:
    reason = "nothing" if answer.reason is None else answer.reason.value
    console.print(f"   [bold red]{reason}[/]: ", end="")
    console.print(answer.detail, markup=False, soft_wrap=True)


def _verify_offline(out: Path) -> bool:
    """Acts 8 and 9: the command line, as an auditor would type it."""
    say("8. Offline, with the bundle and the auditor's own trust file:")
    bundle = out / "bundle.json"
    good = _verify(out, bundle)
    say("9. One byte of the receipt is changed, as a dishonest operator would")
    forged = out / "forged.json"
    text = bundle.read_text()
    tool = json.loads(json.loads(text)["receipt"]["raw"])["tool_name"]
    changed = text.replace(f'\\"tool_name\\":\\"{tool}', f'\\"tool_name\\":\\"{tool[:-1]}x', 1)
    forged.write_text(changed)
    caught = _verify(out, forged)
    forged.unlink()
    return good == 0 and caught == 1


def _verify(out: Path, bundle: Path) -> int:
    command = ["receiptledger", "verify", bundle.name, "--trust", "trust.toml"]
    console.print(f"   $ {' '.join(command)}", style="bold", markup=False)
    program = Path(sys.executable).parent / command[0]
    code = subprocess.run([program, *command[1:]], cwd=out).returncode
    console.print(f"   exit code {code}")
    return code


def _what_next(daemon: DemoDaemon, out: Path, servers: list[DemoAuthority | DemoDaemon]) -> None:
    say("The daemon goes on. Try:")
    commands = (
        ". .venv/bin/activate",
        f"export RECEIPTLEDGER_ADDRESS={daemon.grpc}",
        "receiptledger head booking-bot",
        f"export RECEIPTLEDGER_LOG_KEY=$(cat {out}/log.vkey)",
        "receiptledger prove --agent booking-bot --position 3 -o proof.json",
        f"receiptledger verify proof.json --trust {out}/trust.toml",
        "receiptledger watch --count 1",
        f"curl http://{daemon.http}/checkpoint http://{daemon.http}/metrics",
        f"receiptledger anchors list && receiptledger anchors verify --trust {out}/trust.toml",
        f"kill {' '.join(str(server.pid) for server in reversed(servers))}    # drains and stops all",
    )
    for command in commands:
        console.print(f"   {command}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
