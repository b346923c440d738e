"""The controller beside the scaler: the real ticks, decisions and publications, over a fleet that is made up.

A process of the bench. Collecting metrics is left out (it has its own figure); deciding over every workload, comparing
answers and writing the plan are Headway's own code. It says when the first plan is out, and its account at its end.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaler.adapters.clock import SystemClock
from scaler.adapters.plan_store import FilePlanStore
from scaler.adapters.state_store import MemoryStateStore
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import Observation
from scaler.core.published import Answer, Heartbeat, PublishedPlan
from scaler.core.values import WorkloadId
from scaler.runtime.control import Controller, Ports
from scaler.runtime.leadership import SoleLeadership
from scaler.runtime.policy import FixedPolicy
from scaler.runtime.processes import stop_on_signals
from tests.bench.children import say, told
from tests.bench.fleet import Fleet, policy, workload_ids


class FleetObserver:
    """Observes the made-up fleet."""

    problems: tuple[str, ...] = ()

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
        """Return the fleet as it is at this tick."""
        return self._fleet.advance()


class PulsingStore(FilePlanStore):
    """A file plan store in which some workloads at zero replicas become wanted in every second plan.

    So there is something to push on their streams. When a plan is in place, the time is noted.
    """

    def __init__(self, path: Path, pulsing: list[WorkloadId], clock: SystemClock) -> None:
        super().__init__(path)
        self._pulsing = pulsing
        self._clock = clock
        self._before: Mapping[WorkloadId, Answer] = {}
        self.wanted = False
        self.pulses_s: list[float] = []  # when a plan that wants them was in place
        self.changed: list[float] = []  # the share of the answers that each plan changed

    async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Publish the plan with the pulse in it."""
        self.wanted = not self.wanted
        pulse = Answer(int(self.wanted), "pulse", active=self.wanted, present=False)
        answers = {**plan.answers, **dict.fromkeys(self._pulsing, pulse)}
        await super().publish(replace(plan, answers=answers), heartbeat)
        if self.wanted:
            self.pulses_s.append(self._clock.monotonic_s())
        self.changed.append(sum(self._before.get(key) != answer for key, answer in answers.items()) / len(answers))
        self._before = answers


async def control(task: Mapping[str, Any]) -> None:
    """Tick until told to stop."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    clock, count = SystemClock(), int(task["workloads"])
    store = PulsingStore(Path(task["plan"]), workload_ids(count)[: int(task["pulsing"])], clock)
    observer = FleetObserver(Fleet(count, int(task["replicas"])))
    # With a hold no longer than a tick the targets follow the load, and every plan differs from the one before.
    policies = FixedPolicy(policy(count, DecisionSettings(hold_s=float(task["tick_s"]))))
    controller = Controller(Ports(policies, observer, store, MemoryStateStore(), SoleLeadership(), clock))
    took_s: list[float] = []
    due_s = clock.monotonic_s()
    while not stop.is_set():
        report = await controller.tick()
        took_s.append(report.took_s)
        if len(took_s) == 1:
            say({"ready": True})
        due_s += float(task["tick_s"])
        await _wait(stop, due_s - clock.monotonic_s())
    say({"took_s": took_s, "pulses_s": store.pulses_s, "changed": store.changed[1:]})


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        pass


if __name__ == "__main__":
    asyncio.run(control(told()))
