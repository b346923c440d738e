"""A real Prometheus between the engines and Headway leads to the readings that direct scraping leads to."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from scaler.adapters.aggregated import AggregatedActivity, AggregatedReplicas
from scaler.adapters.asking import Server
from scaler.adapters.clock import SystemClock
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.scrape import ScrapeSettings, ScrapeSource
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import Observation, ReplicaCounts
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId
from scaler.ports import Clock, ClusterSnapshot, MetricsSource, SampleRequest, SourceError, WorkloadView
from tests.metrics_fakes import FIXTURES, FixedView, HttpServer, http_server
from tests.prometheus_process import NEEDS_PROMETHEUS, started_prometheus

pytestmark = NEEDS_PROMETHEUS
DEADLINE_S = 60.0  # of waiting for a condition; nothing is asserted about how long it took
WORKLOADS = (
    WorkloadSettings(namespace="demo", name="chat"),
    WorkloadSettings(namespace="demo", name="render", engine="rabbitmq", source="render"),
)
VIEW = ClusterSnapshot(
    0.0,
    {
        WorkloadId("demo", "chat"): WorkloadView(
            ReplicaCounts(spec=4, ready=4), ("chat-0", "chat-1", "old-0", "chat-down")
        ),
        WorkloadId("demo", "render"): WorkloadView(ReplicaCounts(spec=0, ready=0), ()),
    },
)
TARGETS = (
    ("/vllm", {"namespace": "demo", "pod": "chat-0"}),
    ("/vllm", {"namespace": "demo", "pod": "chat-1"}),
    ("/vllm_0_8", {"namespace": "demo", "pod": "old-0"}),
    ("/gone", {"namespace": "demo", "pod": "chat-down"}),
    ("/dcgm", {"namespace": "gpu-operator", "pod": "dcgm-exporter-x1"}),
    ("/rabbitmq", {"namespace": "rabbitmq", "pod": "rabbit-0"}),
)


async def exporters(request: web.Request) -> web.Response:
    """Serve the recorded expositions."""
    path = FIXTURES / f"{request.path.strip('/')}.txt"
    if not path.exists():  # a small local file of the test
        raise web.HTTPNotFound
    return web.Response(text=path.read_text(), content_type="text/plain", charset="utf-8")  # as above


@dataclass(frozen=True)
class Site:
    """A fleet's endpoints and a Prometheus that scrapes them."""

    exporters: HttpServer
    prometheus_url: str
    targets_file: Path


@asynccontextmanager
async def running_site(folder: Path) -> AsyncIterator[Site]:
    """Start both, wait until Prometheus has scraped every target, and end them in any case."""
    async with http_server(exporters) as server:
        address = server.url.removeprefix("http://")
        groups = [{"targets": [address], "labels": {"__metrics_path__": p, **labels}} for p, labels in TARGETS]
        targets_file = folder / "targets.json"
        targets_file.write_text(json.dumps(groups))
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            f"scrape_configs: [{{job_name: pods, file_sd_configs: [{{files: [{json.dumps(str(targets_file))}]}}]}}]\n"
        )
        with started_prometheus(folder) as (process, url):
            await _until_scraped(url, process, folder)
            yield Site(server, url, targets_file)


