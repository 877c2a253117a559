"""Readers of single members of a receipt, compiled once for each receipt format.

Each `*_reader` takes the path of a member and returns a function from the parsed receipt to the
member's value. A reader refuses everything but the one form it knows, with INVALID_FIELD and the
member's path; it tells what came by type, length, number or name, never by content. The common case
of each runs in a few built-in calls: a ledger reads every receipt through these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from receiptledger.core.canonical import canonicalize, describe, shown
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "MAX_NAME_BYTES",
    "MISSING",
    "Check",
    "Reader",
    "algorithm_reader",
    "constant",
    "equal_check",
    "forbid_check",
    "getter",
    "invalid",
    "name_reader",
    "optional_name_reader",
    "sequence_reader",
    "stream_reader",
    "time_reader",
    "unix_time_reader",
]

T = TypeVar("T")
Reader = Callable[[dict[str, Any]], T]
Check = Callable[[dict[str, Any]], None]

MAX_NAME_BYTES = 256  # agent, stream and key ids, in UTF-8
MAX_TIME_CHARACTERS = 64
MISSING: Final = object()  # what a getter returns where there is no such member

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")  # Unicode category Cc
_TIME = re.compile(  # RFC 3339 section 5.6; second 60 is a leap second
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = 1_000_000  # in a second
_YEAR_10000 = 253_402_300_800 * _MICROSECONDS
_SHORT_MONTHS = ("04", "06", "09", "11")


def getter(path: str) -> Reader[Any]:
    """The member at a dotted path, or MISSING, also where the path leads through no object."""
    *before, name = path.split(".")
    if not before:
        return lambda value: value.get(name, MISSING)
    if len(before) == 1:  # as below, in one call
        first = before[0]

        def get_second(value: dict[str, Any]) -> Any:
            inner = value.get(first)
            return inner.get(name, MISSING) if type(inner) is dict else MISSING

        return get_second
    outer = getter(".".join(before))

    def get(value: dict[str, Any]) -> Any:
        inner = outer(value)
        return inner.get(name, MISSING) if type(inner) is dict else MISSING

    return get


def constant(result: T) -> Reader[T]:
    """A reader for what the format does not have."""
    return lambda _: result


def invalid(path: str, want: str, value: object, message: str | None = None) -> ReceiptError:
    """The refusal of one member; `value` is described, not shown."""
    return ReceiptError(
        Reason.INVALID_FIELD,
        message or f"member {path} has the wrong form",
        want=want,
        got="no such member" if value is MISSING else describe(value),
    )


# Names: agent, stream, key id.


def name_reader(path: str) -> Reader[str]:
    """Text of 1 to 256 UTF-8 bytes without control characters."""
    get = getter(path)

    def read(value: dict[str, Any]) -> str:
        return _checked_name(path, get(value), 1)

    return read


def optional_name_reader(path: str) -> Reader[str | None]:
    """As `name_reader`, or None where the member is null or not there."""
    get = getter(path)

    def read(value: dict[str, Any]) -> str | None:
        name = get(value)
        return None if name is None or name is MISSING else _checked_name(path, name, 1)

    return read


def stream_reader(paths: Sequence[str]) -> Reader[str]:
    """Which of an agent's streams: "" without paths, the text at one, a JCS array of several.

    At most 256 UTF-8 bytes in all, no control characters. The array keeps ("a", "b,c") and
    ("a,b", "c") apart. Null, or no such member, is "".
    """
    if not paths:
        return constant("")
    parts = [(path, getter(path)) for path in paths]
    if len(parts) == 1:
        path, get = parts[0]
        return lambda value: _stream_name(path, get(value))
    label = " with ".join(paths)

    def read(value: dict[str, Any]) -> str:
        names = [_stream_name(path, get(value)) for path, get in parts]
        return _checked_name(label, canonicalize(names).decode("utf-8"), 0)

    return read


def _stream_name(path: str, name: object) -> str:
    return "" if name is None or name is MISSING else _checked_name(path, name, 0)


def _checked_name(path: str, name: object, least: int) -> str:
    if type(name) is str:
        if name.isascii() and name.isprintable() and least <= len(name) <= MAX_NAME_BYTES:
            return name
        size = len(name.encode("utf-8"))
        if least <= size <= MAX_NAME_BYTES and not _CONTROLS.search(name):
            return name
        want = f"{least}..{MAX_NAME_BYTES} bytes without control characters"
        message = f"member {path} has the wrong form"
        came = f"{size} bytes" + (", some control characters" if _CONTROLS.search(name) else "")
        raise ReceiptError(Reason.INVALID_FIELD, message, want=want, got=came)
    raise invalid(path, "text", name)


# Numbers and times.


def sequence_reader(path: str) -> Reader[int]:
    """An integer 0..2^53-1; 1.0 and true are none."""
    get = getter(path)

    def read(value: dict[str, Any]) -> int:
        number = get(value)
        if type(number) is int and 0 <= number <= SAFE_INTEGER:
            return number
        raise invalid(path, f"an integer 0..{SAFE_INTEGER}", number)

    return read


def time_reader(path: str) -> Reader[str]:
    """A date and time in RFC 3339 form, at most 64 characters. The signer's claim, kept as text."""
    get = getter(path)

    def read(value: dict[str, Any]) -> str:
        text = get(value)
        if (
            type(text) is str
            and len(text) <= MAX_TIME_CHARACTERS
            and _TIME.fullmatch(text)
            and (text[8:10] <= "28" or _day_exists(text))
        ):
            return text
        raise invalid(path, "an RFC 3339 date and time, like 2026-04-25T14:30:00Z", text)

    return read


