"""The write path against a simple model: agents, batches, forgeries, timestamps, seals, failed writes,
crashes.

The model is one list of receipts per agent and one of timestamps, and knows what each commit that
failed really did. It predicts every answer; after every crash, and at the end, what is durable is held
against all that was ever acknowledged or published (`SyncLedger.audit`).
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ledgerd.store.memory import Fault
from receiptledger.core.canonical import canonicalize
from receiptledger.core.errors import Reason, ServiceError
from tests.helpers.agents import Agent, FarleyAgent, link, respelled
from tests.helpers.stamps import intend, prove, refuse, stamp
from tests.helpers.sync_ledger import SyncLedger

if TYPE_CHECKING:
    from ledgerd.admission import Answer
    from ledgerd.store.interface import Changes

AGENTS: list[Agent] = [
    *(Agent(f"agent-{number}", number) for number in (1, 2, 3)),
    FarleyAgent("issuer-4", 4),
]
HINTS = [AGENTS[3].public_key]
FORGER_SEED = 99
MAX_FORKS = 2
KINDS = (
    *("next",) * 6,
    "again",
    "respelled",
    "fork",
    "skip",
    "broken",
    "forged",
    "tampered",
    "junk",
)
TSAS = ("tsa-a", "tsa-b")
FAULTS = (*(None,) * 5, Fault.LOST, Fault.DONE, Fault.UNSYNCED)

Expected = tuple[str, int | None]  # outcome or reason, position


@dataclass
class Chain:
    """What the ledger holds of one agent."""

    raws: list[bytes] = field(default_factory=list)
    forks: list[bytes] = field(default_factory=list)  # refused ones kept as evidence

    def fork(self, raw: bytes) -> None:
        if raw not in self.forks and len(self.forks) < MAX_FORKS:
            self.forks.append(raw)


@dataclass
class World:
    """What the ledger holds of everything."""

    chains: list[Chain] = field(default_factory=lambda: [Chain() for _ in AGENTS])
    tokens: list[tuple[bytes, bytes | None]] = field(default_factory=list)  # response, evidence
    intents: set[str] = field(default_factory=set)
    refused: int = 0


class LedgerModel(RuleBasedStateMachine):
    """Random work for one ledger, through any number of its processes."""

    @initialize()
    def begin(self) -> None:
        self.ledger = SyncLedger(max_forks_per_chain=MAX_FORKS)
        self.world = World()
        self.durable: World | None = None  # what a power loss leaves, when that is less
        self.salt = 0

    # Receipts, each with the answer it should get.

    def make(self, kind: str, who: int, data: st.DataObject, chains: list[Chain]) -> bytes:
        agent, raws = AGENTS[who], chains[who].raws
        head = link(raws[-1]) if raws else None
        self.salt += 1
        if kind == "next" or not raws:
            return agent.receipt(len(raws), head, salt=self.salt)
        position = data.draw(st.integers(0, len(raws) - 1), label="position")
        before = link(raws[position - 1]) if position else None
        match kind:
            case "again":
                return raws[position]
            case "respelled":
                return respelled(raws[position])
            case "fork":
                return agent.receipt(position, before, salt=self.salt)
            case "skip":
                return agent.receipt(len(raws) + 1, link(b"never sent"), salt=self.salt)
            case "broken":
                return agent.receipt(len(raws), link(b"elsewhere"), salt=self.salt)
            case "forged":
                forger = type(agent)(agent.name, FORGER_SEED)
                return forger.receipt(len(raws), head, salt=self.salt)
            case "tampered":
                value = json.loads(agent.receipt(len(raws), head, salt=self.salt))
                value.get("payload", value)["salt"] = "changed"
                return canonicalize(value)
        return data.draw(
            st.sampled_from([b"", b"{}", b"[1]", b"\xff", raws[-1][:-1]]), label="junk"
        )

    def expect(self, kind: str, who: int, raw: bytes, chains: list[Chain]) -> Expected:
        """The answer by the model's own look, and what it does to the model."""
        chain, farley = chains[who], isinstance(AGENTS[who], FarleyAgent)
        raws = chain.raws
        if kind == "next" or not raws:
            raws.append(raw)
            return "accepted", len(raws) - 1
        match kind:
            case "again" | "respelled":
                content = json.loads(raw)
                return "duplicate", [json.loads(one) for one in raws].index(content)
            case "fork":
                chain.fork(raw)
                return Reason.FORK, None
            case "skip":
                return Reason.GAP, len(raws)
            case "broken":
                return (Reason.GAP if farley else Reason.BROKEN_LINK), len(raws)
            case "forged":
                return (Reason.BAD_SIGNATURE if farley else Reason.WRONG_KEY), None
            case "tampered":
                return Reason.BAD_SIGNATURE, None
        return (Reason.UNKNOWN_PROFILE if raw == b"{}" else Reason.MALFORMED), None

    # What happens.

    @rule(data=st.data(), fault=st.sampled_from(FAULTS), guard=st.sampled_from(["", "", "lost"]))
    def send(self, data: st.DataObject, fault: Fault | None, guard: str) -> None:
        after = copy.deepcopy(self.world)
        known = [bool(chain.raws) for chain in after.chains]
        batches: list[list[bytes]] = []
        expected: list[list[Expected]] = []
        for _ in range(data.draw(st.integers(1, 3), label="batches")):
            raws, answers = [], []
            for _ in range(data.draw(st.integers(1, 5), label="receipts")):
                who = data.draw(st.integers(0, len(AGENTS) - 1), label="agent")
                kind = data.draw(st.sampled_from(KINDS), label="kind")
                if kind == "forged" and not known[who]:
                    kind = "next"  # a new chain pins whoever comes first
                raws.append(self.make(kind, who, data, after.chains))
                answers.append(self.expect(kind, who, raws[-1], after.chains))
            batches.append(raws)
            expected.append(answers)
        hits = self.arm(fault, guard)
        results = self.ledger.send(*batches, hints=HINTS)
        failed = self.settle(hits, after)
        for result, answers in zip(results, expected, strict=True):
            if isinstance(result, ServiceError):
                assert failed
                assert result.reason is Reason.UNAVAILABLE
                continue
            assert not failed
            for answer, (outcome, position) in zip(result.answers, answers, strict=True):
                assert _outcome(answer) == outcome
                assert position is None or answer.position == position

    @rule(fault=st.sampled_from(FAULTS), guard=st.sampled_from(["", "", "", "lost", "done"]))
    def seal(self, fault: Fault | None, guard: str) -> None:
        hits = self.arm(fault, guard)
        result = self.ledger.seal()
        failed = self.settle(hits, self.world)
        assert isinstance(result, ServiceError) == failed
        if not failed:
            for agent, chain in zip(AGENTS, self.world.chains, strict=True):
                for position in range(len(chain.raws)):
                    assert self.ledger.reader.leaf_index(agent.chain, position) is not None
            assert self.ledger.store.unsealed_anchors() == []

    @rule(
        tsa=st.sampled_from(TSAS),
        what=st.sampled_from(["intend", "keep", "keep", "refuse"]),
        fault=st.sampled_from(FAULTS),
        guard=st.sampled_from(["", "", "lost"]),
        old=st.booleans(),
    )
    def ask(self, tsa: str, what: str, fault: Fault | None, guard: str, old: bool) -> None:
        """One commit of an anchorer: before a request, or of its answer."""
        store, after = self.ledger.store, copy.deepcopy(self.world)
        self.salt += 1
        match what:
            case "intend":
                changes = intend(store, tsa)
                after.intents.add(tsa)
            case "keep":
                changes = stamp(store, tsa, size=0 if old else None, salt=self.salt)
                after.tokens.append((changes.anchors[0].response, None))
                after.intents.discard(tsa)
            case _:
                changes = refuse(store, tsa)
                after.intents.discard(tsa)
                after.refused += 1
        self.commit(changes, after, fault, guard)

    @rule(
        data=st.data(),
        stale=st.booleans(),
        fault=st.sampled_from(FAULTS),
        guard=st.sampled_from(["", "", "lost"]),
    )
    def prove_token(
        self, data: st.DataObject, stale: bool, fault: Fault | None, guard: str
    ) -> None:
        """Evidence of any token; `stale`: its record was read before it had a leaf."""
        if not self.world.tokens:
            return
        number = data.draw(st.integers(0, len(self.world.tokens) - 1), label="anchor")
        record = self.ledger.store.anchor(number)
        assert record is not None
        if stale:
            record = replace(record, leaf_index=None, evidence_leaf_index=None)
        changes = prove(record, b"list %d" % number, b"list of all")
        after = copy.deepcopy(self.world)
        after.tokens[number] = (record.response, changes.anchors[0].evidence)
        self.commit(changes, after, fault, guard)

    def commit(self, changes: Changes, after: World, fault: Fault | None, guard: str) -> None:
        hits = self.arm(fault, guard)
        result = self.ledger.commit(changes)
        failed = self.settle(hits, after)
        assert isinstance(result, ServiceError) == failed

    @rule(power=st.booleans())
    def crash(self, power: bool) -> None:
        if power and self.durable is not None:
            self.world = self.durable
        self.durable = None
        self.ledger = self.ledger.crash(power=power)

    @rule()
    def prove(self) -> None:
        self.ledger.prove_all()

    @invariant()
    def the_store_is_the_model(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for agent, chain in zip(AGENTS, self.world.chains, strict=True):
            head = self.ledger.store.head(agent.chain)
            assert (-1 if head is None else head.position) == len(chain.raws) - 1
            if head is not None:
                assert head.link_hash == link(chain.raws[-1])
            kept = {fork.raw for fork in self.ledger.store.forks(agent.chain)}
            assert kept == set(chain.forks)
        store = self.ledger.store
        anchors = list(store.anchors())
        assert [(one.response, one.evidence) for one in anchors] == self.world.tokens
        assert {intent.tsa for intent in store.intents()} == self.world.intents
        assert store.next_quarantine_number() == self.world.refused
        leaves = [one.leaf_index for one in anchors if one.leaf_index is not None]
        assert leaves == sorted(set(leaves)), "anchors are sealed in number order, once"

    @invariant()
    def content_ends_where_it_ends(self) -> None:
        """Whatever happened, the sequencer knows what there is to anchor, once it may be believed."""
        if not hasattr(self, "ledger") or not self.ledger.writer.healthy:
            return
        sequencer = self.ledger.sequencer
        leaves = self.ledger.store.leaves(0, sequencer.tree_size)
        content = [at for at, leaf in enumerate(leaves, 1) if b'"kind":"anchor"' not in leaf]
        assert sequencer.content_size == max(content, default=0)

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        self.crash(power=True)
        assert not isinstance(self.ledger.seal(), ServiceError)
        assert self.ledger.prove_all() == sum(len(chain.raws) for chain in self.world.chains)
        self.ledger.audit()

    # Faults, and which write they met.

    def arm(self, fault: Fault | None, guard: str) -> Hits:
        hits = Hits(fault, guard, dead=self.durable is not None)
        self.ledger.store.before_commit = hits.commit
        self.ledger.guard.before_write = hits.guard
        return hits

    def settle(self, hits: Hits, after: World) -> bool:
        """Move the model to what the store holds now; whether the step had to fail."""
        self.ledger.store.before_commit = self.ledger.guard.before_write = None
        if hits.met is Fault.UNSYNCED and self.durable is None:
            self.durable = self.world
        if hits.applied:
            self.world = after
        return hits.met is not None or hits.dead


class Hits:
    """One step's durable writes: the fault meets the first commit, or the first guard write.

    Attributes:
        dead: the store refuses every commit, since an earlier flush failed.
        met: the fault a write met, or None.
        applied: readers see the group's changes.
    """

    def __init__(self, fault: Fault | None, guard: str, *, dead: bool) -> None:
        self.dead = dead
        self.met: Fault | str | None = None
        self.applied = False
        self._fault = fault
        self._guard = guard

    def commit(self, count: int, changes: Changes) -> Fault | None:
        del count
        fault, self._fault = self._fault, None
        self.met = fault or self.met
        if changes.admitted or changes.forks or changes.keys or changes.has_anchoring:
            self.applied = fault is not Fault.LOST and not self.dead
        return fault

    def guard(self) -> str:
        fault, self._guard = self._guard, ""
        self.met = fault or self.met
        return fault


def _outcome(answer: Answer) -> str:
    if answer.reason is not None:
        return answer.reason
    return "duplicate" if answer.duplicate else "accepted"


LedgerModel.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
TestLedgerModel = LedgerModel.TestCase
