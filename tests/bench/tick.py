"""What a whole tick costs: the real controller, from the metrics server's answers to ConfigMaps, in one process.

A process of the bench. The metrics server and the API server are others, reached over real HTTP. The cluster's view is
there already, with a record of every pod: what following the cluster costs has a part of its own (`pods.py`).
"""

import asyncio
import gc
import json
import resource
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import structlog

import scaler.compose  # noqa: F401  # what the role has loaded weighs on its garbage collection
from scaler.adapters.aggregated import AggregatedActivity, AggregatedReplicas
from scaler.adapters.asking import Server
from scaler.adapters.exporter import ControllerCollector, ControllerSnapshot
from scaler.adapters.http import HttpServer, metrics_app
from scaler.adapters.kubernetes.api import ApiConnection, at
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_store import ConfigMapPlanStore
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.state_store import FileStateStore
from scaler.compose.parts import registry_of_process
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import Observation, ReplicaCounts
from scaler.core.published import Answer, answers_of
from scaler.core.values import Known, WorkloadId
from scaler.ports import ClusterSnapshot, PodRecord, WorkloadView
from scaler.runtime.control import Controller, Ports
from scaler.runtime.interpreter import collect_between_ticks
from scaler.runtime.leadership import SoleLeadership
from scaler.runtime.policy import FixedPolicy
from tests.bench.aggregating import START_S, TICK_S, pod_names
from tests.bench.children import MeasurementError, say, told
from tests.bench.collect import WARM_UP_TICKS, TickingClock
from tests.bench.fleet import policy, workload_ids
from tests.bench.take_up import beating

BEAT_TICKS: Final = 4  # of a controller's heartbeat
REST_WITHIN_TICKS: Final = 16  # after which nothing may move any more
HOLD_S: Final = TICK_S  # so that targets follow the load, and come to rest soon after it
PARTS: Final = ("collect_s", "decide_s", "publish_s", "tick_s", "wall_s", "garbage_s")
_NAMESPACE: Final = "headway"


@dataclass(frozen=True, slots=True)
class ListedView:
    """A view of the cluster as it was listed, always current."""

    workloads: Mapping[WorkloadId, WorkloadView]
    clock: TickingClock

    @classmethod
    def of(cls, workloads: int, replicas: int, clock: TickingClock) -> Self:
        """Return the view of a fleet that the metrics server knows too."""
        return cls({key: _seen(key, replicas) for key in workload_ids(workloads)}, clock)

    async def snapshot(self) -> ClusterSnapshot:
        """Return the view."""
        return ClusterSnapshot(self.clock.now_s(), self.workloads)


def _seen(key: WorkloadId, replicas: int) -> WorkloadView:
    names = pod_names(key.name, replicas)
    members = tuple(_record(key, name, number) for number, name in enumerate(names))
    return WorkloadView(ReplicaCounts(replicas, replicas), names, members=members)


def _record(key: WorkloadId, name: str, number: int) -> PodRecord:
    return PodRecord(
        namespace=key.namespace,
        name=name,
        uid=f"uid-of-{name}",
        owner=f"owner-of-{key.name}",
        template="7f9c9d6b8",
        phase="Running",
        ready=True,
        gated=False,
        unschedulable=False,
        terminating=False,
        node=f"gpu-node-{number:04}",
        ip=f"10.0.{number % 256}.1",
        ports=(8000,),
        created_s=START_S - 4000.0 - number,
        scheduled_s=START_S - 3990.0 - number,
        ready_s=START_S - 3700.0 - number,
    )


@dataclass
class StampingObserver:
    """An observer that notes the CPU time when collecting begins and ends, and when the decision is there.

    The controller asks for its problems once it has decided.
    """

    observer: CollectingObserver
    begun_s: float = 0.0
    collected_s: float = 0.0
    decided_s: float = 0.0
    seen: Observation = field(default_factory=lambda: Observation({}))

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the observer's."""
        self.decided_s = time.process_time()
        return self.observer.problems

    async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
        """Observe."""
        self.begun_s = time.process_time()
        self.seen = await self.observer.observe(workloads, now_s)
        self.collected_s = time.process_time()
        return self.seen


