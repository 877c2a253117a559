"""Strict reading of a receipt format's data: every member known, present and of its form.

The data is ours or an operator's, not foreign bytes, so a fault is a ValueError that names the file
and the member.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Table"]

_PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_NONE = "none"


class Table:
    """One table of the data. Members are taken one by one; `close` refuses what is left.

    Args:
        source: file name, for messages.
        name: dotted name of the table in the file, "" for the file itself.
        data: its members.
    """

    def __init__(self, source: str, name: str, data: dict[str, Any]) -> None:
        self._source = source
        self._name = name
        self._left = dict(data)

    def wrong(self, member: str, want: str) -> ValueError:
        """The fault of a member, to be raised."""
        label = f"{self._name}.{member}" if self._name else member
        return ValueError(f"{self._source}: member {label} must be {want}")

    def close(self) -> None:
        """Refuse members nobody asked for."""
        for member in sorted(self._left):
            raise self.wrong(member, "left out: it is not known")

    def has(self, member: str) -> bool:
        """Whether a member that may be missing is there."""
        return member in self._left

    def take(self, member: str) -> Any:
        """The member, whatever it is."""
        if member not in self._left:
            raise self.wrong(member, "present")
        return self._left.pop(member)

    def take_none(self, member: str) -> bool:
        """Whether the member says "none"; takes it when it does."""
        if self._left.get(member) != _NONE:
            return False
        del self._left[member]
        return True

    def take_empty(self, member: str) -> bool:
        """Whether the member is the empty text; takes it when it is."""
        if self._left.get(member) != "":
            return False
        del self._left[member]
        return True

    def take_null(self, member: str) -> bool:
        """Whether the member is the text "null"; takes it when it is."""
        if self._left.get(member) != "null":
            return False
        del self._left[member]
        return True

    def empty(self, member: str) -> str:
        """The member must be the empty text."""
        if self.take(member) != "":
            raise self.wrong(member, 'empty, or "null"')
        return ""

    def flag(self, member: str) -> None:
        """The member must be true."""
        if self.take(member) is not True:
            raise self.wrong(member, "true")

    def text(self, member: str, form: str = ".+") -> str:
        """A text of a form, given as a regular expression."""
        text = self.take(member)
        if type(text) is not str or not re.fullmatch(form, text, re.DOTALL):
            raise self.wrong(member, f"text of the form {form}")
        return text

    def is_table(self, member: str) -> bool:
        """Whether the member is a table."""
        return isinstance(self._left.get(member), dict)

    def choice(self, member: str, options: Collection[str]) -> str:
        """One of some texts."""
        text = self.take(member)
        if type(text) is not str or text not in options:
            raise self.wrong(member, "one of " + ", ".join(options))
        return text

    def integer(self, member: str, least: int, most: int) -> int:
        """An integer in a range."""
        number = self.take(member)
        if type(number) is not int or not least <= number <= most:
            raise self.wrong(member, f"an integer {least}..{most}")
        return number

    def path(self, member: str) -> str:
        """Names joined by dots."""
        return self._checked_path(member, self.take(member))

    def paths(self, member: str) -> tuple[str, ...]:
        """An array of paths."""
        return tuple(self._checked_path(member, path) for path in self._array(member))

    def pairs(self, member: str) -> tuple[tuple[str, str], ...]:
        """An array of pairs of paths."""
        pairs: list[tuple[str, str]] = []
        for pair in self._array(member):
            if type(pair) is not list or len(pair) != 2:
                raise self.wrong(member, "an array of pairs of paths")
            first, second = (self._checked_path(member, path) for path in pair)
            pairs.append((first, second))
        return tuple(pairs)

    def names(self, member: str) -> tuple[str, ...]:
        """An array of single names, sorted."""
        paths = self.paths(member)
        if any("." in path for path in paths):
            raise self.wrong(member, "an array of names without dots")
        return tuple(sorted(paths))

    def mapping(self, member: str, options: Collection[str]) -> dict[str, str]:
        """A table of texts, at least one, each value one of some texts."""
        table = self.take(member)
        if not isinstance(table, dict) or not table:
            raise self.wrong(member, "a table that is not empty")
        for name, text in table.items():
            if text not in options:
                raise self.wrong(f"{member}.{name}", "one of " + ", ".join(options))
        return dict(table)

    def words(self, member: str, form: str, want: str) -> tuple[str, ...]:
        """An array of texts of a form, at least one, none twice."""
        items = self._array(member)
        for item in items:
            if type(item) is not str or not re.fullmatch(form, item):
                raise self.wrong(member, want)
        if not items or len(set(items)) != len(items):
            raise self.wrong(member, "an array of at least one text, none twice")
        return tuple(items)

    def table(self, member: str) -> Table:
        """A table inside this one."""
        return self._inner(member, member, self.take(member))

    def tables(self, member: str, *, least: int = 1) -> tuple[Table, ...]:
        """An array of tables."""
        items = self._array(member)
        if len(items) < least:
            raise self.wrong(member, "an array that is not empty")
        return tuple(self._inner(member, f"{member}[{n}]", item) for n, item in enumerate(items))

    def _inner(self, member: str, label: str, data: object) -> Table:
        if not isinstance(data, dict):
            raise self.wrong(member, "a table")
        return Table(self._source, f"{self._name}.{label}" if self._name else label, data)

    def _array(self, member: str) -> list[Any]:
        items = self.take(member)
        if not isinstance(items, list):
            raise self.wrong(member, "an array")
        return items

    def _checked_path(self, member: str, path: object) -> str:
        if type(path) is not str or not _PATH.fullmatch(path):
            raise self.wrong(member, "names joined by dots")
        return path
