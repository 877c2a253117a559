"""Strict RFC 3161 verification: the public face.

A token is accepted when all of this holds, and refused with a typed cause when any of it does not:

1. Size, DER and grammar, before anything is hashed (`timestamp_der`).
2. The authority answered "granted" (`timestamp_tst`).
3. The TSTInfo is over this message, with the nonce that was sent and a policy of this authority.
4. genTime and accuracy are well formed; the accuracy is not wider than allowed.
5. One signer, whose certificate the signing-certificate attribute names (`timestamp_ess`).
6. The signed attributes bind the signature to the TSTInfo (`timestamp_cms`); the signature holds.
7. The signer's certificate is for timestamps alone and leads to one of this authority's roots, all
   valid at genTime (`tsa_path`). When it expires later does not matter here: see `renewal`.
8. TSTInfo.tsa, if present, is a name of the signer (RFC 3161 section 2.4.2).
9. genTime lies in the window in which this authority is trusted; the algorithms were in use then.
10. Nothing on the path is revoked, as far as the given evidence says (`revocation`).

Nothing here looks at a clock or a network: who verifies passes all it goes by. A record of another
authority never helps: each :class:`TsaTrust` stands alone.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from receiptledger.core.revocation import (
    GOOD_REVOKED_LATER,
    NO_EVIDENCE,
    RevocationEvidence,
    check_revocation,
)
from receiptledger.core.timestamp_algorithms import usable
from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_cms import check_attributes
from receiptledger.core.timestamp_der import only, parse
from receiptledger.core.timestamp_describe import describe_response
from receiptledger.core.timestamp_ess import ess_entries, signed_by
from receiptledger.core.timestamp_open import open_response, open_token
from receiptledger.core.timestamp_signature import digest, key_name, verify_signature
from receiptledger.core.timestamp_tst import check_status
from receiptledger.core.timestamp_types import DEFAULT_RULES, Timestamp, TimestampRules, TsaTrust
from receiptledger.core.timestamp_window import check_time_window
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.core.tsa_name import name_text, same_name
from receiptledger.core.tsa_path import build_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.timestamp_cms import SignerInfo
    from receiptledger.core.timestamp_der import Node
    from receiptledger.core.timestamp_ess import EssEntry
    from receiptledger.core.timestamp_open import OpenToken
    from receiptledger.core.timestamp_tst import TstInfo
    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = [
    "DEFAULT_RULES",
    "NO_EVIDENCE",
    "Cause",
    "RevocationEvidence",
    "Timestamp",
    "TimestampError",
    "TimestampRules",
    "TsaTrust",
    "check_time_window",
    "describe_response",
    "token_of",
    "verify_response",
    "verify_token",
]

_DIRECTORY_NAME = 0xA4


def verify_response(
    response: bytes,
    message: bytes,
    trust: TsaTrust,
    *,
    nonce: int | None = None,
    rules: TimestampRules = DEFAULT_RULES,
    evidence: RevocationEvidence = NO_EVIDENCE,
) -> Timestamp:
    """Verify a TimeStampResp as it came from the authority.

    Args:
        response: DER, at most `rules.max_bytes`.
        message: what was stamped; hashed under the token's own hash, if that is an allowed one.
        trust: the authority that is asked to have made it; no other helps.
        nonce: the one that was sent; None skips the comparison.
        rules: how strict to be.
        evidence: CRLs and OCSP responses; without any, `revocation` is "unknown".

    Raises:
        TimestampError: and nothing else, whatever the bytes are.
    """
    status, token = open_response(response, rules.max_bytes)
    check_status(status, allow_granted_with_mods=rules.allow_granted_with_mods)
    if token is None:
        raise TimestampError(Cause.NO_TOKEN, "granted, but there is no token")
    return verify_token(token, message, trust, nonce=nonce, rules=rules, evidence=evidence)


def token_of(response: bytes) -> bytes:
    """The TimeStampToken inside a response, as its bytes came, not verified.

    Raises:
        TimestampError: TOO_LARGE, DER, NO_TOKEN.
    """
    token = open_response(response, DEFAULT_RULES.max_bytes)[1]
    if token is None:
        raise TimestampError(Cause.NO_TOKEN, "the response holds no token")
    return token


def verify_token(
    token: bytes,
    message: bytes,
    trust: TsaTrust,
    *,
    nonce: int | None = None,
    rules: TimestampRules = DEFAULT_RULES,
    evidence: RevocationEvidence = NO_EVIDENCE,
) -> Timestamp:
    """Verify a bare TimeStampToken; arguments and errors as for :func:`verify_response`."""
    opened = open_token(token, rules.max_bytes)
    data, info = opened.data, opened.info
    _check_info(info, message, trust, nonce, rules)
    entries = ess_entries(data.signer)
    if rules.require_ess_v2 and "v2" not in entries:
        raise TimestampError(Cause.ESS, "the signer is named by SHA-1 alone", want="ESSCertIDv2")
    check_attributes(data)

    # Configured ones first: a path is searched with bounded effort.
    pool = [*map(load_certificate, trust.intermediates), *opened.certificates]
    pinned = None if trust.certificate is None else load_certificate(trust.certificate)
    signer = _signer(opened, entries, pool, pinned)
    key_algorithm = key_name(signer.key, rules.min_rsa_bits)
    signature_algorithm = verify_signature(
        signer.key,
        data.signer.signature_identifier,
        data.signer.signature,
        data.signer.signed,
        digest_algorithm=data.signer.hash_algorithm,
    )
    path = build_path(
        signer,
        pool,
        [load_certificate(root) for root in trust.roots],
        info.gen_time,
        rules.min_rsa_bits,
        opened.issued,
    )
    if info.tsa is not None:
        _check_tsa_name(info.tsa, signer)
    _check_trust_window(info, trust)
    revocation = check_revocation(path, evidence, info.gen_time, rules.min_rsa_bits)
    timestamp = Timestamp(
        gen_time=info.gen_time,
        accuracy=info.accuracy,
        serial=info.serial,
        policy=info.policy,
        hash_algorithm=info.hash_algorithm,
        nonce=info.nonce,
        ordering=info.ordering,
        path=tuple(one.der for one in path),
        signature_algorithm=signature_algorithm,
        key_algorithm=key_algorithm,
        ess=tuple(entries),
        warnings=_warnings(info, entries, path, revocation),
        revocation=revocation,
    )
    usable(timestamp.algorithms, info.gen_time)
    return timestamp


def _check_info(
    info: TstInfo, message: bytes, trust: TsaTrust, nonce: int | None, rules: TimestampRules
) -> None:
    """The TSTInfo is over this message, and answers what was asked."""
    if not hmac.compare_digest(info.imprint, digest(info.hash_algorithm, message)):
        raise TimestampError(Cause.IMPRINT, "the token stamps another message")
    if nonce is not None and info.nonce != nonce:
        got = "none" if info.nonce is None else hex(info.nonce)
        raise TimestampError(Cause.NONCE, "nonce", want=hex(nonce), got=got)
    if trust.policies and info.policy not in trust.policies:
        raise TimestampError(
            Cause.POLICY, "policy", want=", ".join(sorted(trust.policies)), got=info.policy
        )
    if info.accuracy is None:
        if rules.require_accuracy:
            raise TimestampError(Cause.ACCURACY, "the token gives no accuracy")
    elif info.accuracy > rules.max_accuracy:
        raise TimestampError(
            Cause.ACCURACY,
            "accuracy is too wide",
            want=f"at most {rules.max_accuracy}",
            got=str(info.accuracy),
        )


def _signer(
    opened: OpenToken,
    entries: dict[str, tuple[EssEntry, ...]],
    pool: Sequence[TsaCertificate],
    pinned: TsaCertificate | None,
) -> TsaCertificate:
    """The certificate that the signer identifier and the signing-certificate attribute name."""
    candidates = [
        one for one in ([*pool, pinned] if pinned else pool) if _identifies(opened.data.signer, one)
    ]
    if not candidates:
        if opened.unread:
            raise TimestampError(
                Cause.CERTIFICATE,
                "an embedded certificate cannot be read",
                got=f"{opened.unread} of them",
            )
        raise TimestampError(
            Cause.NO_SIGNER_CERTIFICATE, "no certificate of the signer, embedded or configured"
        )
    signer = signed_by(entries, candidates)
    if pinned is not None and signer.der != pinned.der:
        raise TimestampError(
            Cause.TSA_PIN,
            "signed under another certificate than the pinned one",
            want=digest("sha256", pinned.der).hex(),
            got=digest("sha256", signer.der).hex(),
        )
    return signer


def _identifies(signer: SignerInfo, certificate: TsaCertificate) -> bool:
    if signer.issuer is None:
        return certificate.key_identifier == signer.key_identifier
    return certificate.serial == signer.serial and same_name(certificate.issuer, signer.issuer)


def _check_tsa_name(tsa: Node, signer: TsaCertificate) -> None:
    """TSTInfo.tsa must correspond to a subject name of the signer; see `tsa_name` for how."""
    if tsa.tag != _DIRECTORY_NAME:
        if tsa.raw not in signer.alternative_names:
            raise TimestampError(
                Cause.TSA_NAME, "TSTInfo.tsa is not a name of the signer", got=tsa.raw[:64].hex()
            )
        return
    name = only(tsa, "TSTInfo.tsa").raw
    others = [parse(one) for one in signer.alternative_names]
    names = [signer.subject, *(only(one, "name").raw for one in others if one.tag == tsa.tag)]
    if not any(same_name(name, one) for one in names):
        raise TimestampError(
            Cause.TSA_NAME,
            "TSTInfo.tsa is not the signer",
            want=name_text(signer.subject),
            got=name_text(name),
        )


def _check_trust_window(info: TstInfo, trust: TsaTrust) -> None:
    early = trust.trusted_from is not None and info.gen_time < trust.trusted_from
    late = trust.trusted_until is not None and info.gen_time > trust.trusted_until
    if early or late:
        raise TimestampError(
            Cause.TRUST_WINDOW,
            f"{trust.name} is not trusted at genTime",
            want=f"{trust.trusted_from or 'any time'} to {trust.trusted_until or 'any time'}",
            got=str(info.gen_time),
        )


def _warnings(
    info: TstInfo,
    entries: dict[str, tuple[EssEntry, ...]],
    path: Sequence[TsaCertificate],
    revocation: str,
) -> tuple[str, ...]:
    listed = [entry for one in entries.values() for entry in one]
    found = {
        "ess_v1": "v2" not in entries,
        "ess_chain": not all(any(entry.names(one) for one in path) for entry in listed),
        "no_accuracy": info.accuracy is None,
        "revoked_later": revocation == GOOD_REVOKED_LATER,
    }
    return tuple(name for name, holds in found.items() if holds)
