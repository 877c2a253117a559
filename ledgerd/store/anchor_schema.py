"""Encodings of what a store keeps of timestamps, both ways.

Part of :mod:`ledgerd.store.schema`, which has the table of all keys and the rules.
"""

from __future__ import annotations

import re
import struct
from hashlib import sha256
from typing import Final

from ledgerd.store.fields import (
    MAX_INTEGER,
    check,
    damaged,
    decode_number,
    encode_number,
    no_spelling,
    sized,
)
from ledgerd.store.interface import AnchorIntent, AnchorRecord, Quarantined
from receiptledger.core.leaf import is_tsa_name

__all__ = [
    "MAX_BLOB_BYTES",
    "MAX_MESSAGE_BYTES",
    "anchor_key",
    "anchor_leaf_key",
    "blob_key",
    "decode_anchor",
    "decode_anchor_key",
    "decode_anchor_leaf",
    "decode_blob",
    "decode_blob_key",
    "decode_intent",
    "decode_pair_key",
    "decode_quarantine_key",
    "decode_quarantined",
    "decode_unsealed",
    "encode_anchor",
    "encode_blob",
    "encode_intent",
    "encode_quarantined",
    "intent_key",
    "quarantine_key",
    "size_key",
    "unsealed_key",
    "waiting_key",
]

MAX_MESSAGE_BYTES: Final = 65_536  # a request, a response, a manifest
MAX_BLOB_BYTES: Final = 1_048_576  # a CRL or OCSP response

_ANCHOR = struct.Struct(">BQQQ32sBII")  # flags, size, times, root, lengths of name and messages
_INTENT = struct.Struct(">QQ32s")  # size, started_at, nonce
_QUARANTINED = struct.Struct(">QQBBI")  # refused_at, size, lengths of all but the response
_CAUSE: Final = re.compile(r"[a-z0-9_]{1,64}", re.ASCII)

# Flags of an anchor: what it has gained. An evidence leaf comes with evidence and a leaf only.
_HAS_LEAF: Final = 1
_HAS_EVIDENCE: Final = 2
_HAS_EVIDENCE_LEAF: Final = 4
_FLAGS: Final = {0, 1, 2, 3, 7}


def anchor_key(number: int) -> bytes:
    """Key of an anchor; its value is :func:`encode_anchor`."""
    return b"a" + encode_number(number)


def decode_anchor_key(key: bytes) -> int:
    """The reverse of :func:`anchor_key`."""
    check(len(key) == 9 and key[:1] == b"a", "key of an anchor", key)
    return decode_number(key[1:])


def encode_anchor(record: AnchorRecord) -> bytes:
    """Anchor record.

    flags u8, size u64, gen_time u64, stored_at u64, root 32, length of the TSA's name u8, of the
    request u32, of the response u32, name, request, response [, leaf index u64] [, evidence leaf
    index u64] [, evidence].
    """
    flags, tail = 0, b""
    if record.leaf_index is not None:
        flags, tail = _HAS_LEAF, encode_number(record.leaf_index)
    if record.evidence_leaf_index is not None:
        flags |= _HAS_EVIDENCE_LEAF
        tail += encode_number(record.evidence_leaf_index)
    if record.evidence is not None:
        flags |= _HAS_EVIDENCE
        tail += _message("evidence", record.evidence)
    tsa = _name(record.tsa)
    request, response = _message("request", record.request), _message("response", record.response)
    numbers = (record.size, record.gen_time, record.stored_at)
    lengths = len(tsa), len(request), len(response)
    root = sized(record.root, 32, "root")
    if flags not in _FLAGS or not all(0 <= number <= MAX_INTEGER for number in numbers):
        raise no_spelling("anchor", (record.number, *numbers, flags))
    return _ANCHOR.pack(flags, *numbers, root, *lengths) + tsa + request + response + tail


