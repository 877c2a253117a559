"""Genuine receipts of other people's formats, written without this project's engine.

A :class:`Forger` knows one format by its maker's rules: what the body says, how it is signed, what the
next receipt names. Only `json`, `rfc8785`, `hashlib` and libsodium are used, so that a mistake in the
engine cannot hide behind the same mistake here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rfc8785

from tests.helpers.receipts import ALICE, Agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.receipts import Document

__all__ = [
    "Forger",
    "base58",
    "base64_text",
    "did_key",
    "issuer_kid",
    "javascript",
    "python",
    "python_ascii",
    "raw",
    "sha256_hex",
    "thumbprint",
    "without",
]

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_INDEX = re.compile(r"0|[1-9][0-9]*")


@dataclass(frozen=True)
class Forger:
    """How one format's receipts are made.

    Attributes:
        profile: the id of our data for it.
        body: (number from 0, what the link member names or None at the start, signer) to what is
            signed, before it is.
        seal: signs a body.
        link: what the receipt after this one names; None for a format without a link.
        signed: dotted path of a text inside the signed bytes that may say anything.
        signature: dotted path of the signature's text.
        previous: dotted path of the link member; None for a format without one.
        outside: dotted path of a new member outside the signed bytes; None where there is no room.
        listed: whether such a member is listed, or refused.
        loose: whether something the format does name outside can be rewritten by anybody.
    """

    profile: str
    body: Callable[[int, str | None, Agent], Document]
    seal: Callable[[Document, Agent], Document]
    link: Callable[[Document], str] | None
    signed: str
    signature: str
    previous: str | None
    outside: str | None = None
    listed: bool = False
    loose: bool = False

    def receipt(
        self, number: int = 0, previous: str | None = None, signer: Agent = ALICE
    ) -> Document:
        """One signed receipt."""
        return self.seal(self.body(number, previous, signer), signer)

    def chain(self, length: int, signer: Agent = ALICE) -> list[Document]:
        """Signed receipts that follow each other."""
        made: list[Document] = []
        named: str | None = None
        for number in range(length):
            made.append(self.receipt(number, named, signer))
            named = self.link(made[-1]) if self.link is not None else None
        return made


# How signers write what they sign.


def python(value: Any) -> bytes:
    """`json.dumps` with sorted names, no white space, and text as it is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def python_ascii(value: Any) -> bytes:
    """The same with everything but ASCII escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def javascript(value: Any) -> bytes:
    """`JSON.stringify` of objects whose names were put in sorted: array indices come first."""
    return _javascript(value).encode()


def _javascript(value: Any) -> str:
    if isinstance(value, dict):
        indices = [name for name in value if _INDEX.fullmatch(name) and int(name) < 2**32 - 1]
        others = sorted((name for name in value if name not in indices), key=_utf16)
        names = [*sorted(indices, key=int), *others]
        members = (f"{_javascript(name)}:{_javascript(value[name])}" for name in names)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_javascript(item) for item in value) + "]"
    return rfc8785.dumps(value).decode()


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")


# Hashes, keys and their names.


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def base58(data: bytes) -> str:
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = _BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def did_key(key: bytes) -> str:
    """W3C did:key of an Ed25519 key: multicodec 0xed 0x01, base58."""
    return "did:key:z" + base58(b"\xed\x01" + key)


def issuer_kid(key: bytes) -> str:
    """The key id draft-farley section 2.1.1 recommends."""
    return "sb:issuer:" + base58(key)[:12]


def thumbprint(key: bytes) -> str:
    """RFC 7638 thumbprint of an Ed25519 key, in base64url."""
    x = base64.urlsafe_b64encode(key).decode().rstrip("=")
    digest = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def raw(document: Document) -> bytes:
    """A receipt as Python sends it: in the order it was made, floats with their `.0`."""
    return json.dumps(document, ensure_ascii=False).encode()


def without(document: Document, *names: str) -> Document:
    return {name: value for name, value in document.items() if name not in names}