def unix_time_reader(path: str, unit: int) -> Reader[str]:
    """A number of units since 1970, up to the year 9999, as RFC 3339 text in UTC to the microsecond.

    Args:
        path: of the member.
        unit: in microseconds: 1,000 for milliseconds (an integer then), 1,000,000 for seconds.
    """
    get, whole = getter(path), unit < _MICROSECONDS
    want = "a number of " + ("milliseconds" if whole else "seconds") + " since 1970, before 10000"

    def read(value: dict[str, Any]) -> str:
        number = get(value)
        if type(number) is int or (type(number) is float and not whole):
            micros = round(number * unit)
            if 0 <= micros < _YEAR_10000:
                moment = _EPOCH + timedelta(microseconds=micros)
                return moment.isoformat().replace("+00:00", "Z")
        raise invalid(path, want, number)

    return read


def _day_exists(text: str) -> bool:
    """Whether a month has the day it is given: RFC 3339 section 5.7, leap years of appendix C."""
    year, month, day = int(text[:4]), text[5:7], text[8:10]
    if month == "02":
        return day == "29" and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day != "31" or month not in _SHORT_MONTHS


# Checks that read nothing.


def algorithm_reader(path: str, names: Mapping[str, str]) -> Reader[str]:
    """Our name of the algorithm a receipt names; another one is undecidable here, not good nor bad.

    Args:
        path: of the member.
        names: the format's names -> ours.
    """
    get, want = getter(path), " or ".join(names)

    def read(value: dict[str, Any]) -> str:
        text = get(value)
        if type(text) is not str:
            raise invalid(path, want, text)
        name = names.get(text)
        if name is None:
            raise ReceiptError(
                Reason.UNSUPPORTED_ALGORITHM,
                f"member {path} names an algorithm this ledger cannot check",
                want=want,
                got=shown(text),
            )
        return name

    return read


def forbid_check(path: str) -> Check:
    """A member that must not be there, whatever its value."""
    get = getter(path)

    def check(value: dict[str, Any]) -> None:
        found = get(value)
        if found is not MISSING:
            raise invalid(path, "no such member", found, f"member {path} is forbidden")

    return check


def equal_check(first: str, second: str) -> Check:
    """Two members that must be the same text."""
    get_first, get_second = getter(first), getter(second)

    def check(value: dict[str, Any]) -> None:
        one, other = get_first(value), get_second(value)
        if type(one) is str and one == other:
            return
        for path, came in ((first, one), (second, other)):
            if type(came) is not str:
                raise invalid(path, "text", came)
        raise ReceiptError(
            Reason.INVALID_FIELD,
            f"members {first} and {second} differ",
            want=shown(one),
            got=shown(other),
        )

    return check
