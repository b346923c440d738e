"""What taking up a plan costs a scaler, and how long that keeps it from answering.

A process of the bench. It follows plans with the scaler's own follower while a task on the same event loop wakes every
millisecond: the longest that this had to wait is what a call would have had to.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import scaler.compose  # noqa: F401 - what the role has loaded weighs on its garbage collection
from scaler.adapters.clock import SystemClock
from scaler.adapters.keda.follow import PlanFollower
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.plan_store import FilePlanStore
from scaler.core.published import PlanVersion
from scaler.runtime.interpreter import answer_promptly
from tests.bench.children import MeasurementError, say, told

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
    await asyncio.sleep(2 * BEAT_S)
    try:
        yield pulse
        await asyncio.sleep(2 * BEAT_S)  # so that a stall at the very end is seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def measure(folder: Path, workloads: int, plans: int) -> dict[str, list[float]]:
    """Take up each plan that `publish` left, the first one as at a start; return seconds for each of the others."""
    current = folder / "current.json"
    holder = PlanHolder(SystemClock())
    follower = PlanFollower(FilePlanStore(current), holder)
    load_s, stall_s = [], []
    for number in range(1, plans + 1):
        (folder / f"{number}.json").replace(current)
        async with beating() as pulse:
            began_s = time.perf_counter()
            await follower.poll()
            load_s.append(time.perf_counter() - began_s)
        stall_s.append(pulse.longest_s)
        if holder.version != PlanVersion(1, number) or holder.workloads != workloads:
            raise MeasurementError(f"plan {number} was not taken up: the scaler holds {holder.version}")
        if number == 1:
            answer_promptly()  # as the role does once it holds a plan
    return {"load_s": load_s[1:], "stall_s": stall_s[1:]}


if __name__ == "__main__":
    task: dict[str, Any] = told()
    say(asyncio.run(measure(Path(task["folder"]), int(task["workloads"]), int(task["plans"]))))
