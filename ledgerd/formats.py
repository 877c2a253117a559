"""The receipt formats of this daemon: the built-in ones, and those of the operator's folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from receiptledger.core.profile import Profiles
from receiptledger.profile_folder import read_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Formats", "FormatsError", "open_formats"]


class FormatsError(Exception):
    """A folder of receipt formats cannot be used; the message names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class Formats:
    """What is known here.

    Attributes:
        profiles: all of them.
        sources: (file name, TOML) of those of the folder, for the processes that verify.
    """

    profiles: Profiles
    sources: tuple[tuple[str, str], ...]


def open_formats(folder: Path | None, where: str = "profiles_dir") -> Formats:
    """Read the operator's formats.

    Args:
        folder: None for the built-in ones alone.
        where: the setting or option that names it, for messages.

    Raises:
        FormatsError: it cannot be read, or a format is wrong.
    """
    if folder is None:
        return Formats(Profiles.builtin(), ())
    try:
        sources = read_folder(folder)
        return Formats(Profiles.with_folder(sources), sources)
    except ValueError as error:
        raise FormatsError(f"{where}: {error}") from None
