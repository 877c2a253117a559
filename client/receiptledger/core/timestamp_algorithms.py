"""Until when an algorithm is believed: one dated table.

The dates are a judgement, made once and written down, not a prediction: RSA below 3,072 bits as NIST
SP 800-131A and SP 800-57 end 112-bit security; the others so that a timestamp outlives its
certificate, to be moved here when there is news. SHA-1 and shorter RSA keys are never believed. A table
can be passed by value, so that a verdict is reproducible.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TABLE", "not_after", "usable"]

_NEVER = datetime(2000, 1, 1, tzinfo=UTC)


def _end_of(year: int) -> datetime:
    return datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)


TABLE: Final[Mapping[str, datetime]] = {
    "sha1": _NEVER,
    "sha256": _end_of(2060),
    "sha384": _end_of(2060),
    "sha512": _end_of(2060),
    "rsa1024": _NEVER,
    "rsa2048": _end_of(2030),
    "rsa3072": _end_of(2050),
    "p256": _end_of(2050),
    "p384": _end_of(2050),
    "p521": _end_of(2050),
    "ed25519": _end_of(2050),
}

_RSA = re.compile(r"rsa([0-9]{1,6})", re.ASCII)
_RSA_SIZES = (3072, 2048, 1024)


def not_after(names: Iterable[str], table: Mapping[str, datetime] = TABLE) -> datetime:
    """The last moment at which all of these algorithms are believed.

    Args:
        names: as :attr:`Timestamp.algorithms` gives them; an RSA key counts as the largest size of
            the table that is not larger.
        table: last moments by name. What it does not name was never believed.
    """
    return min((_one(name, table) for name in names), default=datetime.max.replace(tzinfo=UTC))


def usable(names: Iterable[str], at: datetime, table: Mapping[str, datetime] = TABLE) -> None:
    """Check that all of these algorithms are believed at `at`.

    Raises:
        TimestampError: ALGORITHM_EXPIRED, naming the first that is not.
    """
    for name in names:
        end = _one(name, table)
        if at > end:
            raise TimestampError(
                Cause.ALGORITHM_EXPIRED,
                f"algorithm {name} is not believed then",
                want=f"not after {end.date().isoformat()}",
                got=at.date().isoformat(),
            )


def _one(name: str, table: Mapping[str, datetime]) -> datetime:
    rsa = _RSA.fullmatch(name)
    if rsa is not None:
        sizes = (size for size in _RSA_SIZES if size <= int(rsa[1]))
        name = f"rsa{next(sizes, 0)}"
    return table.get(name, _NEVER)
