"""Renewed timestamps: how a token proves something after its certificate has expired (RFC 4998).

A token is renewed by a later one over its bytes, made while the earlier still held. Chain rules
(RFC 4998 sections 5.2 and 5.3, for one archive timestamp chain):

- the first token stamps the message, each next one the whole DER of the one before;
- times strictly ascend;
- each is made before the path and the algorithms of the one before have expired;
- one hash algorithm within a chain.

A ledger renews in bulk: every token is the leaf of a tree, and the token over a later tree head renews
all of them. Whoever walks that uses :func:`holds_at` for each step.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp import verify_token
from receiptledger.core.timestamp_algorithms import TABLE, not_after, usable
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_types import DEFAULT_RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from receiptledger.core.timestamp_types import Timestamp, TimestampRules, TsaTrust

__all__ = ["DEFAULT_MARGIN", "holds_at", "holds_until", "renew_by", "verify_renewal_chain"]

DEFAULT_MARGIN: Final = timedelta(days=180)

_FOREIGN = (
    Cause.UNKNOWN_TSA,
    Cause.CHAIN,
    Cause.NO_SIGNER_CERTIFICATE,
    Cause.TSA_PIN,
    Cause.POLICY,
)


def holds_until(timestamp: Timestamp, table: Mapping[str, datetime] = TABLE) -> datetime:
    """The last moment at which the token proves its time without being renewed."""
    return min(timestamp.path_not_after, not_after(timestamp.algorithms, table))


def holds_at(timestamp: Timestamp, moment: datetime, table: Mapping[str, datetime] = TABLE) -> bool:
    """Whether the path and all algorithms of a verified token are good at `moment`."""
    return moment <= holds_until(timestamp, table)


def renew_by(
    timestamp: Timestamp,
    margin: timedelta = DEFAULT_MARGIN,
    table: Mapping[str, datetime] = TABLE,
) -> datetime:
    """When the token should have been renewed: `margin` before it stops to hold."""
    return holds_until(timestamp, table) - margin


def verify_renewal_chain(
    message: bytes,
    tokens: Sequence[bytes],
    trusts: Sequence[TsaTrust],
    *,
    rules: TimestampRules = DEFAULT_RULES,
    table: Mapping[str, datetime] = TABLE,
) -> tuple[Timestamp, Timestamp]:
    """Verify that `message` existed at the time of the first token.

    Args:
        message: what the first token stamps.
        tokens: DER TimeStampTokens, oldest first, at least one.
        trusts: authorities; each token must satisfy one of them entirely.
        rules: for every token.
        table: until when algorithms are believed.

    Returns:
        The first and the last timestamp. Whether the last one holds today is the caller's to ask.

    Raises:
        TimestampError: the cause of a token that does not hold; RENEWAL_LINK for one that does not
            stamp the one before or uses another hash; RENEWAL_ORDER; RENEWAL_LATE;
            ALGORITHM_EXPIRED.
    """
    if not tokens:
        raise TimestampError(Cause.NO_TOKEN, "a renewal chain holds at least one token")
    first = last = _verify_by_one(tokens[0], message, trusts, rules)
    for renewed, token in pairwise(tokens):
        before = last
        try:
            last = _verify_by_one(token, renewed, trusts, rules)
        except TimestampError as error:
            if error.cause is not Cause.IMPRINT:
                raise
            raise TimestampError(
                Cause.RENEWAL_LINK, "a token does not stamp the one before it"
            ) from None
        _check_step(before, last, table)
    return first, last


def _check_step(before: Timestamp, after: Timestamp, table: Mapping[str, datetime]) -> None:
    if after.gen_time <= before.gen_time:
        raise TimestampError(
            Cause.RENEWAL_ORDER,
            "a renewal is not later than what it renews",
            want=f"after {before.gen_time.isoformat()}",
            got=after.gen_time.isoformat(),
        )
    if after.hash_algorithm != before.hash_algorithm:
        raise TimestampError(
            Cause.RENEWAL_LINK,
            "hash of the imprint changes within a chain",
            want=before.hash_algorithm,
            got=after.hash_algorithm,
        )
    if after.gen_time > before.path_not_after:
        raise TimestampError(
            Cause.RENEWAL_LATE,
            "renewed after the path before had expired",
            want=f"not after {before.path_not_after.isoformat()}",
            got=after.gen_time.isoformat(),
        )
    usable(before.algorithms, after.gen_time, table)


def _verify_by_one(
    token: bytes, message: bytes, trusts: Sequence[TsaTrust], rules: TimestampRules
) -> Timestamp:
    """Verify against each authority on its own, never several together."""
    refusal = TimestampError(Cause.UNKNOWN_TSA, "no authority is configured")
    for trust in trusts:
        try:
            return verify_token(token, message, trust, rules=rules)
        except TimestampError as error:
            # What says only that the token is another authority's gives way to a better reason.
            if refusal.cause in _FOREIGN:
                refusal = error
    raise refusal
