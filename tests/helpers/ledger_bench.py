"""One ledger with a bit of everything, its rows, and a bench to damage them on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ledgerd.store import anchor_schema, fsck_report, schema
from ledgerd.store.families import (
    DEFAULT,
    HASHES,
    HEADS,
    INDEX,
    JOURNAL,
    LEAVES,
    SEGMENTS,
    TILES,
)
from ledgerd.store.fsck import Report, check
from ledgerd.store.interface import AnchorRecord, Entry, LogState, Mark, Store
from ledgerd.store.rocks import RocksStore
from receiptledger.core.checkpoint import Checkpoint, sign_checkpoint
from receiptledger.core.leaf import Leaf, parse_leaf
from receiptledger.core.merkle import hash_leaf
from receiptledger.core.tile import Frontier, TileId
from tests.helpers.agents import Agent, FarleyAgent, link, read
from tests.helpers.ledgers import DictStore, Ledger, Rows, dump
from tests.helpers.stamps import intend, prove, refuse, stamp

if TYPE_CHECKING:
    from pathlib import Path

# Two keys are enrolled for the first agent, the others are pinned; the third has no numbers.
ANNA, ANNA_NEW = Agent("anna", 1), Agent("anna", 2)
BERT, CARL = Agent("bert", 3), FarleyAgent("carl", 4)
DORA, EMIL = Agent("dora", 5), Agent("emil", 6)
ANNAS = ANNA.receipts(3)
ANNAS += ANNA_NEW.receipts(3, after=ANNAS[-1])
BERTS, CARLS, DORAS = BERT.receipts(5), CARL.receipts(4), DORA.receipts(2)


def fill(store: Store, folder: Path) -> Ledger:
    """Two keys on one chain, a fork, three seals, and unsealed receipts of an old and a new chain."""
    enrolled = {"anna": (ANNA.public_key, ANNA_NEW.public_key)}
    ledger = Ledger(store, folder, enrolled=enrolled)
    ledger.admit(ANNAS[:3])
    ledger.admit([*BERTS[:2], *CARLS[:3]], hints=[CARL.public_key])
    ledger.seal()
    ledger.admit(ANNAS[3:5])
    ledger.admit([ANNAS[5], CARLS[3], ANNA.receipt(1, link(ANNAS[0]), tool_name="other")])
    ledger.seal()
    ledger.admit([*DORAS, BERTS[2]])
    ledger.seal()
    ledger.admit(BERTS[3:])
    ledger.admit(EMIL.receipts(1))
    return ledger


def fill_anchored(store: Store, folder: Path) -> Ledger:
    """Six anchors: of one leaf, two leaves or none, with evidence and without; and all the rest.

    Leaves: 0..1 of receipts, 2..4 of anchors 0..2 (the last with its evidence), 5 of a receipt, 6..7 of
    anchors 3 and 4, 8 of the evidence of anchor 0; anchor 5 and the evidence of anchor 1 are unsealed.
    """
    ledger = Ledger(store, folder)
    ledger.admit(BERTS[:2])
    ledger.seal()
    for tsa in ("tsa-a", "tsa-b", "tsa-c"):
        ledger.commit(stamp(store, tsa))
    _prove(ledger, 2, b"crl", b"ocsp 2")
    ledger.seal()
    ledger.commit(stamp(store, "tsa-a", size=2))
    ledger.commit(stamp(store, "tsa-b"))
    ledger.admit(BERTS[2:3])
    ledger.seal()
    _prove(ledger, 0, b"crl", b"ocsp 0")
    ledger.seal()
    ledger.commit(stamp(store, "tsa-c"))
    _prove(ledger, 1, b"crl")
    ledger.commit(intend(store, "tsa-a"))
    ledger.commit(intend(store, "tsa-b"))
    for cause in ("nonce", "imprint", "signature"):
        ledger.commit(refuse(store, cause=cause))
    return ledger


def _prove(ledger: Ledger, number: int, *parts: bytes) -> None:
    record = ledger.store.anchor(number)
    assert record is not None
    ledger.commit(prove(record, *parts))


class Sample:
    """The rows of one ledger, to be damaged in copies."""

    def __init__(self, ledger: Ledger) -> None:
        assert isinstance(ledger.store, RocksStore)
        self._rows = dump(ledger.store)
        self.signer = ledger.signer
        self.guard = ledger.guard.read()
        self.notes = {state.size: state.note for state in ledger.published}

    def rows(self) -> Rows:
        return {family: dict(rows) for family, rows in self._rows.items()}

    def check(self, rows: Rows, *, guard: bytes | None = None) -> Report:
        store = DictStore(rows)
        return check(store, self.signer.verifier, guard=guard or self.guard, threads=1)


class Bench:
    """Edits a copy of the sample's rows record by record."""

    def __init__(self, sample: Sample) -> None:
        self.rows = sample.rows()
        self.signer = sample.signer
        self.notes = sample.notes

    def entry(self, chain: bytes, position: int, **changes: object) -> Entry:
        key = schema.encode_place(chain, position)
        entry = replace(schema.decode_entry(self.rows[INDEX][key]), **changes)  # type: ignore[arg-type]
        self.rows[INDEX][key] = schema.encode_entry(entry)
        return entry

    def stored(self, chain: bytes, position: int, raw: bytes) -> None:
        """Other bytes at a position, with everything the index says of them made to fit."""
        key = schema.encode_number(self.entry(chain, position).number)
        before = schema.decode_stored(self.rows[JOURNAL][key])
        self.rows[JOURNAL][key] = schema.encode_stored(replace(before, raw=raw))
        receipt = read(raw)
        entry = self.entry(chain, position)
        del self.rows[HASHES][schema.receipt_key(entry.receipt_hash)]
        place = schema.encode_place(chain, position)
        self.rows[HASHES][schema.receipt_key(receipt.receipt_hash)] = place
        self.entry(
            chain,
            position,
            leaf_hash=hash_leaf(raw),
            receipt_hash=receipt.receipt_hash,
            content_hash=receipt.content_hash,
            link_hash=receipt.link_hash,
        )

    def head(self, chain: bytes, **changes: object) -> None:
        head = replace(schema.decode_head(self.rows[HEADS][chain]), **changes)  # type: ignore[arg-type]
        self.rows[HEADS][chain] = schema.encode_head(head)

    def segment(self, chain: bytes, at: int, **changes: object) -> None:
        key = schema.encode_place(chain, at)
        segment = schema.decode_segment(key, self.rows[SEGMENTS].pop(key))
        self.put(SEGMENTS, schema.encode_segment(replace(segment, **changes)))  # type: ignore[arg-type]

    def key(self, agent: Agent, **changes: object) -> None:
        name = b"k" + agent.chain + agent.public_key
        record = replace(schema.decode_key(name, self.rows[DEFAULT][name]), **changes)  # type: ignore[arg-type]
        self.put(DEFAULT, schema.encode_key(record))

    def fork(self, **changes: object) -> None:
        (key,) = (key for key in self.rows[DEFAULT] if key[:1] == b"f")
        fork = schema.decode_fork(key, self.rows[DEFAULT].pop(key))
        self.put(DEFAULT, schema.encode_fork(replace(fork, **changes)))  # type: ignore[arg-type]

    def mark(self, chain: bytes, position: int) -> None:
        self.put(DEFAULT, schema.encode_mark(Mark(chain, position)))

    def state(self, **changes: object) -> LogState:
        state = replace(schema.decode_state(self.rows[DEFAULT][b"s"]), **changes)  # type: ignore[arg-type]
        self.rows[DEFAULT][b"s"] = schema.encode_state(state)
        return state

    def anchor(self, number: int, **changes: object) -> AnchorRecord:
        """Other content of an anchor; nothing that leads to it is changed."""
        key = anchor_schema.anchor_key(number)
        record = anchor_schema.decode_anchor(number, self.rows[DEFAULT][key])
        record = replace(record, **changes)  # type: ignore[arg-type]
        self.rows[DEFAULT][key] = anchor_schema.encode_anchor(record)
        return record

    def put(self, family: str, row: tuple[bytes, bytes]) -> None:
        self.rows[family][row[0]] = row[1]

    def flip(self, family: str, key: bytes, at: int) -> None:
        self.rows[family][key] = flipped(self.rows[family][key], at)

    def remove(self, family: str, key: bytes) -> None:
        del self.rows[family][key]

    def number(self, chain: bytes, position: int) -> bytes:
        return schema.encode_number(self.entry(chain, position).number)

    def leaf(self, index: int) -> Leaf:
        return parse_leaf(self.rows[LEAVES][schema.encode_number(index)])

    def put_leaf(self, index: int, leaf: Leaf) -> None:
        self.rows[LEAVES][schema.encode_number(index)] = leaf.encode()

    def regrow(self) -> None:
        """Tiles, root, and a newly signed checkpoint, as the log's owner could make them."""
        leaves = [self.rows[LEAVES][key] for key in sorted(self.rows[LEAVES])]
        frontier, tiles = Frontier.empty().append([hash_leaf(leaf) for leaf in leaves])
        self.rows[TILES] = {schema.tile_key(tile): row for tile, row in tiles.items()}
        checkpoint = Checkpoint(self.signer.verifier.name, frontier.size, frontier.root())
        note = sign_checkpoint(checkpoint, self.signer)
        self.state(root=frontier.root(), note=note)
        self.rows[DEFAULT][schema.checkpoint_key(frontier.size)] = note


def tile_key(index: int = 0, level: int = 0) -> bytes:
    return schema.tile_key(TileId(level, index))


def place(agent: Agent, position: int) -> str:
    return fsck_report.place(agent.chain, position)


def flipped(data: bytes, at: int) -> bytes:
    """One bit of one byte."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def row(rows: Rows, family: str, chain: bytes, position: int) -> tuple[bytes, bytes]:
    """Key and value of an entry or segment."""
    key = schema.encode_place(chain, position)
    return key, rows[family][key]
