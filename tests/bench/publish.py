"""What publishing a plan costs the controller: CPU time from the decision to the file in place.

A process of the bench. Each plan is left in a file of its own, for `take_up`.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from scaler.adapters.clock import SystemClock
from scaler.adapters.plan_store import FilePlanStore
from scaler.core.engine import step
from scaler.core.plan import Plan
from scaler.core.published import Heartbeat, PlanVersion, PublishedPlan, answers_of, stopped_evidence
from scaler.core.state import EngineState
from tests.bench.children import say, told
from tests.bench.fleet import DEFAULTS, Fleet, policy

TICK_S = 15.0


async def measure(folder: Path, workloads: int, plans: int) -> list[float]:
    """Publish plans of which each changes a part of the answers; return the CPU seconds of each."""
    fleet, settings, state = Fleet(workloads, 1), policy(workloads), EngineState.empty()
    now_s = SystemClock().now_s()
    took_s = []
    for number in range(1, plans + 1):
        result = step(state, fleet.advance(), settings, now_s + TICK_S * number)
        state, store = result.state, FilePlanStore(folder / f"{number}.json")
        before_s = time.process_time()
        await _publish(store, result.plan, PlanVersion(1, number), now_s)
        took_s.append(time.process_time() - before_s)
    return took_s


async def _publish(store: FilePlanStore, plan: Plan, version: PlanVersion, now_s: float) -> None:
    stopped = stopped_evidence(plan, DEFAULTS.stale_after_s)
    await store.publish(PublishedPlan(version, answers_of(plan)), Heartbeat(version, now_s, stopped))


if __name__ == "__main__":
    task: dict[str, Any] = told()
    say({"took_s": asyncio.run(measure(Path(task["folder"]), int(task["workloads"]), int(task["plans"])))})
