"""What the command writes: one JSON document or JSON Lines, or text for people; never both.

Text for people goes through `printable`, since receipts and bundles come from strangers and a terminal
obeys control characters; JSON has them escaped.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from receiptledger.core.verdict import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CliError", "Output", "complain", "printable"]

# Controls, and format characters that reorder or hide text; surrogates and private use.
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
_PLAIN = re.compile("[\x20-\x7e]*", re.ASCII)


class CliError(Exception):
    """The command was misused, or its input cannot be read; the message says what to do. Exit 2."""


def printable(text: str) -> str:
    """The text on one line, with everything a terminal could obey shown as an escape."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _UNPRINTABLE else c for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def complain(message: str) -> None:
    """One line on the error stream."""
    typer.echo(f"receiptledger: {printable(message)}", err=True)


class Output:
    """The standard output of one command.

    Args:
        as_json: whether machines read it.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        # Not wrapped, not interpreted, coloured on a terminal only.
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False)

    def document(self, value: object) -> None:
        """The command's one JSON document."""
        self.raw(json_text(value, indent=2).encode() + b"\n")

    def line(self, value: object) -> None:
        """One line of JSON Lines."""
        self.raw(json_text(value).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        typer.echo(data, nl=False)

    def text(self, line: str = "", style: str = "") -> None:
        """One line for people."""
        self._console.print(Text(printable(line), style))

    def styled(self, parts: Iterable[tuple[str, str]]) -> None:
        """One line for people of (text, style) parts."""
        self._console.print(Text.assemble(*((printable(text), style) for text, style in parts)))

    def tree(self, value: dict[str, Any], indent: str = "") -> None:
        """Nested values for people, one member a line."""
        width = max((len(name) for name in value), default=0)
        for name, item in value.items():
            if isinstance(item, dict):
                self.text(f"{indent}{name}")
                self.tree(item, indent + "  ")
            else:
                self.text(f"{indent}{name:<{width}}  {_plain(item)}")


def _plain(item: object) -> str:
    if item is None:
        return "-"
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
