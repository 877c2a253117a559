"""Names of certificates, compared as RFC 5280 section 7.1 says.

The same name may be written as PrintableString in one certificate and as UTF8String in the next, or
differ in case and spaces. Names only choose candidates and answer "is this the signer's name?"; that
a certificate was issued by another is proven by its signature. So a name that is unusually long may be
compared byte for byte only: folding what a stranger wrote must stay cheap.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_der import (
    SEQUENCE,
    SET,
    check_object_identifier,
    der_error,
    expect,
    object_identifier,
    parse,
)
from receiptledger.core.timestamp_limits import (
    MAX_FOLDED_BYTES,
    MAX_NAME_ATTRIBUTES,
    MAX_NAME_BYTES,
)

if TYPE_CHECKING:
    from receiptledger.core.timestamp_der import Node

    Attribute = tuple[str, str | bytes]

__all__ = ["check_name", "name_text", "same_name"]

_CODECS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x12: "ascii",  # NumericString
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # TeletexString, as everybody uses it
    0x16: "ascii",  # IA5String: mail addresses and domain components
    0x1A: "ascii",  # VisibleString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
_SHORT: Final = {
    "2.5.4.3": "CN",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress",
}


def same_name(one: bytes, other: bytes) -> bool:
    """Whether two DER Names are the same name.

    Raises:
        TimestampError: DER, one of them is no Name.
    """
    if one == other:
        return True
    if max(len(one), len(other)) > MAX_FOLDED_BYTES:
        return False
    return _normal(one) == _normal(other)


def check_name(name: Node) -> None:
    """Check the form of a Name that was read.

    Raises:
        TimestampError: DER.
    """
    if len(name.raw) > MAX_NAME_BYTES:
        raise der_error("Name is too long", want=f"at most {MAX_NAME_BYTES} bytes")
    count = 0
    for relative in expect(name, SEQUENCE, "Name").children:
        count += len(expect(relative, SET, "relative name").children)
        if count > MAX_NAME_ATTRIBUTES:
            raise der_error("Name has too many attributes", want=f"at most {MAX_NAME_ATTRIBUTES}")
        for attribute in relative.children:
            if len(expect(attribute, SEQUENCE, "name attribute").children) != 2:
                raise der_error("name attribute is malformed", want="type and value")
            check_object_identifier(attribute.children[0], "name attribute")


def name_text(name: bytes) -> str:
    """A DER Name for people, most specific part last.

    Raises:
        TimestampError: DER.
    """
    parts = []
    for relative in _read(name):
        shown = [f"{_SHORT.get(oid, oid)}={_shown(value)}" for oid, value in relative]
        parts.append("+".join(shown))
    return ", ".join(parts)


@lru_cache(maxsize=128)
def _normal(name: bytes) -> tuple[tuple[Attribute, ...], ...]:
    """A form in which two Names are equal if RFC 5280 calls them the same."""
    normal = []
    for relative in _read(name):
        attributes: list[Attribute] = []
        for oid, value in relative:
            text = _text(value)
            if text is not None:
                # NFKC and case folding stand in for RFC 4518's preparation of strings.
                folded = unicodedata.normalize(
                    "NFKC", unicodedata.normalize("NFKC", text).casefold()
                )
                attributes.append((oid, " ".join(folded.split())))
            else:
                attributes.append((oid, value.raw))
        normal.append(tuple(sorted(attributes, key=repr)))
    return tuple(normal)


def _read(name: bytes) -> list[list[tuple[str, Node]]]:
    """The relative names of a DER Name, each a list of attribute type and value."""
    node = parse(name, max_bytes=MAX_NAME_BYTES)
    check_name(node)
    return [
        [
            (object_identifier(attribute.children[0], "name attribute"), attribute.children[1])
            for attribute in relative.children
        ]
        for relative in node.children
    ]


def _text(value: Node) -> str | None:
    """The text of a name attribute, or None if it has none that can be read."""
    codec = _CODECS.get(value.tag)
    if codec is None:
        return None
    try:
        return value.content.decode(codec)
    except UnicodeDecodeError:
        return None


def _shown(value: Node) -> str:
    text = _text(value)
    return "#" + value.raw.hex() if text is None else text
