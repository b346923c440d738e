"""What collecting costs: CPU time of the process that asks, parses the answers and makes readings, tick after tick.

A process of the bench. What the server aggregates is asked over real HTTP, of another process. As a comparison, what it
costs to read every series that vLLM exposes under the names that Headway asks for, all buckets of the queue time's
histogram included; there the way over the network is left out.
"""

import asyncio
import json
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from scaler.adapters.aggregated import AggregatedReplicas
from scaler.adapters.asking import Server
from scaler.adapters.bursts import burst
from scaler.adapters.clock import SystemClock
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.promql import newest_samples
from scaler.core.observation import Observation, ReplicaCounts
from scaler.core.values import Known, WorkloadId
from scaler.ports import ClusterSnapshot, SampleBatch, SampleRequest, WorkloadView
from tests.bench.aggregating import START_S, TICK_S, pod_names
from tests.bench.children import MeasurementError, say, told
from tests.bench.fleet import DEFAULTS, policy, workload_ids

WARM_UP_TICKS: Final = 2  # counters and histograms need a tick before
FINISHED: Final = ("stop", "length", "abort", "error", "repetition")
BUCKETS_S: Final = (
    0.3,
    0.5,
    0.8,
    1,
    1.5,
    2,
    2.5,
    5,
    10,
    15,
    20,
    30,
    40,
    50,
    60,
    120,
    240,
    480,
    960,
    1920,
    7680,
    "+Inf",
)


def series_of(pod: int, tick: int) -> Iterator[tuple[str, dict[str, str], float]]:
    """Return the series of one engine: name, own labels and value. It finishes 4 requests a second, none waits."""
    done = 1000.0 * pod + 60.0 * tick
    yield "vllm:num_requests_running", {}, float(10 + (pod + tick) % 20)
    yield "vllm:num_requests_waiting", {}, 0.0
    for reason in ("capacity", "deferred"):
        yield "vllm:num_requests_waiting_by_reason", {"reason": reason}, 0.0
    yield "vllm:kv_cache_usage_perc", {}, 0.4
    for reason in FINISHED:
        yield "vllm:request_success_total", {"finished_reason": reason}, done if reason == "stop" else 0.0
    yield "vllm:prompt_tokens_total", {}, 700 * done
    yield "vllm:generation_tokens_total", {}, 200 * done
    yield "vllm:num_preemptions_total", {}, 0.0
    for bound in BUCKETS_S:
        yield "vllm:request_queue_time_seconds_bucket", {"le": str(bound)}, done


SERIES: Final = sum(1 for _ in series_of(0, 0))


class AnsweringSource:
    """A metrics source whose server's answer is already here. It is parsed as Prometheus's is."""

    def __init__(self) -> None:
        self.answer = ""

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
        """Parse the answer."""
        with burst():
            return SampleBatch(tuple(newest_samples(orjson.loads(self.answer)["data"], float)))

    async def close(self) -> None:
        """There is nothing to give back."""


class FixedView:
    """A cluster view that does not change."""

    def __init__(self, pods: dict[WorkloadId, tuple[str, ...]], now_s: float) -> None:
        views = {key: WorkloadView(ReplicaCounts(len(mine), len(mine)), mine) for key, mine in pods.items()}
        self._snapshot = ClusterSnapshot(now_s, views)

    async def snapshot(self) -> ClusterSnapshot:
        """Return the view."""
        return self._snapshot


def answer_of(pods: dict[WorkloadId, tuple[str, ...]], tick: int, now_s: float) -> str:
    """Return what the server says at a tick: two samples of each series, as a look-back of 30 s has."""
    result: list[dict[str, Any]] = [
        {
            "metric": {
                "__name__": name,
                "namespace": key.namespace,
                "pod": pod,
                "engine": "0",
                "model_name": "m",
                **own,
            },
            "values": [[now_s - 20.0, str(value)], [now_s - 5.0, str(value)]],
        }
        for key, mine in pods.items()
        for pod in mine
        for name, own, value in series_of(len(pod), tick)
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


@dataclass
class TickingClock:
    """The system's clock, set to the server's tick."""

    at_s: float

    def now_s(self) -> float:
        """Return what it was set to."""
        return self.at_s

    def monotonic_s(self) -> float:
        """Return the system's."""
        return SystemClock().monotonic_s()

    def from_wall(self, wall_s: float) -> float:
        """Return the server's time as it is."""
        return wall_s

    def wall_duration(self, duration_s: float) -> float:
        """Return the same duration."""
        return duration_s


async def aggregated(url: str, workloads: int, replicas: int, ticks: int) -> dict[str, Any]:
    """Return the CPU seconds of each tick, the queries of the last one, and the most memory held, in MB."""
    clock = TickingClock(START_S)
    pods = {key: pod_names(key.name, replicas) for key in workload_ids(workloads)}
    source = PrometheusSource(PrometheusSettings(url, read_timeout_s=120.0, total_timeout_s=240.0), clock)
    replicas_of = AggregatedReplicas(Server(source, 600.0), clock, DEFAULTS)
    observer = CollectingObserver(source, FixedView(pods, START_S), clock, DEFAULTS, replicas=replicas_of)
    settings, took_s, queries = policy(workloads).workloads, [], []
    for _ in range(WARM_UP_TICKS + ticks):
        clock.at_s += TICK_S
        before_s = time.process_time()
        seen = await observer.observe(settings, clock.at_s)
        took_s.append(time.process_time() - before_s)
        queries.append(observer.stats.fetches)
    await source.close()
    if problems := [problem for problem in observer.problems if not problem.startswith("cluster: view_stale")]:
        raise MeasurementError("; ".join(problems))
    _check(seen, workloads * replicas)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    rows = observer.stats.samples
    return {"took_s": took_s[WARM_UP_TICKS:], "queries": queries[-1], "rows": rows, "peak_mb": peak_mb}


async def sampled(workloads: int, replicas: int, ticks: int) -> dict[str, Any]:
    """Return the CPU seconds of each tick, and the size of the answer in MB."""
    clock, source = TickingClock(START_S), AnsweringSource()
    pods = {key: tuple(f"{key.name}-{pod}" for pod in range(replicas)) for key in workload_ids(workloads)}
    observer = CollectingObserver(source, FixedView(pods, START_S), clock, DEFAULTS)
    settings, took_s = policy(workloads).workloads, []
    for tick in range(WARM_UP_TICKS + ticks):
        clock.at_s += TICK_S
        source.answer = answer_of(pods, tick, clock.at_s)
        before_s = time.process_time()
        seen = await observer.observe(settings, clock.at_s)
        took_s.append(time.process_time() - before_s)
    _check(seen, workloads * replicas)
    return {"took_s": took_s[WARM_UP_TICKS:], "size_mb": len(source.answer) / 1e6}


def _check(seen: Observation, replicas: int) -> None:
    readings = [replica for workload in seen.workloads.values() for replica in workload.replicas]
    whole = all(isinstance(it.running, Known) and isinstance(it.completions_rps, Known) for it in readings)
    if len(readings) != replicas or not whole:
        raise MeasurementError("not every replica was read")


async def _measure(task: dict[str, Any]) -> dict[str, Any]:
    extent = (int(task["workloads"]), int(task["replicas"]), int(task["ticks"]))
    return await aggregated(task["url"], *extent) if "url" in task else await sampled(*extent)


if __name__ == "__main__":
    say(asyncio.run(_measure(told())))
