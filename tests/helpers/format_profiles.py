"""The table of shipped receipt formats in proto/FORMATS.md, made from their data.

`python -m tests.helpers.format_profiles` prints it.
"""

from __future__ import annotations

import tomllib
from typing import Any

from receiptledger.core.profiles import read_sources

__all__ = ["EXAMPLE", "example", "table"]

EXAMPLE = "draft-farley-04.toml"


def example() -> str:
    """The data of one format, whole, without its comments."""
    text = dict(read_sources())[EXAMPLE]
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return "\n".join(line for line in lines if line)


def table() -> str:
    """One row for each format, in the order in which they are tried."""
    rows = [
        "| id, version | format | signed bytes | the next receipt's previous hash | number | outside |",
        "|---|---|---|---|---|---|",
    ]
    rows += [_row(tomllib.loads(text)) for _, text in read_sources()]
    return "\n".join(rows)


def _row(data: dict[str, Any]) -> str:
    cells = [
        f"`{data['id']}`, {data['version']}",
        data["title"],
        _signed(data),
        _link(data["previous"]),
        _sequence(data["sequence"]),
        "refused" if data["unsigned"] == "refuse" else "listed",
    ]
    return f"| {' | '.join(cells)} |"


def _signed(data: dict[str, Any]) -> str:
    signed = data["signed"]
    if isinstance(signed, str):
        return "the envelope's"
    words = f"the text of `{signed['text']}`" if "text" in signed else _part(signed)
    if "prefix" in signed:
        words = f"the text of `{signed['prefix']}`, a full stop, {words}"
    if signed["prehash"] != "none":
        words = f"SHA-256 of {words}"
    if signed["domain"]:
        words = f"`{ascii(signed['domain'])[1:-1]}`, {words}"
    inner = data["unwrap"]
    if isinstance(inner, dict):
        words += f", of the receipt at `{inner['path']}`"
    extra = [one["name"] for one in data["cosign"]]
    return words + (f"; cosigned by {', '.join(extra)}" if extra else "")


def _part(part: dict[str, Any]) -> str:
    words = f"`{part['base']}`" if part["base"] else "the receipt"
    if "keep" in part:
        words += f", its {len(part['keep'])} named members"
    elif part["drop"]:
        words += " without " + ", ".join(f"`{name}`" for name in part["drop"])
    if part["set"]:
        words += f", {len(part['set'])} members blanked"
    if part["nulls"] != "keep":
        words += ", nulls left out"
    return f"{part['canon']}({words})"


def _link(previous: Any) -> str:
    if previous == "none":
        return "none: the order is the ledger's"
    of = previous["of"]
    if of == "full":
        words = f"{previous['canon']}(the receipt)"
    else:
        words = f"`{of['text']}` of the receipt" if "text" in of else _part(of)
    return f"`{previous['path']}`: {words}, {previous['encoding']}; first: {', '.join(previous['genesis'])}"


def _sequence(sequence: Any) -> str:
    if sequence == "none":
        return "none"
    return f"`{sequence['path']}` from {sequence['start']}"


if __name__ == "__main__":
    print(table())
