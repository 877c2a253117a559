"""From a format's data to its readers; see `profile` for what every format is held to."""

from __future__ import annotations

import tomllib
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from receiptledger.core import field_bytes, fields, unwrap
from receiptledger.core.algorithms import ES256, KEY_SIZES, SIGNATURE_SIZES
from receiptledger.core.dialect import DIALECTS
from receiptledger.core.encoding import SAFE_INTEGER
from receiptledger.core.field_bytes import DIGEST_ENCODINGS, SIGNATURE_ENCODINGS
from receiptledger.core.profile_data import Table
from receiptledger.core.profile_detect import compile_rule
from receiptledger.core.profile_signed import read_part, read_signing
from receiptledger.core.profile_types import Cosigner, PairRule, Profile, SignatureRule
from receiptledger.core.public_key import KEY_DECODERS
from receiptledger.core.signed import Part, unsigned_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.fields import Reader
    from receiptledger.core.signed import Signing
    from receiptledger.core.unwrap import Unwrap

__all__ = ["compile_profile"]

_MAX_VERSION = 1_000_000
_MAX_SIGNATURES = 16  # in an envelope
_GENESIS = "null|omitted|zeros|(text|prefix|path):.+"
_TIMES = {"unix-ms": 1_000, "unix-s": 1_000_000}  # microseconds
_ENVELOPE = "envelope"
# Encodings in which one key has several texts: a JWK with members of any name, a did:key with a fragment.
_LOOSE_KEYS = frozenset(("jwk", "did:key"))


