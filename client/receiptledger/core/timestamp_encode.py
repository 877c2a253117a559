"""The few DER values that we write ourselves: what a timestamp request is made of (X.690)."""

from __future__ import annotations

import re

from receiptledger.core.timestamp_der import INTEGER, OID

__all__ = ["encode", "encode_integer", "encode_oid"]

_DOTTED = re.compile(r"[0-2](?:\.(?:0|[1-9][0-9]{0,38})){1,32}", re.ASCII)


def encode(tag: int, *parts: bytes) -> bytes:
    """One value of these contents, its length in the shortest form."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def encode_integer(value: int) -> bytes:
    """An INTEGER in its shortest form."""
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return encode(INTEGER, value.to_bytes(size, "big", signed=True))


def encode_oid(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER from dotted decimals.

    Raises:
        ValueError: not an OID: fewer than two arcs, or one that is no plain number or out of range.
    """
    if not _DOTTED.fullmatch(dotted):
        raise ValueError(f"not an object identifier: {dotted[:80]!r}")
    first, second, *rest = map(int, dotted.split("."))
    if first < 2 and second > 39:
        raise ValueError(f"not an object identifier: {dotted[:80]!r}")
    content = bytearray()
    for arc in (40 * first + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(0x80 | arc & 0x7F)
        content += bytes(reversed(groups))
    return encode(OID, bytes(content))
