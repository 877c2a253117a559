"""`make test`: the whole suite with branch coverage, and the gates on it.

Runs pytest once under coverage, a worker per core and every file of tests in one worker (daemon
subprocesses are measured too), then demands 100 % of receiptledger.core and at least 90 % of every
other file. Extra arguments go to pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE, CORE_PERCENT, OTHER_PERCENT = "client/receiptledger/core/", 100.0, 90.0


def coverage(*arguments: str) -> int:
    """Run the coverage command."""
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT).returncode


def gates(report: Path) -> list[str]:
    """Files below their gate."""
    low = []
    for name, file in json.loads(report.read_text())["files"].items():
        wanted = CORE_PERCENT if CORE in name else OTHER_PERCENT
        percent = file["summary"]["percent_covered"]
        if percent < wanted:
            low.append(f"{name}: {percent:.1f} % covered, {wanted:.0f} % wanted")
    return low


def main() -> int:
    """Run, combine, judge."""
    coverage("erase")
    os.environ["COVERAGE_PROCESS_START"] = str(ROOT / "pyproject.toml")
    workers = ["--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile"]
    pytest = [sys.executable, "-m", "pytest", *workers, *sys.argv[1:]]
    failed = subprocess.run(pytest, cwd=ROOT).returncode
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        # Daemons killed by the crash tests leave data files without content; that is no news.
        combine = [sys.executable, "-m", "coverage", "combine", "--quiet"]
        subprocess.run(combine, cwd=ROOT, check=False, stderr=subprocess.DEVNULL)
        coverage("json", "--quiet", "-o", str(report))
        low = [] if sys.argv[1:] else gates(report)
    for line in low:
        print(f"coverage gate: {line}", file=sys.stderr)
    return failed or bool(low)


if __name__ == "__main__":
    sys.exit(main())
