"""What watching a cluster costs the controller: the first list of all pods, its memory, and a steady flow of events."""

from pathlib import Path
from typing import Final

from tests.bench.arithmetic import Spread, percentile
from tests.bench.children import Child, running
from tests.bench.costs import BUDGETED_WORKLOADS
from tests.bench.figures import Figure, Target

REPLICAS: Final = 10
EVENTS_PER_S: Final = 200.0
LIST_S: Final = Target(at_most=60.0)
MEMORY_MB: Final = Target(at_most=500.0)
LAG_S: Final = Target(at_most=1.0)  # sustained: what has come is taken over at once


def view_costs(workloads: int, seconds: float, folder: Path) -> list[Figure]:
    """Return what a view of `workloads` of 10 pods each costs, over `seconds` of events."""
    task = {"workloads": workloads, "replicas": REPLICAS, "rate": EVENTS_PER_S, "seconds": seconds}
    with running(Child.module("pod_server", task, folder)) as server:
        told = server.hear()
        with running(Child.module("pods", task | {"port": told["port"]}, folder)) as child:
            seen = child.hear(600.0 + seconds)
            peak_mb = child.peak_mb()
    budgeted = workloads == BUDGETED_WORKLOADS
    group = f"watching {workloads * REPLICAS} pods of {told['bytes'] / 1e3:.1f} kB, {workloads} workloads"
    flow = f"{EVENTS_PER_S:g} events a second"
    lag_s, lags_s = percentile(seen["lags_s"], 0.99), Spread.of(seen["lags_s"])
    snapshots_ms = Spread.of([s * 1e3 for s in seen["snapshots_s"]])
    return [
        Figure(group, "CPU time of the first lists", "s", seen["listed_s"], LIST_S if budgeted else None),
        Figure(group, "peak memory", "MB", peak_mb, MEMORY_MB if budgeted else None),
        Figure(group, "CPU time of the first snapshot", "s", seen["first_s"]),
        Figure(group, f"share of a core, {flow}, a snapshot a second", "%", seen["share"] * 100),
        Figure(group, f"p99 of how far behind, {flow}", "s", lag_s, LAG_S, lags_s),
        Figure.of(group, "CPU time of a later snapshot", "ms", snapshots_ms),
    ]
