"""Everything that can be read in a timestamp response, for people; nothing is verified.

What cannot be read becomes a line in "problems": whoever inspects a broken token wants to see the rest.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

from receiptledger.core.timestamp_cause import TimestampError
from receiptledger.core.timestamp_cms import SignedData, parse_token
from receiptledger.core.timestamp_der import OID, SEQUENCE, algorithm, parse
from receiptledger.core.timestamp_ess import ess_entries
from receiptledger.core.timestamp_signature import key_name
from receiptledger.core.timestamp_tst import parse_tst_info, split_response
from receiptledger.core.timestamp_types import DEFAULT_RULES
from receiptledger.core.tsa_certificate import load_certificate
from receiptledger.core.tsa_name import name_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.timestamp_der import Node

__all__ = ["describe_response"]

_DIRECTORY_NAME = 0xA4


def describe_response(response: bytes) -> dict[str, Any]:
    """What a TimeStampResp, or a bare TimeStampToken, says; JSON types only, integers as hex text.

    Members: "kind" ("response" or "token"), "bytes", "sha256", and for a response "status",
    "status_text" and "failures"; "token" is None or the token's parts, each None if it could not be
    read, with "problems" that say why.

    Raises:
        TimestampError: TOO_LARGE or DER, not even the outermost form can be read.
    """
    top = parse(response, opaque=frozenset({(SEQUENCE,)}))
    said: dict[str, Any] = {
        "kind": "response",
        "bytes": len(response),
        "sha256": hashlib.sha256(response).hexdigest(),
    }
    if top.children and top.children[0].tag == OID:
        said["kind"] = "token"
        return {**said, "token": _token(response)}
    status, token = split_response(response, DEFAULT_RULES.max_bytes)
    return {
        **said,
        "status": status.status_name,
        "status_text": list(status.texts),
        "failures": [status.failure_name(bit) for bit in status.failures],
        "token": None if token is None else _token(token),
    }


def _token(token: bytes) -> dict[str, Any]:
    problems: list[str] = []

    def attempt(what: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except TimestampError as error:
            problems.append(f"{what}: {error}")
            return None

    data: SignedData | None = attempt("token", partial(parse_token, token, DEFAULT_RULES.max_bytes))
    said: dict[str, Any] = {
        "bytes": len(token),
        "sha256": hashlib.sha256(token).hexdigest(),
        "info": None,
        "signer": None,
        "signing_certificate": None,
        "certificates": None,
        "embedded_crls": None,
    }
    if data is not None:
        said["info"] = attempt("TSTInfo", partial(_info, data.content))
        said["signer"] = attempt("signer", partial(_signer, data))
        said["signing_certificate"] = attempt("signing certificate", partial(_ess, data))
        said["certificates"] = [
            attempt(f"certificate {number}", partial(_certificate, der))
            for number, der in enumerate(data.certificates)
        ]
        said["embedded_crls"] = data.crls
    return {**said, "problems": problems}


def _info(content: bytes) -> dict[str, Any]:
    info = parse_tst_info(content)
    accuracy = None if info.accuracy is None else info.accuracy.total_seconds()
    return {
        "policy": info.policy,
        "hash_algorithm": info.hash_algorithm,
        "imprint": info.imprint.hex(),
        "serial": hex(info.serial),
        "gen_time": info.gen_time.isoformat(),
        "accuracy_seconds": accuracy,
        "ordering": info.ordering,
        "nonce": None if info.nonce is None else hex(info.nonce),
        "tsa": None if info.tsa is None else _general_name(info.tsa),
        "extensions": list(info.extensions),
    }


def _signer(data: SignedData) -> dict[str, Any]:
    signer = data.signer
    return {
        "issuer": None if signer.issuer is None else name_text(signer.issuer),
        "serial": None if signer.serial is None else hex(signer.serial),
        "key_identifier": None if signer.key_identifier is None else signer.key_identifier.hex(),
        "digest_algorithm": signer.hash_algorithm,
        "signature_algorithm": algorithm(signer.signature_identifier, "signature algorithm")[0],
        "signed_attributes": list(signer.attributes),
    }


def _ess(data: SignedData) -> dict[str, list[dict[str, str]]]:
    return {
        version: [
            {"hash_algorithm": entry.hash_algorithm, "hash": entry.hash.hex()} for entry in entries
        ]
        for version, entries in ess_entries(data.signer).items()
    }


def _certificate(der: bytes) -> dict[str, Any]:
    certificate = load_certificate(der)
    try:
        key = key_name(certificate.key)
    except TimestampError as error:
        key = f"unsupported ({error.message})"
    return {
        "subject": name_text(certificate.subject),
        "issuer": name_text(certificate.issuer),
        "serial": hex(certificate.serial),
        "not_before": certificate.not_before.isoformat(),
        "not_after": certificate.not_after.isoformat(),
        "key": key,
        "sha256": hashlib.sha256(der).hexdigest(),
    }


def _general_name(node: Node) -> str:
    if node.tag == _DIRECTORY_NAME and len(node.children) == 1:
        return name_text(node.children[0].raw)
    return f"#{node.raw.hex()}"
