"""Which timestamps bound a receipt: decided by the log below a tree size alone.

Nothing that came later plays a part: an anchor counts when its leaf is below that size. So the same
question at the same checkpoint has the same answer for ever. Around the head leaf of a receipt:

- covering    the nearest stamped checkpoints after it: not later than their times.
- preceding   the newest token of each TSA whose own leaf is before it: not earlier than their times.
- renewing    when a covering token is soon out of date at the time of the newest one: a later stamped
              checkpoint, whose tree holds the leaf of the earlier token, and so on up to the newest
              (RFC 4998 section 5.2: each made while the one before it was still good).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from ledgerd.store.interface import StoreError
from receiptledger.core.anchor_life import RENEW_MARGIN_US, usable_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerd.store.interface import AnchorRecord

__all__ = ["AnchorChoice", "Nearest", "leaf_below"]

MAX_COVERING: Final = 4  # checkpoints looked at for a quorum of TSAs
MAX_PRECEDING: Final = 8  # tokens looked at for the newest of each TSA
MAX_RENEWALS: Final = 4  # links of ten years each; together MAX_ANCHORED_CHECKPOINTS of a bundle
MAX_COVERING_STAMPS: Final = 16  # leaves room for the others below MAX_STAMPS of a bundle
_LOOK_BACK: Final = 8  # answers to one round may be stored in another order than asked for
_KEPT_LIVES: Final = 1_024


class _AnchorStore(Protocol):
    """What is asked of the store."""

    def anchor(self, number: int) -> AnchorRecord | None: ...
    def anchors_by_size(self, first_size: int) -> Iterator[AnchorRecord]: ...
    def anchors_by_leaf(self, before: int) -> Iterator[AnchorRecord]: ...


@dataclass(frozen=True, slots=True)
class Nearest:
    """What is nearest to a leaf below a tree size; leaves with the same have the same choice.

    Attributes:
        size: the tree size.
        covering: number of the first anchor after the leaf, None without one.
        preceding: number of the last anchor logged before the leaf, None without one.
    """

    size: int
    covering: int | None
    preceding: int | None


@dataclass(slots=True)
class _Newest:
    """What there is below a tree size."""

    record: AnchorRecord  # of the newest leaf
    reach: int  # the largest stamped size


class AnchorChoice:
    """Chooses anchors of one log; safe from many threads.

    Args:
        store: durable state.
        quorum: how many TSAs should cover a receipt.
        lifetime: until when a response can be relied on without renewal, microseconds since the epoch;
            None when that cannot be told.
    """

    def __init__(
        self,
        store: _AnchorStore,
        quorum: int,
        lifetime: Callable[[bytes], int | None] = usable_until,
    ) -> None:
        self._store = store
        self._quorum = quorum
        self._lifetime = lifetime
        self._lives: dict[int, int | None] = {}  # anchor number -> lifetime
        self._newest_at: tuple[int, _Newest | None] = (0, None)  # of a tree size; one assignment
        self._first_leaf: int | None = None

    def nearest(self, index: int, size: int) -> Nearest | None:
        """What is nearest to a leaf in a tree; None when nothing bounds it. At most two looks."""
        newest = self._newest(size)
        if newest is None:  # the usual case of a log without TSAs: one look per checkpoint
            return None
        covering = next(self._after(index, size), None) if newest.reach > index else None
        preceding = next(self._before(index), None)
        if covering is None and preceding is None:
            return None
        return Nearest(
            size,
            None if covering is None else covering.number,
            None if preceding is None else preceding.number,
        )

    def choose(self, index: int, size: int) -> list[AnchorRecord]:
        """Anchors for a leaf in a tree, each with its leaf below `size`, most wanted first."""
        newest = self._newest(size)
        if newest is None:
            return []
        covering = self._covering(index, size) if newest.reach > index else []
        renewing = self._renewing(covering, newest.record, size)
        return covering + renewing + self._preceding(index)

    def _newest(self, size: int) -> _Newest | None:
        """What is newest below a tree size; it never changes, so it is looked up once per size."""
        known, newest = self._newest_at
        if known != size:
            records = list(islice(self._store.anchors_by_leaf(size), _LOOK_BACK))
            reach = max((record.size for record in records), default=0)
            newest = _Newest(records[0], reach) if records else None
            self._newest_at = (size, newest)
        return newest

    def _after(self, index: int, size: int) -> Iterator[AnchorRecord]:
        """Anchors of checkpoints that hold a leaf, by size, those of the tree."""
        for record in self._store.anchors_by_size(index + 1):
            if record.size >= size:  # its leaf comes after its checkpoint: not below `size`
                return
            if leaf_below(record, size) is not None:
                yield record

    def _before(self, index: int) -> Iterator[AnchorRecord]:
        """Anchors whose own leaf is before a leaf, the newest first."""
        if self._first_leaf is None:
            first = self._store.anchor(0)
            self._first_leaf = None if first is None else first.leaf_index
        if self._first_leaf is None or self._first_leaf >= index:
            return iter(())
        return self._store.anchors_by_leaf(index)

    def _covering(self, index: int, size: int) -> list[AnchorRecord]:
        """Tokens of the nearest checkpoints that hold a leaf, until a quorum of TSAs is among them."""
        found: list[AnchorRecord] = []
        sizes: set[int] = set()
        tsas: set[str] = set()
        for record in self._after(index, size):
            if record.size not in sizes:
                if len(tsas) >= self._quorum or len(sizes) == MAX_COVERING:
                    break
                sizes.add(record.size)
            found.append(record)
            tsas.add(record.tsa)
        return _one_of_each(found)[:MAX_COVERING_STAMPS]

    def _preceding(self, index: int) -> list[AnchorRecord]:
        """The newest token of each TSA among those logged before a leaf."""
        newest: dict[str, AnchorRecord] = {}
        for record in islice(self._before(index), MAX_PRECEDING):
            newest.setdefault(record.tsa, record)
        return list(newest.values())

    def _renewing(
        self, covering: list[AnchorRecord], newest: AnchorRecord, size: int
    ) -> list[AnchorRecord]:
        """Tokens that carry the covering ones on to the time of the newest."""
        links: list[AnchorRecord] = []
        current = covering
        for _ in range(MAX_RENEWALS):
            if not current or newest.size <= _last_leaf(current):
                break
            lives = sorted({life for life in map(self._life, current) if life is not None})
            if not lives or newest.gen_time < lives[0] - RENEW_MARGIN_US:
                break
            floor = _last_leaf(current)
            # While all of them were good, or else while one of them was.
            links_at = map(partial(self._last_before, newest=newest), lives)
            link = next((one for one in links_at if one.size > floor), None)
            if link is None:
                break
            current = self._round_of(link, floor, size)
            links += current
        return links

    def _round_of(self, link: AnchorRecord, floor: int, size: int) -> list[AnchorRecord]:
        """The tokens over a checkpoint, and those just before it that a quorum still needs."""
        found = self._stamps_of(link.size, size)
        tsas = {record.tsa for record in found}
        if len(tsas) < self._quorum:
            for record in islice(self._store.anchors_by_leaf(link.leaf_index or 0), _LOOK_BACK):
                if record.size > floor and record.tsa not in tsas and len(tsas) < self._quorum:
                    tsas.add(record.tsa)
                    found.append(record)
        return found

    def _last_before(self, moment: int, newest: AnchorRecord) -> AnchorRecord:
        """The last anchor up to `newest` whose time is before a moment; the first if none is.

        Numbers grow with time, but for the seconds between the answers to one round.
        """
        if newest.gen_time < moment:
            return newest
        low, high = 0, newest.number
        while low < high - 1:
            middle = (low + high) // 2
            if self._anchor(middle).gen_time < moment:
                low = middle
            else:
                high = middle
        return self._anchor(low)

    def _stamps_of(self, size: int, below: int) -> list[AnchorRecord]:
        found = []
        for record in self._store.anchors_by_size(size):
            if record.size != size:
                break
            if leaf_below(record, below) is not None:
                found.append(record)
        return _one_of_each(found)

    def _life(self, record: AnchorRecord) -> int | None:
        if record.number not in self._lives:
            if len(self._lives) >= _KEPT_LIVES:
                self._lives.clear()
            self._lives[record.number] = self._lifetime(record.response)
        return self._lives[record.number]

    def _anchor(self, number: int) -> AnchorRecord:
        record = self._store.anchor(number)
        if record is None:
            raise StoreError(f"anchor {number} is missing; run `ledgerd fsck`")
        return record


def leaf_below(record: AnchorRecord, size: int) -> int | None:
    """Index of an anchor's own leaf when it is below a tree size."""
    index = record.leaf_index
    return index if index is not None and index < size else None


def _last_leaf(records: list[AnchorRecord]) -> int:
    return max(record.leaf_index or 0 for record in records)


def _one_of_each(records: list[AnchorRecord]) -> list[AnchorRecord]:
    """The first token of each TSA over each checkpoint: a second one shows nothing more."""
    first: dict[tuple[int, str], AnchorRecord] = {}
    for record in records:
        first.setdefault((record.size, record.tsa), record)
    return list(first.values())
