"""A ledger that anchors itself at TSAs made for it: real tokens, real verifiers, a clock the test moves.

Below is `SyncLedger` (the daemon's writer over a store with teeth), above the daemon's own anchorer; in
between TSAs that answer as told. Nothing sleeps: time is `world.now`.

    async with World(FakeTsa("one"), FakeTsa("two")) as world:
        world.grow()
        await world.pass_time(600)
"""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from ledgerd.anchoring.anchorer import Anchorer
from ledgerd.anchoring.evidence import EvidenceKeeper
from ledgerd.anchoring.journal import Journal
from ledgerd.anchoring.plan import AnchorRules
from ledgerd.anchoring.stamp import Tsa
from ledgerd.tsa.errors import TsaError
from ledgerd.tsa.settings import TsaSettings
from receiptledger.core.timestamp import TsaTrust
from receiptledger.core.timestamp_cause import Cause
from receiptledger.core.timestamp_request import TimestampRequest, parse_request
from tests.helpers import tsa_forge as forge
from tests.helpers import tsa_pki as pki
from tests.helpers.agents import Agent
from tests.helpers.polling import PATIENCE
from tests.helpers.sync_ledger import NOW, SyncLedger

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ledgerd.store.interface import AnchorRecord, Quarantined
    from tests.helpers.tsa_pki import Identity

__all__ = ["START", "FakeTsa", "Signer", "World", "signer"]

START = NOW / 1e6  # when `SyncLedger` admits everything


@cache
def signer(name: str, *, certificate: int = 1, end: datetime = pki.NOT_AFTER) -> Signer:
    """Whoever signs for a name: always the same root and CA, and one of several certificates."""
    root = pki.issue(f"{name} root")
    lists = [_crl_at(f"http://crl.test/{name}/{what}.crl") for what in ("root", "ca")]
    ca = pki.issue(f"{name} CA", issuer=root, ca=True, path_length=0, more=lists[:1])
    common = f"{name} TSA {certificate}"
    return Signer(root, ca, pki.issue(common, issuer=ca, more=lists[1:], not_after=end))


def _crl_at(url: str) -> bytes:
    """A CRLDistributionPoints extension with one full name."""
    point = forge.seq(forge.tlv(0xA0, forge.tlv(0xA0, forge.tlv(0x86, url.encode()))))
    return forge.extension("2.5.29.31", forge.seq(point))


@dataclass(frozen=True, slots=True)
class Signer:
    """Root, issuing CA and TSA certificate."""

    root: Identity
    ca: Identity
    tsa: Identity


@dataclass
class FakeTsa:
    """The way to one TSA, and the TSA. Its answers are real tokens unless told otherwise.

    Attributes:
        name: in the configuration.
        mode: how it answers from now on, see `_answer`.
        clock: how far its clock is ahead, seconds.
        signer: whose keys it signs with.
        seen: the requests that came.
    """

    name: str
    operator: str = ""
    mode: str = "ok"
    clock: float = 0.0
    skew: float = 30.0
    strict_only: bool = False
    seen: list[TimestampRequest] = field(default_factory=list)
    closed: bool = False
    crls: bool = True  # whether its lists can be had
    revoked: tuple[bytes, ...] = ()  # entries of its CA's list
    lists_at: datetime | None = None  # when its lists were made; None: when they are asked for
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.signer = signer(self.name)
        self.release = asyncio.Event()  # ends "hang"
        self._first: bytes | None = None
        self._serials = itertools.count(1)
        self.world: World | None = None

    @property
    def settings(self) -> TsaSettings:
        """As the operator wrote them."""
        return TsaSettings(
            name=self.name,
            authority=self.operator or self.name,
            url="http://127.0.0.1:1/",
            roots=("unused.pem",),
            max_clock_skew_seconds=self.skew,
            strict_only=self.strict_only,
        )

    @property
    def tsa(self) -> Tsa:
        """Configured for what it was made with."""
        trust = TsaTrust(self.name, self.operator or self.name, (signer(self.name).root.der,))
        return Tsa(self.settings, trust, self)

    async def post(self, request: bytes, *, deadline_seconds: float) -> bytes:
        """One request, as over HTTP."""
        asked = parse_request(request)
        self.seen.append(asked)
        if self.mode == "hang":
            await self.release.wait()
            raise TsaError(Cause.TIMEOUT, f"no complete answer within {deadline_seconds:g} s")
        answer = self._answer(asked)
        self._first = self._first or answer
        return answer

    def _answer(self, asked: TimestampRequest) -> bytes:
        assert self.world is not None
        match self.mode:
            case "ok":
                return self.token(asked)
            case "down":
                raise TsaError(Cause.TRANSPORT, "connection refused")
            case "busy":
                raise TsaError(Cause.RATE_LIMITED, "status 429", 300.0)
            case "replay":
                return self._first or self.token(asked)
            case "other nonce":
                return self.token(asked, nonce=1)
            case "other message":
                return self.token(asked, imprint=forge.imprint(b"another message"))
            case "other tsa":
                return self.token(asked, by=signer("somebody else"))
            case "rejection":
                failed = forge.failure("unaccepted_policy")
                return forge.response(None, forge.status_info(2, failure=failed))
            case "garbage":
                return b"\x30\x82" + bytes(100)
            case "bug":
                raise RuntimeError("nobody thought of this")
        raise AssertionError(self.mode)

    def token(self, asked: TimestampRequest, *, by: Signer | None = None, **changes: Any) -> bytes:
        """A granted response to a request, with members of its TSTInfo changed."""
        assert self.world is not None
        who = by or self.signer
        members = {
            "imprint": forge.seq(forge.algorithm("sha256"), forge.octets(asked.imprint)),
            "serial": next(self._serials),
            "gen_time": _moment(self.world.now + self.clock),
            "accuracy": forge.accuracy(1, None, None),
            "nonce": asked.nonce,
        }
        info = forge.tst_info(**(members | changes))
        return forge.response(forge.token(info, who.tsa, certificates=[who.tsa.der, who.ca.der]))

    async def close(self) -> None:
        """Nothing more is asked."""
        self.closed = True

    # Revocation evidence, as `ledgerd.tsa.revocation.Fetch`.

    async def get(self, url: str) -> bytes:
        """A CRL."""
        assert self.world is not None
        self.fetched.append(url)
        if not self.crls:
            raise TsaError(Cause.HTTP_4XX, "status 404")
        at = self.lists_at or _moment(self.world.now)
        if url.endswith("/ca.crl"):
            return pki.crl(self.signer.ca, self.revoked, this_update=at)
        return pki.crl(self.signer.root, this_update=at)

    async def ocsp(self, url: str, request: bytes) -> bytes:
        """There is no responder."""
        del request
        raise TsaError(Cause.HTTP_4XX, f"status 404 of {url}")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


