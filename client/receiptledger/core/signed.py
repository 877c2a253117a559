"""Which members of a receipt its signature covers: the bytes that are signed, and what is outside.

A format signs a :class:`Part`: one object, the receipt itself or a member of it (`base`), without some
of its members (`drop`) or only with some (`keep`), with some blanked (`set`) and perhaps without its
null members, written in one of the dialects. Links and digests are over such parts too.

What is outside, anyone can change. In a *closed* format every member outside is bound in another way
(the algorithm is fixed, a key must be the one the signature holds under, a key id must equal a signed
member), so that nobody without the key can make a second valid receipt out of an honest one. Without
that, forks could be forged. For all other formats the ledger tells contents apart by what is signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from receiptledger.core.canonical import canonicalize, shown
from receiptledger.core.dialect import EXACT_DIALECTS, Source, encode
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.fields import MISSING, getter, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.fields import Reader

    Path = tuple[str, ...]
    Writer = Callable[[Parsed], bytes]

__all__ = ["NULL_RULES", "Part", "Signing", "path_of", "unsigned_reader"]

NULL_RULES: Final = ("keep", "drop", "drop-deep")


def path_of(text: str) -> Path:
    """A dotted path as its names; "" is the receipt itself."""
    return tuple(text.split(".")) if text else ()


@dataclass(frozen=True, slots=True)
class Part:
    """Where bytes that are signed or hashed come from.

    Attributes:
        base: path of the object, () is the receipt itself.
        drop: its members that are left out; sorted.
        keep: its only members that are in, or None for all but `drop`.
        blank: (path from the receipt, what stands in the member's place: "" or None).
        nulls: one of `NULL_RULES`: whether null members are left out, of the object or at all depths.
        keep_nulls: names whose null members stay all the same.
        canon: dialect of the bytes.
    """

    base: Path
    drop: Path = ()
    keep: Path | None = None
    blank: tuple[tuple[Path, str | None], ...] = ()
    nulls: str = "keep"
    keep_nulls: frozenset[str] = frozenset()
    canon: str = "jcs"

    @property
    def simple(self) -> bool:
        """Whether equal RFC 8785 bytes of the object mean equal bytes of the part, and the reverse."""
        return self.canon == "jcs" and self.nulls == "keep" and not self.blank

    def covers(self, path: str) -> bool:
        """Whether the member at a dotted path lies inside the bytes."""
        parts, inside = path_of(path), len(self.base)
        if len(parts) <= inside or parts[:inside] != self.base:
            return False
        if any(parts[: len(blank)] == blank for blank, _ in self.blank):
            return False
        name = parts[inside]
        return name not in self.drop if self.keep is None else name in self.keep

    def holds(self, path: str) -> bool:
        """Whether the member at a dotted path contains members of the bytes, and so cannot be outside."""
        parts = path_of(path)
        return parts == self.base[: len(parts)]

    def writer(self) -> Writer:
        """A function from a receipt to the part's bytes.

        It raises ReceiptError INVALID_FIELD for a receipt without the object, MALFORMED for what the
        dialect has no form for.
        """
        if self.simple:
            return self._simple_writer()
        if self.canon == "as-carried":
            return self._carried_writer()
        exact, canon = self.canon in EXACT_DIALECTS, self.canon

        def write(parsed: Parsed) -> bytes:
            source = Source(parsed, parsed.raw)
            part = self._selected(_object_at(source.exact if exact else parsed.value, self.base))
            return canonicalize(part) if canon == "jcs" else encode(canon, part, source)

        return write

    def _simple_writer(self) -> Writer:
        base, drop, keep = self.base, self.drop, self.keep

        def write(parsed: Parsed) -> bytes:
            part = _object_at(parsed.value, base) if base else parsed.value
            if keep is not None:
                part = {name: part[name] for name in keep if name in part}
            elif drop:
                part = part.copy()
                for name in drop:
                    part.pop(name, None)
            return parsed.canonical_part(part)

        return write

    def _carried_writer(self) -> Writer:
        base = self.base

        def write(parsed: Parsed) -> bytes:
            _object_at(parsed.value, base)
            return Source(parsed, parsed.raw).carried(base)

        return write

    def _selected(self, part: dict[str, Any]) -> dict[str, Any]:
        if self.keep is not None:
            part = {name: item for name, item in part.items() if name in self.keep}
        else:
            part = {name: item for name, item in part.items() if name not in self.drop}
        for path, text in self.blank:
            part = _blanked(part, path[len(self.base) :], text)
        if self.nulls == "keep":
            return part
        deep = self.nulls == "drop-deep"
        found: dict[str, Any] = _without_nulls(part, self.keep_nulls, deep=deep)
        return found

    def outside(
        self, value: dict[str, Any], signature: Path, known: Iterable[Path] = ()
    ) -> list[Path]:
        """Paths of the members outside the bytes, in order of their names at each level.

        An object that holds the signature's value, or a member that is known, is named by its members;
        the signature's value itself is left out. The receipt must have the part.
        """
        opened = {path[:at] for path in (signature, *known) for at in range(1, len(path))}
        found: list[Path] = []
        node: dict[str, Any] = value
        at: Path = ()
        for step in self.base:
            for name in sorted(node):
                if name != step:
                    _list_members(node[name], (*at, name), signature, opened, found)
            node, at = node[step], (*at, step)
        for name in sorted(node):
            if name in self.drop if self.keep is None else name not in self.keep:
                _list_members(node[name], (*at, name), signature, opened, found)
        for path, _ in self.blank:
            item = getter(".".join(path))(value)
            if item is not MISSING:
                _list_members(item, path, signature, opened, found)
        return found


def _object_at(value: Any, path: Path) -> dict[str, Any]:
    for number, name in enumerate(path):
        value = value.get(name, MISSING) if type(value) is dict else MISSING
        if type(value) is not dict:
            raise invalid(".".join(path[: number + 1]), "an object", value)
    found: dict[str, Any] = value
    return found


def _blanked(part: dict[str, Any], path: Path, text: str | None) -> dict[str, Any]:
    """The part with one member replaced; one that is not there is not made."""
    name, *rest = path
    if name not in part:
        return part
    inner = part[name]
    if rest:
        return {**part, name: _blanked(inner, tuple(rest), text)} if type(inner) is dict else part
    return {**part, name: text}


def _without_nulls(item: Any, kept: frozenset[str], *, deep: bool) -> Any:
    if type(item) is dict:
        return {
            name: _without_nulls(inner, kept, deep=deep) if deep else inner
            for name, inner in item.items()
            if inner is not None or name in kept
        }
    if type(item) is list:
        return [_without_nulls(inner, kept, deep=deep) for inner in item]
    return item


def _list_members(
    item: Any, path: Path, signature: Path, opened: set[Path], found: list[Path]
) -> None:
    if path == signature:
        return
    if type(item) is dict and path in opened:
        for name in sorted(item):
            _list_members(item[name], (*path, name), signature, opened, found)
    else:
        found.append(path)


@dataclass(frozen=True, slots=True)
class Signing:
    """What a signature is over.

    Attributes:
        part: whose bytes are signed; of a signed text, the part the text is a digest of.
        prehash: whether their SHA-256 stands for the bytes.
        domain: UTF-8 text before them.
        text: path of the member whose text is signed in place of the bytes, or "".
        prefix: path of the member whose text and a full stop come before the bytes, or "" (RFC 7797).
    """

    part: Part
    prehash: bool = False
    domain: str = ""
    text: str = ""
    prefix: str = ""

    @property
    def simple(self) -> bool:
        """Whether what is signed is all there is to the receipt's content; see :attr:`Part.simple`."""
        return self.part.simple and not self.text and not self.prefix

    def covers(self, path: str) -> bool:
        """Whether the member at a dotted path is signed."""
        return path in (self.text, self.prefix) or self.part.covers(path)

    def signing_input(self) -> Writer:
        """A function from a receipt to the bytes its signature is over; errors as of a part's writer."""
        domain, prehash = self.domain.encode("utf-8"), self.prehash
        write = self.part.writer() if not self.text else _text_writer(self.text)
        if not domain and not self.prefix:
            return (lambda parsed: sha256(write(parsed)).digest()) if prehash else write
        head = _text_writer(self.prefix) if self.prefix else None

        def read(parsed: Parsed) -> bytes:
            data = write(parsed)
            if head is not None:
                data = head(parsed) + b"." + data
            return domain + (sha256(data).digest() if prehash else data)

        return read


def _text_writer(path: str) -> Writer:
    get = getter(path)

    def read(parsed: Parsed) -> bytes:
        text = get(parsed.value)
        if type(text) is not str:
            raise invalid(path, "text", text)
        return text.encode("utf-8")

    return read


def unsigned_reader(
    signing: Signing, signature: str, known: Iterable[str], *, closed: bool
) -> Reader[tuple[str, ...]]:
    """A function from a receipt to the dotted paths of its members outside the signed bytes.

    When `closed`, it raises ReceiptError INVALID_FIELD for a member that is not known.

    Args:
        signing: what is signed.
        signature: dotted path of the signature's value, which is left out.
        known: dotted paths of the other members the format names, signed or not.
        closed: whether only known members may be outside.
    """
    part, whole = signing.part, path_of(signature)
    also_signed = {path_of(path) for path in (signing.text, signing.prefix) if path}
    expected = sorted({path_of(path) for path in known if not signing.covers(path)})
    answer = tuple(".".join(path) for path in expected)
    # The usual receipt has one object outside, with the signature and what is expected beside it.
    holder, names = whole[0], frozenset(path[-1] for path in (*expected, whole))
    two_levels = signing.simple and all(path[:-1] == (holder,) for path in (*expected, whole))
    dropped = part.keep is None and part.drop == (holder,) and not part.base
    enveloped = part.keep is None and not part.drop and len(part.base) == 1

    def read(value: dict[str, Any]) -> tuple[str, ...]:
        if two_levels and (dropped or (enveloped and len(value) == 2)):
            members = value.get(holder)
            if type(members) is dict and members.keys() == names:
                return answer
        found = [path for path in part.outside(value, whole, expected) if path not in also_signed]
        if closed:
            for path in found:
                if path not in expected:
                    raise ReceiptError(
                        Reason.INVALID_FIELD,
                        "a member outside the signed bytes is not of this format",
                        want="only " + ", ".join(answer),
                        got=shown(".".join(path)),
                    )
        return tuple(".".join(path) for path in found)

    return read
