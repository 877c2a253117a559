"""Does a ledger hold together? Everything in it against everything else, and against the log's key.

A check reads a store that nothing writes to, in three walks: the chains (:mod:`fsck_chains`), where
every receipt is hashed, read and its signature verified again on all cores, the log
(:mod:`fsck_log`), where the tree is grown again from its leaves, and the timestamps
(:mod:`fsck_anchors`), each held against its checkpoint, leaves and evidence. It streams: memory does not grow
with the ledger. It changes nothing and repairs nothing; what is found damaged is restored from a
backup, which is held against the guard when the daemon starts.

What it cannot see, because nothing else records it: a checkpoint between the first and the newest,
a fork, or one of several marks of a chain that was removed as a whole; and the ledger's own times.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ledgerd.store.fsck_anchors import AnchorPass
from ledgerd.store.fsck_chains import ChainPass
from ledgerd.store.fsck_log import LogPass, count_tiles
from ledgerd.store.fsck_report import Damage, GuardState, Problem, Report
from ledgerd.store.interface import Counts, StoreError
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.note import parse_signature, split_note
from receiptledger.core.profile import Profiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerd.store.interface import LogState, Store
    from receiptledger.core.note import VerifierKey

__all__ = ["Damage", "GuardState", "Problem", "Report", "check"]

_OF_ANCHORS = {"anchors", "index records of anchors", "blobs", "intents", "quarantined"}

CHUNKS_PER_THREAD: Final = 4  # under way at once; each at most 1 MiB of receipts


def check(
    store: Store,
    verifier: VerifierKey,
    *,
    guard: bytes | None = None,
    threads: int = 0,
    profiles: Profiles | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Check a whole ledger.

    Args:
        store: opened, and written by nobody meanwhile.
        verifier: the log's key.
        guard: the guard's note; None when there is none to compare.
        threads: threads that verify signatures; 0 = one per core.
        profiles: receipt formats; the built-in ones by default.
        progress: called with what is done and the total, receipts and leaves together.

    Raises:
        EvidenceError: WRONG_LOG: the key is not that of this log, so nothing can be said.
    """
    report = Report(verifier.name)
    counts = _counts(store, report)
    state = _state(store, report, counts)
    if state is not None:
        _refuse_other_log(store, state, verifier)
        report.root = state.root
    report.tree_size = counts.leaves if state is None else state.size
    done, total = 0, counts.entries + report.tree_size

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    threads = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(threads, thread_name_prefix="fsck") as pool:
        chains = ChainPass(
            store,
            state,
            report,
            profiles or Profiles.builtin(),
            pool,
            threads * CHUNKS_PER_THREAD,
            advance,
        )
        chains.run()
    if state is not None or guard is not None or report.unread:
        LogPass(store, state, report.tree_size, verifier, guard, report, advance).run()
    anchors = AnchorPass(store, report.tree_size, verifier, report)
    anchors.run()
    _check_numbers(store, report, state, chains)
    _check_counts(report, counts, chains, anchors)
    return report


def _refuse_other_log(store: Store, state: LogState, verifier: VerifierKey) -> None:
    """Tell a wrong key from damage: two notes of one log are not damaged into those of another."""
    notes = [state.note]
    with suppress(StoreError):
        notes.append(store.checkpoint(0) or b"")
    if not any(_names(note, verifier) for note in notes):
        raise EvidenceError(
            Reason.WRONG_LOG,
            "the checkpoints of this ledger are not of the log whose key was given",
            want=f"checkpoints of {verifier}",
            got=state.note.partition(b"\n")[0].decode("utf-8", "replace")[:120],
        )


def _names(note: bytes, verifier: VerifierKey) -> bool:
    try:
        signatures = [parse_signature(line) for line in split_note(note)[1]]
    except EvidenceError:
        return False
    return any((one.name, one.key_id) == (verifier.name, verifier.key_id) for one in signatures)


def _counts(store: Store, report: Report) -> Counts:
    try:
        return store.counts()
    except StoreError as error:
        report.unreadable("counts", "the number of records", error)
        return Counts(*[0] * 8)


def _state(store: Store, report: Report, counts: Counts) -> LogState | None:
    try:
        state = store.log_state()
    except StoreError as error:
        report.unreadable("state", "log state", error)
        return None
    if state is None and counts != Counts(*[0] * 8):
        # The first commit of all writes the state of an empty log.
        report.missing("state", "log state")
    return state


def _check_numbers(store: Store, report: Report, state: LogState | None, chains: ChainPass) -> None:
    """Admission numbers are dense: each receipt was found under its own, so they are as many."""
    try:
        numbers = store.next_number()
    except StoreError as error:
        report.unreadable("journal", "the newest record of the journal", error)
        return
    if state is not None and state.sealed_number > numbers:
        where, got = "log state, sealed number", state.sealed_number
        report.add(Damage.STATE, where, f"at most {numbers}", got)
    if numbers != chains.entries and not report.unread & {"chains", "entries", "receipts"}:
        expected = f"the {chains.entries} receipts that chains lead to"
        report.add(Damage.NUMBER, "the journal", expected, f"{numbers} numbers")


def _check_counts(report: Report, counts: Counts, chains: ChainPass, anchors: AnchorPass) -> None:
    """The walks went from record to record; what they did not meet, nothing leads to."""
    checked, unread = report.checked, report.unread
    reached = {
        "entries": (chains.entries, counts.entries),
        "heads": (checked["chains"], counts.heads),
        "hashes": (chains.digests, counts.hashes),
        "leaves": (report.tree_size, counts.leaves),
        "tiles": (count_tiles(report.tree_size), counts.tiles),
        "segments": (checked["segments"], counts.segments),
        "keys": (checked["keys"], counts.keys),
        "forks": (checked["forks"], counts.forks),
        "anchors": (checked["anchors"], counts.anchors),
        "index records of anchors": (anchors.links, counts.anchor_links),
        "blobs": (len(anchors.named), counts.blobs),
        "intents": (checked["intents"], counts.intents),
        "quarantined": (checked["quarantined"], counts.quarantined),
        "records of no known kind": (0, counts.unknown),
    }
    for kind, (expected, got) in reached.items():
        # Where a record was lost, what depends on it was not reached either.
        parents = {kind, "anchors"} if kind in _OF_ANCHORS else {kind, "chains", "entries"}
        if got > expected and not unread & parents:
            report.add(Damage.SURPLUS, kind, f"{expected} that the ledger leads to", got)
