"""The plant's face: a simulated fleet that looks like a cluster. One HTTP server, two files, and time that passes.

Each pod is scraped under `/pods/<namespace>/<pod>/metrics`, the GPUs under `/dcgm/metrics`. `targets.json` tells a
scraper where (Prometheus file_sd), `cluster.json` tells Headway which pods exist. Both are replaced as a whole whenever
a pod changes. Time comes from a Clock, so that a rehearsal may run faster than the wall's.
"""

import asyncio
import json
import math
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from scaler.adapters.files import replace_file
from scaler.backtest.plant import Plant
from scaler.backtest.pods import Phase
from scaler.backtest.view import FleetView, PodView
from scaler.demo.exposition import GpuReading, VllmText, dcgm_text
from scaler.ports import Clock

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_SLICE_S = 0.05  # wall seconds between two advances: short, so that a scrape never waits for a long one
_SHOWN_EVERY_S = 60.0  # how old the cluster file becomes
_GPU_INTERVAL_S = 15.0  # what an activity reading is averaged over, as dcgm-exporter is scraped


class Fleet:
    """Serves a plant while the clock runs. An async context: server and files are there inside it.

    `folder` must exist; ports are chosen by the system. Time goes no further than `end_s`.
    """

    def __init__(
        self,
        plant: Plant,
        clock: Clock,
        folder: Path,
        *,
        namespace: str = "demo",
        host: str = "127.0.0.1",
        end_s: float = math.inf,
    ) -> None:
        self.plant = plant
        self.namespace = namespace
        self.targets_path = folder / "targets.json"
        self.cluster_path = folder / "cluster.json"
        self._clock = clock
        self._host = host
        self._end_s = end_s
        self._port = 0
        self._vllm = VllmText(plant.profile)
        self._activity = _Activity()
        self._published: object = None
        self._shown_s = 0.0  # when the cluster file was last written
        self._stop = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Return host:port of the server."""
        return f"{self._host}:{self._port}"

    def view(self) -> FleetView:
        """Return the fleet as it is now."""
        return self.plant.view(self._catch_up())

    def scale(self, replicas: int) -> None:
        """Tell the scale target to have `replicas`."""
        self.plant.scale(replicas, self._catch_up())

    def replicas(self) -> tuple[int, int]:
        """Return the scale target's spec.replicas and status.replicas."""
        view = self.view()
        return view.spec, view.replicas

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/pods/{namespace}/{pod}/metrics", self._serve_pod)
        app.router.add_get("/dcgm/metrics", self._serve_gpus)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        await self._publish(self.view())
        self._task = asyncio.create_task(self._run(), name="fleet")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        try:
            if self._task is not None:
                await self._task
        finally:
            if self._runner is not None:
                await self._runner.cleanup()

    async def _run(self) -> None:
        while not self._stop.is_set():
            view = self.view()
            if _shape(view) != self._published:
                await self._publish(view)
            elif self._clock.now_s() - self._shown_s >= _SHOWN_EVERY_S:
                await self._show(view)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _SLICE_S)

    def _catch_up(self) -> float:
        """Bring the plant to now and return that. Before the traffic starts and after it ends, time stands still."""
        now_s = min(max(self._clock.now_s(), self.plant.now_s), self._end_s)
        self.plant.advance(now_s)
        self._activity.note(self.plant, now_s)
        return now_s

    async def _publish(self, view: FleetView) -> None:
        targets = targets_document(view, self.namespace, self.address)
        await asyncio.to_thread(replace_file, self.targets_path, json.dumps(targets, indent=1).encode())
        await self._show(view)
        self._published = _shape(view)

    async def _show(self, view: FleetView) -> None:
        """Write the cluster file: also when nothing has changed, for a view that has not been renewed is stale."""
        self._shown_s = self._clock.now_s()
        document = cluster_document(view, self.namespace, self.plant.name, self._shown_s)
        await asyncio.to_thread(replace_file, self.cluster_path, json.dumps(document, indent=1).encode())

    async def _serve_pod(self, request: web.Request) -> web.Response:
        self._catch_up()
        try:
            metrics = self.plant.pod(request.match_info["pod"])
        except KeyError:
            raise web.HTTPNotFound from None
        if request.match_info["namespace"] != self.namespace:
            raise web.HTTPNotFound
        if metrics is None:
            raise web.HTTPServiceUnavailable
        return web.Response(body=self._vllm.render(metrics), headers={"Content-Type": _TEXT})

    async def _serve_gpus(self, _: web.Request) -> web.Response:
        self._catch_up()
        readings = (GpuReading(self.namespace, pod, share) for pod, share in self._activity.shares.items())
        return web.Response(body=dcgm_text(readings), headers={"Content-Type": _TEXT})


class _Activity:
    """The busy share of each pod's GPU over the last whole interval."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}
        self._since_s = float("-inf")
        self._busy_s: dict[str, float] = {}

    def note(self, plant: Plant, now_s: float) -> None:
        """Measure anew once the interval is over."""
        elapsed_s = now_s - self._since_s
        if elapsed_s < _GPU_INTERVAL_S:
            return
        busy_s = dict(plant.busy_seconds())
        self.shares = {
            # A restarted container counts from zero again.
            pod: min(1.0, max(0.0, total_s - self._busy_s.get(pod, 0.0)) / elapsed_s)
            for pod, total_s in busy_s.items()
        }
        self._since_s, self._busy_s = now_s, busy_s


def targets_document(view: FleetView, namespace: str, address: str) -> list[dict[str, Any]]:
    """Return the scrape targets in Prometheus's file_sd form: pods that have started, and the GPU exporter."""
    pods = [
        {
            "targets": [address],
            "labels": {
                "namespace": namespace,
                "pod": pod.name,
                "__metrics_path__": f"/pods/{namespace}/{pod.name}/metrics",
            },
        }
        for pod in view.pods
        if pod.phase is not Phase.PENDING
    ]
    exporter = {"namespace": "gpu-operator", "pod": "dcgm-exporter-0", "__metrics_path__": "/dcgm/metrics"}
    return [*pods, {"targets": [address], "labels": exporter}]


def cluster_document(view: FleetView, namespace: str, name: str, at_s: float) -> dict[str, Any]:
    """Return the cluster file that Headway's file view reads, as of a time (Unix seconds)."""
    workload = {
        "namespace": namespace,
        "name": name,
        "spec": view.spec,
        "rollout": False,
        "pods": [_pod_document(pod) for pod in view.pods],
    }
    return {"schema": 1, "at_s": at_s, "workloads": [workload]}


def _pod_document(pod: PodView) -> dict[str, Any]:
    return {
        "name": pod.name,
        "phase": "Pending" if pod.phase is Phase.PENDING else "Running",
        "ready": pod.ready,
        "blocked": False,
        "terminating": pod.phase is Phase.DRAINING,
    }


def _shape(view: FleetView) -> object:
    """Return what the two files depend on."""
    return view.spec, tuple((pod.name, pod.phase) for pod in view.pods)
