"""An author of valid commits: receipts, heads, marks, seals, anchors, in an order a daemon could have
made.

Deterministic: the same calls give the same bytes, in another process too.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ledgerd.store.interface import (
    Admitted,
    AnchorIntent,
    AnchorRecord,
    Changes,
    Entry,
    ForkRecord,
    Head,
    KeyRecord,
    LogState,
    Mark,
    Quarantined,
    Sealed,
    Segment,
)
from receiptledger.core.evidence_manifest import encode_manifest
from receiptledger.core.leaf import AnchorLeaf
from receiptledger.core.tile import Frontier, TileId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerd.store.interface import Store

__all__ = ["EPOCH", "Author", "chain_of", "commits", "digest", "dump", "fork_at"]

EPOCH = 1_764_000_000_000_000  # microseconds


def digest(*parts: object) -> bytes:
    return hashlib.sha256("/".join(map(str, parts)).encode()).digest()


def chain_of(name: object) -> bytes:
    return digest("chain", name)


class Author:
    """Remembers what it wrote, so that the next commit follows from it."""

    def __init__(self) -> None:
        self.number = 0
        self.positions: dict[bytes, int] = {}  # chain -> next position
        self.marks: list[Mark] = []
        self.sealed: dict[bytes, int] = {}  # chain -> next position to seal
        self.unlogged: list[KeyRecord] = []
        self.frontier = Frontier.empty()
        self.roots: dict[int, bytes] = {}  # of every size that was sealed
        self.stamps: list[AnchorRecord] = []  # as a store has them now
        self.refused = 0

    def receipt(
        self, chain: bytes, *, content: str = "same", link: str = "own", size: int = 0
    ) -> Admitted:
        """The next receipt of a chain; hashes are "same" (as the receipt's), "content" or "own"."""
        position = self.positions.get(chain, 0)
        raw = f'{{"agent":"{chain.hex()}","sequence":{position}}}'.encode().ljust(size)
        receipt_hash = hashlib.sha256(raw).digest()
        content_hash = receipt_hash if content == "same" else digest("content", receipt_hash)
        links = {"same": receipt_hash, "content": content_hash, "own": digest("l", receipt_hash)}
        entry = Entry(
            number=self.number,
            leaf_hash=hashlib.sha256(b"\x00" + raw).digest(),
            receipt_hash=receipt_hash,
            content_hash=content_hash,
            link_hash=links[link],
            profile="agent-receipts",
            profile_version=1,
            key=digest("key", chain),
        )
        self.positions[chain] = position + 1
        self.number += 1
        return Admitted(chain, position, entry, raw, EPOCH + entry.number)

    def admit(self, *admitted: Admitted) -> Changes:
        """One commit of receipts with their heads and marks."""
        heads = {
            one.chain: Head(one.position, one.entry.link_hash, one.position + 1) for one in admitted
        }
        marks = [Mark(chain, head.position) for chain, head in heads.items()]
        self.marks += marks
        return Changes(admitted=admitted, heads=heads, marks=marks)

    def batch(self, *chains: bytes) -> Changes:
        """One commit of one plain receipt for each chain named."""
        return self.admit(*[self.receipt(chain) for chain in chains])

    def enrol(self, chain: bytes, name: str, mode: str = "pinned", since: int = 0) -> Changes:
        """One commit of a key."""
        record = KeyRecord(chain, digest("key", name), mode, since, None)
        self.unlogged.append(record)
        return Changes(keys=[record])

    def intend(self, tsa: str = "tsa-a") -> Changes:
        """One commit before a request for the newest checkpoint."""
        size = self.frontier.size
        nonce = int.from_bytes(digest("nonce", tsa, size)[:16], "big")
        return Changes(intents=[AnchorIntent(tsa, size, nonce, EPOCH + size)])

    def stamp(self, tsa: str = "tsa-a", size: int | None = None, *, at: int = 0) -> Changes:
        """One commit of an answer; `at` is its time, microseconds after the usual one."""
        number = len(self.stamps)
        size = self.frontier.size if size is None else size
        record = AnchorRecord(
            number=number,
            size=size,
            root=self.roots[size],
            tsa=tsa,
            request=f"request {number}".encode(),
            response=f"response {number}".encode() * 3,
            gen_time=EPOCH + number,
            stored_at=EPOCH + 10 * number + at,
        )
        self.stamps.append(record)
        return Changes(anchors=[record], dropped_intents=[tsa])

    def prove(self, number: int, *parts: bytes) -> Changes:
        """One commit of revocation evidence for an anchor; the parts are CRLs."""
        digests = [hashlib.sha256(part).digest() for part in parts]
        self.stamps[number] = record = replace(
            self.stamps[number], evidence=encode_manifest(digests, [])
        )
        return Changes(anchors=[record], blobs=dict(zip(digests, parts, strict=True)))

    def refuse(self, tsa: str = "tsa-a", cause: str = "nonce") -> Changes:
        """One commit of an answer that was refused."""
        number, self.refused = self.refused, self.refused + 1
        refused = Quarantined(
            number, tsa, self.frontier.size, cause, b"request", b"answer", EPOCH + number
        )
        return Changes(quarantined=[refused], dropped_intents=[tsa])

    def _seal_stamps(self, leaves: list[bytes]) -> list[AnchorRecord]:
        """The anchors that gain a leaf, which is appended."""
        gained = []
        for number, stamp in enumerate(self.stamps):
            if not stamp.unsealed:
                continue
            index = self.frontier.size + len(leaves)
            evidence = None if stamp.evidence is None else hashlib.sha256(stamp.evidence).digest()
            response = hashlib.sha256(stamp.response).digest()
            leaf = AnchorLeaf(stamp.size, stamp.root, stamp.tsa, response, evidence)
            leaves.append(leaf.encode())
            self.stamps[number] = replace(
                stamp,
                leaf_index=index if stamp.leaf_index is None else stamp.leaf_index,
                evidence_leaf_index=None if evidence is None else index,
            )
            gained.append(self.stamps[number])
        return gained

    def seal(self, *, filler: int = 0) -> Changes:
        """One seal of everything unsealed, with `filler` more leaves to grow the tree."""
        first = self.frontier.size
        leaves = [f'{{"filler":{first + at}}}'.encode() for at in range(filler)]
        keys = []
        for record in self.unlogged:
            keys.append(replace(record, leaf_index=first + len(leaves)))
            leaves.append(f'{{"key":"{record.key.hex()}"}}'.encode())
        segments = []
        for chain, end in self.positions.items():
            begin = self.sealed.get(chain, 0)
            if begin < end:
                segments.append(Segment(chain, begin, end - 1, first + len(leaves)))
                leaves.append(f'{{"chain":"{chain.hex()}","from":{begin},"to":{end}}}'.encode())
        self.sealed.update(self.positions)
        stamps = self._seal_stamps(leaves)
        hashes = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
        self.frontier, tiles = self.frontier.append(hashes)
        size, root = self.frontier.size, self.frontier.root()
        self.roots[size] = root
        note = f"log.example/test\n{size}\n{root.hex()}\n\n— signed\n".encode()
        state = LogState(size, root, note, self.number)
        cleared, self.marks, self.unlogged = self.marks, [], []
        return Changes(sealed=Sealed(first, leaves, tiles, segments, keys, cleared, state, stamps))


def fork_at(chain: bytes, position: int, raw: bytes) -> ForkRecord:
    return ForkRecord(chain, position, hashlib.sha256(raw).digest(), raw, EPOCH)


def dump(store: Store) -> dict[str, Any]:
    """Everything a store can be asked for."""
    state = store.log_state()
    size = state.size if state else 0
    heads = dict(store.chains())
    chains = [*heads, chain_of("nobody")]
    places = [(chain, at) for chain in heads for at in range(heads[chain].position + 2)]
    return {
        "number": store.next_number(),
        "heads": [heads, *map(store.head, chains)],
        "entries": [list(store.entries(chain, 0, 2**63 - 1)) for chain in chains],
        "receipts": [store.receipt(*place) for place in places],
        "segments": [store.segment(*place) for place in places],
        "last": [store.last_segment(chain) for chain in chains],
        "keys": [store.keys(chain) for chain in chains],
        "forks": [store.forks(chain) for chain in chains],
        "marks": list(store.marks()),
        "state": state,
        "leaves": store.leaves(0, size),
        "tiles": [store.tile(TileId(level, at)) for level in range(2) for at in range(4)],
        "notes": [store.checkpoint(at) for at in range(size + 2)],
        "intents": store.intents(),
        "anchors": list(store.anchors()),
        "by size": [one.number for one in store.anchors_by_size(0)],
        "by leaf": [one.number for one in store.anchors_by_leaf(2**63 - 1)],
        "unsealed": [one.number for one in store.unsealed_anchors()],
        "waiting": [one.number for one in store.anchors_without_evidence(2**63 - 1)],
        "blobs": [store.blob(name) for name in store.blob_digests()],
        "refused": list(store.quarantined()),
    }


def commits() -> Iterator[Changes]:
    """The same endless run of commits every time: receipts, keys, forks, seals and anchors."""
    author = Author()
    names = [chain_of(at) for at in range(5)]
    for count in itertools.count():
        yield author.enrol(names[count % 5], f"key {count}", "registered", count)
        yield author.batch(*names[: count % 5 + 1], names[0], chain_of(("new", count)))
        yield Changes(forks=[fork_at(names[0], count, f"fork {count}".encode())])
        yield author.seal(filler=count % 7)
        tsa = f"tsa-{count % 3}"
        yield author.intend(tsa)
        yield author.stamp(tsa)
        if count % 2:
            yield author.prove(count - 1, b"crl of %d" % count, b"crl of all")
            yield author.refuse(tsa)
