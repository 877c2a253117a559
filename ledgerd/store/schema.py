"""Key layout and record encodings of the store, both ways.

A record has one spelling: decoders accept what the encoders write and nothing else (see `fields`).
A change to any of this is a new :data:`ledgerd.store.families.FORMAT`.

    family    key                              value
    journal   number u64                       chain 32, position u64, admitted_at u64, raw
    index     chain 32, position u64           see :func:`encode_entry`
    heads     chain 32                         position u64, link hash 32 [, sequence u64] [, 0: no links]
    hashes    "r", receipt hash 32             chain 32, position u64
              "a", chain 32, other hash 32     position u64
    leaves    index u64                        leaf, 1..65,535 bytes
    tiles     level u8, index u64              1..256 hashes: a row that grows
    segments  chain 32, first u64              last u64, leaf index u64
    default   "a", number u64                  see :func:`anchor_schema.encode_anchor`
              "b", SHA-256 32                  part of revocation evidence (a CRL, an OCSP response)
              "c", size u64                    signed note of the checkpoint
              "f", chain, position, hash 32    refused_at u64, raw
              "i", name of a TSA               size u64, started_at u64, nonce 32: asked, no answer yet
              "k", chain 32, name of key 32    mode u8, since u64 [, leaf index u64] [, key: no Ed25519]
              "l", leaf index u64              number u64: the anchor this leaf is of
              "m", chain 32, position u64      nothing: unsealed up to here
              "n", stored_at u64, number u64   nothing: this anchor has no evidence yet
              "q", number u64                  see :func:`anchor_schema.encode_quarantined`
              "s"                              size u64, sealed_number u64, root 32, signed note
              "u", number u64                  nothing: the next seal owes this anchor a leaf
              "z", size u64, number u64        nothing: an anchor of this checkpoint

Receipts lie in admission order because those files are then never rewritten, only the small index.
"""

from __future__ import annotations

import struct
from typing import Final

from ledgerd.store.fields import (
    MAX_INTEGER,
    check,
    damaged,
    decode_number,
    decode_place,
    encode_number,
    encode_place,
    no_spelling,
    sized,
)
from ledgerd.store.interface import (
    Admitted,
    Entry,
    ForkRecord,
    Head,
    KeyRecord,
    LogState,
    Mark,
    Segment,
    Stored,
    key_name,
)
from receiptledger.core.algorithms import KEY_SIZES
from receiptledger.core.tile import MAX_ENTRY_BYTES, TILE_WIDTH, TileId

__all__ = [
    "MAX_INTEGER",
    "STATE_KEY",
    "alias_key",
    "checkpoint_key",
    "decode_alias_key",
    "decode_checkpoint_key",
    "decode_entry",
    "decode_fork",
    "decode_head",
    "decode_key",
    "decode_leaf",
    "decode_mark",
    "decode_number",
    "decode_place",
    "decode_receipt_key",
    "decode_row",
    "decode_segment",
    "decode_state",
    "decode_stored",
    "decode_tile_key",
    "encode_entry",
    "encode_fork",
    "encode_head",
    "encode_key",
    "encode_leaf",
    "encode_mark",
    "encode_number",
    "encode_place",
    "encode_row",
    "encode_segment",
    "encode_state",
    "encode_stored",
    "head_key",
    "key_order",
    "receipt_key",
    "scope",
    "tile_key",
]

STATE_KEY: Final = b"s"

_PAIR = struct.Struct(">QQ")
_ENTRY = struct.Struct(">BQIB")  # flags, number, profile version, bytes of the profile
_MODES: Final = {"pinned": b"p", "registered": b"r"}
_MODE_NAMES: Final = {value: name for name, value in _MODES.items()}
_LONG_KEYS: Final = tuple(size for size in KEY_SIZES.values() if size != 32)
_NO_LINKS: Final = b"\x00"

# Flags of an entry: a hash that equals another one is left out (most formats have one or two).
_CONTENT_IS_RECEIPT: Final = 1
_LINK_IS_RECEIPT: Final = 2
_LINK_IS_CONTENT: Final = 4  # and differs from the receipt hash
_HASHES_LEFT: Final = {0: 5, 1: 4, 2: 4, 3: 3, 4: 4}  # flags -> hashes stored; no other flags


def encode_stored(record: Stored | Admitted) -> bytes:
    """Journal record: the receipt's place and time, then its exact bytes."""
    position, admitted_at = record.position, record.admitted_at
    if not record.raw or position > MAX_INTEGER or admitted_at > MAX_INTEGER:
        raise no_spelling("receipt", (record.chain, position, admitted_at, len(record.raw)))
    try:
        head = record.chain + _PAIR.pack(position, admitted_at)
    except struct.error as error:
        raise no_spelling("receipt", (record.chain, position, admitted_at)) from error
    return sized(head, 48, "chain") + record.raw


def decode_stored(data: bytes) -> Stored:
    """The reverse of :func:`encode_stored`."""
    check(len(data) > 48, "journal record", data)
    position, admitted_at = _PAIR.unpack_from(data, 32)
    check(position <= MAX_INTEGER and admitted_at <= MAX_INTEGER, "journal record", data)
    return Stored(data[:32], position, data[48:], admitted_at)