def decode_anchor(number: int, data: bytes) -> AnchorRecord:
    """The reverse of :func:`encode_anchor`."""
    check(len(data) > _ANCHOR.size, "anchor", data)
    flags, size, gen_time, stored_at, root, *lengths = _ANCHOR.unpack_from(data)
    check(flags in _FLAGS and max(size, gen_time, stored_at) <= MAX_INTEGER, "anchor", data)
    (name, request, response), tail = _cut(data, _ANCHOR.size, lengths, "anchor")
    check(min(len(request), len(response)) > 0, "anchor", data)
    check(max(len(request), len(response)) <= MAX_MESSAGE_BYTES, "anchor", data)
    indexes: list[int | None] = []
    for flag in (_HAS_LEAF, _HAS_EVIDENCE_LEAF):
        indexes.append(decode_number(tail[:8]) if flags & flag else None)
        tail = tail[8:] if flags & flag else tail
    has_evidence = bool(flags & _HAS_EVIDENCE)
    check(has_evidence == bool(tail) and len(tail) <= MAX_MESSAGE_BYTES, "anchor", data)
    return AnchorRecord(
        number=number,
        size=size,
        root=root,
        tsa=_tsa(name, data),
        request=request,
        response=response,
        gen_time=gen_time,
        stored_at=stored_at,
        leaf_index=indexes[0],
        evidence=tail if has_evidence else None,
        evidence_leaf_index=indexes[1],
    )


def size_key(size: int, number: int) -> bytes:
    """Key that finds an anchor by its checkpoint's size; no value. See :func:`decode_pair_key`."""
    return b"z" + encode_number(size) + encode_number(number)


def waiting_key(stored_at: int, number: int) -> bytes:
    """Key that finds an anchor without evidence by its time; no value."""
    return b"n" + encode_number(stored_at) + encode_number(number)


def decode_pair_key(key: bytes, value: bytes) -> tuple[int, int]:
    """The reverse of :func:`size_key` and :func:`waiting_key`."""
    check(
        len(key) == 17 and key[:1] in b"zn" and not value, "key that finds an anchor", key + value
    )
    return decode_number(key[1:9]), decode_number(key[9:])


def unsealed_key(number: int) -> bytes:
    """Key of an anchor that the next seal owes a leaf; no value."""
    return b"u" + encode_number(number)


def decode_unsealed(key: bytes, value: bytes) -> int:
    """The reverse of :func:`unsealed_key`: the anchor's number."""
    check(len(key) == 9 and key[:1] == b"u" and not value, "mark of an anchor", key + value)
    return decode_number(key[1:])


def anchor_leaf_key(leaf_index: int) -> bytes:
    """Key that finds an anchor by an anchor leaf; its value is the anchor's number."""
    return b"l" + encode_number(leaf_index)


def decode_anchor_leaf(key: bytes, value: bytes) -> tuple[int, int]:
    """(leaf index, anchor's number), see :func:`anchor_leaf_key`."""
    check(len(key) == 9 and key[:1] == b"l", "key of an anchor leaf", key)
    return decode_number(key[1:]), decode_number(value)


def intent_key(tsa: str) -> bytes:
    """Key of a TSA's intent; its value is :func:`encode_intent`."""
    return b"i" + _name(tsa)


def encode_intent(intent: AnchorIntent) -> bytes:
    """Intent: size u64, started_at u64, nonce 32 (big-endian)."""
    try:
        nonce = intent.nonce.to_bytes(32, "big")
    except OverflowError as error:
        raise no_spelling("nonce", intent.nonce) from error
    return encode_number(intent.size) + encode_number(intent.started_at) + nonce


def decode_intent(key: bytes, data: bytes) -> AnchorIntent:
    """The reverse of :func:`intent_key` and :func:`encode_intent`."""
    check(key[:1] == b"i" and len(data) == _INTENT.size, "intent", data)
    size, started_at, nonce = _INTENT.unpack(data)
    check(max(size, started_at) <= MAX_INTEGER, "intent", data)
    return AnchorIntent(_tsa(key[1:], key), size, int.from_bytes(nonce, "big"), started_at)


