"""Bounded work: what hostile tokens, lists and answers may cost, counted in operations.

Signatures verified, DER values read and certificates read are counted; seconds would be luck. A good
token costs three signatures and some 350 values.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core import (
    revocation_crl,
    revocation_entries,
    revocation_ocsp,
    timestamp,
    timestamp_der,
    timestamp_open,
    timestamp_weak,
    tsa_certificate,
    tsa_name,
    tsa_path,
)
from receiptledger.core.revocation import MAX_BLOBS, RevocationEvidence
from receiptledger.core.timestamp import Cause, TimestampError, verify_response
from receiptledger.core.timestamp_limits import (
    CACHED_CERTIFICATE_BYTES,
    CACHED_CERTIFICATES,
    CACHED_EVIDENCE_BYTES,
    CACHED_TOKEN_BYTES,
    CACHED_TOKENS,
    MAX_CERTIFICATE_NODES,
    MAX_CERTIFICATES,
    MAX_OCSP_ANSWERS,
    MAX_OCSP_CERTIFICATES,
    MAX_SIGNATURES,
    MAX_TOKEN_NODES,
)
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE, NOW, NULL, extension, integer, oid, seq, set_of, tlv
from tests.helpers.tsa_pki import INTER, ROOT, TRUST, TSA, Identity, issue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAY = timedelta(days=1)
OTHERS = [
    replace(TRUST, name=f"other {at}", roots=(issue(f"Other root {at}").der,)) for at in range(4)
]
MEMORIES = (
    tsa_certificate._READ,
    timestamp_open._RESPONSES,
    timestamp_open._TOKENS,
    revocation_crl._READ,
    revocation_ocsp._READ,
)


class Work:
    """How often the dear operations ran since the last look."""

    def __init__(self) -> None:
        self.signatures = 0
        self.values = 0
        self.certificates = 0
        self.walks = 0
        self.names = 0

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    """Counts, from empty memories on."""
    count = Work()

    def counted(module: Any, attribute: str, counter: str) -> None:
        real: Callable[..., Any] = getattr(module, attribute)

        def call(*arguments: Any, **named_arguments: Any) -> Any:
            setattr(count, counter, getattr(count, counter) + 1)
            return real(*arguments, **named_arguments)

        monkeypatch.setattr(module, attribute, call)

    for module in (timestamp, timestamp_weak, tsa_certificate, revocation_crl, revocation_ocsp):
        counted(module, "verify_signature", "signatures")
    counted(timestamp_der, "Node", "values")
    counted(tsa_certificate, "_certificate", "certificates")
    counted(revocation_crl, "entry_of", "walks")
    counted(tsa_name, "_normal", "names")
    for memory in MEMORIES:
        memory.clear()
    yield count
    for memory in MEMORIES:
        memory.clear()


def bag(*certificates: Identity | bytes, signer: Identity = TSA) -> bytes:
    ders = [one if isinstance(one, bytes) else one.der for one in certificates]
    return pki.response_of(signer=signer, certificates=ders)


def refused(response: bytes, **changes: Any) -> TimestampError:
    with pytest.raises(TimestampError) as caught:
        verify_response(response, MESSAGE, changes.pop("trust", TRUST), **changes)
    return caught.value


# Signatures


def mesh(size: int, kind: str) -> bytes:
    """CAs of one name, each issued by each other, and a signer that one of them issued."""
    keys = [pki.key(kind, 400 + at) for at in range(size)]
    selves = [issue("Mesh", key, ca=True) for key in keys]
    cross = [
        issue("Mesh", keys[of], issuer=selves[by], ca=True, identifiers=False, serial=10 * by + of)
        for of in range(size)
        for by in range(size)
        if of != by
    ]
    signer = issue("Caught", issuer=selves[0])
    return bag(signer, *cross[: MAX_CERTIFICATES - 1], signer=signer)


def layers() -> bytes:
    """Seven issuers one above the other, each twice: 128 ways, and none to a root."""
    keys = [[pki.key("p256", 500 + 2 * at + of) for of in range(2)] for at in range(8)]
    made = []
    for at in range(7):
        above = issue(f"Layer {at + 1}", keys[at + 1][0], ca=True)
        made += [
            issue(f"Layer {at}", key, issuer=above, ca=True, serial=of)
            for of, key in enumerate(keys[at])
        ]
    signer = issue("Caught", issuer=issue("Layer 0", keys[0][0], ca=True))
    return bag(signer, *made, signer=signer)


def namesakes(subject: Identity) -> bytes:
    """Fifteen CAs of the issuer's name, none of which issued the signer."""
    signer = issue("Caught", issuer=subject)
    others = [
        issue("", pki.key("p256", 600 + at), subject=subject.subject, ca=True)
        for at in range(MAX_CERTIFICATES - 1)
    ]
    return bag(signer, *others, signer=signer)


