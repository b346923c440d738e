"""What is asked of a server that aggregates, over real HTTP, and what its failures cost."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from scaler.adapters.aggregated import AggregatedReplicas, AggregationSettings
from scaler.adapters.asking import Server
from scaler.adapters.collection import Fleet as CollectedFleet
from scaler.adapters.collection import Tick
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.promql import vector_rows
from scaler.adapters.signals.aggregates import plan_of
from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.grouping import unanswered
from scaler.adapters.signals.presets import DEVICES, ENGINES, PER_QUEUE
from scaler.config.models import DecisionSettings, Unit
from scaler.core.observation import ReplicaCounts, ReplicaReading
from scaler.core.values import Known, Missing, Reason, WorkloadId
from scaler.ports import ClusterSnapshot, VectorBatch, WorkloadView
from tests.bench.aggregating import START_S, TICK_S, Fleet, pod_names
from tests.bench.fleet import NAMESPACES, policy, workload_ids
from tests.metrics_fakes import FixedClock, FixedView, HttpServer, http_server
from tests.prometheus_process import NEEDS_PROMETHEUS, started_prometheus

DEADLINE_S = 60.0  # of waiting; nothing is asserted about how long it took
REPLICAS = 2
# vLLM: time, values with three sets of parts and one with conditions, the largest part, sample times, parts, up.
EACH_TICK = 9
SELDOM = 1  # its histogram
Break = Callable[[str], web.Response | None]


class Site:
    """A server that aggregates for a fleet, and an observer of it."""

    def __init__(self, server: HttpServer, observer: CollectingObserver, clock: FixedClock, workloads: int) -> None:
        self.server, self._observer, self._clock = server, observer, clock
        self._settings = policy(workloads).workloads

    async def tick(self) -> dict[WorkloadId, tuple[ReplicaReading, ...]]:
        """Observe once, a tick later."""
        self._clock.at_s += TICK_S
        seen = await self._observer.observe(self._settings, self._clock.at_s)
        return {key: workload.replicas for key, workload in seen.workloads.items()}

    @property
    def problems(self) -> tuple[str, ...]:
        return self._observer.problems

    def asked(self) -> list[str]:
        """Return the queries since this was last called."""
        queries = [request["form"]["query"] for request in self.server.requests]
        self.server.requests.clear()
        return queries


@asynccontextmanager
async def site(workloads: int, breaks: Break = lambda _: None, max_rows: int = 50_000) -> AsyncIterator[Site]:
    """Serve a fleet. `breaks` answers a query in the server's place."""
    fleet, clock = Fleet(workloads, REPLICAS), FixedClock(START_S)
    pods = {key: pod_names(key.name, REPLICAS) for key in workload_ids(workloads)}
    views = {key: WorkloadView(ReplicaCounts(REPLICAS, REPLICAS), names) for key, names in pods.items()}

    async def answer(request: web.Request) -> web.Response:
        query = (await request.post())["query"]
        assert isinstance(query, str)
        if (broken := breaks(query)) is not None:
            return broken
        fleet.tick += query == "vector(time())"
        rows = ",".join(fleet.rows(query))
        body = f'{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}'
        return web.Response(text=body, content_type="application/json")

    async with http_server(answer) as server:
        source = PrometheusSource(PrometheusSettings(server.url, retries=0, total_timeout_s=DEADLINE_S), clock)
        settings = AggregationSettings(max_rows=max_rows)
        decision = DecisionSettings(view_stale_after_s=3600.0)
        replicas = AggregatedReplicas(Server(source, DEADLINE_S), clock, decision, settings)
        view = FixedView(ClusterSnapshot(START_S, views))
        try:
            yield Site(server, CollectingObserver(source, view, clock, decision, replicas=replicas), clock, workloads)
        finally:
            await source.close()


@pytest.mark.parametrize("workloads", [NAMESPACES, 10 * NAMESPACES])
async def test_queries_do_not_grow_with_workloads(workloads: int) -> None:
    """A tick over ten times the workloads, in the same namespaces, is exactly as many queries."""
    async with site(workloads) as fleet:
        counts = []
        for _ in range(6):
            readings = await fleet.tick()
            counts.append(len(fleet.asked()))
        assert fleet.problems == ()
    often, seldom = EACH_TICK, EACH_TICK + SELDOM
    assert counts == [seldom, often, often, often, seldom, often]  # histograms once a minute
    assert len(readings) == workloads
    for replicas in readings.values():
        assert all(isinstance(r.running, Known) and r.completions_rps == Known(4.0, r.running.age_s) for r in replicas)


async def test_all_queries_of_a_tick_are_as_of_one_moment_of_the_server() -> None:
    """A scrape that comes between two queries is seen by neither."""
    async with site(10) as fleet:
        await fleet.tick()
        times = [request["form"].get("time") for request in fleet.server.requests]
    assert times[0] is None
    assert set(times[1:]) == {f"{START_S + TICK_S:.3f}"}


def _fails_for(namespace: str, role: str, status: int = 500) -> Break:
    def breaks(query: str) -> web.Response | None:
        if re.search(rf"\b{namespace}\b", query) and role in query:
            return web.json_response({"status": "error", "errorType": "internal", "error": "boom"}, status=status)
        return None

    return breaks


