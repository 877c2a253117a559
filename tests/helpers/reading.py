"""Reading and refusing receipts by the built-in formats, for the tests of receipts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import Profiles
from receiptledger.core.receipt import Receipt, authenticate, readings
from tests.helpers.receipts import jcs

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILES = Profiles.builtin()


def read(document: Any, profile: str | None = None) -> Receipt:
    return next(readings(jcs(document), PROFILES, profile=profile))


def accept(raw: bytes, key: bytes, profile: str | None = None) -> Receipt:
    candidates = readings(raw, PROFILES, profile=profile)
    return authenticate(next(candidates), candidates, key)


def refused(call: Callable[..., object], *arguments: Any, reason: Reason) -> ReceiptError:
    with pytest.raises(ReceiptError) as caught:
        call(*arguments)
    assert caught.value.reason is reason
    return caught.value


def bad_signature(call: Callable[..., object], *arguments: Any) -> ReceiptError:
    return refused(call, *arguments, reason=Reason.BAD_SIGNATURE)


def without(document: dict[str, Any], path: str) -> dict[str, Any]:
    return with_member(document, path, None, remove=True)


def with_member(
    document: dict[str, Any], path: str, value: Any, *, remove: bool = False
) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    *way, name = path.split(".")
    node = copy
    for step in way:
        node = node[step]
    node.pop(name, None)
    if not remove:
        node[name] = value
    return copy
