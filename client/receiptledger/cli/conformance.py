"""The sub-command `conformance`: receipts with known results, and whether they come out so."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from receiptledger.cli.options import AsJson  # noqa: TC001 - typer reads the annotations
from receiptledger.cli.output import CliError, Output
from receiptledger.cli.receipt_options import ProfileFolder, open_profiles
from receiptledger.conformance import RowResult, run_row
from receiptledger.conformance_manifest import ManifestError, read_manifest
from receiptledger.core.receipt_check import Outcome
from receiptledger.core.verdict import ExitCode, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["conformance"]

MAX_NAME_WIDTH = 56  # characters; longer names push their line, no other
_STYLES = {Outcome.VALID: "green", Outcome.INVALID: "red", Outcome.UNDECIDABLE: "yellow"}


def conformance(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with manifest.json and the receipts.")
    ],
    profiles: ProfileFolder = None,
    as_json: AsJson = False,
) -> None:
    """Replay receipts with known results. Exit 0 all as expected, 1 some not, 2 a broken manifest.

    DIR/manifest.json is a list of rows {"name", "files", "keys", "profile"?, "expect", "reason"?}.

    Files are in DIR and hold receipts as JSON, an array of them, or JSON Lines; several are one chain.

    Keys are {"kid"?, "alg", "public"}, in hex or base64url; expect is valid, invalid or undecidable.
    """
    formats = open_profiles(profiles)
    results: list[RowResult] = []
    try:
        rows = read_manifest(folder)
        with _progress(len(rows), shown=not as_json) as advance:
            for row in rows:
                results.append(run_row(row, formats))
                advance()
    except ManifestError as error:
        raise CliError(str(error)) from None
    output = Output(as_json)
    good = all(result.as_expected for result in results)
    if as_json:
        output.document(
            {
                "result": "as expected" if good else "not as expected",
                "as_expected": sum(result.as_expected for result in results),
                "rows": [result.to_dict() for result in results],
            }
        )
    else:
        _show(output, results)
    raise typer.Exit(ExitCode.VALID if good else ExitCode.INVALID)


def _show(output: Output, results: Sequence[RowResult]) -> None:
    """One line a row; what is not as expected is told in full."""
    width = min(MAX_NAME_WIDTH, max(len(result.row.name) for result in results))
    width = max(width, len("row"))
    output.text(f"{'':<4}  {'row':<{width}}  {'expected':<36}  {'came out':<36}  format", "bold")
    for result in results:
        mark, style = ("ok", "green") if result.as_expected else ("NOT", "bold red")
        row = result.row
        expected = _words(row.expect, row.reason)
        came = _words(result.outcome, result.reason)
        output.styled(
            [
                (f"{mark:<4}", style),
                (f"  {row.name:<{width}}  {expected:<36}  ", ""),
                (f"{came:<36}", _STYLES[result.outcome]),
                (f"  {', '.join(result.formats()) or '-'}", "dim"),
            ]
        )
        if not result.as_expected:
            _explain(output, result)
    counts = Counter(result.as_expected for result in results)
    text = f"{counts[True]} of {len(results)} rows came out as expected"
    output.text(text, "bold red" if counts[False] else "bold green")


def _explain(output: Output, result: RowResult) -> None:
    for finding in result.finding.findings:
        if finding.outcome is result.outcome:
            output.text(f"      {finding.name}: {finding.detail}")
            if finding.diagnosis is not None:
                output.text(f"      {finding.name}: {finding.diagnosis}", "yellow")
            break  # the first is the row's reason
    for beside in result.finding.beside:
        for check in beside.checks:
            if check.status is Status.FAIL:
                output.text(f"      {beside.name}: {check.name}: {check.detail}")
    for note in result.finding.notes:
        output.text(f"      {note}", "dim")


def _words(outcome: Outcome, reason: object) -> str:
    return outcome.value if reason is None else f"{outcome.value}: {reason}"


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """A bar on the error stream while rows are checked; only on a terminal."""
    if not shown or not os.isatty(2):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
