"""The development TSA: made once, found again, safe in parallel, and never mistaken for a real one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import TimeStampResponse, decode_timestamp_response

from ledgerd.devtsa.command import serve
from ledgerd.devtsa.faults import Mode
from ledgerd.devtsa.listener import MAX_CONNECTIONS
from ledgerd.devtsa.pki import NOTICE, load_pki, new_key, write_private
from ledgerd.devtsa.responder import OpenSslTsa, ResponderError
from ledgerd.devtsa.server import DevTsa, DevTsaError
from ledgerd.tsa.der_sort import sort_certificates
from ledgerd.tsa.second_opinion import check
from tests.helpers.polling import wait_for
from tests.helpers.tsa_kit import MESSAGE, request, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERY, NONCE = request()
QUERY_TYPE = {"Content-Type": "application/timestamp-query"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTsa]:
    with DevTsa(tmp_path_factory.mktemp("tsa") / "dev") as tsa:
        yield tsa


@pytest.fixture
def tsa(shared: DevTsa) -> DevTsa:
    shared.mode = Mode.OK
    return shared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dev"


def ask(
    tsa: DevTsa,
    method: str,
    path: str = "/",
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, str, bytes]:
    """Status, media type and body."""
    connection = http.client.HTTPConnection("127.0.0.1", tsa.port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read()
    finally:
        connection.close()


def stamp(tsa: DevTsa, query: bytes = QUERY) -> TimeStampResponse:
    status, _, body = ask(tsa, "POST", "/", query, QUERY_TYPE)
    assert status == 200, body
    return decode_timestamp_response(sort_certificates(body))


def refusal(folder: Path, **arguments: object) -> str:
    with pytest.raises(DevTsaError) as caught:
        DevTsa(folder, **arguments).close()  # type: ignore[arg-type]
    return str(caught.value)


# Making it, and finding it again.


@pytest.mark.parametrize("key", ["p256", "rsa3072"])
def test_its_certificates_are_a_tsas_and_say_what_they_are_for(folder: Path, key: str) -> None:
    tsa = DevTsa(folder, key=key)  # type: ignore[arg-type]
    tsa.close()
    pki = load_pki(folder)
    leaf = pki.tsa.certificate
    for pair in (pki.root, pki.ca, pki.tsa):
        assert NOTICE in pair.certificate.subject.rfc4514_string()
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert usage.critical
    assert list(usage.value) == [ExtendedKeyUsageOID.TIME_STAMPING]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    leaf.verify_directly_issued_by(pki.ca.certificate)
    pki.ca.certificate.verify_directly_issued_by(pki.root.certificate)
    for certificate, name in ((leaf, "ca"), (pki.ca.certificate, "root")):
        points = certificate.extensions.get_extension_for_class(x509.CRLDistributionPoints).value
        assert points[0].full_name == [x509.UniformResourceIdentifier(f"{tsa.url}{name}.crl")]
    assert leaf.public_key().key_size == {"p256": 256, "rsa3072": 3072}[key]  # type: ignore[union-attr]


def test_its_folder_is_private(folder: Path) -> None:
    before = os.umask(0)
    try:
        DevTsa(folder).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for key in folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(list(folder.glob("*.key"))) == 3
    assert NOTICE in (folder / "NOT-FOR-PRODUCTION.txt").read_text()


def test_a_second_start_finds_it(folder: Path) -> None:
    with DevTsa(folder, name="mine", key="p256") as first:
        serial = stamp(first).tst_info.serial_number
        root, url = first.root_file.read_bytes(), first.url
    with DevTsa(folder) as second:
        assert (second.root_file.read_bytes(), second.url) == (root, url)
        assert (second.name, second.key) == ("mine", "p256")
        assert stamp(second).tst_info.serial_number > serial
    DevTsa(folder, name="mine", key="p256", port=second.port).close()


def test_it_is_not_made_over(folder: Path) -> None:
    DevTsa(folder).close()
    assert "was made with name dev, not other" in refusal(folder, name="other")
    assert "was made with key p256, not rsa3072" in refusal(folder, key="rsa3072")
    assert "was made with port" in refusal(folder, port=1)


def test_a_folder_of_something_else(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("")
    assert "holds something else" in refusal(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_start_that_was_broken_off_is_made_anew(folder: Path) -> None:
    DevTsa(folder).close()
    before = (folder / "root.pem").read_bytes()
    (folder / "devtsa.json").unlink()
    (folder / "tsa.pem").unlink()
    with DevTsa(folder) as tsa:
        check_accepts(tsa)
    assert (folder / "root.pem").read_bytes() != before


def check_accepts(tsa: DevTsa) -> None:
    _, _, body = ask(tsa, "POST", "/", QUERY, QUERY_TYPE)
    check(body, MESSAGE, settings_of(tsa).trust(), NONCE)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"name": "a", "key": "dsa", "port": 1}', "\x00"]
)
def test_a_damaged_description(folder: Path, content: str) -> None:
    DevTsa(folder).close()
    (folder / "devtsa.json").write_text(content)
    assert "cannot be read" in refusal(folder)


def test_damaged_certificates(folder: Path) -> None:
    DevTsa(folder).close()
    (folder / "ca.pem").write_text("damaged")
    assert "cannot start from" in refusal(folder)


def test_keys_that_are_not_the_certificates(folder: Path) -> None:
    DevTsa(folder).close()
    (folder / "ca.key").write_bytes((folder / "root.key").read_bytes())
    assert "is not the key of ca.pem" in refusal(folder)
    ed25519 = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
-----END PRIVATE KEY-----
"""
    write_private(folder / "ca.key", ed25519)
    assert "of a kind that is never written here" in refusal(folder)


