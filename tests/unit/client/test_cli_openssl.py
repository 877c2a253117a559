"""The printed `openssl ts -verify` lines: whatever shape a token has, a line that is printed works.

For shapes that OpenSSL cannot verify, a comment says why; that it really cannot is shown by running it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.certificates import read_certificates
from receiptledger.cli.openssl import extract, openssl_lines
from receiptledger.cli.openssl_limits import obstacle
from receiptledger.core.timestamp import TsaTrust, verify_response
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.anchored import AFTER, ALPHA, BETA, AnchoredWorld, timestamps
from tests.helpers.authority import Authority
from tests.helpers.cases import named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.helpers.tsa_pki import Identity

ROOT, CA, TSA = ALPHA.root, ALPHA.ca, ALPHA.tsa
BAG = (TSA.der, CA.der)
RSA = pki.issue("rsa TSA", pki.key("rsa2048", 3), issuer=CA)
# The same CA under another root, and anchors that do not say what they are.
OTHER_ROOT = pki.issue("other root")
CROSS = pki.issue("alpha CA", CA.key, issuer=OTHER_ROOT, ca=True, serial=99)
SECOND_ROOT = pki.issue("second root", version=2)
SECOND_TSA = pki.issue("second TSA", issuer=SECOND_ROOT)
FIRST_CA = pki.issue("first CA", issuer=OTHER_ROOT, ca=True, version=1)
FIRST_TSA = pki.issue("first TSA", issuer=FIRST_CA)
OLD_ROOT = pki.issue("old root", version=1)
OLD_TSA = pki.issue("old TSA", issuer=OLD_ROOT)
TWIN = pki.issue("alpha TSA's twin", issuer=CA, serial=TSA.serial)


def token(
    certificates: tuple[bytes, ...] = BAG,
    signer: Identity = TSA,
    *,
    digests: tuple[str, ...] | None = None,
    crls: bytes = b"",
    **changes: Any,
) -> Callable[[bytes], bytes]:
    """From TSTInfo to token; `changes` are of the SignerInfo."""
    listed = (changes.get("digest", "sha256"),) if digests is None else digests
    return lambda info: forge.envelope(
        info,
        [forge.signer_info(info, signer, **changes)],
        certificates,
        digests=listed,
        crls=crls,
    )


def ess(*certificates: bytes, **changes: Any) -> Callable[[bytes], bytes]:
    """A token whose signing-certificate attribute names these."""
    return lambda info: token(
        attributes=[*forge.signed_attributes(info), forge.ess_v2(*certificates, **changes)]
    )(info)


def mixed(digest: str, signed: str) -> Callable[[bytes], bytes]:
    """A digestAlgorithm, and an ECDSA signature of another hash."""

    def make(info: bytes) -> bytes:
        attributes = [*forge.signed_attributes(info, digest), forge.ess_v2(TSA.der)]
        data = forge.tlv(0x31, *sorted(attributes))
        return token(
            attributes=attributes,
            digest=digest,
            signature=forge.sign(TSA.key, data, signed),
            signature_identifier=forge.signature_algorithm(TSA.key, signed),
        )(info)

    return make


def pss(info: bytes) -> bytes:
    identifier = forge.algorithm("rsa-pss", forge.pss_parameters("sha256", salt=32))
    return token((RSA.der, CA.der), RSA, signature_identifier=identifier, pss_salt=32)(info)


def two_names(info: bytes) -> bytes:
    """Two issuers beside the certificate that is named."""
    names = forge.seq(forge.directory_name(CA.subject), forge.directory_name(ROOT.subject))
    return ess(TSA.der, issuer_serial=forge.seq(names, forge.integer(TSA.serial)))(info)


LIST = pki.crl(CA, this_update=AFTER)
SERIAL = forge.issuer_serial(CA.subject, TSA.serial)
SHAPES: dict[str, tuple[Any, ...]] = {
    "plain": (token(),),
    "without its certificates": (token(()),),
    "certificates in another order": (token(BAG[::-1]),),
    "with the root": (token((*BAG, ROOT.der)),),
    "with certificates of others": (token((*BAG, BETA.tsa.der, BETA.ca.der)),),
    "RSA": (token((RSA.der, CA.der), RSA),),
    "SHA-512": (token(digest="sha512"),),
    "several hash algorithms": (token(digests=("sha256", "sha512")),),
    "ESS with SHA-512": (ess(TSA.der, digest="sha512"),),
    "ESS with issuer and serial": (ess(TSA.der, issuer_serial=SERIAL),),
    "ESS with the path": (ess(TSA.der, CA.der, ROOT.der),),
    "with a revocation list": (token(crls=forge.tlv(0xA1, LIST)),),
    "a version 1 root": (token((OLD_TSA.der,), OLD_TSA), OLD_ROOT),
    "an issuing CA for a root": (token(), CA),
    "a cross certificate of the root": (
        token((*BAG, pki.issue("alpha root", ROOT.key, issuer=OTHER_ROOT, ca=True).der)),
    ),
}
OBSTACLES: dict[str, tuple[Any, ...]] = {
    "named by a key identifier": (
        token(identifier=forge.tlv(0x80, TSA.key_identifier), version=3),
        "named by a key identifier",
    ),
    "ESS with one not on the path": (ess(TSA.der, BETA.ca.der), "every certificate on the path"),
    "ESS with two issuers": (two_names, "one issuer beside"),
    "ECDSA of a shorter hash": (
        mixed("sha512", "sha256"),
        "takes sha512 for the hash of the ecdsa",
    ),
    "ECDSA of a longer hash": (mixed("sha256", "sha512"), "takes sha256 for the hash of the ecdsa"),
    "an attribute certificate": (
        token((*BAG, forge.tlv(0xA2, forge.seq()))),
        "attribute certificates",
    ),
    "an unreadable certificate": (
        token((*BAG, forge.seq(forge.integer(1)))),
        "one of the certificates that came along",
    ),
    "an unreadable revocation list": (
        token(crls=forge.tlv(0xA1, forge.seq(forge.integer(1)))),
        "one of the revocation lists",
    ),
    "another kind of revocation": (
        token(crls=forge.tlv(0xA1, forge.tlv(0xA1, forge.oid("1.2.3")))),
        "one of the revocation lists",
    ),
    "PSS": (pss, "cannot read rsa-pss-sha256 signatures"),
    "an unknown hash in the list": (token(digests=("sha256", "1.2.3.4")), "hash algorithms"),
    "the signer's hash not in the list": (token(digests=("sha512",)), "the list of all"),
    "a version 2 root": (
        token((SECOND_TSA.der,), SECOND_TSA),
        "takes the root for no authority",
        SECOND_ROOT,
    ),
    "a version 1 issuing CA for a root": (
        token((FIRST_TSA.der,), FIRST_TSA),
        "takes the root for no authority",
        FIRST_CA,
    ),
}
# OpenSSL may succeed, and another build of it, or another order of the same certificates, may not.
DOUBTFUL: dict[str, tuple[Any, ...]] = {
    "two certificates of one CA": (
        token((*BAG, CROSS.der)),
        "another certificate of the same name",
    ),
    "two certificates of one CA, trusted crosswise": (
        token((*BAG, CROSS.der)),
        "another certificate of the same name",
        OTHER_ROOT,
    ),
    "two certificates of one serial": (
        token((*BAG, TWIN.der)),
        "another certificate of the same name",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here: the printed lines were not run")
    return tmp_path


def shown(make: Callable[[bytes], bytes], root: Identity, folder: Path) -> str:
    """The line about a receipt stamped with such a token; its files are in the folder."""
    world = AnchoredWorld.empty()
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    request, _ = ALPHA.answer(note, AFTER, asked={"nonce": forge.NONCE})
    info = forge.tst_info(imprint=forge.imprint(note), gen_time=AFTER)
    world.logged(size, note, request, forge.response(make(info)), "alpha")
    tsa = TsaTrust("alpha", "alpha", (root.der,), intermediates=BAG)
    verdict = world.verify(trust=replace(world.trust(), tsas=(tsa,)))
    assert verdict.facts["anchored_by"] == ["alpha"], timestamps(verdict).detail
    assert extract(verdict.anchoring, folder) == 1
    (line,) = openssl_lines(verdict.anchoring)
    return line


def run(line: str, folder: Path) -> bool:
    ran = subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert ("Verification: OK" in ran.stdout) == (ran.returncode == 0)
    return ran.returncode == 0


def by_hand(folder: Path) -> str:
    """What would be printed."""
    chain = next(folder.glob("*-chain.pem"), None)
    between = "" if chain is None else f"-untrusted {chain.name}"
    return (
        "openssl ts -verify -in anchor-2.tsr -data checkpoint-2.note -CAfile anchor-2-root.pem "
        f"-partial_chain {between} -attime {int(AFTER.timestamp())}"
    )


@pytest.mark.parametrize("shape", named({name: (case,) for name, case in SHAPES.items()}))
def test_a_printed_line_works(shape: tuple[Any, ...], folder: Path) -> None:
    make, root = (*shape, ROOT)[:2]
    line = shown(make, root, folder)
    assert line.startswith("openssl ts -verify -in anchor-2.tsr ")
    assert run(line, folder)


@pytest.mark.parametrize("shape", named({name: (case,) for name, case in OBSTACLES.items()}))
def test_what_openssl_cannot_verify_is_a_comment(shape: tuple[Any, ...], folder: Path) -> None:
    make, words, root = (*shape, ROOT)[:3]
    line = shown(make, root, folder)
    assert line.startswith("# anchor-2: not for `openssl ts`: it ")
    assert words in line
    assert not run(by_hand(folder), folder), "OpenSSL can do it: print the line"


@pytest.mark.parametrize("shape", named({name: (case,) for name, case in DOUBTFUL.items()}))
def test_in_doubt_no_line_is_printed(shape: tuple[Any, ...], folder: Path) -> None:
    make, words, root = (*shape, ROOT)[:3]
    line = shown(make, root, folder)
    assert line.startswith("#")
    assert words in line


def test_ed25519(folder: Path) -> None:
    edwards = Authority("edwards", kind="ed25519")
    world = AnchoredWorld.made(edwards)
    verdict = world.verify(trust=world.trust(edwards))
    assert openssl_lines(verdict.anchoring) == [
        "# anchor-3: not for `openssl ts`: it cannot read ed25519 signatures"
    ]


def test_a_time_before_1970() -> None:
    response = ALPHA.answer(b"x", AFTER)[1]
    made = verify_response(response, b"x", ALPHA.trust)
    assert obstacle(response, made) is None
    old = replace(made, gen_time=datetime(1969, 12, 31, tzinfo=UTC))
    assert "before 1970" in str(obstacle(response, old))


def test_no_line_is_printed_twice() -> None:
    world = AnchoredWorld.made()
    anchoring = world.verify().anchoring
    assert anchoring is not None
    twice = replace(anchoring, stamps=anchoring.stamps * 2)
    assert openssl_lines(twice) == openssl_lines(anchoring)
    assert len(openssl_lines(anchoring)) == 2


def test_every_foreign_token_that_is_accepted(vectors: Path, folder: Path) -> None:
    """Tokens of the tools in use: the line works, or a comment says why there is none."""
    base = vectors / "rfc3161"
    lines = comments = 0
    for row in json.loads((base / "manifest.json").read_bytes())["vectors"]:
        if row["expect"] != "accept":
            continue
        message, response = (base / row[name] for name in ("message", "file"))
        roots, between = (
            tuple(base / "pki" / f"{name}.pem" for name in row[kind])
            for kind in ("roots", "intermediates")
        )
        trust = TsaTrust("x", "x", certificates(*roots), certificates(*between))
        made = verify_response(response.read_bytes(), message.read_bytes(), trust)
        if obstacle(response.read_bytes(), made) is not None:
            comments += 1
            continue
        lines += 1
        more = f"-untrusted {between[0]}" if between else ""
        line = f"openssl ts -verify -in {response} -data {message} -CAfile {roots[0]} {more}"
        assert run(f"{line} -attime {int(made.gen_time.timestamp())}", folder), row
    assert lines >= 12
    assert comments >= 2


def certificates(*files: Path) -> tuple[bytes, ...]:
    return tuple(one for file in files for one in read_certificates(file.read_bytes()))
