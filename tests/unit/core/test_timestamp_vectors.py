"""The foreign RFC 3161 vectors: each row's expected result, and our decision where the RFC leaves one.

Rows marked `soft` are refusals that the RFC does not demand; we refuse them all. Rows marked `policy`
are decisions, written down here with their reason.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.timestamp import (
    DEFAULT_RULES,
    Cause,
    RevocationEvidence,
    Timestamp,
    TimestampError,
    TsaTrust,
    check_time_window,
    verify_response,
)
from receiptledger.core.timestamp_request import parse_request
from tests.conftest import VECTORS

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = VECTORS / "rfc3161"
MANIFEST = FOLDER / "manifest.json"
PRESENT = MANIFEST.is_file()

pytestmark = pytest.mark.skipif(not PRESENT, reason="foreign vectors are not on this machine")

CONTENTS: dict[str, Any] = json.loads(MANIFEST.read_bytes()) if PRESENT else {"vectors": []}
ROWS = {row["file"].split("/")[1].removesuffix(".tsr"): row for row in CONTENTS["vectors"]}

# Every row whose result is a decision, with ours.
DECISIONS = {
    "a25-granted-with-mods": Cause.STATUS_GRANTED_WITH_MODS,  # by option only: what was modified?
    "a28-ber-indefinite": Cause.DER,  # one value, one spelling; no authority in use needs it
    "a34-accuracy-zero-micros": Cause.ACCURACY,  # outside the range the RFC gives
    "r96-gentime-leap-second": Cause.GEN_TIME,  # no clock of ours holds it; ask again
    "r99-accuracy-huge": Cause.ACCURACY,  # says nothing about the time
}
SOFT = {
    "r45-ku-keyenc": Cause.KEY_USAGE,
    "r94-gentime-frac-trailing-zero": Cause.GEN_TIME,
}


def certificate(name: str) -> bytes:
    text = (FOLDER / "pki" / f"{name}.pem").read_text("ascii")
    body = re.search("-----BEGIN CERTIFICATE-----(.*?)-----END", text, re.DOTALL)
    assert body is not None
    return base64.b64decode(body[1])


def verify(row: dict[str, Any], **changes: Any) -> Timestamp:
    trust = TsaTrust(
        name="vectors",
        authority="vectors",
        roots=tuple(map(certificate, row["roots"])),
        intermediates=tuple(map(certificate, row["intermediates"])),
        certificate=None if row["tsa_cert"] is None else certificate(row["tsa_cert"]),
        policies=frozenset() if row["policy"] is None else frozenset({row["policy"]}),
    )
    return verify_response(
        (FOLDER / row["file"]).read_bytes(),
        (FOLDER / row["message"]).read_bytes(),
        trust,
        nonce=row["nonce"],
        evidence=RevocationEvidence(
            tuple((FOLDER / name).read_bytes() for name in row.get("crls", ()))
        ),
        **changes,
    )


def test_every_row_is_decided() -> None:
    assert {name for name, row in ROWS.items() if row["expect"] == "policy"} == set(DECISIONS)
    assert {name for name, row in ROWS.items() if row.get("soft")} == set(SOFT)
    assert {row["expect"] for row in ROWS.values()} == {"accept", "reject", "time", "policy"}


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row["expect"] == "accept"])
def test_accepted(name: str) -> None:
    row = ROWS[name]
    stamp = verify(row)
    assert stamp.hash_algorithm == row["imprint_hash"]
    # Made for a checkpoint of that time, or of the manifest's if the row has none.
    made = datetime.fromisoformat(row.get("checkpoint_time", CONTENTS["checkpoint_time"]))
    assert abs(stamp.gen_time - made) < timedelta(minutes=10)


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row["expect"] == "reject"])
def test_refused(name: str) -> None:
    with pytest.raises(TimestampError) as caught:
        verify(ROWS[name])
    if name in SOFT:
        assert caught.value.cause is SOFT[name]


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions(name: str) -> None:
    with pytest.raises(TimestampError) as caught:
        verify(ROWS[name])
    assert caught.value.cause is DECISIONS[name]


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row["expect"] == "time"])
def test_refused_by_the_time_window_alone(name: str) -> None:
    stamp = verify(ROWS[name])
    made = datetime.fromisoformat(ROWS[name]["checkpoint_time"])
    with pytest.raises(TimestampError) as caught:
        check_time_window(
            stamp,
            checkpoint_time=made,
            sent=made,
            received=made + timedelta(seconds=1),
            skew=timedelta(seconds=30),
        )
    assert caught.value.cause is Cause.TIME_WINDOW


def test_granted_with_mods_by_option() -> None:
    rules = replace(DEFAULT_RULES, allow_granted_with_mods=True)
    assert verify(ROWS["a25-granted-with-mods"], rules=rules).nonce is not None


CAUSES = {
    "r02-ossl-unacceptedPolicy": Cause.UNACCEPTED_POLICY,
    "r03-ossl-expired-tsa": Cause.CHAIN,
    "r24-rejection-with-token": Cause.SYSTEM_FAILURE,
    "r31-missing-nonce": Cause.NONCE,
    "r34-imprint-alg-swapped": Cause.HASH_ALGORITHM,
    "r37-wrong-policy": Cause.POLICY,
    "r38-unexpected-request-replayed": Cause.IMPRINT,
    "r44-eku-codesigning": Cause.EKU,
    "r47-untrusted-root-embedded": Cause.CHAIN,
    "r54-revoked-before": Cause.REVOKED,
    "r55-revoked-later-keycompromise": Cause.REVOKED,
    "r56-tsa-is-ca": Cause.CHAIN,
    "r60-sig-flipped": Cause.SIGNATURE,
    "r63-no-ess": Cause.ESS,
    "r66-ctype-attr-data": Cause.SIGNED_ATTRIBUTE,
    "r70-two-signers": Cause.SIGNERS,
    "r73-tsa-name-wrong": Cause.TSA_NAME,
    "r75-critical-ext": Cause.CRITICAL_EXTENSION,
    "r86-deep": Cause.DER,
}


@pytest.mark.parametrize(("name", "cause"), CAUSES.items())
def test_the_right_cause(name: str, cause: Cause) -> None:
    with pytest.raises(TimestampError) as caught:
        verify(ROWS[name])
    assert caught.value.cause is cause


@pytest.mark.parametrize("name", ROWS)
def test_requests_have_our_form(name: str) -> None:
    data = (FOLDER / ROWS[name]["request"]).read_bytes()
    request = parse_request(data)
    assert request.encode() == data
    assert (request.nonce, request.policy) == (ROWS[name]["nonce"], ROWS[name]["policy"])


def test_the_folder_is_found(vectors: Path) -> None:
    assert vectors / "rfc3161" == FOLDER
