"""Fetches what proves, for decades, that no certificate of a timestamp's path was revoked at its time.

Servers of revocation lists die with their CA, so the evidence is fetched a day or two after the
timestamp and kept with it. For every certificate of the path but the root, which nobody can revoke:
first the CRLs it names (RFC 5280 section 4.2.1.13), since one list serves all certificates of its
issuer; when none will do, the OCSP responders it names (section 4.2.2.1). What comes is kept only when
the verifier of core says that it settles the certificate.

The URLs are read from certificates that lead to the operator's own roots, never from anything else.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import AuthorityInformationAccessOID

from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.words import without_userinfo
from receiptledger.core.revocation import RevocationEvidence, covers
from receiptledger.core.timestamp_cause import Cause, TimestampError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from ledgerd.tsa.http import TsaHttp

__all__ = ["EvidenceFetch", "Fetch", "fetch_evidence"]

MAX_URLS: Final = 4  # of one kind in one certificate; real ones name one or two
MAX_URL: Final = 2_048
MAX_PATH: Final = 10


class Fetch(Protocol):
    """How evidence is fetched; both raise TsaError."""

    async def get(self, url: str) -> bytes:
        """The body at a URL."""
        ...

    async def ocsp(self, url: str, request: bytes) -> bytes:
        """The answer of an OCSP responder."""
        ...


class EvidenceFetch:
    """Fetches through one TSA's HTTP session, and each thing once: make one for each round.

    Failures are remembered like successes, so a dead server costs one deadline a round.
    """

    def __init__(self, http: TsaHttp, *, deadline_seconds: float) -> None:
        self._http = http
        self._deadline = deadline_seconds
        self._lock = asyncio.Lock()
        self._kept: dict[tuple[str, bytes], bytes | TsaError] = {}

    async def get(self, url: str) -> bytes:
        """The body at a URL."""
        return await self._once(
            (url, b""), lambda: self._http.get(url, deadline_seconds=self._deadline)
        )

    async def ocsp(self, url: str, request: bytes) -> bytes:
        """The answer of an OCSP responder."""
        return await self._once(
            (url, request),
            lambda: self._http.post_ocsp(url, request, deadline_seconds=self._deadline),
        )

    async def _once(self, key: tuple[str, bytes], fetch: Callable[[], Awaitable[bytes]]) -> bytes:
        async with self._lock:
            if key not in self._kept:
                try:
                    self._kept[key] = await fetch()
                except TsaError as error:
                    self._kept[key] = error
            kept = self._kept[key]
        if isinstance(kept, TsaError):
            raise TsaError(kept.cause, kept.detail, kept.retry_after_seconds)
        return kept


async def fetch_evidence(
    path: tuple[bytes, ...], fetch: Fetch, *, gen_time: datetime | None = None
) -> RevocationEvidence:
    """Evidence for every certificate of a verified path (signer first, root last) that names a source.

    Args:
        path: DER certificates.
        fetch: how to get things.
        gen_time: of the timestamp (aware): evidence from before it says nothing and is not taken.
            None takes evidence of any age.

    Raises:
        TsaError: evidence, when no certificate names a source, or what came for one settles nothing;
            the transport's cause, when for one nothing came at all.
    """
    if not 2 <= len(path) <= MAX_PATH:
        raise TsaError(Cause.EVIDENCE, f"a path of {len(path)} certificates")
    try:
        certificates = [x509.load_der_x509_certificate(der) for der in path]
    except (ValueError, x509.InvalidVersion) as error:
        raise TsaError(Cause.EVIDENCE, f"a certificate that cannot be read: {error}") from None
    crls: dict[bytes, None] = {}
    ocsps: dict[bytes, None] = {}
    named = False
    for certificate, issuer in pairwise(certificates):
        sources = _sources(certificate, issuer, fetch)
        if not sources:
            continue  # nobody ever says anything about it; the verifier reports "unknown"
        named = True
        found = await _first(sources, certificate, issuer, gen_time)
        crls |= dict.fromkeys(found.crls)
        ocsps |= dict.fromkeys(found.ocsps)
    if not named:
        raise TsaError(
            Cause.EVIDENCE, "no certificate of the path names a CRL or an OCSP responder"
        )
    return RevocationEvidence(tuple(crls), tuple(ocsps))


_Source = tuple[str, "Callable[[], Awaitable[RevocationEvidence]]"]


async def _first(
    sources: list[_Source],
    certificate: x509.Certificate,
    issuer: x509.Certificate,
    gen_time: datetime | None,
) -> RevocationEvidence:
    """What the first source gives that settles the certificate."""
    pair = (certificate.public_bytes(Encoding.DER), issuer.public_bytes(Encoding.DER))
    moment = gen_time or certificate.not_valid_before_utc
    cause: Cause | None = None
    problems = []
    for url, get in sources:
        try:
            found = await get()
            # Checking a long list takes milliseconds; not on the event loop.
            if await asyncio.to_thread(covers, pair, found, moment):
                return found
            cause = Cause.EVIDENCE
            problems.append(f"{without_userinfo(url)} does not settle it at {moment.isoformat()}")
        except TsaError as error:
            cause = cause or error.cause
            problems.append(f"{without_userinfo(url)}: {error.detail}")
        except TimestampError as error:
            cause = Cause.EVIDENCE
            problems.append(f"{without_userinfo(url)}: {error.message}")
    subject = ascii(certificate.subject.rfc4514_string()[:100])
    raise TsaError(cause or Cause.EVIDENCE, f"for {subject}: {'; '.join(problems)}")


def _sources(
    certificate: x509.Certificate, issuer: x509.Certificate, fetch: Fetch
) -> list[_Source]:
    async def crl(url: str) -> RevocationEvidence:
        return RevocationEvidence(crls=(await fetch.get(url),))

    async def answer(url: str) -> RevocationEvidence:
        return RevocationEvidence(ocsps=(await fetch.ocsp(url, _question(certificate, issuer)),))

    def of(get: Callable[[str], Awaitable[RevocationEvidence]], url: str) -> _Source:
        return url, lambda: get(url)

    return [of(crl, url) for url in _crl_urls(certificate)] + [
        of(answer, url) for url in _ocsp_urls(certificate)
    ]


def _question(certificate: x509.Certificate, issuer: x509.Certificate) -> bytes:
    """Whether one certificate is revoked. SHA-1 only names the issuer; all responders know it."""
    builder = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA1())  # noqa: S303
    return builder.build().public_bytes(Encoding.DER)


def _crl_urls(certificate: x509.Certificate) -> list[str]:
    try:
        points = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
    except _UNREADABLE:
        return []
    # A point for some reasons only, or of another issuer, does not settle the certificate alone.
    whole = [point for point in points if point.reasons is None and point.crl_issuer is None]
    return _web(name for point in whole for name in point.full_name or ())


def _ocsp_urls(certificate: x509.Certificate) -> list[str]:
    try:
        access = certificate.extensions.get_extension_for_class(
            x509.AuthorityInformationAccess
        ).value
    except _UNREADABLE:
        return []
    wanted = AuthorityInformationAccessOID.OCSP
    return _web(item.access_location for item in access if item.access_method == wanted)


def _web(names: Iterable[x509.GeneralName]) -> list[str]:
    urls = [name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)]
    web = [url for url in urls if url.lower().startswith(("http://", "https://"))]
    return [url for url in dict.fromkeys(web) if len(url) <= MAX_URL][:MAX_URLS]


_UNREADABLE = (
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    ValueError,
)
