"""Which key a chain's receipts must be signed with.

An agent with enrolled keys may use those and no others. Any other agent is refused in `registered`
mode; in `pinned` mode the first key that verifies a receipt of a new chain is pinned to it. A key
inside a receipt, or offered with a batch, is a hint to try, never trust: after the first receipt it
has no say any more.

Verifying threads ask :meth:`Keyring.allowed` while the writer thread calls :meth:`Keyring.learn`; both
touch one dict in single operations, and the writer decides again before it commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from receiptledger.core.receipt import Receipt

__all__ = ["Keyring"]


class Keyring:
    """Answers which keys may sign for a chain.

    Args:
        pinning: whether an unknown chain's first key is pinned.
        enrolled: agent id -> its enrolled keys.
        pinned: reads the keys a chain has in the store.
        cache_size: chains to remember.
    """

    def __init__(
        self,
        *,
        pinning: bool,
        enrolled: dict[str, tuple[bytes, ...]],
        pinned: Callable[[bytes], tuple[bytes, ...]],
        cache_size: int,
    ) -> None:
        self._pinning = pinning
        self._enrolled = enrolled
        self._pinned = pinned
        self._cache_size = cache_size
        self._cache: dict[bytes, tuple[bytes, ...]] = {}

    def mode(self, agent: str) -> str:
        """How this agent's keys come to be trusted: "registered" or "pinned"."""
        return "registered" if agent in self._enrolled or not self._pinning else "pinned"

    def allowed(self, receipt: Receipt) -> tuple[bytes, ...]:
        """Keys that may sign this receipt's chain; empty for a chain that has none yet."""
        enrolled = self._enrolled.get(receipt.agent)
        if enrolled is not None:
            return enrolled
        if not self._pinning:
            return ()
        chain = receipt.chain
        keys = self._cache.get(chain)
        if keys is None:
            keys = self._pinned(chain)
            if keys:
                self._remember(chain, keys)
        return keys

    def candidates(self, receipt: Receipt, hints: Sequence[bytes]) -> Iterable[bytes]:
        """Keys to try for a chain that has none yet.

        Raises:
            ReceiptError: UNKNOWN_KEY when there is nothing to try.
        """
        if not self._pinning:
            raise ReceiptError(
                Reason.UNKNOWN_KEY,
                "this ledger accepts enrolled keys only; ask its operator to add one for this agent",
                want="an enrolled key",
                got=f"agent {receipt.agent[:80]!r} without one",
            )
        found = (receipt.key_hint,) if receipt.key_hint is not None else tuple(hints)
        if not found:
            raise ReceiptError(
                Reason.UNKNOWN_KEY,
                "this receipt format carries no key and the chain is new; offer the public key with "
                "the batch (key_hints, or --key on the command line), or have it enrolled",
                want="a key hint",
            )
        return found

    def learn(self, chain: bytes, key: bytes) -> None:
        """A key was pinned to a chain and is durable."""
        self._remember(chain, (key,))

    def _remember(self, chain: bytes, keys: tuple[bytes, ...]) -> None:
        if len(self._cache) >= self._cache_size:
            self._cache.clear()  # rare, cheap to refill, and free of bookkeeping per receipt
        self._cache[chain] = keys

    def forget(self) -> None:
        """Drop what is remembered of the store: the outcome of a commit is unknown."""
        self._cache.clear()
