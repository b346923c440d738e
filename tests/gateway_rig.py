"""A real Prometheus that scrapes expositions which a test sets, and changes while it runs."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aiohttp import web

from scaler.adapters.clock import SystemClock
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.demo.prometheus_server import prometheus_server
from tests.metrics_fakes import http_server

DEADLINE_S = 60.0  # of waiting for a condition; nothing is asserted about how long it took
SCRAPE_S = 0.2
_Seen = TypeVar("_Seen")


@dataclass
class Target:
    """What a scrape target says, and its labels by service discovery. `text` None: it does not answer."""

    text: str | None
    labels: Mapping[str, str]


@dataclass
class Site:
    """A source that asks the Prometheus, and the file that lists its targets, by path."""

    source: PrometheusSource
    address: str
    listed: Path

    async def value(self, query: str) -> float:
        """Return the value of the first row of an answer, 0 where there is none."""
        rows = (await self.source.vector(query, 0.0)).rows
        return rows[0][1] if rows else 0.0

    async def scrapes(self, path: str, more: int) -> None:
        """Wait until Prometheus has asked a target some times more, whether it answered or not."""
        query = f'max(count_over_time(up{{path="{path}"}}[5m]))'
        start = await self.value(query)
        await eventually(lambda: self.value(query), lambda count: count >= start + more)

    def show(self, targets: Mapping[str, Target]) -> None:
        """Let Prometheus scrape these targets, and no others."""
        groups = [
            {"targets": [self.address], "labels": {"__metrics_path__": path, "path": path, "instance": path} | labels}
            for path, labels in ((path, dict(target.labels)) for path, target in targets.items())
        ]
        self.listed.with_suffix(".new").write_text(json.dumps(groups))
        self.listed.with_suffix(".new").rename(self.listed)


async def eventually(look: Callable[[], Awaitable[_Seen]], wanted: Callable[[_Seen], bool]) -> _Seen:
    """Look until it is as wanted, and return it."""
    seen = await look()
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if wanted(seen):
                    return seen
                await asyncio.sleep(SCRAPE_S / 4)
                seen = await look()
    except TimeoutError:
        raise AssertionError(f"never came to be as wanted, was {seen!r}") from None


@asynccontextmanager
async def running_site(folder: Path, targets: Mapping[str, Target]) -> AsyncIterator[Site]:
    """Serve the targets, run a Prometheus that scrapes them, wait for two scrapes of each, and end all of it."""

    async def answer(request: web.Request) -> web.Response:
        target = targets.get(request.path)
        if target is None or target.text is None:
            raise web.HTTPServiceUnavailable
        return web.Response(text=target.text, content_type="text/plain", charset="utf-8")

    listed = folder / "targets.json"
    listed.write_text("[]")
    async with http_server(answer) as server, prometheus_server(folder, listed, SCRAPE_S) as url:
        source = PrometheusSource(PrometheusSettings(url), SystemClock())
        site = Site(source, server.url.removeprefix("http://"), listed)
        site.show(targets)
        try:
            for path in targets:
                await site.scrapes(path, 2)
            yield site
        finally:
            await source.close()
