"""What a link covers and no signature does; chains that are told apart by a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from tests.helpers.forge import python
from tests.helpers.forge_more import AERF, EVIDENCE, EVIDENCE_NAMED
from tests.helpers.forge_others import as_line
from tests.helpers.reading import PROFILES, accept, refused, with_member
from tests.helpers.receipts import ALICE

if TYPE_CHECKING:
    from tests.helpers.forge import Forger

ACTIVATION = (
    "contract_promote_intent",
    "contract_rollback_authorized",
    "key_rotation",
    "contract_redaction_request",
)
BY_KIND = (
    *((kind, "contract-activation-signing") for kind in ACTIVATION),
    *((kind, "receipt-signing") for kind in ("proxy_decision", "shadow_delta", "made_later")),
)
PURPOSES = ("contract-activation-signing", "receipt-signing", "roster-root", "Receipt-signing", "")


def of_kind(forger: Forger, kind: str, purpose: str) -> dict[str, Any]:
    sealed = forger.seal({**forger.body(0, None, ALICE), "payload_kind": kind}, ALICE)
    return with_member(sealed, "signature.key_purpose", purpose)


@pytest.mark.parametrize("forger", [EVIDENCE, EVIDENCE_NAMED], ids=lambda one: one.profile)
@pytest.mark.parametrize(("kind", "right"), BY_KIND)
def test_the_kind_says_what_the_key_must_be_for(forger: Forger, kind: str, right: str) -> None:
    for purpose in PURPOSES:
        document = of_kind(forger, kind, purpose)
        line = as_line(document, 0)
        if purpose == right:
            assert accept(python(document), ALICE.key).profile == forger.profile
            if forger is EVIDENCE:
                assert accept(python(line), ALICE.key).profile == "pipelock-v2-line"
            continue
        refused(accept, python(document), ALICE.key, reason=Reason.UNKNOWN_PROFILE)
        refused(accept, python(line), ALICE.key, reason=Reason.UNKNOWN_PROFILE)
        arguments = (python(document), ALICE.key, forger.profile)
        error = refused(accept, *arguments, reason=Reason.INVALID_FIELD)
        assert "key_purpose" in str(error)


def test_a_kind_that_is_no_text() -> None:
    for kind in (None, 1, ["key_rotation"]):
        body = {**EVIDENCE.body(0, None, ALICE), "payload_kind": kind}
        document = EVIDENCE.seal(body, ALICE)
        refused(accept, python(document), ALICE.key, reason=Reason.UNKNOWN_PROFILE)


def test_nobody_on_the_way_breaks_a_chain() -> None:
    """No change of the members that only the link covers is taken under the same content."""
    first, second = EVIDENCE.chain(2)
    honest = accept(python(first), ALICE.key)
    assert accept(python(second), ALICE.key).previous == honest.link_hash
    for name in ("signer_key_id", "key_purpose", "algorithm"):
        for text in ("receipt-signing", "contract-activation-signing", "Ed25519", "00" * 32, ""):
            if text == first["signature"][name]:
                continue
            changed = with_member(first, f"signature.{name}", text)
            finding = check_chain([python(changed)], [GivenKey(ALICE.key)], PROFILES, "pipelock-v2")
            assert finding.outcome is not Outcome.VALID, (name, text)


def test_each_plan_has_a_chain() -> None:
    """AERF links the receipts of one plan: an agent with two plans has two first receipts."""
    one, other = "0f2c7e10-1111-4222-8333-444444444444", "0f2c7e10-1111-4222-8333-555555555555"
    first = accept(python(AERF.receipt()), ALICE.key)
    body = {**AERF.body(0, None, ALICE), "plan_id": other}
    second = accept(python(AERF.seal(body, ALICE)), ALICE.key)
    assert (first.agent, first.stream, second.agent, second.stream) == (
        "claims-agent",
        one,
        "claims-agent",
        other,
    )
    assert first.chain != second.chain
    assert first.previous is second.previous is None
