"""The verdict on a bundle: one line per check, never one boolean.

A check passes, fails, is unknown (cannot be decided with what is at hand), was not checked (and the
detail says why), or passed once and has expired since. The overall result follows from the checks and
from what the auditor asked for.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum, unique
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from receiptledger.core.anchors import Anchoring
    from receiptledger.core.errors import Reason

__all__ = ["LIMITS_OF_PROOF", "Check", "ExitCode", "Status", "Verdict", "json_text"]

LIMITS_OF_PROOF = (
    "This shows who signed what, unchanged, in which order, and that the log commits to it. It does "
    "not show that the action was right, that its input was true, or that the agent recorded "
    "everything it did."
)

# What a terminal may obey and JSON lets stand: DEL and C1 controls, and marks that reorder text. The
# names in a report come from strangers. Lone surrogates have no UTF-8.
_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def json_text(value: object, indent: int | None = None) -> str:
    """JSON with its letters as they are, and all that could be obeyed or misread escaped (RFC 8259).

    Args:
        value: plain values.
        indent: spaces for each level; None for one line.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@unique
class Status(StrEnum):
    """How one check came out."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_CHECKED = "not checked"
    EXPIRED = "expired, not renewed"  # was good once; what it rests on is too old by now


@unique
class ExitCode(IntEnum):
    """Process exit codes of every verifying command; scripts rely on them."""

    VALID = 0
    INVALID = 1
    UNREADABLE = 2
    BELOW_POLICY = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was looked at, how it came out, and why in words."""

    name: str
    status: Status
    detail: str
    reason: Reason | None = None


@dataclass(slots=True)
class Verdict:
    """All checks of one bundle, the facts they establish, and what the asked policy still lacks.

    Attributes:
        checks: in the order they were run.
        facts: what the bundle says, in plain values; true only as far as the checks passed.
        lacking: what the auditor's policy asks for and this bundle does not show.
        readable: False when the input was no bundle at all.
        anchoring: every stamp of the bundle, judged; None when there was no checkpoint to judge by.
    """

    checks: list[Check] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    readable: bool = True
    anchoring: Anchoring | None = None

    @property
    def exit_code(self) -> ExitCode:
        """0 valid, 1 invalid, 2 unreadable, 3 valid but below the asked policy."""
        if not self.readable:
            return ExitCode.UNREADABLE
        statuses = {check.status for check in self.checks}
        if Status.FAIL in statuses:
            return ExitCode.INVALID
        if statuses & {Status.UNKNOWN, Status.EXPIRED} or self.lacking:
            return ExitCode.BELOW_POLICY
        return ExitCode.VALID

    @property
    def result(self) -> str:
        """The exit code in words; an unknown check makes it undecidable."""
        if self.exit_code is ExitCode.BELOW_POLICY:
            statuses = {check.status for check in self.checks}
            if Status.UNKNOWN in statuses:
                return "undecidable"
            if Status.EXPIRED in statuses:
                return "valid, but a timestamp expired and was not renewed"
        return {
            ExitCode.VALID: "valid",
            ExitCode.INVALID: "invalid",
            ExitCode.UNREADABLE: "unreadable",
            ExitCode.BELOW_POLICY: "valid, below the asked policy",
        }[self.exit_code]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a report; deterministic for the same input."""
        return {
            "result": self.result,
            "exit_code": int(self.exit_code),
            "checks": [
                {
                    "name": check.name,
                    "status": check.status.value,
                    "reason": None if check.reason is None else check.reason.value,
                    "detail": check.detail,
                }
                for check in self.checks
            ],
            "facts": self.facts,
            "timestamps": [] if self.anchoring is None else self.anchoring.listed(),
            "lacking": self.lacking,
            "not_proven": LIMITS_OF_PROOF,
        }

    def to_json(self) -> str:
        """The report as indented JSON with a fixed member order."""
        return json_text(self.to_dict(), indent=2)