@pytest.mark.parametrize("role", ["timestamp(", "generation_tokens", "reason=", "count by"])
async def test_a_shard_that_fails_costs_its_own_pods_and_no_others(role: str) -> None:
    """Whichever of its queries fails: half of a pod's rows could be taken for the whole."""
    async with site(4, _fails_for("team-002", role), max_rows=1) as fleet:
        await fleet.tick()
        readings = await fleet.tick()
        assert fleet.problems
        assert all("vllm: source_down: " in problem and "boom" in problem for problem in fleet.problems)
    for key, replicas in readings.items():
        for replica in replicas:
            if key.namespace == "team-002":
                seen = {replica.running, replica.waiting, replica.kv_usage, replica.completions_rps, replica.still_s}
                assert seen == {Missing(Reason.SOURCE_DOWN)}
            else:
                assert isinstance(replica.running, Known)
                assert isinstance(replica.completions_rps, Known)


async def test_histograms_that_cannot_be_asked_for_cost_nothing_else() -> None:
    """What they said before grows old; what is asked every tick is still read."""
    async with site(2, _fails_for("team-001", "histogram_quantile")) as fleet:
        readings = await fleet.tick()
        assert len(fleet.problems) == 1
    for replicas in readings.values():
        assert all(isinstance(r.running, Known) and r.queue_time_s == Missing(Reason.TOO_FEW_SAMPLES) for r in replicas)


async def test_what_a_server_refuses_is_asked_for_in_pieces() -> None:
    """Where an answer is too large for the server, or for us, its pods are read a few ticks later, in pieces."""

    def refuses_many(query: str) -> web.Response | None:
        return web.Response(status=422) if query.count("team-") > 2 else None

    async with site(8, refuses_many) as fleet:
        known = []
        for _ in range(4):
            readings = await fleet.tick()
            known.append(sum(isinstance(r.running, Known) for replicas in readings.values() for r in replicas))
    assert known[0] == 0
    assert known[-1] == 8 * REPLICAS


async def test_a_server_that_is_down_is_asked_once() -> None:
    """Where it does not tell the time, it is not asked for more; all pods are silent, none is idle."""
    async with site(2, lambda _: web.Response(status=502)) as fleet:
        readings = await fleet.tick()
        assert len(fleet.asked()) == 1
    assert {r.running for replicas in readings.values() for r in replicas} == {Missing(Reason.SOURCE_DOWN)}


async def test_a_shard_that_does_not_answer_in_time_is_a_timeout() -> None:
    """The tick's deadline ends what a source does not end; the other shards are read."""
    clock, fleet = FixedClock(START_S + TICK_S), Fleet(2, REPLICAS)
    fleet.tick = 1

    class Hanging:
        async def vector(self, query: str, now_s: float, *, at_s: float | None = None) -> VectorBatch:
            if "team-001" in query:
                await asyncio.Event().wait()
            result = json.loads(f"[{','.join(fleet.rows(query))}]")
            rows, evaluated_s = vector_rows({"resultType": "vector", "result": result})
            return VectorBatch(rows, evaluated_s or now_s)

    pods = {key: pod_names(key.name, REPLICAS) for key in workload_ids(2)}
    one_each = AggregationSettings(max_rows=1)
    replicas = AggregatedReplicas(Server(Hanging(), 0.3), clock, DecisionSettings(), one_each)
    tick = Tick(clock.at_s)
    found = await replicas.readings(tick, CollectedFleet(policy(2).workloads, pods), asyncio.sleep(0, result={}))
    readings = {key.namespace: {r.running for r in mine} for key, mine in found.items()}
    assert readings["team-001"] == {Missing(Reason.SOURCE_TIMEOUT)}
    assert all(isinstance(reading, Known) for reading in readings["team-000"])
    assert {failure.reason for failure in tick.failures} == {Reason.SOURCE_TIMEOUT}


PRESETS = [*(p for name, p in ENGINES.items() if name not in PER_QUEUE), *DEVICES]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_no_query_is_longer_than_a_server_takes(preset: Preset) -> None:
    """A list of namespaces as long as it may be leads to queries as long as they may be."""
    plan = plan_of(preset, frozenset(Unit))
    room = plan.room(15_000)
    names = [f"n{number:09}" for number in range(room // 11)]
    queries = [*plan.queries(names), *plan.seldom(names, 0.95, 120_000)]
    assert names
    assert max(len(query.text) for query in queries) <= 15_000


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_column_keeps_its_number_when_units_change(preset: Preset) -> None:
    """What was counted under one name does not go on under another's because a workload is now counted in tokens."""
    few, many = (
        {(q.role, name): number for q in plan_of(preset, units).queries(("a",)) for name, number in q.columns.items()}
        for units in (frozenset[Unit](), frozenset(Unit))
    )
    assert few.items() <= many.items()
    assert len(set(many.values())) == len(many)


@pytest.mark.prometheus
@NEEDS_PROMETHEUS[1]
async def test_a_real_prometheus_takes_every_query_of_every_preset(tmp_path: Path) -> None:
    """Each is PromQL of Prometheus 2.42, and finds nothing where there is nothing."""
    (tmp_path / "prometheus.yml").write_text("scrape_configs: []\n")
    texts = [unanswered(("a", "b-c")), "vector(time()) > 1e18"]
    for preset in PRESETS:
        plan = plan_of(preset, frozenset(Unit))
        queries = [*plan.queries(("a", "b-c")), *plan.queries(()), *plan.seldom(("a", "b-c"), 0.95, 120_000)]
        texts += (query.text for query in queries)
    with started_prometheus(tmp_path) as (_, url):
        source = PrometheusSource(PrometheusSettings(url, retries=10, total_timeout_s=DEADLINE_S), FixedClock())
        try:
            assert [(text, (await source.vector(text, 0.0)).rows) for text in texts] == [(text, []) for text in texts]
        finally:
            await source.close()
