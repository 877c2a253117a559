"""Ed25519 verification by libsodium, without the copies of PyNaCl's wrapper.

The wrapper allocates two buffers, has libsodium copy the message there and copies it back, to hand out
what its caller has already: four microseconds of a hundred. libsodium takes null pointers in their
place (`crypto_sign_open` writes neither message nor length then). PyNaCl has no public name for that,
so where its inside looks different its wrapper is used: both are one function of libsodium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[bytes, bytes, bytes], bool]

__all__ = ["KEY_SIZE", "SIGNATURE_SIZE", "verifies"]

KEY_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64  # RFC 8032 section 5.1.6


def verifies(signature: bytes, message: bytes, key: bytes) -> bool:
    """Whether a signature holds.

    Args:
        signature: 64 bytes; another length never holds.
        message: what was signed.
        key: public key, 32 bytes; another length never holds.
    """
    # Shape first: libsodium reads past a short key, and takes 64 bytes off signature + message.
    if len(key) != KEY_SIZE or len(signature) != SIGNATURE_SIZE:
        return False
    return _holds(signature, message, key)


def by_wrapper(signature: bytes, message: bytes, key: bytes) -> bool:
    """The check by PyNaCl's public function."""
    try:
        crypto_sign_open(signature + message, key)
    except BadSignatureError:
        return False
    return True


def find_direct() -> Check | None:
    """The check by libsodium's function itself, or None where this PyNaCl has another inside."""
    try:
        from nacl._sodium import ffi, lib

        null, open_signed = ffi.NULL, lib.crypto_sign_open
    except (ImportError, AttributeError):
        return None

    def check(signature: bytes, message: bytes, key: bytes) -> bool:
        signed = signature + message
        return bool(open_signed(null, null, signed, len(signed), key) == 0)

    return check


_holds: Check = find_direct() or by_wrapper
