"""Revocation evidence of a whole bundle: what one stamp shows of a certificate is true of all its tokens.

Evidence comes with the stamp it was fetched for. But a key that was compromised can date back, so every
token of that key is void, the ones beside which nobody showed anything included; and a list that says
"not revoked" on a later day says it of the earlier tokens too. So each certificate is held against all
evidence of the bundle that was logged, each blob of it read once:

- a stamp's own evidence must hold: forged, it is refused and not ignored;
- another stamp's evidence counts where it holds and speaks of the certificate; where it does not, it is
  that other stamp's fault.

How much evidence a bundle can bring is bounded where it is read (`bundle_anchors`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from receiptledger.core.revocation import MAX_BLOBS
from receiptledger.core.revocation_crl import Crl, crl_findings, load_crl
from receiptledger.core.revocation_finding import (
    GOOD,
    GOOD_REVOKED_LATER,
    UNKNOWN,
    Finding,
    bad_evidence,
    judge,
)
from receiptledger.core.revocation_ocsp import Ocsp, load_ocsp, ocsp_findings
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.tsa_certificate import load_certificate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from receiptledger.core.revocation import RevocationEvidence
    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["SharedEvidence"]

# No revocation is dated before this: what voids a token of this time voids tokens of every time.
_EVER: Final = datetime.min.replace(tzinfo=UTC)


class _Blob(NamedTuple):
    """A CRL or an OCSP response, DER."""

    is_crl: bool
    der: bytes


class SharedEvidence:
    """All evidence that is at hand, each blob read once, each pair of certificates looked up once.

    Args:
        shown: evidence of stamps, known to be what the log committed to.
    """

    def __init__(self, shown: Iterable[RevocationEvidence] = ()) -> None:
        self._blobs = tuple(dict.fromkeys(blob for one in shown for blob in _blobs(one)))
        self._read: dict[_Blob, Crl | Ocsp | TimestampError] = {}
        self._found: dict[tuple[_Blob, bytes, bytes], Sequence[Finding] | TimestampError] = {}

    def state(self, path: Sequence[bytes], own: RevocationEvidence, gen_time: datetime) -> str:
        """What the evidence says about a verified path, the root excepted.

        Args:
            path: DER certificates, signer first, root last.
            own: of the stamp itself.
            gen_time: of the token.

        Returns:
            GOOD, GOOD_REVOKED_LATER or UNKNOWN, as `revocation.check_revocation`.

        Raises:
            TimestampError: REVOKED; EVIDENCE, the stamp's own does not hold.
        """
        mine = tuple(dict.fromkeys(_blobs(own)))
        if len(mine) > MAX_BLOBS:
            raise bad_evidence("too many CRLs and OCSP responses", want=f"at most {MAX_BLOBS}")
        states = [
            judge(self._about(certificate, issuer, mine), certificate, gen_time)
            for certificate, issuer in pairwise(map(load_certificate, path))
        ]
        for state in (GOOD_REVOKED_LATER, UNKNOWN):
            if state in states:
                return state
        return GOOD

    def compromised(self, path: Sequence[bytes]) -> tuple[bytes, ...]:
        """The certificates of a path, DER, that void all their tokens, whenever those were made."""
        return tuple(
            certificate.der
            for certificate, issuer in pairwise(map(load_certificate, path))
            if self._is_void(certificate, issuer)
        )

    def _is_void(self, certificate: TsaCertificate, issuer: TsaCertificate) -> bool:
        try:
            judge(self._about(certificate, issuer, ()), certificate, _EVER)
        except TimestampError:
            return True
        return False

    def _about(
        self, certificate: TsaCertificate, issuer: TsaCertificate, mine: tuple[_Blob, ...]
    ) -> Iterator[Finding]:
        """What all blobs say of one certificate; those of `mine` have to hold."""
        for blob in dict.fromkeys((*mine, *self._blobs)):
            found = self._findings(blob, certificate, issuer)
            if not isinstance(found, TimestampError):
                yield from found
            elif blob in mine:
                raise _as_evidence(found)

    def _findings(
        self, blob: _Blob, certificate: TsaCertificate, issuer: TsaCertificate
    ) -> Sequence[Finding] | TimestampError:
        key = (blob, certificate.der, issuer.der)
        if key not in self._found:
            try:
                self._found[key] = self._look_up(blob, certificate, issuer)
            except TimestampError as error:
                self._found[key] = error.with_traceback(None)
        return self._found[key]

    def _look_up(
        self, blob: _Blob, certificate: TsaCertificate, issuer: TsaCertificate
    ) -> Sequence[Finding]:
        if blob not in self._read:
            try:
                self._read[blob] = load_crl(blob.der) if blob.is_crl else load_ocsp(blob.der)
            except TimestampError as error:
                self._read[blob] = error.with_traceback(None)
        read = self._read[blob]
        if isinstance(read, TimestampError):
            raise read
        if isinstance(read, Crl):
            return crl_findings(read, certificate, issuer)
        return ocsp_findings(read, certificate, issuer)


def _blobs(evidence: RevocationEvidence) -> Iterator[_Blob]:
    for der in evidence.crls:
        yield _Blob(True, der)
    for der in evidence.ocsps:
        yield _Blob(False, der)


def _as_evidence(error: TimestampError) -> TimestampError:
    """The same, of cause EVIDENCE: whatever is wrong inside is no fault of the token."""
    if error.cause is Cause.EVIDENCE:
        return error
    return bad_evidence(
        f"a CRL or OCSP response does not hold: {error.message}", want=error.want, got=error.got
    )
