"""How a receipt's format is found: rules on its members, and which formats need to be asked at all.

One receipt can match several formats: they are candidates in order, and the signature decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import shown
from receiptledger.core.fields import MISSING, getter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from receiptledger.core.profile_data import Table
    from receiptledger.core.profile_types import Profile

    Test = Callable[[dict[str, Any]], bool]
    # Formats, their tests, names a receipt needs for them, names it must not have.
    _Group = tuple[tuple[Profile, ...], tuple[Test, ...], frozenset[str], frozenset[str]]

__all__ = ["Detection", "Rule", "compile_rule"]

_TYPES: Final[dict[str, type]] = {"null": type(None), "text": str, "object": dict, "integer": int}
_MAX_SHAPES = 1_024  # sets of member names that are remembered
_MAX_SHAPE_CHARACTERS = 1_024  # of one set's names, together


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must hold of a receipt.

    Attributes:
        words: what, for people.
        test: whether it holds.
        needs: name of the outermost member that must be there, or None.
        lacks: name of the outermost member that must not be there, or None.
    """

    words: str
    test: Test
    needs: str | None
    lacks: str | None


def compile_rule(table: Table) -> Rule:
    """A rule of a format's data: `path` and one of `exists`, `absent`, `equals`, `prefix`, ...

    Raises:
        ValueError: naming the member that is wrong.
    """
    path = table.path("path")
    get, first = getter(path), path.split(".")[0]
    words, test = f"a member {path}", lambda value: get(value) is not MISSING
    needs: str | None = first
    lacks: str | None = None
    if table.has("absent"):
        table.flag("absent")
        words, test = f"no member {path}", lambda value: get(value) is MISSING
        needs, lacks = None, first if path == first else None
    elif table.has("equals"):
        text = table.text("equals")
        words, test = f"member {path} equal to {shown(text)}", lambda value: get(value) == text
    elif table.has("prefix"):
        text = table.text("prefix")
        words, test = f"member {path} starting with {shown(text)}", _prefix_test(get, text)
    elif table.has("one_of"):
        texts = table.words("one_of", ".+", "an array of texts")
        words = f"member {path} one of {', '.join(map(shown, texts))}"
        test = _one_of_test(get, frozenset(texts))
    elif table.has("number"):
        number = table.integer("number", 0, 1_000_000)
        words, test = f"member {path} equal to {number}", _number_test(get, number)
    elif table.has("is"):
        name = table.choice("is", tuple(_TYPES))
        words, test = f"member {path} of type {name}", _type_test(get, _TYPES[name])
    else:
        table.flag("exists")
    table.close()
    return Rule(words, test, needs, lacks)


def _prefix_test(get: Callable[[dict[str, Any]], Any], prefix: str) -> Test:
    def test(value: dict[str, Any]) -> bool:
        text = get(value)
        return type(text) is str and text.startswith(prefix)

    return test


def _one_of_test(get: Callable[[dict[str, Any]], Any], texts: frozenset[str]) -> Test:
    def test(value: dict[str, Any]) -> bool:
        text = get(value)
        return type(text) is str and text in texts

    return test


def _number_test(get: Callable[[dict[str, Any]], Any], number: int) -> Test:
    def test(value: dict[str, Any]) -> bool:
        item = get(value)
        return type(item) is int and item == number

    return test


def _type_test(get: Callable[[dict[str, Any]], Any], kind: type) -> Test:
    return lambda value: type(get(value)) is kind


class Detection:
    """Finds the formats a receipt may be of.

    Which formats can match at all follows from the names of a receipt's outermost members, and is
    remembered for each set of names: the usual receipt is held against one or two formats.

    Args:
        formats: the formats in order of preference.
    """

    def __init__(self, formats: Sequence[Profile]) -> None:
        self._order = {profile.id: number for number, profile in enumerate(formats)}
        # Formats that are told apart only by the signature share one detection.
        groups: dict[tuple[str, ...], list[Profile]] = {}
        for profile in formats:
            groups.setdefault(tuple(rule.words for rule in profile.detect), []).append(profile)
        self._groups = [_group(tuple(members)) for members in groups.values()]
        self._shapes: dict[tuple[str, ...], list[_Group]] = {}

    def candidates(self, value: dict[str, Any]) -> tuple[Profile, ...]:
        """The formats whose rules all hold, preferred first."""
        shape = tuple(value)
        groups = self._shapes.get(shape)
        if groups is None:
            groups = self._possible(shape)
        found: tuple[Profile, ...] = ()
        for formats, tests, _, _ in groups:
            for test in tests:
                if not test(value):
                    break
            else:
                found = formats if not found else self._in_order(found + formats)
        return found

    def _in_order(self, formats: tuple[Profile, ...]) -> tuple[Profile, ...]:
        return tuple(sorted(formats, key=lambda profile: self._order[profile.id]))

    def _possible(self, shape: tuple[str, ...]) -> list[_Group]:
        names = frozenset(shape)
        groups = [group for group in self._groups if group[2] <= names and not group[3] & names]
        if (
            sum(map(len, shape)) <= _MAX_SHAPE_CHARACTERS
        ):  # the names are foreign: bound what is kept
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = groups
        return groups


def _group(formats: tuple[Profile, ...]) -> _Group:
    rules = formats[0].detect
    return (
        formats,
        tuple(rule.test for rule in rules),
        frozenset(rule.needs for rule in rules if rule.needs is not None),
        frozenset(rule.lacks for rule in rules if rule.lacks is not None),
    )
