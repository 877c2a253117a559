"""The package itself: every public name is there, and importing it is cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import receiptledger


def test_every_public_name_is_found() -> None:
    for name in receiptledger.__all__:
        assert getattr(receiptledger, name) is not None
    assert set(receiptledger.__all__) <= set(dir(receiptledger))
    assert set(receiptledger.__all__) == {*receiptledger._HOME, "__version__"}


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        receiptledger.nonsense  # noqa: B018


def test_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "receiptledger", "--version"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (out.returncode, out.stdout) == (0, receiptledger.__version__ + "\n")


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, receiptledger; receiptledger.verify_bundle; receiptledger.load_trust\n"
        "print(sorted({'grpc', 'google', 'typer', 'rich', 'asyncio'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert out.stdout == "[]\n", out.stderr
