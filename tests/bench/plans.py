"""What a plan costs: CPU time to publish it, time to take it up, and how long that keeps a scaler from answering.

A process of the bench. It follows the plan with the scaler's own follower while a task on the same event loop wakes
every millisecond; the longest it had to wait is what a call would have had to.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from scaler.adapters.clock import SystemClock
from scaler.adapters.keda.follow import PlanFollower
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.plan_store import FilePlanStore
from scaler.core.engine import step
from scaler.core.plan import Plan
from scaler.core.published import Heartbeat, PlanVersion, PublishedPlan, answers_of, stopped_evidence
from scaler.core.state import EngineState
from tests.bench.children import MeasurementError, say, told
from tests.bench.fleet import Fleet, policy

BEAT_S: Final = 0.001


class Pulse:
    """A task that wants to run every millisecond, and notes the longest time for which it could not."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def beat(self) -> None:
        """Beat until cancelled."""
        before_s = time.perf_counter()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.perf_counter()
            self.longest_s = max(self.longest_s, now_s - before_s - BEAT_S)
            before_s = now_s


@asynccontextmanager
async def beating() -> AsyncIterator[Pulse]:
    """Let a pulse beat for the length of the context."""
    pulse = Pulse()
    task = asyncio.create_task(pulse.beat())
    await asyncio.sleep(BEAT_S)
    try:
        yield pulse
        await asyncio.sleep(BEAT_S)  # so that a stall at the very end is seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def measure(path: Path, workloads: int, repeats: int) -> dict[str, Any]:
    """Publish and take up plans of which a part of the answers has changed."""
    fleet, settings, clock = Fleet(workloads, 1), policy(workloads), SystemClock()
    store, holder = FilePlanStore(path), PlanHolder(SystemClock())
    follower = PlanFollower(FilePlanStore(path), holder)
    state = EngineState.empty()
    publish_cpu_s, load_s, stall_s = [], [], []
    for number in range(1, repeats + 2):
        result = step(state, fleet.advance(), settings, clock.now_s() + 15 * number)
        state = result.state
        before_s = time.process_time()
        await _publish(store, result.plan, number, clock.now_s())
        publish_cpu_s.append(time.process_time() - before_s)
        async with beating() as pulse:
            began_s = time.perf_counter()
            await follower.poll()
            load_s.append(time.perf_counter() - began_s)
        stall_s.append(pulse.longest_s)
        if holder.version != PlanVersion(1, number) or holder.workloads != workloads:
            raise MeasurementError(f"the scaler holds {holder.version} with {holder.workloads} workloads")
    return {"publish_cpu_s": publish_cpu_s[1:], "load_s": load_s[1:], "stall_s": stall_s[1:]}


async def _publish(store: FilePlanStore, plan: Plan, number: int, now_s: float) -> None:
    version = PlanVersion(1, number)
    published = PublishedPlan(version, answers_of(plan))
    await store.publish(published, Heartbeat(version, now_s, stopped_evidence(plan, 90.0)))


if __name__ == "__main__":
    task = told()
    plan = Path(task["plan"])
    seen = asyncio.run(measure(plan, int(task["workloads"]), int(task["repeats"])))
    say(seen | {"size_mb": plan.stat().st_size / 1e6})
