"""Shared fixtures: where foreign vectors are, and deterministic property tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT.parent / "shared" / "vectors"

# Deterministic by default: the same examples on every machine. `--hypothesis-seed=N` explores.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


def pytest_report_header() -> list[str]:
    """Say loudly, at the top of every run, when foreign vectors are missing."""
    if VECTORS.is_dir():
        return ["foreign vectors: present"]
    return [
        "foreign vectors: MISSING, their tests are skipped (the project's own vectors still run)"
    ]


@pytest.fixture(scope="session")
def vectors() -> Path:
    """Folder of foreign test vectors, or a loud skip."""
    if not VECTORS.is_dir():
        pytest.skip("foreign vectors are not on this machine")
    return VECTORS
