"""How `ledgerd check-config` shows a configuration: every setting, and of each table what was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerd.config import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["as_json_values", "as_text"]

_INDENT = "      "


def as_json_values(settings: Settings) -> dict[str, Any]:
    """Every setting, ready for JSON; passwords in URLs are left out."""
    values = settings.model_dump(mode="json")
    for row, item in zip(values["tsa"], settings.tsa, strict=True):
        row |= item.as_written()
    return values


def as_text(settings: Settings) -> Iterator[str]:
    """Lines for people: value, what it is for, and a mark where it differs from the default."""
    values = as_json_values(settings)
    for name, field in Settings.model_fields.items():
        mark = " " if values[name] == _plain(field.default) else "*"
        if name == "tsa" and settings.tsa:
            names = ", ".join(item.name for item in settings.tsa)
            yield f"{mark} tsa = {len(settings.tsa)} below: {names}"
        else:
            yield f"{mark} {name} = {json.dumps(values[name])}"
        yield f"{_INDENT}{field.description}"
    for item in settings.tsa:
        yield ""
        yield "[[tsa]]"
        yield from (f"{key} = {json.dumps(value)}" for key, value in item.as_written().items())
    yield ""
    yield "The configuration is good. Settings marked * differ from their default."


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else list(value) if value == () else value
