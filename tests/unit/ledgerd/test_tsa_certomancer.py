"""A timestamp authority by others, with CRLs and a delegated OCSP responder: certomancer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.revocation import EvidenceFetch, fetch_evidence
from ledgerd.tsa.second_opinion import check
from ledgerd.tsa.settings import TsaSettings
from receiptledger.core.timestamp import TimestampError, verify_response
from receiptledger.core.timestamp_cause import Cause
from tests.helpers.polling import PATIENCE
from tests.helpers.tsa_kit import MESSAGE, request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from receiptledger.core.revocation import RevocationEvidence
    from receiptledger.core.timestamp_types import Timestamp

try:
    from tests.helpers.certomancer_kit import Certomancer
except ImportError as error:  # pragma: no cover - it is among the development dependencies
    pytest.skip(
        f"SKIPPED LOUDLY: no second authority without {error.name}", allow_module_level=True
    )

LABELS = ["tsa-ec", "tsa-rsa"]
LATER = timedelta(days=2)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certomancer]:
    with Certomancer(tmp_path_factory.mktemp("certomancer")) as server:
        yield server


class Stamp:
    """A token of one of its services, accepted by both verifiers."""

    def __init__(self, server: Certomancer, label: str, *, digest: str = "sha256") -> None:
        self._server = server
        self.settings = TsaSettings.model_validate(server.settings(label))
        query, self.nonce = request(digest=digest)
        server.ahead = timedelta()
        self.response = asyncio.run(self._post(query))
        check(self.response, MESSAGE, self.settings.trust(), self.nonce)
        self.found = self.verify()

    async def _post(self, query: bytes) -> bytes:
        async with TsaHttp(self.settings) as http:
            return await http.post(query, deadline_seconds=PATIENCE)

    def verify(self, evidence: RevocationEvidence | None = None) -> Timestamp:
        arguments = {} if evidence is None else {"evidence": evidence}
        trust = self.settings.trust()
        return verify_response(self.response, MESSAGE, trust, nonce=self.nonce, **arguments)

    def evidence(self) -> RevocationEvidence:
        """What its servers say two days later."""

        async def run() -> RevocationEvidence:
            async with TsaHttp(self.settings) as http:
                fetch = EvidenceFetch(http, deadline_seconds=PATIENCE)
                gen_time = self.found.gen_time
                return await fetch_evidence(self.found.path, fetch, gen_time=gen_time)

        self._server.ahead = LATER
        return asyncio.run(run())


@pytest.mark.parametrize("digest", ["sha256", "sha512"])
@pytest.mark.parametrize("label", LABELS)
def test_both_verifiers_accept(other: Certomancer, label: str, digest: str) -> None:
    found = Stamp(other, label, digest=digest).found
    assert abs(found.gen_time - datetime.now(UTC)) < timedelta(minutes=5)
    assert found.hash_algorithm == digest
    assert found.key_algorithm == {"tsa-ec": "p256", "tsa-rsa": "rsa3072"}[label]
    assert found.revocation == "unknown"


@pytest.mark.parametrize(("label", "crls", "ocsps"), [("tsa-ec", 1, 1), ("tsa-rsa", 2, 0)])
def test_its_evidence_makes_it_good(other: Certomancer, label: str, crls: int, ocsps: int) -> None:
    stamp = Stamp(other, label)
    evidence = stamp.evidence()
    assert (len(evidence.crls), len(evidence.ocsps)) == (crls, ocsps)
    assert stamp.verify(evidence).revocation == "good"


@pytest.mark.parametrize("label", LABELS)
def test_revoked_later_and_harmlessly(tmp_path: Path, label: str) -> None:
    with Certomancer(tmp_path, revoked={label: "cessation_of_operation"}) as server:
        stamp = Stamp(server, label)
        assert stamp.verify(stamp.evidence()).revocation == "good, revoked later"


@pytest.mark.parametrize("label", LABELS)
def test_a_compromised_key(tmp_path: Path, label: str) -> None:
    with Certomancer(tmp_path, revoked={label: "key_compromise"}) as server:
        stamp = Stamp(server, label)
        with pytest.raises(TimestampError) as caught:
            stamp.verify(stamp.evidence())
    assert caught.value.cause is Cause.REVOKED


def test_another_authoritys_root(other: Certomancer, tmp_path: Path) -> None:
    stamp = Stamp(other, "tsa-ec")
    with Certomancer(tmp_path) as stranger:
        trust = TsaSettings.model_validate(stranger.settings("tsa-ec")).trust()
    with pytest.raises(TimestampError) as caught:
        verify_response(stamp.response, MESSAGE, trust, nonce=stamp.nonce)
    assert caught.value.cause is Cause.CHAIN
