"""The README's tour, done: its commands run in order against a real daemon, its program too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ledgerd.devtsa.command import config_block
from ledgerd.devtsa.server import DevTsa
from tests.helpers.daemon_process import RunningDaemon

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = re.findall(
    r"^\$ (.+)$", "\n".join(re.findall(r"(?ms)^```console\n(.*?)^```$", README)), re.MULTILINE
)
PROGRAM = re.findall(r"(?ms)^```python\n(.*?)^```$", README)

pytestmark = pytest.mark.slow


def test_the_tour(tmp_path: Path) -> None:
    """Every command ends well, but the one that verifies a forged bundle."""
    assert len(COMMANDS) >= 11
    assert len(PROGRAM) == 1
    config = tmp_path / "ledgerd.toml"
    with ExitStack() as stack:
        tsa = stack.enter_context(DevTsa(tmp_path / "tsa"))
        config.write_text(config_block(tsa))
        daemon = stack.enter_context(RunningDaemon(tmp_path / "data", "--config", str(config)))
        daemon.wait_ready()
        env = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RECEIPTLEDGER_ADDRESS": daemon.grpc,
            "LOG_KEY": str(daemon.log_key),
        }

        def run(*command: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
            )

        for command in COMMANDS:
            done = run("bash", "-c", command)
            wanted = 1 if "verify forged.json" in command else 0
            assert done.returncode == wanted, f"{command}\n{done.stdout}{done.stderr}"
            if wanted:
                assert "bad_signature" in done.stdout
            if "--tsa-root" in command:
                assert "existed no later than" in done.stdout

        program = PROGRAM[0].replace("127.0.0.1:7070", daemon.grpc)
        assert daemon.grpc in program
        done = run(sys.executable, "-c", program)
        assert done.returncode == 0, done.stderr
        head = run("receiptledger", "head", "booking-bot", "--json")
        assert '"position":2' in head.stdout.replace(" ", ""), head.stdout


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"`?(?:^|\s|`)make ([a-z-]+)", README))
    assert {"demo", "test", "run"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_linked_file_exists() -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        if not link.startswith("http"):
            assert (ROOT / link).exists(), link
