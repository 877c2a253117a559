"""Why no path holds: an authority that is not known is just that, whatever its candidates are like.

Authorities carry certificates along that lead elsewhere: cross certificates from roots of long ago,
signed with SHA-1 or by a short key. To an auditor without that root they are no reason for anything.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.timestamp import Cause, TimestampError, verify_response
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE, NOW, extension, octets, seq, tlv
from tests.helpers.tsa_pki import INTER, ROOT, TRUST, TSA, Identity, issue

if TYPE_CHECKING:
    from datetime import datetime

DAY = timedelta(days=1)
NEW_KEY = pki.key("p256", 301)
NEW_ROOT = issue("New root", NEW_KEY)
ISSUER = issue("Issuer", issuer=NEW_ROOT, ca=True)
SIGNER = issue("Signer", issuer=ISSUER)


def refusal(
    certificates: list[Identity], *roots: Identity, signer: Identity = SIGNER
) -> TimestampError:
    response = pki.response_of(signer=signer, certificates=[one.der for one in certificates])
    trust = replace(TRUST, roots=tuple(root.der for root in roots or (ROOT,)))
    with pytest.raises(TimestampError) as caught:
        verify_response(response, MESSAGE, trust)
    return caught.value


def cross(by: Identity, **changes: Any) -> Identity:
    """The new root's name and key, issued by another root."""
    return issue("New root", NEW_KEY, issuer=by, ca=True, **changes)


SHA1_ROOT = issue("Old root", pki.key("rsa2048"))
SHORT_ROOT = issue("Old root", pki.key("rsa1024"))
CURVE_ROOT = issue("Old root", pki.key("k256", 302))
LATE = NOW - DAY

# Old roots, what they issued, and the cause when the old root is the configured one.
CROSS = {
    "signed with SHA-1": (SHA1_ROOT, {"digest": "sha1"}, Cause.SIGNATURE_ALGORITHM),
    "by ECDSA with SHA-1": (issue("Old root"), {"digest": "sha1"}, Cause.SIGNATURE_ALGORITHM),
    "by a key of 1024 bits": (SHORT_ROOT, {}, Cause.WEAK_KEY),
    "by a key on another curve": (CURVE_ROOT, {}, Cause.WEAK_KEY),
    "naming two signature algorithms": (
        SHA1_ROOT,
        {"signed_as": forge.algorithm("rsa-sha512")},
        Cause.CERTIFICATE,
    ),
    "with name constraints": (
        SHA1_ROOT,
        {"more": [extension("2.5.29.30", seq(), critical=True)]},
        Cause.CHAIN,
    ),
    "with an unknown critical extension": (
        SHA1_ROOT,
        {"more": [extension("1.2.3.4", octets(b""), critical=True)]},
        Cause.CHAIN,
    ),
    "for other purposes": (SHA1_ROOT, {"purposes": [pki.CODE_SIGNING]}, Cause.CHAIN),
    "expired": (SHA1_ROOT, {"not_after": LATE}, Cause.CHAIN),
    "that may not sign certificates": (SHA1_ROOT, {"usage": pki.CRL_SIGN}, Cause.CHAIN),
}
WORDS = "no configured root issued the signer"


@pytest.mark.parametrize(("old", "changes", "cause"), named(CROSS))
def test_a_cross_certificate_of_an_unknown_authority_is_no_reason(
    old: Identity, changes: dict[str, Any], cause: Cause
) -> None:
    other = cross(old, **changes)
    for embedded in ([SIGNER, ISSUER, other, old], [SIGNER, old, other, ISSUER]):
        error = refusal(embedded)
        assert (error.cause, error.message) == (Cause.CHAIN, WORDS)
    # Nor with the authority's own root among the embedded ones.
    assert refusal([SIGNER, ISSUER, NEW_ROOT, other, old]).message == WORDS
    # Configured, the old root makes it the reason, with its own cause and words.
    error = refusal([SIGNER, ISSUER, other], old)
    assert error.cause is cause
    assert error.message != WORDS