class World:
    """One daemon's life of the anchorer."""

    def __init__(
        self, *tsas: FakeTsa, ledger: SyncLedger | None = None, now: float = START, **changes: Any
    ) -> None:
        self.ledger = ledger or SyncLedger()
        self.now = now
        self.wall_offset = 0.0  # how far this machine's clock is ahead of the truth
        self.tsas = {tsa.name: tsa for tsa in tsas}
        self.store = self.ledger.store
        self.metrics = self.ledger.metrics
        self.agent = Agent(f"agent-{now:.0f}")
        self._newest: bytes | None = None
        self._changes = changes
        self._pool = ThreadPoolExecutor(2)
        for tsa in tsas:
            tsa.world = self

    def _build(self) -> None:
        changes = dict(self._changes)
        limit = changes.pop("max_quarantined", 1_000)
        refuse = changes.pop("refuse", False)
        delay = changes.pop("evidence_delay", 86_400.0)
        margin = changes.pop("renew_before", timedelta(days=180))
        rules = AnchorRules(**changes)
        tsas = [tsa.tsa for tsa in self.tsas.values()]
        self.metrics.anchors.init(self.tsas)
        self.journal = Journal(
            self.store,
            self.ledger.writer.commit,
            self._pool,
            wall=self.wall,
            max_quarantined=limit,
            retry_seconds=0.0,
        )
        self.evidence = EvidenceKeeper(
            self.store,
            tsas,
            self.journal,
            self.metrics.anchors,
            fetcher=lambda tsa: self.tsas[tsa.trust.name],
            delay_seconds=delay,
        )
        self.anchorer = Anchorer(
            self.store,
            tsas,
            rules,
            self.journal,
            published=lambda: self.ledger.state,
            content_size=lambda: self.ledger.sequencer.content_size,
            metrics=self.metrics.anchors,
            executor=self._pool,
            clock=lambda: self.now,
            wall=self.wall,
            evidence=self.evidence,
            renew_before=margin,
            refuse=refuse,
            jitter=lambda: 1.0,
        )

    def wall(self) -> float:
        """What this machine's clock shows."""
        return self.now + self.wall_offset

    async def __aenter__(self) -> Self:
        self._build()
        state = self.ledger.state
        assert state is not None
        self.anchorer.recover(state)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for tsa in self.tsas.values():
            tsa.release.set()
        await self.anchorer.stop()
        self._pool.shutdown()

    # What a test does.

    def grow(self, receipts: int = 1) -> int:
        """Append and seal; the tree size then."""
        raws = self.agent.receipts(receipts, after=self._newest)
        self._newest = raws[-1]
        for answer in self.ledger.append(raws):
            assert answer.reason is None, answer
        size = self.seal()
        self.anchorer.measure(self.now)  # the daemon's ticker sees it within a second
        return size

    def seal(self) -> int:
        """Seal what is there; the tree size then."""
        self.ledger.seal()
        assert self.ledger.state is not None
        return self.ledger.state.size

    async def step(self) -> None:
        """One step, all it started, and the seal after it."""
        await self.anchorer.step(self.now)
        await self.anchorer.settled()
        self.seal()
        self.anchorer.measure(self.now)

    async def pass_time(self, seconds: float, every: float = 10.0) -> None:
        """Let time pass, with a step every so often and one at the end."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + every, end)
            await self.step()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let everything that runs go on until something has come about."""
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - whatever it waits for, it is no one event
                await asyncio.sleep(0)

    def value(self, name: str, **labels: str) -> float:
        """A metric of anchoring."""
        found = self.metrics.value(f"ledger_anchor_{name}", labels)
        assert found is not None, name
        return found

    def records(self, tsa: str | None = None) -> list[AnchorRecord]:
        """What is stored, of one TSA or of all."""
        return [r for r in self.store.anchors() if tsa in (None, r.tsa)]

    def quarantined(self) -> list[Quarantined]:
        """What was refused and kept."""
        return list(self.store.quarantined())
