"""How a receipt's format is found: rules on its members, and which formats need to be asked at all.

One receipt can match several formats: they are candidates in order, and the signature decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import shown
from receiptledger.core.fields import MISSING, getter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from receiptledger.core.profile_data import Table
    from receiptledger.core.profile_types import Profile

    Test = Callable[[dict[str, Any]], bool]
    _Group = tuple[tuple[Profile, ...], tuple[Test, ...]]  # formats, and what is left to ask
    _Shape = tuple[str | tuple[str, ...] | None, ...]

__all__ = ["Detection", "Rule", "compile_rule"]

_TYPES: Final[dict[str, type]] = {"null": type(None), "text": str, "object": dict, "integer": int}
_KEY: Final = re.compile("[0-9a-f]{64}")  # 32 bytes in hex
_FORMS: Final[dict[str, Callable[[Any], bool]]] = {
    "key": lambda item: type(item) is str and _KEY.fullmatch(item) is not None,
    "name": lambda item: type(item) is str and _KEY.fullmatch(item) is None,
    "filled": lambda item: type(item) in (list, dict, str) and bool(item),
}
_MAX_SHAPES = 1_024  # sets of member names that are remembered
_MAX_SHAPE_CHARACTERS = 1_024  # of one set's names, together
_ENVELOPE_MEMBERS = 3  # an object of so many members at most is looked into


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must hold of a receipt.

    Attributes:
        words: what, for people.
        test: whether it holds.
        path: names of the member it is about; () where it is about several.
        presence: True: that it is there, False: that it is not, None: something of its value.
    """

    words: str
    test: Test
    path: tuple[str, ...]
    presence: bool | None

    def by_names(self, names: Names) -> bool | None:
        """What follows from the names of a receipt's members alone; None: the test must be asked."""
        there = names.has(self.path) if self.path else None
        if self.presence is None:
            return False if there is False else None
        return there if there is None else there is self.presence


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a receipt's members: the outermost, and those inside them where there are few."""

    outer: frozenset[str]
    inner: dict[str, frozenset[str]] | None

    def has(self, path: tuple[str, ...]) -> bool | None:
        """Whether there is a member, None when these names do not tell."""
        if path[0] not in self.outer or len(path) == 1:
            return path[0] in self.outer
        if self.inner is None:
            return None
        if path[1] not in self.inner.get(path[0], ()):
            return False
        return True if len(path) == 2 else None


def compile_rule(table: Table) -> Rule:
    """A rule of a format's data: `path` and one of `exists`, `absent`, `equals`, `prefix`, ..., or `any`.

    Raises:
        ValueError: naming the member that is wrong.
    """
    if table.has("any"):
        return _any_rule(table)
    path = table.path("path")
    get = getter(path)
    words, test = f"a member {path}", lambda value: get(value) is not MISSING
    presence: bool | None = None
    if table.has("absent"):
        table.flag("absent")
        words, test = f"no member {path}", lambda value: get(value) is MISSING
        presence = False
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
    elif table.has("none_of"):
        texts = table.words("none_of", ".+", "an array of texts")
        words = f"member {path} a text and none of {', '.join(map(shown, texts))}"
        test = _none_of_test(get, frozenset(texts))
    elif table.has("number"):
        number = table.integer("number", 0, 1_000_000)
        words, test = f"member {path} equal to {number}", _number_test(get, number)
    elif table.has("is"):
        name = table.choice("is", (*_TYPES, *_FORMS))
        words = f"member {path} of type {name}"
        test = _type_test(get, _TYPES[name]) if name in _TYPES else _form_test(get, _FORMS[name])
    else:
        table.flag("exists")
        presence = True
    table.close()
    return Rule(words, test, tuple(path.split(".")), presence)


def _any_rule(table: Table) -> Rule:
    """Holds where one of its rules does."""
    rules = tuple(compile_rule(inner) for inner in table.tables("any"))
    table.close()
    words = " or ".join(rule.words for rule in rules)
    return Rule(words, lambda value: any(rule.test(value) for rule in rules), (), None)


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


def _none_of_test(get: Callable[[dict[str, Any]], Any], texts: frozenset[str]) -> Test:
    def test(value: dict[str, Any]) -> bool:
        text = get(value)
        return type(text) is str and text not in texts

    return test


def _number_test(get: Callable[[dict[str, Any]], Any], number: int) -> Test:
    def test(value: dict[str, Any]) -> bool:
        item = get(value)
        return type(item) is int and item == number

    return test


def _type_test(get: Callable[[dict[str, Any]], Any], kind: type) -> Test:
    return lambda value: type(get(value)) is kind


def _form_test(get: Callable[[dict[str, Any]], Any], holds: Callable[[Any], bool]) -> Test:
    return lambda value: holds(get(value))


class Detection:
    """Finds the formats a receipt may be of.

    Which formats can match at all, and what is left to ask them, follows from the names of a receipt's
    members, and is remembered for each set of names: the usual receipt is asked one thing or nothing.

    Args:
        formats: the formats in order of preference.
    """

    def __init__(self, formats: Sequence[Profile]) -> None:
        self._order = {profile.id: number for number, profile in enumerate(formats)}
        # Formats that are told apart only by the signature share one detection.
        groups: dict[tuple[str, ...], list[Profile]] = {}
        for profile in formats:
            groups.setdefault(tuple(rule.words for rule in profile.detect), []).append(profile)
        self._groups = [tuple(members) for members in groups.values()]
        self._shapes: dict[_Shape, list[_Group]] = {}

    def candidates(self, value: dict[str, Any]) -> tuple[Profile, ...]:
        """The formats whose rules all hold, preferred first."""
        shape = _shape(value)
        groups = self._shapes.get(shape)
        if groups is None:
            groups = self._possible(shape)
        found: tuple[Profile, ...] = ()
        for formats, tests in groups:
            for test in tests:
                if not test(value):
                    break
            else:
                found = formats if not found else self._in_order(found + formats)
        return found

    def _in_order(self, formats: tuple[Profile, ...]) -> tuple[Profile, ...]:
        return tuple(sorted(formats, key=lambda profile: self._order[profile.id]))

    def _possible(self, shape: _Shape) -> list[_Group]:
        names = _names(shape)
        groups: list[_Group] = []
        for formats in self._groups:
            told = [(rule, rule.by_names(names)) for rule in formats[0].detect]
            if all(answer is not False for _, answer in told):
                groups.append(
                    (formats, tuple(rule.test for rule, answer in told if answer is None))
                )
        if _characters(shape) <= _MAX_SHAPE_CHARACTERS:  # the names are foreign: bound what is kept
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = groups
        return groups


def _shape(value: dict[str, Any]) -> _Shape:
    """The names of the outermost members; of an envelope also those inside them, None for no object."""
    if len(value) > _ENVELOPE_MEMBERS:
        return tuple(value)
    return (
        *value,
        *[tuple(inner) if type(inner) is dict else None for inner in value.values()],
    )


def _names(shape: _Shape) -> Names:
    outer = [name for name in shape if type(name) is str]
    if len(outer) > _ENVELOPE_MEMBERS:
        return Names(frozenset(outer), None)
    inner = shape[len(outer) :]
    return Names(
        frozenset(outer),
        {
            name: frozenset(names)
            for name, names in zip(outer, inner, strict=True)
            if isinstance(names, tuple)
        },
    )


def _characters(shape: _Shape) -> int:
    return sum(
        len(name) if isinstance(name, str) else sum(map(len, name))
        for name in shape
        if name is not None
    )
