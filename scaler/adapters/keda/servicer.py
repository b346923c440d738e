"""Answers KEDA's five RPCs from the plan that is held.

A unary answer is computed in one go from memory, without a single await: once its handler runs it cannot be held up,
and there is nothing that a timer could interrupt. That is its time budget. A timer per call would cost more than the
answer. What could hold it up, reading and parsing plans, happens in the store's threads; what arrives in a call is
bounded by the server's message size.

Metadata that arrives in a call is validated and forgotten. It may hold secrets: it is neither stored nor logged.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import grpc
from grpc import aio

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerServicer
from scaler.adapters.keda import wire
from scaler.adapters.keda.holder import PlanHolder, Refused
from scaler.adapters.keda.metrics import RpcMeter, ScalerMetrics
from scaler.adapters.keda.watch import Watch
from scaler.core.values import WorkloadId

Context: TypeAlias = aio.ServicerContext[Any, Any]
Validate = Callable[[Mapping[str, str]], tuple[str, ...]]
Recognise = Callable[[Context], bool]

Request = TypeVar("Request")
Response = TypeVar("Response")

REPEAT_S = 15.0  # KEDA drops a `true` that comes before its own status is written, and each one costs it an API write
REPEAT_JITTER = 0.1  # the streams of all workloads open together; their repeats are to drift apart
MAX_PROBLEM_CHARS = 200  # all problems travel in one HTTP/2 header, which is limited to 8 KiB


@dataclass(frozen=True, slots=True)
class Failure:
    """How a call fails: the status that KEDA sees and the reason that a person reads."""

    code: grpc.StatusCode
    reason: str


_NOT_RECOGNISED = Failure(grpc.StatusCode.PERMISSION_DENIED, "the client's certificate names nobody who may ask")


class Servicer(ExternalScalerServicer):
    """KEDA's external scaler.

    `validate` returns what is wrong with trigger metadata, one text per bad key; `recognise` whether a caller may ask
    (None: everybody may). `close` ends the streams, normally: KEDA reconnects quickly only after a normal end.
    """

    def __init__(
        self,
        holder: PlanHolder,
        metrics: ScalerMetrics,
        validate: Validate,
        *,
        recognise: Recognise | None = None,
        repeat_s: float = REPEAT_S,
        rng: random.Random | None = None,
    ) -> None:
        self._holder = holder
        self._clock = holder.clock
        self._validate = validate
        self._recognise = recognise
        self._repeat_s = repeat_s
        self._rng = rng or random.Random()  # noqa: S311 - spreads repeats over time, guards nothing
        self._closing = asyncio.Event()
        self._invalid_metadata = metrics.invalid_metadata
        self._meters = {method.name: metrics.rpc(method.name) for method in _METHODS}

    def close(self) -> None:
        """End every stream with OK, the open ones and those that open from now on."""
        self._closing.set()
        self._holder.wake_all()

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:  # noqa: N802 - KEDA's name
        """Say whether the workload is to have replicas at all. Succeeds whatever is known."""
        return await self._answer("IsActive", self._is_active, request, context)

    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: Context) -> pb.GetMetricSpecResponse:  # noqa: N802 - KEDA's name
        """Return the one spec. Fails only for malformed metadata of a workload that was never valid."""
        return await self._answer("GetMetricSpec", self._metric_spec, request, context)

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.GetMetricsResponse:  # noqa: N802 - KEDA's name
        """Return the recommended replicas, or UNAVAILABLE with the reason: never 0 for "don't know"."""
        return await self._answer("GetMetrics", self._metric_value, request, context)

    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: Context) -> None:  # noqa: N802 - KEDA's name
        """Send `true` when activation becomes wanted, and again from time to time while it shows no effect.

        Never `false`: KEDA 2.17 deactivates on it at once, whatever its other triggers say.
        """
        workload = _workload(request)
        meter = self._meters["StreamIsActive"]
        await self._admit(meter, context)
        with _open_stream(meter), self._holder.watch(workload) as watch:
            await self._push(workload, watch, context)

    async def StreamMetricSpec(self, request: pb.ScaledObjectRef, context: Context) -> None:  # noqa: ARG002, N802 - KEDA's name; one spec for all
        """Send the one spec, which never changes, and stay open."""
        meter = self._meters["StreamMetricSpec"]
        await self._admit(meter, context)
        with _open_stream(meter):
            await context.write(wire.SPEC)
            await self._closing.wait()

    def _is_active(self, request: pb.ScaledObjectRef) -> pb.IsActiveResponse:
        return wire.ACTIVE if self._holder.active(_workload(request)) else wire.INACTIVE

    def _metric_spec(self, request: pb.ScaledObjectRef) -> pb.GetMetricSpecResponse | Failure:
        problems = self._validate(request.scalerMetadata)
        if not problems:
            return wire.SPEC
        if self._holder.knows(_workload(request)):  # keeps its last valid settings
            self._invalid_metadata.inc()
            return wire.SPEC
        shown = "; ".join(problem[:MAX_PROBLEM_CHARS] for problem in problems)
        return Failure(grpc.StatusCode.INVALID_ARGUMENT, f"trigger metadata of {_workload(request)}: {shown}")

    def _metric_value(self, request: pb.GetMetricsRequest) -> pb.GetMetricsResponse | Failure:
        if not wire.is_metric(request.metricName):
            # Wrong whatever the plan says, so not NOT_FOUND and not UNAVAILABLE: asking again later does not help.
            reason = f"metricName must be {wire.METRIC_NAME}, was {request.metricName[:MAX_PROBLEM_CHARS]!r}"
            return Failure(grpc.StatusCode.INVALID_ARGUMENT, reason)
        replicas = self._holder.replicas(_workload(request.scaledObjectRef))
        if isinstance(replicas, Refused):
            return Failure(grpc.StatusCode.UNAVAILABLE, replicas.reason)
        try:
            return wire.metric_response(replicas)
        except ValueError as error:
            return Failure(grpc.StatusCode.UNAVAILABLE, f"invalid_value: {error}")

    async def _answer(
        self, rpc: str, compute: Callable[[Request], Response | Failure], request: Request, context: Context
    ) -> Response:
        meter, started_s = self._meters[rpc], self._clock.monotonic_s()
        code = grpc.StatusCode.UNKNOWN
        try:
            answer = compute(request) if self._may_ask(context) else _NOT_RECOGNISED
            code = answer.code if isinstance(answer, Failure) else grpc.StatusCode.OK
        finally:
            meter.count(code)
            meter.observe(self._clock.wall_duration(self._clock.monotonic_s() - started_s))
        if not isinstance(answer, Failure):
            return answer
        await context.abort(answer.code, answer.reason)
        raise AssertionError("abort raises")

    async def _admit(self, meter: RpcMeter, context: Context) -> None:
        if not self._may_ask(context):
            meter.count(_NOT_RECOGNISED.code)
            await context.abort(_NOT_RECOGNISED.code, _NOT_RECOGNISED.reason)

    def _may_ask(self, context: Context) -> bool:
        return self._recognise is None or self._recognise(context)

    async def _push(self, workload: WorkloadId, watch: Watch, context: Context) -> None:
        """Write `true` when due, until the server closes.

        One write is under way at a time and what happens meanwhile is looked up afterwards: a client that never reads
        holds one suspended handler and what fits its flow-control window.
        """
        told = False  # since activation was last not wanted
        due = False
        while not self._closing.is_set():
            activation = self._holder.activation(workload)
            repeat = activation.wanted and not activation.present
            if activation.wanted and (not told or (due and repeat)):
                await context.write(wire.ACTIVE)
            told = activation.wanted
            due = not await watch.wait(self._repeat_after_s() if repeat else None)

    def _repeat_after_s(self) -> float:
        jitter = self._rng.uniform(1 - REPEAT_JITTER, 1 + REPEAT_JITTER)
        return self._clock.wall_duration(self._repeat_s * jitter)


_METHODS = pb.DESCRIPTOR.services_by_name["ExternalScaler"].methods


def _workload(reference: pb.ScaledObjectRef) -> WorkloadId:
    return WorkloadId(reference.namespace, reference.name)


@contextmanager
def _open_stream(meter: RpcMeter) -> Iterator[None]:
    code = grpc.StatusCode.CANCELLED
    meter.open_streams.inc()
    try:
        yield
        code = grpc.StatusCode.OK
    except Exception:
        code = grpc.StatusCode.UNKNOWN
        raise
    finally:
        meter.open_streams.dec()
        meter.count(code)
