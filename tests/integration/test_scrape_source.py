"""ScrapeSource against targets over real HTTP, good and bad."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scaler.adapters.scrape import ScrapeSettings, ScrapeSource
from scaler.core.values import Reason
from scaler.ports import Sample, SampleRequest, SourceError
from tests.metrics_fakes import FIXTURES, T0, FixedClock, Handler, http_server

RUNNING = SampleRequest(("vllm:num_requests_running", "up"))
GOOD = "# TYPE vllm:num_requests_running gauge\n" + 'vllm:num_requests_running{engine="0"} 3\n'


class Targets:
    """A `file_sd` file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "targets.json"

    def write(self, *groups: dict[str, Any]) -> None:
        """Replace the file, as whoever keeps it should: whole."""
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(groups))
        new.replace(self.path)


@pytest.fixture
def targets(tmp_path: Path) -> Targets:
    return Targets(tmp_path)


@asynccontextmanager
async def source_for(targets: Targets, **settings: Any) -> AsyncIterator[ScrapeSource]:
    """Make a source, and close it at the end."""
    source = ScrapeSource(ScrapeSettings(targets.path, **settings), FixedClock())
    try:
        yield source
    finally:
        await source.close()


def group(url: str, **labels: str) -> dict[str, Any]:
    """Make a target group of one target."""
    return {"targets": [url.removeprefix("http://")], "labels": {"namespace": "demo", "pod": "chat-0"} | labels}


async def scrape(targets: Targets, handler: Handler, **settings: Any) -> list[Sample]:
    """Scrape one target that behaves so."""
    async with http_server(handler) as server, source_for(targets, **settings) as source:
        targets.write(group(server.url))
        return list((await source.fetch(RUNNING, T0)).samples)


def text(body: str, status: int = 200, content_type: str = "text/plain") -> Handler:
    """Answer with this text."""

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=body, status=status, content_type=content_type)

    return handler


def ups(samples: list[Sample]) -> list[float]:
    """Return the values of `up`."""
    return [s.value for s in samples if s.name == "up"]


async def test_a_good_target(targets: Targets) -> None:
    """Its series come with the target's labels and the time of the scrape; `up` is 1."""
    samples = await scrape(targets, text(GOOD))
    running = next(s for s in samples if s.name == "vllm:num_requests_running")
    assert (running.value, running.at_s) == (3.0, T0)
    assert running.labels.keys() == {"engine", "instance", "namespace", "pod"}
    assert ups(samples) == [1.0]


async def test_the_whole_recorded_exposition_parses(targets: Targets) -> None:
    """All wanted samples of a real exposition arrive, histogram buckets included, and nothing else."""
    request = SampleRequest(("vllm:num_requests_running", "vllm:request_queue_time_seconds_bucket"))
    async with http_server(text((FIXTURES / "vllm.txt").read_text())) as server, source_for(targets) as source:
        targets.write(group(server.url))
        samples = (await source.fetch(request, T0)).samples
    assert len(samples) == 2 + 2 * 22


async def test_a_pod_s_own_labels_do_not_displace_the_target_s(targets: Targets) -> None:
    """What a pod claims to be becomes `exported_...`, even where it also exports that label."""
    claim = 'vllm:num_requests_running{namespace="other",pod="victim",exported_pod="x",instance="y"} 9\n'
    samples = await scrape(targets, text(claim + 'up{pod="victim"} 1\n'))
    labels = next(s.labels for s in samples if s.name == "vllm:num_requests_running")
    assert (labels["namespace"], labels["pod"]) == ("demo", "chat-0")
    assert labels["exported_namespace"] == "other"
    assert {labels["exported_pod"], labels["exported_exported_pod"]} == {"victim", "x"}
    assert len(ups(samples)) == 1


async def test_a_time_stamp_in_the_exposition_is_ignored(targets: Targets) -> None:
    """A pod cannot make its own samples fresh."""
    samples = await scrape(targets, text("vllm:num_requests_running 3 4102444800000\n"))
    assert {s.at_s for s in samples} == {T0}


@pytest.mark.parametrize(
    "bad",
    [
        text("", 500),
        text("starting", 503),
        text("<html>vllm:num_requests_running 3</html>", content_type="text/html"),
        text('{"running": 3}', content_type="application/json"),
        text("vllm:num_requests_running three\n"),
        text('vllm:num_requests_running{engine="0 3\n'),
        text("vllm:num_requests_running\n"),
    ],
)
async def test_a_bad_target_is_down_and_the_others_are_not(targets: Targets, bad: Handler) -> None:
    """One broken target has `up` 0 and no series; its neighbour is unaffected, and the answer is not partial."""
    async with http_server(bad) as broken, http_server(text(GOOD)) as good, source_for(targets) as source:
        targets.write(group(broken.url), group(good.url, pod="chat-1"))
        batch = await source.fetch(RUNNING, T0)
    assert {(s.name, s.labels["pod"], s.value) for s in batch.samples} == {
        ("up", "chat-0", 0.0),
        ("up", "chat-1", 1.0),
        ("vllm:num_requests_running", "chat-1", 3.0),
    }
    assert batch.partial == ()


async def test_nobody_listens(targets: Targets) -> None:
    """A pod that refuses connections is down."""
    async with http_server(text(GOOD)) as gone:
        pass
    async with source_for(targets) as source:
        targets.write(group(gone.url))
        assert ups(list((await source.fetch(RUNNING, T0)).samples)) == [0.0]


