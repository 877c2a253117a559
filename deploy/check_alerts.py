"""`make alerts`: promtool reads the scrape config, the rules, their unit tests and a daemon's metrics.

promtool is looked for on PATH and in .venv/tools. Where neither has it, root on a Debian system gets
Debian's own package, unpacked into .venv/tools: nothing is installed, no service is started. Where
that is not possible either, everything is skipped, loudly, and the exit code is 0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ledgerd.metrics import Metrics
from ledgerd.store.interface import StoreStats

__all__ = ["CHECKS", "exposition", "find_promtool", "main", "run_checks"]

DEPLOY = Path(__file__).resolve().parent
TOOLS = DEPLOY.parent / ".venv" / "tools"
# What is run, and the file it reads; "-" is the page of /metrics on standard input.
CHECKS = (
    ("check", "config", "prometheus.yml"),
    ("check", "rules", "alerts.yml"),
    ("test", "rules", "alerts_test.yml"),
    ("check", "metrics", "-"),
)


def main() -> int:
    """Find promtool, run every check; 0 when none failed."""
    promtool = find_promtool(TOOLS) or _fetch_promtool(TOOLS)
    if promtool is None:
        _say(
            "SKIPPED: promtool is not on this machine and could not be fetched (that needs root, "
            "apt-get and a Debian mirror).\nSKIPPED: no alert rule was checked. Install the package "
            "'prometheus' and run this again."
        )
        _say(f"0 passed, 0 failed, {len(CHECKS)} skipped")
        return 0
    _say(f"promtool: {promtool}")
    failed = run_checks(promtool, DEPLOY)
    _say(f"{len(CHECKS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def run_checks(promtool: Path, folder: Path) -> int:
    """Run every check on the files of a folder.

    Returns:
        How many failed; their output is shown.
    """
    failed = 0
    for what, kind, name in CHECKS:
        arguments = [] if name == "-" else [name]
        done = subprocess.run(
            [promtool, what, kind, *arguments],
            cwd=folder,
            input=exposition() if name == "-" else b"",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        _say(f"{'FAILED' if done.returncode else 'ok':8}promtool {what} {kind} {name}")
        if done.returncode:
            failed += 1
            _say(done.stdout.decode("utf-8", "replace").rstrip())
    return failed


def exposition() -> bytes:
    """The page of /metrics as a daemon shows it right after its start."""
    metrics = Metrics()
    metrics.init_grpc([("receiptledger.v1.IngestService", "Append")], ["OK"])
    metrics.anchors.init(["tsa-one"])
    return metrics.expose(lambda: StoreStats(0, 0, 0))


def find_promtool(tools: Path) -> Path | None:
    """Look on PATH, then where an earlier run unpacked it."""
    found = shutil.which("promtool")
    if found is not None:
        return Path(found)
    unpacked = tools / "usr" / "bin" / "promtool"
    return unpacked if os.access(unpacked, os.X_OK) else None


def _fetch_promtool(tools: Path) -> Path | None:
    """Debian's promtool, unpacked; None where this is not Debian, not root, or not connected."""
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg")
    if apt is None or dpkg is None or os.geteuid() != 0:
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        download = [apt, "download", "-qq", "-o", "APT::Sandbox::User=root", "prometheus"]
        # Package lists may be missing or old: then they are fetched, once.
        if not _quiet(download, folder) and not (
            _quiet([apt, "update", "-qq"], folder) and _quiet(download, folder)
        ):
            return None
        packages = list(folder.glob("prometheus_*.deb"))
        tools.mkdir(parents=True, exist_ok=True)
        if not packages or not _quiet([dpkg, "-x", str(packages[0]), str(tools)], folder):
            return None
    return find_promtool(tools)


def _quiet(command: list[str], folder: Path) -> bool:
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return done.returncode == 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
