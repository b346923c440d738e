"""What a real Prometheus aggregates leads to the readings that all of its series lead to, tick after tick.

The engines stamp their samples, so that both ways see the same ones at the same times, whenever they ask.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from scaler.adapters.aggregated import AggregatedActivity, AggregatedReplicas
from scaler.adapters.asking import Server
from scaler.adapters.clock import SystemClock
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.config.models import DecisionSettings, Unit, WorkloadSettings
from scaler.core.observation import Observation, ReplicaCounts, ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId, value_of
from scaler.ports import ClusterSnapshot, WorkloadView
from tests.metrics_fakes import FixedClock, FixedView, http_server
from tests.prometheus_process import NEEDS_PROMETHEUS, started_prometheus

pytestmark = NEEDS_PROMETHEUS
DEADLINE_S = 60.0  # of waiting for a condition; nothing is asserted about how long it took
TICK_S = 15.0
TICKS = 6
CHAT, RIVAL = WorkloadId("demo", "chat"), WorkloadId("rival", "chat")
BUCKETS = ("0.3", "0.5", "1.0", "+Inf")
Series = Iterable[tuple[str, dict[str, str], float]]


def rank(done: float, running: float = 8.0, kv: float = 0.5, *, engine: str = "0", old: bool = False) -> Series:
    """Yield what one rank of vLLM exports that finished so many requests; `old` with the names of 0.8."""
    own = {"engine": engine, "model_name": "m"}
    yield "vllm:num_requests_running", own, running
    yield "vllm:num_requests_waiting", own, 5.0
    if not old:
        yield "vllm:num_requests_waiting_by_reason", own | {"reason": "capacity"}, 3.0
        yield "vllm:num_requests_waiting_by_reason", own | {"reason": "deferred"}, 2.0
    yield "vllm:gpu_cache_usage_perc" if old else "vllm:kv_cache_usage_perc", own, kv
    for reason, share in (("stop", 0.75), ("length", 0.25)):
        yield "vllm:request_success_total", own | {"finished_reason": reason}, share * done
    yield "vllm:prompt_tokens_total", own, 700.0 * done
    yield "vllm:generation_tokens_total", own, 200.0 * done
    yield "vllm:num_preemptions_total", own, 1.0
    for bound, share in zip(BUCKETS, (0.0, 0.5, 1.0, 1.0), strict=True):
        yield "vllm:request_queue_time_seconds_bucket", own | {"le": bound}, share * done


def gpu(target: str, pod: str, activity: float, **labels: str) -> Series:
    """Yield what an exporter says of a pod's GPU."""
    yield (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        {"UUID": f"{target}-{pod}", "namespace": "demo", "pod": pod} | labels,
        activity,
    )


def claiming(series: Series, pod: str) -> Series:
    """Yield series that say they are of a pod of the namespace `demo`."""
    for name, labels, value in series:
        yield name, labels | {"namespace": "demo", "pod": pod}, value


@dataclass
class Engines:
    """The targets that Prometheus scrapes: each makes what it exports in a tick. None: it does not answer."""

    start_s: float
    tick: int = 0
    targets: dict[str, tuple[dict[str, str], Callable[[int], Series | None]]] = field(default_factory=dict)

    @property
    def at_s(self) -> float:
        """When the samples of the tick were taken."""
        return round(self.start_s + self.tick * TICK_S, 3)

    def pod(self, pod: str, exports: Callable[[int], Series | None], namespace: str = "demo", **labels: str) -> None:
        self.targets[f"/{namespace}/{pod}"] = ({"namespace": namespace, "pod": pod} | labels, exports)

    async def answer(self, request: web.Request) -> web.Response:
        series = self.targets[request.path][1](self.tick)
        if series is None:
            return web.Response(status=503)
        lines = [_line(name, labels, value, self.at_s) for name, labels, value in series]
        return web.Response(text="\n".join([*lines, _line("marker", {}, 1.0, self.at_s)]) + "\n")

    def config(self, address: str) -> str:
        """Return the configuration of the Prometheus that scrapes them."""
        groups = [
            {"targets": [address], "labels": {"__metrics_path__": p, **own}} for p, (own, _) in self.targets.items()
        ]
        job = {"job_name": "pods", "static_configs": groups}
        return json.dumps({"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": [job]})

    def answering(self) -> int:
        return sum(exports(self.tick) is not None for _, exports in self.targets.values())


