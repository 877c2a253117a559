"""Bilateral receipts from the bytes to the pair: an agent's authorization, a merchant's result."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from receiptledger.core.pairing import Fault, Pairing, pair
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from tests.helpers.forge import raw, sha256_hex
from tests.helpers.reading import PROFILES, accept, bad_signature
from tests.helpers.receipts import ALICE, MALLORY, Agent, base64url, jcs

if TYPE_CHECKING:
    from receiptledger.core.receipt_types import Receipt
    from tests.helpers.receipts import Document

BUYER, SELLER = ALICE, Agent(b"seller".ljust(32, b"."))
KEYS = {"buyer": BUYER.key, "seller": SELLER.key}
NOON = datetime(2026, 5, 16, 12, tzinfo=UTC)


def half(kid: str, signer: Agent, **members: Any) -> Document:
    header = base64url(
        json.dumps({"alg": "EdDSA", "b64": False, "crit": ["b64"], "kid": kid}).encode()
    )
    payload = {
        "receipt_id": f"{kid}-1",
        "agent_id": "did:key:buyer",
        "merchant_id": "did:web:seller",
        **members,
    }
    signed = header.encode() + b"." + jcs(payload)
    signature = {
        "format": "detached-jws-jcs-ed25519",
        "protected": header,
        "sig": base64url(signer.sign(signed)),
    }
    return {"payload": payload, "signature": signature}


def authorization(number: int = 1, previous: str | None = None) -> Document:
    return half(
        "buyer",
        BUYER,
        sequence=number,
        previousReceiptHash=previous,
        issued_at=f"2026-05-16T12:00:{number:02}Z",
    )


def named(document: Document) -> str:
    return "sha256:" + sha256_hex(jcs(document["payload"]))


def result(
    of: Document, number: int = 2, signer: Agent = SELLER, ref: str | None = None, **members: Any
) -> Document:
    return half(
        "seller",
        signer,
        sequence=number,
        previousReceiptHash=named(of),
        authorization_receipt_hash=named(of) if ref is None else ref,
        issued_at=f"2026-05-16T12:00:{number:02}Z",
        **members,
    )


def accepted(document: Document) -> tuple[Receipt, bytes]:
    """By the key its header names, as whoever knows both signers would."""
    header = document["signature"]["protected"]
    kid = "buyer" if header == authorization()["signature"]["protected"] else "seller"
    return accept(raw(document), KEYS[kid]), KEYS[kid]


def paired(*documents: Document, **options: Any) -> Pairing:
    found = [accepted(document) for document in documents]
    keys = {receipt.raw: key for receipt, key in found}
    return pair(
        [receipt for receipt, _ in found],
        signer=lambda receipt: keys[receipt.raw],
        two_signers={"tap-bilateral"},
        **options,
    )


def test_two_halves_by_two_signers() -> None:
    first = authorization()
    found = paired(first, result(first))
    (one,) = found.pairs
    assert (one.seconds, one.bilateral) == (1.0, True)
    assert (found.unpaired, found.findings) == ([], [])
    assert one.intent.pair is not None
    assert one.intent.pair.id == named(first)


def test_the_list_is_one_chain_of_two_keys() -> None:
    first = authorization()
    keys = [GivenKey(BUYER.key), GivenKey(SELLER.key)]
    raws = [raw(first), raw(result(first))]
    assert check_chain(raws, keys, PROFILES).outcome is Outcome.VALID
    assert check_chain(raws, keys[:1], PROFILES).outcome is Outcome.INVALID


def test_an_authorization_without_a_result() -> None:
    first = authorization()
    second = authorization(3, named(result(first)))
    late = NOON + timedelta(minutes=10)
    found = paired(first, result(first), second, now=late, limit=timedelta(minutes=5))
    assert [(one.intent.sequence, one.overdue) for one in found.unpaired] == [(3, True)]
    assert found.overdue == found.unpaired
    early = paired(second, now=late, limit=timedelta(minutes=10))
    assert [one.overdue for one in early.unpaired] == [False]


def test_a_result_nobody_authorized() -> None:
    first = authorization()
    found = paired(first, result(first, ref="sha256:" + "0" * 64))
    assert [one.fault for one in found.findings] == [Fault.NO_INTENT]
    assert len(found.unpaired) == 1


def test_two_results_for_one_authorization() -> None:
    first = authorization()
    found = paired(first, result(first), result(first, 3, outcome="again"))
    assert [one.fault for one in found.findings] == [Fault.TWO_OUTCOMES]


def test_a_result_the_buyer_signed_for_the_seller() -> None:
    first = authorization()
    own = result(first, signer=BUYER)
    bad_signature(accept, raw(own), SELLER.key)
    receipts = [accept(raw(document), BUYER.key) for document in (first, own)]
    found = pair(receipts, signer=lambda _: BUYER.key, two_signers={"tap-bilateral"})
    assert [one.fault for one in found.findings] == [Fault.ONE_SIGNER]
    assert found.pairs[0].bilateral is False
    assert pair(receipts).pairs[0].bilateral is None


def test_the_reference_is_signed() -> None:
    first = authorization()
    document = result(first)
    document["payload"]["authorization_receipt_hash"] = named(document)
    bad_signature(accept, raw(document), SELLER.key)
    bad_signature(accept, raw(result(first, signer=MALLORY)), SELLER.key)
