"""What the tests of the scaler role share: a clock set by hand, plans in a line, a served holder and its client."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import Message
from grpc import aio
from prometheus_client import CollectorRegistry

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.keda.server import ScalerServer, ServerSettings
from scaler.adapters.keda.servicer import Validate
from scaler.adapters.keda.wire import METRIC_NAME
from scaler.core.published import Answer, Heartbeat, PlanVersion, PublishedPlan, StoredPlan
from scaler.core.values import WorkloadId

T = TypeVar("T")

START_S = 1_700_000_000.0
CHAT = WorkloadId("shop", "chat")
LOOPBACK = "127.0.0.1:0"
LIMIT_S = 60.0

# One connection per channel (grpc would share one between channels to the same port) and quick reconnects.
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
)


@dataclass
class ManualClock:
    """A clock that moves only when told to. `step` sets the wall's time alone, as an administrator would."""

    at_s: float = START_S
    monotonic: float = 1_000.0

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.monotonic

    def from_wall(self, wall_s: float) -> float:
        return wall_s

    def wall_duration(self, duration_s: float) -> float:
        return duration_s

    def advance(self, seconds: float) -> None:
        self.at_s += seconds
        self.monotonic += seconds

    def step(self, seconds: float) -> None:
        self.at_s += seconds


def answer(replicas: int | None = 3, *, active: bool = True, present: bool = True, reason: str = "reactive") -> Answer:
    """Return an answer; one without replicas names why."""
    return Answer(replicas, reason, active, present)


def stored(
    answers: Mapping[WorkloadId, Answer],
    *,
    version: tuple[int, int] = (1, 1),
    at_s: float = START_S,
    stopped: Mapping[WorkloadId, float] | None = None,
) -> StoredPlan:
    """Return a plan with the heartbeat that it was published with."""
    number = PlanVersion(*version)
    return StoredPlan(PublishedPlan(number, answers), Heartbeat(number, at_s, stopped or {}))


def reference(workload: WorkloadId = CHAT, **metadata: str) -> pb.ScaledObjectRef:
    """Return how KEDA names a workload."""
    return pb.ScaledObjectRef(namespace=workload.namespace, name=workload.name, scalerMetadata=metadata)


def value_request(workload: WorkloadId = CHAT, metric: str = METRIC_NAME) -> pb.GetMetricsRequest:
    """Return KEDA's question for the value of a workload."""
    return pb.GetMetricsRequest(scaledObjectRef=reference(workload), metricName=metric)


async def value(stub: ExternalScalerStub, workload: WorkloadId = CHAT) -> float:
    """Return what KEDA would read."""
    response: pb.GetMetricsResponse = await stub.GetMetrics(value_request(workload))
    (only,) = response.metricValues
    return only.metricValueFloat


async def soon(awaitable: Awaitable[T]) -> T:
    """Wait for what must happen. The limit is generous: it is there for a failing test to end."""
    return await asyncio.wait_for(awaitable, LIMIT_S)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that another task brings about."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - nothing signals what happens inside grpc
            await asyncio.sleep(0.005)


async def read(stream: aio.UnaryStreamCall[pb.ScaledObjectRef, Any]) -> Message | None:
    """Return the next message of a stream; None at its normal end."""
    message: object = await soon(stream.read())
    return message if isinstance(message, Message) else None


def accept_anything(_: Mapping[str, str]) -> tuple[str, ...]:
    """Find nothing wrong with trigger metadata."""
    return ()


@dataclass
class Served:
    """A served holder: what the test changes, and the client that asks."""

    holder: PlanHolder
    clock: ManualClock
    server: ScalerServer
    channel: aio.Channel
    stub: ExternalScalerStub
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def count(self, rpc: str, code: str) -> float:
        """Return how many calls of an RPC ended with a status, by the scaler's own metrics."""
        return self.registry.get_sample_value("headway_scaler_rpcs_total", {"rpc": rpc, "code": code}) or 0.0


@asynccontextmanager
async def serving(
    plan: StoredPlan | None = None,
    *,
    validate: Validate = accept_anything,
    repeat_s: float = 15.0,
    grace_s: float = 2.0,
) -> AsyncIterator[Served]:
    """Serve a holder on a free port of this machine and connect a client to it."""
    clock = ManualClock()
    holder = PlanHolder(clock)
    if plan is not None:
        assert holder.accept(plan)
    registry = CollectorRegistry()
    rng = random.Random(1)  # noqa: S311 - spreads repeats over time
    settings = ServerSettings(LOOPBACK, repeat_s=repeat_s, grace_s=grace_s)
    async with (
        ScalerServer(holder, settings, registry, validate=validate, rng=rng) as server,
        aio.insecure_channel(f"127.0.0.1:{server.port}", options=CHANNEL_OPTIONS) as channel,
    ):
        yield Served(holder, clock, server, channel, ExternalScalerStub(channel), registry)
