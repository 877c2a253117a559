"""Sub-commands for receipts by themselves, without a ledger: `receipt verify` and `receipt inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from receiptledger.cli.options import AsJson, read_file
from receiptledger.cli.output import CliError, Output
from receiptledger.cli.receipt_options import (
    Keys,
    KidKeys,
    ProfileFolder,
    ProfileId,
    given_keys,
    open_profiles,
)
from receiptledger.cli.show import STATUS_STYLES
from receiptledger.core.answerproof import read_sources
from receiptledger.core.answerproof_sources import MAX_SOURCES_BYTES
from receiptledger.core.errors import ReceiptError
from receiptledger.core.receipt_check import Outcome
from receiptledger.core.verdict import ExitCode
from receiptledger.receipt_describe import describe_receipt
from receiptledger.receipt_evidence import (
    Document,
    check_documents,
    pair_up,
    report_beside,
    report_finding,
    report_pairing,
)
from receiptledger.receipt_files import is_object, receipts_of

if TYPE_CHECKING:
    from receiptledger.core.receipt_check import ReceiptFinding
    from receiptledger.core.verdict import Check
    from receiptledger.receipt_evidence import Evidence

__all__ = ["receipt"]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_RECEIPTS = 100_000
NOT_VERIFIED = (
    "Nothing here was verified: this is only what the file says. "
    "Use `receiptledger receipt verify`."
)
NOT_PROVEN = (
    "This shows who signed what, unchanged, and whether the receipts given fit together. It does not "
    "show when, that these are all receipts, or that the action was right: a ledger's bundle shows the "
    "first two."
)
_EXIT = {
    Outcome.VALID: ExitCode.VALID,
    Outcome.INVALID: ExitCode.INVALID,
    Outcome.UNDECIDABLE: ExitCode.BELOW_POLICY,
}
_STYLES = {
    Outcome.VALID: "green",
    Outcome.INVALID: "bold red",
    Outcome.UNDECIDABLE: "yellow",
}

receipt = typer.Typer(
    name="receipt",
    help="Verify or show receipts by themselves, without a ledger.",
    no_args_is_help=True,
)


@receipt.command("verify")
def verify(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Receipts as JSON, an array of them, or JSON Lines; - for stdin. Several are one "
            "chain in order.",
        ),
    ],
    key: Keys = None,
    kid_key: KidKeys = None,
    profile: ProfileId = None,
    profiles: ProfileFolder = None,
    sources: Annotated[
        Path | None,
        typer.Option(
            "--sources",
            metavar="FILE",
            help="Contents of the sources of answerproof receipts, a JSON object by source id.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check receipts offline. Exit 0 valid, 1 invalid, 2 misused or unreadable, 3 undecidable."""
    formats = open_profiles(profiles)
    keys = given_keys(key, kid_key)
    if profile is not None and profile not in formats.ids():
        raise CliError(f"--profile expects one of {', '.join(formats.ids())}, got {profile[:80]!r}")
    if sources is not None and str(sources) == "-" and Path("-") in files:
        raise CliError("- is the standard input, which is read once: not for FILE and --sources")
    documents = _documents(files)
    finding = check_documents(documents, keys, formats, profile, _sources(sources))
    pairing = pair_up(finding.findings)
    output = Output(as_json)
    if as_json:
        output.document(
            {
                "result": finding.outcome.value,
                "reason": None if finding.reason is None else finding.reason.value,
                "exit_code": int(_EXIT[finding.outcome]),
                "receipts": [report_finding(one) for one in finding.findings],
                "beside": [report_beside(one) for one in finding.beside],
                "pairing": report_pairing(pairing, finding.findings),
                "notes": finding.notes,
                "not_proven": NOT_PROVEN,
            }
        )
    else:
        _show(output, finding)
        _show_pairs(output, report_pairing(pairing, finding.findings))
        _show_result(output, finding)
    raise typer.Exit(_EXIT[finding.outcome])


