"""A forge of RFC 3161 responses, right or wrong on purpose: raw DER, every part replaceable.

It shares no code with what it tests. `tsa_pki` makes the certificates, CRLs and OCSP responses with it.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.helpers.tsa_pki import Identity

MESSAGE = (
    b"example.com/log\n42\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\xe2\x80\x94 a line\n"
)
NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
NONCE = 0x0102030405060708
POLICY = "1.3.6.1.4.1.57264.99.1"

OIDS = {
    "signedData": "1.2.840.113549.1.7.2",
    "data": "1.2.840.113549.1.7.1",
    "TSTInfo": "1.2.840.113549.1.9.16.1.4",
    "contentType": "1.2.840.113549.1.9.3",
    "messageDigest": "1.2.840.113549.1.9.4",
    "signingTime": "1.2.840.113549.1.9.5",
    "algorithmProtection": "1.2.840.113549.1.9.52",
    "ess-v1": "1.2.840.113549.1.9.16.2.12",
    "ess-v2": "1.2.840.113549.1.9.16.2.47",
    "timeStampToken": "1.2.840.113549.1.9.16.2.14",
    "md5": "1.2.840.113549.2.5",
    "sha1": "1.3.14.3.2.26",
    "sha256": "2.16.840.1.101.3.4.2.1",
    "sha384": "2.16.840.1.101.3.4.2.2",
    "sha512": "2.16.840.1.101.3.4.2.3",
    "sha3-256": "2.16.840.1.101.3.4.2.8",
    "rsa": "1.2.840.113549.1.1.1",
    "rsa-sha1": "1.2.840.113549.1.1.5",
    "rsa-sha256": "1.2.840.113549.1.1.11",
    "rsa-sha384": "1.2.840.113549.1.1.12",
    "rsa-sha512": "1.2.840.113549.1.1.13",
    "rsa-pss": "1.2.840.113549.1.1.10",
    "mgf1": "1.2.840.113549.1.1.8",
    "ec": "1.2.840.10045.2.1",
    "prime256v1": "1.2.840.10045.3.1.7",
    "ecdsa-sha1": "1.2.840.10045.4.1",
    "ecdsa-sha256": "1.2.840.10045.4.3.2",
    "ecdsa-sha384": "1.2.840.10045.4.3.3",
    "ecdsa-sha512": "1.2.840.10045.4.3.4",
    "ed25519": "1.3.101.112",
}
HASHES: dict[str, hashes.HashAlgorithm] = {
    "md5": hashes.MD5(),
    "sha1": hashes.SHA1(),
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}
FAILURES = {
    "bad_alg": 0,
    "bad_request": 2,
    "bad_data_format": 5,
    "time_not_available": 14,
    "unaccepted_policy": 15,
    "unaccepted_extension": 16,
    "add_info_not_available": 17,
    "system_failure": 25,
}
NULL = b"\x05\x00"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


# DER


def tlv(tag: int, *parts: bytes) -> bytes:
    """One value."""
    content = b"".join(parts)
    if len(content) < 128:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 + len(length)]) + length + content


def seq(*parts: bytes) -> bytes:
    return tlv(0x30, *parts)


def set_of(*parts: bytes) -> bytes:
    """A SET OF in DER's order."""
    return tlv(0x31, *sorted(parts))


def octets(data: bytes) -> bytes:
    return tlv(0x04, data)


def bits(data: bytes, unused: int = 0) -> bytes:
    return tlv(0x03, bytes([unused]), data)


def integer(value: int, tag: int = 0x02) -> bytes:
    size = 1
    while not -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
        size += 1
    return tlv(tag, value.to_bytes(size, "big", signed=True))


def boolean(value: bool) -> bytes:
    return tlv(0x01, b"\xff" if value else b"\x00")


def oid(name: str) -> bytes:
    """By name or dotted."""
    first, second, *rest = [int(arc) for arc in OIDS.get(name, name).split(".")]
    out = b""
    for arc in (first * 40 + second, *rest):
        digits = [arc % 128]
        while arc := arc // 128:
            digits.insert(0, 128 + arc % 128)
        out += bytes(digits)
    return tlv(0x06, out)


