"""`ledgerd dev-tsa`: run a development TSA until SIGTERM or SIGINT, and say how to use it."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING, Any

from ledgerd.devtsa.pki import NOTICE
from ledgerd.devtsa.server import DevTsa

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ledgerd.devtsa.pki import KeyKind

__all__ = ["config_block", "describe", "serve"]


def serve(
    folder: Path,
    say: Callable[[str], None],
    *,
    name: str | None,
    key: KeyKind | None,
    port: int,
    mode: str,
    as_json: bool,
) -> None:
    """Serve until a signal; `say` prints one text when it is ready.

    Call it from the main thread: signals are taken there.

    Raises:
        DevTsaError: when it cannot start.
    """
    ended = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        with DevTsa(folder, name=name, key=key, port=port, mode=mode) as tsa:
            say(json.dumps(_facts(tsa)) if as_json else describe(tsa))
            ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(tsa: DevTsa) -> str:
    """What a person needs to use it."""
    return f"""{NOTICE}: a timestamp authority for development, with its keys in {tsa.folder}.
Whoever can read them can date anything.

URL         {tsa.url}
root        {tsa.root_file}
key, mode   {tsa.key}, {tsa.mode}

For the configuration of a ledger that is being tried out:

{config_block(tsa)}
Ready. Ctrl-C ends it."""


def config_block(tsa: DevTsa) -> str:
    """Its `[[tsa]]` block, TOML."""
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in tsa.settings.items()
    ]
    return "\n".join([f"[[tsa]]  # {NOTICE}", *lines, ""])


def _facts(tsa: DevTsa) -> dict[str, Any]:
    return {
        "notice": NOTICE,
        "url": tsa.url,
        "root": str(tsa.root_file),
        "intermediate": str(tsa.intermediate_file),
        "certificate": str(tsa.certificate_file),
        "key": tsa.key,
        "mode": tsa.mode,
        "settings": tsa.settings,
        "config": config_block(tsa),
    }
