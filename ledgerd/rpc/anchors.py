"""AnchorService: what timestamps the log holds, and a way to ask for new ones."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from ledgerd.anchoring.reader import MAX_PAGE
from ledgerd.rpc.convert import leaf_out
from ledgerd.rpc.reads import Reads, aborting
from receiptledger.core.errors import Reason, ServiceError
from receiptledger.v1 import anchor_pb2, anchor_pb2_grpc

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    import grpc

    from ledgerd.anchoring.plan import AnchorRound
    from ledgerd.anchoring.reader import AnchorView
    from ledgerd.metrics import Metrics
    from ledgerd.reader import Reader
    from ledgerd.store.interface import AnchorRecord

__all__ = ["AnchorControl", "AnchorHandlers"]

MAX_NUMBER = 2**63 - 1  # proto/types.proto


class AnchorControl(Protocol):
    """Who has the log stamped."""

    async def anchor_now(self) -> AnchorRound:
        """Bring the newest checkpoint to every TSA and say how each did.

        A caller that goes away ends the waiting, never the requests.

        Raises:
            ServiceError: OVERLOADED when asked too soon; NOT_SEALED for an empty log; UNAVAILABLE.
        """


class AnchorHandlers(anchor_pb2_grpc.AnchorServiceServicer):
    """AnchorService.

    Args:
        reader: reads of the log.
        pool: threads that may block on the store.
        metrics: counts and durations.
        control: who anchors; None when no TSA is configured.
        barrier: returns when everything that can be read is durable.
        draining: set when the daemon shuts down.
    """

    def __init__(
        self,
        reader: Reader,
        pool: Executor,
        metrics: Metrics,
        *,
        control: AnchorControl | None,
        barrier: Callable[[], Awaitable[None]],
        draining: asyncio.Event,
    ) -> None:
        self._reader = reader
        self._reads = Reads(pool, metrics)
        self._control = control
        self._barrier = barrier
        self._draining = draining

    async def AnchorNow(  # noqa: N802
        self,
        request: anchor_pb2.AnchorNowRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> anchor_pb2.AnchorNowResponse:
        """See proto."""
        del request
        async with aborting(context):
            if self._control is None:
                raise ServiceError(
                    Reason.NOT_CONFIGURED,
                    "no timestamp authority is configured: this ledger's log is not anchored",
                )
            if self._draining.is_set():
                raise ServiceError(Reason.DRAINING, "the daemon is shutting down; reconnect later")
            result = await self._control.anchor_now()
        return _round_out(result)

    async def ListAnchors(  # noqa: N802
        self,
        request: anchor_pb2.ListAnchorsRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> anchor_pb2.ListAnchorsResponse:
        """See proto."""

        def work() -> tuple[bool, anchor_pb2.ListAnchorsResponse]:
            first = _number(request.first)
            if request.limit > MAX_PAGE:
                raise ServiceError(
                    Reason.INVALID_ARGUMENT,
                    "a page cannot be that long",
                    want=f"a limit of at most {MAX_PAGE}",
                    got=str(request.limit),
                )
            size = self._reader.size
            found, count = self._reader.anchors.page(first, request.limit or MAX_PAGE)
            anchors = [_anchor_out(record, size) for record in found]
            sealed = all(anchor.HasField("leaf_index") for anchor in anchors)
            return sealed, anchor_pb2.ListAnchorsResponse(anchors=anchors, count=count)

        sealed, response = await self._reads.run(context, "anchors", work)
        if not sealed:  # what is sealed is durable
            async with aborting(context):
                await self._barrier()
        return response

    async def GetAnchor(  # noqa: N802
        self,
        request: anchor_pb2.GetAnchorRequest,
        context: grpc.aio.ServicerContext,  # type: ignore[type-arg]
    ) -> anchor_pb2.GetAnchorResponse:
        """See proto."""

        def work() -> anchor_pb2.GetAnchorResponse:
            return _view_out(*self._reader.anchor(_number(request.number), request.tree_size))

        response = await self._reads.run(context, "anchor", work)
        if not response.HasField("leaf"):
            async with aborting(context):
                await self._barrier()
        return response


def _number(value: int) -> int:
    if value > MAX_NUMBER:
        raise ServiceError(
            Reason.INVALID_ARGUMENT,
            "no anchor has such a number",
            want="at most 2^63-1",
            got=str(value),
        )
    return value


def _round_out(result: AnchorRound) -> anchor_pb2.AnchorNowResponse:
    return anchor_pb2.AnchorNowResponse(
        tree_size=result.size,
        results=[
            anchor_pb2.TsaResult(
                tsa=one.tsa,
                cause=one.cause or "",
                detail=one.detail,
                gen_time_us=one.gen_time,
            )
            for one in result.results
        ],
        quorum_reached=result.quorum_reached,
    )


def _anchor_out(record: AnchorRecord, size: int) -> anchor_pb2.Anchor:
    """What a list says of an anchor; evidence and leaves count once they are below `size`."""
    index, evidence_index = (
        None if leaf is None or leaf >= size else leaf
        for leaf in (record.leaf_index, record.evidence_leaf_index)
    )
    evidence = record.evidence if evidence_index is not None else None
    return anchor_pb2.Anchor(
        number=record.number,
        tsa=record.tsa,
        tree_size=record.size,
        root=record.root,
        gen_time_us=record.gen_time,
        stored_at_us=record.stored_at,
        response_hash=hashlib.sha256(record.response).digest(),
        response_bytes=len(record.response),
        leaf_index=index,
        evidence_hash=b"" if evidence is None else hashlib.sha256(evidence).digest(),
        evidence_leaf_index=evidence_index,
    )


def _view_out(view: AnchorView, size: int) -> anchor_pb2.GetAnchorResponse:
    evidence = view.evidence
    return anchor_pb2.GetAnchorResponse(
        anchor=_anchor_out(view.record, size),
        note=view.note,
        request=view.record.request,
        response=view.record.response,
        crls=() if evidence is None else evidence.crls,
        ocsps=() if evidence is None else evidence.ocsps,
        checkpoint=view.checkpoint,
        consistency=view.consistency,
        leaf=None if view.leaf is None else leaf_out(view.leaf),
        evidence_leaf=None if evidence is None else leaf_out(evidence.leaf),
    )
