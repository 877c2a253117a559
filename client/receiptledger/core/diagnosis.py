"""Which rule a receipt does follow, when it does not follow its format's: words, never a verdict.

Formats that look alike differ in small conventions (see `conventions`). One wrong convention gives a
failed signature or link, and an honest receipt looks forged. So on a failure the rules of the other
known formats are tried, then all combinations of the conventions, and the first that fits is named.
What is named helps to find the cause; it makes nothing valid.

All of it is bounded: at most `MAX_TRIALS` signature checks for one receipt, and `MAX_TEXTS` texts.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING

from receiptledger.core.algorithms import algorithm_of, check_signature
from receiptledger.core.answerproof import PROFILE as ANSWERPROOF
from receiptledger.core.answerproof import explain_signature
from receiptledger.core.canonical import DEFAULT_LIMITS, parse, shown
from receiptledger.core.conventions import HASH_TEXTS, forms, signatures, texts
from receiptledger.core.errors import LedgerError, ReceiptError
from receiptledger.core.receipt_read import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.profile import Profile, Profiles
    from receiptledger.core.receipt import Receipt

__all__ = ["MAX_KEYS", "MAX_TRIALS", "diagnose_link", "diagnose_signature", "explained"]

MAX_TRIALS = 512  # signature checks for one receipt, about 0.1 ms each
MAX_KEYS = 8


def diagnose_signature(
    raw: bytes, keys: Sequence[bytes], profiles: Profiles, reading: Receipt | None = None
) -> str | None:
    """The rule by which one of the keys did sign a receipt, in words; None when none is found.

    Args:
        raw: the receipt's bytes.
        keys: public keys it may be signed with; the first eight are tried.
        profiles: formats that are known.
        reading: its reading by the format whose rule failed, None when that cannot read it.
    """
    hint = None if reading is None else reading.key_hint
    tried = list(dict.fromkeys((*keys, hint) if hint is not None else keys))[:MAX_KEYS]
    if reading is not None and _holds_for_one(reading, tried):
        return None  # it is signed by its own rule: something else is wrong with it
    if reading is not None and reading.profile == ANSWERPROOF:
        words = explain_signature(reading, tried)
        if words is not None:
            return words
    for other in _other_readings(raw, profiles, reading):
        if _holds_for_one(other, tried):
            if reading is None:
                return f"it is signed as {other.profile} signs"
            return f"it is signed as {other.profile} signs, not as {reading.profile}"
    try:
        return _signing_convention(raw, tried, reading)
    except ReceiptError:  # it cannot be parsed
        return None


def diagnose_link(
    raw: bytes, reading: Receipt | None, before: Receipt, profiles: Profiles
) -> str | None:
    """The rule by which a receipt does link to the one before, in words; None when none is found.

    Args:
        raw: the receipt's bytes.
        reading: its reading by the format whose rule failed, None when that cannot read it.
        before: the receipt it should link to.
        profiles: formats that are known.
    """
    if reading is not None and reading.previous == before.link_hash:
        return None  # it does link: something else is wrong with it
    instead = "" if reading is None else f", not {reading.profile}"
    for other in _other_readings(raw, profiles, reading):
        if other.linked and other.previous is not None:
            same = _read_as(before.raw, parse(before.raw), profiles.get(other.profile))
            if same is not None and same.link_hash == other.previous:
                return f"this link follows {other.profile}{instead}"
    try:
        named = {text: path for path, text in texts(parse(raw).value)}
    except ReceiptError:
        return None
    made = forms(before.raw)
    for form, (words, write) in product(made, HASH_TEXTS):
        path = named.get(write(sha256(form.data).digest()))
        if path is not None:
            return (
                f"member {shown('.'.join(path))} is the SHA-256 of {form}, in {words}, of the receipt "
                f"before{'' if reading is None else f'; {reading.profile} links by another rule'}"
            )
    return None


def explained(error: LedgerError, words: str | None) -> LedgerError:
    """The same refusal with a diagnosis in its message; itself without one."""
    if words is None:
        return error
    message = f"{error.message} ({words})"
    return type(error)(error.reason, message, want=error.want, got=error.got)


def _other_readings(raw: bytes, profiles: Profiles, reading: Receipt | None) -> Iterator[Receipt]:
    """The receipt under each other format that can read it, those it seems to be of first."""
    try:
        parsed = parse(raw)
    except ReceiptError:
        return
    likely = [profile.id for profile in profiles.candidates(parsed.value)]
    for name in dict.fromkeys((*likely, *profiles.ids())):
        if reading is None or name != reading.profile:
            other = _read_as(raw, parsed, profiles.get(name))
            if other is not None:
                yield other


def _read_as(raw: bytes, parsed: Parsed, profile: Profile) -> Receipt | None:
    """The receipt by a format's rules, although it may not say that it is of it."""
    try:
        return read(raw, parsed, profile, sha256(raw).digest(), DEFAULT_LIMITS)
    except ReceiptError:
        return None


def _holds_for_one(reading: Receipt, keys: Sequence[bytes]) -> bool:
    """Whether one of the keys signed what this reading says is signed, whatever key it names."""
    for key in keys:
        try:
            check_signature(reading.signature, reading.signing_input, key, reading.algorithm)
        except ReceiptError:
            continue
        return True
    return False


def _signing_convention(raw: bytes, keys: Sequence[bytes], reading: Receipt | None) -> str | None:
    """What one of the keys signed of a receipt, of all combinations of the conventions.

    Raises:
        ReceiptError: the receipt cannot be parsed.
    """
    found = signatures(parse(raw).value)
    known = None if reading is None else reading.signing_input
    trials = 0
    for form in forms(raw):
        for hashed, message in ((False, form.data), (True, sha256(form.data).digest())):
            if message == known:
                continue  # that is the rule that failed
            for (path, signature, words), key in product(found, keys):
                if trials == MAX_TRIALS:
                    return None
                trials += 1
                try:
                    check_signature(signature, message, key, algorithm_of(key))
                except ReceiptError:
                    continue
                first = ", hashed with SHA-256 first" if hashed else ""
                other = "" if reading is None else f"; {reading.profile} signs by another rule"
                return (
                    f"the signature at {shown(path)}, in {words}, holds over {form}{first}{other}"
                )
    return None
