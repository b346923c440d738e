"""The simulated fleet over real HTTP and real files, on a clock that the test moves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scaler.adapters.cluster_file import FileClusterView
from scaler.adapters.targets_file import TargetsFile
from scaler.backtest.plant import Plant
from scaler.core.observation import ReplicaCounts
from scaler.core.values import WorkloadId
from scaler.demo.fleet import Fleet
from tests.plant_builders import STEADY, T0, plant, requests_at

DEADLINE_S = 20.0


class HandClock:
    """A clock that stands still until it is moved. Nothing waits longer for it than a moment."""

    def __init__(self) -> None:
        self.at_s = T0

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    def from_wall(self, wall_s: float) -> float:
        return wall_s

    def wall_duration(self, duration_s: float) -> float:
        return min(duration_s, 0.01)


@asynccontextmanager
async def serving(fleet_plant: Plant, folder: Path) -> AsyncIterator[tuple[Fleet, HandClock, aiohttp.ClientSession]]:
    clock = HandClock()
    async with Fleet(fleet_plant, clock, folder) as fleet, aiohttp.ClientSession() as session:
        yield fleet, clock, session


async def scrape(fleet: Fleet, session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(f"http://{fleet.address}{path}") as answer:
        return answer.status, await answer.text()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - the condition is in a file: nothing can signal it
            await asyncio.sleep(0.005)


def document(path: Path) -> Any:
    return json.loads(path.read_text())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_pod_is_scraped(tmp_path: Path) -> None:
    """A ready pod answers under its own path with what its engine does now."""
    async with serving(plant(requests_at(1), profile=STEADY), tmp_path) as (fleet, clock, session):
        status, text = await scrape(fleet, session, "/pods/demo/chat-0/metrics")
        assert status == 200
        assert 'vllm:num_requests_running{engine="0",model_name="toy"} 0.0\n' in text
        clock.at_s = T0 + 5
        _, text = await scrape(fleet, session, "/pods/demo/chat-0/metrics")
        assert 'vllm:num_requests_running{engine="0",model_name="toy"} 1.0\n' in text


async def test_a_pod_that_cannot_answer_does_not(tmp_path: Path) -> None:
    """A pending or silent pod answers 503, one that is not there, or of another namespace, 404."""
    async with serving(plant(requests_at(), replicas=1), tmp_path) as (fleet, clock, session):
        fleet.scale(2)
        assert (await scrape(fleet, session, "/pods/demo/chat-1/metrics"))[0] == 503
        fleet.plant.silence("chat-0", clock.at_s)
        assert (await scrape(fleet, session, "/pods/demo/chat-0/metrics"))[0] == 503
        assert (await scrape(fleet, session, "/pods/demo/chat-9/metrics"))[0] == 404
        assert (await scrape(fleet, session, "/pods/other/chat-0/metrics"))[0] == 404
        fleet.scale(0)
        assert (await scrape(fleet, session, "/pods/demo/chat-0/metrics"))[0] == 404


async def test_the_files_follow_the_fleet(tmp_path: Path) -> None:
    """Both files are there from the start and are replaced when a pod changes, as Headway's own readers see them."""
    async with serving(plant(requests_at(0, 0), replicas=2, profile=STEADY), tmp_path) as (fleet, clock, _):
        view, key = FileClusterView(fleet.cluster_path), WorkloadId("demo", "chat")
        assert (await view.snapshot()).workloads[key].counts == ReplicaCounts(spec=2, ready=2)
        assert len(TargetsFile(fleet.targets_path).load()) == 3  # two pods and the GPU exporter
        fleet.scale(3)
        await until(lambda: document(fleet.cluster_path)["workloads"][0]["spec"] == 3)
        assert (await view.snapshot()).workloads[key].counts == ReplicaCounts(spec=3, ready=2, pending=1)
        assert len(TargetsFile(fleet.targets_path).load()) == 3  # a pod that has not started has no endpoint
        clock.at_s = T0 + 5
        fleet.scale(1)  # the pending one goes, and a busy one drains
        await until(lambda: document(fleet.cluster_path)["workloads"][0]["spec"] == 1)
        snapshot = (await view.snapshot()).workloads[key]
        assert snapshot.counts == ReplicaCounts(spec=1, ready=1, terminating=1)
        assert snapshot.pods == ("chat-0",)
        assert len(TargetsFile(fleet.targets_path).load()) == 3  # a draining pod is still scraped
        clock.at_s = T0 + 50
        await until(lambda: len(document(fleet.cluster_path)["workloads"][0]["pods"]) == 1)
        assert [target.url for target in TargetsFile(fleet.targets_path).load()] == [
            f"http://{fleet.address}/pods/demo/chat-0/metrics",
            f"http://{fleet.address}/dcgm/metrics",
        ]


async def test_targets_carry_the_pods_names(tmp_path: Path) -> None:
    """A target's labels name its pod and namespace; those of the GPU exporter are its own."""
    async with serving(plant(requests_at()), tmp_path) as (fleet, _, _session):
        assert [dict(target.labels) | {"instance": ""} for target in TargetsFile(fleet.targets_path).load()] == [
            {"namespace": "demo", "pod": "chat-0", "instance": ""},
            {"namespace": "gpu-operator", "pod": "dcgm-exporter-0", "instance": ""},
        ]


async def test_gpu_activity_is_the_busy_share(tmp_path: Path) -> None:
    """A GPU's activity is the share of the last interval in which its pod had work."""
    async with serving(plant(requests_at(3), replicas=2, profile=STEADY), tmp_path) as (fleet, clock, session):
        clock.at_s = T0 + 20  # one request of 10 s
        _, text = await scrape(fleet, session, "/dcgm/metrics")
        values = [float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")]
        assert values == pytest.approx([0.5, 0.0])


async def test_a_clock_before_the_traffic_waits_for_it(tmp_path: Path) -> None:
    """While the clock shows a time before the plant's start, the fleet stands as it is."""
    async with serving(plant(requests_at(0)), tmp_path) as (fleet, clock, _):
        clock.at_s = T0 - 100
        assert fleet.view().at_s == T0
        assert fleet.replicas() == (1, 1)


async def test_nothing_is_left_when_it_ends(tmp_path: Path) -> None:
    """After the context the server is gone, and no draft of a file is left."""
    async with serving(plant(requests_at()), tmp_path) as (fleet, _, session):
        address = fleet.address
        await scrape(fleet, session, "/dcgm/metrics")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://{address}/dcgm/metrics")
    assert names(tmp_path) == ["cluster.json", "targets.json"]
