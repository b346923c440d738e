"""What a whole tick costs the controller's process, part by part, beside the budgets of each part."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.bench.arithmetic import Spread
from tests.bench.children import Child, running
from tests.bench.costs import BUDGETED_WORKLOADS, COLLECT_MB, COLLECT_S, DECIDE_S, PUBLISH_S, REPLICAS
from tests.bench.figures import Figure, Target

HEARTBEAT_ONLY: Final = Target(at_most=1.0)  # objects written in the period of a heartbeat
WITHIN_S: Final = 900.0


def tick_costs(workloads: int, ticks: int, folder: Path) -> list[Figure]:
    """Return what ticks over `workloads` of 10 pods each cost, and a scrape and a checkpoint of the controller."""
    extent = {"workloads": workloads, "replicas": REPLICAS}
    with (
        running(Child.module("aggregating", extent, folder)) as metrics,
        running(Child.module("api_server", {}, folder)) as api,
    ):
        urls = {"url": metrics.hear()["url"], "api": api.hear()["url"]}
        task = extent | urls | {"ticks": ticks, "folder": str(folder)}
        with running(Child.module("tick", task, folder)) as child:
            seen = child.hear(WITHIN_S)
    return _of_ticks(seen, workloads) + _beside(seen)


def _of_ticks(seen: Mapping[str, Any], workloads: int) -> list[Figure]:
    group = f"a whole tick, {workloads} workloads x {REPLICAS} pods, {seen['queries']} queries, {seen['rows']} rows"
    budgeted = workloads == BUDGETED_WORKLOADS
    parts = (
        ("CPU time to collect, GPU activity included", "collect_s", COLLECT_S),
        ("CPU time to decide", "decide_s", DECIDE_S),
        ("CPU time to publish what changed", "publish_s", PUBLISH_S),
        ("CPU time of the tick", "tick_s", None),
        ("of it, garbage collection", "garbage_s", None),
        ("wall time of the tick", "wall_s", None),
    )
    return [
        *(
            Figure.of(group, name, "s", Spread.of(seen[part]), target if budgeted else None)
            for name, part, target in parts
        ),
        Figure.of(group, "share of the answers that a tick changed", "%", Spread.of(seen["changed"])),
        Figure(group, "peak memory of the process", "MB", seen["peak_mb"], COLLECT_MB),
        Figure(group, "longest single garbage collection", "ms", seen["longest_garbage_s"] * 1e3),
        Figure(group, "longest hold of the event loop in a tick", "ms", seen["tick_stall_s"] * 1e3),
        Figure(group, "writes in 4 ticks when nothing changes", "", seen["still_writes"], HEARTBEAT_ONLY),
    ]


def _beside(seen: Mapping[str, Any]) -> list[Figure]:
    group = f"beside the ticks, {seen['series']} series of {seen['scrape_mb']:.1f} MB"
    return [
        Figure(group, "CPU time of a scrape of the controller", "s", seen["scrape_s"]),
        Figure(group, "longest hold of the event loop in it", "ms", seen["scrape_stall_s"] * 1e3),
        Figure(group, "CPU time of a checkpoint", "s", seen["checkpoint_s"]),
    ]
