"""How long a timestamp can be relied on without renewal, from the response alone.

The ledger chooses by this which later timestamps it puts into a proof (RFC 4998 section 5.2). It is a
choice and no judgement: nothing is verified, whoever made the response, and the auditor's verifier
decides by the certificates of the path it found itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from receiptledger.core.timestamp_algorithms import not_after
from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_der import SEQUENCE, SET, Members, only, parse
from receiptledger.core.timestamp_signature import key_name
from receiptledger.core.tsa_certificate import load_certificate

__all__ = ["RENEW_MARGIN_US", "usable_until"]

_MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
RENEW_MARGIN_US: Final = timedelta(days=180) // _MICROSECOND
_CERTIFICATES: Final = 0xA0  # [0] IMPLICIT in SignedData (RFC 5652 section 5.1)


def usable_until(response: bytes) -> int | None:
    """When the first certificate that a response brings expires, or the algorithm of its key.

    Roots are left out: a path is good without them (RFC 5280 section 6.1).

    Args:
        response: RFC 3161 TimeStampResp, DER.

    Returns:
        Microseconds since the epoch; None when it brings no certificate, or cannot be read.
    """
    try:
        found = [load_certificate(der) for der in _certificates(response)]
        issued = [one for one in found if one.subject != one.issuer]
        ends = [min(one.not_after, not_after([key_name(one.key)])) for one in issued]
    except TimestampError:
        return None
    return (min(ends) - _EPOCH) // _MICROSECOND if ends else None


def _certificates(response: bytes) -> list[bytes]:
    outer = Members(parse(response), "response")
    outer.take(SEQUENCE)  # PKIStatusInfo
    content_info = Members(outer.take(SEQUENCE), "token")
    content_info.take()  # the type of what follows
    signed = Members(only(content_info.take(0xA0), "token"), "signed data")
    signed.take()  # version
    signed.take(SET)  # digestAlgorithms
    signed.take(SEQUENCE)  # encapContentInfo
    certificates = signed.optional(_CERTIFICATES)
    return [] if certificates is None else [node.raw for node in certificates.children]