def encode_entry(entry: Entry) -> bytes:
    """Index record.

    flags u8, number u64, profile version u32, length of the profile u8, profile UTF-8, name of the
    key 32, leaf hash 32, receipt hash 32, content hash 32 unless it equals the receipt hash, link hash 32
    unless it equals either.
    """
    receipt, content, link = entry.receipt_hash, entry.content_hash, entry.link_hash
    flags = 0
    hashes = entry.key + entry.leaf_hash + receipt
    if content == receipt:
        flags = _CONTENT_IS_RECEIPT
    else:
        hashes += content
    if link == receipt:
        flags |= _LINK_IS_RECEIPT
    elif link == content:
        flags |= _LINK_IS_CONTENT
    else:
        hashes += link
    if len(hashes) != 32 * _HASHES_LEFT[flags] or not 0 <= entry.number <= MAX_INTEGER:
        raise no_spelling("entry", entry)
    try:
        profile = entry.profile.encode()
        head = _ENTRY.pack(flags, entry.number, entry.profile_version, len(profile))
    except (struct.error, UnicodeEncodeError) as error:
        raise no_spelling("entry", entry) from error
    return head + profile + hashes


def decode_entry(data: bytes) -> Entry:
    """The reverse of :func:`encode_entry`."""
    check(len(data) >= _ENTRY.size, "entry", data)
    flags, number, version, length = _ENTRY.unpack_from(data)
    at = _ENTRY.size + length
    left = _HASHES_LEFT.get(flags, 0)
    check(left > 0 and len(data) == at + 32 * left and number <= MAX_INTEGER, "entry", data)
    try:
        profile = data[_ENTRY.size : at].decode()
    except UnicodeDecodeError as error:
        raise damaged("entry", data) from error
    receipt = data[at + 64 : at + 96]
    if flags & _CONTENT_IS_RECEIPT:
        content = receipt
    else:
        content = data[at + 96 : at + 128]
        check(content != receipt, "entry", data)
    if flags & _LINK_IS_RECEIPT:
        link = receipt
    elif flags & _LINK_IS_CONTENT:
        link = content
    else:
        link = data[-32:]
        check(link != receipt and link != content, "entry", data)
    key, leaf = data[at : at + 32], data[at + 32 : at + 64]
    return Entry(number, leaf, receipt, content, link, profile, version, key)


def head_key(chain: bytes) -> bytes:
    """The chain key itself."""
    return sized(chain, 32, "chain")


def encode_head(head: Head) -> bytes:
    """Record of a chain's head: position, link hash [, the format's own number] [, no links]."""
    data = sized(encode_number(head.position) + head.link_hash, 40, "head")
    if head.sequence is not None:
        data += encode_number(head.sequence)
    return data if head.linked else data + _NO_LINKS


def decode_head(data: bytes) -> Head:
    """The reverse of :func:`encode_head`."""
    linked = len(data) % 8 == 0
    check(len(data) in (40, 48) if linked else len(data) in (41, 49), "head", data)
    check(linked or data.endswith(_NO_LINKS), "head", data)
    sequence = decode_number(data[40:48]) if len(data) >= 48 else None
    return Head(decode_number(data[:8]), data[8:40], sequence, linked)


def receipt_key(receipt_hash: bytes) -> bytes:
    """Key that finds a receipt by SHA-256 of its bytes; its value is :func:`encode_place`."""
    return sized(b"r" + receipt_hash, 33, "receipt hash")


def decode_receipt_key(key: bytes) -> bytes:
    """The reverse of :func:`receipt_key`."""
    check(len(key) == 33 and key[:1] == b"r", "key of a receipt hash", key)
    return key[1:]


def alias_key(chain: bytes, digest: bytes) -> bytes:
    """Key that finds a position by another hash; its value is :func:`encode_number`.

    Scoped to the chain: a content or link hash is chosen by what the agent signs, so one agent must
    not be able to take another's.
    """
    return sized(b"a" + chain + digest, 65, "chain and hash")


def decode_alias_key(key: bytes) -> tuple[bytes, bytes]:
    """The reverse of :func:`alias_key`: (chain, digest)."""
    check(len(key) == 65 and key[:1] == b"a", "key of another hash", key)
    return key[1:33], key[33:]


def encode_leaf(leaf: bytes) -> bytes:
    """A leaf is stored as it is; tlog-tiles gives its length 16 bits."""
    if not 0 < len(leaf) <= MAX_ENTRY_BYTES:
        raise no_spelling("leaf", leaf)
    return leaf


def decode_leaf(data: bytes) -> bytes:
    """The reverse of :func:`encode_leaf`."""
    check(0 < len(data) <= MAX_ENTRY_BYTES, "leaf", data)
    return data


def tile_key(tile: TileId) -> bytes:
    """Key of a tile's row: level u8 || index u64."""
    if not 0 <= tile.level <= 63:
        raise no_spelling("tile", tile)
    return bytes((tile.level,)) + encode_number(tile.index)


