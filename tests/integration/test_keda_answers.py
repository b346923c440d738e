"""KEDA's unary calls, over a real connection."""

import asyncio

import grpc
import pytest
from grpc import aio

from external_scaler_proto import externalscaler_pb2 as pb
from scaler.config.metadata import metadata_problems
from scaler.core.values import WorkloadId
from tests.scaler_rig import CHAT, START_S, Served, answer, read, reference, serving, stored, value, value_request

OTHER = WorkloadId("lab", "chat")
SPEC = pb.GetMetricSpecResponse(
    metricSpecs=[pb.MetricSpec(metricName="headway-replicas", targetSize=1, targetSizeFloat=1.0)]
)


async def refusal(served: Served, request: pb.GetMetricsRequest) -> tuple[grpc.StatusCode, str]:
    """Return the status and the reason of a GetMetrics call that must fail."""
    with pytest.raises(aio.AioRpcError) as caught:
        await served.stub.GetMetrics(request)
    return caught.value.code(), caught.value.details() or ""


async def test_the_spec() -> None:
    """There is one spec, lower case, with a target of 1 in both fields; it needs no data at all."""
    async with serving() as served:
        response = await served.stub.GetMetricSpec(reference())
    assert response == SPEC


@pytest.mark.parametrize("name", ["headway-replicas", "Headway-Replicas", "HEADWAY-REPLICAS"])
async def test_the_value(name: str) -> None:
    """There is one value, in both fields, under whatever casing KEDA asks."""
    async with serving(stored({CHAT: answer(7)})) as served:
        response = await served.stub.GetMetrics(value_request(metric=name))
    assert response == pb.GetMetricsResponse(
        metricValues=[pb.MetricValue(metricName="headway-replicas", metricValue=7, metricValueFloat=7.0)]
    )


@pytest.mark.parametrize("name", ["", "headway", "s0-headway-replicas"])
async def test_another_metric(name: str) -> None:
    """A metric that Headway never announced is a mistake of the caller, whatever the plan says."""
    async with serving(stored({CHAT: answer(7)})) as served:
        code, reason = await refusal(served, value_request(metric=name))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert reason == f"metricName must be headway-replicas, was {name!r}"


async def test_an_unknown_scaled_object() -> None:
    """It gets its spec, no value and no activation, so that KEDA holds and its fallback counts."""
    async with serving(stored({CHAT: answer(7)})) as served:
        assert len((await served.stub.GetMetricSpec(reference(OTHER))).metricSpecs) == 1
        code, reason = await refusal(served, value_request(OTHER))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert reason == "unknown_workload: lab/chat is not in the plan"
        assert not (await served.stub.IsActive(reference(OTHER))).result


async def test_before_the_first_plan() -> None:
    """Specs and activation are answered, values are not."""
    async with serving() as served:
        served.holder.nothing_stored()
        assert await refusal(served, value_request()) == (
            grpc.StatusCode.UNAVAILABLE,
            "no_plan: no plan has been published yet",
        )
        assert not (await served.stub.IsActive(reference())).result


async def test_one_name_in_two_namespaces() -> None:
    """Each gets its own value and activation."""
    async with serving(stored({CHAT: answer(7), OTHER: answer(0, active=False)})) as served:
        assert await value(served.stub, CHAT) == 7
        assert await value(served.stub, OTHER) == 0
        assert (await served.stub.IsActive(reference(CHAT))).result
        assert not (await served.stub.IsActive(reference(OTHER))).result


async def test_malformed_metadata_lists_every_bad_key() -> None:
    """One error names all that is wrong, with value and allowed range."""
    metadata = {"slo": "-1s", "objective": "7", "maxReplicas": "many", "engine": "vllm"}
    async with serving(stored({}), validate=metadata_problems) as served:
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.GetMetricSpec(reference(CHAT, **metadata))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = caught.value.details() or ""
    assert details.startswith("trigger metadata of shop/chat: ")
    for key, bad in {"slo": "-1s", "objective": "7", "maxReplicas": "many"}.items():
        (problem,) = (part for part in details.split("; ") if key in part)
        assert bad in problem
        assert "must be" in problem
    assert "engine" not in details


async def test_as_many_problems_as_there_can_be_arrive() -> None:
    """An error of any length reaches the client: it travels in a header, and headers are limited."""
    problems = tuple(f"key{i} must be > 0, was {'9' * 10_000}" for i in range(20))
    async with serving(validate=lambda _: problems) as served:
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.GetMetricSpec(reference(CHAT))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert all(f"key{i} must be > 0" in (caught.value.details() or "") for i in range(20))


