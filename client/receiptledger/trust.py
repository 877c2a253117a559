"""The auditor's trust file: which logs, agents and authorities to believe, what to demand. TOML.

    [[log]]
    key = "example.com/receipts+3f2a...+AZ..."

    [[agent]]
    id = "billing-agent"
    public_key = "hex or base64url; after ES256: or ML-DSA-65: unless Ed25519"

    [[tsa]]
    name = "alpha"
    roots = ["alpha-root.pem"]

    [policy]
    require = ["agent-key", "anchor"]
    tsa_quorum = 1

The members of `[[tsa]]` are in `trust_tsa`. Strict: an unknown name is refused, naming the nearest known
one, since a misspelt demand would demand nothing. A second `[[agent]]` with the same id adds a key.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from receiptledger.core.canonical import shown
from receiptledger.core.errors import EvidenceError
from receiptledger.core.note import VerifierKey
from receiptledger.core.public_key import format_public_key, parse_public_key
from receiptledger.core.trust import MAX_TSAS, POLICIES, Trust
from receiptledger.trust_tsa import TSA_MEMBERS, check_operators, format_tsa, parse_tsa

if TYPE_CHECKING:
    from collections.abc import Collection

    from receiptledger.core.timestamp_types import TsaTrust

__all__ = ["TrustError", "format_trust", "load_trust", "parse_trust"]

_MAX_BYTES = 65_536
_MAX_LINE = 16_384  # characters; a certificate in PEM, written as one text, has some 2,000
_MAX_DOTS = 8  # of a line, texts and comments aside: no name here has any, a time has one
# TOML's texts and comments. What does not end, ends with its line or the file: so this is one pass.
_TEXTS = re.compile(
    r'''"""(?:[^\\]|\\(?:.|\Z))*?(?:"""|\Z)|'{3}.*?(?:'{3}|\Z)'''
    r"""|"(?:[^"\\\n]|\\[^\n]|\\(?=\n|\Z))*"?|'[^'\n]*'?|\#[^\n]*""",
    re.DOTALL,
)


class TrustError(Exception):
    """A trust file cannot be used; the message names the place and what was expected there."""


