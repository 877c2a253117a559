"""What one CRL or OCSP response says about one certificate, and what that means for a timestamp.

RFC 3161 section 4, items 1 and 2, made concrete:

- not revoked, said at or after genTime and while the certificate had not expired (afterwards an
  issuer may drop it from its lists): good;
- revoked after genTime for a reason that leaves the key in good hands (unspecified,
  affiliationChanged, superseded, cessationOfOperation): good, revoked later;
- revoked for any other reason, or for none that is stated: void, whenever it happened, since whoever
  holds the key can date back;
- revoked at or before genTime, or invalid since then: void;
- nothing said: unknown, never good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.tsa_name import name_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["GOOD", "GOOD_REVOKED_LATER", "UNKNOWN", "Finding", "bad_evidence", "judge"]

GOOD: Final = "good"
GOOD_REVOKED_LATER: Final = "good, revoked later"
UNKNOWN: Final = "unknown"

_HARMLESS = frozenset({0, 3, 4, 5})  # CRLReason, RFC 5280 section 5.3.1


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about one certificate, its signature verified.

    Attributes:
        this_update: when it was known to be so.
        revoked_at: since when the certificate is revoked or invalid; None means not revoked.
        reason: CRLReason, or None if none is stated.
        complete: it is about this certificate, and of every reason there is; otherwise it can only
            make things worse.
    """

    this_update: datetime
    revoked_at: datetime | None = None
    reason: int | None = None
    complete: bool = True


def bad_evidence(
    message: str, *, want: str | None = None, got: str | None = None
) -> TimestampError:
    """The evidence itself is at fault."""
    return TimestampError(Cause.EVIDENCE, message, want=want, got=got)


def judge(findings: Iterable[Finding], certificate: TsaCertificate, gen_time: datetime) -> str:
    """GOOD, GOOD_REVOKED_LATER or UNKNOWN for one certificate at genTime.

    Raises:
        TimestampError: REVOKED.
    """
    result = UNKNOWN
    later = False
    for finding in findings:
        if finding.revoked_at is not None:
            if finding.reason not in _HARMLESS or finding.revoked_at <= gen_time:
                raise TimestampError(
                    Cause.REVOKED,
                    f"certificate of {name_text(certificate.subject)} is revoked",
                    want="not revoked, or later and for a harmless reason",
                    got=f"since {finding.revoked_at.isoformat()}, reason {finding.reason}",
                )
            later = True
            if finding.complete:
                result = GOOD_REVOKED_LATER
        elif (
            result == UNKNOWN
            and finding.complete
            and gen_time <= finding.this_update <= certificate.not_after
        ):
            result = GOOD
    return GOOD_REVOKED_LATER if later and result == GOOD else result