def decode_tile_key(key: bytes) -> TileId:
    """The reverse of :func:`tile_key`."""
    check(len(key) == 9 and key[0] <= 63, "key of a tile", key)
    return TileId(key[0], decode_number(key[1:]))


def encode_row(row: bytes) -> bytes:
    """A tile's row is stored as it is: 1..256 hashes."""
    if not row or len(row) % 32 or len(row) > 32 * TILE_WIDTH:
        raise no_spelling("tile row", row)
    return row


def decode_row(data: bytes) -> bytes:
    """The reverse of :func:`encode_row`."""
    check(len(data) % 32 == 0 and 0 < len(data) <= 32 * TILE_WIDTH, "tile row", data)
    return data


def encode_segment(segment: Segment) -> tuple[bytes, bytes]:
    """(key, value) of a sealed segment."""
    if segment.last < segment.first:
        raise no_spelling("segment", segment)
    value = encode_number(segment.last) + encode_number(segment.leaf_index)
    return encode_place(segment.chain, segment.first), value


def decode_segment(key: bytes, value: bytes) -> Segment:
    """The reverse of :func:`encode_segment`."""
    chain, first = decode_place(key)
    check(len(value) == 16, "segment", value)
    last, leaf_index = decode_number(value[:8]), decode_number(value[8:])
    check(first <= last, "segment", value)
    return Segment(chain, first, last, leaf_index)


def encode_state(state: LogState) -> bytes:
    """The log as last sealed, under :data:`STATE_KEY`."""
    if not state.note:
        raise no_spelling("log state", state)
    numbers = encode_number(state.size) + encode_number(state.sealed_number)
    return sized(numbers + state.root, 48, "log state") + state.note


def decode_state(data: bytes) -> LogState:
    """The reverse of :func:`encode_state`."""
    check(len(data) > 48, "log state", data)
    size, sealed_number = decode_number(data[:8]), decode_number(data[8:16])
    return LogState(size, data[16:48], data[48:], sealed_number)


def checkpoint_key(size: int) -> bytes:
    """Key of the note published at a tree size; its value is the note."""
    return b"c" + encode_number(size)


def decode_checkpoint_key(key: bytes) -> int:
    """The reverse of :func:`checkpoint_key`."""
    check(key[:1] == b"c", "key of a checkpoint", key)
    return decode_number(key[1:])


def scope(kind: bytes, chain: bytes) -> bytes:
    """Prefix of one chain's keys (`b"k"`) or forks (`b"f"`) in the default family."""
    return sized(kind + chain, 33, "chain")


def encode_key(record: KeyRecord) -> tuple[bytes, bytes]:
    """(key, value) of a public key a chain may use."""
    if record.mode not in _MODES:
        raise no_spelling("trust mode", record.mode)
    value = _MODES[record.mode] + encode_number(record.since)
    if record.leaf_index is not None:
        value += encode_number(record.leaf_index)
    if len(record.key) != 32:
        if len(record.key) not in _LONG_KEYS:
            raise no_spelling("key", record.key)
        value += record.key
    return sized(b"k" + record.chain + record.name, 65, "key"), value


def decode_key(key: bytes, value: bytes) -> KeyRecord:
    """The reverse of :func:`encode_key`."""
    check(len(key) == 65 and key[:1] == b"k", "key of a key record", key)
    mode = _MODE_NAMES.get(value[:1])
    head = next((len(value) - n for n in (0, *_LONG_KEYS) if len(value) - n in (9, 17)), 0)
    if mode is None or not head:
        raise damaged("key record", value)
    leaf_index = decode_number(value[9:17]) if head == 17 else None
    public = value[head:] or key[33:]
    check(key_name(public) == key[33:], "key record", value)
    return KeyRecord(key[1:33], public, mode, decode_number(value[1:9]), leaf_index)


def key_order(record: KeyRecord) -> tuple[int, int, bytes]:
    """Sort key, oldest first: by first position, then in the order of the log, unsealed last."""
    index = MAX_INTEGER if record.leaf_index is None else record.leaf_index
    return record.since, index, record.key


def encode_fork(fork: ForkRecord) -> tuple[bytes, bytes]:
    """(key, value) of fork evidence."""
    if not fork.raw:
        raise no_spelling("fork", (fork.chain, fork.position, b""))
    key = b"f" + encode_place(fork.chain, fork.position) + fork.receipt_hash
    return sized(key, 73, "fork"), encode_number(fork.refused_at) + fork.raw


def decode_fork(key: bytes, value: bytes) -> ForkRecord:
    """The reverse of :func:`encode_fork`."""
    check(len(key) == 73 and key[:1] == b"f", "key of a fork", key)
    check(len(value) > 8, "fork", value)
    chain, position = decode_place(key[1:41])
    return ForkRecord(chain, position, key[41:], value[8:], decode_number(value[:8]))


def encode_mark(mark: Mark) -> tuple[bytes, bytes]:
    """(key, value) of a mark."""
    return b"m" + encode_place(mark.chain, mark.position), b""


def decode_mark(key: bytes, value: bytes) -> Mark:
    """The reverse of :func:`encode_mark`."""
    check(key[:1] == b"m" and not value, "mark", key + value)
    return Mark(*decode_place(key[1:]))