BAGS = {
    "a mesh of four": mesh(4, "p256"),
    "a mesh of five": mesh(5, "p256"),
    "a mesh of P-521 keys": mesh(4, "p521"),
    "layers": layers(),
    "fifteen of the name of an issuer": namesakes(issue("Unknown")),
    "fifteen of the name of a root": namesakes(replace(ROOT, key=pki.key("p256", 699))),
}


@pytest.mark.parametrize("response", named(BAGS))
def test_signatures_of_a_path_search_are_bounded(response: bytes, work: Work) -> None:
    assert refused(response).cause is Cause.CHAIN
    assert work.signatures <= MAX_SIGNATURES + 1  # and the token's own
    for trust in OTHERS:
        work.reset()
        assert refused(response, trust=trust).cause is Cause.CHAIN
        # What the embedded ones have to do with each other is known by now.
        # The token's own, and a pair that the first root left no room for.
        assert work.signatures <= 2
        assert work.certificates <= 1  # the root of that authority
        assert work.values <= 100


def test_the_answer_does_not_depend_on_what_is_remembered(work: Work) -> None:
    for response in BAGS.values():
        alone = str(refused(response))
        for trust in OTHERS:
            refused(response, trust=trust)
        assert str(refused(response)) == alone
        for memory in MEMORIES:
            memory.clear()
        assert str(refused(response)) == alone


def test_a_good_path_is_found_among_many_candidates(work: Work) -> None:
    decoys = [
        issue("", pki.key("p256", 700 + at), subject=INTER.subject, issuer=ROOT, ca=True)
        for at in range(MAX_CERTIFICATES - 2)
    ]
    stamp = verify_response(bag(TSA, *decoys, INTER), MESSAGE, TRUST)
    assert stamp.path == pki.PATH  # the key identifier says which to try first
    assert work.signatures == 3
    configured = replace(TRUST, intermediates=(INTER.der,))
    for decoy in decoys:
        assert decoy.key_identifier != INTER.key_identifier
    assert verify_response(bag(TSA, *decoys), MESSAGE, configured).path == pki.PATH


def test_a_good_token_costs_little_and_the_next_authority_less(work: Work) -> None:
    response = pki.response_of()
    for trust in OTHERS:
        refused(response, trust=trust)
    work.reset()
    assert verify_response(response, MESSAGE, TRUST).path == pki.PATH
    assert work.signatures <= 2  # the token's own, and the issuing CA's under this root
    assert work.values < 100
    assert work.certificates == 1


@pytest.mark.parametrize("exponent", [2**32 + 1, 2**64 - 1])
def test_keys_of_a_large_exponent_cost_no_signature(exponent: int, work: Work) -> None:
    modulus = (1 << 8_191) + 1
    spki = seq(forge.algorithm("rsa"), forge.bits(seq(integer(modulus, 2), integer(exponent, 2))))
    candidates = [authority(spki, serial) for serial in range(MAX_CERTIFICATES - 1)]
    signer = issue("Caught", issuer=replace(ROOT, subject=forge.name("Heavy")))
    assert refused(bag(signer, *candidates, signer=signer)).cause is Cause.CHAIN
    assert work.signatures == 1


def authority(spki: bytes, serial: int, *extensions: bytes, subject: bytes = b"") -> bytes:
    """A CA certificate over any key, whose signature is nonsense."""
    algorithm = forge.algorithm("ecdsa-sha256", b"")
    subject = subject or forge.name("Heavy")
    tbs = seq(
        tlv(0xA0, integer(2)),
        integer(serial),
        algorithm,
        subject,
        seq(forge.time(pki.NOT_BEFORE), forge.time(pki.NOT_AFTER)),
        subject,
        spki,
        tlv(0xA3, seq(extension("2.5.29.19", seq(forge.boolean(True))), *extensions)),
    )
    return seq(tbs, algorithm, forge.bits(b"x" * 64))


# Certificates


