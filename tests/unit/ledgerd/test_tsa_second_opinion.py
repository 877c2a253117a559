"""The second verifier, and sorting certificates for it: never more than a permutation of them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerd.devtsa.responder import POLICY, OpenSslTsa
from ledgerd.devtsa.server import DevTsa
from ledgerd.tsa import second_opinion
from ledgerd.tsa.der_sort import sort_certificates
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.second_opinion import check
from receiptledger.core.timestamp_cause import Cause
from tests.helpers.tsa_kit import MESSAGE, request, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from receiptledger.core.timestamp_types import TsaTrust

QUERY, NONCE = request()


class Stamped:
    """A development TSA's answer, and who to trust for it."""

    def __init__(self, folder: Path, *, precision: int = 3) -> None:
        tsa = DevTsa(folder)
        self.trust: TsaTrust = settings_of(tsa).trust()
        self.pinned: TsaTrust = settings_of(
            tsa, certificate=tsa.certificate_file, intermediates=[tsa.intermediate_file]
        ).trust()
        self.other_pin: TsaTrust = replace(self.pinned, certificate=self.pinned.intermediates[0])
        self.other_policy: TsaTrust = settings_of(tsa, policies=["1.2.3"]).trust()
        self.any_policy: TsaTrust = settings_of(tsa, policies=[]).trust()
        self.response = OpenSslTsa(folder, precision=precision).reply(QUERY)
        tsa.close()


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory) -> Stamped:
    return Stamped(tmp_path_factory.mktemp("a") / "dev")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Stamped:
    return Stamped(tmp_path_factory.mktemp("b") / "dev")


def refusal(
    response: bytes, trust: TsaTrust, *, message: bytes = MESSAGE, nonce: int | None = None
) -> str:
    with pytest.raises(TsaError) as caught:
        check(response, message, trust, nonce)
    assert caught.value.cause is Cause.SECOND_OPINION
    return caught.value.detail


def test_it_accepts(stamped: Stamped) -> None:
    for trust in (stamped.trust, stamped.pinned, stamped.any_policy):
        check(stamped.response, MESSAGE, trust, NONCE)
        check(stamped.response, MESSAGE, trust, None)


def test_it_refuses(stamped: Stamped, stranger: Stamped) -> None:
    good = stamped.response
    assert "between messages" in refusal(good, stamped.trust, message=MESSAGE + b"x")
    assert "Nonce" in refusal(good, stamped.trust, nonce=1)
    assert "policy" in refusal(good, stamped.other_policy)
    assert "certificate" in refusal(good, stamped.other_pin)
    refusal(good, stranger.trust)
    refusal(stranger.response, stamped.trust)
    refusal(b"", stamped.trust)
    refusal(good[:-1], stamped.trust)
    refusal(good + b"\0", stamped.trust)
    flipped = bytearray(good)
    flipped[-5] ^= 1
    refusal(bytes(flipped), stamped.trust)


def test_an_error_stack_of_openssl_is_said_by_its_reason(
    stamped: Stamped, stranger: Stamped
) -> None:
    intermediate = replace(stamped.trust, roots=stamped.pinned.intermediates)
    said = refusal(stamped.response, intermediate)
    assert "certificate verify error: unable to get issuer certificate" in said
    assert "unable to get local issuer certificate" in refusal(stamped.response, stranger.trust)
    flipped = bytearray(stamped.response)
    flipped[-5] ^= 1
    for text in (said, refusal(bytes(flipped), stamped.trust)):
        assert text.startswith("the second verifier says: ")
        for noise in ("ErrorStack", "code:", ".c", "line:", "VerificationError"):
            assert noise not in text
    assert "signature failure" in refusal(bytes(flipped), stamped.trust)


def test_it_refuses_a_refusal(stamped: Stamped) -> None:
    """PKIStatus 2 without a token."""
    refusal(bytes.fromhex("30053003020102"), stamped.trust)


