"""Chain by chain: every receipt, link, segment, key, fork and mark.

The walk reads the index on one thread, in position order, and holds one segment's leaf hashes and one
page of entries at a time. Receipts go to worker threads in chunks; what needs their content (sequence
numbers, the head) is checked when a chunk comes back, in the order they went. So memory is bounded by
the chunks under way, whatever the ledger holds.

A record that cannot be read is named, and the walk goes on behind it.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ledgerd.store.fsck_receipt import Facts, Item, check_receipts
from ledgerd.store.fsck_report import Damage, Report, place
from ledgerd.store.fsck_segments import SegmentWalk
from ledgerd.store.interface import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor, Future

    from ledgerd.store.interface import Entry, ForkRecord, Head, LogState, Mark, Store
    from receiptledger.core.profile import Profiles
    from receiptledger.core.receipt import Receipt

__all__ = ["ChainPass"]

PAGE: Final = 256  # entries read at once
CHUNK_RECEIPTS: Final = 128  # handed to a worker at once ...
CHUNK_BYTES: Final = 1024 * 1024  # ... or fewer, when they are large


class ChainPass:
    """One walk over all chains.

    Args:
        store: what to check.
        state: the log as last sealed, or None.
        report: where problems go.
        profiles: receipt formats.
        pool: worker threads.
        chunks: chunks that may be under way.
        progress: called with the number of receipts checked since the last call.
    """

    def __init__(
        self,
        store: Store,
        state: LogState | None,
        report: Report,
        profiles: Profiles,
        pool: Executor,
        chunks: int,
        progress: Callable[[int], None],
    ) -> None:
        self._store = store
        self._state = state
        self._report = report
        self._profiles = profiles
        self._pool = pool
        self._chunks = chunks
        self._progress = progress
        self._chunk: list[Item] = []
        self._chunk_bytes = 0
        self._under_way: deque[Future[list[Facts]]] = deque()
        self._last: Facts | None = None  # the receipt checked before this one
        self._marks = _Marks(store, report)
        self.entries = 0  # read or not
        self.digests = 0  # records the hash index owes to the entries that were read

    def run(self) -> None:
        """Walk everything."""
        try:
            for chain in self._store.chain_keys():
                self._chain(chain)
        except StoreError as error:
            self._report.unreadable("chains", "the list of chains", error)
        self._submit()
        while self._under_way:
            self._collect()
        self._marks.end()

    def _chain(self, chain: bytes) -> None:
        report, store = self._report, self._store
        report.checked["chains"] += 1
        head: Head | None = None
        try:
            head = store.head(chain)
        except StoreError as error:
            report.unreadable("heads", f"head of {place(chain)}", error)
        segments = SegmentWalk(store, chain, self._state, report)
        before: Entry | None = None
        position = -1
        for position, entry in self._entries(chain, head):
            segments.step(position, entry)
            if entry is not None:
                newest = head if head is not None and position == head.position else None
                self._entry(chain, position, entry, before, newest, segments.key(entry))
            before = entry
        if head is not None:
            self._head(chain, head, position, before)
        segments.end(position)
        self._marks.chain(chain, segments.sealed_to, position)
        self._forks(chain, position)

    def _entries(self, chain: bytes, head: Head | None) -> Iterator[tuple[int, Entry | None]]:
        """Every position up to the head with its entry, None where it cannot be had.

        Without a head the chain ends where its entries do. It ends too where a whole page is
        missing: a damaged head may name any position.
        """
        first = 0
        missing: int | None = None  # the first of a run of them
        while head is None or first <= head.position:
            count = PAGE if head is None else min(PAGE, head.position - first + 1)
            page = self._page(chain, first, count)
            if head is None or not any(page):
                while page and page[-1] is None:
                    page.pop()
            for position, found in enumerate(page, first):
                if found is not None and missing is not None:
                    self._missing(chain, missing, position - 1)
                    missing = None
                elif found is None and missing is None:
                    missing = position
                self.entries += found is not None
                yield position, None if isinstance(found, StoreError) else found
            first += len(page)
            if len(page) < count:
                break
        if missing is not None:
            self._missing(chain, missing, first - 1)

    def _missing(self, chain: bytes, first: int, last: int) -> None:
        to = "" if first == last else f"..{last}"
        self._report.missing("entries", f"entry of {place(chain, first)}{to}")

    def _page(self, chain: bytes, first: int, count: int) -> list[Entry | StoreError | None]:
        """`count` positions, one by one when they cannot be had together."""
        found: list[Entry | StoreError | None] = []
        with suppress(StoreError):
            found += self._store.entries(chain, first, first + count - 1)
        if len(found) == count:
            return found
        return [self._single(chain, position) for position in range(first, first + count)]

    def _single(self, chain: bytes, position: int) -> Entry | StoreError | None:
        try:
            return self._store.entry(chain, position)
        except StoreError as error:
            self._report.unreadable("entries", f"entry of {place(chain, position)}", error)
            return error

    def _head(self, chain: bytes, head: Head, position: int, newest: Entry | None) -> None:
        """The head against the newest entry; its sequence number is compared in `_settle`."""
        where = f"head of {place(chain)}"
        if position < head.position:
            self._report.add(Damage.HEAD, where, f"position {position}", f"{head.position}")
            return
        if newest is not None:
            self._report.expect(Damage.HEAD, where, newest.link_hash, head.link_hash)
        try:
            beyond = self._store.entry(chain, head.position + 1) is not None
        except StoreError:
            beyond = True
        if beyond:
            expected = f"at least position {head.position + 1}"
            self._report.add(Damage.HEAD, where, expected, f"{head.position}")

    def _entry(
        self,
        chain: bytes,
        position: int,
        entry: Entry,
        before: Entry | None,
        newest: Head | None,
        key: bytes,
    ) -> None:
        """What can be said without the receipt's content, then the receipt to a worker."""
        where = place(chain, position)
        if before is not None and entry.number <= before.number:
            expected = f"a number above {before.number}"
            self._report.add(Damage.NUMBER, where, expected, entry.number)
        self._find(chain, position, entry)
        try:
            stored = self._store.receipt(chain, position)
        except StoreError as error:
            self._report.unreadable("receipts", f"receipt of {where}", error)
            return
        if stored is None or (stored.chain, stored.position) != (chain, position):
            self._report.missing("receipts", f"receipt of {where}")
            return
        link = None if before is None else before.link_hash
        known = position == 0 or before is not None
        self._chunk.append(Item(chain, position, stored.raw, entry, key, known, link, newest))
        self._chunk_bytes += len(stored.raw)
        if len(self._chunk) >= CHUNK_RECEIPTS or self._chunk_bytes >= CHUNK_BYTES:
            self._submit()

    def _find(self, chain: bytes, position: int, entry: Entry) -> None:
        """Every hash of a receipt leads to it."""
        others = {entry.content_hash, entry.link_hash} - {entry.receipt_hash}
        self.digests += 1 + len(others)
        try:
            found = self._store.locate(entry.receipt_hash)
            others_found = {self._store.position_of(chain, digest) for digest in others}
        except StoreError as error:
            where = f"hash index of {place(chain, position)}"
            self._report.unreadable("hashes", where, error)
            return
        if found != (chain, position):
            self._misled(chain, position, None if found is None else place(*found))
        for other in others_found - {position}:
            self._misled(chain, position, None if other is None else f"position {other}")

    def _misled(self, chain: bytes, position: int, got: str | None) -> None:
        where = place(chain, position)
        self._report.add(Damage.HASH_INDEX, where, "its hashes lead to it", got)

    def _forks(self, chain: bytes, last: int) -> None:
        try:
            forks = self._store.forks(chain)
            problems = [_fork_problem(self._store, fork, last) for fork in forks]
        except StoreError as error:
            self._report.unreadable("forks", f"forks of {place(chain)}", error)
            return
        self._report.checked["forks"] += len(forks)
        for fork, problem in zip(forks, problems, strict=True):
            if problem is not None:
                where = f"fork at {place(chain, fork.position)}"
                self._report.add(Damage.FORK, where, *problem)

    # Worker threads.

    def _submit(self) -> None:
        """Hand the chunk to a worker; wait for the oldest when enough are under way."""
        if not self._chunk:
            return
        self._under_way.append(self._pool.submit(check_receipts, self._chunk, self._profiles))
        self._chunk, self._chunk_bytes = [], 0
        while len(self._under_way) > self._chunks:
            self._collect()

    def _collect(self) -> None:
        chunk = self._under_way.popleft().result()
        for facts in chunk:
            self._settle(facts)
        self._report.checked["receipts"] += len(chunk)
        self._progress(len(chunk))

    def _settle(self, facts: Facts) -> None:
        """Note a receipt's problems; hold its number against its neighbour's and the head's."""
        item, receipt, last = facts.item, facts.receipt, self._last
        self._last = facts
        where = place(item.chain, item.position)
        for problem in facts.problems:
            self._report.add(problem[0], where, *problem[1:])
        if receipt is None:
            return
        if item.head is not None:
            head = f"head of {place(item.chain)}, sequence"
            self._report.expect(Damage.HEAD, head, receipt.sequence, item.head.sequence)
            links = f"head of {place(item.chain)}, links"
            self._report.expect(Damage.HEAD, links, receipt.linked, item.head.linked)
        before = self._receipt_before(item, last)
        if before is not None:
            # A chain has links from its first receipt on, or never.
            self._report.expect(Damage.LINK, f"{where}, links", before.linked, receipt.linked)
        if receipt.sequence is None:
            return
        expected_number: int | None = None
        if item.position == 0:
            expected_number = receipt.sequence_start
        elif before is not None and before.sequence is not None:
            expected_number = before.sequence + receipt.sequence_step
        if expected_number is not None:
            self._report.expect(Damage.SEQUENCE, where, expected_number, receipt.sequence)

    @staticmethod
    def _receipt_before(item: Item, last: Facts | None) -> Receipt | None:
        """The receipt at the position before, when it was the one just checked and can be read."""
        if last is None or (item.chain, item.position - 1) != (last.item.chain, last.item.position):
            return None
        return last.receipt


