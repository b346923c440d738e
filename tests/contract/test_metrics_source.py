"""What every metrics source keeps to, whatever is behind it."""

import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.replay import RecordingSource, ReplaySource
from scaler.adapters.scrape import ScrapeSettings, ScrapeSource
from scaler.core.values import Reason
from scaler.ports import MetricsSource, Sample, SampleRequest, SourceError
from tests.metrics_fakes import T0, FixedClock, ListSource, answering, exposition_text, http_server, prometheus_api

SAMPLES = (
    Sample("vllm:num_requests_running", {"namespace": "demo", "pod": "chat-0", "engine": "0"}, 3.0, T0),
    Sample("vllm:num_requests_running", {"namespace": "demo", "pod": "chat-0", "engine": "1"}, math.nan, T0),
    Sample("vllm:num_requests_waiting", {"namespace": "demo", "pod": "chat-0", "engine": "0"}, math.inf, T0),
    Sample("vllm:kv_cache_usage_perc", {"namespace": "demo", "pod": "chat-0", "engine": "0"}, 0.5, T0),
    Sample("vllm:num_requests_running", {"namespace": "other", "pod": "code-0", "engine": "0"}, 7.0, T0),
)
Made = AbstractAsyncContextManager[MetricsSource]
Make = Callable[[Path], Made]


@asynccontextmanager
async def prometheus(folder: Path) -> AsyncIterator[MetricsSource]:
    async with http_server(prometheus_api(SAMPLES)) as server:
        source = PrometheusSource(PrometheusSettings(server.url, retries=0), FixedClock())
        yield source
        await source.close()


@asynccontextmanager
async def scrape(folder: Path) -> AsyncIterator[MetricsSource]:
    async def metrics(request: web.Request) -> web.Response:
        pod = request.path.rpartition("/")[2]
        mine = [s for s in SAMPLES if s.labels["pod"] == pod]
        bare = [Sample(s.name, {"engine": s.labels["engine"]}, s.value, s.at_s) for s in mine]
        return web.Response(text=exposition_text(bare))

    async with http_server(metrics) as server:
        address = server.url.removeprefix("http://")
        groups = [
            {"targets": [address], "labels": {"namespace": ns, "pod": pod, "__metrics_path__": f"/{pod}"}}
            for ns, pod in (("demo", "chat-0"), ("other", "code-0"))
        ]
        (folder / "targets.json").write_text(json.dumps(groups))
        source = ScrapeSource(ScrapeSettings(folder / "targets.json"), FixedClock())
        yield source
        await source.close()


@asynccontextmanager
async def recording(folder: Path) -> AsyncIterator[MetricsSource]:
    source = RecordingSource(ListSource(SAMPLES), folder / "recording.jsonl")
    yield source
    await source.close()


@asynccontextmanager
async def replay(folder: Path) -> AsyncIterator[MetricsSource]:
    recorder = RecordingSource(ListSource(SAMPLES), folder / "recording.jsonl.gz")
    await recorder.fetch(SampleRequest(tuple({s.name for s in SAMPLES})), T0)
    source = ReplaySource(folder / "recording.jsonl.gz")
    yield source
    await source.close()


@asynccontextmanager
async def broken_prometheus(folder: Path) -> AsyncIterator[MetricsSource]:
    async with http_server(answering("<html>Bad gateway</html>", status=502)) as server:
        source = PrometheusSource(PrometheusSettings(server.url, retries=0), FixedClock())
        yield source
        await source.close()


@asynccontextmanager
async def broken_scrape(folder: Path) -> AsyncIterator[MetricsSource]:
    (folder / "targets.json").write_text('[{"targets": "not a list"}]')
    source = ScrapeSource(ScrapeSettings(folder / "targets.json"), FixedClock())
    yield source
    await source.close()


@asynccontextmanager
async def broken_recording(folder: Path) -> AsyncIterator[MetricsSource]:
    yield RecordingSource(ListSource(failure=Reason.SOURCE_DOWN), folder / "recording.jsonl")


