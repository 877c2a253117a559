"""Brings the log's newest checkpoint to timestamp authorities, by itself, without delaying anybody.

A ticker calls :meth:`Anchorer.step`, which decides (`anchor_plan`), starts one task for each TSA that
is due, and returns. A task is the whole of one request: intent, send, verify, store. At most one is
under way for a TSA, so a TSA that hangs holds up itself alone. Receipts never wait: verification runs
in the read threads, and the writer gets two small commits for a request.

There is no other source of time: while no TSA answers, the log is unanchored, and says so.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from ledgerd.anchoring.outcome import Outcomes
from ledgerd.anchoring.plan import (
    NOT_ASKED,
    AnchorRound,
    AnchorRules,
    Growth,
    Tree,
    TsaResult,
    due,
    hindrance,
)
from ledgerd.anchoring.stamp import Refused, Target, ask
from ledgerd.anchoring.standing import (
    NO_STANDING,
    OverdueLog,
    Standing,
    refusal,
    show,
    standing,
)
from ledgerd.anchoring.state import admitted_at, restore
from ledgerd.store.interface import Changes, StoreError
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.core.timestamp_cause import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from datetime import timedelta

    from ledgerd.anchoring.evidence import EvidenceKeeper
    from ledgerd.anchoring.journal import Journal
    from ledgerd.anchoring.metrics import AnchorMetrics
    from ledgerd.anchoring.stamp import Tsa
    from ledgerd.anchoring.state import TsaState
    from ledgerd.store.interface import AnchorIntent, LogState, Store

__all__ = ["Anchorer"]

NONCE_BITS: Final = 128
STOP_SECONDS: Final = 1.0  # for requests under way when the daemon stops

_log = structlog.get_logger(__name__)


class Anchorer:
    """Owns what is known of every TSA. Event loop only.

    Args:
        store: read at the start, and for leaf indexes.
        tsas: whom to ask, at least one.
        rules: when.
        journal: where results are kept.
        published: the newest published state, None before the first.
        content_size: tree size after the last leaf that is no anchor leaf.
        metrics: of anchoring.
        executor: threads that verify and read.
        clock: seconds since the epoch on a clock that is never set back; drives the schedule.
        wall: seconds since the epoch as the world counts them; tokens are held against it.
        evidence: fetches revocation evidence.
        renew_before: how long before a token's end a newer one must cover it.
        refuse: appends are refused while anchors are overdue.
        jitter: a random number in [0, 1).
    """

    def __init__(
        self,
        store: Store,
        tsas: Sequence[Tsa],
        rules: AnchorRules,
        journal: Journal,
        *,
        published: Callable[[], LogState | None],
        content_size: Callable[[], int],
        metrics: AnchorMetrics,
        executor: Executor,
        clock: Callable[[], float],
        wall: Callable[[], float],
        evidence: EvidenceKeeper,
        renew_before: timedelta,
        refuse: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._tsas = tuple(tsas)
        self._rules = rules
        self._journal = journal
        self._published = published
        self._content_size = content_size
        self._metrics = metrics
        self._executor = executor
        self._clock = clock
        self._wall = wall
        self._renew_before = renew_before
        self._refuse = refuse
        self._evidence = evidence
        self._outcomes = Outcomes(store, journal, metrics, renew_before=renew_before, jitter=jitter)
        self._states: dict[str, TsaState] = {}
        self._growth = Growth()
        self._overdue_log = OverdueLog(rules, refuse=refuse)
        self._asking: set[str] = set()  # TSAs whose answer is not there yet
        self._standing = NO_STANDING
        self._seen: tuple[int, float] = (-1, 0.0)  # newest size and when it was seen
        self._asked_at = float("-inf")  # last AnchorNow
        self._now = clock()
        self._tasks: dict[str, asyncio.Task[TsaResult]] = {}
        self._evidence_task: asyncio.Task[int] | None = None
        self._orphans: list[AnchorIntent] = []  # of TSAs that are configured no more

    @property
    def standing(self) -> Standing:
        """As of the last step or measurement."""
        return self._standing

    def recover(self, state: LogState) -> None:
        """Rebuild everything from the store; blocks, so call it before anything is served.

        Args:
            state: the log as recovered.

        Raises:
            StoreError: it cannot be read.
        """
        found = restore(self._store, self._tsas, self._renew_before, now=self._clock())
        self._states, self._outcomes.lives = found.states, found.lives
        self._metrics.quarantined.set(found.quarantined)
        for intent in found.lost:
            known = self._states.get(intent.tsa)
            _log.warning(
                "a timestamp request was lost in a crash", tsa=intent.tsa, size=intent.size
            )
            if known is None:
                self._orphans.append(intent)
                continue
            known.view = replace(known.view, owed=True)
            self._metrics.attempts.labels(intent.tsa, "lost").inc()
            self._metrics.failures.labels(intent.tsa, Cause.LOST.value).inc()
        # How old is what each TSA, and the quorum, does not cover?
        content = min(self._content_size(), state.size)
        covered = sorted({view.view.anchored for view in self._states.values()})
        for size, until in zip(covered, [*covered[1:], content], strict=True):
            if size < min(until, content):
                at = admitted_at(self._store, size, state.size)
                self._growth.see(min(until, content), self._clock() if at is None else at)
        self._measure(state, self._clock())

    async def step(self, now: float) -> None:
        """Ask every TSA that is due. Returns at once; :meth:`settled` waits for the answers.

        Args:
            now: seconds, as by `clock`.
        """
        self._now = now
        if self._orphans:
            await self._drop_orphans()
        target, tree = self._look(now)
        if target is not None:
            views = [state.view for state in self._states.values()]
            overdue = self._standing.overdue
            for name in due(views, tree, self._growth, now, self._rules, overdue=overdue):
                self._start(name, target, now)
        if self._evidence.due(now) and self._evidence_task is None:
            self._evidence_task = asyncio.create_task(self.step_evidence(now), name="evidence")
            self._evidence_task.add_done_callback(self._evidence_ended)
        self.measure(now)

    async def step_evidence(self, now: float) -> int:
        """Give evidence to every token for which it is due; how many got it.

        Args:
            now: seconds since the epoch.
        """
        return await self._evidence.step(now)

    async def anchor_now(self) -> AnchorRound:
        """Ask every TSA about the newest checkpoint, now, and wait for all answers.

        Our own back-off and breaker are overridden, and learn nothing from what fails here; the
        spacing, and what a server itself asked for, are kept.

        Raises:
            ServiceError: OVERLOADED when asked too soon; NOT_SEALED for an empty log.
        """
        now, spacing = self._clock(), self._rules.min_spacing
        if now - self._asked_at < spacing:
            raise ServiceError(
                Reason.OVERLOADED,
                f"the log was anchored on request {now - self._asked_at:.0f} s ago; wait, or read "
                "what that gave with `receiptledger anchors list`",
                want=f"at most one request in {spacing:g} s",
                retry_after=spacing - (now - self._asked_at),
            )
        target, _ = self._look(now)
        if target is None:
            raise ServiceError(
                Reason.NOT_SEALED, "the log is empty: there is nothing to anchor yet"
            )
        self._asked_at, self._now = now, max(now, self._now)
        early: dict[str, TsaResult] = {}
        for name, state in self._states.items():
            reason = hindrance(state.view, now, self._rules)
            if state.view.anchored >= target.size:
                early[name] = self._has_it(state)
            elif state.view.busy:
                continue  # whatever it brings is waited for
            elif reason is not None:
                early[name] = TsaResult(name, NOT_ASKED, None, reason)
            else:
                self._start(name, target, now, manual=True)
        waiting = {name: task for name, task in self._tasks.items() if name not in early}
        if waiting:  # not `gather`: a caller that goes away must not take the requests with it
            await asyncio.wait(waiting.values())
        results = early | {name: self._result(name, task, target) for name, task in waiting.items()}
        self.measure(now)
        return AnchorRound(
            target.size,
            tuple(results[name] for name in self._states),
            quorum_reached=self._standing.anchored >= target.size,
        )

    def measure(self, now: float) -> Standing:
        """Bring the gauges up to date."""
        return self._measure(self._published(), now)

    def _measure(self, state: LogState | None, now: float) -> Standing:
        if state is not None:
            tree = Tree(state.size, min(self._content_size(), state.size))
            self._growth.see(tree.content, now)
            states = self._states.values()
            self._standing = standing(states, tree, self._growth, now, self._rules)
            self._overdue_log.see(self._standing, now)
        show(self._metrics, self._states.values(), self._outcomes.lives, now, self._standing)
        return self._standing

    def refusal(self) -> ServiceError | None:
        """Why appends are refused now; None when they are not. Cheap: asked for each batch."""
        if self._refuse and self._standing.overdue:
            return refusal(self._standing, self._rules)
        return None

    async def settled(self) -> None:
        """Return when no request is under way."""
        while tasks := self._under_way():
            await asyncio.wait(tasks)
            await asyncio.sleep(0)  # for the callbacks that take them off

    async def stop(self) -> None:
        """End what is under way: at once what waits for an answer, whose intent is taken back.

        An answer that is there is stored first. What takes longer than a moment, because the store
        fails, counts as lost at the next start.
        """
        given_up = [(name, self._tasks[name]) for name in self._asking]
        for _, request in given_up:
            request.cancel()
        if self._evidence_task is not None:  # it is made again by the next process
            self._evidence_task.cancel()
        if tasks := self._under_way():
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._take_back([name for name, task in given_up if task.cancelled()])
        for tsa in self._tsas:
            await tsa.http.close()

    async def _take_back(self, names: Sequence[str]) -> None:
        """Drop the intents of requests that were ended on purpose: they were not lost in a crash."""
        if not names:
            return
        _log.info("requests for timestamps were given up", tsas=list(names))
        try:
            async with asyncio.timeout(STOP_SECONDS):  # a writer that stopped answers nobody
                await self._journal.commit(Changes(dropped_intents=names))
        except (ServiceError, TimeoutError) as error:
            _log.error("their intents stay, and will count as lost", error=str(error))

    def _look(self, now: float) -> tuple[Target | None, Tree]:
        """The newest checkpoint; None while there is nothing to prove."""
        state = self._published()
        if state is None or state.size == 0:
            return None, Tree(0, 0)
        if state.size != self._seen[0]:
            self._seen = (state.size, self._wall())
        # The content is committed before it is published: never count what is not in the note.
        tree = Tree(state.size, min(self._content_size(), state.size))
        self._growth.see(tree.content, now)
        return Target(state.size, state.root, state.note, self._seen[1]), tree

    def _start(self, name: str, target: Target, now: float, *, manual: bool = False) -> None:
        state = self._states[name]
        state.view = replace(state.view, busy=True, tried_at=now)
        request = self._request(state, target, manual=manual)
        task = asyncio.create_task(request, name=f"anchor at {name}")
        self._tasks[name] = task
        self._asking.add(name)
        task.add_done_callback(partial(self._ended, name))

    def _under_way(self) -> list[asyncio.Task[TsaResult] | asyncio.Task[int]]:
        return [*self._tasks.values(), *([self._evidence_task] if self._evidence_task else [])]

    def _evidence_ended(self, task: asyncio.Task[int]) -> None:
        self._evidence_task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the evidence step failed", error=str(error), kind=type(error).__name__)

    def _ended(self, name: str, task: asyncio.Task[TsaResult]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
            self._asking.discard(name)

    async def _request(self, state: TsaState, target: Target, *, manual: bool) -> TsaResult:
        """One request from its intent to its end; raises nothing but cancellation."""
        name = state.view.name
        try:
            nonce = secrets.randbits(NONCE_BITS) | 1  # never 0
            await self._journal.intend(name, target.size, nonce)
            answer = await ask(state.tsa, target, nonce, executor=self._executor, wall=self._wall)
            self._asking.discard(name)  # what came is brought to its end, also by a stop
            state.view = replace(state.view, owed=False)
            self._metrics.request_seconds.labels(name).observe(answer.seconds)
            state.offset = state.offset if answer.offset is None else answer.offset
            if isinstance(answer, Refused):
                overdue = self._standing.overdue
                return await self._outcomes.refused(
                    state, target, answer, self._now, manual=manual, overdue=overdue
                )
            result = await self._outcomes.stored(state, target, answer)
            self._growth.forget(min(known.view.anchored for known in self._states.values()))
            return result
        except (ServiceError, StoreError) as error:
            # Ours, not the TSA's: it is asked again after the spacing.
            return self._outcomes.our_fault(state, error)
        except Exception as error:
            _log.exception("anchoring failed in a way nobody thought of", tsa=name)
            return self._outcomes.our_fault(state, error)
        finally:
            state.view = replace(state.view, busy=False)

    def _has_it(self, state: TsaState) -> TsaResult:
        return TsaResult(
            state.view.name, None, state.gen_time, "it has stamped this checkpoint already"
        )

    def _result(self, name: str, task: asyncio.Task[TsaResult], target: Target) -> TsaResult:
        """What a request brought for this checkpoint; it may have been about an older one."""
        if task.cancelled():
            return TsaResult(name, NOT_ASKED, None, "the daemon is shutting down")
        result = task.result()
        if result.cause is None and self._states[name].view.anchored < target.size:
            detail = "a request that was under way brought a token over an older checkpoint"
            return replace(result, cause=NOT_ASKED, detail=detail)
        return result

    async def _drop_orphans(self) -> None:
        names = [intent.tsa for intent in self._orphans]
        try:
            await self._journal.commit(Changes(dropped_intents=names))
            self._orphans.clear()
        except ServiceError as error:
            _log.error("intents of removed TSAs stay for now", error=str(error))
