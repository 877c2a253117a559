"""Sub-command `anchors verify`: the log's timestamps against the auditor's own authorities.

A log may have very many. Each is fetched, judged and forgotten but for a few hundred bytes: what to print,
and what decides whether later ones renew it. That has to wait for the last of them, and so has whether a
key turns out to be compromised.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

import typer

from receiptledger.cli.options import (
    LEDGER_DEFAULT,
    AsJson,
    At,
    Ledger,
    LogKeys,
    State,
    TrustFile,
    TsaRoots,
    build_trust,
    moment_of,
    one_log_key,
)
from receiptledger.cli.output import CliError, Output
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.instants import format_instant
from receiptledger.core.verdict import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from receiptledger.core.anchor_bounds import Life
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
    and not renewed, or from the future, or when none is of your authorities.
    """
    believed = build_trust(log_key, trust, None, None, tsa_root)
    if not believed.tsas:
        raise CliError(
            "no timestamp authority to verify by: give --tsa-root NAME=FILE, or name the roots you "
            "trust as [[tsa]] in the trust file"
        )
    moment = moment_of(at)
    with _progress() as progress:
        found = asyncio.run(_verify(ledger, believed, state, number, progress))
    found.decide(believed.tsa_quorum, moment)
    raise typer.Exit(_report(Output(as_json), found.rows))


@dataclass(slots=True)
class _Row:
    """What is kept of one timestamp."""

    number: int
    logged_as: str
    tree_size: int
    outcome: str
    detail: str | None = None
    tsa: str | None = None
    revocation: str | None = None
    life: Life | None = None  # of an accepted one
    path: tuple[bytes, ...] = ()  # of an accepted one: SHA-256 of its certificates


class _Found:
    """The timestamps so far."""

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self._compromised: set[bytes] = set()  # certificates, SHA-256
        self._paths: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}

    def failed(self, anchor: Anchor, error: EvidenceError) -> None:
        """The ledger's evidence for one does not hold."""
        self._add(anchor, "bad", str(error))

    def judged(self, anchor: Anchor, stamp: Stamp | None) -> None:
        """One that was judged, or that is not logged yet."""
        from receiptledger.core.anchor_bounds import life_of

        if stamp is None:
            words = "its leaf is under no checkpoint yet; try again after the next seal"
            self._add(anchor, "not logged yet", words)
            return
        row = self._add(
            anchor, stamp.outcome.value, None if stamp.error is None else str(stamp.error)
        )
        self._compromised.update(sha256(one).digest() for one in stamp.compromised)
        if stamp.tsa is not None and stamp.timestamp is not None:
            row.tsa, row.revocation = stamp.tsa.name, stamp.timestamp.revocation
            row.life, row.path = life_of(stamp), self._path(stamp.timestamp.path)

    def decide(self, quorum: int, moment: datetime) -> None:
        """What has become of each by a moment: later ones that hold renew earlier ones."""
        from receiptledger.core.anchor_bounds import outcomes
        from receiptledger.core.anchor_stamps import Outcome

        for row in self.rows:
            if not self._compromised.isdisjoint(row.path):
                row.outcome, row.life = Outcome.VOID.value, None
                row.detail = "its certificate is shown to be compromised beside another timestamp"
        found = outcomes([row.life for row in self.rows], quorum, moment)
        for row, outcome in zip(self.rows, found, strict=True):
            if outcome is not None:
                row.outcome = outcome.value

    def _add(self, anchor: Anchor, outcome: str, detail: str | None) -> _Row:
        row = _Row(anchor.number, anchor.tsa, anchor.tree_size, outcome, detail)
        self.rows.append(row)
        return row

    def _path(self, path: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The same few paths again and again: each kept once."""
        digests = tuple(sha256(one).digest() for one in path)
        return self._paths.setdefault(digests, digests)


async def _verify(
    ledger: str,
    believed: Trust,
    state: Path | None,
    number: int | None,
    progress: Callable[[int, int], None],
) -> _Found:
    """Fetch and judge one timestamp, or all of them under one checkpoint."""
    from receiptledger.auditor import AsyncAuditor

    found = _Found()
    key = one_log_key(believed)
    async with AsyncAuditor(ledger, key, state, tsas=believed.tsas) as auditor:
        if number is not None:
            checked = await auditor.anchor(number)
            found.judged(checked.proof.anchor, checked.stamp)
            return found
        # Counted first: the checkpoint has to be newer than every one of them.
        count = 0
        async for _ in auditor.anchors():
            count += 1
        size = (await auditor.checkpoint()).checkpoint.size
        async with aclosing(auditor.anchors()) as listed:
            async for anchor in listed:
                if anchor.number >= count:
                    break
                try:
                    checked = await auditor.anchor(anchor.number, tree_size=size)
                    found.judged(checked.proof.anchor, checked.stamp)
                except EvidenceError as error:
                    found.failed(anchor, error)
                progress(anchor.number + 1, count)
        if len(found.rows) < count:
            raise EvidenceError(
                Reason.NOT_FOUND,
                "the ledger shows fewer timestamps than a moment ago",
                want=str(count),
                got=str(len(found.rows)),
            )
    return found


def _report(output: Output, rows: list[_Row]) -> ExitCode:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.outcome] += 1
        time = None if row.life is None else format_instant(row.life.gen_time)
        if output.as_json:
            output.line(
                {
                    "number": row.number,
                    "outcome": row.outcome,
                    "tsa": row.tsa,
                    "logged_as": row.logged_as,
                    "tree_size": row.tree_size,
                    "gen_time": time,
                    "revocation": row.revocation,
                    "detail": row.detail,
                }
            )
            continue
        words = f"{row.tsa or row.logged_as}, {row.tree_size} leaves"
        words += f", {time}, revocation {row.revocation}" if time else ""
        words += f": {row.detail}" if row.detail else ""
        style = _STYLES.get(row.outcome, "yellow")
        output.styled([(f"{row.number:>6}  ", ""), (f"{row.outcome:<21}", style), (words, "")])
    code = _exit_code(counts)
    if output.as_json:
        output.line({"summary": dict(sorted(counts.items())), "exit_code": int(code)})
    else:
        text = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        output.text(text or "the ledger shows no timestamps", "" if code else "green")
    return code


def _exit_code(counts: Counter[str]) -> ExitCode:
    if counts["bad"]:
        return ExitCode.INVALID
    good = counts["holds"] + counts["renewed"]
    doubtful = ("revoked", "expired, not renewed", "from the future")
    below = not good or any(counts[name] for name in doubtful)
    return ExitCode.BELOW_POLICY if below else ExitCode.VALID


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
