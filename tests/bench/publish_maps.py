"""What the plan in ConfigMaps costs: publishing all of it, a hundredth of it and a heartbeat, and taking it up.

A process of the bench. It speaks HTTP to the double of an API server, which is another process.
"""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final

from scaler.adapters.clock import SystemClock
from scaler.adapters.kubernetes.api import ApiConnection, at
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_store import ConfigMapPlanStore
from scaler.core.published import Answer, Heartbeat, PlanVersion, PublishedPlan
from scaler.core.values import WorkloadId
from tests.bench.children import say, told
from tests.bench.fleet import workload_ids

MOVED: Final = 100  # one in so many workloads changes from one small plan to the next
Answers = dict[WorkloadId, Answer]


async def measure(url: str, workloads: int, plans: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each whole plan, small change, heartbeat, and of taking up a small change."""
    api = ApiConnection(at(url), SystemClock())
    writer, reader = (ConfigMapPlanStore(api, PlanStoreSettings("headway", name)) for name in ("a", "scaler"))
    took: dict[str, list[float]] = {"whole_s": [], "part_s": [], "beat_s": [], "take_up_s": []}
    sequence = 0
    try:
        for number in range(1, plans + 1):
            for kind, step in (("whole_s", 1), ("part_s", MOVED)):
                sequence += 1
                plan = PublishedPlan(PlanVersion(1, sequence), _answers(workloads, number, step))
                beat = Heartbeat(plan.version, float(sequence), {})
                took[kind].append(await _cpu_s(writer.publish(plan, beat)))
            took["take_up_s"].append(await _cpu_s(reader.load()))
            took["beat_s"].append(await _cpu_s(writer.beat(replace(beat, at_s=beat.at_s + 0.5))))
    finally:
        api.close()
    return took


def _answers(workloads: int, number: int, step: int) -> Answers:
    """Answers of which each differs from those of the number before; with a step, one in so many from those without."""
    return {
        key: Answer(1 + (number + index + (step > 1 and index % step == 0)) % 64, "", active=True, present=True)
        for index, key in enumerate(workload_ids(workloads))
    }


async def _cpu_s(call: Awaitable[Any]) -> float:
    before_s = time.process_time()
    await call
    return time.process_time() - before_s


if __name__ == "__main__":
    task: dict[str, Any] = told()
    say(asyncio.run(measure(str(task["url"]), int(task["workloads"]), int(task["plans"]))))
