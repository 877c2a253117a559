"""What is said of a configuration that cannot be used: which setting, what was expected, what came.

Pydantic finds the mistakes, but words them for programmers. Here they are worded for whoever wrote the
file: a table that may be repeated is called by its name, an unknown member by its nearest known one, and
a password in a URL is shown to nobody.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import BaseModel

from ledgerd.tsa.words import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TABLES", "problems", "unknown"]

# Settings that are tables, and the member that tells one from another.
TABLES: Final = {"agent_keys": "agent", "tsa": "name"}
_URLS: Final = frozenset({"url", "proxy"})
_MAX_SHOWN: Final = 200  # characters of a value
# Of errors that only follow from another one, which is told.
_FOLLOWING: Final = frozenset({"default_factory_not_called"})
_USERINFO = re.compile(r"//[^\s'\"]*@")


def unknown(name: str, where: str, known: Iterable[str]) -> str:
    """A name that no setting has, with the nearest one that there is."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"unknown setting {name!r} in {where}{hint}"


def problems(
    errors: Iterable[Any], settings: type[BaseModel], tables: Mapping[str, object]
) -> list[str]:
    """One line for each mistake.

    Args:
        errors: as pydantic lists them.
        settings: the class that was to be made.
        tables: what was given for each of TABLES, whatever it is.
    """
    told = [item for item in errors if item["type"] not in _FOLLOWING]
    return [_USERINFO.sub("//***@", _problem(item, settings, tables)) for item in told]


def _problem(item: Any, settings: type[BaseModel], tables: Mapping[str, object]) -> str:
    location = item["loc"]
    if not location:  # several settings that do not fit together
        return _words(item, "")
    first, *rest = location
    if first not in TABLES or not rest or not isinstance(rest[0], int):
        came = _came(item, is_table=first in TABLES)
        return f"setting {'.'.join(map(str, location))}: {_words(item, came)}"
    place = f"[[{first}]] {_called(str(first), rest[0], tables)}"
    members = [str(part) for part in rest[1:] if not isinstance(part, int)]
    if not members:
        return f"{place}: {_words(item, '')}"
    model = _model(settings, str(first))
    if item["type"] == "extra_forbidden":
        return unknown(members[0], place, model.model_fields)
    if item["type"] == "missing":
        return f"{place}: {members[0]} is missing. {model.model_fields[members[0]].description}"
    return f"{place}: {members[0]}: {_words(item, _came(item, is_url=members[0] in _URLS))}"


def _model(settings: type[BaseModel], table: str) -> type[BaseModel]:
    """The class of a table's rows."""
    model: type[BaseModel] = get_args(settings.model_fields[table].annotation)[0]
    return model


def _called(table: str, index: int, tables: Mapping[str, object]) -> str:
    """The name that one table of several has; its number when it has none."""
    rows = tables.get(table)
    row = rows[index] if isinstance(rows, list | tuple) and index < len(rows) else None
    name = row.get(TABLES[table]) if isinstance(row, dict) else None
    return name if isinstance(name, str) and name.isprintable() and name else f"number {index + 1}"


def _came(item: Any, *, is_url: bool = False, is_table: bool = False) -> str:
    value = item["input"]
    if is_table or isinstance(value, BaseModel | dict):
        return ""
    if is_url and isinstance(value, str):
        value = without_userinfo(value)
    return f", got {repr(value)[:_MAX_SHOWN]}"


def _words(item: Any, came: str) -> str:
    """What was expected, and what came unless that is said already."""
    kind, context, text = item["type"], item.get("ctx", {}), str(item["msg"])
    if kind == "value_error":
        said = text.removeprefix("Value error, ")
        return said if ", got " in said else f"{said}{came}"
    return f"{_EXPECTED.get(kind, _plain(text)).format(**context)}{came}"


def _plain(text: str) -> str:
    return text.replace("Input should be ", "expected ").replace("{", "{{").replace("}", "}}")


_EXPECTED: Final = {
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "greater_than": "expected more than {gt}",
    "less_than": "expected less than {lt}",
    "int_from_float": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_type": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "finite_number": "expected a number that is not infinite",
    "string_too_short": "expected at least {min_length} character(s)",
    "string_too_long": "expected at most {max_length} characters",
    "string_pattern_mismatch": "expected 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or "
    "a digit",
    "string_type": "expected a text",
    "too_short": "expected a list with at least {min_length} of them",
    "tuple_type": "expected a list",
    "model_type": "expected a table with its members",
    "model_attributes_type": "expected a table with its members",
    "path_type": "expected the name of a file or folder",
    "timezone_aware": "expected a time with its zone, such as 2026-01-01T00:00:00Z",
    "literal_error": "expected {expected}",
}
