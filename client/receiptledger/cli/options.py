"""Options that several sub-commands share, and how their values are read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from receiptledger.address import DEFAULT_ADDRESS
from receiptledger.certificates import read_bounded, read_certificates
from receiptledger.cli.output import CliError
from receiptledger.core import public_key
from receiptledger.core.encoding import parse_digest
from receiptledger.core.errors import EvidenceError
from receiptledger.core.instants import parse_instant
from receiptledger.core.leaf import is_tsa_name
from receiptledger.core.note import VerifierKey
from receiptledger.core.timestamp_types import TsaTrust
from receiptledger.core.trust import MAX_TSAS, POLICIES, Trust
from receiptledger.trust import load_trust
from receiptledger.trust_tsa import check_operators

__all__ = [
    "AgentKeys",
    "AsJson",
    "At",
    "Ledger",
    "LogKeys",
    "State",
    "TrustFile",
    "TsaRoots",
    "build_trust",
    "moment_of",
    "one_log_key",
    "one_stdin",
    "parse_hash",
    "parse_public_key",
    "read_file",
]

Ledger = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="RECEIPTLEDGER_ADDRESS",
        metavar="HOST:PORT",
        help="gRPC address of the ledger.",
    ),
]
LEDGER_DEFAULT = DEFAULT_ADDRESS
_MAX_KEY_BYTES = 4_096
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for machines.")]
LogKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--log-key",
        envvar="RECEIPTLEDGER_LOG_KEY",
        metavar="VKEY",
        help="Verification key of a log you trust, NAME+ID+KEY, or a file with it. Repeatable.",
    ),
]
TrustFile = Annotated[
    Path | None,
    typer.Option("--trust", metavar="FILE", help="Trust file with logs, agents and demands."),
]
AgentKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-key",
        metavar="AGENT=KEY",
        help="Public key an agent is known to use: Ed25519, ES256:KEY or ML-DSA-65:KEY. Repeatable.",
    ),
]
TsaRoots = Annotated[
    list[str] | None,
    typer.Option(
        "--tsa-root",
        metavar="NAME=FILE",
        help="Root certificate of a timestamp authority you trust, PEM. Repeatable; the same NAME "
        "adds a root.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="Remember the last verified checkpoint in this file, and hold the log against it.",
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Judge timestamps as of this moment, RFC 3339; now by default.",
    ),
]


def moment_of(at: str | None) -> datetime:
    """The moment of judging: what `--at` says, or now in whole seconds; aware.

    Raises:
        CliError: it is no time.
    """
    if at is None:
        return datetime.now(UTC).replace(microsecond=0)
    try:
        return parse_instant(at)
    except ValueError as error:
        raise CliError(f"--at {at[:80]!r}: {error}") from None


def one_stdin(files: dict[str, Path | None]) -> None:
    """Refuse the standard input for more than one file: the second would be empty.

    Args:
        files: by the argument or option that names them.

    Raises:
        CliError: names them.
    """
    named = [name for name, path in files.items() if path is not None and str(path) == "-"]
    if len(named) > 1:
        raise CliError(
            f"- is the standard input, which is read once: not for {' and '.join(named)}"
        )


def read_file(path: Path, limit: int, what: str) -> bytes:
    """A whole file, `-` for the standard input.

    Args:
        path: the file.
        limit: bytes.
        what: what it should be, for messages.

    Raises:
        CliError: it cannot be read, or is longer.
    """
    try:
        if str(path) == "-":
            data = typer.get_binary_stream("stdin").read(limit + 1)
        else:
            with path.open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise CliError(f"cannot read the {what} {path}: {error.strerror}") from None
    if len(data) > limit:
        raise CliError(f"{path} is too long for a {what}: at most {limit} bytes")
    return data


def parse_public_key(text: str, where: str) -> bytes:
    """The bytes of a public key.

    Raises:
        CliError: it is none.
    """
    try:
        return public_key.parse_public_key(text)
    except ValueError as error:
        raise CliError(f"{where}: no public key: {error}") from None


def parse_hash(text: str) -> bytes:
    """The 32 bytes of a receipt hash, with or without `sha256:`.

    Raises:
        CliError: it is none.
    """
    try:
        return parse_digest(text if text.startswith("sha256:") else f"sha256:{text}")
    except ValueError as error:
        raise CliError(f"--hash {text!r} is no receipt hash: {error}") from None


def build_trust(
    log_keys: list[str] | None,
    trust_file: Path | None,
    agent_keys: list[str] | None,
    require: list[str] | None = None,
    tsa_roots: list[str] | None = None,
) -> Trust:
    """What the options say, on top of what the trust file says.

    Raises:
        CliError: no log key at all, or a value that is none.
        TrustError: the trust file cannot be used.
    """
    base = Trust(()) if trust_file is None else load_trust(trust_file)
    logs = base.log_keys + tuple(_log_key(text) for text in log_keys or ())
    if not logs:
        raise CliError(
            "no log key: give --log-key VKEY (the ledger's operator publishes it; get it from "
            "somewhere you trust) or --trust FILE"
        )
    agents = dict(base.agent_keys)
    for text in agent_keys or ():
        # Keys hold no equals sign, agent ids may.
        agent, equals, key = text.rpartition("=")
        if not equals or not agent:
            raise CliError(f"--agent-key expects AGENT=KEY, got {text!r}")
        agents[agent] = (*agents.get(agent, ()), parse_public_key(key, f"--agent-key {agent}"))
    for name in require or ():
        if name not in POLICIES:
            raise CliError(f"--require expects one of {', '.join(POLICIES)}, got {name!r}")
    return replace(
        base,
        log_keys=logs,
        agent_keys=agents,
        require=base.require | frozenset(require or ()),
        tsas=_with_roots(base.tsas, tsa_roots or []),
    )


def _with_roots(tsas: tuple[TsaTrust, ...], options: list[str]) -> tuple[TsaTrust, ...]:
    """The trust file's authorities and those of the options; each of the latter is its own operator."""
    if not options:
        return tsas
    found = {tsa.name: tsa for tsa in tsas}
    for text in options:
        name, equals, file = text.partition("=")
        if not equals or not is_tsa_name(name) or not file:
            raise CliError(
                f"--tsa-root expects NAME=FILE, the name in lower case, got {text[:120]!r}"
            )
        try:
            roots = read_certificates(read_bounded(Path(file)))
        except ValueError as error:
            raise CliError(f"--tsa-root {name}: {error}") from None
        known = found.get(name)
        found[name] = (
            TsaTrust(name, name, roots)
            if known is None
            else replace(known, roots=(*known.roots, *roots))
        )
    if len(found) > MAX_TSAS:
        raise CliError(f"{len(found)} timestamp authorities, at most {MAX_TSAS}")
    try:
        check_operators(found.values())
    except ValueError as error:
        raise CliError(f"--tsa-root: {error}") from None
    return tuple(found.values())


def one_log_key(trust: Trust) -> VerifierKey:
    """The key of the log that is asked, when there is no doubt about it.

    Raises:
        CliError: there are several.
    """
    if len(set(map(str, trust.log_keys))) > 1:  # the same key may come from two places
        names = ", ".join(key.name for key in trust.log_keys)
        raise CliError(f"several log keys ({names}): give the one of this ledger alone")
    return trust.log_keys[0]


def _log_key(text: str) -> VerifierKey:
    """A key as it is, or the file that holds it alone."""
    try:
        return VerifierKey.parse(text)
    except EvidenceError as error:
        failure = error
    if not _is_file(text):
        raise CliError(f"--log-key {text[:120]!r} is no log key and no file: {failure.message}")
    data = read_file(Path(text), _MAX_KEY_BYTES, "log key")
    try:
        return VerifierKey.parse(data.decode("utf-8", "replace").strip())
    except EvidenceError:
        raise CliError(f"the file {text!r} holds no log key alone on a line") from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than a path may be, or with a zero byte
        return False
