"""What `openssl ts -verify` cannot verify, though it holds: so that no line is printed that fails.

OpenSSL reads a token as PKCS #7 (RFC 2315) where RFC 3161 says CMS, and builds its path in its own way. All
here was tried with OpenSSL 3; in doubt, no line is printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from receiptledger.core.revocation_crl import load_crl
from receiptledger.core.timestamp import TimestampError, token_of
from receiptledger.core.timestamp_cms import parse_token
from receiptledger.core.timestamp_der import SEQUENCE, SET, Members, only, parse
from receiptledger.core.timestamp_ess import ess_entries
from receiptledger.core.timestamp_signature import hash_name
from receiptledger.core.timestamp_types import DEFAULT_RULES
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.core.tsa_name import same_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from receiptledger.core.timestamp import Timestamp
    from receiptledger.core.timestamp_cms import SignerInfo
    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["obstacle"]

_CERTIFICATES, _CRLS = 0xA0, 0xA1
_INSIDE = (SEQUENCE, 0xA0, SEQUENCE)  # ContentInfo, content, SignedData
_OPAQUE: Final = frozenset({(*_INSIDE, _CERTIFICATES), (*_INSIDE, _CRLS)})


def obstacle(response: bytes, timestamp: Timestamp) -> str | None:
    """Why OpenSSL would not verify a response that was verified; None when it would.

    Args:
        response: TimeStampResp, DER.
        timestamp: as it was verified.
    """
    return next(_obstacles(token_of(response), timestamp), None)


def _obstacles(token: bytes, timestamp: Timestamp) -> Iterator[str]:
    name = timestamp.signature_algorithm
    if timestamp.key_algorithm == "ed25519" or "pss" in name:
        yield f"it cannot read {name} signatures"
    signer = parse_token(token, DEFAULT_RULES.max_bytes).signer
    if signer.key_identifier is not None:
        yield "it cannot read a signer that is named by a key identifier"
    if not name.endswith(signer.hash_algorithm):
        yield f"it takes {signer.hash_algorithm} for the hash of the {name} signature"
    if "ess_chain" in timestamp.warnings:
        yield "it wants every certificate on the path that the signer names"
    if any(_unusual(signer)):
        yield "it wants one issuer beside each certificate that the signer names"
    if timestamp.gen_time.timestamp() < 0:
        yield "it takes no time before 1970"
    parts = _Parts(token)
    if not _readable(parts.hashes, lambda node: hash_name(node, "hash")):
        yield "it cannot read one of the hash algorithms"
    elif signer.hash_algorithm not in {hash_name(node, "hash") for node in parts.hashes}:
        yield "it misses the signer's hash algorithm in the list of all"
    if any(node.tag != SEQUENCE for node in parts.certificates):
        yield "it cannot read attribute certificates"
    elif not _readable(parts.certificates, lambda node: load_certificate(node.raw)):
        yield "it cannot read one of the certificates that came along"
    else:
        yield from _of_path(
            [load_certificate(node.raw) for node in parts.certificates],
            [load_certificate(der) for der in timestamp.path],
        )
    if not _readable(parts.crls, lambda node: load_crl(node.raw)):
        yield "it cannot read one of the revocation lists that came along"


def _of_path(bag: list[TsaCertificate], path: list[TsaCertificate]) -> Iterator[str]:
    """What OpenSSL, which does not go back on a choice, may choose wrongly or refuse on its way up."""
    signer, *between, root = path
    for one in bag:
        if one.der not in {certificate.der for certificate in path}:
            same_serial = one.serial == signer.serial and same_name(one.issuer, signer.issuer)
            if same_serial or any(same_name(one.subject, other.subject) for other in between):
                yield "it may take another certificate of the same name that came along"
    # Without extensions, only one of version 1 passes that is its own issuer.
    if root.constraints is None and (root.version != 1 or not same_name(root.subject, root.issuer)):
        yield "it takes the root for no authority, as its certificate does not say that it is one"


def _unusual(signer: SignerInfo) -> Iterator[bool]:
    for entries in ess_entries(signer).values():
        for entry in entries:
            yield entry.serial is not None and len(entry.issuers) != 1


class _Parts:
    """What the verifier takes as it comes, as nodes: hash algorithms, certificates, revocation lists."""

    def __init__(self, token: bytes) -> None:
        top = Members(parse(token, opaque=_OPAQUE), "ContentInfo")
        top.take()
        signed = Members(only(top.take(0xA0), "content"), "SignedData")
        signed.take()
        self.hashes = signed.take(SET).children
        signed.take()
        certificates, crls = signed.optional(_CERTIFICATES), signed.optional(_CRLS)
        self.certificates = () if certificates is None else certificates.children
        self.crls = () if crls is None else crls.children


def _readable(nodes: tuple[Node, ...], read: Callable[[Node], object]) -> bool:
    try:
        for node in nodes:
            read(node)
    except TimestampError:
        return False
    return True
