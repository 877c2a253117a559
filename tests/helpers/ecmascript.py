"""`JSON.stringify`, step by step as ECMA-262 writes it down: a slow oracle, made for nothing else.

Also the object a JavaScript signer builds before: names inserted in sorted order, listed in the order
JavaScript lists them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

SHORT_ESCAPES = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}


def number_text(number: float) -> str:
    """Number::toString (section 6.1.6.1.20), base ten; its k, n and s have the same names here."""
    number = float(number)
    if number == 0:
        return "0"
    if number < 0:
        return "-" + number_text(-number)
    digits = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(digits.exponent, int)
    s = "".join(map(str, digits.digits))
    k = len(s)
    n = k + digits.exponent
    if k <= n <= 21:
        return s + "0" * (n - k)
    if 0 < n <= 21:
        return s[:n] + "." + s[n:]
    if -6 < n <= 0:
        return "0." + "0" * -n + s
    sign = "+" if n - 1 > 0 else "-"
    tail = f"e{sign}{abs(n - 1)}"
    return s + tail if k == 1 else s[0] + "." + s[1:] + tail


def quoted(text: str) -> str:
    """QuoteJSONString (section 25.5.2.3) of text without lone surrogates."""
    product = '"'
    for character in text:
        if character in SHORT_ESCAPES:
            product += SHORT_ESCAPES[character]
        elif ord(character) < 0x20:
            product += f"\\u{ord(character):04x}"
        else:
            product += character
    return product + '"'


def code_units(text: str) -> list[int]:
    """The UTF-16 code units JavaScript compares text by."""
    units = []
    for character in text:
        point = ord(character)
        if point < 0x10000:
            units.append(point)
        else:
            units += [0xD800 + ((point - 0x10000) >> 10), 0xDC00 + ((point - 0x10000) & 0x3FF)]
    return units


def is_array_index(name: str) -> bool:
    """An array index (section 6.1.7): a canonical numeric string from 0 to 2^32 - 2."""
    return name.isascii() and name.isdigit() and str(int(name)) == name and int(name) < 2**32 - 1


def stringify(value: Any) -> str:
    """`JSON.stringify` of the value once every object's names were inserted in sorted order."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (int, float)):
        return number_text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(stringify, value)) + "]"
    inserted = sorted(value, key=code_units)
    listed = sorted(filter(is_array_index, inserted), key=int)
    listed += [name for name in inserted if name not in listed]
    return "{" + ",".join(quoted(name) + ":" + stringify(value[name]) for name in listed) + "}"