async def test_a_workload_that_was_valid_keeps_going() -> None:
    """Metadata that breaks later does not take the metric away; it is counted."""
    async with serving(stored({CHAT: answer(7)}), validate=metadata_problems) as served:
        assert len((await served.stub.GetMetricSpec(reference(CHAT, slo="never"))).metricSpecs) == 1
        assert await value(served.stub) == 7
        assert served.registry.get_sample_value("headway_scaler_invalid_metadata_total") == 1


async def test_secrets_in_metadata_do_not_come_back() -> None:
    """A resolved secret is in no error and no metric."""
    secret = "hunter2"  # noqa: S105 - it is to be looked for
    async with serving(stored({}), validate=metadata_problems) as served:
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.GetMetricSpec(reference(CHAT, slo="never", passwordFromEnv=secret))
        assert secret not in (caught.value.details() or "")
        samples = [sample for metric in served.registry.collect() for sample in metric.samples]
        assert secret not in str(samples)


@pytest.mark.parametrize("workload", [CHAT, OTHER])
async def test_a_stale_heartbeat(workload: WorkloadId) -> None:
    """After its TTL a plan has no values; what has replicas, or was wanted, stays active."""
    plan = stored({CHAT: answer(7), OTHER: answer(0, active=False, present=True)})
    async with serving(plan) as served:
        served.clock.advance(301)
        code, reason = await refusal(served, value_request(workload))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert reason.startswith("stale_plan: ")
        assert (await served.stub.IsActive(reference(workload))).result


async def test_stopped_evidence() -> None:
    """A workload whose evidence is too old has no value, though the plan is fresh; its neighbour has one."""
    async with serving(stored({CHAT: answer(7), OTHER: answer(2)}, stopped={CHAT: START_S - 901})) as served:
        code, reason = await refusal(served, value_request())
        assert code is grpc.StatusCode.UNAVAILABLE
        assert reason.startswith("stopped_evidence: ")
        assert await value(served.stub, OTHER) == 2


async def test_a_value_that_is_not_known() -> None:
    """It is an error with the decision's reason, never a zero."""
    async with serving(stored({CHAT: answer(None, reason="source_timeout")})) as served:
        assert await refusal(served, value_request()) == (grpc.StatusCode.UNAVAILABLE, "source_timeout")


@pytest.mark.parametrize("replicas", [-1, 10**16])
async def test_a_value_that_kedas_arithmetic_would_ruin(replicas: int) -> None:
    """What KEDA would read as zero or as nonsense is an error."""
    async with serving(stored({CHAT: answer(replicas)})) as served:
        code, reason = await refusal(served, value_request())
    assert code is grpc.StatusCode.UNAVAILABLE
    assert reason.startswith("invalid_value: replicas must be >= 0")


async def test_an_older_plan_is_not_answered_from() -> None:
    """A deposed controller does not reach KEDA."""
    async with serving(stored({CHAT: answer(7)}, version=(2, 1))) as served:
        served.holder.accept(stored({CHAT: answer(1)}, version=(1, 900)))
        assert await value(served.stub) == 7


async def test_calls_are_counted_by_rpc_and_status() -> None:
    """Operators see what KEDA gets, without a series per workload."""
    async with serving(stored({CHAT: answer(7)})) as served:
        await value(served.stub)
        await refusal(served, value_request(OTHER))
        await refusal(served, value_request(metric="else"))
        await served.stub.IsActive(reference())
        counts = [served.count("GetMetrics", code) for code in ("OK", "UNAVAILABLE", "INVALID_ARGUMENT")]
        assert counts == [1, 1, 1]
        assert served.count("IsActive", "OK") == 1
        timed = served.registry.get_sample_value("headway_scaler_rpc_seconds_count", {"rpc": "GetMetrics"})
        assert timed == 3
        labels = {name for metric in served.registry.collect() for s in metric.samples for name in s.labels}
        assert labels == {"rpc", "code", "le"}


async def test_many_clients_at_once() -> None:
    """With 64 clients that hold two streams each, every unary call is answered, each with its own value."""
    workloads = [WorkloadId("load", f"w{i}") for i in range(64)]
    plan = stored({workload: answer(i) for i, workload in enumerate(workloads)})

    async with serving(plan) as served:

        async def client(number: int, workload: WorkloadId) -> None:
            active = served.stub.StreamIsActive(reference(workload))
            specs = served.stub.StreamMetricSpec(reference(workload))
            assert await read(active) == pb.IsActiveResponse(result=True)
            assert await read(specs) == SPEC
            for _ in range(10):
                assert await value(served.stub, workload) == number
                assert (await served.stub.IsActive(reference(workload))).result
            active.cancel()
            specs.cancel()

        async with asyncio.timeout(60), asyncio.TaskGroup() as clients:
            for number, workload in enumerate(workloads):
                clients.create_task(client(number, workload))
        assert served.count("GetMetrics", "OK") == 640
