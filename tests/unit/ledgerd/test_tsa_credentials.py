"""Who we are to a timestamp authority, and which web server we believe: files, read for each request."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.tsa.credentials import Credentials
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.settings import TsaSettings
from receiptledger.core.timestamp_cause import Cause
from tests.helpers.polling import PATIENCE
from tests.helpers.raw_http import RawServer, answer
from tests.helpers.tls_kit import TlsAuthority

if TYPE_CHECKING:
    from pathlib import Path


def settings(url: str = "http://127.0.0.1:1/", **changes: Any) -> TsaSettings:
    return TsaSettings.model_validate({"name": "t", "url": url, "roots": ["unread.pem"]} | changes)


def exchange(tls: ssl.SSLContext | None, **changes: Any) -> bytes:
    """What a server gets from a client with these settings; it answers well."""

    async def run() -> bytes:
        async with (
            RawServer(answer(b"x"), tls=tls) as server,
            TsaHttp(settings(server.url, **changes)) as http,
        ):
            assert await http.post(b"q", deadline_seconds=PATIENCE) == b"x"
            return server.requests[0]

    return asyncio.run(run())


def refusal(tls: ssl.SSLContext | None, cause: Cause = Cause.TRANSPORT, **changes: Any) -> TsaError:
    with pytest.raises(TsaError) as caught:
        exchange(tls, **changes)
    assert caught.value.cause is cause
    return caught.value


def useless(**changes: Any) -> TsaError:
    """What is said of a file of ours, at a request as at the start."""
    error = refusal(None, Cause.CREDENTIALS, **changes)
    with pytest.raises(TsaError) as caught:
        Credentials(settings(**changes)).check()
    assert (caught.value.cause, caught.value.detail) == (error.cause, error.detail)
    return error


# Secrets.


def test_a_bearer_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc.DEF-1~+/==\n")
    sent = exchange(None, bearer_token_file=tmp_path / "token")
    assert b"Authorization: Bearer abc.DEF-1~+/==\r\n" in sent


def test_a_user_and_a_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pässword: with colon\r\n")
    sent = exchange(None, username="user", password_file=tmp_path / "password")
    pair = base64.b64encode("user:pässword: with colon".encode())
    assert b"Authorization: Basic " + pair + b"\r\n" in sent


def test_a_rotated_token_needs_no_restart(tmp_path: Path) -> None:
    path = tmp_path / "token"
    credentials = Credentials(settings(bearer_token_file=path))
    for token in ("one", "two"):
        path.write_text(token)
        assert credentials.authorization() == {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"two\nlines",
        b"with space",
        b"x\r\nHost: evil",
        b"\xff",
        b"x" * 9_000,
        b"\xc3\xa4",
    ],
)
def test_what_is_no_bearer_token(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    error = useless(bearer_token_file=tmp_path / "token")
    assert "token" in error.detail
    assert "evil" not in str(error)


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff", b"x" * 9_000])
def test_what_is_no_password(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "password").write_bytes(content)
    assert "password" in useless(username="u", password_file=tmp_path / "password").detail


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    error = useless(bearer_token_file=tmp_path / "missing")
    assert error.detail == f"cannot read {tmp_path / 'missing'}: No such file or directory"
    assert "cannot read" in useless(username="u", password_file=tmp_path).detail, "a folder"


# TLS.


def test_a_stranger_is_not_believed(tmp_path: Path) -> None:
    assert "ertificate" in refusal(TlsAuthority(tmp_path).server()).detail


def test_an_authority_of_our_own(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    assert exchange(authority.server(), ca_file=authority.file)


def test_another_authority(tmp_path: Path) -> None:
    other = TlsAuthority(tmp_path, "other")
    refusal(TlsAuthority(tmp_path).server(), ca_file=other.file)


def test_a_certificate_for_another_host(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    refusal(authority.server(address="127.0.0.2"), ca_file=authority.file)


def wants_client(authority: TlsAuthority) -> ssl.SSLContext:
    context = authority.server()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.file)
    return context


def test_a_client_certificate(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    certificate, key = authority.issue("client")
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    server = wants_client(authority)
    files = {"client_certificate_file": certificate, "client_key_file": key}
    assert exchange(server, ca_file=authority.file, **files)
    assert exchange(server, ca_file=authority.file, client_certificate_file=both)
    refusal(server, ca_file=authority.file)


def test_a_client_certificate_goes_to_the_tsa_alone(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    certificate, key = authority.issue("client")
    files = {"client_certificate_file": certificate, "client_key_file": key}

    async def run() -> None:
        async with (
            RawServer(answer(b"x"), tls=wants_client(authority)) as server,
            TsaHttp(settings(server.url, ca_file=authority.file, **files)) as http,
        ):
            await http.get(server.url, deadline_seconds=PATIENCE)

    with pytest.raises(TsaError):
        asyncio.run(run())


def test_a_context_is_kept_until_its_files_change(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    certificate, key = authority.issue("client")
    credentials = Credentials(
        settings(
            "https://h/",
            ca_file=authority.file,
            client_certificate_file=certificate,
            client_key_file=key,
        )
    )
    mine, plain = credentials.tls(as_client=True), credentials.tls(as_client=False)
    assert mine is credentials.tls(as_client=True)
    assert mine is not plain
    status = certificate.stat()
    os.utime(certificate, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert credentials.tls(as_client=True) is not mine
    assert credentials.tls(as_client=False) is plain


def test_old_protocols_are_not_spoken() -> None:
    context = Credentials(settings()).tls(as_client=True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


WORDS = {
    "missing": "No such file or directory",
    "empty": "the key is missing",
    "encrypted": "is encrypted",
    "another key": "the key does not belong to the certificate",
}


@pytest.mark.parametrize("damage", WORDS)
def test_files_that_cannot_be_used(tmp_path: Path, damage: str) -> None:
    """Never a prompt on a terminal, always the file's name."""
    authority = TlsAuthority(tmp_path)
    certificate, key = authority.issue("client")
    if damage == "missing":
        key.unlink()
    elif damage == "empty":
        key.write_bytes(b"")
    elif damage == "another key":
        key = authority.issue("other")[1]
    else:
        key.write_text(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
        )
    config = settings("https://h/", client_certificate_file=certificate, client_key_file=key)
    with pytest.raises(TsaError, match=key.name) as caught:
        Credentials(config).tls(as_client=True)
    assert caught.value.cause is Cause.CREDENTIALS
    assert WORDS[damage] in caught.value.detail
    for noise in ("_ssl.c", "Errno", "[SSL"):
        assert noise not in caught.value.detail
    with pytest.raises(TsaError, match=key.name):
        Credentials(config).check()


@pytest.mark.parametrize("content", [None, b"", b"not PEM"])
def test_an_authority_file_that_cannot_be_used(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TsaError, match=r"ca\.pem for TLS: ") as caught:
        Credentials(settings("https://h/", ca_file=path)).check()
    assert caught.value.cause is Cause.CREDENTIALS


def test_files_that_are_well_pass_the_check(tmp_path: Path) -> None:
    authority = TlsAuthority(tmp_path)
    certificate, key = authority.issue("client")
    (tmp_path / "token").write_text("abc")
    config = settings(
        "https://h/",
        ca_file=authority.file,
        client_certificate_file=certificate,
        client_key_file=key,
        bearer_token_file=tmp_path / "token",
    )
    Credentials(config).check()
    Credentials(settings()).check()
