"""The certificate path of a timestamp: from its signer to one configured root, valid at genTime.

Rules (RFC 5280 section 6.1, RFC 3161 section 2.3):

- The signer: extendedKeyUsage critical and exactly timeStamping; keyUsage, if present, nothing but
  digitalSignature and nonRepudiation; not a CA.
- Every issuer: a CA of version 3, with keyCertSign if it has keyUsage, path length kept, timeStamping
  or any purpose if it names purposes, no name constraints.
- Every certificate: valid at genTime, signed by the next one with an allowed algorithm, no critical
  extension that is not understood.
- A root is an anchor by its name and key. How it signed itself, its serial number and, for version 1,
  its missing extensions do not matter. If it has basicConstraints or keyUsage, they hold; and it must
  have been valid at genTime, because nobody guards a key for longer than its certificate says.
- Certificates that came with the token are candidates, never anchors. Whether the path is the right one
  is a matter of signatures; names and key identifiers only choose what to try.
- The root is never the signer itself: a path has at least two certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_signature import key_name
from receiptledger.core.tsa_certificate import (
    AUTHORITY_KEY_IDENTIFIER,
    BASIC_CONSTRAINTS,
    CRL_DISTRIBUTION_POINTS,
    DIGITAL_SIGNATURE,
    EXTENDED_KEY_USAGE,
    KEY_CERT_SIGN,
    KEY_USAGE,
    NAME_CONSTRAINTS,
    NON_REPUDIATION,
    SUBJECT_ALTERNATIVE_NAME,
    SUBJECT_KEY_IDENTIFIER,
)
from receiptledger.core.tsa_name import name_text, same_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["MAX_PATH", "TIME_STAMPING", "build_path", "check_critical"]

MAX_PATH: Final = 8  # certificates from signer to root; four is the longest known
MAX_SIGNATURES: Final = 64  # tried for one token: bounds what a bag of cross-signed CAs can cost

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


def build_path(
    signer: TsaCertificate,
    candidates: Sequence[TsaCertificate],
    roots: Sequence[TsaCertificate],
    at: datetime,
    min_rsa_bits: int,
) -> tuple[TsaCertificate, ...]:
    """The first path from `signer` over `candidates` to one of `roots`, valid at `at`.

    Returns:
        Two to eight certificates: signer first, root last.

    Raises:
        TimestampError: EKU, KEY_USAGE, CHAIN for the signer; if no path holds, the cause of the first
            one that was tried and failed, or CHAIN if there was none to try.
    """
    _check_signer(signer, at)
    search = _Search(candidates, roots, at, min_rsa_bits)
    path = search.extend((signer,))
    if path is not None:
        return path
    if search.refusal is not None:
        raise search.refusal
    raise TimestampError(
        Cause.CHAIN, "no configured root issued the signer", got=name_text(signer.issuer)
    )


class _Search:
    """Depth first, roots before intermediates, remembering why the first candidate failed."""

    def __init__(
        self,
        candidates: Sequence[TsaCertificate],
        roots: Sequence[TsaCertificate],
        at: datetime,
        min_rsa_bits: int,
    ) -> None:
        issuers = {root.der: (root, True) for root in roots}
        for one in candidates:
            issuers.setdefault(one.der, (one, False))
        self.issuers = tuple(issuers.values())
        self.at = at
        self.min_rsa_bits = min_rsa_bits
        self.signatures = 0
        self.refusal: TimestampError | None = None

    def extend(self, path: tuple[TsaCertificate, ...]) -> tuple[TsaCertificate, ...] | None:
        """The path completed to a root, or None."""
        last = path[-1]
        wanted = last.issuer_key_identifier
        named = [one for one in self.issuers if same_name(one[0].subject, last.issuer)]
        # Of several keys under one name, the one that is named first; a hint, not a rule.
        named.sort(key=lambda one: one[0].key_identifier != wanted)
        for issuer, is_root in named:
            if any(issuer.der == one.der or _same_entity(issuer, one) for one in path):
                continue
            try:
                self._check_issuer(issuer, path, is_root=is_root)
                self._check_signature(last, issuer)
            except TimestampError as refusal:
                self.refusal = self.refusal or refusal
                continue
            if is_root:
                return (*path, issuer)
            if len(path) + 1 < MAX_PATH:
                complete = self.extend((*path, issuer))
                if complete is not None:
                    return complete
        return None

    def _check_signature(self, certificate: TsaCertificate, issuer: TsaCertificate) -> None:
        if self.signatures == MAX_SIGNATURES:
            raise _chain("too many candidates for a path", issuer)
        self.signatures += 1
        key_name(issuer.key, self.min_rsa_bits)
        try:
            certificate.verify_issued_by(issuer)
        except TimestampError as error:
            if error.cause is not Cause.SIGNATURE:
                raise
            raise _chain("issuer of that name has another key", issuer) from None

    def _check_issuer(
        self, issuer: TsaCertificate, path: tuple[TsaCertificate, ...], *, is_root: bool
    ) -> None:
        if not issuer.valid_at(self.at):
            raise _not_valid(issuer, self.at)
        constraints = issuer.constraints
        if constraints is None:
            if not is_root:
                raise _chain("issuer is not a CA", issuer)
        else:
            ca, limit = constraints
            if not ca:
                raise _chain("issuer is not a CA", issuer)
            # RFC 5280 6.1.4 (l): certificates that a CA issues to itself do not count.
            below = sum(not same_name(one.subject, one.issuer) for one in path[1:])
            if limit is not None and below > limit:
                raise _chain(f"path length {limit} of an issuer is exceeded", issuer)
        usage = issuer.usage
        if usage is not None and KEY_CERT_SIGN not in usage:
            raise _chain("issuer may not sign certificates", issuer)
        if is_root:
            return
        check_critical(issuer)
        if NAME_CONSTRAINTS in issuer.extensions:
            raise _chain("name constraints are not understood", issuer)
        purposes = issuer.purposes
        if purposes is not None and not {TIME_STAMPING, _ANY_PURPOSE} & set(purposes):
            raise _chain("issuer's purposes exclude timestamps", issuer)


def check_critical(certificate: TsaCertificate) -> None:
    """Refuse a certificate with a critical extension that is not understood.

    Raises:
        TimestampError: CHAIN.
    """
    for oid, extension in certificate.extensions.items():
        if extension.critical and oid not in _UNDERSTOOD:
            raise _chain(f"critical extension {oid} is not understood", certificate)


def _check_signer(signer: TsaCertificate, at: datetime) -> None:
    if signer.is_ca:
        raise _chain("signer is a CA", signer)
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
    check_critical(signer)
    if not signer.valid_at(at):
        raise _not_valid(signer, at)


def _same_entity(one: TsaCertificate, other: TsaCertificate) -> bool:
    """Two certificates of one name and key: using both would go in a circle."""
    return one.spki == other.spki and same_name(one.subject, other.subject)


def _chain(message: str, certificate: TsaCertificate) -> TimestampError:
    return TimestampError(Cause.CHAIN, message, got=name_text(certificate.subject))


def _not_valid(certificate: TsaCertificate, at: datetime) -> TimestampError:
    return TimestampError(
        Cause.CHAIN,
        f"certificate of {name_text(certificate.subject)} was not valid at genTime",
        want=f"{certificate.not_before.isoformat()} to {certificate.not_after.isoformat()}",
        got=at.isoformat(),
    )
