"""Keys of signed notes (C2SP signed-note; the text forms are those of golang.org/x/mod/sumdb/note).

Rules:

- Only Ed25519 (type 01), by libsodium's rule: non-canonical and small-order keys and signatures are
  refused.
- A key is known by its name and its key id, the first four bytes of
  SHA-256(name || 0A || 01 || public key). The id is recomputed, never believed.
- Every text has one spelling. Parsers accept the bytes the formatter emits, and nothing else:
  Python's base64 decoder alone would let trailing bits vary.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import BadSignatureError

from receiptledger.core.errors import EvidenceError, Reason

__all__ = ["SIGNATURE_PREFIX", "NoteSigner", "VerifierKey", "bad_note", "base64_bytes", "is_name"]

SIGNATURE_PREFIX: Final = "\N{EM DASH} ".encode()
KEY_ID_BYTES: Final = 4
PUBLIC_KEY_BYTES: Final = 32
SEED_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_ED25519 = b"\x01"
_PRIVATE = "PRIVATE+KEY+"

# `\s` is every Unicode space. Control characters and lone surrogates cannot stand in a note at all.
_NAME = re.compile(r"[^\s+\x00-\x1f\ud800-\udfff]+")


def is_name(name: object) -> bool:
    """Whether a text may name a key or a log: not empty, no Unicode space, no plus, no control."""
    return type(name) is str and _NAME.fullmatch(name) is not None


def base64_bytes(text: bytes) -> bytes | None:
    """Decode standard, padded base64 (RFC 4648 section 4); None unless it is canonical."""
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return data if base64.b64encode(data) == text else None


def bad_note(message: str, *, want: str | None = None, got: str | None = None) -> EvidenceError:
    """A BAD_NOTE error ready to raise; a long foreign text in `got` is cut."""
    if got is not None and len(got) > 120:
        got = got[:120] + "..."
    return EvidenceError(Reason.BAD_NOTE, message, want=want, got=got)


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key that verifies notes.

    `str(key)` is its text form, `<name>+<key id in hex>+<base64 of 01 || public key>`.

    Attributes:
        name: of the key's owner; for a log, the origin of its checkpoints.
        public_key: 32 bytes, Ed25519.
        key_id: 4 bytes, computed from the other two.

    Raises:
        EvidenceError: BAD_NOTE, the name or the key cannot be one.
    """

    name: str
    public_key: bytes
    key_id: bytes = field(init=False)

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise bad_note(
                "key name is not usable",
                want="text without spaces, plus or control characters",
                got=ascii(self.name),
            )
        if type(self.public_key) is not bytes or len(self.public_key) != PUBLIC_KEY_BYTES:
            raise bad_note("public key has the wrong form", want=f"{PUBLIC_KEY_BYTES} bytes")
        digest = hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public_key).digest()
        object.__setattr__(self, "key_id", digest[:KEY_ID_BYTES])

    def __str__(self) -> str:
        encoded = base64.b64encode(_ED25519 + self.public_key).decode("ascii")
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read the text form (a "vkey").

        Raises:
            EvidenceError: BAD_NOTE, for any other text, another key type, or a key id that is not
                the one of this name and key.
        """
        # Base64 contains pluses: only the first two are separators.
        name, _, rest = text.partition("+")
        key_id, _, encoded = rest.partition("+")
        key = cls(name, _ed25519_bytes(encoded, "verifier key"))
        if key.key_id.hex() != key_id:
            raise bad_note(
                "key id does not belong to this name and key", want=key.key_id.hex(), got=key_id
            )
        return key

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check a signature over a note's text.

        Raises:
            EvidenceError: BAD_NOTE, it does not hold.
        """
        # libsodium takes signature and message as one: a longer signature would lend its tail to
        # the message, and a signature over "more" + text would pass for one over the text.
        if len(signature) == SIGNATURE_BYTES:
            try:
                crypto_sign_open(signature + message, self.public_key)
            except BadSignatureError:
                pass
            else:
                return
        raise bad_note(
            "signature does not hold", want=f"a signature by {self.name}+{self.key_id.hex()}"
        )


class NoteSigner:
    """A private key that signs notes. It never shows its seed, except by :meth:`format`."""

    __slots__ = ("_secret", "verifier")

    verifier: VerifierKey
    """The public half."""

    def __init__(self, name: str, seed: bytes) -> None:
        if type(seed) is not bytes or len(seed) != SEED_BYTES:
            raise bad_note("private key has the wrong form", want=f"{SEED_BYTES} bytes")
        public_key, self._secret = crypto_sign_seed_keypair(seed)
        self.verifier = VerifierKey(name, public_key)

    def __repr__(self) -> str:
        return f"NoteSigner({self.verifier})"

    @classmethod
    def from_seed(cls, name: str, seed: bytes) -> NoteSigner:
        """Make the key of a 32-byte Ed25519 seed.

        Raises:
            EvidenceError: BAD_NOTE, the name or the seed cannot be one.
        """
        return cls(name, seed)

    @classmethod
    def parse(cls, text: str) -> NoteSigner:
        """Read `PRIVATE+KEY+<name>+<key id in hex>+<base64 of 01 || seed>`.

        Raises:
            EvidenceError: BAD_NOTE, for any other text. The error does not repeat the text.
        """
        if not text.startswith(_PRIVATE):
            raise bad_note("not a private key", want=_PRIVATE + "...")
        name, _, rest = text.removeprefix(_PRIVATE).partition("+")
        key_id, _, encoded = rest.partition("+")
        signer = cls(name, _ed25519_bytes(encoded, "private key", secret=True))
        if signer.verifier.key_id.hex() != key_id:
            raise bad_note("key id does not belong to this name and key")
        return signer

    def format(self) -> str:
        """The text :meth:`parse` reads. It is the secret itself: keep it out of logs."""
        encoded = base64.b64encode(_ED25519 + self._secret[:SEED_BYTES]).decode("ascii")
        return f"{_PRIVATE}{self.verifier.name}+{self.verifier.key_id.hex()}+{encoded}"

    def sign(self, text: bytes) -> bytes:
        """One signature line over a note's text, with its newline.

        Args:
            text: what the note says, with its final newline.
        """
        signature = crypto_sign(text, self._secret)[:SIGNATURE_BYTES]
        encoded = base64.b64encode(self.verifier.key_id + signature)
        return SIGNATURE_PREFIX + self.verifier.name.encode() + b" " + encoded + b"\n"


def _ed25519_bytes(encoded: str, what: str, *, secret: bool = False) -> bytes:
    """The bytes after the type byte 01."""
    data = base64_bytes(encoded.encode("utf-8", "replace"))
    if not data:
        raise bad_note(f"{what} is malformed", want="name, key id and base64, joined by +")
    if data[:1] != _ED25519:
        # What stands for the type may be part of a seed that was pasted without one.
        got = None if secret else data[:1].hex()
        raise bad_note(f"{what} is of another type", want="01 (Ed25519)", got=got)
    return data[1:]