async def test_a_slow_target_is_given_up(targets: Targets) -> None:
    """A target that does not answer in time is down; the fetch does not wait for it."""

    async def handler(request: web.Request) -> web.Response:
        await server.release.wait()
        return web.Response()

    async with http_server(handler) as server, source_for(targets, timeout_s=0.1) as source:
        targets.write(group(server.url))
        assert ups(list((await source.fetch(RUNNING, T0)).samples)) == [0.0]


async def test_a_body_without_end_is_cut(targets: Targets) -> None:
    """A target whose body passes the bound is down, and not much more than the bound is read."""
    written = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        while True:  # ends with the connection
            await response.write(b"# filler\n" * 8192)
            written += 8192 * 9

    assert ups(await scrape(targets, handler, max_body_bytes=2**20, timeout_s=10.0)) == [0.0]
    assert written < 16 * 2**20  # the bound and what the sockets hold


async def test_redirects_are_not_followed(targets: Targets) -> None:
    """A pod cannot send the scraper elsewhere."""
    async with http_server(text(GOOD)) as elsewhere:

        async def handler(request: web.Request) -> web.Response:
            raise web.HTTPFound(elsewhere.url)

        assert ups(await scrape(targets, handler)) == [0.0]
    assert elsewhere.requests == []


async def test_the_target_list_is_read_again_when_it_changes(targets: Targets) -> None:
    """Pods that come and go are followed from one fetch to the next."""
    async with http_server(text(GOOD)) as server, source_for(targets) as source:
        for pods in (["chat-0"], ["chat-0", "chat-1"], []):
            targets.write(*(group(server.url, pod=pod) for pod in pods))
            batch = await source.fetch(RUNNING, T0)
            assert sorted(s.labels["pod"] for s in batch.samples if s.name == "up") == pods


async def test_labels_steer_the_scrape_as_in_prometheus(targets: Targets) -> None:
    """`__metrics_path__` is the path; labels that begin with `__` are not labels of series."""
    async with http_server(text(GOOD)) as server, source_for(targets) as source:
        targets.write(group(server.url, __metrics_path__="/pods/demo/chat-0/metrics", __meta_x="y"))
        batch = await source.fetch(RUNNING, T0)
    assert [r["path"] for r in server.requests] == ["/pods/demo/chat-0/metrics"]
    assert not [name for s in batch.samples for name in s.labels if name.startswith("__")]


async def test_connections_are_kept(targets: Targets) -> None:
    """Scraping every few seconds does not open a connection each time."""
    async with http_server(text(GOOD)) as server, source_for(targets) as source:
        targets.write(group(server.url))
        for tick in range(5):
            await source.fetch(RUNNING, T0 + tick)
    assert len(server.requests) == 5
    assert len(server.peers) == 1


async def test_no_more_targets_at_once_than_allowed(targets: Targets) -> None:
    """A large fleet is scraped in bounded portions."""
    at_once, most = 0, 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        return web.Response(text=GOOD)

    async with http_server(handler) as server, source_for(targets, concurrency=3) as source:
        targets.write(*(group(server.url, pod=f"chat-{i}") for i in range(20)))
        batch = await source.fetch(RUNNING, T0)
    assert len(ups(list(batch.samples))) == 20
    assert most <= 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("[{", "Invalid JSON"),
        ('{"targets": []}', "document: Input should be a valid array"),
        ('[{"targets": ["a:1"]}, {"targets": "b:1"}]', r"\[1\].targets: Input should be a valid array"),
        ('[{"targets": ["a:1"], "lables": {}}]', r"\[0\].lables: Extra inputs"),
        ('[{"targets": ["a:1"], "labels": {"__scheme__": "file"}}]', "__scheme__ must be http or https, was 'file'"),
        ('[{"targets": ["a:1"], "labels": {"__metrics_path__": "@evil"}}]', "__metrics_path__ must start with '/'"),
    ],
)
async def test_a_bad_target_list_is_an_error_that_names_the_file(
    targets: Targets, content: str | None, message: str
) -> None:
    """Without a list of targets nothing is known; the error says which file and what is wrong with it."""
    if content is not None:
        targets.path.write_text(content)
    async with source_for(targets) as source:
        with pytest.raises(SourceError, match=message) as caught:
            await source.fetch(RUNNING, T0)
    assert str(caught.value).startswith(str(targets.path))
    assert caught.value.reason is Reason.SOURCE_DOWN


async def test_a_target_is_scraped_once_a_tick(targets: Targets) -> None:
    """Whoever else wants something of it in the same tick gets it from the same scrape; the next tick is a new one."""
    other = SampleRequest(("vllm:num_requests_waiting",))
    text = GOOD + 'vllm:num_requests_waiting{engine="0"} 1\n'

    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=text)

    async with http_server(handler) as server, source_for(targets) as source:
        targets.write(group(server.url))
        for tick in range(3):
            both = await asyncio.gather(source.fetch(RUNNING, T0 + tick), source.fetch(other, T0 + tick))
            names = [{sample.name for sample in batch.samples} for batch in both]
            assert names == [set(RUNNING.names), set(other.names)]
    assert len(server.requests) == 4  # in the first tick it was not yet known what else would be wanted


async def test_without_any_list_of_targets_there_is_no_source() -> None:
    """Settings name a file, or something else says what to scrape."""
    with pytest.raises(ValueError, match="targets_file must be given"):
        ScrapeSource(ScrapeSettings(), FixedClock())
