"""Formats that are known by name only: each by its own mark, and no other document."""

from __future__ import annotations

from typing import Any

import pytest

from receiptledger.core.known_formats import known_by_name
from tests.helpers.cases import named


@pytest.mark.parametrize(
    ("value", "name"),
    named(
        {
            "emilia": ({"@version": "EP-RECEIPT-v1"}, "EMILIA EP-RECEIPT-v1"),
            "toolprint": (
                {"payloadType": "application/vnd.agent-toolprint+json"},
                "agent-toolprint",
            ),
            "sb-runtime": (
                {"payload": {"type": "scopeblind.receipt.v1"}},
                "sb-runtime (scopeblind.receipt.v1)",
            ),
            "agdr": (
                dict.fromkeys(("step_id", "content_hash", "signer_key", "prev_hash"), ""),
                "AgDR (projectair)",
            ),
            "capsule": (
                dict.fromkeys(("capsule_id", "key_id", "signature"), ""),
                "agent-action-capsule",
            ),
        }
    ),
)
def test_a_mark_is_known(value: dict[str, Any], name: str) -> None:
    assert known_by_name(value) == name


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"@version": 1},
        {"@version": "EP-OTHER"},
        {"payload": "scopeblind.receipt.v1"},
        {"step_id": "", "content_hash": "", "signer_key": ""},
    ],
)
def test_other_documents_are_not(value: dict[str, Any]) -> None:
    assert known_by_name(value) is None