def algorithm(name: str, parameters: bytes = NULL) -> bytes:
    return seq(oid(name), parameters)


def general_time(when: datetime | str) -> bytes:
    return tlv(0x18, (when if isinstance(when, str) else f"{when:%Y%m%d%H%M%SZ}").encode())


def time(when: datetime | str) -> bytes:
    """The form that RFC 5280 wants: UTCTime until 2049."""
    if isinstance(when, datetime) and 1950 <= when.year < 2050:
        return tlv(0x17, f"{when:%y%m%d%H%M%SZ}".encode())
    return general_time(when)


def name(common: str, *, tag: int = 0x0C, organisation: str = "Forge") -> bytes:
    """A Name of O and CN, in the string type of `tag`."""
    codec = {0x1E: "utf-16-be", 0x1C: "utf-32-be", 0x14: "latin-1"}.get(tag, "utf-8")
    return seq(
        set_of(seq(oid("2.5.4.10"), tlv(tag, organisation.encode(codec)))),
        set_of(seq(oid("2.5.4.3"), tlv(tag, common.encode(codec)))),
    )


def directory_name(value: bytes) -> bytes:
    return tlv(0xA4, value)


def extension(oid_: str, value: bytes, *, critical: bool = False) -> bytes:
    return seq(oid(oid_), boolean(True) if critical else b"", octets(value))


# TSTInfo


def accuracy(seconds: int | None = 1, millis: int | None = 500, micros: int | None = 100) -> bytes:
    return seq(
        b"" if seconds is None else integer(seconds),
        b"" if millis is None else integer(millis, 0x80),
        b"" if micros is None else integer(micros, 0x81),
    )


def imprint(message: bytes = MESSAGE, digest: str = "sha256", parameters: bytes = NULL) -> bytes:
    return seq(algorithm(digest, parameters), octets(hashlib.new(digest, message).digest()))


def tst_info(
    *,
    version: int = 1,
    policy: str = POLICY,
    imprint: bytes = imprint(),
    serial: int = 7,
    gen_time: datetime | str = NOW,
    accuracy: bytes = accuracy(),
    ordering: bytes = b"",
    nonce: int | None = NONCE,
    tsa: bytes = b"",
    extensions: bytes = b"",
    more: bytes = b"",
) -> bytes:
    """DER of a TSTInfo; `tsa` is a GeneralName, `extensions` the members of Extensions."""
    return seq(
        integer(version),
        oid(policy),
        imprint,
        integer(serial),
        general_time(gen_time),
        accuracy,
        ordering,
        b"" if nonce is None else integer(nonce),
        tlv(0xA0, tsa) if tsa else b"",
        tlv(0xA1, extensions) if extensions else b"",
        more,
    )


# CMS


def attribute(oid_: str, *values: bytes) -> bytes:
    return seq(oid(oid_), tlv(0x31, *values))


def ess_entry(
    certificate: bytes, digest: str, *, v2: bool, issuer_serial: bytes = b"", explicit: bool = False
) -> bytes:
    hashed = octets(hashlib.new(digest, certificate).digest())
    stated = algorithm(digest, b"") if v2 and (digest != "sha256" or explicit) else b""
    return seq(stated, hashed, issuer_serial)


def issuer_serial(issuer: bytes, serial: int) -> bytes:
    return seq(seq(directory_name(issuer)), integer(serial))


def ess_v1(*certificates: bytes, **changes: Any) -> bytes:
    entries = [ess_entry(one, "sha1", v2=False, **changes) for one in certificates]
    return attribute("ess-v1", seq(seq(*entries)))


def ess_v2(*certificates: bytes, digest: str = "sha256", policies: bytes = b"", **kw: Any) -> bytes:
    entries = [ess_entry(one, digest, v2=True, **kw) for one in certificates]
    return attribute("ess-v2", seq(seq(*entries), policies))


def signed_attributes(
    info: bytes, digest: str = "sha256", *, content_type: str = "TSTInfo"
) -> list[bytes]:
    return [
        attribute("contentType", oid(content_type)),
        attribute("messageDigest", octets(hashlib.new(digest, info).digest())),
    ]


