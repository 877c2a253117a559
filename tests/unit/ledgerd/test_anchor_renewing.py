"""Which later timestamps a proof carries so that an early one is still worth something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ledgerd.anchoring import choice as anchor_choice
from ledgerd.anchoring.choice import MAX_RENEWALS
from ledgerd.store.interface import StoreError
from receiptledger.core.anchor_life import RENEW_MARGIN_US
from receiptledger.core.checkpoint import open_checkpoint
from tests.helpers.agents import Agent
from tests.helpers.anchor_records import DAY, held, shown, stamp, tuned
from tests.helpers.sync_ledger import SIGNER, SyncLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.store.interface import AnchorRecord

A = Agent("agent-1", 1)
MONTH = 30 * DAY
MARGIN = RENEW_MARGIN_US // MONTH  # months


class Years:
    """A log that is stamped month by month, by TSAs whose certificates end when a test says."""

    def __init__(self) -> None:
        self.ledger = SyncLedger()
        self.ends: dict[bytes, int | None] = {}  # response -> end of its certificates
        self.asked: list[bytes] = []
        self.read()
        self.ledger.append(A.receipts(1))
        self.ledger.seal()

    def read(self, quorum: int = 1, store: Any = None) -> None:
        """Read anew, with nothing remembered."""
        tuned(self.ledger, store=store, quorum=quorum, lifetime=self._lifetime)

    def _lifetime(self, response: bytes) -> int | None:
        self.asked.append(response)
        return self.ends[response]

    def month(self, at: int, **ends: int | None) -> int:
        """Stamps of one month by these TSAs, good until the months given; the stamped size."""
        size = self.ledger.reader.size
        for tsa, end in ends.items():
            response = f"{tsa} in month {at}".encode()
            self.ends[response] = None if end is None else end * MONTH
            stamp(self.ledger, tsa, size=size, at=at * MONTH, response=response)
        self.ledger.seal()
        return size

    def proven(self, quorum: int = 1) -> dict[int, list[str]]:
        if quorum > 1:
            self.read(quorum)
        bundle = self.ledger.reader.prove(A.chain, 0)
        held(bundle.anchors, open_checkpoint(bundle.checkpoint, SIGNER.verifier))
        return shown(bundle.anchors)

    def months(self, at: Sequence[int], last: int) -> dict[int, int]:
        """Stamps by one TSA that are all good for `last` months; month -> stamped size."""
        return {month: self.month(month, a=month + last) for month in at}


def test_what_is_good_for_long_is_not_renewed() -> None:
    years = Years()
    sizes = years.months(range(0, 100, 10), last=120)
    assert list(years.proven()) == [sizes[0]]


def test_what_ends_soon_comes_with_the_newest() -> None:
    years = Years()
    sizes = years.months(range(0, 120 - MARGIN, 10), last=120)
    assert list(years.proven()) == [sizes[0]]
    newest = years.month(120 - MARGIN, a=240)
    assert list(years.proven()) == [sizes[0], newest]


def test_what_has_ended_was_renewed_while_it_was_good() -> None:
    years = Years()
    sizes = years.months([0, 50, 110, 119, 121, 200], last=120)
    # The last before the end of the first, which is good beyond the newest's time.
    assert list(years.proven()) == [sizes[0], sizes[119]]


def test_a_chain_of_renewals_over_decades() -> None:
    years = Years()
    sizes = years.months(range(0, 361, 5), last=120)
    assert list(years.proven()) == [sizes[0], sizes[115], sizes[230], sizes[345]]


def test_a_chain_ends_somewhere() -> None:
    years = Years()
    sizes = years.months(range(0, 2_000, 50), last=120)
    found = list(years.proven())
    assert found == [sizes[month] for month in (0, 100, 200, 300, 400)]
    assert len(found) == 1 + MAX_RENEWALS


def test_the_longer_lived_of_two_carries_on() -> None:
    """One that ended before anything else was stamped cannot be renewed; the other can."""
    years = Years()
    first = years.month(0, a=1, b=120)
    last = years.month(119, a=240, b=240)
    assert years.proven(quorum=2) == {first: ["a", "b"], last: ["a", "b"]}


def test_what_nothing_renewed_in_time_stands_alone() -> None:
    years = Years()
    first = years.month(0, a=10)
    years.month(11, a=240)
    assert list(years.proven()) == [first]


def test_without_a_known_end_nothing_is_added() -> None:
    years = Years()
    first = years.month(0, a=None)
    years.month(500, a=None)
    assert list(years.proven()) == [first]


def test_a_renewal_has_a_quorum_too() -> None:
    years = Years()
    first = years.month(0, a=120, b=120)
    other = years.month(116, b=300)
    years.month(117, b=300)
    last = years.month(118, a=300)
    one = years.proven()
    assert one == {first: ["a", "b"], last: ["a"]}
    two = years.proven(quorum=2)
    assert two == {first: ["a", "b"], last - 1: ["b"], last: ["a"]}
    assert other < last - 1


def test_ends_are_read_once() -> None:
    years = Years()
    years.months(range(0, 361, 5), last=120)
    years.proven()
    asked = len(years.asked)
    years.proven()
    assert len(years.asked) == asked


def test_what_is_remembered_of_ends_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    years = Years()
    years.months(range(0, 361, 5), last=120)
    expected = years.proven()
    monkeypatch.setattr(anchor_choice, "_KEPT_LIVES", 2)
    years.read()
    assert years.proven() == expected
    assert len(years.ledger.reader.anchors._choice._lives) <= 2


def test_a_token_that_is_not_logged_yet_renews_nothing() -> None:
    years = Years()
    first = years.month(0, a=120)
    newest = years.month(119, a=240)
    before = years.ledger.reader.size
    stamp(years.ledger, "late", size=newest, at=119 * MONTH, response=b"late")
    years.ledger.seal()
    reader = years.ledger.reader
    then = reader.prove(A.chain, 0, size=before)
    assert shown(then.anchors) == {first: ["a"], newest: ["a"]}
    assert years.proven() == {first: ["a"], newest: ["a", "late"]}


def test_a_missing_record_is_an_error() -> None:
    years = Years()
    years.months([0, 50, 110, 119, 121, 200], last=120)
    store = years.ledger.store

    class Damaged:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def anchor(self, number: int) -> AnchorRecord | None:
            return None if number == 3 else store.anchor(number)

    years.read(store=Damaged())
    with pytest.raises(StoreError, match="anchor 3 is missing"):
        years.proven()


def test_renewals_are_of_the_asked_tree() -> None:
    years = Years()
    sizes = years.months([0, 50, 119], last=120)
    reader = years.ledger.reader
    before = reader.size
    answer = reader.prove(A.chain, 0, size=before).encode()
    later = years.months([119, 200, 300], last=120)
    assert reader.prove(A.chain, 0, size=before).encode() == answer
    assert list(years.proven())[:2] == [sizes[0], later[119]]
