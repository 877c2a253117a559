"""A conformance run: what this verifier says about given receipts, against what it should say.

`run_row` checks the receipts of one row of a manifest by themselves, as `receipt verify` does, and tells
whether the row came out as expected. Nothing here is trusted for being in the folder: the keys are the
row's own, and the receipts are read as strangers' bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from receiptledger.conformance_manifest import ManifestError
from receiptledger.receipt_evidence import (
    Document,
    check_documents,
    report_beside,
    report_finding,
)
from receiptledger.receipt_files import receipts_of

if TYPE_CHECKING:
    from pathlib import Path

    from receiptledger.conformance_manifest import Row
    from receiptledger.core.errors import Reason
    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt_check import Outcome
    from receiptledger.receipt_evidence import Evidence

__all__ = ["MAX_FILE_BYTES", "MAX_RECEIPTS", "RowResult", "run_row"]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_RECEIPTS = 100_000  # of one row


@dataclass(frozen=True, slots=True)
class RowResult:
    """How a row came out.

    Attributes:
        row: the row.
        finding: on its receipts.
    """

    row: Row
    finding: Evidence

    @property
    def outcome(self) -> Outcome:
        """What came out."""
        return self.finding.outcome

    @property
    def reason(self) -> Reason | None:
        """Why, None when valid."""
        return self.finding.reason

    @property
    def as_expected(self) -> bool:
        """Whether the outcome is the row's, and the reason too when the row gives one."""
        row = self.row
        return self.outcome is row.expect and row.reason in (None, self.reason)

    def formats(self) -> list[str]:
        """Ids of the formats that were found, in order."""
        found = (one.receipt for one in self.finding.findings)
        return list(dict.fromkeys(receipt.profile for receipt in found if receipt is not None))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a report."""
        row = self.row
        return {
            "name": row.name,
            "as_expected": self.as_expected,
            "expect": row.expect.value,
            "expect_reason": None if row.reason is None else row.reason.value,
            "outcome": self.outcome.value,
            "reason": None if self.reason is None else self.reason.value,
            "formats": self.formats(),
            "receipts": [report_finding(one) for one in self.finding.findings],
            "beside": [report_beside(one) for one in self.finding.beside],
            "notes": self.finding.notes,
        }


def run_row(row: Row, profiles: Profiles) -> RowResult:
    """Check a row's receipts.

    Raises:
        ManifestError: a file cannot be read, or the row has more than the limits allow.
    """
    documents: list[Document] = []
    for path in row.files:
        data = _read(path, row.name)
        # An empty file is one receipt that is malformed: nothing must never pass for valid.
        raws = [item.raw for item in receipts_of(data)] or [data]
        several = len(raws) > 1
        documents += [
            Document(f"{path.name}:{number}" if several else path.name, raw)
            for number, raw in enumerate(raws, 1)
        ]
        if len(documents) > MAX_RECEIPTS:
            raise ManifestError(f"row {row.name!r} has more than {MAX_RECEIPTS} receipts")
    finding = check_documents(documents, row.keys, profiles, row.profile)
    if row.foreign:
        finding.notes.append(f"keys of unknown algorithms: {', '.join(row.foreign)}")
    return RowResult(row, finding)


def _read(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"row {name!r}: cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ManifestError(f"row {name!r}: {path} has more than {MAX_FILE_BYTES} bytes")
    return data
