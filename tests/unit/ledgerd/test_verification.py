"""Form and signature of each receipt of a batch, each by itself."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from ledgerd.keyring import Keyring
from ledgerd.verification import Refused, Verified, verify_batch
from receiptledger.core.canonical import Limits, canonicalize
from receiptledger.core.errors import Reason
from receiptledger.core.profile import Profiles
from tests.helpers.agents import Agent, FarleyAgent, respelled
from tests.helpers.cases import named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AGENT, FARLEY, FORGER = Agent("agent-1", 1), FarleyAgent("issuer-1", 2), Agent("agent-1", 3)
RAWS, BARE = AGENT.receipts(3), FARLEY.receipts(3)
ENROLLED: dict[str, tuple[bytes, ...]] = {
    "agent-1": (AGENT.public_key,),
    "issuer-1": (FARLEY.public_key,),
}


def verify(
    raws: Sequence[bytes],
    *,
    profile: str | None = None,
    hints: Sequence[bytes] = (),
    pinning: bool = True,
    enrolled: dict[str, tuple[bytes, ...]] | None = None,
    pinned: dict[bytes, tuple[bytes, ...]] | None = None,
    limits: Limits | None = None,
) -> list[Verified | Refused]:
    keys = pinned or {}
    return verify_batch(
        raws,
        profile=profile,
        hints=hints,
        profiles=Profiles.builtin(),
        keyring=Keyring(
            pinning=pinning,
            enrolled=enrolled or {},
            pinned=lambda chain: keys.get(chain, ()),
            cache_size=10,
        ),
        limits=limits or Limits(),
    )


def one(raw: bytes, **given: object) -> Verified | Refused:
    (item,) = verify([raw], **given)  # type: ignore[arg-type]
    return item


def key_of(item: Verified | Refused) -> bytes:
    assert isinstance(item, Verified), item
    return item.key


def reason_of(item: Verified | Refused) -> Reason:
    assert isinstance(item, Refused), item
    return item.error.reason


def changed(raw: bytes, **members: object) -> bytes:
    return canonicalize(json.loads(raw) | members)


# Keys


def test_a_new_chain_takes_the_key_in_its_receipt() -> None:
    assert [key_of(item) for item in verify(RAWS)] == [AGENT.public_key] * 3


def test_a_pinned_chain_takes_its_key() -> None:
    assert key_of(one(RAWS[0], pinned={AGENT.chain: (AGENT.public_key,)})) == AGENT.public_key


@pytest.mark.parametrize("pinning", [True, False])
def test_an_enrolled_agent_takes_any_of_its_keys(pinning: bool) -> None:
    other = bytes(31) + b"\x01"
    for keys in ((AGENT.public_key,), (other, AGENT.public_key), (AGENT.public_key, other)):
        enrolled: dict[str, tuple[bytes, ...]] = {"agent-1": keys}
        item = one(RAWS[0], pinning=pinning, enrolled=enrolled)
        assert key_of(item) == AGENT.public_key


def test_another_keys_good_signature_is_told_from_a_bad_one() -> None:
    forged = FORGER.receipts(1)[0]
    for given in (
        {"enrolled": ENROLLED},
        {"enrolled": {"agent-1": (AGENT.public_key, FARLEY.public_key)}},
        {"pinned": {AGENT.chain: (AGENT.public_key,)}},
    ):
        item = one(forged, **given)
        assert reason_of(item) is Reason.WRONG_KEY
        assert isinstance(item, Refused)
        assert item.error.got == FORGER.public_key.hex()
        assert AGENT.public_key.hex() in (item.error.want or "")
        assert reason_of(one(changed(forged, note="x"), **given)) is Reason.BAD_SIGNATURE


def test_a_bad_signature_under_the_chains_own_key() -> None:
    assert reason_of(one(changed(RAWS[0], note="x"), enrolled=ENROLLED)) is Reason.BAD_SIGNATURE
    assert reason_of(one(changed(RAWS[0], note="x"))) is Reason.BAD_SIGNATURE


def test_an_agent_that_is_not_enrolled() -> None:
    assert reason_of(one(RAWS[0], pinning=False)) is Reason.UNKNOWN_KEY


def test_hints_serve_formats_that_carry_no_key() -> None:
    assert reason_of(one(BARE[0])) is Reason.UNKNOWN_KEY
    hints = [bytes(32), AGENT.public_key, FARLEY.public_key]
    assert key_of(one(BARE[0], hints=hints)) == FARLEY.public_key
    assert reason_of(one(BARE[0], hints=hints[:2])) is Reason.BAD_SIGNATURE


def test_hints_have_no_say_once_a_chain_has_a_key() -> None:
    item = one(BARE[0], hints=[FARLEY.public_key], pinned={FARLEY.chain: (AGENT.public_key,)})
    assert reason_of(item) is Reason.BAD_SIGNATURE
    item = one(BARE[0], hints=[FARLEY.public_key], enrolled={"issuer-1": (AGENT.public_key,)})
    assert reason_of(item) is Reason.BAD_SIGNATURE


def test_hints_have_no_say_where_the_receipt_carries_a_key() -> None:
    assert key_of(one(RAWS[0], hints=[FORGER.public_key])) == AGENT.public_key


def test_a_new_chains_key_serves_the_rest_of_its_batch() -> None:
    items = verify([RAWS[0], FORGER.receipts(1)[0], RAWS[1]])
    assert key_of(items[0]) == key_of(items[2]) == AGENT.public_key
    assert reason_of(items[1]) is Reason.WRONG_KEY


def test_a_refused_receipt_does_not_choose_the_key_for_its_batch() -> None:
    items = verify([changed(FORGER.receipts(1)[0], note="x"), RAWS[0]])
    assert reason_of(items[0]) is Reason.BAD_SIGNATURE
    assert key_of(items[1]) == AGENT.public_key


# Form


GOOD = RAWS[0]


@pytest.mark.parametrize(
    ("raw", "reason"),
    named(
        {
            "empty": (b"", Reason.MALFORMED),
            "not JSON": (b"receipt", Reason.MALFORMED),
            "not UTF-8": (b'{"a":"\xff"}', Reason.MALFORMED),
            "a list": (b"[]", Reason.MALFORMED),
            "cut": (GOOD[:-1], Reason.MALFORMED),
            "a member twice": (GOOD[:-1] + b',"type":"x"}', Reason.MALFORMED),
            "too long": (GOOD[:-1] + b',"x":"' + b"x" * 65_536 + b'"}', Reason.TOO_LARGE),
            "too deep": (b'{"a":' * 40 + b"1" + b"}" * 40, Reason.TOO_LARGE),
            "no known format": (b'{"a":1}', Reason.UNKNOWN_PROFILE),
            "a member missing": (GOOD.replace(b'"agent_id"', b'"agent_iD"'), Reason.INVALID_FIELD),
            "a number as text": (changed(GOOD, sequence="0"), Reason.INVALID_FIELD),
            "another algorithm": (
                GOOD.replace(b'"alg":"EdDSA"', b'"alg":"ES256"'),
                Reason.UNSUPPORTED_ALGORITHM,
            ),
            "a changed member": (changed(GOOD, tool_name="x"), Reason.BAD_SIGNATURE),
        }
    ),
)
def test_a_bad_receipt_is_refused_by_itself(raw: bytes, reason: Reason) -> None:
    items = verify([RAWS[0], raw, RAWS[1]], enrolled=ENROLLED)
    assert [type(item) for item in items] == [Verified, Refused, Verified]
    refused = items[1]
    assert isinstance(refused, Refused)
    assert refused.error.reason is reason
    assert refused.receipt_hash == hashlib.sha256(raw).digest()


def test_limits_are_the_callers() -> None:
    assert reason_of(one(GOOD, limits=Limits(max_bytes=len(GOOD) - 1))) is Reason.TOO_LARGE
    assert isinstance(one(GOOD, limits=Limits(max_bytes=len(GOOD))), Verified)


def test_a_named_format_is_the_only_one() -> None:
    assert isinstance(one(GOOD, profile="ms-lesson18"), Verified)
    assert reason_of(one(GOOD, profile="draft-farley-04")) is Reason.INVALID_FIELD
    assert reason_of(one(GOOD, profile="ms-lesson18-prehash")) is Reason.BAD_SIGNATURE
    assert reason_of(one(GOOD, profile="nothing")) is Reason.UNKNOWN_PROFILE


def test_bytes_are_kept_as_they_came() -> None:
    raw = respelled(GOOD)
    item = one(raw)
    assert isinstance(item, Verified)
    assert item.receipt.raw == raw
    assert item.receipt.receipt_hash == hashlib.sha256(raw).digest()


@pytest.mark.parametrize(
    ("file", "profile"), [("v1-prehash", "ms-lesson18-prehash"), ("v2-direct", "ms-lesson18")]
)
def test_the_signature_decides_the_format(vectors: Path, file: str, profile: str) -> None:
    """Lesson 18 has two signing rules under one type; enrolled, pinned or new makes no difference."""
    folder = vectors / "receipts" / "ms-lesson18" / "rebuilt"
    raw = canonicalize(json.loads((folder / f"{file}-01-valid.json").read_bytes()))
    new = one(raw)
    assert isinstance(new, Verified)
    assert new.receipt.profile == profile
    for given in (
        {"enrolled": {new.receipt.agent: (new.key,)}},
        {"enrolled": {new.receipt.agent: (bytes(32), new.key)}},
        {"pinned": {new.receipt.chain: (new.key,)}},
    ):
        item = one(raw, **given)
        assert isinstance(item, Verified)
        assert item.receipt.profile == profile
    attacker = canonicalize(json.loads((folder / f"{file}-04-attacker-resigned.json").read_bytes()))
    known = {new.receipt.agent: (new.key,)}
    assert reason_of(one(attacker, enrolled=known)) is Reason.WRONG_KEY


def test_an_empty_batch_is_no_work() -> None:
    assert verify([]) == []