@pytest.mark.parametrize(("old", "changes", "cause"), named(CROSS))
def test_a_cross_certificate_does_not_close_the_good_way(
    old: Identity, changes: dict[str, Any], cause: Cause
) -> None:
    other = cross(old, **changes)
    for roots in ((NEW_ROOT,), (NEW_ROOT, old), (old, NEW_ROOT)):
        for embedded in ([SIGNER, ISSUER, other], [SIGNER, other, ISSUER]):
            trust = replace(TRUST, roots=tuple(root.der for root in roots))
            response = pki.response_of(signer=SIGNER, certificates=[one.der for one in embedded])
            path = verify_response(response, MESSAGE, trust).path
            assert path == (SIGNER.der, ISSUER.der, NEW_ROOT.der)


def test_a_forged_way_to_a_configured_root_is_no_reason() -> None:
    """Under the root's name, by a weak algorithm, and by another key: that proves nothing."""
    stranger = replace(issue("Root", pki.key("rsa1024")), subject=ROOT.subject)
    for digest in ("sha1", "sha256"):
        forged = issue("Issuer", issuer=stranger, ca=True, digest=digest)
        signer = issue("Signer", issuer=forged)
        error = refusal([signer, forged, stranger], signer=signer)
        assert error.cause is Cause.CHAIN
        assert error.message == "issuer of that name has another key"


def test_the_issuer_named_with_a_signature_of_another_kind() -> None:
    """RSA by its name, but the certificate says ECDSA: another key made it."""
    rsa_root = issue("Root of a name", pki.key("rsa2048"))
    signer = issue("Signer", issuer=replace(rsa_root, key=pki.key("p256", 303)))
    for roots in ((ROOT,), (rsa_root,)):
        assert refusal([signer, rsa_root], *roots, signer=signer).cause is Cause.CHAIN


@pytest.mark.parametrize(
    "spki",
    [
        seq(forge.algorithm("1.3.101.110", b""), forge.bits(bytes(range(32)))),
        seq(forge.algorithm("rsa"), forge.bits(b"nonsense")),
    ],
    ids=["X25519", "unreadable"],
)
def test_a_candidate_whose_key_verifies_nothing(spki: bytes) -> None:
    odd = rekeyed(spki)
    error = refusal([SIGNER, odd])
    assert (error.cause, error.message) == (Cause.CHAIN, WORDS)


def rekeyed(spki: bytes) -> Identity:
    """A CA certificate of the issuer's name over any bytes as its key; its signature is nonsense."""
    algorithm = forge.algorithm("ecdsa-sha256", b"")
    tbs = seq(
        tlv(0xA0, forge.integer(2)),
        forge.integer(9),
        algorithm,
        NEW_ROOT.subject,
        seq(forge.time(pki.NOT_BEFORE), forge.time(pki.NOT_AFTER)),
        ISSUER.subject,
        spki,
        tlv(0xA3, seq(extension("2.5.29.19", seq(forge.boolean(True)), critical=True))),
    )
    return replace(ISSUER, der=seq(tbs, algorithm, forge.bits(b"x")))


def test_the_first_reason_on_the_way_to_a_root_is_told() -> None:
    old = SHORT_ROOT
    other = cross(old, digest="sha1", not_after=LATE)
    error = refusal([SIGNER, ISSUER, other], old)
    assert error.cause is Cause.CHAIN
    assert "not valid at genTime" in error.message


# What is the signer's own fault comes out under any root.


def short_signer() -> Identity:
    return issue("Signer", pki.key("rsa1024"), issuer=ISSUER)


OWN_FAULT = {
    "its certificate signed with SHA-1": (
        issue("Signer", issuer=ISSUER, digest="sha1"),
        Cause.SIGNATURE_ALGORITHM,
    ),
    "its certificate of two algorithms": (
        issue("Signer", issuer=ISSUER, signed_as=forge.algorithm("ecdsa-sha512", b"")),
        Cause.CERTIFICATE,
    ),
    "its key of 1024 bits": (short_signer(), Cause.WEAK_KEY),
    "its purposes": (issue("Signer", issuer=ISSUER, purposes=[pki.CODE_SIGNING]), Cause.EKU),
}


