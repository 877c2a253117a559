"""What a bundle can cost its auditor, whatever the log's operator puts into it and whoever is trusted.

Each case took minutes once, and takes about a second; the limits in time are far from both.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from receiptledger.core.bundle_anchors import MAX_ANCHOR_BYTES, MAX_STAMPS
from receiptledger.core.revocation import RevocationEvidence
from receiptledger.core.trust import MAX_TSAS
from receiptledger.core.verdict import Status
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.anchored import AFTER, ALPHA, AnchoredWorld, timestamps
from tests.helpers.authority import Authority
from tests.helpers.cases import named

if TYPE_CHECKING:
    from receiptledger.core.trust import Trust

SECOND = timedelta(seconds=1)
MANY = tuple(Authority(f"tsa-{at}") for at in range(MAX_TSAS - 1))


def everybody(world: AnchoredWorld) -> Trust:
    """As many authorities as there may be; the one that signs is the last."""
    return world.trust(*MANY, ALPHA)


def junk(names: int, *, readable: bool) -> list[bytes]:
    """Certificates of nobody, with long names, that the log's operator may add to any token."""
    attribute = forge.set_of(forge.seq(forge.oid("2.5.4.3"), forge.tlv(0x0C, "\ufdfa".encode())))
    subject = forge.seq(*[attribute] * names)
    more = () if readable else (forge.extension("2.5.29.19", forge.NULL),)
    return [
        pki.issue(
            f"junk {at}", issuer=ALPHA.root, ca=True, subject=subject, constrained=False, more=more
        ).der
        for at in range(14)
    ]


def stuffed(certificates: list[bytes], count: int) -> AnchoredWorld:
    """Genuine tokens over one checkpoint, their bags stuffed."""
    world = AnchoredWorld.empty()
    world.seal()
    note, size = world.log.note(), len(world.log.leaves)
    bag = [ALPHA.tsa.der, *certificates, ALPHA.ca.der]
    for at in range(count):
        request, _ = ALPHA.answer(note, AFTER, asked={"nonce": forge.NONCE})
        info = forge.tst_info(imprint=forge.imprint(note), gen_time=AFTER, serial=at)
        response = forge.response(forge.token(info, ALPHA.tsa, certificates=bag))
        world.logged(size, note, request, response, "alpha")
    return world


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("names", "readable"),
    named({"unreadable": (60, False), "unreadable, long": (200, False), "readable": (20, True)}),
)
def test_stuffed_tokens_against_many_authorities(names: int, readable: bool) -> None:
    certificates = junk(names, readable=readable)
    one = stuffed(certificates, 1).bundle().anchors[0].stamps[0].weight
    world = stuffed(certificates, min(MAX_STAMPS, MAX_ANCHOR_BYTES // one))
    verdict = world.verify(trust=everybody(world))
    assert timestamps(verdict).status is Status.PASS
    assert verdict.facts["anchored_by"] == ["alpha"]
    # Where nobody is known who made them, they cost no more.
    strangers = replace(everybody(world), tsas=tuple(one.trust for one in MANY))
    assert timestamps(world.verify(trust=strangers)).status is Status.UNKNOWN


@pytest.mark.timeout(60)
@pytest.mark.parametrize("entries", [0, 5_000], ids=["short lists", "long lists"])
def test_as_much_evidence_as_fits(entries: int) -> None:
    revoked = [forge.seq(forge.integer(10**6 + at), forge.time(AFTER)) for at in range(entries)]
    lists = [
        pki.crl(ALPHA.ca, revoked, this_update=AFTER + at * SECOND)
        for at in range(4 if entries else 64)
    ]
    world = AnchoredWorld.empty()
    world.seal()
    for at in range(0, len(lists), 8):
        stamp = world.stamp(AFTER + at * SECOND, ALPHA)
        world.add_evidence(stamp, RevocationEvidence(tuple(lists[at : at + 8])))
    verdict = world.verify(trust=everybody(world))
    assert timestamps(verdict).status is Status.PASS
