"""What a bundle's verdict says beside pass and fail: the rule that would fit, and odd spellings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.bundle import Member
from receiptledger.core.errors import Reason
from receiptledger.core.verdict import Status
from receiptledger.core.verify import Trust, verify_bundle
from tests.helpers.forge import python, python_ascii, sha256_hex
from tests.helpers.mini_log import AGENT, World
from tests.helpers.receipts import ALICE, jcs, sign_farley

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.verdict import Check, Verdict
    from tests.helpers.mini_log import Sealed


@pytest.fixture
def world() -> World:
    return World()


def check(verdict: Verdict, name: str) -> Check:
    return next(one for one in verdict.checks if one.name == name)


def verify(world: World, sealed: Sealed, position: int) -> Verdict:
    data = world.log.bundle(sealed, position).encode()
    return verify_bundle(data, Trust(world.trust.log_keys))


def test_a_signature_by_a_sibling_rule_is_named(world: World) -> None:
    sealed = world.log.add_segment([AGENT.receipt(0, None, note="x")], world.key)
    head = replace(sealed.head, profile="ms-lesson18-prehash")
    found = check(verify(world, world.log.replace_head(sealed, head), 0), "signature")
    assert (found.status, found.reason) == (Status.FAIL, Reason.BAD_SIGNATURE)
    assert "(it is signed as ms-lesson18 signs, not as ms-lesson18-prehash)" in found.detail


def test_a_signature_that_fits_nothing_is_not_explained(world: World) -> None:
    raw = AGENT.receipt(0, None).replace(b"lookup", b"lookdown")
    sealed = world.log.add_segment([raw], world.key)
    found = check(verify(world, sealed, 0), "signature")
    assert found.status is Status.FAIL
    assert "signs" not in found.detail


def by_payload(payload: dict[str, Any]) -> bytes:
    """What protect-mcp-adk links to."""
    return python(payload)


def by_nobody(payload: dict[str, Any]) -> bytes:
    """What no known format links to."""
    return python_ascii({"payload": payload})


def payload_linked(
    count: int, linked: Callable[[dict[str, Any]], bytes] = by_payload, **members: Any
) -> list[bytes]:
    """Receipts in the draft's envelope with links of another rule."""
    raws: list[bytes] = []
    previous = None
    for number in range(count):
        payload: dict[str, Any] = {
            "type": "protectmcp:decision",
            "issued_at": f"2026-03-15T00:00:{number:02d}Z",
            "issuer_id": "sb:issuer:6XRv8ZfPuxt1",
            **members,
        }
        if previous is not None:
            payload["previousReceiptHash"] = previous
        raws.append(jcs(sign_farley(payload)))
        previous = "sha256:" + sha256_hex(linked(payload))
    return raws


def sealed_as_draft(world: World, raws: list[bytes]) -> Sealed:
    """Sealed as draft-farley-04, whoever did so."""
    first = world.log.add_segment(raws[:1], world.key)
    key = world.log.add_key(first.head.chain, ALICE.key)
    return world.log.add_segment(raws, key)


def test_a_link_by_a_sibling_rule_is_named(world: World) -> None:
    sealed = sealed_as_draft(world, payload_linked(4, session_id="s-1"))
    verdict = verify(world, sealed, 2)
    assert check(verdict, "signature").status is Status.PASS
    found = check(verdict, "chain links")
    assert (found.status, found.reason) == (Status.FAIL, Reason.BROKEN_LINK)
    assert "(this link follows protect-mcp-adk, not draft-farley-04)" in found.detail


def test_a_link_by_no_known_format_is_told_by_its_convention(world: World) -> None:
    raws = payload_linked(4, by_nobody, tool_name="süche")
    found = check(verify(world, sealed_as_draft(world, raws), 2), "chain links")
    assert found.reason is Reason.BROKEN_LINK
    assert (
        "(member 'payload.previousReceiptHash' is the SHA-256 of the receipt without signature, "
        "written as py-ascii, in sha256: and hex, of the receipt before; "
        "draft-farley-04 links by another rule)"
    ) in found.detail


def test_a_link_to_nothing_is_not_explained(world: World) -> None:
    raws = payload_linked(2)
    other = payload_linked(2, tool_name="x")
    sealed = sealed_as_draft(world, [raws[0], other[1], payload_linked(4)[3]])
    found = check(verify(world, sealed, 1), "chain links")
    assert found.reason is Reason.BROKEN_LINK
    assert "(" not in found.detail


def test_a_receipt_before_that_cannot_be_read_is_not_explained(world: World) -> None:
    """The link is refused by the head leaf already, and what is before it is of no use."""
    raws = payload_linked(3, session_id="s-1")
    sealed = sealed_as_draft(world, raws)
    bundle = world.log.bundle(sealed, 2)
    assert bundle.previous is not None
    bundle = replace(bundle, previous=Member(b"{}", bundle.previous.proof))
    sealed = world.log.replace_head(sealed, replace(sealed.head, head=bytes(32)))
    bundle = replace(bundle, head=world.log.leaf(sealed.head_index), checkpoint=world.log.note())
    verdict = verify_bundle(bundle.encode(), Trust(world.trust.log_keys))
    found = check(verdict, "chain links")
    assert found.reason is Reason.BROKEN_LINK
    assert "follows" not in found.detail


def test_what_parsers_read_differently_is_flagged(world: World) -> None:
    """RFC 8785 writes 1.0 as 1, so the signature holds for both."""
    raw = AGENT.receipt(0, None, amount=1)
    odd = raw.replace(b'"amount":1,', b'"amount":1.0,')
    assert odd != raw
    sealed = world.log.add_segment([odd], world.key)
    verdict = verify(world, sealed, 0)
    assert check(verdict, "signature").status is Status.PASS
    found = check(verdict, "unsigned members")
    assert found.detail == (
        "not covered by the signature: signature.alg, signature.public_key; read differently by some "
        "parsers: an integer written with a fraction or an exponent at 'amount'"
    )
