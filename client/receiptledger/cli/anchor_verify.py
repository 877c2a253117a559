"""Sub-command `anchors verify`: the log's timestamps against the auditor's own authorities."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from receiptledger.cli.options import (
    LEDGER_DEFAULT,
    AsJson,
    Ledger,
    LogKeys,
    State,
    TrustFile,
    TsaRoots,
    build_trust,
    one_log_key,
)
from receiptledger.cli.output import CliError, Output
from receiptledger.core.errors import EvidenceError
from receiptledger.core.instants import format_instant, parse_instant
from receiptledger.core.verdict import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from receiptledger.anchor_check import CheckedAnchor
    from receiptledger.core.anchor_stamps import Stamp
    from receiptledger.core.trust import Trust
    from receiptledger.wire import Anchor

__all__ = ["verify_anchors"]

_STYLES = {
    "holds": "green",
    "renewed": "green",
    "bad": "bold red",
    "revoked": "bold red",
}

At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="When they must still hold, RFC 3339; now by default."
    ),
]


def verify_anchors(
    number: Annotated[
        int | None,
        typer.Argument(metavar="[NUMBER]", min=0, help="One timestamp; all of them by default."),
    ] = None,
    log_key: LogKeys = None,
    trust: TrustFile = None,
    tsa_root: TsaRoots = None,
    at: At = None,
    state: State = None,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Verify the log's timestamps against your own authorities.

    Exit 0 when all hold that are of your authorities, 1 when one is bad, 3 when one is revoked, expired
    and not renewed, or when none is of your authorities.
    """
    believed = build_trust(log_key, trust, None, None, tsa_root)
    if not believed.tsas:
        raise CliError(
            "no timestamp authority to verify by: give --tsa-root NAME=FILE, or name the roots you "
            "trust as [[tsa]] in the trust file"
        )
    moment = _moment(at)
    with _progress() as progress:
        found = asyncio.run(_verify(ledger, believed, state, number, progress))
    raise typer.Exit(_report(Output(as_json), _judged(found, believed, moment)))


@dataclass(slots=True)
class _Found:
    """One timestamp and how it came out so far."""

    anchor: Anchor
    stamp: Stamp | None  # None: not logged yet, or the ledger's evidence for it fails
    error: EvidenceError | None = None


async def _verify(
    ledger: str,
    believed: Trust,
    state: Path | None,
    number: int | None,
    progress: Callable[[int, int], None],
) -> list[_Found]:
    """Fetch and judge one timestamp, or all of them under one checkpoint."""
    from receiptledger.auditor import AsyncAuditor

    found: list[_Found] = []
    kept: dict[bytes, bytes] = {}
    key = one_log_key(believed)
    async with AsyncAuditor(ledger, key, state, tsas=believed.tsas) as auditor:
        if number is not None:
            checked = await auditor.anchor(number)
            return [_Found(checked.proof.anchor, _slim(checked, kept))]
        listed = [anchor async for anchor in auditor.anchors()]
        size = (await auditor.checkpoint()).checkpoint.size
        for anchor in listed:
            try:
                checked = await auditor.anchor(anchor.number, tree_size=size)
                found.append(_Found(checked.proof.anchor, _slim(checked, kept)))
            except EvidenceError as error:
                found.append(_Found(anchor, None, error))
            progress(len(found), len(listed))
    return found


def _slim(checked: CheckedAnchor, kept: dict[bytes, bytes]) -> Stamp | None:
    """Without the bytes that are verified, each certificate once: a list may be long."""
    stamp = checked.stamp
    if stamp is None:
        return None
    timestamp = stamp.timestamp
    if timestamp is not None:
        path = tuple(kept.setdefault(certificate, certificate) for certificate in timestamp.path)
        timestamp = replace(timestamp, path=path)
    return replace(stamp, note=b"", request=b"", response=b"", timestamp=timestamp)


def _judged(found: list[_Found], believed: Trust, moment: datetime) -> list[_Found]:
    """With what has become of each by a moment: later ones that hold renew earlier ones."""
    from receiptledger.core.anchor_bounds import renewed

    stamps = [one.stamp for one in found if one.stamp is not None]
    outcomes = iter(renewed(stamps, believed.tsa_quorum, moment))
    return [one if one.stamp is None else replace(one, stamp=next(outcomes)) for one in found]


def _report(output: Output, found: list[_Found]) -> ExitCode:
    counts: Counter[str] = Counter()
    for one in found:
        outcome, detail = _outcome(one)
        counts[outcome] += 1
        timestamp = None if one.stamp is None else one.stamp.timestamp
        tsa = None if one.stamp is None or one.stamp.tsa is None else one.stamp.tsa.name
        if output.as_json:
            output.line(
                {
                    "number": one.anchor.number,
                    "outcome": outcome,
                    "tsa": tsa,
                    "logged_as": one.anchor.tsa,
                    "tree_size": one.anchor.tree_size,
                    "gen_time": None if timestamp is None else format_instant(timestamp.gen_time),
                    "revocation": None if timestamp is None else timestamp.revocation,
                    "detail": detail or None,
                }
            )
            continue
        words = f"{tsa or one.anchor.tsa}, {one.anchor.tree_size} leaves"
        if timestamp is not None:
            words += f", {format_instant(timestamp.gen_time)}, revocation {timestamp.revocation}"
        words += f": {detail}" if detail else ""
        style = _STYLES.get(outcome, "yellow")
        output.styled([(f"{one.anchor.number:>6}  ", ""), (f"{outcome:<21}", style), (words, "")])
    code = _exit_code(counts)
    if output.as_json:
        output.line({"summary": dict(sorted(counts.items())), "exit_code": int(code)})
    else:
        text = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        output.text(text or "the ledger shows no timestamps", "" if code else "green")
    return code


def _outcome(one: _Found) -> tuple[str, str]:
    if one.error is not None:
        return "bad", str(one.error)
    if one.stamp is None:
        return (
            "not logged yet",
            "its leaf is under no checkpoint yet; try again after the next seal",
        )
    return one.stamp.outcome.value, "" if one.stamp.error is None else str(one.stamp.error)


def _exit_code(counts: Counter[str]) -> ExitCode:
    if counts["bad"]:
        return ExitCode.INVALID
    good = counts["holds"] + counts["renewed"]
    below = counts["revoked"] or counts["expired, not renewed"] or not good
    return ExitCode.BELOW_POLICY if below else ExitCode.VALID


def _moment(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        return parse_instant(text)
    except ValueError as error:
        raise CliError(f"--at {text!r} is no time: {error}") from None


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on the error stream while timestamps are verified; only on a terminal."""
    if not os.isatty(2):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
