"""Timestamp authorities in a trust file: roots from the auditor's files, and nothing guessed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from receiptledger.certificates import read_bounded, read_certificates, read_crls, to_pem
from receiptledger.core.note import NoteSigner
from receiptledger.core.timestamp_types import TsaTrust
from receiptledger.core.trust import MAX_TSAS, Trust
from receiptledger.trust import TrustError, format_trust, load_trust, parse_trust
from receiptledger.trust_tsa import check_operators
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named

LOG = NoteSigner.from_seed("example.com/log", bytes(32)).verifier
FROM, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, 12, 30, tzinfo=UTC)


def key(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def certificate(seed: int) -> bytes:
    """A self-signed certificate, DER, the same each time."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Root {seed}")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key(seed).public_key())
        .serial_number(seed)
        .not_valid_before(FROM)
        .not_valid_after(UNTIL)
        .sign(key(seed), None)
    )
    return made.public_bytes(Encoding.DER)


def crl(seed: int) -> x509.CertificateRevocationList:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Root {seed}")])
    builder = x509.CertificateRevocationListBuilder().issuer_name(name)
    return builder.last_update(FROM).next_update(UNTIL).sign(key(seed), None)


A, B, C = certificate(1), certificate(2), certificate(3)
FULL = f"""
[[log]]
key = "{LOG}"

[[tsa]]
name = "alpha"
authority = "Alpha Trust"
roots = ["a.pem", "sub/both.pem"]
intermediates = ["c.pem"]
certificate = "c.pem"
policies = ["1.2.3.4", "0.4.0.2023.1.1"]
trusted_from = 2026-01-01T00:00:00Z
trusted_until = 2036-01-01T13:30:00+01:00

[[tsa]]
name = "beta"
roots = ["b.der"]

[policy]
tsa_quorum = 2
"""
ALPHA = TsaTrust(
    "alpha",
    "Alpha Trust",
    (A, A, C),
    (C,),
    C,
    frozenset({"1.2.3.4", "0.4.0.2023.1.1"}),
    FROM,
    UNTIL,
)
BETA = TsaTrust("beta", "beta", (B,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.pem").write_bytes(to_pem((A,)))
    (tmp_path / "b.der").write_bytes(B)
    (tmp_path / "c.pem").write_bytes(b"Subject: C\n" + to_pem((C,)))
    (tmp_path / "sub" / "both.pem").write_bytes(to_pem((A, C)))
    (tmp_path / "crl.pem").write_bytes(crl(1).public_bytes(Encoding.PEM))
    secret = key(1).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(to_pem((A,)) + secret)
    (tmp_path / "empty.pem").write_bytes(b"")
    (tmp_path / "broken.pem").write_bytes(to_pem((A,)).replace(b"\nM", b"\nN", 1))
    (tmp_path / "broken.der").write_bytes(A[:-1])
    (tmp_path / "long.pem").write_bytes(b"#" * 1_048_577)
    return tmp_path


def test_reads_everything(folder: Path) -> None:
    path = folder / "trust.toml"
    path.write_text(FULL)
    trust = load_trust(path)
    assert trust.tsas == (ALPHA, BETA)
    assert trust.tsa_quorum == 2
    assert trust.moment is None


def test_without_authorities() -> None:
    trust = parse_trust(f'[[log]]\nkey = "{LOG}"\n')
    assert (trust.tsas, trust.tsa_quorum) == ((), 1)


def test_files_are_beside_the_trust_file_not_in_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "trust.toml").write_text(FULL)
    monkeypatch.chdir(folder / "sub")
    assert load_trust(folder / "trust.toml").tsas == (ALPHA, BETA)


def test_absolute_files(folder: Path) -> None:
    text = FULL.replace('"a.pem"', f'"{folder / "a.pem"}"')
    assert parse_trust(text, "mine.toml", folder).tsas[0] == ALPHA


def test_and_back(folder: Path) -> None:
    """A trust that is written out holds its certificates, so it needs no files."""
    trust = parse_trust(FULL, "mine.toml", folder)
    assert parse_trust(format_trust(trust)) == trust
    both = replace(trust, require=frozenset({"anchor"}))
    assert parse_trust(format_trust(both)) == both
    one = Trust((LOG,), tsas=(BETA,))
    assert parse_trust(format_trust(one)) == one


@pytest.mark.parametrize(
    ("change", "message"),
    named(
        {
            "misspelt table": (("[[tsa]]", "[[tsas]]"), r"did you mean tsa\?"),
            "misspelt member": (("roots =", "root ="), r"did you mean roots\?"),
            "no name": (('name = "alpha"\n', ""), r"\[\[tsa\]\] 1: name is missing"),
            "a name in capitals": (('"alpha"', '"Alpha"'), r"\[\[tsa\]\] 1: name"),
            "a name that is a number": (('"alpha"', "7"), r"\[\[tsa\]\] 1: name"),
            "two of one name": (('"beta"', '"alpha"'), r"\[\[tsa\]\] 2: a second authority named"),
            "no authority": (('"Alpha Trust"', '""'), "authority is a text"),
            "authority a number": (('"Alpha Trust"', "7"), "authority is a text"),
            "authority too long": (('"Alpha Trust"', f'"{"x" * 257}"'), "authority is a text"),
            "no roots": (('roots = ["b.der"]\n', ""), r"\[\[tsa\]\] 2: roots is missing"),
            "empty roots": (('["b.der"]', "[]"), "roots is missing"),
            "roots a text": (('["b.der"]', '"b.der"'), "roots is a list of files"),
            "roots of numbers": (('["b.der"]', "[7]"), "roots is a list of files"),
            "no such file": (('"b.der"', '"x.pem"'), "roots: x.pem: cannot read"),
            "a folder": (('"b.der"', '"sub"'), "roots: sub: cannot read"),
            "nothing in it": (('"b.der"', '"empty.pem"'), "no certificate in PEM or DER"),
            "a revocation list": (('"b.der"', '"crl.pem"'), "X509 CRL among the certificates"),
            "a private key": (('"b.der"', '"key.pem"'), "PRIVATE KEY among the certificates"),
            "a broken certificate": (('"b.der"', '"broken.pem"'), "that cannot be read"),
            "a cut certificate": (('"b.der"', '"broken.der"'), "that cannot be read"),
            "too long": (('"b.der"', '"long.pem"'), "too long"),
            "broken PEM text": (
                ('"b.der"', '"-----BEGIN CERTIFICATE-----\\nx\\n"'),
                "roots: the PEM text: a PEM block that does not end",
            ),
            "certificate a list": (
                ('certificate = "c.pem"', 'certificate = ["c.pem"]'),
                "one file",
            ),
            "two pinned": (
                ('certificate = "c.pem"', 'certificate = "sub/both.pem"'),
                "2 certificates where one",
            ),
            "policies a text": (('["1.2.3.4", "0.4.0.2023.1.1"]', '"1.2.3"'), "policies is a list"),
            "a policy that is none": (('"1.2.3.4"', '"1.2.03"'), "policies is a list"),
            "a policy in words": (('"1.2.3.4"', '"any"'), "policies is a list"),
            "a time in quotes": (
                ("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"'),
                "trusted_from is a time",
            ),
            "a local time": (("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"), "trusted_from"),
            "a day": (("2026-01-01T00:00:00Z", "2026-01-01"), "trusted_from"),
            "backwards": (("2026-01-01T00:00:00Z", "2046-01-01T00:00:00Z"), "later than"),
            "quorum 0": (("tsa_quorum = 2", "tsa_quorum = 0"), "1 to the 2 different"),
            "quorum 3": (("tsa_quorum = 2", "tsa_quorum = 3"), "1 to the 2 different"),
            "quorum true": (("tsa_quorum = 2", "tsa_quorum = true"), "tsa_quorum"),
            "quorum a text": (("tsa_quorum = 2", 'tsa_quorum = "2"'), "tsa_quorum"),
            "a root of two operators": (
                ('"b.der"', '"a.pem"'),
                "tsa alpha and tsa beta share a root certificate, .* 'Alpha Trust' and 'beta'",
            ),
            "two names of one operator": (
                ('name = "beta"', 'name = "beta"\nauthority = "Alpha Trust"'),
                "1 to the 1 different",
            ),
        }
    ),
)
def test_refuses_and_says_where(folder: Path, change: tuple[str, str], message: str) -> None:
    text = FULL.replace(*change)
    assert text != FULL
    with pytest.raises(TrustError, match=message) as caught:
        parse_trust(text, "mine.toml", folder)
    assert str(caught.value).startswith("mine.toml")


def test_one_operator_may_have_several_authorities_under_one_root(folder: Path) -> None:
    ours = 'name = "beta"\nauthority = "Alpha Trust"\nroots = ["a.pem"]'
    text = FULL.replace('name = "beta"\nroots = ["b.der"]', ours).replace("m = 2", "m = 1")
    trust = parse_trust(text, "mine.toml", folder)
    assert [tsa.authority for tsa in trust.tsas] == ["Alpha Trust"] * 2


def test_a_root_that_was_issued_anew_is_the_same_root() -> None:
    """Another certificate of the same key: whoever holds the key would count twice."""
    again = pki.issue("alpha root, again", pki.key("p256", 5))
    first = pki.issue("alpha root", pki.key("p256", 5))
    assert first.der != again.der
    with pytest.raises(ValueError, match="tsa one and tsa two share a root"):
        check_operators(
            [TsaTrust("one", "one", (A, first.der)), TsaTrust("two", "two", (again.der,))]
        )
    check_operators([TsaTrust("one", "x", (first.der,)), TsaTrust("two", "x", (again.der,))])


@pytest.mark.parametrize(("count", "fits"), [(MAX_TSAS, True), (MAX_TSAS + 1, False)])
def test_as_many_authorities_as_are_allowed(folder: Path, count: int, fits: bool) -> None:
    tables = "".join(
        f'[[tsa]]\nname = "tsa-{at}"\nauthority = "x"\nroots = ["b.der"]\n' for at in range(count)
    )
    text = f'[[log]]\nkey = "{LOG}"\n{tables}'
    if fits:
        assert len(parse_trust(text, "mine.toml", folder).tsas) == count
    else:
        with pytest.raises(TrustError, match=r"33 \[\[tsa\]\] tables, at most 32"):
            parse_trust(text, "mine.toml", folder)


def test_a_trust_of_many_certificates_can_be_written_and_read() -> None:
    """No line of it grows with how many there are: lines have a limit."""
    roots = tuple(pki.issue(f"root {at}", pki.key("p256", at)).der for at in range(40))
    policies = frozenset(f"1.2.3.4.5.6.7.8.9.{at}" for at in range(40))
    trust = Trust((LOG,), tsas=(TsaTrust("alpha", "alpha", roots, policies=policies),))
    text = format_trust(trust)
    assert max(map(len, text.splitlines())) < 1_000
    assert parse_trust(text) == trust


def test_without_a_folder_no_file_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(TrustError, match="no folder to look for files in"):
        parse_trust(FULL)


def test_certificates_of_a_file() -> None:
    assert read_certificates(to_pem((A, B)) + b"# the end\n") == (A, B)
    assert read_certificates(A) == (A,)
    windows = to_pem((A,)).replace(b"\n", b"\r\n")
    assert read_certificates(windows) == (A,)


@pytest.mark.parametrize(
    ("data", "words"),
    named(
        {
            "no end": (b"-----BEGIN CERTIFICATE-----\nAAAA\n", "does not end as it begins"),
            "another end": (
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END X509 CRL-----\n",
                "does not end as it begins",
            ),
            "a beginning without its dashes": (b"-----BEGIN CERTIFICATE\n", "does not end"),
            "no label": (b"-----BEGIN -----\nAAAA\n-----END -----\n", "does not end"),
            "a label without end": (b"-----BEGIN " + b"A" * 100 + b"-----", "does not end"),
            "a beginning in it": (
                b"-----BEGIN CERTIFICATE-----\n" * 2 + b"AAAA\n-----END CERTIFICATE-----\n",
                "that cannot be read",
            ),
            "a good one and half of one": (to_pem((A,)) + to_pem((B,))[:-30], "does not end"),
            "a trusted one": (
                to_pem((A,)).replace(b"CERTIFICATE", b"TRUSTED CERTIFICATE"),
                "TRUSTED CERTIFICATE among",
            ),
            "a label in capitals of nowhere": (
                b"-----BEGIN \xff\xfe-----\n-----END \xff\xfe-----\n",
                "a PEM block .* among the certificates",
            ),
        }
    ),
)
def test_what_is_no_pem(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_certificates(data)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "data",
    named(
        {
            "beginnings": (b"-----BEGIN CERTIFICATE-----" * 38_000,),
            "beginnings on lines": (b"-----BEGIN CERTIFICATE-----\n" * 36_000,),
            "beginnings of half a label": (b"-----BEGIN CERTIFICATE----" * 38_000,),
            "beginnings and one end": (
                b"-----BEGIN CERTIFICATE-----\n" * 36_000 + b"-----END CERTIFICATE-----\n",
            ),
            "other beginnings": (b"".join(b"-----BEGIN A%d-----\n" % at for at in range(40_000)),),
            "dashes": (b"-" * 1_048_576,),
            "ends": (b"-----END CERTIFICATE-----" * 40_000,),
        }
    ),
)
def test_a_megabyte_of_nothing_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(ValueError, match="PEM"):
        read_certificates(data)
    with pytest.raises(ValueError, match="PEM"):
        read_crls(data)


def test_revocation_lists_of_a_file() -> None:
    one, other = crl(1), crl(2)
    both = one.public_bytes(Encoding.PEM) + other.public_bytes(Encoding.PEM)
    ders = tuple(made.public_bytes(Encoding.DER) for made in (one, other))
    assert read_crls(both) == ders
    assert read_crls(ders[0]) == ders[:1]
    with pytest.raises(ValueError, match="no revocation list in PEM or DER"):
        read_crls(b"x")
    with pytest.raises(ValueError, match="CERTIFICATE among the revocation lists"):
        read_crls(to_pem((A,)))
    with pytest.raises(ValueError, match="that cannot be read"):
        read_crls(ders[0][:-1])


def test_a_certificate_of_an_unknown_version_is_a_certificate_that_cannot_be_read() -> None:
    """The library has its own error for it, which is no ValueError."""
    at = A.index(bytes.fromhex("a003020102"))
    with pytest.raises(ValueError, match="that cannot be read"):
        read_certificates(A[: at + 4] + b"\x07" + A[at + 5 :])


def test_what_the_verifier_would_refuse_is_refused_when_it_is_given() -> None:
    """Else every token would seem to be at fault."""
    odd = pki.issue("odd", more=[forge.extension("2.5.29.14", forge.octets(b"once more"))])
    with pytest.raises(ValueError, match="that cannot be read"):
        read_certificates(odd.der)
    assert read_certificates(pki.ROOT.der) == (pki.ROOT.der,)


def test_a_whole_file(folder: Path) -> None:
    assert read_bounded(folder / "b.der") == B
    with pytest.raises(ValueError, match="cannot read"):
        read_bounded(Path("/nonexistent/file"))