@pytest.mark.parametrize(("signer", "cause"), named(OWN_FAULT))
def test_the_fault_of_the_signer_itself(signer: Identity, cause: Cause) -> None:
    for roots in ((ROOT,), (NEW_ROOT,)):
        assert refusal([signer, ISSUER], *roots, signer=signer).cause is cause


# When the key of the signer may sign.


def period(first: datetime | None, last: datetime | None, *, critical: bool = False) -> bytes:
    return extension(
        "2.5.29.16",
        seq(
            b"" if first is None else tlv(0x80, f"{first:%Y%m%d%H%M%SZ}".encode()),
            b"" if last is None else tlv(0x81, f"{last:%Y%m%d%H%M%SZ}".encode()),
        ),
        critical=critical,
    )


SECOND = timedelta(seconds=1)
PERIODS = {
    "around genTime": (NOW - DAY, NOW + DAY, True),
    "from genTime on": (NOW, None, True),
    "until genTime": (None, NOW, True),
    "that began later": (NOW + SECOND, None, False),
    "that was over": (None, NOW - SECOND, False),
    "that was over, with both ends": (NOW - DAY, NOW - SECOND, False),
    "that began later, with both ends": (NOW + SECOND, NOW + DAY, False),
}


@pytest.mark.parametrize("critical", [True, False], ids=["critical", "not critical"])
@pytest.mark.parametrize(("first", "last", "good"), named(PERIODS))
def test_the_usage_period_of_the_private_key(
    first: datetime | None, last: datetime | None, good: bool, critical: bool
) -> None:
    signer = issue("Limited", issuer=INTER, more=[period(first, last, critical=critical)])
    response = pki.response_of(signer=signer, certificates=[signer.der, INTER.der])
    if good:
        assert verify_response(response, MESSAGE, TRUST).path[0] == signer.der
    else:
        error = refusal([signer, INTER], signer=signer)
        assert error.cause is Cause.KEY_USAGE
        assert error.got == str(NOW)


def test_the_usage_period_of_an_issuer() -> None:
    """It says when the issuer issues, not when what it issued signs; critical, it is refused."""
    limits = (NOW - 2 * DAY, NOW - DAY)
    issuer = issue("Limited CA", issuer=ROOT, ca=True, more=[period(*limits)])
    signer = issue("Signer", issuer=issuer)
    response = pki.response_of(signer=signer, certificates=[signer.der, issuer.der])
    assert verify_response(response, MESSAGE, TRUST).path[1] == issuer.der
    issuer = issue("Limited CA", issuer=ROOT, ca=True, more=[period(*limits, critical=True)])
    error = refusal([signer, issuer], signer=signer)
    assert error.cause is Cause.CHAIN
    assert "2.5.29.16" in error.message


# Serial numbers that certificates should not have: pytest turns a warning into an error.


@pytest.mark.parametrize("serial", [0, -1, -(2**63), 2**160])
def test_odd_serial_numbers_everywhere_and_no_warning(serial: int) -> None:
    root = issue("Odd root", serial=serial)
    issuer = issue("Odd CA", issuer=root, ca=True, serial=serial)
    signer = issue("Odd signer", issuer=issuer, serial=serial)
    response = pki.response_of(signer=signer, certificates=[signer.der, issuer.der])
    trust = replace(TRUST, roots=(root.der,))
    assert verify_response(response, MESSAGE, trust).path == (signer.der, issuer.der, root.der)


def test_the_usual_authority_is_unknown_under_another_root() -> None:
    error = refusal([TSA, INTER, ROOT], NEW_ROOT, signer=TSA)
    assert (error.cause, error.message) == (Cause.CHAIN, WORDS)
