"""Python implementations by others: tlog-scales (checkpoints, tiles, proofs), scitt-cose (proofs)."""

from __future__ import annotations

import functools
import random
import secrets
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from item import Item
from scitt_cose import merkle
from tlog_scales import tiles
from tlog_scales.backend import HttpBackend, LocalBackend
from tlog_scales.reader import TilesReader
from tlog_scales.signing import PlainEd25519Signer, Vkey
from tlog_scales.tlog import (
    Checkpoint,
    ConsistencyProof,
    ConsistencyProofInvalid,
    InclusionProof,
    InclusionProofInvalid,
)
from tlog_scales.writer import TilesWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["judge", "make", "read"]

HTTP_SECONDS = 10
SCALES, SCITT = "tlog-scales", "scitt-cose"
REFUSALS = (
    InclusionProofInvalid,
    ConsistencyProofInvalid,
    InvalidSignature,
    RuntimeError,
    ValueError,
    LookupError,
)


def judge(item: Item) -> dict[str, str]:
    """Ask each package that knows the kind of item; the answer is "" or why it was refused."""
    if item.kind == "checkpoint":
        return {SCALES: _refusal(_check_checkpoint, item)}
    if item.kind == "inclusion":
        return {SCALES: _refusal(_check_inclusion, item), SCITT: _scitt_inclusion(item)}
    if item.kind == "consistency":
        return {SCALES: _refusal(_check_consistency, item), SCITT: _scitt_consistency(item)}
    return {}


def make(seed: int, folder: Path) -> Iterator[Item]:
    """Whole logs written by tlog-scales, and proofs by both packages in them."""
    rng = random.Random(seed)
    for size in (1, 2, 3, 7, 256, 257, 600):
        entries = [rng.randbytes(rng.randrange(1, 40)) for _ in range(size)]
        writer = TilesWriter.create(folder / str(size), "example.com/scales")
        signer = PlainEd25519Signer("example.com/scales", secrets.token_bytes(32))
        for part in (entries[: size // 2], entries[size // 2 :]):
            for entry in part:
                writer.add_leaf(entry)
            writer.commit([signer])
        key: str = signer.vkey.serialize()  # type: ignore[no-untyped-call]
        yield from _log(folder / str(size), key, entries, rng)


def read(url: str, trees: Sequence[Item]) -> Iterator[tuple[str, str]]:
    """Read a daemon with tlog-scales at each of its checkpoints: (what was checked, "" or why not)."""
    backend = HttpBackend(url)
    session = backend.session
    setattr(session, "request", functools.partial(session.request, timeout=HTTP_SECONDS))  # noqa: B010
    reader = TilesReader(backend)
    roots = {}
    for tree in trees:
        checkpoint = Checkpoint.from_text(tree.note.decode())
        size, root = checkpoint.size, checkpoint.root_hash
        roots[size] = root
        checks: dict[str, Callable[[Item], None]] = {
            "opens the checkpoint": _check_checkpoint,
            "rebuilds the root from tiles": functools.partial(_check_root, reader, size, root),
            "proves inclusion of entries": functools.partial(_check_entries, reader, size, root),
            "proves consistency": functools.partial(_check_older, reader, size, roots),
        }
        for what, check in checks.items():
            yield f"{SCALES} {what} at size {size}", _refusal(check, tree)
    live = reader.get_checkpoint().serialize().encode()
    yield f"{SCALES} reads /checkpoint", "" if live == trees[-1].note else f"came {live!r}"


def _check_root(reader: TilesReader, size: int, root: bytes, _: Item) -> None:
    reader.set_size(size)
    if reader.calculate_root_hash() != root:
        raise InclusionProofInvalid("another root")


def _check_entries(reader: TilesReader, size: int, root: bytes, _: Item) -> None:
    for index in {0, min(255, size - 1), min(256, size - 1), size // 2, size - 1}:
        leaf = tiles.leaf_hash(reader.get_entry(index))
        reader.get_inclusion_proof(index, size).check(leaf, root)


def _check_older(reader: TilesReader, size: int, roots: dict[int, bytes], _: Item) -> None:
    for old, root in roots.items():
        reader.get_consistency_proof(old, size).check(root, roots[size])


def _check_checkpoint(item: Item) -> None:
    Checkpoint.from_text(item.note.decode()).verify(Vkey.from_string(item.keys[0]))


def _check_inclusion(item: Item) -> None:
    proof = InclusionProof(item.index, item.size, list(item.proof))
    proof.check(tiles.leaf_hash(item.entry), item.root)


def _check_consistency(item: Item) -> None:
    proof = ConsistencyProof(item.old_size, item.size, list(item.proof))
    proof.check(item.old_root, item.root)


def _refusal(check: Callable[[Item], None], item: Item) -> str:
    try:
        check(item)
    except REFUSALS as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _scitt_inclusion(item: Item) -> str:
    proof = [node.hex() for node in item.proof]
    holds = merkle.verify_inclusion(item.entry.hex(), item.index, item.size, proof, item.root.hex())
    return "" if holds else "does not hold"


def _scitt_consistency(item: Item) -> str:
    proof = [node.hex() for node in item.proof]
    holds = merkle.verify_consistency(
        item.old_root.hex(), item.root.hex(), item.old_size, item.size, proof
    )
    return "" if holds else "does not hold"


def _log(folder: Path, key: str, entries: list[bytes], rng: random.Random) -> Iterator[Item]:
    """The checkpoint of one written log, and proofs in it, by either package in turn."""
    size = len(entries)
    reader = TilesReader(LocalBackend(folder))
    root = reader.get_checkpoint().root_hash
    note = (folder / "checkpoint").read_bytes()
    yield Item("checkpoint", f"{SCALES}, size {size}", keys=(key,), note=note)
    hexes = [entry.hex() for entry in entries]
    for index in {0, size - 1, rng.randrange(size)}:
        by_scales = reader.get_inclusion_proof(index, size).node_hashes
        by_scitt = [bytes.fromhex(node) for node in merkle.inclusion_proof(hexes, index)]
        for tool, proof in ((SCALES, by_scales), (SCITT, by_scitt)):
            yield Item(
                "inclusion",
                f"{tool}, leaf {index} of {size}",
                entry=entries[index],
                index=index,
                size=size,
                proof=tuple(proof),
                root=root,
            )
    for old in {size, max(1, size // 2), rng.randrange(size) + 1}:
        by_scales = reader.get_consistency_proof(old, size).node_hashes
        by_scitt = [bytes.fromhex(node) for node in merkle.consistency_proof(hexes, old, size)]
        for tool, proof in ((SCALES, by_scales), (SCITT, by_scitt)):
            yield Item(
                "consistency",
                f"{tool}, {old} to {size}",
                old_size=old,
                size=size,
                proof=tuple(proof),
                old_root=bytes.fromhex(merkle.merkle_root(hexes[:old])),
                root=root,
            )
