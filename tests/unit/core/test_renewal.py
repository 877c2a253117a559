"""Renewal of timestamps, by chains and by their dates."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.core.renewal import (
    DEFAULT_MARGIN,
    holds_at,
    holds_until,
    renew_by,
    verify_renewal_chain,
)
from receiptledger.core.timestamp import Cause, TimestampError, TsaTrust, verify_token
from receiptledger.core.timestamp_algorithms import TABLE
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.cases import named
from tests.helpers.tsa_forge import MESSAGE
from tests.helpers.tsa_pki import INTER, NOT_AFTER, TRUST, TSA, Identity, issue

if TYPE_CHECKING:
    from pathlib import Path

SECOND = timedelta(seconds=1)
EXPIRY = datetime(2025, 1, 1, tzinfo=UTC)
OLD = issue("Old TSA", issuer=INTER, not_after=EXPIRY)
SHORT = issue("Short RSA TSA", pki.key("rsa2048"), issuer=INTER)


def stamp(
    over: bytes, year: int, month: int = 1, *, signer: Identity = TSA, digest: str = "sha256"
) -> bytes:
    info = forge.tst_info(
        imprint=forge.imprint(over, digest),
        gen_time=datetime(year, month, 1, tzinfo=UTC),
        nonce=None,
    )
    return pki.token_of(info, signer)


T0 = stamp(MESSAGE, 2024, 6, signer=OLD)
T1 = stamp(T0, 2024, 12)
T2 = stamp(T1, 2044, 12)
T0_SHORT = stamp(MESSAGE, 2024, 6, signer=SHORT)


def test_a_chain_that_was_renewed_in_time() -> None:
    first, last = verify_renewal_chain(MESSAGE, [T0, T1, T2], [TRUST])
    assert first.gen_time == datetime(2024, 6, 1, tzinfo=UTC)
    assert last.gen_time == datetime(2044, 12, 1, tzinfo=UTC)


def test_a_chain_of_one() -> None:
    first, last = verify_renewal_chain(MESSAGE, [T0], [TRUST])
    assert first == last


REFUSED = {
    "no token": ([], Cause.NO_TOKEN),
    "first of another message": ([T1], Cause.IMPRINT),
    "link missing": ([T0, stamp(MESSAGE, 2024, 12)], Cause.RENEWAL_LINK),
    "link to the one before the last": ([T0, T1, stamp(T0, 2025)], Cause.RENEWAL_LINK),
    "older than what it renews": ([T0, stamp(T0, 2024, 5)], Cause.RENEWAL_ORDER),
    "at the same time": ([T0, stamp(T0, 2024, 6)], Cause.RENEWAL_ORDER),
    "after the path had expired": ([T0, stamp(T0, 2025, 2)], Cause.RENEWAL_LATE),
    "another hash within a chain": ([T0, stamp(T0, 2024, 12, digest="sha512")], Cause.RENEWAL_LINK),
    "after an algorithm had expired": ([T0_SHORT, stamp(T0_SHORT, 2031)], Cause.ALGORITHM_EXPIRED),
    "a link that is no token": ([T0, b"x"], Cause.DER),
}


@pytest.mark.parametrize(("tokens", "cause"), named(REFUSED))
def test_chains_that_prove_nothing(tokens: list[bytes], cause: Cause) -> None:
    with pytest.raises(TimestampError) as caught:
        verify_renewal_chain(MESSAGE, tokens, [TRUST])
    assert caught.value.cause is cause


def test_in_the_last_second_of_the_path() -> None:
    renewal = stamp(T0, 2025)
    assert verify_renewal_chain(MESSAGE, [T0, renewal], [TRUST])[1].gen_time == EXPIRY


def test_a_table_of_ones_own() -> None:
    tokens = [T0_SHORT, stamp(T0_SHORT, 2031)]
    table = {**TABLE, "rsa2048": TABLE["p256"]}
    assert verify_renewal_chain(MESSAGE, tokens, [TRUST], table=table)[1].gen_time.year == 2031


def test_every_token_satisfies_one_authority_entirely() -> None:
    other_root = issue("Other root")
    other = issue("Other TSA", issuer=other_root)
    renewal = pki.token_of(
        forge.tst_info(imprint=forge.imprint(T0), gen_time=datetime(2024, 12, 1, tzinfo=UTC)),
        other,
        certificates=[other.der],
    )
    trusted = TsaTrust(name="other", authority="Other", roots=(other_root.der,))
    for trusts in ([TRUST, trusted], [trusted, TRUST]):
        assert verify_renewal_chain(MESSAGE, [T0, renewal], trusts)[1].path[1] == other_root.der
    for trusts, cause in (([TRUST], Cause.CHAIN), ([], Cause.UNKNOWN_TSA)):
        with pytest.raises(TimestampError) as caught:
            verify_renewal_chain(MESSAGE, [T0, renewal], trusts)
        assert caught.value.cause is cause


def test_the_telling_refusal_is_told() -> None:
    """That it is another authority's says less than what its own authority says."""
    other = TsaTrust(name="other", authority="Other", roots=(issue("Other root").der,))
    narrow = replace(TRUST, trusted_until=datetime(2020, 1, 1, tzinfo=UTC))
    for trusts in ([other, narrow], [narrow, other]):
        with pytest.raises(TimestampError) as caught:
            verify_renewal_chain(MESSAGE, [T0], trusts)
        assert caught.value.cause is Cause.TRUST_WINDOW


