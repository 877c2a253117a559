"""One receipt: read by its format's rules, and its signature.

Reading and authenticating are two steps, since formats exist that only the signature tells apart
(Microsoft's lesson 18 has two signing rules under one type). `readings` gives what the receipt says
under each format it may be of, preferred first; `authenticate` finds the one whose signature holds.

Signatures are Ed25519 as libsodium checks them: no small-order or non-canonical keys and R, S below
the group order (RFC 8032 section 5.1.7), no cofactor. Other libraries accept other signatures; a
ledger and its auditors must share one rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError

from receiptledger.core.canonical import DEFAULT_LIMITS, Limits, Parsed, parse
from receiptledger.core.errors import Reason, ReceiptError
from receiptledger.core.profile import KEY_SIZE, SIGNATURE_SIZE, Profile, Profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "Receipt",
    "authenticate",
    "chain_key",
    "check_signature",
    "first_readings",
    "holds",
    "readings",
    "verify_signature",
]

_CHAIN_DOMAIN = b"receiptledger/chain/v1\n"


@dataclass(slots=True, eq=False)
class Receipt:
    """What one receipt says under one format. Not to be changed.

    Attributes:
        raw: the bytes as received.
        profile: id of the format it is read by.
        profile_version: version of that format's data.
        agent: agent id, 1..256 UTF-8 bytes without control characters.
        stream: which of the agent's streams, up to 256 bytes; "" where the format has none.
        sequence: the format's own number, 0..2^53-1, or None.
        sequence_step: what the next receipt's number adds; 1 where the format has none.
        previous: link hash of the receipt before, 32 bytes; None at genesis.
        link_hash: what the next receipt's `previous` must be, 32 bytes.
        content_hash: SHA-256 of the receipt's canonical bytes, signature included: the same for
            every spelling of one content.
        receipt_hash: SHA-256 of `raw`.
        signing_input: the bytes the signature is over.
        signature: 64 bytes.
        key_hint: public key found in the receipt, 32 bytes, or None. Never to be trusted, but the
            signature must hold under it.
        kid: key id found in the receipt, or None.
        time: the signer's claim, RFC 3339, or None.
        unsigned: dotted paths of the members outside the signed bytes, the signature's value left
            out.
        sequence_start: the number of a chain's first receipt; 0 where the format has none.
    """

    raw: bytes
    profile: str
    profile_version: int
    agent: str
    stream: str
    sequence: int | None
    sequence_step: int
    previous: bytes | None
    link_hash: bytes
    content_hash: bytes
    receipt_hash: bytes
    signing_input: bytes
    signature: bytes
    key_hint: bytes | None
    kid: str | None
    time: str | None
    unsigned: tuple[str, ...]
    sequence_start: int = 0
    _chain: bytes | None = field(default=None, init=False, repr=False)

    @property
    def chain(self) -> bytes:
        """Key of the receipt's chain, 32 bytes."""
        chain = self._chain
        if chain is None:
            chain = self._chain = _remembered_chain_key(self.agent, self.stream)
        return chain


def chain_key(agent: str, stream: str = "") -> bytes:
    """SHA-256 over the length-prefixed UTF-8 of agent and stream: 32 bytes, no two chains alike.

    Raises:
        ReceiptError: INVALID_FIELD for text with half of a surrogate pair.
    """
    try:
        one, other = agent.encode("utf-8"), stream.encode("utf-8")
    except UnicodeEncodeError:
        raise ReceiptError(
            Reason.INVALID_FIELD,
            "an agent or stream id holds half of a surrogate pair",
            want="Unicode text",
            got="a lone surrogate",
        ) from None
    return sha256(
        _CHAIN_DOMAIN + len(one).to_bytes(4, "big") + one + len(other).to_bytes(4, "big") + other
    ).digest()


# The same few agents send most receipts; 4,096 names of at most 512 bytes stay small.
_remembered_chain_key = lru_cache(maxsize=4_096)(chain_key)


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
            receipt = _read(raw, parsed, candidate, receipt_hash)
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
                found.append(_read(raw, item, of, own, signed))
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
        return None if parsed is None or profile is None else profile.signing_input(parsed)
    except ReceiptError:
        return None


