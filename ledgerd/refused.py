"""Answers of timestamp authorities that were refused and kept as evidence: shown, and written as files.

Each is three files, named after its number, its TSA and its cause:

    .tsq    the request as it was sent (TimeStampReq, DER)
    .tsr    the answer as it came, whatever it is
    .note   the signed checkpoint that was to be stamped

With these anybody can look for themselves: `openssl ts -reply -in FILE.tsr -text`, or `receiptledger
timestamp inspect FILE.tsr`. The bytes come from a stranger and are judged by nobody here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ledgerd.store.interface import Quarantined

__all__ = ["RefusedAnswer", "RefusedFileError", "as_table", "list_one", "write_one"]


class RefusedFileError(Exception):
    """A file cannot be written; the message says which, and why."""


@dataclass(slots=True)
class RefusedAnswer:
    """One answer, without its bytes.

    Attributes:
        number: 0, 1, 2 ... in the order they came.
        tsa: name of the authority in the configuration.
        size: leaves of the checkpoint it was asked about.
        cause: why it was refused.
        refused_at: RFC 3339, UTC, by the ledger's clock.
        bytes: of the answer.
        files: where it was written.
    """

    number: int
    tsa: str
    size: int
    cause: str
    refused_at: str
    bytes: int
    files: list[str] = field(default_factory=list)


def list_one(item: Quarantined) -> RefusedAnswer:
    """What is shown of one."""
    moment = datetime.fromtimestamp(item.refused_at // 1_000_000, UTC)
    at = moment.isoformat().replace("+00:00", "Z")
    return RefusedAnswer(item.number, item.tsa, item.size, item.cause, at, len(item.response))


def as_table(rows: Sequence[RefusedAnswer]) -> str:
    """Lines for people."""
    if not rows:
        return "no refused answers are kept"
    titles = ("number", "tsa", "size", "cause", "refused at", "bytes")
    cells = [titles] + [
        (str(r.number), r.tsa, str(r.size), r.cause, r.refused_at, str(r.bytes)) for r in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    lines += [f"wrote {name}" for row in rows for name in row.files]
    return "\n".join(lines)


def write_one(folder: Path, item: Quarantined, note: bytes | None) -> list[str]:
    """Write the bytes of one; what is there already with the same bytes stays.

    Args:
        folder: made when it is not there.
        item: the answer.
        note: the checkpoint it was asked about, None when that is gone.

    Returns:
        Names of the files.

    Raises:
        RefusedFileError: one cannot be written, or is there with other bytes.
    """
    parts = {"tsq": item.request, "tsr": item.response} | ({} if note is None else {"note": note})
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusedFileError(f"cannot make the folder {folder}: {error.strerror}") from None
    for ending, data in parts.items():
        path = folder / f"{item.number:06}-{item.tsa}-{item.cause}.{ending}"
        try:
            if path.exists() and path.read_bytes() == data:
                written.append(str(path))
                continue
            with path.open("xb") as file:  # evidence is never written over
                file.write(data)
        except FileExistsError:
            raise RefusedFileError(
                f"{path} is there and holds something else: give another folder as --out"
            ) from None
        except OSError as error:
            raise RefusedFileError(f"cannot write {path}: {error.strerror}") from None
        written.append(str(path))
    return written
