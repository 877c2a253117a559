"""Published receipts of the formats around draft-farley and agent-governance-toolkit."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.receipt_check import ChainFinding, GivenKey, Outcome, check_chain
from tests.helpers.forge import raw
from tests.helpers.reading import PROFILES, accept, bad_signature
from tests.helpers.receipts import ALICE

if TYPE_CHECKING:
    from pathlib import Path

# What index.json expects of these depends on when a key was valid, or on what an issuer committed to
# elsewhere; neither is in a receipt. The signature of each holds, and that is what is asked here.
NOT_IN_THE_RECEIPT = {
    "argentum-superseded-reject.json": "issued after the key's valid_until",
    "keywindow-at-valid-until.json": "issued at valid_until, which is excluded",
    "keywindow-after.json": "issued after valid_until",
    "keywindow-before.json": "issued before valid_from",
    "revocation-after.json": "issued after the key was revoked",
    "timeliness-receipt.json + timeliness-commitment.json": "issued before a logged commitment",
}
# Receipts with a key inside and none from outside.
EMBEDDED = {
    "embedded-acta-envelope.json": "protect-mcp",
    "embedded-decision-receipt.json": "draft-farley-v2",
    "embeddedreject-001-passport.json": "acta-sdk",
    "embeddedreject-002-v1-flat.json": "acta-v1",
    "embeddedreject-003-v2.json": "draft-farley-v2",
    "embeddedreject-004-jwk.json": "acta-sdk",
}


def farley(vectors: Path) -> tuple[Path, list[dict[str, Any]]]:
    folder = vectors / "receipts" / "draft-farley" / "rebuilt"
    return folder, json.loads((folder / "index.json").read_bytes())["cases"]


def keys_of(folder: Path, jwks: str | None) -> list[GivenKey]:
    if jwks is None:
        return []
    keys = json.loads((folder / jwks).read_bytes())["keys"]
    return [GivenKey(base64.urlsafe_b64decode(key["x"] + "="), key["kid"]) for key in keys]


def checked(folder: Path, case: dict[str, Any]) -> ChainFinding:
    names = case["file"].split(" logged_at ")[0].split(" + ")
    raws = [(folder / name).read_bytes() for name in names if "commitment" not in name]
    return check_chain(raws, keys_of(folder, case["jwks"]), PROFILES)


def test_every_published_draft_case(vectors: Path) -> None:
    """Every row of index.json, each receipt found without being named."""
    folder, cases = farley(vectors)
    left, seen = set(), 0
    for case in cases:
        seen += 1
        finding = checked(folder, case)
        file = case["file"].split(" logged_at ")[0]
        if file in NOT_IN_THE_RECEIPT and case["expect"] != "valid":
            assert finding.outcome is Outcome.VALID, file
            left.add(file)
            continue
        assert finding.outcome.value == case["expect"], (file, finding.findings[0].detail)
        if case["expect"] == "undecidable":
            assert finding.reason is Reason.UNKNOWN_KEY
        if "signinginput" in file and case["expect"] == "invalid":
            assert finding.reason is Reason.INVALID_FIELD
        if file == "argentum-drift-reject.json":
            assert finding.reason is Reason.BAD_SIGNATURE
    assert seen == 25
    assert left == set(NOT_IN_THE_RECEIPT)


def test_the_format_of_every_receipt_with_a_key_inside(vectors: Path) -> None:
    folder, cases = farley(vectors)
    assert {case["file"] for case in cases if case["jwks"] is None} == set(EMBEDDED)
    for name, profile in EMBEDDED.items():
        finding = check_chain([(folder / name).read_bytes()], [], PROFILES).findings[0]
        assert finding.receipt is not None, finding.detail
        assert finding.receipt.profile == profile


def test_the_key_inside_is_right_and_still_not_trusted(vectors: Path) -> None:
    folder, _ = farley(vectors)
    adversary = json.loads((folder / "embedded-adversary-key.json").read_bytes())["keys"][0]
    key = bytes.fromhex(adversary["hex"])
    for name in ("embedded-acta-envelope.json", "embedded-decision-receipt.json"):
        text = (folder / name).read_bytes()
        assert accept(text, key).profile == EMBEDDED[name]
        bad_signature(accept, text, ALICE.key)
        given = check_chain([text], [GivenKey(ALICE.key)], PROFILES)
        assert given.outcome is Outcome.INVALID
        assert given.reason in (Reason.WRONG_KEY, Reason.BAD_SIGNATURE)
        assert check_chain([text], [GivenKey(key)], PROFILES).outcome is Outcome.VALID


@pytest.mark.parametrize("name", [name for name in EMBEDDED if "reject" in name])
def test_a_signature_that_is_filler_holds_under_no_key(vectors: Path, name: str) -> None:
    text = (farley(vectors)[0] / name).read_bytes()
    embedded = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    bad_signature(accept, text, embedded)
    finding = check_chain([text], [GivenKey(embedded)], PROFILES)
    assert (finding.outcome, finding.reason) == (Outcome.INVALID, Reason.BAD_SIGNATURE)


# Made with the packages.


def test_published_adk_chain(vectors: Path) -> None:
    folder = vectors / "receipts" / "protect-mcp-adk" / "generated"
    documents = json.loads((folder / "chain.json").read_bytes())
    key = json.loads((folder / "key.json").read_bytes())
    public = bytes.fromhex(key["public_key_hex"])
    receipts = [accept(raw(document), public) for document in documents]
    assert [one.profile for one in receipts] == ["protect-mcp-adk"] * 3
    assert {(one.agent, one.stream, one.kid) for one in receipts} == {
        ("protect-mcp-adk", "sess_5a90ba1b1f3d", key["kid"])
    }
    assert receipts[0].previous is None
    assert all(after.previous == before.link_hash for before, after in pairwise(receipts))
    # The release counts twice for every receipt, so no order is read from its numbers.
    assert [document["payload"]["sequence"] for document in documents] == [1, 3, 5]
    assert [one.sequence for one in receipts] == [None] * 3
    raws = [raw(document) for document in documents]
    given = [GivenKey(public, key["kid"])]
    assert check_chain(raws, given, PROFILES).outcome is Outcome.VALID
    gap = check_chain([raws[0], raws[2]], given, PROFILES)
    assert gap.outcome is Outcome.INVALID
    swapped = check_chain([raws[0], raws[2], raws[1]], given, PROFILES)
    assert swapped.outcome is Outcome.INVALID


def test_published_agt_chain(vectors: Path) -> None:
    path = vectors / "receipts" / "agt-mcp-receipts" / "generated" / "chain.json"
    documents = json.loads(path.read_bytes())
    (public,) = {bytes.fromhex(document["signer_public_key"]) for document in documents}
    receipts = [accept(raw(document), public) for document in documents]
    assert [one.profile for one in receipts] == ["agt-mcp"] * len(documents)
    assert len({one.chain for one in receipts}) == 1
    assert len({document["agent_did"] for document in documents}) == 2
    assert receipts[0].previous is None
    assert all(after.previous == before.link_hash for before, after in pairwise(receipts))
    for receipt, document in zip(receipts, documents, strict=True):
        assert receipt.link_hash.hex() == document["payload_hash"]
    assert receipts[0].time == "2026-11-30T14:58:52.722883Z"
    raws = [raw(document) for document in documents]
    assert check_chain(raws, [GivenKey(public)], PROFILES).outcome is Outcome.VALID
    gap = check_chain([raws[0], *raws[2:]], [GivenKey(public)], PROFILES)
    assert gap.outcome is Outcome.INVALID