def broken(*parts: bytes) -> list[bytes]:
    """As many embedded certificates as may be, large and at their end unreadable."""
    return [
        authority(TSA.spki, serial, *parts, extension("2.5.29.15", NULL))
        for serial in range(MAX_CERTIFICATES)
    ]


BROKEN = {
    "many extensions": broken(*[extension(f"1.2.{at}", b"") for at in range(20)]),
    "more extensions than may be": broken(*[extension(f"1.2.{at}", b"") for at in range(200)]),
    "many names": broken(extension("2.5.29.17", seq(*[tlv(0x82)] * 400))),
    "many purposes": broken(extension("2.5.29.37", seq(*[oid("1.2.3")] * 400))),
    "long purposes": broken(extension("2.5.29.37", seq(*[tlv(6, b"\x2a" + b"\x7f" * 60)] * 40))),
    "a long keyUsage": [
        authority(TSA.spki, serial, extension("2.5.29.15", forge.bits(b"\xff" * 3_000)))
        for serial in range(MAX_CERTIFICATES)
    ],
    "long names": [
        authority(
            TSA.spki,
            serial,
            extension("2.5.29.15", NULL),
            subject=seq(*[set_of(seq(oid("2.5.4.3"), forge.text("\ufdfa")))] * 60),
        )
        for serial in range(MAX_CERTIFICATES)
    ],
}


@pytest.mark.parametrize("certificates", named(BROKEN))
def test_unreadable_certificates_are_read_once(certificates: list[bytes], work: Work) -> None:
    response = bag(*certificates)
    error = refused(response)
    assert error.cause is Cause.CERTIFICATE
    assert error.got == f"{MAX_CERTIFICATES} of them"
    assert work.certificates == MAX_CERTIFICATES
    assert work.values <= MAX_CERTIFICATES * MAX_CERTIFICATE_NODES + 4 * MAX_TOKEN_NODES
    assert work.signatures == 0
    work.reset()
    for trust in OTHERS:
        assert refused(response, trust=trust).cause is Cause.CERTIFICATE
    assert (work.certificates, work.values) == (0, 0)
    # Another token that brings the same ones.
    other = pki.response_of(forge.tst_info(serial=8), certificates=certificates)
    assert refused(other).cause is Cause.CERTIFICATE
    assert work.certificates == 0


def test_names_are_folded_only_when_they_are_short(work: Work) -> None:
    def spelled(at: int, times: int) -> bytes:
        return seq(set_of(seq(oid("2.5.4.3"), forge.text("\ufdfa" * times + "x" * at))))

    for times, folded in ((40, True), (90, False)):
        work.reset()
        signer = issue("Caught", issuer=replace(ROOT, subject=spelled(99, times)))
        others = [authority(TSA.spki, at, subject=spelled(at, times)) for at in range(1, 9)]
        assert refused(bag(signer, *others, signer=signer)).cause is Cause.CHAIN
        assert (work.names > 0) == folded


def test_memories_stay_small(work: Work) -> None:
    """Whoever sends new certificates, tokens and lists every time fills nothing."""
    filler = extension("1.2.3", bytes(10_000))
    for serial in range(CACHED_CERTIFICATES + 50):
        der = authority(TSA.spki, serial, filler)
        assert tsa_certificate.load_certificate(der).serial == serial
        refused(pki.response_of(forge.tst_info(serial=serial), certificates=[der]))
        crl = pki.crl(INTER, more=[extension("1.2.3", bytes(60_000)), number(serial)])
        assert revocation_crl.load_crl(crl).entries > 0
    certificates, responses, tokens, crls, _ = MEMORIES
    assert certificates.weight <= CACHED_CERTIFICATE_BYTES
    assert 0 < len(responses) <= CACHED_TOKENS
    assert 0 < len(tokens) <= CACHED_TOKENS
    assert responses.weight <= CACHED_TOKEN_BYTES
    assert tokens.weight <= CACHED_TOKEN_BYTES
    assert 0 < crls.weight <= CACHED_EVIDENCE_BYTES


def number(value: int) -> bytes:
    return extension("1.2.4", integer(value))


# Evidence


def state(evidence: RevocationEvidence) -> str:
    return verify_response(pki.response_of(), MESSAGE, TRUST, evidence=evidence).revocation


def evidence_error(evidence: RevocationEvidence) -> TimestampError:
    error = refused(pki.response_of(), evidence=evidence)
    assert error.cause is Cause.EVIDENCE
    return error


def long_crl(count: int = 20_000) -> bytes:
    when = forge.time(NOW - DAY)
    return pki.crl(INTER, [seq(integer(2**62 + at), when) for at in range(count)])


