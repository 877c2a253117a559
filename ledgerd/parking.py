"""Receipts that are ahead of their chain: held in memory until the gap before them fills.

Connections, retries and queues between an agent and the ledger can turn the order of its receipts
around. A receipt that admission finds ahead (GAP) is parked: not stored, not answered. When what was
missing is admitted, from whatever stream, it is decided again, in the same commit. When that does not
happen within the wait, its answer is what it would have been at once: GAP, with what is missing.

A batch is answered as a whole, so one with a parked receipt is answered late, by the wait at most; its
other receipts are admitted and durable meanwhile. What is parked was promised to nobody: a crash, a
failed commit or the end of its stream drops it, and its sender sends it again.

Bounded, whoever sends: receipts of one chain, bytes of all, and how far ahead a number may be. There is
no room then: GAP at once. Owned by the writer thread.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.errors import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ledgerd.admission import Answer
    from ledgerd.verification import Verified
    from receiptledger.core.chain import Head
    from receiptledger.core.receipt import Receipt

__all__ = ["PARK_RESULTS", "Held", "Parked", "Parking"]

# What becomes of receipts that were ahead; labels of a metric.
PARK_RESULTS: Final = ("admitted", "duplicate", "refused", "timed_out", "dropped", "no_room")

# What one parked receipt takes beside its bytes, measured: objects, hashes and index entries; and when
# it was verified in this process, the signed bytes in a buffer that is longer than they are.
_OVERHEAD_BYTES: Final = 2_048
_BUFFER_BYTES: Final = 4_096


@dataclass(slots=True, eq=False)
class Held:
    """A batch with receipts that are parked.

    Attributes:
        done: gets its result, or the error that befell it.
        answers: those of parked receipts are empty.
        owner: the stream it came by.
        left: how many of its receipts are parked.
        waited: whether it did.
    """

    done: Callable[[Any], None]
    answers: list[Answer]
    owner: object = None
    left: int = 0
    waited: bool = False


@dataclass(slots=True, eq=False)
class Parked:
    """One receipt that waits.

    Attributes:
        item: it, with the key it was verified under.
        answer: its place among the answers of its batch; filled in when it is settled.
        batch: which batch of its group it came in.
        number: counts them all, so that the oldest comes first.
        until: monotonic seconds at which the wait is over.
        held: its batch, from the commit of its group on.
    """

    item: Verified
    answer: Answer
    batch: int
    number: int
    until: float
    held: Held | None = None

    @property
    def cost(self) -> int:
        """Bytes it counts for."""
        receipt = self.item.receipt
        signed = len(receipt.signing_input)
        return len(receipt.raw) + _OVERHEAD_BYTES + (signed + _BUFFER_BYTES if signed else 0)

    @property
    def result(self) -> str:
        """What became of it when it was settled; one of PARK_RESULTS."""
        if self.answer.reason is Reason.GAP:
            return "timed_out"
        if self.answer.reason is not None:
            return "refused"
        return "duplicate" if self.answer.duplicate else "admitted"


# What a receipt waits for: the link hash it names, or the number before its own where it has no link.
_Key = bytes | int


@dataclass(slots=True)
class _Chain:
    """What is parked of one chain."""

    waits_for: dict[_Key, dict[int, Parked]] = field(
        default_factory=dict
    )  # by what, then by number
    count: int = 0


class Parking:
    """All that is parked.

    Args:
        max_receipts: of one chain, and how far ahead of its head a number may be.
        max_bytes: of all, each with what is kept beside it.
        wait_seconds: how long a receipt is held; 0 = nothing is.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        max_receipts: int,
        max_bytes: int,
        wait_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_receipts = max_receipts
        self._max_bytes = max_bytes
        self._wait = wait_seconds
        self._clock = clock
        self._open = wait_seconds > 0
        self._chains: dict[bytes, _Chain] = {}
        self._by_age: OrderedDict[int, Parked] = OrderedDict()  # by number
        self._batches: dict[int, Held] = {}  # by identity
        self._number = 0
        self.bytes = 0
        self.turned_away = 0  # for which there was no room; whoever counts them sets it back

    @property
    def receipts(self) -> int:
        """How many are parked."""
        return len(self._by_age)

    def seconds_left(self) -> float | None:
        """Until the wait of the oldest is over, at least 0; None when nothing is parked."""
        oldest = next(iter(self._by_age.values()), None)
        return None if oldest is None else max(0.0, oldest.until - self._clock())

    def park(
        self, item: Verified, head: Head | None, batch: int, blank: Callable[[], Answer]
    ) -> Parked | None:
        """Hold a receipt that is ahead of its chain; None when it cannot be.

        Args:
            item: the receipt.
            head: of its chain.
            batch: which batch of its group it came in.
            blank: makes the answer that is filled in later.
        """
        receipt = item.receipt
        if not self._open:
            return None
        parked = Parked(item, blank(), batch, self._number, self._clock() + self._wait)
        chain = self._chains.get(receipt.chain) or _Chain()
        if (
            chain.count >= self._max_receipts
            or self.bytes + parked.cost > self._max_bytes
            or _ahead(head, receipt) > self._max_receipts
        ):
            self.turned_away += 1
            return None
        self._chains[receipt.chain] = chain
        self._number += 1
        self.bytes += parked.cost
        chain.count += 1
        chain.waits_for.setdefault(_awaited(receipt), {})[parked.number] = parked
        self._by_age[parked.number] = parked
        return parked

    def knows(self, chain: bytes) -> bool:
        """Whether anything of a chain is parked."""
        return chain in self._chains

    def take(self, chain: bytes, links: Sequence[bytes], number: int | None) -> list[Parked]:
        """Those that wait for what a chain has now, the oldest first. They are parked no longer.

        Args:
            chain: key of a chain that is known here.
            links: link hashes that were added to it.
            number: of its newest receipt, where the format has numbers instead of links.
        """
        parked = self._chains[chain]
        keys: list[_Key] = [link for link in links if link in parked.waits_for]
        if number is not None:
            keys += [key for key in parked.waits_for if isinstance(key, int) and key <= number]
        return self._take(parked, keys)

    def follow(self, chain: bytes, head: Head) -> list[Parked]:
        """The same when one receipt was added: cheap, for a row of them."""
        parked = self._chains.get(chain)
        if parked is None:
            return []
        keys: tuple[_Key | None, ...] = (head.link_hash, head.sequence)
        return self._take(parked, [key for key in keys if key is not None])

    def take_expired(self) -> list[Parked]:
        """Those whose wait is over, the oldest first."""
        found: list[Parked] = []
        while self.seconds_left() == 0:
            oldest = next(iter(self._by_age.values()))
            self._remove(oldest)
            found.append(oldest)
        return found

    def close(self) -> None:
        """Nothing is parked from now on, and the wait of all that is, is over."""
        self._open = False
        for parked in self._by_age.values():
            parked.until = self._clock()

    # Batches.

    def hold(self, batch: Held, parked: Sequence[Parked]) -> None:
        """A batch of a committed group waits for these receipts of it."""
        self._batches[id(batch)] = batch
        batch.left, batch.waited = len(parked), True
        for one in parked:
            one.held = batch

    def release(self, settled: Sequence[Parked]) -> list[Held]:
        """The batches of earlier groups that wait for nothing any more, now that these are settled."""
        done = []
        for parked in settled:
            held = parked.held
            if held is not None:
                held.left -= 1
                if not held.left:
                    done.append(self._batches.pop(id(held)))
        return done

    def forsake(self, owner: object) -> int:
        """Drop what came by a stream that is gone; how many receipts those were."""
        mine = [held for held in self._batches.values() if held.owner is owner]
        gone = [parked for parked in self._by_age.values() if parked.held in mine]
        for parked in gone:
            self._remove(parked)
        for held in mine:
            del self._batches[id(held)]
        return len(gone)

    def drop_all(self) -> list[Held]:
        """Drop everything, as what is stored is in doubt: the batches that waited."""
        held = list(self._batches.values())
        self._batches.clear()
        self._chains.clear()
        self._by_age.clear()
        self.bytes = 0
        return held

    def _take(self, chain: _Chain, keys: Sequence[_Key]) -> list[Parked]:
        found = [one for key in keys for one in chain.waits_for.get(key, {}).values()]
        found.sort(key=lambda one: one.number)
        for parked in found:
            self._remove(parked)
        return found

    def _remove(self, parked: Parked) -> None:
        receipt = parked.item.receipt
        chain, key = self._chains[receipt.chain], _awaited(receipt)
        waits = chain.waits_for[key]
        del waits[parked.number]
        if not waits:
            del chain.waits_for[key]
        chain.count -= 1
        if not chain.count:
            del self._chains[receipt.chain]
        del self._by_age[parked.number]
        self.bytes -= parked.cost


def _awaited(receipt: Receipt) -> _Key:
    """What must be in the chain just before a receipt that is ahead of it."""
    if receipt.previous is not None:
        return receipt.previous
    assert receipt.sequence is not None, "without link and number nothing is ahead"  # noqa: S101
    return receipt.sequence - receipt.sequence_step


def _ahead(head: Head | None, receipt: Receipt) -> int:
    """How many receipts its number says are missing before it; 0 when it does not say."""
    if receipt.sequence is None or (head is not None and head.sequence is None):
        return 0
    first = receipt.sequence_start if head is None else (head.sequence or 0) + receipt.sequence_step
    return (receipt.sequence - first) // receipt.sequence_step
