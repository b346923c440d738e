"""The client with KEDA's call pattern, against real servers whose answers the test chooses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto import externalscaler_pb2_grpc as rpc
from scaler.adapters.clock import ScaledClock, SystemClock
from scaler.demo.keda_client import KedaClient, ScaledObject, target_of, value_of
from scaler.hpa import HEADWAY_BEHAVIOUR, HpaSpec, KedaSpec

DEADLINE_S = 20.0
SPEED = 300.0  # an HPA's 15 s are 50 ms


@dataclass
class Script(rpc.ExternalScalerServicer):
    """A scaler that answers what it is told to and notes what it was asked."""

    replicas: float = 5.0
    active: bool = True
    failing: set[str] = field(default_factory=set)
    fail_once: set[str] = field(default_factory=set)
    target: float = 1.0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    deadlines: list[bool] = field(default_factory=list)  # whether each call had one: only the HPA's have

    async def _enter(self, method: str, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self.asked.append((method, request))
        self.deadlines.append(context.time_remaining() is not None)
        if method in self.failing | self.fail_once:
            self.fail_once.discard(method)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "told to fail")

    async def GetMetricSpec(self, request: Any, context: Any) -> pb.GetMetricSpecResponse:  # noqa: N802 - KEDA's name
        await self._enter("GetMetricSpec", request, context)
        spec = pb.MetricSpec(metricName="headway-replicas", targetSize=1, targetSizeFloat=self.target)
        return pb.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(self, request: Any, context: Any) -> pb.GetMetricsResponse:  # noqa: N802 - KEDA's name
        await self._enter("GetMetrics", request, context)
        value = pb.MetricValue(metricName=request.metricName, metricValueFloat=self.replicas)
        return pb.GetMetricsResponse(metricValues=[value])

    async def IsActive(self, request: Any, context: Any) -> pb.IsActiveResponse:  # noqa: N802 - KEDA's name
        await self._enter("IsActive", request, context)
        return pb.IsActiveResponse(result=self.active)


class Target:
    """A scale target whose pods follow at once."""

    def __init__(self, replicas: int) -> None:
        self.now = replicas
        self.written: list[int] = []

    def replicas(self) -> tuple[int, int]:
        return self.now, self.now

    def scale(self, replicas: int) -> None:
        self.now = replicas
        self.written.append(replicas)


@asynccontextmanager
async def served(script: Script) -> AsyncIterator[str]:
    server = grpc.aio.server()
    rpc.add_ExternalScalerServicer_to_server(script, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def polling(
    address: str, target: Target, *, minimum: int = 1, polling_s: float = 30.0, cooldown_s: float = 300.0
) -> AsyncIterator[KedaClient]:
    scaled = ScaledObject(
        namespace="demo",
        name="chat",
        metadata={"scalerAddress": address, "engine": "vllm"},
        hpa=HpaSpec(min_replicas=max(1, minimum), max_replicas=50, behaviour=HEADWAY_BEHAVIOUR),
        keda=KedaSpec(min_replicas=minimum, cooldown_s=cooldown_s),
        polling_s=polling_s,
    )
    clock = ScaledClock(SPEED, SystemClock().now_s(), 0.0)
    client = KedaClient(address, scaled, target, clock)
    task = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        client.stop()
        async with asyncio.timeout(DEADLINE_S):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - counts of calls; the script has nothing to signal with
            await asyncio.sleep(0.005)


async def test_the_value_becomes_replicas() -> None:
    """What the scaler says, the target gets: up and down, in one step each."""
    script, target = Script(replicas=12), Target(2)
    async with served(script) as address, polling(address, target):
        await until(lambda: target.now == 12)
        script.replicas = 7
        await until(lambda: target.now == 7)
    assert target.written == [12, 7]


async def test_the_calls_are_kedas() -> None:
    """Spec, value and activity are asked for in this order, with the whole of the metadata and the bare metric name."""
    script, target = Script(), Target(5)
    async with served(script) as address, polling(address, target) as client:
        await until(lambda: len(script.asked) >= 9)
    methods = [method for method, _ in script.asked[:3]]
    assert methods == ["GetMetricSpec", "GetMetrics", "IsActive"]
    reference = script.asked[0][1]
    assert (reference.namespace, reference.name) == ("demo", "chat")
    assert dict(reference.scalerMetadata) == {"scalerAddress": address, "engine": "vllm"}
    request = script.asked[1][1]
    assert (request.metricName, request.scaledObjectRef) == ("headway-replicas", reference)
    assert {call.code for call in client.calls} == {"OK"}
    assert all(0 <= call.latency_s < DEADLINE_S for call in client.calls)
    assert [call.at_s for call in client.calls if call.method == "GetMetricSpec"] == sorted(
        call.at_s for call in client.calls if call.method == "GetMetricSpec"
    )


async def test_an_error_holds_and_is_asked_once_more() -> None:
    """While GetMetrics fails nothing changes; each failing read asks twice."""
    script, target = Script(replicas=9), Target(4)
    script.failing.add("GetMetrics")
    async with served(script) as address, polling(address, target) as client:
        await until(lambda: len(client.calls) >= 30)
        assert target.written == []
        script.failing.clear()
        await until(lambda: target.now == 9)
    codes = [(call.method, call.code) for call in client.calls[:5]]
    assert codes.count(("GetMetrics", "UNAVAILABLE")) >= 2
    assert ("IsActive", "OK") not in codes


async def test_one_failure_is_bridged_by_the_second_try() -> None:
    """A GetMetrics that fails once is asked again at once, and the read goes on."""
    script, target = Script(active=False), Target(0)  # at zero only the poll asks, so calls are in its order
    script.fail_once.add("GetMetrics")
    async with served(script) as address, polling(address, target, minimum=0) as client:
        await until(lambda: len(client.calls) >= 4)
    assert [(call.method, call.code) for call in client.calls[:4]] == [
        ("GetMetricSpec", "OK"),
        ("GetMetrics", "UNAVAILABLE"),
        ("GetMetrics", "OK"),
        ("IsActive", "OK"),
    ]


async def test_an_absent_scaler_changes_nothing() -> None:
    """Without a scaler every call fails, fast enough to be made again, and nothing changes."""
    script, target = Script(replicas=6), Target(3)
    async with served(script) as gone:
        pass
    async with polling(gone, target) as client:
        await until(lambda: len(client.calls) >= 3)
    assert target.written == []
    assert {call.code for call in client.calls} <= {"UNAVAILABLE", "CANCELLED"}


async def test_activity_wakes_from_zero_and_cools_down() -> None:
    """Activity takes a target from 0 to 1, the metric further, and inactivity back to 0 after the cooldown."""
    script, target = Script(replicas=4, active=False), Target(0)
    async with served(script) as address, polling(address, target, minimum=0, cooldown_s=60.0) as client:
        await until(lambda: len(client.calls) >= 6)
        assert target.written == []
        assert set(script.deadlines) == {False}  # at zero the HPA does not ask: all calls are the poll's
        script.active = True
        await until(lambda: target.now == 4)
        assert target.written[:2] == [1, 4]
        assert set(script.deadlines) == {False, True}
        script.active = False
        await until(lambda: target.now == 0)


async def test_the_target_is_fixed_when_the_hpa_is_made() -> None:
    """The HPA keeps the target of the first answer: KEDA does not pick up a later one."""
    script, target = Script(replicas=8, target=2.0), Target(1)
    async with served(script) as address, polling(address, target):
        await until(lambda: target.now == 4)
        script.target = 1.0
        asked = len(script.asked)
        await until(lambda: len(script.asked) >= asked + 12)
    assert target.written == [4]


@pytest.mark.parametrize(
    ("whole", "real", "seen"),
    [
        (0, float("nan"), 0), (7, float("nan"), 7), (0, float("inf"), 0), (9, -5.0, 9), (0, -5.0, 0), (-3, 0.0, 0),
        (12, 11.5, 11.5), (12, 0.0, 12), (0, 1e300, 0),
    ],
)  # fmt: skip
def test_what_keda_makes_of_a_value(whole: int, real: float, seen: float) -> None:
    """A float above zero counts, else the int; nothing negative, infinite or beyond the API's integers gets through."""
    assert value_of(pb.MetricValue(metricValue=whole, metricValueFloat=real)) == seen


@pytest.mark.parametrize(("whole", "real", "target"), [(2, 0.0, 2), (2, 1.5, 1.5), (1, 0.00049, 0.0), (1, 1.0004, 1.0)])
def test_what_keda_makes_of_a_target(whole: int, real: float, target: float) -> None:
    """A float target above zero counts, with three decimals."""
    assert target_of(pb.MetricSpec(targetSize=whole, targetSizeFloat=real)) == target
