"""One receipt under the keys an auditor gives: which reading they sign, or why none.

A given key is tried for a receipt when its type fits the receipt's algorithm and its key id, if it was
given with one, is the receipt's. A receipt that names no key id is tried under all keys of its type.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from typing import TYPE_CHECKING

from receiptledger.core.algorithms import algorithm_of, check_signature
from receiptledger.core.canonical import shown
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.public_key import format_public_key
from receiptledger.core.receipt import verify_signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from receiptledger.core.receipt import Cosignature, Receipt

__all__ = ["GivenKey", "Outcome", "Signed", "authenticate", "without_reason"]


@unique
class Outcome(StrEnum):
    """What can be said about a receipt, or about a chain of them."""

    VALID = "valid"
    INVALID = "invalid"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class GivenKey:
    """A public key from the auditor's own hands; its type is told by its length.

    Attributes:
        key: see `public_key`.
        kid: the key id receipts name it by; None to try it for every receipt of its algorithm.
    """

    key: bytes
    kid: str | None = None


@dataclass(slots=True)
class Signed:
    """What the given keys say about one receipt.

    Attributes:
        reading: the reading that is signed; the likeliest one when none is.
        outcome: valid, or why not.
        reason: None when valid.
        detail: in words, for people.
        notes: what else is worth knowing.
        key: the given key that signed it; None when none did.
    """

    reading: Receipt
    outcome: Outcome
    reason: Reason | None
    detail: str
    notes: list[str] = field(default_factory=list)
    key: bytes | None = None


def without_reason(error: ReceiptError) -> str:
    """The words of an error without the reason they begin with."""
    return str(error).removeprefix(f"{error.reason}: ")


def authenticate(readings: Sequence[Receipt], keys: Sequence[GivenKey]) -> Signed:
    """The first reading that is signed by a given key, all its cosignatures included.

    Args:
        readings: of one receipt, preferred first; at least one.
        keys: what the auditor gives.
    """
    failure: tuple[Receipt, ReceiptError] | None = None
    unsupported: tuple[Receipt, ReceiptError] | None = None
    tried = 0
    for reading in readings:
        for key in _candidates(reading.algorithm, reading.kid, keys):
            tried += 1
            try:
                verify_signature(_alone(reading), key)
            except ReceiptError as error:
                if error.reason is Reason.UNSUPPORTED_ALGORITHM:
                    unsupported = unsupported or (reading, error)
                else:
                    failure = failure or (reading, error)
            else:
                return _cosigned(reading, key, keys)
    if unsupported is not None:
        return _undecidable(*unsupported)
    if failure is None:
        return _no_key(readings[0], keys)
    return _refused(readings, *failure, tried)


def _alone(reading: Receipt) -> Receipt:
    """The receipt without its further signatures, which are held against given keys and not theirs."""
    return replace(reading, cosignatures=()) if reading.cosignatures else reading


def _candidates(algorithm: str, kid: str | None, keys: Sequence[GivenKey]) -> list[bytes]:
    return [
        given.key
        for given in keys
        if algorithm_of(given.key) == algorithm
        and (given.kid is None or kid is None or given.kid == kid)
    ]


def _undecidable(reading: Receipt, error: ReceiptError) -> Signed:
    return Signed(reading, Outcome.UNDECIDABLE, error.reason, without_reason(error))


def _no_key(reading: Receipt, keys: Sequence[GivenKey]) -> Signed:
    """No key to check it under. What is inside the receipt is said, and not believed."""
    named = "" if reading.kid is None else f" for the key id {shown(reading.kid)}"
    detail = f"no {reading.algorithm} key was given{named}; give the signer's public key" + (
        ", which you got from somewhere you trust" if keys else ""
    )
    signed = Signed(reading, Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY, detail)
    hint = reading.key_hint
    if hint is not None:
        fits = "fits" if _holds(reading, hint) else "does not even fit"
        signed.notes.append(
            f"the signature {fits} the key inside the receipt, {format_public_key(hint)}, which is "
            "not trusted: anybody can put a key of their own there"
        )
    return signed


def _refused(
    readings: Sequence[Receipt], reading: Receipt, error: ReceiptError, tried: int
) -> Signed:
    """Signed by none of the keys: by somebody else, or changed since."""
    for other in readings:
        hint = other.key_hint
        if hint is not None and _holds(other, hint):
            return Signed(
                other,
                Outcome.INVALID,
                Reason.WRONG_KEY,
                f"signed by the key inside the receipt, {format_public_key(hint)}, which is none of "
                "those you gave for it",
            )
    formats = " or ".join(dict.fromkeys(item.profile for item in readings))
    if tried > len(readings):
        detail = f"the signature holds under none of the keys given, read as {formats}"
    else:
        detail = f"{without_reason(error)}; read as {formats}"
    return Signed(reading, Outcome.INVALID, Reason.BAD_SIGNATURE, detail)


def _holds(reading: Receipt, key: bytes) -> bool:
    try:
        verify_signature(_alone(reading), key)
    except ReceiptError:
        return False
    return True


# Formats with more than one signature: all must hold.


def _cosigned(reading: Receipt, key: bytes, keys: Sequence[GivenKey]) -> Signed:
    parts = [f"{reading.algorithm} holds under {format_public_key(key)}"]
    for one in reading.cosignatures:
        by, fault = _cosigner(one, key, keys)
        if fault is not None:
            outcome, reason, detail = fault
            return Signed(reading, outcome, reason, f"signature {one.name}: {detail}")
        parts.append(f"{one.name}: {one.algorithm} holds under {format_public_key(by)}")
    return Signed(reading, Outcome.VALID, None, "; ".join(parts), key=key)


def _cosigner(
    one: Cosignature, first: bytes, keys: Sequence[GivenKey]
) -> tuple[bytes, tuple[Outcome, Reason, str] | None]:
    """The key a further signature holds under, or why it holds under none.

    Args:
        one: the signature.
        first: the key of the receipt's main signature, which is no second opinion.
        keys: what the auditor gives.
    """
    candidates = [key for key in _candidates(one.algorithm, one.kid, keys) if key != first]
    for key in candidates:
        fault = _cosignature_fault(one, key)
        if fault is None:
            return key, None
        if fault is Reason.UNSUPPORTED_ALGORITHM:
            words = f"{one.algorithm} cannot be checked here"
            return b"", (Outcome.UNDECIDABLE, fault, words)
    if algorithm_of(first) == one.algorithm and _cosignature_fault(one, first) is None:
        words = "by the key of the receipt's own signature, and a second signer is needed"
        return b"", (Outcome.INVALID, Reason.WRONG_KEY, words)
    if not candidates:
        named = "" if one.kid is None else f" with the key id {shown(one.kid)}"
        words = f"no {one.algorithm} key was given for it{named}"
        return b"", (Outcome.UNDECIDABLE, Reason.UNKNOWN_KEY, words)
    if one.key_hint is not None and _cosignature_fault(one, one.key_hint) is None:
        words = (
            f"by the key inside the receipt, {format_public_key(one.key_hint)}, which is none of "
            "those you gave for it"
        )
        return b"", (Outcome.INVALID, Reason.WRONG_KEY, words)
    return b"", (Outcome.INVALID, Reason.BAD_SIGNATURE, "it holds under none of the keys given")


def _cosignature_fault(one: Cosignature, key: bytes) -> Reason | None:
    if one.key_hint is not None and one.key_hint != key:
        return Reason.BAD_SIGNATURE
    try:
        check_signature(one.signature, one.signing_input, key, one.algorithm)
    except ReceiptError as error:
        return error.reason
    return None
