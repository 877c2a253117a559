"""Receipts by themselves: three outcomes, chains in order, and that no inner key is trusted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import receipt_check
from receiptledger.core.canonical import DEFAULT_LIMITS
from receiptledger.core.errors import Reason
from receiptledger.core.profile import Profiles
from receiptledger.core.profiles import read_sources
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from tests.helpers import forge, forge_envelopes, forge_flat
from tests.helpers.cases import named
from tests.helpers.reading import with_member, without
from tests.helpers.receipts import (
    ALICE,
    MALLORY,
    base64url,
    farley,
    jcs,
    lesson18,
    link,
    pretty,
)

if TYPE_CHECKING:
    from receiptledger.core.receipt_check import ChainFinding

PROFILES = Profiles.builtin()
KEY = (GivenKey(ALICE.key),)


def check(
    *documents: Any, keys: tuple[GivenKey, ...] = KEY, profile: str | None = None
) -> ChainFinding:
    raws = [item if isinstance(item, bytes) else jcs(item) for item in documents]
    return check_chain(raws, keys, PROFILES, profile)


def reasons(found: ChainFinding) -> list[Reason | None]:
    return [one.reason for one in found.findings]


def chain(length: int, **members: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for number in range(length):
        made.append(lesson18(number, link(made[-1]) if made else None, **members))
    return made


# One receipt.


@pytest.mark.parametrize(
    ("document", "profile"),
    named(
        {
            "the current rule": (lesson18(), "ms-lesson18"),
            "the older rule": (lesson18(prehash=True), "ms-lesson18-prehash"),
            "the draft": (farley(), "draft-farley-04"),
            "another spelling": (pretty(lesson18()), "ms-lesson18"),
        }
    ),
)
def test_a_good_receipt(document: Any, profile: str) -> None:
    found = check(document)
    (one,) = found.findings
    assert (found.outcome, found.reason) == (Outcome.VALID, None)
    assert (one.outcome, one.reason, one.diagnosis, one.name) == (
        Outcome.VALID,
        None,
        None,
        "receipt 1",
    )
    assert one.receipt is not None
    assert one.receipt.profile == profile
    assert one.detail == f"Ed25519 holds under {base64url(ALICE.key)}"


def test_members_outside_the_signed_bytes_are_listed() -> None:
    (one,) = check(lesson18()).findings
    assert one.receipt is not None
    assert one.receipt.unsigned == ("signature.alg", "signature.public_key")


@pytest.mark.parametrize(
    ("document", "reason"),
    named(
        {
            "a changed member": ({**lesson18(), "tool_name": "pay"}, Reason.BAD_SIGNATURE),
            "signed by another": (lesson18(signer=MALLORY), Reason.WRONG_KEY),
            "signed by another whose key is not inside": (
                farley(signer=MALLORY),
                Reason.BAD_SIGNATURE,
            ),
            "an inner key exchanged": (
                with_member(lesson18(), "signature.public_key", base64url(MALLORY.key)),
                Reason.BAD_SIGNATURE,
            ),
            "no JSON": (b"{", Reason.MALFORMED),
            "nothing": (b"", Reason.MALFORMED),
            "a member twice": (b'{"type":"a","type":"b"}', Reason.MALFORMED),
            "too long": (b" " * (DEFAULT_LIMITS.max_bytes + 1), Reason.TOO_LARGE),
            "another format": ({"hello": 1}, Reason.UNKNOWN_PROFILE),
            "a member missing": (without(lesson18(), "agent_id"), Reason.INVALID_FIELD),
        }
    ),
)
def test_an_invalid_receipt(document: Any, reason: Reason) -> None:
    found = check(document)
    assert (found.outcome, found.reason) == (Outcome.INVALID, reason)
    assert found.findings[0].detail
    assert not found.findings[0].detail.startswith(reason)


@pytest.mark.parametrize(
    ("document", "keys"),
    named(
        {
            "no key": (lesson18(), ()),
            "a key for another key id": (farley(), (GivenKey(ALICE.key, "sb:issuer:other"),)),
            "no key, and a bad signature": ({**lesson18(), "tool_name": "pay"}, ()),
        }
    ),
)
def test_without_a_key_nothing_is_decided(document: Any, keys: tuple[GivenKey, ...]) -> None:
    found = check(document, keys=keys)
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)
    assert "no Ed25519 key was given" in found.findings[0].detail


def test_the_key_inside_makes_nothing_valid_and_is_said() -> None:
    (good,) = check(lesson18(signer=MALLORY), keys=()).findings
    (bad,) = check({**lesson18(), "tool_name": "pay"}, keys=()).findings
    assert good.outcome is bad.outcome is Outcome.UNDECIDABLE
    assert good.notes[0].startswith(
        f"the signature fits the key inside the receipt, {base64url(MALLORY.key)}"
    )
    assert bad.notes[0].startswith("the signature does not even fit the key inside the receipt")


def test_another_algorithm_is_undecidable() -> None:
    found = check(with_member(lesson18(), "signature.alg", "RS256"))
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNSUPPORTED_ALGORITHM)


def test_keys_are_chosen_by_key_id() -> None:
    kid = "sb:issuer:6XRv8ZfPuxt1"
    right, other = GivenKey(ALICE.key, kid), GivenKey(MALLORY.key, kid)
    assert check(farley(), keys=(right,)).outcome is Outcome.VALID
    assert check(farley(), keys=(other, right)).outcome is Outcome.VALID  # an id may be used twice
    assert check(farley(), keys=(GivenKey(ALICE.key, "another"), other)).reason is (
        Reason.BAD_SIGNATURE
    )


def test_a_receipt_without_a_key_id_is_tried_under_every_key() -> None:
    assert check(lesson18(), keys=(GivenKey(ALICE.key, "kid-1"),)).outcome is Outcome.VALID


def test_several_keys_that_fit_none_are_told_as_such() -> None:
    keys = (GivenKey(MALLORY.key), GivenKey(bytes(32)))
    changed = {**lesson18(), "tool_name": "pay"}
    (one,) = check(changed, keys=keys).findings
    assert one.detail == (
        "the signature holds under none of the keys given, read as ms-lesson18 or "
        "ms-lesson18-prehash"
    )


def test_a_format_known_by_name_only_is_undecidable() -> None:
    found = check({"@version": "EP-RECEIPT-v1", "payload": {}, "signature": {}})
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_PROFILE)
    assert "EMILIA EP-RECEIPT-v1" in found.findings[0].detail


def test_nothing_is_never_valid() -> None:
    assert check().outcome is Outcome.UNDECIDABLE


# The named format.


def test_the_named_format_is_the_only_one() -> None:
    old = lesson18(prehash=True)
    assert check(old, profile="ms-lesson18-prehash").outcome is Outcome.VALID
    found = check(old, profile="ms-lesson18")
    assert found.reason is Reason.BAD_SIGNATURE
    assert found.findings[0].diagnosis == (
        "it is signed as ms-lesson18-prehash signs, not as ms-lesson18"
    )
    assert check(old, profile="draft-farley-04").reason is Reason.INVALID_FIELD
    assert check(old, profile="nonsense").reason is Reason.UNKNOWN_PROFILE


def test_a_receipt_of_another_format_than_named_says_whose_it_is() -> None:
    (one,) = check(lesson18(), profile="draft-farley-04").findings
    assert one.diagnosis == "it is signed as ms-lesson18 signs"


# Several receipts.


def test_a_good_chain() -> None:
    found = check(*chain(4))
    assert found.outcome is Outcome.VALID
    assert found.notes == [
        "that no receipt follows the last one cannot be seen from receipts alone"
    ]
    assert [one.name for one in found.findings] == [f"receipt {n}" for n in (1, 2, 3, 4)]


def test_a_cut_tail_cannot_be_seen() -> None:
    assert check(*chain(4)[:3]).outcome is Outcome.VALID


def forked() -> list[dict[str, Any]]:
    first, second, third = chain(3)
    return [first, second, lesson18(1, link(first), tool_name="pay"), third]


def broken() -> list[dict[str, Any]]:
    first, second, _ = chain(3)
    return [first, lesson18(1, link(first), tool_name="pay"), lesson18(2, link(second))]


FIRST, SECOND, THIRD = chain(3)


@pytest.mark.parametrize(
    ("documents", "expected"),
    named(
        {
            "one missing": ([FIRST, THIRD], [None, Reason.GAP]),
            "the first missing": ([SECOND, THIRD], [Reason.GAP, None]),
            "two branches": (forked(), [None, None, Reason.FORK, None]),
            "one edited and signed again": (broken(), [None, None, Reason.BROKEN_LINK]),
            "a number that stands still": (
                [FIRST, lesson18(0, link(FIRST))],
                [None, Reason.FORK],
            ),
            "a number that jumps": (
                [FIRST, lesson18(7, link(FIRST))],
                [None, Reason.WRONG_SEQUENCE],
            ),
            "a first number that is another": (
                [lesson18(5), lesson18(6, link(lesson18(5)))],
                [Reason.WRONG_SEQUENCE, None],
            ),
            "another agent's spliced in": (
                [FIRST, lesson18(1, link(FIRST), agent_id="other")],
                [None, Reason.BROKEN_LINK],
            ),
            "one changed": (
                [FIRST, {**SECOND, "tool_name": "pay"}, THIRD],
                [None, Reason.BAD_SIGNATURE, Reason.GAP],
            ),
            "one that cannot be read": (
                [FIRST, b"{", THIRD],
                [None, Reason.MALFORMED, Reason.GAP],
            ),
        }
    ),
)
def test_a_chain_that_is_not_whole(documents: list[Any], expected: list[Reason | None]) -> None:
    found = check(*documents)
    assert reasons(found) == expected
    assert found.outcome is Outcome.INVALID
    assert found.reason is next(reason for reason in expected if reason is not None)


def test_the_missing_start_is_named() -> None:
    found = check(SECOND, THIRD)
    assert found.findings[0].detail.startswith("the receipts before it are missing: ")
    assert found.findings[1].notes == [
        "it follows the receipt before it, which has no place in the chain"
    ]


def test_a_single_receipt_may_be_from_anywhere() -> None:
    found = check(SECOND)
    assert found.outcome is Outcome.VALID
    assert found.findings[0].notes == [
        "it is not the first of its chain, and the receipts before it were not given"
    ]
    assert found.notes == []


def test_a_gap_is_told_once() -> None:
    documents = chain(6)
    found = check(*documents[:2], *documents[3:])
    assert reasons(found) == [None, None, Reason.GAP, None, None]


def test_the_same_receipt_again_is_no_fault() -> None:
    found = check(FIRST, FIRST, pretty(SECOND), SECOND, THIRD)
    assert found.outcome is Outcome.VALID
    assert found.findings[1].notes == ["the same receipt as number 1 of its chain, again"]
    assert found.findings[3].notes == ["the same receipt as number 2 of its chain, again"]


def test_out_of_order_is_a_gap() -> None:
    assert reasons(check(FIRST, THIRD, SECOND)) == [None, Reason.GAP, None]


def test_a_forged_receipt_makes_no_fork_of_an_honest_one() -> None:
    """A fork is evidence against the holder of a key, so only signed receipts take places."""
    forged = lesson18(1, link(FIRST), signer=MALLORY, tool_name="pay")
    assert reasons(check(FIRST, forged, SECOND, THIRD)) == [None, Reason.WRONG_KEY, None, None]


def test_one_receipt_under_an_unknown_key_leaves_the_chain_undecided() -> None:
    first = farley()
    second = farley(link(first))
    keys = (GivenKey(ALICE.key, "sb:issuer:6XRv8ZfPuxt1"),)
    other = sign_other_kid(link(first))
    assert check(first, second, keys=keys).outcome is Outcome.VALID
    found = check(first, other, keys=keys)
    assert [one.outcome for one in found.findings] == [Outcome.VALID, Outcome.UNDECIDABLE]
    assert (found.outcome, found.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)


def sign_other_kid(previous: str) -> dict[str, Any]:
    return farley(previous, issuer_id="sb:issuer:other", signer=MALLORY)


def test_links_are_looked_at_without_a_key_too() -> None:
    found = check(FIRST, SECOND, keys=())
    assert [len(one.notes) for one in found.findings] == [1, 1]  # on the inner key
    found = check(FIRST, THIRD, keys=())
    assert found.findings[1].notes[1:] == ["it does not link to the receipt before it either"]
    assert found.outcome is Outcome.UNDECIDABLE


def test_the_worst_finding_is_the_chain_s() -> None:
    unsupported = with_member(SECOND, "signature.alg", "RS256")
    found = check(FIRST, unsupported, b"{")
    assert [one.outcome for one in found.findings] == [
        Outcome.VALID,
        Outcome.UNDECIDABLE,
        Outcome.INVALID,
    ]
    assert (found.outcome, found.reason) == (Outcome.INVALID, Reason.MALFORMED)


def test_names_are_the_caller_s() -> None:
    found = check_chain([jcs(FIRST), jcs(SECOND)], KEY, PROFILES, names=["a.json", "b.json"])
    assert [one.name for one in found.findings] == ["a.json", "b.json"]


def test_a_finding_fails_for_the_first_reason() -> None:
    (one,) = check({**lesson18(), "tool_name": "pay"}).findings
    one.fail(Reason.GAP, "later")
    assert one.reason is Reason.BAD_SIGNATURE
    (one,) = check(lesson18()).findings
    one.fail(Reason.GAP, "now")
    assert (one.outcome, one.reason, one.detail) == (Outcome.INVALID, Reason.GAP, "now")


def test_only_so_many_failures_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """One diagnosis may cost as much as a thousand signatures, and a file may hold many receipts."""
    asked = 0

    def count(*_: object) -> None:
        nonlocal asked
        asked += 1

    monkeypatch.setattr(receipt_check, "diagnose_signature", count)
    changed = {**lesson18(), "tool_name": "pay"}
    found = check(*[changed] * (receipt_check.MAX_DIAGNOSES + 4))
    assert set(reasons(found)) == {Reason.BAD_SIGNATURE}
    assert asked == receipt_check.MAX_DIAGNOSES


# Formats without a chain of their own.


def test_the_order_of_unlinked_receipts_is_the_ledger_s() -> None:
    raws = [forge.raw(one) for one in forge_flat.V2.chain(3)]
    for order in (raws, raws[::-1], raws[1:], [raws[0], raws[0], raws[2]]):
        found = check(*order)
        assert found.outcome is Outcome.VALID
        assert found.notes == [
            "draft-farley-v2 has no chain of its own: order and completeness are what a ledger adds"
        ]
    assert check(raws[0]).notes == found.notes
    assert found.findings[1].notes == ["the same receipt as number 1 of its chain, again"]


def test_unlinked_receipts_beside_a_chain() -> None:
    found = check(FIRST, forge.raw(forge_flat.V2.receipt()), SECOND)
    assert found.outcome is Outcome.VALID
    assert len(found.notes) == 2


def test_an_algorithm_of_one_of_the_formats_it_may_be_of() -> None:
    """The preferred format refuses a member; the one it is of names an algorithm of its own."""
    document = with_member(forge_envelopes.DRAFT_02.receipt(), "signature.alg", "RS256")
    for odd in (document, with_member(document, "payload.previousReceiptHash", "ab" * 32)):
        found = check(forge.raw(odd))
        assert (found.outcome, found.reason) == (
            Outcome.UNDECIDABLE,
            Reason.UNSUPPORTED_ALGORITHM,
        )


# Two formats that only the link tells apart: the one that fits the whole list is what it follows.

DRAFT = dict(read_sources())["draft-farley-04.toml"]
BY_PAYLOAD = re.sub(
    r"(?m)^previous = .*$",
    'previous = { path = "payload.previousReceiptHash", of = { base = "payload", drop = [], set = [], '
    'nulls = "keep", keep_nulls = [], canon = "jcs", domain = "" }, encoding = "sha256:hex", '
    'genesis = ["omitted"] }',
    DRAFT.replace('"draft-farley-04"', '"by-payload"'),
)


def payload_link(document: dict[str, Any]) -> str:
    return link(document["payload"])


def test_the_format_whose_links_fit_the_whole_list_is_taken() -> None:
    profiles = Profiles.with_folder([("mine.toml", BY_PAYLOAD)])
    first = farley()
    second = farley(payload_link(first), tool_name="b")
    third = farley(payload_link(second), tool_name="c")
    raws = [jcs(first), jcs(second), jcs(third)]
    found = check_chain(raws, KEY, profiles)
    assert found.outcome is Outcome.VALID
    assert {one.receipt.profile for one in found.findings if one.receipt} == {"by-payload"}
    alone = check_chain(raws[:1], KEY, profiles)
    assert [one.receipt.profile for one in alone.findings if one.receipt] == ["draft-farley-04"]
    gap = check_chain([raws[0], raws[2]], KEY, profiles)
    assert (gap.outcome, gap.reason) == (Outcome.INVALID, Reason.GAP)
    stranger = jcs(farley(payload_link(second), tool_name="c", signer=MALLORY))
    mixed = check_chain([*raws[:2], stranger], KEY, profiles)
    assert mixed.findings[2].reason is Reason.BAD_SIGNATURE


def test_a_spelling_the_signature_does_not_cover_is_noted() -> None:
    raw = jcs(farley(amount=1)).replace(b'"amount":1,', b'"amount":1.0,')
    found = check(raw)
    assert found.outcome is Outcome.VALID
    words = "an integer written with a fraction or an exponent at 'payload.amount'"
    assert found.findings[0].notes == [f"read differently by some parsers: {words}"]


# Halves of one deal are by two signers, each with a chain of its own.

PAIRED = re.sub(
    r"(?m)^pair = .*$",
    'pair = { role = "either", id = "link", ref = "payload.intent" }',
    DRAFT.replace('"draft-farley-04"', '"paired"'),
)


def test_an_outcome_may_be_of_another_agent_when_it_links() -> None:
    profiles = Profiles.with_folder([("mine.toml", PAIRED)])
    intent = farley(tool_name="buy")
    outcome = farley(link(intent), signer=MALLORY, issuer_id="shop", intent=link(intent))
    astray = farley("sha256:" + "ab" * 32, signer=MALLORY, issuer_id="shop", intent=link(intent))
    keys = (GivenKey(ALICE.key), GivenKey(MALLORY.key))

    def checked(*documents: dict[str, Any]) -> ChainFinding:
        return check_chain([jcs(one) for one in documents], keys, profiles, "paired")

    found = checked(intent, outcome)
    assert found.outcome is Outcome.VALID
    assert found.findings[1].notes == ["it is of 'shop', and links to the receipt before it"]
    assert reasons(checked(intent, astray)) == [None, Reason.BROKEN_LINK]