@pytest.mark.parametrize("name", ["", "Name", "a" * 33, "a b", ".a"])
def test_names_that_are_none(folder: Path, name: str) -> None:
    assert "a name has 1 to 32" in refusal(folder, name=name)
    assert not folder.exists()


def test_a_kind_of_key_that_is_none(folder: Path) -> None:
    assert "a key is one of p256, rsa3072" in refusal(folder, key="dsa")
    with pytest.raises(ValueError, match="expected one of"):
        new_key("dsa")  # type: ignore[arg-type]


def test_a_port_that_is_taken(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen on" in refusal(folder, port=taken.getsockname()[1])
    assert not folder.exists()


def test_an_unknown_mode(folder: Path) -> None:
    assert "there are ok, 404, 429" in refusal(folder, mode="haywire")


# OpenSSL.


def fake_openssl(folder: Path, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "openssl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return folder


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo OpenSSL 1.1.1w  11 Sep 2023", "OpenSSL 3 is needed"),
        ("echo LibreSSL 3.9.2", "OpenSSL 3 is needed"),
        ("exit 1", "OpenSSL 3 is needed"),
        ("", "OpenSSL 3 is needed"),
    ],
)
def test_another_openssl(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("PATH", str(fake_openssl(tmp_path / "bin", script)))
    assert said in refusal(folder)
    assert not folder.exists()


def test_no_openssl(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "the openssl command is needed" in refusal(folder)


def test_an_openssl_that_fails_later(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = '[ "$1" = version ] && echo OpenSSL 4.1.0 || { echo broken >&2; exit 3; }'
    monkeypatch.setenv("PATH", str(fake_openssl(tmp_path / "bin", script)))
    with DevTsa(folder) as tsa:
        status, _, body = ask(tsa, "POST", "/", QUERY, QUERY_TYPE)
    assert (status, body) == (500, b"openssl ts ended with 3: broken\n")


def test_an_openssl_that_hangs(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = '[ "$1" = version ] && echo OpenSSL 3.0.0 || exec /bin/sleep 60'
    monkeypatch.setenv("PATH", str(fake_openssl(tmp_path / "bin", script)))
    monkeypatch.setattr("ledgerd.devtsa.responder._SECONDS", 0.2)
    DevTsa(folder).close()
    with pytest.raises(ResponderError, match="no answer in"):
        OpenSslTsa(folder).reply(QUERY)


def test_the_systems_openssl_configuration_is_not_read(
    tmp_path: Path, tsa: DevTsa, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openssl.cnf").write_text("= nonsense\n[")
    monkeypatch.setenv("OPENSSL_CONF", str(tmp_path / "openssl.cnf"))
    assert stamp(tsa).status == 0


def test_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    with DevTsa(tmp_path / "a $HOME \"q\" 'p' # ä") as tsa:
        assert stamp(tsa).status == 0


# Stamping.


def test_times_have_fractions_and_accuracy(tsa: DevTsa) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    info = stamp(tsa).tst_info
    assert info.nonce == NONCE
    assert info.accuracy is not None
    assert info.accuracy.seconds == 1
    assert before < info.gen_time.replace(tzinfo=UTC) <= datetime.now(UTC)


def test_what_it_cannot_stamp_is_refused_as_rfc_3161_says(tsa: DevTsa) -> None:
    status, media_type, body = ask(tsa, "POST", "/", b"\x30\x00", QUERY_TYPE)
    assert (status, media_type) == (200, "application/timestamp-reply")
    assert decode_timestamp_response(body).status == 2


def test_serials_differ_under_parallel_requests(tsa: DevTsa) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: stamp(tsa), range(48)))
    assert len({answer.tst_info.serial_number for answer in answers}) == 48
    assert {answer.status for answer in answers} == {0}


def test_serials_differ_when_two_share_a_folder(folder: Path) -> None:
    """As two processes would; the lock file stands between them."""
    DevTsa(folder).close()
    signers = [OpenSslTsa(folder), OpenSslTsa(folder)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: signers[n % 2].reply(QUERY), range(16)))
    decoded = [decode_timestamp_response(sort_certificates(answer)) for answer in answers]
    assert len({answer.tst_info.serial_number for answer in decoded}) == 16


def test_replay_repeats_the_first(tsa: DevTsa) -> None:
    tsa.mode = Mode.REPLAY
    assert stamp(tsa).tst_info.serial_number == stamp(tsa).tst_info.serial_number


def test_a_responder_of_a_test(folder: Path) -> None:
    with DevTsa(folder, responder=lambda query: b"made of " + query) as tsa:
        assert ask(tsa, "POST", "/", b"q", QUERY_TYPE)[2] == b"made of q"
        tsa.rotate()
        tsa.responder = None
        assert ask(tsa, "POST", "/", b"q", QUERY_TYPE)[0] == 500


# HTTP.


def test_its_pages(tsa: DevTsa) -> None:
    assert NOTICE.encode() in ask(tsa, "GET", "/")[2]
    assert ask(tsa, "GET", "/root.pem")[2] == tsa.root_file.read_bytes()
    assert ask(tsa, "GET", "/ca.pem")[2] == tsa.intermediate_file.read_bytes()
    assert ask(tsa, "GET", "/tsa.pem")[2] == tsa.certificate_file.read_bytes()
    for path in ("/tsa.key", "/../tsa.key", "/ts.cnf", "/a"):
        assert ask(tsa, "GET", path)[0] == 404


def test_requests_that_are_none(tsa: DevTsa) -> None:
    assert ask(tsa, "POST", "/", QUERY, {"Content-Type": "text/plain"})[0] == 415
    assert ask(tsa, "POST", "/", b"x" * 65_537, QUERY_TYPE)[0] == 413
    assert ask(tsa, "POST", "/", None, {"Content-Length": "-1"})[0] == 411
    assert ask(tsa, "POST", "/", None, {"Content-Length": "9" * 30})[0] == 411
    assert ask(tsa, "PUT", "/", b"x")[0] == 501


def test_it_listens_on_the_loopback_interface_alone(tsa: DevTsa) -> None:
    assert tsa.url.startswith("http://127.0.0.1:")
    with pytest.raises(OSError, match=r"refused|unreachable|Cannot assign"):
        socket.create_connection(("127.0.0.2", tsa.port), timeout=5).close()


@pytest.mark.parametrize("mode", [Mode.SLOW_HEADERS, Mode.SLOW_BODY, Mode.HUGE, Mode.HUGE_CHUNKED])
def test_closing_waits_for_nobody(folder: Path, mode: Mode) -> None:
    """Clients that are served slowly, that say nothing, or that do not read."""
    tsa = DevTsa(folder, mode=mode)
    tsa.start()
    with (
        socket.create_connection(("127.0.0.1", tsa.port)),
        socket.create_connection(("127.0.0.1", tsa.port)) as served,
    ):
        head = f"POST / HTTP/1.1\r\nContent-Length: {len(QUERY)}\r\n"
        head += "Content-Type: application/timestamp-query\r\n\r\n"
        served.sendall(head.encode() + QUERY)
        wait_for(lambda: bool(tsa.seen), "the request is there")
        before = time.monotonic()
        tsa.close()
        assert time.monotonic() - before < tsa.hang_seconds / 2


def test_it_takes_only_so_many_connections(folder: Path) -> None:
    with DevTsa(folder) as tsa:
        held = [socket.create_connection(("127.0.0.1", tsa.port)) for _ in range(MAX_CONNECTIONS)]
        wait_for(lambda: threading.active_count() > MAX_CONNECTIONS, "all are served")
        with socket.create_connection(("127.0.0.1", tsa.port), timeout=30) as one_more:
            assert one_more.recv(1) == b""
        for connection in held:
            connection.close()
        wait_for(lambda: threading.active_count() < MAX_CONNECTIONS, "they are gone")
        assert stamp(tsa).status == 0


# Its certificates' lives.


def crl_of(tsa: DevTsa, name: str) -> x509.CertificateRevocationList:
    status, media_type, body = ask(tsa, "GET", f"/{name}.crl")
    assert (status, media_type) == (200, "application/pkix-crl")
    return x509.load_der_x509_crl(body)


def ocsp_of(
    tsa: DevTsa, certificate: x509.Certificate, issuer: x509.Certificate
) -> ocsp.OCSPResponse:
    query = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA256()).build()
    body = query.public_bytes(Encoding.DER)
    status, media_type, answer = ask(tsa, "POST", "/ocsp", body)
    assert (status, media_type) == (200, "application/ocsp-response")
    return ocsp.load_der_ocsp_response(answer)


# Without the one that only delta CRLs have.
REASONS = [None, *(flag for flag in x509.ReasonFlags if flag.value != "removeFromCRL")]


@pytest.mark.parametrize("reason", REASONS)
def test_revocation(folder: Path, reason: x509.ReasonFlags | None) -> None:
    with DevTsa(folder) as tsa:
        pki = tsa.pki
        leaf, ca = pki.tsa.certificate, pki.ca.certificate
        before = crl_of(tsa, "ca")
        assert before.is_signature_valid(ca.public_key())  # type: ignore[arg-type]
        assert len(before) == 0
        assert ocsp_of(tsa, leaf, ca).certificate_status is ocsp.OCSPCertStatus.GOOD
        tsa.revoke(reason, date=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
    with DevTsa(folder) as tsa:
        entry = crl_of(tsa, "ca").get_revoked_certificate_by_serial_number(leaf.serial_number)
        assert entry is not None
        assert entry.revocation_date_utc == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        named = [extension.value.reason for extension in entry.extensions]
        assert named == ([] if reason is None else [reason])
        answer = ocsp_of(tsa, leaf, ca)
        assert answer.certificate_status is ocsp.OCSPCertStatus.REVOKED
        assert answer.revocation_reason == reason
        assert ocsp_of(tsa, ca, pki.root.certificate).certificate_status.name == "GOOD"


def test_an_intermediate_can_be_revoked(folder: Path) -> None:
    with DevTsa(folder) as tsa:
        ca, root = tsa.pki.ca.certificate, tsa.pki.root.certificate
        tsa.revoke(x509.ReasonFlags.ca_compromise, certificate=ca)
        assert ocsp_of(tsa, ca, root).certificate_status is ocsp.OCSPCertStatus.REVOKED
        listed = crl_of(tsa, "root")
        assert listed.is_signature_valid(root.public_key())  # type: ignore[arg-type]
        assert listed.get_revoked_certificate_by_serial_number(ca.serial_number) is not None


def test_ocsp_refuses_what_it_does_not_know(tsa: DevTsa, tmp_path: Path) -> None:
    other = DevTsa(tmp_path / "other")
    other.close()
    answer = ocsp_of(tsa, other.pki.tsa.certificate, other.pki.ca.certificate)
    assert answer.response_status is ocsp.OCSPResponseStatus.UNAUTHORIZED
    malformed = ocsp.load_der_ocsp_response(ask(tsa, "POST", "/ocsp", b"noise")[2])
    assert malformed.response_status is ocsp.OCSPResponseStatus.MALFORMED_REQUEST


def test_a_rotated_certificate_has_the_same_root(folder: Path) -> None:
    with DevTsa(folder) as tsa:
        trust = settings_of(tsa).trust()
        old, ca = tsa.pki.tsa.certificate, tsa.pki.ca.certificate
        tsa.rotate()
        new = tsa.pki.tsa.certificate
        assert new.public_key() != old.public_key()
        _, _, body = ask(tsa, "POST", "/", QUERY, QUERY_TYPE)
        check(body, MESSAGE, trust, NONCE)
        for certificate in (old, new):
            assert ocsp_of(tsa, certificate, ca).certificate_status.name == "GOOD"
    DevTsa(folder).close()


def test_a_rotated_root_leads_nowhere(folder: Path) -> None:
    with DevTsa(folder) as tsa:
        trust = settings_of(tsa).trust()
        tsa.rotate_root()
        check_accepts(tsa)
        _, _, body = ask(tsa, "POST", "/", QUERY, QUERY_TYPE)
        with pytest.raises(Exception, match="certificate"):
            check(body, MESSAGE, trust, NONCE)


def test_what_it_says_of_itself_is_json(tsa: DevTsa) -> None:
    assert json.loads(json.dumps(tsa.settings)) == tsa.settings


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_serves_until_a_signal(folder: Path, as_json: bool) -> None:
    """In this process, so that what was there before is there again."""
    before = signal.getsignal(signal.SIGTERM)
    said = []

    def say(text: str) -> None:
        said.append(text)
        signal.raise_signal(signal.SIGTERM)

    serve(folder, say, name=None, key=None, port=0, mode="ok", as_json=as_json)
    assert NOTICE in said[0]
    assert "[[tsa]]" in (json.loads(said[0])["config"] if as_json else said[0])
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_that_cannot_start_takes_no_signals(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(DevTsaError):
        serve(folder, print, name="A", key=None, port=0, mode="ok", as_json=False)
    assert signal.getsignal(signal.SIGTERM) is before
