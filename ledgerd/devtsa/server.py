"""A development TSA as a server on the loopback interface; it can misbehave in every way of `faults`.

    with DevTsa(folder) as tsa:
        tsa.url, tsa.root_file      # where to post, and what to trust
        tsa.mode = "503"            # from now on

Not for production. The keys lie in the folder; the time is this host's clock; nothing is kept of what
was stamped. It listens on 127.0.0.1 and nowhere else.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from cryptography import x509

from ledgerd.devtsa.faults import Mode
from ledgerd.devtsa.folder import DevTsaError, Made, read_made, write_made
from ledgerd.devtsa.listener import HOST, Listener
from ledgerd.devtsa.pki import KeyKind, Pair, Pki, issue_tsa, load_pki, make_pki, write_pki
from ledgerd.devtsa.responder import (
    POLICY,
    Digest,
    EssDigest,
    OpenSslTsa,
    ResponderError,
    find_openssl,
)
from ledgerd.devtsa.revocation import Revocations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from ledgerd.devtsa.handler import Seen

__all__ = ["DevTsa", "DevTsaError", "Mode"]

_SEEN: Final = 10_000  # requests remembered for tests
_POLL_SECONDS: Final = 0.05


class DevTsa:
    """One development TSA. It is made in its folder at the first start, and found there later.

    Args:
        folder: of its keys and certificates; made when missing.
        name: in its certificates and settings; None: as it was made, or "dev".
        key: of the TSA's certificate; None: as it was made, or p256.
        port: 0: as it was made, or a free one. Certificates name it, so it stays.
        mode: how it behaves; may be set at any time.
        digest: of its signatures.
        ess: digest that names the signer in a token.
        hang_seconds: how long the slow modes last.
        responder: makes responses instead of openssl, for tests that forge them.

    Attributes:
        seen: the requests that came, oldest first.

    Raises:
        DevTsaError: in the constructor, which also binds the port.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str | None = None,
        key: KeyKind | None = None,
        port: int = 0,
        mode: str = Mode.OK,
        digest: Digest = "sha256",
        ess: EssDigest = "sha256",
        hang_seconds: float = 30.0,
        responder: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.folder = folder
        self.mode = mode
        self.hang_seconds = hang_seconds
        self.responder = responder
        self.stopping = threading.Event()
        self.seen: deque[Seen] = deque(maxlen=_SEEN)
        self.replayed: bytes | None = None
        self._thread: threading.Thread | None = None
        made = read_made(folder, name=name, key=key, port=port)
        self._listener = _listen(self, port if made is None else made.port)
        try:
            self._made = made or Made("dev" if name is None else name, key or "p256", self.port)
            self._pki = self._load() if made else self._make()
            self._issued = [self._pki]
            self._revocations = Revocations(folder / "revoked.json")
            self._openssl = None if responder else OpenSslTsa(folder, digest=digest, ess=ess)
        except (OSError, ValueError, KeyError, ResponderError) as error:
            self._listener.server_close()
            raise DevTsaError(f"cannot start from {folder}: {error}") from None

    def _load(self) -> Pki:
        return load_pki(self.folder)

    def _make(self) -> Pki:
        if self.responder is None:
            find_openssl()  # before anything is written
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        pki = make_pki(self.folder, self.name, self.key, self.url, now=_now())
        write_made(self.folder, self._made)
        return pki

    # Where it is, and what to trust.

    @property
    def name(self) -> str:
        """In its certificates and settings."""
        return self._made.name

    @property
    def key(self) -> KeyKind:
        """Kind of the TSA's key."""
        return self._made.key

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.server_port

    @property
    def url(self) -> str:
        """Where timestamp requests are posted."""
        return f"http://{HOST}:{self.port}/"

    @property
    def root_file(self) -> Path:
        """The root certificate, PEM: what a user of this TSA trusts."""
        return self.folder.resolve() / "root.pem"

    @property
    def intermediate_file(self) -> Path:
        """The issuing CA's certificate, PEM; tokens carry it."""
        return self.folder.resolve() / "ca.pem"

    @property
    def certificate_file(self) -> Path:
        """The TSA's own certificate, PEM; tokens carry it."""
        return self.folder.resolve() / "tsa.pem"

    @property
    def pki(self) -> Pki:
        """All its certificates and keys, as they are now."""
        return self._pki

    @property
    def settings(self) -> dict[str, Any]:
        """The `[[tsa]]` block of a ledger that is to use it."""
        return {
            "name": self.name,
            "url": self.url,
            "roots": [str(self.root_file)],
            "policies": [POLICY],
        }

    # What it does.

    @property
    def mode(self) -> Mode:
        """How timestamp requests are treated from now on."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if value not in set(Mode):
            raise DevTsaError(f"unknown mode {value!r}; there are {', '.join(Mode)}")
        self._mode = Mode(value)

    def reply(self, request: bytes) -> bytes:
        """The response to a timestamp request, whatever the mode.

        Raises:
            ResponderError: when openssl gives none.
        """
        if self._openssl is not None:
            return self._openssl.reply(request)
        if self.responder is None:
            raise ResponderError("it was started with a responder, and that was taken away")
        return self.responder(request)

    def rotate(self) -> None:
        """A new key and certificate for the TSA under the same CA, as public ones get every year."""
        with self._openssl.exclusive() if self._openssl else nullcontext():
            tsa = issue_tsa(self._pki.ca, self.name, self.key, self.url, now=_now())
            self._pki = Pki(self._pki.root, self._pki.ca, tsa)
            self._issued.append(self._pki)
            write_pki(self.folder, self._pki)

    def rotate_root(self) -> None:
        """A whole new hierarchy: what its users trust leads nowhere any more."""
        with self._openssl.exclusive() if self._openssl else nullcontext():
            self._pki = make_pki(self.folder, self.name, self.key, self.url, now=_now())
            self._issued.append(self._pki)

    def revoke(
        self,
        reason: x509.ReasonFlags | None = x509.ReasonFlags.cessation_of_operation,
        *,
        date: datetime | None = None,
        certificate: x509.Certificate | None = None,
    ) -> None:
        """Revoke the TSA's certificate, or another of its own, now or from a date (aware)."""
        revoked = certificate or self._pki.tsa.certificate
        self._revocations.revoke(revoked.serial_number, date or _now(), reason)

    def crl(self, issuer: Literal["root", "ca"]) -> bytes:
        """The issuer's revocation list, DER, dated now."""
        pair = self._pki.root if issuer == "root" else self._pki.ca
        return self._revocations.crl(pair, _now())

    def ocsp(self, request: bytes) -> bytes:
        """The answer to an OCSP request, DER."""
        issued: list[tuple[Pair, x509.Certificate]] = []
        for pki in self._issued:
            issued += [(pki.root, pki.ca.certificate), (pki.ca, pki.tsa.certificate)]
        return self._revocations.ocsp(request, tuple(issued), _now())

    # Life.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Serve in threads of its own until :meth:`close`."""
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(_POLL_SECONDS,), name=f"dev-tsa {self.port}"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving; what is under way is broken off. It cannot be started again."""
        self.stopping.set()
        if self._thread is not None:
            self._listener.shutdown()
            self._thread.join()
            self._thread = None
        self._listener.break_connections()
        self._listener.server_close()


def _listen(tsa: DevTsa, port: int) -> Listener:
    try:
        return Listener(tsa, port)
    except (OSError, OverflowError) as error:
        raise DevTsaError(
            f"cannot listen on {HOST}:{port}: {error}. Certificates name the port, so stop what "
            "uses it, or begin anew with another folder and port"
        ) from None


def _now() -> datetime:
    return datetime.now(UTC)
