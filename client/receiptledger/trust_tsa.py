"""Timestamp authorities of a trust file: `[[tsa]]`, whose roots are the auditor's own files.

    [[tsa]]
    name = "alpha"
    authority = "Alpha Trust GmbH"          # who operates it; the name when left out
    roots = ["alpha-root.pem"]              # beside the trust file, or absolute
    intermediates = ["alpha-issuing.pem"]   # optional
    certificate = "alpha-tsa.pem"           # optional: accept this signer alone
    policies = ["1.2.3.4"]                  # optional: accept these alone
    trusted_from = 2026-01-01T00:00:00Z     # optional
    trusted_until = 2036-01-01T00:00:00Z    # optional

Where a file is named, the PEM text itself may stand instead.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from receiptledger.certificates import read_bounded, read_certificates, to_pem
from receiptledger.core.canonical import shown
from receiptledger.core.leaf import is_tsa_name
from receiptledger.core.timestamp_types import TsaTrust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["TSA_MEMBERS", "check_operators", "format_tsa", "is_oid", "parse_tsa"]

TSA_MEMBERS = (
    "name",
    "authority",
    "roots",
    "intermediates",
    "certificate",
    "policies",
    "trusted_from",
    "trusted_until",
)
_PEM = "-----BEGIN "
_OID = re.compile(r"[0-2](?:\.(?:0|[1-9][0-9]{0,38})){1,30}", re.ASCII)
_MAX_AUTHORITY = 256  # characters


def parse_tsa(item: dict[str, Any], folder: Path | None) -> TsaTrust:
    """One `[[tsa]]` table, its members known to be of `TSA_MEMBERS`.

    Args:
        item: the table.
        folder: where relative file names start; None when only PEM text may stand.

    Raises:
        ValueError: a member is missing or wrong; the message names it.
    """
    name = item.get("name")
    if not is_tsa_name(name):
        raise ValueError("name is missing, or not 1 to 64 of a-z, 0-9 and . _ - in lower case")
    authority = item.get("authority", name)
    if not isinstance(authority, str) or not 0 < len(authority) <= _MAX_AUTHORITY:
        raise ValueError(f"authority is a text of at most {_MAX_AUTHORITY} characters")
    roots = _certificates(item, "roots", folder)
    if not roots:
        raise ValueError("roots is missing: name files with the authority's root certificates")
    trusted_from, trusted_until = _moment(item, "trusted_from"), _moment(item, "trusted_until")
    if trusted_from and trusted_until and trusted_from > trusted_until:
        raise ValueError("trusted_from is later than trusted_until")
    return TsaTrust(
        name=str(name),
        authority=authority,
        roots=roots,
        intermediates=_certificates(item, "intermediates", folder),
        certificate=_certificate(item, folder),
        policies=frozenset(_policies(item)),
        trusted_from=trusted_from,
        trusted_until=trusted_until,
    )


def check_operators(tsas: Iterable[TsaTrust]) -> None:
    """Refuse records of two operators that rest on one root: it would count twice for a quorum.

    A root is its key: issued anew, it is still the same one.

    Raises:
        ValueError: two such records; the message names them.
    """
    # Here, not above: agents' commands load this module, and X.509 costs a tenth of their start.
    from receiptledger.core.tsa_certificate import load_certificate

    owners: dict[bytes, TsaTrust] = {}
    for tsa in tsas:
        for root in tsa.roots:
            owner = owners.setdefault(load_certificate(root).spki, tsa)
            if owner.authority != tsa.authority:
                raise ValueError(
                    f"tsa {owner.name} and tsa {tsa.name} share a root certificate, but are said to be "
                    f"of two operators, {shown(owner.authority)} and {shown(tsa.authority)}: one would "
                    "count twice for the quorum; give both the same authority"
                )


def is_oid(text: str) -> bool:
    """Whether a text is an object identifier in dotted form."""
    return _OID.fullmatch(text) is not None


def format_tsa(tsa: TsaTrust, quoted: Callable[[str], str]) -> str:
    """The table that :func:`parse_tsa` reads back, with its certificates as PEM text."""

    def pems(certificates: tuple[bytes, ...]) -> str:
        texts = (quoted(to_pem((one,)).decode("ascii")) for one in certificates)
        return "[\n" + "".join(f"  {text},\n" for text in texts) + "]"  # lines have a limit

    lines = [
        f"name = {quoted(tsa.name)}",
        f"authority = {quoted(tsa.authority)}",
        f"roots = {pems(tsa.roots)}",
    ]
    if tsa.intermediates:
        lines.append(f"intermediates = {pems(tsa.intermediates)}")
    if tsa.certificate is not None:
        lines.append(f"certificate = {quoted(to_pem((tsa.certificate,)).decode('ascii'))}")
    if tsa.policies:
        oids = "".join(f"  {quoted(oid)},\n" for oid in sorted(tsa.policies))
        lines.append(f"policies = [\n{oids}]")
    for name, moment in (("from", tsa.trusted_from), ("until", tsa.trusted_until)):
        if moment is not None:
            lines.append(f"trusted_{name} = {moment.isoformat()}")
    return "[[tsa]]\n" + "\n".join(lines) + "\n"


def _certificates(item: dict[str, Any], name: str, folder: Path | None) -> tuple[bytes, ...]:
    entries = item.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError(f'{name} is a list of files, like ["root.pem"]')
    return tuple(one for entry in entries for one in _read(name, entry, folder))


def _certificate(item: dict[str, Any], folder: Path | None) -> bytes | None:
    entry = item.get("certificate")
    if entry is None:
        return None
    if not isinstance(entry, str):
        raise ValueError("certificate is one file")  # noqa: TRY004 - one error for all
    found = _read("certificate", entry, folder)
    if len(found) != 1:
        raise ValueError(f"certificate: {len(found)} certificates where one is wanted")
    return found[0]


def _read(name: str, entry: str, folder: Path | None) -> tuple[bytes, ...]:
    inline = entry.startswith(_PEM)
    if folder is None and not inline:
        raise ValueError(f"{name}: no folder to look for files in: put the PEM text here")
    try:
        data = entry.encode() if inline else read_bounded((folder or Path()) / entry)
        return read_certificates(data)
    except ValueError as error:
        what = "the PEM text" if inline else entry[:120]
        raise ValueError(f"{name}: {what}: {error}") from None


def _policies(item: dict[str, Any]) -> list[str]:
    policies = item.get("policies", [])
    if not isinstance(policies, list) or not all(
        isinstance(oid, str) and is_oid(oid) for oid in policies
    ):
        raise ValueError('policies is a list of object identifiers, like ["1.3.6.1.4.1.57264.2"]')
    return policies


def _moment(item: dict[str, Any], name: str) -> datetime | None:
    moment = item.get(name)
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError(f"{name} is a time with its offset and no quotes: 2026-01-01T00:00:00Z")
    return moment
