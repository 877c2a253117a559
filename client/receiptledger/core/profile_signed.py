"""The tables of a format's data that say which bytes are signed or hashed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.dialect import DIALECTS
from receiptledger.core.signed import NULL_RULES, Part, Signing, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from receiptledger.core.profile_data import Table

__all__ = ["read_part", "read_signing"]


def read_part(table: Table) -> Part:
    """A part of a receipt: `base`, `drop` or `keep`, `set`, `nulls`, `keep_nulls`, `canon`, `domain`.

    Raises:
        ValueError: naming the member that is wrong.
    """
    part = _part(table)
    if not table.take_empty("domain"):
        raise table.wrong("domain", "empty: only signatures have one")
    table.close()
    return part


def _part(table: Table) -> Part:
    base = () if table.take_empty("base") else path_of(table.path("base"))
    keep = table.names("keep") if table.has("keep") else None
    drop = table.names("drop") if keep is None else ()
    blank = []
    for inner in table.tables("set", least=0):
        path = path_of(inner.path("path"))
        if path[: len(base)] != base or len(path) == len(base):
            raise inner.wrong("path", "a member inside base")
        text = None if inner.take_null("value") else inner.empty("value")
        inner.close()
        blank.append((path, text))
    nulls = table.choice("nulls", NULL_RULES)
    kept = frozenset(table.names("keep_nulls"))
    canon = table.choice("canon", DIALECTS)
    if canon == "as-carried" and (drop or keep is not None or blank or nulls != "keep"):
        raise table.wrong("canon", "another one: bytes as carried cannot leave anything out")
    return Part(base, drop, keep, tuple(blank), nulls, kept, canon)


def read_signing(
    table: Table, digests: Mapping[str, tuple[Part, str]]
) -> tuple[Signing, tuple[str, ...]]:
    """What a signature is over, and the paths of members that are forbidden.

    Args:
        table: of the data.
        digests: parts by the path of the member that has their digest.

    Raises:
        ValueError: naming the member that is wrong.
    """
    text = prefix = ""
    if table.has("text"):
        text = table.path("text")
        if text not in digests:
            raise table.wrong("text", "the path of one of the digests")
        part = digests[text][0]
    else:
        prefix = table.path("prefix") if table.has("prefix") else ""
        part = _part(table)
    prehash = table.choice("prehash", ("none", "sha256")) == "sha256"
    domain = "" if table.take_empty("domain") else table.text("domain")
    forbidden = table.paths("forbid")
    table.close()
    return Signing(part, prehash, domain, text, prefix), forbidden
