"""What an operator does to the data folder of a stopped daemon: `ledgerd fsck`, `ledgerd refused`.

The logic is in `store/fsck` and `refused`; here are the folder, the key and guard files, and what is
printed.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ledgerd.guard import FileGuard
from ledgerd.refused import RefusedFileError, as_table, list_one, write_one
from ledgerd.store.fsck import GuardState, Report, check
from ledgerd.store.interface import StoreError
from ledgerd.store.rocks import RocksStore
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import LedgerError
from receiptledger.core.note import NoteSigner, VerifierKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from receiptledger.core.profile import Profiles

__all__ = ["MaintenanceError", "fsck", "refused"]

_GUARDS = {
    GuardState.NOT_CHECKED: "not checked: there is no guard file; if it is kept elsewhere, give --guard",
    GuardState.EQUAL: "equal to the log",
    GuardState.BEHIND: "behind the log, consistent with it; the next start advances it",
    GuardState.AHEAD: "ahead of the log: this database is an old copy",
    GuardState.BAD: "contradicts the log",
}


class MaintenanceError(Exception):
    """The folder cannot be used, or was named wrongly; the message says what to do."""


def fsck(
    folder: Path,
    *,
    log_key: str | None = None,
    guard: Path | None = None,
    profiles: Profiles | None = None,
    as_json: bool = False,
) -> int:
    """Check a data folder and print the report on standard output.

    Args:
        folder: the daemon's data folder: `db`, `guard`, `log.key`.
        log_key: the log's verification key; by default that of the folder's `log.key`.
        guard: the guard file; by default the folder's.
        profiles: receipt formats; the built-in ones by default.
        as_json: print the report as JSON.

    Returns:
        Exit code: 0 clean, 1 problems.

    Raises:
        MaintenanceError: it cannot be read, is in use, or the key is missing or of another log.
    """
    started = time.perf_counter()
    try:
        store = RocksStore.open(folder / "db", create=False)
    except StoreError as error:
        raise MaintenanceError(str(error)) from None
    try:
        verifier, note = _verifier(folder, log_key), _guard_note(folder, guard)
        with _progress(shown=not as_json) as progress:
            report = check(store, verifier, guard=note, profiles=profiles, progress=progress)
    except (StoreError, LedgerError) as error:
        raise MaintenanceError(f"{folder} cannot be checked: {error}") from None
    finally:
        store.close()
    seconds = round(time.perf_counter() - started, 3)
    if as_json:
        sys.stdout.write(json.dumps(report.as_dict() | {"seconds": seconds}, indent=2) + "\n")
    else:
        sys.stdout.write(_text(report, seconds))
    return 0 if report.clean else 1


def refused(folder: Path, *, out: Path | None = None, as_json: bool = False) -> None:
    """List the refused answers of timestamp authorities that were kept, on standard output.

    Args:
        folder: the daemon's data folder.
        out: where their bytes are written, or None.
        as_json: print them as JSON.

    Raises:
        MaintenanceError: the folder cannot be read or is in use, or a file cannot be written.
    """
    try:
        store = RocksStore.open(folder / "db", create=False)
    except StoreError as error:
        raise MaintenanceError(str(error)) from None
    try:
        rows = [list_one(item) for item in store.quarantined()]
        if out is not None:
            for row, item in zip(rows, store.quarantined(), strict=True):
                row.files = write_one(out, item, store.checkpoint(item.size))
    except (StoreError, RefusedFileError) as error:
        raise MaintenanceError(str(error)) from None
    finally:
        store.close()
    text = json.dumps([asdict(row) for row in rows], indent=2) if as_json else as_table(rows)
    sys.stdout.write(f"{text}\n")


def _verifier(folder: Path, log_key: str | None) -> VerifierKey:
    path = folder / "log.key"
    try:
        if log_key is not None:
            return VerifierKey.parse(log_key)
        return NoteSigner.parse(path.read_text("ascii").strip()).verifier
    except LedgerError as error:
        where = path if log_key is None else "--log-key"
        raise MaintenanceError(f"{where} holds no key of a log: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise MaintenanceError(
            f"cannot read the log's key {path}: {error}. Give the verification key that `ledgerd "
            "keygen` printed, or the daemon's log line `ready` shows, as --log-key"
        ) from None


def _guard_note(folder: Path, guard: Path | None) -> bytes | None:
    path = folder / "guard" if guard is None else guard
    try:
        note = FileGuard(path).read()
    except OSError as error:
        raise MaintenanceError(f"cannot read the guard {path}: {error.strerror}") from None
    if note is None and guard is not None:
        raise MaintenanceError(f"there is no guard file {path}")
    return note


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error when that is a terminal, else nothing."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda done, total: None
        return
    columns = (
        TextColumn("checking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("receipts and leaves"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("check", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _text(report: Report, seconds: float) -> str:
    checked = report.checked
    root = "none" if report.root is None else digest_text(report.root)
    receipts = f"{checked['receipts']} of {checked['chains']} chains"
    records = ", ".join(
        f"{checked[kind]} {kind}"
        for kind in ("segments", "leaves", "tiles", "checkpoints", "keys", "forks", "marks")
    )
    anchors = ", ".join(
        f"{checked[kind]} {name}"
        for kind, name in (
            ("anchors", "anchors"),
            ("blobs", "parts of evidence"),
            ("intents", "intents"),
            ("quarantined", "refused answers"),
        )
    )
    lines = [
        f"log         {report.log}",
        f"tree        {report.tree_size} leaves, root {root}",
        f"guard       {_GUARDS[report.guard]}",
        f"receipts    {receipts}, {checked['unsealed_receipts']} not sealed yet",
        f"records     {records}",
        f"timestamps  {anchors}",
        f"time        {seconds:.1f} s",
    ]
    if report.clean:
        lines.append(
            "\nClean: every receipt, signature, link, leaf, tile and checkpoint holds. (That says "
            "nothing about what\nwas never recorded, nor about whether the log was shown to others as "
            "it is here.)"
        )
        return "\n".join(lines) + "\n"
    total = report.problems_total
    cut = "" if total == len(report.problems) else f"; the first {len(report.problems)}"
    lines.append(f"\n{total} problem{'s' if total > 1 else ''}{cut}:")
    lines += [f"  {problem}" for problem in report.problems]
    lines.append("\nNothing was changed. Restore the newest backup that is clean.")
    return "\n".join(lines) + "\n"
