"""One receipt read by one format."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from receiptledger.core.algorithms import ES256, SIGNATURE_SIZES, low_s
from receiptledger.core.encoding import base64url_decode, digest_text
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.public_key import format_public_key
from receiptledger.core.receipt_types import Cosignature, Pair, Receipt

if TYPE_CHECKING:
    from receiptledger.core.canonical import Limits, Parsed
    from receiptledger.core.profile_types import PairRule, Profile, SignatureRule
    from receiptledger.core.unwrap import Body

__all__ = ["read"]

_CONTENT_DOMAIN = b"receiptledger/content/v1\n"


def read(
    raw: bytes,
    parsed: Parsed,
    profile: Profile,
    receipt_hash: bytes,
    limits: Limits,
    signing_input: bytes | None = None,
) -> Receipt:
    """One reading.

    Args:
        raw: the bytes as received.
        parsed: the same, parsed.
        profile: the format.
        receipt_hash: SHA-256 of `raw`.
        limits: for a receipt inside an envelope.
        signing_input: when it is known already.

    Raises:
        ReceiptError: INVALID_FIELD, UNSUPPORTED_ALGORITHM, or what a dialect or an envelope refuses.
    """
    if profile.unwrap is not None:
        return _read_inside(raw, profile.unwrap(parsed, limits), profile, receipt_hash, limits)
    value, main = parsed.value, profile.main
    for check in profile.checks:
        check(value)
    for digest in profile.digests:
        digest(parsed)
    canonical = parsed.canonical
    content = receipt_hash if canonical is raw else sha256(canonical).digest()
    algorithm = main.algorithm(value)
    link = profile.link
    receipt = Receipt(
        raw,
        profile.id,
        profile.version,
        "" if profile.agent is None else profile.agent(value),
        profile.stream(value),
        profile.sequence(value),
        profile.sequence_step,
        profile.previous(value),
        content if link is None else link(parsed),
        content,
        receipt_hash,
        main.signing_input(parsed) if signing_input is None else signing_input,
        main.signature[algorithm](value),
        main.key_hint(value),
        main.kid(value),
        profile.time(value),
        profile.unsigned(value),
        profile.sequence_start,
        profile.linked,
        algorithm,
    )
    if algorithm == ES256 or not profile.plain:
        _complete(receipt, profile, parsed)
    return receipt


def _read_inside(
    raw: bytes, body: Body, profile: Profile, receipt_hash: bytes, limits: Limits
) -> Receipt:
    """A reading of the receipt inside an envelope, whose signature may be the envelope's."""
    plain = replace(profile, unwrap=None)
    parsed, main = body.parsed, profile.main
    if profile.envelope:
        names = parsed.value if body.header is None else body.header
        algorithm = main.algorithm(names)
        data = _envelope_signature(body.signature, algorithm)
        main = replace(main, algorithm=lambda _: algorithm, signature={algorithm: lambda _: data})
        plain = replace(plain, main=main)
    signed = body.signing_input if profile.envelope else None
    receipt = read(raw, parsed, plain, receipt_hash, limits, signed)
    receipt.unsigned = (*body.outside, *receipt.unsigned)
    return receipt


def _envelope_signature(text: str, algorithm: str) -> bytes:
    size = SIGNATURE_SIZES[algorithm]
    try:
        return base64url_decode(text, size)
    except ValueError:
        raise ReceiptError(
            Reason.INVALID_FIELD,
            "the envelope's signature has the wrong form",
            want=f"{size} bytes in unpadded base64url",
            got=f"text of {len(text)} characters",
        ) from None


def _complete(receipt: Receipt, profile: Profile, parsed: Parsed) -> None:
    """What only some formats have."""
    value = parsed.value
    if profile.agent is None:
        assert receipt.key_hint is not None, "compiled so"  # noqa: S101
        receipt.agent = format_public_key(receipt.key_hint)
    twin = receipt.algorithm == ES256  # anybody can write the other signature that holds
    if twin or not profile.closed:
        signature = low_s(receipt.signature) if twin else receipt.signature
        length = len(receipt.signing_input).to_bytes(4, "big")
        content = _CONTENT_DOMAIN + length + receipt.signing_input + signature
        receipt.content_hash = sha256(content).digest()
    if not profile.linked:
        receipt.link_hash = receipt.receipt_hash
    receipt.cosignatures = tuple(
        _cosignature(cosigner.name, cosigner.rule, parsed)
        for cosigner in profile.cosigners
        if all(rule.test(value) for rule in cosigner.when)
    )
    if profile.pair is not None:
        receipt.pair = _pair(receipt, profile.pair, value)


def _cosignature(name: str, rule: SignatureRule, parsed: Parsed) -> Cosignature:
    value = parsed.value
    algorithm = rule.algorithm(value)
    return Cosignature(
        name,
        algorithm,
        rule.signing_input(parsed),
        rule.signature[algorithm](value),
        rule.key_hint(value),
        rule.kid(value),
    )


def _pair(receipt: Receipt, rule: PairRule, value: dict[str, Any]) -> Pair:
    ref = rule.ref(value)
    if rule.role == "outcome" and ref is None:
        raise ReceiptError(
            Reason.INVALID_FIELD, "an outcome names no intent", want="a reference", got="none"
        )
    if isinstance(rule.own, str):
        own = digest_text(receipt.link_hash if rule.own == "link" else receipt.receipt_hash)
    else:
        own = rule.own(value)
    return Pair("intent" if ref is None else "outcome", own, ref)
