"""The rows of the conformance set that every format has: what a verifier must say, by rule.

What is expected is worked out from the format's own data and from how each case was made, never from
what the verifier says.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from receiptledger.core.profiles import read_sources
from tests.helpers.reading import with_member

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.helpers.receipts import Document
    from tests.vectors.signers import Signer

__all__ = ["Case", "cases"]


@dataclass(frozen=True)
class Case:
    """One row, and the bytes of its receipts.

    Attributes:
        name: of the row; new files are called after it.
        lines: the receipts.
        expect, reason: see the manifest.
        keys: of the row.
        profile: of the row, None to have it detected.
        packed: whether the receipts are in one file of JSON Lines.
    """

    name: str
    lines: Sequence[bytes]
    expect: str
    reason: str | None
    keys: Sequence[dict[str, str]]
    profile: str | None = None
    packed: bool = False


@cache
def data_of(profile: str) -> dict[str, Any]:
    """A built-in format's data."""
    for _, text in read_sources():
        data = tomllib.loads(text)
        if data["id"] == profile:
            return data
    raise LookupError(profile)


def cases(signer: Signer) -> Iterator[Case]:
    """The rows of one format."""
    yield from _singles(signer)
    yield from _cosigned(signer)
    if signer.forger.link is None:
        several = [signer.write(one) for one in signer.forger.chain(3, signer.owner)]
        yield Case("several", several, "valid", None, signer.keys(), packed=True)
    else:
        yield from _chains(signer)


def _singles(signer: Signer) -> Iterator[Case]:
    forger, keys, write = signer.forger, signer.keys(), signer.write
    data = data_of(forger.profile)
    good = forger.receipt(0, None, signer.owner)
    yield Case("single", [write(good)], "valid", None, keys)
    yield Case("named", [write(good)], "valid", None, keys, profile=forger.profile)
    yield Case("pretty", [signer.spell(good)], "valid", None, keys)
    changed = with_member(good, forger.signed, "changed")
    reason = "invalid_field" if data["digests"] else "bad_signature"  # a digest is asked first
    yield Case("flipped", [write(changed)], "invalid", reason, keys)
    resigned = forger.receipt(0, None, signer.stranger)
    reason = "bad_signature" if data["key_hint"] == "none" else "wrong_key"
    yield Case("resigned", [write(resigned)], "invalid", reason, keys)
    yield Case("no-key", [write(good)], "undecidable", "unknown_key", [])
    yield Case("no-key-resigned", [write(resigned)], "undecidable", "unknown_key", [])
    if "path" in data["algorithm"]:
        other = with_member(good, data["algorithm"]["path"], "RS512")
        expect = ("undecidable", "unsupported_algorithm")
        yield Case("algorithm", [write(other)], *expect, keys)
    if forger.outside is not None:
        more = write(with_member(good, forger.outside, "x"))
        if forger.listed:
            yield Case("outside", [more], "valid", None, keys)
        else:
            yield Case("outside", [more], "invalid", "invalid_field", keys)


def _cosigned(signer: Signer) -> Iterator[Case]:
    """A receipt whose other signers are not known, or are the first one again."""
    if not signer.others:
        return
    good = signer.write(signer.forger.receipt(0, None, signer.owner))
    first, *rest = signer.keys()
    if signer.name or len(rest) == 1:  # the others do sign it
        yield Case("cosigner-unknown", [good], "undecidable", "unknown_key", [first])


def _chains(signer: Signer) -> Iterator[Case]:
    forger, keys, owner = signer.forger, signer.keys(), signer.owner
    assert forger.link is not None
    first, second, third = forger.chain(3, owner)
    numbered = data_of(forger.profile)["sequence"] != "none"

    def case(name: str, receipts: Sequence[Document], expect: str, reason: str | None) -> Case:
        lines = [signer.write(one) for one in receipts]
        return Case(name, lines, expect, reason, keys, packed=name == "chain")

    yield case("chain", [first, second, third], "valid", None)
    yield case("tail-cut", [first, second], "valid", None)  # nothing in it can tell
    yield case("not-first", [third], "valid", None)
    yield case("gap", [first, third], "invalid", "gap")
    yield case("start-missing", [second, third], "invalid", "gap")
    yield case("twice", [first, second, second, third], "valid", None)
    other = _another(signer, 1, forger.link(first))
    yield case("fork", [first, second, other], "invalid", "fork")
    if numbered:
        jump = forger.receipt(7, forger.link(first), owner)
        yield case("number-jumps", [first, jump], "invalid", "wrong_sequence")
    # The second edited and signed again: the third links to what was there.
    reason = "broken_link" if numbered else "gap"
    yield case("edited-resigned", [first, other, third], "invalid", reason)


def _another(signer: Signer, number: int, previous: str | None) -> Document:
    """Another receipt for a place."""
    forger = signer.forger
    body, path = forger.body(number, previous, signer.owner), forger.signed
    if path.partition(".")[0] not in body:  # the path is the receipt's, and the body a member of it
        path = path.partition(".")[2]
    return forger.seal(with_member(body, path, "another"), signer.owner)