def test_a_long_list_is_walked_once_and_never_opened(work: Work) -> None:
    state(RevocationEvidence())
    crl = long_crl()
    work.reset()
    assert state(RevocationEvidence((crl, pki.crl(ROOT)))) == "good"
    assert work.walks == 2
    assert work.values < 100
    assert work.signatures == 3  # both lists, and the token's own
    work.reset()
    for _ in range(3):
        assert state(RevocationEvidence((crl, pki.crl(ROOT)))) == "good"
    assert (work.walks, work.values) == (0, 0)
    assert work.signatures == 3  # the tokens' own


def test_the_same_list_many_times(work: Work) -> None:
    crls = (long_crl(),) * (MAX_BLOBS - 1)
    assert state(RevocationEvidence((*crls, pki.crl(ROOT)))) == "good"
    assert work.walks == 2


def test_a_list_of_a_stranger_is_not_walked(work: Work) -> None:
    stranger = issue("Stranger")
    assert state(RevocationEvidence((pki.crl(stranger, [pki.entry(TSA, NOW)]),))) == "unknown"
    forged = pki.crl(INTER, [pki.entry(TSA, NOW)], private=stranger.key)
    evidence_error(RevocationEvidence((forged,)))
    assert work.walks == 0


def test_a_list_that_names_a_certificate_thousands_of_times(work: Work) -> None:
    state(RevocationEvidence())
    crl = pki.crl(INTER, [pki.entry(TSA, NOW + DAY, 4)] * 6_000)
    work.reset()
    assert "twice" in evidence_error(RevocationEvidence((crl,))).message
    assert work.values < 100


def test_a_list_of_thousands_of_extensions(work: Work) -> None:
    state(RevocationEvidence())
    more = [seq(oid(f"1.2.{at}"), forge.octets(b"")) for at in range(16_000)]
    crl = pki.crl(INTER, more=more)
    work.reset()
    evidence_error(RevocationEvidence((crl,)))
    assert work.values < 1_000
    evidence_error(RevocationEvidence((pki.crl(INTER, more=more[:30]),)))
    work.reset()
    for _ in range(3):
        evidence_error(RevocationEvidence((crl,)))
    assert work.values == 0  # a refusal is remembered too


def test_an_entry_of_thousands_of_values(work: Work) -> None:
    state(RevocationEvidence())
    listed = seq(integer(TSA.serial), forge.time(NOW), seq(*[NULL] * 20_000))
    crl = pki.crl(INTER, [listed])
    work.reset()
    evidence_error(RevocationEvidence((crl,)))
    assert work.values < 1_000


def answers(count: int) -> bytes:
    return pki.ocsp([pki.single(TSA, INTER, pki.GOOD)] * count, INTER)


def test_an_answer_of_many_answers(work: Work) -> None:
    root = (pki.crl(ROOT),)
    assert state(RevocationEvidence(root, (answers(MAX_OCSP_ANSWERS),))) == "good"
    error = evidence_error(RevocationEvidence(root, (answers(MAX_OCSP_ANSWERS + 1),)))
    assert "too many answers" in error.message
    evidence_error(RevocationEvidence(root, (answers(2_000),)))


def test_an_answer_of_many_certificates(work: Work) -> None:
    rogue = [
        issue("Rogue", pki.key("p256", 800 + at), issuer=issue("Elsewhere"), ca=False)
        for at in range(MAX_OCSP_CERTIFICATES + 1)
    ]

    def answer(count: int) -> bytes:
        single = pki.single(TSA, INTER, pki.GOOD)
        return pki.ocsp([single], rogue[0], certificates=[one.der for one in rogue[:count]])

    state(RevocationEvidence())
    work.reset()
    evidence_error(RevocationEvidence((), (answer(MAX_OCSP_CERTIFICATES),)))
    assert work.signatures == 1  # the token's: names alone rule them out
    assert work.certificates == MAX_OCSP_CERTIFICATES
    error = evidence_error(RevocationEvidence((), (answer(MAX_OCSP_CERTIFICATES + 1),)))
    assert "too many certificates" in error.message
    assert work.certificates == MAX_OCSP_CERTIFICATES


def test_where_the_counted_operations_are() -> None:
    """The counters above would count nothing if these were called by another name."""
    assert revocation_crl.entry_of is revocation_entries.entry_of
    assert tsa_path.genuine is timestamp_weak.genuine
