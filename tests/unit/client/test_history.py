"""An auditor's memory: what it accepts, what it calls a split view, and what it leaves on disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from receiptledger.core.errors import EvidenceError, Reason, ServiceError
from receiptledger.core.note import NoteSigner
from receiptledger.history import History, Seen, SplitViewError
from receiptledger.remembered import CheckpointFile
from receiptledger.wire import CallError
from tests.helpers.ledger_kit import MiniLedger, make_receipts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def grown(count: int, agent: str = "agent-1", base: MiniLedger | None = None) -> MiniLedger:
    """A ledger with one more seal of `count` receipts."""
    ledger = MiniLedger() if base is None else base
    ledger.append(make_receipts(count, agent))
    ledger.seal()
    return ledger


class Witness:
    """A history whose ledger can be exchanged under its feet."""

    def __init__(self, ledger: MiniLedger, file: Path | None = None) -> None:
        self.ledger = ledger
        self.asked: list[tuple[int, int]] = []
        self.error: Exception | None = None
        self.history = History(
            ledger.signer.verifier, None if file is None else CheckpointFile(file), self._fetch
        )

    async def _fetch(self, first: int, second: int) -> tuple[bytes, ...]:
        self.asked.append((first, second))
        if self.error is not None:
            raise self.error
        return tuple(self.ledger.consistency(first, second))

    def load(self) -> None:
        asyncio.run(self.history.load())

    def observe(self, note: bytes) -> Seen:
        seen = self.history.open(note)
        asyncio.run(self.history.observe(seen))
        return seen


def test_remembers_the_newest() -> None:
    ledger = grown(3)
    witness = Witness(ledger)
    small = witness.observe(ledger.note())
    assert witness.history.last == small
    grown(2, "agent-2", ledger)
    large = witness.observe(ledger.note())
    assert witness.asked == [(2, 4)]
    assert witness.history.last == large
    # An older one must be a prefix too, and does not make it forget.
    witness.observe(small.note)
    assert witness.asked == [(2, 4), (2, 4)]
    assert witness.history.last == large
    # The same one again needs no proof.
    witness.observe(large.note)
    assert len(witness.asked) == 2


def test_the_empty_log_is_a_prefix_of_all() -> None:
    ledger = MiniLedger()
    empty = ledger.note()
    witness = Witness(ledger)
    witness.observe(empty)
    grown(1, base=ledger)
    witness.observe(ledger.note())
    witness.observe(empty)
    assert witness.asked == []


def test_a_second_root_for_one_size() -> None:
    ledger = MiniLedger()
    other = ledger.fork()
    grown(1, "agent-1", ledger)
    grown(1, "agent-2", other)
    witness = Witness(ledger)
    witness.observe(ledger.note())
    with pytest.raises(SplitViewError, match="two roots for 2 leaves") as info:
        witness.observe(other.note())
    error = info.value
    assert error.reason is Reason.INCONSISTENT
    assert (error.remembered, error.shown) == (ledger.note(), other.note())
    assert error.kept == ()
    assert witness.history.last is not None
    assert witness.history.last.note == ledger.note()


def split() -> tuple[MiniLedger, MiniLedger]:
    """Two logs under one key that went apart after a common start."""
    ledger = grown(1)
    other = ledger.fork()
    grown(1, "agent-2", ledger)
    grown(1, "agent-3", other)
    grown(1, "agent-4", other)
    return ledger, other


def test_a_larger_tree_that_does_not_extend(tmp_path: Path) -> None:
    ledger, other = split()
    file = tmp_path / "state"
    witness = Witness(ledger, file)
    witness.observe(ledger.note())
    witness.ledger = other
    with pytest.raises(SplitViewError, match="different histories") as info:
        witness.observe(other.note())
    kept = info.value.kept
    assert [path.read_bytes() for path in kept] == [ledger.note(), other.note()]
    assert {path.parent for path in kept} == {tmp_path}
    assert file.read_bytes() == ledger.note()
    # Seen twice, kept once.
    with pytest.raises(SplitViewError) as again:
        witness.observe(other.note())
    assert again.value.kept == kept
    assert len(list(tmp_path.iterdir())) == 3


def test_a_smaller_tree_that_is_no_prefix() -> None:
    ledger, other = split()
    witness = Witness(other)
    witness.observe(other.note())
    with pytest.raises(SplitViewError):
        witness.observe(ledger.note())


def test_a_ledger_that_refuses_the_proof() -> None:
    """It signed both sizes and now says that one is too large: it was rolled back."""
    ledger = grown(1)
    old = ledger.note()
    grown(1, "agent-2", ledger)
    witness = Witness(ledger)
    witness.observe(ledger.note())
    witness.error = CallError(Reason.INVALID_ARGUMENT, "too large", want="at most 2", got="4")
    with pytest.raises(SplitViewError, match="rolled back"):
        witness.observe(old)


def test_a_ledger_that_is_away_proves_nothing() -> None:
    ledger = grown(1)
    witness = Witness(ledger)
    witness.observe(ledger.note())
    grown(1, "agent-2", ledger)
    witness.error = CallError(Reason.UNAVAILABLE, "away")
    with pytest.raises(CallError, match="away"):
        witness.observe(ledger.note())
    assert witness.history.last is not None
    assert witness.history.last.checkpoint.size == 2


def test_a_note_of_another_log_is_refused() -> None:
    witness = Witness(grown(1))
    other = MiniLedger("other.example/log")
    with pytest.raises(EvidenceError) as info:
        witness.observe(other.note())
    assert info.value.reason is Reason.BAD_NOTE
    assert witness.history.last is None


def test_the_file_carries_the_memory_over(tmp_path: Path) -> None:
    ledger, other = split()
    file = tmp_path / "state"
    first = Witness(ledger, file)
    first.load()
    assert first.history.last is None
    first.observe(ledger.note())
    assert file.read_bytes() == ledger.note()

    second = Witness(other, file)
    second.load()
    with pytest.raises(SplitViewError):
        second.observe(other.note())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda note: b"",
        lambda note: note[:-1],
        lambda note: note.replace(b"\n2\n", b"\n3\n"),
        lambda note: MiniLedger("other.example/log").note(),
        lambda note: bytes(600_000),
    ],
    ids=["empty", "cut", "edited", "another log", "long"],
)
def test_a_bad_file_is_refused(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    ledger = grown(1)
    file = tmp_path / "state"
    file.write_bytes(spoil(ledger.note()))
    witness = Witness(ledger, file)
    with pytest.raises(EvidenceError, match=r"state file .* is not a checkpoint of this log"):
        witness.load()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    ledger = grown(1)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ServiceError, match="cannot read the file") as info:
        Witness(ledger, tmp_path / "folder").load()
    assert info.value.reason is Reason.INVALID_ARGUMENT
    missing = Witness(ledger, tmp_path / "missing" / "state")
    missing.load()
    with pytest.raises(ServiceError, match="cannot write the file"):
        missing.observe(ledger.note())
    assert missing.history.last is None  # what was not remembered durably was not seen


def test_evidence_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    ledger, other = split()
    folder = tmp_path / "folder"
    folder.mkdir()
    witness = Witness(ledger, folder / "state")
    witness.observe(ledger.note())
    (folder / "state").unlink()
    folder.rmdir()
    witness.ledger = other
    with pytest.raises(ServiceError, match="cannot write the file"):
        witness.observe(other.note())


def test_written_files_are_readable_by_others_and_leave_no_trash(tmp_path: Path) -> None:
    CheckpointFile(tmp_path / "state").write(b"one")
    CheckpointFile(tmp_path / "state").write(b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").read_bytes() == b"two"
    assert (tmp_path / "state").stat().st_mode & 0o444 == 0o444


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "state"
    target.mkdir()  # a file cannot replace a folder
    with pytest.raises(ServiceError, match="cannot write"):
        CheckpointFile(target).write(b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_signer_of_the_kit_is_the_key_asked_for() -> None:
    assert isinstance(MiniLedger().signer, NoteSigner)
