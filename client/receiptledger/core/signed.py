"""Which members of a receipt its signature covers: the bytes that are signed, and what is outside.

A format signs one object: the receipt itself or a member of it (`base`), without some of its
members (`drop`) or only with some (`keep`). The bytes are its RFC 8785 form, or their SHA-256.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from receiptledger.core.fields import getter, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.fields import Reader

__all__ = ["SignedPart"]


@dataclass(frozen=True, slots=True)
class SignedPart:
    """Where the signed bytes come from.

    Attributes:
        base: path of the object, () is the receipt itself.
        drop: its members that are not signed; sorted.
        keep: its only members that are signed, or None for all but `drop`.
        prehash: whether the signature is over the SHA-256 of the bytes.
    """

    base: tuple[str, ...]
    drop: tuple[str, ...]
    keep: tuple[str, ...] | None
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

    def unsigned(self, signature: str, others: Iterable[str]) -> Reader[tuple[str, ...]]:
        """A function from a receipt to the dotted paths of its members outside the signed bytes.

        The signature's own value is left out; of the objects around it each other member is named.
        The function is for receipts that have a signing input.

        Args:
            signature: dotted path of the signature's value.
            others: dotted paths the format knows besides; where just these lie outside, the answer
                is known beforehand.
        """
        read = self._list_unsigned(tuple(signature.split(".")))
        holder, _, leaf = signature.partition(".")
        beside = {path.partition(".") for path in others}
        known = frozenset(name for where, _, name in beside if where == holder) - {leaf}
        # The signature's holder is all that can be outside, or all that is not `base`.
        alone = not self.base and self.keep is None and self.drop == (holder,)
        if not alone and not (len(self.base) == 1 and self.keep is None and not self.drop):
            return read
        usual = known | {leaf}
        answer = tuple(f"{holder}.{name}" for name in sorted(known))

        def read_usual(value: dict[str, Any]) -> tuple[str, ...]:
            members = value.get(holder)
            if (alone or len(value) == 2) and type(members) is dict and members.keys() == usual:
                return answer
            return read(value)

        return read_usual

    def _list_unsigned(self, whole: tuple[str, ...]) -> Reader[tuple[str, ...]]:
        base, drop, keep = self.base, self.drop, self.keep

        def read(value: dict[str, Any]) -> tuple[str, ...]:
            found: list[str] = []
            way: tuple[str, ...] | None = whole
            node, prefix = value, ""
            for step in base:
                for name in sorted(node):
                    if name != step:
                        _list_outside(node[name], prefix + name, _after(way, name), found)
                node, prefix, way = node[step], f"{prefix}{step}.", _after(way, step)
            names = drop if keep is None else sorted(name for name in node if name not in keep)
            for name in names:
                if name in node:
                    _list_outside(node[name], prefix + name, _after(way, name), found)
            return tuple(found)

        return read


def _after(way: tuple[str, ...] | None, name: str) -> tuple[str, ...] | None:
    """What is left of the way to the signature after a step, None when the step leaves it."""
    return way[1:] if way and way[0] == name else None


def _list_outside(item: Any, path: str, way: tuple[str, ...] | None, found: list[str]) -> None:
    """Name a member outside the signed bytes; on the way to the signature, name its neighbours."""
    if way is None or type(item) is not dict:
        if way != ():
            found.append(path)
        return
    for name in sorted(item):
        _list_outside(item[name], f"{path}.{name}", _after(way, name), found)
