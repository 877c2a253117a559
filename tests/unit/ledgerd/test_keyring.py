"""Which key a chain's receipts must be signed with: enrolled, pinned, or none yet."""

from __future__ import annotations

import pytest

from ledgerd.keyring import Keyring
from receiptledger.core.errors import Reason, ReceiptError
from tests.helpers.agents import Agent, FarleyAgent, read

AGENT, FARLEY = Agent(), FarleyAgent("issuer-1", 2)
RECEIPT, BARE = read(AGENT.receipts(1)[0]), read(FARLEY.receipts(1)[0])
K1, K2, K3 = (bytes([number]) * 32 for number in (1, 2, 3))


class Pins:
    """Keys that chains have in the store; counts how often it is asked."""

    def __init__(self, keys: dict[bytes, tuple[bytes, ...]] | None = None) -> None:
        self.keys = keys or {}
        self.asked: list[bytes] = []

    def __call__(self, chain: bytes) -> tuple[bytes, ...]:
        self.asked.append(chain)
        return self.keys.get(chain, ())


def ring(
    pins: Pins | None = None,
    *,
    pinning: bool = True,
    enrolled: dict[str, tuple[bytes, ...]] | None = None,
    cache_size: int = 10,
) -> Keyring:
    return Keyring(
        pinning=pinning, enrolled=enrolled or {}, pinned=pins or Pins(), cache_size=cache_size
    )


def test_enrolled_keys_and_no_others() -> None:
    pins = Pins({AGENT.chain: (K3,)})
    for pinning in (True, False):
        keyring = ring(pins, pinning=pinning, enrolled={"agent-1": (K1, K2)})
        assert keyring.allowed(RECEIPT) == (K1, K2)
        assert keyring.mode("agent-1") == "registered"
    assert pins.asked == []


def test_an_agent_that_is_not_enrolled_has_no_key_in_registered_mode() -> None:
    pins = Pins({AGENT.chain: (K3,)})
    keyring = ring(pins, pinning=False, enrolled={"agent-2": (K1,)})
    assert keyring.allowed(RECEIPT) == ()
    assert keyring.mode("agent-1") == "registered"
    with pytest.raises(ReceiptError) as caught:
        keyring.candidates(RECEIPT, [K1])
    assert caught.value.reason is Reason.UNKNOWN_KEY
    assert "'agent-1'" in str(caught.value)


def test_a_long_agent_name_is_not_shown_whole() -> None:
    long = read(Agent("x" * 256).receipts(1)[0])
    with pytest.raises(ReceiptError) as caught:
        ring(pinning=False).candidates(long, [])
    assert "x" * 81 not in str(caught.value)


def test_pinned_keys_come_from_the_store_and_are_remembered() -> None:
    pins = Pins({AGENT.chain: (K1,)})
    keyring = ring(pins)
    assert [keyring.allowed(RECEIPT) for _ in range(3)] == [(K1,)] * 3
    assert pins.asked == [AGENT.chain]
    assert keyring.mode("agent-1") == "pinned"
    keyring.forget()
    keyring.allowed(RECEIPT)
    assert len(pins.asked) == 2


def test_that_a_chain_has_no_key_yet_is_not_remembered() -> None:
    pins = Pins()
    keyring = ring(pins)
    assert keyring.allowed(RECEIPT) == ()
    pins.keys[AGENT.chain] = (K2,)
    assert keyring.allowed(RECEIPT) == (K2,)


def test_a_learned_key_is_the_chains_key() -> None:
    pins = Pins()
    keyring = ring(pins)
    keyring.learn(AGENT.chain, K1)
    assert keyring.allowed(RECEIPT) == (K1,)
    assert pins.asked == []


def test_memory_is_bounded() -> None:
    pins = Pins({Agent(f"a{n}").chain: (K1,) for n in range(7)})
    keyring = ring(pins, cache_size=3)
    for number in range(7):
        keyring.allowed(read(Agent(f"a{number}").receipts(1)[0]))
        assert len(keyring._cache) <= 3
    keyring.learn(AGENT.chain, K2)
    assert len(keyring._cache) <= 3
    assert keyring.allowed(RECEIPT) == (K2,)


def test_a_new_chain_tries_the_key_in_the_receipt_and_only_that() -> None:
    assert tuple(ring().candidates(RECEIPT, [K1, K2])) == (AGENT.public_key,)


def test_a_receipt_without_a_key_tries_the_batchs_hints_in_order() -> None:
    assert tuple(ring().candidates(BARE, [K2, K1])) == (K2, K1)


def test_nothing_to_try_says_how_to_offer_a_key() -> None:
    with pytest.raises(ReceiptError) as caught:
        ring().candidates(BARE, [])
    assert caught.value.reason is Reason.UNKNOWN_KEY
    assert "key_hints" in str(caught.value)
