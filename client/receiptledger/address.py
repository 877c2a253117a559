"""Where a ledger is: HOST:PORT of its gRPC."""

from __future__ import annotations

import re
from typing import Final

from receiptledger.core.errors import Reason
from receiptledger.wire import CallError

__all__ = ["DEFAULT_ADDRESS", "parse_address"]

DEFAULT_ADDRESS: Final = "127.0.0.1:7070"
_ADDRESS = re.compile(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})", re.ASCII)


def parse_address(text: str) -> str:
    """The address itself, checked; IPv6 addresses stand in brackets.

    Raises:
        CallError: INVALID_ARGUMENT for anything but HOST:PORT.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= 65_535:
        raise CallError(
            Reason.INVALID_ARGUMENT,
            "not an address of a ledger",
            want="HOST:PORT of its gRPC port, without a scheme, such as 127.0.0.1:7070",
            got=ascii(text[:120]),
        )
    return text
