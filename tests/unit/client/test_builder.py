"""Receipts of the default format: exact bytes, links, and what is refused before the chain advances."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from receiptledger.builder import MAX_BUILT_BYTES, PROFILE, ReceiptBuilder, value_hash
from receiptledger.core.canonical import parse
from receiptledger.core.chain import Head
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import readings, verify_signature
from receiptledger.signer import SeedSigner

if TYPE_CHECKING:
    from pathlib import Path

SIGNER = SeedSigner(bytes(range(32)))
AT = datetime(2026, 11, 30, 12, 34, 56, 789_000, tzinfo=UTC)


def builder(head: Head | None = None) -> ReceiptBuilder:
    return ReceiptBuilder("agent-1", SIGNER, head)


def build(target: ReceiptBuilder, **changes: object):
    call = {"tool": "search", "args": {"q": "x"}, "result": [1, 2], "policy_id": "default"}
    return target.build(**{**call, "at": AT, **changes})


def read(raw: bytes):
    return next(readings(raw, Profiles.builtin(), profile=PROFILE))


def test_members_and_bytes_are_the_format() -> None:
    raw = build(builder()).raw
    value = json.loads(raw)
    assert rfc8785.dumps(value) == raw
    signature = value.pop("signature")
    assert value == {
        "type": "agent.tool_call.v1",
        "agent_id": "agent-1",
        "tool_name": "search",
        "tool_args_hash": "sha256:" + sha256(b'{"q":"x"}').hexdigest(),
        "result_hash": "sha256:" + sha256(b"[1,2]").hexdigest(),
        "policy_id": "default",
        "timestamp": "2026-11-30T12:34:56Z",
        "sequence": 0,
        "previous_receipt_hash": None,
    }
    assert sorted(signature) == ["alg", "public_key", "sig"]
    assert signature["alg"] == "EdDSA"


def test_deterministic() -> None:
    assert build(builder()).raw == build(builder()).raw


def test_arguments_and_results_never_enter() -> None:
    raw = build(builder(), args={"password": "hunter2"}, result="top secret").raw
    assert b"hunter2" not in raw
    assert b"top secret" not in raw


def test_chain_links_and_verifies() -> None:
    target = builder()
    previous = None
    for position in range(3):
        built = build(target)
        receipt = read(built.raw)
        verify_signature(receipt, SIGNER.public_key)
        assert receipt.agent == target.agent_id == "agent-1"
        assert receipt.key_hint == SIGNER.public_key
        assert receipt.unsigned == () or all(u.startswith("signature") for u in receipt.unsigned)
        assert (built.position, built.sequence, receipt.sequence) == (position,) * 3
        assert receipt.previous == previous
        assert built.receipt_hash == receipt.receipt_hash == receipt.link_hash
        assert receipt.content_hash == receipt.receipt_hash
        previous = receipt.link_hash
        assert target.head == Head(position, receipt.link_hash, position)


def test_resumes_from_a_head() -> None:
    first = builder()
    build(first)
    resumed = builder(first.head)
    assert build(resumed).raw == build(first).raw


def test_position_and_sequence_may_differ() -> None:
    built = build(builder(Head(5, bytes(32), 105)))
    assert (built.position, built.sequence, read(built.raw).sequence) == (6, 106, 106)


def test_a_chain_of_another_format_is_refused() -> None:
    with pytest.raises(ReceiptError, match="another agent id") as info:
        builder(Head(5, bytes(32), None))
    assert info.value.reason is Reason.WRONG_SEQUENCE


def test_a_full_chain_is_refused() -> None:
    with pytest.raises(ReceiptError, match="full"):
        build(builder(Head(1, bytes(32), SAFE_INTEGER)))


BAD_NAMES = ["", "x" * 257, "é" * 129, "a\nb", "a\x7fb", "a\x9fb", "\ud800", 7, None]


@pytest.mark.parametrize("bad", BAD_NAMES, ids=repr)
@pytest.mark.parametrize("member", ["tool", "policy_id"])
def test_bad_names_do_not_advance_the_chain(member: str, bad: object) -> None:
    target = builder()
    with pytest.raises(ReceiptError) as info:
        build(target, **{member: bad})
    assert info.value.reason is Reason.INVALID_FIELD
    assert member in info.value.message
    assert target.head is None


@pytest.mark.parametrize("bad", BAD_NAMES, ids=repr)
def test_bad_agent_ids(bad: object) -> None:
    with pytest.raises(ReceiptError, match="agent_id"):
        ReceiptBuilder(bad, SIGNER)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [float("nan"), object(), {1: 2}, "\ud800", {"a": b"x"}],
    ids=["nan", "object", "number-as-name", "surrogate", "bytes"],
)
@pytest.mark.parametrize("member", ["args", "result"])
def test_values_outside_json_do_not_advance_the_chain(member: str, value: object) -> None:
    target = builder()
    with pytest.raises(ReceiptError) as info:
        build(target, **{member: value})
    assert info.value.reason is Reason.MALFORMED
    assert target.head is None


def test_times() -> None:
    cet = timezone(timedelta(hours=1))
    for at, text in [
        (AT, "2026-11-30T12:34:56Z"),
        (AT.astimezone(cet), "2026-11-30T12:34:56Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "9999-12-31T23:59:59Z"),
    ]:
        raw = build(builder(), at=at).raw
        assert read(raw).time == text
    with pytest.raises(ReceiptError, match="zone"):
        build(builder(), at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(ReceiptError, match="calendar"):
        build(builder(), at=datetime(1, 1, 1, tzinfo=cet))


def test_longest_receipt_fits_the_promise() -> None:
    """The outbox makes room by this bound before a receipt is built."""
    worst = '"' * 256
    target = ReceiptBuilder(worst, SIGNER, Head(SAFE_INTEGER - 1, bytes(32), SAFE_INTEGER - 1))
    assert len(build(target, tool=worst, policy_id=worst).raw) <= MAX_BUILT_BYTES


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    json_values, st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
)
def test_every_receipt_is_canonical_and_accepted(value: object, name: str) -> None:
    try:
        value_hash(value)
    except ReceiptError:  # an integer beyond every double
        return
    raw = (
        ReceiptBuilder(name, SIGNER)
        .build(tool=name, args=value, result=value, policy_id=name, at=AT)
        .raw
    )
    assert parse(raw).canonical == raw
    verify_signature(read(raw), SIGNER.public_key)


def test_continues_the_lessons_own_chain(vectors: Path) -> None:
    """Resumed from each published receipt, the builder makes the next one, but for what it hashed."""
    file = vectors / "receipts" / "ms-lesson18" / "rebuilt" / "v2-direct-03-chain.json"
    published = json.loads(file.read_text())
    published = published if isinstance(published, list) else published["receipts"]
    assert len(published) >= 3
    lesson = SeedSigner(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    head = None
    for position, value in enumerate(published):
        receipt = read(rfc8785.dumps(value))
        verify_signature(receipt, lesson.public_key)
        built = ReceiptBuilder(value["agent_id"], lesson, head).build(
            tool=value["tool_name"],
            args={},
            result={},
            policy_id=value["policy_id"],
            at=datetime.fromisoformat(value["timestamp"]),
        )
        ours = json.loads(built.raw)
        assert ours["signature"].keys() == value["signature"].keys()
        for hashed in ("tool_args_hash", "result_hash", "signature"):
            del ours[hashed], value[hashed]
        assert ours == value
        head = Head(position, receipt.link_hash, receipt.sequence)
