"""The two text forms of binary values in everything we write: `sha256:` hex and base64url.

Both parsers accept exactly what the formatter emits: one text per value, so nothing we sign or hash
can be respelled.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "SAFE_INTEGER",
    "base64url_decode",
    "base64url_decoder",
    "base64url_encode",
    "digest_text",
    "parse_digest",
]

SAFE_INTEGER = 2**53 - 1  # largest integer RFC 8785 writes exactly; bounds every number we sign

_URL_TO_STANDARD = bytes.maketrans(b"-_+/", b"+/!!")  # '!' is in neither alphabet


def digest_text(digest: bytes) -> str:
    """`sha256:` and the lower-case hex of a 32-byte digest."""
    return "sha256:" + digest.hex()


def parse_digest(text: object) -> bytes:
    """The 32 bytes of a digest text.

    Raises:
        ValueError: for anything :func:`digest_text` would not have written.
    """
    if isinstance(text, str) and text.startswith("sha256:"):
        digits = text[7:]
        try:
            digest = bytes.fromhex(digits)
        except ValueError:
            digest = b""
        # fromhex skips spaces and takes capitals: what it read is written back and compared.
        if len(digest) == 32 and digest.hex() == digits:
            return digest
    raise ValueError("expected sha256: and 64 lower-case hex digits")


def base64url_encode(data: bytes) -> str:
    """Base64url without padding (RFC 4648 section 5)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def base64url_decoder(size: int) -> Callable[[str], bytes]:
    """A function from an unpadded base64url text to its `size` bytes.

    It raises ValueError for padding, another alphabet, non-zero trailing bits or another size. Made
    once and called often: a ledger decodes two texts of every receipt.
    """
    padding = b"=" * (-size % 3)

    def decode(text: str) -> bytes:
        standard = text.encode("ascii").translate(_URL_TO_STANDARD) + padding
        data = binascii.a2b_base64(standard)
        # Python's decoder skips foreign characters and ignores trailing bits: compare, don't believe.
        if len(data) != size or binascii.b2a_base64(data, newline=False) != standard:
            raise ValueError("expected unpadded base64url text")
        return data

    return decode


def base64url_decode(text: object, size: int) -> bytes:
    """The `size` bytes of an unpadded base64url text.

    Raises:
        ValueError: for what :func:`base64url_decoder` refuses, and for what is no text.
    """
    if not isinstance(text, str):
        raise ValueError("expected unpadded base64url text")  # noqa: TRY004 - one error for all
    try:
        data = base64url_decoder(len(text) * 3 // 4)(text)
    except ValueError:
        raise ValueError("expected unpadded base64url text") from None
    if len(data) != size:
        raise ValueError(f"expected {size} bytes, got {len(data)}")
    return data
