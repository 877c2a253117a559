"""Chains under keys of other algorithms: admitted, stored, sealed, proved and checked again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ledgerd.store import schema
from ledgerd.store.fsck import Damage, check
from ledgerd.store.interface import KeyRecord, StoreError, key_name
from receiptledger.core import algorithms
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.leaf import HeadLeaf, KeyLeaf, parse_leaf
from receiptledger.core.profile import Profiles
from receiptledger.core.verdict import ExitCode, Status
from receiptledger.core.verify import Trust, verify_bundle
from tests.helpers.agents import Agent, FarleyAgent, link
from tests.helpers.other_agents import (
    NUMBERED,
    BareAgent,
    EcAgent,
    MlDsaAgent,
    NumberedAgent,
    twin,
)
from tests.helpers.sync_ledger import SIGNER, SyncLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.admission import Answer

AGENTS = [EcAgent(), MlDsaAgent(), FarleyAgent()]
EACH = pytest.mark.parametrize("agent", AGENTS, ids=["ES256", "ML-DSA-65", "Ed25519"])
NAMES = {"EcAgent": "ES256", "MlDsaAgent": "ML-DSA-65", "FarleyAgent": "Ed25519"}


def words(answers: Sequence[Answer]) -> list[str]:
    return [a.reason or ("duplicate" if a.duplicate else "accepted") for a in answers]


def unavailable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As with a cryptography that is too old for it."""

    def check_it(signature: bytes, message: bytes, key: bytes) -> bool:
        raise ReceiptError(Reason.UNSUPPORTED_ALGORITHM, "cannot be checked here", want=name)

    monkeypatch.setitem(algorithms._CHECKS, name, check_it)


@EACH
def test_a_chain_from_its_first_receipt_to_its_proofs(agent: FarleyAgent) -> None:
    ledger, raws = SyncLedger(), agent.receipts(5)
    assert words(ledger.append(raws[:2], hints=[bytes(32), agent.public_key])) == ["accepted"] * 2
    ledger.seal()
    assert words(ledger.append(raws[1:4])) == ["duplicate", "accepted", "accepted"]
    assert words(ledger.append(raws[4:])) == ["accepted"]
    ledger.seal()
    leaves = [parse_leaf(leaf) for leaf in ledger.store.leaves(0, 3)]
    assert [type(leaf) for leaf in leaves] == [KeyLeaf, HeadLeaf, HeadLeaf]
    assert leaves[0] == KeyLeaf(agent.chain, agent.public_key, "pinned", 0)
    assert b'"alg":"%s"' % NAMES[type(agent).__name__].encode() in ledger.store.leaves(0, 1)[0]
    entry = ledger.store.entry(agent.chain, 0)
    assert entry is not None
    assert (entry.key, len(entry.key)) == (key_name(agent.public_key), 32)
    assert ledger.prove_all() == 5
    ledger.audit()
    after = ledger.crash()
    assert words(after.append(raws[:1])) == ["duplicate"]
    assert words(after.append([agent.receipt(5, link(raws[4]))])) == ["accepted"]


def test_the_twin_of_an_ecdsa_signature_makes_no_second_receipt() -> None:
    ledger, agent = SyncLedger(), EcAgent()
    (raw,) = agent.receipts(1)
    ledger.append([raw], hints=[agent.public_key])
    signature = raw.split(b'"sig":"')[1].split(b'"')[0]
    other = raw.replace(signature, twin(bytes.fromhex(signature.decode())).hex().encode())
    assert other != raw
    assert words(ledger.append([other])) == ["duplicate"]


def test_the_receipts_algorithm_is_that_of_the_chains_key() -> None:
    ledger = SyncLedger()
    agent, impostor = EcAgent("one"), FarleyAgent("one")
    raws = agent.receipts(1)
    ledger.append(raws, hints=[agent.public_key])
    (answer,) = ledger.append([impostor.receipt(1, link(raws[0]))], hints=[impostor.public_key])
    assert answer.reason is Reason.BAD_SIGNATURE
    assert "the key is of another type" in answer.detail


def test_the_hint_of_the_receipts_own_type_says_why_it_fails() -> None:
    agent, other = EcAgent("one"), EcAgent("one", 5)
    (answer,) = SyncLedger().append(agent.receipts(1), hints=[other.public_key, bytes(32)])
    assert answer.reason is Reason.BAD_SIGNATURE
    assert "the signature does not hold" in answer.detail


def test_enrolled_keys_of_two_algorithms_each_have_a_leaf() -> None:
    old, new = FarleyAgent("one"), EcAgent("one")
    keys = {"one": (old.public_key, new.public_key)}
    ledger = SyncLedger(trust_mode="registered", enrolled=keys)
    raws = old.receipts(2)
    raws += new.receipts(2, after=raws[-1])
    raws.append(old.receipt(4, link(raws[-1])))
    assert words(ledger.append(raws)) == ["accepted"] * 5
    ledger.seal()
    found = [parse_leaf(leaf) for leaf in ledger.store.leaves(0, 5)]
    assert [leaf.key for leaf in found if isinstance(leaf, KeyLeaf)] == [*keys["one"]]
    assert ledger.prove_all() == 5
    ledger.audit()


