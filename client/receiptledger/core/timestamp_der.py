"""A strict DER reader (X.690): one value in, a tree of nodes out, or a refusal with its place.

Rules:

- At most 64 KiB, 32 levels and 4,000 values unless the caller says otherwise: bounded before
  anything is believed.
- Definite lengths in their shortest form, tags below 31, no bytes after the value. BER's other
  spellings are refused, so one value has one reading.
- Not checked: the order of a SET OF. Widely used authorities write certificates and signed attributes
  unsorted; who needs an order checks it.
- Values in the `opaque` places are cut out but not opened: other parsers judge them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_limits import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INTEGER_BYTES,
    MAX_NODES,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

__all__ = [
    "BIT_STRING",
    "BOOLEAN",
    "GENERALIZED_TIME",
    "INTEGER",
    "NULL",
    "OCTET_STRING",
    "OID",
    "SEQUENCE",
    "SET",
    "UTC_TIME",
    "UTF8_STRING",
    "Budget",
    "Members",
    "Node",
    "algorithm",
    "bit_string",
    "boolean",
    "check_object_identifier",
    "check_size",
    "der_error",
    "expect",
    "instant",
    "integer",
    "moment",
    "object_identifier",
    "only",
    "parse",
]

BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OCTET_STRING: Final = 0x04
NULL: Final = 0x05
OID: Final = 0x06
UTF8_STRING: Final = 0x0C
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31

_CONSTRUCTED = 0x20
_ARCS = re.compile(rb"(?:(?:[\x81-\xff][\x80-\xff]*)?[\x00-\x7f])+")  # X.690 section 8.19.2
_TIME = {UTC_TIME: re.compile(rb"[0-9]{12}Z"), GENERALIZED_TIME: re.compile(rb"[0-9]{14}Z")}


def der_error(message: str, *, want: str | None = None, got: str | None = None) -> TimestampError:
    """A refusal of the bytes' form."""
    return TimestampError(Cause.DER, message, want=want, got=got)


class Node:
    """One value: its tag byte, all its bytes, its contents, and the values inside if constructed."""

    __slots__ = ("children", "content", "raw", "tag")

    def __init__(self, tag: int, raw: bytes, content: bytes, children: tuple[Node, ...]) -> None:
        self.tag = tag
        self.raw = raw
        self.content = content
        self.children = children


class Budget:
    """How many values may still be read, where several pieces of DER share one bound."""

    __slots__ = ("left",)

    def __init__(self, nodes: int) -> None:
        self.left = nodes


class _Reader:
    """One pass over the bytes; counts nodes over the whole of it."""

    __slots__ = ("data", "left", "opaque")

    def __init__(self, data: bytes, opaque: AbstractSet[tuple[int, ...]], max_nodes: int) -> None:
        self.data = data
        self.left = max_nodes
        self.opaque = opaque

    def read(self, at: int, end: int, above: tuple[int, ...]) -> list[Node]:
        """The values from `at` to `end`, which lie in values of the tags `above`; at the top, one.

        One call for all values side by side: nearly all of a token's cost is in this loop.
        """
        data = self.data
        left = self.left
        opened = above not in self.opaque
        if len(above) == MAX_DEPTH and at < end:
            raise der_error("too many levels", want=f"at most {MAX_DEPTH}", got=f"offset {at}")
        found: list[Node] = []
        while at < end:
            start = at
            if left == 0:
                raise der_error("too many values", got=f"offset {start}")
            left -= 1
            if start + 2 > end:
                raise der_error("value is cut short", got=f"offset {start}")
            tag = data[start]
            if tag & 0x1F == 0x1F:
                raise der_error("tag number above 30", got=f"offset {start}")
            length = data[start + 1]
            at = start + 2
            if length > 0x7F:
                size = length & 0x7F
                if not 1 <= size <= 4 or at + size > end:
                    raise der_error("length is indefinite or cut short", got=f"offset {start}")
                length = int.from_bytes(data[at : at + size], "big")
                at += size
                if length < 0x80 or length >> (8 * (size - 1)) == 0:
                    raise der_error("length is not in its shortest form", got=f"offset {start}")
            inside = at
            at += length
            if at > end:
                raise der_error("value is cut short", got=f"offset {start}")
            children: tuple[Node, ...] = ()
            if tag & _CONSTRUCTED and opened:
                self.left = left
                children = tuple(self.read(inside, at, (*above, tag)))
                left = self.left
            found.append(Node(tag, data[start:at], data[inside:at], children))
            if not above:
                break
        self.left = left
        return found


def check_size(data: bytes, max_bytes: int) -> None:
    """Refuse what is no bytes, or too many.

    Raises:
        TimestampError: TOO_LARGE or DER.
    """
    if type(data) is not bytes:
        raise der_error("expected bytes", got=type(data).__name__)
    if len(data) > max_bytes:
        raise TimestampError(
            Cause.TOO_LARGE, "too many bytes", want=f"at most {max_bytes}", got=str(len(data))
        )


def parse(
    data: bytes,
    *,
    opaque: AbstractSet[tuple[int, ...]] = frozenset(),
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    budget: Budget | None = None,
) -> Node:
    """Read exactly one value.

    Args:
        data: all of it.
        opaque: paths of tags from the top; what is directly inside such a value is not opened.
        max_bytes: upper bound on the size of `data`.
        max_nodes: upper bound on the number of values.
        budget: takes the place of `max_nodes`; what is read is taken off.

    Raises:
        TimestampError: TOO_LARGE or DER.
    """
    check_size(data, max_bytes)
    reader = _Reader(data, opaque, max_nodes if budget is None else budget.left)
    found = reader.read(0, len(data), ())
    if budget is not None:
        budget.left = reader.left
    if not found:
        raise der_error("value is cut short", got="offset 0")
    if len(found[0].raw) != len(data):
        raise der_error("bytes after the value", got=f"{len(data) - len(found[0].raw)} bytes")
    return found[0]


