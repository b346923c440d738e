"""A client with KEDA's call pattern over real gRPC, which scales a target by what KEDA and the HPA would make of it.

KEDA's poll: GetMetricSpec, then GetMetrics and IsActive per metric, every pollingInterval. The HPA's read of the
external metric: the same three calls every 15 s, while the target is not at zero. Neither waits for a connection; the
poll has no deadline, the HPA's read has the API server's of 60 s. A GetMetrics that fails is asked once more at once,
and an error holds what is.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import grpc
import grpc.aio

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto import externalscaler_pb2_grpc as rpc
from scaler.hpa import (
    SYNC_PERIOD_S,
    HpaSpec,
    HpaState,
    KedaSpec,
    KedaState,
    MetricError,
    hpa_step,
    keda_step,
)
from scaler.ports import Clock

_ADAPTER_DEADLINE_S = 60.0  # wall seconds
# KEDA's service config: with a headless Service each call goes to the next scaler.
_CHANNEL_OPTIONS = (
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
    ("grpc.enable_http_proxy", 0),  # the scaler is on this machine, whatever the environment names as a proxy
)
_Answer = TypeVar("_Answer")
_MOST = 9.2e15  # beyond this the thousandths overflow the API's integers


class ScaleTarget(Protocol):
    """A scale subresource."""

    def replicas(self) -> tuple[int, int]:
        """Return spec.replicas and status.replicas."""
        ...

    def scale(self, replicas: int) -> None:
        """Write spec.replicas."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """One RPC: when it began (the clock's Unix seconds), how long it took on the wall, and its status code."""

    method: str
    at_s: float
    latency_s: float
    code: str


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """What KEDA sends of a ScaledObject, and how it and its HPA are set up."""

    namespace: str
    name: str
    metadata: Mapping[str, str]
    hpa: HpaSpec
    keda: KedaSpec
    polling_s: float = 30.0


class KedaClient:
    """Polls a scaler for one ScaledObject until cancelled or stopped. `calls` grows by one entry per RPC."""

    def __init__(self, address: str, scaled_object: ScaledObject, target: ScaleTarget, clock: Clock) -> None:
        self._address = address
        self._object = scaled_object
        self._target = target
        self._clock = clock
        self._ref = pb.ScaledObjectRef(
            name=scaled_object.name, namespace=scaled_object.namespace, scalerMetadata=dict(scaled_object.metadata)
        )
        self._hpa_spec = scaled_object.hpa
        self._metric_name = ""  # of the HPA, fixed when it is made
        self._hpa = HpaState()
        self._keda = KedaState()
        self._stop = asyncio.Event()
        self.calls: list[Call] = []

    async def run(self) -> None:
        """Poll until `stop` is called."""
        async with grpc.aio.insecure_channel(self._address, options=_CHANNEL_OPTIONS) as channel:
            stub = rpc.ExternalScalerStub(channel)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._every(self._object.polling_s, lambda: self._poll(stub)))
                tasks.create_task(self._every(SYNC_PERIOD_S, lambda: self._sync(stub)))

    def stop(self) -> None:
        """End `run` after the calls that are under way."""
        self._stop.set()

    async def _every(self, period_s: float, action: Callable[[], Awaitable[None]]) -> None:
        """Act at once and then every `period_s` of the clock; a turn that is late does not make the next one early."""
        due_s = self._clock.monotonic_s()
        while not self._stop.is_set():
            await action()
            due_s = max(due_s + period_s, self._clock.monotonic_s())
            wait_s = self._clock.wall_duration(due_s - self._clock.monotonic_s())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait_s)

    async def _poll(self, stub: rpc.ExternalScalerStub) -> None:
        """KEDA's scale loop: it makes the HPA when it first gets a spec, and moves the target between 0 and 1."""
        active = await self._read_activity(stub)
        spec_replicas, _ = self._target.replicas()
        self._keda, replicas = keda_step(
            self._keda, self._object.keda, self._clock.now_s(), spec_replicas, active=active
        )
        self._write(spec_replicas, replicas)

    async def _read_activity(self, stub: rpc.ExternalScalerStub) -> bool | MetricError:
        try:
            specs = await self._metric_specs(stub, timeout_s=None)
            if not self._metric_name:
                self._metric_name = specs[0].metricName
                self._hpa_spec = replace(self._hpa_spec, target=target_of(specs[0]))
            _, active = await self._metric_and_activity(stub, specs[0].metricName, timeout_s=None)
        except (grpc.aio.AioRpcError, MetricError) as error:
            return MetricError(str(error))
        return active

    async def _sync(self, stub: rpc.ExternalScalerStub) -> None:
        """One turn of the HPA controller."""
        spec_replicas, _ = self._target.replicas()
        if not self._metric_name or (spec_replicas == 0 and self._hpa_spec.min_replicas != 0):
            return  # no HPA yet, or one with scaling disabled: it does not ask
        value = await self._read_value(stub)
        spec_replicas, status_replicas = self._target.replicas()
        self._hpa, replicas = hpa_step(
            self._hpa, self._hpa_spec, self._clock.now_s(), value, spec_replicas, status_replicas
        )
        self._write(spec_replicas, replicas)

    async def _read_value(self, stub: rpc.ExternalScalerStub) -> float | MetricError:
        try:
            specs = await self._metric_specs(stub, timeout_s=_ADAPTER_DEADLINE_S)
            if self._metric_name.casefold() not in (spec.metricName.casefold() for spec in specs):
                return MetricError(f"no matching metrics found for {self._metric_name}")
            value, _ = await self._metric_and_activity(stub, self._metric_name, timeout_s=_ADAPTER_DEADLINE_S)
        except (grpc.aio.AioRpcError, MetricError) as error:
            return MetricError(str(error))
        return value

    async def _metric_specs(self, stub: rpc.ExternalScalerStub, *, timeout_s: float | None) -> list[pb.MetricSpec]:
        answer = await self._call("GetMetricSpec", stub.GetMetricSpec, self._ref, timeout_s)
        if not answer.metricSpecs:
            raise MetricError("no metric specs returned")
        return list(answer.metricSpecs)

    async def _metric_and_activity(
        self, stub: rpc.ExternalScalerStub, metric: str, *, timeout_s: float | None
    ) -> tuple[float, bool]:
        request = pb.GetMetricsRequest(scaledObjectRef=self._ref, metricName=metric)
        try:
            answer = await self._call("GetMetrics", stub.GetMetrics, request, timeout_s)
        except grpc.aio.AioRpcError:
            answer = await self._call("GetMetrics", stub.GetMetrics, request, timeout_s)
        activity = await self._call("IsActive", stub.IsActive, self._ref, timeout_s)
        if not answer.metricValues:
            raise MetricError(f"no matching metrics found for {metric}")
        return sum(value_of(value) for value in answer.metricValues), activity.result

    async def _call(
        self, method: str, send: Callable[..., Awaitable[_Answer]], request: object, timeout_s: float | None
    ) -> _Answer:
        at_s, began_s = self._clock.now_s(), self._clock.monotonic_s()
        code = grpc.StatusCode.CANCELLED
        try:
            answer = await send(request, timeout=timeout_s)
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
            raise
        finally:
            latency_s = self._clock.wall_duration(self._clock.monotonic_s() - began_s)
            self.calls.append(Call(method, at_s, latency_s, code.name))
        return answer

    def _write(self, before: int, replicas: int) -> None:
        if replicas != before:
            self._target.scale(replicas)


def value_of(value: pb.MetricValue) -> float:
    """Return what KEDA and the HPA make of a returned value: the float if it is > 0, else the int; never negative.

    An infinite value, or one whose thousandths overflow, reads as 0.
    """
    chosen = value.metricValueFloat if value.metricValueFloat > 0 else float(value.metricValue)
    return chosen if math.isfinite(chosen) and 0 <= chosen < _MOST else 0.0


def target_of(spec: pb.MetricSpec) -> float:
    """Return the target that KEDA writes into the HPA: the float if it is > 0, else the int, with three decimals."""
    return round(spec.targetSizeFloat if spec.targetSizeFloat > 0 else float(spec.targetSize), 3)
