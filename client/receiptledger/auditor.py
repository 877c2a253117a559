"""What an auditor uses: fetches evidence from a ledger and believes none of it unverified.

Every checkpoint that comes in, on whatever call, is checked against the log's key and against the last
one seen: a newer one must extend it, an older one must be extended by it, one of the same size must be
the same. What fails that is proof that the log showed two histories; both notes are kept.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from receiptledger.anchor_check import CheckedAnchor, check_anchor
from receiptledger.backoff import Backoff, Retry
from receiptledger.core.anchors import NAME as TIMESTAMPS
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError, Reason
from receiptledger.core.note import VerifierKey
from receiptledger.core.receipt import chain_key
from receiptledger.core.verdict import Status
from receiptledger.core.verify import Trust, verify_bundle
from receiptledger.history import History, Seen, SplitViewError
from receiptledger.remembered import CheckpointFile
from receiptledger.transport import Channel
from receiptledger.wire import CallError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from receiptledger.core.bundle import Bundle
    from receiptledger.core.checkpoint import Checkpoint
    from receiptledger.core.timestamp import TsaTrust
    from receiptledger.core.verdict import Verdict
    from receiptledger.wire import Anchor, AnchorRound, Selector, StoredReceipt

__all__ = ["AsyncAuditor", "Seen", "SplitViewError"]


class AsyncAuditor:
    """One auditor's connection to one log, for one event loop.

    Args:
        address: HOST:PORT of the ledger's gRPC.
        log_key: the log's verification key, from the auditor's own hands.
        state_file: where the last verified checkpoint is kept between runs.
        agent_keys: agent id -> public keys of 32 bytes that agent is known to use.
        tsas: timestamp authorities to believe, each with its own roots.
        tsa_quorum: how many different operators of authorities must agree on a bound in time.
        timeout_s: seconds for one call.
        retry: how `watch` and waiting for a seal try again.

    Raises:
        EvidenceError: BAD_NOTE, the log key cannot be one.
        ServiceError: INVALID_ARGUMENT for a bad address.
    """

    def __init__(
        self,
        address: str,
        log_key: str | VerifierKey,
        state_file: Path | str | None = None,
        *,
        agent_keys: Mapping[str, tuple[bytes, ...]] | None = None,
        tsas: Sequence[TsaTrust] = (),
        tsa_quorum: int = 1,
        timeout_s: float = 10.0,
        retry: Retry | None = None,
    ) -> None:
        self._key = log_key if isinstance(log_key, VerifierKey) else VerifierKey.parse(log_key)
        self._channel = Channel(address, timeout_s=timeout_s)
        file = None if state_file is None else CheckpointFile(state_file)
        self._history = History(self._key, file, self._channel.consistency)
        self._agent_keys = dict(agent_keys or {})
        self._tsas, self._tsa_quorum = tuple(tsas), tsa_quorum
        self._retry = retry or Retry()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Read the state file, when there is one.

        Raises:
            EvidenceError: it is not a checkpoint of this log.
            ServiceError: it cannot be read.
        """
        await self._history.load()

    async def close(self) -> None:
        """Disconnect."""
        await self._channel.close()

    @property
    def remembered(self) -> Seen | None:
        """The newest checkpoint that was verified, in this run or an earlier one."""
        return self._history.last

    async def checkpoint(self, size: int = 0) -> Seen:
        """A checkpoint, verified and consistent with all seen before.

        Args:
            size: of the tree; 0 = the newest.

        Raises:
            EvidenceError: it is not the log's (BAD_NOTE, BAD_CHECKPOINT, WRONG_LOG), or contradicts
                one seen before (SplitViewError).
            ServiceError: the ledger cannot answer.
        """
        seen = await self.observe(await self._channel.checkpoint(size))
        if size and seen.checkpoint.size != size:
            raise _other("the checkpoint is of another size", size, seen.checkpoint.size)
        return seen

    async def observe(self, note: bytes) -> Seen:
        """Hold a checkpoint from anywhere, such as another auditor's, against this log's history.

        Args:
            note: signed note.

        Raises:
            EvidenceError, ServiceError: as `checkpoint`.
        """
        seen = self._history.open(note)
        await self._history.observe(seen)
        return seen

    async def watch(self) -> AsyncGenerator[Seen]:
        """Follow the log: its newest checkpoint, then each newer one, all verified.

        Survives a restart of the ledger; ends only with an error.

        Raises:
            EvidenceError: as `checkpoint`.
            ServiceError: the ledger stayed away longer than the retries allow.
        """
        backoff, clock = Backoff(self._retry), asyncio.get_running_loop().time
        last = -1
        while True:
            try:
                async with aclosing(self._channel.watch()) as notes:
                    async for note in notes:
                        seen = await self.observe(note)
                        backoff.succeeded()
                        if seen.checkpoint.size > last:
                            last = seen.checkpoint.size
                            yield seen
                failure = CallError(
                    Reason.UNAVAILABLE, "the ledger ended the stream", retry_after=0.0
                )
            except CallError as error:
                failure = error
            if failure.retry_after is None:
                raise failure
            wait = backoff.failed(clock(), random.random(), failure.retry_after)  # noqa: S311
            if wait is None:
                raise failure
            await asyncio.sleep(wait)

    async def get_receipt(
        self,
        *,
        receipt_hash: bytes | None = None,
        agent: str | None = None,
        stream: str = "",
        position: int | None = None,
    ) -> StoredReceipt:
        """A receipt as the ledger has it: nothing is proven but that it is the one asked for.

        Select by `receipt_hash`, or by `agent` and `position`.

        Raises:
            EvidenceError: NOT_FOUND, the ledger gave another receipt.
            ServiceError: NOT_FOUND, INVALID_ARGUMENT, or the ledger cannot answer.
        """
        selector = _selector(receipt_hash, agent, stream, position)
        stored = await self._channel.receipt(selector)
        if isinstance(selector, bytes):
            _check_hash(selector, stored.raw)
        else:
            _check_place(selector, stored.chain, stored.position)
        return stored

    async def prove(
        self,
        *,
        receipt_hash: bytes | None = None,
        agent: str | None = None,
        stream: str = "",
        position: int | None = None,
        tree_size: int = 0,
        since: Checkpoint | None = None,
        seal_wait_s: float = 5.0,
    ) -> Bundle:
        """The evidence for a receipt, verified; `bundle.encode()` is the file for others.

        Select by `receipt_hash`, or by `agent` and `position`.

        Args:
            receipt_hash: SHA-256 of the receipt's exact bytes.
            agent: agent id.
            stream: which of the agent's streams.
            position: place in the chain.
            tree_size: size of the checkpoint to prove under; 0 = the newest.
            since: an earlier checkpoint; the bundle then shows that this one extends it.
            seal_wait_s: seconds to wait for a receipt that is not sealed yet.

        Raises:
            EvidenceError: the evidence does not hold, is of another receipt, or its checkpoint
                contradicts one seen before (SplitViewError).
            ServiceError: NOT_FOUND, NOT_SEALED, INVALID_ARGUMENT, or the ledger cannot answer.
        """
        selector = _selector(receipt_hash, agent, stream, position)
        start = 0 if since is None else since.size
        bundle = await self._sealed(selector, tree_size, start, seal_wait_s)
        seen = await self.observe(bundle.checkpoint)
        if tree_size and seen.checkpoint.size != tree_size:
            raise _other("the checkpoint is of another size", tree_size, seen.checkpoint.size)
        _check_asked(selector, bundle, self._checked(bundle, since))
        return bundle

    def verify(
        self,
        bundle: Bundle | bytes,
        *,
        remembered: Checkpoint | None = None,
        require: frozenset[str] = frozenset(),
        moment: datetime | None = None,
    ) -> Verdict:
        """Check a bundle against this auditor's keys, without the ledger.

        Args:
            bundle: a bundle, or the bytes of its file.
            remembered: a checkpoint it must extend; it carries the proof when it was made `since`.
            require: demands beyond validity; see `receiptledger.core.verify.POLICIES`.
            moment: when the timestamps must still hold, aware; None leaves their expiry out.
        """
        data = bundle if isinstance(bundle, bytes) else bundle.encode()
        return verify_bundle(
            data,
            Trust(
                (self._key,),
                self._agent_keys,
                remembered,
                require,
                self._tsas,
                self._tsa_quorum,
                moment,
            ),
        )

    async def anchors(self, first: int = 0) -> AsyncGenerator[Anchor]:
        """The timestamps the ledger says it has, from a number on: a list, of which nothing is proven.

        Raises:
            EvidenceError: NOT_FOUND, the ledger leaves some out.
            ServiceError: the ledger cannot answer.
        """
        while True:
            page, count = await self._channel.anchors(first)
            for anchor in page:
                if anchor.number != first:
                    raise _other("the ledger skips anchors", first, anchor.number)
                yield anchor
                first += 1
            if not page or first >= count:
                return

    async def anchor(self, number: int, *, tree_size: int = 0) -> CheckedAnchor:
        """One timestamp with its evidence, verified as far as this auditor's authorities allow.

        Args:
            number: of the anchor.
            tree_size: size of the checkpoint to prove under; 0 = the newest.

        Raises:
            EvidenceError: the ledger gave another anchor, or its evidence does not hold. A token that
                does not hold is no error: see :attr:`CheckedAnchor.stamp`.
            ServiceError: NOT_FOUND, INVALID_ARGUMENT, or the ledger cannot answer.
        """
        proof = await self._channel.anchor(number, tree_size)
        if proof.anchor.number != number:
            raise _other("the ledger gave another anchor", number, proof.anchor.number)
        newest = (await self.observe(proof.checkpoint)).checkpoint
        if tree_size and newest.size != tree_size:
            raise _other("the checkpoint is of another size", tree_size, newest.size)
        return check_anchor(proof, newest, self._key, self._tsas)

    async def anchor_now(self, *, timeout_s: float = 60.0) -> AnchorRound:
        """Have the newest checkpoint stamped by every authority of the ledger now.

        Args:
            timeout_s: seconds to wait for the answers.

        Raises:
            ServiceError: NOT_CONFIGURED without authorities, OVERLOADED when asked again too soon, or
                the ledger cannot answer.
        """
        return await self._channel.anchor_now(timeout_s)

    # How it works.

    async def _sealed(
        self, selector: Selector, tree_size: int, since: int, patience: float
    ) -> Bundle:
        """Fetch a proof, waiting a while for the seal that covers it."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + patience
        while True:
            try:
                return await self._channel.proof(selector, tree_size=tree_size, since=since)
            except CallError as error:
                pause = error.retry_after
                # A fixed tree size never comes to cover it.
                if error.reason is not Reason.NOT_SEALED or tree_size or pause is None:
                    raise
                if clock() + pause > give_up:
                    raise
            await asyncio.sleep(pause)

    def _checked(self, bundle: Bundle, since: Checkpoint | None) -> Verdict:
        """The verdict, or what is wrong as an error."""
        verdict = self.verify(bundle, remembered=since)
        for check in verdict.checks:
            # Timestamps of authorities this auditor does not know prove nothing, and harm nothing.
            known = check.name != TIMESTAMPS
            if check.status is Status.FAIL or (check.status is Status.UNKNOWN and known):
                raise EvidenceError(
                    check.reason or Reason.BAD_BUNDLE,
                    f"the ledger's proof fails its check of {check.name}: {check.detail}",
                )
        return verdict


def _selector(
    receipt_hash: bytes | None, agent: str | None, stream: str, position: int | None
) -> Selector:
    if receipt_hash is not None and agent is None and position is None and not stream:
        if len(receipt_hash) == 32:
            return receipt_hash
    elif receipt_hash is None and agent is not None and position is not None and position >= 0:
        return agent, stream, position
    raise CallError(
        Reason.INVALID_ARGUMENT,
        "select one receipt",
        want="its hash of 32 bytes, or an agent and a position",
    )


def _check_hash(want: bytes, raw: bytes) -> None:
    got = sha256(raw).digest()
    if got != want:
        raise _other("the ledger gave another receipt", digest_text(want), digest_text(got))


def _check_place(selector: tuple[str, str, int], chain: bytes, position: int) -> None:
    agent, stream, wanted = selector
    if (chain_key(agent, stream), wanted) != (chain, position):
        raise _other(
            "the ledger gave another receipt",
            f"position {wanted} of chain {digest_text(chain_key(agent, stream))}",
            f"position {position} of chain {digest_text(chain)}",
        )


def _check_asked(selector: Selector, bundle: Bundle, verdict: Verdict) -> None:
    """A valid proof of something else proves nothing that was asked."""
    if isinstance(selector, bytes):
        _check_hash(selector, bundle.receipt.raw)
    else:
        chain = bytes.fromhex(str(verdict.facts["chain"]).removeprefix("sha256:"))
        _check_place(selector, chain, bundle.position)


def _other(message: str, want: object, got: object) -> EvidenceError:
    return EvidenceError(Reason.NOT_FOUND, message, want=str(want), got=str(got))
