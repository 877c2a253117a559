"""Receipts inside an envelope: a member of another object, DSSE, or a compact JWS.

What an envelope signs is its own business: the signing input, the signature and perhaps the algorithm
come from it, and the receipt inside is read by its format's other rules.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import Limits, Parsed, parse
from receiptledger.core.carried import find
from receiptledger.core.encoding import base64url_decode, base64url_encode
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.fields import getter, invalid
from receiptledger.core.signed import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Unwrap = Callable[[Parsed, Limits], "Body"]

__all__ = ["Body", "dsse", "jws", "member"]

_PAYLOAD: Final = "payload"
_SIGNATURES: Final = "signatures"
_MAX_HEADER_BYTES = 4_096  # of a JWS


@dataclass(slots=True)
class Body:
    """The receipt inside an envelope.

    Attributes:
        parsed: the receipt.
        outside: dotted paths of the envelope's members that are not signed.
        signing_input: what the envelope's signature is over; b"" when the receipt has its own.
        signature: the envelope's signature in base64url text; "" when the receipt has its own.
        header: the envelope's signed header.
    """

    parsed: Parsed
    outside: tuple[str, ...]
    signing_input: bytes = b""
    signature: str = ""
    header: dict[str, Any] | None = None


def member(path: str) -> Unwrap:
    """The receipt is the object at a path; what is beside it is not signed."""
    get, steps = getter(path), path_of(path)

    def unwrap(parsed: Parsed, _: Limits) -> Body:
        inner = get(parsed.value)
        if type(inner) is not dict:
            raise invalid(path, "an object", inner)
        body = Parsed(inner, parsed.canonical_part(inner), parsed.plain, find(parsed.raw, steps))
        outside: list[str] = []
        node, at = parsed.value, ""
        for step in steps:
            outside += [at + name for name in sorted(node) if name != step]
            node, at = node[step], f"{at}{step}."
        return Body(body, tuple(outside))

    return unwrap


def dsse(payload_type: str, number: int) -> Unwrap:
    """Dead Simple Signing Envelope, protocol version 1: the pre-authentication encoding is signed.

    Args:
        payload_type: what `payloadType` must be.
        number: which of the `signatures` is the signer's.
    """
    kind = payload_type.encode("utf-8")

    def unwrap(parsed: Parsed, limits: Limits) -> Body:
        value = parsed.value
        if value.get("payloadType") != payload_type:
            raise invalid("payloadType", payload_type, value.get("payloadType"))
        payload = _base64(_PAYLOAD, value.get(_PAYLOAD))
        signatures = value.get(_SIGNATURES)
        if type(signatures) is not list or len(signatures) <= number:
            raise invalid(_SIGNATURES, f"an array of more than {number} signatures", signatures)
        one = signatures[number]
        if type(one) is not dict:
            raise invalid(f"{_SIGNATURES}[{number}]", "an object", one)
        data = _base64(f"{_SIGNATURES}[{number}].sig", one.get("sig"))
        encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
        outside = [
            name for name in sorted(value) if name not in ("payloadType", _PAYLOAD, _SIGNATURES)
        ]
        outside += [f"{_SIGNATURES}[{at}]" for at in range(len(signatures)) if at != number]
        outside += [f"{_SIGNATURES}[{number}].{name}" for name in sorted(one) if name != "sig"]
        return Body(parse(payload, limits), tuple(outside), encoded, base64url_encode(data))

    return unwrap


def jws(path: str) -> Unwrap:
    """JWS in its compact serialisation (RFC 7515 section 7.1), the text of an outermost member."""
    get = getter(path)

    def unwrap(parsed: Parsed, limits: Limits) -> Body:
        text = get(parsed.value)
        parts = text.split(".") if type(text) is str and text.isascii() else []
        if len(parts) != 3:
            raise invalid(path, "a compact JWS: three parts of base64url and two full stops", text)
        head, payload, signature = parts
        header = parse(_url(path, head), Limits(max_bytes=_MAX_HEADER_BYTES)).value
        for name in ("crit", "b64"):  # RFC 7515 section 4.1.11, RFC 7797: what we do not do
            if name in header:
                raise invalid(f"{path} header", f"no member {name}", header[name])
        outside = [name for name in sorted(parsed.value) if name != path]
        body = parse(_url(path, payload), limits)
        return Body(body, tuple(outside), f"{head}.{payload}".encode("ascii"), signature, header)

    return unwrap


def _base64(path: str, text: object) -> bytes:
    if type(text) is str:
        try:
            data = binascii.a2b_base64(text.encode("ascii"))
        except ValueError:
            data = b""
        if data and base64.b64encode(data).decode("ascii") == text:
            return data
    raise invalid(path, "padded base64", text)


def _url(path: str, text: str) -> bytes:
    try:
        return base64url_decode(text, len(text) * 3 // 4)
    except ValueError:
        raise ReceiptError(
            Reason.INVALID_FIELD,
            f"member {path} has the wrong form",
            want="unpadded base64url in each part",
            got=f"text of {len(text)} characters",
        ) from None
