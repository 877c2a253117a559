"""Both ways to libsodium's verification are one: what holds, and what does not."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from receiptledger.core import ed25519
from tests.helpers import rfc8032

SEED, MESSAGE = bytes(range(32)), b"what was signed"
KEY, SECRET = crypto_sign_seed_keypair(SEED)
SIGNATURE = crypto_sign(MESSAGE, SECRET)[:64]
DIRECT = ed25519.find_direct()
WAYS = [ed25519.verifies, ed25519.by_wrapper, *([DIRECT] if DIRECT else [])]
SMALL_ORDER = bytes(32)  # y = 0, a point of order 4


def test_the_pinned_pynacl_has_the_direct_way() -> None:
    assert DIRECT is not None
    assert ed25519._holds.__qualname__ == DIRECT.__qualname__


@pytest.mark.parametrize("way", WAYS)
def test_what_holds(way: ed25519.Check) -> None:
    assert way(SIGNATURE, MESSAGE, KEY)
    assert way(rfc8032.sign(SEED, b""), b"", KEY)
    assert way(rfc8032.sign(SEED, bytes(70_000)), bytes(70_000), KEY)


@pytest.mark.parametrize("way", WAYS)
def test_every_bit_matters(way: ed25519.Check) -> None:
    whole = SIGNATURE + KEY + MESSAGE
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        data = bytes(changed)
        assert not way(data[:64], data[96:], data[64:96]), f"bit {bit}"


@pytest.mark.parametrize("way", WAYS)
def test_other_spellings_of_a_signature_do_not_hold(way: ed25519.Check) -> None:
    """RFC 8032 section 5.1.7: S below the group order; and no keys of small order."""
    number = int.from_bytes(SIGNATURE[32:], "little") + rfc8032.ORDER
    assert not way(SIGNATURE[:32] + number.to_bytes(32, "little"), MESSAGE, KEY)
    assert not way(SMALL_ORDER + bytes(32), MESSAGE, SMALL_ORDER)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_another_length_never_hold(size: int) -> None:
    assert not ed25519.verifies(SIGNATURE, MESSAGE, (KEY + KEY)[:size])


@pytest.mark.parametrize("size", [0, 63, 65])
def test_signatures_of_another_length_never_hold(size: int) -> None:
    """Nor may a byte move from the message into the signature."""
    whole = SIGNATURE + MESSAGE
    assert not ed25519.verifies(whole[:size], whole[size:], KEY)


@pytest.mark.parametrize("inside", [None, ModuleType("nacl._sodium")], ids=["missing", "other"])
def test_another_pynacl(inside: ModuleType | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl._sodium", inside)
    assert ed25519.find_direct() is None
