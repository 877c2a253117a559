"""The entries of a revocation list: the one about a certificate, found by walking over all of them.

A list may have tens of thousands, and its author may be hostile. So entries are not read into values:
the walk goes from header to header and compares serial numbers as bytes. That is right only as long as
every serial number is in DER's one form, so any other form makes the list bad. So does a certificate
that is listed twice: which entry counts?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.revocation_finding import bad_evidence
from receiptledger.core.timestamp_der import (
    GENERALIZED_TIME,
    INTEGER,
    SEQUENCE,
    Members,
    expect,
    integer,
    moment,
    parse,
)
from receiptledger.core.timestamp_encode import encode_integer
from receiptledger.core.timestamp_limits import MAX_ENTRY_NODES
from receiptledger.core.tsa_extensions import read_extensions

if TYPE_CHECKING:
    from datetime import datetime

    from receiptledger.core.timestamp_cause import TimestampError

__all__ = ["Entry", "entry_of"]

ENUMERATED: Final = 0x0A
_REASON: Final = "2.5.29.21"
_INVALIDITY_DATE: Final = "2.5.29.24"
_STRIDE = 256  # entries in one call
_SMALLEST = 18  # bytes in an entry: a serial number of one byte and a UTCTime


@dataclass(frozen=True, slots=True)
class Entry:
    """What a list says about a revoked certificate.

    Attributes:
        revoked_at: since when it is revoked or, if that is earlier, invalid; UTC.
        reason: CRLReason, or None if none is stated.
    """

    revoked_at: datetime
    reason: int | None


def entry_of(data: bytes, start: int, end: int, serial: int) -> Entry | None:
    """The entry about a serial number among those from `start` to `end`, or None.

    Raises:
        TimestampError: EVIDENCE, DER: an entry is malformed or not supported, or there are two.
    """
    wanted = encode_integer(serial)
    found: bytes | None = None
    at = start
    while at < end:
        at, listed = _walk(data, at, end, wanted)
        if listed is not None:
            if found is not None:
                raise bad_evidence("CRL lists a certificate twice", got=f"serial {serial:#x}")
            found = listed
    return None if found is None else _read(found)


def _walk(data: bytes, at: int, end: int, wanted: bytes) -> tuple[int, bytes | None]:
    """Go on from `at` until an entry of the wanted serial number, the end, or a few hundred entries.

    Not to the end in one call: Python 3.11 runs a loop slowly until its function was called some times.
    """
    wanted_size, wanted_first = wanted[1], wanted[2]
    for _ in range(_STRIDE):
        if at >= end:
            break
        # RFC 5280 section 5.1: SEQUENCE { userCertificate INTEGER, revocationDate Time, ... }
        entry = at
        if at + _SMALLEST + 2 > end or data[at] != SEQUENCE:
            raise _malformed(entry)
        length = data[at + 1]
        at += 2
        if not _SMALLEST <= length < 0x80:
            at, length = _long_length(data, at, length, entry)
        stop = at + length
        size = data[at + 1]
        if stop > end or data[at] != INTEGER or not 0 < size < length - 2 or size > 0x7F:
            raise _malformed(entry)
        first = data[at + 2]
        if (first == 0x00 or first == 0xFF) and size > 1 and data[at + 3] >> 7 == first & 1:
            raise bad_evidence("CRL entry: serial number is not in its shortest form")
        if first == wanted_first and size == wanted_size and data.startswith(wanted, at):
            return stop, data[entry:stop]
        at = stop
    return at, None


def _long_length(data: bytes, at: int, first: int, entry: int) -> tuple[int, int]:
    """Where the contents begin, and their size: X.690 section 8.1.3.5, in its shortest form."""
    size = first & 0x7F
    length = int.from_bytes(data[at : at + size], "big")
    if first < 0x80 or not 1 <= size <= 4 or length < 0x80 or length >> (8 * (size - 1)) == 0:
        raise _malformed(entry)
    return at + size, length


def _read(data: bytes) -> Entry:
    members = Members(parse(data, max_nodes=MAX_ENTRY_NODES), "CRL entry")
    members.take(INTEGER)
    revoked_at = moment(members.take(), "revocationDate")
    listed = members.optional(SEQUENCE)
    members.end()
    reason = None
    extensions = {} if listed is None else read_extensions(listed, "CRL entry extensions")
    for oid, extension in extensions.items():
        if oid == _REASON:
            value = parse(extension.value, max_nodes=MAX_ENTRY_NODES)
            reason = integer(value, "reasonCode", ENUMERATED)
        elif oid == _INVALIDITY_DATE:
            value = parse(extension.value, max_nodes=MAX_ENTRY_NODES)
            since = moment(expect(value, GENERALIZED_TIME, "invalidityDate"), "invalidityDate")
            revoked_at = min(revoked_at, since)
        elif extension.critical:
            raise bad_evidence("CRL entry extension is not supported", got=oid)
    return Entry(revoked_at, reason)


def _malformed(offset: int) -> TimestampError:
    return bad_evidence("CRL entry is malformed", got=f"offset {offset} of the signed part")
