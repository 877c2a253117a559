"""The ledger's side: what it accepts of items that others made, and items it makes for them."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from item import Item

from receiptledger.core.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from receiptledger.core.errors import EvidenceError, LedgerError, Reason
from receiptledger.core.merkle import (
    hash_leaf,
    plan_consistency,
    plan_inclusion,
    root_hash,
    verify_consistency,
    verify_inclusion,
)
from receiptledger.core.note import NoteSigner, VerifierKey, open_note, sign_note
from receiptledger.core.tile import (
    Frontier,
    TileId,
    entries_path,
    parse_entries_path,
    parse_tile_path,
    read_nodes,
    tile_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["judge", "make"]

TOOL = "ledger"


def judge(item: Item) -> dict[str, str]:
    """Accept an item, or say why not. Anything but our own errors would be a defect: not caught."""
    try:
        _check(item)
    except LedgerError as error:
        return {TOOL: str(error) or repr(error)}
    return {TOOL: ""}


def make(seed: int) -> Iterator[Item]:
    """Notes, proofs and tile names made by `receiptledger.core`, all from one seed."""
    rng = random.Random(seed)
    yield from _notes(rng)
    for size in (1, 2, 3, 6, 8, 255, 256, 257, 700, *(rng.randrange(9, 1_500) for _ in range(6))):
        yield from _proofs(rng, size)
    for number in range(300):
        level, index = rng.randrange(-1, 7), rng.getrandbits(rng.randrange(1, 55))
        width = 256 if number % 2 else rng.randrange(1, 256)
        path = entries_path(index, width) if level < 0 else tile_path(TileId(level, index), width)
        yield Item("tile", path, path=path, level=level, index=index, width=width)


def _check(item: Item) -> None:
    if item.kind == "note":
        keys = {VerifierKey.parse(key) for key in item.keys}
        if set(open_note(item.note, *keys).signed_by) != keys:
            raise EvidenceError(Reason.BAD_NOTE, "not signed by all keys")
    elif item.kind == "checkpoint":
        open_checkpoint(item.note, VerifierKey.parse(item.keys[0]))
    elif item.kind == "inclusion":
        verify_inclusion(hash_leaf(item.entry), item.index, item.size, item.proof, item.root)
    elif item.kind == "consistency":
        verify_consistency(item.old_size, item.size, item.proof, item.old_root, item.root)
    else:
        _check_path(item)


def _check_path(item: Item) -> None:
    if item.level < 0:
        index, width = parse_entries_path(item.path)
        level = -1
    else:
        (level, index), width = parse_tile_path(item.path)
    if (level, index, width) != (item.level, item.index, item.width):
        raise EvidenceError(Reason.BAD_PROOF, f"reads as {(level, index, width)}")


def _notes(rng: random.Random) -> Iterator[Item]:
    texts = ("one line\n", "with\n\nempty\n\n\nlines\n", "π, \u2028 and \x85 end no line\n", "—\n")
    names = ("example.com/log", "журнал.example/№1")
    for number, text in enumerate(texts):
        signer = NoteSigner.from_seed(names[number % 2], rng.randbytes(32))
        note = sign_note(text.encode(), signer)
        yield Item("note", f"note {number}", keys=(str(signer.verifier),), note=note)
    signers = [NoteSigner.from_seed(f"{name}.example", rng.randbytes(32)) for name in "abc"]
    keys = tuple(str(signer.verifier) for signer in signers)
    yield Item("note", "note of three", keys=keys, note=sign_note(b"signed thrice\n", *signers))
    for size in (0, 1, 256, 2**63 - 1):
        signer = NoteSigner.from_seed("example.com/log", rng.randbytes(32))
        root = hashlib.sha256(rng.randbytes(8) if size else b"").digest()
        note = sign_checkpoint(Checkpoint("example.com/log", size, root), signer)
        yield Item("checkpoint", f"size {size}", keys=(str(signer.verifier),), note=note)


def _proofs(rng: random.Random, size: int) -> Iterator[Item]:
    """Proofs read from tiles, as the daemon makes them."""
    entries = [rng.randbytes(rng.randrange(40)) for _ in range(size)]
    hashes = [hash_leaf(entry) for entry in entries]
    frontier, rows = Frontier.empty().append(hashes)
    root = frontier.root()
    for index in {0, size - 1, size // 2, rng.randrange(size)}:
        plan = plan_inclusion(index, size)
        proof = tuple(plan.fold(read_nodes(plan.nodes, rows.__getitem__)))
        yield Item(
            "inclusion",
            f"leaf {index} of {size}",
            entry=entries[index],
            index=index,
            size=size,
            proof=proof,
            root=root,
        )
    for old in {size, max(1, size // 2), max(1, size - 1), rng.randrange(size) + 1}:
        plan = plan_consistency(old, size)
        proof = tuple(plan.fold(read_nodes(plan.nodes, rows.__getitem__)))
        yield Item(
            "consistency",
            f"{old} to {size}",
            old_size=old,
            size=size,
            proof=proof,
            old_root=root_hash(hashes[:old]),
            root=root,
        )
