"""Receipts that two JSON parsers read differently: refused, or valid and flagged, by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.helpers.receipts import ALICE, farley, jcs, lesson18
from tests.vectors.cases import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["traps"]

KEYS = [{"alg": "Ed25519", "public": ALICE.key.hex()}]
BY_NAME = {"@version": "EP-RECEIPT-v1", "payload": {}, "signature": {"value": ""}}  # EMILIA


def traps() -> Iterator[Case]:
    """The rows."""
    good = jcs(lesson18())

    def altered(old: bytes, new: bytes, raw: bytes = good) -> bytes:
        assert raw.count(old) == 1, (old, raw)
        return raw.replace(old, new)

    def bad(name: str, raw: bytes, reason: str = "malformed") -> Case:
        return Case(name, [raw], "invalid", reason, KEYS)

    twin = b'"tool_name":"lookup_flights"'
    yield bad("twin-member-first", altered(twin, b'"tool_name":"pay",' + twin))
    yield bad("twin-member-last", altered(twin, twin + b',"tool_name":"pay"'))
    yield bad("twin-member-same", altered(twin, twin + b"," + twin))
    yield bad("twin-member-escaped", altered(twin, twin + b',"tool\\u005fname":"pay"'))
    yield bad("twin-member-inside", altered(b'"alg":"EdDSA"', b'"alg":"none","alg":"EdDSA"'))
    yield bad("proto-added", altered(twin, twin + b',"__proto__":{"decision":"deny"}'))
    yield bad("proto-escaped", altered(twin, twin + b',"\\u005f_proto__":{"decision":"deny"}'))
    yield bad("proto-inside", altered(b'"alg":"EdDSA"', b'"__proto__":null,"alg":"EdDSA"'))
    yield bad("lone-surrogate", altered(b"lookup_flights", b"lookup\\ud800flights"))
    yield bad("lone-low-surrogate", altered(b"lookup_flights", b"\\udc00"))
    yield bad("surrogates-swapped", altered(b"lookup_flights", b"\\ude00\\ud83d"))
    yield bad("surrogate-name", altered(twin, twin + b',"\\ud800":1'))
    yield bad("nan", altered(b'"sequence":0', b'"sequence":NaN'))
    yield bad("infinity", altered(b'"sequence":0', b'"sequence":-Infinity'))
    yield bad("beyond-doubles", altered(b'"sequence":0', b'"sequence":1e400'))
    yield bad("byte-order-mark", b"\xef\xbb\xbf" + good)
    yield bad("not-utf-8", altered(b"lookup_flights", b"lookup\xff"))
    yield bad("overlong-utf-8", altered(b"lookup_flights", b"lookup\xc0\xaf"))
    yield bad("utf-16", good.decode().encode("utf-16"))
    yield bad("trailing-comma", altered(twin, twin + b",,"))
    yield bad("trailing-bytes", good + b"x")
    yield bad("comment", altered(twin, b"/* */" + twin))
    yield bad("control-character", altered(b"lookup_flights", b"lookup\x01"))
    yield bad("cut", good[:-1])
    yield bad("nothing", b"")
    yield bad("a-number", b"7")
    yield bad("too-deep", altered(twin, twin + b',"x":' + b"[" * 99 + b"]" * 99), "too_large")
    yield bad("too-long", altered(twin, twin + b',"x":"' + b"a" * 65_536 + b'"'), "too_large")
    yield bad("no-format", jcs({"hello": 1}), "unknown_profile")
    yield Case("format-by-name", [jcs(BY_NAME)], "undecidable", "unknown_profile", KEYS)
    yield bad("fraction-as-number", altered(b'"sequence":0', b'"sequence":0.0'), "invalid_field")
    yield from _respelled()


def _respelled() -> Iterator[Case]:
    """RFC 8785 writes these alike, so the signature holds for each spelling; they are flagged."""
    document = farley(
        amount=1, limit=9007199254740992.0, debt=0, ratio=0.1, steps={"10": 1, "9": 2}
    )
    good = jcs(document)
    for name, old, new in (
        ("integer-as-fraction", b'"amount":1,', b'"amount":1.0,'),
        ("integer-with-exponent", b'"amount":1,', b'"amount":10e-1,'),
        ("big-integer", b"9007199254740992", b"9007199254740993"),
        ("minus-zero", b'"debt":0', b'"debt":-0'),
        ("more-digits-than-a-double", b'"ratio":0.1', b'"ratio":0.10000000000000000001'),
        ("array-index-names", b"", b""),
    ):
        raw = good.replace(old, new) if old else good
        assert (raw != good) == bool(old)
        yield Case(f"flagged-{name}", [raw], "valid", None, KEYS)