def test_trust_is_not_shared(stamped: Stamped, stranger: Stamped) -> None:
    """Its builder's own methods would let the second verifier's roots into the first."""
    for _ in range(2):
        check(stamped.response, MESSAGE, stamped.trust, NONCE)
        check(stranger.response, MESSAGE, stranger.trust, NONCE)
        refusal(stamped.response, stranger.trust)
        refusal(stranger.response, stamped.trust)


def test_a_panic_is_a_refusal(stamped: Stamped, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its Rust part throws when it gives up is no Exception."""

    class Panic(BaseException):
        pass

    def panic(*_: object) -> NoReturn:
        raise Panic("index out of bounds")

    monkeypatch.setattr(second_opinion, "decode_timestamp_response", panic)
    assert "Panic" in refusal(stamped.response, stamped.trust)


def test_an_interrupt_is_none(stamped: Stamped, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(second_opinion, "decode_timestamp_response", interrupt)
    with pytest.raises(KeyboardInterrupt):
        check(stamped.response, MESSAGE, stamped.trust, None)


# Sorting.


def test_sorting_moves_certificates_and_nothing_else(stamped: Stamped) -> None:
    response = stamped.response
    sorted_once = sort_certificates(response)
    assert len(sorted_once) == len(response)
    assert sorted(sorted_once) == sorted(response)
    assert sort_certificates(sorted_once) == sorted_once


def swapped(response: bytes) -> bytes:
    """The same with its two certificates in the other order."""
    text = subprocess.run(
        ["openssl", "asn1parse", "-inform", "DER"], input=response, capture_output=True, check=True
    ).stdout.decode()
    lines = [line for line in text.splitlines() if ":d=4 " in line.replace("d=4  ", "d=4 ")]
    start = next(line for line in lines if "cont [ 0 ]" in line)
    at = int(start.split(":")[0]) + int(start.split("hl=")[1].split()[0])
    first = 4 + int.from_bytes(response[at + 2 : at + 4])
    second = 4 + int.from_bytes(response[at + first + 2 : at + first + 4])
    middle, end = at + first, at + first + second
    return response[:at] + response[middle:end] + response[at:middle] + response[end:]


def test_either_order_is_read(stamped: Stamped) -> None:
    """One of the two is the order that rfc3161-client alone would refuse."""
    other = swapped(stamped.response)
    assert other != stamped.response
    assert sort_certificates(other) == sort_certificates(stamped.response)
    check(other, MESSAGE, stamped.trust, NONCE)


def test_without_certificates(tmp_path: Path) -> None:
    query, nonce = request(certificates=False)
    tsa = DevTsa(tmp_path / "dev")
    response = OpenSslTsa(tmp_path / "dev").reply(query)
    pinned = settings_of(
        tsa, certificate=tsa.certificate_file, intermediates=[tsa.intermediate_file]
    ).trust()
    bare = settings_of(tsa).trust()
    tsa.close()
    assert sort_certificates(response) == response
    check(response, MESSAGE, pinned, nonce)
    refusal(response, bare)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x30",
        b"\x30\x80\x00\x00",
        b"\x30\x85\x00\x00\x00\x00\x00",
        b"\x30\x82\x01",
        b"\x30\x05\x00",
        b"\x3f\x00",
        b"\x30\x00",
        b"\x30\x02\x05\x00",
        b"\x31\x00",
        bytes.fromhex("3005300302010000"),
        bytes.fromhex("300a 3003020100 3003060100"),
        bytes.fromhex("3006 3000 3000 3000"),
    ],
)
def test_what_is_no_response(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        sort_certificates(data)


def test_a_refusal_has_none() -> None:
    assert sort_certificates(bytes.fromhex("30053003020102")) == bytes.fromhex("30053003020102")


@given(st.data())
def test_noise_is_a_value_error_or_a_permutation(stamped: Stamped, data: st.DataObject) -> None:
    damaged = bytearray(stamped.response)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, 120))] = data.draw(st.integers(0, 255))
    try:
        found = sort_certificates(bytes(damaged))
    except ValueError:
        return
    assert sorted(found) == sorted(damaged)


def test_the_policy_of_development_is_no_ones() -> None:
    assert POLICY.startswith("1.3.6.1.4.1.32473."), "the number for documentation, RFC 5612"
