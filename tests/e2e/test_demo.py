"""`make demo` is run as a user runs it, and what it leaves is used as an auditor would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.note import VerifierKey
from receiptledger.core.verdict import ExitCode
from receiptledger.core.verify import verify_bundle
from receiptledger.trust import load_trust
from tests.helpers import demo_receipts

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `OUT=DIR make demo` leaves; its output is in `output.txt`."""
    folder = tmp_path_factory.mktemp("demo")
    env = os.environ | {"OUT": str(folder), "KEEP": ""}
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "output.txt").write_text(done.stdout)
    return folder


def test_files_are_left(out: Path) -> None:
    names = {"bundle.json", "log.vkey", "trust.toml", "receipts.jsonl", "checkpoint", "metrics.txt"}
    assert names <= {path.name for path in out.iterdir()}


def test_output_is_plain_off_a_terminal_and_tells_the_story(out: Path) -> None:
    text = (out / "output.txt").read_text()
    assert "\x1b" not in text
    told = ("fork: position 299", "gap: position 300", "result: valid", "result: invalid")
    for phrase in (*told, "existed no later than 2", "appended no earlier than 2"):
        assert phrase in text
    assert "fail         signature" in text
    assert "fail         segment inclusion" in text


def test_bundle_verifies_with_the_trust_file(out: Path) -> None:
    verdict = verify_bundle((out / "bundle.json").read_bytes(), load_trust(out / "trust.toml"))
    assert verdict.exit_code is ExitCode.VALID, verdict.to_json()
    assert verdict.facts["agent"] == "booking-bot"


def test_two_authorities_bracket_the_receipt_in_time(out: Path) -> None:
    verdict = verify_bundle((out / "bundle.json").read_bytes(), load_trust(out / "trust.toml"))
    facts = verdict.facts
    assert facts["state"] == "anchored"
    assert facts["anchored_by"] == ["tsa-one", "tsa-two"]
    after, before = str(facts["not_before"]), str(facts["not_after"])
    assert after < before
    assert facts["claimed_time_within_bounds"] is True


def test_checkpoint_is_signed_by_the_log_key(out: Path) -> None:
    key = VerifierKey.parse((out / "log.vkey").read_text().strip())
    assert open_checkpoint((out / "checkpoint").read_bytes(), key).size > 0


def test_receipts_are_one_chain(out: Path) -> None:
    lines = (out / "receipts.jsonl").read_bytes().rstrip(b"\n").split(b"\n")
    assert [json.loads(line)["sequence"] for line in lines] == list(range(300))


def test_metrics_count_what_was_shown(out: Path) -> None:
    text = (out / "metrics.txt").read_text()
    assert 'ledger_receipts_total{result="accepted"} 851.0' in text
    assert 'ledger_receipts_rejected_total{reason="fork"} 1.0' in text
    assert 'ledger_receipts_rejected_total{reason="gap"} 1.0' in text


def test_bundled_receipts_are_what_their_recipe_makes() -> None:
    assert demo_receipts.FILE.read_bytes() == demo_receipts.make()
