"""Revocation evidence: the right sources in the right order, and only what settles a certificate."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID, NameOID

from ledgerd.devtsa.server import DevTsa
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.revocation import EvidenceFetch, fetch_evidence
from receiptledger.core.revocation import RevocationEvidence, covers
from receiptledger.core.timestamp_cause import Cause, TimestampError
from tests.helpers.polling import PATIENCE
from tests.helpers.tsa_kit import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = timedelta(days=1)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTsa]:
    with DevTsa(tmp_path_factory.mktemp("tsa") / "dev") as tsa:
        yield tsa


@pytest.fixture
def tsa(shared: DevTsa) -> DevTsa:
    shared.seen.clear()
    return shared


def path_of(tsa: DevTsa) -> tuple[bytes, ...]:
    pairs = (tsa.pki.tsa, tsa.pki.ca, tsa.pki.root)
    return tuple(pair.certificate.public_bytes(Encoding.DER) for pair in pairs)


def fetched(tsa: DevTsa, path: tuple[bytes, ...], gen_time: datetime | None) -> RevocationEvidence:
    async def run() -> RevocationEvidence:
        async with TsaHttp(settings_of(tsa)) as http:
            fetch = EvidenceFetch(http, deadline_seconds=PATIENCE)
            return await fetch_evidence(path, fetch, gen_time=gen_time)

    return asyncio.run(run())


class Web:
    """A web of given things; it remembers what was asked for."""

    def __init__(self, **bodies: bytes | TsaError) -> None:
        self.bodies = bodies
        self.asked: list[str] = []

    async def get(self, url: str) -> bytes:
        self.asked.append(url)
        body = self.bodies.get(url.rpartition("/")[2], TsaError(Cause.HTTP_4XX, "status 404"))
        if isinstance(body, TsaError):
            raise body
        return body

    async def ocsp(self, url: str, request: bytes) -> bytes:
        assert x509.ocsp.load_der_ocsp_request(request).serial_number
        return await self.get(url)


def evidence(
    web: Web, path: tuple[bytes, ...], gen_time: datetime | None = None
) -> RevocationEvidence:
    return asyncio.run(fetch_evidence(path, web, gen_time=gen_time))


def refusal(web: Web, path: tuple[bytes, ...], gen_time: datetime | None = None) -> TsaError:
    with pytest.raises(TsaError) as caught:
        evidence(web, path, gen_time)
    return caught.value


def question_of(tsa: DevTsa) -> bytes:
    leaf, ca = tsa.pki.tsa.certificate, tsa.pki.ca.certificate
    builder = x509.ocsp.OCSPRequestBuilder().add_certificate(leaf, ca, hashes.SHA256())
    return builder.build().public_bytes(Encoding.DER)


# With a real server.


def test_lists_settle_every_certificate_but_the_root(tsa: DevTsa) -> None:
    gen_time = now() - DAY
    found = fetched(tsa, path_of(tsa), gen_time)
    assert (len(found.crls), len(found.ocsps)) == (2, 0)
    assert [seen.path for seen in tsa.seen] == ["/ca.crl", "/root.crl"]
    assert covers(path_of(tsa), found, gen_time)


def test_a_round_fetches_each_thing_once(tsa: DevTsa) -> None:
    async def run() -> None:
        async with TsaHttp(settings_of(tsa)) as http:
            fetch = EvidenceFetch(http, deadline_seconds=PATIENCE)
            rounds = [fetch_evidence(path_of(tsa), fetch) for _ in range(3)]
            first, *others = await asyncio.gather(*rounds)
            assert all(other == first for other in others)
            missing = tsa.url + "missing.crl"
            for _ in range(2):
                with pytest.raises(TsaError, match="http_4xx"):
                    await fetch.get(missing)
            for _ in range(2):
                await fetch.ocsp(tsa.url + "ocsp", question_of(tsa))

    asyncio.run(run())
    assert [seen.path for seen in tsa.seen] == ["/ca.crl", "/root.crl", "/missing.crl", "/ocsp"]


def test_evidence_that_is_older_than_the_timestamp_is_not_taken(tsa: DevTsa) -> None:
    """A list from before says nothing of then: later it will."""
    with pytest.raises(TsaError, match="does not settle it") as caught:
        fetched(tsa, path_of(tsa), now() + DAY)
    assert caught.value.cause is Cause.EVIDENCE


def test_a_revocation_is_evidence_too(tmp_path: Path) -> None:
    with DevTsa(tmp_path / "dev") as tsa:
        tsa.revoke(x509.ReasonFlags.key_compromise)
        gen_time = now() - DAY
        found = fetched(tsa, path_of(tsa), gen_time)
        assert covers(path_of(tsa), found, gen_time)
        assert len(found.crls) == 2


def test_a_path_that_the_verifier_cannot_read(tsa: DevTsa, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stricter than the library that finds the sources."""

    def unreadable(*_: object) -> NoReturn:
        raise TimestampError(Cause.CERTIFICATE, "odd")

    monkeypatch.setattr("ledgerd.tsa.revocation.covers", unreadable)
    error = refusal(Web(**{"ca.crl": tsa.crl("ca")}), path_of(tsa))
    assert error.cause is Cause.EVIDENCE
    assert "odd" in error.detail


# With a web of our own.


