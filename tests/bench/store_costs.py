"""What a plan in ConfigMaps costs the controller that writes it and the scaler that takes it up."""

from pathlib import Path

from tests.bench.arithmetic import Spread
from tests.bench.children import Child, running
from tests.bench.costs import BUDGETED_WORKLOADS, PUBLISH_S
from tests.bench.figures import Figure


def store_costs(workloads: int, repeats: int, folder: Path) -> list[Figure]:
    """Return the CPU time of whole plans, of small changes and of heartbeats, over HTTP."""
    with running(Child.module("api_server", {}, folder)) as server:
        task = {"url": server.hear()["url"], "workloads": workloads, "plans": repeats}
        with running(Child.module("publish_maps", task, folder)) as child:
            took = child.hear(600.0)
    group = f"a plan of {workloads} workloads in ConfigMaps, over HTTP"
    target = PUBLISH_S if workloads == BUDGETED_WORKLOADS else None
    in_ms = {kind: Spread.of([s * 1e3 for s in taken]) for kind, taken in took.items() if kind != "whole_s"}
    return [
        Figure.of(group, "CPU time to publish it", "s", Spread.of(took["whole_s"]), target),
        Figure.of(group, "CPU time to publish 1 % of changes", "ms", in_ms["part_s"]),
        Figure.of(group, "CPU time of a heartbeat", "ms", in_ms["beat_s"]),
        Figure.of(group, "CPU time to take up the changes", "ms", in_ms["take_up_s"]),
    ]
