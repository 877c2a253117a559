"""Which of a development TSA's certificates are revoked: CRLs (RFC 5280) and OCSP (RFC 6960).

Both are made when they are asked for and dated then, so evidence that is fetched after a timestamp
always covers it. What was revoked is kept in a file of the folder.
"""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp

if TYPE_CHECKING:
    from pathlib import Path

    from ledgerd.devtsa.pki import Pair

__all__ = ["Revocations"]

_LIFETIME: Final = timedelta(days=7)


class Revocations:
    """The revoked serial numbers of one folder, and what says so. Safe for threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._revoked: dict[int, tuple[datetime, x509.ReasonFlags | None]] = {}
        if path.exists():
            for serial, (date, reason) in json.loads(path.read_text("utf-8")).items():
                flag = None if reason is None else x509.ReasonFlags(reason)
                self._revoked[int(serial)] = datetime.fromisoformat(date), flag

    def revoke(self, serial: int, date: datetime, reason: x509.ReasonFlags | None) -> None:
        """Enter a certificate, from now on in every list and answer; None leaves the reason out."""
        with self._lock:
            self._revoked[serial] = date.replace(microsecond=0), reason
            rows = {
                str(number): (when.isoformat(), None if flag is None else flag.value)
                for number, (when, flag) in self._revoked.items()
            }
            self._path.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")

    def crl(self, issuer: Pair, now: datetime) -> bytes:
        """A list in DER, signed by an issuer, dated now.

        It names every revoked serial number of the folder: 159 random bits meet no other issuer's.
        """
        now = now.replace(microsecond=0)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(issuer.certificate.subject)
            .last_update(now)
            .next_update(now + _LIFETIME)
            .add_extension(x509.CRLNumber(int(now.timestamp())), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()),
                critical=False,
            )
        )
        for serial, (date, reason) in self._entries():
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date)
            if reason is not None:
                entry = entry.add_extension(x509.CRLReason(reason), critical=False)
            builder = builder.add_revoked_certificate(entry.build())
        signed = builder.sign(issuer.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)

    def ocsp(
        self,
        request: bytes,
        issued: tuple[tuple[Pair, x509.Certificate], ...],
        now: datetime,
    ) -> bytes:
        """The answer, in DER, to one OCSP request about one of the certificates issued here.

        A malformed request and an unknown certificate get an unsigned refusal (RFC 6960 section 2.3).
        """
        refusal = ocsp.OCSPResponseStatus.MALFORMED_REQUEST
        try:
            asked = ocsp.load_der_ocsp_request(request)
            for issuer, certificate in issued:
                if asked.serial_number == certificate.serial_number:
                    return self._answer(issuer, certificate, asked.hash_algorithm, now)
            refusal = ocsp.OCSPResponseStatus.UNAUTHORIZED
        except ValueError:
            pass
        unsigned = ocsp.OCSPResponseBuilder.build_unsuccessful(refusal)
        return unsigned.public_bytes(serialization.Encoding.DER)

    def _answer(
        self,
        issuer: Pair,
        certificate: x509.Certificate,
        algorithm: hashes.HashAlgorithm,
        now: datetime,
    ) -> bytes:
        now = now.replace(microsecond=0)
        date, reason = dict(self._entries()).get(certificate.serial_number, (None, None))
        good, revoked = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED
        builder = (
            ocsp.OCSPResponseBuilder()
            .add_response(
                cert=certificate,
                issuer=issuer.certificate,
                algorithm=algorithm,
                cert_status=good if date is None else revoked,
                this_update=now,
                next_update=now + _LIFETIME,
                revocation_time=date,
                revocation_reason=reason,
            )
            .responder_id(ocsp.OCSPResponderEncoding.HASH, issuer.certificate)
        )
        return builder.sign(issuer.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)

    def _entries(self) -> list[tuple[int, tuple[datetime, x509.ReasonFlags | None]]]:
        with self._lock:
            return sorted(self._revoked.items(), key=lambda item: item[0])