def test_a_responder_is_asked_when_there_is_no_list(tsa: DevTsa) -> None:
    web = Web(**{"root.crl": tsa.crl("root"), "ocsp": tsa.ocsp(question_of(tsa))})
    found = evidence(web, path_of(tsa), now() - DAY)
    assert (len(found.crls), len(found.ocsps)) == (1, 1)
    assert [url.rpartition("/")[2] for url in web.asked] == ["ca.crl", "ocsp", "root.crl"]


def test_a_responder_is_asked_when_the_list_is_no_good(tsa: DevTsa) -> None:
    answers = {"root.crl": tsa.crl("root"), "ocsp": tsa.ocsp(question_of(tsa))}
    for damaged in (b"", b"<html>", tsa.crl("root"), tsa.crl("ca")[:-1]):
        found = evidence(Web(**answers, **{"ca.crl": damaged}), path_of(tsa), now() - DAY)
        assert (len(found.crls), len(found.ocsps)) == (1, 1)


def test_nothing_comes(tsa: DevTsa) -> None:
    error = refusal(Web(), path_of(tsa))
    assert error.cause is Cause.HTTP_4XX
    assert "ca.crl" in error.detail
    assert "ocsp" in error.detail
    slow = TsaError(Cause.TIMEOUT, "no answer")
    assert refusal(Web(**{"ca.crl": slow}), path_of(tsa)).cause is Cause.TIMEOUT
    assert refusal(Web(**{"ca.crl": b"", "ocsp": slow}), path_of(tsa)).cause is Cause.EVIDENCE


def test_half_of_it_is_not_enough(tsa: DevTsa) -> None:
    """Evidence goes into the log once, so it must be whole."""
    assert refusal(Web(**{"ca.crl": tsa.crl("ca")}), path_of(tsa)).cause is Cause.HTTP_4XX


@pytest.mark.parametrize("path", [(), (b"",), (b"", b""), (b"",) * 11, (b"\x30\x00", b"\x30\x00")])
def test_what_is_no_path(path: tuple[bytes, ...]) -> None:
    assert refusal(Web(), path).cause is Cause.EVIDENCE


# What certificates may say about their sources.

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*extensions: x509.ExtensionType) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one\nTSA")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(now() - DAY)
        .not_valid_after(now() + DAY)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def uri(text: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(text)


def points(*names: x509.GeneralName) -> x509.CRLDistributionPoints:
    return x509.CRLDistributionPoints([x509.DistributionPoint(list(names), None, None, None)])


def test_no_source_at_all() -> None:
    error = refusal(Web(), (certificate(), certificate()))
    assert (error.cause, "names a CRL" in error.detail) == (Cause.EVIDENCE, True)


def test_a_certificate_without_a_source_does_not_spoil_the_others(tsa: DevTsa) -> None:
    """Nobody ever says anything about it; the verifier reports it as unknown."""
    leaf, ca, _ = path_of(tsa)
    web = Web(**{"ca.crl": tsa.crl("ca")})
    path = (certificate(), leaf, ca)
    assert evidence(web, path) == RevocationEvidence(crls=(web.bodies["ca.crl"],))  # type: ignore[arg-type]


def asked(*extensions: x509.ExtensionType) -> list[str]:
    web = Web()
    refusal(web, (certificate(*extensions), certificate()))
    return web.asked


def test_only_web_addresses_are_asked() -> None:
    names = [
        uri("ldap://h/cn=a"),
        x509.DNSName("dns"),
        uri("HTTP://h/b.crl"),
        uri("https://h/c.crl"),
        uri("file:///etc/passwd"),
        uri("http://h/" + "x" * 2_048),
    ]
    assert asked(points(*names)) == ["HTTP://h/b.crl", "https://h/c.crl"]


def test_only_a_few_are_asked() -> None:
    assert asked(points(*(uri(f"http://h/{n % 6}.crl") for n in range(12)))) == [
        f"http://h/{n}.crl" for n in range(4)
    ]


def test_partial_lists_are_not_asked() -> None:
    def point(
        reasons: frozenset[x509.ReasonFlags] | None, issuer: list[x509.GeneralName] | None
    ) -> x509.CRLDistributionPoints:
        names = [uri("http://h/a.crl")]
        return x509.CRLDistributionPoints([x509.DistributionPoint(names, None, reasons, issuer)])

    some = frozenset([x509.ReasonFlags.key_compromise])
    other = [x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")]))]
    for extension in (point(some, None), point(None, other)):
        assert "names a CRL" in refusal(Web(), (certificate(extension), certificate())).detail


def test_responders_alone() -> None:
    access = x509.AuthorityInformationAccess(
        [
            x509.AccessDescription(AuthorityInformationAccessOID.CA_ISSUERS, uri("http://h/ca")),
            x509.AccessDescription(AuthorityInformationAccessOID.OCSP, uri("http://h/ocsp")),
        ]
    )
    assert asked(access) == ["http://h/ocsp"]


def test_names_are_quoted_in_what_is_said() -> None:
    error = refusal(Web(), (certificate(points(uri("http://h/a"))), certificate()))
    assert "\n" not in error.detail


def test_a_certificate_that_does_not_hold() -> None:
    """Signed by nobody, or with extensions that cannot be read: never more than a typed error."""
    good = certificate(points(uri("http://h/a")))
    at = good.index(bytes.fromhex("0603551d1f"))
    for offset in range(at + 5, at + 30):
        damaged = bytearray(good)
        damaged[offset] ^= 0x1F
        assert refusal(Web(a=b"x"), (bytes(damaged), certificate()))