def _line(name: str, labels: dict[str, str], value: float, at_s: float) -> str:
    text = ",".join(f'{label}="{said}"' for label, said in labels.items())
    number = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN" if math.isnan(value) else repr(value))
    return f"{name}{{{text}}} {number} {round(at_s * 1000)}"


async def until_scraped(session: aiohttp.ClientSession, url: str, engines: Engines) -> None:
    """Wait until Prometheus has the samples of this tick, and knows who does not answer."""
    up = f"count(up == 1) == {engines.answering()}"
    query = f"count(timestamp(marker) == {engines.at_s:.3f}) == {engines.answering()} and on () ({up})"
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                async with session.get(f"{url}/api/v1/query", params={"query": query}) as response:
                    if response.status == 200 and (await response.json())["data"]["result"]:
                        return
            except aiohttp.ClientError:
                pass  # it is still starting
            await asyncio.sleep(0.05)


def flat(observation: Observation) -> dict[str, Reading]:
    """Return all readings of all replicas by pod and signal."""
    return {
        f"{replica.pod}/{it.name}": getattr(replica, it.name)
        for seen in observation.workloads.values()
        for replica in seen.replicas
        for it in fields(ReplicaReading)
        if it.name != "pod"
    }


def alike(one: Reading, other: Reading) -> bool:
    """Return whether readings are equal but for rounding."""
    match one, other:
        case Known(), Known():
            return math.isclose(one.value, other.value, abs_tol=1e-9) and math.isclose(
                one.age_s, other.age_s, abs_tol=1e-3
            )
        case Stale(), Stale():
            return math.isclose(one.age_s, other.age_s, abs_tol=1e-3)
    return one == other


async def both(
    engines: Engines, folder: Path, view: Callable[[int], tuple[str, ...]]
) -> list[tuple[dict[str, Reading], dict[str, Reading]]]:
    """Return the readings of each tick: sample by sample, and aggregated."""
    clock, decision = FixedClock(), DecisionSettings()
    workloads = (
        WorkloadSettings(namespace="demo", name="chat", unit=Unit.PROMPT_TOKENS),
        WorkloadSettings(namespace="rival", name="chat"),
    )
    seen = FixedView(None)
    found = []
    async with http_server(engines.answer) as server, aiohttp.ClientSession() as session:
        (folder / "prometheus.yml").write_text(engines.config(server.url.removeprefix("http://")))
        with started_prometheus(folder) as (_, url):
            source = PrometheusSource(PrometheusSettings(url, lookback_s=300.0), clock)
            asked = Server(source, DEADLINE_S)
            sampled = CollectingObserver(source, seen, clock, decision, gpu_source=source)
            aggregated = CollectingObserver(
                source,
                seen,
                clock,
                decision,
                replicas=AggregatedReplicas(asked, clock, decision),
                activity=AggregatedActivity(asked, clock, decision),
            )
            try:
                for engines.tick in range(TICKS):
                    await until_scraped(session, url, engines)
                    clock.at_s = engines.at_s + 2.0
                    pods = view(engines.tick)
                    counts = ReplicaCounts(len(pods), len(pods))
                    seen.view = ClusterSnapshot(clock.at_s, {CHAT: WorkloadView(counts, pods)})
                    one = await sampled.observe(workloads, clock.at_s)
                    other = await aggregated.observe(workloads, clock.at_s)
                    assert (sampled.problems, aggregated.problems) == ((), ())
                    found.append((flat(one), flat(other)))
            finally:
                await source.close()
    return found