def compile_profile(text: str, source: str) -> Profile:
    """Compile a format's data.

    Args:
        text: TOML.
        source: its file name, for messages.

    Raises:
        ValueError: naming `source` and the member that is unknown, missing or wrong.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{source}: {error}") from None
    return _compile(Table(source, "", data))


def _compile(table: Table) -> Profile:
    opened, envelope = _unwrap(table)
    digests = _digests(table)
    signing, forbidden = _signing(table, digests, envelope=envelope)
    closed = table.choice("unsigned", ("refuse", "list")) == "refuse"
    equal = table.pairs("equal")
    main, named, bound = _main(table, signing, equal)
    start, step, sequence = _sequence(table, signing)
    cosigners = tuple(_cosigner(inner, named) for inner in table.tables("cosign", least=0))
    # A cosigner can sign again, and must not make a second content of the signer's receipt.
    bound = bound and opened is None and not cosigners
    previous, link, linked = _previous(table, signing, digests)
    profile = Profile(
        id=table.text("id", "[a-z0-9]+(-[a-z0-9]+)*"),
        version=table.integer("version", 1, _MAX_VERSION),
        title=table.text("title"),
        detect=tuple(compile_rule(rule) for rule in table.tables("detect")),
        unwrap=opened,
        envelope=envelope,
        checks=(
            *(fields.forbid_check(path) for path in forbidden),
            *(fields.equal_check(one, other) for one, other in equal),
        ),
        digests=tuple(_digest_check(path, part, form) for path, (part, form) in digests.items()),
        agent=_agent(table, signing, named),
        stream=fields.stream_reader(
            [_inside(signing, table, "stream", path) for path in table.paths("stream")]
        ),
        sequence=sequence,
        sequence_start=start,
        sequence_step=step,
        previous=previous,
        linked=linked,
        link=link,
        time=_time(table, signing),
        main=main,
        cosigners=cosigners,
        pair=_pair(table, signing),
        closed=closed
        and bound
        and signing is not None
        and signing.simple
        and _settled(signing, digests, equal),
        unsigned=_unsigned(signing, named, digests, equal, closed=closed),
    )
    table.close()
    return profile


def _settled(
    signing: Signing,
    digests: dict[str, tuple[Part, str]],
    equal: tuple[tuple[str, str], ...],
) -> bool:
    """Whether digests and equal members outside the signed bytes have one value for one signed content."""
    return all(any(signing.covers(path) for path in pair) for pair in equal) and all(
        signing.covers(path) or part.canon == "jcs" for path, (part, _) in digests.items()
    )


def _inside(signing: Signing | None, table: Table, member: str, path: str) -> str:
    """A path whose member says what the ledger relies on, and so must be signed."""
    if signing is not None and not signing.covers(path):
        raise table.wrong(member, f"inside the signed bytes, {path} is outside")
    return path


# Envelopes, and what is signed.


def _unwrap(table: Table) -> tuple[Unwrap | None, bool]:
    if table.take_none("unwrap"):
        return None, False
    inner = table.table("unwrap")
    kind = inner.choice("kind", ("member", "dsse", "jws"))
    if kind == "member":
        opened = unwrap.member(inner.path("path"))
    elif kind == "jws":
        opened = unwrap.jws(inner.text("path", r"[^.\s]+"))
    else:
        number = inner.integer("signature", 0, _MAX_SIGNATURES - 1)
        opened = unwrap.dsse(inner.text("payload_type"), number)
    inner.close()
    return opened, kind != "member"


def _digests(table: Table) -> dict[str, tuple[Part, str]]:
    found = {}
    for inner in table.tables("digests", least=0):
        path = inner.path("path")
        part = read_part(inner.table("of"))
        found[path] = (part, inner.choice("encoding", ("sha256:hex", "hex")))
        inner.close()
    return found


def _digest_check(path: str, part: Part, form: str) -> Callable[[Parsed], None]:
    read, write = field_bytes.digest_reader(path, form), part.writer()

    def check(parsed: Parsed) -> None:
        if read(parsed.value) != sha256(write(parsed)).digest():
            raise fields.invalid(
                path,
                "the SHA-256 of the members it covers",
                fields.getter(path)(parsed.value),
                f"the digest at {path} does not fit the receipt",
            )

    return check


def _signing(
    table: Table, digests: dict[str, tuple[Part, str]], *, envelope: bool
) -> tuple[Signing | None, tuple[str, ...]]:
    """None: the envelope signs all of the receipt inside."""
    if envelope:
        table.choice("signed", (_ENVELOPE,))
        return None, ()
    return read_signing(table.table("signed"), digests)


# Signatures.


def _main(
    table: Table, signing: Signing | None, equal: tuple[tuple[str, str], ...]
) -> tuple[SignatureRule, dict[str, str], bool]:
    """The rule; what it names by path; whether each of these is bound to what is signed."""
    if signing is None:
        return _enveloped(table), {}, False
    rule, named, fixed = _signature_rule(table, signing)
    kid = named.get("kid")
    tied = {one for pair in equal for one in pair if any(signing.covers(path) for path in pair)}
    return rule, named, fixed and (kid is None or signing.covers(kid) or kid in tied)


def _signature_rule(table: Table, signing: Signing) -> tuple[SignatureRule, dict[str, str], bool]:
    """The rule, the paths it names, and whether each algorithm has one name, so that none is exchanged."""
    named: dict[str, str] = {}
    algorithms, read_algorithm, fixed = _algorithm(table, named)
    inner = table.table("signature")
    path = named["signature"] = inner.path("path")
    if signing.covers(path) or signing.part.holds(path):
        raise inner.wrong("path", f"outside the signed bytes, {path} is inside")
    encodings = _encodings(inner, algorithms)
    inner.close()
    key_hint, one_text = _key_hint(table, named)
    rule = SignatureRule(
        read_algorithm,
        {
            name: field_bytes.signature_reader(path, encoding, SIGNATURE_SIZES[name])
            for name, encoding in encodings.items()
        },
        signing.signing_input(),
        key_hint,
        _kid(table, named),
    )
    fixed = fixed or signing.covers(named["algorithm"])
    return rule, named, fixed and (one_text or signing.covers(named["key_hint"]))


def _encodings(inner: Table, algorithms: tuple[str, ...]) -> dict[str, str]:
    """Encoding of the signature for each algorithm; DER is a form of ECDSA's only."""
    if inner.has("encodings"):
        found = inner.mapping("encodings", SIGNATURE_ENCODINGS)
        if set(found) != set(algorithms):
            raise inner.wrong("encodings", "one for each of " + ", ".join(algorithms))
    else:
        found = dict.fromkeys(algorithms, inner.choice("encoding", tuple(SIGNATURE_ENCODINGS)))
    for name, encoding in found.items():
        if encoding.startswith("der-") and name != ES256:
            raise inner.wrong("encoding", f"another one than {encoding} for {name}")
    return found


def _algorithm(table: Table, named: dict[str, str]) -> tuple[tuple[str, ...], Reader[str], bool]:
    inner = table.table("algorithm")
    if inner.has("is"):
        name = inner.choice("is", tuple(KEY_SIZES))
        inner.close()
        return (name,), fields.constant(name), True
    path = named["algorithm"] = inner.path("path")
    names = inner.mapping("values", tuple(KEY_SIZES))
    inner.close()
    found = tuple(dict.fromkeys(names.values()))
    return found, fields.algorithm_reader(path, names), len(names) == len(found)


def _key_hint(table: Table, named: dict[str, str]) -> tuple[Reader[bytes | None], bool]:
    """The reader, and whether one key has one text."""
    if table.take_none("key_hint"):
        return fields.constant(None), True
    inner = table.table("key_hint")
    path = named["key_hint"] = inner.path("path")
    encoding = inner.choice("encoding", tuple(KEY_DECODERS))
    inner.close()
    return field_bytes.key_reader(path, encoding), encoding not in _LOOSE_KEYS


def _kid(table: Table, named: dict[str, str]) -> Reader[str | None]:
    if table.take_none("kid"):
        return fields.constant(None)
    named["kid"] = table.path("kid")
    return fields.name_reader(named["kid"])


