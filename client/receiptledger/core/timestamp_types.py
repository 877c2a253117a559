"""What a timestamp is verified against, and what a verified one says.

A :class:`TsaTrust` is one authority's record. A token must satisfy one record entirely: its roots,
its pin, its policies and its window of trust. Records are never pooled, or one authority's token
would pass as another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from receiptledger.core.timestamp_limits import MAX_BYTES, MIN_RSA_BITS
from receiptledger.core.timestamp_signature import key_name, signature_hash
from receiptledger.core.tsa_certificate import load_certificate

__all__ = ["DEFAULT_RULES", "UNKNOWN_ACCURACY", "Timestamp", "TimestampRules", "TsaTrust"]

UNKNOWN_ACCURACY: Final = timedelta(seconds=1)  # taken where a token gives none, or claims zero


@dataclass(frozen=True, slots=True)
class TsaTrust:
    """One timestamp authority, as its user configured it.

    Attributes:
        name: how configuration, metrics and reports call it.
        authority: who operates it. Quorums count authorities, not names.
        roots: trust anchors, DER certificates. Anchors by their name and key: how a root signed
            itself does not matter.
        intermediates: further issuing certificates, DER, candidates for the path.
        certificate: the one signer certificate to accept, DER, or None.
        policies: accepted TSA policies as dotted OIDs; empty means any.
        trusted_from: genTime before this is refused; aware, or None.
        trusted_until: genTime after this is refused; aware, or None.
    """

    name: str
    authority: str
    roots: tuple[bytes, ...]
    intermediates: tuple[bytes, ...] = ()
    certificate: bytes | None = None
    policies: frozenset[str] = frozenset()
    trusted_from: datetime | None = None
    trusted_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class TimestampRules:
    """How strict to be, beyond what never changes.

    Attributes:
        max_accuracy: a wider accuracy says too little.
        require_accuracy: refuse a token that gives none.
        allow_granted_with_mods: accept PKIStatus 1 when everything else is as asked.
        require_ess_v2: refuse a token whose signer is named by SHA-1 alone (RFC 5816).
        min_rsa_bits: for every RSA key of the path.
        max_bytes: of a response or token.
    """

    max_accuracy: timedelta = timedelta(seconds=60)
    require_accuracy: bool = False
    allow_granted_with_mods: bool = False
    require_ess_v2: bool = False
    min_rsa_bits: int = MIN_RSA_BITS
    max_bytes: int = MAX_BYTES


DEFAULT_RULES: Final = TimestampRules()


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A verified timestamp token.

    Attributes:
        gen_time: UTC; microseconds are kept, finer digits dropped.
        accuracy: as the token gives it, or None.
        serial: the token's serial number, at most 160 bits.
        policy: TSA policy, dotted OID.
        hash_algorithm: of the message imprint: "sha256", "sha384" or "sha512".
        nonce: as the token gives it, or None.
        ordering: the authority claims that its tokens order by genTime alone.
        path: DER certificates, signer first, configured root last; at least two.
        signature_algorithm: of the token, such as "ecdsa-sha256" or "rsa-pss-sha512".
        key_algorithm: of the signer, such as "rsa3072", "p256" or "ed25519".
        ess: which attributes name the signer: "v1", "v2".
        warnings: "ess_v1", "ess_chain", "no_accuracy", "revoked_later", in this order.
        revocation: "good", "unknown" (no evidence) or "good, revoked later".
    """

    gen_time: datetime
    accuracy: timedelta | None
    serial: int
    policy: str
    hash_algorithm: str
    nonce: int | None
    ordering: bool
    path: tuple[bytes, ...]
    signature_algorithm: str
    key_algorithm: str
    ess: tuple[str, ...]
    warnings: tuple[str, ...]
    revocation: str

    @property
    def uncertainty(self) -> timedelta:
        """Half the width of the interval the true time lies in: accuracy, or one second."""
        return self.accuracy or UNKNOWN_ACCURACY

    @property
    def earliest(self) -> datetime:
        """The true time was not before this."""
        return self.gen_time - self.uncertainty

    @property
    def latest(self) -> datetime:
        """The true time was not after this."""
        return self.gen_time + self.uncertainty

    @property
    def path_not_after(self) -> datetime:
        """Earliest notAfter over the path without the root."""
        return min(load_certificate(one).not_after for one in self.path[:-1])

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Every algorithm the token rests on, as `timestamp_algorithms` names them, sorted.

        The hash of the imprint, the token's signature, and the keys and signatures of the path: the
        root's key counts, how the root was signed does not.
        """
        # "ecdsa-sha256" rests on SHA-256, "ed25519" on itself.
        names = {self.hash_algorithm, self.signature_algorithm.rpartition("-")[2]}
        certificates = [load_certificate(one) for one in self.path]
        names.update(key_name(one.key) for one in certificates)
        names.update(signature_hash(one.identifier) for one in certificates[:-1])
        return tuple(sorted(names))