def pss_parameters(
    digest: str, mask_digest: str | None = None, salt: int | None = None, more: bytes = b""
) -> bytes:
    return seq(
        tlv(0xA0, algorithm(digest)),
        tlv(0xA1, algorithm("mgf1", algorithm(mask_digest or digest))),
        b"" if salt is None else tlv(0xA2, integer(salt)),
        more,
    )


def sign(
    key: PrivateKey, data: bytes, digest: str = "sha256", *, pss_salt: int | None = None
) -> bytes:
    """A signature of the key's usual kind, or RSASSA-PSS."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(data)
    chosen = HASHES[digest]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(data, ec.ECDSA(chosen, deterministic_signing=True))
    if pss_salt is not None:
        return key.sign(data, padding.PSS(padding.MGF1(chosen), pss_salt), chosen)
    return key.sign(data, padding.PKCS1v15(), chosen)


def signature_algorithm(key: PrivateKey, digest: str = "sha256") -> bytes:
    """The AlgorithmIdentifier that most write for such a key."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return algorithm("ed25519", b"")
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return algorithm(f"ecdsa-{digest}", b"")
    return algorithm(f"rsa-{digest}")


def signer_info(
    info: bytes,
    signer: Identity,
    *,
    digest: str = "sha256",
    attributes: Iterable[bytes] | None = None,
    extra: Iterable[bytes] = (),
    ordered: bool = True,
    identifier: bytes | None = None,
    version: int = 1,
    digest_algorithm: bytes | None = None,
    signature_identifier: bytes | None = None,
    signature: bytes | None = None,
    unsigned: bytes = b"",
    pss_salt: int | None = None,
) -> bytes:
    """A SignerInfo; `attributes` replaces the signed ones, `extra` adds to them."""
    if attributes is None:
        attributes = [*signed_attributes(info, digest), ess_v2(signer.der)]
    attributes = [*attributes, *extra]
    signed = tlv(0x31, *(sorted(attributes) if ordered else attributes))
    if signature is None:
        signature = sign(signer.key, signed, digest, pss_salt=pss_salt)
    return seq(
        integer(version),
        identifier or seq(signer.issuer, integer(signer.serial)),
        digest_algorithm or algorithm(digest),
        b"\xa0" + signed[1:] if attributes else b"",
        signature_identifier or signature_algorithm(signer.key, digest),
        octets(signature),
        unsigned,
    )


def envelope(
    info: bytes,
    signers: Iterable[bytes],
    certificates: Iterable[bytes],
    *,
    version: int = 3,
    digests: Iterable[str] = ("sha256",),
    content_type: str = "TSTInfo",
    crls: bytes = b"",
    content: bytes | None = None,
    more: bytes = b"",
) -> bytes:
    """ContentInfo with SignedData; certificates stand as they are given."""
    together = b"".join(certificates)
    return seq(
        oid("signedData"),
        tlv(
            0xA0,
            seq(
                integer(version),
                set_of(*(algorithm(one) for one in digests)),
                seq(oid(content_type), tlv(0xA0, octets(info) if content is None else content)),
                tlv(0xA0, together) if together else b"",
                crls,
                tlv(0x31, *signers),
                more,
            ),
        ),
    )


def token(info: bytes, signer: Identity, *, certificates: Iterable[bytes], **changes: Any) -> bytes:
    """A token of one signer; `changes` go to :func:`signer_info`."""
    digest = changes.get("digest", "sha256")
    return envelope(info, [signer_info(info, signer, **changes)], certificates, digests=[digest])


# TimeStampResp


def status_info(status: int = 0, texts: Iterable[bytes] = (), failure: bytes = b"") -> bytes:
    together = b"".join(texts)
    return seq(integer(status), seq(together) if together else b"", failure)


def text(value: str) -> bytes:
    return tlv(0x0C, value.encode())


def failure(name_: str) -> bytes:
    """failInfo with one bit, as DER wants a named-bit list: no trailing zero bits."""
    bit = FAILURES[name_]
    data = bytearray(bit // 8 + 1)
    data[-1] = 0x80 >> bit % 8
    return bits(bytes(data), 7 - bit % 8)


def response(token_: bytes | None, status: bytes = status_info()) -> bytes:
    return seq(status, token_ or b"")
