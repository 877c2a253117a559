"""The sub-command `verify`: a bundle against the auditor's own keys, authorities and demands, offline."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from receiptledger.cli.openssl import extract, openssl_lines
from receiptledger.cli.options import (
    AgentKeys,
    AsJson,
    At,
    LogKeys,
    TrustFile,
    TsaRoots,
    build_trust,
    moment_of,
    one_stdin,
    read_file,
)
from receiptledger.cli.output import CliError, Output, complain
from receiptledger.cli.show import show_verdict
from receiptledger.core.bundle import MAX_BUNDLE_BYTES
from receiptledger.core.checkpoint import Checkpoint, open_checkpoint
from receiptledger.core.errors import EvidenceError
from receiptledger.core.instants import format_instant
from receiptledger.core.note import MAX_NOTE_BYTES
from receiptledger.core.verify import verify_bundle

if TYPE_CHECKING:
    from datetime import datetime

    from receiptledger.core.trust import Trust
    from receiptledger.core.verdict import Verdict

__all__ = ["verify"]


def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle file, - for stdin.")],
    log_key: LogKeys = None,
    trust: TrustFile = None,
    agent_key: AgentKeys = None,
    tsa_root: TsaRoots = None,
    remembered: Annotated[
        Path | None,
        typer.Option(
            "--remembered",
            metavar="FILE",
            help="Checkpoint verified earlier; the bundle must extend it.",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require", help="Demand more than validity; exit 3 when it is not shown. Repeatable."
        ),
    ] = None,
    at: At = None,
    extract_anchors: Annotated[
        Path | None,
        typer.Option(
            "--extract-anchors",
            metavar="DIR",
            help="Write the timestamps' files there, to check them with OpenSSL alone.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a bundle offline. Exit 0 valid, 1 invalid, 2 unreadable, 3 valid but below the demands."""
    one_stdin({"BUNDLE": bundle, "--remembered": remembered})
    moment = moment_of(at)
    believed = replace(build_trust(log_key, trust, agent_key, require, tsa_root), moment=moment)
    if remembered is not None:
        believed = replace(believed, remembered=_checkpoint(remembered, believed))
    verdict = verify_bundle(read_file(bundle, MAX_BUNDLE_BYTES, "bundle"), believed)
    if extract_anchors is not None and not extract(verdict.anchoring, extract_anchors):
        complain("nothing to extract: the bundle has no timestamp by an authority you named")
    output = Output(as_json)
    if as_json:
        output.raw(verdict.to_json().encode() + b"\n")
    else:
        show_verdict(output, verdict)
        _show_openssl(output, verdict, extract_anchors, moment)
    raise typer.Exit(verdict.exit_code)


def _show_openssl(output: Output, verdict: Verdict, folder: Path | None, moment: datetime) -> None:
    lines = openssl_lines(verdict.anchoring)
    if not lines:
        return
    output.text()
    output.text(f"timestamps judged as of {format_instant(moment)}; to check them without us:")
    if folder is None:
        output.text("(in a folder DIR written with --extract-anchors DIR)")
    else:
        output.text(f"  cd {shlex.quote(str(folder))}")
    for line in lines:
        output.text(f"  {line}")


def _checkpoint(path: Path, trust: Trust) -> Checkpoint:
    """A checkpoint from the auditor's own files; a bad one is misuse, not bad evidence."""
    note = read_file(path, MAX_NOTE_BYTES, "checkpoint")
    failure: EvidenceError | None = None
    for key in trust.log_keys:
        try:
            return open_checkpoint(note, key)
        except EvidenceError as error:
            failure = error
    raise CliError(f"{path} is no checkpoint of a log you trust: {failure}")