def expect(node: Node, tag: int, what: str) -> Node:
    """The node itself, if it has this tag.

    Raises:
        TimestampError: DER.
    """
    if node.tag != tag:
        raise der_error(f"{what} has another type", want=f"tag {tag:#04x}", got=f"{node.tag:#04x}")
    return node


def only(node: Node, what: str) -> Node:
    """The one value inside `node`.

    Raises:
        TimestampError: DER.
    """
    if len(node.children) != 1:
        raise der_error(f"{what} is malformed", want="one value", got=str(len(node.children)))
    return node.children[0]


class Members:
    """Takes the members of a constructed value one after the other; each method may raise DER."""

    __slots__ = ("_at", "_children", "_what")

    def __init__(self, node: Node, what: str, tag: int = SEQUENCE) -> None:
        self._children = expect(node, tag, what).children
        self._what = what
        self._at = 0

    def take(self, tag: int | None = None) -> Node:
        """The next member, which must be there, and of this tag if one is given."""
        if self._at == len(self._children):
            raise der_error(f"{self._what} lacks a member", got=f"{self._at} members")
        node = self._children[self._at]
        self._at += 1
        return node if tag is None else expect(node, tag, self._what)

    def optional(self, tag: int) -> Node | None:
        """The next member if it has this tag."""
        if self._at < len(self._children) and self._children[self._at].tag == tag:
            self._at += 1
            return self._children[self._at - 1]
        return None

    def end(self) -> None:
        """There must be no further member."""
        if self._at != len(self._children):
            extra = self._children[self._at].tag
            raise der_error(f"{self._what} has a member too many", got=f"tag {extra:#04x}")


def integer(node: Node, what: str, tag: int = INTEGER) -> int:
    """An INTEGER of at most 64 bytes, negative ones included; `tag` for an implicit one."""
    content = expect(node, tag, what).content
    if not 1 <= len(content) <= MAX_INTEGER_BYTES:
        raise der_error(f"{what} has a bad size", want="1 to 64 bytes", got=f"{len(content)} bytes")
    # X.690 8.3.2: the first nine bits are not all the same.
    if len(content) > 1 and (content[0], content[1] >> 7) in ((0x00, 0), (0xFF, 1)):
        raise der_error(f"{what} is not in its shortest form")
    return int.from_bytes(content, "big", signed=True)


def boolean(node: Node, what: str) -> bool:
    """A BOOLEAN: 00 or FF."""
    content = expect(node, BOOLEAN, what).content
    if content not in (b"\x00", b"\xff"):
        raise der_error(f"{what} is no DER BOOLEAN", want="00 or ff", got=content[:4].hex())
    return content == b"\xff"


def bit_string(node: Node, what: str, *, whole: bool = False) -> bytes:
    """The bytes of a BIT STRING; its unused bits must be zero, and none if it is of whole bytes."""
    content = expect(node, BIT_STRING, what).content
    unused = content[0] if content else 8
    if unused > (0 if whole else 7) or (
        unused and (len(content) < 2 or content[-1] & ((1 << unused) - 1))
    ):
        raise der_error(f"{what} is no DER BIT STRING")
    return content[1:]


def object_identifier(node: Node, what: str) -> str:
    """An OBJECT IDENTIFIER as dotted decimals, at most 64 bytes."""
    check_object_identifier(node, what)
    return _dotted(node.content)


def check_object_identifier(node: Node, what: str) -> None:
    """Check the form of an OBJECT IDENTIFIER: every arc in its shortest form.

    Raises:
        TimestampError: DER.
    """
    content = expect(node, OID, what).content
    if len(content) > MAX_INTEGER_BYTES or not _ARCS.fullmatch(content):
        raise der_error(f"{what} is no OBJECT IDENTIFIER", got=content[:16].hex())


@lru_cache(maxsize=512)
def _dotted(content: bytes) -> str:
    arcs: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def algorithm(node: Node, what: str) -> tuple[str, Node | None]:
    """An AlgorithmIdentifier: its OID, and its parameters unless absent or NULL."""
    members = Members(node, what)
    oid = object_identifier(members.take(), what)
    if members.optional(NULL) is not None:
        members.end()
        if node.children[1].content:
            raise der_error(f"{what} has a NULL with contents")
        return oid, None
    if len(node.children) == 1:
        return oid, None
    parameters = members.take()
    members.end()
    return oid, parameters


def moment(node: Node, what: str) -> datetime:
    """A time of a certificate: UTCTime or GeneralizedTime to the second, in UTC (RFC 5280 4.1.2.5)."""
    form = _TIME.get(node.tag)
    if form is None or not form.fullmatch(node.content):
        raise der_error(f"{what} is no UTC time", got=ascii(node.content[:24]))
    text = node.content.decode("ascii")
    if node.tag == UTC_TIME:
        text = ("19" if text[0] >= "5" else "20") + text
    try:
        return instant(text)
    except ValueError:
        raise der_error(f"{what} is no date", got=text) from None


def instant(text: str) -> datetime:
    """UTC time from a text that starts with 14 decimal digits, YYYYMMDDhhmmss.

    Raises:
        ValueError: no such date; a leap second too.
    """
    month, day, hour, minute, second = (int(text[at : at + 2]) for at in range(4, 14, 2))
    return datetime(int(text[:4]), month, day, hour, minute, second, tzinfo=UTC)
