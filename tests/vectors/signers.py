"""Every format's signer and stranger, in the order of the conformance set."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.helpers import forge_answerproof, forge_nobulex
from tests.helpers.forge import Forger, raw
from tests.helpers.forge_envelopes import DRAFT_04, ENVELOPES
from tests.helpers.forge_flat import FLATS
from tests.helpers.forge_more import AERF_FULL, CALLER, MORE, PARENT, PDP
from tests.helpers.forge_others import OTHERS, PIPELOCK, as_line, carried
from tests.helpers.receipts import ALICE, MALLORY, jcs, lesson18, link, sign_lesson18

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.receipts import Document

__all__ = ["SIGNERS", "Signer"]


@dataclass(frozen=True)
class Signer:
    """One format as somebody writes it.

    Attributes:
        forger: how its receipts are made.
        owner, stranger: key pairs.
        others: whose signatures must hold too.
        write: a receipt's bytes as they are sent.
        spell: the same content over several lines.
        algorithm: of the keys.
        name: of its rows, when it is not the only signer of its format.
    """

    forger: Forger
    owner: Any = ALICE
    stranger: Any = MALLORY
    others: tuple[Any, ...] = ()
    write: Callable[[Document], bytes] = raw
    spell: Callable[[Document], bytes] = field(
        default=lambda document: json.dumps(document, indent=2, ensure_ascii=False).encode()
    )
    algorithm: str = "Ed25519"
    name: str = ""

    @property
    def group(self) -> str:
        return self.name or self.forger.profile

    def keys(self) -> list[dict[str, str]]:
        """All keys that are needed, as a row gives them."""
        first = {"alg": self.algorithm, "public": self.owner.key.hex()}
        return [first, *({"alg": "Ed25519", "public": one.key.hex()} for one in self.others)]


# Microsoft's lesson 18.


def _lesson_body(number: int, previous: str | None, signer: Any) -> Document:
    document = lesson18(number, previous, signer=signer, tool_name="naïve_lookup", amount=12.5)
    del document["signature"]
    return document


def _lesson18(profile: str, *, prehash: bool) -> Signer:
    seal = partial(sign_lesson18, prehash=prehash)
    return Signer(
        Forger(
            profile=profile,
            body=_lesson_body,
            seal=lambda body, signer: seal(body, signer=signer),
            link=link,
            signed="tool_name",
            signature="signature.sig",
            previous="previous_receipt_hash",
            outside="signature.note",
        )
    )


# answerproof and nobulex with evidence that holds, not only signatures.


def _answer(number: int, previous: str | None, signer: Any) -> Document:
    del previous
    document = forge_answerproof.answerproof(signer=signer, receipt_id=f"answer-{number}")
    body: Document = document["payload"]
    return body


def _action(number: int, previous: str | None, signer: Any) -> Document:
    del previous
    document = forge_nobulex.nobulex(signer=signer, timestamp_ms=1_796_050_731_479 + number)
    del document["signature"], document["signer_public_key"]
    return document


ANSWER = Forger(
    profile="answerproof",
    body=_answer,
    seal=forge_answerproof.seal,
    link=None,
    signed="payload.query",
    signature="signature.signature",
    previous=None,
    outside="signature.note",
)
NOBULEX = Forger(
    profile="nobulex",
    body=_action,
    seal=forge_nobulex.seal,
    link=None,
    signed="verdict",
    signature="signature",
    previous=None,
    outside="note",
)


# ES256, by RFC 6979 so that nothing is random.


class P256:
    """A key pair from a number; `der` says how its signatures are written."""

    def __init__(self, secret: int, *, der: bool) -> None:
        self._secret = ec.derive_private_key(secret, ec.SECP256R1())
        public = self._secret.public_key()
        self.key = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self._der = der

    def sign(self, message: bytes) -> bytes:
        made = self._secret.sign(message, ec.ECDSA(SHA256(), deterministic_signing=True))
        if self._der:
            return made
        r, s = decode_dss_signature(made)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _seal_es256(body: Document, signer: Any) -> Document:
    signature = {"alg": "ES256", "kid": body["issuer_id"], "sig": signer.sign(jcs(body)).hex()}
    return {"payload": body, "signature": signature}


_ES256 = partial(Signer, algorithm="ES256")


# Pipelock's recorder puts a line around each receipt; Go escapes three characters more than Python.


def _go(document: Document) -> bytes:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def _lined(write: Callable[[Document], bytes]) -> Callable[[Document], bytes]:
    return lambda document: write(as_line(document, 7))


_PIPELOCK = partial(Signer, write=carried, spell=_go)
_LINED = partial(Signer, write=_lined(carried), spell=_lined(_go))


def _single(forger: Forger) -> Signer:
    if forger is PIPELOCK:
        return _PIPELOCK(forger)
    others = {"signet-v3": (CALLER,), "aerf": (PARENT, PDP)}.get(forger.profile, ())
    name = "aerf-counter-signed" if forger is AERF_FULL else ""
    return Signer(forger, others=others, name=name)


_BETTER = {one.profile for one in (ANSWER, NOBULEX)}
_EVIDENCE = next(one for one in MORE if one.profile == "pipelock-v2")

SIGNERS: tuple[Signer, ...] = (
    _lesson18("ms-lesson18", prehash=False),
    _lesson18("ms-lesson18-prehash", prehash=True),
    *(_single(one) for one in (*ENVELOPES, *FLATS, *OTHERS, *MORE) if one.profile not in _BETTER),
    _LINED(replace(PIPELOCK, profile="pipelock-v1-line")),
    _LINED(replace(_EVIDENCE, profile="pipelock-v2-line")),
    Signer(ANSWER),
    Signer(NOBULEX),
    _ES256(
        replace(NOBULEX, profile="nobulex-es256"), P256(0xA11CE, der=True), P256(0xBAD, der=True)
    ),
    _ES256(
        replace(DRAFT_04, seal=_seal_es256),
        P256(0xA11CE, der=False),
        P256(0xBAD, der=False),
        name="draft-farley-04-es256",
    ),
)
