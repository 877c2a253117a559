r"""The canonical forms receipts are signed in: RFC 8785, and what signers use in its place.

* `jcs`: RFC 8785.
* `py`: Python's `json.dumps(sort_keys=True, separators=(",", ":"), ensure_ascii=False)`. Not RFC 8785
  for floats of integer value (`1.0`), exponents (`1e-05`), integers beyond 2^53-1 and names beyond
  the Basic Multilingual Plane, which it sorts by code point.
* `py-ascii`: the same with everything but printable ASCII as `\uXXXX`.
* `jcs-ascii-nfc`: names in RFC 8785 order as they came, names and texts then in Unicode's NFC with
  everything but printable ASCII as `\uXXXX`; integers in full, floats as ECMAScript writes them
  but with an exponent below 1e-4 and from 1e16 on.
* `js-object`: `JSON.stringify` of an object whose members were inserted in sorted order. A JavaScript
  object lists names that are array indices ("0", "9", "10") first and by number.
* `verbatim-number`: RFC 8785 with numbers as they are written in the receipt and names in the order
  of their UTF-8 bytes.
* `as-carried`: the bytes of the receipt without the white space outside strings: order, escapes and
  numbers as they came.

One value has one form in each dialect, or is refused: nothing is dropped or merged silently.
"""

from __future__ import annotations

import json
import re
import unicodedata
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import rfc8785

from receiptledger.core import carried
from receiptledger.core.canonical import canonicalize, describe, shown
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from receiptledger.core.canonical import Parsed

__all__ = ["DIALECTS", "EXACT_DIALECTS", "Source", "encode"]

DIALECTS: Final[tuple[str, ...]] = (
    "jcs",
    "py",
    "py-ascii",
    "jcs-ascii-nfc",
    "js-object",
    "verbatim-number",
    "as-carried",
)
# Those that see what `Parsed.value` has lost; their parts are taken from `Source.exact`.
EXACT_DIALECTS: Final = frozenset(
    {"py", "py-ascii", "jcs-ascii-nfc", "verbatim-number", "as-carried"}
)

_DELETE = "\x7f"
_NOT_PRINTABLE: Final = re.compile("[^ -~]+")
_FORBIDDEN_NAME = "__proto__"
_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_INDICES = 2**32 - 1  # one more than the largest array index of ECMAScript
_ABOVE_WHOLE_FLOATS = 1e16


class Source:
    """One received document, for the dialects that need more of it than `Parsed.value`.

    Attributes:
        parsed: the document, or the part of it at `base`, as it was parsed.
        raw: the document's bytes, which `canonical.parse` accepted.
        base: names of the members that lead to the part this source is about; () for all of it.
    """

    __slots__ = ("_exact", "base", "parsed", "raw")

    def __init__(self, parsed: Parsed, raw: bytes, base: tuple[str, ...] = ()) -> None:
        self.parsed = parsed
        self.raw = raw
        self.base = base
        self._exact: Any = None

    @property
    def exact(self) -> Any:
        """The part at `base`, its members in the order they came and every number a `Lexeme`.

        Raises:
            ReceiptError: MALFORMED when there is nothing at `base`.
        """
        if self._exact is None:
            self._exact = carried.exact(carried.find(self.raw, self.base))
        return self._exact

    def carried(self, path: tuple[str, ...]) -> bytes:
        """A member's bytes as they came, without the white space outside strings.

        Args:
            path: names of the members that lead to it from `base`; () for `base` itself.

        Raises:
            ReceiptError: MALFORMED when there is no such member.
        """
        return carried.compact(carried.find(self.raw, self.base + path))


def encode(dialect: str, part: Any, source: Source) -> bytes:
    """The bytes of a value in one of `DIALECTS`.

    Args:
        dialect: one of `DIALECTS`.
        part: what to write: `source.exact` or made of its members for `EXACT_DIALECTS`, and for
            `as-carried` an object or array of it that nothing was changed in; `parsed.value` or made
            of its members for the others.
        source: the document the part is from.

    Raises:
        ReceiptError: MALFORMED for what the dialect has no form for; TOO_LARGE for a value so deep
            that it exhausts the interpreter.
        ValueError: for an unknown dialect.
    """
    try:
        write = _ENCODERS[dialect]
    except KeyError:
        known = ", ".join(DIALECTS)
        raise ValueError(f"expected a dialect of {known}, got {shown(dialect)}") from None
    try:
        return write(part, source)
    except UnicodeEncodeError:
        raise _malformed(
            "text holds half of a surrogate pair", "Unicode text", "half of one"
        ) from None
    except RecursionError:
        raise ReceiptError(
            Reason.TOO_LARGE, "the value is too deep", want="fewer levels", got="more"
        ) from None


# Python's own serialiser. A Lexeme is an int or a float, which it writes as it would the plain one.


def _python_encoder(*, ascii_only: bool) -> Callable[[Any, Source], bytes]:
    encoder = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )

    def write(part: Any, _: Source) -> bytes:
        try:
            text = encoder.encode(part)
        except (TypeError, ValueError):
            raise _malformed("the value has no JSON form", "JSON types", "another") from None
        return (_ascii(text) if ascii_only else text).encode("utf-8")

    return write


