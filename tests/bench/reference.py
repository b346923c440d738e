"""The empty handler that Headway's scaler is compared with: grpc.aio, the same service, options and messages, no work.

A process of the bench: it says where it listens, and serves until SIGTERM.
"""

import asyncio
from typing import Any

from grpc import aio

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerServicer, add_ExternalScalerServicer_to_server
from scaler.adapters.keda import wire
from scaler.adapters.keda.server import SERVER_OPTIONS
from scaler.runtime.processes import stop_on_signals
from tests.bench.children import say

_VALUE = wire.metric_response(3)


class EmptyHandler(ExternalScalerServicer):
    """Returns constants."""

    async def IsActive(self, request: pb.ScaledObjectRef, context: Any) -> pb.IsActiveResponse:  # noqa: N802 - KEDA's name
        return wire.ACTIVE

    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: Any) -> pb.GetMetricSpecResponse:  # noqa: N802 - KEDA's name
        return wire.SPEC

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Any) -> pb.GetMetricsResponse:  # noqa: N802 - KEDA's name
        return _VALUE

    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: Any) -> None:  # noqa: N802 - KEDA's name
        await asyncio.Event().wait()


async def serve() -> None:
    """Serve on a free port of this machine until told to stop."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    server = aio.server(options=list(SERVER_OPTIONS.items()))
    add_ExternalScalerServicer_to_server(EmptyHandler(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    say({"address": f"127.0.0.1:{port}"})
    await stop.wait()
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(serve())
