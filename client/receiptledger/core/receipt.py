"""One receipt: read by its format's rules, and its signature.

Reading and authenticating are two steps, since formats exist that only the signature tells apart
(Microsoft's lesson 18 has two signing rules under one type). `readings` gives what the receipt says
under each format it may be of, preferred first; `authenticate` finds the one whose signature holds.

What algorithms there are, and what makes a signature hold, is in `algorithms`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from receiptledger.core.algorithms import ED25519, check_signature
from receiptledger.core.canonical import DEFAULT_LIMITS, Limits, Parsed, parse
from receiptledger.core.ed25519 import KEY_SIZE, verifies
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.receipt_read import read
from receiptledger.core.receipt_types import Cosignature, Pair, Receipt, chain_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from receiptledger.core.profile import Profile, Profiles

__all__ = [
    "Cosignature",
    "Pair",
    "Receipt",
    "authenticate",
    "chain_key",
    "check_signature",
    "first_readings",
    "holds",
    "readings",
    "verify_signature",
]


def readings(
    raw: bytes,
    profiles: Profiles,
    *,
    profile: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Receipt]:
    """What a receipt says under each format it may be of, preferred first.

    Lazy: nothing is read, and nothing raised, before the first `next`, which gives a receipt or
    raises. A format that cannot read the receipt is passed over when another can.

    Args:
        raw: the bytes as received.
        profiles: the formats that are known.
        profile: id of the only format to read it by; it must be of that format.
        limits: bounds on size, depth and members.

    Raises:
        ReceiptError: MALFORMED or TOO_LARGE from the parser, UNKNOWN_PROFILE when no format
            matches, INVALID_FIELD or UNSUPPORTED_ALGORITHM from the preferred format.
    """
    parsed = parse(raw, limits)
    candidates = profiles.find(parsed.value, profile)
    receipt_hash = sha256(raw).digest()
    failure: ReceiptError | None = None
    found = False
    for candidate in candidates:
        try:
            receipt = read(raw, parsed, candidate, receipt_hash, limits)
        except ReceiptError as error:
            failure = failure or error
            continue
        found = True
        yield receipt
    if failure is not None and not found:
        try:
            raise failure
        finally:
            del failure  # no cycle error -> traceback -> frame -> error for each refused receipt


def first_readings(
    raws: Sequence[bytes],
    profiles: Profiles,
    profile: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Receipt | ReceiptError]:
    """The first of :func:`readings` of each receipt, or the refusal it raises.

    What a ledger does with every batch. It goes step by step, not receipt by receipt: code that is in
    the processor's caches runs a third faster than code that has just come back.
    """
    parsed = [_parsed(raw, limits) for raw in raws]
    formats = [_format(item, profiles, profile) for item in parsed]
    inputs = [_signing_input(item, of) for item, of in zip(parsed, formats, strict=True)]
    hashes = [sha256(raw).digest() for raw in raws]
    found: list[Receipt | ReceiptError] = []
    for raw, item, of, signed, own in zip(raws, parsed, formats, inputs, hashes, strict=True):
        if item is not None and of is not None and signed is not None:
            try:
                found.append(read(raw, item, of, own, limits, signed))
                continue
            except ReceiptError:
                pass  # another format may read it; `readings` decides, and finds the words
        try:
            found.append(next(readings(raw, profiles, profile=profile, limits=limits)))
        except ReceiptError as error:
            # Without its traceback: that holds this frame, and so the list, and so the error.
            found.append(error.with_traceback(None))
    return found


# The steps; None where one refuses.


def _parsed(raw: bytes, limits: Limits) -> Parsed | None:
    try:
        return parse(raw, limits)
    except ReceiptError:
        return None


def _format(parsed: Parsed | None, profiles: Profiles, profile: str | None) -> Profile | None:
    try:
        return None if parsed is None else profiles.find(parsed.value, profile)[0]
    except ReceiptError:
        return None


def _signing_input(parsed: Parsed | None, profile: Profile | None) -> bytes | None:
    try:
        if parsed is None or profile is None or profile.unwrap is not None:
            return None
        return profile.main.signing_input(parsed)
    except ReceiptError:
        return None


def holds(receipt: Receipt, key: bytes) -> bool:
    """Whether :func:`verify_signature` passes: the same rule without the words.

    Args:
        receipt: one reading.
        key: public key of the agent, 32 bytes; from a registry, not from the receipt.
    """
    if receipt.algorithm != ED25519 or receipt.cosignatures:
        try:
            verify_signature(receipt, key)
        except ReceiptError:
            return False
        return True
    hint = receipt.key_hint
    return (hint is None or hint == key) and verifies(receipt.signature, receipt.signing_input, key)


def verify_signature(receipt: Receipt, key: bytes) -> None:
    """Check a receipt's signature, and its cosignatures under the keys they name.

    That a cosignature holds under a key found beside it shows that nobody changed it, not whose it
    is: who knows the cosigner's key must hold it against that one.

    Args:
        receipt: one reading.
        key: public key of the agent; from a registry, not from the receipt.

    Raises:
        ReceiptError: BAD_SIGNATURE when one does not hold, or when the receipt names another key
            than it holds under: that member is not signed, so somebody else changed it.
            UNSUPPORTED_ALGORITHM when this installation cannot tell.
    """
    hint = receipt.key_hint
    if hint is not None and hint != key:
        want, got = f"the key {_shown_key(key)}", f"the key {_shown_key(hint)}"
        raise _bad_signature("the receipt names another key", want, got)
    check_signature(receipt.signature, receipt.signing_input, key, receipt.algorithm)
    for one in receipt.cosignatures:
        if one.key_hint is None:
            continue
        try:
            check_signature(one.signature, one.signing_input, one.key_hint, one.algorithm)
        except ReceiptError as error:
            message = f"signature of the {one.name}: {error.message}"
            raise ReceiptError(error.reason, message, want=error.want, got=error.got) from None


def _shown_key(key: bytes) -> str:
    return key.hex() if len(key) <= KEY_SIZE else f"{key.hex()[: 2 * KEY_SIZE]}..."


def authenticate(first: Receipt, rest: Iterator[Receipt], key: bytes) -> Receipt:
    """The first reading whose signature holds.

    Args:
        first: the preferred reading.
        rest: the iterator it came from; read only when `first` fails.
        key: public key of the agent, 32 bytes.

    Raises:
        ReceiptError: BAD_SIGNATURE when none holds; it names the formats that were tried.
            UNSUPPORTED_ALGORITHM when for one of them this installation cannot tell.
    """
    try:
        verify_signature(first, key)
    except ReceiptError as error:
        failure = error
    else:
        return first
    tried = [first.profile]
    for reading in rest:
        try:
            verify_signature(reading, key)
        except ReceiptError as error:
            tried.append(reading.profile)
            if error.reason is Reason.UNSUPPORTED_ALGORITHM:
                failure = error
        else:
            return reading
    message = f"{failure.message}, read as {' or '.join(tried)}"
    raise ReceiptError(failure.reason, message, want=failure.want, got=failure.got)


def _bad_signature(message: str, want: str | None, got: str | None) -> ReceiptError:
    return ReceiptError(Reason.BAD_SIGNATURE, message, want=want, got=got)
