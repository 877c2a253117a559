"""A group of verified batches as one plan: decisions, keys, forks, and what is remembered."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ledgerd.store.interface import KeyRecord, Mark
from receiptledger.core.chain import Head
from receiptledger.core.errors import Reason
from tests.helpers.agents import Agent, FarleyAgent, link, read, respelled
from tests.helpers.sync_ledger import NOW, SyncLedger

if TYPE_CHECKING:
    from ledgerd.admission import Answer, Plan

A, B = Agent("agent-1", 1), Agent("agent-2", 2)
RA, RB = A.receipts(6), B.receipts(3)


def plan(ledger: SyncLedger, *batches: list[bytes]) -> Plan:
    return ledger.admission.plan([ledger.verify(batch) for batch in batches], NOW)


def short(answers: list[Answer]) -> list[tuple[str, int]]:
    return [(a.reason or ("dup" if a.duplicate else "ok"), a.position) for a in answers]


# What a plan contains


def test_a_plan_is_everything_the_group_adds_and_changes_nothing_itself() -> None:
    ledger = SyncLedger()
    made = plan(ledger, RA[:2], [RB[0], RA[2]])
    changes = made.changes
    assert [(one.chain, one.position) for one in changes.admitted] == [
        (A.chain, 0),
        (A.chain, 1),
        (B.chain, 0),
        (A.chain, 2),
    ]
    assert [one.entry.number for one in changes.admitted] == [0, 1, 2, 3]
    assert [one.raw for one in changes.admitted] == [RA[0], RA[1], RB[0], RA[2]]
    assert {one.admitted_at for one in changes.admitted} == {NOW}
    assert changes.heads == {A.chain: Head(2, link(RA[2]), 2), B.chain: Head(0, link(RB[0]), 0)}
    assert sorted(changes.marks, key=lambda mark: mark.position) == [
        Mark(B.chain, 0),
        Mark(A.chain, 2),
    ]
    assert changes.keys == [
        KeyRecord(A.chain, A.public_key, "pinned", 0, None),
        KeyRecord(B.chain, B.public_key, "pinned", 0, None),
    ]
    assert (changes.forks, changes.sealed) == ([], None)
    assert made.next_number == 4
    again = plan(ledger, RA[:2], [RB[0], RA[2]])
    assert again == made


def test_an_entry_says_all_that_survives_erasure() -> None:
    (one,) = plan(SyncLedger(), RA[:1]).changes.admitted
    receipt, entry = read(RA[0]), one.entry
    assert entry.receipt_hash == hashlib.sha256(RA[0]).digest()
    assert entry.leaf_hash == hashlib.sha256(b"\x00" + RA[0]).digest()
    assert (entry.content_hash, entry.link_hash) == (receipt.content_hash, receipt.link_hash)
    assert (entry.profile, entry.profile_version) == ("ms-lesson18", 1)
    assert entry.key == A.public_key


def test_answers_stand_in_the_order_of_each_batch() -> None:
    ledger = SyncLedger()
    made = plan(ledger, [RA[0], b"x", RA[1]], [], [RA[1], RA[3], RA[2]])
    assert [short(answers) for answers in made.answers] == [
        [("ok", 0), (Reason.MALFORMED, 0), ("ok", 1)],
        [],
        [("dup", 1), (Reason.GAP, 2), ("ok", 2)],
    ]


def test_a_group_of_refusals_adds_nothing() -> None:
    made = plan(SyncLedger(), [b"x", RA[1]])
    assert not made.changes.admitted
    assert not made.changes.heads
    assert not made.changes.marks
    assert made.next_number == 0


# Answers


def test_what_each_answer_tells() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:3])
    fork = A.receipt(1, link(RA[0]), note="other")
    broken = A.receipt(3, link(b"elsewhere"))
    skipped = A.receipt(5, link(RA[2]))
    accepted, duplicate, forked, unlinked, misnumbered, gap, malformed = ledger.append(
        [RA[3], respelled(RA[1]), fork, A.receipt(4, link(b"elsewhere")), skipped, RA[5], b"x"]
    )
    assert (accepted.reason, accepted.position, accepted.chain) == (None, 3, A.chain)
    assert accepted.receipt_hash == hashlib.sha256(RA[3]).digest()
    assert (duplicate.duplicate, duplicate.position) == (True, 1)
    assert duplicate.receipt_hash == hashlib.sha256(respelled(RA[1])).digest()
    assert (forked.reason, forked.position) == (Reason.FORK, 1)
    assert forked.expected == hashlib.sha256(RA[1]).digest()
    assert (unlinked.reason, unlinked.position) == (Reason.BROKEN_LINK, 4)
    assert unlinked.expected == link(RA[3])
    # Numbered two ahead and linked to what is no longer the head: nothing of it fits.
    assert (misnumbered.reason, misnumbered.expected) == (Reason.GAP, link(RA[3]))
    assert (gap.reason, gap.position) == (Reason.GAP, 4)
    assert (malformed.reason, malformed.chain, malformed.expected) == (
        Reason.MALFORMED,
        None,
        None,
    )
    for answer in (forked, unlinked, misnumbered, gap, malformed):
        assert answer.detail
    assert ledger.append([broken])[0].reason is Reason.FORK
    wrong = ledger.append([A.receipt(9, link(RA[3]))])[0]
    assert (wrong.reason, wrong.position) == (Reason.WRONG_SEQUENCE, 4)


def test_one_chains_trouble_is_not_anothers() -> None:
    ledger = SyncLedger()
    answers = ledger.append([RA[0], RA[2], RB[0], RA[3], RB[1]])
    assert short(answers) == [("ok", 0), ("gap", 1), ("ok", 0), ("gap", 1), ("ok", 1)]


def test_a_refusal_today_may_be_accepted_tomorrow() -> None:
    ledger = SyncLedger()
    assert short(ledger.append([RA[1]])) == [("gap", 0)]
    assert short(ledger.append([RA[0], RA[1]])) == [("ok", 0), ("ok", 1)]


def test_links_to_receipts_of_the_same_group_are_found() -> None:
    farley = FarleyAgent("issuer-1", 5)
    raws = farley.receipts(3)
    fork = farley.receipt(7, link(raws[0]))
    ledger = SyncLedger()
    answers = ledger.append([*raws, fork], hints=[farley.public_key])
    assert short(answers)[3] == (Reason.FORK, 1)
    assert answers[3].expected == hashlib.sha256(raws[1]).digest()


# Keys


def test_the_first_batch_admitted_pins_the_key() -> None:
    """Two streams race for a new chain: both were verified before either was admitted."""
    forger = Agent("agent-1", 9)
    forged = forger.receipts(2)
    ledger = SyncLedger()
    made = plan(ledger, RA[:2], forged)
    assert short(made.answers[0]) == [("ok", 0), ("ok", 1)]
    assert short(made.answers[1]) == [(Reason.WRONG_KEY, 2)] * 2
    assert "first" in made.answers[1][0].detail
    assert [record.key for record in made.changes.keys] == [A.public_key]


def test_a_race_across_two_groups_is_decided_by_the_store() -> None:
    ledger = SyncLedger()
    late = ledger.verify(Agent("agent-1", 9).receipts(1))
    ledger.append(RA[:1])
    made = ledger.admission.plan([late], NOW)
    assert short(made.answers[0]) == [(Reason.WRONG_KEY, 1)]
    ledger.admission.forget()
    made = ledger.admission.plan([late], NOW)
    assert short(made.answers[0]) == [(Reason.WRONG_KEY, 1)]


def test_after_forgetting_the_store_decides() -> None:
    ledger = SyncLedger()
    ledger.store.commit(plan(ledger, RA[:1]).changes)  # done, and never adopted
    assert short(plan(ledger, RA[:1]).answers[0]) == [("dup", 0)]
    ledger.admission.forget()
    made = plan(ledger, RA[:2])
    assert short(made.answers[0]) == [("dup", 0), ("ok", 1)]
    assert [one.entry.number for one in made.changes.admitted] == [1]
    assert made.changes.keys == []


def test_enrolled_keys_are_recorded_at_their_first_use() -> None:
    second = Agent("agent-1", 7)
    keys: dict[str, tuple[bytes, ...]] = {"agent-1": (A.public_key, second.public_key)}
    ledger = SyncLedger(trust_mode="registered", enrolled=keys)
    raws = [RA[0], RA[1]]
    raws.append(second.receipt(2, link(raws[-1])))
    raws.append(A.receipt(3, link(raws[-1])))
    raws.append(second.receipt(4, link(raws[-1])))
    answers = ledger.append(raws[:4])
    assert short(answers) == [("ok", n) for n in range(4)]
    assert short(ledger.append(raws[4:])) == [("ok", 4)]
    assert ledger.store.keys(A.chain) == [
        KeyRecord(A.chain, A.public_key, "registered", 0, None),
        KeyRecord(A.chain, second.public_key, "registered", 2, None),
    ]


def test_an_agent_enrolled_later_goes_on_under_its_new_key() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:2])
    ledger.seal()
    new = Agent("agent-1", 8)
    after = SyncLedger(
        ledger.store.crash(), ledger.guard, ledger.promises, enrolled={"agent-1": (new.public_key,)}
    )
    assert short(after.append([A.receipt(2, link(RA[1]))])) == [(Reason.WRONG_KEY, 0)]
    assert short(after.append([new.receipt(2, link(RA[1]))])) == [("ok", 2)]
    assert [(k.mode, k.since) for k in after.store.keys(A.chain)] == [
        ("pinned", 0),
        ("registered", 2),
    ]
    after.seal()
    assert after.prove_all() == 3
    after.audit()


# Forks


def forks(count: int, position: int = 1) -> list[bytes]:
    return [A.receipt(position, link(RA[position - 1]), note=number) for number in range(count)]


def test_both_receipts_of_a_fork_are_kept() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:3])
    (fork,) = forks(1)
    ledger.append([fork])
    (kept,) = ledger.store.forks(A.chain)
    assert (kept.position, kept.raw, kept.refused_at) == (1, fork, NOW)
    assert kept.receipt_hash == hashlib.sha256(fork).digest()
    assert ledger.store.receipt(A.chain, 1).raw == RA[1]  # type: ignore[union-attr]


def test_a_fork_sent_again_is_kept_once() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:3])
    (fork,) = forks(1)
    assert {a.reason for a in ledger.append([fork, fork])} == {Reason.FORK}
    commits = ledger.store.commits
    ledger.append([fork])
    assert len(ledger.store.forks(A.chain)) == 1
    assert ledger.store.commits == commits


def test_forks_are_bounded_per_chain_and_still_refused() -> None:
    ledger = SyncLedger(max_forks_per_chain=3)
    ledger.append(RA[:3])
    made = forks(5)
    assert {a.reason for a in ledger.append(made[:2])} == {Reason.FORK}
    assert {a.reason for a in ledger.append(made[2:])} == {Reason.FORK}
    assert {fork.raw for fork in ledger.store.forks(A.chain)} == set(made[:3])


def test_no_forks_are_kept_when_none_are_wanted() -> None:
    ledger = SyncLedger(max_forks_per_chain=0)
    ledger.append(RA[:3])
    assert ledger.append(forks(1))[0].reason is Reason.FORK
    assert ledger.store.forks(A.chain) == []


def test_a_fork_within_one_group_is_kept_with_what_it_forks() -> None:
    ledger = SyncLedger()
    answers = ledger.append([*RA[:2], *forks(1)])
    assert short(answers)[2] == (Reason.FORK, 1)
    assert len(ledger.store.forks(A.chain)) == 1
    ledger.audit()


# Memory


def test_heads_are_read_once_and_followed_from_then_on() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:1])
    asked: list[bytes] = []
    real = ledger.store.head

    def head(chain: bytes) -> Head | None:
        asked.append(chain)
        return real(chain)

    ledger.store.head = head  # type: ignore[method-assign]
    for raw in RA[1:4]:
        assert short(ledger.append([raw]))[0][0] == "ok"
    assert asked == []
    ledger.admission.forget()
    assert short(ledger.append(RA[4:5])) == [("ok", 4)]
    assert asked == [A.chain]


def test_memory_of_heads_is_bounded() -> None:
    ledger = SyncLedger(max_chains_cached=3)
    for number in range(10):
        ledger.append(Agent(f"a-{number}", 1).receipts(1))
        assert len(ledger.admission._heads) <= 3
        assert len(ledger.admission._good_keys) <= 3
    answers = ledger.append([Agent("a-0", 1).receipts(2)[1]])
    assert short(answers) == [("ok", 1)]


def test_numbers_go_on_after_a_restart() -> None:
    ledger = SyncLedger()
    ledger.append(RA[:2])
    after = ledger.crash()
    after.append(RA[2:3])
    entry = after.store.entry(A.chain, 2)
    assert entry is not None
    assert entry.number == 2
