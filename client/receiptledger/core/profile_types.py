"""One receipt format, compiled: what its data says as functions from a receipt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from receiptledger.core.errors import Reason, ReceiptError

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.canonical import Parsed
    from receiptledger.core.fields import Check, Reader
    from receiptledger.core.profile_detect import Rule
    from receiptledger.core.unwrap import Unwrap

__all__ = ["Cosigner", "PairRule", "Profile", "SignatureRule"]


@dataclass(frozen=True, slots=True, eq=False)
class SignatureRule:
    """Where one signature of a receipt is, and what it is over.

    Attributes:
        algorithm: reader of its algorithm, our name.
        signature: reader of its bytes, for each algorithm it may be of.
        signing_input: the bytes it is over.
        key_hint, kid: readers.
    """

    algorithm: Reader[str]
    signature: dict[str, Reader[bytes]]
    signing_input: Callable[[Parsed], bytes]
    key_hint: Reader[bytes | None]
    kid: Reader[str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Cosigner:
    """A further signature that must hold, when its rules say that the receipt has one."""

    name: str
    when: tuple[Rule, ...]
    rule: SignatureRule


@dataclass(frozen=True, slots=True, eq=False)
class PairRule:
    """How an intent and its outcome find each other.

    Attributes:
        role: "intent", "outcome", or "either": an outcome when it has a reference.
        own: what names an intent: "link", "receipt" (its hashes), or reader of a member's text.
        ref: reader of an outcome's reference, None without.
    """

    role: str
    own: str | Reader[str]
    ref: Reader[str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One receipt format, compiled. Readers are about the receipt inside its envelope, if it has one.

    Attributes:
        id: name of the format; part of every head leaf.
        version: of the format's data; part of every head leaf.
        title: for people.
        detect: what must hold for a receipt to be of this format.
        unwrap: takes the receipt out of its envelope; None when there is none.
        envelope: whether the envelope holds the signature.
        checks: refuse forbidden members, and members that differ and must not.
        digests: refuse digests of parts that do not fit.
        agent: reader, or None: the agent is the key the receipt is signed with.
        stream, sequence, previous, time: readers, see `fields` and `field_bytes`.
        sequence_start: the sequence number of a chain's first receipt; 0 without sequence.
        sequence_step: what each next receipt adds; 1 without sequence.
        linked: whether receipts name the one before them.
        link: what the next receipt's previous hash must be, from the receipt's bytes; None: the
            SHA-256 of its canonical bytes, or its receipt hash where the format has no links.
        main: the signature.
        cosigners: further signatures.
        pair: how intents and outcomes are paired, or None.
        closed: whether nothing but the signature's own members may be outside the signed bytes, so
            that equal canonical bytes are equal contents.
        unsigned: reader of the dotted paths of the members outside the signed bytes, sorted at each
            level, without the signature itself.
        plain: whether a receipt is read once its members are; a closed format has no cosigners.
    """

    id: str
    version: int
    title: str
    detect: tuple[Rule, ...]
    unwrap: Unwrap | None
    envelope: bool
    checks: tuple[Check, ...]
    digests: tuple[Callable[[Parsed], None], ...]
    agent: Reader[str] | None
    stream: Reader[str]
    sequence: Reader[int | None]
    sequence_start: int
    sequence_step: int
    previous: Reader[bytes | None]
    linked: bool
    link: Callable[[Parsed], bytes] | None
    time: Reader[str | None]
    main: SignatureRule
    cosigners: tuple[Cosigner, ...]
    pair: PairRule | None
    closed: bool
    unsigned: Reader[tuple[str, ...]]
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        plain = self.closed and self.linked and self.agent is not None and self.pair is None
        object.__setattr__(self, "plain", plain)

    def require(self, value: dict[str, Any]) -> None:
        """Refuse a receipt that names this format and is not of it.

        Raises:
            ReceiptError: INVALID_FIELD with the first rule of detection that does not hold.
        """
        for rule in self.detect:
            if not rule.test(value):
                raise ReceiptError(
                    Reason.INVALID_FIELD,
                    f"the receipt is not of format {self.id}",
                    want=rule.words,
                    got="no such member, or another value",
                )
