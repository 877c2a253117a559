"""The data of a receipt format for tests: a plain one, with members replaced."""

from __future__ import annotations

from receiptledger.core.profile import Profile, compile_profile

__all__ = ["JCS", "PART", "made_up", "part", "signed", "toml"]

PART = 'base = "{base}", {names}, set = {blank}, nulls = "{nulls}", keep_nulls = {kept}, canon = "{canon}"'
DEFAULT = {
    "id": '"made-up"',
    "version": "1",
    "title": '"A format of our own"',
    "detect": '[{ path = "kind", exists = true }]',
    "unwrap": '"none"',
    "equal": "[]",
    "signed": "",
    "digests": "[]",
    "signature": '{ path = "sig", encoding = "hex" }',
    "algorithm": '{ is = "Ed25519" }',
    "cosign": "[]",
    "unsigned": '"list"',
    "key_hint": '"none"',
    "kid": '"none"',
    "agent": '"agent"',
    "stream": "[]",
    "sequence": '"none"',
    "time": '"none"',
    "previous": '"none"',
    "pair": '"none"',
}


def part(
    base: str = "",
    names: str = 'drop = ["sig"]',
    *,
    blank: str = "[]",
    nulls: str = "keep",
    kept: str = "[]",
    canon: str = "jcs",
    domain: str = "",
) -> str:
    """The members of a part of a receipt, without braces."""
    inner = PART.format(base=base, names=names, blank=blank, nulls=nulls, kept=kept, canon=canon)
    return f'{inner}, domain = "{domain}"'


def signed(inner: str | None = None, *, prehash: str = "none", forbid: str = "[]") -> str:
    """The `signed` table over a part."""
    return f'{{ {inner or part()}, prehash = "{prehash}", forbid = {forbid} }}'


JCS = signed()


def toml(**changes: str) -> str:
    """The data of a format whose receipts are {kind, agent, ..., sig}, with members replaced."""
    data = {**DEFAULT, "signed": JCS, **changes}
    return "".join(f"{name} = {text}\n" for name, text in data.items())


def made_up(**changes: str) -> Profile:
    """The same, compiled."""
    return compile_profile(toml(**changes), "made-up.toml")
