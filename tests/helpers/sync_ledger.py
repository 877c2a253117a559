"""A ledger without threads, sockets or a disk: the daemon's own writer, driven step by step.

Everything between the sender and the store is the real code; the store is `MemoryStore`, the guard a
fake with teeth. What a sender was promised is remembered across crashes, and :meth:`SyncLedger.audit`
holds the durable state against it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from ledgerd.admission import Admission
from ledgerd.keyring import Keyring
from ledgerd.metrics import Metrics
from ledgerd.parking import Parking
from ledgerd.reader import Reader
from ledgerd.sequencer import Sequencer
from ledgerd.store.fsck import GuardState, check
from ledgerd.store.memory import MemoryStore
from ledgerd.verification import verify_batch
from ledgerd.writer import BatchJob, BatchResult, CommitJob, SealJob, Writer
from receiptledger.core.canonical import DEFAULT_LIMITS, parse
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import ServiceError
from receiptledger.core.leaf import AnchorLeaf, parse_leaf
from receiptledger.core.merkle import hash_leaf, root_hash
from receiptledger.core.note import NoteSigner
from receiptledger.core.profile import Profiles
from receiptledger.core.verify import Trust, verify_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ledgerd.admission import Answer, Item
    from ledgerd.store.interface import AnchorRecord, Changes, LogState

__all__ = ["SIGNER", "MemoryGuard", "Promises", "SyncLedger"]

SIGNER = NoteSigner.from_seed("example.com/log", bytes(range(32)))
NOW = 1_796_000_000_000_000  # microseconds


class MemoryGuard:
    """A guard in memory, with teeth: it never goes back and never sees two roots for one size.

    Attributes:
        note: what a restart finds.
        faults: what befalls the next writes, in order: "lost", "done" or "" for none.
        before_write: called before each write; what it returns befalls that write.
    """

    def __init__(self) -> None:
        self.note: bytes | None = None
        self.faults: list[str] = []
        self.before_write: Callable[[], str] | None = None

    def read(self) -> bytes | None:
        """The last note written."""
        return self.note

    def write(self, note: bytes) -> None:
        """Replace it, unless a fault says otherwise."""
        fault = self.faults.pop(0) if self.faults else ""
        if self.before_write is not None:
            fault = self.before_write() or fault
        if fault != "lost":
            new = open_checkpoint(note, SIGNER.verifier)
            if self.note is not None:
                old = open_checkpoint(self.note, SIGNER.verifier)
                assert new.size >= old.size, "the guard went back"
                assert new.size > old.size or new.root == old.root, "two roots for one size"
            self.note = note
        if fault:
            raise OSError(5, f"guard write {fault} on request")

    @property
    def size(self) -> int:
        """Leaves of the last signed checkpoint."""
        return 0 if self.note is None else open_checkpoint(self.note, SIGNER.verifier).size


class Promises:
    """What was said to the outside; a crash changes nothing about it."""

    def __init__(self) -> None:
        self.receipts: dict[
            bytes, tuple[bytes, int, bytes]
        ] = {}  # receipt hash -> chain, place, raw
        self.published: dict[int, bytes] = {}  # tree size -> note
        self.anchors: dict[int, AnchorRecord] = {}  # number -> as last said to be durable
        self.refused = 0  # answers said to be kept

    def answered(self, raw: bytes, answer: Answer) -> None:
        """An answer left for the sender."""
        if answer.reason is None:
            assert answer.chain is not None
            digest = hashlib.sha256(raw).digest()
            promise = (answer.chain, answer.position, raw)
            assert self.receipts.setdefault(digest, promise) == promise, "another position"

    def committed(self, changes: Changes) -> None:
        """A commit of timestamps was said to be durable."""
        self.anchors |= {record.number: record for record in changes.anchors}
        self.refused += len(changes.quarantined)

    def publish(self, state: LogState) -> None:
        """A checkpoint was seen by readers."""
        assert self.published.setdefault(state.size, state.note) == state.note, (
            "two notes, one size"
        )


class SyncLedger:
    """One daemon's life, from a start to a crash."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        guard: MemoryGuard | None = None,
        promises: Promises | None = None,
        *,
        trust_mode: str = "pinned",
        enrolled: dict[str, tuple[bytes, ...]] | None = None,
        max_forks_per_chain: int = 16,
        max_chains_cached: int = 1_000,
        max_group_receipts: int = 4_096,
        seal_max_leaves: int = 4_096,
        recover: bool = True,
        parking: Parking | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self.profiles = profiles or Profiles.builtin()
        self.parking = parking or Parking(max_receipts=0, max_bytes=0, wait_seconds=0)
        self.store = store or MemoryStore()
        self.guard = guard or MemoryGuard()
        self.promises = promises or Promises()
        self.metrics = Metrics()
        self.max_forks_per_chain = max_forks_per_chain
        self.state: LogState | None = None  # newest published by this process
        self.fatal: BaseException | None = None
        self.keyring = Keyring(
            pinning=trust_mode == "pinned",
            enrolled=enrolled or {},
            pinned=lambda chain: tuple(record.key for record in self.store.keys(chain)),
            cache_size=max_chains_cached,
        )
        self.admission = Admission(
            self.store,
            self.keyring,
            max_chains_cached=max_chains_cached,
            max_forks_per_chain=max_forks_per_chain,
            parking=self.parking,
        )
        self.sequencer = Sequencer(self.store, SIGNER, self.guard, self._publish)
        self.writer = Writer(
            self.store,
            self.admission,
            self.sequencer,
            self.parking,
            self.metrics,
            deliver=_run,
            on_fatal=self._on_fatal,
            max_group_receipts=max_group_receipts,
            seal_max_leaves=seal_max_leaves,
        )
        self.reader = Reader(self.store, lambda: self.state, max_cache_bytes=1_048_576)
        if recover:
            self.sequencer.recover()

    def _publish(self, state: LogState) -> None:
        assert self.guard.note == state.note, "published before the guard knew"
        self.promises.publish(state)
        self.state = state

    def _on_fatal(self, error: BaseException) -> None:
        self.fatal = error

    # What a sender does.

    def verify(
        self, raws: Sequence[bytes], *, profile: str | None = None, hints: Sequence[bytes] = ()
    ) -> list[Item]:
        """Form and signatures of a batch."""
        return verify_batch(
            raws,
            profile=profile,
            hints=hints,
            profiles=self.profiles,
            keyring=self.keyring,
            limits=DEFAULT_LIMITS,
        )

    def send(
        self, *batches: Sequence[bytes], hints: Sequence[bytes] = ()
    ) -> list[BatchResult | ServiceError]:
        """One group of batches, verified and committed; what each sender is told."""
        results: list[BatchResult | ServiceError] = []
        jobs = [BatchJob(self.verify(batch, hints=hints), results.append) for batch in batches]
        self.writer.step(jobs, NOW)
        for raws, result in zip(batches, results, strict=True):
            if isinstance(result, BatchResult):
                for raw, answer in zip(raws, result.answers, strict=True):
                    self.promises.answered(raw, answer)
        return results

    def append(self, raws: Sequence[bytes], *, hints: Sequence[bytes] = ()) -> list[Answer]:
        """One batch; its answers. Raises what the sender is told when there are none."""
        result = self.send(raws, hints=hints)[0]
        if isinstance(result, ServiceError):
            raise result
        return result.answers

    def commit(self, changes: Changes) -> ServiceError | None:
        """One commit of timestamps; what the anchorer is told."""
        results: list[ServiceError | None] = []
        self.writer.commit(CommitJob(changes, results.append))
        (result,) = results
        if result is None:
            self.promises.committed(changes)
        return result

    def seal(self) -> LogState | ServiceError | None:
        """Seal now; what was waiting for it is told."""
        results: list[LogState | ServiceError | None] = []
        self.writer.seal(SealJob(results.append))
        (result,) = results
        return result

    # What becomes of it.

    def crash(self, *, power: bool = True, recover: bool = True) -> SyncLedger:
        """The next process, which finds what survived."""
        survivor = self.store.crash(power=power)
        self.guard.faults = []
        return SyncLedger(
            survivor,
            self.guard,
            self.promises,
            max_forks_per_chain=self.max_forks_per_chain,  # the next process has the same config
            recover=recover,
            profiles=self.profiles,
        )

    def audit(self) -> None:
        """Hold what a power loss would leave against all that was promised, then check all of it."""
        survivor = self.store.crash(power=True)
        for digest, (chain, position, raw) in self.promises.receipts.items():
            stored = survivor.receipt(chain, position)
            assert stored is not None, f"an acknowledged receipt is gone: {digest.hex()}"
            same = parse(stored.raw).canonical == parse(raw).canonical
            assert same, f"another receipt at position {position}"
        state = survivor.log_state()
        assert state is not None
        hashes = [hash_leaf(leaf) for leaf in survivor.leaves(0, state.size)]
        for size, note in self.promises.published.items():
            checkpoint = open_checkpoint(note, SIGNER.verifier)
            assert checkpoint.size == size <= state.size, "a published checkpoint is ahead"
            assert checkpoint.root == root_hash(hashes[:size]), "published trees contradict"
            assert survivor.checkpoint(size) == note, "a published checkpoint is gone"
        self._audit_anchors(survivor)
        assert self.guard.size >= max(self.promises.published, default=0), "the guard is behind"
        report = check(
            survivor, SIGNER.verifier, guard=self.guard.note, threads=1, profiles=self.profiles
        )
        assert report.problems == [], [str(problem) for problem in report.problems]
        assert report.guard in (GuardState.EQUAL, GuardState.BEHIND, GuardState.NOT_CHECKED)

    def _audit_anchors(self, survivor: MemoryStore) -> None:
        for number, promised in self.promises.anchors.items():
            found = survivor.anchor(number)
            assert found is not None, f"a stored timestamp is gone: {number}"
            assert found.response == promised.response, f"another timestamp under number {number}"
            assert promised.evidence in (None, found.evidence), f"evidence of {number} is gone"
        assert survivor.next_quarantine_number() >= self.promises.refused
        leaves = survivor.leaves(0, self.tree_size_of(survivor))
        parsed = [leaf for leaf in map(parse_leaf, leaves) if isinstance(leaf, AnchorLeaf)]
        assert len(set(parsed)) == len(parsed), "a timestamp has two leaves"

    @staticmethod
    def tree_size_of(store: MemoryStore) -> int:
        """Leaves of a store's log."""
        state = store.log_state()
        return 0 if state is None else state.size

    def prove_all(self) -> int:
        """Verify a bundle of every sealed receipt, as an auditor would; how many there were."""
        assert self.state is not None
        trust, count = Trust((SIGNER.verifier,)), 0
        for chain, head in self.store.chains():
            for position in range(head.position + 1):
                if self.reader.leaf_index(chain, position) is None:
                    continue
                # Timestamps here are made up (`stamps`); the reader's tests have real ones.
                bundle = replace(self.reader.prove(chain, position), anchors=())
                verdict = verify_bundle(bundle.encode(), trust, self.profiles)
                assert verdict.exit_code == 0, verdict.to_json()
                count += 1
        return count


def _run(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        call()
