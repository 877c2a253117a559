"""The parts all records of the store are made of: integers, places, and what is said of bad ones.

- Integers are big-endian, so that keys sort as numbers do, and at most 2^63-1.
- Encoders raise StoreError on values that have no spelling, before anything is written; decoders on
  anything an encoder would not have written. That is damage, never "not found".
"""

from __future__ import annotations

import struct
from typing import Final

from ledgerd.store.interface import StoreError

__all__ = [
    "MAX_INTEGER",
    "check",
    "damaged",
    "decode_number",
    "decode_place",
    "encode_number",
    "encode_place",
    "no_spelling",
    "sized",
]

MAX_INTEGER: Final = 2**63 - 1

_U64 = struct.Struct(">Q")


def encode_number(number: int) -> bytes:
    """Eight bytes: the key of a journal record or a leaf, the value of an alias."""
    if number > MAX_INTEGER:
        raise no_spelling("integer", number)
    try:
        return _U64.pack(number)
    except struct.error as error:
        raise no_spelling("integer", number) from error


def decode_number(data: bytes) -> int:
    """The reverse of :func:`encode_number`."""
    check(len(data) == 8, "integer", data)
    number: int = _U64.unpack(data)[0]
    check(number <= MAX_INTEGER, "integer", data)
    return number


def encode_place(chain: bytes, position: int) -> bytes:
    """Chain || position: the key of an entry or segment, the value under a receipt hash."""
    if len(chain) != 32 or not 0 <= position <= MAX_INTEGER:
        raise no_spelling("chain and position", (chain, position))
    return chain + _U64.pack(position)


def decode_place(data: bytes) -> tuple[bytes, int]:
    """The reverse of :func:`encode_place`: (chain, position)."""
    check(len(data) == 40, "chain and position", data)
    return data[:32], decode_number(data[32:])


def sized(data: bytes, size: int, what: str) -> bytes:
    """A hash or key of the wrong length would shift all that follows it: caught here."""
    if len(data) != size:
        raise no_spelling(what, data)
    return data


def check(held: bool, what: str, data: bytes) -> None:
    """Raise StoreError naming the record unless a rule of its encoding held."""
    if not held:
        raise damaged(what, data)


def damaged(what: str, data: bytes) -> StoreError:
    """The error for bytes no encoder wrote."""
    shown = data[:80].hex() + ("..." if len(data) > 80 else "")
    return StoreError(f"damaged record: {what} does not decode ({len(data)} bytes: {shown})")


def no_spelling(what: str, value: object) -> StoreError:
    """The error for a value that has no encoding."""
    return StoreError(f"cannot be stored: {what} {value!r:.200} is out of bounds")