def _ascii(text: str) -> str:
    """A JSON text with all but printable ASCII escaped; that is found in its strings only."""
    if text.isascii() and _DELETE not in text:
        return text
    text.encode("utf-8")  # half of a surrogate pair would come out as an escape
    return _NOT_PRINTABLE.sub(lambda run: encode_basestring_ascii(run[0])[1:-1], text)


# The others: one walk, and for each dialect how it writes names, texts and numbers.


class _Rules(NamedTuple):
    """How a dialect differs from the others.

    Attributes:
        order: the names of an object as the dialect lists them.
        text: a JSON string of a text.
        number: an int or a float that is no bool.
    """

    order: Callable[[dict[str, Any]], Iterable[str]]
    text: Callable[[str], str]
    number: Callable[[int | float], str]


def _write(value: Any, rules: _Rules) -> str:
    if isinstance(value, str):
        return rules.text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return rules.number(value)
    if isinstance(value, dict):
        text = rules.text
        members = [f"{text(name)}:{_write(value[name], rules)}" for name in rules.order(value)]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_write(item, rules) for item in value]) + "]"
    raise _malformed("the value has no JSON form", "a JSON type", type(value).__name__)


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


def _javascript_order(members: dict[str, Any]) -> list[str]:
    if _FORBIDDEN_NAME in members:  # assigning it sets the prototype: the member would be lost
        raise _malformed("a member name is forbidden", "no __proto__ member", "one")
    indices = [name for name in members if _ARRAY_INDEX.fullmatch(name) and int(name) < _INDICES]
    others = members.keys() - indices
    return sorted(indices, key=int) + sorted(others, key=_utf16)


def _javascript_number(number: float) -> str:
    if isinstance(number, int) and -SAFE_INTEGER <= number <= SAFE_INTEGER:
        return int.__repr__(number)
    try:
        return rfc8785.dumps(float(number)).decode("ascii")
    except (OverflowError, rfc8785.FloatDomainError):
        raise _malformed("a number is no finite IEEE double", "a finite number", "none") from None


def _normalised_order(members: dict[str, Any]) -> list[str]:
    if len({unicodedata.normalize("NFC", name) for name in members}) != len(members):
        want, got = "names that differ in NFC", "two that do not"
        raise _malformed("two member names become one", want, got)
    return sorted(members, key=_utf16)


def _normalised_text(text: str) -> str:
    return _ascii(encode_basestring(unicodedata.normalize("NFC", text)))


def _shortest_number(number: float) -> str:
    if isinstance(number, int):
        return int.__repr__(number)
    if number != number or number in (float("inf"), float("-inf")):
        raise _malformed("a number is no finite IEEE double", "a finite number", "none")
    if number.is_integer() and abs(number) < _ABOVE_WHOLE_FLOATS:
        return str(int(number))
    mantissa, e, exponent = float.__repr__(number).partition("e")
    return mantissa + e + (str(int(exponent)) if e else "")


def _verbatim_number(number: float) -> str:
    if isinstance(number, carried.Lexeme):
        return number.text
    want, got = "a number of Source.exact", "one that says no more how it was written"
    raise _malformed("the number has no form of its own", want, got)


_JAVASCRIPT: Final = _Rules(_javascript_order, encode_basestring, _javascript_number)
_NORMALISED: Final = _Rules(_normalised_order, _normalised_text, _shortest_number)
_VERBATIM: Final = _Rules(sorted, encode_basestring, _verbatim_number)


def _encoder(rules: _Rules) -> Callable[[Any, Source], bytes]:
    return lambda part, _: _write(part, rules).encode("utf-8")


def _carried(part: Any, source: Source) -> bytes:
    path = _path_of(part, source.exact)
    if path is None:
        want, got = "an object or array of Source.exact, unchanged", describe(part)
        raise _malformed("bytes as carried exist only for what came so", want, got)
    return source.carried(path)


def _path_of(part: Any, whole: Any) -> tuple[str, ...] | None:
    """Where in a document an object or array is: the very one, since equal ones may be written apart.

    Linear in the document's members; through objects only.
    """
    if not isinstance(part, (dict, list)):
        return None
    waiting: list[tuple[Any, tuple[str, ...]]] = [(whole, ())]
    while waiting:
        value, path = waiting.pop()
        if value is part:
            return path
        if isinstance(value, dict):
            waiting += [(item, (*path, name)) for name, item in value.items()]
    return None


_ENCODERS: Final[dict[str, Callable[[Any, Source], bytes]]] = {
    "jcs": lambda part, _: canonicalize(part),
    "py": _python_encoder(ascii_only=False),
    "py-ascii": _python_encoder(ascii_only=True),
    "jcs-ascii-nfc": _encoder(_NORMALISED),
    "js-object": _encoder(_JAVASCRIPT),
    "verbatim-number": _encoder(_VERBATIM),
    "as-carried": _carried,
}


def _malformed(message: str, want: str, got: str) -> ReceiptError:
    return ReceiptError(Reason.MALFORMED, message, want=want, got=got)
