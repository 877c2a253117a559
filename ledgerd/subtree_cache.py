"""Hashes of tiles and segments in memory, so that a proof costs look-ups and not hashing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from receiptledger.core.subtrees import Subtrees

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["SubtreeCache"]


class SubtreeCache:
    """Least recently used rows with all their subtrees, bounded by bytes. Safe from many threads.

    Args:
        max_bytes: bytes of hashes to keep; the newest row is kept whatever its size.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._rows: OrderedDict[Hashable, Subtrees] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, width: int, load: Callable[[], bytes]) -> Subtrees:
        """The subtrees over a row.

        Args:
            name: of the row, which only ever grows.
            width: hashes that are needed; a remembered row that is shorter is loaded again.
            load: reads the row.

        Raises:
            EvidenceError: BAD_PROOF, the row is empty or torn.
        """
        with self._lock:
            found = self._rows.get(name)
            if found is not None and found.width >= width:
                self._rows.move_to_end(name)
                return found
        fresh = Subtrees(load())  # outside the lock: two threads may do it twice, to no harm
        with self._lock:
            old = self._rows.pop(name, None)
            self._bytes += fresh.size - (0 if old is None else old.size)
            self._rows[name] = fresh
            while self._bytes > self._max_bytes and len(self._rows) > 1:
                self._bytes -= self._rows.popitem(last=False)[1].size
        return fresh
