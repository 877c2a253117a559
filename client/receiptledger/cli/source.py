"""Reads receipts out of files, byte for byte as they are.

Two shapes. JSON Lines: one receipt a line, of which only the newline is taken off. One JSON document: a
receipt, or an array of receipts; its elements are cut out of the source text, never written anew, since a
signature holds for the exact bytes. What is no receipt is sent too: the ledger says what is wrong with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import stat
from typing import TYPE_CHECKING

import typer

from receiptledger.cli.output import CliError
from receiptledger.receipt_files import Item, is_object, split_document, split_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["Item", "read_items", "read_lines", "split_document"]

MAX_LINE_BYTES = 16 * 1024 * 1024  # far beyond what a ledger accepts, and it says so itself
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024  # a document is held in memory; JSON Lines are not


async def read_items(lines: AsyncIterator[bytes], *, array: bool) -> AsyncIterator[Item]:
    """The receipts of a source, in order.

    Args:
        lines: the source, each line with its newline.
        array: the source is one JSON document for certain; else it is detected.

    Raises:
        CliError: it is no document, or too long for one.
    """
    number, kept = 0, bytearray()
    seen = streaming = False
    async for line in lines:
        number += 1
        if not seen and line.strip():
            seen, streaming = True, not array and is_object(line)
        if not streaming:
            kept += line
            if len(kept) > MAX_DOCUMENT_BYTES:
                raise CliError(
                    f"one JSON document of more than {MAX_DOCUMENT_BYTES} bytes: write one receipt a "
                    "line instead"
                )
        elif line.strip():
            yield Item(number, line.removesuffix(b"\n"))
    if streaming:
        return
    items = split_document(bytes(kept))
    if items is None and array:
        raise CliError("the input is neither one JSON object nor an array of them")
    for item in items if items is not None else split_lines(bytes(kept)):
        yield item


async def read_lines(path: Path) -> AsyncIterator[bytes]:
    """The lines of a file, `-` for the standard input, each with its newline but perhaps the last.

    Raises:
        CliError: it cannot be read, or a line is too long.
    """
    if str(path) == "-":
        stdin = typer.get_binary_stream("stdin")
        if _can_wait(stdin):
            async for line in _pipe_lines(stdin):
                yield line
        else:
            for line in _file_lines(stdin, "the standard input"):
                yield line
        return
    try:
        with path.open("rb") as file:
            for line in _file_lines(file, str(path)):
                yield line
    except OSError as error:
        raise CliError(f"cannot read {path}: {error.strerror}") from None


def _file_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise _too_long(name, number)
        yield line


def _can_wait(file: BinaryIO) -> bool:
    """Whether the event loop can wait for it: a pipe or socket that somebody writes to slowly."""
    try:
        mode = os.fstat(file.fileno()).st_mode
    except (OSError, io.UnsupportedOperation):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _pipe_lines(file: BinaryIO) -> AsyncIterator[bytes]:
    """Lines as they come, while receipts before them are being sent."""
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    # A copy: closing the transport closes what it was given.
    copy = os.fdopen(os.dup(file.fileno()), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), copy)
    number = 0
    try:
        while line := await reader.readline():
            number += 1
            yield line
    except ValueError:
        raise _too_long("the standard input", number + 1) from None
    finally:
        transport.close()
        with contextlib.suppress(OSError):
            os.set_blocking(file.fileno(), True)  # whoever shares the pipe expects it


def _too_long(name: str, number: int) -> CliError:
    return CliError(f"line {number} of {name} is longer than {MAX_LINE_BYTES} bytes")