async def test_a_fleet_on_bad_days_reads_the_same_either_way(tmp_path: Path) -> None:
    """Ranks, resets, NaN, two versions at once, pods that come and go, one that exports nothing, liars: all alike."""
    engines = Engines(SystemClock().now_s() - TICKS * TICK_S)

    def ranks(tick: int) -> Series:
        yield from rank(100.0 + 30 * tick, 10.0, 0.25, engine="0")
        yield from rank(900.0 + 60 * tick, 20.0, 0.75, engine="1")

    engines.pod("two-ranks", ranks)
    engines.pod("steady", lambda tick: rank(50.0 + 15 * tick))
    engines.pod("restarted", lambda tick: rank(500.0 + 30 * tick if tick < 3 else 30.0 * tick))
    engines.pod("old", lambda tick: rank(10.0 * tick, old=True))
    engines.pod("nan", lambda tick: rank(10.0 * tick, math.nan, math.inf))
    engines.pod("nan-rank", lambda tick: [*rank(10.0 * tick), *rank(10.0 * tick, 1.0, math.nan, engine="1")])
    engines.pod("negative", lambda tick: rank(10.0 * tick, -1.0, 1.5))
    engines.pod("stuck", lambda _: rank(77.0))
    engines.pod("deleted", lambda tick: rank(10.0 * tick))
    engines.pod("late", lambda tick: rank(10.0 * tick))
    engines.pod("empty", lambda _: [])
    # A tenant's pod that says it is another's, with another's GPU; and the platform's exporter of GPU activity.
    engines.pod(
        "liar", lambda tick: [*claiming(rank(1e6 * tick, 1e5), "steady"), *gpu("x", "steady", 0.0)], RIVAL.namespace
    )
    gpus = (("n", "steady", 0.9), ("n", "two-ranks", 0.5), ("m", "two-ranks", 0.7))
    engines.pod("exporter", lambda _: [series for one in gpus for series in gpu(*one)], "gpu-operator")

    def view(tick: int) -> tuple[str, ...]:
        always = ("two-ranks", "steady", "restarted", "old", "nan", "nan-rank", "negative", "stuck", "empty", "unseen")
        return (*always, *(("deleted",) if tick < 2 else ()), *(("late",) if tick > 1 else ()))

    found = await both(engines, tmp_path, view)
    for tick, (one, other) in enumerate(found):
        # What is asked once a minute cannot be alike in every tick; of it the last tick is looked at, below.
        each_tick = [key for key in one if not key.endswith("/queue_time_s")]
        different = {key: (one[key], other[key]) for key in each_tick if not alike(one[key], other[key])}
        assert one.keys() == other.keys()
        assert different == {}, f"tick {tick}"
    last = found[-1][1]
    assert value_of(last["two-ranks/running"]) == pytest.approx(30.0)
    assert value_of(last["two-ranks/completions_rps"]) == pytest.approx(6.0)
    assert value_of(last["two-ranks/kv_usage"]) == pytest.approx(0.75)
    assert value_of(last["two-ranks/queue_time_s"]) == pytest.approx(0.95)
    assert value_of(last["two-ranks/gpu_activity"]) == pytest.approx(0.6)
    assert value_of(last["steady/gpu_activity"]) == pytest.approx(0.9)
    assert value_of(last["stuck/still_s"]) == pytest.approx(75.0)
    assert found[3][1]["restarted/completions_rps"] == Missing(Reason.COUNTER_RESET)
    assert last["nan/running"] == last["nan-rank/kv_usage"] == Missing(Reason.INVALID_VALUE)
    assert last["negative/running"] == Missing(Reason.NEGATIVE)
    assert last["empty/running"] == last["unseen/running"] == Missing(Reason.NO_SERIES)
    assert "deleted/running" not in last
