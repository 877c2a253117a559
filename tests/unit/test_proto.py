"""Every message, field, enum value and call of the protocol carries a comment."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from receiptledger.core.errors import Reason
from receiptledger.v1 import anchor_pb2, ingest_pb2, proof_pb2, types_pb2

PROTO = Path(__file__).resolve().parents[2] / "proto" / "receiptledger" / "v1"
DECLARATION = re.compile(
    r"^\s*(message|enum|service|rpc|oneof|(optional |repeated )?[\w.]+ \w+ = \d+;|[A-Z_]+ = \d+;)"
)


@pytest.mark.parametrize("path", sorted(PROTO.glob("*.proto")), ids=lambda path: path.name)
def test_every_declaration_has_a_comment(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    found = 0
    for before, line in pairwise(lines):
        if DECLARATION.match(line):
            found += 1
            assert before.strip().startswith("//"), (
                f"{path.name}: no comment above {line.strip()!r}"
            )
    assert found > 5


def test_the_check_sees_what_the_descriptors_say() -> None:
    """As many declarations are checked as the compiled protocol has, so none slips by its spelling."""
    text = "\n".join(path.read_text("utf-8") for path in PROTO.glob("*.proto"))
    checked = [line for line in text.splitlines() if DECLARATION.match(line)]
    declared = 0
    for module in (types_pb2, ingest_pb2, proof_pb2, anchor_pb2):
        file = module.DESCRIPTOR
        declared += len(file.message_types_by_name) + len(file.enum_types_by_name)
        declared += sum(len(enum.values) for enum in file.enum_types_by_name.values())
        declared += sum(1 + len(service.methods) for service in file.services_by_name.values())
        for message in file.message_types_by_name.values():
            real = [oneof for oneof in message.oneofs if len(oneof.fields) > 1]
            declared += len(message.fields) + len(real)
    assert len(checked) == declared


def test_reason_numbers_follow_the_closed_list() -> None:
    """Wire numbers are for ever: the order of the list is the order of the numbers."""
    numbers = [types_pb2.Reason.Value(f"REASON_{reason.name}") for reason in Reason]
    assert numbers == list(range(1, len(Reason) + 1))
