"""What certificates of a timestamp's path must be, each for itself: the signer, and those that issue.

See `tsa_path` for the rules in one piece. What is wrong with an issuer is given as words, not raised:
many candidates are looked at, and hardly ever is one of them worth an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.tsa_extensions import (
    AUTHORITY_KEY_IDENTIFIER,
    BASIC_CONSTRAINTS,
    CRL_DISTRIBUTION_POINTS,
    DIGITAL_SIGNATURE,
    EXTENDED_KEY_USAGE,
    KEY_CERT_SIGN,
    KEY_USAGE,
    NAME_CONSTRAINTS,
    NON_REPUDIATION,
    PRIVATE_KEY_USAGE_PERIOD,
    SUBJECT_ALTERNATIVE_NAME,
    SUBJECT_KEY_IDENTIFIER,
)
from receiptledger.core.tsa_name import name_text, same_name

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = [
    "TIME_STAMPING",
    "ca_problem",
    "chain_error",
    "check_critical",
    "check_signer",
    "intermediate_problem",
    "not_valid",
]

TIME_STAMPING: Final = "1.3.6.1.5.5.7.3.8"
_ANY_PURPOSE = "2.5.29.37.0"

_UNDERSTOOD = frozenset(
    {
        AUTHORITY_KEY_IDENTIFIER,
        BASIC_CONSTRAINTS,
        CRL_DISTRIBUTION_POINTS,
        EXTENDED_KEY_USAGE,
        KEY_USAGE,
        SUBJECT_ALTERNATIVE_NAME,
        SUBJECT_KEY_IDENTIFIER,
        "2.5.29.18",  # issuerAltName
        # Certificate policies, their mapping and inhibitAnyPolicy restrict nothing as long as no
        # policy is required (RFC 5280 section 6.1.1); policyConstraints, which can require one, is
        # not here and so is refused when critical, as it must be.
        "2.5.29.32",
        "2.5.29.33",
        "2.5.29.54",
    }
)


def check_signer(signer: TsaCertificate, at: datetime) -> None:
    """Check that a certificate may sign a timestamp at this time, whoever issued it.

    Raises:
        TimestampError: CHAIN, EKU, KEY_USAGE, CERTIFICATE, SIGNATURE_ALGORITHM, HASH_ALGORITHM, DER.
    """
    if signer.is_ca:
        raise chain_error("signer is a CA", signer)
    purposes = signer.purposes
    if purposes != (TIME_STAMPING,):
        raise TimestampError(
            Cause.EKU,
            "extendedKeyUsage of the signer",
            want="timeStamping alone",
            got="none" if purposes is None else ", ".join(purposes),
        )
    if not signer.extensions[EXTENDED_KEY_USAGE].critical:
        raise TimestampError(Cause.EKU, "extendedKeyUsage of the signer is not critical")
    usage = signer.usage
    if usage is not None and not (usage and usage <= {DIGITAL_SIGNATURE, NON_REPUDIATION}):
        raise TimestampError(
            Cause.KEY_USAGE,
            "keyUsage of the signer",
            want="digitalSignature or nonRepudiation alone",
            got=f"bits {sorted(usage)}",
        )
    _check_key_period(signer, at)
    check_critical(signer, _UNDERSTOOD | {PRIVATE_KEY_USAGE_PERIOD})
    if not signer.valid_at(at):
        raise not_valid(signer, at)
    signer.check_algorithm()


def _check_key_period(signer: TsaCertificate, at: datetime) -> None:
    """RFC 3280 section 4.2.1.4: whoever holds the key may not sign with it outside this time.

    Critical or not: an authority that says so means it. For issuers it limits when they issue, which
    no certificate tells; where it is critical, they are refused.
    """
    first, last = signer.key_period
    if (first is not None and at < first) or (last is not None and at > last):
        raise TimestampError(
            Cause.KEY_USAGE,
            "genTime is outside the privateKeyUsagePeriod of the signer",
            want=f"{first or 'any time'} to {last or 'any time'}",
            got=str(at),
        )


def ca_problem(
    issuer: TsaCertificate, path: tuple[TsaCertificate, ...], *, is_root: bool
) -> str | None:
    """What stands against a certificate as the issuer of those before it, root or not."""
    constraints = issuer.constraints
    if constraints is None:
        if not is_root:
            return "issuer is not a CA"
        if issuer.version == 3:
            return "configured root, of version 3, does not say that it is a CA"
    else:
        ca, limit = constraints
        if not ca:
            return "issuer is not a CA"
        # RFC 5280 6.1.4 (l): certificates that a CA issues to itself do not count.
        below = sum(not same_name(one.subject, one.issuer) for one in path[1:])
        if limit is not None and below > limit:
            return f"path length {limit} of an issuer is exceeded"
    usage = issuer.usage
    if usage is not None and KEY_CERT_SIGN not in usage:
        return "issuer may not sign certificates"
    return None


def intermediate_problem(issuer: TsaCertificate) -> str | None:
    """What stands against an issuer that is no root: a root's extensions do not matter."""
    critical = _not_understood(issuer, _UNDERSTOOD)
    if critical is not None:
        return critical
    if NAME_CONSTRAINTS in issuer.extensions:
        return "name constraints are not understood"
    purposes = issuer.purposes
    if purposes is not None and not {TIME_STAMPING, _ANY_PURPOSE} & set(purposes):
        return "issuer's purposes exclude timestamps"
    return None


def check_critical(certificate: TsaCertificate, understood: AbstractSet[str] = _UNDERSTOOD) -> None:
    """Refuse a certificate with a critical extension that is not understood.

    Raises:
        TimestampError: CHAIN.
    """
    problem = _not_understood(certificate, understood)
    if problem is not None:
        raise chain_error(problem, certificate)


def _not_understood(certificate: TsaCertificate, understood: AbstractSet[str]) -> str | None:
    for oid, extension in certificate.extensions.items():
        if extension.critical and oid not in understood:
            return f"critical extension {oid} is not understood"
    return None


def chain_error(message: str, certificate: TsaCertificate) -> TimestampError:
    """No path, because of this certificate."""
    return TimestampError(Cause.CHAIN, message, got=name_text(certificate.subject))


def not_valid(certificate: TsaCertificate, at: datetime) -> TimestampError:
    """No path, because this certificate was not valid at that time."""
    return TimestampError(
        Cause.CHAIN,
        f"certificate of {name_text(certificate.subject)} was not valid at genTime",
        want=f"{certificate.not_before.isoformat()} to {certificate.not_after.isoformat()}",
        got=at.isoformat(),
    )
