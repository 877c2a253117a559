"""The CMS envelope of a timestamp token (RFC 5652 SignedData) and its signer's attributes.

Form only: exactly one signer, signed attributes present and none twice. Two things are taken as they
come, because they are not signed and widely used authorities write them so: the certificates may be in
any order, and the signed attributes stand in the order in which they were signed, which need not be
DER's. The signature is over those bytes, tagged as a SET.

Certificates are cut out and not opened; CRLs inside a token are counted and not used: they were made
before genTime, so they cannot show that nothing was revoked by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_der import (
    INTEGER,
    OCTET_STRING,
    OID,
    SEQUENCE,
    SET,
    Members,
    algorithm,
    der_error,
    expect,
    integer,
    object_identifier,
    only,
    parse,
)
from receiptledger.core.timestamp_limits import MAX_CERTIFICATES, MAX_TOKEN_NODES
from receiptledger.core.timestamp_signature import digest, hash_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from receiptledger.core.timestamp_der import Node

__all__ = ["SignedData", "SignerInfo", "check_attributes", "parse_token"]

SIGNED_DATA: Final = "1.2.840.113549.1.7.2"
TST_INFO: Final = "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE: Final = "1.2.840.113549.1.9.3"
MESSAGE_DIGEST: Final = "1.2.840.113549.1.9.4"
ALGORITHM_PROTECTION: Final = "1.2.840.113549.1.9.52"

_CERTIFICATES, _CRLS = 0xA0, 0xA1
_INSIDE = (SEQUENCE, 0xA0, SEQUENCE)  # ContentInfo, content, SignedData
_OPAQUE = frozenset({(*_INSIDE, _CERTIFICATES), (*_INSIDE, _CRLS)})


@dataclass(frozen=True, slots=True)
class SignerInfo:
    """Who signed, how, and over what.

    Attributes:
        issuer: DER Name and `serial` of the signer's certificate, or None.
        key_identifier: of the signer's certificate where `issuer` is None.
        hash_algorithm: of the messageDigest attribute.
        digest_identifier, signature_identifier: the two AlgorithmIdentifiers.
        signed: the bytes that were signed: the attributes as received, tagged as a SET.
        attributes: values by attribute type.
        signature: its bytes.
    """

    issuer: bytes | None
    serial: int | None
    key_identifier: bytes | None
    hash_algorithm: str
    digest_identifier: Node
    signature_identifier: Node
    signed: bytes
    attributes: Mapping[str, tuple[Node, ...]]
    signature: bytes

    def single(self, oid: str, what: str) -> Node:
        """The only value of an attribute.

        Raises:
            TimestampError: SIGNED_ATTRIBUTE, it is absent or has several.
        """
        values = self.attributes.get(oid, ())
        if len(values) != 1:
            raise TimestampError(
                Cause.SIGNED_ATTRIBUTE, f"{what} attribute", want="one value", got=str(len(values))
            )
        return values[0]


@dataclass(frozen=True, slots=True)
class SignedData:
    """A token taken apart.

    Attributes:
        content: DER of the TSTInfo.
        certificates: DER, as they came; other kinds than X.509 certificates are left out.
        crls: how many CRLs or other revocation values came along.
        signer: the only signer.
    """

    content: bytes
    certificates: tuple[bytes, ...]
    crls: int
    signer: SignerInfo


def parse_token(token: bytes, max_bytes: int) -> SignedData:
    """Take a TimeStampToken apart without verifying anything.

    Raises:
        TimestampError: TOO_LARGE, DER, CONTENT_TYPE, SIGNERS, CERTIFICATE (too many of them),
            HASH_ALGORITHM, NO_SIGNED_ATTRIBUTES.
    """
    top = parse(token, opaque=_OPAQUE, max_bytes=max_bytes, max_nodes=MAX_TOKEN_NODES)
    members = Members(top, "ContentInfo")
    _check_type(members.take(OID), SIGNED_DATA, "signed data")
    inside = only(members.take(0xA0), "ContentInfo content")
    members.end()

    members = Members(inside, "SignedData")
    version = integer(members.take(INTEGER), "SignedData version")
    if version not in (1, 3, 4, 5):
        raise der_error("SignedData version", want="1, 3, 4 or 5", got=str(version))
    for child in members.take(SET).children:
        algorithm(child, "digestAlgorithms")
    content = _content(members.take(SEQUENCE))
    certificates = members.optional(_CERTIFICATES)
    crls = members.optional(_CRLS)
    signers = members.take(SET).children
    members.end()
    if len(signers) != 1:
        raise TimestampError(Cause.SIGNERS, "signers of the token", want="1", got=str(len(signers)))
    found = () if certificates is None else certificates.children
    if len(found) > MAX_CERTIFICATES:
        raise TimestampError(
            Cause.CERTIFICATE,
            "too many certificates",
            want=f"at most {MAX_CERTIFICATES}",
            got=str(len(found)),
        )
    return SignedData(
        content=content,
        certificates=tuple(child.raw for child in found if child.tag == SEQUENCE),
        crls=0 if crls is None else len(crls.children),
        signer=_signer(signers[0]),
    )


def check_attributes(data: SignedData) -> None:
    """Check the attributes that bind the signature to the TSTInfo (RFC 5652 section 5.3, 11).

    Raises:
        TimestampError: SIGNED_ATTRIBUTE, DER.
    """
    signer = data.signer
    kind = object_identifier(signer.single(CONTENT_TYPE, "contentType"), "contentType")
    if kind != TST_INFO:
        raise TimestampError(
            Cause.SIGNED_ATTRIBUTE, "contentType attribute", want=TST_INFO, got=kind
        )
    stated = expect(signer.single(MESSAGE_DIGEST, "messageDigest"), OCTET_STRING, "messageDigest")
    if stated.content != digest(signer.hash_algorithm, data.content):
        raise TimestampError(
            Cause.SIGNED_ATTRIBUTE, "messageDigest attribute is not the digest of the TSTInfo"
        )
    if ALGORITHM_PROTECTION in signer.attributes:
        _check_protection(signer)


def _check_protection(signer: SignerInfo) -> None:
    """RFC 6211: the signed copy of the algorithms must be the algorithms."""
    members = Members(
        signer.single(ALGORITHM_PROTECTION, "CMSAlgorithmProtection"), "CMSAlgorithmProtection"
    )
    hash_algorithm = members.take(SEQUENCE)
    signature = members.take(0xA1)
    members.end()
    if not _same_algorithm(hash_algorithm, signer.digest_identifier) or not _same_algorithm(
        signature, signer.signature_identifier
    ):
        raise TimestampError(
            Cause.SIGNED_ATTRIBUTE, "CMSAlgorithmProtection names other algorithms"
        )


def _same_algorithm(copy: Node, original: Node) -> bool:
    """Equal but for a NULL, which may stand for no parameters; `copy` may have an implicit tag."""
    parts = [
        [child.raw for child in node.children if child.raw != b"\x05\x00"]
        for node in (copy, original)
    ]
    return parts[0] == parts[1]


def _content(node: Node) -> bytes:
    members = Members(node, "encapContentInfo")
    _check_type(members.take(OID), TST_INFO, "TSTInfo")
    # An OCTET STRING in pieces is BER and has another tag.
    content = expect(only(members.take(0xA0), "eContent"), OCTET_STRING, "eContent").content
    members.end()
    return content


def _signer(node: Node) -> SignerInfo:
    members = Members(node, "SignerInfo")
    version = integer(members.take(INTEGER), "SignerInfo version")
    issuer = serial = key_identifier = None
    named = members.optional(SEQUENCE)
    if named is not None:
        parts = Members(named, "issuerAndSerialNumber")
        issuer = parts.take(SEQUENCE).raw
        serial = integer(parts.take(INTEGER), "serial number")
        parts.end()
    else:
        key_identifier = members.take(0x80).content
    if version != (1 if named is not None else 3):  # RFC 5652 section 5.3
        raise der_error("SignerInfo version does not fit its identifier", got=str(version))
    digest_identifier = members.take(SEQUENCE)
    hash_algorithm = hash_name(digest_identifier, "digestAlgorithm")
    attributes = members.optional(0xA0)
    if attributes is None:
        # RFC 5652 5.3: they must be there when the content is not plain data.
        raise TimestampError(Cause.NO_SIGNED_ATTRIBUTES, "the signer signed no attributes")
    signature_identifier = members.take(SEQUENCE)
    signature = members.take(OCTET_STRING).content
    unsigned = members.optional(0xA1)
    members.end()
    if unsigned is not None:
        _attributes(unsigned, repeated=True)
    return SignerInfo(
        issuer=issuer,
        serial=serial,
        key_identifier=key_identifier,
        hash_algorithm=hash_algorithm,
        digest_identifier=digest_identifier,
        signature_identifier=signature_identifier,
        signed=bytes([SET]) + attributes.raw[1:],
        attributes=_attributes(attributes, repeated=False),
        signature=signature,
    )


def _attributes(node: Node, *, repeated: bool) -> dict[str, tuple[Node, ...]]:
    """Values by type; a signed attribute must not be there twice."""
    found: dict[str, tuple[Node, ...]] = {}
    for child in node.children:
        members = Members(child, "attribute")
        oid = object_identifier(members.take(OID), "attribute")
        values = members.take(SET).children
        members.end()
        if oid in found and not repeated:
            raise TimestampError(Cause.SIGNED_ATTRIBUTE, "signed attribute twice", got=oid)
        found[oid] = values
    return found


def _check_type(node: Node, want: str, what: str) -> None:
    kind = object_identifier(node, what)
    if kind != want:
        raise TimestampError(Cause.CONTENT_TYPE, f"content is not {what}", want=want, got=kind)