@receipt.command("inspect")
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Receipts, - for stdin.")],
    profiles: ProfileFolder = None,
    as_json: AsJson = False,
) -> None:
    """Show what receipts say under the formats found, without verifying any of it."""
    formats = open_profiles(profiles)
    described = [
        {"name": one.name, "verified": False, **describe_receipt(one.raw, formats)}
        for one in _documents([file])
    ]
    output = Output(as_json)
    if as_json:
        output.document(described)
        return
    for value in described:
        output.tree(value)
        output.text()
    output.text(NOT_VERIFIED, "yellow")


def _documents(files: list[Path]) -> list[Document]:
    """What the files hold, in order.

    Raises:
        CliError: one cannot be read, or there is too much.
    """
    if [str(path) for path in files].count("-") > 1:
        raise CliError("- is the standard input, which is read once")
    documents: list[Document] = []
    for path in files:
        data = read_file(path, MAX_FILE_BYTES, "file of receipts")
        items = receipts_of(data)
        if not any(is_object(item.raw) for item in items):
            raise CliError(f"{path} holds no receipt: neither JSON objects nor an array of them")
        several = len(items) > 1
        documents += [
            Document(f"{path}:{item.line}" if several else str(path), item.raw) for item in items
        ]
        if len(documents) > MAX_RECEIPTS:
            raise CliError(f"more than {MAX_RECEIPTS} receipts: give them in parts")
    return documents


def _sources(path: Path | None) -> dict[str, str] | None:
    if path is None:
        return None
    try:
        return read_sources(read_file(path, MAX_SOURCES_BYTES, "file of sources"))
    except ReceiptError as error:
        raise CliError(f"--sources {path}: {error}") from None


def _show(output: Output, finding: Evidence) -> None:
    for one in finding.findings:
        _show_one(output, one)
    for beside in finding.beside:
        output.text(beside.name, "bold")
        for check in beside.checks:
            _show_check(output, check)


def _show_result(output: Output, finding: Evidence) -> None:
    for note in finding.notes:
        output.text(note, "dim")
    reason = "" if finding.reason is None else f" ({finding.reason})"
    output.text(f"result: {finding.outcome}{reason}", _STYLES[finding.outcome])
    output.text(NOT_PROVEN)


def _show_one(output: Output, finding: ReceiptFinding) -> None:
    words = (
        finding.outcome.value if finding.reason is None else f"{finding.outcome}: {finding.reason}"
    )
    output.styled([(words, _STYLES[finding.outcome]), (f"  {finding.name}", "bold")])
    read = finding.receipt
    rows: dict[str, Any] = {}
    if read is not None:
        stream = f" / {read.stream}" if read.stream else ""
        number = "" if read.sequence is None else f", sequence {read.sequence}"
        rows["receipt"] = (
            f"{read.profile} version {read.profile_version}, {read.agent}{stream}{number}"
        )
        rows["claimed time"] = read.time
        rows["not signed"] = ", ".join(read.unsigned) or "nothing but the signature itself"
    rows["detail"] = finding.detail
    if finding.diagnosis is not None:
        rows["diagnosis"] = finding.diagnosis
    rows |= {f"note {number}": note for number, note in enumerate(finding.notes, 1)}
    output.tree(rows, "  ")
    for check in finding.checks:
        _show_check(output, check)


def _show_check(output: Output, check: Check) -> None:
    status = check.status
    output.styled(
        [(f"  {status.value:<12}", STATUS_STYLES[status]), (f"{check.name:<16}{check.detail}", "")]
    )


def _show_pairs(output: Output, report: dict[str, Any]) -> None:
    for one in report["pairs"]:
        output.text(f"pair: {one['intent']} and its outcome {one['outcome']}")
    for one in report["unpaired_intents"]:
        output.text(f"intent without an outcome: {one['intent']}", "yellow")
    for one in report["findings"]:
        output.text(f"{one['fault']}: {one['receipt']}: {one['detail']}", "yellow")
    if report["findings_not_listed"]:
        output.text(f"and {report['findings_not_listed']} more faults of pairs", "yellow")
