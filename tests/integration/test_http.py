"""Metrics, probes and the admin port over real connections."""

import json
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from scaler.adapters.http import HttpServer, admin_app, admin_server, metrics_app

Asked = tuple[str | None, str | None, int, str | None]


class Plans:
    """Stands in for what `/plan` shows, and remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def __call__(self, namespace: str | None, name: str | None, limit: int, continue_: str | None) -> Mapping[str, Any]:
        self.asked.append((namespace, name, limit, continue_))
        if continue_ == "bad":
            raise ValueError("continue must be a token of an answer, was 'bad'")
        return {"schema": 1, "workloads": []}


async def get(
    server: HttpServer, path: str, at: str = "127.0.0.1", **headers: str
) -> tuple[int, str, Mapping[str, str]]:
    """Return status, text and headers."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{at}:{server.port}{path}", headers=headers) as response,
    ):
        return response.status, await response.text(), response.headers


def metrics_server(registry: CollectorRegistry, ready: tuple[bool, str] = (True, "holds plan 1.1")) -> HttpServer:
    """Return a server of `/metrics` and the probes on a free port."""
    return HttpServer(metrics_app(registry, lambda: ready), "127.0.0.1:0")


@pytest.mark.parametrize("accept", ["*/*", "application/openmetrics-text; version=1.0.0", "text/plain"])
async def test_metrics(accept: str) -> None:
    """Whatever format Prometheus asks for, it gets the registry's series."""
    registry = CollectorRegistry()
    Counter("headway_ticks", "Ticks.", registry=registry).inc(3)
    async with metrics_server(registry) as server:
        status, text, headers = await get(server, "/metrics", Accept=accept)
    assert status == 200
    assert ("openmetrics" in headers["Content-Type"]) == ("openmetrics" in accept)
    body = text.removesuffix("# EOF\n")
    samples = {s.name: s.value for family in text_string_to_metric_families(body) for s in family.samples}
    assert samples["headway_ticks_total"] == 3


@pytest.mark.parametrize(("ready", "status"), [((True, "holds plan 1.1"), 200), ((False, "no_plan: not read"), 503)])
async def test_probes(ready: tuple[bool, str], status: int) -> None:
    """Alive is that it answers; ready is what it is told, with the reason."""
    async with metrics_server(CollectorRegistry(), ready) as server:
        assert (await get(server, "/healthz"))[:2] == (200, "ok\n")
        assert (await get(server, "/readyz"))[:2] == (status, f"{ready[1]}\n")
        assert (await get(server, "/plan"))[0] == 404


async def test_plan_filters() -> None:
    """The filters reach the plan as they were asked, with a default limit."""
    plans = Plans()
    async with admin_server(plans, "127.0.0.1:0") as server:
        status, text, headers = await get(server, "/plan")
        assert (status, text) == (200, '{"schema": 1, "workloads": []}')
        assert headers["Content-Type"].startswith("application/json")
        await get(server, "/plan?namespace=shop&name=chat&limit=5&continue=token")
    assert plans.asked == [(None, None, 100, None), ("shop", "chat", 5, "token")]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("limit=0", "limit must be from 1 to 1000, was '0'"),
        ("limit=1001", "limit must be from 1 to 1000, was '1001'"),
        ("limit=-5", "limit must be from 1 to 1000, was '-5'"),
        ("limit=many", "limit must be from 1 to 1000, was 'many'"),
        ("continue=bad", "continue must be a token of an answer, was 'bad'"),
    ],
)
async def test_bad_filters(query: str, error: str) -> None:
    """A filter that is not one is named."""
    async with admin_server(Plans(), "127.0.0.1:0") as server:
        status, text, _ = await get(server, f"/plan?{query}")
    assert status == 400
    assert json.loads(text) == {"error": error}


async def test_the_page_links_the_plan() -> None:
    """A person who opens the port finds the plan."""
    async with admin_server(Plans(), "localhost:0") as server:
        status, text, headers = await get(server, "/")
    assert status == 200
    assert '<a href="/plan">' in text
    assert headers["Content-Security-Policy"] == "default-src 'none'"


@pytest.mark.parametrize(
    ("host", "status"), [("attacker.test", 403), ("localhost:8081", 200), ("[::1]:8081", 200), ("[", 403)]
)
async def test_a_foreign_name_is_refused(host: str, status: int) -> None:
    """A web page cannot read the plan by letting its own name resolve to this machine."""
    plans = Plans()
    async with admin_server(plans, "127.0.0.1:0") as server:
        assert (await get(server, "/plan", Host=host))[0] == status
    assert len(plans.asked) == (status == 200)


@pytest.mark.parametrize("address", [":8081", "0.0.0.0:8081", "[::]:8081", "10.0.0.1:8081", "example.test:8081"])
def test_the_admin_port_stays_on_this_machine(address: str) -> None:
    """Nobody checks who asks, so nobody else can."""
    with pytest.raises(ValueError, match="admin address must be a loopback address"):
        admin_server(Plans(), address)


async def test_all_interfaces_are_one_port() -> None:
    """Without a host the server listens on both IP versions, on the same port, also when any port will do."""
    async with (
        HttpServer(metrics_app(CollectorRegistry(), lambda: (True, "")), ":0") as server,
        aiohttp.ClientSession() as session,
    ):
        for host in ("127.0.0.1", "[::1]"):
            async with session.get(f"http://{host}:{server.port}/healthz") as response:
                assert response.status == 200


async def test_a_port_in_use_is_an_error() -> None:
    """Two roles on one port are told so."""
    async with metrics_server(CollectorRegistry()) as server:
        second = HttpServer(admin_app(Plans()), f"127.0.0.1:{server.port}")
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()