class _Marks:
    """The marks in their order, beside the chains in theirs."""

    def __init__(self, store: Store, report: Report) -> None:
        self._report = report
        self._marks = store.marks()
        self._next = self._read()

    def _read(self) -> Mark | None:
        try:
            mark = next(self._marks, None)
        except StoreError as error:
            self._report.unreadable("marks", "the marks of unsealed receipts", error)
            return None
        self._report.checked["marks"] += mark is not None
        return mark

    def chain(self, chain: bytes, sealed_to: int, last: int) -> None:
        """Hold a chain's marks against what of it is unsealed: the positions after `sealed_to`."""
        self._strays(chain)
        newest: int | None = None
        while self._next is not None and self._next.chain == chain:
            newest = self._next.position
            if not sealed_to < newest <= last:
                unsealed = f"{sealed_to + 1}..{last}" if sealed_to < last else "none"
                where = f"mark at {place(chain, newest)}"
                self._report.add(Damage.MARK, where, f"an unsealed position ({unsealed})", newest)
            self._next = self._read()
        unread = "marks" in self._report.unread
        if sealed_to < last and newest != last and not unread:
            self._report.add(Damage.MARK, place(chain, last), "a mark: it is unsealed", None)

    def end(self) -> None:
        """No chain is left."""
        self._strays(None)

    def _strays(self, before: bytes | None) -> None:
        while self._next is not None and (before is None or self._next.chain < before):
            where = f"mark at {place(self._next.chain, self._next.position)}"
            self._report.add(Damage.MARK, where, "a chain with receipts", None)
            self._next = self._read()


def _fork_problem(store: Store, fork: ForkRecord, last: int) -> tuple[object, object] | None:
    """(expected, got) unless a fork is other content at a position that is taken."""
    found = sha256(fork.raw).digest()
    if found != fork.receipt_hash:
        return fork.receipt_hash, found
    if fork.position > last:
        return f"a position that is taken, at most {last}", fork.position
    if store.locate(fork.receipt_hash) == (fork.chain, fork.position):
        return "other bytes than the receipt that is there", fork.receipt_hash
    return None
