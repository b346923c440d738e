"""What tests of metrics collection share: a clock, sources in memory, and servers that speak over real HTTP."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from scaler.adapters.scrape import _samples
from scaler.core.values import Reason
from scaler.ports import ClusterSnapshot, Sample, SampleBatch, SampleRequest, SourceError

T0 = 1_700_000_000.0
FIXTURES = Path(__file__).parent / "fixtures" / "exposition"
ALL_NAMES = frozenset(
    re.findall(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)", "\n".join(p.read_text() for p in FIXTURES.glob("*.txt")), re.MULTILINE)
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class FixedClock:
    """A clock that stands where a test puts it."""

    at_s: float = T0

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    def from_wall(self, wall_s: float) -> float:
        return wall_s

    def wall_duration(self, duration_s: float) -> float:
        return duration_s


@dataclass
class ListSource:
    """A source that returns what a test gave it, or fails as told, and remembers what it was asked."""

    samples: Iterable[Sample] = ()
    partial: tuple[str, ...] = ()
    failure: Reason | None = None
    asked: list[SampleRequest] = field(default_factory=list)

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
        self.asked.append(request)
        if self.failure is not None:
            raise SourceError(self.failure, "as told")
        wanted = request.namespaces
        return SampleBatch(
            tuple(
                s
                for s in self.samples
                if s.name in request.names and (not wanted or s.labels.get("namespace") in wanted)
            ),
            self.partial,
        )

    async def close(self) -> None:
        return


@dataclass
class FixedView:
    """A cluster view that a test gave, or none."""

    view: ClusterSnapshot | None

    async def snapshot(self) -> ClusterSnapshot:
        if self.view is None:
            raise SourceError(Reason.VIEW_UNAVAILABLE, "as told")
        return self.view


def exposition(name: str, at_s: float = T0, **target_labels: str) -> list[Sample]:
    """Return the samples of a recorded exposition, scraped at `at_s` from a target with these labels."""
    return list(_samples((FIXTURES / f"{name}.txt").read_text(), ALL_NAMES, target_labels, at_s))


def vllm_pod(pod: str = "chat-0", namespace: str = "demo", name: str = "vllm", at_s: float = T0) -> list[Sample]:
    """Return a pod's recorded vLLM samples."""
    return exposition(name, at_s, namespace=namespace, pod=pod)


@dataclass
class HttpServer:
    """A server on a free port of the loopback whose behaviour a test sets, and changes while it runs."""

    handler: Handler
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    peers: set[Any] = field(default_factory=set)  # client sockets: one per connection
    release: asyncio.Event = field(default_factory=asyncio.Event)  # set at the end, so that slow handlers can go

    async def serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.requests.append({"path": request.path, "headers": request.headers, "form": form})
        self.peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        return await self.handler(request)


@asynccontextmanager
async def http_server(handler: Handler, **site_options: Any) -> AsyncIterator[HttpServer]:
    """Serve `handler` until the end of the block."""
    server = HttpServer(handler)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, **site_options)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"{'https' if site_options.get('ssl_context') else 'http'}://{host}:{port}"
        yield server
    finally:
        server.release.set()
        await runner.cleanup()


def answering(document: Any, status: int = 200) -> Handler:
    """Answer every request with this JSON document, or with this text."""

    async def handler(request: web.Request) -> web.Response:
        if isinstance(document, str):
            return web.Response(text=document, status=status, content_type="text/html")
        return web.Response(text=json.dumps(document), status=status, content_type="application/json")

    return handler


def prometheus_answer(samples: Iterable[Sample], **extra: Any) -> dict[str, Any]:
    """Return what Prometheus answers to a range selector: an older sample and the newest of each series."""
    result = [
        {
            "metric": {"__name__": s.name} | dict(s.labels),
            "values": [[s.at_s - 15.0, "0"], [s.at_s, _prometheus_number(s.value)]],
        }
        for s in samples
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **extra}


def prometheus_api(samples: Iterable[Sample]) -> Handler:
    """Answer `/api/v1/query` as Prometheus does: what the selector in the form matches."""
    kept = list(samples)

    async def handler(request: web.Request) -> web.Response:
        form = parse_qs(await request.text())
        matchers = dict(re.findall(r'(\w+)=~"((?:[^"\\]|\\.)*)"', form["query"][0]))
        unescaped = {label: pattern.replace("\\\\", "\\") for label, pattern in matchers.items()}
        matching = [s for s in kept if all(re.fullmatch(p, _label(s, label)) for label, p in unescaped.items())]
        return web.Response(text=json.dumps(prometheus_answer(matching)), content_type="application/json")

    return handler


def _label(sample: Sample, label: str) -> str:
    return sample.name if label == "__name__" else sample.labels.get(label, "")


def exposition_text(samples: Iterable[Sample]) -> str:
    """Return the samples as an exposition."""
    return "".join(
        f"{s.name}{{{','.join(f'{k}={json.dumps(v)}' for k, v in s.labels.items())}}} {_prometheus_number(s.value)}\n"
        for s in samples
    )


def _prometheus_number(value: float) -> str:
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(value), repr(value))
