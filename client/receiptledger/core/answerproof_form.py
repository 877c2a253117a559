"""The members of an answerproof receipt, as data, and a receipt brought to the form they were signed in.

answerproof reads a receipt into typed objects and signs what it writes from these: a member that is left
out stands there with its default, and a score that is an integer with `.0`. So a JSON tool that writes
1.0 as 1 breaks the signature of the bytes, although every value is the same. :func:`completed` undoes
that where the type of a member says how; :func:`explain_signature` tries it.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.algorithms import check_signature
from receiptledger.core.canonical import MAX_DEPTH, Limits, describe, parse, shown
from receiptledger.core.carried import exact
from receiptledger.core.dialect import Source, encode
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from receiptledger.core.receipt import Receipt

__all__ = ["MAX_KEYS", "MAX_RESPELLED", "completed", "evidence_of", "explain_signature"]

MAX_KEYS = 8  # that are tried on a respelled receipt
MAX_RESPELLED = 6  # integers of free form that may have been floats: each doubles what is tried

_REQUIRED: Final = object()
_SCHEMA_VERSION = "1.0"

# Member -> (its type, its default). A type is a word of `_TYPES`, an object's members, or a list of one.
_Members = dict[str, tuple[Any, Any]]
_SOURCE: Final[_Members] = {
    "id": ("text", _REQUIRED),
    "content_hash": ("text", _REQUIRED),
    "score": ("number or null", None),
    "metadata": ("object", {}),
}
_CITATION: Final[_Members] = {
    "source_id": ("text", _REQUIRED),
    "quote": ("text", _REQUIRED),
    "method": ("text", "ngram-overlap"),
    "score": ("number", _REQUIRED),
}
_CLAIM: Final[_Members] = {
    "text": ("text", _REQUIRED),
    "supported": ("boolean", _REQUIRED),
    "source_ids": (["text"], []),
    "support_score": ("number", 0.0),
}
_GROUNDING: Final[_Members] = {
    "claims": ([_CLAIM], []),
    "unsupported_claims": (["text"], []),
    "grounding_score": ("number", 0.0),
}
_PRINCIPAL: Final[_Members] = {
    "id": ("text", _REQUIRED),
    "permissions": (["text"], []),
    "tenant": ("text or null", None),
}
_MODEL: Final[_Members] = {
    "name": ("text", _REQUIRED),
    "provider": ("text or null", None),
    "params": ("object", {}),
}
_PAYLOAD: Final[_Members] = {
    "schema_version": ("text", _SCHEMA_VERSION),
    "receipt_id": ("text", _REQUIRED),
    "created_at": ("text", _REQUIRED),
    "query": ("text", _REQUIRED),
    "answer": ("text", _REQUIRED),
    "principal": (_PRINCIPAL, _REQUIRED),
    "model": (_MODEL, _REQUIRED),
    "sources": ([_SOURCE], []),
    "cited_source_ids": (["text"], []),
    "merkle_root": ("text", _REQUIRED),
    "citations": ([_CITATION], []),
    "grounding": (_GROUNDING, {}),
}
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "text": (str,),
    "text or null": (str, type(None)),
    "boolean": (bool,),
    "object": (dict,),
    "number": (int, float),
    "number or null": (int, float, type(None)),
}
_PLAIN_NAME: Final = re.compile(r"[a-z_]{1,40}")


def evidence_of(receipt: Receipt) -> dict[str, Any]:
    """The payload of a receipt with every member there, scores as floats.

    Args:
        receipt: read as answerproof.

    Raises:
        ReceiptError: INVALID_FIELD, as of :func:`completed`.
    """
    return completed(parse(receipt.raw, _as_large_as(receipt)).value.get("payload"))


def completed(payload: object) -> dict[str, Any]:
    """A payload in the form answerproof signs: defaults written out, scores as floats.

    Args:
        payload: out of a parsed document; nothing in it is changed.

    Raises:
        ReceiptError: INVALID_FIELD with the path of a member that is unknown, missing or of another
            type.
    """
    found: dict[str, Any] = _typed(payload, _PAYLOAD, "payload")
    if found["schema_version"] != _SCHEMA_VERSION:
        raise _wrong("payload.schema_version", _SCHEMA_VERSION, found["schema_version"])
    return found


def explain_signature(receipt: Receipt, keys: Sequence[bytes]) -> str | None:
    """Words for a signature that holds once numbers are spelled as answerproof spelled them, else None.

    It makes nothing valid: the bytes at hand are not those that were signed.

    Args:
        receipt: read as answerproof, its signature does not hold.
        keys: public keys it may be signed with; the first eight are tried.
    """
    parsed = parse(receipt.raw, _as_large_as(receipt))
    source = Source(parsed, receipt.raw)
    try:
        payload = completed(exact(receipt.raw).get("payload"))
    except ReceiptError:
        return None
    for _ in _respelled(payload):
        message = encode("py", payload, source)
        if message == receipt.signing_input:
            continue
        for key in keys[:MAX_KEYS]:
            try:
                check_signature(receipt.signature, message, key, receipt.algorithm)
            except ReceiptError:
                continue
            return (
                "the signature holds over the same values in answerproof's own spelling (1.0, not 1; "
                "members left out written with their defaults): a JSON tool rewrote the receipt; ask "
                "for it as it was made"
            )
    return None


def _as_large_as(receipt: Receipt) -> Limits:
    """What the receipt was parsed with is not known here, but it passed."""
    size = len(receipt.raw)
    return Limits(max_bytes=size, max_depth=MAX_DEPTH, max_members=size)


def _typed(value: Any, kind: Any, path: str) -> Any:
    if isinstance(kind, dict):
        return _object(value, kind, path)
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise _wrong(path, "an array", value)
        return [_typed(item, kind[0], f"{path}[{at}]") for at, item in enumerate(value)]
    if not _is(value, kind):
        raise _wrong(path, kind, value)
    return float(value) if kind.startswith("number") and value is not None else value


def _is(value: object, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _object(value: Any, members: _Members, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    for name in value:
        if name not in members:
            label = name if _PLAIN_NAME.fullmatch(name) else shown(name)
            raise ReceiptError(
                Reason.INVALID_FIELD,
                f"member {path}.{label} is not of this format",
                want="only " + ", ".join(members),
                got="another",
            )
    found = {}
    for name, (kind, default) in members.items():
        inner = value.get(name, default)
        if inner is _REQUIRED:
            raise ReceiptError(
                Reason.INVALID_FIELD,
                f"member {path}.{name} is missing",
                want=kind if isinstance(kind, str) else "an object or array",
                got="no such member",
            )
        found[name] = _typed(inner, kind, f"{path}.{name}")
    return found


def _wrong(path: str, want: str, value: object) -> ReceiptError:
    return ReceiptError(
        Reason.INVALID_FIELD, f"member {path} has the wrong form", want=want, got=describe(value)
    )


# Members of free form: whether 1 was 1.0 cannot be seen, so both are tried.


def _respelled(payload: dict[str, Any]) -> Iterator[None]:
    """Turn the payload's free integers into floats: none of them, all, and each choice of a few."""
    places = list(_free_integers([payload["model"]["params"], *_metadata(payload)]))
    numbers = [holder[at] for holder, at in places]
    choices: Any = product((False, True), repeat=len(places))
    if len(places) > MAX_RESPELLED:
        choices = ([False] * len(places), [True] * len(places))
    for choice in choices:
        for (holder, at), number, real in zip(places, numbers, choice, strict=True):
            holder[at] = float(number) if real else number
        yield


def _metadata(payload: dict[str, Any]) -> list[Any]:
    return [source["metadata"] for source in payload["sources"]]


def _free_integers(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    """(object or array, name or place) of each integer in some values."""
    waiting = values
    while waiting:
        holder = waiting.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for at, item in items:
            if isinstance(item, (dict, list)):
                waiting.append(item)
            elif isinstance(item, int) and not isinstance(item, bool):
                yield holder, at
