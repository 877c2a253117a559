"""The manifest of a timestamp's revocation evidence: the digests of its CRLs and OCSP responses.

A JCS object. An anchor leaf commits SHA-256 of these bytes, and so every part. `parse_manifest` accepts
exactly what `encode_manifest` emits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from receiptledger.core.canonical import canonicalize, parse
from receiptledger.core.encoding import digest_text, parse_digest
from receiptledger.core.errors import EvidenceError, LedgerError, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MAX_MANIFEST_BYTES", "encode_manifest", "parse_manifest"]

MAX_MANIFEST_BYTES = 65_536  # some 800 parts; a path has three certificates


def encode_manifest(crls: Sequence[bytes], ocsps: Sequence[bytes]) -> bytes:
    """The manifest of evidence.

    Args:
        crls: SHA-256 of each CRL (DER), 32 bytes each, in their order.
        ocsps: the same of each OCSP response.
    """
    return canonicalize(
        {
            "crls": [digest_text(digest) for digest in crls],
            "kind": "revocation",
            "ocsps": [digest_text(digest) for digest in ocsps],
            "v": 1,
        }
    )


def parse_manifest(data: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """(digests of CRLs, digests of OCSP responses).

    Raises:
        EvidenceError: BAD_TIMESTAMP for anything `encode_manifest` would not have written.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise _bad("too long", f"at most {MAX_MANIFEST_BYTES} bytes", str(len(data)))
    try:
        value = parse(data).value
        crls, ocsps = _digests(value["crls"]), _digests(value["ocsps"])
    except LedgerError as error:
        raise _bad(f"not a JSON object: {error.message}") from None
    except (KeyError, ValueError) as error:
        raise _bad(f"a member is missing or wrong: {error}") from None
    if encode_manifest(crls, ocsps) != data:
        raise _bad("not in the one form the ledger writes")
    return crls, ocsps


def _digests(value: object) -> tuple[bytes, ...]:
    if not isinstance(value, list):
        raise ValueError("expected a list of digests")  # noqa: TRY004 - one error for all
    return tuple(map(parse_digest, value))


def _bad(message: str, want: str | None = None, got: str | None = None) -> EvidenceError:
    return EvidenceError(
        Reason.BAD_TIMESTAMP, f"manifest of revocation evidence: {message}", want=want, got=got
    )
