"""proto/FORMATS.md is the truth: its worked examples are what the code does, byte by byte."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from receiptledger.certificates import read_certificates
from receiptledger.core.bundle_anchors import (
    MAX_ANCHORED_CHECKPOINTS,
    MAX_EVIDENCE_BYTES,
    MAX_EVIDENCE_PARTS,
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    MAX_STAMPS,
)
from receiptledger.core.dialect import DIALECTS
from receiptledger.core.errors import Reason
from receiptledger.core.note import VerifierKey
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings
from receiptledger.core.timestamp_types import TsaTrust
from receiptledger.core.verdict import ExitCode
from receiptledger.core.verify import Trust, verify_bundle
from receiptledger.trust_tsa import TSA_MEMBERS
from receiptledger.v1 import types_pb2
from tests.helpers import format_profiles
from tests.helpers.format_examples import examples

FORMATS = (Path(__file__).resolve().parents[2] / "proto" / "FORMATS.md").read_text("utf-8")
WRITTEN = dict(re.findall(r"^```text ([\w-]+)\n(.*?)\n```$", FORMATS, re.MULTILINE | re.DOTALL))
# Formats that end with a newline; a fenced block cannot show it.
ENDS_WITH_NEWLINE = {"checkpoint-text", "checkpoint", "bundle", "anchored-bundle", "tsa-root"}


@pytest.mark.parametrize("name", sorted(examples()))
def test_example_is_what_the_code_writes(name: str) -> None:
    end = b"\n" if name in ENDS_WITH_NEWLINE else b""
    assert WRITTEN[name].encode() + end == examples()[name]


def test_every_written_example_is_checked() -> None:
    assert set(WRITTEN) == set(examples())


def test_the_written_bundle_verifies_with_the_written_key() -> None:
    """A reader can take both from the page and get a valid verdict."""
    trust = Trust((VerifierKey.parse(WRITTEN["log-key"]),))
    verdict = verify_bundle((WRITTEN["bundle"] + "\n").encode(), trust)
    assert verdict.exit_code is ExitCode.VALID, verdict.to_json()


def test_the_written_anchored_bundle_bounds_the_receipt_in_time() -> None:
    """A reader can take the authority's root from the page, too."""
    roots = read_certificates(WRITTEN["tsa-root"].encode())
    trust = Trust(
        (VerifierKey.parse(WRITTEN["log-key"]),),
        require=frozenset({"anchor", "claimed-time"}),
        tsas=(TsaTrust("tsa-1", "tsa-1", roots),),
    )
    verdict = verify_bundle((WRITTEN["anchored-bundle"] + "\n").encode(), trust)
    assert verdict.exit_code is ExitCode.VALID, verdict.to_json()
    assert verdict.facts["not_after"] == "2026-11-30T09:10:01Z"
    assert verdict.facts["anchored_by"] == ["tsa-1"]


def test_the_written_trust_file_has_every_member() -> None:
    shown = re.search(r"^```toml\n(.*?)^```$", FORMATS, re.MULTILINE | re.DOTALL)
    assert shown is not None
    tables = tomllib.loads(shown[1])
    assert set(tables["tsa"][0]) == set(TSA_MEMBERS)
    assert {*tables} == {"log", "agent", "tsa", "policy"}
    assert set(tables["policy"]) == {"require", "tsa_quorum"}


def test_every_limit_of_anchors_is_documented() -> None:
    section = FORMATS.partition("### Anchors")[2].partition("## 6.")[0]
    for limit in (
        MAX_ANCHORED_CHECKPOINTS,
        MAX_STAMPS,
        MAX_REQUEST_BYTES,
        MAX_RESPONSE_BYTES,
        MAX_EVIDENCE_PARTS,
        MAX_EVIDENCE_BYTES,
    ):
        assert f"{limit:,}" in section, limit


def test_the_written_receipts_are_read_by_the_documented_profile() -> None:
    first = next(readings(WRITTEN["receipt-0"].encode(), Profiles.builtin()))
    assert (first.profile, first.sequence, first.previous) == ("ms-lesson18", 0, None)
    assert first.signing_input.decode() == WRITTEN["signed-bytes-0"]


def test_every_format_is_documented() -> None:
    """The table and the example are made from the shipped data: `python -m tests.helpers.format_profiles`."""
    assert format_profiles.table() in FORMATS
    assert f"```toml format\n{format_profiles.example()}\n```" in FORMATS


def test_every_member_of_a_formats_data_is_documented() -> None:
    written = set(re.findall(r"`([\w-]+)`", FORMATS.partition("Every member must be there")[2]))
    named = set(tomllib.loads(format_profiles.example())) - {"id", "version", "title"}
    assert named <= written
    assert {"keep", "text", "prefix", "domain", "encodings", "is", "values", "genesis"} <= written
    assert set(DIALECTS) <= written


def test_every_reason_is_documented_and_on_the_wire() -> None:
    section = FORMATS.partition("## 7. Reasons")[2]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [
        reason.value for reason in Reason
    ]
    wire = {name.removeprefix("REASON_") for name, _ in types_pb2.Reason.items()}
    assert wire - {"UNSPECIFIED"} == {reason.name for reason in Reason}
