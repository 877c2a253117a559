"""What a check of a ledger found: counts, and problems that name the record, both values and the rule.

Problems are bounded (:data:`MAX_PROBLEMS`) and counted beyond that: a ledger whose first block is
gone must not fill the memory of the machine that looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any, Final

from receiptledger.core.encoding import digest_text

__all__ = ["MAX_PROBLEMS", "Damage", "GuardState", "Problem", "Report", "place"]

MAX_PROBLEMS: Final = 100


@unique
class Damage(StrEnum):
    """What a problem is about. Closed; scripts may branch on it."""

    # Any record.
    UNREADABLE = "unreadable record"  # it does not decode, or the database cannot read it
    MISSING = "missing record"
    SURPLUS = "surplus records"  # records that nothing leads to
    # Receipts and chains.
    RECEIPT_HASH = "receipt hash"  # the bytes are not those that were admitted
    LEAF_HASH = "leaf hash"
    RECEIPT = "receipt"  # not readable by the format it was admitted under
    CONTENT_HASH = "content hash"
    LINK_HASH = "link hash"
    CHAIN = "chain key"  # stored under another agent's or stream's chain
    SIGNATURE = "signature"
    LINK = "chain link"
    SEQUENCE = "sequence"
    NUMBER = "admission number"
    HEAD = "head"
    HASH_INDEX = "hash index"
    FORK = "fork"
    # What is sealed.
    MARK = "mark"
    SEGMENT = "segment"
    SEGMENT_ROOT = "segment root"
    JOIN = "segment join"
    KEY = "key"
    KEY_ORDER = "key leaf order"
    LEAF = "leaf"
    TILE = "tile"
    ROOT = "root"
    CHECKPOINT = "checkpoint"
    STATE = "log state"
    GUARD = "guard"
    # Timestamps.
    ANCHOR = "anchor"
    ANCHOR_INDEX = "anchor index"
    EVIDENCE = "revocation evidence"
    INTENT = "intent"
    QUARANTINED = "refused answer"


@unique
class GuardState(StrEnum):
    """How the guard stands to the log."""

    NOT_CHECKED = "not checked"  # none was given
    EQUAL = "equal"
    BEHIND = "behind"  # a crash between commit and guard; the next start advances it
    AHEAD = "ahead"
    BAD = "bad"  # no checkpoint of this log, or another root for its size


@dataclass(frozen=True, slots=True)
class Problem:
    """One rule that does not hold.

    Attributes:
        what: the rule.
        where: the record, for people.
        expected: what the rest of the ledger says.
        got: what the record says.
    """

    what: Damage
    where: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.what}: {self.where}: expected {self.expected}, got {self.got}"


@dataclass(slots=True)
class Report:
    """The outcome of one check.

    Attributes:
        log: name of the log the checkpoints were held against.
        tree_size: leaves under the newest checkpoint.
        root: root of the newest checkpoint, 32 bytes; None before the first.
        guard: how the guard stands to the log.
        checked: records read, by kind.
        problems: the first :data:`MAX_PROBLEMS` of them.
        problems_total: all of them.
    """

    log: str
    tree_size: int = 0
    root: bytes | None = None
    guard: GuardState = GuardState.NOT_CHECKED
    checked: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            (
                "receipts",
                "unsealed_receipts",
                "chains",
                "segments",
                "leaves",
                "tiles",
                "checkpoints",
                "keys",
                "forks",
                "marks",
                "anchors",
                "blobs",
                "intents",
                "quarantined",
            ),
            0,
        )
    )
    problems: list[Problem] = field(default_factory=list)
    problems_total: int = 0
    unread: set[str] = field(default_factory=set)  # kinds of record that were not all read

    @property
    def clean(self) -> bool:
        """Whether every rule holds."""
        return self.problems_total == 0

    def add(self, what: Damage, where: str, expected: object, got: object) -> None:
        """Note a problem; hashes are shown as hashes."""
        self.problems_total += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(what, where, _shown(expected), _shown(got)))

    def expect(self, what: Damage, where: str, expected: object, got: object) -> None:
        """Note a problem unless both are equal."""
        if expected != got:
            self.add(what, where, expected, got)

    def unreadable(self, kind: str, where: str, error: Exception) -> None:
        """Note a record that cannot be read."""
        self.unread.add(kind)
        self.add(Damage.UNREADABLE, where, "a record that can be read", error)

    def missing(self, kind: str, where: str) -> None:
        """Note a record that is not there."""
        self.unread.add(kind)
        self.add(Damage.MISSING, where, "a record", None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "clean": self.clean,
            "log": self.log,
            "tree_size": self.tree_size,
            "root": None if self.root is None else digest_text(self.root),
            "guard": self.guard.value,
            "checked": self.checked,
            "problems_total": self.problems_total,
            "problems": [
                {
                    "what": problem.what.value,
                    "where": problem.where,
                    "expected": problem.expected,
                    "got": problem.got,
                }
                for problem in self.problems
            ],
        }


def place(chain: bytes, position: int | None = None) -> str:
    """How a chain, or a position of it, is named in a problem."""
    name = f"chain {digest_text(chain)}"
    return name if position is None else f"{name}, position {position}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bytes):
        return digest_text(value) if len(value) == 32 else f"{len(value)} bytes {value[:32].hex()}"
    return str(value)