def _enveloped(table: Table) -> SignatureRule:
    """The signature of an envelope: its bytes come from there, see `unwrap`."""
    table.choice("signature", (_ENVELOPE,))
    named: dict[str, str] = {}
    algorithms, read, _ = _algorithm(table, named)
    return SignatureRule(
        read,
        dict.fromkeys(algorithms, fields.constant(b"")),
        lambda _: b"",
        _key_hint(table, named)[0],
        _kid(table, named),
    )


def _cosigner(table: Table, named: dict[str, str]) -> Cosigner:
    """A further signature; the members it names are expected outside what is signed."""
    name = table.text("name", "[a-z][a-z0-9-]*")
    when = tuple(compile_rule(rule) for rule in table.tables("when", least=0))
    signing, forbidden = read_signing(table.table("signed"), {})
    if forbidden:
        raise table.wrong("signed.forbid", "empty")
    rule, inner, _ = _signature_rule(table, signing)
    table.close()
    named |= {f"{name} {what}": path for what, path in inner.items()}
    return Cosigner(name, when, rule)


def _unsigned(
    signing: Signing | None,
    named: dict[str, str],
    digests: dict[str, tuple[Part, str]],
    equal: tuple[tuple[str, str], ...],
    *,
    closed: bool,
) -> Reader[tuple[str, ...]]:
    if signing is None:
        return fields.constant(())
    known = [path for what, path in named.items() if what != "signature"]
    known += [*digests, *(path for pair in equal for path in pair)]
    return unsigned_reader(signing, named["signature"], known, closed=closed)


# Whose, where, when.


def _agent(table: Table, signing: Signing | None, named: dict[str, str]) -> Reader[str] | None:
    if not table.is_table("agent"):
        return fields.name_reader(_inside(signing, table, "agent", table.path("agent")))
    inner = table.table("agent")
    inner.flag("key")
    inner.close()
    if "key_hint" not in named:
        raise table.wrong("agent", "a path: the format has no key_hint to stand for it")
    return None


def _sequence(table: Table, signing: Signing | None) -> tuple[int, int, Reader[int | None]]:
    if table.take_none("sequence"):
        return 0, 1, fields.constant(None)
    inner = table.table("sequence")
    path = _inside(signing, inner, "path", inner.path("path"))
    start = inner.integer("start", 0, SAFE_INTEGER)
    step = inner.integer("step", 1, SAFE_INTEGER)
    inner.close()
    return start, step, fields.sequence_reader(path)


def _previous(
    table: Table, signing: Signing | None, digests: dict[str, tuple[Part, str]]
) -> tuple[Reader[bytes | None], Callable[[Parsed], bytes] | None, bool]:
    if table.take_none("previous"):
        return fields.constant(None), None, False
    inner = table.table("previous")
    path = _inside(signing, inner, "path", inner.path("path"))
    encoding = inner.choice("encoding", tuple(DIGEST_ENCODINGS))
    genesis = inner.words("genesis", _GENESIS, "null, omitted, zeros, text:, prefix: or path:")
    link = _link(inner, encoding, digests)
    inner.close()
    return field_bytes.previous_reader(path, encoding, genesis), link, True


def _link(
    table: Table, encoding: str, digests: dict[str, tuple[Part, str]]
) -> Callable[[Parsed], bytes] | None:
    """What the next receipt names: None for the hash of the canonical bytes, which is known already."""
    if not table.is_table("of"):
        table.choice("of", ("full",))
        canon = table.choice("canon", DIALECTS)
        return None if canon == "jcs" else _hash_of(Part((), canon=canon))
    inner = table.table("of")
    if not inner.has("text"):
        return _hash_of(read_part(inner))
    path = inner.path("text")
    inner.close()
    if path not in digests:
        raise table.wrong("of.text", "the path of one of the digests")
    read = field_bytes.digest_reader(path, encoding)
    return lambda parsed: read(parsed.value)


def _hash_of(part: Part) -> Callable[[Parsed], bytes]:
    write = part.writer()
    return lambda parsed: sha256(write(parsed)).digest()


def _time(table: Table, signing: Signing | None) -> Reader[str | None]:
    if table.take_none("time"):
        return fields.constant(None)
    inner = table.table("time")
    path = _inside(signing, inner, "path", inner.path("path"))
    form = inner.choice("form", ("rfc3339", *_TIMES))
    inner.close()
    return (
        fields.time_reader(path)
        if form == "rfc3339"
        else fields.unix_time_reader(path, _TIMES[form])
    )


def _pair(table: Table, signing: Signing | None) -> PairRule | None:
    if table.take_none("pair"):
        return None
    inner = table.table("pair")
    role = inner.choice("role", ("intent", "outcome", "either"))
    own: Any = inner.path("id")
    if own not in ("link", "receipt"):
        own = fields.name_reader(_inside(signing, inner, "id", own))
    ref: Reader[str | None] = fields.constant(None)
    if role != "intent":
        ref = fields.optional_name_reader(_inside(signing, inner, "ref", inner.path("ref")))
    inner.close()
    return PairRule(role, own, ref)
