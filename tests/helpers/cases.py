"""Named cases for parametrised tests: the name is what a failing run shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["named"]


def named(cases: Mapping[str, Any]) -> list[Any]:
    """Cases by name; a tuple is the arguments of one case."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), id=name.replace(" ", "-"))
        for name, case in cases.items()
    ]
