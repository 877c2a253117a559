"""Real ledgers, made by the daemon's own parts without a server: verify, admit, commit, seal.

And a store over plain dictionaries of rows, so that a test can change any byte of any record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ledgerd.admission import Admission, Answer
from ledgerd.guard import FileGuard
from ledgerd.keyring import Keyring
from ledgerd.parking import Parking
from ledgerd.sequencer import Sequencer
from ledgerd.store.families import FAMILIES
from ledgerd.store.rows import Row, RowReader
from ledgerd.verification import verify_batch
from receiptledger.core.canonical import Limits
from receiptledger.core.note import NoteSigner
from receiptledger.core.profile import Profiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ledgerd.store.interface import Changes, LogState, Store, StoreStats
    from ledgerd.store.rocks import RocksStore

__all__ = ["ORIGIN", "DictStore", "Ledger", "Rows", "dump"]

ORIGIN = "ledger.example/test"
EPOCH = 1_764_000_000_000_000  # microseconds
Rows = dict[str, dict[bytes, bytes]]  # family -> key -> value


class Ledger:
    """What a daemon is without its servers; every call is one commit.

    Args:
        store: empty, or made by another one of these.
        folder: where the guard file is.
        enrolled: agent -> its keys.
    """

    def __init__(
        self, store: Store, folder: Path, *, enrolled: dict[str, tuple[bytes, ...]] | None = None
    ) -> None:
        self.store = store
        self.signer = NoteSigner.from_seed(ORIGIN, b"\x07" * 32)
        self.guard = FileGuard(folder / "guard")
        self.published: list[LogState] = []
        self._keyring = Keyring(
            pinning=True,
            enrolled=enrolled or {},
            pinned=lambda chain: tuple(record.key for record in store.keys(chain)),
            cache_size=1_000,
        )
        self._admission = Admission(
            store,
            self._keyring,
            max_chains_cached=1_000,
            max_forks_per_chain=16,
            parking=Parking(max_receipts=0, max_bytes=0, wait_seconds=0),
        )
        self._sequencer = Sequencer(store, self.signer, self.guard, self.published.append)
        self._sequencer.recover()

    def admit(self, raws: Sequence[bytes], *, hints: Sequence[bytes] = ()) -> list[Answer]:
        """Verify, admit and commit one batch."""
        items = verify_batch(
            raws,
            profile=None,
            hints=hints,
            profiles=Profiles.builtin(),
            keyring=self._keyring,
            limits=Limits(),
        )
        plan = self._admission.plan([items], EPOCH + self.store.next_number())
        self.store.commit(plan.changes)
        self._admission.adopt(plan)
        self._sequencer.observe(plan.changes)
        return plan.answers[0]

    def commit(self, changes: Changes) -> None:
        """One commit of something else than receipts."""
        self.store.commit(changes)
        self._sequencer.observe(changes)

    def seal(self) -> LogState | None:
        """One seal of everything unsealed."""
        return self._sequencer.step()


def dump(store: RocksStore) -> Rows:
    """Every row of a store."""
    with_everything = b"\xff" * 80
    return {family: dict(store._rows(family, b"", with_everything)) for family in FAMILIES}


class DictStore(RowReader):
    """The rows of a ledger, read as a real store reads them."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._keys = {family: sorted(rows[family]) for family in FAMILIES}

    def _get(self, family: str, key: bytes) -> bytes | None:
        return self.rows[family].get(key)

    def _last(self, family: str, key: bytes) -> Row | None:
        found = [one for one in self._keys[family] if one <= key]
        return (found[-1], self.rows[family][found[-1]]) if found else None

    def _page(self, family: str, begin: bytes, end: bytes, limit: int) -> list[Row]:
        keys = [key for key in self._keys[family] if begin <= key < end]
        return [(key, self.rows[family][key]) for key in keys[:limit]]

    def commit(self, changes: Changes) -> NoReturn:
        raise NotImplementedError

    def stats(self) -> StoreStats:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held."""
