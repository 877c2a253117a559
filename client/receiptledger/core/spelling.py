"""What two JSON parsers read differently in one receipt, although the strict parser accepts it.

Twin members, lone surrogates and `__proto__` are refused by `canonical.parse`. These are not, since
honest signers write them, but RFC 8785 does not tell their spellings apart, and so a signature over it
holds for each of them:

* an integer beyond 2^53-1, or a fraction of more digits than an IEEE double keeps: exact in one parser,
  rounded in another;
* minus zero;
* an integer written with a fraction or an exponent, as `1.0`: an integer to some parsers, not to others;
* member names that are array indices: JavaScript lists them first and by number, RFC 8785 by their
  digits.

A format that signs what was carried, or numbers as Python writes them, does tell some spellings apart.
So a receipt is spelled the way RFC 8785 would, and only if the same bytes are signed then, is it flagged.
"""

from __future__ import annotations

import re
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import DEFAULT_LIMITS, parse, shown
from receiptledger.core.carried import FloatLexeme, IntegerLexeme, exact
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import ReceiptError
from receiptledger.core.receipt_read import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt_types import Receipt

__all__ = ["MAX_ODDITIES", "flagged", "oddities"]

MAX_ODDITIES = 8  # of one receipt; the first ones are enough to know
_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_INDICES = 2**32 - 1  # one more than the largest array index of ECMAScript


def flagged(receipt: Receipt, profiles: Profiles) -> tuple[str, ...]:
    """What parsers read differently in a receipt, and its signature holds for all the same.

    Args:
        receipt: one reading.
        profiles: with the format it was read by.
    """
    found = oddities(receipt.raw)
    if not found:
        return ()
    canonical = parse(receipt.raw).canonical
    try:
        profile = profiles.get(receipt.profile)
        other = read(
            canonical, parse(canonical), profile, sha256(canonical).digest(), DEFAULT_LIMITS
        )
    except ReceiptError:  # the format refuses the other spelling, so that nobody can write it
        return ()
    return found if other.signing_input == receipt.signing_input else ()


def oddities(raw: bytes) -> tuple[str, ...]:
    """What parsers read differently in a document, in words with its path; at most eight.

    Args:
        raw: bytes that `canonical.parse` accepted.
    """
    found: list[str] = []
    for path, words in _walk(exact(raw)):
        if len(found) == MAX_ODDITIES:
            found.append("and more")
            break
        found.append(f"{words} at {shown(path) if path else 'the top'}")
    return tuple(found)


def _walk(document: Any) -> Iterator[tuple[str, str]]:
    """(dotted path, words) of each, in the document's order."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            if _reordered(value):
                yield path, "names that are array indices, which JavaScript lists in another order,"
            items = [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
        elif isinstance(value, list):
            items = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
        else:
            words = _number(value)
            if words is not None:
                yield path, words
            continue
        waiting += reversed(items)


def _reordered(members: dict[str, Any]) -> bool:
    """Whether JavaScript lists the members in another order than RFC 8785 sorts them."""
    indices = [name for name in members if _ARRAY_INDEX.fullmatch(name) and int(name) < _INDICES]
    if not indices:
        return False
    ordered = sorted(members, key=lambda name: name.encode("utf-16-be"))
    return ordered[: len(indices)] != sorted(indices, key=int)


def _number(value: Any) -> str | None:
    if isinstance(value, IntegerLexeme):
        if value.text == "-0":
            return "minus zero"
        if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
            return "an integer beyond 2^53-1"
    elif isinstance(value, FloatLexeme):
        if value == 0.0 and value.text.startswith("-"):
            return "minus zero"
        if value.is_integer():
            return "an integer written with a fraction or an exponent"
        if Decimal(value.text) != Decimal(repr(float(value))):
            return "a number of more digits than an IEEE double keeps"
    return None