@pytest.mark.parametrize("agent", AGENTS[:2], ids=["ES256", "ML-DSA-65"])
def test_what_cannot_be_checked_here_is_neither_taken_nor_judged(
    agent: FarleyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, raws = SyncLedger(), agent.receipts(2)
    ledger.append(raws[:1], hints=[agent.public_key])
    ledger.seal()
    bundle = ledger.reader.prove(agent.chain, 0).encode()
    trust = Trust((SIGNER.verifier,))
    assert verify_bundle(bundle, trust).exit_code is ExitCode.VALID
    unavailable(monkeypatch, NAMES[type(agent).__name__])
    (answer,) = ledger.append(raws[1:])
    assert answer.reason is Reason.UNSUPPORTED_ALGORITHM
    assert "cannot be checked here" in answer.detail
    verdict = verify_bundle(bundle, trust)
    (signature,) = [one for one in verdict.checks if one.name == "signature"]
    assert (signature.status, signature.reason) == (Status.UNKNOWN, Reason.UNSUPPORTED_ALGORITHM)
    assert verdict.result == "undecidable"
    report = check(ledger.store, SIGNER.verifier, threads=1)
    assert [problem.what for problem in report.problems] == [Damage.SIGNATURE]


def test_a_bundle_names_the_algorithm() -> None:
    ledger, agent = SyncLedger(), EcAgent()
    ledger.append(agent.receipts(1), hints=[agent.public_key])
    ledger.seal()
    verdict = verify_bundle(ledger.reader.prove(agent.chain, 0).encode(), Trust((SIGNER.verifier,)))
    details = {one.name: one.detail for one in verdict.checks}
    assert details["signature"].startswith("ES256 holds under ES256:B")


def test_a_format_without_links_is_proved_and_says_whose_order_it_is() -> None:
    ledger, agent = SyncLedger(), BareAgent()
    raws = agent.receipts(4)
    order = [2, 0, 3]
    answers = ledger.append([raws[n] for n in order], hints=[agent.public_key])
    assert [answer.position for answer in answers] == [0, 1, 2]
    ledger.seal()
    assert words(ledger.append([raws[0], raws[1]])) == ["duplicate", "accepted"]
    ledger.seal()
    head = ledger.store.head(agent.chain)
    assert head is not None
    assert not head.linked
    trust = Trust((SIGNER.verifier,))
    for position in range(4):
        bundle = ledger.reader.prove(agent.chain, position)
        verdict = verify_bundle(bundle.encode(), trust)
        assert verdict.exit_code is ExitCode.VALID
        details = {one.name: one.detail for one in verdict.checks}
        assert "no links of its own: the order is the ledger's" in details["chain links"]
    ledger.audit()
    assert words(ledger.crash().append([raws[3]])) == ["duplicate"]


def test_a_chain_does_not_change_between_links_and_none() -> None:
    profiles = Profiles.with_folder([("numbered.toml", NUMBERED)])
    bare, linked = NumberedAgent("one", 1), Agent("one", 1)
    assert bare.chain == linked.chain
    ledger = SyncLedger(profiles=profiles)
    assert words(ledger.append(bare.receipts(2), hints=[bare.public_key])) == ["accepted"] * 2
    assert words(ledger.append(linked.receipts(1))) == [Reason.BROKEN_LINK]
    other = SyncLedger(profiles=profiles)
    assert words(other.append(linked.receipts(1))) == ["accepted"]
    assert words(other.append([bare.receipt(1)])) == [Reason.BROKEN_LINK]


# Records


@EACH
@pytest.mark.parametrize("index", [None, 7])
def test_key_records_and_back(agent: Agent, index: int | None) -> None:
    record = KeyRecord(agent.chain, agent.public_key, "pinned", 3, index)
    key, value = schema.encode_key(record)
    assert len(key) == 65
    assert schema.decode_key(key, value) == record
    with pytest.raises(StoreError):
        schema.decode_key(key[:-1] + bytes([key[-1] ^ 1]), value + b"x")
    if len(agent.public_key) > 32:
        with pytest.raises(StoreError):
            schema.decode_key(key, value[:-1] + bytes([value[-1] ^ 1]))


def test_a_key_of_no_algorithm_has_no_record() -> None:
    record = KeyRecord(bytes(32), bytes(33), "pinned", 0, None)
    with pytest.raises(StoreError, match="cannot be stored"):
        schema.encode_key(record)


def test_a_head_without_links_and_back() -> None:
    ledger, agent = SyncLedger(), BareAgent()
    ledger.append(agent.receipts(1), hints=[agent.public_key])
    head = ledger.store.head(agent.chain)
    assert head is not None
    for one in (head, replace(head, sequence=4), replace(head, linked=True)):
        data = schema.encode_head(one)
        assert schema.decode_head(data) == one
        for wrong in (data + b"\x01", data + b"\x00\x00", data[:39], data[:-2]):
            with pytest.raises(StoreError):
                schema.decode_head(wrong)
