"""Receipt formats that are known by name only: recognised by a mark of their own, not read.

A receipt of one of them is undecidable here and not invalid: it says what it is, and the rule to check
it by is not in this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.fields import getter

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["known_by_name"]


def _says(path: str, prefix: str) -> Callable[[dict[str, Any]], bool]:
    get = getter(path)

    def test(value: dict[str, Any]) -> bool:
        text = get(value)
        return type(text) is str and text.startswith(prefix)

    return test


def _has(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: all(name in value for name in names)


_MARKS: Final[tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...]] = (
    ("EMILIA EP-RECEIPT-v1", _says("@version", "EP-RECEIPT-v")),
    ("agent-toolprint", _says("payloadType", "application/vnd.agent-toolprint+json")),
    ("sb-runtime (scopeblind.receipt.v1)", _says("payload.type", "scopeblind.receipt.v")),
    ("AgDR (projectair)", _has("step_id", "content_hash", "signer_key", "prev_hash")),
    ("agent-action-capsule", _has("capsule_id", "key_id", "signature")),
)


def known_by_name(value: dict[str, Any]) -> str | None:
    """The name of the format a parsed document says it is of, when it is one of these."""
    for name, test in _MARKS:
        if test(value):
            return name
    return None
