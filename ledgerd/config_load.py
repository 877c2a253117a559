"""Where settings come from: reads, merges and checks them.

The first source that has a value wins: command line flags, environment (`LEDGERD_NAME`), the TOML file,
the default. Unknown names are refused, and the message names the nearest known one.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_settings import SettingsError

from ledgerd.config import ENV_PREFIX, Settings
from ledgerd.config_words import TABLES, problems, unknown

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ConfigError", "load_settings"]

# Kubernetes puts these into every container beside a service named ledgerd; they are not for us.
_FOREIGN_ENV = re.compile(r"LEDGERD_(SERVICE|PORT)(_.*)?", re.IGNORECASE)


class ConfigError(Exception):
    """The configuration cannot be used; the message says which setting and what was expected."""


def load_settings(config: Path | None = None, flags: dict[str, Any] | None = None) -> Settings:
    """Read, merge and check the configuration.

    Args:
        config: TOML file, or None.
        flags: settings from the command line, by name.

    Raises:
        ConfigError: for an unreadable file, an unknown name or a bad value.
    """
    from_file = {} if config is None else _read(config)
    flags = flags or {}
    _known(from_file, f"{config}")
    _known(flags, "the command line")
    environment = {
        name.removeprefix(ENV_PREFIX).lower(): name
        for name in os.environ
        if name.upper().startswith(ENV_PREFIX) and not _FOREIGN_ENV.fullmatch(name)
    }
    _known(environment, "the environment")
    # A file value only fills what neither flag nor environment gives.
    values = {name: value for name, value in from_file.items() if name not in environment} | flags
    try:
        return Settings(**values)
    except ValidationError as error:
        tables = {name: _table(values, environment, name) for name in TABLES}
        raise ConfigError("\n".join(problems(error.errors(), Settings, tables))) from None
    except SettingsError as error:  # a list in the environment that is not JSON
        raise ConfigError(f"the environment cannot be read: {error}, {error.__cause__}") from None


def _table(values: dict[str, Any], environment: dict[str, str], name: str) -> object:
    """A table as it was given, wherever that was; None when it was not."""
    if name in values or name not in environment:
        return values.get(name)
    try:
        return json.loads(os.environ[environment[name]])
    except ValueError:
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _known(values: dict[str, Any], where: str) -> None:
    for name in values:
        if name not in Settings.model_fields:
            raise ConfigError(unknown(name, where, Settings.model_fields))
