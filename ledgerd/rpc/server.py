"""The gRPC server: options, health, reflection, metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from receiptledger.v1 import (
    anchor_pb2,
    anchor_pb2_grpc,
    ingest_pb2,
    ingest_pb2_grpc,
    proof_pb2,
    proof_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ledgerd.config import Settings
    from ledgerd.metrics import Metrics
    from ledgerd.rpc.anchors import AnchorHandlers
    from ledgerd.rpc.service import IngestHandlers, ProofHandlers

__all__ = ["SERVICES", "RpcServer"]

SERVICES = (
    ingest_pb2.DESCRIPTOR.services_by_name["IngestService"],
    proof_pb2.DESCRIPTOR.services_by_name["ProofService"],
    anchor_pb2.DESCRIPTOR.services_by_name["AnchorService"],
)


class RpcServer:
    """Owns the server and the health of its services."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        ingest: IngestHandlers,
        proof: ProofHandlers,
        anchors: AnchorHandlers,
    ) -> None:
        names = [service.full_name for service in SERVICES]
        metrics.init_grpc(
            [(s.full_name, method.name) for s in SERVICES for method in s.methods],
            [code.name for code in grpc.StatusCode],
        )
        self._server = grpc.aio.server(
            interceptors=[_MetricsInterceptor(metrics, frozenset(names))],
            options=_options(settings),
            maximum_concurrent_rpcs=settings.max_calls,  # beyond it RESOURCE_EXHAUSTED, at once
        )
        ingest_pb2_grpc.add_IngestServiceServicer_to_server(ingest, self._server)
        proof_pb2_grpc.add_ProofServiceServicer_to_server(proof, self._server)
        anchor_pb2_grpc.add_AnchorServiceServicer_to_server(anchors, self._server)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if settings.reflection:
            reflection.enable_server_reflection(
                [*names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server
            )
        self._names = ["", *names]
        self._address = settings.listen

    async def start(self) -> str:
        """Listen and serve; returns HOST:PORT with the real port.

        Raises:
            OSError: the address cannot be bound.
        """
        try:
            port = self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._address} for gRPC: {error}") from None
        await self._server.start()
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return f"{self._address.rpartition(':')[0]}:{port}"

    async def enter_drain(self) -> None:
        """Health says NOT_SERVING from now on, for good."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace: float) -> None:
        """Refuse new calls, give open ones `grace` seconds, then cut them."""
        await self._server.stop(grace)


def _options(settings: Settings) -> list[tuple[str, int]]:
    keepalive_ms = settings.keepalive_seconds * 1_000
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Without these a stream that is not read still takes about 4 MiB from its sender; with them
        # 64 KiB. A thousand agents: 64 MB instead of 4 GB.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", 65_536),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Clients may ping as often as we do; the default would answer with GOAWAY.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", min(10_000, keepalive_ms)),
        ("grpc.http2.max_ping_strikes", 4),
        # Two daemons on one port would split one agent's chain between two owners.
        ("grpc.so_reuseport", 0),
    ]


class _MetricsInterceptor(grpc.aio.ServerInterceptor):
    """Counts and times the calls of our services."""

    def __init__(self, metrics: Metrics, services: frozenset[str]) -> None:
        self._metrics = metrics
        self._services = services
        self._handlers: dict[str, Any] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        details: grpc.HandlerCallDetails,
    ) -> Any:
        known = self._handlers.get(details.method)
        if known is not None:
            return known
        handler = await continuation(details)
        _, _, path = details.method.partition("/")
        service, _, method = path.partition("/")
        if handler is None or service not in self._services:
            return handler
        kind = "stream_stream" if handler.request_streaming else "unary_unary"
        kind = kind if handler.request_streaming == handler.response_streaming else "unary_stream"
        timed = self._timed(getattr(handler, kind), service, method)
        # Only methods that exist get this far, so there are never more than a few.
        self._handlers[details.method] = handler = handler._replace(**{kind: timed})
        return handler

    def _timed(self, behaviour: Any, service: str, method: str) -> Any:
        metrics = self._metrics
        calls = metrics.grpc_started.labels(service, method)
        seconds = metrics.grpc_seconds.labels(service, method)

        async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:  # type: ignore[type-arg]
            calls.inc()
            started = time.perf_counter()
            code = grpc.StatusCode.UNKNOWN
            try:
                response = await behaviour(request, context)
                code = grpc.StatusCode.OK
                return response
            except grpc.aio.AbortError:
                code = _code(context)
                raise
            except BaseException as error:
                if type(error).__name__ == "CancelledError":
                    code = grpc.StatusCode.CANCELLED
                raise
            finally:
                metrics.grpc_handled.labels(service, method, code.name).inc()
                seconds.observe(time.perf_counter() - started)

        return call


def _code(context: grpc.aio.ServicerContext) -> grpc.StatusCode:  # type: ignore[type-arg]
    value: object = context.code()  # an int at run time, whatever the stubs say
    if isinstance(value, grpc.StatusCode):
        return value
    return next((c for c in grpc.StatusCode if c.value[0] == value), grpc.StatusCode.UNKNOWN)
