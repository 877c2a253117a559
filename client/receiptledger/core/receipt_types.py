"""What one receipt says, and the key of its chain."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from receiptledger.core.algorithms import ED25519
from receiptledger.core.errors import Reason, ReceiptError

__all__ = ["Cosignature", "Pair", "Receipt", "chain_key"]

_CHAIN_DOMAIN = b"receiptledger/chain/v1\n"


@dataclass(frozen=True, slots=True)
class Cosignature:
    """A further signature of a receipt, which must hold too; see :class:`Receipt` for the members."""

    name: str
    algorithm: str
    signing_input: bytes
    signature: bytes
    key_hint: bytes | None
    kid: str | None


@dataclass(frozen=True, slots=True)
class Pair:
    """What pairs an intent and its outcome.

    Attributes:
        role: "intent" or "outcome".
        id: what an outcome refers to it by.
        ref: of an outcome: the `id` of its intent.
    """

    role: str
    id: str
    ref: str | None


@dataclass(slots=True, eq=False)
class Receipt:
    """What one receipt says under one format. Not to be changed.

    Attributes:
        raw: the bytes as received.
        profile: id of the format it is read by.
        profile_version: version of that format's data.
        agent: agent id, 1..256 UTF-8 bytes without control characters.
        stream: which of the agent's streams, up to 256 bytes; "" where the format has none.
        sequence: the format's own number, 0..2^53-1, or None.
        sequence_step: what the next receipt's number adds; 1 where the format has none.
        previous: link hash of the receipt before, 32 bytes; None at genesis.
        link_hash: what the next receipt's `previous` must be, 32 bytes.
        content_hash: 32 bytes, the same for every spelling of one content: SHA-256 of the canonical
            bytes, signature included; of what is signed, and the signature, in formats that let
            members be outside.
        receipt_hash: SHA-256 of `raw`.
        signing_input: the bytes the signature is over.
        signature: in the one form of its algorithm.
        key_hint: public key found in the receipt, or None. Never to be trusted, but the signature
            must hold under it.
        kid: key id found in the receipt, or None.
        time: the signer's claim, RFC 3339, or None.
        unsigned: dotted paths of the members outside the signed bytes, the signature's value left
            out.
        sequence_start: the number of a chain's first receipt; 0 where the format has none.
        linked: whether the format names the receipt before; if not, the order is the ledger's.
        algorithm: of the signature, one of `algorithms.KEY_SIZES`.
        cosignatures: further signatures that must hold.
        pair: what pairs it with another receipt, or None.
    """

    raw: bytes
    profile: str
    profile_version: int
    agent: str
    stream: str
    sequence: int | None
    sequence_step: int
    previous: bytes | None
    link_hash: bytes
    content_hash: bytes
    receipt_hash: bytes
    signing_input: bytes
    signature: bytes
    key_hint: bytes | None
    kid: str | None
    time: str | None
    unsigned: tuple[str, ...]
    sequence_start: int = 0
    linked: bool = True
    algorithm: str = ED25519
    cosignatures: tuple[Cosignature, ...] = ()
    pair: Pair | None = None
    _chain: bytes | None = field(default=None, init=False, repr=False)

    @property
    def chain(self) -> bytes:
        """Key of the receipt's chain, 32 bytes."""
        chain = self._chain
        if chain is None:
            chain = self._chain = _remembered_chain_key(self.agent, self.stream)
        return chain


def chain_key(agent: str, stream: str = "") -> bytes:
    """SHA-256 over the length-prefixed UTF-8 of agent and stream: 32 bytes, no two chains alike.

    Raises:
        ReceiptError: INVALID_FIELD for text with half of a surrogate pair.
    """
    try:
        one, other = agent.encode("utf-8"), stream.encode("utf-8")
    except UnicodeEncodeError:
        raise ReceiptError(
            Reason.INVALID_FIELD,
            "an agent or stream id holds half of a surrogate pair",
            want="Unicode text",
            got="a lone surrogate",
        ) from None
    return sha256(
        _CHAIN_DOMAIN + len(one).to_bytes(4, "big") + one + len(other).to_bytes(4, "big") + other
    ).digest()


# The same few agents send most receipts; 4,096 names of at most 512 bytes stay small.
_remembered_chain_key = lru_cache(maxsize=4_096)(chain_key)
