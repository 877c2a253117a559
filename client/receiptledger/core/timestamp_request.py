"""Timestamp requests (RFC 3161 section 2.4.1): one DER form out, the same one in.

A request is kept beside the response it got: it holds the nonce that shows the response was fresh. So
it is read as strictly as everything we keep: what we would not have written is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from receiptledger.core.timestamp_der import (
    BOOLEAN,
    INTEGER,
    OCTET_STRING,
    OID,
    SEQUENCE,
    Members,
    boolean,
    der_error,
    integer,
    object_identifier,
    parse,
)
from receiptledger.core.timestamp_encode import encode, encode_integer, encode_oid
from receiptledger.core.timestamp_signature import HASH_OIDS, hash_name

__all__ = ["TimestampRequest", "parse_request"]

MAX_NONCE_BITS: Final = 256
_OID_OF = {name: oid for oid, name in HASH_OIDS.items()}
_SIZES: Final = {"sha256": 32, "sha384": 48, "sha512": 64}
_VERSION = 1


@dataclass(frozen=True, slots=True)
class TimestampRequest:
    """What is asked of a timestamp authority.

    Attributes:
        imprint: digest of what is to be stamped.
        hash_algorithm: "sha256", "sha384" or "sha512".
        nonce: random, non-negative, at most 256 bits; the token must repeat it. None sends none.
        policy: dotted OID of the policy to stamp under, or None for the authority's own.
        cert_req: ask for the certificates inside the token.
    """

    imprint: bytes
    hash_algorithm: str = "sha256"
    nonce: int | None = None
    policy: str | None = None
    cert_req: bool = True

    def encode(self) -> bytes:
        """The DER bytes to send.

        Raises:
            ValueError: a member is out of its range.
        """
        if len(self.imprint) != _SIZES.get(self.hash_algorithm):
            raise ValueError(f"imprint does not fit hash {self.hash_algorithm}")
        if self.nonce is not None and not 0 <= self.nonce < 1 << MAX_NONCE_BITS:
            raise ValueError(f"nonce is not in 0 to 2^{MAX_NONCE_BITS}-1")
        # NULL parameters: some authorities refuse a hash without them.
        algorithm = encode(SEQUENCE, encode_oid(_OID_OF[self.hash_algorithm]), b"\x05\x00")
        return encode(
            SEQUENCE,
            encode_integer(_VERSION),
            encode(SEQUENCE, algorithm, encode(OCTET_STRING, self.imprint)),
            b"" if self.policy is None else encode_oid(self.policy),
            b"" if self.nonce is None else encode_integer(self.nonce),
            encode(BOOLEAN, b"\xff") if self.cert_req else b"",  # FALSE is the default: absent
        )


def parse_request(data: bytes) -> TimestampRequest:
    """Read a request that :meth:`TimestampRequest.encode` wrote.

    Raises:
        TimestampError: TOO_LARGE, HASH_ALGORITHM, DER for anything else.
    """
    members = Members(parse(data), "TimeStampReq")
    version = integer(members.take(INTEGER), "TimeStampReq version")
    imprint = Members(members.take(SEQUENCE), "messageImprint")
    hash_algorithm = hash_name(imprint.take(SEQUENCE), "messageImprint algorithm")
    hashed = imprint.take(OCTET_STRING).content
    imprint.end()
    policy = members.optional(OID)
    nonce = members.optional(INTEGER)
    cert_req = members.optional(BOOLEAN)
    members.end()
    request = TimestampRequest(
        imprint=hashed,
        hash_algorithm=hash_algorithm,
        nonce=None if nonce is None else integer(nonce, "nonce"),
        policy=None if policy is None else object_identifier(policy, "reqPolicy"),
        cert_req=cert_req is not None and boolean(cert_req, "certReq"),
    )
    if version != _VERSION or _written(request) != data:
        raise der_error("request is not in the one form that we write")
    return request


def _written(request: TimestampRequest) -> bytes | None:
    """The bytes of a request, or None if it has none."""
    try:
        return request.encode()
    except ValueError:
        return None
