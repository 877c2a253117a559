"""A timestamp authority with a root, an issuing CA and a certificate of its own, for whole worlds of tests.

It answers at any time, right or wrong on purpose; the bytes are `tsa_forge`'s. The same question has the
same answer in every run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from receiptledger.core.timestamp_request import TimestampRequest
from receiptledger.core.timestamp_types import TsaTrust
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.helpers.tsa_pki import Identity

__all__ = ["Authority"]

END = datetime(2036, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Authority:
    """Root, issuing CA and TSA certificate.

    Attributes:
        name: as logs and auditors call it.
        operator: who runs it; the name by default.
        end: notAfter of the TSA's certificate.
        kind: of the TSA's key: "p256", "ed25519", "rsa2048" and so on.
    """

    name: str
    operator: str = ""
    end: datetime = END
    kind: str = "p256"

    @cached_property
    def root(self) -> Identity:
        return pki.issue(f"{self.name} root")

    @cached_property
    def ca(self) -> Identity:
        return pki.issue(f"{self.name} CA", issuer=self.root, ca=True, path_length=0)

    @cached_property
    def tsa(self) -> Identity:
        number = int.from_bytes(self.name.encode(), "big")
        return pki.issue(
            f"{self.name} TSA", pki.key(self.kind, number), issuer=self.ca, not_after=self.end
        )

    @property
    def trust(self) -> TsaTrust:
        """What an auditor believes who believes this authority."""
        return TsaTrust(self.name, self.operator or self.name, (self.root.der,))

    def answer(
        self,
        message: bytes,
        at: datetime,
        *,
        asked: dict[str, Any] | None = None,
        stamped: bytes | None = None,
        info: dict[str, Any] | None = None,
        spoil: Callable[[bytes, Identity], dict[str, Any]] | None = None,
        certificates: bool = True,
    ) -> tuple[bytes, bytes]:
        """A request and the response to it.

        Args:
            message: what the request asks for.
            at: genTime.
            asked: members of the request, to ask for something else than what is answered.
            stamped: what is stamped instead of the message.
            info: members of the TSTInfo.
            spoil: from the TSTInfo and the signer, what the forge signs differently.
            certificates: whether the answer brings them.
        """
        unique = hashlib.sha256(f"{self.name} {at.isoformat()}".encode() + message).digest()
        nonce, serial = int.from_bytes(unique[:15], "big"), int.from_bytes(unique[15:20], "big")
        members: dict[str, Any] = {
            "imprint": forge.imprint(message if stamped is None else stamped),
            "serial": serial,
            "gen_time": at,
            "accuracy": forge.accuracy(1, None, None),
            "nonce": nonce,
        }
        made = forge.tst_info(**(members | (info or {})))
        token = forge.token(
            made,
            self.tsa,
            certificates=[self.tsa.der, self.ca.der] if certificates else [],
            **({} if spoil is None else spoil(made, self.tsa)),
        )
        request: dict[str, Any] = {"imprint": hashlib.sha256(message).digest(), "nonce": nonce}
        return TimestampRequest(**(request | (asked or {}))).encode(), forge.response(token)

    def crls(
        self, at: datetime, revoked: datetime | None = None, reason: int | None = None
    ) -> tuple[bytes, bytes]:
        """The lists of the CA and of the root at a time, the TSA's certificate revoked or not.

        Args:
            at: when they are issued.
            revoked: when the TSA's certificate was revoked, or None.
            reason: CRLReason, None for an entry without one.
        """
        entries = [] if revoked is None else [pki.entry(self.tsa, revoked, reason)]
        return (
            pki.crl(self.ca, entries, this_update=at),
            pki.crl(self.root, this_update=at),
        )
