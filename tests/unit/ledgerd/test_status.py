"""Reasons on the wire: one code each, rich details, and the closed list of the protocol."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from ledgerd.admission import Answer
from ledgerd.ingest import BatchAnswer
from ledgerd.rpc import convert
from ledgerd.rpc.status import CODES, RETRY_SECONDS, to_status
from ledgerd.store.interface import LogState
from receiptledger.core.chain import Head
from receiptledger.core.errors import EvidenceError, Reason, ReceiptError, ServiceError
from receiptledger.v1 import ingest_pb2, proof_pb2, types_pb2
from tests.helpers.mini_log import World

CODE_OF = {
    Reason.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.NOT_SEALED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.DRAINING: grpc.StatusCode.UNAVAILABLE,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.UNANCHORED: grpc.StatusCode.UNAVAILABLE,
    Reason.NOT_CONFIGURED: grpc.StatusCode.FAILED_PRECONDITION,
}


def details(status: grpc.Status) -> status_pb2.Status:
    ((name, data),) = status.trailing_metadata
    assert name == "grpc-status-details-bin"
    return status_pb2.Status.FromString(data)


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_has_its_code_and_says_what_it_is(reason: Reason) -> None:
    status = to_status(ServiceError(reason, "words", want="this", got="that"))
    code = CODE_OF.get(reason, grpc.StatusCode.INTERNAL)
    assert status.code is code
    rich = details(status)
    assert (rich.code, rich.message) == (code.value[0], status.details)
    assert rich.message == f"{reason.value}: words; expected this; got that"
    info = error_details_pb2.ErrorInfo()
    assert rich.details[0].Unpack(info)
    assert (info.reason, info.domain) == (reason.name, "receiptledger")
    assert dict(info.metadata) == {"want": "this", "got": "that"}
    retry = error_details_pb2.RetryInfo()
    assert len(rich.details) == 1 + (reason in RETRY_SECONDS)
    if reason in RETRY_SECONDS:
        assert rich.details[1].Unpack(retry)
        assert retry.retry_delay.ToNanoseconds() == RETRY_SECONDS[reason] * 1e9


def test_what_is_not_known_is_left_out() -> None:
    for error in (
        ServiceError(Reason.NOT_FOUND, "words"),
        EvidenceError(Reason.BAD_PROOF, "words", want="this"),
        ReceiptError(Reason.GAP, "words", got="that"),
    ):
        info = error_details_pb2.ErrorInfo()
        details(to_status(error)).details[0].Unpack(info)
        expected = {"want": error.want, "got": error.got}
        assert dict(info.metadata) == {k: v for k, v in expected.items() if v is not None}


def test_the_tables_are_what_the_protocol_says() -> None:
    assert CODES == CODE_OF
    assert set(RETRY_SECONDS) == {
        Reason.NOT_SEALED,
        Reason.OVERLOADED,
        Reason.DRAINING,
        Reason.UNAVAILABLE,
        Reason.UNANCHORED,
    }


def test_the_protocols_reasons_are_ours_in_name_and_number() -> None:
    names = [name.removeprefix("REASON_").lower() for name in types_pb2.Reason.keys()]  # noqa: SIM118
    assert names[0] == "unspecified"
    assert names[1:] == [reason.value for reason in Reason]
    assert sorted(types_pb2.Reason.values()) == list(range(len(names)))


# Conversions with no daemon around them


def test_a_batch_as_it_came() -> None:
    request = ingest_pb2.AppendRequest(
        batch_id=2**64 - 1,
        receipts=[b"a", b""],
        profile="ms-lesson18",
        ack_level=ingest_pb2.ACK_LEVEL_SEALED,
        key_hints=[bytes(32)],
    )
    batch = convert.batch_in(request)
    assert (batch.batch_id, list(batch.receipts)) == (2**64 - 1, [b"a", b""])
    assert (batch.profile, batch.sealed, batch.problem) == ("ms-lesson18", True, None)
    assert batch.key_hints == (bytes(32),)
    plain = convert.batch_in(ingest_pb2.AppendRequest())
    assert (plain.profile, plain.sealed, plain.problem) == (None, False, None)


def test_answers_of_a_sealed_batch_carry_a_leaf_where_there_is_one() -> None:
    asked: list[tuple[bytes, int]] = []

    def leaf_index(chain: bytes, position: int) -> int | None:
        asked.append((chain, position))
        return None if position == 7 else 40 + position

    answers = [
        Answer(None, False, 1, b"h1", b"chain"),
        Answer(None, True, 7, b"h2", b"chain"),
        Answer(Reason.FORK, False, 3, b"h3", b"chain", b"there", "words"),
        Answer(Reason.MALFORMED, False, 0, b"h4", None),
        Answer(None, False, 2, b"h5", None),
    ]
    state = LogState(50, bytes(32), b"note", 60)
    response = convert.answer_out(BatchAnswer(9, answers, state), leaf_index)
    assert (response.batch_id, response.checkpoint) == (9, b"note")
    indexes = [a.leaf_index if a.HasField("leaf_index") else None for a in response.answers]
    assert indexes == [41, None, None, None, None]
    assert asked == [(b"chain", 1), (b"chain", 7)]
    fork = response.answers[2]
    assert (fork.outcome, fork.reason) == (types_pb2.OUTCOME_REJECTED, types_pb2.REASON_FORK)
    assert (fork.position, fork.expected_hash, fork.detail) == (3, b"there", "words")


def test_a_leaf_at_index_zero_is_a_leaf() -> None:
    state = LogState(1, bytes(32), b"note", 1)
    answer = BatchAnswer(1, [Answer(None, False, 0, b"h", b"c")], state)
    response = convert.answer_out(answer, lambda chain, position: 0)
    assert response.answers[0].HasField("leaf_index")


def test_the_first_receipts_sequence_is_not_taken_for_none() -> None:
    zero = convert.head_out(Head(0, bytes(32), 0))
    assert zero.HasField("sequence")
    assert not convert.head_out(Head(0, bytes(32), None)).HasField("sequence")
    assert convert.head_out(None) == types_pb2.ChainHead()


def test_a_bundle_without_a_receipt_before_leaves_it_unset() -> None:
    world = World()
    first = convert.bundle_out(world.bundle(5))
    assert not first.HasField("previous")
    assert len(first.consistency) > 0
    second = convert.bundle_out(world.log.bundle(world.second, 6))
    assert second.HasField("previous")
    assert list(second.consistency) == []
    assert isinstance(second, proof_pb2.GetProofResponse)