@asynccontextmanager
async def broken_replay(folder: Path) -> AsyncIterator[MetricsSource]:
    (folder / "recording.jsonl").write_text("{}\n")
    yield ReplaySource(folder / "recording.jsonl")


SOURCES = pytest.mark.parametrize("make", [prometheus, scrape, recording, replay])
BROKEN = pytest.mark.parametrize("make", [broken_prometheus, broken_scrape, broken_recording, broken_replay])


def _seen(samples: tuple[Sample, ...]) -> set[tuple[str, str, str, str]]:
    return {(s.name, s.labels["pod"], s.labels["engine"], repr(s.value)) for s in samples}


@SOURCES
async def test_it_returns_the_named_series_only(make: Make, tmp_path: Path) -> None:
    """Series of the asked names come, each once, and no others."""
    async with make(tmp_path) as source:
        batch = await source.fetch(SampleRequest(("vllm:num_requests_running",)), T0)
    assert _seen(batch.samples) == {
        ("vllm:num_requests_running", "chat-0", "0", "3.0"),
        ("vllm:num_requests_running", "chat-0", "1", "nan"),
        ("vllm:num_requests_running", "code-0", "0", "7.0"),
    }
    assert len(batch.samples) == 3
    assert batch.partial == ()


@SOURCES
async def test_it_keeps_to_the_namespaces(make: Make, tmp_path: Path) -> None:
    """A namespace that was not asked for is not in the answer."""
    async with make(tmp_path) as source:
        batch = await source.fetch(SampleRequest(("vllm:num_requests_running",), ("other",)), T0)
    assert _seen(batch.samples) == {("vllm:num_requests_running", "code-0", "0", "7.0")}


@SOURCES
async def test_it_passes_on_what_is_not_a_number(make: Make, tmp_path: Path) -> None:
    """NaN and infinity arrive as they are: to filter them is the projection's work, which gives the reason."""
    async with make(tmp_path) as source:
        batch = await source.fetch(SampleRequest(("vllm:num_requests_running", "vllm:num_requests_waiting")), T0)
    values = [s.value for s in batch.samples]
    assert any(math.isnan(v) for v in values)
    assert any(math.isinf(v) for v in values)


@SOURCES
async def test_it_tells_when_a_sample_was_taken(make: Make, tmp_path: Path) -> None:
    """The time stamp is that of the sample, not that of the fetch."""
    async with make(tmp_path) as source:
        batch = await source.fetch(SampleRequest(("vllm:kv_cache_usage_perc",)), T0 + 40.0)
    assert [s.at_s for s in batch.samples] == [T0]


@pytest.mark.parametrize("make", [prometheus, scrape, recording])  # a replay knows only what was asked back then
async def test_an_unknown_name_is_an_empty_answer(make: Make, tmp_path: Path) -> None:
    """That there are no such series is an answer, and no error."""
    async with make(tmp_path) as source:
        batch = await source.fetch(SampleRequest(("vllm:renamed_again",)), T0)
    assert batch.samples == ()


@SOURCES
async def test_it_may_be_closed_twice(make: Make, tmp_path: Path) -> None:
    """Closing is safe at any time."""
    async with make(tmp_path) as source:
        await source.fetch(SampleRequest(("vllm:kv_cache_usage_perc",)), T0)
        await source.close()


@BROKEN
async def test_a_failure_is_a_source_error_with_a_reason(make: Make, tmp_path: Path) -> None:
    """A source that cannot answer says so in the one way that the observer knows, every time that it is asked."""
    async with make(tmp_path) as source:
        for _ in range(2):
            with pytest.raises(SourceError) as caught:
                await source.fetch(SampleRequest(("vllm:num_requests_running",)), T0)
            assert caught.value.reason is Reason.SOURCE_DOWN
            assert str(caught.value)
