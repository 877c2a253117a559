"""Sub-commands of the auditor's side: prove, inspect, watch."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from receiptledger.cli.options import (
    LEDGER_DEFAULT,
    AgentKeys,
    AsJson,
    Ledger,
    LogKeys,
    State,
    TrustFile,
    TsaRoots,
    build_trust,
    one_log_key,
    parse_hash,
    read_file,
)
from receiptledger.cli.output import CliError, Output
from receiptledger.cli.show import NOT_VERIFIED, describe, show_facts
from receiptledger.core.bundle import MAX_BUNDLE_BYTES
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError
from receiptledger.core.note import MAX_NOTE_BYTES
from receiptledger.core.verify import verify_bundle
from receiptledger.history import SplitViewError
from receiptledger.remembered import replace_file

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, TypeVar

    from receiptledger.core.bundle import Bundle
    from receiptledger.core.trust import Trust

    T = TypeVar("T")

__all__ = ["inspect", "prove", "watch"]


def prove(
    receipt_hash: Annotated[
        str | None, typer.Option("--hash", metavar="HASH", help="SHA-256 of the receipt's bytes.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Agent id, with --position.")] = None,
    stream: Annotated[str, typer.Option("--stream", help="Which of the agent's streams.")] = "",
    position: Annotated[
        int | None, typer.Option("--position", min=0, help="Place in the agent's chain, from 0.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Bundle file to write; else it is printed."
        ),
    ] = None,
    log_key: LogKeys = None,
    trust: TrustFile = None,
    agent_key: AgentKeys = None,
    tsa_root: TsaRoots = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            metavar="FILE",
            help="Checkpoint verified earlier; the bundle will show that the log only grew.",
        ),
    ] = None,
    state: State = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for a seal that covers it.")
    ] = 5.0,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Fetch the evidence for one receipt, verify it, and write it as one file."""
    if (receipt_hash is None) == (agent is None) or (agent is None) != (position is None):
        raise CliError("select one receipt: --hash HASH, or --agent AGENT and --position NUMBER")
    believed = build_trust(log_key, trust, agent_key, None, tsa_root)
    key = one_log_key(believed)
    note = None if since is None else read_file(since, MAX_NOTE_BYTES, "checkpoint")
    digest = None if receipt_hash is None else parse_hash(receipt_hash)

    async def ask() -> Bundle:
        from receiptledger.auditor import AsyncAuditor

        async with AsyncAuditor(
            ledger,
            key,
            state,
            agent_keys=believed.agent_keys,
            tsas=believed.tsas,
            tsa_quorum=believed.tsa_quorum,
        ) as auditor:
            return await auditor.prove(
                receipt_hash=digest,
                agent=agent,
                stream=stream,
                position=position,
                since=None if note is None else (await auditor.observe(note)).checkpoint,
                seal_wait_s=wait,
            )

    data = _run(ask()).encode()
    if out is None:
        Output(as_json).raw(data)
    else:
        _keep(data, out, believed, Output(as_json))


def _keep(data: bytes, out: Path, believed: Trust, output: Output) -> None:
    """Write a bundle, and say what it shows."""
    try:
        replace_file(out, data)
    except OSError as error:
        raise CliError(f"cannot write {out}: {error.strerror}") from None
    verdict = verify_bundle(data, replace(believed, moment=datetime.now(UTC)))
    if output.as_json:
        output.document({"file": str(out), "bytes": len(data), **verdict.to_dict()})
        return
    show_facts(output, verdict)
    output.text(f"written to {out}; verify it anywhere with `receiptledger verify {out}`")


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Bundle, receipt, checkpoint or log leaf; - for stdin."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show what a file says, without verifying any of it."""
    value = describe(read_file(file, MAX_BUNDLE_BYTES, "file"), str(file))
    output = Output(as_json)
    if as_json:
        output.document(value)
        return
    output.tree(value)
    output.text()
    output.text(NOT_VERIFIED, "yellow")


def watch(
    log_key: LogKeys = None,
    trust: TrustFile = None,
    state: State = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after so many checkpoints.")
    ] = None,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Follow the log's checkpoints and verify that each extends the one before."""
    key = one_log_key(build_trust(log_key, trust, None))
    output = Output(as_json)

    async def follow() -> None:
        from receiptledger.auditor import AsyncAuditor

        left = count
        async with (
            AsyncAuditor(ledger, key, state) as auditor,
            aclosing(auditor.watch()) as checkpoints,
        ):
            async for seen in checkpoints:
                checkpoint, note = seen.checkpoint, seen.note
                root = digest_text(checkpoint.root)
                if as_json:
                    output.line(
                        {
                            "log": checkpoint.origin,
                            "tree_size": checkpoint.size,
                            "root": root,
                            "checkpoint": note.decode("utf-8"),
                        }
                    )
                else:
                    output.text(f"{checkpoint.origin}  {checkpoint.size} leaves  {root}")
                left = None if left is None else left - 1
                if left == 0:
                    return

    _run(follow())


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run, and say where the proof of a split log is kept."""
    try:
        return asyncio.run(work)
    except SplitViewError as split:
        where = " and ".join(str(path) for path in split.kept)
        advice = (
            f"both notes are kept in {where}" if where else "run with --state to keep both notes"
        )
        raise EvidenceError(
            split.reason, f"{split.message}; {advice}", want=split.want, got=split.got
        ) from None
