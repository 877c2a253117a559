"""Receipts of draft-farley signed with ES256 and ML-DSA-65, and algorithms that are not known here."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, mldsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from receiptledger.core.errors import Reason
from receiptledger.core.receipt_check import GivenKey, Outcome, check_chain
from tests.helpers.forge import raw
from tests.helpers.forge_envelopes import ACTA_SDK, ADK, DRAFT_02, DRAFT_04, PROTECT_MCP, SWARMS
from tests.helpers.forge_flat import FLAT, FLAT_ALG, V2
from tests.helpers.reading import PROFILES, accept, bad_signature, refused, with_member
from tests.helpers.receipts import ALICE, jcs

if TYPE_CHECKING:
    from tests.helpers.forge import Forger
    from tests.helpers.receipts import Document

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # FIPS 186-5, P-256


class Signer(Protocol):
    """A key pair of any algorithm."""

    key: bytes

    def sign(self, message: bytes) -> bytes: ...


class P256:
    """ES256: r || s."""

    def __init__(self, secret: int) -> None:
        self._secret = ec.derive_private_key(secret, ec.SECP256R1())
        public = self._secret.public_key()
        self.key = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def sign(self, message: bytes) -> bytes:
        r, s = decode_dss_signature(self._secret.sign(message, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


class MlDsa65:
    """FIPS 204, the pure form."""

    def __init__(self, seed: bytes) -> None:
        self._secret = mldsa.MLDSA65PrivateKey.from_seed_bytes(seed)
        self.key = self._secret.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._secret.sign(message)


@cache
def signer(algorithm: str) -> Signer:
    made: dict[str, Signer] = {
        "EdDSA": ALICE,
        "ES256": P256(0xA11CE),
        "ML-DSA-65": MlDsa65(bytes(range(32))),
    }
    return made[algorithm]


def sealed(forger: Forger, body: Document, algorithm: str, declared: str | None = None) -> Document:
    """Signed with `algorithm`, saying it is `declared`."""
    said = algorithm if declared is None else declared
    if forger is FLAT_ALG:
        body = {**body, "alg": said}
        return {**body, "signature": signer(algorithm).sign(jcs(body)).hex()}
    signature = signer(algorithm).sign(jcs(body)).hex()
    made = {"alg": said, "kid": body["issuer_id"], "sig": signature}
    return {"payload": body, "signature": made}


NAMES = {"EdDSA": "Ed25519", "ES256": "ES256", "ML-DSA-65": "ML-DSA-65"}
FORGERS = pytest.mark.parametrize(
    "forger", [DRAFT_02, DRAFT_04, FLAT_ALG], ids=lambda one: one.profile
)


@FORGERS
@pytest.mark.parametrize("algorithm", NAMES)
def test_each_algorithm_of_the_draft(forger: Forger, algorithm: str) -> None:
    body = forger.body(1, forger.link(DRAFT_02.receipt()) if forger.link else None, ALICE)
    document = sealed(forger, body, algorithm)
    key = signer(algorithm).key
    receipt = accept(raw(document), key)
    assert (receipt.profile, receipt.algorithm) == (forger.profile, NAMES[algorithm])
    changed = with_member(document, forger.signed, "Delete")
    bad_signature(accept, raw(changed), key)
    for other in NAMES:
        if other != algorithm:
            bad_signature(accept, raw(document), signer(other).key)


@FORGERS
def test_a_chain_of_several_algorithms(forger: Forger) -> None:
    """Section 5.8: each receipt is checked against the algorithm it declares."""
    documents: list[Document] = []
    for number, algorithm in enumerate(("EdDSA", "ML-DSA-65", "ES256", "EdDSA")):
        assert forger.link is not None
        previous = forger.link(documents[-1]) if documents else None
        documents.append(sealed(forger, forger.body(number, previous, ALICE), algorithm))
    keys = [GivenKey(signer(algorithm).key) for algorithm in NAMES]
    raws = [raw(document) for document in documents]
    assert check_chain(raws, keys, PROFILES).outcome is Outcome.VALID
    by = ("EdDSA", "ML-DSA-65", "ES256", "EdDSA")
    receipts = [accept(text, signer(name).key) for text, name in zip(raws, by, strict=True)]
    assert all(after.previous == before.link_hash for before, after in pairwise(receipts))
    without = check_chain(raws, [GivenKey(ALICE.key)], PROFILES)
    assert (without.outcome, without.reason) == (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY)


@FORGERS
@pytest.mark.parametrize("declared", ["RS256", "ed25519", "eddsa", "none", "ES256K", ""])
def test_an_algorithm_that_is_not_known(forger: Forger, declared: str) -> None:
    document = sealed(forger, forger.body(0, None, ALICE), "EdDSA", declared)
    refused(accept, raw(document), ALICE.key, reason=Reason.UNSUPPORTED_ALGORITHM)
    finding = check_chain([raw(document)], [GivenKey(ALICE.key)], PROFILES)
    assert (finding.outcome, finding.reason) == (
        Outcome.UNDECIDABLE,
        Reason.UNSUPPORTED_ALGORITHM,
    )


@FORGERS
def test_a_declared_algorithm_that_is_another(forger: Forger) -> None:
    """An Ed25519 and an ES256 signature have one length, so only the key's type tells."""
    for algorithm, declared in (("EdDSA", "ES256"), ("ES256", "EdDSA")):
        document = sealed(forger, forger.body(0, None, ALICE), algorithm, declared)
        for name in NAMES:
            bad_signature(accept, raw(document), signer(name).key)


@pytest.mark.parametrize(
    "forger", [PROTECT_MCP, ADK, ACTA_SDK, SWARMS], ids=lambda one: one.profile
)
@pytest.mark.parametrize("declared", ["ES256", "ML-DSA-65", "RS256"])
def test_packages_that_sign_with_ed25519_only(forger: Forger, declared: str) -> None:
    document = with_member(forger.chain(2)[1], "signature.alg", declared)
    refused(accept, raw(document), ALICE.key, forger.profile, reason=Reason.UNSUPPORTED_ALGORITHM)


def test_version_2_names_its_algorithm_in_its_own_way() -> None:
    body = {**V2.body(0, None, ALICE), "algorithm": "EdDSA"}
    refused(accept, raw(V2.seal(body, ALICE)), ALICE.key, reason=Reason.UNSUPPORTED_ALGORITHM)


def test_a_flat_receipt_without_an_algorithm_is_ed25519() -> None:
    assert accept(raw(FLAT.receipt()), ALICE.key).profile == "draft-farley-flat"
    body = FLAT.body(0, None, ALICE)
    document = {**body, "signature": signer("ES256").sign(jcs(body)).hex()}
    bad_signature(accept, raw(document), signer("ES256").key)


@FORGERS
def test_the_twin_of_an_es256_signature_is_no_second_receipt(forger: Forger) -> None:
    """Anybody can turn (r, s) into (r, n - s), and both hold."""
    document = sealed(forger, forger.body(0, None, ALICE), "ES256")
    text = document["signature"] if forger is FLAT_ALG else document["signature"]["sig"]
    twin = text[:64] + f"{ORDER - int(text[64:], 16):064x}"
    other = with_member(document, forger.signature, twin)
    key = signer("ES256").key
    one, two = (accept(raw(which), key) for which in (document, other))
    assert one.signature != two.signature
    assert one.content_hash == two.content_hash
