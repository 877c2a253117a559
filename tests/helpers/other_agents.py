"""Agents that sign otherwise: under keys of other algorithms, or in a format without links.

The same calls give the same bytes.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, mldsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from receiptledger.core.canonical import canonicalize
from receiptledger.core.p256 import ORDER
from receiptledger.core.receipt import chain_key
from tests.helpers.agents import Agent, FarleyAgent
from tests.helpers.profile_data import toml

__all__ = ["NUMBERED", "BareAgent", "EcAgent", "MlDsaAgent", "NumberedAgent", "twin"]


class EcAgent(FarleyAgent):
    """Signs draft-farley envelopes with ES256."""

    algorithm = "ES256"

    def __init__(self, name: str = "ec-agent", seed: int = 1) -> None:
        super().__init__(name, seed)
        self._key = ec.derive_private_key(seed + 1, ec.SECP256R1())
        public = self._key.public_key()
        self.public_key = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def sign(self, data: bytes) -> bytes:
        """r || s, 64 bytes."""
        signature = self._key.sign(data, ec.ECDSA(SHA256(), deterministic_signing=True))
        return b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(signature))


class MlDsaAgent(FarleyAgent):
    """Signs draft-farley envelopes with ML-DSA-65; each signature is made once, so not the same."""

    algorithm = "ML-DSA-65"

    def __init__(self, name: str = "pq-agent", seed: int = 1) -> None:
        super().__init__(name, seed)
        self._key = mldsa.MLDSA65PrivateKey.from_seed_bytes(seed.to_bytes(32, "big"))
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """3,309 bytes."""
        return self._key.sign(data)


class BareAgent(Agent):
    """Signs artifacts of version 2 from before draft-farley: no link, no number, no key inside."""

    def __init__(self, name: str = "bare-agent", seed: int = 1, kid: str = "key-1") -> None:
        super().__init__(name, seed)
        self.kid = kid
        self.chain = chain_key(name, kid)

    def receipt(self, sequence: int, previous: bytes | None = None, **members: Any) -> bytes:
        """One artifact; the sequence only makes its content differ."""
        del previous
        value: dict[str, Any] = {
            "v": 2,
            "type": "decision",
            "algorithm": "ed25519",
            "kid": self.kid,
            "issuer": self.name,
            "issued_at": f"2026-11-30T10:00:{sequence % 60:02}Z",
            "payload": {"step": sequence, **members},
        }
        return canonicalize(value | {"signature": self.sign(canonicalize(value)).hex()})

    def receipts(self, count: int, *, after: bytes | None = None, **members: Any) -> list[bytes]:
        """`count` artifacts from the first on."""
        assert after is None, "nothing comes after anything"
        return [self.receipt(number, **members) for number in range(count)]


def twin(signature: bytes) -> bytes:
    """The other ES256 signature that holds wherever one does."""
    s = int.from_bytes(signature[32:], "big")
    return signature[:32] + (ORDER - s).to_bytes(32, "big")


class NumberedAgent(Agent):
    """Signs receipts of a format of our own that has numbers, from 1, and no links; see NUMBERED."""

    def receipt(self, sequence: int, previous: bytes | None = None, **members: Any) -> bytes:
        """One receipt."""
        del previous
        value: dict[str, Any] = {"kind": "numbered", "agent": self.name, "n": sequence, **members}
        return canonicalize(value | {"sig": self.sign(canonicalize(value)).hex()})

    def receipts(self, count: int, *, after: bytes | None = None, **members: Any) -> list[bytes]:
        """`count` receipts from the first on."""
        assert after is None, "the number says where a receipt belongs"
        return [self.receipt(number, **members) for number in range(1, count + 1)]


NUMBERED = toml(
    id='"numbered"',
    detect='[{ path = "kind", equals = "numbered" }]',
    sequence='{ path = "n", start = 1, step = 1 }',
)
