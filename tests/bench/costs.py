"""The costs that need no comparison: deciding, publishing, taking up a plan. Each in a process of its own."""

from pathlib import Path
from typing import Any, Final

from tests.bench.arithmetic import Spread
from tests.bench.children import Child, running
from tests.bench.collect import SERIES
from tests.bench.figures import Figure, Target

# Headway's budgets at 10,000 workloads on 2 cores, every 15 s.
COLLECT_S: Final = Target(at_most=4.0)
COLLECT_US: Final = Target(at_most=40.0)  # 4 s for 100,000 replicas
COLLECT_MB: Final = Target(at_most=2000.0)
DECIDE_S: Final = Target(at_most=2.0)
PUBLISH_S: Final = Target(at_most=0.5)
BUDGETED_WORKLOADS: Final = 10_000
REPLICAS: Final = 10  # of each workload


def decision_costs(workloads: int, ticks: int, folder: Path) -> list[Figure]:
    """Return what a decision costs at 4 and at 10 replicas a workload."""
    figures = []
    for replicas in (4, 10):
        task = {"workloads": workloads, "replicas": replicas, "ticks": ticks}
        took_s = _ask("decide", task, folder)["took_s"]
        group = f"deciding, {workloads} workloads x {replicas} replicas"
        target = _budget(DECIDE_S, workloads)
        figures += [
            Figure.of(group, "CPU time of a tick", "s", Spread.of(took_s), target),
            Figure.of(group, "CPU time per workload", "us", Spread.of([s / workloads * 1e6 for s in took_s])),
        ]
    return figures


def collection_costs(workloads: int, ticks: int, folder: Path) -> list[Figure]:
    """Return what it costs to read replicas' metrics: aggregated by the server, and every series by itself."""
    extent = {"workloads": workloads, "replicas": REPLICAS, "ticks": ticks}
    with running(Child.module("aggregating", extent, folder)) as server:
        seen = _ask("collect", extent | server.hear(), folder)
    pods = workloads * REPLICAS
    group = f"collecting, {workloads} workloads x {REPLICAS} replicas, {seen['queries']} queries, {seen['rows']} rows"
    figures = [
        Figure.of(group, "CPU time per replica", "us", _per(seen["took_s"], pods), COLLECT_US),
        Figure.of(group, "CPU time of a tick", "s", Spread.of(seen["took_s"]), _budget(COLLECT_S, workloads)),
        Figure(group, "peak memory", "MB", seen["peak_mb"], COLLECT_MB),
    ]
    return figures + _every_series(max(1, workloads // 10), ticks, folder)


def _every_series(workloads: int, ticks: int, folder: Path) -> list[Figure]:
    seen = _ask("collect", {"workloads": workloads, "replicas": REPLICAS, "ticks": ticks}, folder)
    per_replica_us = _per(seen["took_s"], workloads * REPLICAS)
    group = f"every series of {workloads} workloads x {REPLICAS} replicas x {SERIES} series, {seen['size_mb']:.1f} MB"
    return [
        Figure.of(group, "CPU time per replica", "us", per_replica_us),
        Figure.of(group, "CPU time per series", "us", _per(seen["took_s"], workloads * REPLICAS * SERIES)),
    ]


def _per(took_s: list[float], count: int) -> Spread:
    return Spread.of([s / count * 1e6 for s in took_s])


def plan_costs(workloads: int, repeats: int, folder: Path) -> list[Figure]:
    """Return what a plan costs the controller that writes it and the scaler that takes it up."""
    task = {"folder": str(folder), "workloads": workloads, "plans": repeats + 1}
    published_s = _ask("publish", task, folder)["took_s"]
    size_mb = (folder / "1.json").stat().st_size / 1e6
    taken_up = _ask("take_up", task, folder)
    loads_ms, stalls_ms = ([s * 1e3 for s in taken_up[key]] for key in ("load_s", "stall_s"))
    group = f"a plan of {workloads} workloads, {size_mb:.2f} MB"
    return [
        Figure.of(group, "CPU time to publish", "s", Spread.of(published_s), _budget(PUBLISH_S, workloads)),
        Figure.of(group, "time to take it up", "ms", Spread.of(loads_ms)),
        Figure.of(group, "longest stall of the event loop meanwhile", "ms", Spread.of(stalls_ms)),
    ]


def _ask(module: str, task: dict[str, Any], folder: Path) -> dict[str, Any]:
    with running(Child.module(module, task, folder)) as child:
        return child.hear(600.0)


def _budget(target: Target, workloads: int) -> Target | None:
    """Return the target where it is meant: at as many workloads as Headway is built for."""
    return target if workloads == BUDGETED_WORKLOADS else None