def blob_key(digest: bytes) -> bytes:
    """Key of a part of evidence by its SHA-256."""
    return sized(b"b" + digest, 33, "digest of a blob")


def decode_blob_key(key: bytes) -> bytes:
    """The reverse of :func:`blob_key`."""
    check(len(key) == 33 and key[:1] == b"b", "key of a blob", key)
    return key[1:]


def encode_blob(digest: bytes, data: bytes) -> bytes:
    """A part of evidence is stored as it is, under its own digest."""
    if not 0 < len(data) <= MAX_BLOB_BYTES or sha256(data).digest() != digest:
        raise no_spelling("blob", (digest.hex(), len(data)))
    return data


def decode_blob(data: bytes) -> bytes:
    """The reverse of :func:`encode_blob`; the digest is checked by `fsck` and by verifiers."""
    check(0 < len(data) <= MAX_BLOB_BYTES, "blob", data)
    return data


def quarantine_key(number: int) -> bytes:
    """Key of a refused answer; its value is :func:`encode_quarantined`."""
    return b"q" + encode_number(number)


def decode_quarantine_key(key: bytes) -> int:
    """The reverse of :func:`quarantine_key`."""
    check(len(key) == 9 and key[:1] == b"q", "key of a refused answer", key)
    return decode_number(key[1:])


def encode_quarantined(refused: Quarantined) -> bytes:
    """Refused answer.

    refused_at u64, size u64, length of the TSA's name u8, of the cause u8, of the request u32, name,
    cause, request, response. The response may be empty: nothing is also an answer.
    """
    if not _CAUSE.fullmatch(refused.cause):
        raise no_spelling("cause", refused.cause)
    if len(refused.response) > MAX_MESSAGE_BYTES:
        raise no_spelling("response", f"of {len(refused.response)} bytes")
    tsa, cause = _name(refused.tsa), refused.cause.encode()
    request, numbers = _message("request", refused.request), (refused.refused_at, refused.size)
    if not all(0 <= number <= MAX_INTEGER for number in numbers):
        raise no_spelling("refused answer", (refused.number, *numbers))
    head = _QUARANTINED.pack(*numbers, len(tsa), len(cause), len(request))
    return head + tsa + cause + request + refused.response


def decode_quarantined(number: int, data: bytes) -> Quarantined:
    """The reverse of :func:`encode_quarantined`."""
    what = "refused answer"
    check(len(data) > _QUARANTINED.size, what, data)
    refused_at, size, *lengths = _QUARANTINED.unpack_from(data)
    check(max(refused_at, size) <= MAX_INTEGER, what, data)
    (name, cause, request), response = _cut(data, _QUARANTINED.size, lengths, what)
    check(0 < len(request) <= MAX_MESSAGE_BYTES, what, data)
    check(len(response) <= MAX_MESSAGE_BYTES, what, data)
    text = cause.decode("ascii", "replace")
    check(_CAUSE.fullmatch(text) is not None, what, data)
    return Quarantined(number, _tsa(name, data), size, text, request, response, refused_at)


def _cut(data: bytes, at: int, lengths: list[int], what: str) -> tuple[list[bytes], bytes]:
    """The parts with these lengths, and what is left behind them."""
    check(len(data) >= at + sum(lengths), what, data)
    parts = []
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return parts, data[at:]


def _name(tsa: str) -> bytes:
    if not is_tsa_name(tsa):
        raise no_spelling("name of a TSA", tsa)
    return tsa.encode()


def _tsa(name: bytes, data: bytes) -> str:
    text = name.decode("ascii", "replace")
    if not is_tsa_name(text):
        raise damaged("name of a TSA", data)
    return text


def _message(what: str, data: bytes) -> bytes:
    if not 0 < len(data) <= MAX_MESSAGE_BYTES:
        raise no_spelling(what, f"of {len(data)} bytes")
    return data
