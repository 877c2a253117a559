"""What an auditor installs: the client alone, without the daemon's packages, verifies a bundle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.format_examples import examples

ROOT = Path(__file__).resolve().parents[2]
DAEMON_ONLY = {
    "rocksdict",
    "prometheus-client",
    "pydantic-settings",
    "structlog",
    "uvicorn",
    "starlette",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run without the environment of this suite's own virtual environment."""
    names = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")
    env = {k: v for k, v in os.environ.items() if k.startswith(names)}
    env |= {"HOME": str(cwd), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty virtual environment with `pip install .` in it."""
    folder = tmp_path_factory.mktemp("plain")
    assert run(sys.executable, "-m", "venv", "venv", cwd=folder).returncode == 0
    python = folder / "venv/bin/python"
    done = run(python, "-m", "pip", "install", "--quiet", "--no-input", ROOT, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_daemon_packages_are_not_pulled_in(venv: Path) -> None:
    done = run(venv / "venv/bin/python", "-m", "pip", "list", "--format=freeze", cwd=venv)
    installed = {line.partition("==")[0].lower() for line in done.stdout.splitlines()}
    assert "pynacl" in installed
    assert not installed & DAEMON_ONLY


def test_verify_works(venv: Path) -> None:
    (venv / "bundle.json").write_bytes(examples()["bundle"])
    key = examples()["log-key"].decode()
    program = venv / "venv/bin/receiptledger"
    done = run(program, "verify", "bundle.json", "--log-key", key, cwd=venv)
    assert done.returncode == 0, done.stdout + done.stderr
    (venv / "forged.json").write_bytes(
        examples()["bundle"].replace(b"book_flight", b"book_fligth", 1)
    )
    done = run(program, "verify", "forged.json", "--log-key", key, cwd=venv)
    assert done.returncode == 1, done.stdout + done.stderr


def test_ledgerd_says_what_to_install(venv: Path) -> None:
    done = run(venv / "venv/bin/ledgerd", "serve", cwd=venv)
    assert done.returncode == 2
    assert "pip install 'receiptledger[daemon]'" in done.stderr
    assert "Traceback" not in done.stderr
