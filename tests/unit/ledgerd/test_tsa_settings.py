"""One `[[tsa]]` block: what is refused, with what to do, and what the verifier is told to trust."""

from __future__ import annotations

import ssl
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ledgerd.devtsa.command import config_block
from ledgerd.devtsa.server import DevTsa
from ledgerd.tsa.pem import MAX_PEM_BYTES, read_authorities, read_certificates
from ledgerd.tsa.settings import TsaSettings
from tests.helpers.cases import named

GOOD: dict[str, Any] = {"name": "one", "url": "http://tsa.example/", "roots": ["root.pem"]}


def made(**changes: Any) -> TsaSettings:
    return TsaSettings.model_validate(GOOD | changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a development TSA: root.pem, ca.pem, tsa.pem and their keys."""
    folder = tmp_path_factory.mktemp("pki") / "dev"
    DevTsa(folder).close()
    return folder


# The values.


def test_defaults() -> None:
    tsa = made()
    assert tsa.authority == tsa.name == "one"
    assert (tsa.hash, tsa.timeout_seconds, tsa.max_clock_skew_seconds) == ("sha256", 10, 30)
    assert (tsa.accept_201, tsa.strict_only) == (False, False)


def test_every_setting_says_what_it_is_for() -> None:
    for name, field in TsaSettings.model_fields.items():
        assert field.description, name


def test_a_block_of_a_file() -> None:
    text = """
        name = "one"
        authority = "Example Ltd"
        url = "https://tsa.example/stamp?a=b"
        roots = ["a.pem", "b.pem"]
        policies = ["1.2.3", "1.2.4"]
        request_policy = "1.2.3"
        hash = "sha512"
        trusted_from = 2026-01-01T00:00:00Z
        trusted_until = 2027-01-01T01:00:00+01:00
        proxy = "http://user:word@proxy.example:8080"
        username = "u"
        password_file = "/run/secrets/p"
        client_certificate_file = "c.pem"
        client_key_file = "k.pem"
        ca_file = "ca.pem"
    """
    tsa = TsaSettings.model_validate(tomllib.loads(text))
    assert tsa.authority == "Example Ltd"
    assert tsa.roots == (Path("a.pem"), Path("b.pem"))
    assert tsa.trusted_until == datetime(2027, 1, 1, tzinfo=UTC)


BAD = {
    "no name": {"name": ""},
    "a name in capitals": {"name": "One"},
    "a name with a line": {"name": "one\n"},
    "a name that is too long": {"name": "a" * 65},
    "no authority": {"authority": ""},
    "no root": {"roots": []},
    "an unknown setting": {"rots": []},
    "a file for an URL": {"url": "file:///etc/passwd"},
    "an URL without a host": {"url": "http:///a"},
    "an URL that is none": {"url": "http://["},
    "an URL with a space": {"url": "http://a/ b"},
    "an URL with a line": {"url": "http://a/\r\nX: y"},
    "an URL with a fragment": {"url": "http://a/#b"},
    "an URL with credentials": {"url": "https://u:p@a/"},
    "a long URL": {"url": "http://a/" + "b" * 2_048},
    "a proxy that is none": {"proxy": "socks5://a"},
    "a policy that is none": {"policies": ["1.2.x"]},
    "a policy with a zero": {"policies": ["1.02"]},
    "a policy of one arc": {"policies": ["1"]},
    "a policy under no arc": {"policies": ["3.1.2"]},
    "a policy beyond the arcs of ISO": {"policies": ["1.40.9"]},
    "a policy beyond the arcs of ITU-T": {"policies": ["0.40"]},
    "a wish that is none": {"request_policy": "any"},
    "a wish that is not accepted": {"policies": ["1.2.3"], "request_policy": "1.2.4"},
    "an old digest": {"hash": "sha1"},
    "a time without a zone": {"trusted_from": "2026-01-01T00:00:00"},
    "a window that ends first": {
        "trusted_from": "2026-01-01T00:00:00Z",
        "trusted_until": "2026-01-01T00:00:00Z",
    },
    "no time": {"timeout_seconds": 0},
    "much time": {"timeout_seconds": 61},
    "endless time": {"timeout_seconds": float("inf")},
    "time that is none": {"timeout_seconds": float("nan")},
    "negative skew": {"max_clock_skew_seconds": -1},
    "a user without a password": {"url": "https://a/", "username": "u"},
    "a password without a user": {"url": "https://a/", "password_file": "p"},
    "two ways to say who we are": {
        "url": "https://a/",
        "username": "u",
        "password_file": "p",
        "bearer_token_file": "t",
    },
    "a token that all can read": {"bearer_token_file": "t"},
    "a password that all can read": {"username": "u", "password_file": "p"},
    "a key without a certificate": {"url": "https://a/", "client_key_file": "k"},
    "a client certificate without TLS": {"client_certificate_file": "c"},
    "an authority without TLS": {"ca_file": "c"},
}


@pytest.mark.parametrize("changes", named(BAD))
def test_what_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        made(**changes)


@pytest.mark.parametrize("oid", ["0.39.1", "1.39", "2.40.9", "2.999", "1.3.6.1.4.1.32473.1"])
def test_object_identifiers_that_there_are(oid: str) -> None:
    assert made(policies=[oid]).policies == (oid,)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:81", "[::1]"])
def test_credentials_may_go_to_this_host(host: str) -> None:
    assert made(url=f"http://{host}/", bearer_token_file="t")


# Trust.


def test_what_a_development_tsa_prints_can_be_used(tmp_path: Path) -> None:
    with DevTsa(tmp_path / 'a "quoted" näme', name="my-tsa") as tsa:
        (block,) = tomllib.loads(config_block(tsa))["tsa"]
        trust = TsaSettings.model_validate(block).trust()
    assert (trust.name, trust.authority) == ("my-tsa", "my-tsa")
    assert len(trust.roots) == 1
    assert trust.policies == frozenset(block["policies"])


def test_trust_is_read_from_the_files(folder: Path) -> None:
    trust = made(
        roots=[folder / "root.pem", folder / "root.pem"],
        intermediates=[folder / "ca.pem"],
        certificate=folder / "tsa.pem",
        policies=["1.2.3"],
        trusted_from="2026-01-01T00:00:00Z",
        trusted_until="2027-01-01T00:00:00Z",
        authority="who",
    ).trust()
    assert trust.roots == read_certificates(folder / "root.pem")
    assert trust.intermediates == read_certificates(folder / "ca.pem")
    assert (trust.certificate,) == read_certificates(folder / "tsa.pem")
    assert trust.authority == "who"
    assert trust.trusted_from == datetime(2026, 1, 1, tzinfo=UTC)
    assert trust.trusted_until == datetime(2027, 1, 1, tzinfo=UTC)


def test_one_file_may_hold_several(folder: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes((folder / "ca.pem").read_bytes() + (folder / "root.pem").read_bytes())
    assert len(made(roots=[folder / "root.pem"], intermediates=[both]).trust().intermediates) == 2
    with pytest.raises(ValueError, match="holds 2 certificates"):
        made(roots=[folder / "root.pem"], certificate=both).trust()


def test_files_that_hold_something_else(folder: Path, tmp_path: Path) -> None:
    def refusal(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=name) as caught:
            read_certificates(path)
        return str(caught.value)

    root, key = (folder / "root.pem").read_bytes(), (folder / "root.key").read_bytes()
    assert "private key" in refusal("with-key.pem", root + key)
    assert "openssl x509 -inform DER" in refusal("root.der", b"\x30\x82\x01")
    assert "not PEM" in refusal("empty.pem", b"")
    assert "PUBLIC KEY" in refusal("public.pem", root + b"-----BEGIN PUBLIC KEY-----\n")
    assert "longer than" in refusal("long.pem", root + b"\n" * MAX_PEM_BYTES)
    damaged = root.replace(b"M", b"N", 3)
    assert "cannot be read" in refusal("damaged.pem", damaged)
    assert "cannot be read" in refusal("cut.pem", root[:-100])


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read .*missing\.pem: No such file"):
        made(roots=[tmp_path / "missing.pem"]).trust()


def test_a_root_that_is_no_authority(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"TSA.* is not a CA certificate"):
        read_authorities([folder / "root.pem", folder / "tsa.pem"])


def test_an_extension_that_is_damaged_makes_no_authority(tmp_path: Path, folder: Path) -> None:
    """Basic constraints that say neither yes nor no."""
    der = bytearray(read_certificates(folder / "root.pem")[0])
    at = der.index(bytes.fromhex("0603551d13"))
    content = der.index(b"\x30\x06\x01\x01\xff\x02\x01\x01", at)
    der[content + 2] = 0x04
    path = tmp_path / "odd.pem"
    path.write_text(ssl.DER_cert_to_PEM_cert(bytes(der)))
    with pytest.raises(ValueError, match="is not a CA certificate"):
        read_authorities([path])


def test_an_intermediate_is_no_root_unless_the_second_verifier_is_done_without(
    folder: Path, tmp_path: Path
) -> None:
    """It would pass here, and then OpenSSL would refuse each and every token."""
    ca = folder / "ca.pem"
    with pytest.raises(ValueError, match=r"ca\.pem: .* is no root: it was issued by ") as caught:
        made(roots=[ca]).trust()
    for what_to_do in ("under `intermediates`", "strict_only = true"):
        assert what_to_do in str(caught.value)
    both = tmp_path / "both.pem"
    both.write_bytes((folder / "root.pem").read_bytes() + ca.read_bytes())
    with pytest.raises(ValueError, match="is no root"):
        made(roots=[both]).trust()
    assert made(roots=[ca], strict_only=True).trust().roots == read_certificates(ca)


def test_a_pin_must_lead_to_the_roots(folder: Path, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    DevTsa(stranger).close()
    pin = {"certificate": folder / "tsa.pem", "intermediates": [folder / "ca.pem"]}
    assert made(roots=[folder / "root.pem"], **pin).trust().certificate

    def refusal(**changes: Any) -> str:
        with pytest.raises(ValueError, match="does not lead to `roots`") as caught:
            made(**({"roots": [folder / "root.pem"]} | pin | changes)).trust()
        return str(caught.value)

    assert "`intermediates`" in refusal(intermediates=[]), "what is between must be known"
    assert str(folder / "tsa.pem") in refusal(roots=[stranger / "root.pem"])
    assert str(stranger / "tsa.pem") in refusal(certificate=stranger / "tsa.pem")
    assert "must be the TSA's own" in refusal(certificate=folder / "ca.pem")


NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"trusted_until": "2026-06-01T00:00:00Z"}, None),
        ({"trusted_until": "2026-05-31T23:59:59Z"}, "trusted_until was 2026-05-31T23:59:59"),
        ({"trusted_from": "2026-06-01T00:00:00Z"}, None),
        ({"trusted_from": "2026-06-01T00:00:01Z"}, "trusted_from is 2026-06-01T00:00:01"),
    ],
)
def test_a_time_of_trust_that_is_over_or_to_come_is_told(
    changes: dict[str, Any], said: str | None
) -> None:
    found = made(**changes).outside_trust(NOW)
    assert (found is None) == (said is None)
    assert said is None or said in str(found)


def test_what_was_written_is_shown_and_nothing_else() -> None:
    written = {"name": "one", "url": "https://a/", "roots": ["a.pem"], "proxy": "http://u:word@p:1"}
    shown = TsaSettings.model_validate(written).as_written()
    assert shown == written | {"proxy": "http://***@p:1"}
    assert list(shown) == ["name", "url", "roots", "proxy"]
