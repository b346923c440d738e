"""Engines, a real Prometheus that scrapes them, and Headway's eyes and decision on top: what happens, tick by tick."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from scaler.adapters.observer import CollectingObserver
from scaler.config.models import Policy
from scaler.core.engine import step
from scaler.core.observation import Observation, ReplicaReading
from scaler.core.plan import Plan, Recommendation
from scaler.core.state import EngineState
from scaler.core.values import Known, Reading, WorkloadId
from scaler.ports import Clock
from tests.engines.triton import DEADLINE_S, end_group, free_ports

SCRAPE_S = 0.5


@asynccontextmanager
async def running_prometheus(folder: Path, pods: Mapping[tuple[str, str], str]) -> AsyncIterator[str]:
    """Scrape pods, (namespace, name) to host:port, and return the URL once all of them have been scraped."""
    _configure(folder, pods)
    [port] = free_ports(1)
    process = _start(folder, port)
    try:
        url = f"http://127.0.0.1:{port}"
        await _until_scraped(url, process, len(pods), folder / "prometheus.log")
        yield url
    finally:
        end_group(process)


def _configure(folder: Path, pods: Mapping[tuple[str, str], str]) -> None:
    groups = [
        {"targets": [address], "labels": {"namespace": namespace, "pod": pod}}
        for (namespace, pod), address in pods.items()
    ]
    every = {"scrape_interval": f"{SCRAPE_S * 1000:.0f}ms", "scrape_timeout": f"{SCRAPE_S * 1000:.0f}ms"}
    config = {"global": every, "scrape_configs": [{"job_name": "pods", "static_configs": groups}]}
    folder.mkdir()
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML too


def _start(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    program = shutil.which("prometheus")
    assert program is not None
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"GOMAXPROCS": "1"},
            start_new_session=True,
        )


async def _until_scraped(url: str, process: "subprocess.Popen[bytes]", pods: int, log: Path) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(DEADLINE_S):
        while process.poll() is None:
            try:
                async with session.get(f"{url}/api/v1/query", params={"query": "count(up == 1)"}) as response:
                    result = (await response.json())["data"]["result"] if response.status == 200 else []
            except aiohttp.ClientError:
                result = []
            if result and int(result[0]["value"][1]) == pods:
                return
            await asyncio.sleep(0.05)
    raise AssertionError(f"prometheus ended: {await asyncio.to_thread(log.read_text)}")


@dataclass(frozen=True)
class Tick:
    """What one tick saw and decided."""

    now_s: float
    observation: Observation
    plan: Plan
    problems: tuple[str, ...]

    def replica(self, workload: WorkloadId) -> ReplicaReading:
        """Return the readings of a workload's only replica."""
        [replica] = self.observation.workloads[workload].replicas
        return replica

    def recommendation(self, workload: WorkloadId) -> Recommendation:
        """Return what a workload should have."""
        return self.plan.recommendations[workload]

    def sampled_s(self, reading: Reading) -> float:
        """Return when a known reading was sampled, Unix seconds."""
        assert isinstance(reading, Known), reading
        return self.now_s - reading.age_s


@dataclass
class Ticker:
    """Observes and decides, as a controller does, and keeps every tick."""

    observer: CollectingObserver
    policy: Policy
    clock: Clock
    ticks: list[Tick] = field(default_factory=list)
    _state: EngineState = field(default_factory=EngineState.empty)

    async def tick(self) -> Tick:
        """Observe and decide once, and wait for about as long as until the next scrape."""
        now_s = self.clock.now_s()
        observation = await self.observer.observe(self.policy.workloads, now_s)
        decided = step(self._state, observation, self.policy, now_s)
        self._state = decided.state
        self.ticks.append(Tick(now_s, observation, decided.plan, self.observer.problems))
        await asyncio.sleep(SCRAPE_S)
        return self.ticks[-1]
