"""Which members of a receipt its signature covers: the bytes that are signed, and what is outside.

A format signs one object: the receipt itself or a member of it (`base`), without some of its
members (`drop`) or only with some (`keep`). The bytes are its RFC 8785 form, or their SHA-256.

What is outside, anyone can change. The members a format names there are bound in other ways (the
algorithm is fixed, a key must be the one the signature holds under, a key id must equal a signed
member), so a closed format, which lets nothing else be outside, has no second valid receipt made
out of an honest one by somebody without the key. Without that, forks could be forged.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from receiptledger.core.canonical import shown
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.fields import getter, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.fields import Reader

    Path = tuple[str, ...]

__all__ = ["SignedPart", "unsigned_reader"]


@dataclass(frozen=True, slots=True)
class SignedPart:
    """Where the signed bytes come from.

    Attributes:
        base: path of the object, () is the receipt itself.
        drop: its members that are not signed; sorted.
        keep: its only members that are signed, or None for all but `drop`.
        prehash: whether the signature is over the SHA-256 of the bytes.
    """

    base: Path
    drop: Path
    keep: Path | None
    prehash: bool

    def covers(self, path: str) -> bool:
        """Whether the member at a dotted path lies inside the signed bytes."""
        parts = tuple(path.split("."))
        inside = len(self.base)
        if len(parts) <= inside or parts[:inside] != self.base:
            return False
        name = parts[inside]
        return name not in self.drop if self.keep is None else name in self.keep

    def holds(self, path: str) -> bool:
        """Whether the member at a dotted path contains signed members, and so cannot be outside."""
        parts = tuple(path.split("."))
        return parts == self.base[: len(parts)]

    def signing_input(self) -> Callable[[Parsed], bytes]:
        """A function from a receipt to the bytes its signature is over.

        It raises ReceiptError INVALID_FIELD for a receipt without the object.
        """
        drop, keep, prehash = self.drop, self.keep, self.prehash
        path = ".".join(self.base)
        get = getter(path) if path else None

        def read(parsed: Parsed) -> bytes:
            part = parsed.value
            if get is not None:
                part = get(part)
                if type(part) is not dict:
                    raise invalid(path, "an object", part)
            if keep is not None:
                part = {name: part[name] for name in keep if name in part}
            elif drop:
                part = part.copy()
                for name in drop:
                    part.pop(name, None)
            data = parsed.canonical_part(part)
            return sha256(data).digest() if prehash else data

        return read

    def outside(self, value: dict[str, Any], signature: Path) -> list[Path]:
        """Paths of the members outside the signed bytes, in order of their names at each level.

        An object that holds the signature's value is named by its other members, and the value
        itself is left out. The receipt must have a signing input.
        """
        found: list[Path] = []
        node: dict[str, Any] = value
        at: Path = ()
        for step in self.base:
            for name in sorted(node):
                if name != step:
                    _list_members(node[name], (*at, name), signature, found)
            node, at = node[step], (*at, step)
        for name in sorted(node):
            if name in self.drop if self.keep is None else name not in self.keep:
                _list_members(node[name], (*at, name), signature, found)
        return found


def _list_members(item: Any, path: Path, signature: Path, found: list[Path]) -> None:
    if path == signature:
        return
    if type(item) is dict and path == signature[: len(path)]:
        for name in sorted(item):
            _list_members(item[name], (*path, name), signature, found)
    else:
        found.append(path)


def unsigned_reader(
    part: SignedPart, signature: str, known: Iterable[str], *, closed: bool
) -> Reader[tuple[str, ...]]:
    """A function from a receipt to the dotted paths of its members outside the signed bytes.

    When `closed`, it raises ReceiptError INVALID_FIELD for a member that is not known.

    Args:
        part: what is signed.
        signature: dotted path of the signature's value, which is left out.
        known: dotted paths of the other members the format names, signed or not.
        closed: whether only known members may be outside.
    """
    whole = tuple(signature.split("."))
    expected = sorted({tuple(path.split(".")) for path in known if not part.covers(path)})
    answer = tuple(".".join(path) for path in expected)
    # The usual receipt has one object outside, with the signature and what is expected beside it.
    holder, names = whole[0], frozenset(path[-1] for path in (*expected, whole))
    two_levels = all(path[:-1] == (holder,) for path in (*expected, whole))
    dropped = part.keep is None and part.drop == (holder,) and not part.base
    enveloped = part.keep is None and not part.drop and len(part.base) == 1

    def read(value: dict[str, Any]) -> tuple[str, ...]:
        if two_levels and (dropped or (enveloped and len(value) == 2)):
            members = value.get(holder)
            if type(members) is dict and members.keys() == names:
                return answer
        found = part.outside(value, whole)
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