class Collections:
    """The garbage collector's CPU time, as it tells of each collection."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self.longest_s = 0.0
        self._began_s = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.thread_time()
            return
        took_s = time.thread_time() - self._began_s
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)


@dataclass
class Rig:
    """A controller with all that it is connected to."""

    controller: Controller
    observer: StampingObserver
    clock: TickingClock
    api: ApiConnection
    metrics_url: str
    collections: Collections = field(default_factory=Collections)
    collect: Callable[[], None] | None = None  # garbage, between ticks; None: whenever the interpreter will
    changed: list[float] = field(default_factory=list)  # percent of the answers, in each tick
    took_s: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})

    async def tick(self) -> bool:
        """Tick and note what it took; return whether a plan was written. MeasurementError for a tick not whole."""
        self.clock.at_s += TICK_S
        before = self.answers()
        garbage_s = self.collections.total_s
        before_s = time.process_time()
        report = await self.controller.tick()
        ended_s = time.process_time()
        if report.problems:
            raise MeasurementError("; ".join(report.problems))
        if self.collect is not None:
            self.collect()
        observer = self.observer
        took = (
            observer.collected_s - observer.begun_s,
            observer.decided_s - observer.collected_s,
            ended_s - observer.decided_s,
            ended_s - before_s,
            report.took_s,
            self.collections.total_s - garbage_s,
        )
        for part, seconds in zip(self.took_s.values(), took, strict=True):
            part.append(seconds)
        answers = self.answers()
        moved = sum(before.get(key) != answer for key, answer in answers.items())
        self.changed.append(100 * moved / max(1, len(answers)))
        return report.published

    def answers(self) -> Mapping[WorkloadId, Answer]:
        """Return what the last plan answers."""
        return answers_of(self.controller.last.plan) if self.controller.last else {}

    def written(self) -> dict[str, str]:
        """Return the version of every ConfigMap: a write changes it."""
        answer = json.loads(self.api.raw(f"/api/v1/namespaces/{_NAMESPACE}/configmaps"))
        return {it["metadata"]["name"]: it["metadata"]["resourceVersion"] for it in answer["items"]}

    def snapshot(self) -> ControllerSnapshot:
        """Return what the exporter shows."""
        last = self.controller.last
        return ControllerSnapshot(
            plan=last.plan if last else None,
            version=last.version if last else None,
            leading=True,
            ticks=len(self.took_s["tick_s"]),
            tick_errors=0,
            ticks_skipped=0,
            tick_duration_s=last.took_s if last else None,
        )


async def measure(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ticks cost by part, what a scrape and a checkpoint do, and what is written when all is still."""
    workloads, replicas = int(task["workloads"]), int(task["replicas"])
    clock = TickingClock(START_S)
    source = PrometheusSource(PrometheusSettings(task["url"], read_timeout_s=120.0, total_timeout_s=240.0), clock)
    api = ApiConnection(at(str(task["api"])), clock)
    rig = _rig(task, source, api, clock)
    rig.collect = collect_between_ticks() if task.get("tidy") else None
    try:
        for _ in range(WARM_UP_TICKS):
            await rig.tick()
        for noted in (*rig.took_s.values(), rig.changed):
            noted.clear()
        for _ in range(int(task["ticks"])):
            await rig.tick()
        _check(rig.observer.seen, workloads * replicas)
        took = {part: list(values) for part, values in rig.took_s.items()}
        stats = rig.observer.observer.stats
        asked = {"queries": stats.fetches, "rows": stats.samples, "changed": list(rig.changed)}
        asked["longest_garbage_s"] = rig.collections.longest_s
        return took | asked | await _beside(rig) | await _still(rig) | {"peak_mb": _peak_mb()}
    finally:
        await source.close()
        api.close()


def _rig(task: Mapping[str, Any], source: PrometheusSource, api: ApiConnection, clock: TickingClock) -> Rig:
    count, decision = int(task["workloads"]), DecisionSettings(hold_s=HOLD_S)
    server = Server(source, 600.0)
    observer = CollectingObserver(
        source,
        ListedView.of(count, int(task["replicas"]), clock),
        clock,
        decision,
        replicas=AggregatedReplicas(server, clock, decision),
        activity=AggregatedActivity(server, clock, decision),
    )
    stamping = StampingObserver(observer)
    ports = Ports(
        FixedPolicy(policy(count, decision)),
        stamping,
        ConfigMapPlanStore(api, PlanStoreSettings(_NAMESPACE, "bench")),
        FileStateStore(Path(task["folder"]) / "state.json"),
        SoleLeadership(),
        clock,
    )
    return Rig(Controller(ports, heartbeat_s=BEAT_TICKS * TICK_S), stamping, clock, api, str(task["url"]))


def _check(seen: Observation, replicas: int) -> None:
    readings = [replica for workload in seen.workloads.values() for replica in workload.replicas]
    signals = [reading for it in readings for reading in (it.running, it.completions_rps, it.gpu_activity)]
    if len(readings) != replicas or not all(isinstance(reading, Known) for reading in signals):
        raise MeasurementError("not every replica was read")


async def _beside(rig: Rig) -> dict[str, Any]:
    """Scrape the controller, tick and save its state while a pulse beats on the same loop."""
    registry = registry_of_process()
    stats = rig.observer.observer
    registry.register(ControllerCollector(rig.snapshot, rig.clock.now_s, lambda: stats.stats))
    async with HttpServer(metrics_app(registry, lambda: (True, "")), "127.0.0.1:0") as http:
        before_s, began_s = time.process_time(), time.perf_counter()
        async with beating() as pulse:
            size, series = await asyncio.to_thread(_scrape, f"http://127.0.0.1:{http.port}/metrics")
        scraped = {"scrape_s": time.process_time() - before_s, "scrape_wall_s": time.perf_counter() - began_s}
    scraped |= {"scrape_stall_s": pulse.longest_s, "scrape_mb": size / 1e6, "series": series}
    async with beating() as pulse:
        await rig.tick()
    before_s = time.process_time()
    await asyncio.to_thread(rig.controller.checkpoint)
    return scraped | {"tick_stall_s": pulse.longest_s, "checkpoint_s": time.process_time() - before_s}


def _scrape(url: str) -> tuple[int, int]:
    """Return the size and the number of the series; the text is as long as a Prometheus without compression gets it."""
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310  # our own server
        text = answer.read()
    return len(text), sum(not line.startswith(b"#") for line in text.splitlines())


async def _still(rig: Rig) -> dict[str, Any]:
    """Let the load stand still, then the targets; return what the ticks of one heartbeat's period write."""
    request = urllib.request.Request(f"{rig.metrics_url}/steady", method="POST")  # noqa: S310  # our own server
    await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=60).close())  # noqa: S310  # as above
    unchanged, writes = 0, 0
    for _ in range(REST_WITHIN_TICKS):
        before = rig.written()
        published = await rig.tick()
        written = sum(before.get(name) != version for name, version in rig.written().items())
        unchanged, writes = (0, 0) if published else (unchanged + 1, writes + written)
        if unchanged == BEAT_TICKS:
            return {"still_ticks": unchanged, "still_writes": writes}
    raise MeasurementError(f"answers still changed {REST_WITHIN_TICKS} ticks after the load had come to rest")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for the parent
    say(asyncio.run(measure(told())))
