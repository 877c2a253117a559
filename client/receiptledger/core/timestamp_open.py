"""A response and a token read once, however many authorities they are held against.

An auditor who knows ten authorities asks ten times whether a token is one's, and a bundle holds many
tokens. What does not depend on the authority is done once: the DER, the embedded certificates, and which
of these issued which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_cms import parse_token
from receiptledger.core.timestamp_limits import (
    CACHED_SIGNATURES,
    CACHED_TOKEN_BYTES,
    CACHED_TOKENS,
)
from receiptledger.core.timestamp_memory import Memory, digest_of
from receiptledger.core.timestamp_tst import parse_tst_info, split_response
from receiptledger.core.tsa_certificate import load_certificate

if TYPE_CHECKING:
    from receiptledger.core.timestamp_cms import SignedData
    from receiptledger.core.timestamp_tst import StatusInfo, TstInfo
    from receiptledger.core.tsa_certificate import TsaCertificate
    from receiptledger.core.tsa_path import Issued

__all__ = ["OpenToken", "open_response", "open_token"]


@dataclass(frozen=True, slots=True, eq=False)
class OpenToken:
    """A token that was read; nothing about it is verified.

    Attributes:
        data: its envelope.
        info: what it says.
        certificates: those embedded that can be read. Who cannot is left out, for nobody may need him.
        unread: how many embedded ones cannot be read.
        issued: which certificate was issued under which key, as far as it was asked.
    """

    data: SignedData
    info: TstInfo
    certificates: tuple[TsaCertificate, ...]
    unread: int
    issued: Issued = field(default_factory=lambda: Memory(CACHED_SIGNATURES))


_RESPONSES: Memory[bytes, tuple[StatusInfo, bytes | None]] = Memory(
    CACHED_TOKENS, CACHED_TOKEN_BYTES
)
_TOKENS: Memory[bytes, OpenToken] = Memory(CACHED_TOKENS, CACHED_TOKEN_BYTES)


def open_response(response: bytes, max_bytes: int) -> tuple[StatusInfo, bytes | None]:
    """A TimeStampResp's status and its token, which is not opened.

    Raises:
        TimestampError: TOO_LARGE, DER.
    """
    key = digest_of(response, max_bytes)
    # The size is settled, so that what is remembered depends on the bytes alone.
    return _RESPONSES.get(key, partial(split_response, response, len(response)), len(response))


def open_token(token: bytes, max_bytes: int) -> OpenToken:
    """Read a token, its TSTInfo and its embedded certificates.

    Raises:
        TimestampError: as `parse_token` and `parse_tst_info` do.
    """
    key = digest_of(token, max_bytes)
    return _TOKENS.get(key, partial(_open, token), len(token))


def _open(token: bytes) -> OpenToken:
    data = parse_token(token, len(token))
    info = parse_tst_info(data.content)
    certificates = []
    for der in data.certificates:
        try:
            certificates.append(load_certificate(der))
        except TimestampError:
            continue
    return OpenToken(data, info, tuple(certificates), len(data.certificates) - len(certificates))
