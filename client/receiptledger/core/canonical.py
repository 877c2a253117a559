"""Strict JSON in, RFC 8785 (JCS) bytes out.

Rules of this module:

* A document is one JSON object in UTF-8 with no byte order mark, nothing after it, no member twice
  in one object, no `__proto__` member (JavaScript drops it silently, so such a member could be
  added after signing), no lone surrogate, no number that is not a finite IEEE double.
* Size, depth and member count are bounded before anything recurses.
* Integers beyond 2^53-1 become the IEEE double they stand for: RFC 8785 section 3.2.2.3 serialises
  numbers as ECMAScript does, which has no others.
* One fast path: a document that orjson, where it provably writes JCS, writes back byte for byte is
  canonical, hence has no duplicate members and no other spelling. All else takes the strict path.

orjson's sorted output is JCS for values without (1) floats of integer value, (2) floats nearer to
zero than 1e-5, (3) integers beyond 2^53-1, (4) member names with a character from U+E000 on, where
RFC 8785 sorts by UTF-16 code units (section 3.2.3) and orjson by code points.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import orjson
import rfc8785

from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import Reason, ReceiptError

__all__ = ["DEFAULT_LIMITS", "Limits", "Parsed", "canonicalize", "describe", "parse", "shown"]

MAX_DEPTH = 128  # the strict path recurses in Python: far below the interpreter's limit of 1,000
_SORTED = orjson.OPT_SORT_KEYS
_LEAST_PLAIN_FLOAT = 1e-5
_ABOVE_FRACTIONS = 2.0**53  # every double from here on has an integer value
_FIRST_ODD_CHARACTER = "\ue000"
_FORBIDDEN_NAME = "__proto__"

# A JSON string, or what is left of the document when one does not end. Possessive, so linear.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?(?:"|\Z)', re.DOTALL)
_EMPTY = re.compile(rb"[\[{][ \t\r\n]*[\]}]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_OPENERS = b"[{"


@dataclass(frozen=True)
class Limits:
    """Bounds on one document.

    Attributes:
        max_bytes: length of the document.
        max_depth: objects and arrays inside each other, the outermost counted; at most 128.
        max_members: members of all objects plus elements of all arrays.

    Raises:
        ValueError: for a bound that is not positive, or a depth that is not safe to recurse.
    """

    max_bytes: int = 65_536
    max_depth: int = 32
    max_members: int = 1_024

    def __post_init__(self) -> None:
        if min(self.max_bytes, self.max_depth, self.max_members) < 1:
            raise ValueError("limits must be positive")
        if self.max_depth > MAX_DEPTH:
            raise ValueError(f"max_depth must be at most {MAX_DEPTH}, got {self.max_depth}")


DEFAULT_LIMITS: Final = Limits()


@dataclass(slots=True, eq=False)
class Parsed:
    """A document that passed every rule. Not to be changed.

    Attributes:
        value: the object; integers beyond 2^53-1 are floats in it.
        canonical: JCS bytes of `value`; the very object that was parsed when it was canonical.
        plain: whether orjson writes JCS for `value` and so for every part of it.
        raw: the document as it came.
    """

    value: dict[str, Any]
    canonical: bytes
    plain: bool
    raw: bytes

    def canonical_part(self, part: dict[str, Any]) -> bytes:
        """JCS bytes of an object made of members of `value`."""
        return orjson.dumps(part, option=_SORTED) if self.plain else _canonicalize_any(part)


def parse(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Parsed:
    """Read one foreign document strictly.

    Args:
        data: the bytes as received.
        limits: bounds on size, depth and members.

    Raises:
        ReceiptError: TOO_LARGE for a document outside the limits, MALFORMED for one that breaks
            another rule of this module. Nothing else.
    """
    size = len(data)
    if size > limits.max_bytes:
        raise _too_large("the document is too long", f"{limits.max_bytes} bytes", f"{size} bytes")
    try:
        value = orjson.loads(data)  # refuses more than 1,024 levels before it recurses
    except ValueError:
        return _parse_strictly(data, limits)
    if (
        type(value) is dict
        and 0 <= _count_plain(value, limits.max_depth, data.isascii()) <= limits.max_members
        and orjson.dumps(value, option=_SORTED) == data
    ):
        return Parsed(value, data, True, data)
    return _parse_strictly(data, limits)


def canonicalize(value: object) -> bytes:
    """RFC 8785 bytes of a value made of dict, list, tuple, str, int, float, bool and None.

    Raises:
        ReceiptError: MALFORMED for a value outside I-JSON (RFC 7493): another type, a member name
            that is not text, a lone surrogate, NaN or an infinity; TOO_LARGE for one so deep that
            it exhausts the interpreter.
    """
    try:
        if _count_plain(value, MAX_DEPTH, False) >= 0:
            return orjson.dumps(value, option=_SORTED)
    except TypeError:
        pass  # not plain: the general way says what is wrong with it, if anything
    return _canonicalize_any(value)


def shown(name: str) -> str:
    """A foreign name as it may stand in a message: quoted, escaped, at most 80 characters."""
    text = ascii(name[:80])
    return text if len(text) <= 80 else text[:77] + "..."


def _count_plain(value: object, depth: int, ascii_names: bool) -> int:
    """Members and elements in a container for which orjson's sorted output is JCS, else -1.

    Args:
        value: what may be a container; anything else gives -1.
        depth: levels that are allowed, this one included; more gives -1, and so does `__proto__`.
        ascii_names: whether all member names are known to be ASCII text.

    Raises:
        TypeError: for a member name that is not text.
    """
    if type(value) is dict:
        if _FORBIDDEN_NAME in value:
            return -1
        if not ascii_names:
            names = "".join(value)
            if not names.isascii() and max(names) >= _FIRST_ODD_CHARACTER:
                return -1
        items: Any = value.values()
    elif type(value) is list:
        items = value
    else:
        return -1
    if depth == 0:
        return -1
    count = len(items)
    for item in items:
        kind = type(item)
        if kind is str or item is None or kind is bool:
            continue
        if kind is int:
            if not -SAFE_INTEGER <= item <= SAFE_INTEGER:
                return -1
        elif kind is float:
            # NaN and the infinities fail the comparison.
            if not _LEAST_PLAIN_FLOAT <= abs(item) < _ABOVE_FRACTIONS or item.is_integer():
                return -1
        else:
            inner = _count_plain(item, depth - 1, ascii_names)
            if inner < 0:
                return -1
            count += inner
    return count


def _canonicalize_any(value: object) -> bytes:
    try:
        return rfc8785.dumps(_to_ijson(value))
    except RecursionError:
        raise _too_large("the value is too deep", f"{MAX_DEPTH} levels", "more") from None


def _to_ijson(value: object) -> Any:
    """The value as rfc8785 takes it: only built-in types, big integers as the doubles they mean.

    PyPI rfc8785 refuses integers beyond 2^53-1 (its issue 46), even those it wrote itself.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _checked_text(value)
    if isinstance(value, int):
        if -SAFE_INTEGER <= value <= SAFE_INTEGER:
            return int(value)
        try:
            return float(value)
        except OverflowError:
            raise _not_finite(f"an integer of {value.bit_length()} bits") from None
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _not_finite(str(float(value)))
        return float(value)
    if isinstance(value, dict):
        return {_checked_name(name): _to_ijson(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_ijson(item) for item in value]
    raise _malformed("the value has no JSON form", "a JSON type", type(value).__name__)


def _checked_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _malformed(
            "text holds half of a surrogate pair", "Unicode text", f"U+{ord(text[error.start]):04X}"
        ) from None
    return str.__str__(text)


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise _malformed("a member name is not text", "text", type(name).__name__)
    return _checked_text(name)


# The strict path. It also names what is wrong with a document the fast path could not take.


def _parse_strictly(data: bytes, limits: Limits) -> Parsed:
    _check_structure(data, limits)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed("not UTF-8", "UTF-8", f"a bad byte at offset {error.start}") from None
    if text.startswith("\ufeff"):
        raise _malformed("starts with a byte order mark", "a JSON object", "U+FEFF")
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _malformed(
            "not one JSON document", "strict JSON", f"{error.msg} at character {error.pos}"
        ) from None
    if type(value) is not dict:
        raise _malformed("not a JSON object", "an object", describe(value))
    if _count_plain(value, limits.max_depth, False) >= 0:
        try:
            return Parsed(value, orjson.dumps(value, option=_SORTED), True, data)
        except TypeError:
            pass  # a lone surrogate: the general way says so
    return Parsed(value, _canonicalize_any(value), False, data)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are all different and harmless; json alone keeps the last of twins."""
    members = dict(pairs)
    if len(members) != len(pairs):
        (twin, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise _malformed("a member appears twice", "different names", shown(twin))
    if _FORBIDDEN_NAME in members:
        raise _malformed("a member name is forbidden", "no __proto__ member", "one")
    return members


def _integer(digits: str) -> int | float:
    # int() refuses more than 4,300 digits with ValueError; 17 characters hold every safe integer.
    if len(digits) <= 17:
        number = int(digits)
        if -SAFE_INTEGER <= number <= SAFE_INTEGER:
            return number
    return _float(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _not_finite(f"a number of {len(digits)} characters")
    return number


def _constant(name: str) -> NoReturn:
    raise _not_finite(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def _check_structure(data: bytes, limits: Limits) -> None:
    """Exact depth and member count of a JSON document, without recursion and in linear time.

    For bytes that are no JSON document the numbers mean little, but the parsers that come next are
    safe: neither can open more containers inside each other than there are openers here.
    """
    skeleton = _STRING.sub(b"0", data)
    depth = 0
    for bracket in skeleton.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in _OPENERS else -1
        if depth > limits.max_depth:
            raise _too_large("nested too deeply", f"{limits.max_depth} levels", "more")
    opened = skeleton.count(b"{") + skeleton.count(b"[")
    members = skeleton.count(b",") + opened - len(_EMPTY.findall(skeleton))
    if members > limits.max_members:
        raise _too_large("too many members", f"{limits.max_members} members", str(members))


def describe(value: object) -> str:
    """What came, without its content: the JSON type, and the number or the length."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"[:80]
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    return "an object" if isinstance(value, dict) else "an array"


def _malformed(message: str, want: str, got: str) -> ReceiptError:
    return ReceiptError(Reason.MALFORMED, message, want=want, got=got)


def _not_finite(got: str) -> ReceiptError:
    return _malformed("a number is no finite IEEE double", "a finite number", got)


def _too_large(message: str, most: str, got: str) -> ReceiptError:
    return ReceiptError(Reason.TOO_LARGE, message, want=f"at most {most}", got=got)
