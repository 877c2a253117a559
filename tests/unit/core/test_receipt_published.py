"""Published receipts: Microsoft's lesson 18 under both rules, and draft-farley."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.receipt import Receipt, readings, verify_signature
from tests.helpers.reading import PROFILES, accept, bad_signature, read, refused
from tests.helpers.receipts import ALICE, jcs, pretty

if TYPE_CHECKING:
    from pathlib import Path

# Published receipts of Microsoft's lesson 18.

LESSON_KEY = base64.urlsafe_b64decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
LESSON_SETS = {"v2-direct": "ms-lesson18", "v1-prehash": "ms-lesson18-prehash"}


@pytest.fixture(params=LESSON_SETS)
def lesson_set(request: pytest.FixtureRequest, vectors: Path) -> tuple[dict[str, Any], str, str]:
    """(content of each file, id of its rule, id of the other rule)."""
    folder = vectors / "receipts" / "ms-lesson18" / "rebuilt"
    prefix = request.param + "-"
    found = {
        path.stem.removeprefix(prefix): json.loads(path.read_bytes())
        for path in folder.glob(prefix + "*.json")
    }
    assert len(found) == 7
    (other,) = (rule for name, rule in LESSON_SETS.items() if name != request.param)
    return found, LESSON_SETS[request.param], other


def test_published_lesson_receipts(lesson_set: tuple[dict[str, Any], str, str]) -> None:
    found, rule, other = lesson_set
    valid = found["01-valid"]
    for raw in (jcs(valid), pretty(valid)):
        assert accept(raw, LESSON_KEY).profile == rule
        bad_signature(accept, raw, LESSON_KEY, other)
    receipt = accept(jcs(valid), LESSON_KEY, rule)
    assert (receipt.agent, receipt.sequence, receipt.previous) == ("contoso-travel-bot", 0, None)
    assert receipt.time == "2026-04-25T14:30:00Z"
    assert receipt.unsigned == ("signature.alg", "signature.public_key")
    bad_signature(accept, jcs(found["02-tampered"]), LESSON_KEY)
    attacked = found["04-attacker-resigned"]
    bad_signature(accept, jcs(attacked), LESSON_KEY)
    hint = read(attacked).key_hint
    assert hint is not None
    assert accept(jcs(attacked), hint).profile == rule  # self-consistent, which proves nothing


def test_published_lesson_chains(lesson_set: tuple[dict[str, Any], str, str]) -> None:
    found, rule, other = lesson_set

    def chain(name: str) -> list[Receipt]:
        receipts = [accept(jcs(document), LESSON_KEY) for document in found[name]]
        assert {receipt.profile for receipt in receipts} == {rule}
        for document in found[name]:
            bad_signature(accept, jcs(document), LESSON_KEY, other)
        return receipts

    def breaks(receipts: list[Receipt]) -> list[int]:
        before = [None, *(receipt.link_hash for receipt in receipts)]
        pairs = zip(before, receipts, strict=False)
        return [at for at, (hash_, receipt) in enumerate(pairs) if receipt.previous != hash_]

    whole = chain("03-chain")
    assert breaks(whole) == []
    assert [receipt.sequence for receipt in whole] == [0, 1, 2]
    gap = chain("03b-chain-gap")
    assert breaks(gap) == [1]
    assert [receipt.sequence for receipt in gap] == [0, 2]
    assert breaks(chain("03c-chain-resigned-middle")) == [2]
    cut = chain("03d-chain-tail-cut")  # only an outside record of the head can tell
    assert breaks(cut) == []
    assert len(cut) == 2


# Published receipts of draft-farley.

# What index.json expects of these depends on when a key was valid, which this module does not know:
# it answers for a signature and a key. Key windows, revocation and a claimed time that an outside
# commitment contradicts are for whoever keeps the keys and the log.
LEFT_TO_KEY_MANAGEMENT = {
    "argentum-superseded-reject.json": "signature holds; issued after the key's valid_until",
    "keywindow-at-valid-until.json": "signature holds; issued at valid_until, which is excluded",
    "keywindow-after.json": "signature holds; after valid_until (valid where no window is given)",
    "keywindow-before.json": "signature holds; issued before the key's valid_from",
    "revocation-after.json": "signature holds; issued after the key was revoked",
    "timeliness-receipt.json": "signature holds; its time contradicts a logged commitment",
}
# No key from outside is given for these, so no verdict; see formats/test_acta_published.py for what
# they are. Read as draft-farley-04, none of their embedded keys may be read.
EMBEDDED_KEY_ONLY = {
    "embedded-acta-envelope.json": None,
    "embedded-decision-receipt.json": "not of format draft-farley-04",  # an older flat shape
    "embeddedreject-001-passport.json": "payload.issuer_id and signature.kid differ",
    "embeddedreject-002-v1-flat.json": "not of format draft-farley-04",
    "embeddedreject-003-v2.json": "not of format draft-farley-04",
    "embeddedreject-004-jwk.json": "payload.issuer_id and signature.kid differ",
}


def farley_cases(vectors: Path) -> tuple[Path, list[dict[str, Any]]]:
    folder = vectors / "receipts" / "draft-farley" / "rebuilt"
    return folder, json.loads((folder / "index.json").read_bytes())["cases"]


def key_of(folder: Path, jwks: str, kid: str | None) -> bytes:
    keys = json.loads((folder / jwks).read_bytes())["keys"]
    (found,) = (key["x"] for key in keys if key["kid"] == kid)
    return base64.urlsafe_b64decode(found + "=")


def test_published_draft_receipts(vectors: Path) -> None:
    folder, cases = farley_cases(vectors)
    answered, left = set(), set()
    for case in cases:
        for name in case["file"].split(" logged_at ")[0].split(" + "):
            if case["jwks"] is None or name == "timeliness-commitment.json":
                continue
            answered.add(name)
            raw = (folder / name).read_bytes()
            if name.startswith("signinginput-") and case["expect"] == "invalid":
                error = refused(accept, raw, bytes(32), reason=Reason.INVALID_FIELD)
                assert "payload.signature is forbidden" in error.message
                continue
            first = next(readings(raw, PROFILES))
            assert first.profile == "draft-farley-04"
            key = key_of(folder, case["jwks"], first.kid)
            if name == "argentum-drift-reject.json":  # signed over pretty-printed JSON
                bad_signature(verify_signature, first, key)
                continue
            verify_signature(first, key)
            if case["expect"] != "valid":
                left.add(name)
    assert len(answered) == 17
    assert left == set(LEFT_TO_KEY_MANAGEMENT)


def test_published_draft_chain_and_commitment(vectors: Path) -> None:
    folder, _ = farley_cases(vectors)
    one, two = (
        next(readings((folder / f"timeliness-{name}.json").read_bytes(), PROFILES))
        for name in ("genesis", "receipt")
    )
    assert one.previous is None
    assert two.previous == one.link_hash
    assert one.chain == two.chain
    commitment = (folder / "timeliness-commitment.json").read_bytes()
    terminal = json.loads(commitment)["payload"]["terminal_hash"]
    assert terminal == "sha256:" + one.link_hash.hex()
    # A commitment is of the same envelope and no receipt: it says no time.
    error = refused(next, readings(commitment, PROFILES), reason=Reason.INVALID_FIELD)
    assert "payload.issued_at" in error.message


def test_published_receipts_with_embedded_keys(vectors: Path) -> None:
    folder, cases = farley_cases(vectors)
    assert {case["file"] for case in cases if case["jwks"] is None} == set(EMBEDDED_KEY_ONLY)
    for name, words in EMBEDDED_KEY_ONLY.items():
        iterator = readings((folder / name).read_bytes(), PROFILES, profile="draft-farley-04")
        if words is not None:
            assert words in refused(next, iterator, reason=Reason.INVALID_FIELD).message
            continue
        receipt = next(iterator)
        assert (receipt.key_hint, receipt.kid) == (None, "conformance")
        bad_signature(verify_signature, receipt, ALICE.key)