def test_until_when_a_token_holds() -> None:
    old = verify_token(T0, MESSAGE, TRUST)
    assert holds_until(old) == EXPIRY
    assert holds_at(old, EXPIRY)
    assert not holds_at(old, EXPIRY + SECOND)
    assert renew_by(old) == EXPIRY - DEFAULT_MARGIN
    assert renew_by(old, timedelta(days=1)) == EXPIRY - timedelta(days=1)
    # The path of the other one is good until 2045, its key until the end of 2030.
    short = verify_token(T0_SHORT, MESSAGE, TRUST)
    assert short.path_not_after == NOT_AFTER
    assert holds_until(short) == TABLE["rsa2048"]
    assert renew_by(short) == TABLE["rsa2048"] - DEFAULT_MARGIN
    assert holds_at(short, NOT_AFTER, {**TABLE, "rsa2048": TABLE["p256"]})


# The foreign vectors


def chain_vectors(folder: Path) -> tuple[bytes, TsaTrust, list[dict[str, Any]]]:
    contents = json.loads((folder / "renewal" / "chains.json").read_bytes())
    roots = []
    for name in contents["roots"]:
        text = (folder / "pki" / f"{name}.pem").read_text("ascii")
        body = re.search("-----BEGIN CERTIFICATE-----(.*?)-----END", text, re.DOTALL)
        assert body is not None
        roots.append(base64.b64decode(body[1]))
    trust = TsaTrust(name="vectors", authority="vectors", roots=tuple(roots))
    return (folder / contents["message"]).read_bytes(), trust, contents["chains"]


CAUSES = {
    "renewed after t0's TSA certificate had expired (2025-01-01)": Cause.RENEWAL_LATE,
    "t1 stamps the message again, not t0: the link is missing": Cause.RENEWAL_LINK,
    "t1 is older than t0": Cause.RENEWAL_ORDER,
    "first token does not stamp the message": Cause.IMPRINT,
}


def test_foreign_chains(vectors: Path) -> None:
    folder = vectors / "rfc3161"
    message, trust, chains = chain_vectors(folder)
    seen = set()
    for chain in chains:
        tokens = [(folder / "renewal" / f"{name}.tst").read_bytes() for name in chain["tokens"]]
        if chain["expect"] == "accept":
            first, _ = verify_renewal_chain(message, tokens, [trust])
            assert first.gen_time == datetime.fromisoformat(chain["proves"])
            continue
        with pytest.raises(TimestampError) as caught:
            verify_renewal_chain(message, tokens, [trust])
        assert caught.value.cause is CAUSES[chain["why"]]
        seen.add(chain["why"])
    assert seen == set(CAUSES)
