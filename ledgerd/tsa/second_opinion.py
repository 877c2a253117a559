"""What rfc3161-client says of a response: a second verifier, written by others, on OpenSSL.

A response is stored only when it and the strict verifier of core both accept it. It is no substitute:
it does not look at ESSCertID, revocation or unknown critical extensions, among others. What it brings
is another parser, another CMS and another path validation, so one mistake of ours is not enough.

Its builder's `add_...` methods change a list that verifiers built before still share. So every
verifier here is built at once from fresh lists, and belongs to one TSA.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cryptography import x509
from rfc3161_client import VerifierBuilder, decode_timestamp_response

from ledgerd.tsa.der_sort import sort_certificates
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.words import shown
from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    from receiptledger.core.timestamp_types import TsaTrust

__all__ = ["check"]

_REASON = re.compile(r'reason: "([^"]*)"')
_WHY = re.compile(r'data: "Verify error: ([^"]*)"')


def check(response: bytes, message: bytes, trust: TsaTrust, nonce: int | None) -> None:
    """Return when rfc3161-client accepts a TimeStampResp over a message from this TSA.

    Takes about 3 ms of a core. Ask only for responses within the size limit.

    Raises:
        TsaError: second_opinion, with what it said, whatever went wrong in it.
    """
    try:
        _check(response, message, trust, nonce)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in its Rust part is no Exception
        raise TsaError(Cause.SECOND_OPINION, f"the second verifier says: {_said(error)}") from None


def _said(error: BaseException) -> str:
    """Its words, with the reasons alone of an error stack of OpenSSL."""
    text, stack, rest = str(error).partition("ErrorStack(")
    if stack:
        # The last one is the outermost; what was wrong with a path stands beside it.
        text += ": ".join([*_REASON.findall(rest)[-1:], *_WHY.findall(rest)[-1:]])
    words = shown(text.strip() or type(error).__name__)
    return words if isinstance(error, Exception) else f"{type(error).__name__}: {words}"


def _check(response: bytes, message: bytes, trust: TsaTrust, nonce: int | None) -> None:
    load = x509.load_der_x509_certificate
    verifier = VerifierBuilder(
        roots=[load(root) for root in trust.roots],
        intermediates=[load(certificate) for certificate in trust.intermediates],
        tsa_certificate=None if trust.certificate is None else load(trust.certificate),
        nonce=nonce,
    ).build()
    decoded = decode_timestamp_response(sort_certificates(response))
    verifier.verify_message(decoded, message)  # raises; never returns False
    policy = decoded.tst_info.policy
    if trust.policies and policy.dotted_string not in trust.policies:
        raise ValueError(f"policy {policy.dotted_string}")
