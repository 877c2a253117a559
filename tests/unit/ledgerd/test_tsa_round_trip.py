"""Real tokens through both verifiers: key type, digest, nonce, certReq and ESS form, all combined."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest

from ledgerd.devtsa.faults import Mode
from ledgerd.devtsa.responder import POLICY, POLICY_2, OpenSslTsa
from ledgerd.devtsa.server import DevTsa
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.http import TsaHttp
from ledgerd.tsa.revocation import EvidenceFetch, fetch_evidence
from ledgerd.tsa.second_opinion import check
from receiptledger.core.timestamp import TimestampError, verify_response
from receiptledger.core.timestamp_cause import Cause
from receiptledger.core.timestamp_request import TimestampRequest
from tests.helpers.polling import PATIENCE, wait_for
from tests.helpers.tsa_kit import MESSAGE, request, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerd.tsa.settings import TsaSettings
    from receiptledger.core.timestamp_types import Timestamp


@pytest.fixture(scope="module", params=["p256", "rsa3072"])
def tsa(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DevTsa]:
    with DevTsa(tmp_path_factory.mktemp("tsa") / "dev", key=request.param) as tsa:
        yield tsa


def stamp(settings: TsaSettings, query: bytes) -> bytes:
    async def run() -> bytes:
        async with TsaHttp(settings) as http:
            return await http.post(query, deadline_seconds=PATIENCE)

    return asyncio.run(run())


COMBINATIONS = list(
    product(
        ("sha256", "sha512"),  # of the message
        ("sha256", "sha512"),  # of the signature
        ("sha1", "sha256", "sha512"),  # that names the signer: ESSCertID, and v2 twice
        (True, False),  # nonce
        (True, False),  # certReq
    )
)


@pytest.mark.parametrize(("imprint", "signed", "ess", "nonce", "certificates"), COMBINATIONS)
def test_both_verifiers_accept(
    tsa: DevTsa, imprint: str, signed: str, ess: str, nonce: bool, certificates: bool
) -> None:
    query, sent = request(digest=imprint, nonce=nonce, certificates=certificates)
    response = OpenSslTsa(tsa.folder, digest=signed, ess=ess).reply(query)  # type: ignore[arg-type]
    changes = {}
    if not certificates:
        changes = {"certificate": tsa.certificate_file, "intermediates": [tsa.intermediate_file]}
    trust = settings_of(tsa, **changes).trust()
    check(response, MESSAGE, trust, sent)
    found = verify_response(response, MESSAGE, trust, nonce=sent)
    assert abs(found.gen_time - datetime.now(UTC)) < timedelta(minutes=5)
    assert found.accuracy == timedelta(seconds=1)
    assert found.policy == POLICY
    assert found.nonce == sent
    assert found.hash_algorithm == imprint
    assert found.key_algorithm == tsa.key
    assert signed in found.signature_algorithm
    assert found.ess == ("v1" if ess == "sha1" else "v2",)
    assert len(found.path) == 3
    assert found.revocation == "unknown"


@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
def test_our_own_requests(tsa: DevTsa, digest: str) -> None:
    """What the daemon sends, over HTTP, with a nonce of 128 bits and a wished policy."""
    imprint = hashlib.new(digest, MESSAGE).digest()
    nonce = (1 << 128) - 3
    query = TimestampRequest(imprint, digest, nonce, POLICY_2, True).encode()
    settings = settings_of(tsa, policies=[POLICY_2])
    response = stamp(settings, query)
    check(response, MESSAGE, settings.trust(), nonce)
    found = verify_response(response, MESSAGE, settings.trust(), nonce=nonce)
    assert (found.nonce, found.policy, found.hash_algorithm) == (nonce, POLICY_2, digest)


def evidence_of(tsa: DevTsa, found: Timestamp, response: bytes, nonce: int | None) -> str:
    async def run() -> str:
        async with TsaHttp(settings_of(tsa)) as http:
            fetch = EvidenceFetch(http, deadline_seconds=PATIENCE)
            evidence = await fetch_evidence(found.path, fetch)
        trust = settings_of(tsa).trust()
        return verify_response(response, MESSAGE, trust, nonce=nonce, evidence=evidence).revocation

    return asyncio.run(run())


def test_evidence_makes_it_good(tsa: DevTsa) -> None:
    query, nonce = request()
    settings = settings_of(tsa)
    response = stamp(settings, query)
    found = verify_response(response, MESSAGE, settings.trust(), nonce=nonce)
    later = found.gen_time.replace(microsecond=0) + timedelta(seconds=1)
    # Lists are dated to the second: one of the token's own second would be too old.
    wait_for(lambda: datetime.now(UTC) >= later, "the next second has begun")
    assert evidence_of(tsa, found, response, nonce) == "good"


# Faults that HTTP lets through: the verifiers name them.

JUDGED = {
    Mode.TRUNCATED: Cause.DER,
    Mode.GARBAGE: Cause.DER,
    Mode.REPLAY: Cause.NONCE,
}


@pytest.mark.parametrize(("mode", "cause"), JUDGED.items(), ids=str)
def test_faults_that_the_verifiers_find(tsa: DevTsa, mode: Mode, cause: Cause) -> None:
    settings = settings_of(tsa)
    tsa.mode = mode
    try:
        stamp(settings, request()[0])
        query, nonce = request()
        response = stamp(settings, query)
    finally:
        tsa.mode = Mode.OK
    with pytest.raises(TimestampError) as strict:
        verify_response(response, MESSAGE, settings.trust(), nonce=nonce)
    assert strict.value.cause is cause
    with pytest.raises(TsaError) as second:
        check(response, MESSAGE, settings.trust(), nonce)
    assert second.value.cause is Cause.SECOND_OPINION


def test_a_token_of_another_tsa(tsa: DevTsa, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = DevTsa(tmp_path_factory.mktemp("other") / "dev")
    query, nonce = request()
    response = other.reply(query)
    other.close()
    trust = settings_of(tsa).trust()
    with pytest.raises(TimestampError) as strict:
        verify_response(response, MESSAGE, trust, nonce=nonce)
    assert strict.value.cause is Cause.CHAIN
    with pytest.raises(TsaError):
        check(response, MESSAGE, trust, nonce)


def test_a_rotated_certificate_is_accepted_and_a_pinned_one_is_not(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with DevTsa(tmp_path_factory.mktemp("rotating") / "dev") as tsa:
        pinned = settings_of(
            tsa, certificate=tsa.certificate_file, intermediates=[tsa.intermediate_file]
        ).trust()
        tsa.rotate()
        query, nonce = request()
        response = stamp(settings_of(tsa), query)
        trust = settings_of(tsa).trust()
    verify_response(response, MESSAGE, trust, nonce=nonce)
    check(response, MESSAGE, trust, nonce)
    with pytest.raises(TimestampError) as strict:
        verify_response(response, MESSAGE, pinned, nonce=nonce)
    assert strict.value.cause is Cause.TSA_PIN
    with pytest.raises(TsaError):
        check(response, MESSAGE, pinned, nonce)
