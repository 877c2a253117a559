"""What a timestamp authority answers: PKIStatusInfo and TSTInfo (RFC 3161 section 2.4.2).

Form only; what is asked of the values is in `timestamp`. Decisions where authorities differ:

- genTime is `YYYYMMDDhhmmss[.f]Z` with up to nine digits and no final zero, from 2000 to 9998. No
  offsets, no missing seconds; a leap second (`:60`) is refused, because no clock of ours can hold it.
- accuracy outside the ranges of the RFC (millis 0) is refused; an empty one is zero.
- ordering FALSE written out is refused: it is the default, and a TSTInfo is DER.
- a nonce or serial may be negative in form; the nonce must then be the one that was sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import (
    BIT_STRING,
    BOOLEAN,
    GENERALIZED_TIME,
    INTEGER,
    OCTET_STRING,
    SEQUENCE,
    UTF8_STRING,
    Members,
    Node,
    bit_string,
    boolean,
    der_error,
    expect,
    instant,
    integer,
    object_identifier,
    only,
    parse,
)
from receiptledger.core.timestamp_limits import MAX_TOKEN_NODES, MAX_USAGE_BYTES
from receiptledger.core.timestamp_signature import hash_name
from receiptledger.core.tsa_extensions import read_extensions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from receiptledger.core.tsa_extensions import Extension

__all__ = ["StatusInfo", "TstInfo", "check_status", "parse_tst_info", "split_response"]

_GRANTED, _GRANTED_WITH_MODS = 0, 1
STATUS_NAMES: Final = (
    "granted",
    "grantedWithMods",
    "rejection",
    "waiting",
    "revocationWarning",
    "revocationNotification",
)
_STATUS_CAUSES: Final = {
    _GRANTED_WITH_MODS: Cause.STATUS_GRANTED_WITH_MODS,
    2: Cause.STATUS_REJECTION,
    3: Cause.STATUS_WAITING,
    4: Cause.STATUS_REVOCATION_WARNING,
    5: Cause.STATUS_REVOCATION_NOTIFICATION,
}
_FAILURES: Final = {
    0: Cause.BAD_ALG,
    2: Cause.BAD_REQUEST,
    5: Cause.BAD_DATA_FORMAT,
    14: Cause.TIME_NOT_AVAILABLE,
    15: Cause.UNACCEPTED_POLICY,
    16: Cause.UNACCEPTED_EXTENSION,
    17: Cause.ADD_INFO_NOT_AVAILABLE,
    25: Cause.SYSTEM_FAILURE,
}
_MAX_SERIAL_BITS = 160  # RFC 3161: users must cope with that many
_MAX_SECONDS = 10**9  # of accuracy: more than thirty years, and far from any overflow
_GEN_TIME = re.compile(r"([0-9]{14})(?:\.([0-9]{0,8}[1-9]))?Z", re.ASCII)
_YEARS = range(2000, 9999)  # so that adding an accuracy can never overflow


@dataclass(frozen=True, slots=True)
class StatusInfo:
    """PKIStatusInfo: its status number, texts, and the numbers of the failInfo bits that are set."""

    status: int
    texts: tuple[str, ...]
    failures: tuple[int, ...]

    @property
    def cause(self) -> Cause | None:
        """Why this is no plain "granted", or None if it is."""
        known = [_FAILURES[bit] for bit in self.failures if bit in _FAILURES]
        if self.status == _GRANTED:
            # A failure beside "granted": an answer that contradicts itself is not taken.
            return (known or [Cause.STATUS_UNKNOWN])[0] if self.failures else None
        cause = _STATUS_CAUSES.get(self.status, Cause.STATUS_UNKNOWN)
        return known[0] if cause is Cause.STATUS_REJECTION and known else cause

    @property
    def status_name(self) -> str:
        """The name of the status, or its number."""
        known = 0 <= self.status < len(STATUS_NAMES)
        return STATUS_NAMES[self.status] if known else hex(self.status)

    @staticmethod
    def failure_name(bit: int) -> str:
        """The name of a failInfo bit."""
        return str(_FAILURES.get(bit, f"bit {bit}"))


@dataclass(frozen=True, slots=True)
class TstInfo:
    """TSTInfo as it was read; `tsa` is a GeneralName."""

    policy: str
    hash_algorithm: str
    imprint: bytes
    serial: int
    gen_time: datetime
    accuracy: timedelta | None
    ordering: bool
    nonce: int | None
    tsa: Node | None
    extensions: Mapping[str, Extension]


def split_response(response: bytes, max_bytes: int) -> tuple[StatusInfo, bytes | None]:
    """A TimeStampResp's status and its token, which is not opened.

    Raises:
        TimestampError: TOO_LARGE, DER.
    """
    top = parse(response, opaque=frozenset({(SEQUENCE,)}), max_bytes=max_bytes)
    members = Members(top, "TimeStampResp")
    status = _status_info(parse(members.take(SEQUENCE).raw, max_nodes=MAX_TOKEN_NODES))
    token = members.optional(SEQUENCE)
    members.end()
    return status, None if token is None else token.raw


def check_status(info: StatusInfo, *, allow_granted_with_mods: bool) -> None:
    """Refuse every answer but "granted".

    Raises:
        TimestampError: one of the STATUS causes or of the failInfo causes.
    """
    cause = info.cause
    modified = info.status == _GRANTED_WITH_MODS and not info.failures
    if cause is None or (modified and allow_granted_with_mods):
        return
    said = [info.status_name, *map(ascii, info.texts)]
    raise TimestampError(
        cause, "the authority did not grant a timestamp", want="granted", got=" ".join(said)[:200]
    )


def parse_tst_info(data: bytes) -> TstInfo:
    """Read the DER of a TSTInfo.

    Raises:
        TimestampError: DER, TST_VERSION, HASH_ALGORITHM, SERIAL, GEN_TIME, ACCURACY,
            CRITICAL_EXTENSION.
    """
    members = Members(parse(data, max_nodes=MAX_TOKEN_NODES), "TSTInfo")
    version = integer(members.take(), "TSTInfo version")
    if version != 1:
        raise TimestampError(Cause.TST_VERSION, "TSTInfo version", want="1", got=str(version))
    policy = object_identifier(members.take(), "policy")
    imprint = Members(members.take(), "messageImprint")
    hash_algorithm = hash_name(imprint.take(), "messageImprint algorithm")
    hashed = imprint.take(OCTET_STRING).content
    imprint.end()
    serial = integer(members.take(), "serialNumber")
    if abs(serial) >> _MAX_SERIAL_BITS:
        raise TimestampError(Cause.SERIAL, "serial number is too long", want="at most 160 bits")
    gen_time = _gen_time(members.take(GENERALIZED_TIME))
    accuracy_node = members.optional(SEQUENCE)
    ordering = members.optional(BOOLEAN)
    nonce = members.optional(INTEGER)
    tsa = members.optional(0xA0)
    extensions_node = members.optional(0xA1)
    members.end()
    if ordering is not None and not boolean(ordering, "ordering"):
        raise der_error("ordering FALSE is written out")
    extensions: Mapping[str, Extension] = {}
    if extensions_node is not None:
        # [1] IMPLICIT: read_extensions wants the SEQUENCE that the tag stands for.
        plain = Node(SEQUENCE, b"", extensions_node.content, extensions_node.children)
        extensions = read_extensions(plain, "TSTInfo extensions")
    for oid, extension in extensions.items():
        if extension.critical:  # none is understood
            raise TimestampError(Cause.CRITICAL_EXTENSION, "critical TSTInfo extension", got=oid)
    return TstInfo(
        policy=policy,
        hash_algorithm=hash_algorithm,
        imprint=hashed,
        serial=serial,
        gen_time=gen_time,
        accuracy=None if accuracy_node is None else _accuracy(accuracy_node),
        ordering=ordering is not None,
        nonce=None if nonce is None else integer(nonce, "nonce"),
        tsa=None if tsa is None else only(tsa, "tsa"),
        extensions=extensions,
    )


def _status_info(node: Node) -> StatusInfo:
    members = Members(node, "PKIStatusInfo")
    status = integer(members.take(), "PKIStatus")
    texts = members.optional(SEQUENCE)
    failures = members.optional(BIT_STRING)
    members.end()
    bits = b"" if failures is None else bit_string(failures, "failInfo")
    if len(bits) > MAX_USAGE_BYTES:
        raise der_error("failInfo is too long", want=f"at most {MAX_USAGE_BYTES} bytes")
    return StatusInfo(
        status,
        tuple(
            expect(text, UTF8_STRING, "statusString").content.decode("utf-8", "replace")
            for text in (() if texts is None else texts.children)
        ),
        tuple(bit for bit in range(8 * len(bits)) if bits[bit // 8] & 0x80 >> bit % 8),
    )


def _gen_time(node: Node) -> datetime:
    text = node.content.decode("latin-1")
    form = _GEN_TIME.fullmatch(text)
    if form is None or int(text[:4]) not in _YEARS:
        raise TimestampError(
            Cause.GEN_TIME, "genTime", want="YYYYMMDDhhmmss[.f]Z", got=ascii(text[:40])
        )
    try:
        whole = instant(form[1])
    except ValueError:
        raise TimestampError(Cause.GEN_TIME, "genTime is no date", got=text[:40]) from None
    return whole + timedelta(microseconds=int((form[2] or "").ljust(6, "0")[:6]))


def _accuracy(node: Node) -> timedelta:
    members = Members(node, "accuracy")
    seconds = members.optional(INTEGER)
    millis = members.optional(0x80)
    micros = members.optional(0x81)
    members.end()
    values = (
        0 if seconds is None else integer(seconds, "accuracy seconds"),
        0 if millis is None else _thousandth(millis),
        0 if micros is None else _thousandth(micros),
    )
    if not 0 <= values[0] <= _MAX_SECONDS:
        raise TimestampError(Cause.ACCURACY, "accuracy seconds are out of range")
    return timedelta(seconds=values[0], milliseconds=values[1], microseconds=values[2])


def _thousandth(node: Node) -> int:
    value = integer(node, "accuracy", node.tag)
    if not 1 <= value <= 999:
        raise TimestampError(
            Cause.ACCURACY, "accuracy part is out of range", want="1 to 999", got=str(value)
        )
    return value
