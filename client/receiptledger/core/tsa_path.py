"""The certificate path of a timestamp: from its signer to one configured root, valid at genTime.

Rules (RFC 5280 section 6.1, RFC 3161 section 2.3):

- The signer: extendedKeyUsage critical and exactly timeStamping; keyUsage, if present, nothing but
  digitalSignature and nonRepudiation; genTime in its privateKeyUsagePeriod, if it has one; not a CA.
- Every issuer: a CA of version 3, with keyCertSign if it has keyUsage, path length kept, timeStamping
  or any purpose if it names purposes, no name constraints.
- Every certificate: valid at genTime, signed by the next one with an allowed algorithm, no critical
  extension that is not understood.
- A root is an anchor by its name and key. How it signed itself, its serial number and, below version 3,
  its missing extensions do not matter. One of version 3 must say that it is a CA, as every issuer must
  (OpenSSL refuses it otherwise). If it has keyUsage, that holds; and it must have been valid at
  genTime, because nobody guards a key for longer than its certificate says.
- Certificates that came with the token are candidates, never anchors. Whether the path is the right one
  is a matter of signatures; names and key identifiers only choose what to try.
- The root is never the signer itself: a path has at least two certificates.

When there is no such path, the reason is that of a path which does lead to a configured root but breaks
a rule, every signature on it being genuine. What is wrong with other candidates is no reason: an
authority whose cross certificates are of yesterday is, to an auditor without its root, unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from receiptledger.core.timestamp_cause import Cause, TimestampError
from receiptledger.core.timestamp_limits import (
    CACHED_SIGNATURES,
    MAX_PATH,
    MAX_SIGNATURES,
    MIN_RSA_BITS,
)
from receiptledger.core.timestamp_memory import Memory
from receiptledger.core.timestamp_signature import key_name
from receiptledger.core.timestamp_weak import genuine
from receiptledger.core.tsa_name import name_text, same_name
from receiptledger.core.tsa_rules import (
    ca_problem,
    chain_error,
    check_signer,
    intermediate_problem,
    not_valid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from receiptledger.core.tsa_certificate import TsaCertificate

__all__ = ["Issued", "build_path"]

# Whether a key made a certificate: by its SubjectPublicKeyInfo and the certificate, both DER.
Issued = Memory[tuple[bytes, bytes], bool]


def build_path(
    signer: TsaCertificate,
    candidates: Sequence[TsaCertificate],
    roots: Sequence[TsaCertificate],
    at: datetime,
    min_rsa_bits: int = MIN_RSA_BITS,
    issued: Issued | None = None,
) -> tuple[TsaCertificate, ...]:
    """The first path from `signer` over `candidates` to one of `roots`, valid at `at`.

    Args:
        signer: what the path starts with.
        candidates: further certificates, trusted by nobody.
        roots: trust anchors.
        at: when it must be valid.
        min_rsa_bits: for every RSA key of the path.
        issued: signatures that were verified before; saves time and changes nothing.

    Returns:
        Two to eight certificates: signer first, root last.

    Raises:
        TimestampError: EKU, KEY_USAGE, CHAIN, CERTIFICATE, SIGNATURE_ALGORITHM, HASH_ALGORITHM for the
            signer; if no path holds, the cause of the first one that leads to a root all the same
            (WEAK_KEY, SIGNATURE_ALGORITHM, CERTIFICATE, CHAIN), or CHAIN if none does.
    """
    check_signer(signer, at)
    search = _Search(candidates, roots, at, min_rsa_bits, issued)
    path = search.extend((signer,), None, tolerant=False)
    if path is not None:
        return path
    search.extend((signer,), None, tolerant=True)
    refusal = search.refusal or search.stranger
    if refusal is None:
        raise TimestampError(
            Cause.CHAIN, "no configured root issued the signer", got=name_text(signer.issuer)
        )
    raise refusal()


_Refusal = Callable[[], TimestampError]  # put into words only if it is the one that is told


class _Search:
    """Depth first, roots before intermediates.

    A first pass looks for a path that holds. If there is none, a second one goes on behind certificates
    that break a rule, to find out whether they lead to a root: then theirs is the reason.
    """

    def __init__(
        self,
        candidates: Sequence[TsaCertificate],
        roots: Sequence[TsaCertificate],
        at: datetime,
        min_rsa_bits: int,
        issued: Issued | None,
    ) -> None:
        issuers = {root.der: (root, True) for root in roots}
        for one in candidates:
            issuers.setdefault(one.der, (one, False))
        self.issuers = tuple(issuers.values())
        self.at = at
        self.min_rsa_bits = min_rsa_bits
        self.issued: Issued = Memory(CACHED_SIGNATURES) if issued is None else issued
        self.tried: set[tuple[bytes, bytes]] = set()
        self.named: dict[bytes, list[tuple[TsaCertificate, bool]]] = {}
        self.refusal: _Refusal | None = None  # of the first path that leads to a root
        self.stranger: _Refusal | None = None  # why nothing may lead to one

    def extend(
        self, path: tuple[TsaCertificate, ...], refusal: _Refusal | None, *, tolerant: bool
    ) -> tuple[TsaCertificate, ...] | None:
        """The path completed to a root, or None; `refusal` is the first rule that it breaks so far."""
        last = path[-1]
        for issuer, is_root in self._issuers_of(last):
            if any(issuer.der == one.der or _same_entity(issuer, one) for one in path):
                continue
            wrong = self._broken_rule(issuer, path, is_root=is_root)
            if wrong is not None and not tolerant:
                continue
            made, weakness = self._issued(last, issuer)
            wrong = refusal or wrong or weakness
            if not made:
                if is_root:
                    self.stranger = self.stranger or partial(
                        chain_error, "issuer of that name has another key", issuer
                    )
                continue
            if wrong is not None and not tolerant:
                continue
            if is_root:
                if wrong is None:
                    return (*path, issuer)
                self.refusal = self.refusal or wrong
            elif len(path) + 1 < MAX_PATH:
                complete = self.extend((*path, issuer), wrong, tolerant=tolerant)
                if complete is not None:
                    return complete
        return None

    def _issuers_of(self, last: TsaCertificate) -> list[tuple[TsaCertificate, bool]]:
        found = self.named.get(last.der)
        if found is None:
            found = [one for one in self.issuers if same_name(one[0].subject, last.issuer)]
            # Of several keys under one name, the one that is named first; a hint, not a rule.
            found.sort(key=lambda one: one[0].key_identifier != last.issuer_key_identifier)
            self.named[last.der] = found
        return found

    def _issued(
        self, certificate: TsaCertificate, issuer: TsaCertificate
    ) -> tuple[bool, _Refusal | None]:
        """Whether the issuer's key made the certificate, and what is weak about that."""
        pair = (issuer.spki, certificate.der)
        if pair not in self.tried:
            if len(self.tried) == MAX_SIGNATURES:
                self.stranger = self.stranger or partial(
                    chain_error, "too many candidates for a path", certificate
                )
                return False, None
            # Counted whether or not it is remembered: the answer must not depend on that.
            self.tried.add(pair)
        if not self.issued.get(pair, partial(_made, certificate, issuer)):
            return False, None
        try:
            key_name(issuer.key, self.min_rsa_bits)
            certificate.check_algorithm()
        except TimestampError as error:
            # Not the error itself, which would keep its frames.
            return True, partial(
                TimestampError, error.cause, error.message, want=error.want, got=error.got
            )
        return True, None

    def _broken_rule(
        self, issuer: TsaCertificate, path: tuple[TsaCertificate, ...], *, is_root: bool
    ) -> _Refusal | None:
        """The first rule for issuers that this one breaks."""
        if not issuer.valid_at(self.at):
            return partial(not_valid, issuer, self.at)
        problem = ca_problem(issuer, path, is_root=is_root)
        if problem is None and not is_root:
            problem = intermediate_problem(issuer)
        return None if problem is None else partial(chain_error, problem, issuer)


def _made(certificate: TsaCertificate, issuer: TsaCertificate) -> bool:
    """Whether the issuer's key made the certificate, be it by an algorithm that is not allowed."""
    try:
        key = issuer.key
    except TimestampError:
        return False  # nobody's key, or of a kind that we verify nothing with
    return genuine(key, certificate.identifier, certificate.signature, certificate.tbs)


def _same_entity(one: TsaCertificate, other: TsaCertificate) -> bool:
    """Two certificates of one name and key: using both would go in a circle."""
    return one.spki == other.spki and same_name(one.subject, other.subject)