def _read(
    raw: bytes,
    parsed: Parsed,
    profile: Profile,
    receipt_hash: bytes,
    signing_input: bytes | None = None,
) -> Receipt:
    """One reading; the signing input is worked out unless it is given."""
    value = parsed.value
    for check in profile.checks:
        check(value)
    canonical = parsed.canonical
    content_hash = receipt_hash if canonical is raw else sha256(canonical).digest()
    return Receipt(
        raw,
        profile.id,
        profile.version,
        profile.agent(value),
        profile.stream(value),
        profile.sequence(value),
        profile.sequence_step,
        profile.previous(value),
        content_hash,  # every format so far links to the full receipt ("preimage" in its data)
        content_hash,
        receipt_hash,
        profile.signing_input(parsed) if signing_input is None else signing_input,
        profile.signature(value),
        profile.key_hint(value),
        profile.kid(value),
        profile.time(value),
        profile.unsigned(value),
        profile.sequence_start,
    )


def check_signature(signature: bytes, message: bytes, key: bytes) -> None:
    """Check an Ed25519 signature by libsodium, which lets other threads run meanwhile.

    Args:
        signature: 64 bytes.
        message: what was signed.
        key: public key, 32 bytes.

    Raises:
        ReceiptError: BAD_SIGNATURE when it does not hold or a length is wrong.
    """
    # Shape first: libsodium reads past a short key, and takes 64 bytes off signature + message.
    if len(key) != KEY_SIZE:
        raise _bad_signature("the key has another length", f"{KEY_SIZE} bytes", f"{len(key)} bytes")
    if len(signature) != SIGNATURE_SIZE:
        want, got = f"{SIGNATURE_SIZE} bytes", f"{len(signature)} bytes"
        raise _bad_signature("the signature has another length", want, got)
    try:
        crypto_sign_open(signature + message, key)
    except BadSignatureError:
        want, got = f"one by the key {key.hex()}", f"signature {signature.hex()[:16]}..."
        raise _bad_signature("the signature does not hold", want, got) from None


def holds(receipt: Receipt, key: bytes) -> bool:
    """Whether :func:`verify_signature` passes: the same rule without the words.

    Args:
        receipt: one reading.
        key: public key of the agent, 32 bytes; from a registry, not from the receipt.
    """
    hint, signature = receipt.key_hint, receipt.signature
    if hint is not None and hint != key:
        return False
    if len(key) != KEY_SIZE or len(signature) != SIGNATURE_SIZE:  # see check_signature
        return False
    try:
        crypto_sign_open(signature + receipt.signing_input, key)
    except BadSignatureError:
        return False
    return True


def verify_signature(receipt: Receipt, key: bytes) -> None:
    """Check a receipt's signature.

    Args:
        receipt: one reading.
        key: public key of the agent, 32 bytes; from a registry, not from the receipt.

    Raises:
        ReceiptError: BAD_SIGNATURE when it does not hold, or when the receipt names another key
            than it holds under: that member is not signed, so somebody else changed it.
    """
    hint = receipt.key_hint
    if hint is not None and hint != key:
        want, got = f"the key {key.hex()}", f"the key {hint.hex()}"
        raise _bad_signature("the receipt names another key", want, got)
    check_signature(receipt.signature, receipt.signing_input, key)


def authenticate(first: Receipt, rest: Iterator[Receipt], key: bytes) -> Receipt:
    """The first reading whose signature holds.

    Args:
        first: the preferred reading.
        rest: the iterator it came from; read only when `first` fails.
        key: public key of the agent, 32 bytes.

    Raises:
        ReceiptError: BAD_SIGNATURE when none holds; it names the formats that were tried.
    """
    try:
        verify_signature(first, key)
    except ReceiptError as error:
        message, want, got = error.message, error.want, error.got
    else:
        return first
    tried = [first.profile]
    for reading in rest:
        try:
            verify_signature(reading, key)
        except ReceiptError:
            tried.append(reading.profile)
        else:
            return reading
    raise _bad_signature(f"{message}, read as {' or '.join(tried)}", want, got)


def _bad_signature(message: str, want: str | None, got: str | None) -> ReceiptError:
    return ReceiptError(Reason.BAD_SIGNATURE, message, want=want, got=got)
