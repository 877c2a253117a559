"""The conventions receipt formats differ in, each combination of them tried on one receipt.

What is taken: all of the receipt, the receipt without its signature or with it emptied, one of its
members. How it is written: the dialects of `dialect`. How a hash is written: hex, `sha256:` and hex,
base64url, base64. A combination that has no bytes (a changed object as it was carried) is passed over;
two with the same bytes are one, named by the likelier.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import DEFAULT_LIMITS, Limits, parse, shown
from receiptledger.core.dialect import DIALECTS, EXACT_DIALECTS, Source, encode
from receiptledger.core.encoding import base64url_decode, base64url_encode
from receiptledger.core.errors import ReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HASH_TEXTS", "MAX_TEXTS", "Form", "forms", "signatures", "texts"]

MAX_MEMBERS = 4  # members of a receipt that are tried as what is signed
MAX_TEXTS = 1_024  # texts of a receipt that are looked at
MAX_SIGNATURES = 4  # texts that may be its signature

# Where formats keep what is not signed, by the name of the outermost member.
_HOLDERS: Final = ("signature", "proof", "sig", "signatures")
_LEAST_SIGNATURE, _MOST_SIGNATURE = 64, 3_309  # bytes: Ed25519 and ES256; ML-DSA-65

_Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """Bytes made of a receipt.

    Attributes:
        data: the bytes.
        part: what was taken, in words.
        dialect: how it was written.
    """

    data: bytes
    part: str
    dialect: str

    def __str__(self) -> str:
        return f"{self.part}, written as {self.dialect}"


HASH_TEXTS: Final[tuple[tuple[str, Callable[[bytes], str]], ...]] = (
    ("sha256: and hex", lambda digest: "sha256:" + digest.hex()),
    ("bare hex", lambda digest: digest.hex()),
    ("base64url", base64url_encode),
    ("base64", lambda digest: base64.b64encode(digest).decode("ascii")),
)


def forms(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Form]:
    """Every combination for one receipt, the likelier first, no bytes twice.

    Raises:
        ReceiptError: it cannot be parsed.
    """
    parsed = parse(raw, limits)
    source = Source(parsed, raw)
    found: dict[bytes, Form] = {}
    for words, take in _parts(parsed.value):
        for dialect in DIALECTS:
            part = take(source.exact if dialect in EXACT_DIALECTS else parsed.value)
            try:
                data = encode(dialect, part, source)
            except ReceiptError:
                continue
            found.setdefault(data, Form(data, words, dialect))
    return list(found.values())


def _parts(value: _Document) -> Iterator[tuple[str, Callable[[_Document], Any]]]:
    """What may be signed: its words, and how it is taken from the document."""
    holders = [name for name in _HOLDERS if name in value]
    members = [name for name in value if name not in holders and type(value[name]) is dict]
    for name in members[:MAX_MEMBERS]:
        yield f"the member {shown(name)}", _member(name)
    for name in holders:
        yield f"the receipt without {name}", _without(name)
    yield "the whole receipt", lambda whole: whole
    for name in holders:
        yield f"the receipt with {name} null", _with(name, None)
        yield f"the receipt with {name} empty", _with(name, "")


def _member(name: str) -> Callable[[_Document], Any]:
    return lambda whole: whole[name]


def _without(name: str) -> Callable[[_Document], Any]:
    return lambda whole: {other: item for other, item in whole.items() if other != name}


def _with(name: str, value: object) -> Callable[[_Document], Any]:
    return lambda whole: {**whole, name: value}


def texts(value: _Document, limit: int = MAX_TEXTS) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path, text) of the texts in a document's objects, at most `limit`; arrays are passed over."""
    waiting: list[tuple[tuple[str, ...], _Document]] = [((), value)]
    left = limit
    while waiting:
        path, node = waiting.pop()
        for name, item in node.items():
            if type(item) is dict:
                waiting.append(((*path, name), item))
            elif type(item) is str:
                if left == 0:
                    return
                left -= 1
                yield (*path, name), item


def signatures(value: _Document) -> list[tuple[str, bytes, str]]:
    """(dotted path, bytes, encoding) of the texts that may be the receipt's signature; at most four."""
    found: list[tuple[str, bytes, str]] = []
    for path, text in texts(value):
        if path[0] in _HOLDERS:
            for words, decode in _SIGNATURE_TEXTS:
                try:
                    data = decode(text)
                except ValueError:
                    continue
                if _LEAST_SIGNATURE <= len(data) <= _MOST_SIGNATURE:
                    found.append((".".join(path), data, words))
                    break
    return found[:MAX_SIGNATURES]


def _hex(text: str) -> bytes:
    return bytes.fromhex(text)


def _base64url(text: str) -> bytes:
    return base64url_decode(text, len(text) * 3 // 4)


def _base64(text: str) -> bytes:
    return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)


def _after(prefix: str, decode: Callable[[str], bytes]) -> Callable[[str], bytes]:
    def decode_rest(text: str) -> bytes:
        if not text.startswith(prefix):
            raise ValueError
        return decode(text.removeprefix(prefix))

    return decode_rest


_SIGNATURE_TEXTS: Final[tuple[tuple[str, Callable[[str], bytes]], ...]] = (
    ("hex", _hex),
    ("ed25519: and hex", _after("ed25519:", _hex)),
    ("ed25519: and base64", _after("ed25519:", _base64)),
    ("ed25519: and base64url", _after("ed25519:", _base64url)),
    ("u and base64url", _after("u", _base64url)),
    ("base64url", _base64url),
    ("base64", _base64),
)
