"""What the two sides hand each other: a note, a proof or a tile name; and how each is damaged.

As JSON, one object a line, bytes in base64: the same members as `Item` in main.go.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Item", "damaged", "same_but_for_spare_bits"]

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BYTES = ("note", "entry", "root", "old_root")


@dataclass(frozen=True, slots=True)
class Item:
    """One of five kinds; members that a kind does not use stay empty."""

    kind: str  # note, checkpoint, inclusion, consistency or tile
    name: str
    keys: tuple[str, ...] = ()  # note, checkpoint: who signed, all of them
    note: bytes = b""  # note, checkpoint
    entry: bytes = b""  # inclusion: the leaf itself, not its hash
    index: int = 0  # inclusion, tile
    size: int = 0  # inclusion, consistency: leaves of the tree
    old_size: int = 0  # consistency
    proof: tuple[bytes, ...] = ()  # inclusion, consistency
    root: bytes = b""  # inclusion, consistency
    old_root: bytes = b""  # consistency
    path: str = ""  # tile
    level: int = 0  # tile: -1 is an entry bundle
    width: int = 0  # tile: 1..256

    def to_json(self) -> str:
        """One line."""
        value: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in _BYTES:
            value[name] = base64.b64encode(value[name]).decode()
        value["proof"] = [base64.b64encode(h).decode() for h in self.proof]
        return json.dumps(value)

    @classmethod
    def from_json(cls, line: str) -> Item:
        """Read such a line."""
        value = json.loads(line)
        for name in value.keys() & _BYTES:
            value[name] = base64.b64decode(value[name])
        value["proof"] = tuple(base64.b64decode(h) for h in value.get("proof", ()))
        value["keys"] = tuple(value.get("keys", ()))
        return cls(**value)


def damaged(item: Item) -> Iterator[Item]:
    """Variants that must be refused."""
    if item.kind in ("note", "checkpoint"):
        yield from _damaged_notes(item)
    elif item.kind == "tile":
        yield from _damaged_paths(item)
    else:
        yield from _damaged_proofs(item)


def same_but_for_spare_bits(item: Item, variant: Item) -> bool:
    """Whether a damaged note differs only in bits that a lax base64 decoder drops."""

    def lax(note: bytes) -> tuple[bytes, list[bytes]]:
        text, _, block = note.rpartition(b"\n\n")
        lines = [line.rpartition(b" ") for line in block.split(b"\n")]
        try:
            return text, [head + base64.b64decode(data, validate=True) for head, _, data in lines]
        except ValueError:
            return note, []

    return item.kind in ("note", "checkpoint") and lax(item.note) == lax(variant.note)


def _damaged_notes(item: Item) -> Iterator[Item]:
    note = item.note

    def variant(what: str, changed: bytes) -> Item:
        return replace(item, name=f"{item.name}, {what}", note=changed)

    for at in range(len(note)):
        flipped = note[at] ^ (1 << at % 8)
        yield variant(f"byte {at} flipped", note[:at] + bytes([flipped]) + note[at + 1 :])
        yield variant(f"cut at {at}", note[:at])
    # The last digit before the padding holds two bits that stand for nothing: they must be 0.
    last = _BASE64.index(note[-3:-2]) if note.endswith(b"=\n") else -1
    for spare in (1, 2, 3) if last >= 0 else ():
        digit = _BASE64[last ^ spare : (last ^ spare) + 1]
        yield variant(f"spare bits {spare}", note[:-3] + digit + b"=\n")
    yield variant("newline after", note + b"\n")
    yield variant("newline before", b"\n" + note)
    yield variant("with CR LF", note.replace(b"\n", b"\r\n"))
    yield variant("twice", note + note)
    text, _, block = note.rpartition(b"\n\n")
    yield variant("one more line", text + b"\nmore\n\n" + block)
    yield variant("no signature", text + b"\n\n")
    yield variant("another dash", note[: -len(block)] + block.replace("—".encode(), b"-"))


def _damaged_proofs(item: Item) -> Iterator[Item]:
    def variant(what: str, **changes: Any) -> Item:
        return replace(item, name=f"{item.name}, {what}", **changes)

    proof = item.proof
    yield variant("root flipped", root=_flip(item.root, 5))
    yield variant("a hash more", proof=(*proof, item.root))
    yield variant("a hash more in front", proof=(item.root, *proof))
    for at, hash_ in enumerate(proof):
        yield variant(f"hash {at} flipped", proof=(*proof[:at], _flip(hash_, at), *proof[at + 1 :]))
        yield variant(f"hash {at} left out", proof=proof[:at] + proof[at + 1 :])
        if at and hash_ != proof[0]:
            yield variant(f"hashes 0 and {at} swapped", proof=_swap(proof, at))
    if item.kind == "inclusion":
        yield variant("entry flipped", entry=_flip(item.entry, 3) if item.entry else b"\0")
        yield variant("entry longer", entry=item.entry + b"\0")
        yield variant("neighbour's index", index=item.index ^ 1)
        yield variant("index past the end", index=item.size)
        yield variant("size of half the tree", size=item.size // 2)
        yield variant("size of twice the tree", size=item.size * 2)
        return
    yield variant("old root flipped", old_root=_flip(item.old_root, 11))
    if item.old_size != item.size:
        yield variant("roots swapped", root=item.old_root, old_root=item.root)
        yield variant("sizes swapped", size=item.old_size, old_size=item.size)
        yield variant("sizes equal", old_size=item.size)
        yield variant("from nothing", old_size=0)


def _damaged_paths(item: Item) -> Iterator[Item]:
    def variant(path: str) -> Item:
        return replace(item, name=path, path=path)

    path = item.path
    full = path.partition(".p/")[0]
    for suffix in ("/", ".p", ".p/", ".p/0", ".p/256", ".p/07", ".p/-1", ".p/8/", "?", "\n"):
        yield variant(full + suffix)
    yield variant("/" + path)
    yield variant(path.replace("tile/", "tile//", 1))
    yield variant(path.replace("tile/", "tile/8/", 1))  # x/mod's own spelling, with the height
    yield variant(path.replace("tile/", "tile/0", 1))
    yield variant(path.replace("tile/", "tile/../tile/", 1))
    tile, level, rest = path.split("/", 2)
    yield variant(f"{tile}/{level}/x000/{rest}")
    yield variant(full[:-1])
    yield variant(full + "0")


def _flip(data: bytes, bit: int) -> bytes:
    at, bit = divmod(bit % (8 * len(data)), 8)
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def _swap(proof: tuple[bytes, ...], at: int) -> tuple[bytes, ...]:
    return (proof[at], *proof[1:at], proof[0], *proof[at + 1 :])
