"""Receipt formats as data: which member of a receipt means what, and which bytes are signed.

A :class:`Profile` is made from TOML (see `profiles/*.toml` for the members and their meaning),
checked strictly, and compiled to readers once. What the check guarantees for every profile:

* every member of the data is known and present; "none" is said, never implied;
* agent, stream, sequence, previous hash and time lie inside the signed bytes;
* the signature lies outside them;
* members outside that the format does not name are refused, unless the data says "list".

A :class:`Profiles` is an ordered set of formats. One receipt can match several: they are candidates
in order, and the signature decides which one the receipt follows.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from receiptledger.core import fields, profiles
from receiptledger.core.canonical import shown
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile_data import Table
from receiptledger.core.signed import SignedPart, unsigned_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.fields import Check, Reader

__all__ = ["KEY_SIZE", "SIGNATURE_SIZE", "Profile", "Profiles"]

SIGNATURE_SIZE = 64  # RFC 8032 section 5.1.6
KEY_SIZE = 32

_MAX_VERSION = 1_000_000
_KEYS_REMEMBERED = 4_096  # texts of keys: the same few agents send most receipts


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One receipt format, compiled.

    Attributes:
        id: name of the format; part of every head leaf.
        version: of the format's data; part of every head leaf.
        title: for people.
        detect: (what must hold, its test) for a receipt to be of this format.
        checks: refuse another algorithm, forbidden members, members that differ and must not.
        agent, stream, sequence, previous, time, signature, key_hint, kid: readers, see `fields`.
        sequence_start: the sequence number of a chain's first receipt; 0 without sequence.
        sequence_step: what each next receipt adds; 1 without sequence.
        signing_input: the bytes the signature is over.
        unsigned: dotted paths of the members outside them, sorted at each level, without the
            signature itself.
    """

    id: str
    version: int
    title: str
    detect: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...]
    checks: tuple[Check, ...]
    agent: Reader[str]
    stream: Reader[str]
    sequence: Reader[int | None]
    sequence_start: int
    sequence_step: int
    previous: Reader[bytes | None]
    time: Reader[str | None]
    signature: Reader[bytes]
    key_hint: Reader[bytes | None]
    kid: Reader[str | None]
    signing_input: Callable[[Parsed], bytes]
    unsigned: Reader[tuple[str, ...]]

    @staticmethod
    def from_toml(text: str, source: str) -> Profile:
        """Compile a format's data.

        Args:
            text: TOML, our own or an operator's data and not foreign bytes.
            source: its file name, for messages.

        Raises:
            ValueError: naming `source` and the member that is unknown, missing or wrong.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{source}: {error}") from None
        return _compile(Table(source, "", data))

    def require(self, value: dict[str, Any]) -> None:
        """Refuse a receipt that names this format and is not of it.

        Raises:
            ReceiptError: INVALID_FIELD with the first rule of detection that does not hold.
        """
        for rule, test in self.detect:
            if not test(value):
                raise ReceiptError(
                    Reason.INVALID_FIELD,
                    f"the receipt is not of format {self.id}",
                    want=rule,
                    got="no such member, or another value",
                )


class Profiles:
    """An ordered set of formats.

    Raises:
        ValueError: for two formats of one id.
    """

    def __init__(self, formats: Iterable[Profile]) -> None:
        self._by_id: dict[str, Profile] = {}
        for profile in formats:
            if self._by_id.setdefault(profile.id, profile) is not profile:
                raise ValueError(f"two receipt formats have the id {profile.id}")
        # Formats that are told apart only by the signature share one detection.
        groups: dict[tuple[str, ...], tuple[Profile, ...]] = {}
        for profile in self._by_id.values():
            rules = tuple(rule for rule, _ in profile.detect)
            groups[rules] = (*groups.get(rules, ()), profile)
        self._groups = tuple(
            (tuple(test for _, test in group[0].detect), group) for group in groups.values()
        )

    @staticmethod
    @cache
    def builtin() -> Profiles:
        """The formats that come with this package; one object for the whole process."""
        return Profiles(Profile.from_toml(text, name) for name, text in profiles.read_sources())

    def ids(self) -> tuple[str, ...]:
        """Ids of the formats, in order."""
        return tuple(self._by_id)

    def get(self, profile_id: str) -> Profile:
        """The format of that id.

        Raises:
            ReceiptError: UNKNOWN_PROFILE.
        """
        profile = self._by_id.get(profile_id)
        if profile is None:
            raise self._unknown("the receipt format is not known here", shown(profile_id))
        return profile

    def candidates(self, value: dict[str, Any]) -> tuple[Profile, ...]:
        """The formats a parsed receipt may be of, preferred first; empty when none matches."""
        found: tuple[Profile, ...] = ()
        for tests, group in self._groups:
            for test in tests:
                if not test(value):
                    break
            else:
                found += group
        return found

    def find(self, value: dict[str, Any], profile_id: str | None = None) -> tuple[Profile, ...]:
        """The candidates, at least one; only the named format when one is named.

        Raises:
            ReceiptError: UNKNOWN_PROFILE when the named format is unknown or none matches,
                INVALID_FIELD when the receipt is not of the named format.
        """
        if profile_id is not None:
            profile = self.get(profile_id)
            profile.require(value)
            return (profile,)
        found = self.candidates(value)
        if not found:
            names = shown(", ".join(sorted(value)))
            raise self._unknown("no known receipt format matches", f"the members {names}")
        return found

    def _unknown(self, message: str, got: str) -> ReceiptError:
        want = "one of " + ", ".join(self._by_id)
        return ReceiptError(Reason.UNKNOWN_PROFILE, message, want=want, got=got)


# From data to readers.


def _compile(table: Table) -> Profile:
    signed, forbidden = _signed(table.table("signed"))
    closed = table.choice("unsigned", ("refuse", "list")) == "refuse"
    equal = table.pairs("equal")
    signature, read_signature = _signature(table.table("signature"), signed)
    algorithm, check_algorithm = _algorithm(table.table("algorithm"))
    hint, read_hint = _key_hint(table)
    kid, read_kid = _kid(table)
    start, step, sequence = _sequence(table, signed)
    profile = Profile(
        id=table.text("id", "[a-z0-9]+(-[a-z0-9]+)*"),
        version=table.integer("version", 1, _MAX_VERSION),
        title=table.text("title"),
        detect=tuple(_rule(rule) for rule in table.tables("detect")),
        checks=(
            check_algorithm,
            *(fields.forbid_check(path) for path in forbidden),
            *(fields.equal_check(one, other) for one, other in equal),
        ),
        agent=fields.name_reader(_inside(signed, table, "agent", table.path("agent"))),
        stream=fields.stream_reader(
            [_inside(signed, table, "stream", path) for path in table.paths("stream")]
        ),
        sequence=sequence,
        sequence_start=start,
        sequence_step=step,
        previous=_previous(table.table("previous"), signed),
        time=_time(table, signed),
        signature=read_signature,
        key_hint=read_hint,
        kid=read_kid,
        signing_input=signed.signing_input(),
        unsigned=unsigned_reader(
            signed, signature, (algorithm, *hint, *kid, *chain(*equal)), closed=closed
        ),
    )
    table.close()
    return profile


def _inside(signed: SignedPart, table: Table, member: str, path: str) -> str:
    """A path whose member says what the ledger relies on, and so must be signed."""
    if not signed.covers(path):
        raise table.wrong(member, f"inside the signed bytes, {path} is outside")
    return path


def _signed(table: Table) -> tuple[SignedPart, tuple[str, ...]]:
    base = () if table.take_empty("base") else tuple(table.path("base").split("."))
    keep = table.names("keep") if table.has("keep") else None
    drop = table.names("drop") if keep is None else ()
    table.choice("canon", ("jcs",))
    prehash = table.choice("prehash", ("none", "sha256")) == "sha256"
    forbidden = table.paths("forbid")
    table.close()
    return SignedPart(base, drop, keep, prehash), forbidden


def _signature(table: Table, signed: SignedPart) -> tuple[str, Reader[bytes]]:
    path = table.path("path")
    encoding = table.choice("encoding", fields.ENCODINGS)
    table.close()
    if signed.covers(path) or signed.holds(path):
        raise table.wrong("path", f"outside the signed bytes, {path} is inside")
    return path, fields.bytes_reader(path, encoding, SIGNATURE_SIZE)


def _rule(table: Table) -> tuple[str, Callable[[dict[str, Any]], bool]]:
    """One rule of detection: its words, and its test."""
    path = table.path("path")
    get = fields.getter(path)
    words, test = f"a member {path}", lambda value: get(value) is not fields.MISSING
    if table.has("equals"):
        text = table.text("equals")
        words, test = f"member {path} equal to {shown(text)}", lambda value: get(value) == text
    elif table.has("prefix"):
        text = table.text("prefix")
        words, test = f"member {path} starting with {shown(text)}", _prefix_test(get, text)
    else:
        table.flag("exists")
    table.close()
    return words, test


def _prefix_test(get: Reader[Any], prefix: str) -> Callable[[dict[str, Any]], bool]:
    def test(value: dict[str, Any]) -> bool:
        text = get(value)
        return type(text) is str and text.startswith(prefix)

    return test


def _algorithm(table: Table) -> tuple[str, Check]:
    path = table.path("path")
    check = fields.algorithm_check(path, table.choice("value", ("EdDSA",)))
    table.close()
    return path, check


def _sequence(table: Table, signed: SignedPart) -> tuple[int, int, Reader[int | None]]:
    if table.take_none("sequence"):
        return 0, 1, fields.constant(None)
    inner = table.table("sequence")
    path = _inside(signed, inner, "path", inner.path("path"))
    start = inner.integer("start", 0, SAFE_INTEGER)
    step = inner.integer("step", 1, SAFE_INTEGER)
    inner.close()
    return start, step, fields.sequence_reader(path)


def _previous(table: Table, signed: SignedPart) -> Reader[bytes | None]:
    path = _inside(signed, table, "path", table.path("path"))
    table.choice("preimage", ("full",))
    table.choice("encoding", ("sha256:hex",))
    genesis = table.choice("genesis", fields.GENESIS_FORMS)
    table.close()
    return fields.previous_reader(path, genesis)


def _time(table: Table, signed: SignedPart) -> Reader[str | None]:
    if table.take_none("time"):
        return fields.constant(None)
    return fields.time_reader(_inside(signed, table, "time", table.path("time")))


def _key_hint(table: Table) -> tuple[tuple[str, ...], Reader[bytes | None]]:
    if table.take_none("key_hint"):
        return (), fields.constant(None)
    inner = table.table("key_hint")
    path, encoding = inner.path("path"), inner.choice("encoding", fields.ENCODINGS)
    inner.close()
    reader = fields.bytes_reader(path, encoding, KEY_SIZE, remember=_KEYS_REMEMBERED)
    return (path,), reader


def _kid(table: Table) -> tuple[tuple[str, ...], Reader[str | None]]:
    if table.take_none("kid"):
        return (), fields.constant(None)
    path = table.path("kid")
    return (path,), fields.name_reader(path)
