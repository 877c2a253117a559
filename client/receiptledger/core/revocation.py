"""Revocation of the certificates on a timestamp's path, from stored CRLs and OCSP responses.

No network: the daemon fetches the evidence a day or two after the timestamp, stores it, and commits to
it in the log by :meth:`RevocationEvidence.manifest`; who verifies brings it along. Evidence about other
certificates is ignored; evidence about these that does not hold is refused, so that a forged list can
neither void a timestamp nor pass for its proof. Without evidence the answer is "unknown".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from receiptledger.core.canonical import canonicalize
from receiptledger.core.encoding import digest_text
from receiptledger.core.revocation_crl import crl_findings, load_crl
from receiptledger.core.revocation_finding import (
    GOOD,
    GOOD_REVOKED_LATER,
    UNKNOWN,
    bad_evidence,
    judge,
)
from receiptledger.core.revocation_ocsp import load_ocsp, ocsp_findings
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_limits import MAX_BLOBS, MIN_RSA_BITS
from receiptledger.core.tsa_certificate import load_certificate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = [
    "GOOD",
    "GOOD_REVOKED_LATER",
    "MAX_BLOBS",
    "NO_EVIDENCE",
    "UNKNOWN",
    "RevocationEvidence",
    "check_revocation",
    "covers",
]


@dataclass(frozen=True, slots=True)
class RevocationEvidence:
    """CRLs and OCSP responses, DER, in the order in which they were stored."""

    crls: tuple[bytes, ...] = ()
    ocsps: tuple[bytes, ...] = ()

    def manifest(self) -> bytes:
        """JCS bytes that name every blob by its SHA-256: what an anchor leaf commits to."""
        return canonicalize(
            {
                "crls": [digest_text(hashlib.sha256(crl).digest()) for crl in self.crls],
                "kind": "revocation",
                "ocsps": [digest_text(hashlib.sha256(ocsp).digest()) for ocsp in self.ocsps],
                "v": 1,
            }
        )


NO_EVIDENCE: Final = RevocationEvidence()


def check_revocation(
    path: Sequence[TsaCertificate],
    evidence: RevocationEvidence,
    gen_time: datetime,
    min_rsa_bits: int = MIN_RSA_BITS,
) -> str:
    """What the evidence says about a verified path, the root excepted.

    Args:
        path: signer first, root last.
        evidence: what there is.
        gen_time: of the timestamp.
        min_rsa_bits: for the key of an OCSP responder; the path's own keys are verified already.

    Returns:
        GOOD if every certificate is, GOOD_REVOKED_LATER if one was revoked later and harmlessly,
        UNKNOWN if the evidence does not settle all of them.

    Raises:
        TimestampError: REVOKED, EVIDENCE.
    """
    states = _states(path, evidence, gen_time, min_rsa_bits)
    # Revoked later is worth telling even where something else is missing.
    for state in (GOOD_REVOKED_LATER, UNKNOWN):
        if state in states:
            return state
    return GOOD


def covers(path: Sequence[bytes], evidence: RevocationEvidence, gen_time: datetime) -> bool:
    """Whether the evidence settles every certificate of a path but its root, for better or worse.

    Args:
        path: DER certificates, signer first, root last.
        evidence: what there is.
        gen_time: of the timestamp.

    Returns:
        False also when the evidence itself is bad. True when a certificate is revoked: no further
        evidence is needed.

    Raises:
        TimestampError: CERTIFICATE, the path cannot be read.
    """
    certificates = [load_certificate(der) for der in path]
    try:
        return UNKNOWN not in _states(certificates, evidence, gen_time)
    except TimestampError as error:
        return error.cause is Cause.REVOKED


def _states(
    path: Sequence[TsaCertificate],
    evidence: RevocationEvidence,
    gen_time: datetime,
    min_rsa_bits: int = MIN_RSA_BITS,
) -> list[str]:
    if len(evidence.crls) + len(evidence.ocsps) > MAX_BLOBS:
        raise bad_evidence("too many CRLs and OCSP responses", want=f"at most {MAX_BLOBS}")
    pairs = list(pairwise(path))
    try:
        crls = [load_crl(der) for der in evidence.crls]
        ocsps = [load_ocsp(der) for der in evidence.ocsps]
        findings = [
            [
                *(one for crl in crls for one in crl_findings(crl, certificate, issuer)),
                *(
                    one
                    for ocsp in ocsps
                    for one in ocsp_findings(ocsp, certificate, issuer, min_rsa_bits)
                ),
            ]
            for certificate, issuer in pairs
        ]
    except TimestampError as error:
        if error.cause is Cause.EVIDENCE:
            raise
        raise bad_evidence(
            f"a CRL or OCSP response does not hold: {error.message}", want=error.want, got=error.got
        ) from None
    return [
        judge(found, certificate, gen_time)
        for found, (certificate, _) in zip(findings, pairs, strict=True)
    ]
