"""Makes tests/vectors/receipts: receipts of every built-in format with what a verifier must say of them.

`python -m tests.vectors.make` writes the folder; a test compares it with what this makes, and another
replays it with `receiptledger conformance tests/vectors/receipts`. All keys are from fixed, public seeds,
and nothing is random, so the same bytes come out every time.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vectors.cases import Case, cases
from tests.vectors.ml_dsa import ml_dsa
from tests.vectors.signers import SIGNERS
from tests.vectors.traps import traps

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FOLDER", "make", "write"]

FOLDER = Path(__file__).resolve().parent / "receipts"


def make() -> dict[str, bytes]:
    """Every file of the set by its name in the folder."""
    files: dict[str, bytes] = {}
    rows = []
    for group, case in _all():
        row: dict[str, object] = {
            "name": f"{group}: {case.name}",
            "files": _put(files, group, case),
            "keys": list(case.keys),
        }
        if case.profile is not None:
            row["profile"] = case.profile
        row["expect"] = case.expect
        if case.reason is not None:
            row["reason"] = case.reason
        rows.append(json.dumps(row))
    files["manifest.json"] = ("[\n" + ",\n".join(rows) + "\n]\n").encode()
    return files


def _put(files: dict[str, bytes], group: str, case: Case) -> list[str]:
    """Names of the files with a case's receipts: one of JSON Lines, or one each, shared by rows."""
    if case.packed:
        name = f"{group}/{case.name}.jsonl"
        assert name not in files, name
        files[name] = b"\n".join(case.lines) + b"\n"
        return [name]
    there = {data: name for name, data in files.items() if name.startswith(f"{group}/")}
    names = []
    for number, line in enumerate(case.lines, 1):
        name = there.get(line)
        if name is None:
            ending = f"-{number}" if len(case.lines) > 1 else ""
            name = f"{group}/{case.name}{ending}.json"
            assert name not in files, name
            files[name] = line
            there[line] = name
        names.append(name)
    return names


def _all() -> Iterator[tuple[str, Case]]:
    seen: dict[str, int] = {}
    for signer in SIGNERS:
        count = seen[signer.group] = seen.get(signer.group, 0) + 1
        group = signer.group if count == 1 else f"{signer.group}-{count}"
        for case in cases(signer):
            yield group, case
    for case in ml_dsa():
        yield "draft-farley-04-ml-dsa-65", case
    for case in traps():
        yield "traps", case


def write(files: dict[str, bytes], folder: Path) -> None:
    """Write the files, and nothing else, into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    write(make(), FOLDER)
