"""What the controller role is composed of: who is shown as the leader, and how often the past is asked for."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from scaler.adapters.clock import SystemClock
from scaler.adapters.history.backfill import Backfill
from scaler.compose import history
from scaler.compose.controller import _snapshot
from scaler.compose.outside import Cluster, Outside
from scaler.config.models import Policy
from scaler.runtime.control import Controller, TickReport
from scaler.runtime.loop import ControlLoop
from scaler.runtime.policy import FixedPolicy
from tests.plan_builders import plan, recommendation

PATIENCE_S = 10.0


@dataclass
class FlappingLeadership:
    """Leads and leads not, as the test says; where it `flaps`, that turns at every fourth question."""

    leading_now: bool = True
    flaps: bool = False
    asked: int = 0
    epoch: int = 3

    @property
    def leading(self) -> bool:
        """Say so, and perhaps turn."""
        self.asked += 1
        if self.flaps and not self.asked % 4:
            self.leading_now = not self.leading_now
        return self.leading_now


@dataclass
class Ticked:
    """A controller whose last tick led, and a loop of it."""

    last: TickReport
    completed: int = 1
    errors: int = 0
    skipped: int = 0


def test_who_lost_the_lead_is_not_shown_as_the_leader_though_no_tick_has_ended_since() -> None:
    """A tick that hangs or fails leaves the last report as it was, while another exports the same workloads."""
    it: Any = Ticked(TickReport(plan(recommendation()), None, leading=True, published=True, took_s=0.1))
    leadership = FlappingLeadership()
    controller, loop = cast("Controller", it), cast("ControlLoop", it)
    assert _snapshot(controller, loop, leadership).leading
    leadership.leading_now = False
    assert not _snapshot(controller, loop, leadership).leading


@dataclass
class CountedBackfill:
    """Counts its runs."""

    runs: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, *_: object) -> None:
        """Count."""
        self.runs += 1
        self.begun.set()


async def test_leadership_that_comes_and_goes_does_not_ask_for_the_past_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run begins with questions about every workload; they are put once in a while, whoever leads how often."""
    monkeypatch.setattr(history, "_LOOK_S", 0.0)
    leadership, backfill = FlappingLeadership(flaps=True), CountedBackfill()
    policies = FixedPolicy(Policy())
    outside = Outside(Cluster(cast("Any", None), policies), cast("Any", None), leadership)
    task = asyncio.create_task(history._keep_filled(cast("Backfill", backfill), outside, SystemClock()))
    try:
        await asyncio.wait_for(backfill.begun.wait(), PATIENCE_S)
        for _ in range(1000):
            await asyncio.sleep(0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert backfill.runs == 1
