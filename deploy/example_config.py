"""Writes deploy/ledgerd.toml from ledgerd/config.py, so that the two cannot drift apart.

    python deploy/example_config.py            write it
    python deploy/example_config.py --check    exit code 1 when it is stale

A comment line of its own in the class body of Settings, followed by a setting, is a heading.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from ledgerd.config import AgentKey, Settings, TsaSettings

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = ["EXAMPLE", "EXAMPLE_KEY", "EXAMPLE_TSA", "main", "render"]

EXAMPLE = Path(__file__).resolve().parent / "ledgerd.toml"
WIDTH = 100
# A key whose private half was thrown away: enrolled by mistake, it lets nobody in.
EXAMPLE_KEY = AgentKey(
    agent="did:web:agents.example.org:billing",
    public_key="OitjqRtjIvvE4LJmN58rnAa4MP8zSsEuE8Osn6mW7xc",
)
EXAMPLE_PROFILES = Path("/etc/ledgerd/profiles")
# What each table of a TSA must have, and what most should say; the rest at its default.
EXAMPLE_TSA = {
    "name": "tsa-one",
    "authority": "Example Trust Ltd.",
    "url": "https://tsa.example.org/tsr",
    "roots": ["/etc/ledgerd/tsa-one-root.pem"],
}

_HEADER = """\
# Every setting of ledgerd, commented out at its default; remove the "#" before a name to change it.
#
# Sources, the first that has a value wins: command line flags (--set NAME=VALUE), environment
# (LEDGERD_ and the name in capitals), this file, the default. Unknown names are refused, also in the
# environment. Relative paths start at the working directory; for deploy/ledgerd.service that is
# /var/lib/ledgerd. A running daemon does not read this file again: restart it.
#
#     ledgerd check-config --config FILE    checks a file and shows what is in force
#
# Written by deploy/example_config.py from ledgerd/config.py, where names, defaults and reasons live.
"""


def render() -> str:
    """The whole file."""
    headings = _headings()
    lines = [_HEADER]
    for name, field in Settings.model_fields.items():
        if name in headings:
            lines += ["", f"## {headings[name]}", ""]
        if name in ("agent_keys", "tsa"):
            continue
        lines += [*_comment(field.description or ""), _assignment(name, field), ""]
    # A table must follow all plain settings, or it would swallow them.
    lines += ["## Enrolled agents; repeat the table for each key", ""]
    lines += _table("agent_keys", AgentKey, EXAMPLE_KEY.model_dump())
    lines += ["## Timestamp authorities; repeat the table for each", ""]
    lines += _table("tsa", TsaSettings, EXAMPLE_TSA)
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def _table(setting: str, model: type[BaseModel], example: dict[str, Any]) -> list[str]:
    """A table that may be repeated: what each member is for, then one that works."""
    lines = _comment(Settings.model_fields[setting].description or "")
    for name, field in model.model_fields.items():
        lines += _comment(f"{name}: {field.description}{_default(field)}")
    lines.append(f"#[[{setting}]]")
    lines += [f"#{name} = {json.dumps(value)}" for name, value in example.items()]
    return [*lines, ""]


def _default(field: FieldInfo) -> str:
    """The default of a table's member, where it is a value one could write."""
    if field.is_required() or field.default_factory is not None or field.default in (None, ()):
        return ""
    allowed = _allowed(field)
    return f" Default: {_toml(field.default)}{f' ({allowed})' if allowed else ''}."


def _headings() -> dict[str, str]:
    """Setting -> the heading above it."""
    found = re.findall(r"\n    # (.+)\.\n    (\w+):", inspect.getsource(Settings))
    return {name: text for text, name in found}


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


def _assignment(name: str, field: FieldInfo) -> str:
    value = field.default
    if value is None:  # TOML has no null: show what it comes to
        value = {
            "guard_path": Settings().guard_file,
            "log_key_path": Settings().log_key_file,
            "profiles_dir": EXAMPLE_PROFILES,
        }[name]
    line = f"#{name} = {_toml(value)}"
    allowed = _allowed(field)
    return f"{line}  # {allowed}" if allowed else line


def _toml(value: object) -> str:
    """JSON's scalars are TOML's, for the values we have."""
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _allowed(field: FieldInfo) -> str:
    """The limits of a value in words, or nothing."""
    if get_origin(field.annotation) is Literal:
        return " or ".join(json.dumps(option) for option in get_args(field.annotation))
    limits: dict[str, Any] = {}
    for item in field.metadata:
        limits |= {name: getattr(item, name) for name in ("gt", "ge", "le") if hasattr(item, name)}
    low = f"above {limits['gt']}" if "gt" in limits else f"{limits.get('ge', '')}"
    if "le" in limits:
        joint = ", at most " if "gt" in limits else ".."
        return f"{low}{joint}{limits['le']}"
    return f"at least {low}" if low else ""


def main(arguments: list[str]) -> int:
    """Write the file, or with --check compare it."""
    text = render()
    if arguments == ["--check"]:
        if EXAMPLE.is_file() and EXAMPLE.read_text("utf-8") == text:
            return 0
        sys.stderr.write(f"{EXAMPLE.name} is stale: run python deploy/example_config.py\n")
        return 1
    EXAMPLE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