def load_trust(path: Path | str) -> Trust:
    """Read a trust file.

    Raises:
        TrustError: it cannot be read, or is not a trust file.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise TrustError(f"{path} is too long for a trust file: at most {_MAX_BYTES} bytes")
        return parse_trust(data.decode("utf-8"), str(path), path.parent)
    except OSError as error:
        raise TrustError(f"cannot read the trust file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TrustError(f"{path} is not UTF-8: byte {error.start}") from None


def parse_trust(text: str, source: str = "trust.toml", folder: Path | None = None) -> Trust:
    """Read the text of a trust file.

    Args:
        text: TOML.
        source: what to call it in messages.
        folder: where the files of `[[tsa]]` are; without one their PEM text must stand there.

    Raises:
        TrustError: for anything but the members shown in this module, or a key that is none.
    """
    _check_lines(source, text)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also: a number of more digits than Python reads
        raise TrustError(f"{source} is not TOML: {error}") from None
    _known(source, data, ("log", "agent", "tsa", "policy"))
    logs = tuple(
        _log_key(f"{source}: [[log]] {number}", item)
        for number, item in enumerate(_tables(source, data, "log"), 1)
    )
    if not logs:
        raise TrustError(f'{source} names no log: add [[log]] with key = "NAME+ID+KEY"')
    agents: dict[str, tuple[bytes, ...]] = {}
    for number, item in enumerate(_tables(source, data, "agent"), 1):
        name, key = _agent(f"{source}: [[agent]] {number}", item)
        if key not in agents.get(name, ()):
            agents[name] = (*agents.get(name, ()), key)
    tsas = _tsas(source, data, folder)
    require, quorum = _policy(source, data, len({tsa.authority for tsa in tsas}))
    return Trust(logs, agents, None, require, tsas, quorum)


def _check_lines(source: str, text: str) -> None:
    """Refuse what costs a TOML reader far more time than its length promises: long dotted names."""
    if len(text) > _MAX_BYTES:
        raise TrustError(f"{source} is too long for a trust file: at most {_MAX_BYTES} bytes")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _MAX_LINE:
            raise TrustError(f"{source}: line {number} is too long: at most {_MAX_LINE} characters")
    bare = _TEXTS.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(bare.split("\n"), 1):
        if line.count(".") > _MAX_DOTS:
            raise TrustError(f"{source}: line {number}: a name in so many parts; none here has two")


def format_trust(trust: Trust) -> str:
    """The text that :func:`parse_trust` reads back as the same trust, without what is remembered."""
    parts = [f"[[log]]\nkey = {_quoted(str(key))}\n" for key in trust.log_keys]
    parts += [
        f"[[agent]]\nid = {_quoted(agent)}\npublic_key = {_quoted(format_public_key(key))}\n"
        for agent, keys in trust.agent_keys.items()
        for key in keys
    ]
    parts += [format_tsa(tsa, _quoted) for tsa in trust.tsas]
    policy = ""
    if trust.require:
        policy += f"require = [{', '.join(_quoted(name) for name in sorted(trust.require))}]\n"
    if trust.tsa_quorum != 1:
        policy += f"tsa_quorum = {trust.tsa_quorum}\n"
    if policy:
        parts.append(f"[policy]\n{policy}")
    return "\n".join(parts)


def _quoted(text: str) -> str:
    # A JSON string in ASCII is a TOML basic string, but for DEL and for surrogate pairs, which
    # TOML wants as one escape: leave all beyond ASCII as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _tables(source: str, data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = data.get(name, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise TrustError(f"{source}: {name} is written [[{name}]], in double brackets")
    return items


def _log_key(where: str, item: dict[str, Any]) -> VerifierKey:
    _known(where, item, ("key",))
    try:
        return VerifierKey.parse(_text(where, item, "key"))
    except EvidenceError as error:
        raise TrustError(f"{where}: key is no log key: {error.message}") from None


def _agent(where: str, item: dict[str, Any]) -> tuple[str, bytes]:
    _known(where, item, ("id", "public_key"))
    name = _text(where, item, "id")
    try:
        return name, parse_public_key(_text(where, item, "public_key"))
    except ValueError as error:
        raise TrustError(f"{where}: public_key: {error}") from None


def _tsas(source: str, data: dict[str, Any], folder: Path | None) -> tuple[TsaTrust, ...]:
    tables = _tables(source, data, "tsa")
    if len(tables) > MAX_TSAS:
        raise TrustError(f"{source}: {len(tables)} [[tsa]] tables, at most {MAX_TSAS}")
    tsas: list[TsaTrust] = []
    for number, item in enumerate(tables, 1):
        where = f"{source}: [[tsa]] {number}"
        _known(where, item, TSA_MEMBERS)
        try:
            tsas.append(parse_tsa(item, folder))
        except ValueError as error:
            raise TrustError(f"{where}: {error}") from None
        if tsas[-1].name in {tsa.name for tsa in tsas[:-1]}:
            raise TrustError(f"{where}: a second authority named {tsas[-1].name}")
    try:
        check_operators(tsas)
    except ValueError as error:
        raise TrustError(f"{source}: {error}") from None
    return tuple(tsas)


def _policy(source: str, data: dict[str, Any], authorities: int) -> tuple[frozenset[str], int]:
    policy = data.get("policy", {})
    if not isinstance(policy, dict):
        raise TrustError(f"{source}: policy is written [policy], in single brackets")
    _known(f"{source}: [policy]", policy, ("require", "tsa_quorum"))
    require = policy.get("require", [])
    if not isinstance(require, list) or not all(isinstance(name, str) for name in require):
        raise TrustError(f"{source}: [policy]: require is a list of {', '.join(POLICIES)}")
    _known(f"{source}: [policy] require", require, POLICIES)
    quorum = policy.get("tsa_quorum", 1)
    # A quorum that can never be reached would make every bundle undecidable.
    if type(quorum) is not int or not 1 <= quorum <= max(authorities, 1):
        raise TrustError(
            f"{source}: [policy]: tsa_quorum is a number from 1 to the {authorities} different "
            "authorities of the [[tsa]] tables"
        )
    return frozenset(require), quorum


def _text(where: str, item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise TrustError(f"{where}: {name} is missing, or no text")
    return value


def _known(where: str, names: Collection[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise TrustError(f"{where}: unknown name {shown(name)}; {hint}")
