"""One chain's segments and keys, held against the head and key leaves that commit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledgerd.store.fsck_report import Damage, Report, place
from ledgerd.store.interface import StoreError
from receiptledger.core.errors import EvidenceError
from receiptledger.core.leaf import HeadLeaf, KeyLeaf, Leaf, parse_leaf
from receiptledger.core.merkle import MAX_SIZE
from receiptledger.core.segment import SEGMENT_MAX, segment_root

if TYPE_CHECKING:
    from ledgerd.store.interface import Entry, KeyRecord, LogState, Segment, Store

__all__ = ["SegmentWalk"]


class SegmentWalk:
    """Goes along with the walk over one chain's entries.

    Attributes:
        sealed_to: the last position that is sealed, -1 while none is. A position whose segment
            record cannot be read counts as sealed: there is a record.
    """

    def __init__(self, store: Store, chain: bytes, state: LogState | None, report: Report) -> None:
        self._store = store
        self._chain = chain
        self._state = state
        # Where the log ends; without its state, anywhere: what is not there is named elsewhere.
        self._size = MAX_SIZE if state is None else state.size
        self._report = report
        self.sealed_to = -1
        self._segment: Segment | None = None  # the one the walk is in
        self._run: list[Entry] = []  # its entries so far
        self._whole = True  # whether all of them could be had
        self._lost = False  # the record of the segment the walk is in cannot be used
        self._hole: tuple[int, Entry | None] | None = None  # first position without a segment
        self._before: tuple[int, HeadLeaf] | None = None  # index and leaf of the segment before
        self._strangers: set[bytes] = set()  # keys without a record, each named once
        self._keys = self._read_keys()

    def step(self, position: int, entry: Entry | None) -> None:
        """The next position; the entry is None when it cannot be had."""
        if entry is not None:
            self._check_known(position, entry)
        if self._segment is None:
            self._enter(position, entry)
        if self._segment is None:
            return
        if entry is None:
            self._whole = False
        else:
            self._run.append(entry)
        if position == self._segment.last:
            self._leave(self._segment)

    def end(self, last: int) -> None:
        """The walk is over, `last` is the chain's newest position."""
        if self._segment is not None:
            where, got = self._name(self._segment), self._segment.last
            self._report.add(Damage.SEGMENT, where, f"a last position up to {last}", got)
            self.sealed_to = last
        self._report.checked["unsealed_receipts"] += last - self.sealed_to
        if self._hole is not None and self._state is not None:
            position, entry = self._hole
            if entry is not None and entry.number < self._state.sealed_number:
                where = place(self._chain, position)
                expected = f"sealed, as all numbers below {self._state.sealed_number}"
                self._report.add(Damage.STATE, where, expected, f"number {entry.number}, unsealed")
        for record in self._keys.values():
            self._check_record(record, last)

    # Segments.

    def _enter(self, position: int, entry: Entry | None) -> None:
        """Find the segment that begins here, or note that there is none."""
        try:
            segment = self._store.segment(self._chain, position)
        except StoreError as error:
            if not self._lost:
                where = f"segment of {place(self._chain, position)}"
                self._report.unreadable("segments", where, error)
            self._lost, self._before, self.sealed_to = True, None, position
            return
        if segment is None:
            self._hole = self._hole or (position, entry)
            return
        if self._hole is not None:
            where = place(self._chain, self._hole[0])
            self._report.add(Damage.SEGMENT, where, "a segment: later positions have one", None)
            self._hole, self._before = None, None
        elif not self._lost:
            self._report.expect(Damage.JOIN, self._name(segment), position, segment.first)
        self._lost = False
        if segment.last - segment.first >= SEGMENT_MAX:
            expected = f"at most {SEGMENT_MAX} receipts"
            got = f"positions {segment.first}..{segment.last}"
            self._report.add(Damage.SEGMENT, self._name(segment), expected, got)
            self._lost, self._before, self.sealed_to = True, None, position
            return
        self._segment, self._run, self._whole = segment, [], segment.first == position

    def _leave(self, segment: Segment) -> None:
        self._segment = None
        self.sealed_to = segment.last
        self._report.checked["segments"] += 1
        where = self._name(segment)
        if segment.leaf_index >= self._size:
            expected = f"a leaf index below {self._size}"
            self._report.add(Damage.SEGMENT, where, expected, segment.leaf_index)
            return
        leaf = self._leaf(segment.leaf_index)
        if leaf is None:
            self._before = None
            return
        if not isinstance(leaf, HeadLeaf):
            self._report.add(Damage.SEGMENT, where, "a head leaf", type(leaf).__name__)
            return
        committed = f"{place(leaf.chain)}, positions {leaf.first}..{leaf.last}"
        stored = f"{place(self._chain)}, positions {segment.first}..{segment.last}"
        self._report.expect(Damage.SEGMENT, where, committed, stored)
        self._check_join(where, segment.leaf_index, leaf)
        if self._whole:
            self._check_run(where, segment.leaf_index, leaf)

    def _check_join(self, where: str, index: int, leaf: HeadLeaf) -> None:
        """Consecutive head leaves leave no hole, and stand in order."""
        if self._before is not None:
            before_index, before = self._before
            report = self._report
            report.expect(Damage.JOIN, f"{where}, first position", before.last + 1, leaf.first)
            report.expect(Damage.JOIN, f"{where}, previous head", before.head, leaf.prev)
            if index <= before_index:
                report.add(Damage.JOIN, where, f"a leaf index above {before_index}", index)
        self._before = index, leaf

    def _check_run(self, where: str, index: int, leaf: HeadLeaf) -> None:
        """The head leaf against the entries it commits."""
        report, run = self._report, self._run
        root = segment_root([entry.leaf_hash for entry in run])
        report.expect(Damage.SEGMENT_ROOT, where, root, leaf.segment)
        report.expect(Damage.SEGMENT, f"{where}, head", run[-1].link_hash, leaf.head)
        formats = {f"{entry.profile} version {entry.profile_version}" for entry in run}
        committed = f"{leaf.profile} version {leaf.profile_version}"
        report.expect(Damage.SEGMENT, f"{where}, format", committed, " and ".join(sorted(formats)))
        keys = {entry.key for entry in run}
        report.expect(Damage.SEGMENT, f"{where}, keys", 1, len(keys))
        for key in sorted(keys & self._keys.keys()):
            logged = self._keys[key].leaf_index
            if logged is None or logged >= index:
                expected = f"the leaf of key {key.hex()} before leaf {index}"
                report.add(Damage.KEY_ORDER, where, expected, logged)

    def _leaf(self, index: int) -> Leaf | None:
        """A leaf; None when it cannot be read, which the walk over the log names."""
        try:
            return parse_leaf(self._store.leaves(index, 1)[0])
        except (StoreError, EvidenceError):
            return None

    def _name(self, segment: Segment) -> str:
        return f"segment at {place(self._chain, segment.first)}, leaf {segment.leaf_index}"

    # Keys.

    def key(self, entry: Entry) -> bytes:
        """The key an entry names; its name when there is no record, which `step` says."""
        record = self._keys.get(entry.key)
        return entry.key if record is None else record.key

    def _read_keys(self) -> dict[bytes, KeyRecord]:
        try:
            return {record.name: record for record in self._store.keys(self._chain)}
        except StoreError as error:
            self._report.unreadable("keys", f"keys of {place(self._chain)}", error)
            self._keys_known = False
            return {}

    def _check_known(self, position: int, entry: Entry) -> None:
        """A chain uses only keys it has a record of, from their first position on."""
        record = self._keys.get(entry.key)
        if record is not None and record.since <= position:
            return
        if "keys" in self._report.unread or entry.key in self._strangers:
            return
        self._strangers.add(entry.key)
        expected = "a key this chain may use" if record is None else f"from {record.since} on"
        self._report.add(Damage.KEY, place(self._chain, position), expected, entry.key)

    def _check_record(self, record: KeyRecord, last: int) -> None:
        self._report.checked["keys"] += 1
        where = f"key {record.name.hex()} of {place(self._chain)}"
        try:
            first = self._store.entry(self._chain, record.since) if record.since <= last else None
        except StoreError:
            first = None
        if record.since > last or (first is not None and first.key != record.name):
            expected = "a first position that uses it"
            self._report.add(Damage.KEY, where, expected, f"position {record.since}")
        if record.leaf_index is None:
            if record.since <= self.sealed_to:
                self._report.add(Damage.KEY, where, "a leaf: it is relied on", None)
            return
        if record.leaf_index >= self._size:
            expected = f"a leaf index below {self._size}"
            self._report.add(Damage.KEY, where, expected, record.leaf_index)
            return
        leaf = self._leaf(record.leaf_index)
        mine = KeyLeaf(record.chain, record.key, record.mode, record.since)
        if leaf is not None and leaf != mine:
            got = f"leaf {record.leaf_index}, which says otherwise"
            self._report.add(Damage.KEY, where, mine.encode().decode(), got)