async def _until_scraped(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until every target has been scraped twice, by Prometheus' own account."""
    query = {"query": "count(count_over_time(up[1m]) >= 2)"}
    async with aiohttp.ClientSession() as session, asyncio.timeout(DEADLINE_S):
        while process.poll() is None:
            try:
                async with session.get(f"{url}/api/v1/query", params=query) as response:
                    result = (await response.json())["data"]["result"] if response.status == 200 else []
            except aiohttp.ClientError:
                result = []
            if result and int(result[0]["value"][1]) == len(TARGETS):
                return
            await asyncio.sleep(0.05)
    raise AssertionError(f"prometheus ended: {(folder / 'prometheus.log').read_text()}")


def _ageless(reading: Reading) -> Reading:
    return replace(reading, age_s=0.0) if isinstance(reading, Known | Stale) else reading


def readings(observation: Observation) -> dict[str, Reading]:
    """Flatten an observation to its readings, without ages."""
    flat: dict[str, Reading] = {}
    for key, seen in observation.workloads.items():
        for replica in seen.replicas:
            for name in (f.name for f in fields(replica)):
                if name not in {"pod", "still_s"}:  # stillness differs with the times of scrapes
                    flat[f"{key}/{replica.pod}/{name}"] = _ageless(getattr(replica, name))
        if seen.queue is not None:
            flat |= {
                f"{key}/{name}": _ageless(getattr(seen.queue, name)) for name in (f.name for f in fields(seen.queue))
            }
    return flat


async def observed(source: MetricsSource, clock: Clock) -> dict[str, Reading]:
    """Observe sample by sample."""
    return await _settled(
        CollectingObserver(
            source,
            FixedView(replace(VIEW, at_s=clock.now_s())),
            clock,
            DecisionSettings(),
            gpu_source=source,
            queues=QueueSettings(prefetch=1),
        ),
        clock,
    )


async def observed_aggregated(source: PrometheusSource, clock: Clock) -> dict[str, Reading]:
    """Observe what the server aggregates."""
    server = Server(source, DEADLINE_S)
    return await _settled(
        CollectingObserver(
            source,
            FixedView(replace(VIEW, at_s=clock.now_s())),
            clock,
            DecisionSettings(),
            replicas=AggregatedReplicas(server, clock, DecisionSettings()),
            activity=AggregatedActivity(server, clock, DecisionSettings()),
            queues=QueueSettings(prefetch=1),
        ),
        clock,
    )


async def _settled(observer: CollectingObserver, clock: Clock) -> dict[str, Reading]:
    """Observe until a rate has its second sample."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            seen = await observer.observe(WORKLOADS, clock.now_s())
            assert observer.stats.failures == ()
            if Missing(Reason.TOO_FEW_SAMPLES) not in readings(seen).values():
                return readings(seen)
            await asyncio.sleep(0.05)


def _is_not_asked(key: str) -> bool:
    """Return whether the server is not asked for a reading: no workload here is counted in prompt tokens."""
    return key.endswith("/prompt_tokens_rps")


async def test_both_ways_lead_to_the_same_readings(tmp_path: Path) -> None:
    """Engines of two versions, a pod that is down, GPUs behind honorLabels=false, a queue: all readings are equal."""
    clock = SystemClock()
    async with running_site(tmp_path) as site:
        prometheus = PrometheusSource(PrometheusSettings(site.prometheus_url), clock)
        scrape = ScrapeSource(ScrapeSettings(site.targets_file), clock)
        try:
            through, direct = await observed(prometheus, clock), await observed(scrape, clock)
            aggregated = await observed_aggregated(prometheus, clock)
        finally:
            await prometheus.close()
            await scrape.close()
    assert through == direct
    assert {key: reading for key, reading in through.items() if not _is_not_asked(key)} == {
        key: reading for key, reading in aggregated.items() if not _is_not_asked(key)
    }
    assert aggregated["demo/chat/chat-0/prompt_tokens_rps"] == Missing(Reason.NOT_CONFIGURED)
    assert through["demo/chat/chat-0/running"] == Known(78.0)
    assert through["demo/chat/chat-0/gpu_activity"] == Known(0.9)
    assert through["demo/chat/old-0/kv_usage"] == Known(0.25)
    assert through["demo/chat/chat-down/running"] == Missing(Reason.SOURCE_DOWN)
    assert through["demo/render/unacked"] == Known(6.0)
    assert through["demo/render/arrivals_rps"] == Known(0.0)


async def test_prometheus_s_time_stamps_are_those_of_the_scrapes(tmp_path: Path) -> None:
    """When a target stops answering, its newest sample keeps its time and grows old, while `up` goes on."""
    clock = SystemClock()
    name = "vllm:num_requests_running"
    request = SampleRequest((name, "up"), ("demo",))
    async with running_site(tmp_path) as site:
        source = PrometheusSource(PrometheusSettings(site.prometheus_url), clock)
        try:
            site.exporters.handler = _unavailable
            stopped_s = clock.now_s()
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    samples = (await source.fetch(request, clock.now_s())).samples
                    ups = [s for s in samples if s.name == "up"]
                    if all(s.value == 0 and s.at_s > stopped_s + 0.4 for s in ups):
                        break
                    await asyncio.sleep(0.05)
        finally:
            await source.close()
    last = [s.at_s for s in samples if s.name == name]
    assert len(last) == 5  # two pods of two ranks, and the old one
    assert max(last) < min(s.at_s for s in ups)


async def _unavailable(request: web.Request) -> web.Response:
    return web.Response(status=503)


async def test_a_prometheus_that_is_killed_is_a_source_that_is_down(tmp_path: Path) -> None:
    """The connection that was kept to it leads to an error, and not to an old answer."""
    clock = SystemClock()
    async with running_site(tmp_path) as site:
        source = PrometheusSource(PrometheusSettings(site.prometheus_url, backoff_s=0.01), clock)
        assert (await source.fetch(SampleRequest(("up",)), clock.now_s())).samples
    try:
        with pytest.raises(SourceError) as caught:
            await source.fetch(SampleRequest(("up",)), clock.now_s())
    finally:
        await source.close()
    assert caught.value.reason is Reason.SOURCE_DOWN
