"""The scaler's gRPC server: KEDA's service and grpc.health.v1 on one port. Reflection is off."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from external_scaler_proto.externalscaler_pb2_grpc import add_ExternalScalerServicer_to_server
from scaler.adapters.keda import wire
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.keda.metrics import ScalerMetrics
from scaler.adapters.keda.servicer import REPEAT_S, Servicer, Validate
from scaler.adapters.keda.tls import Certificates, TlsFiles, recognise
from scaler.config.address import Address

_health: Any = health  # type stubs know its threaded half only

DEFAULT_GRACE_S: Final = 5.0
MAX_REQUEST_BYTES: Final = 1 << 20  # a ScaledObject, metadata included, is smaller than what etcd stores

# KEDA's client sends no keepalive pings of its own, but meshes and proxies do, and KEDA may come to. grpc's defaults
# count a ping within 5 minutes as a strike and close the connection at the third, with every stream on it.
SERVER_OPTIONS: Final[Mapping[str, int]] = {
    "grpc.keepalive_permit_without_calls": 1,  # pings are welcome while no call is open
    "grpc.http2.min_recv_ping_interval_without_data_ms": 5_000,  # and may come this often
    "grpc.http2.max_ping_strikes": 0,  # and if they come more often, nobody is cut off for it
    "grpc.keepalive_time_ms": 30_000,  # a peer that died without a word is noticed,
    "grpc.keepalive_timeout_ms": 10_000,  # its streams end and their memory is given back,
    "grpc.http2.max_pings_without_data": 0,  # also on a connection where nothing else moves
    "grpc.so_reuseport": 0,  # a second scaler on this port is a mistake that must fail, not share the calls
    "grpc.max_receive_message_length": MAX_REQUEST_BYTES,  # bounds what validating metadata can cost
    # Not set: grpc.max_concurrent_streams. Each push stream holds one; beyond a limit KEDA's client queues silently.
    # Not set: grpc.max_connection_age_ms. It would end push streams with an error, and KEDA backs off.
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the scaler's port is served. `repeat_s` is the interval at which a push stream repeats itself."""

    address: str = ":6000"
    tls: TlsFiles | None = None
    grace_s: float = DEFAULT_GRACE_S
    repeat_s: float = REPEAT_S


class ScalerServer:
    """Serves KEDA from a plan holder; an async context, or `start` and `stop`.

    `validate` returns what is wrong with trigger metadata, one text per bad key.
    """

    def __init__(
        self,
        holder: PlanHolder,
        settings: ServerSettings,
        registry: CollectorRegistry,
        *,
        validate: Validate,
        rng: random.Random | None = None,
    ) -> None:
        tls = settings.tls
        self._holder = holder
        self._settings = settings
        self._address = Address.parse(settings.address)
        self._certificates = None if tls is None else Certificates(tls)
        self._servicer = Servicer(
            holder,
            ScalerMetrics(registry, holder),
            validate,
            recognise=recognise(tls.client_names) if tls is not None and tls.client_names else None,
            repeat_s=settings.repeat_s,
            rng=rng,
        )
        self._health = _health.aio.HealthServicer()
        self._announcing: asyncio.Task[None] | None = None
        self._server: aio.Server | None = None
        self.port = 0  # the port that was bound, once started

    async def start(self) -> None:
        """Bind the port and serve. OSError when the port cannot be bound."""
        server = aio.server(options=list(SERVER_OPTIONS.items()))
        add_ExternalScalerServicer_to_server(self._servicer, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self.port = self._bind(server)
        await server.start()
        self._server = server
        self._announcing = asyncio.create_task(self._announce_ready(), name="scaler-health")

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop serving within `grace_s` seconds of the wall (None: as set). Does nothing where nothing was started.

        Streams end first, normally: after an error KEDA would back off, up to a minute. What is still open after the
        grace, such as a stream that its client does not read, is cut.
        """
        server, self._server = self._server, None
        if server is None or self._announcing is None:
            return
        self._announcing.cancel()
        await self._health.enter_graceful_shutdown()
        self._servicer.close()
        await server.stop(self._settings.grace_s if grace_s is None else grace_s)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _bind(self, server: aio.Server) -> int:
        address = str(Address(self._address.host or "::", self._address.port))  # grpc falls back to IPv4 by itself
        try:
            if self._certificates is None:
                port: int = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._certificates.credentials())
        except RuntimeError as error:
            raise OSError(f"{self._settings.address} cannot be bound: {error}") from error
        return port

    async def _announce_ready(self) -> None:
        await self._holder.wait_ready()
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for service in ("", wire.SERVICE):
            await self._health.set(service, status)
